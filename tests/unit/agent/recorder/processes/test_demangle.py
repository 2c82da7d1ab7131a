"""Demangling in a child: right for real names, harmless for hostile ones."""

import os
import signal
import time
from pathlib import Path

import pytest

from cotenant.agent.process import Process
from cotenant.agent.recorder.processes import demangle as module
from cotenant.agent.recorder.processes.demangle import Demangler
from cotenant.confine.user import RecorderUser

ONE, TWO = Process(7, 1000), Process(8, 1000)


def demangle(name: str) -> str:
    return Demangler().readable(name, ONE)


@pytest.fixture(autouse=True)
def _no_child_left() -> object:
    yield
    module._child.close()


@pytest.mark.parametrize(
    ("mangled", "readable"),
    [
        ("_Z5scaleIfEvPT_S0_", "void scale<float>(float*, float)"),
        ("_Z5plainPf", "plain(float*)"),
        ("plain_c_name", "plain_c_name"),
        ("_Znonsense", "_Znonsense"),
        ("", ""),
        ("a\x1b[2J\n", "a\ufffd[2J\ufffd"),
    ],
)
def test_names_become_readable_and_printable(mangled: str, readable: str) -> None:
    assert demangle(mangled) == readable


def doubled(times: int) -> str:
    """A name of types each of which holds two of the one before it."""
    places = [f"{one}{two}" for one in ("", "1") for two in "02468ACEGIKMOQSUWY"]
    return "_Z1f1aIiiE" + "".join(f"1aIS{place}_S{place}_E" for place in places[:times])


def test_hostile_names_stay_as_they_are_and_the_next_one_works() -> None:
    bomb = doubled(36)
    assert demangle(bomb) == bomb
    for name in ("_Z1f" + "P" * 4000 + "i", "_Z1fI" + "PI" * 1900, "_Z" + "N" * 4000):
        assert demangle(name)
    assert demangle("_Z5plainPf") == "plain(float*)"


def test_a_name_of_kilobytes_is_readable_and_one_that_was_cut_says_so() -> None:
    spaces = [f"name_space_{n}" for n in range(683)]
    name = "_Z1kI" + "".join(f"N{len(s)}{s}4typeE" for s in spaces) + "EvPf"
    assert 15000 < len(name) < 15871
    assert demangle(name) == f"void k<{', '.join(f'{s}::type' for s in spaces)}>(float*)"
    assert demangle(name + "v" * 1000).endswith("v\N{HORIZONTAL ELLIPSIS}")


def worker() -> int:
    """The process that does the work."""
    process = module._child._process
    assert process is not None
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not (found := children.read_text().split()):
        time.sleep(0.01)
    return int(found[0])


def test_a_worker_that_dies_is_replaced() -> None:
    assert demangle("_Z5firstv") == "first()"
    for _ in range(3):
        before = worker()
        os.kill(before, signal.SIGKILL)
        while worker() == before:
            time.sleep(0.01)
    assert demangle("_Z6secondv") == "second()"


def test_a_name_that_is_worked_on_for_ever_is_given_up_and_the_next_one_works() -> None:
    assert demangle("_Z5firstv") == "first()"
    os.kill(worker(), signal.SIGSTOP)  # Its timer runs out meanwhile, and is heard when it goes on.
    assert demangle("_Z6secondv") == "_Z6secondv"
    os.kill(worker(), signal.SIGCONT)
    assert demangle("_Z5thirdv") == "third()"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another")
def test_the_child_has_no_right_and_may_be_another_user() -> None:
    module.start(RecorderUser(65520, 65521))
    assert demangle("_Z5firstv") == "first()"
    lines = Path(f"/proc/{worker()}/status").read_text().splitlines()
    about = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
    assert (about["Uid"], about["Gid"], about["Groups"]) == (["65520"] * 4, ["65521"] * 4, [])
    assert int(about["CapPrm"][0], 16) == int(about["CapBnd"][0], 16) == 0
    assert (about["NoNewPrivs"], about["Seccomp"]) == (["1"], ["2"])


def test_a_name_of_megabytes_is_a_failure_and_one_too_long_to_show_is_none() -> None:
    assert module._child.ask(doubled(5)).startswith("f(a<int, int>, a<a<int, int>")
    assert module._child.ask(doubled(12)) == ""
    assert module._child.ask(doubled(18)) is None
    assert demangle("_Z5plainPf") == "plain(float*)"


class Slow:
    """A child that takes its time, by a clock of its own."""

    def __init__(self, seconds: float, answer: str | None) -> None:
        self.seconds, self.answer = seconds, answer
        self.now = 0.0
        self.asked: list[str] = []
        self.demangler = Demangler(self.ask, lambda: self.now)

    def ask(self, name: str) -> str | None:
        self.asked.append(name)
        self.now += self.seconds
        return self.answer


