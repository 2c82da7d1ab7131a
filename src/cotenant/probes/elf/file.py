"""ELF files, as far as probes need them; a tenant may have written them.

The files belong to tenants: every number in them may be a lie. Reads go through bounds, tables
are capped, and what does not fit raises ``BadElf``; nothing here trusts a count or an offset.
"""

import os
import struct
from collections.abc import Collection, Iterable
from itertools import chain
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cotenant.probes.elf.build_id import gnu_build_id
from cotenant.probes.elf.headers import BadElf, NotRead, ProgramHeader, Section, headers
from cotenant.probes.elf.relocations import RELATIVE, RELOCATION, packed_places
from cotenant.probes.elf.strings import MAX_NAME, places_ending, string_places

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
# A variable: where it lies, and where in the file its name does.
VARIABLE: Final = np.dtype([("address", "<u8"), ("name_at", "<u8"), ("name_size", "<u4")])
_NO_TYPE: Final = 0
_FUNCTION: Final = 2
_INDIRECT: Final = 10
# Of one name: a library keeps two or three versions of a function.
PLACES_MAX: Final = 4
_MAX_SYMBOLS: Final = 4_000_000
_SECTION_SYMTAB: Final = 2
_SECTION_RELA: Final = 4
_LOADED: Final = 2
_EXECUTABLE: Final = 1
_WRITABLE: Final = 2
_SECTION_NOTE: Final = 7
_SECTION_DYNSYM: Final = 11
_SECTION_RELR: Final = 19
_SEGMENT_DYNAMIC: Final = 2
_SEGMENT_EH_FRAME: Final = 0x6474E550
_UDATA4: Final = 0x03
_DATAREL_SDATA4: Final = 0x3B
_MAX_VARIABLES: Final = 100_000
_MAX_BYTES: Final = 1 << 27
_MAX_STRINGS: Final = 1 << 26
_SYMBOLS_AT_ONCE: Final = 1 << 16
_MAX_CODE: Final = 64
_MAX_STARTS: Final = 1 << 20
_MAX_ALIASES: Final = 64
_MAX_NOTES: Final = 16  # Sections of them: linkers make a few.


class Extent(NamedTuple):
    """A function's place in a file: where it starts, and its bytes if they are known, else 0."""

    offset: int
    size: int


