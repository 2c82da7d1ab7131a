"""When rows of which tenant were lost: what was made of its other rows meanwhile says so."""

from typing import Final

import numpy as np
import numpy.typing as npt

_KEPT_NS: Final = 900_000_000_000  # Longer than any span is held.


class LostWindows:
    """Windows of time by cgroup, joined where they touch."""

    def __init__(self) -> None:
        self._windows: dict[int, list[tuple[int, int]]] = {}

    def add(self, cgroup_id: int, from_ns: int, to_ns: int) -> None:
        """Rows of this cgroup were lost then."""
        windows = self._windows.setdefault(cgroup_id, [])
        if windows and windows[-1][1] >= from_ns:
            from_ns = windows.pop()[0]
        windows.append((from_ns, to_ns))

    def forget(self, now_ns: int) -> None:
        """Drop what no span can reach any more."""
        since = now_ns - _KEPT_NS
        left = {
            who: [w for w in windows if w[1] >= since] for who, windows in self._windows.items()
        }
        self._windows = {who: windows for who, windows in left.items() if windows}

    def touch(self, spans: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
        """Which of these spans were under way while rows of their tenant were lost."""
        touched = np.zeros(len(spans), bool)
        for cgroup_id, windows in self._windows.items():
            own = spans["cgroup_id"] == cgroup_id
            for from_ns, to_ns in windows if own.any() else ():
                touched |= own & (spans["start_ns"] < to_ns) & (spans["end_ns"] >= from_ns)
        return touched
