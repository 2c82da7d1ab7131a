"""``--tenant X``: which rows of ``containers`` a user means, and which are excluded.

X may be a tenant, a container's name, a pod, ``namespace/pod``, a unit with or without
its suffix, a job, or the beginning of a container id. The first of these readings that
matches any row is the one that counts, so that a name never also means an id.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

PREFIX_MIN: Final = 4

Row = Mapping[str, object]

# The same readings as `reading`, in the same order.
_READING_SQL: Final = """case
    when tenant = $tenant then 1
    when name = $tenant or pod = $tenant or unit = $tenant or slurm_job = $tenant
      or "user" = $tenant or namespace || '/' || pod = $tenant then 2
    when unit like '%.%' and regexp_replace(unit, '[.][a-z]+$', '') = $tenant then 3
    when container_id = $tenant or inner_container_id = $tenant then 4
    when length($tenant) >= 4 and starts_with(container_id, $tenant) then 5
    when length($tenant) >= 4 and starts_with(inner_container_id, $tenant) then 6
end"""

TENANT_SQL: Final = f"""cgroup_id in (
  select cgroup_id
    from (select cgroup_id, {_READING_SQL} as reading from containers)
   where reading is not null
 qualify reading = min(reading) over ()
)"""


def tenant_predicate(text: str) -> tuple[str, dict[str, str]]:
    """A DuckDB predicate on ``cgroup_id`` for any event table, and its parameters."""
    return TENANT_SQL, {"tenant": text}


def reading(row: Row, text: str) -> int | None:
    """In which way, from 1, ``text`` means this row; None if in no way."""
    namespace, pod = row.get("namespace"), row.get("pod")
    unit = row.get("unit")
    ids = (str(row.get("container_id") or ""), str(row.get("inner_container_id") or ""))
    exact = [row.get(key) for key in ("name", "pod", "unit", "slurm_job", "user")]
    if namespace and pod:
        exact.append(f"{namespace}/{pod}")
    if text == row.get("tenant"):
        return 1
    if text in exact:
        return 2
    if isinstance(unit, str) and "." in unit and unit.rpartition(".")[0] == text:
        return 3
    if text in ids:
        return 4
    if len(text) >= PREFIX_MIN:
        for rank, container_id in enumerate(ids, 5):
            if container_id.startswith(text):
                return rank
    return None


def matching_rows(rows: Iterable[Row], text: str) -> list[Row]:
    """The rows that ``--tenant text`` means."""
    if not text:
        return []
    read = [(rank, row) for row in rows if (rank := reading(row, text)) is not None]
    best = min((rank for rank, _ in read), default=0)
    return [row for rank, row in read if rank == best]


def excluded(row: Row, patterns: Sequence[str]) -> bool:
    """Whether an ``exclude`` pattern, a shell glob, covers this row.

    It is held against the tenant, the names, the namespace, the unit, the user, the job
    and the path, so that an operator may write whichever is known.
    """
    keys = ("tenant", "name", "pod", "namespace", "unit", "user", "slurm_job", "cgroup_path")
    values = [value for key in keys if isinstance(value := row.get(key), str)]
    if row.get("namespace") and row.get("pod"):
        values.append(f"{row['namespace']}/{row['pod']}")
    return any(fnmatchcase(value, pattern) for pattern in patterns for value in values)
