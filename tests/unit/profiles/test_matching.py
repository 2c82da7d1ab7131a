"""Operations of a file, and the recorded ones that they are."""

import numpy as np
import pyarrow as pa
import pytest

from cotenant.profiles.matching import match
from cotenant.profiles.operations import LAUNCH, Operations
from cotenant.profiles.recorded import Recorded

SECOND = 1_000_000_000
ORIGIN = 1_790_000_000 * SECOND
NAMES = ["gemm", "decode", "touch"]
WINDOW = 5 * SECOND


def program(seed, count=2_000, pause=200_000, kinds=3, period=None):
    """When a thread launches, and what."""
    dice = np.random.default_rng(seed)
    gaps = dice.exponential(pause, count) + 5_000 if period is None else np.full(count, period)
    return ORIGIN + np.cumsum(gaps).astype(np.int64), dice.integers(0, kinds, count)


def rows(*processes):
    """Recorded rows of processes with a thread each: pid, times and kinds."""
    parts = []
    for pid, called, kind in processes:
        count = len(called)
        one = {"node": ["n"] * count, "tenant": [f"t{pid}"] * count, "cgroup_id": [pid] * count}
        one |= {"pid": [pid] * count, "tid": [pid] * count, "timestamp_ns": called.tolist()}
        one |= {"op": ["launch"] * count, "kernel_name": [NAMES[k] for k in kind.tolist()]}
        one |= {"direction": pa.array([None] * count, pa.string()), "size": [32] * count}
        one |= {f"{of}_{axis}": [1] * count for of in ("grid", "block") for axis in "xyz"}
        parts.append(pa.table(one | {"gpu": ["G"] * count, "imported": [False] * count}))
    return Recorded.of(pa.concat_tables(parts), NAMES)


def file(called, kind, off=0, process=0):
    """The same in a file, on a clock that is ``off``; a call is seen a little later."""
    count, none = len(called), np.zeros(len(called), np.int64)
    shape = rows((1, called[:1], kind[:1])).value[0]
    return Operations(
        process=none + process,
        thread=none,
        called=called - off,
        kind=none + LAUNCH,
        name=kind,
        size=none + 32,
        shape=none + shape,
        ran=none,
        gpu_ns=none + count,
        names=NAMES,
    )


def jittered(called, seed=9, usual=2_000, late=0.01):
    dice = np.random.default_rng(seed)
    delay = dice.exponential(usual, len(called))
    delay += np.where(dice.random(len(called)) < late, dice.exponential(5_000_000, len(called)), 0)
    # A thread that is late with one call is late with the next.
    return np.minimum(called + delay.astype(np.int64), np.append(called[1:] - 1, 1 << 62))


@pytest.mark.parametrize("off", [0, 3_700_000, -41_000_000, 2 * SECOND])
def test_all_operations_are_found_whatever_the_clocks_say(off):
    called, kind = program(1)
    (one,) = match(file(jittered(called), kind, off), rows((7, called, kind)), WINDOW)
    assert one.process.pid == 7
    assert (one.rows == np.arange(len(called))).mean() >= 0.99
    assert abs(one.offset_ns - off) < 20_000
    assert not one.ambiguous


def test_a_part_of_a_recording_is_found_among_others():
    called, kind = program(1)
    others = [(pid, *program(pid)) for pid in (2, 3)]
    part = slice(700, 1_500)
    recorded = rows((1, called, kind), *others)
    (one,) = match(file(jittered(called[part]), kind[part], 1_000_000), recorded, WINDOW)
    assert one.process.pid == 1
    assert (one.rows == np.arange(700, 1_500)).mean() >= 0.99


def test_ranks_that_run_the_same_program_are_told_apart():
    called, kind = program(1, pause=300_000)
    ranks = [(pid, jittered(called, pid, usual=60_000), kind) for pid in (11, 12, 13, 14)]
    seen = file(jittered(ranks[2][1]), kind, 40_000)
    (one,) = match(seen, rows(*ranks), WINDOW)
    assert (one.process.pid, one.ambiguous) == (13, False)


def test_a_copy_of_a_process_is_ambiguous():
    called, kind = program(1)
    (one,) = match(file(called, kind), rows((7, called, kind), (8, called + 900_000, kind)), WINDOW)
    assert one.ambiguous


def test_rows_and_operations_that_are_missing_leave_the_others_right():
    called, kind = program(1)
    dice = np.random.default_rng(3)
    kept, had = dice.random(len(called)) > 0.1, dice.random(len(called)) > 0.1
    seen = file(jittered(called)[had], kind[had], -500_000)
    (one,) = match(seen, rows((7, called[kept], kind[kept])), WINDOW)
    place = np.full(len(called), -1)
    place[kept] = np.arange(kept.sum())
    expected = place[had]
    right = (one.rows == expected)[expected >= 0]
    assert right.mean() >= 0.9
    # Each of the others is of the same kernel.
    found = one.rows >= 0
    assert (kind[kept][one.rows[found]] == kind[had][found]).all()
    assert len(set(one.rows[found].tolist())) == found.sum()


def test_clocks_that_drift_apart_are_followed():
    called, kind = program(1, count=20_000, pause=2_000_000)
    drifting = called - ((called - ORIGIN) * 50e-6).astype(np.int64)
    (one,) = match(file(drifting, kind), rows((7, called, kind)), WINDOW)
    assert (one.rows == np.arange(len(called))).mean() >= 0.99


def test_one_kernel_back_to_back_is_found_by_its_pauses():
    called, kind = program(1, pause=50_000, kinds=1)
    part = slice(300, 1_700)
    (one,) = match(
        file(jittered(called[part]), kind[part], 70_000), rows((7, called, kind)), WINDOW
    )
    assert (one.rows == np.arange(300, 1_700)).mean() >= 0.99


def test_a_program_like_clockwork_is_found_at_the_nearest_time():
    called, kind = program(1, kinds=1, period=5_000_000)
    part = slice(300, 1_700)
    (one,) = match(file(called[part], kind[part], 20_000), rows((7, called, kind)), WINDOW)
    assert (one.rows == np.arange(300, 1_700)).all()


def test_another_program_is_not_found():
    called, kind = program(1)
    other, of_other = program(2)
    assert match(file(other, of_other), rows((7, called, kind)), WINDOW) == []


def test_nothing_is_found_where_nothing_was_recorded():
    called, kind = program(1)
    empty = rows((7, called, kind)).rows.slice(0, 0)
    assert match(file(called, kind), Recorded.of(empty, NAMES), WINDOW) == []
