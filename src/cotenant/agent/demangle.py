"""C++ names as people write them. The names come from tenants, so a child does the work.

A name can be made such that its readable form has gigabytes, or that reading it overruns the
stack. The child has little memory and time; a name that it does not survive stays as it is.
"""

import contextlib
import os
import select
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import IO, Final

_LONGEST: Final = 15871  # Longer ones reach us cut.
_SECONDS: Final = 1.0


# Opened while files may still be opened for writing.
_NOWHERE: Final = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


class _Child:
    """Demangles one name at a time; started when first needed, replaced when it dies."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, name: str) -> str | None:
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
        return line.decode("utf-8", "replace") or None

    def close(self) -> None:
        """End the child, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _started(self) -> "subprocess.Popen[bytes] | None":
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            with contextlib.suppress(OSError):
                self._process = subprocess.Popen(
                    [sys.executable, "-S", "-E", str(Path(__file__).with_name("demangler.py"))],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=_NOWHERE,
                    start_new_session=True,
                )
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


@lru_cache(maxsize=65536)
def demangle(name: str) -> str:
    """The readable form of a mangled name; any other name as it is, made printable."""
    if len(name) >= _LONGEST:
        name = f"{name[:_LONGEST]}\N{HORIZONTAL ELLIPSIS}"
    elif name.startswith("_Z") and name.isascii() and name.isprintable():
        name = _child.ask(name) or name
    return "".join(c if c.isprintable() else "\ufffd" for c in name)


def stop() -> None:
    """End the child."""
    _child.close()
