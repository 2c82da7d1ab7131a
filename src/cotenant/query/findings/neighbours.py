"""A tenant slowed by another on its GPU."""

from typing import Any, Final

from cotenant.query.derived.interference.cause import TOO_FEW
from cotenant.query.derived.registry import Ask
from cotenant.query.engine.cuts import Spread
from cotenant.query.findings.finding import Finding, Maybe, Unsampled, milliseconds, percent
from cotenant.query.text import shell

NEEDS: Final = ("interference", "shared_time")
NODES: Final = Spread.EACH
_MATTERS: Final = 0.05  # Of the victim's time with work on the GPU.

_SQL: Final = """
select
    i.*,
    o.overlap_ns,
    o.queued_ns
from interference i
join shared_time o
  on o.tenant = i.victim and o.other = i.aggressor and o.node = i.node
 and coalesce(o.gpu, '') = coalesce(i.gpu, '')
where i.evidence <> 'none'
order by i.slowdown desc, i.victim, i.aggressor, i.node, i.gpu
"""


_UNSAMPLED: Final = f"""
select i.victim, i.aggressor, sum(o.overlap_ns)::bigint as overlap_ns
from interference i
join shared_time o
  on o.tenant = i.victim and o.other = i.aggressor and o.node = i.node and o.gpu = i.gpu
where i.cause = '{TOO_FEW}' and o.overlap_ns >= {_MATTERS} * o.queued_ns
group by all
order by overlap_ns desc, i.victim, i.aggressor
"""


def unsampled(ask: Ask) -> list[Unsampled]:
    """Every pair of which nothing can be said, though they shared a good part of the time."""
    return [_unsampled(row) for row in ask(_UNSAMPLED).to_pylist()]


def _unsampled(row: dict[str, Any]) -> Unsampled:
    who = row["victim"], row["aggressor"]
    both = milliseconds(row["overlap_ns"])
    title = f"too few samples to say whether {who[1]} slows {who[0]}: both had work for {both}"
    return Unsampled(*who, title, row["overlap_ns"])


def told_by_the_whole(ask: Ask, pair: Unsampled) -> str:
    """What is known of a pair over the whole recording, in words."""
    for row in ask(_SQL).to_pylist():
        if (row["victim"], row["aggressor"]) == (pair.victim, pair.culprit):
            slowed = f"{row['slowdown']:.2f} times as long"
            between = f"{row['ci_low']:.2f} to {row['ci_high']:.2f}, p {row['p']:.3f}"
            return f"{slowed} ({between}; {row['evidence']})"
    few = any((p.victim, p.culprit) == (pair.victim, pair.culprit) for p in unsampled(ask))
    return "too few samples, too" if few else "no evidence"


def find(ask: Ask) -> list[Finding]:
    """Every slowdown that there is evidence of."""
    return [_finding(row) for row in ask(_SQL).to_pylist() if row["evidence"] == "evidence"]


def maybe(ask: Ask) -> list[tuple[float, Maybe]]:
    """Every slowdown that there may be, and how much it would be."""
    rows = ask(_SQL).to_pylist()
    return [(row["slowdown"], _maybe(row)) for row in rows if row["evidence"] == "maybe"]


def _maybe(row: dict[str, Any]) -> Maybe:
    return Maybe(
        victim=row["victim"],
        title=f"{row['aggressor']} may slow {row['victim']}: {row['slowdown']:.2f} times as "
        f"long ({row['ci_low']:.2f} to {row['ci_high']:.2f}, p {row['p']:.3f})",
        next=shell.ask("interference", row["victim"]),
    )


def _finding(row: dict[str, Any]) -> Finding:
    lost = row["cost_ns"]
    queued = max(row["queued_ns"], 1)
    where = row["gpu"] or f"a GPU of {row['node']}"
    return Finding(
        kind="noisy neighbour",
        victim=row["victim"],
        culprit=row["aggressor"],
        share=min(lost / queued, 1.0),
        confidence=min(1 - row["p"], 0.99),
        title=f"{row['aggressor']} slows {row['victim']} on {where} by {row['cause']}",
        evidence=(
            f"its work takes {row['slowdown']:.2f} times as long while {row['aggressor']} "
            f"has work there ({row['ci_low']:.2f} to {row['ci_high']:.2f}, "
            f"p {row['p']:.3f}, {row['samples']:,} samples)",
            f"both had work for {milliseconds(row['overlap_ns'])}, "
            f"{percent(row['overlap_ns'] / queued)} of the {milliseconds(queued)} that it had any",
        ),
        next=shell.ask("interference", row["victim"]),
        base="its time with work on the GPU",
        cost_ns=lost,
        nodes=(row["node"],),
    )
