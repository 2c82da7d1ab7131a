"""Probes that are to go: each file's when no memory lock is in the way."""

import threading
import time
from collections.abc import Collection
from typing import Final

from cotenant.probes.attach import Attachment
from cotenant.probes.door import PATIENCE_S, Door
from cotenant.probes.memory_locks import HeldUp

_PAUSE_S: Final = 0.05
# Each removal waits for the kernel, most of the time without a lock: several wait together.
_AT_ONCE: Final = 8


class Removals:
    """Removes probes in a thread of its own: who wants them gone does not wait for it."""

    def __init__(self, door: Door, patience_s: float = PATIENCE_S) -> None:
        self._door = door
        self._patience_s = patience_s
        self._pending: dict[int, tuple[Attachment, float]] = {}  # By their files; since when.
        self._changed = threading.Condition()
        self.held_up: HeldUp | None = None  # What was in the way last.
        threading.Thread(target=self._run, name="removals", daemon=True).start()

    def add(self, attachment: Attachment) -> None:
        """Have these probes removed."""
        if attachment.empty:
            attachment.close()
            return
        with self._changed:
            self._pending[attachment.file] = attachment, time.monotonic()
            self._changed.notify_all()

    def finish(self, seconds: float) -> bool:
        """Wait until all are gone; false if they are not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending)
                pending = dict(self._pending)
            since = time.monotonic() - self._patience_s
            old = [file for file, (_, asked) in pending.items() if asked < since]
            if not self._remove_some([*pending][:_AT_ONCE]):
                if old:
                    self._door.remove_anyway(old[:_AT_ONCE], self._close)
                self._rotate(pending)
                time.sleep(_PAUSE_S)

    def _remove_some(self, files: Collection[int]) -> bool:
        try:
            self._door.remove(files, self._close)
        except HeldUp as error:
            self.held_up = error
            return False
        return True

    def _rotate(self, pending: Collection[int]) -> None:
        """Have others tried first."""
        with self._changed:
            for file in [*pending][:_AT_ONCE]:
                if file in self._pending:
                    self._pending[file] = self._pending.pop(file)

    def _close(self, files: Collection[int]) -> None:
        with self._changed:
            going = [self._pending[file][0] for file in files]
        Attachment.close_all(going)
        with self._changed:
            for file in files:
                del self._pending[file]
            self._changed.notify_all()
