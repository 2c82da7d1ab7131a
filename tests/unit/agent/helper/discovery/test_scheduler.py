"""What one event does to the search must not end it for all others."""

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from cotenant.agent.channel import Closed
from cotenant.agent.helper.discovery import scheduler as module
from cotenant.agent.helper.discovery.mmap_events import MmapEvent
from cotenant.agent.helper.discovery.scheduler import DiscoveryScheduler
from cotenant.agent.helper.fair_queue import OURS, PassedOver, tenant_of
from cotenant.agent.helper.libraries.by_owner import ByOwner
from cotenant.agent.helper.libraries.resting import Resting
from cotenant.agent.helper.libraries.unprobed import UnprobedFunctions
from cotenant.agent.process import Process
from cotenant.agent.protocol.reports import Report, Trouble, WorkPassedOver
from cotenant.probes.inodes import Inode
from cotenant.schema.layouts import MAPPING
from tests.unit.probes.memory import no_code

WAIT_S = 20


def no_libraries(**more: Any) -> Any:
    """As much of them as a scheduler needs."""
    return SimpleNamespace(**{"placing": set(), "by_owner": ByOwner(), **more})


def fail(error: Exception) -> None:
    raise error


def test_the_search_goes_on_after_any_failure_and_says_so() -> None:
    told: list[Report] = []
    done: queue.SimpleQueue[int] = queue.SimpleQueue()
    discovery = DiscoveryScheduler(no_libraries(), no_code(), told.append, PassedOver())  # type: ignore[arg-type]
    discovery.start()
    discovery.do(lambda: fail(OverflowError("int too large")))
    discovery.do(lambda: fail(FileNotFoundError("gone")))
    discovery.do(lambda: done.put(7))
    assert done.get(timeout=WAIT_S) == 7
    discovery.stop()
    text = "OverflowError: int too large"
    assert told == [Trouble("discovery", text)]


def test_the_search_ends_when_the_recorder_is_gone() -> None:
    told: list[Report] = []
    discovery = DiscoveryScheduler(no_libraries(), no_code(), told.append, PassedOver())  # type: ignore[arg-type]
    discovery.start()
    discovery.do(lambda: fail(Closed("the other process is gone")))
    wait_until(lambda: not discovery._workers._busy)
    assert told == []


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def following(told: list[Report]) -> DiscoveryScheduler:
    libraries = no_libraries()
    discovery = DiscoveryScheduler(libraries, no_code(), told.append, PassedOver())  # type: ignore[arg-type]
    discovery.start()
    return discovery


def test_a_tenant_with_much_to_look_at_lets_others_in_between() -> None:
    done: queue.SimpleQueue[str] = queue.SimpleQueue()
    go_on = threading.Event()

    def long() -> Iterator[None]:
        for number in itertools.count():
            done.put(f"step {number}")
            if go_on.is_set():
                return
            time.sleep(0.01)
            yield

    discovery = following([])
    discovery.do(long, "storm")
    assert done.get(timeout=WAIT_S) == "step 0"
    discovery.do(lambda: go_on.set(), "calm")
    assert go_on.wait(WAIT_S)
    discovery.stop()


def test_who_waits_for_ever_keeps_nobody_waiting_but_himself(monkeypatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.0)
    told: list[Report] = []
    waits, answer = threading.Event(), threading.Event()
    done: queue.SimpleQueue[str] = queue.SimpleQueue()

    def hang() -> None:
        waits.set()
        answer.wait(WAIT_S)
        done.put("late")

    discovery = following(told)
    discovery.do(hang, "hangs")
    discovery.do(lambda: done.put("more of it"), "hangs")
    for number in range(7):
        discovery.do(lambda number=number: done.put(f"another {number}"), f"calm {number}")
    assert waits.wait(WAIT_S)
    found = {done.get(timeout=WAIT_S) for _ in range(7)}
    assert found == {f"another {number}" for number in range(7)}
    wait_until(lambda: len(discovery._workers._busy) == 1)
    # Once nothing else wants a CPU; and once only.
    wait_until(lambda: bool(discovery.tend() or told))
    discovery.tend()
    text = "a file of hangs does not answer"
    assert told == [Trouble("discovery", text)]
    answer.set()
    assert [done.get(timeout=WAIT_S), done.get(timeout=WAIT_S)] == ["late", "more of it"]
    discovery.stop()
    assert discovery._passed_over.take_news() is None


