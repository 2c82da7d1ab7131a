"""What root's process loads: the modules it needs, and no file besides."""

import json
import subprocess
import sys
from importlib.machinery import all_suffixes
from pathlib import Path

import numpy as np
import pytest

from cotenant.agent.helper.main import by_process
from cotenant.agent.process import Process
from cotenant.schema.layouts import UNREAD

# Reports after the import, so that what reports is not counted. The audit hook comes first: it
# sees every file that Python code opens.
IMPORT = """
import sys
opened = []
sys.addaudithook(lambda event, told: opened.append(str(told[0])) if event == "open" else None)
import cotenant.agent.helper.main
loaded, opened = sorted(sys.modules), opened[:]
import json
print(json.dumps({"loaded": loaded, "opened": opened}))
"""
# Those of the other process and of readers, and what only they need.
UNPRIVILEGED = (
    "cotenant.agent.recorder", "cotenant.agent.doctor", "cotenant.query", "cotenant.store",
    "cotenant.views", "cotenant.sim", "pyarrow", "duckdb", "rich", "textual", "starlette",
)  # fmt: skip


@pytest.fixture(scope="module")
def imported() -> dict[str, list[str]]:
    """What a fresh process has loaded and opened once the helper is imported."""
    done = subprocess.run(
        [sys.executable, "-BP", "-c", IMPORT], capture_output=True, text=True, check=True, cwd="/"
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    assert "cotenant.agent.helper.main" in found["loaded"]
    return found


@pytest.mark.parametrize("package", UNPRIVILEGED)
def test_the_helper_loads_nothing_that_needs_no_privilege(
    imported: dict[str, list[str]], package: str
) -> None:
    below = f"{package}."
    assert [name for name in imported["loaded"] if f"{name}.".startswith(below)] == []


def test_only_modules_are_opened_while_the_helper_is_imported(
    imported: dict[str, list[str]],
) -> None:
    modules = [path for path in imported["opened"] if path.endswith(tuple(all_suffixes()))]
    assert any(Path(path).stem.startswith("main") for path in modules)
    assert [path for path in imported["opened"] if path not in modules] == []


def test_a_number_that_is_another_processs_by_now_is_told_apart() -> None:
    found = np.zeros(7, UNREAD)
    found["pid"] = [5, 3, 5, 3, 5, 5, 3]
    found["process_start_ns"] = [11, 11, 13, 11, 11, 13, 11]
    found["handle"] = range(7)
    parts = [(process, mine["handle"].tolist()) for process, mine in by_process(found)]
    assert parts == [
        (Process(3, 11), [1, 3, 6]),
        (Process(5, 11), [0, 4]),
        (Process(5, 13), [2, 5]),
    ]
