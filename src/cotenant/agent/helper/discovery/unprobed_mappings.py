"""Who maps files with functions that have no probe, as it happens."""

from collections.abc import Callable
from functools import partial

from cotenant.agent.helper.discovery.directories import looks_like_library
from cotenant.agent.helper.discovery.mmap_events import MmapEvent
from cotenant.agent.helper.libraries.libraries import Libraries
from cotenant.agent.helper.shown_inodes import is_anonymous
from cotenant.probes.code_mappings import CodeMappings
from cotenant.probes.inodes import Inode
from cotenant.probes.memory_locks import HeldUp


class UnprobedMappings:
    """Tells files with the same inode number apart: a tenant can choose the numbers of its own."""

    def __init__(
        self,
        libraries: Libraries,
        code: CodeMappings,
        put: Callable[[str, Callable[[], None]], None],
    ) -> None:
        self._libraries = libraries
        self._code = code
        self._put = put

    def mapped(self, tenant: str, file: MmapEvent) -> None:
        """A tenant has mapped this file."""
        shown, unprobed = file.inode, self._libraries.unprobed
        if not unprobed.shows(shown.number):
            return
        if shown in unprobed:
            unprobed.mapped(shown, tenant, file.when_ns)
        elif is_anonymous(shown):
            self._put(tenant, partial(self._look, tenant, file))

    def _look(self, tenant: str, file: MmapEvent) -> None:
        """See what is mapped there; of what is there no more, no more is known than its name."""
        inode, unprobed = self._beneath(file), self._libraries.unprobed
        if inode is not None:
            unprobed.mapped(inode, tenant, file.when_ns)
        elif looks_like_library(file.path):
            unprobed.may_be_mapped(file.inode, tenant, file.when_ns)

    def _beneath(self, file: MmapEvent) -> Inode | None:
        try:
            mappings = self._code.of(file.pid)
        except (OSError, HeldUp):
            return None
        there = mappings[(mappings["start"] <= file.start) & (file.start < mappings["end"])]
        same = there[there["inode"] == file.inode.number]
        for mapping in same:
            return Inode.of(mapping)
        return None
