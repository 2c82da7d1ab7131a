"""The kernels that people have, and where their packages come from."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of a distribution."""

    name: str  # As it is called here and in docs/kernels.md.
    distribution: str
    suites: tuple[str, ...]  # As tools/apt_private.sh takes them.
    package: str  # A pattern; the newest package that matches is the one.
    refused: str | None = None  # Words of the refusal, where nothing may be recorded.
    lazy: bool = False  # Has preempt=lazy.


_DEBIAN: Final = r"linux-image-[0-9][^-]*(-[0-9]+)?-amd64"

KERNELS: Final = (
    Kernel("5.10", "Debian 11", ("bullseye",), _DEBIAN, refused="too old"),
    Kernel(
        "5.15",
        "Ubuntu 22.04",
        ("ubuntu:jammy-updates",),
        r"linux-image-5\.15\.0-[0-9]+-generic",
    ),
    Kernel("6.1", "Debian 12", ("bookworm",), _DEBIAN),
    Kernel("6.8", "Ubuntu 24.04", ("ubuntu:noble-updates",), r"linux-image-6\.8\.0-[0-9]+-generic"),
    # Not the newest of its kind, which has the fix.
    Kernel(
        "6.11",
        "Ubuntu 24.04, of early 2025",
        ("ubuntu:noble-updates",),
        r"linux-image-6\.11\.0-17-generic",
        refused="filtered, as in containers, would be killed",
    ),
    Kernel("6.12", "Debian 13", ("trixie",), _DEBIAN),
    Kernel("6.12-rt", "Debian 13", ("trixie",), r"linux-image-[0-9][^-]*(-[0-9]+)?-rt-amd64"),
    Kernel("ubuntu", "Ubuntu, newest", ("ubuntu:devel",), r"linux-image-[0-9.]+-[0-9]+-generic"),
    Kernel("backport", "Debian 13, backports", ("trixie-backports",), _DEBIAN, lazy=True),
    Kernel("newest", "Debian sid", ("sid",), _DEBIAN, lazy=True),
)
BY_NAME: Final = {kernel.name: kernel for kernel in KERNELS}
NEWEST: Final = "newest"
# Where each axis is tried: the oldest of today's stable releases, the present one, the newest.
ANCHORS: Final = ("6.1", "6.12", NEWEST)
