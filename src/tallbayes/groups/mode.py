"""The posterior mode of a model with group effects, given the effects' standard deviation tau, and what tau may be.

The joint mode of all three collapses to tau = 0. So the mode of coefficients and effects is found for a fixed tau, and
tau is moved to where the expansion there, with coefficients and effects integrated out, makes log tau most probable;
both in turn, until tau stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.families import Tag
from tallbayes.groups.arrow import Arrow, Expansion, gaussian
from tallbayes.groups.model import Hierarchical
from tallbayes.groups.scale import Power, ScalePrior
from tallbayes.models.cautions import warn_of_pull, warn_of_separation
from tallbayes.models.collinear import refuse_collinear
from tallbayes.models.flat import flat_directions, pivots_of, without_prior
from tallbayes.models.limits import check_height, check_separated
from tallbayes.models.mode import (
    NEGLIGIBLE,
    NO_MODE,
    Climb,
    Mode,
    climb,
    heavy_directions,
    require_top,
    rows_of_look,
)
from tallbayes.rows.protocol import Rows
from tallbayes.rows.tasks import Derivatives, LogLikelihoodDerivatives

Array = NDArray[np.float64]

FIRST_TAU, PINNED = 0.5, 1e-4  # where tau begins, and one that holds all effects at zero
CLOSE = 0.01  # length of the last step, in posterior standard deviations
STAYS = 0.05  # move of log tau below which it stays
ROUNDS = 20
REACH = np.linspace(-5.0, 4.0, 181)  # log tau is looked at so far from its present value
FALLEN = 25.0  # below the highest log density nothing is looked for


@dataclass(frozen=True)
class GroupMode:
    """The expansion at the mode for one tau, and the posterior of log tau that it makes."""

    model: Hierarchical
    at: Expansion
    tau: float
    scales: Array  # log tau, equally spaced
    weights: Array  # the probability of each
    zero: float  # likelihood of tau = 0 over its maximum, by the expansion
    flat: Array  # (p, f) directions of the coefficients that the data leave flat, under Student-t priors
    modes: int  # that are not negligible; this is the one with the largest mass
    passes: int  # over all rows

    @property
    def theta(self) -> Array:
        """The mode as a parameter vector."""
        return np.concatenate([self.at.beta, self.at.effects, [np.log(self.tau)]])

    @property
    def dense(self) -> Mode:
        """There is none: the curvature has the shape of an arrow."""
        raise ValueError("tb.Taylor is for models without group terms; with them, use method='thinned'")

    def gaussian(self, tau: float) -> Arrow:
        """The Gaussian of coefficients and effects given tau."""
        prior = self.model.prior
        return gaussian(self.at, prior.gradient(self.at.beta), prior.precision(self.at.beta), tau)

    @property
    def conditional_sd(self) -> Array:
        """Standard deviation of each coefficient and effect given all others."""
        own = np.diag(self.at.curvature + self.model.prior.precision(self.at.beta))
        return np.concatenate([1 / np.sqrt(own), 1 / np.sqrt(self.at.effect_curvature + self.tau**-2)])

    def draw(self, rng: list[np.random.Generator]) -> Array:
        """A parameter vector for each generator, from the expansion's posterior, and farther out where that is flat."""
        return np.array([self._draw(generator) for generator in rng])

    def _draw(self, rng: np.random.Generator) -> Array:
        place = np.searchsorted(np.cumsum(self.weights), rng.random()).clip(max=self.scales.size - 1)
        log_tau = self.scales[place]
        found, p = self.gaussian(np.exp(log_tau)), self.at.beta.size
        step = found.step + found.factor @ rng.standard_normal(p)
        effects = self.at.effects + found.shift - found.shares @ step
        effects += found.sd * rng.standard_normal(effects.size)
        beta = self.at.beta + step
        for direction, pivot in zip(self.flat.T, pivots_of(self.flat), strict=True):
            if beta[pivot] * self.at.beta[pivot] > 0:  # on the side that is flat
                beta = beta + np.expm1(2 * np.abs(rng.standard_normal())) * beta[pivot] * direction
        return np.concatenate([beta, effects, [log_tau]])

    @property
    def said(self) -> str:
        """The prior of tau and what the data say about tau = 0, in words."""
        return told_of_scale(self.model.group_prior, self.zero)


