"""A place that knows names, and how asking it may go wrong.

A source never raises out of :meth:`Source.lookup` and never holds a caller longer than
its time limit: it answers with what it knows, and remembers for ``cotenant doctor`` why
it could not. After a failure it is left alone for a while, longer each time, so that a
runtime that hangs costs one time limit and not one per container.
"""

import json
import os
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant.identity.naming.names import Names
from cotenant.identity.path.model import Identity

ANSWER_MAX: Final = 1 << 20
_PROGRAM_S: Final = 2.0
_PRINTED_MAX: Final = 1 << 17
_PAUSE_FIRST_S: Final = 1.0
_PAUSE_MAX_S: Final = 60.0


class SourceError(Exception):
    """A source could not answer; its text says why."""


class Absent(SourceError):
    """The source is not on this host, which is no failure."""


class Unusable(SourceError):
    """One container's data cannot be used; the source itself is well."""


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How a source has done so far."""

    name: str
    where: str
    state: str  # unused, ready, absent or failing
    lookups: int
    named: int
    failures: int
    last_error: str | None


class _History:
    """What became of the questions so far; several threads ask."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lookups = self.named = self.failures = 0
        self.state = "unused"
        self.last_error: str | None = None
        self.pause_s = _PAUSE_FIRST_S
        self.paused_until = 0.0

    def begin(self) -> bool:
        """Whether the source may be asked now."""
        with self.lock:
            if time.monotonic() < self.paused_until:
                return False
            self.lookups += 1
            return True

    def settle(self, state: str, why: str | None, *, named: bool = False) -> None:
        """It answered, or is not there."""
        with self.lock:
            self.state, self.last_error = state, why
            self.named += named
            self.pause_s = _PAUSE_FIRST_S
            self.paused_until = time.monotonic() + (_PAUSE_FIRST_S if state == "absent" else 0)

    def fail(self, why: str) -> None:
        """It is there and could not answer."""
        with self.lock:
            self.state, self.last_error = "failing", why
            self.failures += 1
            self.paused_until = time.monotonic() + self.pause_s
            self.pause_s = min(self.pause_s * 2, _PAUSE_MAX_S)


class Source(ABC):
    """Something that can be asked for the names of a container, job or user."""

    name: str
    where: str
    adds = False  # Has more to say about a container that another source named.

    def __init__(self) -> None:
        self._history = _History()

    @abstractmethod
    def serves(self, identity: Identity) -> bool:
        """Whether this kind of identity could be known here; no I/O."""

    @abstractmethod
    def ask(self, identity: Identity, path: str) -> Names | None:
        """Ask; None if it is not known here. May raise SourceError, OSError, ValueError."""

    def lookup(self, identity: Identity, path: str) -> Names | None:
        """Names, or None; every failure ends here."""
        if not self._history.begin():
            return None
        names = None
        try:
            names = self.ask(identity, path)
        except Absent as error:
            self._history.settle("absent", str(error))
        except Unusable as error:
            self._history.settle("ready", str(error)[:300])
        except (SourceError, OSError, ValueError, LookupError, RecursionError) as error:
            self._history.fail(f"{type(error).__name__}: {error}"[:300])
        else:
            self._history.settle("ready", None, named=names is not None)
        return names

    def failing(self) -> bool:
        """Whether it is there but could not answer when last asked."""
        return self._history.state == "failing"

    def status(self) -> SourceStatus:
        """For ``cotenant doctor``."""
        done = self._history
        with done.lock:
            return SourceStatus(
                self.name,
                self.where,
                done.state,
                done.lookups,
                done.named,
                done.failures,
                done.last_error,
            )


def read_bounded(path: Path, limit: int = ANSWER_MAX) -> bytes:
    """A whole small file; Unusable beyond ``limit``, FileNotFoundError if it is gone."""
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Unusable(f"{path} is larger than {limit} bytes")
    return data


def read_json(path: Path, limit: int = ANSWER_MAX) -> object:
    """A small JSON file; Unusable if it is not JSON."""
    try:
        return json.loads(read_bounded(path, limit))
    except (ValueError, RecursionError) as error:
        raise Unusable(f"{path} is not JSON: {error}") from error


def ask_program(program: str, *words: str) -> str:
    """What a program prints; SourceError if it takes too long, Absent if it is not there."""
    try:
        done = subprocess.run(
            [program, *words],
            capture_output=True,
            timeout=_PROGRAM_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        name = os.path.basename(program)
        raise SourceError(f"{name} did not answer within {_PROGRAM_S:g} s") from error
    except FileNotFoundError as error:
        raise Absent(f"no {program}") from error
    return done.stdout[:_PRINTED_MAX].decode("utf-8", "replace")


def at(value: object, *keys: str) -> object:
    """A value deep in JSON; None wherever the way down ends."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value
