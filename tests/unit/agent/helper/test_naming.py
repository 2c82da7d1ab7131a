"""Asking for names: what a source does wrong is told, and the question asked again."""

import threading

import pytest

from cotenant.agent.helper.naming import Naming
from cotenant.identity.naming.names import Names


class Moody:
    """A resolver that fails at first."""

    def __init__(self):
        self.asked = 0

    def serves(self, identity):
        return True

    def lookup(self, identity, path):
        self.asked += 1
        if self.asked == 1:
            raise RecursionError("too deep")
        return Names("moody", name="train")


@pytest.fixture
def told():
    return []


def test_a_source_that_fails_is_told_of_and_asked_again(told):
    named = threading.Event()

    def tell(message):
        told.append(message)
        if message["type"] == "named":
            named.set()

    naming = Naming(tell, lambda key, names: None, Moody())
    naming.start()
    try:
        naming.ask("/docker/" + "a" * 64)
        assert named.wait(30)
    finally:
        naming.stop()
    trouble, answer = told
    assert trouble == {
        "type": "trouble",
        "of": "naming",
        "text": f"cannot name /docker/{'a' * 64}: too deep",
    }
    assert Names.from_json(answer["names"]).name == "train"
