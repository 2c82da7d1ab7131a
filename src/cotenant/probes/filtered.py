"""Whether a program whose system calls are filtered survives a probe, tried in a child of ours.

From Linux 6.11 on, a probed function returns by a system call of its own, which runtimes of
containers do not know and refuse. Kernels that ask the filter nevertheless (until 6.12.14 and
6.13.3) then kill the program.
"""

import faulthandler
import os
import signal
from typing import Final

from cotenant._native import probe_here
from cotenant.confine.libc import LIBC
from cotenant.confine.seccomp import refuse_late_calls

_SET_DUMPABLE: Final = 4
_KILLED: Final = (
    "programs whose system calls are filtered, as in containers, would be killed: this kernel "
    "lacks a fix (of 6.12.14 and 6.13.3)"
)


def why_deadly() -> str | None:
    """Why what is attached to ``probe_here`` now would kill filtered programs; None if not."""
    pid = os.fork()
    if not pid:
        try:
            # If it dies, that is the answer: nobody needs to hear of it, nor a file of its memory.
            faulthandler.disable()
            LIBC.prctl(_SET_DUMPABLE, 0)
            refuse_late_calls()
            probe_here()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSIGNALED(status):
        return None
    return f"{_KILLED} ({signal.Signals(os.WTERMSIG(status)).name})"
