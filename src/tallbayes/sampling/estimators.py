"""Estimators of the log-likelihood from a few rows, for subsampling Metropolis-Hastings.

Rows u_1 .. u_m are drawn with probabilities p_i, and what is known of the sum without them is its base:

    estimate(theta) = base(theta) + mean of t_u(theta),     t_i = w_i (loglik_i(theta) - known_i(theta)) / p_i.

`TaylorProxy` knows every row's expansion at the mode, whose sum over all rows is the base, and draws rows in proportion
to bounds on what is left (`remainders.py`): the difference estimator of Quiroz et al., with better than equal
probabilities. `SplineProxy` is what Payne and Mallick compare with: nothing is known, and rows are drawn in proportion
to |loglik_i| at the mode as a thin-plate spline predicts it from the row's columns and outcome, having seen some rows.

Reference: M. Quiroz, R. Kohn, M. Villani and M.-N. Tran (2019), "Speeding up MCMC by efficient data subsampling".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_whole
from tallbayes.models.glm import GLM
from tallbayes.models.mode import Mode
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.protocol import Measure
from tallbayes.rows.remainders import RemainderBounds
from tallbayes.rows.urn import Urn

Array = NDArray[np.float64]

BEYOND = 3.0  # how much the radius for which bounds are computed exceeds sqrt(p)
AT_ONCE = 20_000  # rows for which the spline is evaluated at a time
LEAST = 0.01  # of the mean of a proxy: no row's proxy is less
MOST_ROWS = 1_000_000  # a draw: beyond, all rows cost less
MOST_POINTS = 10_000  # that a spline is fitted to: it takes the square of their number in memory
SMOOTH = 1e-6  # a spline that need not pass through all points exactly, lest nearly equal points make it singular


class Estimator(NamedTuple):
    """What an estimator draws, and what it knows."""

    urn: Urn
    known: bool  # whether the expansion at the mode is its base, or nothing
    name: str


@dataclass(frozen=True)
class TaylorProxy:
    """The difference estimator: rows are drawn for what the expansion at the mode leaves out of them.

    `size` rows a draw, or as many as keep the variance of the estimate near one.

    >>> TaylorProxy(200)
    TaylorProxy(size=200)
    """

    size: int | None = None

    def __post_init__(self) -> None:
        check_whole("size", self.size, 2, MOST_ROWS, optional=True)

    def build(self, model: GLM, mode: Mode, rng: np.random.Generator) -> Estimator:
        """Look at all rows once."""
        bounds = RemainderBounds(model.family.tag, mode.theta, mode.factor, mode.theta.size**0.5 + BEYOND)
        return Estimator(_urn(model, mode, bounds, rng), True, str(self))


@dataclass(frozen=True)
class SplineProxy:
    """The estimator of Payne and Mallick: rows are drawn for their log-likelihood, as a spline predicts it.

    `size` rows a draw, or as many as keep the variance of the estimate near one; the spline sees `points` rows.

    >>> SplineProxy(7_000)
    SplineProxy(size=7000, points=1000)
    """

    size: int | None = None
    points: int = 1_000

    def __post_init__(self) -> None:
        check_whole("size", self.size, 2, MOST_ROWS, optional=True)
        check_whole("points", self.points, 2, MOST_POINTS)

    def build(self, model: GLM, mode: Mode, rng: np.random.Generator) -> Estimator:
        """Look at all rows once, and at some twice."""
        return Estimator(_urn(model, mode, spline(model, mode, self.points, rng), rng), False, str(self))


def _urn(model: GLM, mode: Mode, measure: Measure, rng: np.random.Generator) -> Urn:
    """Rows to be drawn in proportion to a measure."""
    urn = model.rows.draw(measure, mode.theta, 0.0, 0, int(rng.integers(2**63)))
    if urn.certain.size:
        raise ValueError("the weights with which rows are drawn must be finite")
    if not urn.total > 0:
        raise ValueError("no row adds to what is known at the mode, so there is nothing to estimate; use method='auto'")
    return urn


@dataclass(frozen=True)
class Predicted:
    """A measure: what a thin-plate spline predicts from a row's columns and outcome, in these units, but no less."""

    columns: tuple[int, ...]  # that vary, the outcome and the offset being the last
    units: Array
    plate: Callable[[Array], Array] | None  # None: all rows have the least
    least: float
    looks = 1

    def of(self, arrays: Arrays) -> Array:
        """See `Measure`."""
        found = np.full(arrays.size, self.least)
        for start in range(0, arrays.size if self.plate else 0, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            found[part] = np.maximum(self.plate(self.sites(arrays, part)), self.least)  # type: ignore[misc]
        return found

    def sites(self, arrays: Arrays, part: slice) -> Array:
        """Where some rows lie (rows, columns)."""
        return np.asarray(_given(arrays, part)[list(self.columns)].T / self.units)


def _given(arrays: Arrays, part: slice) -> Array:
    """What a spline is given of some rows: columns, outcomes and offsets."""
    offset = arrays.offset[None, part] if arrays.offset.size else np.empty((0, arrays.y[part].size))
    return np.concatenate([arrays.x[:, part], arrays.y[None, part], offset])


def spline(model: GLM, mode: Mode, points: int, rng: np.random.Generator) -> Predicted:
    """|loglik_i| at the mode of each row, predicted by a thin-plate spline that has seen some rows."""
    from scipy.interpolate import RBFInterpolator

    arrays, every = model.rows.sample(points, rng).arrays, slice(None)
    height = np.abs(model.family.tag.log_likelihood(arrays.y, arrays.predictors(mode.theta[None])[0]))
    reach = np.ptp(_given(arrays, every), axis=1)
    # Columns that do not vary among the rows seen say nothing, and equal rows would make the spline singular.
    columns = np.flatnonzero(reach)
    seen = Predicted(tuple(columns.tolist()), reach[columns], None, float(height.mean()))
    sites, first = np.unique(seen.sites(arrays, every), axis=0, return_index=True)
    if len(sites) <= columns.size + 1:
        return seen
    plate = RBFInterpolator(sites, height[first], kernel="thin_plate_spline", smoothing=SMOOTH)
    return replace(seen, plate=plate, least=LEAST * seen.least)
