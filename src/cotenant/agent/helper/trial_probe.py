"""Our own function, probed before any other: the recorder calls it, and looks for its rows."""

import os
from collections.abc import Collection
from typing import Final

from cotenant._native import OBJECTS
from cotenant.probes import syscalls
from cotenant.probes.attach import Attacher, Placed
from cotenant.probes.elf import Elf
from cotenant.probes.function import CallFamily, Flag, Function, Library, encode
from cotenant.probes.programs import Programs
from cotenant.schema.constants import FUNCTIONS_MAX, MAPS

_SITE: Final = "cotenant_probe_here"
# In no table: a total of theirs is nobody's.
FUNCTIONS: Final = (
    Function(
        FUNCTIONS_MAX - 3,
        Library.CUDA,
        _SITE,
        op="sync",
        family=CallFamily.CUDA,
        flags=Flag.OPERATION,
    ),
    Function(
        FUNCTIONS_MAX - 2,
        Library.NCCL,
        _SITE,
        op="AllReduce",
        family=CallFamily.NCCL,
        flags=Flag.OPERATION,
    ),
)


class TrialProbe:
    """Probes on a function of the native module, by the programs of this recording."""

    def __init__(
        self, attacher: Attacher, programs: Programs, families: Collection[CallFamily]
    ) -> None:
        self._maps = programs.maps
        mine = [function for function in FUNCTIONS if function.family in families]
        self.families = [str(function.family) for function in mine]
        for function in mine:
            number = function.id.to_bytes(MAPS["functions"][0], "little")
            syscalls.map_update(self._maps["functions"], number, encode(function))
        fd = os.open(next(OBJECTS.parent.glob("_drain*.so")), os.O_RDONLY)
        try:
            with Elf(fd) as elf:
                offset = elf.find([_SITE])[_SITE]
            self._attacher = attacher
            self._attachment = attacher.attach(fd, [Placed(f, offset) for f in mine])
        finally:
            os.close(fd)

    def close(self) -> None:
        """Remove the probes; whoever made the call uses no GPU by it, and nobody else has yet."""
        self._attacher.remove(self._attachment)
        for name in ("gpu_tenants", "processes"):
            key_size, value_size = MAPS[name]
            keys, _ = syscalls.map_items(self._maps[name], key_size, value_size)
            for at in range(0, len(keys), key_size):
                syscalls.map_delete(self._maps[name], keys[at : at + key_size])
