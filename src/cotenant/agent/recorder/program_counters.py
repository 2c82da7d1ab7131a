"""Counters of what the BPF programs could not do."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from cotenant.probes.kernel_maps import KernelMap
from cotenant.schema.constants import MAPS
from cotenant.schema.events import ENUMS

_NAMES: Final = {number: name.lower() for number, name in ENUMS["counter"].items() if name != "END"}


class ProgramCounters:
    """Reads the counters of all CPUs."""

    def __init__(self, counters: KernelMap) -> None:
        self._counters = counters

    def read(self) -> dict[str, int]:
        """Totals by name, without those that are zero."""
        found = {name: self._total(number) for number, name in _NAMES.items()}
        return {name: total for name, total in found.items() if total}

    def _total(self, number: int) -> int:
        key = number.to_bytes(MAPS["counters"][0], "little")
        raw = self._counters.lookup(key)
        return int(np.frombuffer(raw or b"", np.uint64).sum())


def orphans(counters: Mapping[str, int]) -> int:
    """Rows that were sent although the kernel had no room to count them by tenant."""
    unsent = counters.get("orphan_lost", 0) + counters.get("orphan_shed", 0)
    return counters.get("orphan_rows", 0) - unsent
