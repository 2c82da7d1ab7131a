"""Counters of the programs, summed over CPUs."""

import numpy as np

from cotenant.agent.recorder.program_counters import ProgramCounters, orphans
from cotenant.schema.events import ENUMS

NUMBERS = {name.lower(): number for number, name in ENUMS["counter"].items()}


class Happened:
    """The kernel's map."""

    def lookup(self, key: bytes) -> bytes | None:
        happened = {NUMBERS["orphan_rows"]: [5, 0, 6], NUMBERS["orphan_lost"]: [0, 0, 0]}
        values = happened.get(int.from_bytes(key, "little"))
        return None if values is None else np.array(values, np.uint64).tobytes()


def test_what_happened_is_summed_over_cpus() -> None:
    assert ProgramCounters(Happened()).read() == {"orphan_rows": 11}


def test_an_orphan_is_a_row_that_was_sent() -> None:
    assert orphans({}) == 0
    assert orphans({"orphan_rows": 11, "orphan_lost": 2, "orphan_shed": 3}) == 6
