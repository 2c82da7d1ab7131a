"""``cotenant --version``: what runs here."""

import argparse
import os
from typing import Any

from cotenant import __version__


class ShowVersion(argparse.Action):
    """Prints the version, and with what it would record."""

    def __init__(self, option_strings: list[str], dest: str, **_: Any) -> None:
        shown = "show version, build id of the BPF objects, and kernel; exit"
        super().__init__(option_strings, dest, nargs=0, help=shown)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print, and leave."""
        print(version_line())
        parser.exit()


def version_line() -> str:
    """``cotenant 0.2.0 (objects 5f3c9a0b12de, Linux 6.8.0)``."""
    kernel = os.uname()
    return f"cotenant {__version__} (objects {objects_id()}, {kernel.sysname} {kernel.release})"


def objects_id() -> str:
    """Of the BPF objects that a recording loads, all of them: equal bytes have equal ids."""
    # Every other verb, and its probes of a container, would wait for these.
    import hashlib
    from importlib import resources

    folder = resources.files("cotenant") / "_native" / "objects"
    digest = hashlib.sha256()
    objects = sorted(folder.iterdir(), key=lambda file: file.name) if folder.is_dir() else []
    for file in objects:
        digest.update(hashlib.sha256(file.read_bytes()).digest() + file.name.encode())
    return digest.hexdigest()[:12] if objects else "not built"
