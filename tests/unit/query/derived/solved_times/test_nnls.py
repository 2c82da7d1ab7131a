"""Non-negative least squares: against its conditions, and against SciPy."""

import random

import numpy as np
from scipy.optimize import nnls as scipy_nnls

from cotenant.query.derived.solved_times.nnls import nnls


def test_no_solution_is_negative_and_none_fits_better():
    dice = np.random.default_rng(random.randrange(1 << 32))
    for _ in range(23):
        matrix = dice.normal(size=(40, 7))
        values = dice.normal(size=40)
        x = nnls(matrix.T @ matrix, matrix.T @ values)
        gradient = matrix.T @ (values - matrix @ x)
        assert (x >= 0).all()
        # Kuhn and Tucker: no step up helps, and none where there is something to step from.
        assert (gradient <= 1e-6).all()
        assert np.abs(gradient[x > 0]).max(initial=0) < 1e-6


def test_the_solution_is_that_of_scipy():
    seed = random.randrange(1 << 32)
    dice = np.random.default_rng(seed)
    bound = 0
    for columns in (1, 2, 7, 31):
        for _ in range(11):
            # Counts of launches, as spans have them, some of whose times come out as nothing.
            matrix = dice.integers(0, 5, size=(4 * columns + 9, columns)).astype(float)
            values = matrix @ dice.normal(1, 2, columns) + dice.normal(0, 0.1, len(matrix))
            wanted, _ = scipy_nnls(matrix, values)
            found = nnls(matrix.T @ matrix, matrix.T @ values)
            np.testing.assert_allclose(found, wanted, atol=1e-6, err_msg=f"seed {seed}")
            start = np.clip(dice.normal(size=columns), 0, None)
            again = nnls(matrix.T @ matrix, matrix.T @ values, start)
            np.testing.assert_allclose(again, wanted, atol=1e-6, err_msg=f"seed {seed}")
            bound += int((wanted == 0).sum())
    assert bound > 0
