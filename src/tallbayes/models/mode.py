"""The posterior mode and the curvature there.

Newton's method with a line search, started on a weighted subsample and finished on all rows, where each pass gives
value, gradient and curvature at once. On all rows the subsample tells how the curvature changes on the way, which makes
one step as good as two. It stops when the next step is a small fraction of a posterior standard
deviation: what is built on the mode expands the log-likelihood at this point, gradient included, so the last digits
do not matter.

A log-likelihood is concave, and with Normal priors so is the log posterior: there is one mode. A Student-t prior that
is much narrower than the likelihood makes two, one where the prior has its peak and one where the likelihood has. So
with priors that are not Normal Newton's method also starts at the likelihood's maximum, and from there with single
coefficients moved to where their prior has its peak; the mode with the largest mass is taken, and the others are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_kind, check_number
from tallbayes.models.cautions import TailWarning, warn, warn_of_pull, warn_of_separation
from tallbayes.models.collinear import COLLINEAR, refuse_collinear
from tallbayes.models.flat import flat_directions, pivots_of, without_prior
from tallbayes.models.glm import GLM
from tallbayes.models.limits import check_height, check_separated
from tallbayes.models.priors import Prior
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.tasks import Derivatives, LogLikelihoodDerivatives

Array = NDArray[np.float64]

CONVERGED = 1e-4  # length of the last step, in posterior standard deviations
NEARBY = 0.1  # the same, for those who only expand there, and have so many rows that a pass is dear
STEPS = 250  # Newton steps: from far above, an exponential mean comes down by a factor of e with each
MOST_STARTS, MOST_MODES = 10, 6  # of further climbs, and of further modes that are kept
MANY_STARTS = 5  # those with which all combinations of two coefficients are found
NEGLIGIBLE = 20.0  # log of how much less mass than the first a further mode may have, to be kept
NO_MODE = (
    "the posterior mode was not found; look for columns in extreme units and scale them, and if the family is your "
    "own, see that its constants suit the outcomes"
)


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
    log_mass: float = 0.0  # log integral of the posterior around it, by the Gaussian
    flat: int = 0  # leading columns of `factor` that span directions which the data leave flat, under a Student-t prior
    others: tuple[Mode, ...] = ()  # further modes whose mass is not negligible

    @property
    def dense(self) -> Mode:
        """The mode itself; not every mode has a full matrix of curvature."""
        return self

    @property
    def sd(self) -> Array:
        """Standard deviations of the Gaussian."""
        return np.asarray(np.sqrt((self.factor**2).sum(1)))

    @property
    def conditional_sd(self) -> Array:
        """Standard deviation of each coefficient given the others."""
        return np.asarray(1 / np.sqrt(np.diag(self.precision)))


def find_mode(model: GLM, close: float = CONVERGED) -> Mode:
    """Find the posterior mode of the model; warn of separation, and refuse collinear columns.

    The last step is shorter than `close`, in posterior standard deviations.

    >>> model = GLM("y ~ x", {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]})
    >>> find_mode(model).theta.round(1)
    array([-1.3,  0.9])
    """
    check_kind("model", model, GLM, "a model without groups, such as tb.GLM makes")
    check_number("close", close, above=0)
    theta, before = model.start, model.rows.passes
    moments = model.moments
    start = model.first.at_zero
    if not (np.diag(start.curvature[0]) > 0).any():
        raise ValueError(
            f"the log-likelihood of the family {model.family.name!r} does not curve anywhere near zero, so it has no "
            "maximum; see whether its expression is complete"
        )
    if model.whole:
        refuse_collinear(model.coefficients, moments.largest, start.curvature[0])

    def look(derivatives: Callable[[Array], Derivatives], at: Array) -> tuple[float, Derivatives]:
        found = derivatives(at)
        return float(found.value[0] + model.prior.log_density(at)), found

    def newton(at: Array, here: Derivatives) -> tuple[Array, float]:
        precision, _, step = _newton(model.prior, at, here)
        return step, float(step @ precision @ step)

    def anyhow(at: Array, here: Derivatives) -> tuple[Array, float]:
        try:
            return newton(at, here)
        except np.linalg.LinAlgError:
            slope = here.gradient[0] + model.prior.gradient(at)
            precision, step = uphill(here.curvature[0] + model.prior.precision(at), slope)
            return step, float(step @ precision @ step)

    step_from = anyhow
    if (few := rows_of_look(model)) is not None:
        guess = partial(few.reduce, LogLikelihoodDerivatives(model.family.tag))
        theta = climb(partial(look, guess), anyhow, theta, close).theta

        def informed(at: Array, here: Derivatives) -> tuple[Array, float]:
            step, decrement = anyhow(at, here)
            if decrement < close**2:
                return step, decrement
            return _step_by(partial(look, agreeing(guess, at, here)), newton, at, step), decrement

        step_from = informed
    top = climb(partial(look, model.derivatives), step_from, theta, close)
    require_top(top)
    named = "" if model.formula is None else f" {model.formula.outcome!r}"
    check_height(float(top.here.value[0]), float(model.prior.log_density(top.theta)), named)
    try:
        _newton(model.prior, top.theta, top.here)
    except np.linalg.LinAlgError:
        raise ValueError(
            "the posterior curves upwards where its slope is zero, so there is no mode; see whether the log-likelihood "
            "has the right sign, and if columns are in extreme units, scale them"
        ) from None
    if model.whole:
        separated = warn_of_separation(model.coefficients, model.derivatives, top, moments, start)
        check_separated(model.coefficients, separated, model.prior, moments)
        pull = model.prior.gradient(top.theta)
        warn_of_pull(model.coefficients, top.here.curvature[0], pull, separated)
    tops, flat = [top], np.zeros((theta.size, 0))
    if not model.prior.normal:
        peak, far, maximum = without_prior(model.derivatives, top.theta, top.here, start, moments.moves)
        flat = heavy_directions(model.prior, flat_directions(start, far, maximum), model.whole)
        starts = other_starts(model.prior, top.theta, peak, far.curvature[0])
        if len(starts) > MANY_STARTS:
            warn(
                "a Student-t prior much narrower than the likelihood gives several coefficients two modes each, and "
                "not all combinations of them are looked for: how much each weighs cannot be vouched for",
                TailWarning,
            )
        for point in starts:
            again = climb(partial(look, model.derivatives), newton, point)
            if again.converged and all(_apart(model.prior, again, one) for one in tops):
                tops.append(again)
    found = sorted((_mode(model.prior, one, flat) for one in tops), key=lambda one: -one.log_mass)
    others = tuple(one for one in found[1:] if one.log_mass > found[0].log_mass - NEGLIGIBLE)
    return replace(found[0], others=others[:MOST_MODES], passes=model.rows.passes - before)


def heavy_directions(prior: Prior, flat: Array, whole: bool) -> Array:
    """Those of some flat directions (p, f) along which a prior falls as a power of the distance.

    A part of the rows has the prior to a power, which may be too small a power for the posterior to be one.
    """
    heavy = flat[:, (flat[np.isfinite(prior.df)] != 0).any(0)]
    powers = np.where(heavy != 0, 2 * prior.exponent[:, None], 0.0).sum(0)
    if not whole and (powers <= 1).any():
        raise ValueError(
            "a shard's rows leave a coefficient without a finite value, and its share of the Student-t prior falls too "
            "slowly to give it one; use fewer shards, a Normal prior, or sharding='stratified'"
        )
    return np.asarray(heavy)


def _mode(prior: Prior, top: Climb, flat: Array) -> Mode:
    """The Gaussian at a top; the leading columns of its factor span the flat directions."""
    here, f = top.here, flat.shape[1]
    precision, factor, step = _newton(prior, top.theta, here)
    if f:
        # Along the first axes only flat directions move, along the others what is left of them moves too.
        basis = np.concatenate([flat, np.delete(np.eye(len(flat)), pivots_of(flat), axis=1)], axis=1)
        factor = basis @ factor_of(basis.T @ precision @ basis)
    mass = float(here.value[0] + prior.log_density(top.theta)) + float(np.linalg.slogdet(factor)[1])
    mass += 0.5 * len(flat) * math.log(2 * math.pi)
    gradient, curvature = here.gradient[0], here.curvature[0]
    center = top.theta + step
    return Mode(top.theta, float(here.value[0]), gradient, curvature, precision, center, factor, 0, mass, f)


def other_starts(prior: Prior, theta: Array, peak: Array, curvature: Array) -> list[Array]:
    """Where to look for further modes, given one of them, and the likelihood's maximum with its curvature.

    The likelihood alone makes each coefficient about Normal. Times its Student-t prior that may have two modes, the
    outer roots of a cubic. Each such coefficient is moved to the one near its prior with all others following as the
    likelihood has it; and to the other one by itself.
    """
    starts = [peak]
    scale = np.sqrt(np.diag(curvature))
    if not (scale > 0).all():
        return starts
    values, vectors = np.linalg.eigh(curvature / np.outer(scale, scale))
    if values[0] < COLLINEAR:
        return starts
    covariance = (vectors / values) @ vectors.T / np.outer(scale, scale)
    for j in np.flatnonzero(np.isfinite(prior.df)):
        mean, df, width, variance = prior.mean[j], prior.df[j], prior.scale[j] ** 2, covariance[j, j]
        away = peak[j] - mean
        pull = df * width + 2 * prior.exponent[j] * variance
        roots = np.roots([1.0, -away, pull, -away * df * width])
        real = np.sort(roots[np.abs(roots.imag) < 1e-9 * np.abs(roots).max()].real)
        if real.size == 3 and len(starts) + 2 <= MOST_STARTS:
            near, beyond = real[np.abs(real).argmin()], real[np.abs(real).argmax()]
            starts.append(peak + covariance[:, j] / variance * (mean + near - peak[j]))
            starts.append(np.where(np.arange(theta.size) == j, mean + beyond, theta))
    return starts


def _apart(prior: Prior, one: Climb, other: Climb) -> bool:
    """Whether two tops are farther apart than either is wide."""
    step = one.theta - other.theta
    widths = (step @ _newton(prior, top.theta, top.here)[0] @ step for top in (one, other))
    return bool(max(widths) > 1)


class Climb(NamedTuple):
    """Where a climb ended, what was seen there, and whether that is the top."""

    theta: Array
    here: Derivatives
    converged: bool


def climb(
    look: Callable[[Array], tuple[float, Derivatives]],
    newton: Callable[[Array, Derivatives], tuple[Array, float]],
    theta: Array,
    close: float = CONVERGED,
) -> Climb:
    """Newton's method with a line search, until the next step is shorter than `close`.

    `look` gives the height at a point and what else is seen there, `newton` the step from it and the squared length of
    the step, in posterior standard deviations.
    """
    height, here = look(theta)
    for _ in range(STEPS):
        step, decrement = newton(theta, here)
        if abs(decrement) < close**2:
            return Climb(theta, here, True)
        if not 0 < decrement < np.inf:  # no way up: it is curved upwards, or no number
            return Climb(theta, here, False)
        scale = 1.0
        while True:
            there = theta + scale * step
            reached, found = look(there)
            if reached >= height + 1e-4 * scale * decrement:
                break
            if scale * decrement**0.5 < close:  # as high as rounding lets us get, if there is a height at all
                return Climb(theta, here, bool(np.isfinite(reached)))
            scale /= 4
        theta, here, height = there, found, reached
    return Climb(theta, here, False)


def _newton(prior: Prior, theta: Array, here: Derivatives) -> tuple[Array, Array, Array]:
    """Posterior precision, a factor of its inverse, and the Newton step."""
    precision = here.curvature[0] + prior.precision(theta)
    factor = factor_of(precision)
    return precision, factor, factor @ (factor.T @ (here.gradient[0] + prior.gradient(theta)))


def uphill(precision: Array, slope: Array) -> tuple[Array, Array]:
    """A precision and its Newton step where the posterior curves upwards: as if it curved down as much.

    That is for log-likelihoods which are not concave, such as that of Student-t errors far from their mode.
    """
    scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(precision)), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(precision * np.outer(scale, scale))
    values = np.maximum(np.abs(values), 1e-3)
    upright = (vectors * values) @ vectors.T / np.outer(scale, scale)
    step = scale * (vectors @ (vectors.T @ (scale * slope) / values))
    return upright, step


def factor_of(precision: Array) -> Array:
    """A factor of the inverse, upper triangular: along its first column the first coefficient moves alone."""
    # Columns in unlike units differ by many orders of magnitude: factor the matrix with a unit diagonal.
    if not (np.diag(precision) > 0).all():
        raise np.linalg.LinAlgError("no precision: something curves upwards")
    scale = 1 / np.sqrt(np.diag(precision))
    root = np.linalg.cholesky(precision * np.outer(scale, scale))
    # (scipy's solve_triangular wakes all of OpenBLAS's threads for the smallest matrix.)
    return np.asarray(scale[:, None] * np.linalg.inv(root).T)


def agreeing(guess: Callable[[Array], Derivatives], at: Array, here: Derivatives) -> Callable[[Array], Derivatives]:
    """A function whose value, gradient and curvature at a point are those found there: what is guessed, corrected.

    Away from the point only changes of the curvature are guessed, so that it is much closer than the guess, and than
    the expansion at the point.

    >>> cubic = lambda at: Derivatives(at**3, 3 * at[None] ** 2, -6 * at[None, None])
    >>> one = np.array([1.0])
    >>> there = agreeing(cubic, one, Derivatives(np.array([5.0]), np.array([[0.0]]), np.array([[2.0]])))
    >>> there(one).value, there(one).curvature, there(2 * one).curvature
    (array([5.]), array([[[2.]]]), array([[[-4.]]]))
    """
    there = guess(at)
    value, gradient, curvature = (found[0] - own[0] for found, own in zip(here[:3], there[:3], strict=True))

    def derivatives(theta: Array) -> Derivatives:
        own, step = guess(theta), theta - at
        bent = curvature @ step
        height = value + gradient @ step - 0.5 * step @ bent
        return Derivatives(own.value + height, own.gradient + (gradient - bent), own.curvature + curvature)

    return derivatives


def _step_by(
    look: Callable[[Array], tuple[float, Derivatives]],
    newton: Callable[[Array, Derivatives], tuple[Array, float]],
    at: Array,
    step: Array,
) -> Array:
    """The way from a point to the top of a function, or the given step where it has none."""
    try:
        top = climb(look, newton, at)
    except np.linalg.LinAlgError:  # curved upwards, far from where it agrees with what is climbed
        return step
    return top.theta - at if top.converged else step


def rows_of_look(model: GLM) -> MemoryRows | None:
    """The rows of the first look, with weights, on which to climb first; none where there are few rows."""
    look = model.first.look
    return None if look is None else MemoryRows.of(look.weighted)


def require_top(top: Climb) -> None:
    """Raise if a climb did not end at the top."""
    if not top.converged:
        raise ValueError(NO_MODE)
