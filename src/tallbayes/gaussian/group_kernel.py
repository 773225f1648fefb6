"""Draws for a Gaussian regression with group effects: two standard deviations first, then all others given them.

The posterior of log s, s being the errors' standard deviation, and of u = log(tau^2 / s^2), tau being that of the
effects, has two dimensions (`group_sums.py`). Proposals for u come from a table of it, those for log s given u from a
Student-t around its mode there, and both together are decided by Metropolis-Hastings, which accepts nearly all. Given
them, coefficients are Normal, and given these the effects are, each by itself. Student-t priors are as in `kernel.py`.
All of it leaves the posterior as it is, and no row is touched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from tallbayes.data.once import once
from tallbayes.families.steady import log
from tallbayes.gaussian.group_sums import GroupsGiven, Heights, Reduced
from tallbayes.gaussian.kernel import DF, SumsKernel, factors
from tallbayes.gaussian.log_linear import LogLinear
from tallbayes.groups.arrow import Expansion
from tallbayes.groups.mode import told_of_scale
from tallbayes.sampling.kernel import Draws, Streams

if TYPE_CHECKING:
    from tallbayes.gaussian.group_model import GaussianGroups

Array = NDArray[np.float64]

REACH = np.arange(-60.0, 61.0, 2.0)  # u is looked at so far from where groups tell half of their effect
FEW, POINTS = 41, 161  # of a first table, and of the last
FALLEN = 25.0  # below the highest log density nothing is looked for
CLIMBS, CLOSE = 60, 1e-4  # steps to the mode of log s, at most, and the length of the last of them


class State(NamedTuple):
    """Where the chains are."""

    theta: Array  # (chains, p + k + 2): coefficients, effects, log tau, sd
    at: Array  # (chains, 2): log s and u, with all their digits


class Table(NamedTuple):
    """The law of u, and the mode and the scale of log s at each of its points."""

    law: LogLinear
    mode: Array
    scale: Array
    zero: float  # likelihood of equal groups over its maximum

    def propose(self, normal: Array) -> tuple[Array, Array]:
        """log s and u from standard Normal noise (several, 2)."""
        u = self.law.inverse(ndtr(normal[:, 0]))
        mode, scale = self._near(u)
        return mode + scale * stdtrit(DF, ndtr(normal[:, 1])), u

    def log_density(self, log_sd: Array, u: Array) -> Array:
        """Of proposals, up to a constant."""
        mode, scale = self._near(u)
        away = (log_sd - mode) / scale
        return np.asarray(self.law.log_density(u) - np.log(scale) - 0.5 * (DF + 1) * np.log1p(away**2 / DF))

    def _near(self, u: Array) -> tuple[Array, Array]:
        points = self.law.points
        return np.interp(u, points, self.mode), np.exp(np.interp(u, points, np.log(self.scale)))


class Around(NamedTuple):
    """What a result says of groups besides their effects; see `groups/result.py`."""

    model: GaussianGroups
    at: Expansion
    zero: float

    @property
    def said(self) -> str:
        """The prior of tau and what the data say about tau = 0, in words."""
        return told_of_scale(self.model.group_prior, self.zero)


@dataclass(frozen=True)
class GaussianGroupKernel(SumsKernel):
    """Independent draws, or nearly; with Student-t priors a Gibbs sampler of few dimensions."""

    model: GaussianGroups

    @once
    def _plain(self) -> GroupsGiven:
        """With Student-t priors taken for Normal ones of the same scale."""
        return given(self.model, np.ones(self.model.prior.mean.size))

    @once
    def _table(self) -> Table:
        return table(self.model, self._plain)

    @once
    def top(self) -> tuple[Expansion, float, float]:
        """The rows at coefficients where the posterior is about highest, s and tau."""
        found, at = self._table, self.model.sums.at
        place = int(found.law.heights.argmax())
        log_sd, u = found.mode[[place]], found.law.points[[place]]
        step = self._plain.heights(log_sd, u).mean[0]
        there = at._replace(beta=at.beta + step, effect_slope=at.effect_slope - at.mixed @ step)
        return there, float(np.exp(log_sd[0])), float(np.exp(log_sd[0] + 0.5 * u[0]))

    @property
    def initial(self) -> Around:
        """What is known of the groups there."""
        return Around(self.model, self.top[0], self._table.zero)

    def start(self, rng: Streams, theta: Array | None = None) -> State:
        """Chains at `theta`, or at draws from about the posterior."""
        if theta is not None:
            log_sd = log(theta[:, -1])
            return State(np.array(theta, dtype=float), np.stack([log_sd, 2 * (theta[:, -2] - log_sd)], axis=1))
        theta, at = np.empty((len(rng.first), self.model.width)), np.empty((len(rng.first), 2))
        for chain, generator in enumerate(rng.first):
            normal = generator.standard_normal((1, self.model.width))
            log_sd, u = self._table.propose(normal[:, :2])
            heights, first = self._plain.heights(log_sd, u), np.zeros(1, np.intp)
            theta[chain] = self._others(self._plain, heights, first, log_sd, u, normal[:, 2:])[0]
            at[chain] = log_sd[0], u[0]
        return State(theta, at)

    def advance(self, state: State, steps: int, rng: Streams) -> tuple[State, Draws]:
        """See `Kernel`."""
        draws = Draws.empty(steps, 1, *state.theta.shape)
        draws.decided[:] = True
        (theta, at), prior, p = (part.copy() for part in state), self.model.prior, len(self.model.coefficients)
        for chain, streams in enumerate(zip(*rng, strict=True)):
            if prior.normal:
                found = self._steps(self._plain, at[chain], steps, *streams)
                draws.theta[:, chain], draws.accepted[:, 0, chain], draws.log_posterior[:, chain] = found
            else:
                for step in range(steps):
                    here = given(self.model, factors(prior, theta[chain, :p], streams[0]))
                    found = self._steps(here, at[chain], 1, *streams)
                    theta[chain], draws.accepted[step, 0, chain] = found[0][0], found[1][0]
                    draws.theta[step, chain], draws.log_posterior[step, chain] = theta[chain], np.nan
        draws.screened[:], draws.log_first[:] = draws.accepted, 0.0
        return State(draws.theta[-1].copy() if steps else theta, at), draws

    def _steps(
        self, here: GroupsGiven, at: Array, steps: int, first: np.random.Generator, second: np.random.Generator
    ) -> tuple[Array, NDArray[np.bool_], Array]:
        """Both standard deviations with all others integrated out, then these; whether the former moved; log density.

        A step takes as many random numbers whatever the number of steps. `at` moves in place.
        """
        normal, log_u = first.standard_normal((steps, self.model.width)), np.log(second.random(steps))
        log_sd, u = (np.append(now, new) for now, new in zip(at, self._table.propose(normal[:, :2]), strict=True))
        heights = here.heights(log_sd, u)
        posterior = heights.value + log_prior(self.model, log_sd, u)
        ratio = posterior - self._table.log_density(log_sd, u)
        now, where = 0, np.empty(steps, np.intp)
        for step in range(steps):
            if log_u[step] < ratio[step + 1] - ratio[now]:
                now = step + 1
            where[step] = now
        at[:] = log_sd[now], u[now]
        found = self._others(here, heights, where, log_sd, u, normal[:, 2:])
        return found, where == np.arange(1, steps + 1), posterior[where]

    def _others(
        self, here: GroupsGiven, heights: Heights, where: NDArray[np.intp], log_sd: Array, u: Array, normal: Array
    ) -> Array:
        """Whole parameter vectors (steps, width), given both standard deviations of each."""
        found, p = np.empty((where.size, self.model.width)), len(self.model.coefficients)
        bent = np.linalg.solve(heights.root[where].swapaxes(1, 2), normal[:, :p, None])[..., 0]
        found[:, :p] = here.sums.at.beta + heights.mean[where] + bent
        for own, place, noise in zip(found, where, normal[:, p:], strict=True):
            own[p:-2] = here.effects(log_sd[place], u[place], own[:p], noise)
        found[:, -2], found[:, -1] = log_sd[where] + 0.5 * u[where], np.exp(log_sd[where])
        return found


def given(model: GaussianGroups, factor: Array) -> GroupsGiven:
    """The posterior where the precision of each prior is multiplied by a factor."""
    prior, beta = model.prior, model.sums.at.beta
    scale, normal = prior.scale / np.sqrt(factor), np.full(prior.df.size, np.inf)
    own = replace(prior, scale=scale, df=normal)
    return GroupsGiven(model.sums, own.gradient(beta), own.precision(beta))


def log_prior(model: GaussianGroups, log_sd: Array, u: Array) -> Array:
    """Log density of log s and log tau."""
    log_tau = log_sd + 0.5 * u
    found = model.sd_prior.log_density(np.exp(log_sd)) + log_sd
    return np.asarray(found + model.group_prior.log_density(np.exp(log_tau)) + log_tau)


def table(model: GaussianGroups, here: GroupsGiven) -> Table:
    """Look at all u that may be, and then closer where the posterior is."""
    sums = here.sums
    points = REACH - np.log(sums.at.effect_curvature.mean())
    mode, scale, likelihood, heights = _given_u(model, here, points, sums.scattered(points))
    zero = float(np.exp(min(0.0, likelihood[0] - likelihood.max())))
    for look in (sums.scattered, sums.reduced):
        there = np.flatnonzero(heights > heights.max() - FALLEN)
        low, high = points[max(0, there[0] - 1)], points[min(points.size - 1, there[-1] + 1)]
        points = np.linspace(low, high, FEW if look == sums.scattered else POINTS)
        mode, scale, _, heights = _given_u(model, here, points, look(points))
    there = np.isfinite(heights)
    return Table(LogLinear(points[there], heights[there]), mode[there], scale[there], zero)


def _given_u(model: GaussianGroups, here: GroupsGiven, u: Array, found: Reduced) -> tuple[Array, Array, Array, Array]:
    """Mode and scale of log s at each u, and about the log densities of u, without and with the prior of tau."""
    sums = here.sums
    step = 0.1 / max(1.0, sums.weight) ** 0.5
    squares = np.maximum(sums.within.square + found.square, np.finfo(float).tiny)
    log_sd = 0.5 * np.log(squares / max(sums.weight, 1.0))

    def height(at: Array) -> Array:
        return np.asarray(here.at(at, found).value + model.sd_prior.log_density(np.exp(at)) + at)

    for _ in range(CLIMBS):
        low, middle, high = (height(log_sd + away) for away in (-step, 0.0, step))
        bend = np.maximum(-(high - 2 * middle + low) / step**2, 1e-3)
        move = np.clip((high - low) / (2 * step * bend), -1.0, 1.0)
        log_sd = log_sd + move
        if (np.abs(move) * np.sqrt(bend) < CLOSE).all():
            break
    scale = 1 / np.sqrt(bend)
    likelihood = height(log_sd) + np.log(scale)
    log_tau = log_sd + 0.5 * u
    return log_sd, scale, likelihood, likelihood + model.group_prior.log_density(np.exp(log_tau)) + log_tau
