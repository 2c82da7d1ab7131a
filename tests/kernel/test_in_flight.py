"""Calls that have not returned: visible while they hang, and left behind by those that die."""

import os
import signal
import subprocess
from pathlib import Path

from tests.kernel.compiler import CLIENTS, build_client, compile_c
from tests.kernel.conftest import Cgroup, record
from tests.kernel.script import Script, warm

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


def test_calls_that_are_left_without_a_return_are_rows_and_totals(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    source, flags = CLIENTS / "leaver.c", ("-shared", "-fPIC", "-fno-omit-frame-pointer")
    library = compile_c(tmp_path / "libcuda.so.1", source, "-DLIBRARY", *flags)
    client = build_client(tmp_path / "leaver", "leaver")
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
