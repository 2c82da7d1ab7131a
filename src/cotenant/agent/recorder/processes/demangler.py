"""The process that demangles: without rights, and with a worker that hostile names may kill.

It starts before the recorder gives up its own rights: a recorder runs no program after that. The
recorder cannot end a worker either, so each name has a timer that does.

Both processes stay for as long as a recording, so nothing is imported that they can do without.
"""

import ctypes
import mmap
import os
import resource
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Final, NoReturn

from cotenant.confine.capabilities import drop_capabilities
from cotenant.confine.landlock import confine
from cotenant.confine.seccomp import Role, refuse_calls
from cotenant.confine.user import RecorderUser, become

# A message is the number of a question and a name; an answer the same number and a text, or none.
HEAD: Final = struct.Struct("<I?")
MESSAGE_MAX: Final = 1 << 17
READY: Final = 0  # The number of no question.

_SHOWN_MAX: Final = 65536
_TEXT_MAX: Final = 1 << 20  # Longer ones take a time that nobody's name needs.
_NAME_S: Final = 0.9
_CHILD_BYTES: Final = 512 << 20
# The C++ library refuses names from about this length; binutils' tool can be told not to.
_REFUSED_FROM: Final = 1000
_PROGRAMS: Final = tuple(map(Path, ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache")))


def serve(channel: socket.socket, library: ctypes.CDLL) -> None:
    """Answer until nobody asks any more; a worker that dies is replaced."""
    current = mmap.mmap(-1, HEAD.size)  # What the worker is at, for when it cannot say so.
    channel.send(HEAD.pack(READY, True))
    while True:
        worker = os.fork()
        if worker == 0:
            _work(channel, library, current)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == 0:
            return
        channel.send(HEAD.pack(HEAD.unpack(current[:])[0], False))


def _work(channel: socket.socket, library: ctypes.CDLL, current: mmap.mmap) -> None:
    tool = _found("c++filt")
    while message := channel.recv(MESSAGE_MAX):
        current[:] = message[: HEAD.size]
        signal.setitimer(signal.ITIMER_REAL, _NAME_S)
        text = _demangled(library, tool, message[HEAD.size :])
        signal.setitimer(signal.ITIMER_REAL, 0)
        head = HEAD.pack(HEAD.unpack_from(message)[0], len(text) <= _TEXT_MAX)
        channel.send(head + (text if len(text) <= _SHOWN_MAX else b""))


def _demangled(library: ctypes.CDLL, tool: str | None, name: bytes) -> bytes:
    """The readable form; empty if there is none."""
    status = ctypes.c_int()
    found = library.__cxa_demangle(name, None, None, ctypes.byref(status))
    if status.value == 0 and found:
        text = ctypes.string_at(found)
        library.free(ctypes.c_void_p(found))
        return text
    return _long(tool, name) if tool and len(name) >= _REFUSED_FROM else b""


def _found(tool: str) -> str | None:
    """The path of a program."""
    places = (os.path.join(folder, tool) for folder in os.get_exec_path())
    return next((place for place in places if os.access(place, os.X_OK)), None)


def _long(tool: str, name: bytes) -> bytes:
    """A name that is too long for the library; nothing if the tool fails."""
    try:
        output, theirs = os.pipe()
        child = os.fork()
    except OSError:
        return b""
    if not child:
        _run(tool, name, theirs)
    os.close(theirs)
    with open(output, "rb") as file:
        text = file.read()
    return b"" if os.waitpid(child, 0)[1] else text.strip()


def _run(tool: str, name: bytes, output: int) -> NoReturn:
    """Become the tool. It must end by itself when the worker that waits for it is gone."""
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
        os.dup2(output, 1)
        os.execv(tool, [os.fsencode(tool), b"-r", name])
    finally:
        os._exit(1)


def _give_up_rights(user: RecorderUser | None) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # The recorder says when it is over.
    resource.setrlimit(resource.RLIMIT_AS, (_CHILD_BYTES, _CHILD_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if user is None:
        drop_capabilities()
    else:
        become(user)
    confine(run=_PROGRAMS)
    refuse_calls(Role.DEMANGLER)


def main(words: list[str]) -> None:
    """The socket is inherited; its number comes first, then the user to be, if any."""
    channel = socket.socket(fileno=int(words[0]))
    library = ctypes.CDLL("libstdc++.so.6")
    library.__cxa_demangle.restype = ctypes.c_void_p
    _give_up_rights(RecorderUser(int(words[1]), int(words[2])) if words[1:] else None)
    serve(channel, library)


if __name__ == "__main__":
    main(sys.argv[1:])
