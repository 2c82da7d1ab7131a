"""Code that a process may write to: the kernel places no probe there, and that is told."""

from collections.abc import Callable
from pathlib import Path

from tests.kernel.conftest import Cgroup, record
from tests.kernel.patcher import patcher
from tests.kernel.test_patchers import CALLS, DRIVER, copy_of, rows

WRITABLE = """
start = ctypes.cast(lib.cuLaunchKernel, c_void_p).value // PAGE * PAGE
assert libc.mprotect(start, 2 * PAGE, 7) == 0
"""


def test_calls_of_code_that_was_left_writable_are_told_to_be_missing(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    library = copy_of(DRIVER["tabled"], tmp_path / "shared")
    unseen, seen = cgroups(), cgroups()
    scripts = [patcher(unseen, library, WRITABLE + CALLS), patcher(seen, library, CALLS)]
    for script in scripts:
        script.heard()
    with record(store) as recording:
        for script in scripts:
            script.go_on()
            assert len(script.heard()["codes"]) == 7
            script.end()
    assert [rows(recording, script) for script in scripts] == [{}, {"cuLaunchKernel": 7}]
    told = recording.sql(
        "select distinct cgroup_path from losses join containers using (cgroup_id) "
        "where family = 'cuda' and reason = 'functions refused'"
    )
    assert told == [{"cgroup_path": f"/{unseen.name}"}]