def test_a_tenant_is_not_blamed_for_the_time_that_placing_probes_takes(monkeypatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.0)
    told: list[Report] = []
    placing: set[int] = set()
    begun, go_on = threading.Event(), threading.Event()

    def place() -> None:
        placing.add(threading.get_ident())
        begun.set()
        go_on.wait(WAIT_S)

    libraries = no_libraries(placing=placing)
    discovery = DiscoveryScheduler(libraries, no_code(), told.append, PassedOver())  # type: ignore[arg-type]
    discovery.start()
    discovery.do(place, "calm")
    assert begun.wait(WAIT_S)
    discovery.tend()
    go_on.set()
    discovery.stop()
    assert told == []


def test_looks_follow_the_last_step_of_a_process_only(monkeypatch) -> None:
    looks: list[int] = []
    discovery = DiscoveryScheduler(no_libraries(), no_code(), fail, PassedOver())  # type: ignore[arg-type]
    monkeypatch.setattr(discovery._roots, "process", lambda pid, _: looks.append(pid) or iter(()))
    for _ in range(3):
        discovery.newcomers.entered(7)
    discovery.start()
    wait_until(lambda: len(looks) >= 10)
    discovery.stop()
    assert looks == [7] * 10


class Unused:
    """Libraries of which one is probed, and let go by the next sweep."""

    inode = Inode(1, 41, 0)

    def __init__(self) -> None:
        self.unsure = SimpleNamespace(knows=lambda _: False)
        self.by_owner = ByOwner()
        self.placing: set[int] = set()

    resting = Resting(lambda _: {})
    unprobed = UnprobedFunctions(lambda _: {}, lambda _: None)

    def probed(self, inode: Inode) -> object | None:
        return None

    def recoveries(self) -> list[tuple[str, Callable[[], None]]]:
        return []

    def rewrite_checks(self, _: object) -> list[tuple[str, Callable[[], None]]]:
        return []

    def let_go(self, gone: set[Inode]) -> None:
        pass

    def changed(self, *_: object, **__: object) -> tuple[float, ...]:
        return ()

    def seen_again(self, *_: object) -> None:
        pass

    def rest_again(self) -> None:
        pass

    def sweep(self, mapped: set[Inode], *, linger_ns: int) -> set[Inode]:
        return {self.inode} - mapped


def test_a_library_that_is_mapped_while_the_sweep_lets_it_go_is_probed_again(
    monkeypatch: Any,
) -> None:
    libraries = Unused()
    discovery = DiscoveryScheduler(libraries, no_code(), fail, PassedOver())  # type: ignore[arg-type]
    event = MmapEvent(7, 4096, 8192, 0, "/app/libcudart.so.12", writable=False, key=b"known" * 8)
    known = (tenant_of(event.pid), event.key)
    discovery._seen.add(known)  # It is probed: nothing is to be done for who maps it.
    now = np.zeros(1, MAPPING)
    now["pid"], now["start"], now["end"], now["device"], now["inode"] = 7, 4096, 8192, 1, 41

    def look(*_: Any) -> Iterator[Any]:
        # The first look is past this process when it maps the file.
        there = now[:0] if known in discovery._seen else now
        discovery.mapped([event])
        yield there

    monkeypatch.setattr(discovery._code, "everywhere", look)
    considered: queue.SimpleQueue[int] = queue.SimpleQueue()
    monkeypatch.setattr(
        discovery, "_consider_mapping", lambda _, place, *__: considered.put(place.pid)
    )
    discovery._sweep()
    discovery._workers.start()
    assert considered.get(timeout=WAIT_S) == 7
    discovery.stop()


