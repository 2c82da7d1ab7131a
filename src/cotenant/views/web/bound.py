"""A page of one tenant: how its store is opened."""

from collections.abc import Iterable
from pathlib import Path

from cotenant.errors import QuestionError, StoreError
from cotenant.query.engine.session import QueryLimits, Session


def opened(
    store: Path,
    tenant: str | None,
    limits: QueryLimits,
    *,
    nodes: Iterable[str] = (),
    from_ns: int | None = None,
    to_ns: int | None = None,
) -> Session:
    """The store, narrowed to the tenant; an unknown one is not told whom else there is."""
    try:
        return Session(
            store, tenant=tenant, limits=limits, nodes=nodes, from_ns=from_ns, to_ns=to_ns
        )
    except QuestionError as error:
        if tenant is None:
            raise StoreError(str(error)) from error
        raise StoreError(f"no rows of tenant {tenant} yet; see `cotenant tenants`") from error
