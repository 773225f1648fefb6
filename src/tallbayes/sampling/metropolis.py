"""Metropolis-Hastings on all rows.

A proposal theta' from q is accepted with probability

    a = min(1, [p(theta') q(theta' -> theta)] / [p(theta) q(theta -> theta')]),

so that p(theta) q(theta -> theta') a(theta, theta') is symmetric: detailed balance. One-at-a-time updates keep
every row's linear predictor and add x_j * step to it instead of computing X theta anew.

Reference: W. K. Hastings (1970), "Monte Carlo sampling methods using Markov chains and their applications".
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
from tallbayes.sampling.kernel import Advance, Draws, Finished, Path, PlainState, Streams, decide, first_log_ratio
from tallbayes.sampling.proposals import Proposal, Start
from tallbayes.sampling.request import COSTLY
from tallbayes.sampling.warmup import LONG, SHORT, best_steps, tune_steps

Array = NDArray[np.float64]

REFRESH = 100  # steps after which kept linear predictors are computed anew


class State(NamedTuple):
    """Where the chains are."""

    theta: Array  # (chains, p)
    log_prior: Array  # (chains,)
    full: Trail  # by the log-likelihood of all rows
    steps: int  # made so far


@dataclass(frozen=True)
class MetropolisKernel(PlainState):
    """Metropolis-Hastings with any proposal; `initial` draws the starting points."""

    model: Posterior
    proposal: Proposal
    initial: Start
    why: str = ""  # it was chosen
    exact = True
    name = "mh"
    parts = ()
    most_draws = COSTLY

    @property
    def kernels(self) -> tuple[MetropolisKernel]:
        """See `Kernel`."""
        return (self,)

    @property
    def warmup(self) -> int:
        """See `Kernel`."""
        return LONG if self.proposal.walks else SHORT

    @property
    def touched(self) -> tuple[int, int]:
        """See `Kernel`."""
        return self.model.rows.touched, 0

    def facts(self) -> dict[str, Any]:
        """See `Kernel`."""
        return {"surrogate": None, "proposal": self.proposal.name, "subchain": None}

    def start(self, rng: Streams, theta: Array | None = None) -> State:
        """Chains at `theta`, or at draws from `initial`."""
        theta = self.initial.draw(rng.first) if theta is None else np.array(theta, dtype=float)
        return State(theta, self.model.log_prior(theta), self._follower.start(theta), 0)

    @property
    def _follower(self) -> Follower:
        return self.model.follow(self.proposal.by_column)

    def advance(self, state: State, steps: int, rng: Streams) -> tuple[State, Draws]:
        """A step makes all of the proposal's updates, each decided on its own."""
        (theta, log_prior, trail, made), full = state, self._follower
        theta, log_prior = theta.copy(), log_prior.copy()
        everyone = np.arange(len(theta))
        draws = Draws.empty(steps, self.proposal.updates, *theta.shape)
        for step in range(steps):
            for update in range(self.proposal.updates):
                move = self.proposal.propose(theta, update, rng.first)
                value = full.at(trail, move.theta, move.column, everyone)
                new_prior = self.model.log_prior(move.theta)
                log_ratio = first_log_ratio(move.log_q, value + new_prior, trail.value + log_prior)
                accepted = decide(log_ratio, rng.first)
                chains = np.flatnonzero(accepted)
                full.accept(trail, move.theta, move.column, chains, value[chains])
                theta[chains], log_prior[chains] = move.theta[chains], new_prior[chains]
                draws.screened[step, update] = accepted
                draws.decided[step, update] = True
                draws.accepted[step, update] = accepted
                draws.log_first[step, update] = log_ratio
            made += 1
            if made % REFRESH == 0:
                full.refresh(trail)
            draws.theta[step], draws.log_posterior[step] = theta, trail.value + log_prior
        return State(theta, log_prior, trail, made), draws

    def tune(self, state: State, draws: int, advance: Advance) -> tuple[MetropolisKernel, State]:
        """Find the steps that give most effective draws, if the proposal walks."""

        def factor(kernel: MetropolisKernel, seen: Draws) -> Array:
            return best_steps(np.exp(np.minimum(seen.log_first, 0.0)), kernel.proposal.by_column)

        return tune_steps(self, state, draws, advance, factor)

    def finish(self, path: Path, rng: np.random.Generator, phases: Phases) -> Finished:
        """The draws are those of the posterior."""
        return Finished(path.theta, {"lp": path.log_posterior}, {})
