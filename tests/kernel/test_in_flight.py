"""Calls that have not returned: visible while they hang, and left behind by those that die."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.kernel.compiler import CLIENTS, build_client, compile_c
from tests.kernel.conftest import Cgroup, record
from tests.kernel.script import Script, warm
from tests.kernel.test_overload import MIDDLE_RING, fate

HANGS = """
context, module = start()
kernel = out("cuModuleGetFunction", module, b"endless")
stream = out("cuStreamCreate", 1)
launch(kernel, stream)
say(stream=stream, tid=threading.get_native_id())
call("cuStreamSynchronize", stream)
"""


def test_a_call_under_way_is_visible_while_it_hangs(cgroup: Cgroup, store: Path) -> None:
    with record(store) as recording:
        warm(recording, cgroup)
        script = Script(cgroup, HANGS, COTENANT_SIM_KERNEL_NS="endless=3600000000000")
        said = script.heard()
        rows = recording.wait_for(
            f"select f.*, c.cgroup_path from in_flight f join containers c using (cgroup_id) "
            f"where pid = {script.pid} and function = 'cuStreamSynchronize'"
        )
        assert {(r["tid"], r["stream"], r["cgroup_path"]) for r in rows} == {
            (said["tid"], said["stream"], f"/{cgroup.name}")
        }
        assert len({r["began_ns"] for r in rows}) == 1
        assert all(r["began_ns"] < r["timestamp_ns"] for r in rows)
        os.kill(script.pid, signal.SIGKILL)
        script.end(-signal.SIGKILL)


def test_a_thread_that_ends_inside_a_call_leaves_a_row_without_result(
    cgroup: Cgroup, store: Path
) -> None:
    with record(store) as recording:
        warm(recording, cgroup)
        script = Script(cgroup, HANGS, COTENANT_SIM_KERNEL_NS="endless=3600000000000")
        said = script.heard()
        recording.wait_for(f"select 1 from in_flight where pid = {script.pid}")
        os.kill(script.pid, signal.SIGKILL)
        script.end(-signal.SIGKILL)
    rows = recording.sql(
        "select op, api, stream, result, duration_ns from cuda_events "
        f"where pid = {script.pid} and op = 'sync'"
    )
    assert rows == [
        {
            "op": "sync",
            "api": "cuStreamSynchronize",
            "stream": said["stream"],
            "result": None,
            "duration_ns": None,
        }
    ]
    losses = recording.sql("select sum(seen - stored - shed - lost) as missing from losses")
    assert losses == [{"missing": 0}]


def leaver(place: Path) -> tuple[Path, Path]:
    """A program that leaves calls by other ways than a return, and the library that it calls."""
    source, flags = CLIENTS / "leaver.c", ("-shared", "-fPIC", "-fno-omit-frame-pointer")
    library = compile_c(place / "libcuda.so.1", source, "-DLIBRARY", *flags)
    return build_client(place / "leaver", "leaver"), library


def test_calls_that_are_left_without_a_return_are_rows_and_totals(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    client, library = leaver(tmp_path)
    jumps, threads, again = 23, 11, 7
    with record(store) as recording:
        process = cgroup.popen([client, library, jumps, threads, again], stdin=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == "mapped\n"
        recording.wait_probed(library)
        process.communicate("\n", timeout=60)
        assert process.returncode == 0
    mine = f"join containers using (cgroup_id) where cgroup_path = '/{cgroup.name}'"
    rows = recording.sql(
        f"select result, duration_ns is null as open, count(*) as n from cuda_events {mine} "
        "and op = 'sync' group by all order by result"
    )
    left = jumps + threads + 1
    assert [tuple(row.values()) for row in rows] == [(0, False, again), (None, True, left)]
    totals = recording.sql(
        "select function, sum(count)::bigint as n, sum(unmeasured)::bigint as unmeasured "
        f"from totals {mine} and family = 'cuda' group by function"
    )
    assert totals == [{"function": "cuStreamSynchronize", "n": left + again, "unmeasured": left}]
    assert recording.sql(f"select sum(queued)::bigint as n from losses {mine}") == [{"n": 0}]


def test_threads_that_die_inside_calls_leave_a_neighbour_its_part_of_the_ring(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    storm, calm = cgroups(), cgroups()
    client, library = leaver(tmp_path)
    threads, again = 4001, 101
    with record(store, *MIDDLE_RING, "--budget", "off") as recording:
        dying = storm.popen([client, library, 1, threads, 0], stdin=subprocess.PIPE)
        assert dying.stdout is not None
        assert dying.stdout.readline() == "mapped\n"
        recording.wait_probed(library)
        # Nobody empties the ring meanwhile.
        recording.process.send_signal(signal.SIGSTOP)
        dying.communicate("\n", timeout=60)
        calm.popen([client, library, 0, 0, again]).communicate(timeout=60)
        recording.process.send_signal(signal.SIGCONT)
        recording.wait_for(f"select 1 from cuda_events having count(*) > {again}")
        last = storm.popen([client, library, 1, threads, 0], stdin=subprocess.PIPE)
        last.communicate("\n", timeout=60)
    assert fate(recording, calm) == {
        "seen": again, "stored": again, "shed": 0, "lost": 0, "queued": 0,
    }  # fmt: skip
    found = fate(recording, storm)
    assert (found["seen"], found["lost"], found["queued"]) == (2 * (1 + threads + 1), 0, 0)
    assert found["shed"] > 0
    (rows,) = recording.sql(
        "select count(*)::bigint as n, sum(weight)::bigint as weight from cuda_events "
        f"join containers using (cgroup_id) where cgroup_path = '/{storm.name}'"
    )
    # Those who come later stand for those who were left out, of each CPU.
    assert rows["n"] == found["stored"] < rows["weight"] <= found["seen"]
