"""Which cgroups are the outermost of a tenant: the key of whatever is divided among tenants."""

from typing import Final

from cotenant.identity.path.model import Identity, Owner
from cotenant.identity.path.parser import parse_path
from cotenant.identity.rows import owner_is_plain
from cotenant.schema.constants import TenantFlags

_PLACES: Final = (Owner.UNIT, Owner.USER)


def standing(path: str, *, owner_uid: int = 0, confirmed: bool = False) -> TenantFlags | None:
    """What is to be said of a cgroup; None if it is not the outermost one of its tenant.

    ``owner_uid`` is the user whom its directory belongs to, and ``confirmed`` says that a runtime
    knows it as a container of its own.
    """
    identity = parse_path(path)
    if identity.owner is Owner.ROOT:
        return None
    if identity.owner_path != path or (identity.claimed and not confirmed):
        # Given to a user: whatever that user makes in it is the user's.
        return TenantFlags.CLOSED if owner_uid and owner_is_plain(identity) else None
    flags = TenantFlags(0)
    if identity.owner in _PLACES:
        flags |= TenantFlags.PLACE
    if identity.names_workload:
        flags |= TenantFlags.WORKLOAD
    if owner_uid or _holds_no_other(identity):
        flags |= TenantFlags.CLOSED
    return flags


def _holds_no_other(identity: Identity) -> bool:
    """Whether nobody else's cgroups are made below: a unit may be that of a runtime."""
    if identity.owner is Owner.CONTAINER:
        return identity.layers[0].container_id is not None
    return identity.owner in (Owner.USER, Owner.JOB)
