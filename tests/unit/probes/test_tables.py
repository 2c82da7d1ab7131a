"""Every function of NVIDIA's newest libraries and headers is probed, or is no operation.

What they have comes from the files themselves: what binutils finds exported, what the headers
declare. The libraries are installed by package name; the driver's is Debian's.
"""

import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from cotenant.probes.function import Library
from cotenant.probes.tables import FUNCTIONS
from tests.drivers import PACKAGES, real_driver
from tests.unit.probes.nvidia import package

LIST = Path(__file__).with_name("no_operation.txt")
TABLES = {function.symbol for function in FUNCTIONS}
# Macros of cuda.h that stand for a function's twin with a default stream per thread.
_TWIN = re.compile(r"__CUDA(?:RT)?_API_(PTSZ|PTDS)\((\w+)\)")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DECLARED = {
    Library.CUDA: re.compile(r"\bCUDAAPI\s+(cu\w+)\s*\("),
    Library.CUDART: re.compile(r"\bCUDARTAPI(?:_CDECL)?\s+(cuda\w+)\s*\("),
    Library.NCCL: re.compile(r"\b(nccl\w+)\s*\([^;{}]*\)\s*;"),
}


def reasons() -> dict[str, list[str]]:
    """The list: for each reason, names and patterns."""
    found: dict[str, list[str]] = {}
    reason = ""
    for line in LIST.read_text().splitlines():
        if line.startswith("\t"):
            found[reason] += line.split()
        elif line and not line.startswith("#"):
            reason = line
            found.setdefault(reason, [])
    return found


PATTERNS = [name for names in reasons().values() for name in names]


def unexplained(symbols: set[str]) -> list[str]:
    """Those that no table has and no reason covers; a twin is covered with its function."""
    return sorted(
        symbol
        for symbol in symbols - TABLES
        if not any(fnmatchcase(symbol.removeprefix("p"), pattern) for pattern in PATTERNS)
    )


def exported(*paths: Path) -> set[str]:
    """Functions that these libraries define for others."""
    done = subprocess.run(
        ["nm", "-D", "--defined-only", "--quiet", *paths],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = (line.split() for line in done.stdout.splitlines() if line.count(" ") == 2)
    return {words[-1].partition("@")[0] for words in lines if words[-2] in "TWi"}


def declared(path: Path, library: Library) -> set[str]:
    """Functions that a header declares, and their twins."""
    text = _COMMENT.sub("", path.read_text())
    twins = {f"{name}_{kind.lower()}" for kind, name in _TWIN.findall(text) if name != "api"}
    # As macros make them: of cuX_v2 the twin is cuX_v2_ptsz.
    return set(_DECLARED[library].findall(text)) | (twins if library is Library.CUDA else set())


def test_each_function_that_is_no_operation_has_a_reason() -> None:
    assert all(len(reason) > 10 and names for reason, names in reasons().items())


def test_nothing_is_both_probed_and_no_operation_by_its_own_name() -> None:
    assert [name for name in PATTERNS if name in TABLES] == []


def test_every_function_of_the_driver_library_is_probed_or_no_operation() -> None:
    found = exported(*(real_driver(name) for name in PACKAGES))
    assert len(found) > 600
    assert unexplained(found) == []


def test_every_function_of_the_runtime_library_is_probed_or_no_operation() -> None:
    found = exported(*package("*/lib/libcudart.so.*"))
    assert len(found) > 400
    assert unexplained(found) == []


def test_every_function_of_nccl_is_probed_or_no_operation() -> None:
    found = exported(*package("nccl/lib/libnccl.so.2"))
    assert len(found) > 180
    assert unexplained(found) == []


@pytest.mark.parametrize(
    ("library", "pattern", "least"),
    [
        (Library.CUDA, "*/include/cuda.h", 500),
        (Library.CUDART, "*/include/cuda_runtime_api.h", 300),
        (Library.NCCL, "nccl/include/nccl.h", 60),
    ],
)
def test_every_function_of_a_header_is_probed_or_no_operation(
    library: Library, pattern: str, least: int
) -> None:
    found = set[str]().union(*(declared(path, library) for path in package(pattern)))
    assert len(found) > least
    assert unexplained(found) == []
