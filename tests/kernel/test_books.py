"""The books of real recordings balance, agree with what tenants logged, and name the right ones."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.books.equations import Books, balances
from tests.books.planted import Cases, judged
from tests.books.registry import KNOWN_OF_RECORDINGS
from tests.books.surfaces import disagreements
from tests.books.truths import counts, peaks
from tests.books.workloads import Crowd
from tests.kernel.conftest import Cgroup, record
from tests.kernel.script import warm
from tests.kernel.test_hangs import explained

SEED = int(os.environ.get("COTENANT_SEED", "1"))
SECONDS = float(os.environ.get("COTENANT_SECONDS", "6"))
LONG_ENOUGH = 14  # For a hang to be one, and slowdowns to have samples.


@pytest.mark.timeout(600)
def test_the_books_of_a_recording_balance(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    with record(store) as recording:
        warm(recording, cgroups(), "libcudart.so.12", "libcudart.so.13", "libnccl.so.2")
        crowd = Crowd(tmp_path / "logs", cgroups, SEED, SECONDS)
        crowd.start()
        crowd.end()
    with Books(store) as books:
        found = [*counts(books, crowd.tenants), *peaks(books, crowd.tenants)]
    found += [*balances(store, SEED), *disagreements(store, tmp_path, SEED)]
    wrong = [each for each in found if (each.equation, each.where) not in KNOWN_OF_RECORDINGS]
    assert wrong == []


@pytest.mark.timeout(600)
def test_planted_faults_are_found_and_no_innocent_is_named(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    seconds = max(SECONDS, LONG_ENOUGH)
    with record(store) as recording:
        warm(recording, cgroups(), "libcudart.so.12", "libcudart.so.13", "libnccl.so.2")
        cases = Cases(tmp_path / "cases", cgroups, SEED, seconds)
        try:
            cases.start(busy=SEED % 2 == 0)
            time.sleep(seconds)
            recording.stop(timeout=240)
        finally:
            cases.end()
    verdicts = judged(cases, explained(recording))
    assert verdicts.accused == []
    assert verdicts.wrong == []
