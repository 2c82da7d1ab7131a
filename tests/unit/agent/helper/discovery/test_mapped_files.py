"""A file that several tenants map is looked at for each of them."""

import queue
import threading
from functools import partial
from typing import Any

import numpy as np

from cotenant.agent.helper.discovery import mapped_files
from cotenant.agent.helper.discovery import scheduler as module
from cotenant.agent.helper.discovery.mmap_events import MmapEvent
from cotenant.agent.helper.discovery.scheduler import DiscoveryScheduler
from cotenant.agent.helper.fair_queue import ENDED, PassedOver
from cotenant.agent.protocol.reports import WorkPassedOver
from cotenant.probes.code_mappings import CodeMappings
from cotenant.probes.inodes import Inode
from cotenant.schema.layouts import MAPPING
from tests.unit.agent.helper.discovery.test_scheduler import (
    WAIT_S,
    Unused,
    fail,
    no_libraries,
    wait_until,
)
from tests.unit.probes.memory import no_code

STORM, CALM = 7, 11


def mapped_by_both(monkeypatch: Any) -> None:
    """One file that two tenants map; the kernel tells of the first one first."""
    now = np.zeros(2, MAPPING)
    now["pid"], now["device"], now["inode"] = (STORM, CALM), 1, 41
    monkeypatch.setattr(CodeMappings, "everywhere", lambda *_: iter([now]))
    monkeypatch.setattr(mapped_files, "tenant_of", {STORM: "storm", CALM: "calm"}.get)


def looks_that_never_end_for_the_storm(
    discovery: DiscoveryScheduler, monkeypatch: Any
) -> tuple["queue.SimpleQueue[int]", threading.Event]:
    looked: queue.SimpleQueue[int] = queue.SimpleQueue()
    free = threading.Event()

    def look(tenant: str, place: Any, *_: object) -> None:
        if tenant == "storm":
            free.wait(WAIT_S)
        looked.put(place.pid)

    monkeypatch.setattr(discovery, "_consider_mapping", look)
    return looked, free


def test_a_file_that_one_tenant_keeps_waiting_is_found_where_another_maps_it(
    monkeypatch: Any,
) -> None:
    mapped_by_both(monkeypatch)
    libraries = no_libraries(knows=lambda *_: False)
    discovery = DiscoveryScheduler(libraries, no_code(), fail, PassedOver())  # type: ignore[arg-type]
    looked, free = looks_that_never_end_for_the_storm(discovery, monkeypatch)
    discovery._workers.start()
    discovery.do(discovery._scan_again)
    assert looked.get(timeout=WAIT_S) == CALM
    free.set()
    assert looked.get(timeout=WAIT_S) == STORM
    discovery.stop()


def test_a_file_that_was_let_go_is_taken_back_where_another_maps_it(monkeypatch: Any) -> None:
    mapped_by_both(monkeypatch)
    discovery = DiscoveryScheduler(Unused(), no_code(), fail, PassedOver())  # type: ignore[arg-type]
    looked, free = looks_that_never_end_for_the_storm(discovery, monkeypatch)
    discovery._workers.start()
    discovery.do(partial(discovery._take_back, {Unused.inode}))
    assert looked.get(timeout=WAIT_S) == CALM
    free.set()
    assert looked.get(timeout=WAIT_S) == STORM
    discovery.stop()


def test_who_maps_what_a_scan_has_found_elsewhere_is_told_of_its_gap(monkeypatch: Any) -> None:
    mapped_by_both(monkeypatch)
    known: set[Inode] = set()
    again: queue.SimpleQueue[tuple[int, str, int]] = queue.SimpleQueue()
    libraries = no_libraries(
        knows=lambda inode, _: inode in known,
        seen_again=lambda inode, tenant, when_ns: again.put((inode.number, tenant, when_ns)),
    )
    discovery = DiscoveryScheduler(libraries, no_code(), fail, PassedOver())  # type: ignore[arg-type]
    running = discovery._running(0)
    known.add(Unused.inode)
    for tenant, places in running.items():
        list(discovery._scan(tenant, places, 23))
    assert [again.get(timeout=WAIT_S) for _ in running] == [(41, "calm", 23), (41, "storm", 23)]


def test_a_tenant_with_more_files_than_are_looked_at_keeps_none_from_another(
    monkeypatch: Any,
) -> None:
    now = np.zeros(24, MAPPING)
    now["pid"][:23], now["pid"][23] = STORM, CALM
    now["inode"][:23], now["inode"][23] = np.arange(23), 22
    monkeypatch.setattr(CodeMappings, "everywhere", lambda *_: iter([now[:7], now[7:]]))
    monkeypatch.setattr(mapped_files, "tenant_of", {STORM: "storm", CALM: "calm"}.get)
    monkeypatch.setattr(module, "_SCANNED_MAX", 19)
    passed_over = PassedOver()
    libraries = no_libraries(knows=lambda *_: False)
    discovery = DiscoveryScheduler(libraries, no_code(), fail, passed_over)  # type: ignore[arg-type]
    found = discovery._running(0)
    assert {tenant: len(places) for tenant, places in found.items()} == {"storm": 19, "calm": 1}
    assert passed_over.take_news() == WorkPassedOver({"mappings": {"storm": 4}})


def event_of(pid: int, path: str) -> MmapEvent:
    """That somebody maps one and the same file."""
    return MmapEvent(pid, 4096, 8192, 0, path, writable=False, key=b"a file" * 8)


def looks_at_mappings(
    monkeypatch: Any, tenants: dict[int, str], again: list[str]
) -> tuple[DiscoveryScheduler, "queue.SimpleQueue[str]"]:
    """A scheduler to which every file at every place is one that is known."""
    looked: queue.SimpleQueue[str] = queue.SimpleQueue()
    libraries = Unused()
    libraries.seen_again = lambda _, tenant, *__: again.append(tenant)  # type: ignore[method-assign,assignment]
    monkeypatch.setattr(module, "tenant_of", tenants.get)
    discovery = DiscoveryScheduler(libraries, no_code(), fail, PassedOver())  # type: ignore[arg-type]
    monkeypatch.setattr(
        discovery, "_consider_mapping", lambda tenant, *_: looked.put(tenant) or True
    )
    discovery._workers.start()
    return discovery, looked


def test_what_one_tenant_shows_us_in_the_place_of_a_file_is_no_look_at_it_for_another(
    monkeypatch: Any,
) -> None:
    again: list[str] = []
    tenants = {STORM: "storm", CALM: "calm"}
    discovery, looked = looks_at_mappings(monkeypatch, tenants, again)
    for pid in (STORM, CALM):
        discovery.mapped([event_of(pid, "/app/train")])
        assert looked.get(timeout=WAIT_S) == tenants[pid]
        wait_until(lambda: not discovery._workers._busy)
    for pid in (STORM, CALM):
        discovery.mapped([event_of(pid, "/app/train")] * 3)
    discovery.stop()
    assert looked.empty()
    assert again == ["storm"] * 3 + ["calm"] * 3


def test_of_a_process_that_is_gone_only_a_library_of_ours_is_looked_for(monkeypatch: Any) -> None:
    again: list[str] = []
    discovery, looked = looks_at_mappings(monkeypatch, {STORM: ENDED}, again)
    discovery.mapped([event_of(STORM, "/app/train"), event_of(STORM, "/app/libcuda.so.1")])
    assert looked.get(timeout=WAIT_S) == ENDED
    discovery.stop()
    assert looked.empty()
    assert again == [ENDED]  # It may have been probed too late.
