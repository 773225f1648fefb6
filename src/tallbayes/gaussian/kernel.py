"""Draws for a Gaussian regression: the standard deviation of the errors first, then coefficients given it.

The logarithm of the standard deviation has a posterior of one dimension (`sums.py`), close to Normal. Proposals for it
come from a Student-t around its mode, and are decided by Metropolis-Hastings, which accepts nearly all. Given it,
coefficients are Normal, and drawn as such. A Student-t prior is a Normal one whose precision has a Gamma factor; given
a coefficient, that factor is Gamma again. All of it leaves the posterior as it is, and no row is touched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from tallbayes.data.once import once
from tallbayes.data.timing import Phases
from tallbayes.families.steady import log
from tallbayes.gaussian.sums import Given
from tallbayes.groups.scale import ScalePrior
from tallbayes.models.priors import Prior
from tallbayes.sampling.kernel import Advance, Draws, Finished, Path, PlainState, Streams
from tallbayes.sampling.request import CHEAP

if TYPE_CHECKING:
    from tallbayes.gaussian.model import GaussianModel

Array = NDArray[np.float64]

DF = 5.0  # of proposals
EXACT = 1e-16  # of the sum of squares: with less for errors, as of two rows on a line, the search begins here
LOWEST = -1e100  # that a search computes with
SETTLING = 50  # steps until factors of Student-t priors have forgotten where they began
WHY = "sums of squares and products have all that the rows say about Gaussian outcomes"


class State(NamedTuple):
    """Where the chains are."""

    theta: Array  # (chains, p + 1): coefficients and sd
    log_sd: Array  # (chains,) with all its digits


@dataclass(frozen=True)
class SumsKernel(PlainState):
    """What kernels have in common that need sums of the rows only."""

    model: Any
    why: str = WHY
    exact = True
    name = "gaussian sums"
    parts = ()
    most_draws = CHEAP

    @property
    def kernels(self) -> tuple[Self]:
        """See `Kernel`."""
        return (self,)

    @property
    def warmup(self) -> int:
        """See `Kernel`."""
        return 0 if self.model.prior.normal else SETTLING

    @property
    def touched(self) -> tuple[int, int]:
        """See `Kernel`."""
        return self.model.rows.touched, 0

    def facts(self) -> dict[str, Any]:
        """See `Kernel`."""
        return {"surrogate": None, "proposal": "independence", "subchain": None}

    def tune(self, state: Any, draws: int, advance: Advance) -> tuple[Self, Any]:
        """There is nothing to tune; Student-t priors settle."""
        return self, advance(self, state, draws)[0] if draws else state

    def finish(self, path: Path, rng: np.random.Generator, phases: Phases) -> Finished:
        """The draws are those of the posterior."""
        return Finished(path.theta, {} if np.isnan(path.log_posterior).any() else {"lp": path.log_posterior}, {})


@dataclass(frozen=True)
class GaussianKernel(SumsKernel):
    """Independent draws, or nearly; with Student-t priors a Gibbs sampler of few dimensions."""

    model: GaussianModel

    @once
    def _plain(self) -> Given:
        """With Student-t priors taken for Normal ones of the same scale."""
        return given(self.model, np.ones(self.model.prior.mean.size))

    @once
    def _proposal(self) -> tuple[float, float]:
        """Mode and scale of the posterior of log sd."""
        from scipy.optimize import minimize_scalar  # here, since it takes long to import

        def height(log_sd: float) -> float:
            return max(float(log_posterior(self._plain, self.model.sd_prior, np.array([log_sd]))[0]), LOWEST)

        sums = self._plain.sums
        least = max(sums.residual, EXACT * float(sums.least @ (sums.curvature @ sums.least)), np.finfo(float).tiny)
        start = 0.5 * np.log(least / max(sums.weight, 1.0))
        top = float(minimize_scalar(lambda at: -height(at), bracket=(start, start + 0.1)).x)
        step = 0.1 / max(1.0, sums.weight) ** 0.5
        bend = -(height(top + step) - 2 * height(top) + height(top - step)) / step**2
        return top, 1 / max(bend, 1e-3) ** 0.5

    def start(self, rng: Streams, theta: Array | None = None) -> State:
        """Chains at `theta`, or at draws from about the posterior."""
        if theta is not None:
            return State(np.array(theta, dtype=float), log(theta[:, -1]))
        mode, scale = self._proposal
        theta, log_sd = np.empty((len(rng.first), self.model.width)), np.empty(len(rng.first))
        for chain, generator in enumerate(rng.first):
            log_sd[chain] = mode + scale * generator.standard_normal()
            noise = generator.standard_normal((1, theta.shape[1] - 1))
            theta[chain, :-1] = self._plain.coefficients(log_sd[[chain]], noise)[0]
        theta[:, -1] = np.exp(log_sd)
        return State(theta, log_sd)

    def advance(self, state: State, steps: int, rng: Streams) -> tuple[State, Draws]:
        """See `Kernel`."""
        draws = Draws.empty(steps, 1, *state.theta.shape)
        draws.decided[:] = True
        (theta, log_sd), prior = (part.copy() for part in state), self.model.prior
        for chain, (first, second) in enumerate(zip(*rng, strict=True)):
            if prior.normal:
                draws.theta[:, chain], draws.accepted[:, 0, chain], log_sd[chain] = self._steps(
                    self._plain, log_sd[chain], steps, first, second
                )
            else:
                for step in range(steps):
                    here = given(self.model, factors(prior, theta[chain, :-1], first))
                    found, accepted, log_sd[chain] = self._steps(here, log_sd[chain], 1, first, second)
                    theta[chain] = draws.theta[step, chain] = found[0]
                    draws.accepted[step, 0, chain] = accepted[0]
        draws.screened[:] = draws.accepted
        drawn = log(draws.theta[..., -1])
        draws.log_posterior[:] = log_posterior(self._plain, self.model.sd_prior, drawn) if prior.normal else np.nan
        draws.log_first[:] = 0.0
        return State(draws.theta[-1].copy() if steps else theta, log_sd), draws

    def _steps(
        self, here: Given, log_sd: float, steps: int, first: np.random.Generator, second: np.random.Generator
    ) -> tuple[Array, NDArray[np.bool_], float]:
        """Log sd with coefficients integrated out, then coefficients; whether the sd moved, and where it ends.

        A step takes as many random numbers whatever the number of steps.
        """
        mode, scale = self._proposal
        normal, log_u = first.standard_normal((steps, self.model.width)), np.log(second.random(steps))
        points = np.append(log_sd, mode + scale * stdtrit(DF, ndtr(normal[:, 0])))
        heights = log_posterior(here, self.model.sd_prior, points)
        heights += 0.5 * (DF + 1) * np.log1p(((points - mode) / scale) ** 2 / DF)
        now, where = 0, np.empty(steps, np.intp)
        for step in range(steps):
            if log_u[step] < heights[step + 1] - heights[now]:
                now = step + 1
            where[step] = now
        found = np.empty((steps, self.model.width))
        found[:, -1] = np.exp(points[where])
        found[:, :-1] = here.coefficients(points[where], normal[:, 1:])
        return found, where == np.arange(1, steps + 1), float(points[now])


def log_posterior(here: Given, sd_prior: ScalePrior, log_sd: Array) -> Array:
    """Log density of log sd, up to a constant, with coefficients integrated out; an sd beyond all numbers has none."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        found = here.log_likelihood(log_sd) + sd_prior.log_density(np.exp(log_sd)) + log_sd
    return np.where(np.isnan(found), -np.inf, found)


def given(model: GaussianModel, factor: Array) -> Given:
    """The posterior where the precision of each prior is multiplied by a factor."""
    prior = model.prior
    normal = replace(
        prior, scale=prior.scale / np.sqrt(factor), df=np.full(prior.df.size, np.inf), exponent=prior.exponent
    )
    return Given.of(model.sums, normal)


def factors(prior: Prior, theta: Array, rng: np.random.Generator) -> Array:
    """By what Student-t priors multiply their precision, given the coefficients."""
    found = np.ones(theta.size)
    heavy = np.flatnonzero(np.isfinite(prior.df))
    away = ((prior.at_means(theta) - prior.mean) / prior.scale)[heavy]
    found[heavy] = rng.gamma(0.5 * (prior.df[heavy] + 1)) / (0.5 * (prior.df[heavy] + away**2))
    return found
