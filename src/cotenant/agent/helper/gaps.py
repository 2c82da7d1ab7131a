"""How late probes came: who had a library mapped before it was probed, and for how long."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

from cotenant.agent.protocol.reports import AttachGap, Report

_TOLD_MAX: Final = 16384


class Gaps:
    """Tells of each tenant's gap on each library, the longest one that is known."""

    def __init__(self, tell: Callable[[Report], None]) -> None:
        self._tell = tell
        self._since_ns: int | None = None
        self._begins: OrderedDict[Hashable, int] = OrderedDict()

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
        key = hash((tenant, library, end_ns if probed else None))
        if probed and self._begins.get(key, begin_ns + 1) <= begin_ns:
            return
        self._begins[key] = begin_ns
        while len(self._begins) > _TOLD_MAX:
            self._begins.popitem(last=False)
        self._tell(AttachGap(tenant, library, begin_ns, end_ns, probed, kinds))
