"""bpf(2) and perf_event_open(2), as far as we need them.

Debian 12's libbpf knows no uprobe_multi link, so links are made here, by number.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterator, Sequence
from typing import Final

from cotenant.probes.cpus import possible_cpus
from cotenant.schema.constants import MAPS, PER_CPU_MAPS

_libc: Final = ctypes.CDLL(None, use_errno=True)

_SYS_BPF: Final = 321
_SYS_PERF_EVENT_OPEN: Final = 298

_MAP_LOOKUP: Final = 1
_MAP_UPDATE: Final = 2
_MAP_DELETE: Final = 3
_RAW_TRACEPOINT_OPEN: Final = 17
_OBJ_GET_INFO_BY_FD: Final = 15
_MAP_LOOKUP_BATCH: Final = 24
_MAP_TAKE_BATCH: Final = 25
_LINK_CREATE: Final = 28
_ITER_CREATE: Final = 33

ATTACH_TRACE_ITER: Final = 28
ATTACH_PERF_EVENT: Final = 41
ATTACH_UPROBE_MULTI: Final = 48
ATTACH_UPROBE_SESSION: Final = 57

UPROBE_RETURN: Final = 1

_MAP_INFO_BYTES: Final = 80
_MAX_ENTRIES_AT: Final = 16  # In struct bpf_map_info.
_PROGRAM_INFO_BYTES: Final = 216
_RECURSION_MISSES_AT: Final = 208  # In struct bpf_prog_info.


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return int(result)


def bpf(command: int, attributes: bytes, what: str) -> int:
    """One call of bpf(2); ``what`` it was for is told when it fails."""
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    return _check(_libc.syscall(_SYS_BPF, command, buffer, 128), what)


def _address(buffer: "ctypes.Array[ctypes.c_char] | ctypes.Array[ctypes.c_uint64]") -> int:
    return ctypes.addressof(buffer)


def attach_uprobes(
    program: int,
    path: str,
    sites: Sequence[tuple[int, int]],
    *,
    attach_type: int,
    returns: bool = False,
    pid: int = 0,
) -> int:
    """One link for many sites of one file, each ``(offset, cookie)``; the link's descriptor."""
    name = ctypes.create_string_buffer(path.encode())
    count = len(sites)
    offsets = (ctypes.c_uint64 * count)(*(offset for offset, _ in sites))
    cookies = (ctypes.c_uint64 * count)(*(cookie for _, cookie in sites))
    attributes = struct.pack(
        "IIIIQQQQIII",
        program,
        0,
        attach_type,
        0,
        _address(name),
        _address(offsets),
        0,
        _address(cookies),
        count,
        UPROBE_RETURN if returns else 0,
        pid,
    )
    return bpf(_LINK_CREATE, attributes, f"attach {count} probes to {path}")


def attach_perf(program: int, event: int, cookie: int) -> int:
    """A link between a program and a perf event; the link's descriptor."""
    attributes = struct.pack("IIIIQ", program, event, ATTACH_PERF_EVENT, 0, cookie)
    return bpf(_LINK_CREATE, attributes, "attach a program to a perf event")


def attach_tracepoint(program: int) -> int:
    """A link of a tp_btf program, which knows its tracepoint itself."""
    return bpf(_RAW_TRACEPOINT_OPEN, struct.pack("QI", 0, program), "attach a tracepoint")


def program_misses(program: int) -> int:
    """How often a program was to run and did not: it, or another, ran on that CPU already."""
    info = ctypes.create_string_buffer(_PROGRAM_INFO_BYTES)
    attributes = struct.pack("IIQ", program, len(info), _address(info))
    bpf(_OBJ_GET_INFO_BY_FD, attributes, "ask about a program")
    return int(struct.unpack_from("Q", info, _RECURSION_MISSES_AT)[0])


def run_iterator(program: int, pid: int = 0) -> bytes:
    """Everything a BPF iterator program writes; about one process if ``pid`` is given."""
    with os.fdopen(_open_iterator(program, pid), "rb", buffering=0) as stream:
        return stream.readall()


def iterate(program: int, size: int) -> Iterator[bytes]:
    """The same about all processes, in reads of this many bytes."""
    with os.fdopen(_open_iterator(program), "rb") as stream:
        while part := stream.read(size):
            yield part


def _open_iterator(program: int, pid: int = 0) -> int:
    info = ctypes.create_string_buffer(struct.pack("IIIxxxx", 0, pid, 0), 16)
    attributes = struct.pack(
        "IIIIQI", program, 0, ATTACH_TRACE_ITER, 0, _address(info) if pid else 0, 16 if pid else 0
    )
    link = bpf(_LINK_CREATE, attributes, "attach an iterator")
    try:
        return bpf(_ITER_CREATE, struct.pack("II", link, 0), "open an iterator")
    finally:
        os.close(link)


