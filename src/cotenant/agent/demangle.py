"""C++ names as people write them. The names come from tenants, so a child does the work.

A name can be made such that its readable form has gigabytes, or that reading it overruns the
stack. The child has little memory and time; a name that it does not survive stays as it is.
"""

import contextlib
import ctypes
import os
import resource
import select
import shutil
import subprocess
import sys
from functools import lru_cache
from typing import IO, Final

_LONGEST: Final = 4096
_SHOWN_MAX: Final = 16384
_SECONDS: Final = 1.0
_CHILD_BYTES: Final = 512 << 20
# The C++ library refuses names from about this length; binutils' tool can be told not to.
_REFUSED_FROM: Final = 1000


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
        if self._process is None or self._process.poll() is not None:
            with contextlib.suppress(OSError):
                self._process = subprocess.Popen(
                    [sys.executable, "-S", "-E", __file__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
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
    if name.startswith("_Z") and len(name) < _LONGEST and name.isascii() and name.isprintable():
        name = _child.ask(name) or name
    return "".join(c if c.isprintable() else "\ufffd" for c in name)


def stop() -> None:
    """End the child."""
    _child.close()


def _serve() -> None:
    """What the child does: a mangled name on each line, its readable form on another."""
    resource.setrlimit(resource.RLIMIT_AS, (_CHILD_BYTES, _CHILD_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    library = ctypes.CDLL("libstdc++.so.6")
    library.__cxa_demangle.restype = ctypes.c_void_p
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    tool = shutil.which("c++filt")
    for line in sys.stdin.buffer:
        status = ctypes.c_int()
        found = library.__cxa_demangle(line.rstrip(b"\n"), None, None, ctypes.byref(status))
        text = b""
        if status.value == 0 and found:
            text = ctypes.string_at(found)
            free(found)
        elif tool and len(line) > _REFUSED_FROM:
            text = subprocess.run([tool, "-r", line.strip()], capture_output=True).stdout.strip()
        if len(text) > _SHOWN_MAX:
            text = b""
        sys.stdout.buffer.write(text.replace(b"\n", b" ") + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
