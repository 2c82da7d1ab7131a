"""A fleet in a temporary directory."""

import os

import pytest

from tests.unit.remote.fleet import Fleet
from tests.unit.remote.s3_server import direct_client, proxied, s3_server


@pytest.fixture(autouse=True)
def _no_power_cuts(monkeypatch):
    """Thousands of small files, of which none has to survive one."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def fleet(tmp_path):
    return Fleet(tmp_path / "near", tmp_path / "far")


@pytest.fixture(scope="session")
def server():
    with s3_server() as port:
        yield port


@pytest.fixture
def proxy(server, monkeypatch):
    with proxied(server, monkeypatch) as proxy:
        yield proxy


@pytest.fixture
def s3(server, proxy):
    with direct_client(server) as client:
        yield client


@pytest.fixture
def bucket(s3):
    s3.create_bucket(Bucket="fleet")
    return "fleet"
