"""The thinned second stage: exact, and it looks at a handful of rows.

Let p* be the Gaussian that the second-order expansion at the mode makes of the posterior, and R_i(theta) what the
expansion leaves out of row i's log-likelihood, so that p / p* = exp(sum R_i). With z the position in posterior standard
deviations, the difference D_i = R_i(theta') - R_i(theta) of two points is at most c_i B (see `remainders` for c_i and
`distance_bound` for B). A proposal theta' from q is decided like this:

    draw N ~ Poisson(C B), C = sum c_i, and N rows with probabilities c_i / C; for the event of a row let
        phi  = c_i B - max(0, D_i),    phi' = c_i B - max(0, -D_i);
    keep the event with probability phi / (c_i B), and sum log(phi' / phi) over the events kept;
    accept with min(1, q-ratio x p*-ratio x exp(that sum)).

Why this is exact: the kept events of row i are S_i ~ Poisson(phi_i). Seen from theta' they would be Poisson(phi_i'),
and phi_i' - phi_i = D_i, so the ratio of the two joint densities of (theta, S),

    p(theta') prod phi_i'^S_i exp(-phi_i') / [p(theta) prod phi_i^S_i exp(-phi_i)]
        = p*(theta') / p*(theta) x prod (phi_i' / phi_i)^S_i,

has lost the sum over all rows. Rows whose bound is so large that they would be drawn again and again are evaluated
always, outside the thinning. Where theta or theta' lies outside the ball in which the bounds hold, or thinning would
cost more than a pass, all rows decide; that choice is a symmetric function of the two points, made before N is drawn.

Proposals are independent draws from the posterior's shape along each axis (`shape.py`), or autoregressive with respect
to p* where independent ones are rarely accepted. A fixed share walks along one axis, so that no tail can hold a chain
for long, and where tails are long another share comes from a Student-t. A prior that is not Normal enters p* by its
quadratic approximation, and the ratio corrects it. Where the data leave directions flat under such a prior (`flat.py`),
the first axes follow them, tails of proposals fall as the prior does, and a share of the proposals stretches them.

Reference for the auxiliary variables: R. Zhang and C. De Sa (2019), "Poisson-minibatching for Gibbs sampling with
convergence rate guarantees".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.timing import Phases
from tallbayes.models.glm import GLM
from tallbayes.models.mode import Mode
from tallbayes.rows.passes import CHUNK
from tallbayes.rows.urn import Pool, Urn
from tallbayes.sampling.kernel import Advance, Draws, Finished, Path, Streams
from tallbayes.sampling.proposals import Independence
from tallbayes.sampling.request import CHEAP
from tallbayes.sampling.shape import draws
from tallbayes.sampling.thinned_loop import (
    BAD_RATE,
    BROKEN_BOUND,
    CHAIN,
    DECIDE,
    DONE,
    NEEDS_ROWS,
    Moves,
    Target,
    advance,
    always_remainders,
    distance_bound,
)
from tallbayes.sampling.turns import take_turns
from tallbayes.sampling.warmup import settled

Array = NDArray[np.float64]

BEYOND = np.array([3.0, 5.0, 9.0, 24.0])  # how much the ball's radius may exceed sqrt(p)
WARMUP = 200  # draws
SHORTER = (1.0, 0.6, 0.35, 0.2, 0.12)  # steps of autoregressive proposals that are tried
STEP_COST = 10  # what a step costs besides its rows, in rows


class _Chain(NamedTuple):
    places: Array  # (5, p): z, the proposed z, theta - mode of both, and room to work in
    record: NDArray[Any]
    pool: Pool
    pools: int = 0  # that it has had

    @property
    def used(self) -> int:
        return int(self.record["used"][0])

    def copy(self) -> _Chain:
        return self._replace(places=self.places.copy(), record=self.record.copy())


class State(NamedTuple):
    """Where the chains are."""

    theta: Array  # (chains, p)
    chains: tuple[_Chain, ...]
    key: int  # of the rows that are drawn for them


@dataclass(frozen=True)
class ThinnedKernel:
    """The thinned second stage, for the expansion of a model's log-likelihood at its mode."""

    model: GLM
    mode: Mode
    target: Target
    urn: Urn | None  # None where every row is always evaluated
    moves: Moves
    ahead: int  # rows that a chain gets the first time
    why: str = ""  # it was chosen
    exact = True
    name = "thinned"
    parts = ()
    warmup = WARMUP
    most_draws = CHEAP

    @property
    def kernels(self) -> tuple[ThinnedKernel]:
        """See `Kernel`."""
        return (self,)

    @property
    def touched(self) -> tuple[int, int]:
        """See `Kernel`."""
        return self.model.rows.touched, 0

    def facts(self) -> dict[str, Any]:
        """See `Kernel`."""
        return {"surrogate": None, "proposal": self.moves.name, "subchain": None}

    @property
    def initial(self) -> Independence:
        """Where chains start."""
        return Independence(self.mode.center, self.mode.factor)

    def start(self, rng: Streams, theta: Array | None = None) -> State:
        """Chains at `theta`, or at draws from the surrogate; far apart where the posterior may have long tails."""
        if theta is None:
            theta = self.initial.draw(rng.first) if self.model.prior.normal else self._scattered(rng.first)
        theta = np.array(theta, dtype=float)
        return State(theta, tuple(self._enter(point) for point in theta), int(rng.second[0].integers(2**63)))

    def _scattered(self, rng: list[np.random.Generator]) -> Array:
        """Draws of proposals, twice as far from the center, and farther along flat directions.

        Chains that begin in the same Gaussian agree for as long as none of them leaves it; these do not.
        """
        center, origin, flat = self.target.center, self.target.shape.origin, self.mode.flat
        z = np.empty((len(rng), center.size))
        for point, generator in zip(z, rng, strict=True):
            draws(self.target.shape, generator, point[None])
            point[:] = center + 2 * (point - center)
            point[:flat] = origin[:flat] + np.exp(2 * np.abs(generator.standard_normal())) * (point - origin)[:flat]
        theta = self.mode.theta + z @ self.mode.factor.T
        possible = np.isfinite(self.model.log_posterior(theta))
        return np.where(possible[:, None], theta, self.initial.draw(rng))

    def _enter(self, theta: Array) -> _Chain:
        p = theta.size
        places, record = np.zeros((5, p)), np.zeros(1, CHAIN)
        places[2] = theta - self.mode.theta
        places[0] = np.linalg.solve(self.mode.factor, places[2])
        record["always"] = self._always(places[0], places[2])
        record["rest"] = np.nan
        return _Chain(places, record, Pool.empty(p))

    def _always(self, z: Array, delta: Array) -> float:
        if self.target.always.y.size == 0:
            return 0.0
        out = np.empty(1)
        always_remainders(self.model.family.tag.terms, self.target.always, z[None], delta[None], out)
        return float(out[0])

    def advance(self, state: State, steps: int, rng: Streams) -> tuple[State, Draws]:
        """Move every chain; chains run in threads, and share nothing but the passes in which rows are drawn."""
        count, p = state.theta.shape
        draws, done, chains = Draws.empty(steps, 1, count, p), [0] * count, [chain.copy() for chain in state.chains]
        paths = [(np.empty((steps, p)), np.empty(steps), np.empty(steps, bool)) for _ in chains]

        def turn(c: int) -> bool:
            before = chains[c].used
            done[c] = self._run(chains[c], rng.first[c], rng.second[c], done[c], *paths[c])
            self.model.rows.count(chains[c].used - before)
            if done[c] == steps:
                return True
            chains[c] = self._refilled(chains[c], state.key, c, count)
            return False

        take_turns(turn, count)
        draws.screened[:], draws.decided[:], draws.log_first[:] = 1.0, True, 0.0
        draws.log_posterior[:] = np.nan  # nobody has looked at all rows
        for c, path in enumerate(paths):
            draws.theta[:, c], draws.log_second[:, 0, c], draws.accepted[:, 0, c] = path
        self.model.rows.count(steps * count * self.target.always.y.size)
        last = draws.theta[-1].copy() if steps else state.theta
        return State(last, tuple(chains), state.key), draws

    def _run(
        self,
        chain: _Chain,
        first: np.random.Generator,
        second: np.random.Generator,
        done: int,
        theta: Array,
        log_ratios: Array,
        accepted: NDArray[np.bool_],
    ) -> int:
        """Steps of one chain from `done` on; returns how many are done when all are, or when it needs more rows."""
        terms, buffer = self.model.family.tag.terms, np.empty(CHUNK)
        while True:
            why, done = advance(
                terms, self.target, self.moves, chain.pool, chain.record, chain.places, buffer, first, second, done,
                theta, log_ratios, accepted,
            )  # fmt: skip
            if why in (DONE, NEEDS_ROWS):
                return int(done)
            refuse(why)
            self._decide_on_all_rows(chain)

    def _refilled(self, chain: _Chain, key: int, number: int, chains: int) -> _Chain:
        """One of the chains with new rows: twice as many as the time before, because each time is a pass."""
        chain.record["used"] = 0
        return chain._replace(pool=self._pool(key, chain.pools, number, chains), pools=chain.pools + 1)

    def _pool(self, key: int, pools: int, number: int, chains: int) -> Pool:
        """The rows that one of the chains gets after so many pools."""
        assert self.urn is not None
        return self.urn.pool((key, pools), number, chains, self.ahead << pools)

    def stored(self, state: State) -> State:
        """See `Kernel`: rows can be drawn anew, and chains know how many of them they have used."""
        nothing = Pool.empty(state.theta.shape[1])
        return state._replace(chains=tuple(chain._replace(pool=nothing) for chain in state.chains))

    def restored(self, state: State) -> State:
        """See `Kernel`."""
        chains, count = list(state.chains), len(state.chains)
        for c in sorted(range(count), key=lambda c: chains[c].pools):
            if pools := chains[c].pools:
                chains[c] = chains[c]._replace(pool=self._pool(state.key, pools - 1, c, count))
        return state._replace(chains=tuple(chains))

    def _decide_on_all_rows(self, chain: _Chain) -> None:
        """Put the log ratio of all rows into the record of a step."""
        record, (z, new, delta, new_delta, _) = chain.record, chain.places
        points = [(new, new_delta, "new_rest", "new_always")]
        if np.isnan(record["rest"][0]):
            points.append((z, delta, "rest", "always"))
        params = np.array([self.mode.theta + moved for _, moved, _, _ in points])
        values = self.model.log_likelihood(params)
        for value, (_, moved, rest, always) in zip(values, points, strict=True):
            quadratic = self.mode.gradient @ moved - 0.5 * moved @ self.mode.curvature @ moved
            record[rest] = value - self.mode.log_likelihood - quadratic - record[always]
        record["log_ratio"] += record["new_rest"] - record["rest"]
        record["stage"] = DECIDE

    def tune(self, state: State, draws: int, advance: Advance) -> tuple[ThinnedKernel, State]:
        """Try shorter and shorter autoregressive steps while they give more effective draws for the rows touched.

        Where the surrogate is good, independent proposals are best by far; shorter steps are for posteriors that it
        does not fit. A chain whose squared jumps are a share e of those of independent draws has a lag-one correlation
        of 1 - e and at best e / (2 - e) effective draws a step. On posteriors that are hard to fit, half of that was
        seen; and with independent proposals, which stay for long where the surrogate is too low, about e^3.
        """
        trial = draws // (2 * len(SHORTER))
        best, chosen = 0.0, self
        pairs = np.random.default_rng(0).standard_normal((2, 500, self.mode.theta.size))
        # Only independent proposals reach long tails and further modes, whatever a short trial near one mode says.
        tried_steps = SHORTER[:1] if self.mode.flat or self.mode.others else SHORTER
        for step in tried_steps if trial else ():
            tried = replace(self, moves=self.moves._replace(step=step))
            here = state.theta
            state, seen = advance(tried, state, trial)
            draws -= trial
            whitened = np.linalg.solve(
                self.mode.factor, np.diff(seen.theta, axis=0, prepend=here[None]).reshape(-1, here.shape[1]).T
            )
            share = min(1.0, float((whitened**2).mean()) / 2)
            effective = share**3 if step == 1.0 else 0.5 * share / (2 - share)
            # Rows are drawn ahead, so what a short trial touched says little; what is to be expected is known.
            moved = (1 - step**2) ** 0.5 * pairs[0] + step * pairs[1]
            rows = self.target.always.y.size + self.target.total * typical_spread(np.stack([pairs[0], moved]))
            efficiency = effective / (rows + STEP_COST)
            if efficiency <= best:
                break
            best, chosen = efficiency, tried
        return chosen, settled(chosen, state, draws, advance)

    def finish(self, path: Path, rng: np.random.Generator, phases: Phases) -> Finished:
        """The draws are those of the posterior; nobody has looked at all rows, so its density is not known."""
        return Finished(path.theta, {}, {})


def typical_spread(points: Array) -> float:
    """The mean of B over pairs of points (2, pairs, p), those apart that no ball would hold."""
    here, there = np.linalg.norm(points, axis=2)
    held = np.maximum(here, there) <= points.shape[2] ** 0.5 + BEYOND[-1]
    bounds = distance_bound.py_func(here, there, np.linalg.norm(points[0] - points[1], axis=1))[held]
    return float(bounds.mean()) if bounds.size else 0.0


def refuse(why: int) -> None:
    """Raise if the loop stopped because going on would be wrong."""
    if why == BROKEN_BOUND:
        raise FloatingPointError("a row's remainder exceeds its bound: the second stage would not be exact")
    if why == BAD_RATE:
        raise FloatingPointError("the rate at which rows are drawn is not a number")
