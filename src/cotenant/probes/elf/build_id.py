"""The fingerprint of a build, as linkers write it into a note."""

import struct


def gnu_build_id(notes: bytes) -> str | None:
    """The fingerprint among these notes; None if there is none."""
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
