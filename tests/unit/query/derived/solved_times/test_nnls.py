"""Non-negative least squares, against the conditions that a solution fulfils."""

import random

import numpy as np

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
