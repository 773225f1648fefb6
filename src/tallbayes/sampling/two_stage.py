"""Two-stage Metropolis-Hastings: a cheap surrogate screens proposals, the full data decides.

Let p* = prior x exp(surrogate). Stage 1 accepts theta' from q with probability

    a1 = min(1, [p*(theta') q(theta' -> theta)] / [p*(theta) q(theta -> theta')]),

touching surrogate rows only, and what passes is accepted in stage 2 with probability

    a2 = min(1, [p(theta') p*(theta)] / [p(theta) p*(theta')]).

p* q a1 is symmetric, and so is (p / p*) a2; their product p q a1 a2 is detailed balance for p. The prior cancels in a2.

With `subchain=L` stage 1 is L steps of a p*-reversible kernel, followed by one stage 2 with the same ratio. The L
steps as a whole must be reversible, so each picks its update at random: a sweep in fixed order would leave p*
invariant and still give a wrong posterior here. Without a subchain, stage 2 follows each single update and any
fixed order is valid.

References: J. A. Christen and C. Fox (2005), "Markov chain Monte Carlo using an approximation"; R. D. Payne and
B. K. Mallick, "Two-Stage Metropolis-Hastings for Tall Data".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.timing import Phases
from tallbayes.models.likelihood import Follower
from tallbayes.models.model import Posterior
from tallbayes.rows.track import Trail
from tallbayes.sampling.kernel import (
    Advance,
    Draws,
    Finished,
    Path,
    PlainState,
    Streams,
    decide,
    first_log_ratio,
    second_log_ratio,
)
from tallbayes.sampling.metropolis import REFRESH
from tallbayes.sampling.proposals import Proposal, Start
from tallbayes.sampling.request import COSTLY
from tallbayes.sampling.surrogate import Surrogate
from tallbayes.sampling.warmup import LONG, SHORT, best_screened_steps, best_steps, tune_steps

Array = NDArray[np.float64]


class State(NamedTuple):
    """Where the chains are."""

    theta: Array  # (chains, p)
    log_prior: Array  # (chains,)
    full: Trail  # by the log-likelihood of all rows
    surrogate: Trail  # by the approximate log-likelihood
    steps: int  # made so far


@dataclass(frozen=True)
class TwoStageKernel(PlainState):
    """Two-stage Metropolis-Hastings with `subchain` stage-1 steps before each stage 2 (None: after each update)."""

    model: Posterior
    surrogate: Surrogate
    proposal: Proposal
    initial: Start
    subchain: int | None = None
    why: str = ""  # it was chosen
    exact = True
    name = "two-stage"
    parts = ()
    most_draws = COSTLY

    @property
    def kernels(self) -> tuple[TwoStageKernel]:
        """See `Kernel`."""
        return (self,)

    @property
    def warmup(self) -> int:
        """See `Kernel`."""
        return LONG if self.proposal.walks else SHORT

    @property
    def touched(self) -> tuple[int, int]:
        """See `Kernel`."""
        return self.model.rows.touched, self.surrogate.touched

    def facts(self) -> dict[str, Any]:
        """See `Kernel`."""
        return {"surrogate": self.surrogate.name, "proposal": self.proposal.name, "subchain": self.subchain}

    def start(self, rng: Streams, theta: Array | None = None) -> State:
        """Chains at `theta`, or at draws from `initial`."""
        theta = self.initial.draw(rng.first) if theta is None else np.array(theta, dtype=float)
        full, surrogate = (follower.start(theta) for follower in self._followers)
        return State(theta, self.model.log_prior(theta), full, surrogate, 0)

    @property
    def _followers(self) -> tuple[Follower, Follower]:
        """Of the log-likelihood, and of the approximate one."""
        by_column = self.proposal.by_column and self.subchain is None
        return self.model.follow(by_column), self.surrogate.follow(by_column)

    def advance(self, state: State, steps: int, rng: Streams) -> tuple[State, Draws]:
        """A step is one subchain and its decision, or all of the proposal's updates, each screened and decided."""
        updates = self.proposal.updates if self.subchain is None else 1
        draws = Draws.empty(steps, updates, *state.theta.shape)
        theta, log_prior = state.theta.copy(), state.log_prior.copy()
        state, followers = state._replace(theta=theta, log_prior=log_prior), self._followers
        for step in range(steps):
            for update in range(updates):
                here = Draws(*(part[step] for part in draws))
                if self.subchain is None:
                    stage_1 = self._screen(state, followers[1], update, rng)
                else:
                    stage_1 = self._explore(state, rng)
                self._decide(state, followers, stage_1, rng, here, update)
            state = state._replace(steps=state.steps + 1)
            if state.steps % REFRESH == 0:
                for follower, trail in zip(followers, (state.full, state.surrogate), strict=True):
                    follower.refresh(trail)
            draws.theta[step], draws.log_posterior[step] = theta, state.full.value + log_prior
        return state, draws

    def _screen(self, state: State, surrogate: Follower, update: int, rng: Streams) -> _Screened:
        """Stage 1: one update."""
        move = self.proposal.propose(state.theta, update, rng.first)
        value = surrogate.at(state.surrogate, move.theta, move.column, np.arange(len(state.theta)))
        log_prior = self.model.log_prior(move.theta)
        log_ratio = first_log_ratio(move.log_q, value + log_prior, state.surrogate.value + state.log_prior)
        passed = decide(log_ratio, rng.first)
        return _Screened(move.theta, move.column, log_prior, value, np.flatnonzero(passed), passed, log_ratio)

    def _explore(self, state: State, rng: Streams) -> _Screened:
        """Stage 1: a subchain of reversible steps on p*."""
        assert self.subchain is not None
        theta, value, log_prior = state.theta.copy(), state.surrogate.value.copy(), state.log_prior.copy()
        passes = np.zeros(len(theta))
        for _ in range(self.subchain):
            move = self.proposal.pick(theta, rng.first)
            new_value, new_prior = self.surrogate.log_likelihood(move.theta), self.model.log_prior(move.theta)
            log_ratio = first_log_ratio(move.log_q, new_value + new_prior, value + log_prior)
            passed = decide(log_ratio, rng.first)
            theta[passed], value[passed], log_prior[passed] = (
                move.theta[passed],
                new_value[passed],
                new_prior[passed],
            )
            passes += passed
        moved = np.flatnonzero(passes)
        return _Screened(theta, None, log_prior, value, moved, passes / self.subchain, log_ratio)

    def _decide(
        self,
        state: State,
        followers: tuple[Follower, Follower],
        stage_1: _Screened,
        rng: Streams,
        draw: Draws,
        update: int,
    ) -> None:
        """Stage 2: the full data decides on what passed stage 1; the state moves in place."""
        full, surrogate = followers
        theta, column, log_prior, surrogate_value, chains, screened, log_first = stage_1
        log_ratio = np.full(len(theta), -np.inf)
        if chains.size:
            value = full.at(state.full, theta, column, chains)
            log_ratio[chains] = second_log_ratio(
                (value, state.full.value[chains]), (surrogate_value[chains], state.surrogate.value[chains])
            )
        accepted = decide(log_ratio, rng.second)
        draw.screened[update], draw.accepted[update], draw.log_first[update] = screened, accepted, log_first
        draw.decided[update, chains], draw.log_second[update, chains] = True, log_ratio[chains]
        if accepted.any():
            kept = np.flatnonzero(accepted)
            full.accept(state.full, theta, column, kept, value[accepted[chains]])
            surrogate.accept(state.surrogate, theta, column, kept, surrogate_value[kept])
            state.theta[kept], state.log_prior[kept] = theta[kept], log_prior[kept]

    def tune(self, state: State, draws: int, advance: Advance) -> tuple[TwoStageKernel, State]:
        """Find the steps that give most effective draws for the rows touched, if the proposal walks."""

        def factor(kernel: TwoStageKernel, seen: Draws) -> Array:
            by_column = kernel.proposal.by_column
            if kernel.subchain is not None:
                return best_steps(seen.screened, by_column)
            return best_screened_steps(seen, by_column, kernel.surrogate.sizes, kernel.model.sizes)

        return tune_steps(self, state, draws, advance, factor)

    def finish(self, path: Path, rng: np.random.Generator, phases: Phases) -> Finished:
        """The draws are those of the posterior."""
        return Finished(path.theta, {"lp": path.log_posterior}, {})


class _Screened(NamedTuple):
    """What stage 1 hands to stage 2."""

    theta: Array
    column: int | None
    log_prior: Array
    value: Array  # of the surrogate
    chains: NDArray[np.intp]  # those that passed
    screened: Array | NDArray[np.bool_]  # share of proposals that passed, per chain
    log_ratio: Array
