"""How a command ends when it is told to: at once, whatever it is in, with nothing left behind.

A handler in Python waits until the main thread is out of a library's code, which may be minutes.
A thread that hears of the signal too ends the process if the handler did not. Neither raises an
exception: raised in the middle of an import or a destructor, it would be printed.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn

from cotenant import leftovers

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_S: Final = 0.1  # For the main thread to handle a signal itself.
_NOTICES_S: Final = 1.0
_WATCHER: Final = "ending"


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Within this, Ctrl-C ends the process, unless somebody else handles it meanwhile."""
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # As `nohup` wants it.
            signal.signal(number, _end)
    heard, told = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(heard,), name=_WATCHER, daemon=True).start()
    try:
        yield
    finally:
        leftovers.end()


def unwatched() -> None:
    """Leave signals to the main thread alone: rights are given up thread by thread."""
    told = signal.set_wakeup_fd(-1)
    if told >= 0:
        os.close(told)
    for thread in threading.enumerate():
        if thread.name == _WATCHER:
            thread.join()
            # Python is done with it; the kernel a moment later.
            while os.path.exists(f"/proc/self/task/{thread.native_id}"):
                time.sleep(0.001)


def end_now(number: int) -> NoReturn:
    """End as by this signal; a shell that runs a loop then ends that too."""
    _last_words()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    os._exit(128 + number)  # Blocked, as a debugger may have it.


@contextmanager
def ends_after(seconds: float) -> Iterator[None]:
    """Within this, exit with a line when the time is over, even if no library returns."""

    def end() -> None:
        words = (
            f"cotenant: no answer after {seconds:g} s; query less time, or give it a --timeout\n"
        )
        with suppress(OSError):
            os.write(2, words.encode())
        leftovers.end()
        os._exit(1)

    # A query notices by itself, and in better words.
    timer = threading.Timer(min(seconds + _NOTICES_S, threading.TIMEOUT_MAX), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(number: int, _: FrameType | None) -> None:
    end_now(number)


def _watch(heard: int) -> None:
    while told := os.read(heard, 1):
        time.sleep(_GRACE_S)
        if signal.getsignal(told[0]) is _end:
            _last_words()
            os._exit(128 + told[0])


def _last_words() -> None:
    leftovers.end()
    if sys.stderr.isatty():
        with suppress(OSError):
            os.write(2, b"\n")  # The prompt comes on a line of its own.