def told_of_scale(prior: ScalePrior | Power, zero: float) -> str:
    """A prior of tau and what the data say about tau = 0, whose likelihood is a share of the largest, in words.

    >>> from tallbayes.groups.scale import HalfNormal
    >>> told_of_scale(HalfNormal(1), 0.25)
    'their sd with prior HalfNormal(scale=1); equal groups (sd 0) have 0.25 of the largest likelihood'
    """
    data = f"equal groups (sd 0) have {zero:.2g} of the largest likelihood" if zero >= 1e-4 else ""
    return f"their sd with prior {prior}; {data or 'the data rule out equal groups'}"


def find_group_mode(model: Hierarchical) -> GroupMode:
    """The mode given tau, for the most probable tau; warns of separation and refuses collinear columns.

    >>> data = {"bank": ["a", "a", "a", "b", "b", "b"], "y": [0, 1, 0, 0, 0, 1]}
    >>> find_group_mode(Hierarchical("y ~ 1 + (1 | bank)", data)).at.beta.round(1)
    array([-0.7])
    """
    p, before = len(model.coefficients), model.rows.passes
    theta, tau = np.zeros(model.rows.width), FIRST_TAU
    moments, start = model.moments, model.first.at_zero
    if model.whole:
        refuse_collinear(model.coefficients, moments.largest, start.curvature[0])
    if model.family.tag_at_zero != model.family.tag:  # need not be concave, so begin where least squares are
        squares = partial(_look, model, model.rows, tau, tag=model.family.tag_at_zero)
        theta = climb(squares, partial(_newton, model, tau), theta, CLOSE).theta
    elif (rows := rows_of_look(model)) is not None:  # with few rows a group it says nothing on effects
        theta = climb(partial(_look, model, rows, PINNED), partial(_newton, model, PINNED), theta, CLOSE).theta
    top, scales, heights, mass = _settle(model, theta, tau)
    theta, at, modes = top.theta, expansion(top.theta, top.here), 1
    require_top(top)
    check_height(at.value, float(model.prior.log_density(at.beta)))

    def alone(beta: Array) -> Derivatives:
        """The coefficients with all effects where they are."""
        return model.derivatives(np.concatenate([beta, theta[p:]]))

    if model.whole:
        separated = warn_of_separation(model.coefficients, alone, top._replace(theta=theta[:p]), moments, start)
        check_separated(model.coefficients, separated, model.prior, moments)
        pull, held = model.prior.gradient(at.beta), model.prior.precision(at.beta)
        curvature = gaussian(at, pull, held, _most_probable(scales, heights)).precision - held
        warn_of_pull(model.coefficients, curvature, pull, separated)
    flat = np.zeros((p, 0))
    if not model.prior.normal:
        _, far, maximum = without_prior(alone, theta[:p], top.here, start, moments.moves)
        flat = heavy_directions(model.prior, flat_directions(start, far, maximum), model.whole)
        # Effects may have taken up what a narrow prior keeps from the intercept: the other climb begins without them.
        none = np.zeros(model.rows.width - p)
        peak = without_prior(
            lambda beta: model.derivatives(np.concatenate([beta, none])), np.zeros(p), start, start, moments.moves
        )[0]
        again = _settle(model, np.concatenate([peak, none]), FIRST_TAU)
        step = again[0].theta[:p] - theta[:p]
        apart = step @ (at.curvature + model.prior.precision(at.beta)) @ step > 1
        if again[0].converged and apart:
            modes += int(abs(again[3] - mass) < NEGLIGIBLE)
            if again[3] > mass:
                top, scales, heights, mass = again
                theta, at = top.theta, expansion(top.theta, top.here)
    tau = _most_probable(scales, heights)
    weights = np.exp(heights - heights.max())
    likelihood = np.array([_mass(model, at, np.exp(u)) for u in scales])
    mass_at_zero = _mass(model, at, 0.0)
    return GroupMode(
        model,
        at,
        tau,
        scales,
        weights / weights.sum(),
        float(np.exp(min(0.0, mass_at_zero - likelihood.max()))),
        flat,
        modes,
        model.rows.passes - before,
    )


