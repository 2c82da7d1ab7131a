"""The helper as the recorder sees it: a child behind a socket."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from typing import Final, TypeVar

from cotenant.agent.channel import Channel, Closed, MessageTooLarge
from cotenant.agent.protocol.link import recorder_link
from cotenant.agent.protocol.reports import (
    Failed,
    MapsShared,
    Ready,
    Report,
    Stopped,
    TrialReady,
    Trouble,
)
from cotenant.agent.protocol.requests import Begin, HelperSettings, Request, Stop
from cotenant.errors import CotenantError, Unsupported

_START_S: Final = 600.0  # Verifying programs takes seconds, minutes on an emulated CPU.
_STOP_S: Final = 90.0  # The helper waits for memory locks for a minute at most.
_EXIT_S: Final = 2.0
_HANG_UP_S: Final = 30.0

_R = TypeVar("_R", MapsShared, TrialReady, Ready, Stopped)


class _HelperFailed(CotenantError):
    """What the helper said before it gave up; it chose the exit code."""


class HelperClient:
    """Starts the helper, hears it, and stops it.

    A helper gets ready for work while the recorder does, and touches nothing until it is told what
    to do.
    """

    def __init__(self) -> None:
        ours, theirs = Channel.pair()
        self._reports: list[Report] = []
        self._slow_to_leave = False
        self.notices: list[str] = []  # What is worth knowing after the stop, each in one line.
        try:
            self._process = subprocess.Popen(
                # Root imports nothing from wherever it happened to be started.
                [sys.executable, "-P", "-m", "cotenant.agent.helper.main"],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "COTENANT_HELPER_FD": str(theirs.fileno())},
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise CotenantError(f"cannot start the helper: {error}") from error
        finally:
            theirs.close()
        self.link = recorder_link(ours)

    def begin(self, settings: HelperSettings) -> None:
        """Say what is to be recorded: from now on it loads and attaches."""
        # Of one that is gone already the first answer tells.
        with contextlib.suppress(Closed):
            self.link.send(Begin(settings))

    def maps(self) -> tuple[dict[str, int], socket.socket, MapsShared]:
        """Descriptors of the shared maps, where they are read for us; how it attaches."""
        shared, fds = self._expect(MapsShared)
        if len(fds) != len(shared.names) + 1:
            raise Unsupported(
                f"of {len(shared.names) + 1} files {len(fds)} came: too many files are open"
            )
        server = socket.socket(fileno=fds.pop())
        return dict(zip(shared.names, fds, strict=True)), server, shared

    def trial(self) -> tuple[str, ...]:
        """Wait until a function of our own is probed; by programs of which families."""
        return self._expect(TrialReady)[0].families

    def ready(self) -> Ready:
        """Wait until everything that is there is probed."""
        return self._expect(Ready)[0]

    def _expect(self, wanted: type[_R], seconds: float = _START_S) -> tuple[_R, list[int]]:
        while True:
            try:
                received = self.link.receive(seconds)
            except Closed:
                raise Unsupported("the helper exited before it was ready; try --debug") from None
            if received is None:
                raise Unsupported(f"the helper did not answer for {seconds:.0f} s; try --debug")
            message, fds = received
            if isinstance(message, Failed):
                error = _HelperFailed(message.text)
                error.exit_code = message.exit_code
                raise error
            if isinstance(message, wanted):
                return message, fds
            self._reports.append(message)

    def heard(self) -> list[Report]:
        """What it said since the last time; Closed once it is gone."""
        while (received := self.link.receive(0)) is not None:
            self._reports.append(received[0])
        return self.take()

    def take(self) -> list[Report]:
        """What it said while something else was waited for."""
        reports, self._reports = self._reports, []
        return reports

    def ask(self, request: Request) -> None:
        """Send a request; its answer, if any, is heard later."""
        try:
            self.link.send(request)
        except MessageTooLarge as error:
            self._reports.append(Trouble.by("channel", error))

    def hear_until(self, answer: Report, seconds: float) -> bool:
        """Listen until this answer came; false if it did not in time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            received = self.link.receive(left)
            if received is None:
                return False
            self._reports.append(received[0])
            if received[0] == answer:
                return True
        return False

    def stop(self) -> list[Report]:
        """Ask it to remove every probe; returns when they are gone. It still reads maps."""
        try:
            self.link.send(Stop())
            stopped = self._expect(Stopped, _STOP_S)[0]
        except CotenantError:
            stopped = Stopped(0)
            self._end()
        left = stopped.left
        if stopped.held_up:
            self.notices.append(
                f"probes that record nothing stay until their memory is unlocked: {stopped.held_up}"
            )
        if left:
            self.notices.append(
                f"the kernel goes on removing {left} perf events for a while; none of them fires"
            )
        self._slow_to_leave = left > 0
        return self.take()

    def leave(self) -> None:
        """It has stopped, and is not needed any more."""
        self.link.close()
        # Its descriptors may take the kernel long to close; no probe fires meanwhile.
        self._wait(0 if self._slow_to_leave else _EXIT_S)

    def dismiss(self) -> None:
        """End it where nothing comes of the recording."""
        self._end()
        self.kill()

    def kill(self) -> None:
        """Hang up without a word; its links go with it."""
        self.link.close()
        self._wait(_HANG_UP_S)

    def _end(self) -> None:
        # Who is root no more may not; hanging up does it too.
        with contextlib.suppress(PermissionError):
            self._process.kill()

    def _wait(self, seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
