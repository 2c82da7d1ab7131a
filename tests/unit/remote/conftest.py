"""A fleet in a temporary directory."""

import os

import pytest

from tests.unit.remote.fleet import Fleet


@pytest.fixture(autouse=True)
def _no_power_cuts(monkeypatch):
    """Thousands of small files, of which none has to survive one."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def fleet(tmp_path):
    return Fleet(tmp_path / "near", tmp_path / "far")
