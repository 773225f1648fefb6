"""Set-up of a user's own model: the kernels of regressions that need no bounds, around a mode found by other means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tallbayes.data.options import check_choice
from tallbayes.data.timing import Phases
from tallbayes.models.mode import Mode
from tallbayes.own.mode import find_mode
from tallbayes.own.subsampling import OwnSubsamplingKernel, with_differences
from tallbayes.sampling.combine import combine
from tallbayes.sampling.consensus import ConsensusKernel
from tallbayes.sampling.estimators import TaylorProxy
from tallbayes.sampling.metropolis import MetropolisKernel
from tallbayes.sampling.seeds import Seed, seeds
from tallbayes.sampling.setup import PROPOSALS, divide, metropolis, two_stage
from tallbayes.sampling.surrogate import Description, is_close
from tallbayes.sampling.taylor import Taylor
from tallbayes.sampling.two_stage import TwoStageKernel

if TYPE_CHECKING:
    from tallbayes.own.model import Model

WHY = "rows of a model of your own have no bounds, so all of them decide on what an expansion lets pass"


@dataclass(frozen=True)
class OwnSetup:
    """Kernels of a `tb.Model`; see `sampling/setup.py`."""

    model: Model
    seed: Seed
    phases: Phases

    def auto(self) -> TwoStageKernel:
        """All rows decide on what an expansion lets pass."""
        return replace(self.two_stage(Taylor(), None, None), why=WHY)

    def thinned(self) -> NoReturn:
        """Refuse."""
        self.model.require_bounds("method 'thinned'")

    def metropolis(self, proposal: str | None) -> MetropolisKernel:
        """A random walk in all parameters at once, unless another proposal is named."""
        check_choice("proposal", proposal, PROPOSALS, optional=True)
        return metropolis(self.model, self._mode()[0], proposal)

    def two_stage(self, surrogate: Description | None, proposal: str | None, subchain: int | None) -> TwoStageKernel:
        """With the expansion as surrogate, unless another one is described."""
        check_choice("proposal", proposal, PROPOSALS, optional=True)
        if getattr(surrogate, "by_outcome", False) and self.model.outcome is None:
            raise ValueError(
                f"{surrogate} keeps all rows whose outcome is not zero; say which column that is: "
                "tb.Model(..., outcome='y')"
            )
        mode, rng = self._mode()
        with self.phases("surrogate"):
            built = (surrogate or Taylor()).build(self.model, mode, rng)
            if not is_close(built):  # moving one parameter at a time would save nothing
                proposal = proposal or "random-walk"
            return two_stage(self.model, mode, built, proposal, subchain)

    def subsampling(self, estimator: Any) -> OwnSubsamplingKernel:
        """With the difference estimator, which needs derivatives of each row."""
        if not isinstance(estimator, TaylorProxy):
            raise ValueError(f"{estimator} is for regressions; for a tb.Model there is tb.TaylorProxy")
        if self.model.function.derivatives is None:
            raise ValueError(
                "method 'subsampling' needs derivatives of each row: give tb.Model derivatives= (a function, or 'jax')"
            )
        mode, rng = self._mode()
        with self.phases("surrogate"):
            return with_differences(self.model, mode, estimator, rng)

    def consensus(self, how: Any) -> ConsensusKernel:
        """Rows are dealt at random, unless another way is named."""
        return divide(self.model, self.seed, self.phases, how, how.sharding or "random", combine)

    def _mode(self) -> tuple[Mode, np.random.Generator]:
        """The mode, and random numbers for the surrogate."""
        rng = np.random.default_rng(seeds(self.seed)[0])
        with self.phases("mode"):
            return find_mode(self.model, rng), rng
