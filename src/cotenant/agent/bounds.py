"""How large a value in a message may be: said where the field is declared, kept by the decoder.

A bound holds for all that lies inside: ``Annotated[Names, Chars(4096)]`` for each text of a name.
"""

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class Range:
    """Of a number, both ends included."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Chars:
    """Of a text: at most so many characters, all of them valid Unicode unless it quotes a file."""

    most: int
    quotes_files: bool = False  # A file's name is any bytes: surrogates stand for odd ones.


@dataclass(frozen=True, slots=True)
class MaxItems:
    """Of a list or mapping: at most so many."""

    most: int


# As wide as the kernel's own fields: no tenant can write a number that does not fit.
Word = Annotated[int, Range(0, (1 << 64) - 1)]
HalfWord = Annotated[int, Range(0, (1 << 32) - 1)]
Signed = Annotated[int, Range(-(1 << 63), (1 << 63) - 1)]
