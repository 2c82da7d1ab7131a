"""A recording as its user meets it: beside running tenants, queried meanwhile, killed, refused."""

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.conftest import (
    COTENANT,
    SIM,
    Cgroup,
    as_nobody,
    bpf_programs,
    record,
    sim_environment,
    truth,
)
from tests.kernel.script import Script

STEPS = 307
PAUSE = 101  # Steps of a tenant that runs before the recording does.
OPERATIONS = ("launch", "memcpy", "memset", "alloc", "free", "sync")


def key(call: dict[str, Any]) -> tuple[Any, ...]:
    """What a client's log and a row have in common."""
    grid, block = call.get("grid", (None,) * 3), call.get("block", (None,) * 3)
    bytes_ = call.get("bytes") if call["op"] != "free" else None
    return (call["op"], call["api_seen"], bytes_, *grid, *block, call.get("shared_bytes"))


def expected(calls: list[dict[str, Any]], since_ns: int = 0) -> Counter[tuple[Any, ...]]:
    """Operations of a log that began after a moment, as rows should show them."""
    found: Counter[tuple[Any, ...]] = Counter()
    for call in calls:
        if call["op"] in OPERATIONS and call["t_begin"] >= since_ns:
            found[key({**call, "api_seen": call.get("outer") or call["api"]})] += 1
    return found


