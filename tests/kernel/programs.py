"""What the kernel made of a program."""

import ctypes
import shutil
import struct
import subprocess
from pathlib import Path

from cotenant.probes import syscalls
from tests.kernel.conftest import ROOT

_OBJ_GET_INFO_BY_FD = 15
_INFO_BYTES = 256
_IMAGE_AT = 16  # Of jited_prog_len, xlated_prog_len, jited_prog_insns in struct bpf_prog_info.


def _info(fd: int, image: "ctypes.Array[ctypes.c_char] | None") -> bytes:
    info = ctypes.create_string_buffer(_INFO_BYTES)
    if image is not None:
        struct.pack_into("IIQ", info, _IMAGE_AT, len(image), 0, ctypes.addressof(image))
    attributes = struct.pack("IIQ", fd, _INFO_BYTES, ctypes.addressof(info))
    syscalls.bpf(_OBJ_GET_INFO_BY_FD, attributes, "ask about a program")
    return info.raw


def image(fd: int) -> bytes:
    """The machine code of a loaded program and of all functions that it calls."""
    size = struct.unpack_from("I", _info(fd, None), _IMAGE_AT)[0]
    assert size, "the kernel hides its programs' code: is kernel.kptr_restrict 2?"
    code = ctypes.create_string_buffer(size)
    _info(fd, code)
    return code.raw


def compile_bpf(source: Path, target: Path) -> None:
    """A BPF program of a test, with the headers of ours; a guest has it built already."""
    if (built := source.with_suffix(".o")).exists():
        shutil.copy(built, target)
        return
    subprocess.run(
        ["make", "-s", "-C", ROOT / "bpf", "object", f"SOURCE={source}", f"TARGET={target}"],
        check=True,
    )
