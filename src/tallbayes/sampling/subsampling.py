"""Subsampling Metropolis-Hastings: the log-likelihood is estimated from m rows, and so is the posterior.

With l the estimate from rows u and v the estimate of its variance (`estimators.py`), a chain moves in (theta, u) with

    accept with min(1, exp(l' - v'/2 - (l - v/2)) x prior ratio x q-ratio),

where l and v of the current state are kept, not estimated anew. Were l Gaussian and v its variance, exp(l - v/2) would
have the likelihood as its mean, and theta the posterior as its distribution. Neither holds exactly: the posterior is
approximate, the more so the larger v is. Rows come in blocks, one of which is drawn anew at each step, so that l' - l
varies less than l itself; at theta' all of them are evaluated.

References: M. Quiroz, R. Kohn, M. Villani and M.-N. Tran (2019), "Speeding up MCMC by efficient data subsampling";
M.-N. Tran, R. Kohn, M. Quiroz and M. Villani (2016), "The block pseudo-marginal sampler".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.timing import Phases
from tallbayes.models.glm import GLM
from tallbayes.models.mode import Mode
from tallbayes.rows.urn import Pool
from tallbayes.sampling.estimators import Estimator
from tallbayes.sampling.importance import POINTS, seen
from tallbayes.sampling.kernel import Advance, Draws, Finished, Path, PlainState, Streams
from tallbayes.sampling.proposals import Independence, RandomWalk
from tallbayes.sampling.request import NO_MORE
from tallbayes.sampling.subsampling_loop import Sample, Target, estimate, log_prior, take_rows, walk
from tallbayes.sampling.turns import take_turns
from tallbayes.sampling.warmup import LONG, settled

Array = NDArray[np.float64]

BLOCKS = 50
AHEAD = 50_000  # rows that a chain gets at a time, at least
VARIANCE, BAD = 1.0, 3.0  # of the estimate: with which the posterior is close, and with which it no longer is
SIZES_TRIED = 3
FEWEST_ROWS = 20  # that tell their own variance: a few rows that happen to be alike seem to have none


class _Chain(NamedTuple):
    theta: Array  # (p,)
    at: Array  # (3,) estimate minus half its variance, log prior, variance
    sample: Sample
    pool: Pool  # of rows to come
    used: NDArray[np.int64]  # (1,) rows of it
    pools: int  # that it has had

    @property
    def left(self) -> Pool:
        return self.pool.some(int(self.used[0]), self.pool.y.size)

    def copy(self) -> _Chain:
        return _Chain(
            self.theta.copy(), self.at.copy(), self.sample.copy(), self.pool, self.used.copy(), self.pools
        )  # fmt: skip


class State(NamedTuple):
    """Where the chains are."""

    theta: Array  # (chains, p)
    chains: tuple[_Chain, ...]
    key: int  # of the rows that are drawn for them


@dataclass(frozen=True)
class SubsamplingKernel(PlainState):
    """Subsampling Metropolis-Hastings with `size` rows a step, in blocks, one of them new."""

    model: GLM
    mode: Mode
    estimator: Estimator
    size: int
    steered: bool  # whether warm-up may change the size
    proposal: RandomWalk
    why: str = ""
    exact = False
    name = "subsampling"
    parts = ()
    warmup = LONG
    most_draws = NO_MORE  # they would not bring it closer to the posterior

    @property
    def kernels(self) -> tuple[SubsamplingKernel]:
        """See `Kernel`."""
        return (self,)

    @property
    def touched(self) -> tuple[int, int]:
        """See `Kernel`."""
        return self.model.rows.touched, 0

    def facts(self) -> dict[str, Any]:
        """See `Kernel`."""
        return {"surrogate": None, "proposal": self.proposal.name, "subchain": None}

    @property
    def initial(self) -> Independence:
        """Where chains start."""
        return Independence(self.mode.center, self.mode.factor)

    @property
    def blocks(self) -> int:
        """In which the rows come."""
        return min(BLOCKS, self.size)

    @property
    def target(self) -> Target:
        """For the compiled loop."""
        mode, prior = self.mode, self.model.prior
        expansion = (mode.theta, mode.log_likelihood, mode.gradient, mode.curvature)
        walk = np.ascontiguousarray(self.proposal.scale * self.proposal.factor)
        densities = (prior.mean, prior.scale, prior.df, prior.exponent, prior.means)
        return Target(self.estimator.known, *expansion, *densities, prior.intercept, walk)

    def told(self, variance: float) -> str:
        """What is approximate, in words, given the mean variance of the estimates."""
        start = f"the log-likelihood is estimated from {self.size:,} rows a draw, "
        if self.size < FEWEST_ROWS:
            return f"{start}too few to tell the variance of the estimate; use at least {FEWEST_ROWS}"
        harm = (
            "small enough" if variance <= VARIANCE else "more than it should be" if variance <= BAD else "far too much"
        )
        return (
            f"{start}with a variance of {variance:.2g} on average: {harm} for the correction that takes the estimate "
            f"for Gaussian (aim: {VARIANCE:g})"
        )

    def start(self, rng: Streams, theta: Array | None = None) -> State:
        """Chains at `theta`, or at draws from the Gaussian at the mode, each with rows of its own."""
        theta = self.initial.draw(rng.first) if theta is None else np.array(theta, dtype=float)
        return self._entered(theta, int(rng.second[0].integers(2**63)))

    def _entered(self, theta: Array, key: int) -> State:
        refills = [partial(self._refill, key, c, len(theta)) for c in range(len(theta))]
        return State(theta, tuple(map(self._enter, refills, theta)), key)

    def _refill(self, key: int, chain: int, chains: int, pools: int) -> Pool:
        """More rows for one of the chains."""
        return self.estimator.urn.pool((key, pools), chain, chains, max(AHEAD, 2 * self.size))

    def _enter(self, refill: Callable[[int], Pool], theta: Array) -> _Chain:
        """A chain at theta with rows of its own."""
        p, m, target = theta.size, self.size, self.target
        sample = Sample(np.empty((p, m)), np.empty(m), np.empty(m), np.empty(m))
        pool, used, filled = Pool.empty(p), np.zeros(1, np.int64), 0
        for pools in count():
            more = min(m - filled, pool.y.size)
            used[0] = 0
            take_rows(pool, used, filled, filled + more, sample)
            filled += more
            if filled == m:
                break
            pool = refill(pools)
        at, buffer = np.empty(3), np.empty((2, m))
        at[1] = log_prior(target, theta)
        at[0], at[2] = estimate(self.model.family.tag.terms, target, self.estimator.urn.total, sample, theta, buffer)
        self.model.rows.count(m)
        return _Chain(theta.copy(), at, sample, pool, used, pools)

    def advance(self, state: State, steps: int, rng: Streams) -> tuple[State, Draws]:
        """Move every chain; chains run in threads, and share nothing but the passes in which rows are drawn."""
        number, p = state.theta.shape
        draws, target, block = Draws.empty(steps, 1, number, p), self.target, -(-self.size // self.blocks)
        if state.chains[0].sample.y.size != self.size:  # warm-up has changed it
            state = self._entered(state.theta, state.key + 1)  # with other rows: a pool is for one size only

        done, chains = [0] * number, [chain.copy() for chain in state.chains]
        paths = [(np.empty((steps, p)), np.empty((steps, 3))) for _ in chains]

        def turn(c: int) -> bool:
            done[c] = walk(
                self.model.family.tag.terms, target, self.estimator.urn.total, self.blocks, *chains[c][:5],
                rng.first[c], rng.second[c], done[c], *paths[c],
            )  # fmt: skip
            if done[c] == steps:
                return True
            pool, pools = chains[c].left, chains[c].pools
            while pool.y.size < block:
                pool, pools = pool.then(self._refill(state.key, c, number, pools)), pools + 1
            chains[c] = chains[c]._replace(pool=pool, used=np.zeros(1, np.int64), pools=pools)
            return False

        take_turns(turn, number)
        for c, (path, facts) in enumerate(paths):
            draws.theta[:, c], draws.log_first[:, 0, c] = path, facts[:, 0]
            draws.accepted[:, 0, c], draws.variance[:, c] = facts[:, 1] > 0, facts[:, 2]
        draws.screened[:], draws.decided[:] = draws.accepted, True
        draws.log_posterior[:] = np.nan  # nobody has looked at all rows
        self.model.rows.count(steps * number * self.size)
        return State(np.array([chain.theta for chain in chains]), tuple(chains), state.key), draws

    def tune(self, state: State, draws: int, advance: Advance) -> tuple[SubsamplingKernel, State]:
        """Take as many rows as make the variance of the estimate VARIANCE, if that was left open."""
        kernel, trial = self, draws // (2 * SIZES_TRIED)
        for _ in range(SIZES_TRIED if trial and self.steered else 0):
            state, drawn = advance(kernel, state, trial)
            draws -= trial
            needed = kernel.size * float(drawn.variance[len(drawn.variance) // 2 :].mean()) / VARIANCE
            kernel = replace(kernel, size=int(np.clip(needed, FEWEST_ROWS, self.model.rows.total_weight)))
        return kernel, settled(kernel, state, draws, advance)

    def finish(self, path: Path, rng: np.random.Generator, phases: Phases) -> Finished:
        """Hold the draws against all rows."""
        names, variance = self.model.names, float(path.variance.mean())
        with phases("checking"):
            errors = seen(path.theta, self.model.log_posterior, POINTS, rng)
        facts = {"estimator": self.estimator.name, "size": self.size, "blocks": self.blocks, "variance": variance}
        said = {"said": [self.told(variance), errors.said(names)]}
        known = {"log_likelihood_variance": path.variance}
        return Finished(path.theta, known, said | facts | errors.facts(names))
