"""Names that no call told: out of the files a process has mapped, and of its memory.

Asked by the recorder, answered by the helper. Memory is read only where a page is present, so
that no page fault of a tenant's making can hold us up; text of a file is read from the file.
"""

import os
import re
import struct
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from cotenant.agent.kernel_names import Nameless
from cotenant.agent.process import Process, check
from cotenant.probes.elf import BadElf, Elf
from cotenant.probes.roots import open_mapping

_MAPS_MAX: Final = 65536
_FILES_MAX: Final = 512
_VARIABLES_MAX: Final = 20_000
_NAMES_BYTES_MAX: Final = 16 << 20  # Per process: a hostile one must not fill our memory.
_ENTRY_BYTES: Final = 128
_TEXT_MAX: Final = 65536
_PAGE: Final = 4096
_PRESENT: Final = 1 << 63
_REMEMBERED: Final = 64
# A static variable of the function that nvcc writes around a launch: its name has the kernel's.
_HANDLE: Final = "8__handle"
_STUB: Final = re.compile(r"^_ZZL?(\d+)__device_stub_")


@dataclass(frozen=True, slots=True)
class Mapping:
    """One line of /proc/PID/maps."""

    start: int
    end: int
    offset: int
    inode: int

    @property
    def is_file(self) -> bool:
        """Whether a file is behind it."""
        return self.inode != 0


@dataclass(slots=True)
class _Image:
    """What is known of one process's files."""

    question: int  # The one for which it was looked at last.
    mappings: list[Mapping] = field(default_factory=list)
    variables: dict[int, str] = field(default_factory=dict)  # By address: no handle in them so far.
    handles: dict[int, str] = field(default_factory=dict)
    names_bytes: int = 0
    build_id: str | None = None


class Symbols:
    """Looks for names in other processes; remembers a few processes' files.

    A process maps files as it runs. So what is remembered answers if it can; if it cannot, and is
    older than the question, the process is looked at once more.
    """

    def __init__(self) -> None:
        self._images: OrderedDict[Process, _Image] = OrderedDict()
        self._mapped_last: tuple[Process, list[Mapping]] | None = None
        self._mapped_for = 0
        self._question = 0

    def next_question(self) -> None:
        """What was looked at before may have changed by now."""
        self._question += 1

    def kernel(self, nameless: Nameless) -> tuple[str, bool]:
        """The kernel's name and true; else what to call it, the same each time, and false."""
        try:
            image = self._image(nameless.process)
            found = self._find(nameless, image)
            if not (found and found[1]) and image.question != self._question:
                self._look(nameless.process, image)
                found = self._find(nameless, image)
        except OSError:
            return f"unknown@?+{nameless.stub or nameless.handle:#x}", False
        place = nameless.stub or nameless.handle
        return found or (f"unknown@{image.build_id or '?'}+{place:#x}", False)

    def _find(self, nameless: Nameless, image: _Image) -> tuple[str, bool] | None:
        for value in (nameless.stub, nameless.handle):
            if not value:
                continue
            if value in image.handles:
                return image.handles[value], True
            found = self._code(nameless.process, image, value)
            if found is not None:
                return found
        return None

    def text(self, process: Process, address: int) -> str | None:
        """The string at an address whose page was not there when it was first wanted."""
        found = self._text(process, address)
        if found is None and self._mapped_for != self._question:
            self._mapped_last = None
            found = self._text(process, address)
        return found

    def _text(self, process: Process, address: int) -> str | None:
        try:
            mapping = _at(self._mapped(process), address)
            if mapping is None:
                return None
            raw = self._bytes(process, mapping, address)
        except OSError:
            return None
        return raw.split(b"\0", 1)[0].decode("utf-8", "replace") or None

    def _mapped(self, process: Process) -> list[Mapping]:
        """Where a process has what mapped; looked at again when it asks for another's."""
        if self._mapped_last is None or self._mapped_last[0] != process:
            check(process)
            self._mapped_last = (process, list(_read_maps(process.pid)))
            self._mapped_for = self._question
        return self._mapped_last[1]

    def _image(self, process: Process) -> _Image:
        check(process)
        if process in self._images:
            return self._images[process]
        image = self._images[process] = _Image(self._question)
        while len(self._images) > _REMEMBERED:
            self._images.popitem(last=False)
        self._look(process, image)
        return image

    def _look(self, process: Process, image: _Image) -> None:
        """Read the files that are mapped by now, and the handles that are known by now."""
        image.question = self._question
        before = {mapping for mapping in image.mappings if mapping.is_file}
        image.mappings = list(_read_maps(process.pid))
        if before.isdisjoint(image.mappings):  # It runs another program by now.
            image.variables, image.handles = {}, {}
            image.names_bytes, image.build_id = 0, None
        firsts = [m for m in image.mappings if m.is_file and m.offset == 0]
        for mapping in firsts[:_FILES_MAX]:
            if mapping in before:
                continue
            try:
                self._read_file(process, image, mapping)
            except (OSError, BadElf):
                continue
        for address, value in _words(process.pid, image.variables):
            image.handles[value] = image.variables.pop(address)

    def _read_file(self, process: Process, image: _Image, mapping: Mapping) -> None:
        """The program's build, and where its stubs keep handles."""
        fd = open_mapping(process.pid, mapping.start, mapping.end)
        try:
            with Elf(fd) as elf:
                if image.build_id is None:
                    image.build_id = elf.build_id()
                bias = mapping.start - elf.first_address()
                variables = list(elf.variables(_HANDLE).items())[:_VARIABLES_MAX]
                for address, symbol in variables:
                    name = kernel_of_stub(symbol)
                    full = image.names_bytes >= _NAMES_BYTES_MAX
                    if name and len(name) <= _TEXT_MAX and not full:
                        image.variables[bias + address] = name
                        image.names_bytes += len(name) + _ENTRY_BYTES
        finally:
            os.close(fd)

    def _code(self, process: Process, image: _Image, address: int) -> tuple[str, bool] | None:
        """The function at an address, by the symbols of the file that is mapped there."""
        mapping = _at(image.mappings, address)
        if mapping is None or not mapping.is_file:
            return None
        try:
            fd = open_mapping(process.pid, mapping.start, mapping.end)
        except OSError:
            return None
        try:
            with Elf(fd) as elf:
                inside = elf.address_of(address - mapping.start + mapping.offset)
                name = elf.name_at(inside) if inside is not None else None
                if name:
                    return name, True
                return f"unknown@{elf.build_id() or '?'}+{inside or 0:#x}", False
        except BadElf:
            return None
        finally:
            os.close(fd)

    def _bytes(self, process: Process, mapping: Mapping, address: int) -> bytes:
        count = min(_TEXT_MAX, mapping.end - address)
        if not mapping.is_file:
            return _string(process.pid, address, count)
        fd = open_mapping(process.pid, mapping.start, mapping.end)
        try:
            return os.pread(fd, count, address - mapping.start + mapping.offset)
        finally:
            os.close(fd)


