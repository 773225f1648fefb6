"""From a model and the options of a method to a kernel: modes are found, surrogates built, rows dealt to shards.

A set-up makes one kernel of a model: `auto`, `thinned`, `metropolis`, `two_stage`, `subsampling` or `consensus`. The
one here is for regressions; a model that needs another names it (`model.setup`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_choice
from tallbayes.data.timing import Phases
from tallbayes.models.cautions import warn_of_heavy_priors
from tallbayes.models.glm import GLM
from tallbayes.models.limits import wide
from tallbayes.models.mode import CONVERGED, NEARBY, Mode, find_mode
from tallbayes.models.model import Model, Posterior
from tallbayes.rows.sharding import Shard, deal
from tallbayes.sampling import thinned_setup
from tallbayes.sampling.auto import choose
from tallbayes.sampling.combine import COMBINERS, Combined, combine
from tallbayes.sampling.consensus import ConsensusKernel, on_each
from tallbayes.sampling.estimators import SplineProxy, TaylorProxy
from tallbayes.sampling.kernel import Kernel
from tallbayes.sampling.metropolis import MetropolisKernel
from tallbayes.sampling.proposals import (
    Independence,
    Mixture,
    OneAtATime,
    Proposal,
    RandomWalk,
    Scattered,
    Start,
)
from tallbayes.sampling.seeds import SEEDS, Seed, seeds
from tallbayes.sampling.subsampling import SubsamplingKernel
from tallbayes.sampling.surrogate import Description, Surrogate, is_close
from tallbayes.sampling.taylor import Taylor
from tallbayes.sampling.thinned import ThinnedKernel
from tallbayes.sampling.two_stage import TwoStageKernel

if TYPE_CHECKING:
    from tallbayes.sampling.methods import Consensus

Array = NDArray[np.float64]

PROPOSALS = ("one-at-a-time", "random-walk", "independence", "mixture")
START_DF = 3.0  # degrees of freedom of starting points, where priors are not Normal
HEAVY_TAIL = 5.0  # degrees of freedom of independent proposals that must reach the tails
SUBCHAIN_SHARE = 0.1  # of the work of a draw that goes into the subchain, where the lengths allow it
SHORTEST, LONGEST = 5, 50  # subchains
PASS_OVERHEAD = 200_000  # what a step of a subchain costs besides its rows, in row evaluations times columns
NO_BOUNDS = "the family has no bounds on third derivatives, so all rows decide on what a surrogate lets pass"
FIRST_SIZE = 1_000  # rows of the first estimates of a log-likelihood, before warm-up knows better


class Setup(Protocol):
    """Makes a kernel for a model, with the seed of a run; raises ValueError where a method is not for such models."""

    def __init__(self, model: Any, seed: Seed, phases: Phases) -> None:
        """Seconds are added to the phases."""

    def auto(self) -> Kernel:
        """The kernel that should cost least."""

    def thinned(self) -> Kernel:
        """The thinned second stage."""

    def metropolis(self, proposal: str | None) -> Kernel:
        """All rows decide on every proposal."""

    def two_stage(self, surrogate: Description | None, proposal: str | None, subchain: int | None) -> Kernel:
        """All rows decide on what a surrogate lets pass."""

    def subsampling(self, estimator: TaylorProxy | SplineProxy) -> Kernel:
        """An estimate of the log-likelihood decides."""

    def consensus(self, how: Consensus) -> Kernel:
        """A kernel on each shard of the rows."""


def setup_for(model: Model, seed: Seed, phases: Phases | None) -> Setup:
    """The model's own set-up, or the one for regressions."""
    make: type[Setup] = model.setup or RegressionSetup
    return make(model, seed, phases or Phases())


