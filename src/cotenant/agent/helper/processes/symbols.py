"""Names that no call told: out of the files a process has mapped, and of its memory.

Asked by the recorder, answered by the helper. Of a file that has names, what is kept is where they
lie; a name is read when somebody asks for it.
"""

import os
import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from cotenant.agent.helper.files.elf_files import ElfFiles
from cotenant.agent.helper.processes.process_memory import (
    PAGE,
    TEXT_MAX,
    Mapping,
    mapping_at,
    present,
    read_maps,
    read_texts,
)
from cotenant.agent.process import Nameless, Process, check
from cotenant.probes.elf import VARIABLE, BadElf, Elf
from cotenant.probes.roots import open_mapping

_FILES_MAX: Final = 512
_VARIABLES_MAX: Final = 100_000  # Per process: a hostile one must not fill our memory.
_VARIABLES_REMEMBERED: Final = 400_000
_REMEMBERED: Final = 64
_FILES_REMEMBERED: Final = 64
_TEXTS_HELD: Final = 64
_MAPPINGS_REMEMBERED: Final = 131_072  # Of all processes.
# A static variable of the function that nvcc writes around a launch: its name has the kernel's.
_HANDLE: Final = "8__handle"
_STUB: Final = re.compile(r"^_ZZL?(\d+)__device_stub_")

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class _File:
    """What a file tells, wherever it is mapped."""

    build_id: str | None
    first_address: int
    variables: npt.NDArray[np.void]


@dataclass(slots=True)
class _Stubs:
    """The variables of one file in one process, and the handles in them so far."""

    mapping: Mapping
    file: _File
    handles: Words

    def addresses(self, which: npt.NDArray[np.intp]) -> Words:
        """Where these variables lie."""
        # Modulo 2**64: numbers of a tenant's file.
        bias = np.uint64((self.mapping.start - self.file.first_address) % (1 << 64))
        addresses: Words = self.file.variables["address"][which] + bias
        return addresses


@dataclass(slots=True)
class _Image:
    """What is known of one process's files."""

    question: int  # The one for which it was looked at last.
    mappings: list[Mapping] = field(default_factory=list)
    stubs: list[_Stubs] = field(default_factory=list)
    variables: int = 0
    build_id: str | None = None


_NOTHING: Final = _File(None, 0, np.empty(0, VARIABLE))  # What cannot be read is read once.


