"""What could not be probed, and what is dear, said to people: one line for each reason."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from cotenant.agent.protocol.reports import ForksWaited, HooksRefused, LibraryReport, RunsMissed
from cotenant.printable import printable
from cotenant.probes.function import WOULD_BE_STEPPED, Library
from cotenant.probes.tables import MARKERS

_NAMED: Final = 3  # Functions of a library that are named one by one.
_NOTICES_MAX: Final = 64  # Of libraries: a tenant may bring them without end.


def by_reason(refused: Mapping[str, str]) -> list[str]:
    """Which functions of a library have no probe: a line for each reason, most functions first."""
    reasons: dict[str, list[str]] = {}
    for symbol, reason in sorted(refused.items()):
        reasons.setdefault(reason, []).append("all" if symbol == "*" else symbol)
    lines = []
    for reason, symbols in sorted(reasons.items(), key=lambda item: -len(item[1])):
        more = f" and {len(symbols) - _NAMED} more" if len(symbols) > _NAMED else ""
        lines.append(f"refused: {', '.join(symbols[:_NAMED])}{more}: {reason}")
    return lines


def blindness(refused: Mapping[str, str]) -> str:
    """What is wrong with a driver whose launch function has no probe, and what to do."""
    why = refused.get(MARKERS[Library.CUDA], "")
    todo = "; record --probes any would see them" if why.startswith(WOULD_BE_STEPPED) else ""
    return f"launches of this driver are not seen{todo}"


def stepped(count: int, cost_ns: float, stepped_ns: float) -> str:
    """How many probes are single-stepped, and what that costs whoever calls."""
    return (
        f"{count} functions are single-stepped: {stepped_ns / 1e3:.1f} us a call instead of "
        f"{cost_ns / 1e3:.1f} us"
    )


def waited(report: ForksWaited) -> str:
    """That no process on the host could fork, for how long, why, and what ended it."""
    lock = "a memory lock"
    if report.pid:
        lock += f" of {printable(report.comm)} ({report.pid})"
    end = f"; aborted FUSE connection {report.aborted[0]}" if report.aborted else ""
    return (
        f"no process could start for {report.waited_s:.1f} s: {lock} was in the way of probes{end}"
    )


class Notices:
    """What a recording says to whoever started it, each line once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._cost_ns = (0.0, 0.0)
        self._libraries = 0
        self._missing = 0

    def measured(self, cost_ns: float, stepped_ns: float) -> None:
        """What a recorded call costs, and what it costs where it is single-stepped."""
        self._cost_ns = cost_ns, stepped_ns

    def hooks_refused(self, report: HooksRefused) -> None:
        """What the kernel would not have."""
        self._add(report.reasons.values())

    def runs_missed(self, report: RunsMissed) -> None:
        """What the kernel left out."""
        self._add(
            f"{program}: the kernel leaves out some of its runs; those events are missing"
            for program in report.programs
        )

    def forks_waited(self, report: ForksWaited) -> None:
        """How long no process on the host could fork, and for whose lock."""
        self._add([waited(report)])

    def missing(self, lines: list[str]) -> None:
        """What went unseen, as far as it was not said before."""
        self._add(lines[self._missing :])
        self._missing = len(lines)

    def library(self, report: LibraryReport) -> None:
        """What is not probed in a library, or dear."""
        if self._libraries < _NOTICES_MAX:
            self._libraries += self._add(self._about(report)) > 0

    def _add(self, lines: Iterable[str]) -> int:
        new = [line for line in lines if line not in self.lines]
        self.lines += new
        return len(new)

    def _about(self, library: LibraryReport) -> Iterator[str]:
        path = printable(library.path)
        if library.blind:
            yield f"{path}: {blindness(library.refused)}"
            for line in by_reason(library.refused):
                yield f"{path}: {line}"
        if library.stepped:
            yield f"{path}: {stepped(library.stepped, *self._cost_ns)}"
