"""The posterior mode of a user's own model and the curvature there, with derivatives or by differences.

Newton's method, first on some of the rows and then on all of them. Where the model has no derivatives, differences
stand in for them: over a quarter of a posterior standard deviation the log-likelihood of many rows is nearly a
quadratic, and differences lose few digits. What is built on the mode need not be exact: it is for proposals, and for
surrogates that all rows check.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallbayes.models.first import LOOKED_AT
from tallbayes.models.limits import check_height
from tallbayes.models.mode import Mode, climb, factor_of, uphill
from tallbayes.own.function import NotFiniteError
from tallbayes.rows.tasks import Derivatives

if TYPE_CHECKING:
    from tallbayes.own.model import Model

Array = NDArray[np.float64]

CLOSE = 0.01  # length of the last step on some rows, in posterior standard deviations
NEARBY = 0.1  # on all rows
STEP = 0.25  # of differences, in standard deviations
FIRST_STEP = 1e-3  # of differences before anything is known
MANY = 20  # parameters from which on second differences of all rows cost too much
LONGEST = 100.0  # step for each parameter, in standard deviations


def find_mode(model: Model, rng: np.random.Generator) -> Mode:
    """The mode nearest to the model's start."""
    start, before = model.parameters.free(model.parameters.start), model.rows.passes
    few = model.few(LOOKED_AT, rng) if model.rows.size > 2 * LOOKED_AT else model
    looked = climb(_Look(few), _newton, start, CLOSE)
    if not looked.converged:
        raise ValueError(_lost(model, looked.theta))
    if few is model:
        return _mode(model, looked.theta, looked.here, model.rows.passes - before)
    look = _Look(model, _step(looked.here))
    if model.function.derivatives is None and start.size > MANY:
        look = _Slopes(model, _step(looked.here), uphill(looked.here.curvature[0], looked.here.gradient[0])[0])
    top = climb(look, _newton, looked.theta, NEARBY)
    if not top.converged:
        raise ValueError(_lost(model, top.theta))
    return _mode(model, top.theta, top.here, model.rows.passes - before)


class _Look:
    """The height of the log posterior at a point, and its expansion there."""

    def __init__(self, model: Model, scale: Array | None = None) -> None:
        self._model, self._scale = model, scale  # of differences, once something is known
        self._looked, self._highest = False, -np.inf

    def __call__(self, u: Array) -> tuple[float, Derivatives]:
        """A step to where there is no posterior is too long, and no error, unless it is the first look."""
        try:
            height, here = self._at(u)
        except NotFiniteError:
            if not self._looked:
                raise
            nothing = np.full((1, u.size), np.nan)
            return -np.inf, Derivatives(nothing[0, :1], nothing, nothing[..., None])
        self._looked = True
        return height, here

    def _at(self, u: Array) -> tuple[float, Derivatives]:
        if self._model.function.derivatives is None:
            scale = FIRST_STEP * np.maximum(1.0, np.abs(u)) if self._scale is None else self._scale
            here = differences(partial(_finite, self._model), u, scale)
            if here.value[0] > self._highest:  # steps that went too far know nothing of distances where the way goes on
                self._scale, self._highest = _step(here), here.value[0]
        else:
            value, gradient, curvature = self._model.derivatives(u)
            slope, bend = prior_expansion(self._model, u)
            height = value + float(self._model.log_prior(u)[0])
            here = Derivatives(np.array([height]), (gradient + slope)[None], (curvature + bend)[None])
        return float(here.value[0]), here


class _Slopes(_Look):
    """The same with one curvature everywhere, where that of all rows would cost too much."""

    def __init__(self, model: Model, scale: Array, curvature: Array) -> None:
        super().__init__(model, scale)
        self._curvature = curvature

    def _at(self, u: Array) -> tuple[float, Derivatives]:
        assert self._scale is not None
        steps = np.diag(self._scale)
        found = _finite(self._model, np.concatenate([u[None], u + steps, u - steps]))
        up, down = np.split(found[1:], 2)
        gradient = (up - down) / (2 * self._scale)
        return float(found[0]), Derivatives(found[:1], gradient[None], self._curvature[None])