def iterator_link(program: int) -> int:
    """A link from which its holder can read what the iterator program writes."""
    return bpf(
        _LINK_CREATE, struct.pack("IIII", program, 0, ATTACH_TRACE_ITER, 0), "attach an iterator"
    )


def read_iterator(link: int) -> bytes:
    """Everything the program behind an iterator's link writes now."""
    file = bpf(_ITER_CREATE, struct.pack("II", link, 0), "open an iterator")
    with os.fdopen(file, "rb", buffering=0) as stream:
        return stream.readall()


def map_entries(fd: int) -> int:
    """How many entries a map can have."""
    info = ctypes.create_string_buffer(_MAP_INFO_BYTES)
    attributes = struct.pack("IIQ", fd, len(info), _address(info))
    bpf(_OBJ_GET_INFO_BY_FD, attributes, "ask about a map")
    return int(struct.unpack_from("I", info, _MAX_ENTRIES_AT)[0])


def map_update(fd: int, key: bytes, value: bytes) -> None:
    """Set one entry of a map."""
    keys = ctypes.create_string_buffer(key, len(key))
    values = ctypes.create_string_buffer(value, len(value))
    attributes = struct.pack("IxxxxQQQ", fd, _address(keys), _address(values), 0)
    bpf(_MAP_UPDATE, attributes, "update a map")


def map_delete(fd: int, key: bytes) -> None:
    """Remove one entry of a map, if it is there."""
    keys = ctypes.create_string_buffer(key, len(key))
    try:
        bpf(_MAP_DELETE, struct.pack("IxxxxQ", fd, _address(keys)), "delete from a map")
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


def entry_bytes(name: str) -> tuple[int, int]:
    """Of one of our maps: bytes of a key, and of a value, of all CPUs if it has one for each."""
    key_bytes, value_bytes = MAPS[name]
    if name in PER_CPU_MAPS:
        value_bytes = -(-value_bytes // 8) * 8 * possible_cpus()
    return key_bytes, value_bytes


def map_lookup(fd: int, name: str, key: bytes) -> bytes | None:
    """One entry of one of our maps, of all CPUs where it has one for each; None if it has none."""
    key_bytes, value_bytes = entry_bytes(name)
    if len(key) != key_bytes:
        raise ValueError(f"a key of {name} has {key_bytes} bytes, not {len(key)}")
    keys = ctypes.create_string_buffer(key, len(key))
    # The kernel writes a whole value, whatever the room.
    values = ctypes.create_string_buffer(value_bytes)
    attributes = struct.pack("IxxxxQQQ", fd, _address(keys), _address(values), 0)
    try:
        bpf(_MAP_LOOKUP, attributes, "look up a map")
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return values.raw


def map_items(
    fd: int, key_size: int, value_size: int, *, take: bool = False
) -> tuple[bytes, bytes]:
    """Every entry of a hash map, keys and values end to end, by batches; ``take`` empties it."""
    command = _MAP_TAKE_BATCH if take else _MAP_LOOKUP_BATCH
    keys: list[bytes] = []
    values: list[bytes] = []
    room = 1024
    token_in = ctypes.create_string_buffer(max(key_size, 8))
    token_out = ctypes.create_string_buffer(max(key_size, 8))
    key_buffer = ctypes.create_string_buffer(key_size * room)
    value_buffer = ctypes.create_string_buffer(value_size * room)
    first = True
    while True:
        attributes = ctypes.create_string_buffer(
            struct.pack(
                "QQQQIIQQ",
                0 if first else _address(token_in),
                _address(token_out),
                _address(key_buffer),
                _address(value_buffer),
                room,
                fd,
                0,
                0,
            ).ljust(128, b"\0"),
            128,
        )
        result = _libc.syscall(_SYS_BPF, command, attributes, 128)
        number = ctypes.get_errno()
        if result < 0 and number == errno.ENOSPC:
            # One bucket holds more than a batch.
            room *= 4
            key_buffer = ctypes.create_string_buffer(key_size * room)
            value_buffer = ctypes.create_string_buffer(value_size * room)
            continue
        if result < 0 and number != errno.ENOENT:
            raise OSError(number, f"read a map: {os.strerror(number)}")
        count = struct.unpack_from("I", attributes.raw, 32)[0]
        keys.append(key_buffer.raw[: count * key_size])
        values.append(value_buffer.raw[: count * value_size])
        if result < 0:
            return b"".join(keys), b"".join(values)
        ctypes.memmove(token_in, token_out, len(token_in))
        first = False


PERF_ADVICE: Final = "set kernel.perf_event_paranoid to 2, or give CAP_SYS_ADMIN for the start"


def perf_event_open(attributes: bytes, *, pid: int, cpu: int) -> int:
    """A perf event's descriptor, closed when a program is started."""
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    close_on_exec = 8
    result = _libc.syscall(_SYS_PERF_EVENT_OPEN, buffer, pid, cpu, -1, close_on_exec)
    return _check(result, "open a perf event")
