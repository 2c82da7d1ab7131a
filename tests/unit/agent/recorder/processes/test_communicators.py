"""Communicators by address, and tenants that would fill our memory with them."""

from cotenant.agent.process import Process
from cotenant.agent.recorder.processes.communicators import NOBODY, Communicator, Communicators

ONE = Process(7, 1000)
TWO = Process(8, 1000)


def tenant(process: Process) -> str:
    return f"/{process.pid}"


def test_a_tenant_with_communicators_without_end_leaves_its_neighbour_room() -> None:
    found = Communicators(lambda process: "/storm" if process.pid >= 100 else "/calm", most=300)
    for pid in range(100, 131):
        for handle in range(31):
            found.made(Process(pid, 1), handle, Communicator(handle))
    # As many as it leaves to others.
    assert found.refused == {"/storm": 31 * 31 - 150}
    for handle in range(75):
        found.made(ONE, handle, Communicator(handle))
    assert found.find(ONE, 74) == Communicator(74)
    assert found.refused == {"/storm": 31 * 31 - 150}


def test_ended_processes_make_room_for_those_of_their_tenant() -> None:
    found = Communicators(lambda process: "/calm" if process == ONE else "/storm", most=300)
    found.made(ONE, 5, Communicator(3))
    found.gone(ONE, "/calm")
    for pid in range(100, 1109):
        for handle in range(23):
            found.made(Process(pid, 1), handle, Communicator(handle))
        found.gone(Process(pid, 1), "/elsewhere")
    assert found.refused == {}
    assert sum(len(known.at) for known in found._processes.values()) <= 150
    assert found.find(ONE, 5) == Communicator(3)
    assert found.find(Process(100, 1), 5) == NOBODY
    assert found.find(Process(1108, 1), 5) == Communicator(5)


def test_what_is_known_can_change_where_there_is_no_room() -> None:
    found = Communicators(tenant, most=2)
    for handle in (1, 2):
        found.made(ONE, handle, Communicator(handle))
    found.learned(ONE, 1, rank=3, nranks=None)
    assert found.find(ONE, 1) == Communicator(1, 3)
    assert found.find(ONE, 2) == NOBODY
    assert found.refused == {"/7": 1}


def test_each_row_that_lacks_what_was_refused_is_counted_whenever_it_comes() -> None:
    found = Communicators(tenant, most=4)
    for handle in (1, 2, 3):
        found.made(ONE, handle, Communicator(handle))
    assert (found.refused, found.missed) == ({"/7": 1}, {})
    assert found.find(ONE, 2) == Communicator(2)
    assert found.find(ONE, 0) == NOBODY  # A call without one.
    assert found.find(TWO, 3) == NOBODY  # Of another process, of which none was refused.
    assert found.missed == {}
    for _ in range(2):
        assert found.find(ONE, 3) == NOBODY
    assert (found.refused, found.missed) == ({"/7": 1}, {"/7": 2})


def test_a_row_that_lacks_what_was_made_from_a_refused_one_is_counted() -> None:
    found = Communicators(tenant, most=4)
    for handle in (1, 2, 3):
        found.made(ONE, handle, Communicator(handle))
    found.split(ONE, 2, 3, 0, "part")
    found.missed.clear()
    assert found.find(ONE, 2) == Communicator(None, name="part")
    assert found.missed == {"/7": 1}


def test_communicators_are_counted_for_the_tenant_that_a_process_turns_out_to_be_of() -> None:
    whose = {ONE: "", TWO: "/two"}
    found = Communicators(lambda process: whose[process], most=100)
    for handle in range(50):
        found.made(ONE, handle, Communicator(handle))
    whose[ONE] = "/one"
    found.made(ONE, 1, Communicator(3))
    found.made(ONE, 50, Communicator(50))
    assert found.refused == {"/one": 1}
    for handle in range(25):
        found.made(TWO, handle, Communicator(handle))
    assert found.refused == {"/one": 1}


def test_the_same_split_is_the_same_communicator_on_every_rank() -> None:
    found = Communicators()
    for process, parent, child in ((ONE, 1, 10), (TWO, 2, 20)):
        found.made(process, parent, Communicator(99))
        for nth in range(2):
            # It is the same communicator, whatever else is learned of it.
            found.learned(process, parent, rank=process.pid, nranks=2)
            found.split(process, child + nth, parent, 0, None)
    hashes = [[found.find(p, h + n).hash for n in range(2)] for p, h in ((ONE, 10), (TWO, 20))]
    assert hashes[0] == hashes[1]
    assert len(set(hashes[0])) == 2


def test_splits_of_communicators_that_come_and_go_are_forgotten_with_them() -> None:
    found = Communicators()
    for number in range(1009):
        found.made(ONE, 1, Communicator(number))
        found.split(ONE, 2, 1, 0, None)
    assert found._processes[ONE].splits == {1: 1}
