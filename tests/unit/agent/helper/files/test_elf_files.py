"""What is said of files that nobody could read."""

import os
import struct
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from cotenant.agent.helper.files import elf_files
from cotenant.agent.helper.files.elf_files import ElfFiles, answer
from cotenant.probes.elf import BadElf, Elf, NotRead
from cotenant.probes.sites import Stepping
from cotenant.probes.tables import FUNCTIONS, SIGNS


class Unwilling:
    """Processes that read files, and do not."""

    def __init__(self, why: str) -> None:
        self._why = why

    def ask(self, *_: Any) -> bytes:
        raise BadElf(self._why)


class Willing:
    """The same in this process."""

    def ask(self, _: str, fd: int, question: bytes, _weight: int) -> bytes:
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


class Changing:
    """A file of its owner's: light when it is weighed, and heavy ever after."""

    SECTIONS_AT, TABLE_AT, TABLE = 4096, 1 << 16, 16 << 20
    RELOCATIONS, SYMBOLS = 4, 2

    def __init__(self, path: Path, kind: int) -> None:
        self._kind = kind
        path.touch()
        self.fd = os.open(path, os.O_RDWR)
        os.truncate(self.fd, self.TABLE_AT + self.TABLE)
        head = struct.pack("<IQQQIHHHHHH", 1, 0, 64, self.SECTIONS_AT, 0, 64, 56, 1, 64, 3, 0)
        code = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 1 << 16, 1 << 16, 4096)
        os.pwrite(self.fd, HEAD + head + code, 0)
        signs = b"\0" + b"".join(sign.encode() + b"\0" for sign in chain(*SIGNS.values()))
        self._strings = signs + b"x8__handle\0"
        os.pwrite(self.fd, self._strings, 8192)
        first = struct.pack("<IBBHQQ", 1, 2, 0, 1, 0, 16)  # The first sign is a function.
        os.pwrite(self.fd, first, self.TABLE_AT)
        self.write(24)

    def write(self, table: int) -> None:
        """Strings, symbols, and a table of this size."""
        parts = (
            (3, 0, 8192, len(self._strings), 0),
            (11, 2, self.TABLE_AT, 24, 0),
            (self._kind, 2, self.TABLE_AT, table, 0),
        )
        for index, (kind, flags, offset, size, link) in enumerate(parts):
            section = struct.pack("<IIQQQQIIQQ", 0, kind, flags, 0, offset, size, link, 0, 8, 24)
            os.pwrite(self.fd, section, self.SECTIONS_AT + index * 64)


@pytest.mark.parametrize("question", ["plan", "variables", "name_at", "function_starts"])
@pytest.mark.parametrize("kind", [Changing.RELOCATIONS, Changing.SYMBOLS])
def test_a_file_that_grows_once_it_is_weighed_is_read_as_far_as_it_was_weighed(
    question: str, kind: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = Changing(tmp_path / "x", kind)
    weigh = Elf.weight.fget  # type: ignore[attr-defined]
    weighed: list[int] = []
    read: list[int] = []
    pread = os.pread

    def weight(elf: Elf) -> int:
        weighed.append(weigh(elf))
        file.write(Changing.TABLE)
        return weighed[-1]

    def counted(fd: int, count: int, offset: int) -> bytes:
        data = pread(fd, count, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr(Elf, "weight", property(weight))
    monkeypatch.setattr(os, "pread", counted)
    files = ElfFiles(Unwilling("nobody is asked"))  # type: ignore[arg-type]
    if question == "plan":
        found = files.plan("t", file.fd, FUNCTIONS, Stepping.NONE)
        assert found is not None
    elif question == "variables":
        files.variables("t", file.fd, "8__handle")
    elif question == "name_at":
        assert files.name_at("t", file.fd, 0).name is not None
    else:
        assert files.function_starts("t", file.fd).tolist() == [0]
    os.close(file.fd)
    assert len(weighed) == 1
    assert weighed[0] < 1 << 16
    assert sum(read) < 1 << 20


def test_a_file_is_read_as_often_as_a_question_takes_and_no_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = Changing(tmp_path / "x", Changing.RELOCATIONS)
    monkeypatch.setattr(elf_files, "_TIMES", 2)
    monkeypatch.setattr(elf_files, "_CODE", 0)
    files = ElfFiles(Unwilling("nobody is asked"))  # type: ignore[arg-type]
    assert files.function_starts("t", file.fd).tolist() == [0]
    with pytest.raises(NotRead, match="takes too much to read"):
        files.plan("t", file.fd, FUNCTIONS, Stepping.NONE)
    os.close(file.fd)
