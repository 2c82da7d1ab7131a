"""A file too big to be read by the helper itself is read by a process of its own, which then ends.

A tenant made the file. What reading it takes is bounded where the kernel can see it: by the
processor time, the memory and the privileges of that process, not by a size that real libraries
pass.
"""

import os
import resource
import subprocess
import sys
import threading
from typing import Final

import numpy as np
import numpy.typing as npt

from cotenant.confine.capabilities import drop_capabilities
from cotenant.probes.elf import VARIABLE, BadElf, Elf

_MEMORY_MAX: Final = 1 << 30
_CPU_S: Final = 5
_SECONDS: Final = 10.0
_ANSWER_MAX: Final = 100_000 * VARIABLE.itemsize


def read_variables(fd: int, ending: str) -> npt.NDArray[np.void]:
    """As ``Elf.variables`` of an open file; BadElf where that took too much."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "cotenant.agent.helper.big_file", ending],
        stdin=fd,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    # A file system may never answer.
    timer = threading.Timer(_SECONDS, child.kill)
    timer.start()
    try:
        assert child.stdout is not None
        answer = child.stdout.read(_ANSWER_MAX)
        child.stdout.close()
        child.wait()
    finally:
        timer.cancel()
    if child.returncode or len(answer) % VARIABLE.itemsize:
        raise BadElf("takes too long or too much memory to read")
    return np.frombuffer(answer, VARIABLE)


def main() -> int:
    """The child: the file is its standard input."""
    drop_capabilities()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_MAX, _MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    try:
        with Elf(0, strings_max=sys.maxsize) as elf:
            found = elf.variables(sys.argv[1])
    except (BadElf, MemoryError, OSError):
        return 1
    sys.stdout.buffer.write(found.tobytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
