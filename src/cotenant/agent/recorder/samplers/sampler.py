"""The shape of a table that is written once a second."""

from collections.abc import Iterable
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final, Protocol

from cotenant.agent.recorder.samplers.holes import Holes
from cotenant.errors import CotenantError
from cotenant.schema.families import FAMILIES
from cotenant.schema.holes import NOT_SAMPLED

_SAMPLED_NS: Final = 5_000_000_000  # A sample tells of no more than this, but for the odd row.


class Sampler(Protocol):
    """Makes the rows of one table."""

    @property
    def table(self) -> str:
        """The table that the rows belong to."""

    def sample(self, now_ns: int) -> Any | None:
        """Rows as of now, or since the last sample; None if there are none."""


class RowSink(Protocol):
    """Where rows go."""

    def append(self, table: str, rows: Any) -> None:
        """Add rows to a table."""


def sample_all(
    samplers: Iterable[Sampler], holes: Holes, sink: RowSink, now_ns: int
) -> dict[str, str]:
    """One sample of each, then the holes: also what samplers that failed, by table, did not tell.

    They are ours, and what makes them fail may be one tenant's: the others' rows go on.
    """
    failed = write_samples(samplers, sink, now_ns)
    if failed:
        holes.add(NOT_SAMPLED, FAMILIES, None, now_ns - _SAMPLED_NS, now_ns)
    return failed | write_samples([holes], sink, now_ns)


def write_samples(samplers: Iterable[Sampler], sink: RowSink, now_ns: int) -> dict[str, str]:
    """One sample of each, in order, into the sink; which tables got none, and why."""
    failed = {}
    for sampler in samplers:
        try:
            rows = sampler.sample(now_ns)
            if rows is not None:
                sink.append(sampler.table, rows)
        except (OSError, CotenantError):
            raise
        except Exception as error:  # noqa: BLE001 - a tenant may bring about any
            failed[sampler.table] = _told(error)
    return failed


def _told(error: Exception) -> str:
    """What failed, and at which line."""
    at = extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})"
