"""How often what is stated with confidence is true, over many simulated cases.

usage: bench/confidence.py [CASES] [RUNS]

Device times: CASES runs of each kind with known times; how many are given, how many stated
intervals hold the truth, and how many are narrow. Slowdowns: RUNS runs of three tenants where
nobody slows anybody, and as many with a planted factor.
"""

import json
import sys
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.virtual.confidence import PLANTED, findings, intervals
from tests.virtual.mixes import KINDS

NARROW = 0.1
FACTORS = (1.2, 1.5, 2.0)


def solved_times(cases: int) -> dict[str, Any]:
    """Per kind: given, holding the truth, narrow."""
    result = {}
    for kind in KINDS:
        given = [(holds, width) for solved, holds, width in intervals(kind, range(cases)) if solved]
        result[kind] = {
            "cases": cases,
            "given": len(given),
            "hold_the_truth": sum(holds for holds, _ in given),
            "narrow": sum(width <= NARROW for _, width in given),
        }
    return result


def slowdowns(runs: int) -> dict[str, Any]:
    """Runs with any finding where nobody slows anybody; found, and others, where one does."""
    result: dict[str, Any] = {
        "none": {"runs": runs, "with_a_finding": sum(bool(f) for f in findings(range(runs)))}
    }
    for factor in FACTORS:
        found = findings(range(runs), factor)
        result[str(factor)] = {
            "runs": runs,
            "found": sum(PLANTED in pairs for pairs in found),
            "with_another_finding": sum(bool(pairs - {PLANTED}) for pairs in found),
        }
    return result


def main() -> None:
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    print(json.dumps({"solved_times": solved_times(cases), "slowdowns": slowdowns(runs)}, indent=2))


if __name__ == "__main__":
    main()
