"""A tenant whose memory lock kept every process on the host from starting others."""

from typing import Any, Final

from cotenant.query.derived.registry import Ask
from cotenant.query.engine.cuts import Spread
from cotenant.query.findings.finding import Finding, milliseconds

NEEDS: Final = ("sessions",)
NODES: Final = Spread.EACH
SURE: Final = 0.95
UNSURE: Final = 0.5

_SQL: Final = """
with waits as (
    select
        node,
        unnest(from_json(
            json_extract(notes, '$.forks_waited'),
            '[{"tenant": "VARCHAR", "pid": "BIGINT", "comm": "VARCHAR", "what": "VARCHAR",
               "waited_s": "DOUBLE", "end_ns": "BIGINT", "aborted": ["BIGINT"]}]'
        )) as wait
    from sessions
)
select
    w.node,
    any_value(c.tenant) as tenant,
    w.wait.pid as pid,
    w.wait.comm as comm,
    w.wait.what as what,
    w.wait.waited_s as waited_s,
    strftime(make_timestamp(w.wait.end_ns // 1000), '%Y-%m-%d %H:%M:%S UTC') as until,
    len(w.wait.aborted) as aborted
from waits w
left join containers c
    on c.node = w.node and c.cgroup_path = w.wait.tenant
group by all
order by waited_s desc
"""


def find(ask: Ask) -> list[Finding]:
    """Every time that it happened."""
    return [_finding(row) for row in ask(_SQL).to_pylist()]


def _finding(row: dict[str, Any]) -> Finding:
    ns = row["waited_s"] * 1e9
    took = milliseconds(ns)
    culprit = row["tenant"]
    who = f"{row['comm']} ({row['pid']}) of {culprit}" if row["pid"] else "a process"
    # Without a file system of its own in the way, it may have had no CPU to go on with.
    confidence = SURE if row["aborted"] or not row["pid"] else UNSURE
    ended = (
        "its FUSE connection was aborted to end this"
        if row["aborted"]
        else "nothing could be done but wait for it"
    )
    return Finding(
        kind="processes could not start",
        victim="host",
        culprit=culprit,
        share=1.0,
        confidence=confidence,
        title=f"no process on the host could start another for {took}",
        evidence=(
            f"{who} kept its memory locked while probes were {row['what']}, and the kernel "
            "lets no process fork until they are",
            f"it ended at {row['until']}; {ended}",
        ),
        next='cotenant sql "select notes from sessions"',
        base="that time",
        cost_ns=ns,
    )
