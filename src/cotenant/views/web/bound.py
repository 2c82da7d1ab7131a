"""A page of one tenant: what it may be told, and how its store is opened."""

import re
from functools import cache
from pathlib import Path

from cotenant.errors import QuestionError, StoreError
from cotenant.query.derived import DERIVED, in_order
from cotenant.query.session import Limits, Session


@cache
def _words() -> re.Pattern[str]:
    names = [name for name in DERIVED if any(source.about_others for source in in_order([name]))]
    return re.compile(rf"\b({'|'.join(names)})\b" if names else r"(?!)", re.IGNORECASE)


def about_others(sql: str) -> str | None:
    """A table in the text that names other tenants; the text of a query names what it reads."""
    found = _words().search(sql)
    return found[1] if found else None


def opened(
    store: Path,
    tenant: str | None,
    limits: Limits,
    *,
    from_ns: int | None = None,
    to_ns: int | None = None,
) -> Session:
    """The store, narrowed to the tenant; an unknown one is not told whom else there is."""
    try:
        return Session(store, tenant=tenant, limits=limits, from_ns=from_ns, to_ns=to_ns)
    except QuestionError as error:
        raise StoreError(f"nothing was recorded of tenant {tenant} yet") from error
