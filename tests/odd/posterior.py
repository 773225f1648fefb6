"""Right answers, computed without the package: a mode by Newton's method, and importance sampling around it.

A `Problem` has the design as the case says it should be, column by column, made by NumPy from the raw values. The prior
is what `fit.prior` states in words. Proposals are Student-t with the mode's curvature. With groups there is such a
mode, and a sample around it, for each of many values of the effects' sd, and what is in between is summed up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odd.likelihood import derivatives, log_likelihoods
from odd.problem import Problem, Reference
from odd.stated import Stated

Array = NDArray[np.float64]

DRAWS, MOST_DRAWS, DRAWS_OF_EACH = 4_000, 64_000, 250
ENOUGH = 1_000.0  # effective draws of the importance sampler; with fewer it looks again
DF, WIDER = 5.0, 4.0
STEPS = 200  # of Newton's method at the most
SPACING = 0.3  # of the logarithm of the effects' sd
NOISE = 0.1  # rounding errors of a log posterior above which the posterior is taken for the Normal that it then is


class UnsettledError(Exception):
    """The importance sampler has not found the posterior, so that nothing can be judged."""


class Target:
    """A log posterior, with all that is known of it.

    A point is (coefficients, effects, log sd): the coefficients in directions `turn` in which columns are centered and
    have a size of one, the effects if there are groups, the log sd if outcomes are Gaussian.
    """

    def __init__(self, problem: Problem, priors: list[Stated], of_sd: Stated | None, of_sigma: Stated | None) -> None:
        self.problem, self.priors, self.of_sd, self.of_sigma = problem, priors, of_sd, of_sigma
        arrays = problem.arrays
        x, y, self.weights, offset = (arrays[name] for name in ("x", "y", "weights", "offset"))
        self.gaussian, self.size, self.count = problem.family == "gaussian", len(x), len(problem.levels)
        self.unit = max(float(np.abs(y - offset).max()), 1e-300) if self.gaussian else 1.0
        self.y, self.offset, plain = y / self.unit, offset / self.unit, _turn(x)
        dummies = np.arange(self.count)[:, None] == arrays.get("codes", np.zeros(0))
        self.z = np.concatenate([plain.T @ x, dummies]) if self.count else plain.T @ x
        means = x @ (self.weights / self.weights.sum())
        rows = [means / means[j] if prior.at_means else np.eye(self.size)[j] for j, prior in enumerate(priors)]
        self.x, self.turn, self.of = x, plain * self.unit, np.array(rows)  # the last: what each prior is of, as a row
        self.functionals = self.of @ self.turn

    def noise(self, theta: Array) -> float:
        """How far rounding may put a log posterior off."""
        eta = theta[:, : self.size] @ self.x / self.unit
        size, shape = np.abs(self.y) + self.problem.arrays["trials"], self.problem.shape
        if self.problem.family == "negative_binomial":
            size = 1 + size / (size / shape + 1)
        elif self.problem.family == "gamma":
            size = shape
        elif self.gaussian:
            size = self.unit / float(theta[:, self.size + self.count].mean())
        largest = np.abs(eta).max(0) + np.abs(self.offset)
        return float(np.finfo(float).eps * (self.weights * size * (largest + (not self.gaussian))).sum())

    def log_posterior(self, theta: Array) -> Array:
        """Log posterior of parameters (draw, parameter) in the order of `Problem.names`, up to a constant."""
        coefficients, effects = theta[:, : self.size], theta[:, self.size : self.size + self.count]
        eta = coefficients @ self.x / self.unit + self.offset
        if self.count:
            eta = eta + effects[:, self.problem.arrays["codes"].astype(int)] / self.unit
        sd = theta[:, self.size + self.count] if self.gaussian else np.ones(len(theta))
        found = self._data(eta, sd)
        for functional, prior in zip(self.of, self.priors, strict=True):
            found = found + prior.log_density(coefficients @ functional)
        return found + self._rest(effects, sd, theta[:, -1])

    def _data(self, eta: Array, sd: Array) -> Array:
        problem = self.problem
        scaled = sd[:, None] / self.unit if self.gaussian else 1.0
        rows = log_likelihoods(problem.family, problem.shape, self.y, problem.arrays["trials"], eta, scaled)
        found = np.where(self.weights > 0, self.weights * rows, 0.0).sum(1)
        return np.where(np.isnan(found), -np.inf, found)

    def _rest(self, effects: Array, sd: Array, sigma: Array) -> Array:
        found = np.zeros(len(effects))
        if self.of_sd is not None:
            found = found + self.of_sd.log_density(sd)
        if self.of_sigma is not None:
            scaled = effects / sigma[:, None]
            found = found + self.of_sigma.log_density(sigma) - 0.5 * (scaled**2).sum(1) - self.count * np.log(sigma)
        return found

    def log_density(self, points: Array, sigma: float) -> Array:
        """Log density of points at one sd of the effects, by the log of that sd as well."""
        sd = self.unit * np.exp(points[:, -1]) if self.gaussian else np.ones(len(points))
        found = self._data(points[:, : len(self.z)] @ self.z + self.offset, sd)
        at = points[:, : self.size] @ self.functionals.T
        found = found + sum(prior.log_density(at[:, j]) for j, prior in enumerate(self.priors))
        if self.gaussian:
            found = found + points[:, -1]
        effects = self.unit * points[:, self.size : self.size + self.count]
        return found + self._rest(effects, sd, np.full(len(points), sigma)) + (np.log(sigma) if self.count else 0.0)

    def parameters(self, points: Array, sigma: float) -> Array:
        """The parameters that points stand for."""
        parts = [points[:, : self.size] @ self.turn.T]
        if self.count:
            parts.append(self.unit * points[:, self.size : self.size + self.count])
        if self.gaussian:
            parts.append(self.unit * np.exp(points[:, [-1]]))
        return np.concatenate([*parts, *([np.full((len(points), 1), sigma)] if self.count else [])], axis=1)

    def start(self) -> Array:
        """A point that is not too far: least squares for what is like the outcomes, or like their logarithm."""
        point, y = np.zeros(len(self.z) + self.gaussian), self.y - self.offset
        if self.problem.family in ("poisson", "negative_binomial", "gamma"):
            smallest = 0.0 if self.problem.family == "gamma" else 0.5
            y = np.log(np.maximum(self.y, smallest)) - self.offset
        elif not self.gaussian:
            return point
        constant, own = point.copy(), self.z[: self.size]
        point[: self.size] = np.linalg.lstsq(own.T, y, rcond=1e-10)[0]
        if self.gaussian:
            point[-1] = np.log(max(float((y - point[: self.size] @ own).std()), 1e-8))
            return point
        constant[0] = np.log(np.average(self.y / self.y.max(), weights=self.weights)) + np.log(self.y.max())
        return max([point, constant], key=lambda one: float(self.log_density(one[None], self.unit)[0]))

    def slopes(self, point: Array, sigma: float) -> tuple[Array, Array]:
        """The gradient of the log density at a point, and minus its curvature."""
        sd = np.exp(point[-1]) if self.gaussian else np.float64(1.0)
        problem, size = self.problem, len(self.z)
        eta = point[:size] @ self.z + self.offset
        first, second = derivatives(problem.family, problem.shape, self.y, problem.arrays["trials"], eta, sd)
        first, second = (np.where(self.weights > 0, self.weights * one, 0.0) for one in (first, second))
        gradient, curvature = np.zeros(len(point)), np.zeros((len(point), len(point)))
        gradient[:size], curvature[:size, :size] = self.z @ first, (self.z * second) @ self.z.T
        if self.gaussian:
            rest = (self.y - eta) / sd
            gradient[-1] = self.weights @ (rest**2 - 1) + 1
            curvature[:size, -1] = curvature[-1, :size] = 2 * self.z @ first
            curvature[-1, -1] = 2 * self.weights @ rest**2
            slope, precision = self.of_sd.slope(self.unit * sd)
            gradient[-1] += slope * self.unit * sd
            curvature[-1, -1] += 2 * precision * self.unit * sd * self.unit * sd
        for functional, prior in zip(self.functionals, self.priors, strict=True):
            slope, precision = prior.slope(float(functional @ point[: self.size]))
            gradient[: self.size] += slope * functional
            curvature[: self.size, : self.size] += precision * np.outer(functional, functional)
        if self.count:
            own = slice(self.size, self.size + self.count)
            gradient[own] -= point[own] * (self.unit / sigma) ** 2
            curvature[own, own] += np.eye(self.count) * (self.unit / sigma) ** 2
        return gradient, curvature


def _turn(x: Array) -> Array:
    """Directions in which columns (column, row) have a size of one, and are centered if the first is constant."""
    size = np.abs(x).max(1)
    scaled = x / np.where(size > 0, size, 1.0)[:, None]
    away = np.eye(len(x))
    if (scaled[0] == 1).all():
        away[0, 1:] = -scaled[1:].mean(1)
    own = np.abs(away.T @ scaled).max(1)
    return away / np.where(own > 0, own, 1.0) / np.where(size > 0, size, 1.0)[:, None]


_KNOWN: dict[tuple[Any, ...], Reference] = {}


def reference(problem: Problem, prior: Mapping[str, str]) -> Reference:
    """The right posterior of a problem under a prior in words; computed once."""
    priors = [Stated.read(prior[name]) for name in problem.columns]
    of_sd = Stated.read(prior["sd"]) if problem.family == "gaussian" else None
    of_sigma = None if problem.groups is None else Stated.read(prior[f"1|{problem.groups[0]}_sigma"])
    arrays = tuple(values.tobytes() for values in problem.arrays.values())
    key = (problem.family, problem.shape, *priors, of_sd, of_sigma, *arrays)
    if key not in _KNOWN:
        with np.errstate(all="ignore"):
            target = Target(problem, priors, of_sd, of_sigma)
            _KNOWN[key] = _by_groups(target) if target.count else _plain(target)
    return _KNOWN[key]


def climb(target: Target, sigma: float, start: Array) -> tuple[Array, Array]:
    """The mode, and a root of minus the inverse curvature there."""
    point, value = start, float(target.log_density(start[None], sigma)[0])
    for _ in range(STEPS):
        gradient, curvature = target.slopes(point, sigma)
        root = _root(curvature)
        step, part = root @ (root.T @ gradient), 1.0
        while part > 1e-9:
            there = point + part * step
            found = float(target.log_density(there[None], sigma)[0])
            if found >= value - 1e-12 * abs(value):
                break
            part /= 3
        if part <= 1e-9:
            break
        point, gain, value = there, found - value, found
        if gain < 1e-9 and float(gradient @ step) < 1e-9:
            break
    return point, _root(target.slopes(point, sigma)[1])


def _root(curvature: Array) -> Array:
    """A matrix R with R R' = the inverse of a curvature, which is made positive if need be."""
    scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(curvature)), 1e-300))
    values, vectors = np.linalg.eigh(np.nan_to_num(curvature * np.outer(scale, scale)))
    return scale[:, None] * vectors / np.sqrt(np.maximum(np.abs(values), 1e-14))