@dataclass(frozen=True)
class RegressionSetup:
    """Kernels of a generalised linear model."""

    model: GLM
    seed: Seed
    phases: Phases

    def auto(self) -> Kernel:
        """The thinned kernel, unless passes over all rows are cheaper."""
        mode, rng = self._mode()
        with self.phases("surrogate"):
            if not self.model.bounded:
                return replace(self._two_stage(mode, rng, Taylor(), None, None), why=NO_BOUNDS)
            return choose(
                thinned_setup.expand(self.model, mode, rng),
                lambda: self._two_stage(mode, rng, Taylor(), None, None),
                lambda: self._metropolis(mode, None),
            )

    def thinned(self) -> ThinnedKernel:
        """The thinned kernel for the expansion at the mode."""
        self.model.require_bounds("method 'thinned'")
        mode, rng = self._mode()
        with self.phases("surrogate"):
            return thinned_setup.expand(self.model, mode, rng).kernel

    def metropolis(self, proposal: str | None) -> MetropolisKernel:
        """A random walk in all coefficients at once, unless another proposal is named."""
        check_choice("proposal", proposal, PROPOSALS, optional=True)
        mode, _ = self._mode("mh")
        return self._metropolis(mode, proposal)

    def two_stage(self, surrogate: Description | None, proposal: str | None, subchain: int | None) -> TwoStageKernel:
        """With the expansion as surrogate, unless another one is described."""
        check_choice("proposal", proposal, PROPOSALS, optional=True)
        mode, rng = self._mode("two-stage")
        with self.phases("surrogate"):
            return self._two_stage(mode, rng, Taylor() if surrogate is None else surrogate, proposal, subchain)

    def subsampling(self, estimator: TaylorProxy | SplineProxy) -> SubsamplingKernel:
        """With a random walk in all coefficients at once."""
        self.model.require_bounds("method 'subsampling'")
        mode, rng = self._mode("subsampling")
        with self.phases("surrogate"):
            size, walk = estimator.size or FIRST_SIZE, RandomWalk(mode.factor, 2.38 / mode.theta.size**0.5)
            built = estimator.build(self.model, mode, rng)
            return SubsamplingKernel(self.model, mode, built, size, estimator.size is None, walk)

    def consensus(self, how: Consensus) -> ConsensusKernel:
        """Rows are dealt at random, unless another way is named."""
        if wide(self.model.prior, self.model.moments).any():  # shards cannot tell whether all rows say more
            self._mode()
        return divide(self.model, self.seed, self.phases, how, how.sharding or "random", combine)

    def _mode(self, warned: str | None = None) -> tuple[Mode, np.random.Generator]:
        """The mode, and random numbers for the surrogate; warns of tails that the method so named may not visit."""
        surrogate_seed, _ = seeds(self.seed)
        with self.phases("mode"):
            mode = find_mode(self.model, CONVERGED if self.model.first.look is None else NEARBY)
            self.model.try_family(mode.theta)
        if warned is not None:
            flat = mode.factor[:, : mode.flat]
            warn_of_heavy_priors(self.model.coefficients, flat, 1 + len(mode.others), warned)
        return mode, np.random.default_rng(surrogate_seed)

    def _metropolis(self, mode: Mode, proposal: str | None) -> MetropolisKernel:
        return metropolis(self.model, mode, proposal)

    def _two_stage(
        self,
        mode: Mode,
        rng: np.random.Generator,
        surrogate: Description,
        proposal: str | None,
        subchain: int | None,
    ) -> TwoStageKernel:
        return two_stage(self.model, mode, surrogate.build(self.model, mode, rng), proposal, subchain)


def metropolis(model: Posterior, mode: Mode, proposal: str | None) -> MetropolisKernel:
    """A random walk in all parameters at once, unless another proposal is named."""
    return MetropolisKernel(model, _proposal(proposal or "random-walk", mode), _starts(model, mode))


def two_stage(
    model: Posterior, mode: Mode, surrogate: Surrogate, proposal: str | None, subchain: int | None
) -> TwoStageKernel:
    """With long subchains where the surrogate is close, else a decision after each update."""
    if subchain is None:
        subchain = _subchain_length(model, surrogate) if is_close(surrogate) else 0
    kind = proposal or ("mixture" if is_close(surrogate) else "one-at-a-time")
    return TwoStageKernel(model, surrogate, _proposal(kind, mode), _starts(model, mode), subchain or None)


def divide(
    model: Posterior,
    seed: Seed,
    phases: Phases,
    how: Consensus,
    sharding: str,
    combine: Callable[[ConsensusKernel, list[Array], np.random.Generator], Combined],
) -> ConsensusKernel:
    """A kernel on each shard of the rows. One shard is the plain run, with the same seeds."""
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    dealing, *others = np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, SEEDS)).spawn(how.shards)
    with phases("shards"):
        rng = np.random.default_rng(dealing)
        dealt = deal(model.rows, how.shards, sharding, rng) if others else [Shard(model.rows)]
    own = [model.part(one.rows, 1 / len(dealt), one.groups) for one in dealt] if others else [model]
    workers = how.workers or model.rows.hands
    with phases("mode"):
        each = (root, *others)
        kernels = on_each(len(own), lambda shard: how.inner.kernel(own[shard], each[shard]), workers)
    return ConsensusKernel(model, tuple(kernels), sharding, how.combine or COMBINERS[0], workers, combine)


def _starts(model: Posterior, mode: Mode) -> Start:
    """Where chains start: in the Gaussian at the mode, unless a prior makes the posterior far from Gaussian."""
    if model.normal:
        return Independence(mode.center, mode.factor)
    return Scattered(tuple(Independence(one.center, one.factor, START_DF) for one in (mode, *mode.others)))


def _proposal(kind: str, mode: Mode) -> Proposal:
    """Proposals shaped by the curvature at the mode; warm-up tunes the scale where there is one."""
    p = mode.theta.size
    walk = RandomWalk(mode.factor, 2.38 / p**0.5)
    if kind == "one-at-a-time":
        return OneAtATime(2.4 * mode.conditional_sd)
    if kind == "random-walk":
        return walk
    if kind == "independence":
        return Independence(mode.center, mode.factor, HEAVY_TAIL)
    return Mixture(Independence(mode.center, mode.factor, HEAVY_TAIL), walk)


def _subchain_length(model: Posterior, surrogate: Surrogate) -> int:
    """As many steps as keep the subchain's work at a small share of a pass over all rows."""
    step = surrogate.size * model.row_cost + PASS_OVERHEAD
    every = model.rows.size * model.row_cost + PASS_OVERHEAD
    return int(np.clip(SUBCHAIN_SHARE * every / step, SHORTEST, LONGEST))
