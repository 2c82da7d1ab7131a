"""ELF files, as far as probes need them; a tenant may have written them.

The files belong to tenants: every number in them may be a lie. Reads go through bounds, tables
are capped, and what does not fit raises ``BadElf``; nothing here trusts a count or an offset.
"""

import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cotenant.errors import ProbeError
from cotenant.probes.strings import string_places

SYMBOL: Final = np.dtype(
    [
        ("name", "<u4"),
        ("info", "u1"),
        ("other", "u1"),
        ("section", "<u2"),
        ("value", "<u8"),
        ("size", "<u8"),
    ]
)
_RELOCATION: Final = np.dtype([("place", "<u8"), ("info", "<u8"), ("addend", "<u8")])
_RELATIVE: Final = 8
# A variable: where it lies, and where in the file its name does.
VARIABLE: Final = np.dtype([("address", "<u8"), ("name_at", "<u8"), ("name_size", "<u4")])
_FUNCTION: Final = 2
_X86_64: Final = 62
_MAX_SYMBOLS: Final = 4_000_000
_MAX_HEADERS: Final = 4096
_SECTION_SYMTAB: Final = 2
_SECTION_RELA: Final = 4
_SECTION_NOTE: Final = 7
_SECTION_DYNSYM: Final = 11
_SEGMENT_EH_FRAME: Final = 0x6474E550
_UDATA4: Final = 0x03
_DATAREL_SDATA4: Final = 0x3B
_MAX_VARIABLES: Final = 100_000
_MAX_BYTES: Final = 1 << 27
_MAX_STRINGS: Final = 1 << 26
_SYMBOLS_AT_ONCE: Final = 1 << 16
_MAX_NAME: Final = 1 << 16
_MAX_CODE: Final = 64
_MAX_STARTS: Final = 1 << 20
_MAX_ALIASES: Final = 64


class Extent(NamedTuple):
    """A function's place in a file: where it starts, and its bytes if they are known, else 0."""

    offset: int
    size: int


class BadElf(ProbeError):
    """The file is not an ELF file that probes can be placed in."""


@dataclass(frozen=True, slots=True)
class _Section:
    type: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class _ProgramHeader:
    type: int
    flags: int
    offset: int
    address: int
    file_size: int


