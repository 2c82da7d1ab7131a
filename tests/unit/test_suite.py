from pathlib import Path

import pytest

from tools import suite

SOME_FAIL = """
from pathlib import Path

def test_that_passes():
    pass

def test_that_fails_once():
    first = Path(__file__).with_name("first")
    failed_before = first.exists()
    first.touch()
    assert failed_before

def test_that_always_fails():
    assert False
"""


def run(place: Path, tests: str, monkeypatch: pytest.MonkeyPatch) -> int:
    (place / "pytest.ini").touch()
    (place / "test_some.py").write_text(tests)
    monkeypatch.chdir(place)
    monkeypatch.setattr(suite, "lint", lambda: True)
    stage = suite.Stage("some", ("-n", "1", "test_some.py"))
    return suite.run((stage,))


def test_a_test_that_passes_by_itself_is_flaky(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    flaky, _, _ = SOME_FAIL.partition("def test_that_always")
    assert run(tmp_path, flaky, monkeypatch) == 0
    printed = [line for line in capfd.readouterr().out.splitlines() if line.startswith("FLAKY")]
    assert printed == ["FLAKY test_some.py::test_that_fails_once"]


def test_a_test_that_fails_twice_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, SOME_FAIL, monkeypatch) == 1
    printed = capfd.readouterr().out
    assert printed.endswith("FAILED test_some.py::test_that_always_fails\n")


def test_tests_that_cannot_be_collected_fail_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(tmp_path, "import nothing_of_this_name", monkeypatch) == 1
