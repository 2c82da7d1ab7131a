"""When the helper's loop takes a turn: as something comes, and at most so often a second."""

import select
import time
from typing import Final

# Turns beyond the rate are saved up while there are few: what follows quiet is served at once.
_EVERY_S: Final = 1 / 240
_SAVED_S: Final = 32 * _EVERY_S
# The same for turns that only what can wait would take: in a storm of these, each waits up to this.
# After one of them another turn comes within this time: meanwhile more may come that wakes nothing,
# see HOME_WAKE_NS in bpf/kernel/task.bpf.c.
_PATIENT_EVERY_S: Final = 1 / 100
_PATIENT_SAVED_S: Final = 32 * _PATIENT_EVERY_S
_PATIENCE_S: Final = 1.0
_TEND_EVERY_S: Final = 0.01


class Turns:
    """Waits for descriptors; what comes in between is for the next turn."""

    def __init__(self) -> None:
        self._all, self._urgent = select.poll(), select.poll()
        self._patient: set[int] = set()
        self._due = self._patient_due = self._tend_at = time.monotonic()
        self._again_at: float | None = None
        self._owed = False

    def wake_on(self, *fds: int, events: int = select.POLLIN, patient: bool = False) -> None:
        """Take a turn when any of these is ready; soon after, for those that can wait."""
        for fd in fds:
            self._all.register(fd, events)
            if patient:
                self._patient.add(fd)
            else:
                self._urgent.register(fd, events)

    def next(self, patience_s: float) -> set[int]:
        """The descriptors that are ready; none after this time, or a second."""
        now = time.monotonic()
        if self._due > now:
            time.sleep(self._due - now)
        ready = self._ready(patience_s)
        now = time.monotonic()
        self._due = max(self._due, now - _SAVED_S) + _EVERY_S
        if ready <= self._patient:
            self._patient_due = max(self._patient_due, now - _PATIENT_SAVED_S) + _PATIENT_EVERY_S
        if not ready.isdisjoint(self._patient):
            self._again_at = now + _PATIENT_EVERY_S
        elif self._again_at is not None and now >= self._again_at:
            self._again_at = None
        return ready

    def _ready(self, patience_s: float) -> set[int]:
        wait_s = self._patient_due - time.monotonic()
        if wait_s > 0 and (urgent := self._urgent.poll(wait_s * 1000)):
            return {fd for fd, _ in urgent}
        return {fd for fd, _ in self._all.poll(self._until(patience_s) * 1000)}

    def _until(self, patience_s: float) -> float:
        now, waits_s = time.monotonic(), min(patience_s, _PATIENCE_S)
        if self._owed:
            waits_s = min(waits_s, self._tend_at - now)
        if self._again_at is not None:
            waits_s = min(waits_s, self._again_at - now)
        return max(0.0, waits_s)

    def may_tend(self) -> bool:
        """Whether to do now what is due now and then; else a turn for it comes soon."""
        now = time.monotonic()
        self._owed = now < self._tend_at
        if not self._owed:
            self._tend_at = now + _TEND_EVERY_S
        return not self._owed
