"""The log-likelihood expanded to second order at the mode: no row is touched.

    l(theta) ~ l(t) + g'd - d'H d / 2,     d = theta - t,

with g and H summed once over all rows. What is left is the sum of the rows' remainders R_i, which are of third
order. With `remainders=m` that sum is estimated from m rows (a difference estimator): row i is among them with
probability proportional to a bound on |R_i|, so the few rows with much leverage, such as those of a rare level, are
there for certain. The estimate is used within `RADIUS` + sqrt(p) posterior standard deviations of the mode; farther
out a sampled remainder could outgrow the quadratic, and the plain expansion is safe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_whole
from tallbayes.families import Tag
from tallbayes.models.likelihood import Direct, Follower
from tallbayes.models.model import AnyMode
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.remainders import RemainderBounds
from tallbayes.rows.tasks import LogLikelihood, LogLikelihoodDerivatives

Array = NDArray[np.float64]

RADIUS = 6.0


@dataclass(frozen=True)
class Taylor:
    """Second-order expansion at the mode, corrected by the remainders of `remainders` rows (0: not at all)."""

    remainders: int = 0

    def __post_init__(self) -> None:
        check_whole("remainders", self.remainders, 0)

    def build(self, model: Any, mode: AnyMode, rng: np.random.Generator) -> TaylorSurrogate | CorrectedTaylor:
        """Choose the rows, if any; the expansion itself is the mode's."""
        dense = mode.dense
        plain = TaylorSurrogate(dense.theta, dense.log_likelihood, dense.gradient, dense.curvature)
        if self.remainders == 0:
            return plain
        model.require_bounds("an expansion with remainders")
        radius = RADIUS + dense.theta.size**0.5
        bounds = RemainderBounds(model.family.tag, dense.theta, dense.factor, radius)
        rows = model.rows.sample(self.remainders, rng, measure=bounds)
        return CorrectedTaylor(plain, rows, model.family.tag, dense.precision, radius)


class TaylorSurrogate:
    """value + g'd - d'H d / 2."""

    name = str(Taylor())
    size = 0
    sizes = np.zeros(1)
    touched = 0
    close = True

    def __init__(self, theta: Array, value: float, gradient: Array, curvature: Array) -> None:
        self.theta, self._value, self._gradient, self._curvature = theta, value, gradient, curvature

    def log_likelihood(self, params: Array) -> Array:
        """See `Surrogate`."""
        d = params - self.theta
        return np.asarray(self._value + d @ self._gradient - 0.5 * ((d @ self._curvature) * d).sum(-1))

    def follow(self, by_column: bool) -> Follower:
        """See `Surrogate`."""
        return Direct(self.log_likelihood)


class CorrectedTaylor:
    """The expansion over all rows plus the remainders of a few: their log-likelihood minus their own expansion."""

    close = True

    def __init__(self, plain: TaylorSurrogate, rows: MemoryRows, family: Tag, metric: Array, radius: float) -> None:
        self._plain, self._rows, self._request = plain, rows, LogLikelihood(family)
        at_mode = rows.reduce(LogLikelihoodDerivatives(family), plain.theta)
        self._own = TaylorSurrogate(plain.theta, at_mode.value[0], at_mode.gradient[0], at_mode.curvature[0])
        self._metric, self._radius = metric, radius
        self.name = str(Taylor(rows.size))

    @property
    def size(self) -> int:
        """See `Surrogate`."""
        return self._rows.size

    @property
    def sizes(self) -> Array:
        """See `Surrogate`."""
        return np.array([float(self._rows.size)])

    @property
    def touched(self) -> int:
        """See `Surrogate`."""
        return self._rows.touched

    def log_likelihood(self, params: Array) -> Array:
        """See `Surrogate`."""
        d = params - self._plain.theta
        near = ((d @ self._metric) * d).sum(-1) <= self._radius**2
        remainder = self._rows.reduce(self._request, params) - self._own.log_likelihood(params)
        return self._plain.log_likelihood(params) + np.where(near, remainder, 0.0)

    def follow(self, by_column: bool) -> Follower:
        """See `Surrogate`."""
        return Direct(self.log_likelihood)
