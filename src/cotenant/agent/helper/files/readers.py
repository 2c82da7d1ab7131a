"""Processes that each look into one file of a tenant's, and end.

A tenant made the file: what looking takes is bounded where the kernel can see it, by the memory,
the time and the rights of that process. They are forked by one that has done nothing yet but import
what they need, has no rights, and holds nothing: no probe outlives the helper in it.
"""

import contextlib
import os
import signal
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant.confine.capabilities import drop_capabilities
from cotenant.confine.landlock import confine_writes
from cotenant.confine.reader import bound, read_only_what_is_open
from cotenant.probes.elf import BadElf

# What one may have, by the tables that it looks through; and all of them together. What the agent
# has besides fits into the limit of its unit and of its pod: a pod ends as a whole where it is
# exceeded.
_MEMORY_LEAST: Final = 64 << 20
_MEMORY_MAX: Final = 768 << 20
_MEMORY_TOTAL: Final = 1280 << 20
_CPU_S: Final = 5
_SECONDS: Final = (
    60.0  # On a busy host its share of a CPU is small; a file system may never answer.
)
_QUESTION_MAX: Final = 1 << 16
_SIZE_BYTES: Final = 8  # Of a number before a question or an answer.
_ANSWER_MAX: Final = 16 << 20
_TENANTS_MAX: Final = 1024
# What one tenant's files may take: so many seconds at once, and this share of the time.
_BURST_S: Final = 5.0
_SHARE: Final = 0.2

Answer = Callable[[int, bytes], bytes]


@dataclass(slots=True)
class _Account:
    """What a tenant's files took, and a process that still looks into one, if it never ended."""

    left_s: float = _BURST_S
    looked: float = 0.0
    stuck: socket.socket | None = None

    def forget(self) -> None:
        """Nobody waits for the answer any more."""
        if self.stuck is not None:
            self.stuck.close()


class _Memory:
    """Room for all readers together; a small one does not wait behind a large one."""

    def __init__(self) -> None:
        self._left = _MEMORY_TOTAL
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Wait until there is this much."""
        with self._changed:
            self._changed.wait_for(lambda: self._left >= size)
            self._left -= size
        try:
            yield
        finally:
            with self._changed:
                self._left += size
                self._changed.notify_all()


class Readers:
    """Has questions about files answered by others."""

    def __init__(self, answer: Answer) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if not self._pid:
            self._socket.close()
            _serve(theirs, answer)
        theirs.close()
        self._memory = _Memory()
        self._lock = threading.Lock()
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    def close(self) -> None:
        """Ask no more."""
        self._socket.close()
        for account in self._accounts.values():
            account.forget()

    def ask(self, tenant: str, fd: int, question: bytes, weight: int) -> bytes:
        """What another process says about an open file; BadElf where that took too much.

        A tenant asks one question at a time; waiting for its share holds up nobody else. ``weight``
        is how much there may be to look through.
        """
        account = self._account(tenant)
        if account.stuck is not None and not _ended(account.stuck):
            raise BadElf("lies where another file does not answer")
        account.stuck = None
        now = time.monotonic()
        account.left_s = min(_BURST_S, account.left_s + (now - account.looked) * _SHARE)
        account.looked = now
        if account.left_s < 0:
            time.sleep(-account.left_s / _SHARE)
        memory = min(_MEMORY_LEAST + weight, _MEMORY_MAX)
        with self._memory.taken(memory):
            begun = time.monotonic()
            try:
                return self._ask(account, fd, _sized(memory, question))
            finally:
                account.left_s -= time.monotonic() - begun

    def _account(self, tenant: str) -> _Account:
        with self._lock:
            mine = self._accounts.pop(tenant, None) or _Account()
            self._accounts[tenant] = mine
            while len(self._accounts) > _TENANTS_MAX:
                self._accounts.popitem(last=False)[1].forget()
            return mine

    def _ask(self, account: _Account, fd: int, question: bytes) -> bytes:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.settimeout(_SECONDS + 1)
        try:
            with theirs:
                socket.send_fds(self._socket, [question], [fd, theirs.fileno()])
            answer = _receive(ours)
        except TimeoutError:
            account.stuck = ours  # Until it ends, nothing else of this tenant's is looked into.
            raise BadElf("does not answer") from None
        except OSError:
            ours.close()
            raise BadElf("nobody is left to read it: start the recording again") from None
        ours.close()
        if answer[:1] != _ANSWERED:
            raise BadElf(answer[1:200].decode("utf-8", "replace") or "takes too much to read")
        return answer[1:]


_ANSWERED: Final = b"+"
_REFUSED: Final = b"-"


def _sized(size: int, data: bytes) -> bytes:
    return size.to_bytes(_SIZE_BYTES, "little") + data


def _receive(end: socket.socket) -> bytes:
    """All of an answer; nothing if it was cut short."""
    with end.makefile("rb") as file:
        size = file.read(_SIZE_BYTES)
        count = int.from_bytes(size, "little")
        if len(size) < _SIZE_BYTES or count > _ANSWER_MAX:
            return b""
        answer = file.read(count)
    return answer if len(answer) == count else b""


def _ended(end: socket.socket) -> bool:
    """Whether who was to answer is gone, or did answer at last."""
    end.settimeout(0)
    try:
        end.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        pass
    end.close()
    return True


def _serve(link: socket.socket, answer: Answer) -> None:
    """The process that others are forked from; it ends with the helper."""
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(nothing, standard)
        os.closerange(3, link.fileno())
        os.closerange(link.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        drop_capabilities()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Nobody asks how they ended.
        while (received := socket.recv_fds(link, _QUESTION_MAX, 2))[0]:
            question, fds, _, _ = received
            if len(fds) == 2 and not _forked(fds[1]):
                link.close()
                _look(fds[0], fds[1], question, answer)
            for fd in fds:
                os.close(fd)
    finally:
        os._exit(0)


def _forked(reply: int) -> bool:
    """False in a new process; true if there is none, which is the answer then."""
    try:
        return bool(os.fork())
    except OSError as error:
        _say(reply, _REFUSED + f"cannot be read now: {error.strerror}".encode())
        return True


def _say(reply: int, said: bytes) -> None:
    data = memoryview(_sized(len(said), said))
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(reply, data) :]


def _look(fd: int, reply: int, question: bytes, answer: Answer) -> None:
    """The process that looks into one file."""
    try:
        # Where memory runs out, nobody else is to go.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
        confine_writes(None)
        memory = int.from_bytes(question[:_SIZE_BYTES], "little")
        bound(memory, _CPU_S, _SECONDS)
        read_only_what_is_open()
        try:
            said = _ANSWERED + answer(fd, question[_SIZE_BYTES:])
        except BadElf as error:
            said = _REFUSED + str(error).encode("utf-8", "replace")
        _say(reply, said)
    finally:
        os._exit(0)
