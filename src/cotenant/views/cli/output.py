"""What this process prints to: a disk may be full, a pipe closed, an encoding narrow."""

import codecs
import io
import os
import sys
from contextlib import suppress
from typing import Any, Final

from cotenant.errors import CotenantError
from cotenant.printable import json_spelled

_STDOUT, _STDERR = 1, 2
_SPELLED: Final = "cotenant_spelled"  # What an encoding lacks stays valid in JSON, and readable.


class OutputError(CotenantError):
    """The answer could not be written."""


class _Stdout(io.FileIO):
    """Says in a line why it cannot be written to."""

    def write(self, data: Any, /) -> int:
        """As many bytes as fit."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            why = f"cannot write the answer to stdout: {error.strerror}"
            raise OutputError(f"{why}; make room, or write it elsewhere") from None


class _Stderr(io.FileIO):
    """Remarks that nobody can read are no failure of the command."""

    def write(self, data: Any, /) -> int:
        """All of it, if at all possible."""
        try:
            return super().write(data)
        except OSError:
            return len(data)


def guard_output() -> None:
    """Replace stdout and stderr by ones that never end in a traceback."""
    _fill_closed()
    codecs.register_error(_SPELLED, _spell)
    out, err = _Stdout(_STDOUT, "w", closefd=False), _Stderr(_STDERR, "w", closefd=False)
    sys.stdout = _text(out, sys.stdout, line_by_line=os.isatty(_STDOUT))
    sys.stderr = _text(err, sys.stderr, line_by_line=True)


def _text(raw: io.FileIO, before: Any, *, line_by_line: bool) -> io.TextIOWrapper:
    encoding = before.encoding if before else "utf-8"
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, _SPELLED, line_buffering=line_by_line)


def _spell(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(map(json_spelled, lacking)), error.end


def discard_output() -> None:
    """Print to nowhere from now on: nobody reads, or what is buffered cannot be written."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fill_closed() -> None:
    """A closed descriptor would become the next file that is opened."""
    for fd in (0, _STDOUT, _STDERR):
        try:
            os.fstat(fd)
        except OSError:
            # Nothing can be written to it, as the caller asked.
            os.open(os.devnull, os.O_RDONLY)
