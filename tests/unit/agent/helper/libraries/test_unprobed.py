"""Whoever uses a library with functions that have no probe is told of, as long as it does."""

import subprocess
import threading
from collections.abc import Collection

from cotenant.agent.helper.fair_queue import OURS, tenant_of
from cotenant.agent.helper.libraries.unprobed import UnprobedFunctions
from cotenant.agent.protocol.reports import Blind, Report, Unprobed
from cotenant.probes.inodes import Inode

DRIVER, COLLECTIVES = Inode(1, 7, 0), Inode(1, 11, 0)


def test_who_maps_a_file_with_refused_functions_is_told_until_it_does_not() -> None:
    told: list[Report] = []
    mapped = {DRIVER: {"/a"}, COLLECTIVES: {"/a", "/b"}}
    functions = UnprobedFunctions(lambda inodes: {i: mapped[i] for i in inodes}, told.append)

    def blind() -> set[tuple[str, tuple[str, ...]]]:
        assert isinstance(told[-1], Unprobed)
        return {one[:2] for one in told[-1].blind}

    functions.consider(DRIVER, {"cuInit": "odd", "cudaLaunchKernel": "odd"}, ("cuda",), "/a")
    assert told == []  # Neither is a row of its own.
    functions.consider(DRIVER, {"cuMemAlloc_v2": "left to UCX"}, ("cuda",), "/a")
    functions.consider(COLLECTIVES, {"*": "bad ELF"}, ("nccl",), "/b")
    assert blind() == {("/a", ("cuda",)), ("/a", ("nccl",)), ("/b", ("nccl",))}
    assert DRIVER in functions
    assert functions.shows(7)
    assert not functions.shows(8)
    functions.mapped(DRIVER, "/c", 5)
    assert Blind("/c", ("cuda",), 5, "alloc") in told[-1].blind
    number = len(told)
    functions.mapped(DRIVER, "/c", 9)
    functions.mapped(Inode(2, 7, 0), "/d", 9)  # Another file with the same number.
    assert len(told) == number
    mapped[COLLECTIVES] = set()
    mapped[DRIVER].add("/c")
    functions.sweep()
    assert blind() == {("/a", ("cuda",)), ("/c", ("cuda",))}
    functions.consider(DRIVER, {}, ("cuda",), "/a")
    assert told[-1].blind == ()


def test_what_a_process_changed_may_be_any_call_and_the_rest_is_of_its_operation() -> None:
    told: list[Report] = []
    functions = UnprobedFunctions(lambda inodes: {i: {"/a"} for i in inodes}, told.append)

    def lacking() -> set[tuple[tuple[str, ...], str]]:
        assert isinstance(told[-1], Unprobed)
        return {(one.families, one.op) for one in told[-1].blind}

    refused = {"cuMemAlloc_v2": "odd", "cuMemFree_v2": "odd", "cuMemAllocAsync": "odd"}
    functions.consider(DRIVER, refused, ("cuda",), "/a")
    assert lacking() == {(("cuda",), "alloc"), (("cuda",), "free")}
    functions.consider(DRIVER, refused, ("cuda",), "/a", {"cuMemFree_v2": "changed"})
    assert lacking() == {(("cuda",), "")}
    number = len(told)
    functions.consider(COLLECTIVES, {"ncclBcast": "odd"}, ("nccl",), "/a")
    assert len(told) == number  # It calls ncclBroadcast, which is a row.


