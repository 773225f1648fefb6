"""Set-up of models with group effects.

Their "auto" is always the thinned kernel: its moves look at one group at a time, and where a group's rows are few it
evaluates them all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tallbayes.data.options import check_choice
from tallbayes.data.timing import Phases
from tallbayes.groups.combine import combine_groups
from tallbayes.groups.mode import GroupMode, find_group_mode
from tallbayes.groups.model import Hierarchical
from tallbayes.groups.proposals import GroupSweep
from tallbayes.groups.thinned import GroupKernel
from tallbayes.groups.thinned_setup import Outlook, expand
from tallbayes.models.cautions import warn_of_heavy_priors
from tallbayes.sampling.consensus import ConsensusKernel
from tallbayes.sampling.metropolis import MetropolisKernel
from tallbayes.sampling.seeds import Seed, seeds
from tallbayes.sampling.setup import NO_BOUNDS, divide
from tallbayes.sampling.subsample import Stratified
from tallbayes.sampling.surrogate import Description
from tallbayes.sampling.two_stage import TwoStageKernel
from tallbayes.sampling.words import few

if TYPE_CHECKING:
    from tallbayes.sampling.methods import Consensus

PROPOSALS = ("one-at-a-time",)
STRATIFIED, FEWEST = 10, 1_000  # the surrogate has one row in so many, and at least these from each group


@dataclass(frozen=True)
class GroupSetup:
    """How methods make kernels for models with group effects; see `sampling/setup.py`."""

    model: Hierarchical
    seed: Seed
    phases: Phases

    def auto(self) -> GroupKernel | TwoStageKernel:
        """The thinned kernel, and what it should cost; where a family has no bounds, all rows decide."""
        if not self.model.bounded:
            return replace(self.two_stage(None, None, None), why=NO_BOUNDS)
        kernel, outlook = self._thinned()
        return replace(kernel, why=f"a draw should touch about {few(outlook.rows)} of {self.model.rows.size:,} rows")

    def thinned(self) -> GroupKernel:
        """The thinned kernel for the expansion at the mode."""
        self.model.require_bounds("method 'thinned'")
        return self._thinned()[0]

    def metropolis(self, proposal: str | None) -> MetropolisKernel:
        """A sweep over coefficients, effects and tau."""
        _check_proposal(proposal)
        mode, _ = self._mode("mh")
        return MetropolisKernel(self.model, self._sweep(mode), mode)

    def two_stage(self, surrogate: Description | None, proposal: str | None, subchain: int | None) -> TwoStageKernel:
        """The same sweep, with a surrogate stratified by group unless another one is described."""
        _check_proposal(proposal)
        mode, rng = self._mode("two-stage")
        rows = self.model.rows
        with self.phases("surrogate"):
            if surrogate is None:
                surrogate = Stratified(max(FEWEST, rows.size // (STRATIFIED * rows.groups)), self.model.group)
            built = surrogate.build(self.model, mode, rng)
            return TwoStageKernel(self.model, built, self._sweep(mode), mode, subchain or None)

    def subsampling(self, estimator: Any) -> NoReturn:
        """Refuse."""
        raise ValueError("method 'subsampling' is not for models with group terms; use 'auto', which is exact")

    def consensus(self, how: Consensus) -> ConsensusKernel:
        """Shards of whole groups."""
        return divide(self.model, self.seed, self.phases, how, how.sharding or "groups", combine_groups)

    def _mode(self, warned: str) -> tuple[GroupMode, np.random.Generator]:
        """The mode, and random numbers for the surrogate; warns of what the method so named may not visit."""
        surrogate_seed, _ = seeds(self.seed)
        with self.phases("mode"):
            mode = find_group_mode(self.model)
        flat = mode.flat[:, :0] if warned == "thinned" else mode.flat  # its proposals reach along flat directions
        warn_of_heavy_priors(self.model.coefficients, flat, mode.modes, warned)
        return mode, np.random.default_rng(surrogate_seed)

    def _thinned(self) -> tuple[GroupKernel, Outlook]:
        mode, rng = self._mode("thinned")
        with self.phases("surrogate"):
            return expand(mode, rng)

    def _sweep(self, mode: GroupMode) -> GroupSweep:
        prior, p = self.model.group_prior.code, len(self.model.coefficients)
        return GroupSweep(2.4 * mode.conditional_sd, scale=prior, coefficients=p)


def _check_proposal(proposal: str | None) -> None:
    check_choice("proposal", proposal, PROPOSALS, "for models with group terms", optional=True)
