"""How often what is stated with confidence is true: cases with known answers, in virtual time."""

import numpy as np

from cotenant.query.derived.interference.slowdown import EVIDENCE, Samples, level_of
from cotenant.query.derived.interference.table import pairs_of
from cotenant.query.derived.solved_times.table import solve
from tests.virtual.crowd import crowd
from tests.virtual.mixes import case

PLANTED = ("train", "noisy")


def intervals(kind, seeds):
    """Of the kernel with the most time in each case: given, holds the truth, and its width."""
    found = []
    for seed in seeds:
        one = case(kind, seed)
        most = int(np.argmax(one.share))
        times = {time.kernel_name: time for time in solve(one.items, one.crowd).times}
        time, truth = times[f"kernel_{most}"], one.true_ns[most]
        holds = bool(time.low_ns <= truth <= time.high_ns)
        found.append((time.solved, holds, (time.high_ns - time.low_ns) / truth))
    return found


def _whole(spans, _part):
    return Samples(spans.start, spans.end, spans.end - spans.start, spans.signature)


def findings(seeds, factor=None):
    """Of each run, the pairs that there is evidence of."""
    planted = {PLANTED: factor} if factor else None
    found = []
    for seed in seeds:
        pairs = pairs_of(crowd(seed, planted), lambda _: _whole)
        level = level_of(pair.verdict for pair in pairs)
        found.append(
            {
                (pair.victim.name, pair.other.name)
                for pair in pairs
                if pair.verdict.word(level) == EVIDENCE
            }
        )
    return found
