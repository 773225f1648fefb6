"""The posterior mode and the curvature there.

Newton's method with a line search, started on a weighted subsample and finished on all rows, where each pass gives
value, gradient and curvature at once. It stops when the next step is a small fraction of a posterior standard
deviation: what is built on the mode expands the log-likelihood at this point, gradient included, so the last digits
do not matter.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from tallbayes.models.glm import GLM
from tallbayes.priors import Prior
from tallbayes.rows import Derivatives, LogLikelihoodDerivatives

Array = NDArray[np.float64]

COLLINEAR = 1e-11  # share of a column's variance that the columns before it leave unexplained
CONVERGED = 1e-4  # length of the last step, in posterior standard deviations
PILOT_ROWS = 20_000


class SeparationWarning(UserWarning):
    """The data alone puts no finite value on a coefficient; the prior decides."""


@dataclass(frozen=True)
class Mode:
    """The log-likelihood's expansion at theta, and the Gaussian that it makes of the posterior."""

    theta: Array  # (p,) where the log-likelihood is expanded
    log_likelihood: float
    gradient: Array  # (p,) of the log-likelihood, summed over all rows
    curvature: Array  # (p, p) minus its second derivatives
    precision: Array  # (p, p) of the Gaussian: curvature + prior precision
    center: Array  # (p,) mean of the Gaussian: theta and one more Newton step
    factor: Array  # (p, p) with factor @ factor.T = precision^-1
    passes: int  # over all rows

    @property
    def sd(self) -> Array:
        """Standard deviations of the Gaussian."""
        return np.asarray(np.sqrt((self.factor**2).sum(1)))

    @property
    def conditional_sd(self) -> Array:
        """Standard deviation of each coefficient given the others."""
        return np.asarray(1 / np.sqrt(np.diag(self.precision)))


def find_mode(model: GLM, rng: np.random.Generator) -> Mode:
    """The posterior mode of the model, warning of separation and refusing collinear columns.

    >>> model = GLM("y ~ x", {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]})
    >>> find_mode(model, np.random.default_rng(1)).theta.round(1)
    array([-1.3,  0.9])
    """
    theta = np.zeros(len(model.coefficients))
    if model.rows.size > 4 * PILOT_ROWS:
        pilot = model.rows.sample({0: PILOT_ROWS, 1: PILOT_ROWS}, rng, by="outcome")
        request = LogLikelihoodDerivatives(model.family.tag)
        theta = _climb(lambda at: pilot.sum(request, at), model.prior, theta).theta
    top = _climb(model.derivatives, model.prior, theta, lambda here: _refuse_collinear(model.coefficients, here))
    if not top.converged:
        raise ValueError("the posterior mode was not found; look for columns in extreme units and scale them")
    _warn_of_separation(model, top)
    precision, factor, step = _newton(model.prior, top.theta, top.here)
    here = top.here
    return Mode(
        top.theta,
        float(here.value[0]),
        here.gradient[0],
        here.curvature[0],
        precision,
        top.theta + step,
        factor,
        top.passes,
    )


class _Climb(NamedTuple):
    theta: Array
    here: Derivatives
    last: Array  # the last step taken
    passes: int
    converged: bool


def _climb(
    derivatives: Callable[[Array], Derivatives],
    prior: Prior,
    theta: Array,
    inspect: Callable[[Derivatives], None] = lambda here: None,
    most: int = 100,
) -> _Climb:
    """Newton's method with a line search; `inspect` sees the derivatives at the start."""
    here, last, passes = derivatives(theta), np.zeros_like(theta), 1
    inspect(here)
    height = here.value[0] + prior.log_density(theta)
    for _ in range(most):
        precision, _, step = _newton(prior, theta, here)
        decrement = float(step @ precision @ step)  # the squared length of the step in posterior sds
        if decrement < CONVERGED**2:
            return _Climb(theta, here, last, passes, True)
        scale = 1.0
        while True:
            there = theta + scale * step
            found, passes = derivatives(there), passes + 1
            reached = found.value[0] + prior.log_density(there)
            if reached >= height + 1e-4 * scale * decrement:
                break
            if scale * decrement**0.5 < CONVERGED:  # as high as rounding lets us get
                return _Climb(theta, here, last, passes, True)
            scale /= 4
        theta, here, height, last = there, found, reached, scale * step
    return _Climb(theta, here, last, passes, False)


def _newton(prior: Prior, theta: Array, here: Derivatives) -> tuple[Array, Array, Array]:
    """Posterior precision, a factor of its inverse, and the Newton step."""
    precision = here.curvature[0] + np.diag(prior.precision)
    # Columns in unlike units differ by many orders of magnitude: factor the matrix with a unit diagonal.
    scale = 1 / np.sqrt(np.diag(precision))
    root = np.linalg.cholesky(precision * np.outer(scale, scale))
    factor = scale[:, None] * solve_triangular(root, np.eye(theta.size), lower=True).T
    return precision, factor, factor @ (factor.T @ (here.gradient[0] + prior.gradient(theta)))


def _refuse_collinear(coefficients: Sequence[str], here: Derivatives) -> None:
    """Raise if a column is a linear combination of those before it: the data cannot tell them apart."""
    curvature = here.curvature[0]
    scale = np.sqrt(np.diag(curvature))
    for name, length in zip(coefficients, scale, strict=True):
        if not np.isfinite(length):
            raise ValueError(f"column {name!r} holds numbers too large to square; give it in other units")
        if length == 0:
            raise ValueError(f"column {name!r} is zero in every row; drop it from the formula")
    gram = curvature / np.outer(scale, scale)
    for j in range(1, scale.size):
        weights = cho_solve(cho_factor(gram[:j, :j]), gram[:j, j])
        if gram[j, j] - gram[j, :j] @ weights < COLLINEAR:
            used = [repr(name) for name, w in zip(coefficients, weights, strict=False) if abs(w) > 1e-6]
            raise ValueError(
                f"column {coefficients[j]!r} is a linear combination of {', '.join(used)}; "
                "the data cannot tell them apart, so drop one of them from the formula"
            )


def _warn_of_separation(model: GLM, top: _Climb) -> None:
    """Warn of coefficients that the likelihood alone would send to infinity.

    Only coefficients on which the prior has a say are suspect. If there are any, climb on with a prior a thousand
    times as wide: a finite maximum is reached in a few steps, whereas a coefficient on its way to infinity walks
    on.
    """
    factor = _newton(model.prior, top.theta, top.here)[1]
    sd = np.sqrt((factor**2).sum(1))
    suspect = sd**2 * model.prior.precision > 0.01
    if not suspect.any():
        return
    wide = Prior(model.prior.mean, model.prior.sd * 1000)
    far = _climb(model.derivatives, wide, top.theta, most=8)
    if far.converged:
        return
    walked = np.abs(far.theta - top.theta)
    endless = suspect & (walked > 0.1 * sd) & (np.abs(far.last) > 0.05 * walked)
    for name, on in zip(model.coefficients, endless, strict=True):
        if on:
            warnings.warn(
                f"the data alone puts no finite value on the coefficient of {name!r} (it separates the outcomes, or "
                "one of its levels has only zeros or only ones); its posterior rests on the prior",
                SeparationWarning,
                stacklevel=3,
            )
