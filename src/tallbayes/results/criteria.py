"""What models are compared by: the log predictive density of each row, by leaving it out or by a penalty."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tallbayes.results.psis import left_out

Array = NDArray[np.float64]


class Density(NamedTuple):
    """Of each row: its expected log predictive density, and the effective number of parameters that it takes."""

    elpd: Array
    p: Array
    k: Array | None = None  # of the weights, where there are any


class Criterion(Protocol):
    """How a row is judged."""

    kind: ClassVar[str]

    def near(self, values: Array, weights: Array) -> Density:
        """From log-likelihoods (row, point) at points with weights that stand for the draws."""

    def exact(self, values: Array, efficiency: float) -> Density:
        """From log-likelihoods (row, draw); draws are worth a share of so many independent ones."""


class Loo:
    """Leave-one-out: the density of a row by the posterior of all others."""

    kind: ClassVar[str] = "loo"

    def near(self, values: Array, weights: Array) -> Density:
        """See `Criterion`."""
        elpd = -_log_mean(-values, weights)
        return Density(elpd, _log_mean(values, weights) - elpd)

    def exact(self, values: Array, efficiency: float) -> Density:
        """See `Criterion`."""
        elpd, k = left_out(values, efficiency)
        return Density(elpd, _log_mean(values, np.full(values.shape[1], 1 / values.shape[1])) - elpd, k)


class Waic:
    """The widely applicable information criterion: the density by all rows, less the log-likelihood's variance."""

    kind: ClassVar[str] = "waic"

    def near(self, values: Array, weights: Array) -> Density:
        """See `Criterion`."""
        away = values - values[:, :1]
        p = (away - (away * weights).sum(1, keepdims=True)) ** 2
        penalty = (p * weights).sum(1)
        return Density(_log_mean(values, weights) - penalty, penalty)

    def exact(self, values: Array, efficiency: float) -> Density:
        """See `Criterion`."""
        return self.near(values, np.full(values.shape[1], 1 / values.shape[1]))


CRITERIA: dict[str, Any] = {one.kind: one() for one in (Loo, Waic)}


def _log_mean(values: Array, weights: Array) -> Array:
    """Log of the mean of e^values along the second axis."""
    highest = values.max(1)
    return np.asarray(highest + np.log((np.exp(values - highest[:, None]) * weights).sum(1)))