def _settle(model: Hierarchical, theta: Array, tau: float) -> tuple[Climb, Array, Array, float]:
    """From a point to a mode given tau, and tau to its most probable value there, in turn, until tau stays.

    Returns the top, log tau and its log density there, and the log of the mass around it.
    """
    for _ in range(ROUNDS):
        top = climb(partial(_look, model, model.rows, tau), partial(_newton, model, tau), theta, CLOSE)
        theta = top.theta
        scales, heights = _scale_posterior(model, expansion(theta, top.here), tau)
        last, tau = tau, _most_probable(scales, heights)
        if abs(np.log(tau / last)) < STAYS:
            break
    mass = np.logaddexp.reduce(heights) + np.log(scales[1] - scales[0])
    return top, scales, heights, float(mass + model.prior.log_density(theta[: len(model.coefficients)]))


def _most_probable(scales: Array, heights: Array) -> float:
    """The most probable tau, from log densities of log tau."""
    return float(np.exp(scales[heights.argmax()]))


def log_prior_of_scales(model: Hierarchical, scales: Array) -> Array:
    """Log prior density of log tau."""
    return np.asarray(model.group_prior.log_density(np.exp(scales)) + scales)


def _look(
    model: Hierarchical, rows: Rows, tau: float, theta: Array, tag: Tag | None = None
) -> tuple[float, Derivatives]:
    found = rows.reduce(LogLikelihoodDerivatives(model.family.tag if tag is None else tag), theta)
    beta, effects = theta[: len(model.coefficients)], theta[len(model.coefficients) : -1]
    return float(found.value[0] + model.prior.log_density(beta) - 0.5 * (effects**2).sum() / tau**2), found


def _newton(model: Hierarchical, tau: float, theta: Array, here: Derivatives) -> tuple[Array, float]:
    at = expansion(theta, here)
    prior_slope = model.prior.gradient(at.beta)
    found = gaussian(at, prior_slope, model.prior.precision(at.beta), tau)
    effects = found.shift - found.shares @ found.step
    climbs = (at.slope + prior_slope) @ found.step + (at.effect_slope - at.effects / tau**2) @ effects
    return np.concatenate([found.step, effects, [0.0]]), float(climbs)


def expansion(theta: Array, here: Derivatives) -> Expansion:
    """What derivatives at a parameter vector say of coefficients and effects."""
    assert here.by_group is not None
    p, groups = here.gradient.shape[1], here.by_group[0]
    mixed, slope, curvature = np.ascontiguousarray(groups[:, :p]), groups[:, p].copy(), groups[:, p + 1].copy()
    dense = (here.gradient[0], here.curvature[0])
    return Expansion(theta[:p], theta[p:-1], float(here.value[0]), *dense, mixed, slope, curvature)


def _mass(model: Hierarchical, at: Expansion, tau: float) -> float:
    return gaussian(at, model.prior.gradient(at.beta), model.prior.precision(at.beta), tau).log_mass


def _scale_posterior(model: Hierarchical, at: Expansion, tau: float) -> tuple[Array, Array]:
    """Log density of log tau by the expansion, where it is not negligible."""
    scales: Any = np.log(tau) + REACH
    for _ in range(2):  # a second look where the first found something
        heights = np.array([_mass(model, at, np.exp(u)) for u in scales]) + log_prior_of_scales(model, scales)
        if not np.isfinite(heights.max()):
            raise ValueError(NO_MODE)
        there = scales[heights > heights.max() - FALLEN]
        if there.size > scales.size // 2:
            break
        step = scales[1] - scales[0]
        scales = np.linspace(there[0] - step, there[-1] + step, scales.size)
    return scales, heights
