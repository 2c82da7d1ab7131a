"""I/O that takes longer while another tenant uses the same disk."""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.interference.slowdown import SHARED, Samples, Verdict, slowdown
from cotenant.query.derived.intervals import Intervals
from cotenant.query.derived.registry import Ask
from cotenant.query.derived.row_groups import groups_of
from cotenant.query.engine.cuts import Spread
from cotenant.query.findings.finding import Finding, milliseconds, percent
from cotenant.query.questions.loader import find as find_question
from cotenant.query.text import shell
from cotenant.query.text.sql import quoted

NEEDS: Final = ("io_events",)
NODES: Final = Spread.EACH
SLOWER: Final = 1.5  # Less is normal variation of a disk.
NEAR_NS: Final = 5e6  # Requests this close belong to one burst.

_SQL: Final = """
select
    i.node,
    i.device,
    c.tenant,
    i.timestamp_ns,
    i.duration_ns,
    i.bytes,
    -- Requests of one kind: the same direction, and about the same size.
    (hash(i.op, round(log2(greatest(coalesce(i.bytes, 1), 1)))) >> 1)::bigint as kind
from io_events i
join containers c using (cgroup_id)
where i.duration_ns > 0 and i.device is not null
order by i.node, i.device, c.tenant, i.timestamp_ns
"""


# What is charged to nobody's process has no name.
_PROCESS: Final = """
select i.comm, i.pid, sum(i.bytes * i.weight)::double as bytes
from io_events i
join containers c using (cgroup_id)"""


@dataclass(frozen=True, slots=True)
class _User:
    """One tenant of a disk."""

    tenant: str
    samples: Samples
    total_bytes: int
    busy: Intervals


def _user(tenant: str, rows: Any, origin: int, end: float) -> _User:
    start = (rows["timestamp_ns"].to_numpy() - origin).astype(np.float64)
    took = rows["duration_ns"].to_numpy().astype(np.float64)
    samples = Samples(start, start + took, took, rows["kind"].to_numpy().astype(np.int64))
    busy = Intervals.of(start - NEAR_NS, start + took + NEAR_NS, 0.0, end)
    return _User(tenant, samples, int(rows["bytes"].to_numpy(zero_copy_only=False).sum()), busy)


def find(ask: Ask) -> list[Finding]:
    """For each victim of a disk, the tenant that it suffers from most."""
    return [_with_delays(ask, finding) for finding in _found(ask)]


def _with_delays(ask: Ask, finding: Finding) -> Finding:
    """With the number that the question shows."""
    question = find_question("io_delays").render(["limit=1000000"])
    pair = f"tenant = {quoted(finding.victim)} and neighbour = {quoted(finding.culprit or '')}"
    pair += f" and node = {quoted(finding.nodes[0])}"
    rows = ask(f"select sum(delayed_ns)::bigint as ns from ({question}) where {pair}").to_pylist()
    most = ask(
        f"{_PROCESS} where i.pid > 0 and c.tenant = {quoted(finding.culprit or '')} "
        f"and i.node = {quoted(finding.nodes[0])} group by all order by 3 desc limit 1"
    )
    delayed = f"its requests were delayed by {milliseconds(rows[0]['ns'] or 0)}, added up"
    whose = [
        f"most of what {finding.culprit} moved was moved by {row['comm']} (process {row['pid']}): "
        f"{(row['bytes'] or 0) / 2**20:,.0f} MiB"
        for row in most.to_pylist()
    ]
    return replace(finding, evidence=(*finding.evidence, delayed, *whose))


def _found(ask: Ask) -> list[Finding]:
    found = []
    for (node, device), rows in groups_of(ask(_SQL), "node", "device"):
        starts = rows["timestamp_ns"].to_numpy()
        origin = int(starts.min())
        end = float((starts + rows["duration_ns"].to_numpy()).max() - origin)
        users = [_user(t, own, origin, end) for (t,), own in groups_of(rows, "tenant")]
        for victim in users:
            worst = [_delayed(device, victim, other) for other in users if other is not victim]
            costly = sorted((f for f in worst if f), key=lambda f: -f.rank)[:1]
            found += [replace(finding, nodes=(node,)) for finding in costly]
    return found


def _delayed(device: str, victim: _User, other: _User) -> Finding | None:
    verdict = slowdown(victim.samples, other.busy)
    # A tenant with few bytes does not delay one with many, however often they meet.
    if not verdict.evidence or verdict.slowdown < SLOWER:
        return None
    if other.total_bytes < 0.2 * victim.total_bytes:
        return None
    return _finding(device, victim, other, verdict)


def _finding(device: str, victim: _User, other: _User, verdict: Verdict) -> Finding:
    mine = victim.samples
    part: NDArray[np.float64] = other.busy.overlap(mine.start, mine.end) / mine.cost
    shared = part >= SHARED
    waited = Intervals.of(mine.start[shared], mine.end[shared], 0.0, float(mine.end.max()))
    lost = waited.total * (1 - 1 / verdict.slowdown)
    share = lost / max(float(mine.end.max() - mine.start.min()), 1.0)
    return Finding(
        kind="shared disk",
        victim=victim.tenant,
        culprit=other.tenant,
        share=min(share, 1.0),
        confidence=min(1 - verdict.p, 0.97),
        title=f"{victim.tenant} waits for {device} while {other.tenant} uses it",
        evidence=(
            f"its requests take {verdict.slowdown:.2f} times as long while {other.tenant} has "
            f"requests there ({verdict.low:.2f} to {verdict.high:.2f}, p {verdict.p:.3f})",
            f"that cost it {milliseconds(lost)}, {percent(share)} of its time; "
            f"{other.tenant} moved {other.total_bytes / 2**20:,.0f} MiB, "
            f"it {victim.total_bytes / 2**20:,.0f} MiB",
        ),
        next=shell.ask("io_delays", victim.tenant),
        base="the time from its first request to its last",
        cost_ns=lost,
    )
