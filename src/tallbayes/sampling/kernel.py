"""Kernels: Markov chains that leave the posterior as it is.

Every kernel has the same shape. `start(rng)` gives a State for several chains, `tune` finds good proposals,
`advance(state, steps, rng)` moves all chains together, so that one pass over the data serves every chain, and returns
the new State and the Draws; `finish` makes draws of the posterior from those of the chains. A kernel never changes:
tuning makes a new one.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.timing import Phases
from tallbayes.models.model import Model

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Streams(NamedTuple):
    """Random numbers of each chain: one generator for proposals and stage 1, another for stage 2.

    What a step takes from them does not depend on how the steps are split into calls; and a two-stage kernel with an
    exact surrogate makes the very draws of its one-stage twin, since the second stage has numbers of its own.
    """

    first: list[np.random.Generator]
    second: list[np.random.Generator]

    @classmethod
    def spawn(cls, seed: int | np.random.SeedSequence | None, chains: int) -> Streams:
        """Independent streams for a number of chains."""
        root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        pairs = [child.spawn(2) for child in root.spawn(chains)]
        return cls(*([np.random.default_rng(pair[stage]) for pair in pairs] for stage in (0, 1)))


class Draws(NamedTuple):
    """What `advance` returns: positions after each step, and facts on each update (several a step by coefficient)."""

    theta: Array  # (steps, chains, p)
    log_posterior: Array  # (steps, chains)
    screened: Array  # (steps, updates, chains) share of proposals that stage 1 let pass
    decided: Flags  # (steps, updates, chains) whether the full data was asked
    accepted: Flags  # (steps, updates, chains) whether the chain moved
    log_first: Array  # (steps, updates, chains) log acceptance ratio of the only or first stage
    log_second: Array  # (steps, updates, chains) of the second stage, NaN where it was not reached
    variance: Array  # (steps, chains) of the log-likelihood where the chain is, if that is an estimate

    @classmethod
    def empty(cls, steps: int, updates: int, chains: int, p: int) -> Draws:
        """Room for so many steps."""
        shape = (steps, updates, chains)
        return cls(
            np.empty((steps, chains, p)),
            np.empty((steps, chains)),
            np.empty(shape),
            np.zeros(shape, dtype=bool),
            np.zeros(shape, dtype=bool),
            np.full(shape, np.nan),
            np.full(shape, np.nan),
            np.zeros((steps, chains)),
        )

    @staticmethod
    def size(updates: int, p: int) -> int:
        """Bytes of one step of one chain."""
        return 8 * (p + 2) + 26 * updates

    def resize(self, steps: int) -> None:
        """Make room for more steps, or give it back, where the draws are: they are not held twice on the way.

        Nobody may hold a part of these arrays then.
        """
        for part in self:
            part.resize((steps, *part.shape[1:]), refcheck=False)


class Path(NamedTuple):
    """What chains have left behind when sampling ends."""

    theta: Array  # (chains, draws, p)
    log_posterior: Array  # (chains, draws)
    variance: Array  # (chains, draws)


class Finished(NamedTuple):
    """What a kernel makes of it."""

    theta: Array  # (chains, draws, width of the model)
    sample_stats: dict[str, Array]  # (chains, draws) by name
    approximation: dict[str, Any]  # what is known of the error, where the kernel is not exact; "said" has it in words


class Advance(Protocol):
    """Moves chains for somebody who tunes a kernel; shards have random numbers of their own."""

    def __call__(
        self, kernel: Any, state: Any, steps: int, *, streams: Streams | None = None, shard: int = 0
    ) -> tuple[Any, Draws]:
        """The new state and the draws."""


class Kernel(Protocol):
    """A Markov chain whose stationary distribution is the posterior, if `exact`."""

    @property
    def model(self) -> Model:
        """Whose posterior it is."""

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Those of its shards; itself where there are none."""

    @property
    def why(self) -> str:
        """Why it was chosen, where that was not the user's choice."""

    @property
    def exact(self) -> bool:
        """Whether the stationary distribution is the posterior itself."""

    @property
    def name(self) -> str:
        """What to call it in tables."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the updates of a step, where their acceptance is told apart; usually none."""

    @property
    def warmup(self) -> int:
        """Draws for tuning and settling, unless a number is given."""

    @property
    def most_draws(self) -> int:
        """Draws a chain that it may make until the fit has converged, unless a number is given."""

    @property
    def touched(self) -> tuple[int, int]:
        """Rows of the full data and of the surrogate that were touched so far."""

    def start(self, rng: Streams) -> Any:
        """Chains at their starting points."""

    def tune(self, state: Any, draws: int, advance: Advance) -> tuple[Kernel, Any]:
        """Use so many steps to find good proposals and to settle; the kernel returned is final.

        All that it learns comes from what `advance` returns, and of states it reads small arrays only: where a run goes
        on from a checkpoint, `advance` returns what it did the first time, and large arrays are zeros (`journal.py`).
        """

    def advance(self, state: Any, steps: int, rng: Streams) -> tuple[Any, Draws]:
        """Move every chain by so many steps."""

    def stored(self, state: Any) -> Any:
        """What has to be kept of a state: plain arrays and generators, without what can be made anew."""

    def restored(self, state: Any) -> Any:
        """The state of which this was kept."""

    def finish(self, path: Path, rng: np.random.Generator, phases: Phases) -> Finished:
        """Make draws of the posterior from those of the chains, and say how far they may be off."""

    def facts(self) -> dict[str, Any]:
        """Its surrogate, proposal and subchain, for the result."""


class PlainState:
    """A kernel whose states are kept as they are."""

    def stored(self, state: Any) -> Any:
        """See `Kernel`."""
        return state

    def restored(self, state: Any) -> Any:
        """See `Kernel`."""
        return state


def first_log_ratio(log_q: Array | float, proposed: Array, current: Array) -> Array:
    """Log Hastings ratio, from the log densities (up to one constant) at the proposed and the current point."""
    return np.asarray(log_q + proposed - current)


def second_log_ratio(full: tuple[Array, Array], surrogate: tuple[Array, Array]) -> Array:
    """Log ratio of stage 2, from the (proposed, current) log-likelihoods of full data and surrogate."""
    return np.asarray((full[0] - full[1]) - (surrogate[0] - surrogate[1]))


def decide(log_ratio: Array, rng: list[np.random.Generator]) -> Flags:
    """Accept each chain's proposal with probability min(1, exp(log_ratio)); a NaN is a rejection."""
    uniform = np.array([generator.random() for generator in rng])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(uniform) < log_ratio)
