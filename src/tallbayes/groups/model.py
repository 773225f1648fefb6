"""Random intercepts: eta = X beta + theta_g + offset for a row of group g, with theta_g ~ N(0, tau^2).

A parameter vector is (beta, theta, log tau). All of it but the last touches the rows.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.data.parsed import Parsed
from tallbayes.data.per_row import as_levels
from tallbayes.data.timing import Phases
from tallbayes.families import Family
from tallbayes.families.steady import exp
from tallbayes.groups.scale import HalfCauchy, Power, ScalePrior, check_scale, given_scale_prior
from tallbayes.models.glm import GLM
from tallbayes.models.model import Result, Sampled, Variables
from tallbayes.models.per_row import Regression
from tallbayes.models.priors import GivenPrior
from tallbayes.models.side_by_side import SideBySide
from tallbayes.rows.protocol import RowsAtHand

Array = NDArray[np.float64]

USUAL_SCALE = 2.5  # of the half-Cauchy prior of the groups' sd


class Hierarchical(GLM):
    """A regression with one random intercept a group: a formula with a term such as (1 | bank).

    `group_prior` is the prior of the effects' standard deviation: `HalfCauchy(2.5)` unless given, `HalfNormal` or
    `InverseSquare`, or a text such as "half_normal(1)". All other arguments are those of `GLM`.

    >>> data = {"bank": ["a", "a", "b", "b", "c", "c"], "y": [0, 1, 0, 0, 1, 1]}
    >>> model = Hierarchical("y ~ 1 + (1 | bank)", data)
    >>> model.names
    ('Intercept', '1|bank[a]', '1|bank[b]', '1|bank[c]', '1|bank_sigma')
    >>> model.log_likelihood([[0.0, 0.0, 0.0, 0.0, -1.0]]).round(3)
    array([-4.159])
    """

    grouped = True
    _places: NDArray[np.intp] | None = None  # all, where nobody has divided the model

    def __init__(
        self,
        formula: str | Parsed,
        data: Any,
        family: str | Family = "bernoulli",
        prior: GivenPrior | None = None,
        group_prior: ScalePrior | str | None = None,
        *,
        weights: str | ArrayLike | None = None,
        offset: str | ArrayLike | None = None,
        strata: Sequence[str] = (),
        outcome: Any = None,
        missing: str = "refuse",
        decimal: str = ".",
        na_values: Any = (),
        collinear: str = "refuse",
        memory: int | str | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        chosen = given_scale_prior("group_prior", group_prior)
        given: dict[str, Any] = {"weights": weights, "offset": offset, "strata": strata, "outcome": outcome}
        given |= {"missing": missing, "decimal": decimal, "na_values": na_values, "collinear": collinear}
        given |= {"memory": memory, "cache": cache}
        super().__init__(formula, data, family, prior, **given)
        self.group_prior: ScalePrior | Power = chosen or self._usual_group_prior
        check_scale("group_prior", self.group_prior, self._outcome_scale[1])

    @property
    def _usual_group_prior(self) -> ScalePrior:
        """On the scale of the outcomes, where linear predictors are."""
        return HalfCauchy(float(f"{USUAL_SCALE * self._outcome_scale[1]:.4g}"))

    @classmethod
    def from_arrays(  # type: ignore[override]
        cls,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike,
        family: str | Family = "bernoulli",
        prior: GivenPrior | None = None,
        group_prior: ScalePrior | str | None = None,
        *,
        coefficients: Sequence[str] | None = None,
        weights: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Hierarchical:
        """The model of a design matrix X (rows, columns) that you made yourself, and the group of each row.

        >>> model = Hierarchical.from_arrays([[1.0], [1.0], [1.0]], [0, 1, 0], groups=[7, 7, 3])
        >>> model.names
        ('x0', '1|group[3]', '1|group[7]', '1|group_sigma')
        """
        given: dict[str, Any] = {"coefficients": coefficients, "weights": weights, "offset": offset}
        return cls._grouped_from_arrays(X, y, groups, family, prior, group_prior, **given)

    @classmethod
    def _grouped_from_arrays(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike,
        family: str | Family,
        prior: GivenPrior | None,
        group_prior: ScalePrior | str | None,
        *,
        coefficients: Sequence[str] | None,
        weights: ArrayLike | None,
        offset: ArrayLike | None,
    ) -> Self:
        phases = Phases()
        with phases("design"):
            levels, codes = as_levels("groups", groups)
        if len(levels) < 2:
            raise ValueError("groups has only one level, so there is nothing to learn about groups; use tb.GLM")
        if codes.shape != np.shape(y):
            raise ValueError(f"groups has shape {codes.shape}, but y has {np.shape(y)}")
        self = cls.__new__(cls)
        chosen = given_scale_prior("group_prior", group_prior)
        self._from_arrays(X, y, family, prior, coefficients, weights, offset, (codes, levels))
        self.group_prior = chosen or self._usual_group_prior
        check_scale("group_prior", self.group_prior, self._outcome_scale[1])
        self.seconds["design"] += phases.seconds["design"]
        return self

    def part(self, rows: RowsAtHand, share: float, groups: NDArray[np.intp] | None = None) -> Self:
        """See `GLM.part`; the effects' sd is in all parts, so that the density of its log gets the same power."""
        assert groups is not None
        model = super().part(rows, share)
        model.group_prior, model.levels = Power(self.group_prior, share), tuple(self.levels[g] for g in groups)
        model._places = groups
        return model

    @property
    def setup(self) -> Any:
        """How methods make kernels for it."""
        from tallbayes.groups.setup import GroupSetup  # here, since kernels need the model

        return GroupSetup

    @property
    def places(self) -> NDArray[np.intp]:
        """Where its groups stand among those of the whole model."""
        return np.arange(len(self.levels)) if self._places is None else self._places

    @property
    def group(self) -> str:
        """The column that tells which group a row belongs to."""
        return self._group

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all that is sampled, in the order of a parameter vector."""
        effects = (f"1|{self.group}[{level}]" for level in self.levels)
        return (*self.coefficients, *effects, f"1|{self.group}_sigma")

    def described_prior(self) -> dict[str, str]:
        """See `GLM.described_prior`; effects have Normal(0, sd) priors."""
        return super().described_prior() | {f"1|{self.group}_sigma": str(self.group_prior)}

    @property
    def default_priors(self) -> list[str]:
        """See `GLM.default_priors`."""
        usual = self.group_prior == self._usual_group_prior
        return [*super().default_priors, *([f"1|{self.group}_sigma"] if usual else [])]

    def log_prior(self, params: Array) -> Array:
        """Log prior density of (beta, theta, log tau)."""
        p = len(self.coefficients)
        beta, effects, log_scale = params[..., :p], params[..., p:-1], params[..., -1]
        tau = exp(log_scale)
        squares = (effects**2).sum(-1)
        given = -0.5 * squares / tau**2 - effects.shape[-1] * (log_scale + 0.5 * math.log(2 * math.pi))
        return np.asarray(self.prior.log_density(beta) + given + self.group_prior.log_density(tau) + log_scale)

    def variables(self, theta: Array) -> Variables:
        """Posterior variables and their coordinates, from draws (chain, draw, parameter)."""
        p, term = len(self.coefficients), f"1|{self.group}"
        variables, coordinates = super().variables(theta[..., :p])
        variables[term] = (("chain", "draw", self.group), theta[..., p:-1])
        variables[f"{term}_sigma"] = (("chain", "draw"), exp(theta[..., -1]))
        return variables, coordinates | {self.group: list(self.levels)}

    def watched(self, theta: Array) -> SideBySide:
        """What convergence is judged by, from draws (chain, draw, parameter): coefficients, tau, effects."""
        p = len(self.coefficients)
        return SideBySide(theta[..., :p], exp(theta[..., -1:]), theta[..., p:-1])

    def per_row(self, drawn: Mapping[str, Array]) -> Regression:
        """See `GLM.per_row`: rows are left out one at a time, and their groups stay."""
        return replace(super().per_row(drawn), effects=drawn[f"1|{self.group}"])

    def result(self, run: Sampled) -> Result:
        """That of a regression, and what is known of the groups."""
        from tallbayes.groups.result import with_groups  # here, since modes need the model

        return with_groups(self, super().result(run), run)
