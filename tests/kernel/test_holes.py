"""What went unseen is told: whose it was, from when to when, and below each answer it touches."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cotenant.probes.function import Library
from cotenant.probes.tables import FUNCTIONS
from tests.kernel.conftest import SIM, Cgroup, Recording, command, record
from tests.kernel.script import Script, warm
from tests.kernel.told import compare
from tests.unit.probes.test_entries import build_trampolines

# Launches until it is told to stop, through a driver that nobody has mapped before.
EARLY = """
context, module = start()
kernel = out("cuModuleGetFunction", module, b"early")
launch(kernel, times=101)
say(early=101)
while not os.path.exists({enough!r}):
    launch(kernel)
"""
BRIEF = """
context, module = start()
launch(out("cuModuleGetFunction", module, b"brief"), times=23)
"""
QUIET = """
context, module = start()
launch(out("cuModuleGetFunction", module, b"quiet"), times=211)
say(done=1)
wait()
"""


def own_driver(place: Path, name: str) -> dict[str, str]:
    """A driver in a file of its own, of this name."""
    place.mkdir()
    shutil.copy(SIM / "libcuda.so.1", place / name)
    if name != "libcuda.so.1":
        (place / "libcuda.so.1").symlink_to(name)
    return {"LD_LIBRARY_PATH": str(place)}


@contextmanager
def helper_held_up(recording: Recording) -> Iterator[None]:
    """The helper gets no CPU meanwhile, as on a busy host."""
    os.kill(recording.helper(), signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(recording.helper(), signal.SIGCONT)


def lacks(recording: Recording, cgroup: Cgroup, what: str = "cuda_events") -> list[str]:
    """Why an answer about a tenant is not complete; nothing if it says that it is."""
    code, said, complaints = command(
        "sql", "--store", recording.store, f"select count(*) from {what}",
        "--tenant", f"/{cgroup.name}",
    )  # fmt: skip
    assert code == 0, complaints
    told = [line.rpartition("(")[2].removesuffix(")") for line in complaints.splitlines()]
    assert bool(told) != said.splitlines()[-1].endswith("complete)")
    return sorted(told)


def holes(recording: Recording, reason: str, tenant: str) -> list[dict[str, int]]:
    """A tenant's holes of one kind, in the order of time."""
    return recording.wait_for(
        "select from_ns, to_ns from losses join containers using (cgroup_id) "
        f"where tenant = '{tenant}' and reason = '{reason}' order by from_ns"
    )


def test_what_went_unseen_is_told_to_those_it_touches_and_to_nobody_else(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    late, other, partly, brief = (cgroups() for _ in range(4))
    late = [late, cgroups()]
    enough, logs = tmp_path / "enough", [tmp_path / "first.log", tmp_path / "second.log"]
    # Under a name that nobody looks for before it is mapped.
    driver = own_driver(tmp_path / "place", "engine.bin")
    with record(store, "--budget", "off") as recording:
        warm(recording, cgroups())
        with helper_held_up(recording):
            # Two tenants share the file: when the second one's mapping is read, it is probed.
            early = [
                Script(
                    tenant, EARLY.format(enough=str(enough)), COTENANT_SIM_LOG=str(log), **driver
                )
                for tenant, log in zip(late, logs, strict=True)
            ]
            for script in early:
                script.heard()
        recording.wait_probed("/engine.bin")
        enough.touch()
        for script in early:
            script.end()
        quiet = Script(other, QUIET)
        quiet.heard()
        # A driver in which functions are left to UCX.
        warm(recording, cgroups(), driver="plain")
        unprobed = Script(partly, QUIET, driver="plain")
        unprobed.heard()
        holes(recording, "no probe for alloc", f"/{partly.name}")
        assert lacks(recording, other) == []
        left = ["no probe for alloc", "no probe for free"]
        for what in ("cuda_events", "totals", "gpu_memory"):
            assert lacks(recording, partly, what) == left
        assert lacks(recording, partly, "cuda_events where op = 'launch'") == []
        assert lacks(recording, partly, "spans") == []
        # It is gone before anybody could look at its driver, or ask whose it was.
        with helper_held_up(recording):
            Script(brief, BRIEF, **own_driver(tmp_path / "other", "libcuda.so.1")).end()
        holes(recording, "never probed", "unknown")
        assert "never probed" in lacks(recording, other)
        for script in (quiet, unprobed):
            script.go_on()
            script.end()
    for tenant, log in zip(late, logs, strict=True):
        told = compare(store, f"cgroup_path = '/{tenant.name}'", [log])
        assert told.untold == ()
        assert told.calls == told.rows + told.inside
        assert told.rows > 0
        assert told.inside >= 101
        # It loaded its module meanwhile, so nobody knows what its kernels are called.
        assert {"kernels without a name", "probes came late"} <= set(lacks(recording, tenant))
    said = recording.errors.read_text()
    assert all(f"of /{tenant.name} missing for" in said for tenant in late)
    assert f"alloc calls of /{partly.name} are not recorded: no probe for alloc" in said


TRAMPOLINES = """
ctypes.CDLL({library!r})
_, module = start()
launch(out("cuModuleGetFunction", module, b"_Z4gemmPf"), times=61)
call("cuCtxSynchronize")
say(done=1)
wait()
"""


def test_a_file_of_trampolines_is_neither_a_library_nor_a_gap(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    """As JAX and TensorFlow bring them: stubs named like the driver's functions."""
    names = [f.symbol for f in FUNCTIONS if f.library is not Library.NCCL]
    library = build_trampolines(tmp_path, names)
    with record(store, "--budget", "off") as recording:
        warm(recording, cgroups())
        script = Script(cgroup := cgroups(), TRAMPOLINES.format(library=str(library)))
        script.heard()
        counted = "select 1 from losses join containers using (cgroup_id) where stored >= 61"
        recording.wait_for(f"{counted} and tenant = '/{cgroup.name}'")
        script.go_on()
        script.end()
    gaps = "seen + stored + lost + shed + queued = 0"
    told = f"select reason from losses join containers using (cgroup_id) where {gaps}"
    assert recording.sql(f"{told} and tenant = '/{cgroup.name}'") == []
    made = f"select count(*) as n from cuda_events where pid = {script.pid} and op = 'launch'"
    assert recording.sql(made) == [{"n": 61}]
    (row,) = recording.sql("select libraries from sessions")
    assert str(library) not in row["libraries"]
    assert str(library) not in recording.errors.read_text()
