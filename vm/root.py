"""The root disk of every guest: a small distribution, this Python, and the checkout as it is."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from vm import BUILD, ROOT

_PACKAGES: Final = (
    "gcc", "libc6-dev", "iproute2", "nftables", "kmod", "runc", "procps", "util-linux", "e2fsprogs",
    "libelf1", "zlib1g", "libssl3", "libffi8", "libsqlite3-0", "libbz2-1.0", "liblzma5",
    "libreadline8", "libuuid1", "binutils", "busybox-static",
)  # fmt: skip
# Of what the tests need, not what a guest does: other people's browsers, compilers and drivers.
_LEFT_OUT: Final = ("nvidia", "playwright", "mypy", "mypyc", "*mypyc*.so", "pip", "ruff", "test")
_CHECKOUT: Final = ("src", "sim", "tests", "vm", "bpf", "pyproject.toml")
_TOOLS: Final = ("bpftool",)
# BPF programs that are no part of the product; a guest has no compiler for them.
_PROGRAMS: Final = (
    "vm/guest/canary.bpf.c", "tests/kernel/refused.bpf.c", "tests/kernel/unguarded.bpf.c",
)  # fmt: skip
_IMAGE_BYTES: Final = 3 << 30


def _release() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2].strip('"')
    raise SystemExit("kernels: this system does not name its release")


def _base() -> Path:
    """A bootstrapped distribution, of this system's own release: its libraries fit ours."""
    what = f"{_release()} {' '.join(_PACKAGES)}"
    place = BUILD / f"base-{hashlib.sha256(what.encode()).hexdigest()[:12]}"
    if not place.exists():
        part = place.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        with (BUILD / "debootstrap.log").open("w") as log:
            subprocess.run(
                ["debootstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}",
                 _release(), part],
                check=True, stdout=log, stderr=log,
            )  # fmt: skip
        shutil.rmtree(part / "var/cache/apt", ignore_errors=True)
        shutil.rmtree(part / "usr/share/doc", ignore_errors=True)
        part.rename(place)
    return place


def _copy(source: Path, staging: Path, *, left_out: tuple[str, ...] = ("__pycache__",)) -> None:
    target = staging / str(source).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        ignored = shutil.ignore_patterns(*left_out)
        shutil.copytree(source, target, symlinks=True, ignore=ignored, dirs_exist_ok=True)
    elif not target.exists():
        shutil.copy2(source, target)


def _needed(program: Path) -> list[Path]:
    """The libraries that a program loads."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    words = (word for line in listed.stdout.splitlines() for word in line.split())
    return [Path(word) for word in words if word.startswith("/")]


def _stage(staging: Path) -> None:
    subprocess.run(["cp", "-a", "--reflink=auto", _base(), staging], check=True)
    prefix = Path(sys.base_prefix)
    if prefix != Path("/usr"):
        _copy(prefix / "bin", staging)
        left_out = ("site-packages", "__pycache__", "test", "idlelib", "config-*", "*.a")
        _copy(prefix / "lib", staging, left_out=left_out)
    _copy(ROOT / ".venv", staging, left_out=_LEFT_OUT)
    for name in _CHECKOUT:
        _copy(ROOT / name, staging)
    for source in _PROGRAMS:
        _compile(ROOT / source, staging)
    for tool in _TOOLS:
        found = shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin")
        if found:
            _copy(Path(found), staging)
            for library in _needed(Path(found)):
                _copy(library, staging)


def _compile(source: Path, staging: Path) -> None:
    """A BPF program that only guests run."""
    target = staging / str(source.with_suffix(".o")).lstrip("/")
    subprocess.run(
        ["make", "-s", "-C", ROOT / "bpf", "object", f"SOURCE={source}", f"TARGET={target}"],
        check=True,
    )


def build_image() -> Path:
    """The disk with the checkout as it is now."""
    BUILD.mkdir(parents=True, exist_ok=True)
    image, staging = BUILD / "root.ext4", BUILD / "staging"
    shutil.rmtree(staging, ignore_errors=True)
    _stage(staging)
    image.unlink(missing_ok=True)
    with image.open("wb") as file:
        file.truncate(_IMAGE_BYTES)
    # Features that kernels of 2021 do not know stay off.
    subprocess.run(
        ["mke2fs", "-q", "-t", "ext4", "-O", "^orphan_file,^metadata_csum_seed", "-d", staging,
         image],
        check=True,
    )  # fmt: skip
    shutil.rmtree(staging)
    return image
