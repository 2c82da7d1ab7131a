"""What is said of files that nobody could read."""

import struct
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cotenant.agent.helper.files import elf_files
from cotenant.agent.helper.files.elf_files import ElfFiles, answer
from cotenant.probes.elf import BadElf, NotRead
from cotenant.probes.sites import Stepping
from cotenant.probes.tables import FUNCTIONS


class Unwilling:
    """Processes that read files, and do not."""

    def __init__(self, why: str) -> None:
        self._why = why

    def ask(self, *_: Any) -> bytes:
        raise BadElf(self._why)


class Willing:
    """The same in this process."""

    def ask(self, _: str, fd: int, question: bytes) -> bytes:
        return answer(fd, question)


HEAD = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00"
DYNAMIC = struct.pack("<IIQQQQQQ", 2, 4, 0, 0, 0, 0, 0, 8)
# As a library whose section headers were stripped.
STRIPPED = HEAD + struct.pack("<IQQQIHHHHHH", 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0) + DYNAMIC


@pytest.mark.parametrize("readers", [Willing(), Unwilling("does not answer")])
@pytest.mark.parametrize("light", [1 << 20, -1])
@pytest.mark.parametrize(("data", "why"), [(b"text" * 99, None), (STRIPPED, "no section of")])
def test_a_file_is_none_of_ours_only_if_somebody_has_read_it(
    readers: Any, light: int, data: bytes, why: str | None, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setattr(elf_files, "_LIGHT", light)
    (tmp_path / "x").write_bytes(data)
    unread = light < 0 and isinstance(readers, Unwilling)
    with (tmp_path / "x").open("rb") as file:
        ask = partial(ElfFiles(readers).plan, "t", file.fileno(), FUNCTIONS, Stepping.NONE)
        if why is None:
            assert ask() is None
            return
        with pytest.raises(BadElf, match="does not answer" if unread else why) as raised:
            ask()
        assert (raised.type is NotRead) == unread
