"""Kernels out of their distributions' packages, kept in ``build/``."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from vm import ROOT
from vm.catalog import Kernel


class Unreachable(Exception):
    """No package: apt does not reach the distribution from here, or it has no such kernel."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A kernel and its modules on this disk."""

    release: str
    image: Path
    modules: Path


def unpack(kernel: Kernel) -> Unpacked:
    """The newest package of a kernel, fetched once a day at most."""
    newest = max(_names(kernel), key=_version, default=None)
    if newest is None:
        raise Unreachable(f"{kernel.distribution} has no package {kernel.package} that apt reaches")
    release = re.sub(r"^linux-image-(unsigned-)?", "", newest)
    places = [_fetch(kernel, newest)]
    # Newer packages of Debian, and all of Ubuntu's, come in parts.
    for part in ("binary", "modules"):
        name = f"linux-{part}-{release}"
        if not _has(places, release) and name in _names(kernel, re.escape(name)):
            places.append(_fetch(kernel, name))
    if not _has(places, release):
        raise Unreachable(f"{newest} holds no kernel with its modules")
    return Unpacked(release, _images(places, release)[0], _modules(places, release)[0])


def _has(places: list[Path], release: str) -> bool:
    return bool(_images(places, release) and _modules(places, release))


def _images(places: list[Path], release: str) -> list[Path]:
    usual = (f"boot/vmlinuz-{release}", f"usr/lib/modules/{release}/vmlinuz")
    return [place / name for place in places for name in usual if (place / name).is_file()]


def _modules(places: list[Path], release: str) -> list[Path]:
    usual = (f"lib/modules/{release}", f"usr/lib/modules/{release}")
    return [
        place / name for place in places for name in usual if (place / name / "kernel").is_dir()
    ]


def _version(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


def _apt(*words: str) -> list[str]:
    done = subprocess.run(
        [ROOT / "tools" / "apt_private.sh", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unreachable(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else words[0])
    return done.stdout.splitlines()


def _names(kernel: Kernel, pattern: str | None = None) -> list[str]:
    return _apt("--names", *kernel.suites, "--", f"^{pattern or kernel.package}$")


def _fetch(kernel: Kernel, package: str) -> Path:
    return ROOT / _apt(*kernel.suites, "--", package)[0]
