"""A call of our own that goes all the way before anybody is told that calls are recorded.

The helper probes a function of the native module with the programs of this recording, before any
other function; the recorder calls it, and looks for its rows where all rows come out.
"""

import os
import threading
import time
from collections.abc import Collection, Iterable
from typing import Final

from cotenant._native import OBJECTS, probe_here
from cotenant.agent.batch import Batch
from cotenant.agent.drain import Drain, Rows
from cotenant.agent.helper_process import HelperProcess
from cotenant.errors import Unsupported
from cotenant.probes import syscalls
from cotenant.probes.attach import Attacher, Placed
from cotenant.probes.elf import Elf
from cotenant.probes.function import Family, Flag, Function, Library, encode
from cotenant.probes.library import held_path
from cotenant.probes.programs import Programs

_SITE: Final = "cotenant_probe_here"
# In no table: a total of theirs is nobody's.
FUNCTIONS: Final = (
    Function(1021, Library.CUDA, _SITE, op="sync", family=Family.CUDA, flags=Flag.OPERATION),
    Function(1022, Library.NCCL, _SITE, op="AllReduce", family=Family.NCCL, flags=Flag.OPERATION),
)
_SECONDS: Final = 60.0  # On an emulated CPU it takes a while.
_EXCLUDING_SECONDS: Final = 10.0  # We may be left alone ourselves: then no row will come.
_PAUSE_S: Final = 0.01


class TrialProbe:
    """The helper's half: our own function, probed as those of libraries are going to be."""

    def __init__(
        self, attacher: Attacher, programs: Programs, families: Collection[Family]
    ) -> None:
        self._maps = programs.maps
        mine = [function for function in FUNCTIONS if function.family in families]
        self.families = [str(function.family) for function in mine]
        for function in mine:
            number = function.id.to_bytes(4, "little")
            syscalls.map_update(self._maps["functions"], number, encode(function))
        fd = os.open(next(OBJECTS.parent.glob("_drain*.so")), os.O_RDONLY)
        try:
            with Elf(fd) as elf:
                offset = elf.find([_SITE])[_SITE]
            self._attachment = attacher.attach(held_path(fd), [Placed(f, offset) for f in mine])
        finally:
            os.close(fd)

    def close(self) -> None:
        """Remove the probes; whoever made the call uses no GPU by it, and nobody else has yet."""
        self._attachment.close()
        for name, key_size, value_size in (("gpu_tenants", 8, 1), ("processes", 4, 8)):
            keys, _ = syscalls.map_items(self._maps[name], key_size, value_size)
            for at in range(0, len(keys), key_size):
                syscalls.map_delete(self._maps[name], keys[at : at + key_size])


def try_out(helper: HelperProcess, drain: Drain, *, excluding: bool) -> list[str]:
    """See a call of our own come out of the drain; what to say if it did not.

    Where some are left alone, we may be among them.
    """
    seconds = _EXCLUDING_SECONDS if excluding else _SECONDS
    missed = run_trial(drain, helper.trial(), seconds)
    if missed and not excluding:
        raise Unsupported(missed)
    helper.ask({"type": "tried"})
    return [missed] if missed else []


def run_trial(drain: Drain, families: Iterable[str], seconds: float) -> str | None:
    """Call until a row of each family came out; what else comes stays in the drain.

    What to say if none came.

    Nothing but our own function is probed: of these families there are no other rows.
    """
    wanted = frozenset(families)
    missing = set(wanted)
    others: Rows = []
    facts: list[bytes] = []
    deadline = time.monotonic() + seconds
    while missing and time.monotonic() < deadline:
        _call()
        drain.catch_up()
        more_facts, rows = drain.take()
        facts += more_facts
        others += [each for each in rows if each[0].family not in wanted]
        missing -= {columns.family for columns, batch in rows if _is_ours(batch)}
        if missing:
            time.sleep(_PAUSE_S)
    drain.put_back(facts, others)
    if not missing:
        return None
    sorts = " or ".join(sorted(missing))
    return f"probes are attached, but no {sorts} event of a call of our own arrived; see doctor"


def _call() -> None:
    """In a thread that ends: what the programs keep of one goes with it."""
    thread = threading.Thread(target=probe_here)
    thread.start()
    thread.join()


def _is_ours(batch: Batch) -> bool:
    return bool((batch.plain("pid") == os.getpid()).any())
