"""``cotenant doctor`` in the guest, with all capabilities and without CAP_SYS_ADMIN."""

import json
import subprocess
from typing import Any

from vm.guest.host import COTENANT, without_sys_admin


def run(job: dict[str, Any]) -> dict[str, Any]:
    """What it found, and its exit code."""
    command = [*COTENANT, "doctor", "--json", "--store", "/root/doctor"]
    return {
        "all": _doctor(command),
        "without SYS_ADMIN": _doctor(without_sys_admin(command)),
    }


def _doctor(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        found = []
    return {"code": done.returncode, "checks": found, "errors": done.stderr[-4000:]}
