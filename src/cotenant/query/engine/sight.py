"""Names of tenants where several nodes are in sight.

Docker's ``train`` on two nodes are two tenants that happen to be called the same, so each is shown
with its node: ``train@gpu-7``. A job or pod was named by a scheduler of the whole cluster, and a
tenant of an operator's rule by the operator: those are one tenant, wherever they run.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from cotenant.store.manifest import Segment

# Of recordings that did not tell: what a cluster's scheduler named, and nothing else.
_FLEET: Final = """coalesce(scope, CASE
    WHEN tenant = namespace || '/' || pod OR tenant = 'slurm/' || slurm_job
      OR (runtime IN ('pbs', 'nomad') AND starts_with(tenant, runtime || '/')) THEN 'fleet'
    ELSE 'node'
END)"""


@dataclass(frozen=True, slots=True)
class Sight:
    """All nodes, as a session must know of them that reads some: it answers as one of all would."""

    several: bool
    last_ns: int | None = None  # Of the newest row.
    cgroups: tuple[int, ...] | None = None  # Whom the session's tenant is; None: it looks itself.


def several(segments: Iterable[Segment]) -> bool:
    """Whether these are of more than one node."""
    found: set[str] = set()
    for segment in segments:
        found.add(segment.path.split("/", 3)[2])
        if len(found) > 1:
            return True
    return False


def name_with_nodes(connection: Any) -> None:
    """Have ``containers`` call tenants of one node by their node, too."""
    connection.execute(
        "UPDATE containers SET tenant = tenant || '@' || node "
        f"WHERE {_FLEET} = 'node' AND tenant IS NOT NULL"
    )
