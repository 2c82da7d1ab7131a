"""Matches a file's operations to recorded ones: which process, how far the clock is off, which row.

Process ids in a file may be those of a container, so they only tell its processes apart. A
process of the file is the recorded one that queued the same operations (kernel, grid and block;
bytes of copies) at the same intervals: differences between the times of like operations are
counted, and at the true distance of the two clocks nearly all agree to within microseconds.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cotenant.profiles.operations import LAUNCH, Bools, Ints, Operations
from cotenant.profiles.recorded import Recorded, RecordedProcess

_FEWEST: Final = 8  # Operations of a process: fewer say nothing.
_SLICE_NS: Final = 4_000_000_000  # In so much time clocks drift by less than a bin.
_BIN_NS: Final = 50_000
_PAIRS: Final = 4_000_000
_ANCHORS: Final = 2_000
_LEAST_VOTES: Final = 0.2
_ALIKE: Final = 0.9
_BLOCK: Final = 128
_SMALLEST: Final = 4
_LATE_NS: Final = 100_000_000  # A busy host may keep a thread between two looks at the clock.
_NEAR_NS: Final = 300_000
MATCHED: Final = 0.5  # Of a process's operations, at least.


@dataclass(frozen=True, slots=True)
class Match:
    """A process of the file, and the recorded one that it is."""

    process: RecordedProcess
    operations: Ints  # Places of the file's operations of the process,
    rows: Ints  # and of the recorded one that each is; -1 where it is none.
    offset_ns: int  # What to add to the file's clock.
    spread_ns: int  # By how much half of the operations are off that at most.
    ambiguous: bool  # Another process fits nearly as well.

    @property
    def matched(self) -> int:
        """How many operations have a row."""
        return int((self.rows >= 0).sum())


@dataclass(frozen=True, slots=True)
class _Sequence:
    """Operations by time: what each is, and when it was queued."""

    token: Ints
    called: Ints
    thread: Ints


def match(file: Operations, recorded: Recorded, window_ns: int) -> list[Match]:
    """The processes of the file that were recorded, with clocks at most so far apart."""
    mine = _tokens(file.kind, file.name, np.where(file.kind == LAUNCH, file.shape, file.size))
    theirs = _tokens(recorded.kind, recorded.name, recorded.value)
    found = []
    for number in np.unique(file.process).tolist():
        places = np.flatnonzero(file.process == number)
        if len(places) < _FEWEST:
            continue
        own = _Sequence(mine[places], file.called[places], file.thread[places])
        if best := _best(own, theirs, recorded, window_ns):
            process, offset, ambiguous = best
            there = process.rows
            other = _Sequence(theirs[there], recorded.called[there], recorded.thread[there])
            rows, offset, spread = _aligned(own, other, offset)
            rows = np.where(rows >= 0, rows + there.start, -1)
            found.append(Match(process, places, rows, offset, spread, ambiguous))
    return [one for one in _each_once(found) if one.matched >= MATCHED * len(one.operations)]


def _each_once(found: list[Match]) -> list[Match]:
    """A recorded process is that process of the file of which most fits."""
    best: dict[tuple[str, int], Match] = {}
    for one in found:
        key = one.process.node, one.process.pid
        if key not in best or one.matched > best[key].matched:
            best[key] = one
    return list(best.values())


def _tokens(kind: Ints, name: Ints, value: Ints) -> Ints:
    """One number for each kind, name and value."""
    with np.errstate(over="ignore"):
        mixed = (name.astype(np.uint64) + np.uint64(7)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ value.astype(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(29)) ^ kind.astype(np.uint64)) * np.uint64(
            0x94D049BB133111EB
        )
    return (mixed >> np.uint64(2)).astype(np.int64)


def _best(
    own: _Sequence, theirs: Ints, recorded: Recorded, window_ns: int
) -> tuple[RecordedProcess, int, bool] | None:
    """The process whose operations are at one distance from these, and the distance."""
    kinds, counts = np.unique(own.token, return_counts=True)
    votes: list[tuple[float, int, RecordedProcess]] = []
    for process in recorded.processes:
        token, called = theirs[process.rows], recorded.called[process.rows]
        at = np.minimum(np.searchsorted(kinds, token), len(kinds) - 1)
        like = kinds[at] == token
        both = np.minimum(np.bincount(at[like], minlength=len(kinds)), counts).sum()
        if both < MATCHED * len(own.token):
            continue
        part, offset = _distance(own, token[like], called[like], window_ns)
        if part >= _LEAST_VOTES:
            votes.append((part, offset, process))
    if not votes:
        return None
    votes.sort(key=lambda vote: -vote[0])
    part, offset, process = votes[0]
    return process, offset, len(votes) > 1 and votes[1][0] >= _ALIKE * part


def _distance(own: _Sequence, token: Ints, called: Ints, window_ns: int) -> tuple[float, int]:
    """The distance that most operations agree on, and which part of them does."""
    first, last = int(own.called[0]), int(own.called[-1])
    best = 0.0, 0
    for part in (0.5, 0.0, 1.0):
        begin = first + int(part * max(last - first - _SLICE_NS, 0))
        inside = (own.called >= begin) & (own.called <= begin + _SLICE_NS)
        best = max(best, _voted(own.token[inside], own.called[inside], token, called, window_ns))
        if best[0] >= MATCHED or last - first <= _SLICE_NS:
            break
    return best


def _voted(
    token: Ints, called: Ints, theirs: Ints, their_time: Ints, window_ns: int
) -> tuple[float, int]:
    order = np.lexsort((their_time, theirs))
    theirs, their_time = theirs[order], their_time[order]
    begin, end = (np.searchsorted(theirs, token, side=side) for side in ("left", "right"))
    count = end - begin
    # Rare operations say most.
    chosen = np.random.default_rng(0).permutation(np.flatnonzero(count > 0))
    chosen = chosen[np.argsort(count[chosen], kind="stable")]
    few = np.cumsum(count[chosen]) <= _PAIRS
    few[:_FEWEST] = True
    chosen = chosen[few][:_ANCHORS]
    if len(chosen) < min(_FEWEST, len(token)):
        return 0.0, 0
    counts = count[chosen]
    whose = np.repeat(np.arange(len(chosen)), counts)
    within = np.arange(len(whose)) - np.repeat(np.cumsum(counts) - counts, counts)
    apart = their_time[begin[chosen][whose] + within] - called[chosen][whose]
    near = np.abs(apart) <= window_ns
    apart, whose = apart[near], whose[near]
    if not len(apart):
        return 0.0, 0
    # A bin and the next one; an operation has one vote in each, however often it is there.
    pairs = np.unique(apart // _BIN_NS * _ANCHORS + whose)
    bins, number = np.unique(pairs // _ANCHORS, return_counts=True)
    upper = np.append(np.where(np.diff(bins) == 1, number[1:], 0), 0)
    both = number + upper
    alike = np.flatnonzero(both >= _ALIKE * both.max())
    # Of distances that are as likely, as those of a periodic program, the clocks' own is nearest.
    at = alike[np.argmin(np.abs(bins[alike]))]
    inside = (apart >= bins[at] * _BIN_NS) & (apart < (bins[at] + 2) * _BIN_NS)
    return min(float(both[at]) / len(chosen), 1.0), int(np.median(apart[inside]))


def _aligned(own: _Sequence, other: _Sequence, offset: int) -> tuple[Ints, int, int]:
    """The row of each operation, thread by thread; the offset in the middle, and its spread."""
    rows = np.full(len(own.token), -1)
    off: list[Ints] = []
    near, far = _nearest(own, other, np.arange(len(other.token)), offset)
    close = (near >= 0) & (far < _LATE_NS)
    for thread in np.unique(own.thread).tolist():
        places = np.flatnonzero(own.thread == thread)
        mine = _Sequence(own.token[places], own.called[places], own.thread[places])
        if not close[places].any():
            continue
        beside = other.thread[near[places][close[places]]]
        threads, counts = np.unique(beside, return_counts=True)
        there = np.flatnonzero(other.thread == threads[counts.argmax()])
        found = _in_blocks(mine, other, there, offset)
        rows[places] = found
        off.append((other.called[found] - mine.called)[found >= 0])
    rows = _one_to_one(rows, other.called - offset, own.called)
    apart = np.concatenate(off) if off else np.zeros(0, np.int64)
    middle = int(np.median(apart)) if len(apart) else offset
    spread = int(np.median(np.abs(apart - middle))) if len(apart) else 0
    return rows, middle, spread


def _nearest(mine: _Sequence, other: _Sequence, there: Ints, offset: int) -> tuple[Ints, Ints]:
    """The operation of these that is like each and nearest in time, and how far it is."""
    kinds = np.unique(other.token[there])
    rank = np.searchsorted(kinds, other.token[there])
    origin = int(other.called[there].min())
    span = int(other.called[there].max()) - origin + 2
    key = rank * span + (other.called[there] - origin)
    order = np.argsort(key, kind="stable")
    key = key[order]
    own_rank = np.minimum(np.searchsorted(kinds, mine.token), len(kinds) - 1)
    known = kinds[own_rank] == mine.token
    time = mine.called + offset
    wanted = own_rank * span + np.clip(time - origin, 0, span - 1)
    at = np.searchsorted(key, wanted)
    best, apart = np.full(len(time), -1), np.full(len(time), np.iinfo(np.int64).max)
    for beside in (at - 1, at):
        place = np.clip(beside, 0, len(key) - 1)
        same = known & (rank[order[place]] == own_rank)
        far = np.abs(other.called[there[order[place]]] - time)
        better = same & (far < apart)
        best[better], apart[better] = order[place[better]], far[better]
    return np.where(best >= 0, there[np.maximum(best, 0)], -1), apart


def _in_blocks(mine: _Sequence, other: _Sequence, there: Ints, offset: int) -> Ints:
    """Rows of one thread: operations are in the same order in both, with some missing in either."""
    rows = np.full(len(mine.token), -1)
    place = np.full(len(other.token), -1)
    place[there] = np.arange(len(there))
    for begin in range(0, len(mine.token), _BLOCK):
        part = slice(begin, begin + _BLOCK)
        block = _Sequence(mine.token[part], mine.called[part], mine.thread[part])
        # Later blocks are few rows further on: the nearest are searched among those.
        low, high = (
            np.searchsorted(other.called[there], int(t) + offset + side * _LATE_NS)
            for t, side in ((block.called[0], -1), (block.called[-1], 1))
        )
        if low == high:
            continue
        near, apart = _nearest(block, other, there[low:high], offset)
        at = np.where(near >= 0, place[np.maximum(near, 0)], -1)
        found = _shifted(block, other, there, at, offset)
        left = (found < 0) & (near >= 0) & (apart <= _NEAR_NS)
        found[left] = near[left]
        rows[part] = found
        if (found >= 0).sum() >= _FEWEST:
            # The clocks drift apart.
            offset = int(np.median((other.called[found] - block.called)[found >= 0]))
    return rows


def _shifted(block: _Sequence, other: _Sequence, there: Ints, at: Ints, offset: int) -> Ints:
    """Rows as many places further on as most of the block's nearest ones are; else of halves."""
    count = len(block.token)
    found = np.full(count, -1)
    known = np.flatnonzero(at >= 0)
    if not len(known):
        return found
    shifts, votes = np.unique(at[known] - known, return_counts=True)
    wanted = np.arange(count) + shifts[votes.argmax()]
    inside = (wanted >= 0) & (wanted < len(there))
    row = there[np.clip(wanted, 0, len(there) - 1)]
    late = np.abs(other.called[row] - block.called - offset) <= _LATE_NS
    good = inside & late & (other.token[row] == block.token)
    found[good] = row[good]
    if count <= _SMALLEST or good.all():
        return found
    half = count // 2
    for part in (slice(0, half), slice(half, count)):
        if not good[part].all():
            piece = _Sequence(block.token[part], block.called[part], block.thread[part])
            of_piece = _shifted(piece, other, there, np.where(at[part] >= 0, at[part], -1), offset)
            better = (of_piece >= 0).sum() > (found[part] >= 0).sum()
            found[part] = of_piece if better else found[part]
    return found


def _one_to_one(rows: Ints, expected: Ints, called: Ints) -> Ints:
    """Of operations with the same row that which is nearest to it."""
    known = np.flatnonzero(rows >= 0)
    apart = np.abs(expected[rows[known]] - called[known])
    order = known[np.lexsort((apart, rows[known]))]
    again: Bools = np.append(False, np.diff(rows[order]) == 0)[: len(order)]
    found = rows.copy()
    found[order[again]] = -1
    return found
