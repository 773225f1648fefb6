"""Predictions against outcomes: rows sorted by what is predicted for them, and what came true.

One pass puts every row into one of many narrow cells of the linear predictor, and only the sums of the cells leave it.
Cells are then joined to bins that have equal shares of the rows and of the variance together: where events are rare,
nearly all rows are alike, and those few with large predictions must not share a bin with them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from tallbayes.families import Family
from tallbayes.families.compiled import compiled

Array = NDArray[np.float64]

CELLS = 4_096
FARTHEST = 40.0  # linear predictors beyond it are certain outcomes, or counts that nobody has seen
BINS = 20
RANGE = (0.03, 0.97)  # of what may be observed
CERTAIN = 1e-12  # a sum of outcomes that varies less, or is less, is taken for this


class Sums(NamedTuple):
    """Over the rows of each cell: their weights, and with these their linear predictors and outcomes."""

    weight: Array
    predictor: Array
    outcome: Array


class Calibration(NamedTuple):
    """Of each bin, in ascending order of predictions: its rows, mean prediction and mean outcome.

    If the model holds, the outcome lies between `lower` and `upper` in 94% of the bins.
    """

    rows: Array
    predicted: Array
    observed: Array
    lower: Array
    upper: Array


def sums(predictor: Array, outcome: Array, weights: Array) -> Sums:
    """Sort rows into cells of equal width; no weights are an empty array.

    >>> found = sums(np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 1.0]), np.empty(0))
    >>> [part[[0, -1]].tolist() for part in found]
    [[2.0, 1.0], [0.0, 1.0], [1.0, 1.0]]
    """
    low, high = np.clip([predictor.min(), predictor.max()], -FARTHEST, FARTHEST)
    found = Sums(*(np.zeros(CELLS) for _ in Sums._fields))
    _sort(predictor, outcome, weights, low, CELLS / max(high - low, 1e-9), *found)
    return found


@compiled()
def _sort(predictor, outcome, weights, low, scale, weight, predictors, outcomes):
    for i in range(predictor.size):
        cell = min(max(int((predictor[i] - low) * scale), 0), weight.size - 1)
        own = weights[i] if weights.size > 0 else 1.0
        weight[cell] += own
        predictors[cell] += own * predictor[i]
        outcomes[cell] += own * outcome[i]


def calibrate(cells: Sums, family: Family) -> Calibration:
    """Join cells to bins.

    >>> from tallbayes.families import Bernoulli
    >>> eta = np.linspace(-3, 3, 100_000)
    >>> y = Bernoulli().simulate(np.random.default_rng(0), eta)
    >>> found = calibrate(sums(eta, y, np.empty(0)), Bernoulli())
    >>> bool(np.abs(found.predicted - found.observed).max() < 0.03)
    True
    """
    some = cells.weight > 0
    weight, outcome = cells.weight[some], cells.outcome[some]
    mean = family.mean(cells.predictor[some] / weight)
    expected, variance = weight * mean, weight * family.variance(mean)
    measure = weight / weight.sum() + variance / max(variance.sum(), np.finfo(float).tiny)
    middle = np.cumsum(measure) - measure / 2
    _, where = np.unique((BINS * middle / measure.sum()).astype(int), return_inverse=True)
    joined = (np.bincount(where, each).astype(float) for each in (weight, expected, variance, outcome))
    rows, expected, variance, observed = joined
    lower, upper = (_range(share, expected, variance) / rows for share in RANGE)
    most = family.mean(np.array(FARTHEST))  # a mean outcome cannot be more
    return Calibration(rows, expected / rows, observed / rows, lower, np.minimum(upper, most))


def _range(share: float, mean: Array, variance: Array) -> Array:
    """Quantile of a sum of outcomes with this mean and variance, which cannot be negative."""
    variance, mean = np.maximum(variance, CERTAIN), np.maximum(mean, CERTAIN)
    return np.asarray(gammaincinv(mean**2 / variance, share) * variance / mean)
