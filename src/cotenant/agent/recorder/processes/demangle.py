"""Demangles C++ names. Tenants choose them, so a child process does the work.

A hostile name may demangle to gigabytes, or overrun the stack. The child has little memory and
time; a name that kills it stays mangled. Rows wait meanwhile, so demangling has a quota of the
recorder's time.
"""

import contextlib
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from cotenant.agent.process import Process
from cotenant.printable import printable

_LONGEST: Final = 15871  # Longer ones reach us cut.
_SECONDS: Final = 1.0
_START_S: Final = 10.0
_SHARE: Final = 0.2  # Of the time; what is not used adds up, to at most _AT_ONCE_S.
_AT_ONCE_S: Final = 2.0
_SLOW_S: Final = 0.1
_FAILURES_MAX: Final = 3  # Of one process.
_FAILED_MAX: Final = 4096  # Processes.
_KEPT_BYTES: Final = 32 << 20


# Opened while files may still be opened for writing.
_NOWHERE: Final = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


class _Child:
    """Demangles one name at a time; started when first needed, replaced when it dies."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, name: str) -> str | None:
        """The readable form; empty if there is none, None if the child died of it."""
        process = self._started()
        if process is None or process.stdin is None or process.stdout is None:
            return None
        try:
            process.stdin.write(name.encode() + b"\n")
            process.stdin.flush()
            line = _read_line(process.stdout, _SECONDS)
        except OSError:
            line = None
        if line is None:
            self.close()
            return None
        return line.decode("utf-8", "replace")

    def close(self) -> None:
        """End the child, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def start(self) -> None:
        """Have one ready before the first name comes."""
        self._started()

    def _started(self) -> "subprocess.Popen[bytes] | None":
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            with contextlib.suppress(OSError):
                self._process = subprocess.Popen(
                    [sys.executable, "-SEP", str(Path(__file__).with_name("demangler.py"))],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=_NOWHERE,
                    start_new_session=True,
                )
                # Its start does not count against a name.
                assert self._process.stdout is not None
                if _read_line(self._process.stdout, _START_S) is None:
                    self.close()
        return self._process


def _read_line(stream: IO[bytes], seconds: float) -> bytes | None:
    """A line, if it comes in time; None if not, or if the other end is gone."""
    data = b""
    while not data.endswith(b"\n"):
        ready, _, _ = select.select([stream], [], [], seconds)
        part = os.read(stream.fileno(), 65536) if ready else b""
        if not part:
            return None
        data += part
    return data[:-1]


_child: Final = _Child()


class Demangler:
    """Caches readable names, and demangles new ones within a quota of time."""

    def __init__(
        self,
        ask: Callable[[str], str | None] = _child.ask,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._found: dict[str, str] = {}  # Least recently used first.
        self._bytes = 0
        self._failures: Counter[Process] = Counter()
        self._left_s = _AT_ONCE_S
        self._then = clock()

    def readable(self, name: str, process: Process) -> str:
        """The readable form of a mangled name; any other name as it is, made printable.

        Where the quota is used up, the name stays mangled this time.
        """
        if len(name) >= _LONGEST:
            return printable(f"{name[:_LONGEST]}\N{HORIZONTAL ELLIPSIS}")
        if not (name.startswith("_Z") and name.isascii() and name.isprintable()):
            return printable(name)
        found = self._found.pop(name, None)
        if found is not None:
            self._found[name] = found
            return found
        if self._failures[process] >= _FAILURES_MAX or not self._has_time():
            return name
        found = printable(self._find(name, process) or name)
        self._keep(name, found)
        return found

    def gone(self, process: Process) -> None:
        """The process ended."""
        self._failures.pop(process, None)

    def _has_time(self) -> bool:
        now = self._clock()
        self._left_s = min(_AT_ONCE_S, self._left_s + _SHARE * (now - self._then))
        self._then = now
        return self._left_s > 0

    def _find(self, name: str, process: Process) -> str | None:
        found = self._ask(name)
        took = self._clock() - self._then
        self._left_s -= took
        if found is None or (not found and took > _SLOW_S):
            self._failures[process] += 1
            while len(self._failures) > _FAILED_MAX:
                del self._failures[next(iter(self._failures))]
        return found

    def _keep(self, name: str, found: str) -> None:
        self._found[name] = found
        self._bytes += len(name) + len(found)
        while self._bytes > _KEPT_BYTES:
            oldest = next(iter(self._found))
            self._bytes -= len(oldest) + len(self._found.pop(oldest))


def start() -> None:
    """Start the child ahead of time."""
    _child.start()
