"""Priors: independent densities, one for each coefficient."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Normal:
    """Normal prior for one coefficient, or for all of them.

    >>> Normal(0, 2.5)
    Normal(mean=0, sd=2.5)
    """

    mean: float = 0.0
    sd: float = 10.0
    df: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        _check(self.mean, sd=self.sd)

    @property
    def scale(self) -> float:
        """The sd, as other priors call it."""
        return self.sd


@dataclass(frozen=True)
class StudentT:
    """Student-t prior for one coefficient, or for all of them: weak where the data speak, and with long tails.

    >>> StudentT(4, 0, 2.5)
    StudentT(df=4, mean=0, scale=2.5)
    """

    df: float
    mean: float = 0.0
    scale: float = 2.5

    def __post_init__(self) -> None:
        _check(self.mean, df=self.df, scale=self.scale)


def _check(mean: float, **positive: float) -> None:
    if not np.isfinite(mean):
        raise ValueError(f"prior mean must be a finite number, not {mean}")
    for name, value in positive.items():
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"prior {name} must be a positive number, not {value}")


CoefficientPrior = Normal | StudentT
AnyPrior = CoefficientPrior | Mapping[str, CoefficientPrior]
GivenPrior = AnyPrior | str | Mapping[str, CoefficientPrior | str]  # as users may write it

DEFAULT = Normal(0.0, 10.0)


def prior_from_text(text: str) -> CoefficientPrior:
    """The prior that a text describes: "normal(MEAN, SD)" or "student_t(DF, MEAN, SCALE)".

    >>> prior_from_text("normal(0, 2.5)"), prior_from_text("student_t(4, 0, 2.5)")
    (Normal(mean=0.0, sd=2.5), StudentT(df=4.0, mean=0.0, scale=2.5))
    """
    found = re.fullmatch(r"\s*(normal|student_t)\s*\(([^()]*)\)\s*", text, re.IGNORECASE)
    kind, count = (Normal, 2) if found is None or found[1].lower() == "normal" else (StudentT, 3)
    try:
        numbers = [float(number) for number in found[2].split(",")] if found else []
    except ValueError:
        numbers = []
    if len(numbers) != count:
        raise ValueError(f"the prior {text!r} is not like normal(MEAN, SD) or student_t(DF, MEAN, SCALE)")
    return kind(*numbers)


def without_texts(prior: GivenPrior | None) -> AnyPrior | None:
    """What was given as prior, with the texts in it read.

    >>> without_texts({"fico": "normal(0, 1)"})
    {'fico': Normal(mean=0.0, sd=1.0)}
    """
    if isinstance(prior, str):
        return prior_from_text(prior)
    if isinstance(prior, Mapping):
        return {name: prior_from_text(one) if isinstance(one, str) else one for name, one in prior.items()}
    return prior


@dataclass(frozen=True)
class Prior:
    """The joint prior of all coefficients: independent Student-t densities, Normal where `df` is infinite.

    A Student-t density is proportional to (1 + z^2 / df)^-exponent, with exponent = (df + 1) / 2 unless it was raised
    to a power. Every method takes one parameter vector of shape (p,) or several of shape (chains, p).
    """

    mean: Array
    scale: Array
    df: Array
    exponent: Array

    @classmethod
    def of(cls, prior: AnyPrior | None, coefficients: Sequence[str]) -> Prior:
        """One prior for all coefficients, or priors by coefficient name (the rest get Normal(0, 10)).

        >>> Prior.of({"fico": Normal(0, 1)}, ["Intercept", "fico"]).scale
        array([10.,  1.])
        """
        if prior is None or isinstance(prior, CoefficientPrior):
            chosen = [prior or DEFAULT] * len(coefficients)
        elif isinstance(prior, Mapping):
            for name in prior:
                if name not in coefficients:
                    near = difflib.get_close_matches(str(name), coefficients, 1)
                    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(coefficients)}"
                    raise ValueError(f"prior given for {name!r}, which is no coefficient of this model; {hint}")
            chosen = [prior.get(name, DEFAULT) for name in coefficients]
        else:
            raise TypeError(
                f"prior must be tb.Normal, tb.StudentT or a dict of them by coefficient, not {type(prior).__name__}"
            )
        for one in chosen:
            if not isinstance(one, CoefficientPrior):
                raise TypeError(f"a coefficient's prior must be tb.Normal or tb.StudentT, not {type(one).__name__}")
        mean, scale, df = (np.array([getattr(one, part) for one in chosen], float) for part in ("mean", "scale", "df"))
        return cls(mean, scale, df, (df + 1) / 2)

    def to_the_power(self, share: float) -> Prior:
        """The density to a power, of which only ratios have a meaning: what a part of the rows gets of a prior.

        >>> Prior.of(Normal(0, 2), ["fico"]).to_the_power(1 / 4).scale
        array([4.])
        """
        scale = np.where(np.isinf(self.df), self.scale / math.sqrt(share), self.scale)
        return Prior(self.mean, scale, self.df, self.exponent * share)

    @property
    def normal(self) -> bool:
        """Whether all coefficients have Normal priors."""
        return bool(np.isinf(self.df).all())

    def log_density(self, theta: Array) -> Array:
        """Log density, with its constant."""
        z = (theta - self.mean) / self.scale
        kernel = np.where(np.isinf(self.df), -0.5 * z * z, -self._exponent * np.log1p(z * z / self._df))
        return np.asarray(kernel.sum(-1) - self._log_constant)

    def gradient(self, theta: Array) -> Array:
        """Gradient of the log density."""
        return np.asarray(self.precision(theta) * (self.mean - theta))

    def precision(self, theta: Array) -> Array:
        """The precision of the Normal density with the same mean and the same slope at theta.

        For a Normal prior that is minus the curvature. For a Student-t prior it is larger, and unlike the curvature
        always positive.
        """
        z = (theta - self.mean) / self.scale
        return np.asarray(np.where(np.isinf(self.df), 1.0, 2 * self._exponent / (self._df + z * z)) / self.scale**2)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draws of shape (size, p)."""
        z = rng.standard_normal((size, self.mean.size))
        for j in np.flatnonzero(np.isfinite(self.df)):
            z[:, j] = rng.standard_t(self.df[j], size)
        return self.mean + self.scale * z

    @property
    def _df(self) -> Array:
        """Degrees of freedom, with some number where they are infinite and not used."""
        return np.where(np.isinf(self.df), 1.0, self.df)

    @property
    def _exponent(self) -> Array:
        """The same of the exponents."""
        return np.where(np.isinf(self.df), 1.0, self.exponent)

    @cached_property
    def _log_constant(self) -> float:
        total = float(np.log(self.scale).sum())
        for df in self.df:
            if np.isinf(df):
                total += 0.5 * math.log(2 * math.pi)
            else:
                total += 0.5 * math.log(df * math.pi) + math.lgamma(df / 2) - math.lgamma((df + 1) / 2)
        return total
