"""What each tenant does per second, and where its time goes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from cotenant.query.engine.changelog_tables import recording_at
from cotenant.query.engine.tables import SAMPLED, cut_at
from cotenant.query.text.sql import quoted
from cotenant.schema.families import FAMILIES, GPU_FAMILIES, KERNEL_FAMILIES


@dataclass(frozen=True, slots=True)
class Part:
    """Columns that one table gives, per cgroup."""

    table: str
    columns: dict[str, str]  # Name to SQL, over the window's rows of one cgroup.
    level: str | None = None  # Key of a changelog: its last row before the window's end counts.
    calls: bool = False  # Adds ``began`` (in the window) and ``within_ns`` (the part in it).


# How far before the window a call in it may have begun.
_BEFORE_NS: Final = 10_000_000_000


def _events(names: Iterable[str]) -> Iterator[Part]:
    """What these families' own rows give."""
    for family in (FAMILIES[name] for name in names):
        count = {family.table.name: "sum(weight)"}
        rates = dict(count if family.rates is None else family.rates)
        if rates:
            yield Part(family.table.name, rates, calls=family.gpu)


def _totals() -> dict[str, str]:
    """What families take from ``totals``, which count every event."""
    return {name: sql for f in FAMILIES.values() for name, sql in (f.totals or {}).items()}


# Less than nothing where a part of it is unknown.
_KNOWN: Final = "CASE WHEN count(bytes) = count(*) THEN sum(bytes) ELSE -1 END"
_PARTS: Final = (
    *_events(GPU_FAMILIES),
    Part("totals", _totals()),
    *_events(KERNEL_FAMILIES),
    Part("gpu_memory", {"gpu_bytes": _KNOWN}, level="cgroup_id, gpu"),
    Part("losses", {"lost": "sum(lost)", "shed": "sum(shed)"}),
)
COLUMNS: Final = tuple(column for part in _PARTS for column in part.columns)
# The state when the window ends, not a rate over it.
_LEVELS: Final = frozenset({"gpu_bytes", "lost", "shed"})


# Of a session that has just this window. Shares are for each GPU that a tenant used.
GPU_USE: Final = """
SELECT tenant, avg(share) AS gpu_share, sum(work_ns)::BIGINT AS work_ns,
       sum(gpu_time_low_ns)::BIGINT AS gpu_time_low_ns, avg(queued_ns / time_ns) AS queued_share,
       string_agg(DISTINCT statement, '; ' ORDER BY statement) AS gpu_time,
       bool_or(source = 'prior') AS gpu_guessed
  FROM gpu_use
 GROUP BY tenant"""
_GPU_USE_UNKNOWN: Final = """
SELECT NULL::VARCHAR AS tenant, NULL::DOUBLE AS gpu_share, NULL::BIGINT AS work_ns,
       NULL::BIGINT AS gpu_time_low_ns, NULL::DOUBLE AS queued_share, NULL::VARCHAR AS gpu_time,
       NULL::BOOLEAN AS gpu_guessed
 WHERE false"""


def _part(part: Part, start_ns: int, end_ns: int) -> str:
    columns = ", ".join(f"{sql} AS {name}" for name, sql in part.columns.items())
    if part.level is not None:
        source = _last(part, end_ns)
    elif part.calls:
        source = _calls(part, start_ns, end_ns)
    elif part.table in SAMPLED:
        begun = "coalesce(since_ns, first_ns - 1000000000)"
        cut = cut_at(begun, start_ns, end_ns, SAMPLED[part.table])
        source = (
            f"(SELECT * REPLACE ({cut}) FROM {part.table} "
            f"WHERE timestamp_ns > {start_ns} AND {begun} < {end_ns})"
        )
    else:
        source = f"{part.table} WHERE timestamp_ns >= {start_ns} AND timestamp_ns < {end_ns}"
    return f"SELECT cgroup_id, {columns} FROM {source} GROUP BY cgroup_id"


