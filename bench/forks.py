"""For how long no process of the host can fork, because probes come or go.

    python bench/forks.py [--mappers 1,100,1000] [--rounds 5] [--tries 300]

The kernel stops all forks while it places or removes a probe. A process that forks all the time
measures that, with real-time priority, so that it waits for nothing else: while a recording starts
and stops, and while a file is probed and loses its probes, with so many processes that map it. A
thread that launches all the time measures what a start costs a launch. Then so many processes
take memory at random moments around the probing of a library: how often did forks wait for that?
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from agent import SIM, Agent

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.kernel.compiler import build_client, compile_c
from tests.kernel.conftest import ask

HERE = Path(__file__).parent
HELD_MIB = 1024
AROUND_MS = 60  # From the mapping of a library to its probes it takes less.
WAITED_MS = 100.0  # A fork that takes longer has waited for the lock.


def in_front() -> None:
    """Let no other program delay the caller."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))


class Forks:
    """The longest fork, and the time that forks took beyond a millisecond each."""

    def __init__(self, forker: Path) -> None:
        self._forker = forker
        self.longest_ms = self.waited_ms = 0.0

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Measure until the block ends."""
        process = subprocess.Popen(
            [self._forker, "120"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=in_front,
        )  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            said, _ = process.communicate()
            self.longest_ms, self.waited_ms = map(float, said.split())


@contextlib.contextmanager
def mapping(program: Path, library: Path, count: int) -> Iterator[None]:
    """So many processes have the library mapped."""
    process = subprocess.Popen(
        [program, library, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.communicate()


def wait_until(done: Callable[[], bool]) -> None:
    """Until something is so."""
    until = time.monotonic() + 60
    while not done():
        if time.monotonic() > until:
            raise SystemExit("not probed in time")
        time.sleep(0.05)


def probes(store: Path, library: Path) -> int:
    """How many functions of a library have probes now."""
    rows = ask(store, "select libraries from sessions")
    found = json.loads(rows[0]["libraries"]) if rows else []
    return max((one["attached"] for one in found if one["path"] == str(library)), default=0)


Round = dict[str, dict[str, float]]


def one_round(place: Path, programs: dict[str, Path], mappers: int) -> Round:
    """Start, placing, removing and stop, with so many processes."""
    found: Round = {}
    forks = Forks(programs["forker"])

    @contextlib.contextmanager
    def phase(name: str) -> Iterator[None]:
        began = time.monotonic()
        with forks.measured():
            yield
        took = (time.monotonic() - began) * 1e3
        found[name] = {"longest_ms": forks.longest_ms, "waited_ms": forks.waited_ms, "ms": took}

    late = Path(shutil.copy(SIM / "libcuda.so.1", place))
    agent = Agent(place / "store", "--quiet")
    with mapping(programs["mappers"], SIM / "libcuda.so.1", mappers):
        with phase("start"):
            agent.__enter__()
        with phase("placed"), mapping(programs["mappers"], late, mappers):
            wait_until(lambda: probes(agent.store, late) > 0)
            with phase("removed"):
                rewrite(late)
                time.sleep(2)
        with phase("stop"):
            agent.__exit__()
    return found


def rewrite(library: Path) -> None:
    """Write to a file what it has: its probes go at once."""
    with library.open("r+b") as file:
        start = file.read(4)
        file.seek(0)
        file.write(start)


def launches(place: Path, programs: dict[str, Path]) -> dict[str, float]:
    """The longest launch while a recording starts, and while nothing does."""
    found = {}
    for name in ("alone", "start"):
        launcher = subprocess.Popen(
            [programs["longest_launch"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"LD_LIBRARY_PATH": str(SIM), "COTENANT_SIM_DEVICE": "cotenant-bench"},
            preexec_fn=in_front,
        )  # fmt: skip
        assert launcher.stdout is not None
        launcher.stdout.readline()
        if name == "start":
            with Agent(place / "launches", "--quiet"):
                said, _ = launcher.communicate()
        else:
            time.sleep(2)
            said, _ = launcher.communicate()
        found[f"{name}_longest_ms"] = float(said)
    return found


def tries(place: Path, programs: dict[str, Path], count: int) -> dict[str, Any]:
    """How often forks waited for a lock that began around the moment of probing."""
    dice = random.Random(11)
    forks = Forks(programs["forker"])
    waited: list[float] = []
    held: list[float] = []
    with Agent(place / "tries", "--quiet"):
        for number in range(count):
            library = Path(shutil.copy(SIM / "libcuda.so.1", place / f"libcuda.so.{number}"))
            words = [library, str(dice.randrange(AROUND_MS)), "populate", str(HELD_MIB)]
            with forks.measured():
                holder = subprocess.Popen(
                    [programs["holder"], *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    text=True,
                )  # fmt: skip
                said, _ = holder.communicate()
                time.sleep(0.1)
            held.append(float(said.split()[-1]) * 1e3)
            waited.append(forks.longest_ms)
            library.unlink()
    long = [round(ms) for ms in waited if ms >= WAITED_MS]
    return {"tries": count, "held_median_ms": median(held), "waited": len(long), "waited_ms": long}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mappers", default="1,100,1000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tries", type=int, default=300)
    args = parser.parse_args()
    result: dict[str, Any] = {"bench": "forks", "mappers": {}}
    with tempfile.TemporaryDirectory(prefix="cotenant-forks-", dir="/var/tmp") as folder:
        place = Path(folder)
        place.chmod(0o755)
        programs = {name: build_client(place / name, name) for name in ("forker", "holder")}
        for name in ("mappers", "longest_launch"):
            programs[name] = compile_c(
                place / name, HERE / "clients" / f"{name}.c", f"-L{SIM}", "-l:libcuda.so.1"
            )
        for mappers in map(int, args.mappers.split(",")):
            rounds = []
            for number in range(args.rounds):
                own = place / f"{mappers}-{number}"
                own.mkdir()
                rounds.append(one_round(own, programs, mappers))
            result["mappers"][str(mappers)] = {
                phase: {
                    what: round(choose(one[phase][what] for one in rounds), 1)
                    for what, choose in (("longest_ms", max), ("waited_ms", median), ("ms", median))
                }
                for phase in rounds[0]
            }
        result["launch"] = launches(place, programs)
        result["random"] = tries(place, programs, args.tries)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
