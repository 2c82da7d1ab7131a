"""One row of the ``containers`` table, from all that is known about a cgroup."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final

from cotenant.identity.naming.names import Names
from cotenant.identity.path.model import Identity, Owner, Trust
from cotenant.identity.tenant import Tenancy, TenantRule, pod_stands, tenancy
from cotenant.schema.dimensions import CONTAINERS

COLUMNS: Final = tuple(column.name for column in CONTAINERS.columns)

Row = dict[str, object]

_UNTOLD_MAX: Final = 3  # Calls of `forget` that a cgroup without a path survives.


@dataclass(slots=True)
class Cgroup:
    """A cgroup that was seen, in one hierarchy; ``path`` is None until its birth is told."""

    hierarchy: int
    kernel_id: int
    cgroup_id: int
    path: str | None = None
    identity: Identity | None = None
    created_ns: int | None = None
    removed_ns: int | None = None
    owner_uid: int | None = None
    sharing_mode: str | None = None
    referenced: bool = False  # An event carries its id.
    untold: int = 0  # How many calls of `Ledger.forget` found it without a path.

    def lived_with(self, other: "Cgroup") -> bool:
        """Whether both lived at one time, as far as is known; a path may be used again."""
        return not (self._ended_before(other) or other._ended_before(self))

    def is_past(self, before_ns: int) -> bool:
        """Whether to forget it: it was removed before this time, or nobody tells where it is."""
        self.untold += self.path is None
        return (self.removed_ns or before_ns) < before_ns or self.untold > _UNTOLD_MAX

    def outermost(self, owner_uid: Callable[[int, str], int | None]) -> str:
        """The path of the outermost cgroup above that is somebody's, or that a user was given."""
        if self.identity is None:
            return "/"
        path = self.identity.owner_path
        return next((over for over in above(path) if owner_uid(self.hierarchy, over)), path)

    def _ended_before(self, other: "Cgroup") -> bool:
        if self.removed_ns is None or other.created_ns is None:
            return False
        return self.removed_ns < other.created_ns


@dataclass(slots=True)
class Subject:
    """What names are about: the container, job or user that several cgroups belong to."""

    path: str
    names: Names | None = None
    named_ns: int | None = None
    live: int = 0
    ended: bool = False
    members: set[int] = field(default_factory=set)  # By cgroup_id.

    def named(self, names: Names, named_ns: int) -> None:
        """Names came; the time of the first ones stays."""
        self.names = names
        if self.named_ns is None:
            self.named_ns = named_ns


def blank_row(cgroup_id: int, tenant: str, node: str, boot_id: str) -> Row:
    """A row that says only whose it is."""
    row: Row = dict.fromkeys(COLUMNS)
    row |= {"cgroup_id": cgroup_id, "container_id": tenant, "tenant": tenant}
    row |= {"node": node, "boot_id": boot_id, "scope": "node"}
    return row


def known_row(
    row: Row,
    cgroup: Cgroup,
    subject: Subject | None,
    *,
    rules: Sequence[TenantRule],
    claimed_by: int | None,
) -> Row:
    """The blank row filled with everything that path and names tell."""
    identity, names = cgroup.identity or Identity(), subject.names if subject else None
    path = cgroup.path or "/"
    whose = tenancy(identity, names, path=path, rules=rules)
    if claimed_by is not None:
        # A user owns the directory above: whatever is called a container there is the user's.
        whose = Tenancy(f"user/{claimed_by}", f"user/{claimed_by}", Trust.USER)
    inner = identity.container_id
    row |= {
        "cgroup_path": path,
        "container_id": whose.container_id,
        "inner_container_id": inner if inner != whose.container_id else None,
        "runtime": _runtime(identity, names),
        "unit": identity.unit,
        "tenant": whose.tenant,
        "trust": str(whose.trust),
        "scope": whose.scope,
        "user": _user(identity, names),
        "named_ns": subject.named_ns if subject else None,
    }
    if identity.job and identity.job.runtime == "slurm":
        row["slurm_job"] = (names and names.slurm_job) or identity.job.job_id
        row["slurm_step"] = identity.job.slurm_step
        row["slurm_account"] = names.slurm_account if names else None
    if pod_stands(identity, names):
        row["pod_uid"], row["qos"] = identity.layers[0].pod_uid, identity.layers[0].qos
    if names:
        row |= _named(names)
    return row


def _runtime(identity: Identity, names: Names | None) -> str:
    """The outermost runtime; the path of some does not tell which."""
    if identity.job:
        return identity.job.runtime
    if names and names.confirmed and names.runtime:
        return names.runtime
    return identity.layers[0].runtime if identity.layers else identity.runtime


def _user(identity: Identity, names: Names | None) -> str | None:
    if names and names.user:
        return names.user
    uid = identity.user_uid
    if uid is None and identity.job:
        uid = identity.job.slurm_uid
    return None if uid is None else str(uid)


def _named(names: Names) -> Row:
    row: Row = {}
    if names.confirmed:
        row |= {"name": names.name, "image": names.image}
        if names.labels:
            row["labels"] = json.dumps(dict(names.labels), ensure_ascii=False)
    if names.pod_confirmed:
        row |= {"pod": names.pod, "namespace": names.namespace}
    return row


def owner_is_plain(identity: Identity) -> bool:
    """Whether the owner is one that a user with a directory of their own could imitate."""
    return identity.owner in (Owner.CONTAINER, Owner.PATH)


def above(path: str) -> list[str]:
    """The paths of all directories above this one but the root, outermost first."""
    return [path[:i] for i, letter in enumerate(path) if letter == "/" and i]


def given_row(
    cgroup: Cgroup,
    subject: Subject | None,
    rules: Sequence[TenantRule],
    claimed_by: int | None,
    given: Sequence[str],
) -> Row:
    """The row with what the operator and the host's runtimes and schedulers call its owner.

    Left out is what tenants call themselves: labels, tenants made of them, names of containers
    that run within a user's slice or a job, and what of the path lies below the owner's, or below
    a directory that was ``given`` to a user.
    """
    path = cgroup.identity.owner_path if cgroup.identity else "/"
    cgroup = replace(cgroup, path=next((p for p in above(path) if p in given), path))
    names = subject.names if subject else None
    if subject and names:
        own = cgroup.identity is not None and cgroup.identity.owner in (Owner.USER, Owner.JOB)
        names = replace(names, labels=(), name=None if own else names.name)
        subject = replace(subject, names=names)
    return known_row({}, cgroup, subject, rules=rules, claimed_by=claimed_by)


def excluded(row: Mapping[str, object], patterns: Sequence[str]) -> bool:
    """Whether an ``exclude`` pattern, a shell glob, covers this row.

    It is held against the tenant, the names, the namespace, the unit, the user, the job
    and the path, so that an operator may write whichever is known.
    """
    keys = ("tenant", "name", "pod", "namespace", "unit", "user", "slurm_job", "cgroup_path")
    values = [value for key in keys if isinstance(value := row.get(key), str)]
    if row.get("namespace") and row.get("pod"):
        values.append(f"{row['namespace']}/{row['pod']}")
    return any(fnmatchcase(value, pattern) for pattern in patterns for value in values)
