"""How many files of one tenant are probed at once, so that enough is left for all others."""

import resource
from collections.abc import Sequence
from typing import Final

from cotenant.agent.helper.fair_queue import OURS, PassedOver
from cotenant.agent.helper.libraries.probed_library import ProbedLibrary
from cotenant.agent.helper.newest import NewestOfEach
from cotenant.probes.inodes import Inode, number_of

_EACH_MAX: Final = 256
_REFUSED_MAX: Final = 4096  # Of one tenant.


class FileQuota:
    """Counts what it refuses; a file that is looked at again and again, once."""

    def __init__(self, passed_over: PassedOver) -> None:
        self._passed_over = passed_over
        self.descriptors_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._refused: NewestOfEach[Inode, None] = NewestOfEach(_REFUSED_MAX, number_of)

    def admits(self, tenant: str, inode: Inode, probed: Sequence[ProbedLibrary]) -> bool:
        """Whether a tenant may have this file probed beside those that are."""
        mine = [library for library in probed if library.tenant == tenant]
        share = self.descriptors_max // (2 if tenant == OURS else 4)
        full = sum(library.descriptors for library in probed) > self.descriptors_max * 3 // 4
        many = len(mine) >= _EACH_MAX and tenant != OURS
        if full or many or sum(library.descriptors for library in mine) > share:
            if inode not in self._refused:
                self._refused.put(tenant, inode, None)
                self._passed_over.add("libraries", tenant)
            return False
        self._refused.pop(inode)
        return True
