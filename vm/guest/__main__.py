"""usage: python -m vm.guest DISK

Reads a job from the disk, does it, and writes what came of it to the same place.
"""

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from vm.guest import checks, demo, host, objects, recording, slice_, stacks

_JOB_BYTES: Final = 65536

JOBS: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "doctor": checks.run,
    "objects": objects.run,
    "record": recording.run,
    "canary": stacks.canary,
    "storm": stacks.storm,
    "demo": demo.run,
    "tests": slice_.run,
}


def main(disk: str) -> None:
    """One job, from the disk to the disk."""
    with open(disk, "rb") as file:
        job = json.loads(file.read(_JOB_BYTES).partition(b"\0")[0])
    result: dict[str, Any] = {"done": job["do"], "kernel": os.uname().release}
    try:
        host.prepare(job)
        result |= {name: JOBS[name](job) for name in job["do"]}
    except Exception:  # noqa: BLE001 - whatever it is, the host must hear of it
        result["error"] = traceback.format_exc()
        Path("/proc/sysrq-trigger").write_text("w")  # Whoever is stuck, into the kernel's log.
    said = subprocess.run(["dmesg"], capture_output=True, check=False).stdout
    result["dmesg"] = said.decode(errors="replace").splitlines()
    fd = os.open(disk, os.O_WRONLY | os.O_SYNC)
    os.write(fd, json.dumps(result).encode() + b"\0")
    os.close(fd)


main(sys.argv[1])
