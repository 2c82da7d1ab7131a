"""No program of ours that can be preempted runs on a stack that another task's would use."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant.probes import features, programs, syscalls
from cotenant.probes.attach import PROGRAMS, Method
from cotenant.probes.hooks import together
from cotenant.probes.kernel import HOOKS
from cotenant.probes.programs import Programs, Sizes, load_object, load_programs
from cotenant.probes.tables import FUNCTIONS
from cotenant.schema.families import KERNEL_FAMILIES
from tests.kernel.conftest import need
from tests.kernel.programs import compile_bpf, image

# `add %gs:...,%r9`: how the JIT of x86-64 finds a CPU's private stack.
PRIVATE = bytes.fromhex("65 4c 03 0c 25")
SMALL = Sizes(events_bytes=4096, facts_bytes=4096)
UNGUARDED = Path(__file__).with_name("unguarded.bpf.c")


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All objects, and among them the trial as it would be without the remedy."""
    target = tmp_path_factory.mktemp("objects")
    for built in programs.OBJECTS.iterdir():
        (target / built.name).symlink_to(built)
    (target / "trial.bpf.o").unlink()
    compile_bpf(UNGUARDED, target / "trial.bpf.o")
    return target


@pytest.fixture(autouse=True)
def tried_anew() -> Iterator[None]:
    features.attempt.cache_clear()
    yield
    features.attempt.cache_clear()


def trial_image(method: Method) -> bytes:
    """The trial program as the kernel runs it, loaded for this method."""
    loaded = Programs(method)
    kind = next(iter(PROGRAMS[method].values()))
    load_object(loaded, "trial", {"stack_trial": kind}, SMALL, {})
    try:
        return image(loaded.programs["stack_trial"])
    finally:
        loaded.close()


@pytest.mark.parametrize("method", list(Method))
def test_no_uprobe_program_has_a_private_stack(method: Method) -> None:
    need(method)
    loaded = load_programs(method, FUNCTIONS, SMALL, {}, optional=together(KERNEL_FAMILIES))
    try:
        private = {name for name, fd in loaded.programs.items() if PRIVATE in image(fd)}
        assert len(loaded.programs) > len(programs.TASK_PROGRAMS)
        # Nothing runs yet, so nothing was left out.
        assert {syscalls.program_misses(fd) for fd in loaded.programs.values()} == {0}
    finally:
        loaded.close()
    # The kernel runs a program of a tracepoint at most once at a time on a CPU: a second run is
    # counted as missed instead. So a private stack is one run's alone.
    tracepoints = {hook.program for hook in HOOKS} | set(programs.TASK_PROGRAMS)
    assert private <= tracepoints


@pytest.mark.parametrize("method", list(Method))
def test_a_kernel_that_shares_stacks_is_refused(
    method: Method, unguarded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(method)
    assert PRIVATE not in trial_image(method)
    assert features.attempt(method).reason is None
    features.attempt.cache_clear()
    monkeypatch.setattr(programs, "OBJECTS", unguarded)
    if PRIVATE not in trial_image(method):
        pytest.skip("this kernel has no private stacks")
    assert "share a stack" in (features.attempt(method).reason or "")
