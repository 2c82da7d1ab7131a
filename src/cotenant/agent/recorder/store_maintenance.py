"""Work on the store that can wait: merging small segments, folding and deleting old ones."""

import contextlib
import os
import threading
import time
from typing import Final

from cotenant.agent.malloc import give_back_memory
from cotenant.errors import StoreError
from cotenant.store.compaction import Compactor
from cotenant.store.folding import Folding
from cotenant.store.retention import Retention, RetentionLimits
from cotenant.store.writer import StoreWriter

_EVERY_S: Final = 2.0
_GIVE_BACK_EVERY: Final = 5  # rounds
_LOWEST_PRIORITY: Final = 19
# After the clock was set, ages are wrong: nothing is folded or deleted for this long.
_CLOCK_REST_S: Final = 600.0


class StoreMaintenance:
    """A thread of the lowest priority beside the one that seals."""

    def __init__(self, writer: StoreWriter, limits: RetentionLimits) -> None:
        self._compactor = Compactor(writer)
        self._folding = Folding(writer)
        self._retention = Retention(writer, limits)
        self._stop = threading.Event()
        self._rest_until = 0.0
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)
        self.trouble: str | None = None  # Why it could not be done, while it cannot.

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the piece of work under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def clock_was_set(self) -> None:
        """Fold and delete nothing for a while: ages are wrong."""
        self._rest_until = time.monotonic() + _CLOCK_REST_S

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
        rounds, merged = 0, False
        # While there is work, the compactor says how long to rest: it may have to catch up.
        while not self._stop.wait(min(self._compactor.rest_s, _EVERY_S) if merged else _EVERY_S):
            rounds, merged = rounds + 1, False
            try:
                merged = self._compactor.step(time.time_ns())
                if merged or rounds % _GIVE_BACK_EVERY == 0:
                    give_back_memory()
                if time.monotonic() >= self._rest_until:
                    self._folding.step(time.time_ns())
                    self._retention.step(time.time_ns())
                self.trouble = None
            except StoreError as error:
                self.trouble = str(error)
            except Exception as error:  # noqa: BLE001 - told, and tried again: rows go on
                self.trouble = f"{type(error).__name__}: {error}"
