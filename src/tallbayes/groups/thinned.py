"""The thinned kernel for group effects: exact, and a sweep costs a few rows a group.

The posterior of coefficients beta, effects theta_g ~ N(0, tau^2) and tau is expanded at the mode for one tau. There it
is a Gaussian with an arrow-shaped precision, in which

    theta_g = e_g - share_g' beta

makes e_g and beta nearly independent. A sweep makes five moves, each of which leaves the posterior as it is:

    tau            drawn exactly from its density given the effects;
    (tau, theta)   a random walk in log tau that carries all effects along: each keeps its place in its Gaussian given
                   beta and tau, so that the effects of small groups do not hold tau back; beta is dragged along too;
    beta           proposed from its Gaussian given e and tau, the effects moving with it by their shares;
    flat           a direction in beta that the data leave flat, under a Student-t prior, is stretched by a factor;
    theta_g        each group by itself, proposed from its Gaussian given beta and tau, with longer (logistic) tails, or
                   from its prior, which is what a group with few rows has for a tail.

All but the first are Metropolis-Hastings moves whose likelihood ratio is that of the expansion times exp(sum of D_i),
the differences of the rows' remainders, and each is decided as in `thinned.py`, with events drawn group by group at
rate C_g B_g. So an effect's move looks at rows of its own group only, and since B_g depends on beta and theta_g alone
(see `remainders.py`), its rows are as few with ten thousand groups as with ten. Where a group leaves the ball in which
its bounds hold, that group's rows are all evaluated, and only those.

Rows in memory are drawn where they are wanted. Others are drawn ahead (`pools.py`), and the rows of groups that leave
their balls are fetched (`outside.py`): the loop comes back for them.

Reference for moves that carry effects along: Y. Yu and X.-L. Meng (2011), "To center or not to center".
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.timing import Phases
from tallbayes.groups.mode import GroupMode
from tallbayes.groups.model import Hierarchical
from tallbayes.groups.moves import SHARES
from tallbayes.groups.outside import evaluate
from tallbayes.groups.pools import GroupUrn, Supply
from tallbayes.groups.remainders import GroupBounds
from tallbayes.groups.thinned_loop import (
    ASKED,
    CHANGE,
    GROUP,
    NEEDS_GROUPS,
    TOUCHED,
    Aim,
    GroupTarget,
    Place,
    Work,
    advance,
)
from tallbayes.groups.warmup import tune_groups
from tallbayes.rows import threads
from tallbayes.sampling.kernel import Advance, Draws, Finished, Path, Streams
from tallbayes.sampling.request import CHEAP
from tallbayes.sampling.thinned import refuse
from tallbayes.sampling.thinned_loop import DONE

Array = NDArray[np.float64]


class State(NamedTuple):
    """Where the chains are."""

    theta: Array  # (chains, p + k + 1)
    places: tuple[Place, ...]
    supplies: tuple[Supply, ...]  # rows that are drawn ahead; they are used up by whoever goes on from here
    key: int  # of these rows


class Elsewhere(NamedTuple):
    """Rows that are not in memory: what gives chains the rows they need."""

    urn: GroupUrn
    bounds: GroupBounds
    starts: NDArray[np.intp]  # (k + 1,) where each group's rows begin


@dataclass(frozen=True)
class GroupKernel:
    """The thinned kernel for the expansion of a model with group effects."""

    model: Hierarchical
    mode: GroupMode
    target: GroupTarget
    aim: Aim
    elsewhere: Elsewhere | None = None  # where rows are in memory
    why: str = ""  # it was chosen
    exact = True
    name = "thinned"
    parts = ("coefficients", "group effects", "scale of groups")
    warmup = 300
    most_draws = CHEAP

    @property
    def kernels(self) -> tuple[GroupKernel]:
        """See `Kernel`."""
        return (self,)

    @property
    def touched(self) -> tuple[int, int]:
        """See `Kernel`."""
        return self.model.rows.touched, 0

    def facts(self) -> dict[str, Any]:
        """See `Kernel`."""
        return {"surrogate": None, "proposal": self.aim.moves.name, "subchain": None}

    @property
    def initial(self) -> GroupMode:
        """Where chains start."""
        return self.mode

    def tune(self, state: State, draws: int, advance: Advance) -> tuple[GroupKernel, State]:
        """See `warmup.py`."""
        return tune_groups(self, state, draws, advance)

    def finish(self, path: Path, rng: np.random.Generator, phases: Phases) -> Finished:
        """The draws are those of the posterior; nobody has looked at all rows, so its density is not known."""
        return Finished(path.theta, {}, {})

    def start(self, rng: Streams, theta: Array | None = None) -> State:
        """Chains at `theta`, or at draws from the expansion's posterior."""
        theta = self.mode.draw(rng.first) if theta is None else np.array(theta, dtype=float)
        places, supply = tuple(self._enter(point) for point in theta), Supply(self.target.drawn)
        return State(theta, places, (supply,) * len(theta), int(rng.second[0].integers(2**63)))

    def _enter(self, theta: Array) -> Place:
        at, p = self.mode.at, self.mode.at.beta.size
        delta, d = theta[:p] - at.beta, theta[p:-1] - at.effects
        shift = self.target.expansion.crossed[SHARES] @ delta
        return Place(*(np.array([part, part]) for part in (delta, d + shift, shift, theta[-1])))

    def advance(self, state: State, steps: int, rng: Streams) -> tuple[State, Draws]:
        """Move every chain; chains run in threads, and each depends on its own generators only."""
        count, width = state.theta.shape
        draws = Draws.empty(steps, len(self.parts), count, width)
        jobs = [
            (place, supply, partial(self._more, state.key, c, count), steps, rng.first[c], rng.second[c])
            for c, (place, supply) in enumerate(zip(state.places, state.supplies, strict=True))
        ]
        with ThreadPoolExecutor(min(count, threads.count())) as pool:
            done = list(pool.map(lambda job: self._run(*job), jobs))
        draws.decided[:], draws.log_posterior[:] = True, np.nan  # nobody has looked at all rows
        for c, (_, _, theta, accepted) in enumerate(done):
            draws.theta[:, c], draws.screened[:, :, c], draws.accepted[:, :, c] = theta, accepted, accepted > 0
        last = draws.theta[-1].copy() if steps else state.theta
        return State(last, tuple(one[0] for one in done), tuple(one[1] for one in done), state.key), draws

    def stored(self, state: State) -> State:
        """See `Kernel`: rows in memory are not kept."""
        return state._replace(supplies=()) if self.elsewhere is None else state

    def restored(self, state: State) -> State:
        """See `Kernel`."""
        supply = Supply(self.target.drawn)
        return state._replace(supplies=(supply,) * len(state.theta)) if self.elsewhere is None else state

    def _run(
        self,
        place: Place,
        supply: Supply,
        more: Callable[[Supply, int], Supply],
        steps: int,
        first: np.random.Generator,
        second: np.random.Generator,
    ) -> tuple[Place, Supply, Array, Array]:
        """All sweeps of one chain; the compiled loop comes back for rows that are not in memory."""
        place, supply = Place(*(part.copy() for part in place)), supply.copy()
        theta, accepted = np.empty((steps, self.model.rows.width)), np.empty((steps, len(self.parts)))
        terms, work = self.model.family.tag.terms, Work.room(place.delta.shape[1], place.e.shape[1])
        while True:
            target = self.target._replace(drawn=supply.drawn)
            why = advance(terms, *target, self.aim, place, work, first, second, theta, accepted)
            if why == DONE:
                self.model.rows.count(int(work.at[TOUCHED]))
                return place, supply, theta, accepted
            refuse(why)
            if why == NEEDS_GROUPS:
                self._evaluate(place, work)
            else:
                supply = more(supply, int(work.at[GROUP]))

    def _more(self, key: int, number: int, chains: int, supply: Supply, group: int) -> Supply:
        """New rows for one of the chains."""
        assert self.elsewhere is not None
        return self.elsewhere.urn.more(supply, group, key, number, chains)

    def _evaluate(self, place: Place, work: Work) -> None:
        """Fill in what the groups add of which all rows are asked for."""
        assert self.elsewhere is not None
        groups, (_, bounds, starts) = np.flatnonzero(work.asked), self.elsewhere
        evaluate(self.model.rows, bounds, starts, groups, place, work.groups[CHANGE])
        work.asked[:], work.at[ASKED] = False, 0
