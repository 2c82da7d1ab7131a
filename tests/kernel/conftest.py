"""Tests on the running kernel: real probes, real cgroups, the stand-in GPU.

Expected values come from what the clients themselves logged, never from our own tables.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cotenant.probes.attach import Method
from cotenant.probes.features import attempt
from cotenant.schema.holes import NOT_SAMPLED
from tests.kernel.objects import held, listed, program_ids
from tests.lacking import lacking

ROOT = Path(__file__).parents[2]
SIM = ROOT / "sim" / "build"
OURS = ("cuda_", "nccl_", "names_", "host_", "io_", "net_", "tcp_")
COTENANT = [sys.executable, "-m", "cotenant"]
# Everything that this run starts carries its mark, so that another recorder's probes are not ours.
RUN = "COTENANT_TEST_RUN"
os.environ[RUN] = uuid4().hex
# A job in the background ignores Ctrl-C, and so would all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _why_not() -> str | None:
    if os.geteuid() != 0:
        return "needs root"
    if not Path("/sys/kernel/btf/vmlinux").exists():
        return "needs a kernel with BTF"
    return None


@pytest.fixture(autouse=True, scope="session")
def running_kernel() -> None:
    """Skip with the reason; fail instead where a kernel was promised."""
    if reason := _why_not():
        lacking("kernel", reason)


# How much longer than here everything may take: an emulated CPU is slow.
PATIENCE = float(os.environ.get("COTENANT_PATIENCE", "1"))


def need(method: str) -> None:
    """Skip where this kernel cannot attach so."""
    if reason := attempt(Method(method)).reason:
        pytest.skip(f"no {method} here: {reason}")


@dataclass(frozen=True)
class Cgroup:
    """A cgroup v2 group that a test made."""

    path: Path

    @property
    def id(self) -> int:
        """The kernel's id of it."""
        return self.path.stat().st_ino

    @property
    def name(self) -> str:
        return self.path.name

    def enter(self) -> None:
        """Move the calling process in: for ``preexec_fn``."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def popen(self, command: list[Any], **options: Any) -> "subprocess.Popen[str]":
        """A command that starts inside."""
        return subprocess.Popen(
            [str(word) for word in command],
            preexec_fn=self.enter,
            text=True,
            stdout=subprocess.PIPE,
            **options,
        )


def cgroup_root() -> Path:
    """Where cgroup v2 is mounted."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return Path(next(m[1] for m in mounts if m[2] == "cgroup2"))


@contextmanager
def new_cgroup() -> Iterator[Cgroup]:
    """A fresh group; whatever is still inside at the end is killed with it."""
    group = Cgroup(Path(tempfile.mkdtemp(prefix="cotenant-test-", dir=cgroup_root())))
    try:
        yield group
    finally:
        (group.path / "cgroup.kill").write_text("1")
        for _ in range(200):
            try:
                group.path.rmdir()
                break
            except OSError:
                time.sleep(0.02)


@pytest.fixture
def cgroups() -> Iterator[Callable[[], Cgroup]]:
    """Makes fresh cgroups, gone after the test."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda: stack.enter_context(new_cgroup())


@pytest.fixture
def cgroup(cgroups: Callable[[], Cgroup]) -> Cgroup:
    """One fresh cgroup."""
    return cgroups()


def probed(library: object) -> str:
    """What has an answer once a library is probed."""
    return f"select 1 from sessions where libraries like '%{library}%'"


@dataclass
class Recording:
    """A `cotenant record` that a test started."""

    store: Path
    process: "subprocess.Popen[str]"
    errors: Path
    stopped: bool = field(default=False)

    def helper(self) -> int:
        """The process id of its privileged child."""
        pid = self.process.pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if b"cotenant.agent.helper.main" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
        raise AssertionError("no helper")

    def stop(self, timeout: float = 60) -> None:
        """Ask it to end as a user would, and expect it to end well."""
        if self.stopped:
            return
        self.stopped = True
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout * PATIENCE)
        errors = self.errors.read_text()
        assert code == 0, errors
        assert NOT_SAMPLED.name not in errors

    def sql(self, query: str) -> list[dict[str, Any]]:
        """What the store answers, through the command that users have."""
        return ask(self.store, query)

    def wait_for(self, query: str, seconds: float = 20) -> list[dict[str, Any]]:
        """Ask until there is an answer with rows."""
        deadline = time.monotonic() + seconds * PATIENCE
        while not (rows := self.sql(query)):
            if time.monotonic() > deadline:
                raise AssertionError(f"no rows: {query}\n{self.sql('select notes from sessions')}")
            time.sleep(0.1)
        return rows

    def wait_told(self, query: str) -> None:
        """The same for what the agent says of its own work, and until that work is done."""
        self.wait_for(query)
        # What is told first, such as one library of several, is not always the last to be ready.
        time.sleep(0.5)

    def wait_probed(self, *libraries: object) -> None:
        """Until each of these is told to be probed, and others beside them are."""
        *first, last = map(probed, libraries)
        for query in first:
            self.wait_for(query)
        self.wait_told(last)


# One process for all commands that only read: to start one takes longer than most answers.
_COMMANDS = """
import contextlib, io, json, sys
from cotenant.views.cli import main
for line in sys.stdin:
    said, complaints = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complaints):
        code = main(json.loads(line))
    print(json.dumps([code, said.getvalue(), complaints.getvalue()]), flush=True)
