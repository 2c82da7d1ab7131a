"""The end of a recording: what each tenant did in it, whatever else the store holds."""

import shlex
import signal
from types import SimpleNamespace

import pytest

from cotenant.agent.recorder import helper_client
from cotenant.agent.recorder import main as agent
from cotenant.views.cli import record
from tests.views.conftest import NOW_NS

SECOND = 1_000_000_000


@pytest.fixture
def recorded(cotenant, monkeypatch, store):
    """``recorded(began_ns)``: what `cotenant record` prints of a recording that began then."""
    nothing = SimpleNamespace(attach=lambda: None, run=lambda *_: None, notices=[], store=store)
    nothing.node, nothing.user = "node-a", SimpleNamespace(name="cotenant")
    monkeypatch.setattr(agent, "Recorder", lambda *_: nothing)
    monkeypatch.setattr(helper_client, "HelperClient", lambda: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def recorded(began_ns):
        clock = SimpleNamespace(time_ns=lambda: began_ns, monotonic=lambda: 0.0)
        monkeypatch.setattr(record, "time", clock)
        return cotenant("record")

    return recorded


def test_a_recording_is_summed_up_without_those_before_it(recorded, store):
    code, out, _ = recorded(NOW_NS + 30 * SECOND)
    rows = [line.split()[:3] for line in out.splitlines()]
    assert (code, rows[2:3]) == (0, [["slurm/4711", "slurm/4711", "3"]])
    assert "ml/train" not in out
    assert shlex.split(out.splitlines()[-1])[1:] == ["cotenant", "tenants", "--store", str(store)]


def test_a_recording_of_nobody_says_so_whoever_was_there_before(recorded):
    code, out, err = recorded(NOW_NS + 90 * SECOND)
    assert (code, out.splitlines()[0]) == (0, "no process called a GPU library")
    assert "lost" not in err
