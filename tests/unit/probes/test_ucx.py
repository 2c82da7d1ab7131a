"""What UCX hooks, against the library that its package installs."""

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from cotenant.probes.changes import PATCH_BYTES
from cotenant.probes.ucx import HOOKED, reaches


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


@pytest.mark.parametrize(
    ("offset", "length", "reached"),
    [(99, 1, False), (99, 2, True), (100, 1, True), (100 + PATCH_BYTES - 1, 1, True),
     (100 + PATCH_BYTES, 1, False)],
)  # fmt: skip
def test_a_jump_lies_over_what_begins_or_ends_in_it(
    offset: int, length: int, reached: bool
) -> None:
    assert reaches({100}, offset, length) == reached
