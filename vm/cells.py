"""What is tried on which kernel: cells of the matrix, each one boot."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from vm.catalog import ANCHORS, BY_NAME, KERNELS, NEWEST, Kernel


@dataclass(frozen=True, slots=True)
class Cell:
    """One boot of one kernel."""

    kernel: Kernel
    axis: str  # What is unlike the kernel as it comes; "as it comes" where nothing is.
    do: tuple[str, ...]
    command_line: str = ""
    cpus: int = 1
    job: dict[str, Any] = field(default_factory=dict)
    seconds: float = 1500

    @property
    def name(self) -> str:
        """For files and for people."""
        return f"{self.kernel.name}, {self.axis}"


AS_IT_COMES: Final = "as it comes"
STORM: Final = "storm"
TESTS: Final = "tests"
_RECORD: Final = ("record",)


def quick() -> Iterator[Cell]:
    """Objects load everywhere, and one whole recording on the newest kernel."""
    for kernel in KERNELS:
        yield Cell(kernel, "objects", ("doctor",))
    yield Cell(BY_NAME[NEWEST], "preempt=full", _RECORD, "preempt=full")


def matrix() -> Iterator[Cell]:
    """Each kernel as it comes, then each axis once on the anchors."""
    for kernel in KERNELS:
        more = ("demo",) if kernel.name in (*ANCHORS, "6.8") else ()
        yield Cell(kernel, AS_IT_COMES, ("doctor", "record", *more))
    for name in ANCHORS:
        yield from _axes(BY_NAME[name])


def _axes(kernel: Kernel) -> Iterator[Cell]:
    yield Cell(kernel, "preempt=full", ("canary", "record"), "preempt=full")
    if kernel.lazy:
        yield Cell(kernel, "preempt=lazy", ("canary", "record"), "preempt=lazy")
    for mode in ("v1", "hybrid"):
        yield Cell(kernel, f"cgroup {mode}", _RECORD, job={"cgroups": mode})
    for level in (2, 4):
        job = {"sysctl": {"kernel.perf_event_paranoid": level}}
        yield Cell(kernel, f"perf_event_paranoid={level}", _RECORD, job=job)
    yield Cell(kernel, "without SYS_ADMIN", _RECORD, job={"admin": False})
    yield Cell(kernel, "lockdown=integrity", _RECORD, "lockdown=integrity")
    yield Cell(kernel, "2 CPUs", _RECORD, cpus=2)
    yield Cell(kernel, TESTS, ("tests",))


def storms(seconds: float) -> Iterator[Cell]:
    """Eight threads in probed functions on the newest kernel, for so long each."""
    newest = BY_NAME[NEWEST]
    runs = (
        ("full", "session", 1, seconds),
        ("lazy", "session", 1, seconds),
        ("full", "multi", 1, seconds),
        ("full", "pair", 1, seconds),
        ("full", "session", 2, 3 * seconds),
    )
    for preempt, method, cpus, length in runs:
        job = {"storm_s": length, "options": ["--attach", method]}
        yield Cell(
            newest, f"{STORM} by {method}, preempt={preempt}, {cpus} CPU", ("storm",),
            f"preempt={preempt}", cpus, job, length + 900,
        )  # fmt: skip
