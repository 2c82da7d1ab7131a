"""Where a process has a file mapped, and how to get at that file."""

import os
from typing import NamedTuple, Self

import numpy as np

from cotenant.probes.roots import open_file, open_mapping, open_root


class MappedRange(NamedTuple):
    """A range of a process's addresses."""

    pid: int
    start: int
    end: int

    @classmethod
    def of(cls, mapping: np.void) -> Self:
        """That of a mapping as the kernel's iterator tells it."""
        return cls(int(mapping["pid"]), int(mapping["start"]), int(mapping["end"]))

    def path(self) -> str:
        """The path of the file; empty if it is not mapped there any more."""
        try:
            return os.readlink(f"/proc/{self.pid}/map_files/{self.start:x}-{self.end:x}")
        except OSError:
            return ""

    def open(self, path: str) -> int:
        """The file; by its path, if there is one, where it is not mapped any more."""
        try:
            return open_mapping(*self)
        except OSError:
            if not path:
                raise
        root = open_root(self.pid)
        try:
            return open_file(root, path)
        finally:
            os.close(root)
