"""What was recorded of operations that a GPU was given: to be matched with a profiler's file."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cotenant.errors import QuestionError
from cotenant.profiles.kernel_names import base_name
from cotenant.profiles.operations import GRAPH, KINDS, LAUNCH, SET, Bools, Ints, shape_of

MOST_ROWS: Final = 20_000_000
_OPS: Final = ", ".join(f"'{kind}'" for kind in KINDS)
COUNT: Final = f"select count(*) as rows from cuda_events where op in ({_OPS})"
ROWS: Final = f"""
with known as (
    select node, pid, min(gpu) as gpu
    from cuda_events
    where gpu is not null
    group by node, pid
    having count(distinct gpu) = 1
)
select
    e.node, c.tenant, e.cgroup_id, e.pid, e.tid, e.timestamp_ns, coalesce(e.gpu, k.gpu) as gpu,
    e.op, e.kernel_name, e.direction,
    case when e.op = 'launch' then
        coalesce(try(e.grid_x::bigint * e.grid_y * e.grid_z * e.block_x * e.block_y * e.block_z), 0)
    else coalesce(e.bytes, 0) end as size,
    coalesce(e.grid_x, 0)::bigint as grid_x, coalesce(e.grid_y, 0)::bigint as grid_y,
    coalesce(e.grid_z, 0)::bigint as grid_z, coalesce(e.block_x, 0)::bigint as block_x,
    coalesce(e.block_y, 0)::bigint as block_y, coalesce(e.block_z, 0)::bigint as block_z,
    coalesce(e.gpu_ns_source = 'imported', false) as imported
from cuda_events e
join containers c using (cgroup_id)
left join known k on k.node = e.node and k.pid = e.pid
where e.op in ({_OPS}) and coalesce(e.result, 0) = 0
order by e.node, e.pid, e.tid, e.timestamp_ns
"""


@dataclass(frozen=True, slots=True)
class RecordedProcess:
    """A process that was recorded, and where its rows are."""

    node: str
    pid: int
    tenant: str
    rows: slice


@dataclass(frozen=True, slots=True)
class Recorded:
    """Rows in order of node, process, thread and time."""

    rows: Any  # A pyarrow.Table.
    called: Ints
    thread: Ints
    kind: Ints
    name: Ints  # A place in the given names; -1 where it is none of them.
    value: Ints  # Of a launch its shape, else bytes.
    processes: list[RecordedProcess]

    @classmethod
    def of(cls, rows: Any, names: list[str]) -> "Recorded":
        """From rows of the query; ``names`` are those of the file."""
        number = {name: place for place, name in enumerate(names)}
        op = _codes(rows["op"], {kind: place for place, kind in enumerate(KINDS)})
        kernel = _codes(rows["kernel_name"], number, base_name)
        direction = _codes(rows["direction"], number)
        sides = [f"{of}_{axis}" for of in ("grid", "block") for axis in "xyz"]
        shape = shape_of(rows[side].to_numpy() for side in sides)
        bytes_ = rows["size"].to_numpy()
        name = np.where(op == LAUNCH, kernel, direction)
        name = np.where(op == SET, number.get("", -1), np.where(op == GRAPH, -1, name))
        return cls(
            rows=rows,
            called=rows["timestamp_ns"].to_numpy(),
            thread=rows["tid"].to_numpy().astype(np.int64),
            kind=op,
            name=name,
            value=np.where(op == LAUNCH, shape, np.where(op == GRAPH, 0, bytes_)),
            processes=_processes(rows),
        )


def check_count(count: int) -> None:
    """Raise QuestionError if these are more rows than fit in memory."""
    if count > MOST_ROWS:
        raise QuestionError(
            f"{count:,} operations were recorded in that time, more than {MOST_ROWS:,}; "
            "name a shorter one with --from and --to, or the --tenant"
        )


def _codes(column: Any, number: dict[str, int], made: Any = str) -> Ints:
    """Numbers of the values; -1 for others, and for NULL."""
    encoded = column.combine_chunks().dictionary_encode()
    values = [number.get(made(v), -1) if v is not None else -1 for v in
              encoded.dictionary.to_pylist()]  # fmt: skip
    places = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
    found: Ints = np.array([*values, -1], np.int64)[places.astype(np.int64)]
    return found


def _processes(rows: Any) -> list[RecordedProcess]:
    if not rows.num_rows:
        return []
    node = rows["node"].combine_chunks().dictionary_encode().indices.to_numpy()
    pid = rows["pid"].to_numpy()
    new: Bools = np.append(True, (np.diff(node) != 0) | (np.diff(pid) != 0))
    first = np.flatnonzero(new).tolist()
    return [
        RecordedProcess(
            rows["node"][a].as_py(), rows["pid"][a].as_py(), rows["tenant"][a].as_py(), slice(a, b)
        )
        for a, b in zip(first, [*first[1:], rows.num_rows], strict=True)
    ]