def test_all_names_together_get_a_fifth_of_the_time() -> None:
    slow = Slow(0.75, "readable")
    found = [slow.demangler.readable(f"_Z{n}", Process(n, 1)) for n in range(101)]
    # Two seconds at once, and the last name may take longer than what is left.
    assert found == ["readable"] * 4 + [f"_Z{n}" for n in range(4, 101)]
    assert slow.now == 3.0
    slow.now += 20
    again = [slow.demangler.readable(f"_Z{n}", Process(n, 1)) for n in range(101)]
    assert again == ["readable"] * 8 + [f"_Z{n}" for n in range(8, 101)]
    assert slow.asked == [f"_Z{n}" for n in range(8)]


@pytest.mark.parametrize("answer", [None, ""])
def test_names_of_a_process_whose_names_fail_stay_mangled(answer: str | None) -> None:
    slow = Slow(0.125, answer)
    for n in range(101):
        slow.now += 100
        assert slow.demangler.readable(f"_Z{n}", ONE) == f"_Z{n}"
    assert slow.asked == ["_Z0", "_Z1", "_Z2"]
    slow.answer = "readable"
    assert slow.demangler.readable("_Z50", ONE) == "_Z50"
    assert slow.demangler.readable("_Z50", TWO) == "readable"


def test_names_that_mean_nothing_are_no_failures() -> None:
    slow = Slow(0.0, "")
    assert [slow.demangler.readable(f"_Z{n}", ONE) for n in range(5)] == [
        f"_Z{n}" for n in range(5)
    ]
    slow.answer = "readable"
    assert slow.demangler.readable("_Z5", ONE) == "readable"


def test_readable_forms_are_kept_up_to_some_bytes() -> None:
    slow = Slow(0.0, "x" * 65536)
    for n in range(1009):
        assert slow.demangler.readable(f"_Z{n}", ONE) == "x" * 65536
    assert slow.demangler._bytes <= 32 << 20
    assert len(slow.demangler._found) == 511
    slow.demangler.readable("_Z1008", ONE)
    assert len(slow.asked) == 1009


def test_slow_names_of_one_tenant_leave_its_neighbour_time() -> None:
    slow = Slow(0.0, "readable")
    for cycle in range(199):
        # Five a second that mean nothing after 78 ms each, of ever new processes.
        slow.seconds, slow.answer = 0.078, ""
        for n in range(5):
            slow.demangler.readable(f"_Z{cycle}_{n}", Process(cycle, n), "/storm")
        slow.seconds, slow.answer = 0.001, "readable"
        assert slow.demangler.readable(f"_Zcalm{cycle}", ONE, "/calm") == "readable"
        slow.now = max(slow.now, cycle + 1.0)
    assert set(slow.demangler.mangled) == {"/storm"}
    stormed = sum("calm" not in name for name in slow.asked)
    assert stormed + slow.demangler.mangled["/storm"] == 199 * 5
    # Both together have no more than one had, but for what each may have at once.
    assert stormed * 0.078 < 0.2 * slow.now + 4


def test_long_forms_of_one_tenant_leave_those_of_its_neighbour() -> None:
    slow = Slow(0.0, "x" * 101)
    for n in range(1009):
        slow.demangler.readable(f"_Zcalm{n}", ONE, "/calm")
    slow.answer = "x" * 65536
    for n in range(1009):
        slow.demangler.readable(f"_Z{n}", TWO, "/storm")
    slow.asked.clear()
    for n in range(1009):
        assert slow.demangler.readable(f"_Zcalm{n}", ONE, "/calm") == "x" * 101
    assert slow.asked == []
    assert slow.demangler._bytes <= 32 << 20


def test_names_that_stay_mangled_for_what_they_cost_are_counted_by_tenant() -> None:
    slow = Slow(0.125, None)
    for n in range(7):
        slow.now += 100
        slow.demangler.readable(f"_Z{n}", ONE, "/storm")
    slow.answer = "readable"
    assert slow.demangler.readable("_Z7", TWO, "/calm") == "readable"
    assert slow.demangler.mangled == {"/storm": 7}


def test_a_name_that_was_too_much_once_is_counted_each_time_it_is_shown_mangled() -> None:
    slow = Slow(0.125, None)
    for _ in range(3):
        slow.demangler.readable("_Z5bomb", ONE, "/storm")
    assert slow.demangler.readable("_Z5bomb", TWO, "/calm") == "_Z5bomb"
    assert slow.asked == ["_Z5bomb"]
    assert slow.demangler.mangled == {"/storm": 3, "/calm": 1}
    slow.seconds, slow.answer = 0.0, ""
    for _ in range(2):
        slow.demangler.readable("_Znonsense", ONE, "/calm")
    assert slow.demangler.mangled["/calm"] == 1
