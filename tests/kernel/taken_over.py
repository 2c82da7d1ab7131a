"""A recorder that somebody has taken over: the real command, until its probes are attached.

Then, in the place of its loop, what an attacker would try from inside. For each attempt it prints
whether it was refused, by which error, or what came of it.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from cotenant.agent.process import Nameless, Process
from cotenant.agent.protocol.reports import DevicesFound, Inspected, KernelsFound
from cotenant.agent.protocol.requests import Inspect
from cotenant.agent.recorder import main as recorder
from cotenant.views.cli import main

_ANSWER_S = 20


def _tried(attempt: Callable[[], object]) -> str:
    """What came of it: the name of the error, or the result."""
    try:
        return f"done: {attempt()!r}"
    except Exception as error:  # noqa: BLE001 - whatever it is, it was refused
        return type(error).__name__


def _ask_about(taken: Any, target: dict[str, Any]) -> dict[str, str]:
    """What the helper tells about a process that never called a GPU library."""
    process = Process(target["pid"], target["start_ns"])
    ask = Inspect(7, (process,), (Nameless(process, 0, target["function"]),))
    taken._helper.ask(ask)
    assert taken._helper.hear_until(Inspected(7), _ANSWER_S)
    told = taken._helper.take()
    mps = [report.mps for report in told if isinstance(report, DevicesFound)]
    named = [k.name for report in told if isinstance(report, KernelsFound) for k in report.kernels]
    return {"a foreign process's surroundings": str(mps), "a foreign process's code": str(named)}


def _attack(taken: Any, *_: object) -> None:
    target = json.loads(os.environ["TARGET"])
    print(json.dumps(_ask_about(taken, target)), flush=True)
    taken._finish()


if __name__ == "__main__":
    recorder.Recorder.run = _attack  # type: ignore[method-assign]
    sys.exit(main(["record", "--quiet", *sys.argv[1:]]))
