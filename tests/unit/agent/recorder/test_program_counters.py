"""Counters of the programs, summed over CPUs."""

import numpy as np
import pytest

from cotenant.agent.recorder import program_counters
from cotenant.agent.recorder.program_counters import ProgramCounters, orphans
from cotenant.schema.events import ENUMS

NUMBERS = {name.lower(): number for number, name in ENUMS["counter"].items()}


def test_what_happened_is_summed_over_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    happened = {NUMBERS["orphan_rows"]: [5, 0, 6], NUMBERS["orphan_lost"]: [0, 0, 0]}

    def lookup(fd: int, name: str, key: bytes) -> bytes | None:
        values = happened.get(int.from_bytes(key, "little"))
        assert (fd, name) == (3, "counters")
        return None if values is None else np.array(values, np.uint64).tobytes()

    monkeypatch.setattr(program_counters.syscalls, "map_lookup", lookup)
    assert ProgramCounters(3).read() == {"orphan_rows": 11}


def test_an_orphan_is_a_row_that_was_sent() -> None:
    assert orphans({}) == 0
    assert orphans({"orphan_rows": 11, "orphan_lost": 2, "orphan_shed": 3}) == 6
