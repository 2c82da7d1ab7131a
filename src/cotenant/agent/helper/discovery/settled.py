"""Files that were read for a tenant and are of no interest: their records are dropped in C."""

from typing import Protocol

from cotenant.agent.helper.discovery.directories import looks_like_library
from cotenant.agent.helper.discovery.mmap_events import MmapEvent
from cotenant.agent.helper.discovery.root_search import RecentlySeen
from cotenant.agent.helper.libraries.libraries import Libraries
from cotenant.probes.inodes import Inode


class Records(Protocol):
    """What reads the records."""

    def settle(self, file: MmapEvent, /) -> None:
        """Drop what shows the same file, mapped by processes of the same cgroup."""

    def unsettle(self) -> None:
        """Every file is new again."""


class SettledFiles:
    """Remembers verdicts: a tenant's processes may be in many cgroups, of which each is settled.

    A file is not settled by its name, nor while the libraries know one that may be the same.
    """

    def __init__(self, records: Records | None, libraries: Libraries) -> None:
        self._records = records
        self._libraries = libraries
        self._strangers = RecentlySeen()

    def found(self, tenant: str, file: MmapEvent) -> None:
        """It was read, and it is none of ours."""
        self._strangers.add((tenant, file.key))
        self._settle(file)

    def mapped(self, tenant: str, file: MmapEvent) -> None:
        """It was mapped again: perhaps in another cgroup of its tenant, or by who is gone."""
        if file.ended or (tenant, file.key) in self._strangers:
            self._settle(file)

    def _settle(self, file: MmapEvent) -> None:
        if self._records is None or looks_like_library(file.path):
            return
        if not self._concerns(file.inode):
            self._records.settle(file)

    def _concerns(self, shown: Inode) -> bool:
        """Whether it may be a file that the libraries follow."""
        known = self._libraries
        return (
            bool(known.second_looks(shown))
            or known.unsure.knows(shown.number)
            or known.unprobed.shows(shown.number)
        )

    def clear(self) -> None:
        """Every file is new again."""
        self._strangers.clear()
        if self._records is not None:
            self._records.unsettle()
