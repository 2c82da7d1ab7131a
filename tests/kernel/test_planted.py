"""What is wrong on a host, with its culprit and cause; and no innocent is named."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.books.planted import Cases, judged
from tests.kernel.conftest import Cgroup, record
from tests.kernel.script import warm
from tests.kernel.test_hangs import explained

SEED = int(os.environ.get("COTENANT_SEED", "1"))
SECONDS = float(os.environ.get("COTENANT_SECONDS", "14"))


@pytest.mark.timeout(600)
def test_planted_faults_are_found_and_no_innocent_is_named(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    with record(store) as recording:
        warm(recording, cgroups(), "libcudart.so.12", "libcudart.so.13", "libnccl.so.2")
        cases = Cases(tmp_path / "cases", cgroups, SEED, SECONDS)
        try:
            cases.start(busy=SEED % 2 == 0)
            time.sleep(SECONDS)
            recording.stop()
        finally:
            cases.end()
    verdicts = judged(cases, explained(recording))
    assert verdicts.accused == []
    assert verdicts.wrong == []
