"""Demangling in a child: right for real names, harmless for hostile ones."""

import pytest

from cotenant.agent import demangle as module
from cotenant.agent.demangle import demangle


@pytest.fixture(autouse=True)
def _no_child_left() -> object:
    yield
    module.stop()
    demangle.cache_clear()


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


def test_hostile_names_stay_as_they_are_and_the_next_one_works() -> None:
    letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    bomb = "_Z1f1aIiiE1aIS_S_E" + "".join(f"1aIS{c}_S{c}_E" for c in letters)
    for name in (bomb, "_Z1f" + "P" * 4000 + "i", "_Z1fI" + "PI" * 1900, "_Z" + "N" * 4000):
        assert demangle(name)
    assert demangle("_Z5plainPf") == "plain(float*)"


def test_a_name_of_kilobytes_is_readable_and_one_that_was_cut_says_so() -> None:
    spaces = [f"name_space_{n}" for n in range(683)]
    name = "_Z1kI" + "".join(f"N{len(s)}{s}4typeE" for s in spaces) + "EvPf"
    assert 15000 < len(name) < 15871
    assert demangle(name) == f"void k<{', '.join(f'{s}::type' for s in spaces)}>(float*)"
    assert demangle(name + "v" * 1000).endswith("v\N{HORIZONTAL ELLIPSIS}")


def test_a_child_that_dies_is_replaced() -> None:
    assert demangle("_Z5firstv") == "first()"
    process = module._child._process
    assert process is not None
    process.kill()
    process.wait()
    assert demangle("_Z6secondv") == "second()"
