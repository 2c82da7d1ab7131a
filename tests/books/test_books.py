"""The books of random virtual hosts balance."""

import os

import pytest

from tests.books.equations import Books, balances, registered
from tests.books.screens import registered_surfaces
from tests.books.surfaces import disagreements
from tests.virtual.anything import anything

SEEDS = int(os.environ.get("COTENANT_SEEDS", "2"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_books_balance(tmp_path, seed):
    root = anything(tmp_path / "store", seed)
    wrong = {
        (each.equation, each.where): each.what
        for each in (*balances(root, seed), *disagreements(root, tmp_path, seed))
    }
    assert wrong == {}


def test_every_number_of_every_surface_is_registered(tmp_path):
    with Books(anything(tmp_path / "store", 0)) as books:
        assert [*registered(books), *registered_surfaces(books)] == []
