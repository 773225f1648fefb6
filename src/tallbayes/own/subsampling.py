"""Subsampling Metropolis-Hastings for a user's own model, with the difference estimator.

Of each row the expansion at the mode is known from its derivatives, and of all rows the sum of these. What is left is
estimated from m rows drawn with replacement, in proportion to their weights:

    estimate(u) = expansion of all rows + W / m sum_i [ loglik_i(u) - expansion_i(u) ],       W the weight of all rows.

How chains move with it is in `sampling/subsampling.py`; there rows have linear predictors and bounds, here neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.models.mode import Mode
from tallbayes.own.tasks import BlockWeights, Drawn, DrawnRows
from tallbayes.rows.passes import LENGTH
from tallbayes.sampling.estimators import TaylorProxy
from tallbayes.sampling.kernel import Draws, Streams
from tallbayes.sampling.proposals import RandomWalk
from tallbayes.sampling.setup import FIRST_SIZE
from tallbayes.sampling.subsampling import SubsamplingKernel

if TYPE_CHECKING:
    from tallbayes.own.model import Model

Array = NDArray[np.float64]

AHEAD = 50_000  # rows that are drawn at a time, for all chains


class Estimator(NamedTuple):
    """Rows that are drawn, block by block."""

    weights: Array  # of the blocks
    seed: int
    name: str


class _Chain(NamedTuple):
    at: Array  # (3,) estimate minus half its variance, log prior, variance
    sample: Drawn


class State(NamedTuple):
    """Where the chains are."""

    theta: Array  # (chains, width)
    chains: tuple[_Chain, ...]
    pool: Drawn  # of rows to come
    used: int  # of them
    pools: int  # that there were


@dataclass(frozen=True)
class OwnSubsamplingKernel(SubsamplingKernel):
    """Subsampling Metropolis-Hastings with `size` rows a step, in blocks, one of them new."""

    model: Model = field(kw_only=True)  # type: ignore[assignment]
    estimator: Estimator = field(kw_only=True)  # type: ignore[assignment]

    def start(self, rng: Streams, theta: Array | None = None) -> State:  # type: ignore[override]
        """Chains at `theta`, or at draws from the Gaussian at the mode, each with rows of its own."""
        theta = self.initial.draw(rng.first) if theta is None else np.array(theta, dtype=float)
        return self._placed(theta, 0)

    def _placed(self, theta: Array, pools: int) -> State:
        """Chains at some points, with rows from new pools."""
        state = State(theta, (), self._pool(pools), 0, pools + 1)
        chains = []
        for point in theta:
            sample, state = self._taken(state, self.size)
            chains.append(_Chain(self._at(sample, point), sample))
        return state._replace(chains=tuple(chains))

    def _pool(self, number: int) -> Drawn:
        """Rows drawn with replacement, with their expansions."""
        weights, size = self.estimator.weights, max(AHEAD, self.size)
        rng = np.random.default_rng([self.estimator.seed, number])
        counts = rng.multinomial(size, weights / weights.sum())
        rows = self.model.rows.reduce(DrawnRows(counts, int(rng.integers(2**63))))
        x, function = self.model.parameters.natural(self.mode.theta), self.model.function
        value, first = np.empty(size), np.empty((size, x.size))
        second = np.empty((size, x.size, x.size))
        for start in range(0, size, LENGTH):
            part = slice(start, min(size, start + LENGTH))
            value[part] = function.values(x, rows, part.start, part.stop)
            first[part], second[part] = function.each(x, rows, part.start, part.stop)
        slope, bend = self.model.parameters.slopes(self.mode.theta)
        second = second * np.outer(slope, slope) + (first * bend)[:, :, None] * np.eye(x.size)
        return Drawn(rows, value, first * slope, second)

    def _taken(self, state: State, size: int) -> tuple[Drawn, State]:
        """The next rows of the pool, and of another one when it has no more."""
        if state.used + size > state.pool.value.size:
            state = state._replace(pool=self._pool(state.pools), used=0, pools=state.pools + 1)
        taken = state.pool.take(state.used + np.arange(size))
        return taken, state._replace(used=state.used + size)

    def _at(self, sample: Drawn, u: Array) -> Array:
        """Estimate minus half its variance, log prior and variance at a point; rows are counted."""
        mode, delta, m = self.mode, u - self.mode.theta, sample.value.size
        here = self.model.function.values(self.model.parameters.natural(u), sample.rows, 0, m)
        self.model.rows.count(m)
        known = sample.value + sample.first @ delta + 0.5 * (sample.second @ delta) @ delta
        parts = self.estimator.weights.sum() * (here - known)
        base = mode.log_likelihood + delta @ mode.gradient - 0.5 * delta @ mode.curvature @ delta
        variance = parts.var(ddof=1) / m
        return np.array([base + parts.mean() - 0.5 * variance, self.model.log_prior(u[None])[0], variance])

    def advance(self, state: State, steps: int, rng: Streams) -> tuple[State, Draws]:  # type: ignore[override]
        """One block of each chain's rows is new at every step."""
        number, p = state.theta.shape
        draws = Draws.empty(steps, 1, number, p)
        if state.chains[0].sample.value.size != self.size:  # warm-up has changed it
            state = self._placed(state.theta, state.pools)
        theta, chains = state.theta.copy(), list(state.chains)
        for step in range(steps):
            for c, (at, sample) in enumerate(chains):
                block = min(self.blocks - 1, int(self.blocks * rng.second[c].random()))
                low, high = block * self.size // self.blocks, (block + 1) * self.size // self.blocks
                new, state = self._taken(state, high - low)
                other = _with(sample, new, low, high)
                point = theta[c] + self.proposal.scale * (self.proposal.factor @ rng.first[c].standard_normal(p))
                there = self._at(other, point)
                log_ratio = there[0] + there[1] - at[0] - at[1]
                accepted = np.log(rng.first[c].random()) < log_ratio
                if accepted:
                    theta[c], chains[c] = point, _Chain(there, other)
                draws.theta[step, c], draws.variance[step, c] = theta[c], chains[c].at[2]
                draws.accepted[step, 0, c], draws.log_first[step, 0, c] = accepted, log_ratio
        draws.screened[:], draws.decided[:] = draws.accepted, True
        draws.log_posterior[:] = np.nan  # nobody has looked at all rows
        return state._replace(theta=theta, chains=tuple(chains)), draws


def _with(sample: Drawn, new: Drawn, low: int, high: int) -> Drawn:
    """A sample whose places low..high have new rows."""
    both = Drawn(sample.rows.then(new.rows), *(np.concatenate(pair) for pair in zip(sample[1:], new[1:], strict=True)))
    order = np.arange(sample.value.size)
    order[low:high] = sample.value.size + np.arange(high - low)
    return both.take(order)


def with_differences(
    model: Model, mode: Mode, estimator: TaylorProxy, rng: np.random.Generator
) -> OwnSubsamplingKernel:
    """The kernel, with a random walk in all parameters at once."""
    size, walk = estimator.size or FIRST_SIZE, RandomWalk(mode.factor, 2.38 / mode.theta.size**0.5)
    drawn: Any = Estimator(model.rows.reduce(BlockWeights()), int(rng.integers(2**63)), str(estimator))
    given: Any = {"mode": mode, "size": size, "steered": estimator.size is None, "proposal": walk}
    return OwnSubsamplingKernel(model=model, estimator=drawn, **given)