class Symbols:
    """Looks for names in one tenant's processes; remembers a few processes' files.

    A process maps files as it runs. So what is remembered answers if it can; if it cannot, and is
    older than the question, the process is looked at once more.
    """

    def __init__(self, tenant: str, files: ElfFiles) -> None:
        self._tenant = tenant
        self._elf_files = files
        self._images: OrderedDict[Process, _Image] = OrderedDict()
        self._files: OrderedDict[tuple[int, ...], _File] = OrderedDict()
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
            check(nameless.process)  # What was read is of no other one.
        except OSError:
            return unknown_name(nameless), False
        return found or (unknown_name(nameless, image.build_id), False)

    def _find(self, nameless: Nameless, image: _Image) -> tuple[str, bool] | None:
        for value in (nameless.stub, nameless.handle):
            if not value:
                continue
            name = _name_of_handle(nameless.process, image, value)
            if name is not None:
                return name, True
            found = self._code(nameless.process, image, value)
            if found is not None:
                return found
        return None

    def texts(self, process: Process, addresses: list[int]) -> Iterator[str | None]:
        """The strings at addresses whose pages were not there when they were first wanted.

        A few at a time: each may be as long as any.
        """
        for at in range(0, len(addresses), _TEXTS_HELD):
            few = addresses[at : at + _TEXTS_HELD]
            found = self._texts(process, few)
            missing = [address for address in few if not found.get(address)]
            if missing and self._mapped_for != self._question:
                self._mapped_last = None
                found |= self._texts(process, missing)
            yield from (found.get(each, b"").decode("utf-8", "replace") or None for each in few)

    def _texts(self, process: Process, addresses: list[int]) -> dict[int, bytes]:
        try:
            found = read_texts(process.pid, self._mapped(process), addresses)
            check(process)  # What was read is of no other one.
        except OSError:
            return {}
        return found

    def _mapped(self, process: Process) -> list[Mapping]:
        """Where a process has what mapped; looked at again when it asks for another's."""
        if self._mapped_last is None or self._mapped_last[0] != process:
            check(process)
            self._mapped_last = (process, list(read_maps(process.pid)))
            self._mapped_for = self._question
        return self._mapped_last[1]

    def _image(self, process: Process) -> _Image:
        check(process)
        if process in self._images:
            return self._images[process]
        image = self._images[process] = _Image(self._question)
        self._look(process, image)
        while len(self._images) > 1 and self._remembers_too_much():
            self._images.popitem(last=False)
        return image

    def _remembers_too_much(self) -> bool:
        images = self._images.values()
        return (
            len(images) > _REMEMBERED
            or sum(len(image.mappings) for image in images) > _MAPPINGS_REMEMBERED
            or sum(image.variables for image in images) > _VARIABLES_REMEMBERED
        )

    def _look(self, process: Process, image: _Image) -> None:
        """Read the files that are mapped by now, and the handles that are known by now."""
        image.question = self._question
        before = {mapping for mapping in image.mappings if mapping.is_file}
        image.mappings = list(read_maps(process.pid))
        if before.isdisjoint(image.mappings):  # It runs another program by now.
            image.stubs, image.variables, image.build_id = [], 0, None
        firsts = [m for m in image.mappings if m.is_file and m.offset == 0]
        for mapping in firsts[:_FILES_MAX]:
            if mapping in before:
                continue
            try:
                self._add(process, image, mapping)
            except (OSError, BadElf):
                continue
        for stubs in image.stubs:
            _read_handles(process.pid, stubs)

    def _add(self, process: Process, image: _Image, mapping: Mapping) -> None:
        """The program's build, and where its stubs keep handles."""
        fd = open_mapping(process.pid, mapping.start, mapping.end)
        try:
            file = self._file(fd)
        finally:
            os.close(fd)
        image.build_id = image.build_id or file.build_id
        count = len(file.variables)
        if count and image.variables + count <= _VARIABLES_MAX:
            image.variables += count
            image.stubs.append(_Stubs(mapping, file, np.zeros(count, np.uint64)))

    def _file(self, fd: int) -> _File:
        """What a file tells; ranks of a job have the same ones mapped."""
        about = os.fstat(fd)
        key = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        if key not in self._files:
            self._files[key] = _NOTHING
            self._files[key] = self._read_file(fd)
        self._files.move_to_end(key)
        while len(self._files) > _FILES_REMEMBERED:
            self._files.popitem(last=False)
        return self._files[key]

    def _read_file(self, fd: int) -> _File:
        with Elf(fd) as elf:
            variables = self._elf_files.variables(self._tenant, fd, _HANDLE)
            return _File(elf.build_id(), elf.first_address(), variables)

    def _code(self, process: Process, image: _Image, address: int) -> tuple[str, bool] | None:
        """The function at an address, by the symbols of the file that is mapped there."""
        mapping = mapping_at(image.mappings, address)
        if mapping is None or not mapping.is_file:
            return None
        try:
            fd = open_mapping(process.pid, mapping.start, mapping.end)
        except OSError:
            return None
        try:
            offset = address - mapping.start + mapping.offset
            found = self._elf_files.name_at(self._tenant, fd, offset)
            if found.name:
                return found.name, True
            return f"unknown@{found.build_id or '?'}+{found.inside or 0:#x}", False
        except BadElf:
            return None
        finally:
            os.close(fd)


def unknown_name(nameless: Nameless, build_id: str | None = None) -> str:
    """What to call a kernel without a name: the same each time."""
    return f"unknown@{build_id or '?'}+{nameless.stub or nameless.handle:#x}"


def _name_of_handle(process: Process, image: _Image, handle: int) -> str | None:
    """The kernel whose stub keeps this handle; its name is in the file."""
    for stubs in image.stubs:
        for variable in stubs.file.variables[stubs.handles == handle][:1]:
            fd = open_mapping(process.pid, stubs.mapping.start, stubs.mapping.end)
            try:
                size = min(int(variable["name_size"]), TEXT_MAX)
                symbol = os.pread(fd, size, int(variable["name_at"]))
            finally:
                os.close(fd)
            return kernel_of_stub(symbol.decode("utf-8", "replace"))
    return None


def kernel_of_stub(symbol: str) -> str | None:
    """The mangled kernel in the name of its stub's variable."""
    found = _STUB.match(symbol)
    if found is None:
        return None
    prefix = len("__device_stub_")
    stub = symbol[found.start(1) + len(found[1]) :][: int(found[1][:6])]
    return stub[prefix:] or None


def _read_handles(pid: int, stubs: _Stubs) -> None:
    """What the variables hold that held nothing so far, page by page."""
    which = np.flatnonzero(stubs.handles == 0)
    addresses = stubs.addresses(which)
    order = np.argsort(addresses, kind="stable")
    which, addresses = which[order], addresses[order]
    pages = addresses // np.uint64(PAGE)
    for part in np.split(np.arange(len(pages)), np.flatnonzero(np.diff(pages)) + 1):
        if len(part):
            page = int(pages[part[0]]) * PAGE
            stubs.handles[which[part]] = _words(pid, page, addresses[part] - np.uint64(page))


def _words(pid: int, page: int, inside: Words) -> Words:
    """Words of one page; 0 where there is none."""
    try:
        raw = present(pid, page, PAGE)
    except (OSError, OverflowError):
        raw = b""
    padded = np.frombuffer(raw.ljust(PAGE, b"\0") + bytes(8), np.uint8)
    at = inside.astype(np.intp)
    whole = padded[at[:, None] + np.arange(8)].view("<u8").ravel()
    words: Words = np.where(at <= PAGE - 8, whole, np.uint64(0))
    return words
