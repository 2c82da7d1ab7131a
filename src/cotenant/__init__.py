"""On a shared GPU host, ask which tenant did what."""

from typing import TYPE_CHECKING, Any

from cotenant.release import VERSION as __version__

if TYPE_CHECKING:
    from pathlib import Path

    from cotenant.query.engine.session import Session

__all__ = ["__version__", "open_store"]


def open_store(path: "Path | str", **window: Any) -> "Session":
    """A ``cotenant.query.engine.session.Session``: it answers read-only SQL about a store.

    >>> with open_store("/var/lib/cotenant", tenant="ml/train") as session:  # doctest: +SKIP
    ...     table = session.ask("SELECT count(*) FROM cuda_events").table
    """
    # Recording must not wait for DuckDB.
    from cotenant.query.engine.session import Session

    return Session(path, **window)
