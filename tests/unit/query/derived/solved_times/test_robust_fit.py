"""A fit that outliers do not bend."""

import os
import random
import subprocess
import sys
import warnings

import numpy as np
import pytest

from cotenant.query.derived.solved_times.robust_fit import robust_fit


def test_a_fifth_of_wild_equations_changes_nothing():
    dice = np.random.default_rng(random.randrange(1 << 32))
    true = np.array([50.0, 200.0, 700.0, 30.0])
    matrix = np.column_stack([np.ones(500), dice.integers(0, 5, size=(500, 3))])
    values = matrix @ true * dice.normal(1, 0.01, 500)
    values[:100] *= dice.uniform(2, 30, 100)
    fit = robust_fit(matrix.astype(float), values)
    assert fit.solution == pytest.approx(true, rel=0.1)
    assert fit.rank == 4


def test_what_no_equation_has_is_not_determined():
    rng = np.random.default_rng(5)
    matrix = np.column_stack([rng.integers(1, 5, 200), np.zeros(200)]).astype(float)
    values = matrix[:, 0] * 1e6 * rng.normal(1, 0.01, 200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = robust_fit(matrix, values)
    assert fit.determines(np.array([1.0, 0.0]))
    assert not fit.determines(np.array([0.0, 1.0]))


_THREADS = """
import os
from cotenant.query.derived.solved_times.robust_fit import robust_fit
import numpy as np
robust_fit(np.random.default_rng(1).random((5000, 120)), np.ones(5000))
print(len(os.listdir("/proc/self/task")))
"""


def test_no_thread_waits_for_parts_of_small_matrices():
    plain = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    words = [sys.executable, "-c", _THREADS]
    done = subprocess.run(words, env=plain, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
