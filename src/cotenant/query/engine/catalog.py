"""Makes derived tables in a session's database, when a question names them."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from cotenant.query.derived.registry import DERIVED, Ask, Derived, in_order


class Catalog:
    """What is made of a session's tables besides them; safe to use from threads.

    ``ask_all`` asks without regard to the session's tenant, in its time.
    """

    def __init__(self, connection: Any, ask_all: Callable[[str], Any], tenant: bool) -> None:
        self._connection = connection
        self._ask_all = ask_all
        self._tenant = tenant
        self._made: set[str] = set()
        self._lock = threading.Lock()

    def forget(self) -> None:
        """The tables have changed: what was made of them is made anew when asked for."""
        with self._lock:
            self._made.clear()

    def make(self, names: Iterable[str]) -> None:
        """Make those of the names that are derived, and what they need."""
        with self._lock:
            for table in in_order(names):
                if table.name not in self._made:
                    self._make(table)
                    self._made.add(table.name)

    def describe(self) -> None:
        """Make every derived table; computed ones without their rows, if they have none yet."""
        with self._lock:
            for table in in_order(DERIVED):
                if table.name in self._made:
                    continue
                if table.sql is None:
                    self._store(table.name, table.empty())
                elif table.kept:
                    self._keep(table, "LIMIT 0")
                else:
                    self._make(table)

    def _make(self, table: Derived) -> None:
        if table.kept:
            self._keep(table)
            return
        if table.sql is not None:
            self._connection.execute(f"CREATE OR REPLACE VIEW {table.name} AS {table.sql}")
            return
        others = self._tenant and table.about_others
        self._store(table.name, table.compute(self._ask_all if others else self._ask()))
        if others:
            self._connection.execute(
                f"DELETE FROM {table.name} "
                f"WHERE {table.whose} NOT IN (SELECT tenant FROM containers)"
            )

    def _keep(self, table: Derived, limit: str = "") -> None:
        self._connection.execute(
            f"CREATE OR REPLACE TABLE {table.name} AS FROM ({table.sql}) {limit}"
        )

    def _ask(self) -> Ask:
        def ask(sql: str) -> Any:
            cursor = self._connection.cursor()
            try:
                return cursor.sql(sql).to_arrow_table()
            finally:
                cursor.close()

        return ask

    def _store(self, name: str, rows: Any) -> None:
        self._connection.register("fresh", rows)
        try:
            self._connection.execute(f"CREATE OR REPLACE TABLE {name} AS FROM fresh")
        finally:
            self._connection.unregister("fresh")
