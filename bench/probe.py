"""What a recorded call costs, as a multiple of a session probe that does nothing.

usage: sudo .venv/bin/python bench/probe.py [rounds]

Each round measures every variant on the same function in the same process, one after the other;
the best round of each counts, since all noise is added time. What the function itself costs is
subtracted.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cotenant._native import Ring, load
from cotenant.agent.settings import choose_hierarchy
from cotenant.probes import syscalls
from cotenant.probes.attach import Attacher, Method, Placed
from cotenant.probes.elf import Elf
from cotenant.probes.programs import Programs, Sizes, load_programs
from cotenant.probes.tables import FUNCTIONS

ROOT = Path(__file__).parents[1]
CLIENTS = Path(__file__).parent / "clients"
CALLS = 20_000  # As many rows as the ring holds between two drains.
# Other names than the real ones: a recorder on this host must not probe the client, too.
SYMBOLS = {"bench_driver": "cuLaunchKernel", "bench_runtime": "cudaLaunchKernel"}


def build(place: Path) -> tuple[Path, int]:
    """The client, and the program that does nothing."""
    client = place / "launches"
    subprocess.run(
        [
            "gcc",
            "-O2",
            "-fno-omit-frame-pointer",
            "-rdynamic",
            "-o",
            client,
            CLIENTS / "launches.c",
        ],
        check=True,
    )
    empty = place / "empty.bpf.o"
    subprocess.run(
        ["make", "-s", "-C", ROOT / "bpf", "object", f"SOURCE={CLIENTS / 'empty.bpf.c'}",
         f"TARGET={empty}"],
        check=True,
    )  # fmt: skip
    programs, _ = load(
        path=str(empty),
        programs={"empty_session": syscalls.ATTACH_UPROBE_SESSION},
        shared={},
        sizes={},
        constants={},
    )
    return client, programs["empty_session"]


@contextmanager
def nothing() -> Iterator[None]:
    yield


@contextmanager
def empty_probe(program: int, path: Path, offset: int) -> Iterator[None]:
    link = syscalls.attach_uprobes(
        program, str(path), [(offset, 0)], attach_type=syscalls.ATTACH_UPROBE_SESSION
    )
    try:
        yield
    finally:
        os.close(link)


@contextmanager
def our_probes(attacher: Attacher, path: Path, placed: list[Placed]) -> Iterator[None]:
    attachment = attacher.attach(str(path), placed)
    try:
        yield
    finally:
        attachment.close()


class Client:
    """The process that launches."""

    def __init__(self, path: Path, programs: Programs, ring_bytes: int) -> None:
        self._process = subprocess.Popen(
            [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._ring = Ring(programs.maps["events"], ring_bytes, 56)

    def measure(self, layer: str) -> float:
        """Nanoseconds per call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{layer} {CALLS}\n")
        self._process.stdin.flush()
        answer = float(self._process.stdout.readline())
        self._ring.drain(self._ring.position())
        return answer

    def close(self) -> None:
        self._process.communicate("")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    sizes = Sizes()
    constants = {"v1_controller": choose_hierarchy("auto").v1_controller}
    functions = {f.symbol: f for f in FUNCTIONS}
    programs = load_programs(Method.SESSION, FUNCTIONS, sizes, constants)
    with tempfile.TemporaryDirectory() as place:
        path, empty = build(Path(place))
        with Elf(os.open(path, os.O_RDONLY)) as elf:
            offsets = elf.find(SYMBOLS)
        placed = [Placed(functions[real], offsets[name]) for name, real in SYMBOLS.items()]
        attacher = Attacher(Method.SESSION, programs.programs)
        client = Client(path, programs, sizes.events_bytes)
        times: dict[str, list[float]] = {}
        for _ in range(rounds):
            for name, layer, probe in (
                ("bare driver", "driver", nothing()),
                ("bare runtime", "runtime", nothing()),
                ("empty", "driver", empty_probe(empty, path, offsets["bench_driver"])),
                ("driver", "driver", our_probes(attacher, path, placed[:1])),
                ("runtime", "runtime", our_probes(attacher, path, placed)),
            ):
                with probe:
                    times.setdefault(name, []).append(client.measure(layer))
        client.close()
    print(json.dumps(report({name: min(values) for name, values in times.items()}), indent=2))


def report(best: dict[str, float]) -> dict[str, float]:
    """What a call costs more when it is recorded, in nanoseconds and in empty probes."""
    empty = best["empty"] - best["bare driver"]
    driver, both = (best[layer] - best[f"bare {layer}"] for layer in ("driver", "runtime"))
    return {
        "empty_ns": round(empty),
        "driver_ns": round(driver),
        "both_layers_ns": round(both),
        "driver_over_empty": round(driver / empty, 3),
        "both_layers_over_empty": round(both / empty, 3),
    }


if __name__ == "__main__":
    main()
