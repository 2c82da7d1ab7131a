"""Narrowing a session to one tenant."""

import difflib
from typing import Any

from cotenant.errors import QuestionError


def select_tenant(connection: Any, text: str) -> tuple[int, ...]:
    """Fill ``tenant.cgroups`` with the cgroups that the text means; QuestionError if none."""
    # Most questions are about all tenants, and should not wait for what this one needs.
    from cotenant.identity.select import tenant_predicate

    predicate, params = tenant_predicate(text)
    found = connection.execute(
        f"SELECT cgroup_id FROM containers WHERE {predicate}", params
    ).fetchall()
    if not found:
        raise QuestionError(_nobody(connection, text))
    connection.execute("CREATE SCHEMA IF NOT EXISTS tenant")
    connection.execute("CREATE OR REPLACE TABLE tenant.cgroups (cgroup_id BIGINT)")
    values = ", ".join(f"({cgroup_id})" for (cgroup_id,) in found)
    connection.execute(f"INSERT INTO tenant.cgroups VALUES {values}")
    return tuple(cgroup_id for (cgroup_id,) in found)


def _nobody(connection: Any, text: str) -> str:
    rows = connection.execute("SELECT DISTINCT tenant FROM containers ORDER BY tenant").fetchall()
    names = [name for (name,) in rows]
    if not names:
        return f"there is no tenant {text}: the store knows no tenant yet"
    near = difflib.get_close_matches(text, names, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else "see `cotenant tenants`"
    return f"there is no tenant {text}; {hint}"
