"""Whose an event is, on the wire and in the store.

An event carries its owner's id in version 2 and in one version 1 hierarchy; or, where only the
thing it is about could be asked, an id of that thing's hierarchy.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from cotenant.identity.ledger import Ledger

OWNER: Final = ("cgroup_id", "cgroup_v1_id", "hierarchy")


def owner_of(ledger: Ledger, cgroup_id: int, cgroup_v1_id: int) -> int:
    """The stored id of one owner."""
    ids = np.array([cgroup_id], np.uint64), np.array([cgroup_v1_id], np.uint64)
    return int(ledger.translate(*ids)[0])


def owners(ledger: Ledger, entries: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
    """The stored ids of entries that have the fields of ``OWNER``."""
    kernel_ids, v1_ids, hierarchies = (np.ascontiguousarray(entries[name]) for name in OWNER)
    ids = ledger.translate(kernel_ids, v1_ids)
    for hierarchy in np.unique(hierarchies[hierarchies != 0]).tolist():
        there = hierarchies == hierarchy
        ids[there] = ledger.translate_in(hierarchy, kernel_ids[there])
    return ids
