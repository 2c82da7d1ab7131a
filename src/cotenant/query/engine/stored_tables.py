"""The stored tables in a session's database: each is made when a statement first names it.

So a store of many nodes opens by what is asked of it: no file is looked at, let alone opened, of a
table that nobody names or outside the window.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from cotenant.query.derived.registry import in_order
from cotenant.query.engine import row_choice
from cotenant.query.engine.changelog_tables import CHANGELOGS, create_changelog_view
from cotenant.query.engine.completeness_views import (
    create_loss_views,
    create_owners,
    create_recordings,
)
from cotenant.query.engine.needs import needed
from cotenant.query.engine.sight import Sight, name_with_nodes, several
from cotenant.query.engine.snapshots import SnapshotReader
from cotenant.query.engine.tables import (
    STORED,
    copy_snapshot,
    create_view,
)
from cotenant.query.engine.tenant_filter import cgroups_meant, select_tenant
from cotenant.query.engine.window import Window
from cotenant.schema import TABLES
from cotenant.schema.dimensions import CONTAINERS, LOSSES, SESSIONS
from cotenant.store.absence import Absent
from cotenant.store.manifest import Segment
from cotenant.store.plain_file import is_plain

# Which table needs files of which others.
_ALSO: Final = {"cuda_events": ("gpu_timings",)}


def stored_behind(names: Iterable[str]) -> frozenset[str]:
    """The stored tables that a statement with these names reads."""
    found = set(names)
    for table in in_order(found):
        found |= {table.name, *table.sources, *table.also, *table.before}
    return frozenset(found & TABLES.keys())


class StoredTables:
    """The tables of the segments that a manifest named; used by one thread at a time."""

    def __init__(
        self,
        connection: Any,
        root: Path,
        window: Window,
        tenant: str | None,
        *,
        guarded: bool,
        sight: Sight | None,
    ) -> None:
        self.window = window if sight is None else replace(window, last_ns=sight.last_ns)
        self._sight = sight
        self._connection, self._root = connection, root
        self._tenant, self._guarded = tenant, guarded
        self._snapshots = SnapshotReader(root)
        self._named: dict[str, list[Segment]] = {}
        self._there: dict[str, list[Segment]] = {}
        self._segments: list[Segment] = []
        self._absent: Mapping[str, Absent] = {}
        self._made: set[str] = set()
        for schema in (STORED, "whole"):
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")

    def renew(self, segments: Iterable[Segment], absent: Mapping[str, Absent]) -> None:
        """These are current from now on; what was made of others is made again when named.

        ``absent`` tells, by node, of which times rows are not kept.
        """
        self._segments, self._absent = list(segments), absent
        self._named = {name: [] for name in TABLES}
        for segment in self._segments:
            self._named[segment.table].append(segment)
        self._there, self._made = {}, set()

    def missing(self, names: Iterable[str]) -> int:
        """How many segments of these tables the manifest named, but are not there."""
        return sum(len(self._wanted(n)) - len(self._there[n]) for n in names if n in self._there)

    def make(self, names: Iterable[str], changed: Callable[[], bool]) -> None:
        """Create what is not made yet of these tables, all or nothing.

        FileNotFoundError if files are gone because the manifest ``changed`` meanwhile.
        """
        wanted = stored_behind(names)
        if wanted <= self._made:
            return
        wanted |= {CONTAINERS.name, SESSIONS.name}
        self.look(wanted, changed)
        self._connection.execute("BEGIN")
        try:
            if CONTAINERS.name not in self._made:
                self._make_snapshots()
            for name in sorted(wanted - self._made - {CONTAINERS.name, SESSIONS.name}):
                self._make(name)
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._made |= wanted

    def _wanted(self, name: str) -> list[Segment]:
        """What may hold rows of the window; of some tables, also what came before it."""
        return [segment for segment in self._named[name] if needed(segment, self.window)]

    def look(self, names: Iterable[str], changed: Callable[[], bool]) -> None:
        """Find out which files of these tables are there.

        FileNotFoundError if some are not because the manifest ``changed`` meanwhile: they were
        merged into one.
        """
        names = {also for name in names for also in (name, *_ALSO.get(name, ()))}
        for name in names - self._there.keys():
            wanted = self._wanted(name)
            there = [s for s in wanted if is_plain(self._root / s.path)]
            if len(there) < len(wanted) and changed():
                raise FileNotFoundError(name)
            self._there[name] = there

    def _make_snapshots(self) -> None:
        """Whose the rows are, and which recordings there are: nearly every statement needs both."""
        connection = self._connection
        containers = self._snapshots.read(self._there[CONTAINERS.name])
        copy_snapshot(connection, CONTAINERS, containers, Window())
        sight = self._sight or Sight(several(self._segments))
        if sight.several:
            name_with_nodes(connection)
        if self._tenant is not None:
            cgroups = sight.cgroups
            if cgroups is None:
                cgroups = cgroups_meant(connection, self._tenant)
            select_tenant(connection, cgroups)
            if self._guarded:
                self.window = replace(self.window, cgroups=cgroups)
            connection.execute(
                "DELETE FROM containers "
                "WHERE cgroup_id NOT IN (SELECT cgroup_id FROM tenant.cgroups)"
            )
        sessions = self._snapshots.read(self._there[SESSIONS.name])
        copy_snapshot(connection, SESSIONS, sessions, self.window)
        create_recordings(connection, sessions, self.window)
        create_owners(connection, self.window)
        row_choice.create_macros(connection, self._segments, self.window, self._absent)

    def _make(self, name: str) -> None:
        connection, root, window = self._connection, self._root, self.window
        create_view(connection, root, self._there, name, window)
        if name in CHANGELOGS:
            create_changelog_view(connection, root, name, self._there[name], window)
        if name == LOSSES.name:
            create_loss_views(connection, root, self._there[name], window)