def test_a_sweep_tells_who_runs_by_more_than_a_number(monkeypatch: Any) -> None:
    discovery = DiscoveryScheduler(Unused(), no_code(), fail, PassedOver())  # type: ignore[arg-type]
    now = np.zeros(3, MAPPING)
    now["process"], now["process_start_ns"] = (7, 7, 11), (1009, 1009, 2003)
    monkeypatch.setattr(discovery._code, "everywhere", lambda *_: iter([now]))
    living: set[Process] = set()
    discovery.when_swept(living.update)
    discovery._sweep()
    assert living == {Process(7, 1009), Process(11, 2003)}


def test_a_file_that_never_answers_holds_up_its_tenant_and_not_the_host(monkeypatch: Any) -> None:
    """Somebody writes to a probed file, and the next look at it takes for ever."""
    libraries = Unused()
    libraries.probed = lambda _: object()  # type: ignore[method-assign,assignment]
    discovery = DiscoveryScheduler(libraries, no_code(), fail, PassedOver())  # type: ignore[arg-type]
    now = np.zeros(1, MAPPING)
    now["pid"], now["device"], now["inode"] = 7, 1, 41
    monkeypatch.setattr(discovery._code, "everywhere", lambda *_: iter([now]))
    stuck, free = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        stuck.set()
        free.wait(WAIT_S)

    monkeypatch.setattr(discovery, "_consider_mapping", hang)
    discovery.start()
    for _ in range(101):
        discovery._withdrawn(Unused.inode)
    assert stuck.wait(WAIT_S)
    done = threading.Event()
    discovery.do(done.set)
    assert done.wait(WAIT_S)
    free.set()
    discovery.stop()


def test_however_often_code_is_made_writable_it_is_looked_at_once_at_a_time() -> None:
    looked: queue.SimpleQueue[int] = queue.SimpleQueue()
    libraries = no_libraries(
        second_looks=lambda shown: [("owner", partial(looked.put, shown.number))]
    )
    discovery = DiscoveryScheduler(libraries, no_code(), fail, PassedOver())  # type: ignore[arg-type]
    for _ in range(1009):
        for wait_s in (0, 0.02):
            discovery._second_looks.add("tenant", Unused.inode, wait_s)
    discovery.start()
    assert [looked.get(timeout=WAIT_S) for _ in range(2)] == [41, 41]
    discovery._second_looks.add("tenant", Unused.inode, 0)
    assert looked.get(timeout=WAIT_S) == 41
    assert looked.empty()
    discovery.stop()


def test_who_is_not_looked_at_since_all_threads_wait_for_others_is_told_once(
    monkeypatch: Any,
) -> None:
    passed_over = PassedOver()
    discovery = DiscoveryScheduler(no_libraries(), no_code(), fail, passed_over)  # type: ignore[arg-type]
    for waiting in ({"calm", OURS}, {"calm", OURS}, set(), {"calm"}):
        monkeypatch.setattr(discovery._workers, "tend", lambda waiting=waiting: waiting)
        discovery.tend()
    assert passed_over.take_news() == WorkPassedOver({"waiting": {"calm": 2}})


def test_however_often_what_rests_is_mapped_it_is_settled_once_at_a_time(monkeypatch: Any) -> None:
    settled: queue.SimpleQueue[None] = queue.SimpleQueue()
    libraries = Unused()
    libraries.rest_again = lambda: settled.put(None)  # type: ignore[method-assign]
    always = SimpleNamespace(knows=lambda _: True, disturbs=lambda *_: True)
    monkeypatch.setattr(Unused, "resting", always)
    discovery = DiscoveryScheduler(libraries, no_code(), fail, PassedOver())  # type: ignore[arg-type]
    event = MmapEvent(1 << 30, 4096, 8192, 0, "/x/a.so", writable=False, key=bytes(40))
    for _ in range(2):
        discovery.mapped([event] * 1009)
    discovery.start()
    settled.get(timeout=WAIT_S)
    begin = time.monotonic()
    discovery.mapped([event] * 1009)
    settled.get(timeout=WAIT_S)
    assert time.monotonic() - begin > 0.05
    discovery.stop()
    assert settled.empty()
