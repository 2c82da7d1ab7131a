"""A tenant slowed by another on its GPU."""

from typing import Final

from cotenant.query.derived.registry import Ask
from cotenant.query.findings.finding import Finding, percent
from cotenant.query.text import shell

NEEDS: Final = ("interference", "shared_time", "busy")

_SQL: Final = """
with seen as (
    select tenant, node, gpu, max(end_ns) - min(start_ns) as seen_ns
    from busy
    group by all
)
select
    i.*,
    o.overlap_ns,
    s.seen_ns
from interference i
join shared_time o
  on o.tenant = i.victim and o.other = i.aggressor and o.node = i.node
 and coalesce(o.gpu, '') = coalesce(i.gpu, '')
join seen s
  on s.tenant = i.victim and s.node = i.node and coalesce(s.gpu, '') = coalesce(i.gpu, '')
where i.evidence = 'evidence'
"""


def find(ask: Ask) -> list[Finding]:
    """Every slowdown that there is evidence of."""
    found = []
    for row in ask(_SQL).to_pylist():
        lost = row["overlap_ns"] * (1 - 1 / row["slowdown"])
        where = row["gpu"] or f"a GPU of {row['node']}"
        found.append(
            Finding(
                kind="noisy neighbour",
                victim=row["victim"],
                culprit=row["aggressor"],
                share=min(lost / max(row["seen_ns"], 1), 1.0),
                confidence=min(1 - row["p"], 0.99),
                title=f"{row['aggressor']} slows {row['victim']} on {where} by {row['cause']}",
                evidence=(
                    f"its work takes {row['slowdown']:.2f} times as long while {row['aggressor']} "
                    f"has work there ({row['ci_low']:.2f} to {row['ci_high']:.2f}, "
                    f"p {row['p']:.3f}, {row['samples']:,} samples)",
                    f"both had work for {row['overlap_ns'] / 1e9:.3g} s, "
                    f"{percent(row['overlap_ns'] / max(row['seen_ns'], 1))} of its time",
                ),
                next=shell.ask("interference", row["victim"]),
            )
        )
    return found
