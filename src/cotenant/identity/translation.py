"""Which of the two cgroup ids in an event's header, v2 or v1, decides its owner."""

from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from cotenant.identity.ids import ROOT
from cotenant.identity.path.model import Owner
from cotenant.identity.rows import Cgroup

_PLACES: Final = (Owner.ROOT, Owner.UNIT, Owner.USER)
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)

Version = Literal["v2", "v1"]


class Preference(NamedTuple):
    """How an operator and the host's mounts weigh the two hierarchies."""

    prefer: Literal["auto", "v2", "v1"] = "auto"
    v2_in_use: bool = True


class Told(NamedTuple):
    """One of the two ids, as far as it is known."""

    present: bool = False  # The header carries it.
    cgroup: Cgroup | None = None  # None also where its birth was not told yet.
    confirmed: bool = False  # A runtime said that it is its container's.

    @property
    def names_workload(self) -> bool:
        """Whether it names a container or job; any directory may look like containerd's."""
        identity = self.cgroup.identity if self.cgroup else None
        if identity is None or not identity.names_workload:
            return False
        return self.confirmed or not identity.claimed


def choose(preference: Preference, v2: Told, v1: Told) -> Version:
    """The first that names a workload; the v2 one unless it names only a place."""
    if not v1.present or not v2.present:
        return "v1" if v1.present else "v2"
    if preference.prefer != "auto":
        return preference.prefer
    identity = v2.cgroup.identity if v2.cgroup else None
    if identity and (identity.names_workload or identity.owner not in _PLACES):
        return "v2"
    if v1.names_workload:
        return "v1"
    at_root = v2.cgroup is not None and v2.cgroup.kernel_id == ROOT
    return "v1" if at_root and not preference.v2_in_use else "v2"


def distinct_pairs(
    first: npt.NDArray[np.uint64], second: npt.NDArray[np.uint64]
) -> tuple[list[tuple[int, int]], npt.NDArray[np.intp]]:
    """The distinct pairs of two columns, and for each row which of them it has.

    Events come in bursts of one thread, so runs of equal pairs are folded first, and
    only their heads are sorted, by a mixture of both.
    """
    if not len(first):
        return [], np.zeros(0, np.intp)
    begins = np.empty(len(first), np.bool_)
    begins[0] = True
    np.not_equal(first[1:], first[:-1], out=begins[1:])
    begins[1:] |= second[1:] != second[:-1]
    heads = np.flatnonzero(begins)
    left, right = first[heads], second[heads]
    _, index, inverse = np.unique(left * _MIX + right, return_index=True, return_inverse=True)
    # Two pairs may mix to one number; then each head is a pair of its own.
    if not (
        np.array_equal(left[index][inverse], left) and np.array_equal(right[index][inverse], right)
    ):
        index = inverse = np.arange(len(heads))
    pairs = list(zip(left[index].tolist(), right[index].tolist(), strict=True))
    return pairs, np.repeat(inverse, np.diff(heads, append=len(first)))
