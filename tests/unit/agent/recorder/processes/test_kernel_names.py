"""Names of handles: eras, aliases, unloading, and tenants that would fill our memory."""

import sys

from cotenant.agent.process import Nameless, Process
from cotenant.agent.recorder.processes import interned, kernel_names
from cotenant.agent.recorder.processes.demangle import Demangler
from cotenant.agent.recorder.processes.kernel_names import KernelNames

ONE = Process(7, 1000)
TWO = Process(7, 2000)
ENTRY, TEXT = kernel_names._ENTRY_BYTES, interned._ENTRY_BYTES


def test_the_same_pid_later_is_another_process() -> None:
    names = KernelNames()
    names.learn(ONE, 5, "first", 10)
    assert names.name(ONE, 5, 0) == "first"
    assert names.name(TWO, 5, 0) == "unknown@?+0x5"


def test_an_alias_takes_the_name_whenever_it_comes() -> None:
    names = KernelNames()
    names.alias(ONE, 6, 5, 10)
    assert names.eras(ONE, 6, 0) == []
    names.learn(ONE, 5, "late", 20)
    assert names.name(ONE, 6, 0) == "late"


def test_an_alias_of_nothing_known_takes_no_name_away() -> None:
    names = KernelNames()
    names.learn(ONE, 5, "known", 10)
    names.alias(ONE, 5, 99, 20)
    assert names.name(ONE, 5, 0) == "known"


def test_a_handle_unloaded_and_used_again_has_eras() -> None:
    names = KernelNames()
    names.learn(ONE, 5, "first", 10, module=3)
    names.forget(ONE, 3, 20)
    names.learn(ONE, 5, "second", 30, module=4)
    assert names.eras(ONE, 5, 0) == [(10, "first"), (20, ""), (30, "second")]


def test_aliases_in_a_circle_end() -> None:
    names = KernelNames()
    names.alias(ONE, 5, 6, 10)
    names.alias(ONE, 6, 5, 10)
    assert names.eras(ONE, 5, 6) == []


def test_what_is_unknown_is_called_the_same_each_time() -> None:
    names = KernelNames()
    nameless = Nameless(ONE, 5, 6)
    assert not names.asked(nameless)
    names.call_unknown(nameless, "unknown@abc+0x6")
    assert names.asked(nameless)
    assert names.name(ONE, 5, 6) == "unknown@abc+0x6"


def test_ended_processes_are_forgotten_after_a_while() -> None:
    names = KernelNames()
    for pid in range(5000):
        process = Process(pid, 1)
        names.learn(process, 5, "kernel", 10)
        names.gone(process)
    assert names.name(Process(0, 1), 5, 0) == "unknown@?+0x5"
    assert names.name(Process(4999, 1), 5, 0) == "kernel"


def test_a_kernel_looked_up_again_and_again_is_kept_once() -> None:
    names = KernelNames()
    names.learn(ONE, 5, "kernel", 10, module=3)
    before = names.bytes
    for n in range(1009):
        names.learn(ONE, 5, "kernel", 20 + n, module=3)
        names.learn(ONE, 5, "kernel", 20 + n, module=4 + n)
    known = names._processes[ONE]
    assert known.modules == {1012: {5}}
    assert names.bytes == before
    names.forget(ONE, 3, 5000)
    assert names.name(ONE, 5, 0) == "kernel"
    names.forget(ONE, 1012, 5000)
    assert names.eras(ONE, 5, 0) == [(10, "kernel"), (5000, "")]


def test_a_process_that_runs_program_after_program_ends_its_names_once() -> None:
    names = KernelNames()
    names.learn(ONE, 5, "kernel", 10)
    names.alias(ONE, 6, 7, 10)
    for n in range(101):
        names.exec(ONE, 20 + n)
    assert names.eras(ONE, 5, 0) == [(10, "kernel"), (20, "")]
    names.learn(ONE, 5, "other", 500)
    names.exec(ONE, 600)
    assert names.eras(ONE, 5, 0)[2:] == [(500, "other"), (600, "")]


def test_a_handle_of_many_eras_keeps_the_last_ones() -> None:
    names = KernelNames()
    for n in range(5003):
        names.learn(ONE, 5, f"kernel {n}", n)
    eras = names.eras(ONE, 5, 0)
    assert len(eras) == 4096
    assert eras[-1] == (5002, "kernel 5002")


def test_equal_names_are_kept_once_and_dropped_with_their_last_process() -> None:
    names = KernelNames(most_bytes=1 << 21)
    text = "k" * 15000
    for handle in range(997):
        names.learn(ONE, handle, text[:], 10)
    assert names.refused == 0
    assert names.bytes == 997 * ENTRY + TEXT + sys.getsizeof(text)
    names.gone(ONE)
    for pid in range(5003):
        names.gone(Process(pid, 1))
    assert names.bytes == 0
    assert len(names._interned) == 0


