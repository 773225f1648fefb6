"""The log-likelihood of single rows: at the draws of a posterior, and at a few points that stand for all of them.

Points stand for draws where these are too many for all rows. For a regression only the linear predictor eta of a row
matters. By the draws it has a mean and a variance, and three points of a Gauss-Hermite rule stand for a Normal with
these: mean and mean +- 3^(1/2) sd, with weights 2/3 and 1/6. The variance x' V x of each row, V being the covariance of
the coefficients and effects, is a sum of squares: V = R' R + D, with as many rows in R as there are coefficients, and a
diagonal D for what is left of the effects. Both are those of the very draws that the points stand for, so that what
follows from mean and variance is the same for both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tallbayes.families import Family
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.spread import predictors_and_variances

Array = NDArray[np.float64]

AWAY = 3.0**0.5  # of the outer points of the rule, in standard deviations
RULE = np.array([2 / 3, 1 / 6, 1 / 6])
PLACES = np.array([0.0, -AWAY, AWAY])
SLICE = 1_000  # effects whose draws are looked at together
NEGLIGIBLE = 1e-12  # relative to the largest, a standard deviation along which nothing varies


class Points(Protocol):
    """A few points that stand for all draws; small enough to travel to where rows are."""

    @property
    def weights(self) -> Array:
        """Of the points; they sum to one."""

    @property
    def looks(self) -> int:
        """How often a row is looked at."""

    def of(self, arrays: Arrays, start: int, stop: int) -> Array:
        """The log-likelihood (row, point) of the rows start..stop, were their weight one."""


class PerRow(Protocol):
    """The log-likelihood of single rows, all of it: densities of outcomes add up to one."""

    @property
    def points(self) -> Points:
        """A few points that stand for the draws."""

    def of(self, arrays: Arrays) -> Array:
        """The log-likelihood (row, draw) of all of some rows, were their weight one."""

    def outcomes(self, arrays: Arrays, rng: np.random.Generator) -> Array:
        """New outcomes (row, draw) of some rows."""


def log_density(family: Family, y: Array, eta: Array, sd: Array | None) -> Array:
    """Log density of outcomes y (row,) at linear predictors (row, ...); `sd` (...) is that of Normal errors.

    >>> from tallbayes.families import Poisson
    >>> log_density(Poisson(), np.array([2.0]), np.array([[0.0]]), None).round(3)
    array([[-1.693]])
    """
    y = y.reshape(-1, *(1 for _ in eta.shape[1:]))
    if sd is not None:
        return np.asarray(-0.5 * ((y - eta) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi))
    return np.asarray(family.tag.log_likelihood(y, eta) + family.constant(y))


@dataclass(frozen=True, eq=False)
class Regression:
    """Draws of a regression: coefficients (draw, p), effects (draw, group) if rows have groups, and the errors' sd."""

    family: Family
    beta: Array
    effects: Array | None = None
    sd: Array | None = None

    def of(self, arrays: Arrays) -> Array:
        """See `PerRow`."""
        return log_density(self.family, arrays.y, self._predictors(arrays), self.sd)

    def outcomes(self, arrays: Arrays, rng: np.random.Generator) -> Array:
        """See `PerRow`."""
        eta = self._predictors(arrays)
        return self.family.simulate(rng, eta) if self.sd is None else rng.normal(eta, self.sd)

    def _predictors(self, arrays: Arrays) -> Array:
        """Linear predictors (row, draw)."""
        params = self.beta
        if self.effects is not None:
            groups, codes = np.unique(arrays.codes, return_inverse=True)
            arrays = replace(arrays, codes=codes.astype(np.int32), groups=groups.size)
            params = np.concatenate([self.beta, self.effects[:, groups], np.zeros((len(self.beta), 1))], axis=1)
        return np.ascontiguousarray(arrays.predictors(params).T)

    @property
    def points(self) -> RegressionPoints:
        """See `PerRow`."""
        center = self.beta.mean(0)
        left, lengths, axes = np.linalg.svd((self.beta - center) / len(self.beta) ** 0.5, full_matrices=False)
        there = lengths > NEGLIGIBLE * max(lengths.max(initial=0.0), np.finfo(float).tiny)
        left, root = left[:, there], lengths[there, None] * axes[there]
        own = np.empty(0)
        if self.effects is not None:
            parts = [self._along(left, start) for start in range(0, self.effects.shape[1], SLICE)]
            means, along, rest = (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
            center, root, own = np.append(center, means), np.concatenate([root, along], axis=1), rest
        log_sd = None if self.sd is None else np.log(self.sd)
        errors = None if log_sd is None else np.exp(log_sd.mean() + PLACES * log_sd.std())
        return RegressionPoints(self.family, np.ascontiguousarray(np.vstack([center, root])), own, errors)

    def _along(self, left: Array, start: int) -> tuple[Array, Array, Array]:
        """Of some effects: their means, how they go with the coefficients, and the variance that is left."""
        assert self.effects is not None
        some = self.effects[:, start : start + SLICE]
        away = (some - some.mean(0)) / len(some) ** 0.5
        along = left.T @ away
        return some.mean(0), along, np.maximum((away**2).sum(0) - (along**2).sum(0), 0.0)


@dataclass(frozen=True, eq=False)
class RegressionPoints:
    """Three points of each row's linear predictor, and with each of them three of the errors' sd if there is one."""

    family: Family
    params: Array  # (1 + rank, p + groups): the center, and the root of the covariance
    own: Array  # (groups,) what is left of the effects' variance; empty without groups
    sd: Array | None

    @property
    def weights(self) -> Array:
        """See `Points`."""
        return RULE if self.sd is None else np.outer(RULE, RULE).ravel()

    @property
    def looks(self) -> int:
        """See `Points`."""
        return len(self.params)

    def of(self, arrays: Arrays, start: int, stop: int) -> Array:
        """See `Points`."""
        eta, variance = predictors_and_variances(arrays, self.params, self.own, start, stop)
        at = eta[:, None] + PLACES * np.sqrt(variance)[:, None]
        sd: Any = self.sd
        if sd is not None:
            at, sd = np.repeat(at, sd.size, axis=1), np.tile(sd, PLACES.size)
        return log_density(self.family, arrays.y[start:stop], at, sd)
