"""A regression with Gaussian outcomes and a random intercept a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.data.once import once
from tallbayes.gaussian.group_fit import GaussianGroupsFit
from tallbayes.gaussian.group_kernel import GaussianGroupKernel
from tallbayes.gaussian.group_sums import GroupSums
from tallbayes.gaussian.model import GaussianModel, GaussianSetup
from tallbayes.gaussian.sums import LOST, check_errors
from tallbayes.groups.arrow import Expansion, gaussian
from tallbayes.groups.mode import expansion
from tallbayes.groups.model import Hierarchical
from tallbayes.groups.result import with_groups
from tallbayes.groups.scale import ScalePrior
from tallbayes.models.cautions import warn_of_pull
from tallbayes.models.collinear import refuse_collinear
from tallbayes.models.model import Result, Sampled
from tallbayes.models.priors import GivenPrior
from tallbayes.models.side_by_side import SideBySide

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GaussianGroupsSetup(GaussianSetup):
    """Makes the one kernel that there is for Gaussian outcomes in groups; see `sampling/setup.py`."""

    model: GaussianGroups

    def auto(self) -> GaussianGroupKernel:  # type: ignore[override]
        """Sums instead of rows."""
        model = self.model
        refuse_collinear(model.coefficients, model.moments.largest, model.first.at_zero.curvature[0])
        check_errors(-2 * float(model.first.at_zero.value[0]), model.sums.residual, model.sums.weight, model.rows.width)
        kernel = GaussianGroupKernel(model)
        with self.phases("mode"):
            at, sd, tau = kernel.top
            held = model.prior.precision(at.beta)
            curvature = gaussian(_over(at, sd), np.zeros(at.beta.size), held, tau).precision - held
        warn_of_pull(model.coefficients, curvature, model.prior.gradient(at.beta), [])
        return kernel


class GaussianGroups(GaussianModel, Hierarchical):
    """A regression with Normal errors and one random intercept a group: a formula with a term such as (1 | bank).

    Arguments are those of `tb.GaussianModel`, and `group_prior`: that of the effects' standard deviation, half-Cauchy
    with 2.5 times the sd of the outcomes unless given.

    >>> data = {"bank": ["a", "a", "b", "b", "c", "c"], "y": [0.1, 0.3, 1.2, 1.1, 2.0, 2.3]}
    >>> GaussianGroups("y ~ 1 + (1 | bank)", data).names
    ('Intercept', '1|bank[a]', '1|bank[b]', '1|bank[c]', '1|bank_sigma', 'sd')
    """

    setup = GaussianGroupsSetup

    @classmethod
    def from_arrays(  # type: ignore[override]
        cls,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike,
        prior: GivenPrior | None = None,
        group_prior: ScalePrior | str | None = None,
        sd_prior: ScalePrior | None = None,
        *,
        coefficients: Sequence[str] | None = None,
        weights: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> GaussianGroups:
        """The model of a design matrix X (rows, columns) that you made yourself, and the group of each row.

        >>> GaussianGroups.from_arrays([[1.0], [1.0], [1.0]], [3.0, 4.0, 6.0], groups=[7, 7, 3]).names
        ('x0', '1|group[3]', '1|group[7]', '1|group_sigma', 'sd')
        """
        given: dict[str, Any] = {"coefficients": coefficients, "weights": weights, "offset": offset}
        self = cls._grouped_from_arrays(X, y, groups, "gaussian", prior, group_prior, **given)
        self.sd_prior = self._chosen(sd_prior)
        return self

    @once
    def sums(self) -> GroupSums:  # type: ignore[override]
        """All that the rows say: from the first pass, and another one if large outcomes would cost residuals digits."""
        zero, weight = np.zeros(self.rows.width), self.rows.total_weight
        found = GroupSums(weight, expansion(zero, self.first.at_zero))
        if -2 * found.at.value > LOST * found.residual:
            there = np.append(found.nearby(), 0.0)
            found = GroupSums(weight, expansion(there, self.derivatives(there)))
        return found

    def watched(self, theta: Array) -> SideBySide:
        """What convergence is judged by, from draws (chain, draw, parameter): coefficients, both sds, effects."""
        beta, tau, effects = super().watched(theta[..., :-1]).arrays
        return SideBySide(beta, tau, theta[..., -1:], effects)

    def result(self, run: Sampled) -> Result:
        """That of a regression, and what is known of the groups."""
        found = GaussianModel.result(self, run)
        return with_groups(self, found, run)._replace(kind=GaussianGroupsFit.kind)


def _over(at: Expansion, sd: float) -> Expansion:
    """The expansion where errors have this sd."""
    value, slope, curvature, mixed, *own = (np.asarray(part) / sd**2 for part in at[2:])
    return Expansion(at.beta, at.effects, float(value), slope, curvature, mixed, *own)
