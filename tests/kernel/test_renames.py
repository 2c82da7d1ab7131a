"""A tenant that renames cgroups of its own without end, as version 1 lets it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernel.attackers import NOBODY
from tests.kernel.conftest import Cgroup, record
from tests.kernel.script import Script
from tests.kernel.test_overload import finish, notes, rows_of, start, warm

MEMORY = Path("/sys/fs/cgroup/memory")
RENAMED = 2003

# A long path, of which each new one is a fact as large as the path is.
RENAME = f"""
os.setresgid(65534, 65534, 65534), os.setresuid(65534, 65534, 65534)
os.chdir("HOME")
for _ in range(11):
    os.mkdir("d" * 251)
    os.chdir("d" * 251)
os.mkdir("0")
for number in range({RENAMED}):
    os.rename(str(number), str(number + 1))
say(done=1)
"""


@pytest.mark.skipif(not MEMORY.is_dir(), reason="no version 1 memory controller is mounted here")
def test_a_tenant_that_renames_its_cgroups_without_end_leaves_others_their_births(
    cgroups: Callable[[], Cgroup], store: Path
) -> None:
    before, restless = cgroups(), MEMORY / f"cotenant-test-{os.getpid()}"
    restless.mkdir()
    os.chown(restless, NOBODY, NOBODY)
    try:
        with record(store) as recording:
            warm(recording, before)
            script = Script(before, RENAME.replace("HOME", str(restless)))
            assert script.heard() == {"done": 1}
            script.end()
            newborn = cgroups()
            finish(start(newborn, "--steps", "211"))
    finally:
        for directory, _, _ in os.walk(restless, topdown=False):
            os.rmdir(directory)
    assert rows_of(recording, newborn) == {"rows": 211, "weight": 211}
    told = notes(recording)
    assert told.get("identity_lost", 0) == told.get("fact_lost", 0) == 0
    # 64 of new cgroups and new paths at once, and one more every few seconds; the rest is its hole.
    left_out = told["refused"]["identities"]
    assert left_out.keys() == {f"/{restless.name}"}
    assert RENAMED - 101 <= left_out[f"/{restless.name}"] <= RENAMED - 52
