"""Creates derived tables in a session's database when a statement names them."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from cotenant.query.derived.registry import DERIVED, Ask, Derived, in_order


class Catalog:
    """The derived tables of a session; safe to use from threads.

    ``ask_all`` runs SQL over the rows of every tenant in the session's window.
    """

    def __init__(
        self, connection: Any, ask_all: Callable[[str], Any], tenant: bool, guarded: bool = False
    ) -> None:
        self._connection = connection
        self._ask_all = ask_all
        self._tenant = tenant
        self._guarded = guarded
        self._made: set[str] = set()
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Discard every derived table, because the recorded ones have changed."""
        with self._lock:
            self._made.clear()

    def make(self, names: Iterable[str]) -> None:
        """Create the derived tables among these names, and those they depend on."""
        with self._lock:
            for table in in_order(names):
                if table.name not in self._made:
                    self._make(table)
                    self._made.add(table.name)

    def describe(self) -> None:
        """Create every derived table; computed ones stay empty until a statement names them."""
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
        others = self._tenant and table.about_others and not (self._guarded and table.alone)
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
