"""Which files are mapped as code now, by whom, and where.

A file may be mapped by many tenants, of whom any may keep us from looking at it through a process
of its own: so each has a place of its own.
"""

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cotenant.agent.helper.discovery.mapped_range import MappedRange
from cotenant.agent.helper.fair_queue import tenant_of
from cotenant.probes.code_mappings import CodeMappings
from cotenant.probes.inodes import Inode, inodes_of
from cotenant.probes.memory_locks import MemoryLock


class MappedFile(NamedTuple):
    """A file, and a place where a tenant has it mapped."""

    inode: Inode
    place: MappedRange


def mapped_files(
    code: CodeMappings, wanted: Callable[[Inode, str], bool], silent: dict[int, MemoryLock]
) -> Iterator[tuple[str, MappedFile]]:
    """The wanted ones, each once for each tenant that maps it.

    Locked processes are left out, and added to ``silent``.
    """
    seen: set[tuple[str, Inode]] = set()
    whose = functools.cache(tenant_of)
    for mappings in code.everywhere(silent):
        for tenant, mine in _by_tenant(mappings, whose):
            for inode, mapping in inodes_of(mine):
                if wanted(inode, tenant) and (tenant, inode) not in seen:
                    seen.add((tenant, inode))
                    yield tenant, MappedFile(inode, MappedRange.of(mapping))


def _by_tenant(
    mappings: npt.NDArray[np.void], whose: Callable[[int], str]
) -> Iterator[tuple[str, npt.NDArray[np.void]]]:
    pids, process = np.unique(mappings["pid"], return_inverse=True)
    tenants, owner = np.unique([whose(pid) for pid in pids.tolist()], return_inverse=True)
    for number, tenant in enumerate(tenants.tolist()):
        yield tenant, mappings[owner[process] == number]
