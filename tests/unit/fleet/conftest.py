"""The store of eight nodes."""

import pytest

from tests import fleets


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    root = tmp_path_factory.mktemp("fleet") / "store"
    fleets.fill(root)
    return root
