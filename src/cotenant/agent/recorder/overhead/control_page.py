"""The page that the recorder shares with running programs, without a system call."""

import time
from typing import Final

import numpy as np

from cotenant.probes.kernel_maps import KernelMap
from cotenant.schema.layouts import CONTROL

# The least and the largest part of the ring that is divided into quotas; the rest is anybody's.
_DIVIDED_PART: Final = (1 / 2, 3 / 4)
_DIVIDED_EACH: Final = 64 << 10  # Quota of a tenant, where there is room.
# The part of all quotas that is for kernel events; GPU calls have the rest.
_KERNEL_PART: Final = 1 / 4
# Quotas kept free for tenants that come before the next count.
_NEWCOMERS: Final = 3
_WHOLE: Final = 1 << 20  # As programs write a part of a CPU's time.


class ControlPage:
    """Settings that programs read each time they run."""

    def __init__(self, controls: KernelMap, *, ring_bytes: int) -> None:
        self._page = controls.page()
        self._control = np.frombuffer(self._page, CONTROL, count=1)
        self._ring_bytes = ring_bytes
        self.divide(1, 1)

    def next_window(self) -> int:
        """Maxima of the totals start again; the window that is over."""
        over = int(self._control["window"][0])
        self._control["window_ns"] = time.monotonic_ns()
        self._control["window"] += 1
        return over

    def divide(self, calling: int, raising: int) -> None:
        """Set the quota of each tenant that calls a GPU, and of each kind of its kernel events."""
        ring = self._ring_bytes
        calling, raising = max(calling, 1) + _NEWCOMERS, max(raising, 1) + _NEWCOMERS
        least, most = (int(ring * part) for part in _DIVIDED_PART)
        divided = min(max(least, calling * _DIVIDED_EACH), most)
        kernel = int(divided * _KERNEL_PART)
        self._control["divided_bytes"] = divided
        self._control["share_bytes"] = (divided - kernel) // calling
        self._control["kernel_share_bytes"] = kernel // raising
        self._control["shed_above"] = ring - divided
        self._control["kernel_above"] = (ring - divided) // 2

    def budget(self, calls: int) -> None:
        """How many recorded calls a thread earns each second; 0 records all."""
        self._control["budget_calls"] = calls

    def kernel_budget(self, share: float) -> None:
        """The part of each CPU's time for programs on kernel events; 0 is no limit."""
        self._control["kernel_budget"] = int(share * _WHOLE)

    def another_first(self) -> None:
        """Another tenant comes first, or does no longer: what programs remember is stale."""
        self._control["first_tenants"] += 1

    def blind(self) -> None:
        """All probes go: from now on nobody knows what events time."""
        self._control["blind"] |= 1
