"""Splines with coefficients integrated out: bases come, go and change on a quadratic, and all rows decide.

Around one reference the log-likelihood is a quadratic L* in the coefficients, whatever the bases (`quadratic.py`). So
given bases and lambda it is a Gaussian in the coefficients b, and can be integrated over them: a state is the set of
bases and lambda, with weight

    p(k) p(lambda) exp[ r'(A + P)^-1 r / 2 ] |P|^(1/2) / |A + P|^(1/2),    P = diag(1 / sd^2, lambda, ..., lambda).

A move is picked at random: birth of a basis from its prior, death of one, change of one for another from the prior,
variation of one (`basis.vary_basis`), or a draw of lambda given coefficients drawn for it. Bases come from their prior,
which cancels; where in the list a new one goes cancels with which one dies: so a move is decided by the ratio of the
weights alone, and no coefficient has to be guessed. It takes microseconds, however many rows there are. Births, deaths
and changes are also made with a guide q (`guide.py`), which knows what bases chains have had. These are decided with
p / q of the basis that comes and q / p of the one that goes as well, p being the prior.

After a number of moves b is drawn from its Gaussian. Moves picked at random are reversible with respect to the marginal
of exp L* over bases and lambda, and a fresh draw of b keeps that for all of it; so all rows decide whether the chain
goes there, with the ratio of full likelihoods over that of exp L*, as in any second stage. The draws are those of the
posterior, however poor the quadratic: its error is felt in the share that is accepted, and is told.

Where few rows leave the posterior wider than the quadratic, a chain that has come far out would stay there for long,
since all that is proposed is far away. So some steps, picked at random, only nudge the coefficients,
b' = m + (1 - s^2)^(1/2) (b - m) + s z with z from their Gaussian without its mean m, which is reversible too.

References: D. G. T. Denison, B. K. Mallick and A. F. M. Smith (1998), "Bayesian MARS"; C. C. Holmes and D. G. T.
Denison (2003), "Classification with Bayesian MARS"; R. D. Payne and B. K. Mallick, "Two-Stage Metropolis-Hastings for
Tall Data".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.timing import Phases
from tallbayes.rows import threads
from tallbayes.sampling.kernel import Advance, Draws, Finished, Kernel, Path, Streams, second_log_ratio
from tallbayes.sampling.request import COSTLY
from tallbayes.splines.basis import log_prior
from tallbayes.splines.collapsed_loop import KINDS, LOOKING, Law, Place, Room, enter, explore, nudge
from tallbayes.splines.model import MARS
from tallbayes.splines.places import copy_place, live, theta_of, write_theta
from tallbayes.splines.quadratic import Expansion, Quadratic
from tallbayes.splines.reference import find_reference
from tallbayes.splines.track import SplineTrack, SplineTrail, Terms

Array = NDArray[np.float64]

REFRESH = 500  # steps after which kept linear predictors are computed anew
WARMUP = 400  # steps
NUDGE = 0.3  # by how much of their own spread coefficients are nudged
FEWEST = 0.05  # share of subchains that all rows should accept in the end of warm-up


class State(NamedTuple):
    """Where the chains are."""

    theta: Array  # (chains, width)
    places: tuple[Place, ...]
    full: SplineTrail  # by the log-likelihood of all rows
    steps: int  # made so far
    tally: NDArray[np.int64]  # (chains, kinds, 2) moves proposed, and accepted by L*


@dataclass(frozen=True)
class CollapsedKernel:
    """So many `moves` on a quadratic before all rows decide; in warm-up it may be that nobody does."""

    model: MARS
    law: Law
    expansion: Expansion  # makes quadratics
    quadratic: Quadratic
    track: SplineTrack  # follows chains on all rows
    moves: int
    power: float = 1.0  # of the likelihood, less than one in warm-up only
    decided: bool = True
    nudges: float = 0.25  # share of the steps that change coefficients alone
    initial: Array | None = None  # (chains, width) where chains start, if not with nothing
    why: str = ""
    otherwise: Callable[[], Kernel] | None = None  # what to take where the quadratic does not hold
    exact = True
    parts = ()
    most_draws = COSTLY
    warmup = WARMUP
    name = "collapsed reversible jump"

    @property
    def kernels(self) -> tuple[CollapsedKernel]:
        """See `Kernel`."""
        return (self,)

    @property
    def touched(self) -> tuple[int, int]:
        """See `Kernel`."""
        return self.model.rows.touched, self.expansion.touched

    def facts(self) -> dict[str, Any]:
        """See `Kernel`."""
        surrogate = f"quadratic, {self.quadratic.weights.size:,} points"
        return {"surrogate": surrogate, "proposal": "collapsed", "subchain": self.moves}

    def start(self, rng: Streams, theta: Array | None = None) -> State:
        """Chains at `theta` or `initial`, or with no bases."""
        theta = self.initial if theta is None else theta
        if theta is None:
            theta = np.tile(self.model.nothing, (len(rng.first), 1))
        theta = np.array(theta, dtype=float)
        state = State(theta, (), self.track.start(len(theta)), 0, np.zeros((len(theta), KINDS, 2), np.int64))
        return self.enter(state)

    def enter(self, state: State) -> State:
        """The same chains on the quadratic of this kernel."""
        places, room = tuple(self._place() for _ in state.theta), self._room()
        for chain, (theta, place) in enumerate(zip(state.theta, places, strict=True)):
            self._put(theta, place, room)
            if self.decided:
                self.track.enter(state.full, chain, *live(place))
        return state._replace(places=places)

    def _put(self, theta: Array, place: Place, room: Room) -> None:
        """A parameter vector on the quadratic."""
        write_theta(theta, place)
        enter(self.quadratic, self.law, place, room)

    def _place(self) -> Place:
        return Place.empty(self.model.most, self.quadratic.weights.size)

    def _room(self) -> Room:
        return Room.empty(self.model.most, self.quadratic.weights.size, self.law.reference.x.shape[1])

    def heights(self, theta: Array) -> Array:
        """How high the posterior is at places (chains, width), coefficients integrated out, by two measures.

        First as a density with respect to the prior of bases, then as a probability of these very bases. To compare
        places, the first would be fair if bases could be anything and do as well, the second if nothing else would.
        """
        place, room, law, found = self._place(), self._room(), self.law, np.empty((2, len(theta)))
        for chain, one in enumerate(theta):
            self._put(one, place, room)
            k, precision = int(place.head[0]), float(place.head[1])
            prior = law.log_k[k] + (law.shape - 1) * np.log(precision) - law.rate * precision
            found[:, chain] = place.values[0] + prior
            found[1, chain] += sum(log_prior(law.reference, basis) for basis in place.bases[:k])
        return found

    def advance(self, state: State, steps: int, rng: Streams) -> tuple[State, Draws]:
        """Move every chain, each in a thread of its own; or if they are few, all threads look at the rows of one."""
        chains = len(state.places)
        here, tally = list(state.places), state.tally.copy()
        draws = Draws.empty(steps, 1, chains, self.model.width)

        def move(chain: int) -> None:
            here[chain] = self._walk(state, chain, draws, rng, tally[chain])

        if chains < threads.count():
            for chain in range(chains):
                move(chain)
        else:
            threads.in_turns(move, chains)
        looked = int((tally - state.tally)[:, LOOKING, 0].sum())
        self.expansion.touched += looked * self.quadratic.weights.size
        theta = np.stack([theta_of(place) for place in here])
        return State(theta, tuple(here), state.full, state.steps + steps, tally), draws

    def _walk(self, state: State, chain: int, draws: Draws, rng: Streams, tally: NDArray[np.int64]) -> Place:
        """Where a chain is after all steps."""
        here, there, room, full = self._place(), self._place(), self._room(), state.full
        copy_place(state.places[chain], here)
        for step in range(len(draws.theta)):
            draw, before = Draws(*(part[step] for part in draws)), int(tally[:, 1].sum())
            copy_place(here, there)
            if self.decided and rng.first[chain].random() < self.nudges:
                nudge(self.law, there, room, NUDGE, rng.first[chain])
            else:
                explore(self.quadratic, self.law, there, room, self.moves, rng.first[chain], tally)
            draw.screened[0, chain] = (int(tally[:, 1].sum()) - before) / self.moves
            if self._decide(chain, here, there, full, rng.second[chain], draw):
                here, there = there, here
            if (state.steps + step + 1) % REFRESH == 0 and self.decided:
                self.track.enter(full, chain, *live(here))
            draw.theta[chain], draw.log_posterior[chain] = theta_of(here), full.value[chain]
        return here

    def _decide(
        self, chain: int, here: Place, there: Place, full: SplineTrail, rng: np.random.Generator, draw: Draws
    ) -> bool:
        """All rows decide."""
        if not self.decided:
            return True
        value = self.track.at(full, chain, Terms.between(live(here), live(there)))
        own = self.power * value, self.power * full.value[chain]
        log_ratio = float(second_log_ratio(own, (there.values[1], here.values[1])))  # type: ignore[arg-type]
        accepted = bool(np.log(rng.random()) < log_ratio)
        draw.decided[0, chain], draw.accepted[0, chain], draw.log_second[0, chain] = True, accepted, log_ratio
        if accepted:
            self.track.accept(full, chain, value)
        return accepted

    def stored(self, state: State) -> State:
        """See `Kernel`."""
        return state

    def restored(self, state: State) -> State:
        """See `Kernel`."""
        return state._replace(full=self.track.placed(state.full))

    def tune(self, state: State, draws: int, advance: Advance) -> tuple[Kernel, Any]:
        """Find a reference to stay with (see `reference.py`), or another kernel if all rows accept next to nothing."""
        kernel, state, accepted = find_reference(self, state, draws, advance)
        if self.otherwise is None or not accepted < FEWEST:
            return kernel, state
        other: Any = self.otherwise()
        why = f"all rows accepted {accepted:.1%} of what a quadratic around one reference proposed, so it does not hold"
        nothing = np.tile(self.model.nothing, (len(state.theta), 1))
        found: tuple[Kernel, Any] = replace(other, why=why).tune(other.start(None, nothing), other.warmup, advance)
        return found

    def finish(self, path: Path, rng: np.random.Generator, phases: Phases) -> Finished:
        """The draws are those of the posterior; of each the log-likelihood is known, and by how much L* misses it."""
        place, room, missed = self._place(), self._room(), path.log_posterior.copy()
        for draw in np.ndindex(missed.shape):
            self._put(path.theta[draw], place, room)
            missed[draw] -= place.values[1]
        stats = {"total_log_likelihood": path.log_posterior, "surrogate_error": missed - missed.mean()}
        return Finished(path.theta, stats, {})
