import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# How long one example takes depends on what else this machine does.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

_SPEC = importlib.util.spec_from_file_location("fakes", Path(__file__).parent / "fakes.py")
fakes = importlib.util.module_from_spec(_SPEC)
sys.modules.setdefault("fakes", fakes)
_SPEC.loader.exec_module(fakes)


@pytest.fixture
def serve(tmp_path):
    """Start fake runtimes; all are gone after the test."""
    servers = []

    def start(reply, name="s"):
        servers.append(fakes.FakeServer(tmp_path / f"{name}{len(servers)}", reply))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