"""


@cache
def _commands() -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", _COMMANDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)  # With nothing more to read it ends, and cleans up.
    return process


def command(*words: object) -> tuple[int, str, str]:
    """The exit code of a command that reads, what it prints, and what it says on stderr."""
    process = _commands()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([str(word) for word in words]) + "\n")
    process.stdin.flush()
    try:
        line = process.stdout.readline()
    except BaseException:
        # Its answer would be taken for that of the next command.
        process.kill()
        _commands.cache_clear()
        raise
    code, said, complaints = json.loads(line)
    return code, said, complaints


def ask(store: Path, query: str) -> list[dict[str, Any]]:
    """What a store answers to ``cotenant sql``."""
    code, said, complaints = command("sql", "--store", store, "--format", "json", query)
    assert code == 0, complaints
    return json.loads(said)


@contextmanager
def record(
    store: Path,
    *options: str,
    timeout: float = 60,
    inside: Cgroup | None = None,
    cotenant: Sequence[str] = COTENANT,
) -> Iterator[Recording]:
    """Record in the background from when every probe is attached until the end of the block."""
    errors = store.with_name(store.name + ".stderr")
    with errors.open("w") as stream:
        process = subprocess.Popen(
            [*cotenant, "record", "--store", str(store), *options],
            stderr=stream,
            text=True,
            preexec_fn=inside.enter if inside else None,
        )
    recording = Recording(store, process, errors)
    try:
        deadline = time.monotonic() + timeout * PATIENCE
        while not errors.read_text().startswith("recording"):
            assert process.poll() is None, errors.read_text()
            assert time.monotonic() < deadline, "not recording in time"
            time.sleep(0.02)
        yield recording
        recording.stop()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where a test's recording goes."""
    return tmp_path / "store"


# How functions of real drivers begin; see sim/README.md.
_OTHERS = ("plain", "framed", "checked")
DRIVERS = {"tabled": str(SIM)} | {name: f"{SIM / name}:{SIM}" for name in _OTHERS}


def sim_environment(log: Path | None = None, driver: str = "tabled", **more: str) -> dict[str, str]:
    """The environment of a client of the stand-in GPU."""
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": DRIVERS[driver],
        "COTENANT_SIM_DEVICE": f"cotenant-test-{os.getpid()}",
        **more,
    }
    if log is not None:
        environment["COTENANT_SIM_LOG"] = str(log)
    return environment


def truth(log: Path) -> list[dict[str, Any]]:
    """What a client of the stand-in GPU says it did."""
    return [json.loads(line) for line in log.read_text().splitlines()]


# Programs whose perf events the kernel removes one by one, for most of a minute.
_leaving: set[int] = set()


@pytest.fixture(autouse=True)
def no_probe_left(request: pytest.FixtureRequest, running_kernel: None) -> Iterator[None]:
    """Every test leaves the kernel as it found it."""
    before = program_ids()
    yield
    slow = request.node.get_closest_marker("leaves_slowly") is not None
    left = gone_within(before, 1 if slow else 120)
    if slow:
        _leaving.update(left)
    else:
        assert left == set()


@pytest.fixture(autouse=True, scope="session")
def nothing_left_at_last(running_kernel: None) -> Iterator[None]:
    """What may leave slowly has left in the end."""
    yield
    deadline = time.monotonic() + 120
    while _leaving & bpf_programs() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert _leaving & bpf_programs() == set()


def gone_within(before: set[int], seconds: float) -> set[int]:
    """Programs of ours that came since ``before`` and do not go in time."""
    deadline = time.monotonic() + seconds
    # To find out whose they are takes long, and most tests leave none at all.
    while new := program_ids() - before - _leaving:
        if not (left := new & bpf_programs()) or time.monotonic() >= deadline:
            return left
        time.sleep(0.05)
    return set()


def bpf_programs() -> set[int]:
    """Programs in the kernel that are ours by name and that no other run's process holds."""
    return _programs() - _held_by_others()


def another_records() -> bool:
    """Whether a recorder of another run probes what we do, as it knows how."""
    return bool(_programs() & _held_by_others())


def _programs() -> set[int]:
    return {each["id"] for each in listed("prog") if each.get("name", "").startswith(OURS)}


def _held_by_others() -> set[int]:
    """Programs that a process has open that this run did not start."""
    mark = f"{RUN}={os.environ[RUN]}".encode()
    others = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark not in (process / "environ").read_bytes().split(b"\0"):
                others.append(int(process.name))
    return {number for kind, number in held(others) if kind == "prog"}


# The interpreter itself may lie where only root can go: what is needed is imported first.
_AS_NOBODY = """
import os, sys
import duckdb, numpy, pyarrow, pyarrow.parquet, pyarrow.compute
import cotenant.query.engine.session, cotenant.views.cli.sql, cotenant.views.cli.record
import cotenant.agent.recorder.main, cotenant.agent.doctor, cotenant.views.cli.doctor
import cotenant.views.text, cotenant.views.window
from cotenant.views.cli import main
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.exit(main(sys.argv[1:]))
"""


def as_nobody(*words: str) -> "subprocess.CompletedProcess[str]":
    """A command of ours, run by a user with no rights and the group ``nogroup``."""
    return subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
