"""Everything in a store as slices on tracks, for Perfetto."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from cotenant.query.engine.session import Session
from cotenant.query.text.sql import quoted
from cotenant.schema import TABLES
from cotenant.schema.families import FAMILIES, GPU_FAMILIES, KERNEL_FAMILIES
from cotenant.schema.family import THREAD, Family


@dataclass(frozen=True, slots=True)
class TraceSource:
    """A table that slices come from, and the SQL that makes them.

    The columns are tenant, track, name, start_ns, duration_ns (NULL: an instant), value (of a
    counter track, else NULL), then a slice's arguments. No two sources share a track; on a track,
    slices are ordered by their start.
    """

    table: str
    sql: str


# Columns that slices have anyway, or that say nothing of one.
_TOLD: Final = frozenset({"timestamp_ns", "duration_ns", "cgroup_id", "comm", "tid", "weight"})


def _family(family: Family) -> TraceSource:
    """A slice for each event."""
    table = family.table.name
    track = family.track or f"{THREAD} || {quoted(f' in {family.title}')}"
    took = "duration_ns" if family.has_duration else "NULL::bigint as duration_ns"
    own = tuple(column.name for column in family.table.columns if column.name not in _TOLD)
    return TraceSource(
        table,
        f"""
select tenant, {track} as track, {family.slice} as name,
       timestamp_ns as start_ns, {took}, NULL::bigint as value, {", ".join(family.arguments or own)}
from {table}
join (select cgroup_id, tenant from containers) using (cgroup_id)
order by start_ns, duration_ns desc
""",
    )


_WORK: Final = TraceSource(
    "cuda_events",
    """
select tenant,
       coalesce(gpu, 'GPU') || ' stream ' || stream::varchar || ' of ' || pid::varchar as track,
       'work in flight' as name, start_ns, span_ns as duration_ns, NULL::bigint as value,
       launches, copies, copied_bytes, proof_api, proven
from spans
order by start_ns, span_ns desc
""",
)
_MEMORY: Final = TraceSource(
    "gpu_memory",
    """
select tenant, 'memory on ' || coalesce(gpu, 'its GPU') as track, 'bytes' as name,
       timestamp_ns as start_ns, NULL::bigint as duration_ns, bytes as value
from held_memory
where bytes is not null
order by timestamp_ns
""",
)
# Also those that were told after the window, or that may be anybody's.
_HOLES: Final = TraceSource(
    "losses",
    """
select coalesce(tenant, 'unknown') as tenant, 'unseen ' || family as track,
       reason as name, from_ns as start_ns, to_ns - from_ns as duration_ns,
       NULL::bigint as value, unseen, lost, shed
from whole.holes
left join (select cgroup_id, tenant from containers) using (cgroup_id)
where from_ns < $to and to_ns >= $from
order by start_ns, duration_ns desc
""",
)
SOURCES: Final = (
    *(_family(FAMILIES[name]) for name in GPU_FAMILIES),
    _WORK,
    *(_family(FAMILIES[name]) for name in KERNEL_FAMILIES),
    _MEMORY,
    _HOLES,
)


def slices(session: Session) -> Iterator[Any]:
    """``pyarrow.RecordBatch`` es of slices, ordered by start within each source."""
    there = {segment.table for segment in session.segments} & set(TABLES)
    for source in SOURCES:
        if source.table in there:
            bounds = session.bounds if source is _HOLES else None
            with session.stream(source.sql, bounds) as (batches, _):
                yield from batches


def expected(session: Session) -> int:
    """About how many slices there are."""
    tables = [source.table for source in SOURCES]
    return sum(s.rows * tables.count(s.table) for s in session.segments)