def _calls(part: Part, start_ns: int, end_ns: int) -> str:
    """Calls that were under way in the window, each with the part in it."""
    clipped = f"least(timestamp_ns + duration_ns, {end_ns}) - greatest(timestamp_ns, {start_ns})"
    return (
        f"(SELECT *, timestamp_ns >= {start_ns} AS began, {clipped} AS within_ns "
        f"FROM {part.table} "
        f"WHERE timestamp_ns >= {start_ns - _BEFORE_NS} AND timestamp_ns < {end_ns})"
    )


def _last(part: Part, end_ns: int) -> str:
    """The rows that hold when the window ends, however old, of the recording at that time."""
    return (
        f"(SELECT t.* FROM {part.table} t LEFT JOIN {recording_at(end_ns)} r USING (node) "
        f"WHERE t.timestamp_ns < {end_ns} AND t.timestamp_ns >= coalesce(r.started_ns, 0) "
        f"QUALIFY row_number() OVER (PARTITION BY {part.level} ORDER BY timestamp_ns DESC) = 1)"
    )


def tenants_sql(start_ns: int, end_ns: int, *, gpu_use: bool = False) -> str:
    """One row per tenant that did anything between two moments: rates per second, in order of work.

    With ``gpu_use``, asked of a session of that window, also how much of its GPUs each used.
    """
    seconds = max(end_ns - start_ns, 1) / 1e9
    parts = ",\n".join(f"{part.table}_part AS ({_part(part, start_ns, end_ns)})" for part in _PARTS)
    joins = "\n".join(f"  LEFT JOIN {part.table}_part USING (cgroup_id)" for part in _PARTS)
    rates = ",\n       ".join(
        f"CASE WHEN min({name}) >= 0 THEN try_cast(sum({name}) AS BIGINT) END AS {name}"
        if name in _LEVELS
        else f"sum({name}) / {seconds:.9f} AS {name}"
        for name in COLUMNS
    )
    # A tenant that holds no memory any more is not shown for that.
    anything = ", ".join(f"nullif({name}, 0)" if name == "gpu_bytes" else name for name in COLUMNS)
    used = GPU_USE if gpu_use else _GPU_USE_UNKNOWN
    return f"""WITH {parts},
gpu_use_part AS ({used.strip()}),
by_tenant AS (
SELECT tenant,
       {rates}
  FROM containers
{joins}
 GROUP BY tenant
HAVING coalesce({anything}) IS NOT NULL
)
SELECT t.tenant, g.* EXCLUDE (tenant), t.* EXCLUDE (tenant)
  FROM by_tenant t
  LEFT JOIN gpu_use_part g USING (tenant)
 ORDER BY coalesce(work_ns, gpu_time_low_ns) DESC NULLS LAST, launches DESC NULLS LAST, tenant"""


def _tenant(tenant: str | None) -> str:
    return f"\n   AND c.tenant = {quoted(tenant)}" if tenant is not None else ""


def kernels_sql(start_ns: int, end_ns: int, *, tenant: str | None = None, limit: int = 12) -> str:
    """Where time inside CUDA goes, by tenant and kernel."""
    return _time_inside("cuda_events", "kernel_name", "", _window(start_ns, end_ns, tenant), limit)


def collectives_sql(
    start_ns: int, end_ns: int, *, tenant: str | None = None, limit: int = 12
) -> str:
    """Where time inside NCCL goes, by tenant and operation."""
    moved = ",\n       try_cast(sum(e.bytes::HUGEINT * e.weight) AS BIGINT) AS bytes"
    return _time_inside("nccl_events", "op", moved, _window(start_ns, end_ns, tenant), limit)


def _window(start_ns: int, end_ns: int, tenant: str | None) -> str:
    return f"""e.timestamp_ns >= {start_ns}
   AND e.timestamp_ns < {end_ns}{_tenant(tenant)}"""


def _time_inside(table: str, what: str, more: str, where: str, limit: int) -> str:
    return f"""SELECT c.tenant,
       e.{what},
       sum(e.weight)::BIGINT AS calls,
       sum(e.duration_ns * e.weight)::BIGINT AS total_ns,
       max(e.duration_ns) AS longest_ns{more}
  FROM {table} e
  JOIN containers c USING (cgroup_id)
 WHERE {where}
 GROUP BY ALL
 ORDER BY total_ns DESC, calls DESC
 LIMIT {limit}"""
