"""Sizes, ports and percentages as users type them."""

import argparse
import re
from typing import Final

_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SMALLEST_RING: Final = 4 << 10
_LARGEST_RING: Final = 1 << 30
_LAST_PORT: Final = 65_535


def size_bytes(text: str) -> int:
    """``500m`` or ``10g`` in bytes."""
    found = re.fullmatch(r"(\d+)\s*([kmgt]?)(i?b)?", text.strip().lower())
    if not found or not 0 < float(found[1]) < 1 << 63:
        raise argparse.ArgumentTypeError(f"{text} is not a size; write 500m or 10g")
    return int(found[1]) * _UNITS[found[2]]


def bytes_per_second(text: str) -> int:
    """``10MB/s`` or ``500k`` in bytes per second."""
    try:
        return size_bytes(text.strip().lower().removesuffix("/s"))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text} is not a rate; write 10MB/s or 500k") from None


def ring_bytes(text: str) -> int:
    """``16m`` in bytes, as the size of a ring: a power of two."""
    size = size_bytes(text)
    if size & (size - 1) or not _SMALLEST_RING <= size <= _LARGEST_RING:
        raise argparse.ArgumentTypeError(f"{text} is not a power of two from 4k to 1g; write 16m")
    return size


def port(text: str) -> int:
    """A TCP port; 0 is any that is free."""
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text} is not a port; write one from 0 to {_LAST_PORT}")
    return int(text)


def share(text: str) -> float:
    """``5%`` as a part of one; 0 for ``off``."""
    if text.strip().lower() == "off":
        return 0.0
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%?", text.strip())
    if not found or not 0 < float(found[1]) <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not a percentage; write 5% or off")
    return float(found[1]) / 100
