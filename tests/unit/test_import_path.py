"""Whoever owns the current directory runs nothing as us: no process of ours imports from it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.agent.process import Process
from cotenant.agent.recorder.helper_client import HelperClient
from cotenant.agent.recorder.processes import demangle
from cotenant.errors import QuestionError
from cotenant.views.cli import demo
from cotenant.views.cli.stop_signal import StopSignal
from cotenant.views.web.worker import Bounds, Worker

# What each of our processes imports sooner or later; some by their first line.
_NAMES = ("json", "argparse", "numpy", "multiprocessing", "ctypes", "resource", "cotenant")


@pytest.fixture
def poisoned(tmp_path, monkeypatch):
    """The current directory, in which every module leaves a word when it is imported."""
    word = tmp_path / "imported"
    for name in _NAMES:
        (tmp_path / f"{name}.py").write_text(f"open({str(word)!r}, 'a').write('{name} ')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return word


def _run(words, **more):
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, **more)


def test_a_plain_python_imports_from_here(poisoned):
    _run([sys.executable, "-c", "import json"])
    assert poisoned.read_text() == "json "


def test_the_helper_imports_nothing_from_here(poisoned):
    helper = HelperClient()
    helper.kill()  # It was told nothing, so it leaves when its imports are done.
    assert not poisoned.exists()


def test_the_recorder_of_a_demo_imports_nothing_from_here(poisoned, monkeypatch):
    started = []
    monkeypatch.setattr(demo.subprocess, "Popen", lambda words, **_: started.append(words))
    demo._DemoRecorder(Path("store"), {}, StopSignal(()))
    monkeypatch.undo()
    done = _run([*started[0], "--help"], cwd=poisoned.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert not poisoned.exists()


def test_the_process_for_questions_imports_nothing_from_here(poisoned):
    worker = Worker(poisoned.parent / "none", None, Bounds())
    with pytest.raises(QuestionError, match="no store at"):
        worker.ask("SELECT 1")
    worker._discard()
    assert not poisoned.exists()
    assert "PYTHONSAFEPATH" not in os.environ


def test_the_demangling_process_imports_nothing_from_here(poisoned):
    demangle._child.close()
    assert demangle.Demangler().readable("_Z4gemmi", Process(7, 1000)) == "gemm(int)"
    demangle._child.close()
    assert not poisoned.exists()


def test_the_command_run_as_a_module_imports_nothing_from_here(poisoned):
    (poisoned.parent / "cotenant.py").unlink()  # Which of two packages is run is Python's choice.
    done = _run([sys.executable, "-m", "cotenant", "record", "--help"])
    assert (done.returncode, done.stderr) == (0, "")
    assert not poisoned.exists()
