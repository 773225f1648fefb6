"""Priors: independent densities, one for each coefficient.

A prior that is given is for a coefficient as the data have it, whatever its units. Without one, defaults follow the
columns: a coefficient has Normal(0, 5 / unit), where the unit is the column's sd, or the difference of its two values
if it has no others; so a usual difference in a column may change the linear predictor by five, give or take. The
intercept has Normal(0, 10) where all columns are at their means, and not where they are zero, which may be far from all
data. Neither depends on units, and both are wide: with many rows they move nothing.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.once import once
from tallbayes.data.options import check_kind, check_number, check_text, shown
from tallbayes.rows.moments import Moments

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
    support: ClassVar[tuple[float, float]] = (-math.inf, math.inf)

    def __post_init__(self) -> None:
        check_number("prior mean", self.mean, size=SIZES)
        check_number("prior sd", self.sd, above=0, size=SIZES)

    def log_density(self, at: Array) -> Array:
        """Log density of each number, with its constant."""
        z = (np.asarray(at) - self.mean) / self.sd
        return np.asarray(-0.5 * z * z - math.log(self.sd) - 0.5 * math.log(2 * math.pi))

    @property
    def scale(self) -> float:
        """The sd, as other priors call it."""
        return self.sd


@dataclass(frozen=True)
class StudentT:
    """Student-t prior for one coefficient, or for all of them: it has long tails, which give way where the data speak.

    >>> StudentT(4, 0, 2.5)
    StudentT(df=4, mean=0, scale=2.5)
    """

    df: float
    mean: float = 0.0
    scale: float = 2.5
    support: ClassVar[tuple[float, float]] = (-math.inf, math.inf)

    def __post_init__(self) -> None:
        check_number("prior df", self.df, above=0, size=DFS)
        check_number("prior mean", self.mean, size=SIZES)
        check_number("prior scale", self.scale, above=0, size=SIZES)

    def log_density(self, at: Array) -> Array:
        """Log density of each number, with its constant."""
        z, half = (np.asarray(at) - self.mean) / self.scale, 0.5 * (self.df + 1)
        constant = math.lgamma(half) - math.lgamma(0.5 * self.df) - 0.5 * math.log(self.df * math.pi)
        return np.asarray(constant - math.log(self.scale) - half * np.log1p(z * z / self.df))


def rounded(value: float) -> str:
    """A number with as many digits as one wants to read.

    >>> rounded(-1234.5), rounded(-0.01234567), rounded(16)
    ('-1,234', '-0.01235', '16')
    """
    return f"{value:,.0f}" if 1_000 <= abs(value) < 1e15 else f"{value:.4g}"


CoefficientPrior = Normal | StudentT
AnyPrior = CoefficientPrior | Mapping[str, CoefficientPrior]
GivenPrior = AnyPrior | str | Mapping[str, CoefficientPrior | str]  # as users may write it

OURS = "tb.Normal, tb.StudentT, a text such as 'normal(0, 1)'"
SIZES = (1e-100, 1e100)  # of means and scales: their squares are numbers, and so are those of what is sampled
DFS = (0.5, 1e100)  # of a Student-t prior: with fewer, draws are beyond what numbers hold

INTERCEPT_SD = 10.0  # of the default prior of the intercept, at the columns' means
SLOPE_SD = 5.0  # of that of what a usual difference in a column changes


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
        raise ValueError(f"the prior {shown(text)} is not like normal(MEAN, SD) or student_t(DF, MEAN, SCALE)")
    return kind(*numbers)


def without_texts(prior: GivenPrior | None) -> AnyPrior | None:
    """What was given as prior, with the texts in it read.

    >>> without_texts({"fico": "normal(0, 1)"})
    {'fico': Normal(mean=0.0, sd=1.0)}
    """
    if isinstance(prior, str):
        return prior_from_text(prior)
    if not isinstance(prior, Mapping):
        check_kind("prior", prior, (Normal, StudentT), f"{OURS}, or a dict of them by coefficient", optional=True)
        return prior
    for name, one in prior.items():
        check_text("a name in prior", name, "the name of a coefficient")
        check_kind(f"the prior of {name!r}", one, (str, Normal, StudentT), OURS)
    return {name: prior_from_text(one) if isinstance(one, str) else one for name, one in prior.items()}


@dataclass(frozen=True)
class Prior:
    """The joint prior of all coefficients: independent Student-t densities, Normal where `df` is infinite.

    A Student-t density is proportional to (1 + z^2 / df)^-exponent, with exponent = (df + 1) / 2 unless it was raised
    to a power. The density of the `intercept` may be that of theta_0 + sum means_j theta_j, its value where columns are
    at their means; it is Normal then. Every method takes one parameter vector of shape (p,) or several of shape
    (chains, p).
    """

    mean: Array
    scale: Array
    df: Array
    exponent: Array
    means: Array  # (p,) all zero where the intercept's prior is that of the coefficient itself
    intercept: int = 0
    given: tuple[bool, ...] = ()  # whether each is the user's

    @classmethod
    def of(
        cls,
        prior: AnyPrior | None,
        coefficients: Sequence[str],
        moments: Moments,
        outcome: tuple[float, float] = (0.0, 1.0),
    ) -> Prior:
        """One prior for all coefficients, or priors by coefficient name; the rest get defaults that follow the columns.

        Where the linear predictor is on the scale of the outcomes, defaults follow their mean and sd as well.

        >>> columns = Moments(*np.array([[1, 700], [0, 50], [1, 300], [1, 850], [0, 0]], dtype=float))
        >>> Prior.of({"fico": Normal(0, 1)}, ["Intercept", "fico"], columns).scale
        array([10.,  1.])
        """
        names = list(coefficients)
        if prior is None:
            chosen = dict[str, CoefficientPrior]()
        elif isinstance(prior, CoefficientPrior):
            chosen = dict.fromkeys(names, prior)
        else:
            for name in prior:
                if name not in coefficients:
                    near = difflib.get_close_matches(str(name), coefficients, 1)
                    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(coefficients)}"
                    raise ValueError(f"prior given for {name!r}, which is not a coefficient of this model; {hint}")
            chosen = dict(prior)
        intercept, means = moments.intercept, np.zeros(len(names))
        widths, centers = outcome[1] * SLOPE_SD / moments.unit, np.zeros(len(names))
        if intercept >= 0:
            widths[intercept] = outcome[1] * INTERCEPT_SD / abs(moments.mean[intercept])
            centers[intercept] = outcome[0] / moments.mean[intercept]
            if names[intercept] not in chosen:
                means = moments.mean / moments.mean[intercept]
                means[intercept] = 0.0
        all_of_them = [
            chosen.get(name) or Normal(center, width)
            for name, center, width in zip(names, centers.tolist(), widths.tolist(), strict=True)
        ]
        mean, scale, df = (
            np.array([getattr(one, part) for one in all_of_them], float) for part in ("mean", "scale", "df")
        )
        return cls(mean, scale, df, (df + 1) / 2, means, max(0, intercept), tuple(name in chosen for name in names))

    def to_the_power(self, share: float) -> Prior:
        """The density to a power, of which only ratios have a meaning: what a part of the rows gets of a prior.

        >>> columns = Moments(*np.array([[700], [50], [300], [850], [0]], dtype=float))
        >>> Prior.of(Normal(0, 2), ["fico"], columns).to_the_power(1 / 4).scale
        array([4.])
        """
        scale = np.where(np.isinf(self.df), self.scale / math.sqrt(share), self.scale)
        return replace(self, scale=scale, exponent=self.exponent * share)

    @property
    def normal(self) -> bool:
        """Whether all coefficients have Normal priors."""
        return bool(np.isinf(self.df).all())

    def log_density(self, theta: Array) -> Array:
        """Log density, with its constant."""
        z = (self.at_means(theta) - self.mean) / self.scale
        kernel = np.where(np.isinf(self.df), -0.5 * z * z, -self._exponent * np.log1p(z * z / self._df))
        return np.asarray(kernel.sum(-1) - self._log_constant)

    def gradient(self, theta: Array) -> Array:
        """Gradient of the log density."""
        slopes, _ = self.each(theta)
        return np.asarray(slopes + slopes[..., [self.intercept]] * self.means)

    def precision(self, theta: Array) -> Array:
        """The precision (p, p) of the Normal density with the same mean and the same slope at theta (p,).

        For a Normal prior that is minus the curvature. For a Student-t prior it is larger, and unlike the curvature
        always positive.
        """
        found = np.diag(self.each(theta)[1])
        weights = self.means.copy()
        weights[self.intercept] = 1.0
        own = found[self.intercept, self.intercept]
        found[self.intercept, self.intercept] = 0.0
        return np.asarray(found + own * np.outer(weights, weights))

    def each(self, theta: Array) -> tuple[Array, Array]:
        """Slopes and precisions of the densities by themselves, each in what it is a density of."""
        away = self.at_means(theta) - self.mean
        z = away / self.scale
        precision = np.where(np.isinf(self.df), 1.0, 2 * self._exponent / (self._df + z * z)) / self.scale**2
        return -precision * away, precision

    def at_means(self, theta: Array) -> Array:
        """What the densities are of: the coefficients, with the intercept where columns are at their means."""
        found = np.array(theta, dtype=float)
        if self.means.any():
            # Not `theta @ means`: BLAS adds up a vector in an order that depends on its place among the others.
            found[..., self.intercept] += (theta * self.means).sum(-1)
        return found

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draws of shape (size, p)."""
        z = rng.standard_normal((size, self.mean.size))
        for j in np.flatnonzero(np.isfinite(self.df)):
            z[:, j] = rng.standard_t(self.df[j], size)
        found = self.mean + self.scale * z
        found[:, self.intercept] -= (found * self.means).sum(-1)
        return found

    def described(self) -> list[str]:
        """Each in words, as `fit.prior` has them.

        >>> columns = Moments(*np.array([[1, 700], [0, 50], [1, 300], [1, 850], [0, 0]], dtype=float))
        >>> Prior.of(None, ["Intercept", "fico"], columns).described()
        ["Normal(0, 10) at the columns' means", 'Normal(0, 0.1)']
        """
        found = []
        for mean, scale, df in zip(self.mean.tolist(), self.scale.tolist(), self.df.tolist(), strict=True):
            kind, shape = ("Normal", "") if math.isinf(df) else ("StudentT", f"{df:.4g}, ")
            found.append(f"{kind}({shape}{rounded(mean)}, {rounded(scale)})")
        if self.means.any():
            found[self.intercept] += " at the columns' means"
        return found

    @property
    def _df(self) -> Array:
        """Degrees of freedom, with some number where they are infinite and not used."""
        return np.where(np.isinf(self.df), 1.0, self.df)

    @property
    def _exponent(self) -> Array:
        """The same of the exponents."""
        return np.where(np.isinf(self.df), 1.0, self.exponent)

    @once
    def _log_constant(self) -> float:
        total = float(np.log(self.scale).sum())
        for df in self.df:
            if np.isinf(df):
                total += 0.5 * math.log(2 * math.pi)
            else:
                total += 0.5 * math.log(df * math.pi) + math.lgamma(df / 2) - math.lgamma((df + 1) / 2)
        return total
