"""Messages that programs have counted beside the totals, see bpf/kernel/caller.bpf.h."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cotenant.probes.kernel import kernel_function
from cotenant.probes.kernel_maps import KernelMap
from cotenant.schema.layouts import CALLER, TOTAL_KEY

MESSAGES: Final = tuple(kernel_function("net", op) for op in ("send", "recv"))


class Callers:
    """Adds what each CPU has counted to totals that were read before."""

    def __init__(self, places: KernelMap | None, cpus: int) -> None:
        self._places = places
        self._cpus = cpus

    def add(self, totals: npt.NDArray[np.void], names: list[bytes]) -> set[int]:
        """Add it to the entries of these names; which of them have something there.

        What a program moves into a total after that was read is missing until the next time.
        """
        if self._places is None:
            return set()
        places = np.frombuffer(self._places.items()[1], CALLER).reshape(-1, self._cpus)
        at = {name: number for number, name in enumerate(names)}
        found = set()
        for place, cpu, op in np.argwhere(places["count"] > 0).tolist():
            caller = places[place, cpu]
            entry = at.get(_key(caller, MESSAGES[op]))
            if entry is not None:
                _add(totals[entry, cpu], caller, op)
                found.add(entry)
        return found


def _key(caller: np.void, function: int) -> bytes:
    key = np.zeros(1, TOTAL_KEY)
    key["cgroup_id"] = caller["cgroup_id"]
    key["cgroup_v1_id"] = caller["cgroup_v1_id"]
    key["hierarchy"] = caller["hierarchy"]
    key["function"] = function
    return key.tobytes()


def _add(total: Any, caller: np.void, op: int) -> None:
    count, withheld = caller["count"][op], caller["withheld"][op]
    total["count"] += count
    total["bytes"] += caller["bytes"][op]
    total["histogram"][0] += np.uint32(count)
    for name in ("rows", "shed", "withheld"):
        total[name] += withheld
    total["shed_bytes"] += caller["withheld_bytes"][op]
    total["tenant"] = caller["tenant"]
