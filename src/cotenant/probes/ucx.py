"""UCX, which hooks memory functions of the driver by writing a jump over their first bytes.

It reads the bytes first, to move them elsewhere, and gives up where it finds a breakpoint: its
hooks are then off for good. So where its jump may come to lie there is no probe.
"""

from collections.abc import Collection
from typing import Final

from cotenant.probes.changes import PATCH_BYTES

# What it hooks, by its source (src/ucm/cuda/cudamem.c, up to 1.22). Functions of the runtime it
# reaches through relocations, which are no code.
HOOKED: Final = frozenset({
    "cuMemAlloc", "cuMemAlloc_v2", "cuMemAllocManaged", "cuMemAllocPitch", "cuMemAllocPitch_v2",
    "cuMemMap", "cuModuleGetGlobal_v2", "cuMemAllocAsync", "cuMemAllocFromPoolAsync",
    "cuLibraryGetGlobal", "cuMemFree", "cuMemFree_v2", "cuMemFreeHost", "cuMemFreeHost_v2",
    "cuMemUnmap", "cuMemFreeAsync",
})  # fmt: skip
# Why what it would write over is left alone.
EXPECTED: Final = "UCX would change it in memory"


def reaches(hooked: Collection[int], offset: int, length: int) -> bool:
    """Whether a jump at any of these starts would lie over an instruction."""
    return any(start < offset + length and offset < start + PATCH_BYTES for start in hooked)
