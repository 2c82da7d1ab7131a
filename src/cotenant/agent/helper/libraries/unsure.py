"""Processes of whose GPU memory not all is seen: their driver has functions without a probe."""

from collections.abc import Callable, Collection
from typing import Final

import numpy as np
import numpy.typing as npt

from cotenant.agent.helper.newest import NewestOfEach
from cotenant.agent.process import Process
from cotenant.agent.protocol.codec import slices
from cotenant.agent.protocol.reports import MemoryUnsure, Report
from cotenant.probes.code_mappings import CodeMappings
from cotenant.probes.function import Flag, Library
from cotenant.probes.inodes import Inode, mappings_of, number_of
from cotenant.probes.tables import FUNCTIONS

_EACH_MAX: Final = 1024  # Files of one tenant.
_STEPS: Final = frozenset({"ALLOC", "FREE", "CREATE", "RELEASE", "RETAIN", "MAP", "UNMAP"})
_OF_DRIVER: Final = frozenset(
    f.symbol
    for f in FUNCTIONS
    if f.library is Library.CUDA and f.step in _STEPS and not f.flags & Flag.HOST
)
# Where the driver's are not probed, the runtime's tell what goes through it.
OF_RUNTIME: Final = frozenset(
    f.id for f in FUNCTIONS if f.library is Library.CUDART and f.step in _STEPS
)


class Unsure:
    """Tells the recorder who uses a driver whose memory functions are not all probed."""

    def __init__(self, code: CodeMappings, tell: Callable[[Report], None]) -> None:
        self._code = code
        self._tell = tell
        self._drivers: NewestOfEach[Inode, None] = NewestOfEach(_EACH_MAX, number_of)

    def __bool__(self) -> bool:
        return bool(len(self._drivers))

    def consider(self, inode: Inode, fd: int, unprobed: Collection[str], tenant: str) -> None:
        """Functions of an open file that are not probed: whoever maps it holds what is unseen."""
        if inode not in self._drivers and not _OF_DRIVER.isdisjoint(unprobed):
            self._drivers.put(tenant, inode, None)
            self._say(mappings_of(self._code, inode, fd))

    def forget(self, inode: Inode) -> None:
        """The file is let go."""
        self._drivers.pop(inode)

    def knows(self, number: int) -> bool:
        """Whether a file with this inode number is such a driver."""
        return self._drivers.shows(number)

    def mapped(self, pid: int) -> None:
        """A process has mapped what may be such a driver."""
        mappings = self._code.of(pid)
        mine = [Inode.of(mapping) in self._drivers for mapping in mappings]
        self._say(mappings[np.array(mine, np.bool_)])

    def _say(self, mappings: npt.NDArray[np.void]) -> None:
        processes = {
            Process(int(mapping["process"]), int(mapping["process_start_ns"]))
            for mapping in mappings
        }
        for part in slices(sorted(processes)):
            self._tell(MemoryUnsure(part))
