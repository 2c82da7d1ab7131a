"""Libraries that have no probe: told as those that have some, but a few of each tenant."""

from collections import Counter
from collections.abc import Callable
from typing import Final

from cotenant.agent.helper.fair_queue import OURS
from cotenant.agent.protocol.reports import LibraryReport

_EACH_MAX: Final = 16


class RefusedLibraries:
    """Tells of libraries: of what is not probed a few, since they stand beside those of others."""

    def __init__(self, tell: Callable[[LibraryReport], None]) -> None:
        self._tell = tell
        self._refused: Counter[str] = Counter()

    def __call__(self, tenant: str, about: LibraryReport) -> None:
        """A tenant has brought this."""
        self._refused[tenant] += not about.attached
        if about.attached or self._refused[tenant] <= _EACH_MAX or tenant == OURS:
            self._tell(about)
