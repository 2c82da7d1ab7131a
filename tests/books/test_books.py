"""The books of random virtual hosts balance."""

import os

import pytest

from tests.books.equations import balances
from tests.books.registry import KNOWN
from tests.books.surfaces import disagreements
from tests.virtual.anything import anything

SEEDS = int(os.environ.get("COTENANT_SEEDS", "2"))


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    wrong = {}
    for seed in range(SEEDS):
        place = tmp_path_factory.mktemp("store")
        root = anything(place / "store", seed)
        wrong[seed] = [*balances(root, seed), *disagreements(root, place, seed)]
    return wrong


def test_the_books_balance(found):
    wrong = {
        (each.equation, each.where): f"seed {seed}: {each.what}"
        for seed, imbalances in found.items()
        for each in imbalances
        if (each.equation, each.where) not in KNOWN
    }
    assert wrong == {}


def test_what_is_known_not_to_balance_does_not(found):
    seen = {(each.equation, each.where) for imbalances in found.values() for each in imbalances}
    assert KNOWN.keys() - seen == set()
