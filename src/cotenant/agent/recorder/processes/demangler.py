"""The child that demangles: a program of its own, which imports nothing of ours."""

import ctypes
import resource
import shutil
import subprocess
import sys
from typing import Final

_SHOWN_MAX: Final = 65536
_TOOL_S: Final = 0.9
_CHILD_BYTES: Final = 512 << 20
# The C++ library refuses names from about this length; binutils' tool can be told not to.
_REFUSED_FROM: Final = 1000


def serve() -> None:
    """An empty line once it is ready; then for each mangled name a line with its readable form."""
    resource.setrlimit(resource.RLIMIT_AS, (_CHILD_BYTES, _CHILD_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    library = ctypes.CDLL("libstdc++.so.6")
    library.__cxa_demangle.restype = ctypes.c_void_p
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    tool = shutil.which("c++filt")
    sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()
    for line in sys.stdin.buffer:
        status = ctypes.c_int()
        found = library.__cxa_demangle(line.rstrip(b"\n"), None, None, ctypes.byref(status))
        text = b""
        if status.value == 0 and found:
            text = ctypes.string_at(found)
            free(found)
        elif tool and len(line) > _REFUSED_FROM:
            text = _long(tool, line.strip())
        if len(text) > _SHOWN_MAX:
            text = b""
        sys.stdout.buffer.write(text.replace(b"\n", b" ") + b"\n")
        sys.stdout.buffer.flush()


def _long(tool: str, name: bytes) -> bytes:
    """A name that is too long for the library; nothing if the tool fails or takes its time."""
    try:
        done = subprocess.run([tool, "-r", name], capture_output=True, timeout=_TOOL_S)
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return b"" if done.returncode else done.stdout.strip()


if __name__ == "__main__":
    serve()
