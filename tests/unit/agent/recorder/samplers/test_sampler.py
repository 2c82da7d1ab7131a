"""Samplers are walked in order, and what has no rows is not written."""

from importlib import import_module
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cotenant.agent.channel import Closed
from cotenant.agent.recorder import samplers
from cotenant.agent.recorder.ingest import rollups
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.samplers.containers import Containers
from cotenant.agent.recorder.samplers.graph_kernels import GraphKernels
from cotenant.agent.recorder.samplers.holes import Holes
from cotenant.agent.recorder.samplers.in_flight import InFlight
from cotenant.agent.recorder.samplers.sampler import sample_all, write_samples
from cotenant.errors import StoreError
from cotenant.identity.ledger import Ledger
from cotenant.probes.tables import FUNCTIONS
from cotenant.schema.families import FAMILIES
from cotenant.schema.holes import NOT_SAMPLED
from cotenant.schema.layouts import FLIGHT

SECOND_NS = 1_000_000_000


class Fixed:
    """The same rows each time."""

    def __init__(self, table: str, rows: Any | None) -> None:
        self.table = table
        self._rows = rows

    def sample(self, now_ns: int) -> Any | None:
        return self._rows


class Written:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.tables: list[tuple[str, int]] = []

    def append(self, table: str, rows: Any) -> None:
        self.tables.append((table, rows.num_rows))


def test_the_rows_of_every_sampler_are_written_in_order() -> None:
    sink = Written()
    two, three = (pa.table({"n": range(n)}) for n in (2, 3))
    write_samples([Fixed("b", two), Fixed("nothing", None), Fixed("a", three)], sink, 1)
    assert sink.tables == [("b", 2), ("a", 3)]


class Failing:
    """A sampler that cannot make its rows."""

    table = "failing"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def sample(self, now_ns: int) -> Any | None:
        raise self._error


def test_a_sampler_that_fails_costs_no_other_table_a_row_and_is_told() -> None:
    sink, holes = Written(), Holes(Ledger("node", "boot"))
    rows = pa.table({"n": range(3)})
    samplers = [Fixed("a", rows), Failing(ZeroDivisionError("by 0")), Fixed("b", rows)]
    failed = sample_all(samplers, holes, sink, 100 * SECOND_NS)
    assert list(failed) == ["failing"]
    assert failed["failing"].startswith("ZeroDivisionError: by 0 (test_sampler.py:")
    # One for each family: anybody's rows may be missing.
    assert sink.tables == [("a", 3), ("b", 3), ("losses", len(FAMILIES))]
    assert holes.warnings == [
        "rows of tables that are told once a second of some tenant missing for 5.000 s: "
        "samples failed"
    ]
    assert sample_all([Fixed("a", rows)], holes, sink, 101 * SECOND_NS) == {}
    assert sink.tables[3:] == [("a", 3)]


@pytest.mark.parametrize("error", [OSError("no map"), StoreError("is gone"), Closed("helper")])
def test_what_ends_a_recording_ends_it_in_a_sampler_too(error: Exception) -> None:
    holes = Holes(Ledger("node", "boot"))
    with pytest.raises(type(error)):
        sample_all([Failing(error)], holes, Written(), 1)


def test_every_table_that_is_sampled_is_one_whose_samples_can_fail() -> None:
    names = [f"{samplers.__name__}.{module.name}" for module in iter_modules(samplers.__path__)]
    named = {
        thing.table
        for module in (*map(import_module, names), rollups)
        for thing in vars(module).values()
        if isinstance(thing, type) and isinstance(getattr(thing, "table", None), str)
    }
    assert named - {"containers"} == NOT_SAMPLED.tables  # Which are written anew when they change.


def paths(rows: Any | None) -> list[str]:
    """Of real cgroups: what is nobody's has no path."""
    assert rows is not None
    return [path for path in rows.column("cgroup_path").to_pylist() if path]


def test_a_container_is_written_when_it_changes() -> None:
    ledger = Ledger("node", "boot")
    containers = Containers(ledger)
    ledger.born(0, 23, "/a", 1)
    assert paths(containers.sample(10 * SECOND_NS)) == ["/", "/a"]
    assert containers.sample(11 * SECOND_NS) is None
    ledger.born(0, 29, "/b", 11 * SECOND_NS)
    assert paths(containers.sample(20 * SECOND_NS)) == ["/b"]
    assert sorted(paths(containers.whole())) == ["/", "/a", "/b"]


def test_a_call_under_way_began_in_utc() -> None:
    launch = next(f for f in FUNCTIONS if f.symbol == "cuLaunchKernel")
    call = np.zeros(2, FLIGHT)
    call["function"], call["began_ns"], call["pid"] = [launch.id, 0], 7, 11
    under_way = SimpleNamespace(read=call.tobytes)
    clock = WallClock()
    clock.offset_ns = 1000
    sampler = InFlight(under_way, Ledger("node", "boot"), None, clock)  # type: ignore[arg-type]
    (row,) = sampler.sample(5000).to_pylist()  # What is no function of ours is no row.
    told = (row["timestamp_ns"], row["began_ns"], row["pid"], row["function"])
    assert told == (5000, 1007, 11, "cuLaunchKernel")
    assert sampler.sample(1007).to_pylist() == []  # Asked about a moment before it began.


def test_versions_of_a_graph_are_written_once() -> None:
    class Graphs:
        def __init__(self) -> None:
            about = {"graph": "g.1", "version": 1, "kernel_name": "gemm", "nodes": 3}
            self.rows = [{"timestamp_ns": 7, "cgroup": (23, 0), **about}]

        def take_rows(self) -> list[dict[str, Any]]:
            rows, self.rows = self.rows, []
            return rows

    clock = WallClock()
    clock.offset_ns = 1000
    sampler = GraphKernels(Graphs(), Ledger("node", "boot"), clock)  # type: ignore[arg-type]
    rows = sampler.sample(0)
    assert rows is not None
    assert [(r["timestamp_ns"], r["nodes"]) for r in rows.to_pylist()] == [(1007, 3)]
    assert sampler.sample(1) is None
