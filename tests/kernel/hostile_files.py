"""Files that keep whoever reads them busy: most are made for that, one is only large."""

import struct
from pathlib import Path

from tests.kernel.conftest import SIM, Recording, probed

_STRINGS_AT = 1 << 20
_STRINGS = b"\0cuLaunchKernel\0k8__handle\0"
_DYNSYM, _SYMTAB, _RELA = 11, 2, 4
MEGABYTES = 163
STRINGS_BYTES = 64 << 20


def _tables() -> tuple[bytearray, bytearray, int]:
    """A library of the stand-in: its bytes, its table of sections, and where its exports are."""
    good = bytearray((SIM / "libcuda.so.1").read_bytes())
    (start,) = struct.unpack_from("<Q", good, 40)
    (count,) = struct.unpack_from("<H", good, 60)
    table = bytearray(good[start : start + 64 * count])
    kinds = [struct.unpack_from("<I", table, 64 * at + 4)[0] for at in range(count)]
    return good, table, kinds.index(_DYNSYM)


def _write(path: Path, good: bytearray, table: bytes, end: int) -> Path:
    """With holes where nothing is said."""
    struct.pack_into("<Q", good, 40, end)
    struct.pack_into("<H", good, 60, len(table) // 64)
    with path.open("wb") as file:
        file.write(good)
        file.seek(_STRINGS_AT)
        file.write(_STRINGS)
        file.seek(end)
        file.write(table)
    return path


def heavy(
    path: Path,
    strings: int = STRINGS_BYTES,
    symbols: int = (MEGABYTES << 20) - STRINGS_BYTES,
) -> Path:
    """A library with symbols by the million."""
    good, table, exports = _tables()
    (link,) = struct.unpack_from("<I", table, 64 * exports + 40)
    struct.pack_into("<QQ", table, 64 * link + 24, _STRINGS_AT, strings)
    struct.pack_into("<QQ", table, 64 * exports + 24, _STRINGS_AT, symbols)
    local = bytearray(table[64 * exports :][:64])
    struct.pack_into("<I", local, 4, _SYMTAB)
    return _write(path, good, bytes(table + local), _STRINGS_AT + strings + symbols)


def overlapping(path: Path) -> Path:
    """A library with as many relocations as fit, in thousands of sections that are one."""
    good, table, exports = _tables()
    relocations = bytearray(table[64 * exports :][:64])
    struct.pack_into("<I", relocations, 4, _RELA)
    struct.pack_into("<QQ", relocations, 24, _STRINGS_AT, 96 << 20)
    more = 4096 - len(table) // 64
    return _write(path, good, bytes(table + relocations * more), _STRINGS_AT + (96 << 20))


def endless(path: Path) -> Path:
    """A library of a terabyte, of which next to nothing is there."""
    path = heavy(path, 1 << 39, 1 << 39)
    assert path.stat().st_blocks < 8192
    return path


def many_symbols(source: Path) -> Path:
    """Assembly with more names than the helper looks through itself, as a real framework has."""
    names = "".join(f"{'n' * 72}{number} = {number}\n" for number in range(101_009))
    source.write_text(f'.section .note.GNU-stack,"",@progbits\n{names}')
    return source


def wait_looked_at(recording: Recording, library: Path) -> None:
    """Until it is probed; or passed over, where to read it takes more than anybody may have."""
    passed_over = 'notes like \'%"passed_over": {"libraries"%\''
    recording.wait_told(f"{probed(library)} or {passed_over}")


def memory_at_most(pid: int) -> int:
    """The most that a process has had so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10
