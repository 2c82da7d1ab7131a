"""The columns of `top`: ten numbers per tenant that fit into eighty characters, fewer into less."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


def short(number: float) -> str:
    """Four characters or five: ``7``, ``1.2k``, ``640M``."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= size * 0.9995:
            scaled = number / size
            return f"{scaled:.0f}{unit}" if scaled >= 9.95 else f"{scaled:.1f}{unit}"
    return f"{number:.0f}" if number >= 9.95 or number == int(number) else f"{number:.1f}"


def percent(share: float) -> str:
    """``37%``; a little is not nothing."""
    return "<1%" if 0 < share < 0.005 else f"{100 * share:.0f}%"


def milliseconds(ns: float) -> str:
    """Of each second: ``1.5ms``, ``238ms``, ``5.0s``."""
    if not ns:
        return "0"
    if ns >= 9.995e8:
        return f"{ns / 1e9:.1f}s"
    return "<.1ms" if ns < 5e4 else f"{ns / 1e6:.1f}ms" if ns < 9.95e6 else f"{ns / 1e6:.0f}ms"


@dataclass(frozen=True, slots=True)
class ScreenColumn:
    """One number of a tenant: where it comes from, how it is shown and called."""

    key: str
    title: str
    width: int
    show: Callable[[float], str]
    doc: str
    alarming: bool = False
    guessed: str | None = None  # Key of whether it is a guess.

    def cell(self, row: dict[str, Any]) -> str:
        """The number as text; unknown is a dash."""
        value = row.get(self.key)
        mark = "?" if self.guessed and row.get(self.guessed) else ""
        return "-" if value is None else self.show(float(value)) + mark


COLUMNS: Final = (
    ScreenColumn(
        "gpu_share",
        "GPU",
        5,
        percent,
        "share of its GPUs, in proportion to work; ? a guess",
        guessed="gpu_guessed",
    ),
    ScreenColumn("launches", "launch/s", 9, short, "kernels and graphs launched a second"),
    ScreenColumn("nccl_ns", "NCCL/s", 7, milliseconds, "of each second, inside NCCL calls"),
    ScreenColumn("gpu_bytes", "memory", 7, short, "bytes of device memory held"),
    ScreenColumn("cpu_ns", "CPU", 5, lambda ns: percent(ns / 1e9), "of one CPU"),
    ScreenColumn(
        "wait_ns", "wait/s", 7, milliseconds, "of each second, waiting for a CPU; of all threads"
    ),
    ScreenColumn("disk_bytes", "disk", 6, short, "bytes a second read and written"),
    ScreenColumn("net_bytes", "net", 6, short, "bytes a second sent and received"),
    ScreenColumn("retransmits", "retr", 5, short, "TCP retransmits a second", alarming=True),
    ScreenColumn("lost", "lost", 6, short, "events lost in this time", alarming=True),
    ScreenColumn("queued_share", "queued", 7, percent, "of the time, work in flight on a GPU"),
)
_TENANT_WIDTH: Final = 13  # At least.
_WIDEST_TENANT: Final = 48  # So that a line can still be followed by eye.
_SCROLLBAR: Final = 1
# On a narrow screen, what matters first.
_FIRST: Final = ("gpu_share", "launches", "wait_ns", "cpu_ns", "nccl_ns", "gpu_bytes", "lost")


@dataclass(frozen=True, slots=True)
class ScreenLayout:
    """What fits beside each other: the width of a name, and the columns after it."""

    tenant_width: int
    columns: tuple[ScreenColumn, ...]


def layout(width: int) -> ScreenLayout:
    """Every column if there is room, else those that matter first; names get what is left."""
    room = width - _SCROLLBAR - _TENANT_WIDTH
    keys = [*_FIRST, *(column.key for column in COLUMNS if column.key not in _FIRST)]
    widths = {column.key: column.width for column in COLUMNS}
    fit = {key for n, key in enumerate(keys) if sum(widths[k] for k in keys[: n + 1]) <= room}
    columns = tuple(column for column in COLUMNS if column.key in fit)
    rest = room - sum(column.width for column in columns)
    return ScreenLayout(min(_TENANT_WIDTH + max(rest, 0), _WIDEST_TENANT), columns)
