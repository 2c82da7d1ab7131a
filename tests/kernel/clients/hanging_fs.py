"""A FUSE file system of libraries that can be opened and mapped, and never be read.

    python hanging_fs.py DIRECTORY SIZE [SECONDS]

Says "mounted" on a line of its own, and serves until it is killed, or for so many seconds.
"""

import ctypes
import os
import signal
import struct
import sys

INIT, LOOKUP, GETATTR, OPEN, READ, FORGET, RELEASE = 26, 1, 3, 14, 15, 2, 18
FLUSH, STATFS, OPENDIR, ACCESS, GETXATTR = 25, 17, 27, 34, 22
ROOT = 1
NOT_THERE, NOT_KNOWN = -2, -38
NAME = b"libcuda.so."  # And a number.


def attributes(node: int, size: int) -> bytes:
    mode = 0o40755 if node == ROOT else 0o100755
    times = [0] * 3 + [0] * 3
    return struct.pack("<QQQQQQIIIIIIIIII", node, size, 8, *times[:3], *times[3:], mode, 1, 0, 0, 0,
                       4096, 0)  # fmt: skip


def answer(kind: int, node: int, body: bytes, size: int) -> bytes | int | None:
    """What to say; None to say nothing, for ever."""
    here = attributes(node, 0 if node == ROOT else size)
    if kind == INIT:
        return struct.pack("<IIIIHHIIHHI7I", 7, 31, 65536, 0, 16, 12, 65536, 1, 0, 0, 0, *[0] * 7)
    if kind == LOOKUP:
        before, _, number = body.rstrip(b"\0").partition(NAME)
        if before or not number.isdigit():
            return NOT_THERE
        file = ROOT + 1 + int(number)
        return struct.pack("<QQQQII", file, 0, 60, 60, 0, 0) + attributes(file, size)
    if kind == GETATTR:
        return struct.pack("<QII", 60, 0, 0) + here
    if kind in (OPEN, OPENDIR):
        return struct.pack("<QII", 7, 0, 0)
    if kind == READ:
        return None
    if kind in (FLUSH, RELEASE, ACCESS):
        return b""
    return NOT_KNOWN


def main() -> None:
    directory, size, *seconds = sys.argv[1], *map(int, sys.argv[2:])
    signal.alarm(*seconds or (0,))
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"hanging", directory.encode(), b"fuse", 0, options):
        sys.exit(os.strerror(ctypes.get_errno()))
    print("mounted", flush=True)
    while True:
        request = os.read(device, 1 << 20)
        _, kind, unique, node = struct.unpack_from("<IIQQ", request)
        if kind == FORGET:
            continue
        said = answer(kind, node, request[40:], size)
        if said is None:
            continue
        error, body = (said, b"") if isinstance(said, int) else (0, said)
        os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)


main()
