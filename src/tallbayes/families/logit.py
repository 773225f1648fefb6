"""Outcomes 0 and 1 with the logit link: P(y = 1) = 1 / (1 + e^-eta), log-likelihood y eta - log(1 + e^eta)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tallbayes.families.chunks import largest, sum_derivatives
from tallbayes.families.compiled import exp_negative, inside, log1p_unit
from tallbayes.families.quadrature import integrate
from tallbayes.families.terms import entry, table

Array = NDArray[np.float64]

# The largest |third derivative|, 1/(6 sqrt 3), is at eta = +-log(2 + sqrt 3).
PEAK = math.log(2 + math.sqrt(3))
LARGEST = 1 / (6 * math.sqrt(3))


class Logit(NamedTuple):
    """Tag of the logit link."""

    @property
    def terms(self) -> NDArray[np.intp]:
        """What compiled loops ask for."""
        return table(*TERMS)

    @property
    def trust(self) -> str:
        """What is known of bounds on third derivatives."""
        return "proved"

    @property
    def canonical(self) -> bool:
        """Whether the log-likelihood is y eta - b(eta)."""
        return True

    def log_likelihood(self, y: Array, eta: Array) -> Array:
        """Log-likelihood of each row."""
        return np.asarray(y * eta - np.logaddexp(0.0, eta))

    def derivatives(self, y: Array, eta: Array) -> tuple[Array, Array, Array]:
        """First, second and third derivative in eta of each row's log-likelihood."""
        e = np.exp(-np.abs(eta))  # no 1 - p anywhere: it would lose the tail where p is close to 1
        spread = e / (1 + e) ** 2
        first = np.where(y > 0.5, self.mean(-eta), -self.mean(eta))
        return first, -spread, np.asarray(spread * np.sign(eta) * (1 - e) / (1 + e))

    def mean(self, eta: Array) -> Array:
        """P(y = 1)."""
        e = np.exp(-np.abs(eta))
        return np.asarray(np.where(eta < 0, e, 1.0) / (1 + e))


@inside(forceinline=True)
def _derivatives(y, eta):
    """Of -log(1 + e^eta): its value, first and minus its second derivative."""
    e = exp_negative(-abs(eta))
    small = e / (1.0 + e)
    value = -(eta if eta > 0.0 else 0.0) - log1p_unit(e)
    return value, -small if eta < 0.0 else small - 1.0, small * (1.0 - small)


@inside(forceinline=True)
def _third(y, eta):
    e = exp_negative(-abs(eta))
    size = e * (1.0 - e) / ((1.0 + e) * (1.0 + e) * (1.0 + e))
    return size if eta > 0.0 else -size


@inside(forceinline=True)
def _bound(y, low, high):
    at_low, at_high = abs(_third(y, low)), abs(_third(y, high))
    peak = ((low <= PEAK) & (high >= PEAK)) | ((low <= -PEAK) & (high >= -PEAK))
    return LARGEST if peak else (at_low if at_low > at_high else at_high)


# By numba itself: what LLVM inlines into a loop of eight nodes it unrolls before, and then does not vectorise.
_inlined = njit(inline="always")(_third.py_func)


@entry
def chunk_value(y, eta, weights):
    # One logarithm for the product of all (1 + e^-|eta|): at most 2^512 for a chunk.
    total, product = 0.0, 1.0
    if weights.size == 0:
        for i in range(eta.size):
            total += eta[i] if eta[i] > 0.0 else 0.0
            product *= 1.0 + exp_negative(-abs(eta[i]))
    else:
        for i in range(eta.size):
            total += weights[i] * ((eta[i] if eta[i] > 0.0 else 0.0) + log1p_unit(exp_negative(-abs(eta[i]))))
    return -total - math.log(product)


@entry
def chunk_derivatives(y, eta, weights, first, second):
    return sum_derivatives(_derivatives, y, eta, weights, first, second)


@entry
def chunk_bounds(y, low, high, out):
    largest(_bound, y, low, high, out)


@entry
def value(y, eta):
    return y * eta - (eta if eta > 0.0 else 0.0) - log1p_unit(exp_negative(-abs(eta)))


@entry
def third(y, eta):
    return _third(y, eta)


@entry
def remainder(y, eta, h):
    return integrate(_inlined, y, eta, h)


TERMS = (chunk_value, chunk_derivatives, chunk_bounds, value, third, remainder)