def _plain(target: Target) -> Reference:
    center, root = climb(target, 1.0, target.start())
    rng, draws = np.random.default_rng(1), DRAWS
    if not target.noise(target.parameters(center + root.T, 1.0)) < NOISE:
        points = center + rng.standard_normal((draws, len(center))) @ root.T
        return Reference(target.parameters(points, 1.0), np.full(draws, 1 / draws), target)
    while True:
        points, log_weights = _around(target, 1.0, center, root, draws, rng)
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        effective = 1 / (weights**2).sum()
        if effective >= ENOUGH:
            return Reference(target.parameters(points, 1.0), weights, target)
        if not effective > 0 or draws >= MOST_DRAWS:
            raise UnsettledError(f"the importance sampler has only {effective:.0f} effective draws")
        draws *= 2
        flat = np.minimum(weights, 10 / draws)  # so that one draw does not decide where to look next
        flat /= flat.sum()
        center = flat @ points
        root = np.linalg.cholesky(1.2 * (flat * (points - center).T) @ (points - center) + 1e-12 * root @ root.T)


def _by_groups(target: Target) -> Reference:
    """Samples at many values of the effects' sd, from far below to far above what it may be."""
    rng, unit = np.random.default_rng(1), target.unit if target.gaussian else 1.0
    start, parts, weights = target.start(), [], []
    for sigma in unit * np.exp(np.arange(np.log(3e-4), np.log(300), SPACING)):
        start, root = climb(target, float(sigma), start)
        points, log_weights = _around(target, float(sigma), start, root, DRAWS_OF_EACH, rng)
        parts.append(target.parameters(points, float(sigma)))
        weights.append(log_weights)
    log_weights = np.concatenate(weights)
    found = np.exp(log_weights - log_weights.max())
    found /= found.sum()
    if not 1 / (found**2).sum() > ENOUGH / 2:
        raise UnsettledError(f"the importance sampler has only {1 / (found**2).sum():.0f} effective draws")
    return Reference(np.concatenate(parts), found, target)


def _around(
    target: Target, sigma: float, center: Array, root: Array, draws: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Student-t draws and the logarithms of their importance weights.

    Half of the draws are from a wider one: where a prior has a peak of its own, the mode's curvature tells little.
    """
    size = len(center)
    z = rng.standard_normal((draws, size)) * np.sqrt(DF / rng.chisquare(DF, draws))[:, None]
    z *= np.where(np.arange(draws) % 2, 1.0, WIDER)[:, None]
    points = center + z @ root.T
    square = (z * z).sum(1)
    narrow, wide = (
        -0.5 * (DF + size) * np.log1p(square / width**2 / DF) - size * np.log(width) for width in (1, WIDER)
    )
    proposed = np.logaddexp(narrow, wide) - np.linalg.slogdet(root)[1]
    found = target.log_density(points, sigma) - proposed
    return points, np.where(np.isnan(found), -np.inf, found)
