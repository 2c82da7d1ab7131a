"""One tenant per cgroup: the name to show, and who vouches for it.

The rule, read from the top; the first line that applies decides:

1. an operator's :class:`TenantRule`
2. a user's slice                      ``user/<name>``
3. a batch job                         ``slurm/<job>``, ``pbs/<job>``, ...
4. a pod that the kubelet confirmed    ``<namespace>/<pod>``
5. a container that its runtime knows  its name
6. a systemd unit                      the unit
7. a pod known by its uid              ``pod/<uid>``
8. a container known by its id         the first 12 characters of the id
9. the root cgroup                     ``host``
10. anything else                      the path

Only the outermost name, the one that the host gave, takes part. What stands below it
is a label.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from cotenant.identity.naming.names import Names
from cotenant.identity.path.model import Identity, Owner, Trust

HOST: Final = "host"
KERNEL: Final = "kernel"
UNKNOWN: Final = "unknown"
_RESERVED: Final = frozenset({HOST, KERNEL, UNKNOWN})
_CLUSTER_JOBS: Final = frozenset({"slurm", "pbs", "nomad"})  # Numbered by their cluster.
_UNIT_ENDINGS: Final = (".service", ".scope", ".slice")
_NO_NAMES: Final = Names("none")

Scope = Literal["node", "fleet"]  # Where the tenant of this name is one and the same.


@dataclass(frozen=True, slots=True)
class TenantRule:
    """An operator's rule: where every given pattern matches, this is the tenant.

    Patterns are shell globs. ``label`` is ``key`` or ``key=pattern``. ``tenant`` may hold
    ``{namespace}``, ``{pod}``, ``{name}``, ``{unit}``, ``{user}``, ``{job}``,
    ``{account}`` and ``{label}``, the value of the rule's label.
    """

    tenant: str
    label: str | None = None
    namespace: str | None = None
    slurm_account: str | None = None
    unit: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Tenancy:
    """Whose a cgroup is: the columns of ``containers`` that the rule decides."""

    tenant: str
    container_id: str
    trust: Trust
    scope: Scope = "node"


def tenancy(
    identity: Identity,
    names: Names | None = None,
    *,
    path: str = "/",
    rules: Sequence[TenantRule] = (),
) -> Tenancy:
    """Apply the rule to what a path says and what is known about it by name."""
    known = names or _NO_NAMES
    tenant, scope = _default(identity, known), _scope(identity, known)
    container_id = _container_id(identity, known) or tenant
    for rule in rules:
        if (named := _apply(rule, identity, known, path)) is not None:
            tenant, scope = named, "fleet"
            break
    return Tenancy(tenant, container_id, trust(identity, known), scope)


def trust(identity: Identity, names: Names | None) -> Trust:
    """Who vouches: a runtime that knows the cgroup turns unverified into host."""
    if identity.trust is not Trust.UNVERIFIED or names is None or not names.confirmed:
        return identity.trust
    claims_pod = bool(identity.layers and identity.layers[0].pod_uid)
    return Trust.UNVERIFIED if claims_pod and not names.pod_confirmed else Trust.HOST


def pod_stands(identity: Identity, names: Names | None) -> bool:
    """Whether the pod in the path may be shown: no source that knows the container denies it."""
    if not identity.layers or identity.layers[0].pod_uid is None:
        return False
    if names is None or not names.confirmed or names.pod_confirmed:
        return True
    return names.pod_uid == identity.layers[0].pod_uid


def _default(identity: Identity, names: Names) -> str:
    if identity.owner is Owner.ROOT:
        return HOST
    if identity.owner is Owner.USER:
        return f"user/{names.user or identity.user_uid}"
    if identity.owner is Owner.JOB and identity.job:
        job = identity.job
        return f"{job.runtime}/{names.slurm_job or job.job_id}"
    if names.pod_confirmed and names.pod and identity.layers:
        return f"{names.namespace}/{names.pod}"
    if names.confirmed and names.name and identity.layers:
        return _container_name(identity, names.name)
    if identity.owner is Owner.UNIT and identity.unit:
        return identity.unit
    if identity.layers:
        return _unnamed(identity, names)
    return identity.owner_path


def _scope(identity: Identity, names: Names) -> Scope:
    """Who gave the name: a scheduler of the whole cluster, or this host alone."""
    if identity.owner is Owner.JOB and identity.job:
        return "fleet" if identity.job.runtime in _CLUSTER_JOBS else "node"
    if identity.owner in (Owner.ROOT, Owner.USER):
        return "node"
    return "fleet" if names.pod_confirmed and names.pod and identity.layers else "node"


def _unnamed(identity: Identity, names: Names) -> str:
    layer = identity.layers[0]
    if layer.pod_uid and pod_stands(identity, names):
        return f"pod/{layer.pod_uid}"
    container_id = layer.container_id or layer.path
    if len(container_id) > 32:
        return container_id[:12]
    return _container_name(identity, container_id)


def _container_name(identity: Identity, name: str) -> str:
    """A container may be called anything; it may not pass for another kind of tenant."""
    if name in _RESERVED or name.endswith(_UNIT_ENDINGS) or "/" in name:
        return f"container:{name}"
    return name


def _container_id(identity: Identity, names: Names) -> str | None:
    """The id of the outermost container, where the host vouches for it."""
    if not identity.layers or identity.owner in (Owner.USER, Owner.JOB):
        return None
    if identity.owner is Owner.UNIT and not names.confirmed:
        return None
    return identity.layers[0].container_id or identity.layers[0].pod_uid


def _apply(rule: TenantRule, identity: Identity, names: Names, path: str) -> str | None:
    """The tenant by this rule; None where it does not apply."""
    values = {
        "namespace": names.namespace if names.pod_confirmed else None,
        "account": names.slurm_account,
        "unit": identity.unit,
    }
    patterns = {"namespace": rule.namespace, "account": rule.slurm_account, "unit": rule.unit}
    given = [(pattern, values[key]) for key, pattern in patterns.items() if pattern is not None]
    if rule.path is not None:
        given.append((rule.path, path))
    label = None
    if rule.label is not None:
        key, _, pattern = rule.label.partition("=")
        label = names.label(key)
        given.append((pattern or "*", label))
    if not given or not all(value is not None and fnmatchcase(value, p) for p, value in given):
        return None
    values |= {
        "pod": names.pod if names.pod_confirmed else None,
        "name": names.name,
        "user": names.user,
        "job": names.slurm_job or (identity.job.job_id if identity.job else None),
        "label": label,
    }
    tenant = rule.tenant
    for key, value in values.items():
        tenant = tenant.replace(f"{{{key}}}", value or UNKNOWN)
    return tenant