class Elf:
    """An open ELF file: where its functions are, and which build it is."""

    def __init__(self, fd: int, *, strings_max: int = _MAX_STRINGS) -> None:
        # Read, never mapped: truncating a mapped file would kill us.
        self._fd = fd
        self._strings_max = strings_max
        self._left: int | None = None
        self._size = os.fstat(fd).st_size
        self._segments, self._sections = headers(self._size, self.bytes_at)
        code = [s for s in self._segments if s.type == 1 and s.flags & _EXECUTABLE]
        self._code = code[:_MAX_CODE]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The descriptor stays open: it is the caller's."""

    @property
    def size(self) -> int:
        """Bytes of the file, when it was opened."""
        return self._size

    def bound(self, count: int) -> None:
        """Read no more than so many bytes from now on: NotRead where more are wanted."""
        self._left = count

    def bytes_at(self, offset: int, count: int) -> bytes:
        """Bytes of the file; BadElf where it has none."""
        if offset < 0 or count < 0 or offset + count > self._size:
            raise BadElf(f"ends before offset {offset:#x}+{count}")
        if count > max(_MAX_BYTES, self._strings_max):
            raise BadElf(f"has a part of {count} bytes")
        if self._left is not None:
            if count > self._left:
                raise NotRead("takes too much to read")
            self._left -= count
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

    def _symbol_sections(self) -> Iterable[tuple[Section, Section]]:
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
        """Where the functions of these names lie that the file defines: each at its first place."""
        return {name: places[0] for name, places in self.places(names).items()}

    def places(self, names: Iterable[str]) -> dict[str, list[Extent]]:
        """Every place of the functions of these names, up to PLACES_MAX and one.

        A name has several if it has several versions, or if local functions share it.
        """
        return self._named(names, (_FUNCTION,))

    def no_functions(self, names: Iterable[str]) -> dict[str, str]:
        """Those of these names that lead to code, but by a symbol that is no function's; and why.

        A variable of that name is none of them: many programs keep a driver's functions in such.
        """
        labels = dict.fromkeys(self._named(names, (_NO_TYPE,)), "is no function by its symbol")
        return labels | dict.fromkeys(self._named(names, (_INDIRECT,)), "is chosen when loaded")

    def _named(self, names: Iterable[str], types: Collection[int]) -> dict[str, list[Extent]]:
        wanted = {name.encode() for name in names}
        found: dict[str, list[Extent]] = {}
        for symbols, strings in self._tables():
            texts = string_places(strings, wanted)
            if not texts:
                continue
            of_type = np.isin(symbols["info"] & 15, list(types))
            defined = symbols[of_type & (symbols["section"] != 0)]
            here: dict[str, list[Extent]] = {}
            for symbol in _few(defined[np.isin(defined["name"], list(texts))]):
                offset = self.file_offset(int(symbol["value"]))
                if offset is not None:
                    extent = Extent(offset, min(int(symbol["size"]), self._size - offset))
                    places = here.setdefault(texts[int(symbol["name"])].decode(), [])
                    if all(place.offset != offset for place in places):
                        places.append(extent)
            # What is exported goes before what is local.
            found = here | found
        return found

    def exports(self, markers: Iterable[str]) -> bool:
        """Whether any of these names may be in here: a quick look at the strings."""
        wanted = [name.encode() + b"\0" for name in markers]
        stems = {name[:4] for name in wanted}
        for _, strings in self._symbol_sections():
            text = self.bytes_at(strings.offset, strings.size)
            # Most files have not even a stem: one search for all names with it.
            there = {stem for stem in stems if stem in text}
            if any(name[:4] in there and name in text for name in wanted):
                return True
        return False

    def left_out(self) -> str | None:
        """Why the file may define more than is found in it; None if it was read whole."""
        symbols = [s for s in self._sections if s.type in (_SECTION_DYNSYM, _SECTION_SYMTAB)]
        dynamic = any(segment.type == _SEGMENT_DYNAMIC for segment in self._segments)
        if dynamic and all(section.type != _SECTION_DYNSYM for section in symbols):
            return "has no section of symbols"
        for section in symbols:
            if section.link >= len(self._sections):
                return "has symbols without names"
            if self._sections[section.link].size > self._strings_max:
                return "has too many names of symbols"
            if section.size // SYMBOL.itemsize > _MAX_SYMBOLS:
                return "has too many symbols"
        return None

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

    def _symbols_of(self, section: Section) -> Iterable[npt.NDArray[np.void]]:
        """A table part by part: nothing is too big for it."""
        count = min(section.size // SYMBOL.itemsize, _MAX_SYMBOLS)
        for at in range(0, count, _SYMBOLS_AT_ONCE):
            part = min(_SYMBOLS_AT_ONCE, count - at) * SYMBOL.itemsize
            yield np.frombuffer(self.bytes_at(section.offset + at * SYMBOL.itemsize, part), SYMBOL)

    def _name(self, section: Section, start: int) -> str | None:
        """A name of this table's symbols; None if it is none."""
        if section.link >= len(self._sections) or not start:
            return None
        strings = self._sections[section.link]
        most = min(MAX_NAME, strings.size - start, self._size - strings.offset - start)
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

    def _unwind_starts(self, segment: ProgramHeader) -> npt.NDArray[np.uint64]:
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

    def _loaded(self, kind: int, entry: np.dtype[Any]) -> Iterable[npt.NDArray[Any]]:
        """Tables of the loader's work; not what linkers have kept of their own."""
        for section in self._sections:
            if section.type == kind and section.flags & _LOADED:
                size = section.size // entry.itemsize * entry.itemsize
                yield np.frombuffer(self.bytes_at(section.offset, size), entry)

    def relative(self, places: Iterable[int]) -> dict[int, int]:
        """Addresses that the loader writes into these places, and nowhere else; the file's own."""
        wanted = np.unique(np.fromiter(places, np.uint64))
        found: dict[int, int] = {}
        for relocations in self._loaded(_SECTION_RELA, RELOCATION):
            entries = relocations[relocations["info"] == RELATIVE]
            once, counts = np.unique(entries["addend"], return_counts=True)
            hits = entries[np.isin(entries["place"], wanted)]
            hits = hits[np.isin(hits["addend"], once[counts == 1])]
            found.update(zip(hits["place"].tolist(), hits["addend"].tolist(), strict=True))
        return found

    def written_code(self) -> npt.NDArray[np.int64]:
        """File offsets in code at which the loader writes, in order: none in most files."""
        found = [np.empty(0, np.int64)]
        code = [s for s in self._code if s.offset < self._size]
        tables = self._loaded(_SECTION_RELA, RELOCATION)
        plain = (table["place"].astype(np.uint64) for table in tables)
        packed = packed_places(self._loaded(_SECTION_RELR, np.dtype("<u8")), code)
        for places in chain(plain, packed):
            for segment in code:
                at = places - np.uint64(segment.address)
                inside = at < np.uint64(min(segment.file_size, self._size))
                found.append(at[inside].astype(np.int64) + segment.offset)
                places = places[~inside]  # Segments may overlap as often as the file likes.
        return np.unique(np.concatenate(found))

    def is_writable(self, offset: int) -> bool:
        """Whether code at this offset is loaded so that the program may write to it."""
        mine = [s for s in self._code if 0 <= offset - s.offset < s.file_size]
        return any(segment.flags & _WRITABLE for segment in mine)

    @property
    def weight(self) -> int:
        """Bytes of tables that may be looked through, counted as often as they are named."""
        symbols = [s for s in self._sections if s.type in (_SECTION_DYNSYM, _SECTION_SYMTAB)]
        strings = [self._sections[s.link] for s in symbols if s.link < len(self._sections)]
        kinds = (_SECTION_RELA, _SECTION_RELR, _SECTION_NOTE)
        others = [s for s in self._sections if s.type in kinds]
        unwinding = [s.file_size for s in self._segments if s.type == _SEGMENT_EH_FRAME]
        return sum(s.size for s in (*symbols, *strings, *others)) + sum(unwinding)

    def variables(self, ending: str) -> npt.NDArray[np.void]:
        """Variables whose names end so, by address, however local."""
        found = [np.empty(0, VARIABLE)]
        last = ending.encode() + b"\0"
        for section, place in self._symbol_sections():
            strings = self.bytes_at(place.offset, place.size)
            starts, ends = places_ending(strings, last, _MAX_VARIABLES)
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
        notes = [s for s in self._sections if s.type == _SECTION_NOTE and s.size <= 65536]
        for section in notes[:_MAX_NOTES]:
            try:
                raw = self.bytes_at(section.offset, section.size)
            except BadElf:
                continue
            found = gnu_build_id(raw)
            if found:
                return found
        return None


def _few(symbols: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Each address of each name once, and a few of each: a file may repeat one without end."""
    symbols = symbols[np.lexsort((symbols["value"], symbols["name"]))]
    new = np.ones(len(symbols), np.bool_)
    new[1:] = (np.diff(symbols["name"]) != 0) | (np.diff(symbols["value"]) != 0)
    symbols = symbols[new]
    ranks = np.arange(len(symbols)) - np.searchsorted(symbols["name"], symbols["name"])
    return symbols[ranks <= PLACES_MAX]
