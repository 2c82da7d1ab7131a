"""The helper as the recorder sees it: a child behind a socket."""

import contextlib
import os
import subprocess
import sys
import time
from typing import Final

from cotenant.agent.channel import Channel, Closed, Message, MessageTooLarge, trouble
from cotenant.errors import CotenantError, Unsupported

_START_S: Final = 600.0  # Verifying programs takes seconds, minutes on an emulated CPU.
_STOP_S: Final = 60.0
_EXIT_S: Final = 2.0


class _Failed(CotenantError):
    """What the helper said before it gave up; it chose the exit code."""


class HelperClient:
    """Starts the helper, hears it, and stops it.

    A helper gets ready for work while the recorder does, and touches nothing until it is told what
    to do.
    """

    def __init__(self) -> None:
        ours, theirs = Channel.pair()
        self.messages: list[Message] = []
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
            raise CotenantError(f"cannot start the attaching process: {error}") from error
        finally:
            theirs.close()
        self.channel = Channel(ours)

    def begin(self, settings: Message) -> None:
        """Say what is to be recorded: from now on it loads and attaches."""
        # Of one that is gone already the first answer tells.
        with contextlib.suppress(Closed):
            self.channel.send({"type": "begin", "settings": settings})

    @property
    def pid(self) -> int:
        """The helper's process id."""
        return self._process.pid

    def maps(self) -> tuple[dict[str, int], Message]:
        """Descriptors of the shared maps; how it attaches, and what a recorded call costs."""
        message, fds = self._expect("maps")
        return dict(zip(message["names"], fds, strict=True)), message

    def trial(self) -> list[str]:
        """Wait until a function of our own is probed; by programs of which families."""
        return list(self._expect("trial")[0]["families"])

    def ready(self) -> Message:
        """Wait until everything that is there is probed."""
        return self._expect("ready")[0]

    def _expect(self, wanted: str, seconds: float = _START_S) -> tuple[Message, list[int]]:
        while True:
            try:
                received = self.channel.receive(seconds)
            except Closed:
                raise Unsupported("the attaching process ended before it was ready") from None
            if received is None:
                raise Unsupported(f"the attaching process said nothing for {seconds:.0f} s")
            message, fds = received
            if message["type"] == "failed":
                error = _Failed(message["text"])
                error.exit_code = message["exit_code"]
                raise error
            if message["type"] == wanted:
                return message, fds
            self.messages.append(message)

    def heard(self) -> list[Message]:
        """What it said since the last time; Closed once it is gone."""
        while (received := self.channel.receive(0)) is not None:
            self.messages.append(received[0])
        messages, self.messages = self.messages, []
        return messages

    def ask(self, message: Message) -> None:
        """Send a question; its answer, if any, is heard later."""
        try:
            self.channel.send(message)
        except MessageTooLarge as error:
            self.messages.append(trouble("channel", error))

    def hear_for(self, kind: str, number: int, seconds: float) -> bool:
        """Listen until the answer with this number came; false if it did not in time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            received = self.channel.receive(left)
            if received is None:
                return False
            self.messages.append(received[0])
            if received[0]["type"] == kind and received[0]["number"] == number:
                return True
        return False

    def stop(self) -> list[Message]:
        """Ask it to remove every probe; returns when they are gone."""
        try:
            self.channel.send({"type": "stop"})
            left = self._expect("stopped", _STOP_S)[0]["left"]
        except CotenantError:
            left = 0
            self._process.kill()
        if left:
            self.notices.append(
                f"the kernel goes on removing {left} perf events for a while; none of them fires"
            )
        messages, self.messages = self.messages, []
        self.channel.close()
        # Its descriptors may take the kernel long to close; no probe fires meanwhile.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0 if left else _EXIT_S)
        return messages

    def dismiss(self) -> None:
        """End it where nothing comes of the recording."""
        self._process.kill()
        self.kill()

    def kill(self) -> None:
        """Hang up without a word; its links go with it."""
        self.channel.close()
        self._process.wait()
