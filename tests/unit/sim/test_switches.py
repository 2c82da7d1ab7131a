"""Each switch of the stand-in is used by a test of what a recording says."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
SWITCH = re.compile(r"COTENANT_SIM_[A-Z_]+")


def _used(folder, pattern):
    files = (ROOT / folder).rglob(pattern)
    return {name for path in files for name in SWITCH.findall(path.read_text())}


def test_each_switch_is_used_by_a_test_of_a_recording():
    switches = {*_used("sim", "*.c"), *_used("sim/workloads", "*.c")}
    assert len(switches) >= 12
    assert switches - _used("tests/kernel", "*.py") - _used("tests/books", "*.py") == set()
