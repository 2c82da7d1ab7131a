"""Durations on the command line: 90s, 5m, 2h."""

import argparse
import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str) -> float:
    """``90s`` as 90.0; for argparse."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 90s, 5m or 2h")
    return float(match[1]) * _UNITS[match[2]]
