"""What this kernel can do, tested on ourselves."""

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from cotenant._native import OBJECTS, Ring, probe_here, step_here
from cotenant.errors import Unsupported, UsageError
from cotenant.probes.attach import Attacher, Method, Placed
from cotenant.probes.door import Door
from cotenant.probes.elf import Elf
from cotenant.probes.filtered import why_deadly
from cotenant.probes.function import CallFamily, Flag, Function, Library
from cotenant.probes.programs import Sizes, load_function
from cotenant.probes.sites import Stepping
from cotenant.probes.stacks import why_unsafe
from cotenant.schema.constants import FUNCTIONS_MAX
from cotenant.schema.kinds import EVENT_KIND

# A function of our own native module, which no tenant calls. The programs of its family are the
# smallest that make rows, with the same steps as all others that do.
_SITE: Final = "cotenant_probe_here"
_STEPPED_SITE: Final = "cotenant_step_here"
_ITSELF: Final = Function(
    FUNCTIONS_MAX - 1,
    Library.NCCL,
    _SITE,
    op="AllReduce",
    family=CallFamily.NCCL,
    flags=Flag.OPERATION,
)
_SMALL: Final = Sizes(events_bytes=1 << 16, facts_bytes=4096)
_OLDEST: Final = (5, 15)
_TIMINGS: Final = 3
_CALLS: Final = 100
# A single-stepped probe may cost this much of an emulated one. On hardware it may; in a virtual
# machine the second trap is dear.
_DEARER: Final = 2.0


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of attaching to ourselves by one method."""

    reason: str | None  # Why it does not work; None if it does.
    cost_ns: float = 0.0  # What a recorded call costs the thread that makes it.
    stepped_ns: float = 0.0  # The same where its probe is single-stepped.


@cache
def attempt(method: Method, door: Door | None = None) -> Trial:
    """Attach to ourselves by this method, look for the event, and time some more."""
    try:
        programs = load_function(method, _ITSELF, _SMALL)
    except Unsupported as error:
        return Trial(str(error))
    fd = os.open(next(OBJECTS.parent.glob("_drain*.so")), os.O_RDONLY)
    try:
        with Elf(fd) as elf:
            offset = elf.find([_SITE])[_SITE]
        here = Placed(_ITSELF, offset)
        if unsafe := why_unsafe(method, fd, here, door):
            return Trial(unsafe)
        attacher = Attacher(method, programs.programs, door=door)
        attachment = attacher.attach(fd, [here])
        probe_here()
        seen = Ring(programs.maps["events"], _SMALL.events_bytes, EVENT_KIND).waiting()
        deadly = why_deadly() if seen else None
        probed = _call_ns(probe_here)
        attacher.remove(attachment)
        if not seen:
            return Trial("attached, but no event came")
        if deadly:
            return Trial(deadly)
        cost_ns = max(probed - _call_ns(probe_here), 1.0)
        return Trial(None, cost_ns, _stepped_ns(attacher, fd))
    except Exception as error:  # noqa: BLE001 - any failure is the answer
        return Trial(str(error))
    finally:
        os.close(fd)
        programs.close()


def _stepped_ns(attacher: Attacher, fd: int) -> float:
    """What a single-stepped call costs, on a function of ours."""
    with Elf(fd) as elf:
        offset = elf.find([_STEPPED_SITE])[_STEPPED_SITE]
    attachment = attacher.attach(fd, [Placed(_ITSELF, offset)])
    probed = _call_ns(step_here)
    attacher.remove(attachment)
    return max(probed - _call_ns(step_here), 1.0)


def _call_ns(call: Callable[[], int]) -> float:
    """The best of a few timings of a call of ours; few enough for their rows to fit the ring."""
    best = float("inf")
    for _ in range(_TIMINGS):
        began = time.perf_counter_ns()
        for _ in range(_CALLS):
            call()
        best = min(best, (time.perf_counter_ns() - began) / _CALLS)
    return best


def why_not(method: Method, door: Door | None = None) -> str | None:
    """Why this method does not work here; None if it does."""
    return attempt(method, door).reason


def choose_method(asked: str | None, door: Door | None = None) -> Method:
    """The method that was asked for, else the best that works here."""
    if asked is not None:
        if asked not in list(Method):
            raise UsageError(f"--attach {asked}: unknown; choose session, multi or pair")
        reason = why_not(Method(asked), door)
        if reason:
            raise Unsupported(f"--attach {asked} does not work on this kernel: {reason}")
        return Method(asked)
    reason = ""
    for method in Method:
        reason = why_not(method, door) or ""
        if not reason:
            return method
    raise unsupported(reason)


def unsupported(reason: str) -> Unsupported:
    """The error for what this kernel refuses, with the kernel's age where that explains it."""
    if _version() < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        reason = f"Linux {os.uname().release} is too old, {oldest} is needed ({reason})"
    return Unsupported(reason)


def _version() -> tuple[int, ...]:
    """Of the kernel that runs: to explain a failure, never to decide anything."""
    numbers = re.findall(r"\d+", os.uname().release)
    return tuple(int(number) for number in numbers[: len(_OLDEST)])


def choose_stepping(asked: str, method: Method, door: Door | None = None) -> Stepping:
    """Whose probes may be single-stepped: as asked, else those of rows where that is not dear."""
    if asked == "any":
        return Stepping.ALL
    trial = attempt(method, door)
    cheap = 0 < trial.stepped_ns <= _DEARER * trial.cost_ns
    return Stepping.ROWS if asked == "auto" and cheap else Stepping.NONE
