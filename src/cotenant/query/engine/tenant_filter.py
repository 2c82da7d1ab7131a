"""``--tenant X``: which rows of ``containers`` a user means, and a session narrowed to them.

X may be a tenant, a container's name, a pod, ``namespace/pod``, a unit with or without
its suffix, a job, or the beginning of a container id. The first of these readings that
matches any row is the one that counts, so that a name never also means an id, and that an id
which a tenant gave to a cgroup within its own never also means another tenant's. Only what runtimes
make up is known by its beginning: one job's name may well be the beginning of another's. What is
none of them may be a tenant with its node where names have none, or without it where they do.
"""

import difflib
from typing import Any, Final

from cotenant.errors import QuestionError

_BEGINS_SQL: Final = (
    "regexp_full_match($tenant, '[0-9a-f]{{4,}}') and regexp_full_match({0}, '[0-9a-f]{{32,}}') "
    "and starts_with({0}, $tenant)"
)
_READING_SQL: Final = f"""case
    when tenant = $tenant then 1
    when name = $tenant or pod = $tenant or unit = $tenant or slurm_job = $tenant
      or "user" = $tenant or namespace || '/' || pod = $tenant then 2
    when unit like '%.%' and regexp_replace(unit, '[.][a-z]+$', '') = $tenant then 3
    when container_id = $tenant then 4
    when {_BEGINS_SQL.format("container_id")} then 5
    when inner_container_id = $tenant then 6
    when {_BEGINS_SQL.format("inner_container_id")} then 7
end"""

TENANT_SQL: Final = f"""cgroup_id in (
  select cgroup_id
    from (select cgroup_id, {_READING_SQL} as reading from containers)
   where reading is not null
 qualify reading = min(reading) over ()
)"""


_WITH_NODE_SQL: Final = "tenant || '@' || node = $tenant or tenant = $tenant || '@' || node"


def tenant_predicate(text: str) -> tuple[str, dict[str, str]]:
    """A DuckDB predicate on ``cgroup_id`` for any event table, and its parameters."""
    return TENANT_SQL, {"tenant": text}


# Whose holes are told, and whose counts, too. What belongs to a cgroup that nobody knows may be
# anybody's on its node. A hole is stored for a tenant's outermost cgroup, and may be of any within.
_TOUCHED: Final = """CREATE OR REPLACE TABLE tenant.touched AS
WITH own AS (
  FROM containers WHERE cgroup_id IN (SELECT cgroup_id FROM tenant.cgroups)
), parts AS (
  SELECT node, boot_id, tenant, string_split(cgroup_path, '/') AS names FROM own
), around AS (
  SELECT node, boot_id, min(tenant) AS tenant, array_to_string(names[:depth], '/') AS cgroup_path
    FROM parts, range(2, len(names)) AS d(depth) GROUP BY ALL
), found AS (
  SELECT cgroup_id, tenant, true AS counted FROM own
  UNION ALL
  SELECT cgroup_id, NULL, true FROM containers
   WHERE tenant IN ('unknown', 'unknown@' || node) AND node IN (SELECT node FROM own)
  UNION ALL
  SELECT c.cgroup_id, around.tenant, false
    FROM containers c JOIN around USING (node, boot_id, cgroup_path)
  UNION ALL
  SELECT c.cgroup_id, same.tenant, false
    FROM containers c JOIN (SELECT DISTINCT node, boot_id, container_id, tenant FROM own) same
   USING (node, boot_id, container_id)
)
SELECT cgroup_id, max(tenant) AS tenant, bool_or(counted) AS counted
  FROM found GROUP BY cgroup_id"""


def cgroups_meant(connection: Any, text: str) -> tuple[int, ...]:
    """The cgroups of ``containers`` that the text means; QuestionError if none."""
    predicate, params = tenant_predicate(text)
    found: list[tuple[int]] = []
    for condition in (predicate, _WITH_NODE_SQL):
        found = (
            found
            or connection.execute(
                f"SELECT cgroup_id FROM containers WHERE {condition}", params
            ).fetchall()
        )
    if not found:
        raise QuestionError(_unknown_tenant(connection, text))
    return tuple(cgroup_id for (cgroup_id,) in found)


def select_tenant(connection: Any, cgroups: tuple[int, ...]) -> None:
    """Fill ``tenant.cgroups`` with these, ``tenant.touched`` with those that share their holes."""
    connection.execute("CREATE SCHEMA IF NOT EXISTS tenant")
    connection.execute(
        "CREATE OR REPLACE TABLE tenant.cgroups AS "
        f"SELECT unnest({list(cgroups)}::BIGINT[]) AS cgroup_id"
    )
    connection.execute(_TOUCHED)


def _unknown_tenant(connection: Any, text: str) -> str:
    rows = connection.execute("SELECT DISTINCT tenant FROM containers ORDER BY tenant").fetchall()
    names = [name for (name,) in rows]
    if not names:
        return f"there is no tenant {text}: the store knows no tenant yet"
    near = difflib.get_close_matches(text, names, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else "see `cotenant tenants`"
    return f"there is no tenant {text}; {hint}"
