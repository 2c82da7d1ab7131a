"""Totals, losses and holes by tenant since the last scrape."""

from dataclasses import dataclass, field
from typing import Any, Final

from cotenant.query.engine.changelog_tables import recording_at
from cotenant.query.engine.session import Session
from cotenant.query.text.sql import quoted

_EVER_NS: Final = (1 << 63) - 1

FATES: Final = {
    "seen": "Events that were to become rows.",
    "stored": "Rows written.",
    "shed": "Events left out on purpose, within the weight of others.",
    "lost": "Events dropped because the ring was full.",
}
# What an earlier recording saw may have changed unseen since it ended. A part that is unknown makes
# all of it unknown, not less.
MEMORY: Final = f"""
SELECT tenant, gpu,
       CASE WHEN count(held) = count(*) THEN try_cast(sum(held) AS BIGINT) END AS bytes
  FROM (SELECT m.cgroup_id, m.gpu, arg_max_null(m.bytes, m.timestamp_ns) AS held
          FROM gpu_memory m LEFT JOIN {recording_at(_EVER_NS)} r USING (node)
         WHERE m.timestamp_ns >= coalesce(r.started_ns, 0) GROUP BY ALL)
  JOIN containers USING (cgroup_id)
 GROUP BY ALL ORDER BY ALL"""
INFO: Final = """
SELECT tenant, max(container_id) AS container, max(namespace) AS namespace, max(pod) AS pod,
       max(unit) AS unit, max(slurm_job) AS slurm_job, max(image) AS image, max(node) AS node
  FROM containers GROUP BY tenant ORDER BY tenant"""
# Of the newest recording of each node.
KERNEL_COST: Final = """
SELECT node, arg_max(notes, started_ns) AS notes FROM sessions GROUP BY node ORDER BY node"""
_GPU_USE: Final = """
SELECT tenant, gpu, share, idle_share, work_ns / time_ns AS work_ratio,
       gpu_time_low_ns / time_ns AS time_low_ratio, gpu_time_high_ns / time_ns AS time_high_ratio
  FROM gpu_use WHERE time_ns > 0 ORDER BY ALL"""
NEWEST: Final = "SELECT max(timestamp_ns) AS newest_ns FROM totals"

# A runtime call contains driver calls, which are counted themselves.
_DRIVER: Final = "NOT (family = 'cuda' AND starts_with(function, 'cuda'))"
# Allocations have a size, and fills: they move nothing.
_MOVING: Final = (
    f"({_DRIVER} AND (family <> 'cuda' OR regexp_matches(function, '^cuMem(cpy|Prefetch)')))"
)
# cuLaunchHostFunc queues a call on the host.
_LAUNCH: Final = (
    "family = 'cuda' AND regexp_matches(function, '^cu(Launch|GraphLaunch)') "
    "AND NOT starts_with(function, 'cuLaunchHostFunc')"
)


@dataclass(slots=True)
class CounterCursor:
    """Per node, the time of the last row that was read."""

    totals: dict[str, int] = field(default_factory=dict)
    losses: dict[str, int] = field(default_factory=dict)
    gpu_seconds: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class News:
    """Rows written since the last scrape, summed."""

    totals: list[dict[str, Any]]
    histograms: list[dict[str, Any]]
    durations: list[dict[str, Any]]
    fates: list[dict[str, Any]]
    holes: list[dict[str, Any]]
    queued: list[dict[str, Any]]


def since(session: Session, cursor: CounterCursor) -> News:
    """Sums of the rows after the cursor, which is advanced once all of them are known."""
    at = CounterCursor(dict(cursor.totals), dict(cursor.losses), dict(cursor.gpu_seconds))
    totals = _advance(session, "totals", at.totals)
    losses = _advance(session, "losses", at.losses)
    seconds = _advance(session, "gpu_seconds", at.gpu_seconds, "told_ns")
    news = News(
        session.ask(_totals(totals)).rows(),
        session.ask(_histograms(totals)).rows(),
        session.ask(_durations(totals)).rows(),
        session.ask(_fates(losses)).rows(),
        session.ask(_holes(losses)).rows(),
        session.ask(_queued(seconds)).rows(),
    )
    cursor.totals, cursor.losses, cursor.gpu_seconds = at.totals, at.losses, at.gpu_seconds
    return news


def _advance(session: Session, table: str, at: dict[str, int], time: str = "timestamp_ns") -> str:
    """Advance to the newest row of each node; SQL condition for the rows in between."""
    newest = session.ask(f"SELECT node, max({time}) AS at_ns FROM {table} GROUP BY node")
    between = []
    for row in newest.rows():
        node, end = row["node"], row["at_ns"]
        start = at.get(node, -1)
        between.append(f"(node = {quoted(node)} AND {time} > {start} AND {time} <= {end})")
        at[node] = end
    return " OR ".join(between) or "false"


def _from(table: str, condition: str) -> str:
    names = "(SELECT cgroup_id, tenant FROM containers)"
    return f"(FROM {table} WHERE {condition}) JOIN {names} USING (cgroup_id)"


def _totals(condition: str) -> str:
    return (
        "SELECT tenant, family, function, sum(count)::BIGINT AS count, "
        "sum(sum_ns)::BIGINT AS sum_ns, "
        f"try_cast(sum(bytes) FILTER ({_MOVING}) AS BIGINT) AS bytes, "
        f"{_LAUNCH} AS launch "
        f"FROM {_from('totals', condition)} GROUP BY ALL ORDER BY ALL"
    )


def _histograms(condition: str) -> str:
    return (
        "SELECT tenant, family, bucket - 1 AS bucket, sum(calls)::BIGINT AS count FROM ("
        "SELECT tenant, family, unnest(histogram) AS calls, "
        "generate_subscripts(histogram, 1) AS bucket "
        f"FROM {_from('totals', condition)} WHERE {_DRIVER}) "
        "WHERE calls > 0 GROUP BY ALL ORDER BY ALL"
    )


def _durations(condition: str) -> str:
    return (
        "SELECT tenant, family, sum(sum_ns)::BIGINT AS sum_ns "
        f"FROM {_from('totals', condition)} WHERE {_DRIVER} GROUP BY ALL ORDER BY ALL"
    )


def _fates(condition: str) -> str:
    sums = ", ".join(f"sum({name})::BIGINT AS {name}" for name in FATES)
    return (
        f"SELECT tenant, family, {sums} FROM {_from('losses', condition)} GROUP BY ALL ORDER BY ALL"
    )


def _holes(condition: str) -> str:
    """What went unseen, and for how long."""
    return (
        "SELECT tenant, family, reason, sum(to_ns - from_ns)::BIGINT AS blind_ns, "
        f"coalesce(sum(unseen), 0)::BIGINT AS unseen FROM {_from('losses', condition)} "
        "WHERE from_ns IS NOT NULL AND lost + shed = 0 GROUP BY ALL ORDER BY ALL"
    )


def _queued(condition: str) -> str:
    """Of a second that began long ago, more may become known."""
    return (
        "SELECT tenant, gpu, sum(queued_ns)::BIGINT AS queued_ns "
        f"FROM {_from('gpu_seconds', condition)} GROUP BY ALL ORDER BY ALL"
    )


def gpu_use(session: Session, newest_ns: int, lately_ns: int) -> list[dict[str, Any]]:
    """How much of each GPU each tenant used until then."""
    with session.within(newest_ns - lately_ns, newest_ns) as lately:
        return lately.ask(_GPU_USE).rows()