def recorded(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """The same of rows."""
    return Counter(
        key(
            {
                **row,
                "api_seen": row["api"],
                "grid": (row["grid_x"], row["grid_y"], row["grid_z"]),
                "block": (row["block_x"], row["block_y"], row["block_z"]),
            }
        )
        for row in rows
    )


def wait_for(path: Path) -> None:
    """Until another process has made a file."""
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not come"
        time.sleep(0.01)


def test_two_tenants_at_once_are_told_apart_even_if_one_ran_before(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    early, late = cgroups(), cgroups()
    ready, resume = tmp_path / "ready", tmp_path / "resume"
    logs = {cgroup.name: tmp_path / cgroup.name for cgroup in (early, late)}
    running = early.popen(
        [SIM / "workload", "--api", "driver", "--steps", STEPS, "--seed", 3, "--threads", 1,
         "--pause-after", PAUSE, "--resume-on", resume, "--ready", ready],
        env=sim_environment(logs[early.name]),
    )  # fmt: skip
    wait_for(ready)
    with record(store) as recording:
        since_ns = time.monotonic_ns()
        other = late.popen(
            [SIM / "workload", "--api", "runtime13", "--steps", STEPS, "--seed", 5],
            env=sim_environment(logs[late.name]),
        )
        resume.touch()
        for process in (running, other):
            process.communicate(timeout=60)
            assert process.returncode == 0
    for cgroup in (early, late):
        rows = recording.sql(
            "select e.* from cuda_events e join containers c using (cgroup_id) "
            f"where c.cgroup_path = '/{cgroup.name}' and op in {OPERATIONS}"
        )
        wanted = expected(truth(logs[cgroup.name]), since_ns if cgroup is early else 0)
        assert sum(wanted.values()) > 100
        assert recorded(rows) == wanted
        assert {row["weight"] for row in rows} == {1}
        totals = recording.sql(
            "select function, sum(count)::bigint as calls from totals t join containers c "
            f"using (cgroup_id) where c.cgroup_path = '/{cgroup.name}' group by function"
        )
        assert_totals(totals, truth(logs[cgroup.name]), since_ns if cgroup is early else 0)
    losses = recording.sql("select sum(seen) - sum(stored) as gone, sum(queued) as q from losses")
    assert losses == [{"gone": 0, "q": 0}]


def assert_totals(totals: list[dict[str, Any]], calls: list[dict[str, Any]], since_ns: int) -> None:
    """Totals count each function's calls, whatever became rows."""
    made = Counter(
        call["api"] for call in calls if call["op"] in OPERATIONS and call["t_begin"] >= since_ns
    )
    counted = {row["function"]: row["calls"] for row in totals}
    assert {api: counted.get(api) for api in made} == dict(made)


def test_a_running_recording_answers_whoever_may_read_it(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    for directory in (store.parent, *store.parent.parents):
        if directory.stat().st_uid == 0 and directory != Path("/"):
            directory.chmod(directory.stat().st_mode | 0o011)
    with record(store, "--group", "nogroup") as recording:
        client = cgroup.popen(
            [SIM / "workload", "launch", "--steps", "23"], env=sim_environment(tmp_path / "log")
        )
        client.communicate(timeout=60)
        recording.wait_for(
            f"select 1 from cuda_events where pid = {client.pid} having count(*) > 22"
        )
        question = (
            f"select count(*) as n from cuda_events where op = 'launch' and pid = {client.pid}"
        )
        answer = as_nobody("sql", "--store", str(store), "--format", "json", question)
        assert answer.returncode == 0, answer.stderr
        assert json.loads(answer.stdout) == [{"n": 23}]


def test_a_killed_recorder_leaves_no_probe_and_a_store_that_opens(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    before = bpf_programs()
    with record(store) as recording:
        client = cgroup.popen(
            [SIM / "workload", "launch", "--steps", "1009", "--rate", "500"],
            env=sim_environment(tmp_path / "log"),
        )
        recording.wait_for("select 1 from cuda_events limit 1")
        assert bpf_programs() - before
        recording.process.send_signal(signal.SIGKILL)
        recording.process.wait()
        recording.stopped = True
        client.communicate(timeout=60)
        assert client.returncode == 0
    deadline = time.monotonic() + 20
    while bpf_programs() - before:
        assert time.monotonic() < deadline, "probes are left"
        time.sleep(0.05)
    (row,) = recording.sql("select count(*) as n from cuda_events")
    assert 0 < row["n"] <= 2000


JUMP = r"""
#include <setjmp.h>
#include <stddef.h>
static jmp_buf back;
/* A library whose wait is left by longjmp, as an error handler might do. */
__attribute__((noinline)) int cuLaunchKernel(void *f) { return 0; }
__attribute__((noinline)) int cuStreamSynchronize(void *s)
{
	__asm__ volatile("" ::: "memory");
	if (s)
		longjmp(back, 1);
	return 0;
}
int run(int times)
{
	for (volatile int i = 0; i < times; i++) {
		if (!setjmp(back))
			cuStreamSynchronize((void *)1);
		cuLaunchKernel(NULL);
		cuStreamSynchronize(NULL);
	}
	return 0;
}
"""


def test_a_call_left_by_longjmp_does_not_hide_later_ones(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "jump.c").write_text(JUMP)
    library = tmp_path / "libcuda.so.1"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O0", "-fcf-protection=none",
         "-o", library, tmp_path / "jump.c"],
        check=True,
    )  # fmt: skip
    times = 101
    script = (
        f"import ctypes, sys; library = ctypes.CDLL('{library}'); "
        f"sys.stdin.readline(); library.run({times})"
    )
    with record(store) as recording:
        client = cgroup.popen(["/usr/bin/python3", "-c", script], stdin=subprocess.PIPE)
        wait_until_attached(recording, library)
        client.communicate("go\n", timeout=30)
    rows = recording.sql(
        f"select op, count(*) as n from cuda_events where pid = {client.pid} "
        "group by op order by op"
    )
    assert rows == [{"op": "launch", "n": times}, {"op": "sync", "n": times}]
    (notes,) = recording.sql("select notes from sessions")
    assert json.loads(notes["notes"])["stale_frame"] == times


def wait_until_attached(recording: Any, library: Path) -> None:
    """Until the recording says that it has probed a file."""
    recording.wait_probed(library)


def refused(*command: str, **options: Any) -> tuple[int, str]:
    """Exit code and the one line of a command that must fail."""
    done = subprocess.run(
        [*COTENANT, *command], capture_output=True, text=True, check=False, timeout=60, **options
    )
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_without_root_it_says_so(tmp_path: Path) -> None:
    done = as_nobody("record", "--store", str(tmp_path / "store"))
    assert done.returncode == 3
    assert done.stderr.startswith("cotenant: recording needs root")
    assert len(done.stderr.splitlines()) == 1


def test_without_kernel_types_it_says_so(tmp_path: Path) -> None:
    hidden = subprocess.run(
        ["unshare", "--mount", "sh", "-c",
         'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh",
         *COTENANT, "record", "--for", "1s", "--store", str(tmp_path / "s")],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert hidden.returncode == 3, hidden.stderr
    assert "BTF" in hidden.stderr
    assert len(hidden.stderr.strip().splitlines()) == 1, hidden.stderr


def test_a_directory_that_is_no_store_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    code, said = refused("record", "--for", "1s", "--store", str(tmp_path))
    assert (code, "store" in said) == (1, True)
    assert [p.name for p in tmp_path.iterdir()] == ["precious.txt"]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Any:
    """A file system with no room."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)], check=True)
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_is_said_in_one_line(tiny_disk: Path) -> None:
    (tiny_disk / "fill").write_bytes(b"x" * 60_000)
    code, said = refused("record", "--for", "3s", "--store", str(tiny_disk / "store"))
    assert (code, str(tiny_disk) in said) == (1, True)


def test_a_read_only_store_is_said_in_one_line(tiny_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    code, said = refused("record", "--for", "1s", "--store", str(tiny_disk / "store"))
    assert (code, str(tiny_disk) in said) == (1, True)


def test_wrong_words_are_wrong_usage() -> None:
    code, said = refused("record", "--for", "soon")
    assert (code, "90s" in said) == (2, True)
    done = subprocess.run([*COTENANT, "rekord"], capture_output=True, text=True, check=False)
    assert done.returncode == 2


def test_the_summary_names_each_tenant(cgroup: Cgroup, store: Path, tmp_path: Path) -> None:
    # What is mapped already is probed before anybody is told that it is recording.
    holder = Script(cgroup, "say(ready=1)\nwait()\n")
    holder.heard()
    process = subprocess.Popen(
        [*COTENANT, "record", "--store", str(store)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline().startswith("recording")
    client = cgroup.popen(
        [SIM / "workload", "launch", "--steps", "23"], env=sim_environment(tmp_path / "log")
    )
    client.communicate(timeout=60)
    os.kill(process.pid, signal.SIGTERM)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    holder.go_on()
    holder.end()
    lines = out.splitlines()
    assert lines[0].split() == [
        "tenant",
        "container",
        "launches",
        "copied",
        "waited",
        "nccl",
        "most",
        "launched",
    ]
    (line,) = [line for line in lines[2:] if line.split()[1:3] == [f"/{cgroup.name}"[:12], "23"]]
    assert line.startswith(f"/{cgroup.name}"[:12])


MAP = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
print("mapped", flush=True)
sys.stdin.readline()
"""


def test_a_library_that_was_seen_half_written_is_probed_when_it_is_whole(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    whole = (SIM / "libcuda.so.1").resolve().read_bytes()
    library = tmp_path / "libcuda.so.1"
    library.write_bytes(whole[: len(whole) // 2])
    with record(store) as recording:
        early = cgroup.popen(["/usr/bin/python3", "-c", MAP, library], stdin=subprocess.PIPE)
        assert early.stdout is not None
        assert early.stdout.readline() == "mapped\n"
        time.sleep(0.5)  # Looked at, and turned away.
        with library.open("r+b") as file:
            file.write(whole)
        early.communicate("done\n", timeout=30)
        environment = sim_environment(tmp_path / "log", LD_LIBRARY_PATH=str(tmp_path))
        client = cgroup.popen([SIM / "workload", "launch", "--steps", "23"], env=environment)
        client.communicate(timeout=60)
        assert client.returncode == 0
    rows = recording.sql(
        f"select count(*) as n from cuda_events where op = 'launch' and pid = {client.pid}"
    )
    assert rows == [{"n": 23}]


def test_a_group_that_does_not_exist_is_refused(store: Path) -> None:
    done = subprocess.run(
        [*COTENANT, "record", "--store", str(store), "--group", "no-such-group"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, store.exists()) == (2, False)
    assert done.stderr == (
        "cotenant: --group no-such-group: no such group; create it, or name another\n"
    )
