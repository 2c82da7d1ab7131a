"""Names of handles: eras, aliases, unloading, and tenants that would fill our memory."""

from cotenant.agent.kernel_names import KernelNames, Nameless
from cotenant.agent.process import Process

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
