"""Sizes and shares as users write them."""

import argparse
import re
from typing import Final

_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def size_bytes(text: str) -> int:
    """``500m`` or ``10g`` in bytes."""
    found = re.fullmatch(r"(\d+)\s*([kmgt]?)(i?b)?", text.strip().lower())
    if not found or int(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text} is no size; write 500m or 10g")
    return int(found[1]) * _UNITS[found[2]]


def share(text: str) -> float:
    """``5%`` as a part of one; 0 for ``off``."""
    if text.strip().lower() == "off":
        return 0.0
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%?", text.strip())
    if not found or not 0 < float(found[1]) <= 100:
        raise argparse.ArgumentTypeError(f"{text} is no percentage; write 5% or off")
    return float(found[1]) / 100
