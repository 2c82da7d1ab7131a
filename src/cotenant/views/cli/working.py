"""A line on a terminal while an answer takes more than a second: how far it is."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from cotenant.query.engine.session import Session
from cotenant.views.status_line import show

_QUIET_S: Final = 1.0
_EVERY_S: Final = 0.25
_LEAST: Final = 0.01  # Of the work, before it says how long the rest takes.


def working(session: Session) -> AbstractContextManager[None]:
    """While this session answers, show on stderr how far it is; nothing if that is no terminal."""
    if not sys.stderr.isatty():
        return nullcontext()
    return _shown(session.progress)


@contextmanager
def _shown(done: Callable[[], float | None]) -> Iterator[None]:
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(done, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(done: Callable[[], float | None], ended: threading.Event) -> None:
    began, wait = time.monotonic(), _QUIET_S
    while not ended.wait(wait):
        wait = _EVERY_S
        show(words(time.monotonic() - began, done()))
    if wait != _QUIET_S:
        show()


def words(seconds: float, done: float | None) -> str:
    """``42 % after 3 s, about 4 s to go; Ctrl-C stops``."""
    if done is None or done < _LEAST:
        return f"working for {seconds:.0f} s; Ctrl-C stops"
    left = seconds * (1 - done) / done
    return f"{100 * done:.0f} % after {seconds:.0f} s, about {left:.0f} s to go; Ctrl-C stops"
