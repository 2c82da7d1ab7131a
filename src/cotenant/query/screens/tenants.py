"""Every cgroup of a store, with its events by family."""

from collections.abc import Iterable
from pathlib import Path

from cotenant.query.engine.answer import Answer
from cotenant.query.engine.session import Session
from cotenant.schema.families import FAMILIES


def _sql(*, everyone: bool) -> str:
    seen = "\n  union all ".join(
        f"select cgroup_id, '{family}' as family, sum(weight)::bigint as events,\n"
        f"         min(timestamp_ns) as first_ns, max(timestamp_ns) as last_ns\n"
        f"    from {family}_events group by cgroup_id"
        for family in FAMILIES
    )
    counts = ",\n".join(
        f"       coalesce(sum(events) filter (family = '{family}'), 0)::bigint as {family}"
        for family in FAMILIES
    )
    return f"""with seen as (
  {seen}
)
select tenant, container_id, name, pod, namespace, unit, slurm_job, cgroup_id, node,
       coalesce(min(first_ns), any_value(created_ns)) as first_seen_ns,
       coalesce(max(last_ns), any_value(removed_ns)) as last_seen_ns,
{counts}
  from containers {"left" if everyone else "inner"} join seen using (cgroup_id)
 group by all
 order by sum(events) desc nulls last, tenant, cgroup_id"""


def tenants(session: Session, *, everyone: bool = False) -> Answer:
    """One row per cgroup with events in the session's window; with ``everyone``, the others too."""
    return session.ask(_sql(everyone=everyone))


def meant(store: Path | str, text: str, nodes: Iterable[str] = ()) -> frozenset[str]:
    """The tenants that ``--tenant text`` selects, of these nodes or of all; else QuestionError."""
    with Session(store, tenant=text, nodes=nodes) as session:
        rows = session.ask("SELECT DISTINCT tenant FROM containers").rows()
    return frozenset(row["tenant"] for row in rows)


def silent_cgroups(session: Session, shown: int) -> int:
    """How many cgroups of the store are not shown."""
    (row,) = session.ask("select count(*) as known from containers").rows()
    return int(row["known"]) - shown