class Elf:
    """An open ELF file: where its functions are, and which build it is."""

    def __init__(self, fd: int, *, strings_max: int = _MAX_STRINGS) -> None:
        # Read, never mapped: truncating a mapped file would kill us.
        self._fd = fd
        self._strings_max = strings_max
        self._size = os.fstat(fd).st_size
        if self._size < 64:
            raise BadElf("shorter than an ELF header")
        self._segments, self._sections = self._headers()
        self._code = [s for s in self._segments if s.type == 1 and s.flags & 1][:_MAX_CODE]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The descriptor stays open: it is the caller's."""

    @property
    def size(self) -> int:
        """Bytes of the file, when it was opened."""
        return self._size

    def bytes_at(self, offset: int, count: int) -> bytes:
        """Bytes of the file; BadElf where it has none."""
        if offset < 0 or count < 0 or offset + count > self._size:
            raise BadElf(f"ends before offset {offset:#x}+{count}")
        if count > max(_MAX_BYTES, self._strings_max):
            raise BadElf(f"has a part of {count} bytes")
        parts = []
        while count:
            try:
                part = os.pread(self._fd, count, offset)
            except OSError as error:
                raise BadElf(f"cannot be read: {error}") from error
            if not part:
                raise BadElf(f"was cut short at offset {offset:#x}")
            parts.append(part)
            offset += len(part)
            count -= len(part)
        return b"".join(parts)

    def _headers(self) -> tuple[list[_ProgramHeader], list[_Section]]:
        head = self.bytes_at(0, 64)
        if head[:6] != b"\x7fELF\x02\x01":
            raise BadElf("not a 64-bit little-endian ELF file")
        machine = struct.unpack_from("<H", head, 18)[0]
        if machine != _X86_64:
            raise BadElf(f"built for machine {machine}, not x86-64")
        segments_at, sections_at = struct.unpack_from("<QQ", head, 32)
        segment_size, segment_count, section_size, section_count = struct.unpack_from(
            "<HHHH", head, 54
        )
        if segment_count > _MAX_HEADERS or section_count > _MAX_HEADERS:
            raise BadElf("has an absurd number of headers")
        segments = []
        if segment_size == 56:
            for index in range(segment_count):
                raw = self.bytes_at(segments_at + index * 56, 56)
                kind, flags, offset, address, _, file_size = struct.unpack_from("<IIQQQQ", raw)
                segments.append(_ProgramHeader(kind, flags, offset, address, file_size))
        sections = []
        if section_size == 64:
            for index in range(section_count):
                raw = self.bytes_at(sections_at + index * 64, 64)
                _, kind, _, address, offset, size, link = struct.unpack_from("<IIQQQQI", raw)
                sections.append(_Section(kind, address, offset, size, link))
        return segments, sections

    def file_offset(self, address: int) -> int | None:
        """Where the code at this address lies in the file; None if it is no code of this file."""
        for segment in self._code:
            inside = address - segment.address
            if 0 <= inside < segment.file_size:
                offset = segment.offset + inside
                return offset if offset < self._size else None
        return None

    def address_of(self, offset: int) -> int | None:
        """The address that the byte at this file offset has in the file's own numbering."""
        for segment in self._segments:
            inside = offset - segment.offset
            if segment.type == 1 and 0 <= inside < segment.file_size:
                return segment.address + inside
        return None

    def _symbol_sections(self) -> Iterable[tuple[_Section, _Section]]:
        """Symbols and their strings: what is exported, then what is local. A file has one each."""
        for wanted in (_SECTION_DYNSYM, _SECTION_SYMTAB):
            for section in self._sections:
                if section.type != wanted or section.link >= len(self._sections):
                    continue
                strings = self._sections[section.link]
                if strings.size <= self._strings_max:
                    yield section, strings
                    break

    def _tables(self) -> Iterable[tuple[npt.NDArray[np.void], bytes]]:
        """Symbol tables with their strings."""
        for section, strings in self._symbol_sections():
            count = min(section.size // SYMBOL.itemsize, _MAX_SYMBOLS)
            raw = self.bytes_at(section.offset, count * SYMBOL.itemsize)
            yield np.frombuffer(raw, SYMBOL), self.bytes_at(strings.offset, strings.size)

    def find(self, names: Iterable[str]) -> dict[str, int]:
        """File offsets of the functions of these names that the file defines."""
        return {name: extent.offset for name, extent in self.extents(names).items()}

    def extents(self, names: Iterable[str]) -> dict[str, Extent]:
        """Where the functions of these names lie that the file defines."""
        wanted = {name.encode() for name in names}
        found: dict[str, Extent] = {}
        for symbols, strings in self._tables():
            places = string_places(strings, wanted)
            if not places:
                continue
            defined = symbols[(symbols["info"] & 15 == _FUNCTION) & (symbols["section"] != 0)]
            hits = defined[np.isin(defined["name"], list(places))]
            _, firsts = np.unique(hits["name"], return_index=True)
            for symbol in hits[np.sort(firsts)]:
                offset = self.file_offset(int(symbol["value"]))
                if offset is not None:
                    extent = Extent(offset, min(int(symbol["size"]), self._size - offset))
                    found.setdefault(places[int(symbol["name"])].decode(), extent)
        return found

    def exports(self, markers: Iterable[str]) -> bool:
        """Whether any of these names may be in here: a quick look at the strings."""
        wanted = [name.encode() + b"\0" for name in markers]
        for _, strings in self._symbol_sections():
            text = self.bytes_at(strings.offset, strings.size)
            if any(name in text for name in wanted):
                return True
        return False

    def name_at(self, address: int) -> str | None:
        """The function that starts at this address."""
        for section in self._sections:
            if section.type not in (_SECTION_DYNSYM, _SECTION_SYMTAB):
                continue
            for symbols in self._symbols_of(section):
                defined = (symbols["info"] & 15 == _FUNCTION) & (symbols["section"] != 0)
                hits = symbols[(symbols["value"] == address) & defined]
                for symbol in hits[:_MAX_ALIASES]:
                    if name := self._name(section, int(symbol["name"])):
                        return name
        return None

    def _symbols_of(self, section: _Section) -> Iterable[npt.NDArray[np.void]]:
        """A table part by part: nothing is too big for it."""
        count = min(section.size // SYMBOL.itemsize, _MAX_SYMBOLS)
        for at in range(0, count, _SYMBOLS_AT_ONCE):
            part = min(_SYMBOLS_AT_ONCE, count - at) * SYMBOL.itemsize
            yield np.frombuffer(self.bytes_at(section.offset + at * SYMBOL.itemsize, part), SYMBOL)

    def _name(self, section: _Section, start: int) -> str | None:
        """A name of this table's symbols; None if it is none."""
        if section.link >= len(self._sections) or not start:
            return None
        strings = self._sections[section.link]
        most = min(_MAX_NAME, strings.size - start, self._size - strings.offset - start)
        name, end, _ = self.bytes_at(strings.offset + start, max(most, 0)).partition(b"\0")
        return name.decode("utf-8", "replace") if name and end else None

    def function_starts(self) -> npt.NDArray[np.uint64]:
        """Addresses at which a function starts, by the symbols and by the table of unwinding."""
        starts = [np.empty(0, np.uint64)]
        for symbols, _ in self._tables():
            code = (symbols["info"] & 15 == _FUNCTION) & (symbols["section"] != 0)
            starts.append(symbols["value"][code].astype(np.uint64))
        for segment in [s for s in self._segments if s.type == _SEGMENT_EH_FRAME][:1]:
            starts.append(self._unwind_starts(segment))
        found = np.unique(np.concatenate(starts))
        if len(found) > _MAX_STARTS:
            raise BadElf(f"has {len(found)} functions")
        return found

    def _unwind_starts(self, segment: _ProgramHeader) -> npt.NDArray[np.uint64]:
        """The sorted table of .eh_frame_hdr, in the one encoding that linkers write."""
        head = self.bytes_at(segment.offset, 12)
        nothing = np.empty(0, np.uint64)
        if head[0] != 1 or head[2] != _UDATA4 or head[3] != _DATAREL_SDATA4:
            return nothing
        count = min(struct.unpack_from("<I", head, 8)[0], (segment.file_size - 12) // 8)
        if count > _MAX_SYMBOLS:
            return nothing
        raw = np.frombuffer(self.bytes_at(segment.offset + 12, count * 8), "<i4")
        # Modulo 2**64, as the unwinder adds.
        return raw[::2].astype(np.int64).view(np.uint64) + np.uint64(segment.address)

    def relative(self, places: Iterable[int]) -> dict[int, int]:
        """Addresses that the loader writes into these places, and nowhere else; the file's own."""
        wanted = np.unique(np.fromiter(places, np.uint64))
        found: dict[int, int] = {}
        for section in self._sections:
            if section.type != _SECTION_RELA:
                continue
            size = section.size // _RELOCATION.itemsize * _RELOCATION.itemsize
            entries = np.frombuffer(self.bytes_at(section.offset, size), _RELOCATION)
            entries = entries[entries["info"] == _RELATIVE]
            once, counts = np.unique(entries["addend"], return_counts=True)
            hits = entries[np.isin(entries["place"], wanted)]
            hits = hits[np.isin(hits["addend"], once[counts == 1])]
            found.update(zip(hits["place"].tolist(), hits["addend"].tolist(), strict=True))
        return found

    @property
    def weight(self) -> int:
        """Bytes of tables that may be looked through, counted as often as they are named."""
        symbols = [s for s in self._sections if s.type in (_SECTION_DYNSYM, _SECTION_SYMTAB)]
        strings = [self._sections[s.link] for s in symbols if s.link < len(self._sections)]
        others = [s for s in self._sections if s.type in (_SECTION_RELA, _SECTION_NOTE)]
        unwinding = [s.file_size for s in self._segments if s.type == _SEGMENT_EH_FRAME]
        return sum(s.size for s in (*symbols, *strings, *others)) + sum(unwinding)

    def variables(self, ending: str) -> npt.NDArray[np.void]:
        """Variables whose names end so, by address, however local."""
        found = [np.empty(0, VARIABLE)]
        last = ending.encode() + b"\0"
        for section, place in self._symbol_sections():
            strings = self.bytes_at(place.offset, place.size)
            starts, ends = _ending(strings, last)
            for symbols in self._symbols_of(section) if len(starts) else ():
                named = np.minimum(np.searchsorted(starts, symbols["name"]), len(starts) - 1)
                hit = (starts[named] == symbols["name"]) & (symbols["section"] != 0)
                part = np.empty(int(hit.sum()), VARIABLE)
                part["address"] = symbols["value"][hit]
                part["name_at"] = starts[named[hit]] + np.uint64(place.offset)
                part["name_size"] = (ends - starts)[named[hit]]
                found.append(part)
        every = np.concatenate(found)
        _, firsts = np.unique(every["address"], return_index=True)
        return every[firsts][:_MAX_VARIABLES]

    def first_address(self) -> int:
        """The address at which the file's first page is loaded, in its own numbering."""
        return self.address_of(0) or 0

    def build_id(self) -> str | None:
        """The build's fingerprint, as the linker wrote it."""
        for section in self._sections:
            if section.type != _SECTION_NOTE or section.size > 65536:
                continue
            try:
                raw = self.bytes_at(section.offset, section.size)
            except BadElf:
                continue
            found = _gnu_build_id(raw)
            if found:
                return found
        return None


def _ending(strings: bytes, last: bytes) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Where strings with this end start and end, in their order."""
    starts: list[int] = []
    ends: list[int] = []
    at = strings.find(last)
    while at >= 0 and len(starts) < _MAX_VARIABLES:
        start = strings.rfind(b"\0", max(at - _MAX_NAME, 0), at) + 1
        starts.append(start)
        ends.append(at + len(last) - 1)
        at = strings.find(last, at + 1)
    return np.array(starts, np.uint64), np.array(ends, np.uint64)


def _gnu_build_id(notes: bytes) -> str | None:
    at = 0
    while at + 12 <= len(notes):
        name_size, text_size, kind = struct.unpack_from("<III", notes, at)
        name = notes[at + 12 : at + 12 + name_size]
        text_at = at + 12 + (name_size + 3 & ~3)
        if kind == 3 and name == b"GNU\0" and 0 < text_size <= 64:
            return notes[text_at : text_at + text_size].hex()
        at = text_at + (text_size + 3 & ~3)
        if name_size > 4096 or text_size > 65536:
            return None
    return None
