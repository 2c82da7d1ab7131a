"""Messages to bytes and back.

A message is a JSON list of two: the name of its class, and its fields by name. A decoder knows the
messages of one direction, and takes nothing that one of them does not declare.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import islice
from typing import Any, Final, Generic, NoReturn, TypeVar

from cotenant.agent.protocol.checks import Malformed, check_of

M = TypeVar("M")
_T = TypeVar("_T")

_SLICE_BYTES: Final = 1 << 16
_GROUP: Final = 32


def by_name(message: Any) -> dict[str, Any]:
    """The fields of a message, or of what is in one."""
    return {field.name: getattr(message, field.name) for field in fields(message)}


_json: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=by_name).encode


def encode(message: object) -> bytes:
    """One message."""
    return _json([type(message).__name__, message]).encode()


def slices(items: Iterable[_T]) -> Iterator[tuple[_T, ...]]:
    """The items in parts that each fit into a message, whatever a tenant has put into them."""
    part: list[_T] = []
    size = 0
    for few, more in _measured(iter(items)):
        if part and size + more > _SLICE_BYTES:
            yield tuple(part)
            part, size = [], 0
        part += few
        size += more
    if part:
        yield tuple(part)


def _measured(items: Iterator[_T]) -> Iterator[tuple[list[_T], int]]:
    """Items and how many bytes they take: short ones together, as they come by the thousand."""
    while group := list(islice(items, _GROUP)):
        size = len(_json(group))
        if size <= _SLICE_BYTES // 8:
            yield group, size
        else:
            yield from (([item], len(_json(item)) + 1) for item in group)


def _no_constant(name: str) -> NoReturn:
    raise Malformed(f"{name} is no number")


_parser: Final = json.JSONDecoder(parse_constant=_no_constant)


class Decoder(Generic[M]):
    """Bytes to messages of these kinds; Malformed if they are none."""

    def __init__(self, kinds: Iterable[type[M]]) -> None:
        self._checks = {kind.__name__: check_of(kind) for kind in kinds}

    def decode(self, data: bytes) -> M:
        """One message."""
        try:
            parsed = _parser.decode(data.decode())
        except Malformed:
            raise
        except (ValueError, RecursionError) as error:
            raise Malformed(f"a message is no JSON: {type(error).__name__}") from None
        if not (isinstance(parsed, list) and len(parsed) == 2 and isinstance(parsed[0], str)):
            raise Malformed("a message is no kind with its fields")
        kind, fields_ = parsed
        if kind not in self._checks:
            raise Malformed(f"a message is of no known kind: {kind[:40]!r}")
        try:
            return self._checks[kind]([fields_])[0]  # type: ignore[no-any-return]
        except Malformed as error:
            raise Malformed(f"a message {kind}: {error}") from None
