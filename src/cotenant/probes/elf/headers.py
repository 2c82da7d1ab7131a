"""The headers of an ELF file, and why a file cannot be read; a tenant may have written them."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cotenant.errors import ProbeError

_MAGIC: Final = b"\x7fELF"
_HEAD: Final = 64  # Bytes.
_X86_64: Final = 62
_MAX_HEADERS: Final = 4096


class BadElf(ProbeError):
    """The file is not an ELF file that probes can be placed in."""


class NoElf(BadElf):
    """It is none at all, by its first bytes."""


class NotRead(BadElf):
    """Nobody knows what it is: to read it took too much time or memory."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the file, as linkers see it."""

    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class ProgramHeader:
    """A part of the file, as the kernel loads it."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int


def headers(
    size: int, bytes_at: Callable[[int, int], bytes]
) -> tuple[list[ProgramHeader], list[Section]]:
    """What a file of this size says about its parts."""
    head = bytes_at(0, min(size, _HEAD))
    if head[:4] != _MAGIC:
        raise NoElf("is no ELF file")
    if size < _HEAD:
        raise BadElf("shorter than an ELF header")
    if head[4:6] != b"\x02\x01":
        raise BadElf("not a 64-bit little-endian ELF file")
    machine = struct.unpack_from("<H", head, 18)[0]
    if machine != _X86_64:
        raise BadElf(f"built for machine {machine}, not x86-64")
    segments_at, sections_at = struct.unpack_from("<QQ", head, 32)
    segment_size, segment_count, section_size, section_count = struct.unpack_from("<HHHH", head, 54)
    if segment_count > _MAX_HEADERS or section_count > _MAX_HEADERS:
        raise BadElf("has an absurd number of headers")
    segments = []
    if segment_size == 56:
        for index in range(segment_count):
            raw = bytes_at(segments_at + index * 56, 56)
            kind, flags, offset, address, _, file_size = struct.unpack_from("<IIQQQQ", raw)
            segments.append(ProgramHeader(kind, flags, offset, address, file_size))
    sections = []
    if section_size == 64:
        for index in range(section_count):
            raw = bytes_at(sections_at + index * 64, 64)
            _, kind, flags, address, offset, size, link = struct.unpack_from("<IIQQQQI", raw)
            sections.append(Section(kind, flags, address, offset, size, link))
    return segments, sections
