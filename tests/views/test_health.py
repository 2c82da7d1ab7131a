"""``cotenant health``: who writes is healthy, who does not is not, and neither waits long."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cotenant.views.cli import main
from tests.serving import three_tenants

HEAVY = """
import sys
from cotenant.views.cli import main
code = main(sys.argv[1:])
print(*sorted({"duckdb", "numpy", "pyarrow", "cotenant.schema"} & set(sys.modules)))
sys.exit(code)
"""


# So many times the start of Python: 100 ms where that takes 10.
MOST = 10


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return three_tenants(tmp_path / "store")


def aged(store: Path, seconds: float) -> None:
    then = time.time() - seconds
    for manifest in (store / "manifest").glob("*.json"):
        os.utime(manifest, (then, then))


def test_a_store_that_is_written_to_is_healthy(cotenant, store: Path) -> None:
    code, out, err = cotenant("health", "--store", str(store))
    assert (code, err) == (0, "")
    assert "was written to 0" in out


def test_one_that_is_not_any_more_is_not(cotenant, store: Path) -> None:
    aged(store, 40)
    code, out, err = cotenant("health", "--store", str(store))
    assert (code, out) == (1, "")
    assert "was last written to 40" in err
    assert cotenant("health", "--store", str(store), "--within", "1m")[0] == 0


def test_where_nobody_recorded_it_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["health", "--store", str(tmp_path)]) == 1
    assert "does `cotenant record` run?" in capsys.readouterr().err
    (tmp_path / "manifest").mkdir()
    assert main(["health", "--store", str(tmp_path)]) == 1
    assert "nobody has written" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", [0, 40])
def test_it_waits_for_nothing_that_answers_need(store: Path, seconds: int) -> None:
    """Whether the answer is good or bad: duckdb alone takes longer than 100 ms."""
    aged(store, seconds)
    done = subprocess.run(
        [sys.executable, "-c", HEAVY, "health", "--store", str(store)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == (1 if seconds else 0)
    assert done.stdout.splitlines()[-1] == ""


def test_it_answers_in_a_few_times_the_start_of_python(store: Path) -> None:
    health = [sys.executable, "-m", "cotenant", "health", "--store", str(store), "--within=1h"]
    pairs = [(took(health), took([sys.executable, "-c", "pass"])) for _ in range(7)]
    answer, start = (min(times) for times in zip(*pairs, strict=True))
    print(f"health: {answer * 1e3:.0f} ms, {answer / start:.1f} times the start of Python")
    assert answer < MOST * start


def took(words: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True)
    return time.perf_counter() - began
