r"""Text that a tenant chose, and that harms nobody who reads it.

It must not move a cursor, end a line or turn the reading direction. A person sees a mark in place
of such characters (``printable``); a program gets them spelled out, ``\x1b``, so that two names
stay two (``escaped``), or as JSON spells them (``escaped_json``), which loses nothing.
"""

import re
from typing import Final

_SPELLED: Final = re.compile(
    r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U(00(?:0[0-9a-f]|10)[0-9a-f]{4}))"
)


def printable(text: str, but: str = "") -> str:
    """The text with a mark in place of what cannot be printed, but for these characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in but else "\N{REPLACEMENT CHARACTER}" for c in text)


def escaped(text: str) -> str:
    r"""The text with what cannot be printed spelled out; no two texts become one.

    A backslash stays as it is, unless what follows would be taken for a spelling of ours.
    """
    if "\\" in text:
        text = _SPELLED.sub(_guarded, text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _spelled(c) for c in text)


def _guarded(found: re.Match[str]) -> str:
    meant = chr(int(found[1] or found[2] or found[3], 16))
    return found[0] if meant.isprintable() and meant != "\\" else rf"\x5c{found[0][1:]}"


def _spelled(character: str) -> str:
    number = ord(character)
    if number < 1 << 8:
        return rf"\x{number:02x}"
    return rf"\u{number:04x}" if number < 1 << 16 else rf"\U{number:08x}"


def escaped_json(text: str) -> str:
    """JSON that says the same, with what cannot be printed as JSON spells it; lines stay lines."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json_spelled(c) for c in text)


def json_spelled(character: str) -> str:
    """The character as JSON spells it."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(rf"\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
