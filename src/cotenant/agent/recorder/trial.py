"""A call of our own that goes all the way before anybody is told that calls are recorded.

The helper probes a function of the native module with the programs of this recording, before any
other function; the recorder calls it, and looks for its rows where all rows come out.
"""

import os
import threading
import time
from collections.abc import Iterable
from typing import Final

from cotenant._native import probe_here
from cotenant.agent.node import among_all_processes
from cotenant.agent.protocol.requests import TrialDone
from cotenant.agent.recorder.helper_client import HelperClient
from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.ingest.drain import Drain, Rows
from cotenant.errors import Unsupported

_SECONDS: Final = 60.0  # On an emulated CPU it takes a while.
_EXCLUDING_SECONDS: Final = 10.0  # We may be left alone ourselves: then no row will come.
_PAUSE_S: Final = 0.01


def try_out(helper: HelperClient, drain: Drain, *, excluding: bool) -> list[str]:
    """See a call of our own come out of the drain; what to say if it did not.

    Where some are left alone, we may be among them.
    """
    seconds = _EXCLUDING_SECONDS if excluding else _SECONDS
    missed = run_trial(drain, helper.trial(), seconds)
    if missed and not excluding:
        raise Unsupported(missed)
    helper.ask(TrialDone())
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
    what = f"probes are attached, but no {sorts} event of a call of our own arrived"
    if among_all_processes():
        return f"{what}; see doctor"
    return f"{what}: this is a PID namespace of its own; use the host's (hostPID, --pid=host)"


def _call() -> None:
    """In a thread that ends: what the programs keep of one goes with it."""
    thread = threading.Thread(target=probe_here)
    thread.start()
    thread.join()


def _is_ours(batch: Batch) -> bool:
    return bool((batch.plain("pid") == os.getpid()).any())
