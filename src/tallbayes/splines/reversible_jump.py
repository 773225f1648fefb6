"""Reversible jump for splines: bases come, go and change, all rows decide.

A move is picked at random: birth of a basis, death of one, change of one for another, variation of one, an update of
coefficients, or a draw of lambda, the precision of their prior. Bases are born from their prior, so that it cancels;
where in the list a new basis goes cancels with which one dies; and variations (`basis.vary_basis`) are as probable as
their reverse under that prior. With p(k) the prior of the number of bases, N that of coefficients and q the density
from which new ones are drawn, the ratio besides the likelihood is, for a coefficient u of a new basis or b of an old
one,

    birth   p(k+1) N(u) / [p(k) q(u)],
    death   p(k-1) q(b) / [p(k) N(b)],      q given all but the basis that dies,
    change  N(u) q(b) / [N(b) q(u)],        each q given its own basis and all others; a variation too.

Here q is Gaussian around the mode of the coefficient on a sheet of weighted rows, all else being fixed; so it does not
look at the coefficient that it replaces. Where a sheet has a reference, most proposals draw all coefficients b' anew
with the bases, from the Gaussian q of `joint.py`, with ratio p(k') N(b') q(b) / [p(k) N(b) q(b')], each q given its own
bases. A move that is impossible does nothing at all.

Plain reversible jump decides each move on all rows. With two stages, a number of moves is made on the sheet, each
decided by the sheet's likelihood; then all rows decide whether the chain goes where they led, with the ratio of
`two_stage.py`: full likelihoods over those of the sheet. Each of these moves is picked at random from the same mixture,
so that together they are reversible with respect to the sheet's posterior. The column of a new basis is computed on all
rows only for that decision.

References: P. J. Green (1995), "Reversible jump Markov chain Monte Carlo computation and Bayesian model determination";
D. G. T. Denison, B. K. Mallick and A. F. M. Smith (1998), "Bayesian MARS"; R. D. Payne and B. K. Mallick, "Two-Stage
Metropolis-Hastings for Tall Data".
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.timing import Phases
from tallbayes.rows import threads
from tallbayes.sampling.kernel import Advance, Draws, Finished, Path, Streams
from tallbayes.sampling.request import NO_MORE
from tallbayes.splines.model import MARS
from tallbayes.splines.places import copy_place, live, theta_of, write_theta
from tallbayes.splines.reversible_jump_loop import (
    BIRTH,
    DEATH,
    KINDS,
    NOTHING,
    REPLACED,
    Law,
    Place,
    Proposal,
    explore,
    make,
    propose,
    put,
    screen,
)
from tallbayes.splines.sheet import Sheet, Sheets
from tallbayes.splines.track import SplineTrack, SplineTrail, Terms
from tallbayes.splines.warmup import tune_cells, tune_walk

Array = NDArray[np.float64]

REFRESH = 500  # steps after which kept linear predictors are computed anew
LITTLE = 20_000  # rows of sheets a round, below which threads would wait for each other longer than they work
PILOT = 1_000  # moves on the reference rows, from nothing to where a chain starts


class State(NamedTuple):
    """Where the chains are."""

    theta: Array  # (chains, width)
    places: tuple[Place, ...]
    full: SplineTrail  # by the log-likelihood of all rows
    steps: int  # made so far
    tally: NDArray[np.int64]  # (chains, kinds, 2) moves proposed and accepted: in the end, or in subchains by the sheet


class _Room(NamedTuple):
    """What proposals of one chain are made in."""

    proposal: Proposal
    there: Place

    @classmethod
    def of(cls, most: int, sheet: Sheet, law: Law) -> _Room:
        a = sheet.weights.size
        return cls(Proposal.empty(most, a, law.reference.x.shape[1]), Place.empty(most, a))


class _Tried(NamedTuple):
    """What a chain would do next."""

    terms: Terms  # by which that differs from where it is
    log_ratio: float  # of all but the likelihood of all rows
    log_uniform: float  # with which to decide, where there is no other stage
    passed: float = 1.0  # share of moves that the sheet let pass


@dataclass(frozen=True)
class ReversibleJumpKernel:
    """Reversible jump with `subchain` moves on a sheet before all rows decide; 0: all rows decide on each move.

    A step makes so many `rounds` of that. The posterior is that of the likelihood to a `power`, which is less than one
    in warm-up only.
    """

    model: MARS
    law: Law
    surrogate: Sheets
    track: SplineTrack  # follows chains on all rows
    subchain: int
    rounds: int = 1
    power: float = 1.0
    steered: bool = False  # whether warm-up may change the length of subchains
    initial: Array | None = None  # (chains, width) where chains start, if not where a pilot brings them
    why: str = ""
    exact = True
    parts = ()
    most_draws = NO_MORE  # splines rarely meet, however long they run

    @property
    def name(self) -> str:
        """What to call it in tables."""
        return "two-stage reversible jump" if self.subchain else "reversible jump"

    @property
    def kernels(self) -> tuple[ReversibleJumpKernel]:
        """See `Kernel`."""
        return (self,)

    @property
    def warmup(self) -> int:
        """See `Kernel`."""
        return 1_000 if self.surrogate.partition is not None else 300

    @property
    def touched(self) -> tuple[int, int]:
        """See `Kernel`."""
        return self.model.rows.touched, self.surrogate.touched

    def facts(self) -> dict[str, Any]:
        """See `Kernel`; the proposal is that of coefficients."""
        proposal = "random-walk" if self.law.walk > 0 else "informed"
        surrogate = self.surrogate.name if self.subchain else None
        return {"surrogate": surrogate, "proposal": proposal, "subchain": self.subchain}

    def start(self, rng: Streams, theta: Array | None = None) -> State:
        """Chains at `theta` or `initial`, or where moves on the reference rows alone have brought them."""
        theta = self.initial if theta is None else theta
        theta = np.stack([self._pilot(one) for one in rng.first]) if theta is None else np.array(theta, dtype=float)
        state = State(theta, (), self.track.start(len(theta)), 0, np.zeros((len(theta), KINDS, 2), np.int64))
        return self.enter(state)

    def enter(self, state: State) -> State:
        """The same chains on the sheets of this kernel."""
        places = []
        for chain, theta in enumerate(state.theta):
            places.append(_on(self.surrogate.of(chain), self.law, theta))
            self.track.enter(state.full, chain, *live(places[-1]))
        return state._replace(places=tuple(places))

    def _pilot(self, rng: np.random.Generator) -> Array:
        """Moves from nothing, on the reference rows with weight one."""
        sheet = self.model.reference_sheet
        law = self.law._replace(walk=0.0, joint=0.0, wide=1.0)
        place, room = _on(sheet, law, self.model.nothing), _Room.of(self.model.most, sheet, law)
        explore(sheet, law, place, room.proposal, PILOT, rng, np.zeros((KINDS, 2), np.int64))
        return theta_of(place)

    def advance(self, state: State, steps: int, rng: Streams) -> tuple[State, Draws]:
        """Move every chain; subchains run in threads, and all rows are looked at by all threads together."""
        chains, full, made = len(state.places), state.full, state.steps
        places, tally = list(state.places), state.tally.copy()
        draws = Draws.empty(steps, self.rounds, chains, self.model.width)
        rooms = [_Room.of(self.model.most, self.surrogate.of(chain), self.law) for chain in range(chains)]
        little = self.subchain * self.surrogate.of(0).weights.size < LITTLE
        with ThreadPoolExecutor(min(chains, threads.count())) as pool:
            for step in range(steps):
                draw = Draws(*(part[step] for part in draws))
                if self.subchain > 1:
                    for update in range(self.rounds):
                        self.surrogate.touched += sum(self.subchain * room.there.eta.size for room in rooms)
                        every = (range(chains), places, rooms, rng.first, tally)
                        for chain, found in enumerate(list((map if little else pool.map)(self._explore, *every))):
                            if self._decide(chain, found, full, rng.second[chain], draw, update):
                                copy_place(rooms[chain].there, places[chain])
                else:
                    for chain in range(chains):
                        self._move(chain, places[chain], rooms[chain], full, rng, draw, tally[chain])
                made += 1
                for chain, place in enumerate(places):
                    if made % REFRESH == 0:
                        put(self.surrogate.of(chain), self.law, place, rooms[chain].proposal.spare)
                        self.track.enter(full, chain, *live(place))
                    draws.theta[step, chain] = theta_of(place)
                    draws.log_posterior[step, chain] = full.value[chain]
        if not self.subchain:
            draws.screened[:], draws.decided[:] = draws.accepted, True
        theta = np.stack([theta_of(place) for place in places])
        return State(theta, tuple(places), full, made, tally), draws

    def _move(
        self,
        chain: int,
        place: Place,
        room: _Room,
        full: SplineTrail,
        rng: Streams,
        draw: Draws,
        tally: NDArray[np.int64],
    ) -> None:
        """All rounds of a step, where all rows decide on each move, or on each that the sheet lets pass."""
        sheet, proposal, first = self.surrogate.of(chain), room.proposal, rng.first[chain]
        self.surrogate.touched += self.rounds * sheet.weights.size
        draw.screened[:, chain] = 0.0
        update = 0
        while update < self.rounds:
            log_uniform = np.nan
            if self.subchain:
                update += screen(sheet, self.law, place, proposal, self.rounds - update, first, tally)
                if update == self.rounds:
                    return
                log_ratio = float(place.value[0] - proposal.facts[1])
            else:
                log_uniform = np.log(first.random())
                propose(sheet, self.law, place, first, proposal, -np.inf)
                log_ratio = float(proposal.facts[0])
            kind = int(proposal.kind[0])
            if kind != NOTHING:
                tally[kind, 0] += not self.subchain
                found = _Tried(Terms.between(live(place), _after(place, proposal)), log_ratio, log_uniform)
                if self._decide(chain, found, full, rng.second[chain], draw, update):
                    make(sheet, self.law, place, proposal)
                    tally[kind, 1] += 1
            update += 1

    def _explore(
        self, chain: int, place: Place, room: _Room, rng: np.random.Generator, tally: NDArray[np.int64]
    ) -> _Tried:
        """A subchain on the sheet."""
        sheet = self.surrogate.of(chain)
        copy_place(place, room.there)
        before = tally[:, 1].sum()
        explore(sheet, self.law, room.there, room.proposal, self.subchain, rng, tally)
        terms = Terms.between(live(place), live(room.there))
        passed = float(tally[:, 1].sum() - before) / self.subchain
        return _Tried(terms, float(place.value[0] - room.there.value[0]), np.nan, passed)

    def _decide(
        self, chain: int, found: _Tried, full: SplineTrail, rng: np.random.Generator, draw: Draws, update: int
    ) -> bool:
        """All rows decide, unless the linear predictor stays as it is."""
        draw.screened[update, chain] = found.passed
        log_ratio, value = found.log_ratio, full.value[chain]
        if not found.terms.none:
            draw.decided[update, chain] = True
            value = self.track.at(full, chain, found.terms)
            log_ratio += self.power * (value - full.value[chain])
        (draw.log_second if self.subchain else draw.log_first)[update, chain] = log_ratio
        accepted = bool((np.log(rng.random()) if self.subchain else found.log_uniform) < log_ratio)
        draw.accepted[update, chain] = accepted
        if accepted and not found.terms.none:
            self.track.accept(full, chain, value)
        return accepted

    def stored(self, state: State) -> State:
        """See `Kernel`."""
        return state

    def restored(self, state: State) -> State:
        """See `Kernel`."""
        return state._replace(full=self.track.placed(state.full))

    def tune(self, state: State, draws: int, advance: Advance) -> tuple[ReversibleJumpKernel, State]:
        """Find a surrogate to stay with, the length of subchains and the step of walks; see `warmup.py`."""
        find = tune_walk if self.surrogate.partition is None else tune_cells
        return find(self, state, draws, advance)

    def finish(self, path: Path, rng: np.random.Generator, phases: Phases) -> Finished:
        """The draws are those of the posterior; of each the log-likelihood is known."""
        return Finished(path.theta, {"total_log_likelihood": path.log_posterior}, {})


def _on(sheet: Sheet, law: Law, theta: Array) -> Place:
    """A place on a sheet."""
    most = law.log_k.size - 1
    place = Place.empty(most, sheet.weights.size)
    write_theta(theta, place)
    put(sheet, law, place, np.empty(sheet.weights.size))
    return place


def _after(place: Place, proposal: Proposal) -> tuple[Array, Array]:
    """Coefficients and bases that it would have after a proposed move."""
    (kind, slot, _), (_, bases) = map(int, proposal.kind), live(place)
    if kind == DEATH:
        bases = _with(bases, slot, bases[-1])[:-1]
    elif kind == BIRTH:
        bases = np.concatenate([bases, proposal.basis[None]])
    elif kind in REPLACED:
        bases = _with(bases, slot, proposal.basis)
    return proposal.coefficients[: len(bases) + 1], bases


def _with(bases: Array, slot: int, basis: Array) -> Array:
    """With one basis in the place of another."""
    bases = bases.copy()
    bases[slot] = basis
    return bases
