"""The recorder gives up what it no longer needs: capabilities, writing elsewhere, system calls."""

import os
from pathlib import Path
from typing import Any, Final

from cotenant.agent.recorder.overhead.control_page import capabilities_to_read
from cotenant.confine.capabilities import drop_capabilities
from cotenant.confine.landlock import confine_writes
from cotenant.confine.seccomp import refuse_calls

_UMASK: Final = 0o027  # Files of the store are made with their final modes: chmod is refused.


def enter_sandbox(store: Path, controls_fd: int) -> dict[str, Any]:
    """Keep only what recording into ``store`` takes; what ``sessions`` notes about it.

    Threads that start later inherit it, those that run already do not.
    """
    kept = capabilities_to_read(controls_fd)
    drop_capabilities(kept)
    os.umask(_UMASK)
    return {
        "recorder_capabilities": [capability.name for capability in kept],
        "landlock": confine_writes(store),
        "seccomp": refuse_calls(recorder=True),
    }
