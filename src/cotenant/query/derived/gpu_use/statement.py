"""GPU time in words, with what is known of it and from where."""

from collections.abc import Mapping
from typing import Any

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))


def _number(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def time(ns: float) -> str:
    """``4.9 s``."""
    for unit, name in _UNITS:
        if ns >= 0.995 * unit:
            return f"{_number(ns / unit)} {name}"
    return f"{ns:.0f} ns" if ns else "0"


def between(low: float, high: float) -> str:
    """``0.7 to 6 s``; each with its unit where they differ."""
    first, last = time(low), time(high)
    same = first.rpartition(" ")[2] == last.rpartition(" ")[2]
    return f"{first.partition(' ')[0]} to {last}" if same else f"{first} to {last}"


def stated(row: Mapping[str, Any]) -> str:
    """``4.9 s (4.8 to 5 s)``, and where it is known from unless its own waits say it."""
    most = f"not known: at most {time(row['gpu_time_high_ns'])}"
    if row.get("gpu_time_ns") is None:
        return f"{most}, at least {time(row['gpu_time_low_ns'])}"
    middle = f"{time(row['gpu_time_ns'])} " + (
        f"({between(row['gpu_time_ci_low_ns'], row['gpu_time_ci_high_ns'])})"
    )
    match row["source"]:
        case "borrowed":
            return f"{middle}, timed in tenant {row['source_tenant']}"
        case "prior":
            return f"{most}; {middle} if its kernels are like others'"
    return middle
