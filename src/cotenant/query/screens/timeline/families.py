"""How the timeline shows each event family."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Family:
    """How rows of one table become slices."""

    name: str
    title: str  # Of its lanes.
    label: str  # SQL: what a slice is called.
    pid: str = "NULL::INTEGER"  # SQL: lanes are split by process,
    stream: str = "NULL::BIGINT"  # and by stream, where the family has them.
    duration: str = "coalesce(duration_ns, 0)"
    where: str = "true"

    @property
    def table(self) -> str:
        """The table it reads."""
        return f"{self.name}_events"

    def rows(self) -> str:
        """SQL: one row per slice, under the names that every query here uses."""
        return (
            f"SELECT cgroup_id, {self.pid} AS pid, {self.stream} AS stream, "
            f"timestamp_ns AS began_ns, {self.duration} AS d, {self.label} AS label, tid, weight "
            f"FROM {self.table} WHERE {self.where}"
        )


# Voluntary sleep is not shown: only waiting for a CPU is.
_WAITS: Final = "NOT (op = 'switch' AND coalesce(state, '') NOT ILIKE 'r%')"

_ALL: Final = (
    Family("cuda", "CUDA", "kernel_name", pid="pid", stream="stream"),
    Family("nccl", "NCCL", "op", pid="pid"),
    Family("host", "CPU", "op", where=_WAITS),
    Family("io", "Disk", "concat_ws(' ', op, device)"),
    Family("net", "Network", "op"),
    Family("tcp", "TCP", "op", duration="0::BIGINT"),
)

FAMILIES: Final = {family.name: family for family in _ALL}
