"""What UCX hooks, against the library that its package installs."""

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from cotenant.probes.changes import PATCH_BYTES
from cotenant.probes.ucx import HOOKED, is_ucx, reaches


def libraries() -> Path:
    spec = importlib.util.find_spec("libucx")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations))) / "lib"


def test_what_is_left_to_ucx_is_what_its_library_names() -> None:
    path = libraries() / "ucx/libucm_cuda.so.0"
    done = subprocess.run(["strings", path], capture_output=True, text=True, check=True)
    named = set(re.findall(r"^(cu[A-Z]\w+)$", done.stdout, re.MULTILINE))
    imported = subprocess.run(["nm", "-D", path], capture_output=True, text=True, check=True).stdout
    called = set(re.findall(r" U (cu[A-Z]\w+)$", imported, re.MULTILINE))
    assert named >= HOOKED
    # What else it names it only calls.
    assert named - HOOKED <= called


def test_its_files_are_known_by_name() -> None:
    files = sorted(path for path in libraries().rglob("*.so*"))
    assert {path.name.partition(".")[0] for path in files if is_ucx(str(path))} == {
        "libucm", "libucm_cuda",
    }  # fmt: skip
    assert is_ucx("/x/libucm-8ba7d1b4.so.0.0.0")
    assert not is_ucx("/libucm.so.0/libcuda.so.1")


@pytest.mark.parametrize(
    ("offset", "length", "reached"),
    [(99, 1, False), (99, 2, True), (100, 1, True), (100 + PATCH_BYTES - 1, 1, True),
     (100 + PATCH_BYTES, 1, False)],
)  # fmt: skip
def test_a_jump_lies_over_what_begins_or_ends_in_it(
    offset: int, length: int, reached: bool
) -> None:
    assert reaches({100}, offset, length) == reached
