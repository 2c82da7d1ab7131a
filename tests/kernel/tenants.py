"""Programs that tests run as tenants."""

import subprocess
import sys

from tests.kernel.conftest import Cgroup


def python(cgroup: Cgroup, script: str, *words: object, **options: object) -> subprocess.Popen[str]:
    """A Python program inside a cgroup."""
    return cgroup.popen([sys.executable, "-c", script, *words], **options)


def finish(process: subprocess.Popen[str], timeout: float = 60) -> str:
    """Wait for a program that must end well; what it printed."""
    output, _ = process.communicate(timeout=timeout)
    assert process.returncode == 0
    return output
