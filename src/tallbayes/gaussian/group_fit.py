"""The posterior of a Gaussian regression with a group term."""

from __future__ import annotations

from typing import ClassVar

from tallbayes.gaussian.fit import GaussianFit
from tallbayes.groups.fit import HierarchicalFit
from tallbayes.models.side_by_side import SideBySide


class GaussianGroupsFit(GaussianFit, HierarchicalFit):
    """A posterior sample of a `GaussianGroups` model: coefficients, effects and their sd, and the errors' `sd`."""

    kind: ClassVar[str] = "gaussian hierarchical"

    @property
    def main_parameters(self) -> tuple[str, ...]:
        """The coefficients, the sd of the groups and that of the errors."""
        return (*self.coefficients, f"1|{self.group}_sigma", "sd")

    parameters = HierarchicalFit.parameters  # the main ones, and the effects of the groups

    @property
    def _draws(self) -> SideBySide:
        sigma, effects = self._drawn()
        sds = sigma[..., None], self._values("sd")[..., None]
        return SideBySide(self._values("beta", "coefficient"), *sds, effects)
