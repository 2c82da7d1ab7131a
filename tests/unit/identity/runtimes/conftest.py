import pytest

from tests.unit.identity.runtimes.fake_runtimes import FakeServer


@pytest.fixture
def serve(tmp_path):
    """Start fake runtimes; all are gone after the test."""
    servers = []

    def start(reply, name="s"):
        servers.append(FakeServer(tmp_path / f"{name}{len(servers)}", reply))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
