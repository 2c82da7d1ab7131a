"""Everything in a store as slices on tracks, for Perfetto."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from cotenant.query.engine.session import Session
from cotenant.schema import TABLES


@dataclass(frozen=True, slots=True)
class Source:
    """A table that slices come from, and the SQL that makes them.

    The columns are tenant, track, name, start_ns, duration_ns (NULL: an instant), value (of a
    counter track, else NULL), then a slice's arguments. No two sources share a track; on a track,
    slices are ordered by their start.
    """

    table: str
    sql: str


def _thread(table: str, name: str, more: str, suffix: str = "") -> str:
    return f"""
select c.tenant, e.comm || ' ' || e.tid::varchar || '{suffix}' as track, {name} as name,
       e.timestamp_ns as start_ns, e.duration_ns, NULL::bigint as value, {more}
from {table} e
join containers c using (cgroup_id)
order by e.timestamp_ns, e.duration_ns desc
"""


SOURCES: Final = (
    Source(
        "cuda_events",
        _thread(
            "cuda_events",
            "case when e.op in ('launch', 'graph_launch') then e.kernel_name else e.api end",
            "e.op, e.pid, e.stream, e.bytes, e.direction, nullif(e.result, 0) as error",
        ),
    ),
    Source(
        "nccl_events",
        _thread("nccl_events", "e.op", "e.pid, e.bytes, e.comm_hash, e.rank, e.nranks", " in NCCL"),
    ),
    Source(
        "cuda_events",
        """
select tenant,
       coalesce(gpu, 'GPU') || ' stream ' || stream::varchar || ' of ' || pid::varchar as track,
       'work in flight' as name, start_ns, span_ns as duration_ns, NULL::bigint as value,
       launches, copies, copied_bytes, proof_api, proven
from spans
order by start_ns, span_ns desc
""",
    ),
    Source(
        "host_events",
        _thread(
            "host_events",
            "e.op || coalesce(' ' || e.state, '')",
            "e.cpu, e.peer_pid, e.state",
            " on the host",
        ),
    ),
    Source(
        "io_events",
        """
select c.tenant, 'disk ' || e.device as track, e.op as name, e.timestamp_ns as start_ns,
       e.duration_ns, NULL::bigint as value, e.pid, e.bytes, e.queue_ns, e.attribution
from io_events e
join containers c using (cgroup_id)
order by e.timestamp_ns, e.duration_ns desc
""",
    ),
    Source(
        "net_events",
        _thread("net_events", "e.op", "e.pid, e.bytes, e.family, e.remote", " on the network"),
    ),
    Source(
        "tcp_events",
        """
select c.tenant, 'TCP' as track, e.op as name, e.timestamp_ns as start_ns,
       NULL::bigint as duration_ns, NULL::bigint as value, e.remote_ip, e.remote_port, e.state
from tcp_events e
join containers c using (cgroup_id)
order by e.timestamp_ns
""",
    ),
    Source(
        "gpu_memory",
        """
select tenant, 'memory on ' || coalesce(gpu, 'its GPU') as track, 'bytes' as name,
       timestamp_ns as start_ns, NULL::bigint as duration_ns, bytes as value
from held_memory
where bytes is not null
order by timestamp_ns
""",
    ),
)


def slices(session: Session) -> Iterator[Any]:
    """``pyarrow.RecordBatch`` es of slices, ordered by start within each source."""
    there = {segment.table for segment in session.segments} & set(TABLES)
    for source in SOURCES:
        if source.table in there:
            with session.stream(source.sql) as (batches, _):
                yield from batches


def expected(session: Session) -> int:
    """About how many slices there are."""
    tables = [source.table for source in SOURCES]
    return sum(s.rows * tables.count(s.table) for s in session.segments)
