"""A small fit of splines, made of random numbers, to try things with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.results.example import example
from tallbayes.splines.basis import DEGREE, KNOT, MEAN, SD, SIGN, VARIABLE, WIDTH
from tallbayes.splines.fit import MARSFit
from tallbayes.splines.model import MARS
from tallbayes.splines.result import spline_result

Array = NDArray[np.float64]


def example_mars(seed: int = 0) -> MARSFit:
    """A small fit made of random numbers, to try things with.

    The log-odds rise with age, more so where `urban` is 1; half of the draws have a little of `income` too.

    >>> fit = example_mars()
    >>> fit.variables
    ('age', 'income', 'urban')
    >>> fit.effect("age", grids=([30.0, 70.0],))["mean"].values.round(1)
    array([-1.7,  0.8])
    """
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.uniform(20, 80, 200), rng.normal(50, 15, 200), rng.random(200) < 0.4])
    model = MARS(x, rng.random(200) < 0.5, max_bases=4, names=("age", "income", "urban"))
    hinges = [({0: knot}, {2: 0.0}, {0: knot, 2: 0.0}, {1: knot + 5}) for knot in rng.normal(45, 2, 8)]
    bases = [[_basis(x, knots) for knots in each] for each in hinges]
    theta = np.zeros((2, 40, model.width))
    for i, draw in enumerate(theta.reshape(80, -1)):  # laid out as `splines` reads it
        size = 3 + i % 2
        draw[:2] = size, rng.gamma(2.0)
        draw[2 : size + 3] = rng.normal([-0.5, 0.9, 0.5, 0.6, 0.1][: size + 1], 0.1)
        draw[7:].reshape(4, WIDTH)[:size] = rng.choice(bases)[:size]
    facts = {"method": "two-stage reversible jump", "rows": 200, "distinct_rows": 200, "rows_per_draw": 200.0}
    stats = example(seed, chains=1, draws=1).stats | facts
    del stats["columns"], stats["default_priors"]  # which splines have not
    known = {"total_log_likelihood": rng.normal(-100, 2, (2, 40))}
    run: Any = SimpleNamespace(theta=theta, sample_stats=known, stats=stats, seed=seed)
    return MARSFit.of(spline_result(model, run))


def _basis(x: Array, knots: dict[int, float]) -> Array:
    """The product of rising hinges with these knots, one per variable, standardised on rows x (n, d)."""
    variables, basis = list(knots), np.zeros(WIDTH)
    column = np.maximum(x[:, variables] - list(knots.values()), 0.0).prod(axis=1)
    for part, value in ((VARIABLE, variables), (SIGN, 1.0), (KNOT, list(knots.values()))):
        basis[part : part + len(knots)] = value
    basis[[DEGREE, MEAN, SD]] = len(knots), column.mean(), column.std()
    return basis
