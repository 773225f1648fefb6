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

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.models.glm import GLM
from tallbayes.models.mode import Mode
from tallbayes.rows.urn import Urn

Array = NDArray[np.float64]

BEYOND = 3.0  # how much the radius for which bounds are computed exceeds sqrt(p)
AT_ONCE = 20_000  # rows for which the spline is evaluated at a time
LEAST = 0.01  # of the mean of a proxy: no row's proxy is less
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
        _check(size=self.size)

    def build(self, model: GLM, mode: Mode, rng: np.random.Generator) -> Estimator:
        """Look at all rows once."""
        remainders = model.rows.remainders(model.family.tag, mode.theta, mode.factor)
        return Estimator(remainders.urn(remainders.bounds(mode.theta.size**0.5 + BEYOND)), True, str(self))


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
        _check(size=self.size, points=self.points)

    def build(self, model: GLM, mode: Mode, rng: np.random.Generator) -> Estimator:
        """Look at all rows once, and at some twice."""
        return Estimator(model.rows.proxies(spline(model, mode, self.points, rng), mode.theta), False, str(self))


def spline(model: GLM, mode: Mode, points: int, rng: np.random.Generator) -> Array:
    """|loglik_i| at the mode of every row, predicted by a thin-plate spline that has seen some rows."""
    from scipy.interpolate import RBFInterpolator

    x, y, offset, _ = model.rows.arrays()
    seen = rng.choice(y.size, min(points, y.size), replace=False)
    eta = mode.theta @ x[:, seen] + (offset[seen] if offset.size else 0.0)
    height = np.abs(model.family.tag.log_likelihood(y[seen], eta))
    given = [*x, y, offset] if offset.size else [*x, y]
    # Columns that do not vary among the rows seen say nothing, and equal rows would make the spline singular.
    columns = [column for column in given if np.ptp(column[seen]) > 0]
    units = [float(np.ptp(column[seen])) for column in columns]
    sites, first = np.unique(
        np.column_stack([column[seen] / unit for column, unit in zip(columns, units, strict=True)]),
        axis=0,
        return_index=True,
    )
    if len(sites) <= len(columns) + 1:
        return np.full(y.size, float(height.mean()))
    plate = RBFInterpolator(sites, height[first], kernel="thin_plate_spline", smoothing=SMOOTH)
    found = np.empty(y.size)
    for start in range(0, y.size, AT_ONCE):
        part = slice(start, min(y.size, start + AT_ONCE))
        found[part] = plate(np.column_stack([c[part] / unit for c, unit in zip(columns, units, strict=True)]))
    return np.maximum(found, LEAST * float(height.mean()))


def _check(**counts: int | None) -> None:
    for name, count in counts.items():
        if count is not None and count < 2:
            raise ValueError(f"{name} must be at least 2, not {count}")
