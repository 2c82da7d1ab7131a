"""Names of handles: eras, aliases, unloading, and tenants that would fill our memory."""

import sys

from cotenant.agent.process import Nameless, Process
from cotenant.agent.recorder.processes.demangle import Demangler
from cotenant.agent.recorder.processes.kernel_names import KernelNames

ONE = Process(7, 1000)
TWO = Process(7, 2000)


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
    names = KernelNames(most_bytes=1 << 20)
    text = "k" * 15000
    for handle in range(997):
        names.learn(ONE, handle, text[:], 10)
    assert names.refused == 0
    assert names.bytes == 997 * 256 + sys.getsizeof(text)
    names.gone(ONE)
    for pid in range(5003):
        names.gone(Process(pid, 1))
    assert names.bytes == 0
    assert len(names._interned) == 0


def test_ended_processes_make_room_and_then_names_are_refused_and_counted() -> None:
    names = KernelNames(most_bytes=1 << 20)
    for handle in range(31):
        names.learn(ONE, handle, f"{handle:015000}", 10)
    names.gone(ONE)
    for handle in range(101):
        names.learn(TWO, handle, f"{100 + handle:015000}", 10)
    assert names.eras(ONE, 0, 0) == []
    assert names.name(TWO, 5, 0) == f"{105:015000}"
    kept = (1 << 20) // (256 + sys.getsizeof(f"{0:015000}"))
    assert len(names._processes[TWO].eras) == kept
    assert names.refused == 101 - kept
    assert names.bytes <= 1 << 20
    # A handle that is refused its new name does not keep the old one.
    assert not names.learn(TWO, 5, "x" * 40000, 20)
    assert names.name(TWO, 5, 0) == "unknown@?+0x5"


def test_one_process_cannot_take_all_the_room() -> None:
    names = KernelNames()
    for handle in range(5003):
        names.learn(ONE, handle, f"{handle:015000}", 10)
    names.learn(TWO, 5, "kernel", 10)
    assert names.refused == 5003 - (64 << 20) // 15256
    assert names.name(TWO, 5, 0) == "kernel"


def test_aliases_take_room_too() -> None:
    names = KernelNames(most_bytes=256 * 101)
    for handle in range(1, 1010):
        names.alias(ONE, handle, 5000, 10)
        names.alias(ONE, handle, 5001, 10)
    assert names.bytes <= 256 * 101
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
