"""JSON of any length, read piece by piece: the events of one list, the rest as it comes."""

import json
from collections.abc import Iterator
from typing import Any, Final, Protocol

from cotenant.profiles.operations import ProfileError

_CHUNK: Final = 1 << 20
_MOST_VALUE: Final = 8 << 20  # Of one event, or one value beside the list.
_MOST_BYTES: Final = 64 << 30  # What is packed may unpack to any length.
_OF_NUMBERS: Final = ".eE+-0123456789"
_BLANKS: Final = " \t\r\n"


class ByteSource(Protocol):
    """Where the bytes come from."""

    def read(self, size: int, /) -> bytes:
        """The next bytes; empty at the end."""


class JsonStream:
    """An object's keys and values in order; of the list ``of`` each element by itself."""

    def __init__(self, source: ByteSource, path: str, of: str) -> None:
        self._source = source
        self._path = path
        self._list = of
        self._text = ""
        self._at = 0
        self._ended = self._opened = False
        self._bytes = 0
        self._rest = b""
        self._decoder = json.JSONDecoder()

    def pairs(self) -> Iterator[tuple[str, Any]]:
        """Each key with its value; the list's key with each of its elements."""
        self._expect("{")
        self._opened = True
        if self._peek() == "}":
            return
        while True:
            key = self._value()
            if not isinstance(key, str):
                raise self._broken()
            self._expect(":")
            if key == self._list and self._peek() == "[":
                for element in self._elements():
                    yield key, element
            else:
                yield key, self._value()
            if self._next() == "}":
                return

    def _elements(self) -> Iterator[Any]:
        self._expect("[")
        if self._peek() == "]":
            self._at += 1
            return
        while True:
            yield self._value()
            if self._next("]") == "]":
                return

    def _next(self, end: str = "}") -> str:
        found = self._peek()
        if found not in (",", end):
            raise self._broken()
        self._at += 1
        return found

    def _expect(self, sign: str) -> None:
        if self._peek() != sign:
            raise self._broken()
        self._at += 1

    def _peek(self) -> str:
        """The next character that is no blank; empty at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _BLANKS:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def _value(self) -> Any:
        self._peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if isinstance(error, RecursionError) or not self._may_go_on():
                    raise self._broken() from error
                continue
            # A number at the end of what was read may go on.
            cut = self._text[end : end + 1] in ("", *_OF_NUMBERS)
            if cut and not isinstance(value, str | dict | list) and self._may_go_on():
                continue
            self._at = end
            return value

    def _may_go_on(self) -> bool:
        if len(self._text) - self._at > _MOST_VALUE:
            raise ProfileError(f"{self._path} has a value of more than {_MOST_VALUE >> 20} MiB")
        # Each try reads as much again as there is, so that a long value is read a few times only.
        return self._more(max(len(self._text) - self._at, _CHUNK))

    def _more(self, size: int = _CHUNK) -> bool:
        if self._ended:
            return False
        read = self._source.read(size)
        self._bytes += len(read)
        if self._bytes > _MOST_BYTES:
            raise ProfileError(f"{self._path} has more than {_MOST_BYTES >> 30} GiB of text")
        self._ended = not read
        read = self._rest + read
        # A character may be cut: at most its first three bytes are here.
        keep = 0 if self._ended else _cut(read)
        self._rest = read[len(read) - keep :]
        text = read[: len(read) - keep].decode("utf-8", "replace")
        self._text = self._text[self._at :] + text
        self._at = 0
        return bool(text) or not self._ended

    def _broken(self) -> ProfileError:
        if self._ended and self._opened:
            return ProfileError(f"{self._path} is cut short: its JSON does not end")
        return ProfileError(f"{self._path} is no JSON of PyTorch's profiler, nor an nsys export")


def _cut(text: bytes) -> int:
    """How many bytes at the end begin a character that is not whole."""
    for back in range(1, min(len(text), 3) + 1):
        byte = text[-back]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if needed > back else 0
    return 0
