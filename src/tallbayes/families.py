"""Families: what one row says about its linear predictor eta.

A family gives the log-likelihood of a row, its derivatives in eta, and a bound on the third derivative over an
interval; and, for the compiled passes over all rows, the same for a chunk of rows at a time. A chunk function is
chosen by the type of the family's `tag`, an empty NamedTuple: numba resolves it while compiling, so the loops stay
cached on disk.

A canonical family has log-likelihood  y eta - b(eta).  The sum of y_i eta_i is linear in the coefficients and is
computed once, so its chunk functions give only the part -b(eta) and never read y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from tallbayes.compiled import OPTIONS, exp_negative, log1p_unit

Array = NDArray[np.float64]


def chunk_value(tag: Any, eta: Any, weights: Any) -> float:
    """Sum of the weighted log-likelihood over a chunk (compiled only; weights may be None)."""
    raise NotImplementedError


def chunk_derivatives(tag: Any, eta: Any, weights: Any, first: Any, second: Any) -> float:
    """Like `chunk_value`, and write weighted d/d eta and -d2/d eta2 of every row (compiled only)."""
    raise NotImplementedError


class Logit(NamedTuple):
    """Tag of Bernoulli outcomes with logit link: -b(eta) = -log(1 + e^eta)."""


# The largest |third derivative| of the logistic log-likelihood, 1/(6 sqrt 3), is at eta = +-log(2 + sqrt 3).
LOGIT_PEAK = math.log(2 + math.sqrt(3))
LOGIT_BOUND3 = 1 / (6 * math.sqrt(3))


@overload(chunk_value, jit_options=OPTIONS)
def _(tag, eta, weights):
    if getattr(tag, "instance_class", None) is not Logit:
        return None
    if isinstance(weights, types.NoneType):

        def unweighted(tag, eta, weights):
            # One logarithm for the product of all (1 + e^-|eta|): at most 2^512 for a chunk.
            product, positive = 1.0, 0.0
            for i in range(eta.size):
                positive += max(eta[i], 0.0)
                product *= 1.0 + exp_negative(-abs(eta[i]))
            return -positive - math.log(product)

        return unweighted

    def weighted(tag, eta, weights):
        total = 0.0
        for i in range(eta.size):
            total += weights[i] * (max(eta[i], 0.0) + log1p_unit(exp_negative(-abs(eta[i]))))
        return -total

    return weighted


@overload(chunk_derivatives, jit_options=OPTIONS)
def _(tag, eta, weights, first, second):
    if getattr(tag, "instance_class", None) is not Logit:
        return None
    no_weights = isinstance(weights, types.NoneType)

    def derivatives(tag, eta, weights, first, second):
        total = 0.0
        for i in range(eta.size):
            e = exp_negative(-abs(eta[i]))
            weight = 1.0 if no_weights else weights[i]
            total += weight * (max(eta[i], 0.0) + log1p_unit(e))
            small = e / (1.0 + e)
            first[i] = -weight * (small if eta[i] < 0.0 else 1.0 - small)
            second[i] = weight * small * (1.0 - small)
        return -total

    return derivatives


@dataclass(frozen=True)
class Bernoulli:
    """Outcomes 0 and 1 with success probability 1 / (1 + e^-eta).

    >>> Bernoulli().mean(np.array([0.0, 2.0])).round(3)
    array([0.5  , 0.881])
    """

    link: str = "logit"

    def __post_init__(self) -> None:
        if self.link != "logit":
            raise ValueError(f"Bernoulli link {self.link!r} is not known; choose 'logit'")

    @property
    def name(self) -> str:
        """What the family is called where it is given as text."""
        return "bernoulli"

    @property
    def tag(self) -> NamedTuple:
        """Chooses the compiled chunk functions."""
        return Logit()

    def check(self, y: Array, name: str) -> None:
        """Refuse outcomes that this family cannot have."""
        wrong = (y != 0) & (y != 1)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"outcome {name!r} must be 0 or 1, but {int(wrong.sum())} rows are not (first at row {row}: "
                f"{y[row]:g}); recode it, for example ({name} > 0)"
            )
        if y.min() == y.max():
            raise ValueError(
                f"outcome {name!r} is {y[0]:g} in every row; a regression needs rows with 0 and rows with 1"
            )

    def log_likelihood(self, y: Array, eta: Array) -> Array:
        """Log-likelihood of each row."""
        return np.asarray(y * eta - np.logaddexp(0.0, eta))

    def derivatives(self, y: Array, eta: Array) -> tuple[Array, Array, Array]:
        """First, second and third derivative in eta of each row's log-likelihood."""
        e = np.exp(-np.abs(eta))  # no 1 - p anywhere: it would lose the tail where p is close to 1
        spread = e / (1 + e) ** 2
        first = np.where(y > 0.5, self.mean(-eta), -self.mean(eta))
        return first, -spread, np.asarray(spread * np.sign(eta) * (1 - e) / (1 + e))

    def bound3(self, y: Array, low: Array, high: Array) -> Array:
        """A bound on |third derivative| for eta in [low, high], tight where the interval holds no peak."""
        ends = np.maximum(*(np.abs(self.derivatives(y, end)[2]) for end in (low, high)))
        peak = ((low <= LOGIT_PEAK) & (high >= LOGIT_PEAK)) | ((low <= -LOGIT_PEAK) & (high >= -LOGIT_PEAK))
        return np.where(peak, LOGIT_BOUND3, ends)

    def mean(self, eta: Array) -> Array:
        """Expected outcome."""
        e = np.exp(-np.abs(eta))
        return np.asarray(np.where(eta < 0, e, 1.0) / (1 + e))

    def simulate(self, rng: np.random.Generator, eta: Array) -> Array:
        """Draw outcomes."""
        return (rng.random(np.shape(eta)) < self.mean(eta)).astype(float)


def resolve(family: str | Bernoulli) -> Bernoulli:
    """The family that a name stands for.

    >>> resolve("bernoulli")
    Bernoulli(link='logit')
    """
    if isinstance(family, Bernoulli):
        return family
    if family == "bernoulli":
        return Bernoulli()
    raise ValueError(f"family {family!r} is not known; choose 'bernoulli'")
