"""Which tenants come first when the budget of kernel events runs short."""

import pytest

from cotenant.agent.recorder.overhead.first_tenants import CpuTaken, FirstTenants
from cotenant.agent.recorder.samplers.losses import Tally
from cotenant.probes.kernel import kernel_function
from cotenant.schema.constants import TENANT_HOST
from cotenant.schema.events import RECORDS

GPU, DISK, OTHER = 101, 102, 103
KINDS = {record.family: kind for kind, record in RECORDS.items()}
ALL = sum(1 << KINDS[family] for family in ("host", "io", "net", "tcp"))
READ, SEND = kernel_function("io", "read"), kernel_function("net", "send")
RETRANSMIT, SWITCH = kernel_function("tcp", "retransmit"), kernel_function("host", "switch")


class Told:
    def __init__(self) -> None:
        self.there: dict[int, int] = {}

    def update(self, key: bytes, value: bytes) -> None:
        self.there[int.from_bytes(key, "little")] = value[0]

    def delete(self, key: bytes) -> None:
        del self.there[int.from_bytes(key, "little")]


class Page:
    changes = 0

    def another_first(self) -> None:
        self.changes += 1


class Window:
    """One second: the calls of tenants, each with the cgroup of its own number."""

    def __init__(self, calls, host=()) -> None:
        self.calls = {
            (Tally(family, cgroup, 0, 0), function): (count, 0)
            for family, cgroup, function, count in calls
        }
        self.tenants = {
            tally: TENANT_HOST if tally.cgroup_id in host else tally.cgroup_id
            for tally, _ in self.calls
        }


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def page():
    return Page()


@pytest.fixture
def first(told, page):
    return FirstTenants(told, page)


LAUNCHES = ("cuda", GPU, 1, 1009)


def test_a_large_user_of_a_disk_that_a_gpu_tenant_uses_comes_first(first, told, page):
    calls = [LAUNCHES, ("io", GPU, READ, 10), ("io", DISK, READ, 900), ("io", OTHER, READ, 9)]
    first.step(Window(calls), (), 0)
    assert told.there == {GPU: ALL, DISK: 1 << KINDS["io"]}
    first.step(Window(calls), (), 1)
    assert page.changes == 1


def test_what_no_gpu_tenant_uses_has_no_culprits(first, told):
    calls = [LAUNCHES, ("io", DISK, READ, 900), ("net", GPU, SEND, 5), ("net", OTHER, SEND, 900)]
    first.step(Window(calls), (), 0)
    assert told.there == {GPU: ALL}


def test_segments_that_a_gpu_tenant_sends_again_name_the_large_senders(first, told):
    calls = [LAUNCHES, ("tcp", GPU, RETRANSMIT, 1), ("net", GPU, SEND, 5), ("net", OTHER, SEND, 9)]
    first.step(Window(calls), (), 0)
    assert told.there == {GPU: ALL, OTHER: 1 << KINDS["net"] | 1 << KINDS["tcp"]}


def test_a_tenant_that_ran_while_a_gpu_tenant_waited_comes_first_for_a_while(first, told):
    host = ("host", OTHER, SWITCH, 7)
    window = Window([LAUNCHES, host], host=(OTHER,))
    first.step(window, [CpuTaken(GPU, OTHER, 0, 9_000_000)], 0)
    assert told.there == {GPU: ALL}
    first.step(window, [CpuTaken(GPU, OTHER, 0, 11_000_000)], 1)
    assert told.there == {GPU: ALL, OTHER: 1 << KINDS["host"]}
    first.step(window, [CpuTaken(DISK, OTHER, 0, 11_000_000)], 30)
    assert told.there == {GPU: ALL, OTHER: 1 << KINDS["host"]}
    first.step(window, (), 32)
    assert told.there == {GPU: ALL}


def test_no_more_tenants_are_named_than_the_map_holds(first, told):
    many = [("io", 1000 + n, READ, 1000) for n in range(5)]
    for turn in range(200):
        calls = [LAUNCHES, ("io", GPU, READ, 1)]
        calls += [("io", cgroup + 10 * turn, READ, n) for _, cgroup, _, n in many]
        first.step(Window(calls), (), turn / 100)
    assert len(told.there) == 1 + 512
