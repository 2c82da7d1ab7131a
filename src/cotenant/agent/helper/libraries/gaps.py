"""How late probes came: who had a library mapped before it was probed, and for how long."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Final

from cotenant.agent.protocol.reports import AttachGap, Report

_TOLD_MAX: Final = 16384
_TELL_EVERY_S: Final = 1.0


class Gaps:
    """Tells of each tenant's gap on each library, the longest one that is known.

    Of libraries that were never probed a tenant may bring as many as it likes: those of a second
    are told as one.
    """

    def __init__(self, tell: Callable[[Report], None]) -> None:
        self._tell = tell
        self._since_ns: int | None = None
        self._begins: OrderedDict[Hashable, int] = OrderedDict()
        self._unprobed: dict[str, AttachGap] = {}
        self._told_s = 0.0

    def begin(self) -> None:
        """Recording is announced: what was attached before is nobody's loss."""
        self._since_ns = time.monotonic_ns()

    def found(
        self,
        tenant: str,
        library: str,
        begin_ns: int,
        end_ns: int,
        *,
        kinds: tuple[str, ...] = (),
        probed: bool = True,
    ) -> None:
        """A library was mapped then, and probed only later, or not at all."""
        if self._since_ns is None or end_ns <= max(begin_ns, self._since_ns):
            return
        gap = AttachGap(tenant, library, begin_ns, end_ns, probed, kinds)
        if not probed:
            before = self._unprobed.get(tenant, gap)
            begin_ns, end_ns = min(begin_ns, before.begin_ns), max(end_ns, before.end_ns)
            self._unprobed[tenant] = replace(before, begin_ns=begin_ns, end_ns=end_ns)
            return
        key = hash((tenant, library, end_ns))
        if self._begins.get(key, begin_ns + 1) <= begin_ns:
            return
        self._begins[key] = begin_ns
        while len(self._begins) > _TOLD_MAX:
            self._begins.popitem(last=False)
        self._tell(gap)

    def tell_unprobed(self, *, last: bool = False) -> None:
        """What waits to be told; at most once a second."""
        if self._unprobed and (last or time.monotonic() >= self._told_s + _TELL_EVERY_S):
            waiting, self._unprobed = self._unprobed, {}
            self._told_s = time.monotonic()
            for gap in waiting.values():
                self._tell(gap)