def test_a_tenant_that_brings_such_files_without_end_hides_nobody_elses() -> None:
    told: list[Report] = []
    storm, calm = [Inode(2, number, 0) for number in range(2003)], Inode(3, 5003, 0)
    shared = Inode(3, 5009, 0)
    whose = {calm: {"/b"}, shared: {"/a", "/b"}}

    def mappers(inodes: Collection[Inode]) -> dict[Inode, set[str]]:
        return {inode: whose.get(inode, {"/a"}) for inode in inodes}

    functions = UnprobedFunctions(mappers, told.append)
    functions.consider(shared, {"*": "odd"}, ("cuda",), "/a")
    for inode in storm:
        functions.consider(inode, {"*": "odd"}, ("cuda",), "/a")
    functions.consider(calm, {"*": "odd"}, ("cuda",), "/b")
    assert isinstance(told[-1], Unprobed)
    assert {one[:2] for one in told[-1].blind} == {("/a", ("cuda",)), ("/b", ("cuda",))}
    assert functions.shows(5003)
    assert functions.shows(5009)  # Whoever brought it, others map it.
    assert not functions.shows(0)  # What is told of its tenant, newer ones tell.


def test_two_tenants_that_share_such_files_without_end_hide_nobody_elses() -> None:
    told: list[Report] = []
    storm = [Inode(2, number, 0) for number in range(1031)]
    host, shared = Inode(3, 5003, 0), Inode(3, 5009, 0)
    whose = {host: {"/a", "/c"}, shared: {"/a", "/b"}}

    def mappers(inodes: Collection[Inode]) -> dict[Inode, set[str]]:
        return {inode: whose.get(inode, {"/a", "/c"}) for inode in inodes}

    functions = UnprobedFunctions(mappers, told.append)
    functions.consider(host, {"*": "odd"}, ("cuda",), OURS)
    functions.consider(shared, {"*": "odd"}, ("cuda",), "/a")
    for inode in storm:
        functions.consider(inode, {"*": "odd"}, ("cuda",), "/a")
    assert functions.shows(5003)
    assert functions.shows(5009)
    assert len(functions._files) == 1024 + 2


def test_whom_probes_did_not_reach_is_told_as_long_as_it_runs() -> None:
    told: list[Report] = []
    functions = UnprobedFunctions(lambda _: {}, told.append)
    with subprocess.Popen(["sleep", "60"]) as process:
        tenant = tenant_of(process.pid)
        functions.unreached(DRIVER, {process.pid}, ("cudart", "cuda"), 7)
        functions.unreached(COLLECTIVES, set(), ("nccl",), 9)
        assert isinstance(told[-1], Unprobed)
        assert told[-1].blind == (Blind(tenant, ("cuda",), 7),)
        functions.sweep()
        assert len(told) == 1
        process.kill()
    functions.sweep()
    assert told[-1].blind == ()


def test_who_maps_a_file_that_was_found_before_anybody_used_it_is_told_of() -> None:
    told: list[Report] = []
    mapped: dict[Inode, set[str]] = {DRIVER: set()}
    functions = UnprobedFunctions(lambda _: mapped, told.append)
    functions.consider(DRIVER, {"cuLaunchKernel": "odd"}, ("cuda",), "")
    functions.sweep()
    assert told == []
    assert DRIVER in functions
    mapped[DRIVER] = {"/a"}
    functions.mapped(DRIVER, "/a", 5)
    functions.sweep()
    assert isinstance(told[-1], Unprobed)
    assert told[-1].blind == (Blind("/a", ("cuda",), 5, "launch"),)


def test_who_comes_while_others_are_looked_for_is_not_forgotten() -> None:
    told: list[Report] = []
    begun, go_on = threading.Event(), threading.Event()

    def slowly(_: object) -> dict[Inode, set[str]]:
        begun.set()
        go_on.wait(20)
        return {DRIVER: {"/a"}}

    functions = UnprobedFunctions(slowly, told.append)
    looking = threading.Thread(
        target=functions.consider, args=(DRIVER, {"*": "odd"}, ("cuda",), "/a")
    )
    looking.start()
    assert begun.wait(20)
    functions.mapped(DRIVER, "/b", 5)
    go_on.set()
    looking.join()
    assert isinstance(told[-1], Unprobed)
    assert {one[:2] for one in told[-1].blind} == {("/a", ("cuda",)), ("/b", ("cuda",))}
