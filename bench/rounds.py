"""Attach, record, stop, again and again, with NVIDIA's own runtime library: is every call there?

    python bench/rounds.py [--rounds 200] [--busy 12]

Each round a client makes 17 calls of the real libcudart, which return an error where there is no
GPU. In turn it has the library mapped before the recording starts, or maps it afterwards and waits
until it is probed. The second half of the rounds runs beside busy loops. In a third sort of round,
which is not judged, the client calls at once, whatever is probed by then.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
from agent import Agent

CALLS = 17
SORTS = ("before", "after", "at once")
_CLIENT = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
if sys.argv[3] != "at once":
    print("mapped", flush=True)
    sys.stdin.readline()
at = ctypes.c_void_p()
size = ctypes.c_size_t
print([library.cudaMalloc(ctypes.byref(at), size(4096 + n)) for n in range(int(sys.argv[2]))])
"""
_BUSY = "while True: pass"


def runtime_library() -> Path:
    """The newest libcudart among the installed packages."""
    spec = importlib.util.find_spec("nvidia")
    places = list(spec.submodule_search_locations or ()) if spec else []
    found = sorted(f for place in places for f in Path(place).glob("*/lib/libcudart.so.*"))
    if not found:
        raise SystemExit("no libcudart: make setup-tests installs nvidia-cuda-runtime")
    return found[0]


class Client:
    """A process that calls when it is told."""

    def __init__(self, library: Path, sort: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CLIENT, library, str(CALLS), sort],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.pid = self._process.pid
        if sort != "at once":
            assert self._process.stdout is not None
            self._process.stdout.readline()

    def call(self) -> list[int]:
        """The results of its calls, once it has ended."""
        said, _ = self._process.communicate("\n", timeout=60)
        return list(json.loads(said))


def round_of(store: Path, library: Path, sort: str) -> dict[str, Any]:
    """One recording: what the client was told by the library, and what was stored of it."""
    early = Client(library, sort) if sort == "before" else None
    with Agent(store, "--quiet") as agent:
        client = early or Client(library, sort)
        if sort == "after":
            wait_probed(agent, library)
        made = client.call()
    rows = asked(
        agent,
        f"select result from cuda_events where pid = {client.pid} and api = 'cudaMalloc' "
        "order by timestamp_ns",
    )
    (gap, notes) = asked(agent, "select attach_gap_ns, notes from sessions")[-1]
    return {
        "sort": sort,
        "made": made,
        "stored": [row[0] for row in rows],
        "gap_ns": gap,
        "notes": json.loads(notes),
    }


def asked(agent: Agent, query: str) -> list[tuple[Any, ...]]:
    """What the store answers; nothing as long as the table has no segment."""
    try:
        return agent.sql(query)
    except duckdb.CatalogException:
        return []


def wait_probed(agent: Agent, library: Path) -> None:
    """Until the recording says that it is."""
    deadline = time.monotonic() + 30
    while not any(
        about["path"] == str(library) and about["attached"]
        for (told,) in asked(agent, "select libraries from sessions")
        for about in json.loads(told)
    ):
        if time.monotonic() > deadline:
            raise SystemExit(f"{library} was not probed in time")
        time.sleep(0.05)


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """So many processes that do nothing but take turns on the CPUs."""
    started = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def rounds(number: int, loops: int) -> Iterator[dict[str, Any]]:
    """Rounds, the second half of them beside busy loops."""
    library = runtime_library()
    sorts = [SORTS[at % 2] for at in range(number)] + [SORTS[2]] * (number // 10)
    for at, sort in enumerate(sorts):
        crowd = loops if at >= number // 2 else 0
        with tempfile.TemporaryDirectory(prefix="cotenant-rounds-") as folder, busy(crowd):
            found = round_of(Path(folder) / "store", library, sort)
        yield {"round": at, "busy": crowd, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--busy", type=int, default=12)
    args = parser.parse_args()
    judged = whole = unjudged = told = 0
    missing = []
    for each in rounds(args.rounds, args.busy):
        complete = each["made"] == each["stored"]
        if each["sort"] == "at once":
            unjudged += 1
            told += complete or each["gap_ns"] is not None
            continue
        judged += 1
        whole += complete
        if not complete:
            missing.append(each)
        print(f"{each['round']}: {len(each['stored'])} of {CALLS}", file=sys.stderr, flush=True)
    print(
        json.dumps(
            {
                "bench": "rounds", "calls_each": CALLS, "rounds": judged, "complete": whole,
                "at_once": unjudged, "at_once_complete_or_told": told, "incomplete": missing,
                "cpus": os.cpu_count(),
            }
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
