"""Whether uprobe programs run on the stack of their task, tried on a function of our own.

Kernels from 6.13 give some programs a stack per CPU, which two preempted tasks would share. Ours
ask for none (see bpf/common/stack.bpf.h); where that does not help, nothing may be attached.
"""

from typing import Final

import numpy as np

from cotenant._native import probe_here
from cotenant.errors import Unsupported
from cotenant.probes import syscalls
from cotenant.probes.attach import PROGRAMS, Attacher, Method, Placed
from cotenant.probes.door import Door
from cotenant.probes.programs import Programs, Sizes, load_object
from cotenant.schema.layouts import STACK_PLACE

_STACK_BYTES: Final = 32 << 10  # Of a task: 16 KiB, twice that where the kernel checks addresses.
_SMALL: Final = Sizes(events_bytes=4096, facts_bytes=4096)


def why_unsafe(method: Method, fd: int, here: Placed, door: Door | None = None) -> str | None:
    """Why programs attached by this method could be harmed by preemption; None if they cannot.

    ``here`` is where ``probe_here`` lies in the open file.
    """
    programs = Programs(method)
    try:
        kinds = PROGRAMS[method]
        load_object(programs, "trial", {"stack_trial": next(iter(kinds.values()))}, _SMALL, {})
        family = here.function.family
        same = {f"{family}_{name}": programs.programs["stack_trial"] for name in kinds}
        attacher = Attacher(method, same, door=door)
        attachment = attacher.attach(fd, [here])
        try:
            probe_here()
        finally:
            attacher.remove(attachment)
        return _judge(syscalls.map_lookup(programs.maps["stack_places"], "stack_places", bytes(4)))
    except Unsupported as error:
        return str(error)
    finally:
        programs.close()


def _judge(place: bytes | None) -> str | None:
    frame, task = np.frombuffer(place or bytes(STACK_PLACE.itemsize), STACK_PLACE)[0].tolist()
    if not frame:
        return "attached, but the program did not run"
    if 0 <= frame - task < _STACK_BYTES:
        return None
    return "its programs would share a stack with the task that preempts them: kernels crash"