def test_ended_processes_make_room_and_then_names_are_refused_and_counted() -> None:
    names = KernelNames(most_bytes=1 << 21)
    for handle in range(31):
        names.learn(ONE, handle, f"{handle:015000}", 10)
    names.gone(ONE)
    for handle in range(101):
        names.learn(TWO, handle, f"{100 + handle:015000}", 10)
    assert names.eras(ONE, 0, 0) == []
    assert names.name(TWO, 5, 0) == f"{105:015000}"
    # As much as it leaves to others.
    kept = ((1 << 21) // (ENTRY + TEXT + sys.getsizeof(f"{0:015000}")) + 1) // 2
    assert len(names._processes[TWO].eras) == kept
    assert names.refused == 101 - kept
    assert names.bytes <= 1 << 21
    # A handle that is refused its new name does not keep the old one.
    assert not names.learn(TWO, 5, "x" * 40000, 20)
    assert names.name(TWO, 5, 0) == "unknown@?+0x5"


def test_one_process_cannot_take_all_the_room() -> None:
    names = KernelNames()
    for handle in range(5003):
        names.learn(ONE, handle, f"{handle:015000}", 10)
    names.learn(TWO, 5, "kernel", 10)
    assert names.refused == 5003 - (64 << 20) // (ENTRY + 15000)
    assert names.name(TWO, 5, 0) == "kernel"


def test_aliases_take_room_too() -> None:
    names = KernelNames(most_bytes=ENTRY * 201)
    for handle in range(1, 1010):
        names.alias(ONE, handle, 5000, 10)
        names.alias(ONE, handle, 5001, 10)
    assert names.bytes <= ENTRY * 101
    assert names.refused == 2 * (1009 - 100)


def test_names_are_made_readable_when_they_are_shown() -> None:
    asked: list[str] = []

    def ask(name: str) -> str:
        asked.append(name)
        return "plain(float*)"

    names = KernelNames(Demangler(ask))
    names.learn(ONE, 5, "_Z5plainPf", 10)
    assert names.eras(ONE, 5, 0) == [(10, "_Z5plainPf")]
    assert asked == []
    assert names.name(ONE, 5, 0) == "plain(float*)"
    assert names.name(ONE, 5, 0) == "plain(float*)"
    assert asked == ["_Z5plainPf"]


def test_one_tenant_with_many_long_names_in_many_processes_leaves_its_neighbour_room() -> None:
    names = KernelNames(most_bytes=1 << 20)
    for pid in range(100, 131):
        names.follow(Process(pid, 1), "/storm")
        for handle in range(31):
            names.learn(Process(pid, 1), handle, f"{pid:05}{handle:05}" * 100, 10)
    assert names.refused > 0
    refused = names.refused
    names.follow(ONE, "/calm")
    for handle in range(211):
        assert names.learn(ONE, handle, f"mine {handle}" * 31, 10)
    assert [names.name(ONE, handle, 0) for handle in (1, 210)] == ["mine 1" * 31, "mine 210" * 31]
    assert names.refused == refused
    # It gets its room back, and no more.
    for pid in range(100, 131):
        names.gone(Process(pid, 1))
    names.follow(TWO, "/storm")
    assert names.learn(TWO, 5, "later", 10)
    assert names.name(ONE, 5, 0) == "mine 5" * 31


def test_ends_of_one_tenant_by_the_thousand_take_no_name_from_anothers_last_rows() -> None:
    names = KernelNames()
    names.follow(ONE, "/calm")
    names.learn(ONE, 5, "mine", 10)
    names.gone(ONE)
    for pid in range(100, 5_103):
        names.follow(Process(pid, 1), "/storm")
        names.learn(Process(pid, 1), 5, "theirs", 10)
        names.gone(Process(pid, 1))
    assert names.name(ONE, 5, 0) == "mine"
    assert names.name(Process(100, 1), 5, 0) == "unknown@?+0x5"


def test_a_tenant_with_handles_without_end_that_nobody_named_leaves_its_neighbour_room() -> None:
    names = KernelNames(most_unknown=100)
    storm = Process(9, 1)
    for process, tenant in ((ONE, "/calm"), (storm, "/storm"), (TWO, "/storm")):
        names.follow(process, tenant)
    for handle in range(211):
        names.call_unknown(Nameless(storm, handle, 0), "unknown@a+0x1")
        names.call_unknown(Nameless(storm, handle, 0), "unknown@a+0x1")
    # As many as it leaves to others.
    assert [names.asked(Nameless(storm, handle, 0)) for handle in (49, 50)] == [True, False]
    assert names.refused == 2 * (211 - 50)
    refused = names.refused
    for handle in range(25):
        names.call_unknown(Nameless(ONE, handle, 0), "unknown@b+0x1")
    assert names.unknown(ONE, 24, 0) == "unknown@b+0x1"
    assert names.refused == refused
    # Those of its ended processes make room.
    names.gone(storm)
    names.call_unknown(Nameless(TWO, 5, 0), "unknown@a+0x5")
    assert names.asked(Nameless(TWO, 5, 0))
    assert not names.asked(Nameless(storm, 5, 0))
    assert names.refused == refused


def test_what_is_unknown_is_counted_for_the_tenant_that_a_process_turns_out_to_be_of() -> None:
    names = KernelNames(most_unknown=101)
    for handle in range(50):
        names.call_unknown(Nameless(ONE, handle, 0), "unknown@a+0x1")
    names.follow(ONE, "/mine")
    names.call_unknown(Nameless(TWO, 5, 0), "unknown@a+0x1")
    assert names.asked(Nameless(TWO, 5, 0))
    names.call_unknown(Nameless(ONE, 50, 0), "unknown@a+0x1")
    assert names.refused == 1
