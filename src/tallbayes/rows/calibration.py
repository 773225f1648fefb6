"""Predictions against outcomes: rows sorted by what is predicted for them, and what came true.

Some rows tell how far linear predictors reach; then one pass puts every row into one of many narrow cells, those
farther out into the first and the last, and only the sums of the cells leave it.
Cells are then joined to bins that have equal shares of the rows and of the variance together: where events are rare,
nearly all rows are alike, and those few with large predictions must not share a bin with them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincinv, ndtri

from tallbayes.families import Family
from tallbayes.families.compiled import compiled
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.looking import Look
from tallbayes.rows.memory import NOTHING
from tallbayes.rows.passes import in_order
from tallbayes.rows.protocol import Rows

Array = NDArray[np.float64]

CELLS = 4_096
WIDER = 0.05  # of what some rows reach, since others reach farther, on either side
FARTHEST = 100.0  # linear predictors beyond it are certain outcomes, or counts that nobody has seen
BINS = 20
RANGE = (0.03, 0.97)  # of what may be observed
CERTAIN = 1e-12  # a sum of outcomes that varies less, or is less, is taken for this


class Sums(NamedTuple):
    """Over the rows of each cell: their weights, and with these linear predictors, outcomes and their squares."""

    weight: Array
    predictor: Array
    outcome: Array
    square: Array


class Calibration(NamedTuple):
    """Of each bin, in ascending order of predictions: its rows, mean prediction and mean outcome.

    If the model holds, the outcome lies between `lower` and `upper` in 94% of the bins.
    """

    rows: Array
    predicted: Array
    observed: Array
    lower: Array
    upper: Array


class Predictor(Protocol):
    """A linear predictor for each row."""

    @property
    def looks(self) -> int:
        """How often it looks at a row."""

    def of(self, arrays: Arrays, params: Array) -> Array:
        """The linear predictor of each row."""


@dataclass(frozen=True)
class AtTheta:
    """The linear predictor at the first parameter vector."""

    looks = 1

    def of(self, arrays: Arrays, params: Array) -> Array:
        """See `Predictor`."""
        return np.asarray(arrays.predictors(params[:1])[0])


@dataclass(frozen=True)
class _ByPredictor:
    predictor: Predictor

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return self.predictor.looks


@dataclass(frozen=True)
class Reach(_ByPredictor):
    """The smallest and the largest linear predictor."""

    def over(self, arrays: Arrays, params: Array) -> tuple[Array]:
        """See `Task`."""
        eta = self.predictor.of(arrays, params)
        return (np.array([[eta.min(), eta.max()]]),)

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> tuple[float, float]:
        """See `Task`."""
        return float(parts[0][:, 0].min()), float(parts[0][:, 1].max())


@dataclass(frozen=True)
class Sorted(_ByPredictor):
    """Rows sorted into cells of equal width by their linear predictor, from `low` to `high`.

    A part is what all of some rows come to, not a block of them, because cells are many: the last bits of sums may
    depend on who holds which rows. Only figures are made of them.
    """

    low: float
    high: float
    adds_up: ClassVar[bool] = True

    def over(self, arrays: Arrays, params: Array) -> tuple[Array]:
        """See `Task`."""
        found, scale = np.zeros((1, 4, CELLS)), CELLS / max(self.high - self.low, 1e-9)
        _sort(self.predictor.of(arrays, params), arrays.y, arrays.weights, self.low, scale, *found[0])
        return (found,)

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> Sums:
        """See `Task`."""
        return Sums(*in_order(parts[0]))


AT_THETA = AtTheta()


def by_predictor(
    rows: Rows,
    params: ArrayLike | None,
    predictor: Predictor = AT_THETA,
    look: Look | None = None,
    farthest: float = FARTHEST,
) -> Sums:
    """Weights and outcomes of rows sorted by their linear predictor: at a parameter vector, or another one.

    A look at some rows tells how far predictors reach. Without one, which few rows need not have, a pass over all does.
    None is taken to be `farthest` from zero.

    >>> from tallbayes.rows.memory import MemoryRows
    >>> found = by_predictor(MemoryRows([[0.0, 0.0, 1.0]], [1.0, 0.0, 1.0]), [1.0])
    >>> [part[[0, -1]].tolist() for part in found]
    [[2.0, 1.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    """
    if look is None:
        low, high = rows.reduce(Reach(predictor), params)
    else:
        seen = predictor.of(look.arrays, NOTHING if params is None else look.arrays.vectors(params))
        wider = WIDER * np.ptp(seen)
        low, high = seen.min() - wider, seen.max() + wider
    low, high = np.clip([low, high], -farthest, farthest)
    return rows.reduce(Sorted(predictor, float(low), float(high)), params)


def described_outcomes(cells: Sums) -> dict[str, float]:
    """Weight, mean and sd of the outcomes.

    >>> described_outcomes(Sums(*np.array([[2.0, 2.0], [0.0, 1.0], [2.0, 6.0], [2.0, 18.0]])))
    {'weight': 4.0, 'mean': 2.0, 'sd': 1.0}
    """
    weight = float(cells.weight.sum())
    mean = float(cells.outcome.sum()) / weight
    variance = float(cells.square.sum()) / weight - mean**2
    return {"weight": weight, "mean": mean, "sd": math.sqrt(max(variance, 0.0))}


@compiled()
def _sort(predictor, outcome, weights, low, scale, weight, predictors, outcomes, squares):
    for i in range(predictor.size):
        cell = int(min(max((predictor[i] - low) * scale, 0.0), weight.size - 1.0))
        own = weights[i] if weights.size > 0 else 1.0
        weight[cell] += own
        predictors[cell] += own * predictor[i]
        outcomes[cell] += own * outcome[i]
        squares[cell] += own * outcome[i] * outcome[i]


def calibrate(cells: Sums, family: Family) -> Calibration:
    """Join cells to bins.

    >>> from tallbayes.families import Bernoulli
    >>> from tallbayes.rows.memory import MemoryRows
    >>> eta = np.linspace(-3, 3, 100_000)
    >>> y = Bernoulli().simulate(np.random.default_rng(0), eta)
    >>> found = calibrate(by_predictor(MemoryRows([eta], y), [1.0]), Bernoulli())
    >>> bool(np.abs(found.predicted - found.observed).max() < 0.03)
    True
    """
    some = cells.weight > 0
    weight, outcome, square = cells.weight[some], cells.outcome[some], cells.square[some]
    eta = cells.predictor[some] / weight
    mean = family.mean(eta if family.location else np.clip(eta, -FARTHEST, FARTHEST))
    each = family.variance(mean)
    if each is None:  # outcomes vary by as much as those of all rows
        left = max(square.sum() - 2 * (mean * outcome).sum() + (weight * mean**2).sum(), 0.0)  # but for rounding
        each = np.full(mean.size, left / weight.sum())
    expected, variance = weight * mean, weight * each
    measure = weight / weight.sum() + variance / max(variance.sum(), np.finfo(float).tiny)
    middle = np.cumsum(measure) - measure / 2
    _, where = np.unique((BINS * middle / measure.sum()).astype(int), return_inverse=True)
    joined = (np.bincount(where, each).astype(float) for each in (weight, expected, variance, outcome))
    rows, expected, variance, observed = joined
    if family.signed:
        lower, upper = ((expected + ndtri(share) * variance**0.5) / rows for share in RANGE)
        return Calibration(rows, expected / rows, observed / rows, lower, upper)
    lower, upper = (_range(share, expected, variance) / rows for share in RANGE)
    most = family.mean(np.array(FARTHEST))  # a mean outcome cannot be more
    return Calibration(rows, expected / rows, observed / rows, lower, np.minimum(upper, most))


def _range(share: float, mean: Array, variance: Array) -> Array:
    """Quantile of a sum of outcomes with this mean and variance, which cannot be negative."""
    variance, mean = np.maximum(variance, CERTAIN), np.maximum(mean, CERTAIN)
    return np.asarray(gammaincinv(mean**2 / variance, share) * variance / mean)
