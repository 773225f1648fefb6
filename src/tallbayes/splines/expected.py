"""What a fit of splines expects of a row; see `results/expected.py`. Features are the variables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from tallbayes.data.cleaning import Cleaning
from tallbayes.data.formula import Formula
from tallbayes.data.new_rows import NewRows
from tallbayes.families import Bernoulli
from tallbayes.results.expected import read
from tallbayes.splines.basis import Splines

Array = NDArray[np.float64]

FEW = 10  # splines whose mean is the centre: there is none in the middle of all


@dataclass(frozen=True, eq=False)
class SplineCentre:
    """Some splines together."""

    written: str  # the formula
    splines: Splines

    @property
    def formula(self) -> Formula:
        """The formula."""
        return read(self.written)

    @property
    def columns(self) -> list[str]:
        """See `Centre`."""
        return list(self.formula.parsed.predictors)

    @property
    def clean(self) -> Cleaning:
        """See `Centre`."""
        return self.formula.clean_raw

    @property
    def width(self) -> int:
        """See `Centre`."""
        return sum(name != "Intercept" for name in self.formula.coefficients)

    def features(self, rows: NewRows) -> Array:
        """See `Centre`."""
        return variables(self.formula, self.formula.apply(rows.source, rows.where))

    def mean(self, features: Array) -> Array:
        """See `Centre`."""
        return np.asarray(expit(self.splines.each(features)).mean(axis=0))

    @property
    def besides(self) -> list[str]:
        """See `Centre`."""
        return []

    def trials(self, rows: NewRows) -> None:
        """See `Centre`."""


@dataclass(frozen=True, eq=False)
class SplineDraws:
    """Some draws of the splines."""

    splines: Splines
    chains: int

    @property
    def size(self) -> int:
        """See `Draws`."""
        return self.splines.sizes.size

    def means(self, features: Array) -> Array:
        """See `Draws`."""
        return np.asarray(expit(self.splines.each(features)).T)

    def outcomes(self, features: Array, trials: Array | None, rng: np.random.Generator) -> Array:
        """See `Draws`."""
        return Bernoulli().simulate(rng, np.asarray(self.splines.each(features)).T)


def variables(formula: Formula, X: Array) -> Array:
    """The variables (d, rows) of a design, which has an intercept besides."""
    return X[[j for j, name in enumerate(formula.coefficients) if name != "Intercept"]]