def differences(log_density: Callable[[Array], Array], u: Array, scale: Array, mixed: bool = True) -> Derivatives:
    """Value, gradient and minus the curvature of a log density at u, from its values at points around it.

    Without `mixed`, second derivatives along two parameters are taken for zero.
    """
    p, steps = u.size, np.diag(scale)
    pairs = [(j, k) for j in range(p) for k in range(j)] if mixed else []
    both = np.array([steps[j] + steps[k] for j, k in pairs]).reshape(-1, p)
    found = log_density(np.concatenate([u[None], u + steps, u - steps, u + both, u - both]))
    here, up, down = found[0], found[1 : p + 1], found[p + 1 : 2 * p + 1]
    further, back = np.split(found[2 * p + 1 :], 2)
    curvature = np.diag((2 * here - up - down) / scale**2)
    for (j, k), far, near in zip(pairs, further, back, strict=True):
        bend = far - up[j] - up[k] + 2 * here - down[j] - down[k] + near
        curvature[j, k] = curvature[k, j] = -bend / (2 * scale[j] * scale[k])
    return Derivatives(np.array([here]), ((up - down) / (2 * scale))[None], curvature[None])


def _finite(model: Model, points: Array) -> Array:
    """Log posteriors, which must be finite for differences to mean anything."""
    found = model.log_posterior(points)
    if not np.isfinite(found).all():
        worst = points[int(np.argmin(np.isfinite(found)))]
        raise NotFiniteError(
            f"the posterior is zero where {model.parameters.shapes.told(model.parameters.natural(worst))}; "
            "start where rows are possible, and give positive parameters a prior such as tb.HalfNormal"
        )
    return found


def prior_expansion(model: Model, u: Array) -> tuple[Array, Array]:
    """Gradient and minus the curvature of the log prior, by differences: they touch no rows."""
    scale = 1e-4 * np.maximum(1.0, np.abs(u))
    found = differences(model.log_prior, u, scale, model.parameters.joint)
    return found.gradient[0], found.curvature[0]


@np.errstate(over="ignore", invalid="ignore")
def _step(here: Derivatives) -> Array:
    """How far apart to take differences along each parameter."""
    return np.asarray(STEP / np.sqrt(np.diag(uphill(here.curvature[0], here.gradient[0])[0])))


@np.errstate(over="ignore", invalid="ignore")  # what does not curve at all is infinitely far
def _newton(u: Array, here: Derivatives) -> tuple[Array, float]:
    precision, step = uphill(here.curvature[0], here.gradient[0])
    length = float(step @ precision @ step) ** 0.5
    if length > LONGEST * u.size**0.5:  # far from the mode the curvature says little of what is there
        step = step * (LONGEST * u.size**0.5 / length)
    return step, float(here.gradient[0] @ step)


def _mode(model: Model, u: Array, here: Derivatives, passes: int) -> Mode:
    """The Gaussian at the mode; the log-likelihood's part of the expansion is what the prior leaves."""
    slope, bend = prior_expansion(model, u)
    precision = here.curvature[0]
    try:
        factor = factor_of(precision)
    except np.linalg.LinAlgError:
        raise ValueError(_lost(model, u)) from None
    center = u + factor @ (factor.T @ here.gradient[0])
    log_prior = float(model.log_prior(u[None])[0])
    value = float(here.value[0]) - log_prior
    check_height(value, log_prior)
    gradient, curvature = here.gradient[0] - slope, precision - bend
    return Mode(u, value, gradient, curvature, precision, center, factor, passes)


def _lost(model: Model, u: Array) -> str:
    x = model.parameters.natural(u)
    return (
        f"the posterior mode was not found; the search ended where {model.parameters.shapes.told(x)}. Start nearer to "
        "it, see whether the log-likelihood has the right sign, and whether the data tell all parameters apart"
    )