def kernel_of_stub(symbol: str) -> str | None:
    """The mangled kernel in the name of its stub's variable."""
    found = _STUB.match(symbol)
    if found is None:
        return None
    prefix = len("__device_stub_")
    stub = symbol[found.start(1) + len(found[1]) :][: int(found[1][:6])]
    return stub[prefix:] or None


def _read_maps(pid: int) -> Iterator[Mapping]:
    with open(f"/proc/{pid}/maps", "rb") as file:
        for _, line in zip(range(_MAPS_MAX), file, strict=False):
            span, _, offset, _, inode = line.split(maxsplit=5)[:5]
            start, _, end = span.partition(b"-")
            yield Mapping(int(start, 16), int(end, 16), int(offset, 16), int(inode))


def _at(mappings: list[Mapping], address: int) -> Mapping | None:
    """The mapping around an address; the kernel tells them in order."""
    before = bisect_right(mappings, address, key=lambda mapping: mapping.start)
    mapping = mappings[before - 1] if before else None
    return mapping if mapping is not None and address < mapping.end else None


def _words(pid: int, addresses: Iterable[int]) -> list[tuple[int, int]]:
    """Words that are there and are not zero, by address."""
    found = []
    for page, inside in groupby(sorted(addresses), lambda address: address // _PAGE):
        try:
            raw = _memory(pid, page * _PAGE, _PAGE)
        except (OSError, OverflowError):
            continue
        for address in inside:
            word = raw[address % _PAGE :][:8]
            if len(word) == 8 and any(word):
                found.append((address, int.from_bytes(word, "little")))
    return found


def _string(pid: int, address: int, count: int) -> bytes:
    """Bytes up to the end of a string, page by page, as far as pages are in memory."""
    found = b""
    while len(found) < count and b"\0" not in found:
        at = address + len(found)
        part = _memory(pid, at, min(count - len(found), _PAGE - at % _PAGE))
        if not part:
            break
        found += part
    return found


def _memory(pid: int, address: int, count: int) -> bytes:
    """Bytes of one page of a process; nothing where the page is not in memory."""
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as file:
        file.seek(address // _PAGE * 8)
        entry = file.read(8)
    if len(entry) < 8 or not struct.unpack("<Q", entry)[0] & _PRESENT:
        return b""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(address)
        return file.read(count)
