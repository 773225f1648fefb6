"""Consensus Monte Carlo: chains on every shard of the rows, side by side.

With the rows in S shards, the posterior is the product of S posteriors, of one shard's rows and the prior to the power
1/S each. Every shard has a kernel and chains of its own, which know nothing of the others; `combine.py` makes draws of
all rows from theirs. A state is the states of all shards, and a step makes a step on each, so that a run can stop at
any time with as many draws of every shard.

Shards run in threads. A thread that works on a shard makes its passes alone: the others are busy with other shards.

Reference: S. L. Scott et al. (2016), "Bayes and Big Data: the consensus Monte Carlo algorithm".
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.timing import Phases
from tallbayes.models.model import Posterior
from tallbayes.rows import threads
from tallbayes.sampling.combine import SAID, Combined, combine
from tallbayes.sampling.kernel import Advance, Draws, Finished, Kernel, Path, Streams
from tallbayes.sampling.request import NO_MORE

Array = NDArray[np.float64]
T = TypeVar("T")


class ShardError(ValueError):
    """Something failed on one shard; the error is its cause."""

    def __init__(self, shard: int, shards: int, error: BaseException) -> None:
        super().__init__(f"shard {shard + 1} of {shards} failed ({type(error).__name__}: {error}); all others stopped")
        self.shard = shard


class State(NamedTuple):
    """Where the chains of all shards are."""

    theta: Array  # (chains, parameters of all shards)
    shards: tuple[Any, ...]  # states
    more: tuple[Streams, ...]  # random numbers of all shards but the first, which has the run's own


@dataclass(frozen=True)
class ConsensusKernel:
    """Kernels of the shards of a model, whose draws `combine` brings together."""

    model: Posterior
    kernels: tuple[Kernel, ...]
    sharding: str
    combiner: str
    workers: int
    combine: Callable[[ConsensusKernel, list[Array], np.random.Generator], Combined] = combine
    why: str = ""
    exact = False
    name = "consensus"
    parts = ()
    most_draws = NO_MORE  # they would not bring it closer to the posterior

    @property
    def warmup(self) -> int:
        """See `Kernel`."""
        return max(kernel.warmup for kernel in self.kernels)

    @property
    def touched(self) -> tuple[int, int]:
        """See `Kernel`."""
        full, surrogate = zip(*(kernel.touched for kernel in self.kernels), strict=True)
        return sum(full), sum(surrogate)

    def facts(self) -> dict[str, Any]:
        """Those of the first shard."""
        return self.kernels[0].facts()

    def start(self, rng: Streams) -> State:
        """Chains on all shards at their starting points; with one shard they use the very numbers of a plain run."""
        others = len(self.kernels) - 1
        each = [[generator.spawn(others) for generator in stream] for stream in rng]
        more = tuple(Streams(*([own[s] for own in stream] for stream in each)) for s in range(others))
        streams = (rng, *more)
        states = tuple(self.on_each(lambda s: self.kernels[s].start(streams[s])))
        return State(_joined(states), states, more)

    def advance(self, state: State, steps: int, rng: Streams) -> tuple[State, Draws]:
        """Move the chains of every shard by so many steps; parameters and updates of the shards stand side by side."""
        streams = (rng, *state.more)
        done = self.on_each(lambda s: self.kernels[s].advance(state.shards[s], steps, streams[s]))
        states, parts = tuple(one for one, _ in done), [draws for _, draws in done]
        side_by_side = {
            name: np.concatenate([getattr(part, name) for part in parts], axis=1)
            for name in ("screened", "decided", "accepted", "log_first", "log_second")
        }
        draws = Draws(
            theta=np.concatenate([part.theta for part in parts], axis=2),
            log_posterior=np.full((steps, len(state.theta)), np.nan),
            variance=np.zeros((steps, len(state.theta))),
            **side_by_side,
        )
        return State(_joined(states), states, state.more), draws

    def tune(self, state: State, draws: int, advance: Advance) -> tuple[ConsensusKernel, State]:
        """Tune each shard's kernel by itself; the first shard has the streams of the run."""
        streams = (None, *state.more)
        done = self.on_each(
            lambda s: self.kernels[s].tune(state.shards[s], draws, partial(advance, streams=streams[s], shard=s))
        )
        states = tuple(one for _, one in done)
        return replace(self, kernels=tuple(kernel for kernel, _ in done)), State(_joined(states), states, state.more)

    def stored(self, state: State) -> State:
        """See `Kernel`."""
        pairs = zip(self.kernels, state.shards, strict=True)
        return state._replace(shards=tuple(kernel.stored(shard) for kernel, shard in pairs))

    def restored(self, state: State) -> State:
        """See `Kernel`."""
        pairs = zip(self.kernels, state.shards, strict=True)
        return state._replace(shards=tuple(kernel.restored(shard) for kernel, shard in pairs))

    def finish(self, path: Path, rng: np.random.Generator, phases: Phases) -> Finished:
        """Combine the shards' draws, and hold them against all rows."""
        parts = np.split(path.theta, np.cumsum([one.model.width for one in self.kernels])[:-1], axis=2)
        with phases("combining"):
            theta, errors, names = self.combine(self, parts, rng)
        facts = {"shards": len(parts), "sharding": self.sharding, "combine": self.combiner}
        facts["inner"] = self.kernels[0].name
        said = {"said": [f"{len(parts)} shards; {SAID[self.combiner]}", errors.said(names)]}
        return Finished(theta, {}, said | facts | errors.facts(names))

    def on_each(self, work: Callable[[int], T]) -> list[T]:
        """Work on each shard in turn, by its number, several at a time."""
        return on_each(len(self.kernels), work, self.workers)


def on_each(shards: int, work: Callable[[int], T], workers: int) -> list[T]:
    """What work gives for each shard, done in threads; if one fails, those that have not begun never do."""
    stop = threading.Event()

    def one(shard: int) -> T | None:
        if stop.is_set():
            return None
        try:
            with threads.using(1 if shards > 1 else threads.count()):
                return work(shard)
        except KeyboardInterrupt:
            stop.set()
            raise
        except Exception as error:
            stop.set()
            raise ShardError(shard, shards, error) from error

    if workers == 1 or shards == 1:
        return [_there(one(shard)) for shard in range(shards)]
    with ThreadPoolExecutor(min(workers, shards)) as pool:
        jobs = [pool.submit(copy_context().run, one, shard) for shard in range(shards)]  # where warnings are noted
        try:
            wait(jobs)
        except BaseException:  # Ctrl-C: those under way end by themselves
            stop.set()
            raise
    for job in jobs:  # those that failed first, since what they stopped has no result
        if (error := job.exception()) is not None:
            raise error
    return [_there(job.result()) for job in jobs]


def _there(result: T | None) -> T:
    assert result is not None
    return result


def _joined(states: Sequence[Any]) -> Array:
    return np.concatenate([state.theta for state in states], axis=1)
