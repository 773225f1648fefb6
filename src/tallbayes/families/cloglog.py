"""Outcomes 0 and 1 with the complementary log-log link: P(y = 0) = exp(-t), t = e^eta.

A row with y = 0 has log-likelihood -t. One with y = 1 has log(1 - e^-t) = eta + g(t) with g(t) = log((1 - e^-t) / t),
whose derivatives in eta are, with b = t / (e^t - 1),

    b,    b a,    b (a^2 - t - a b),    a = 1 - t - b.

Where t is small these are differences of nearly equal numbers, and power series (Bernoulli numbers) take their place.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tallbayes.families.chunks import largest, sum_derivatives, sum_values
from tallbayes.families.compiled import exp, exp_negative, inside, log
from tallbayes.families.quadrature import integrate
from tallbayes.families.terms import entry, table

Array = NDArray[np.float64]

# Of the third derivative where y = 1: a negative and a positive peak.
PEAKS = (-0.19894156695829578, 1.4266906535862953)
HEIGHTS = (0.19556248033726987, 0.4260547691454828)

# Bernoulli numbers over factorials: the series of t / (e^t - 1).
B2, B4, B6, B8 = 1 / 12, -1 / 720, 1 / 30_240, -1 / 1_209_600
B10, B12, B14 = 1 / 47_900_160, -691 / 1_307_674_368_000, 1 / 74_724_249_600
LARGEST_T = 700.0  # beyond it log(1 - e^-t) is zero
LARGEST_ETA = math.log(LARGEST_T)


class Cloglog(NamedTuple):
    """Tag of the complementary log-log link."""

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
        return False

    def log_likelihood(self, y: Array, eta: Array) -> Array:
        """Log-likelihood of each row."""
        with np.errstate(over="ignore", divide="ignore"):
            t = np.exp(np.asarray(eta, dtype=float))
            one = np.where(t < 0.5, np.log(-np.expm1(-t)), np.log1p(-np.exp(-t)))
            return np.where(y > 0.5, np.where(t < 1e-300, eta, one), -t)

    def derivatives(self, y: Array, eta: Array) -> tuple[Array, Array, Array]:
        """First, second and third derivative in eta of each row's log-likelihood."""
        with np.errstate(over="ignore"):
            t = np.exp(np.asarray(eta, dtype=float))
        u = np.minimum(t, LARGEST_T)
        b = u / np.expm1(u)
        a = 1 - u - b
        ones = b, b * a, b * (a * a - u - a * b)
        first, second, third_ = (np.where(y > 0.5, one, -t) for one in ones)
        return first, second, third_

    def mean(self, eta: Array) -> Array:
        """P(y = 1)."""
        with np.errstate(over="ignore"):
            return np.asarray(-np.expm1(-np.exp(eta)))


@inside(forceinline=True)
def _ones(t):
    """g(t) and the three derivatives in eta of log(1 - e^-t), for y = 1."""
    # Power series, for t up to 1/2.
    s = min(t, 0.5)
    q = s * s
    g = B2 / 2 + q * (B4 / 4 + q * (B6 / 6 + q * (B8 / 8 + q * (B10 / 10 + q * (B12 / 12 + q * B14 / 14)))))
    k1 = B2 + q * (B4 + q * (B6 + q * (B8 + q * (B10 + q * (B12 + q * B14)))))
    k2 = 2 * B2 + q * (4 * B4 + q * (6 * B6 + q * (8 * B8 + q * (10 * B10 + q * (12 * B12 + q * 14 * B14)))))
    k3 = 4 * B2 + q * (16 * B4 + q * (36 * B6 + q * (64 * B8 + q * (100 * B10 + q * (144 * B12 + q * 196 * B14)))))
    # Closed forms, for t above 1/2.
    v = min(max(t, 0.5), LARGEST_T)
    u = exp_negative(-v)
    b = v * u / (1.0 - u)
    a = 1.0 - v - b
    small = t <= 0.5
    value = q * g - 0.5 * s if small else log(1.0 - u) - log(v)
    first = 1.0 - 0.5 * s + q * k1 if small else b
    second = q * k2 - 0.5 * s if small else b * a
    return value, first, second, q * k3 - 0.5 * s if small else b * (a * a - v - a * b)


@inside(forceinline=True)
def _value(y, eta):
    t = exp(eta)
    return min(eta, LARGEST_ETA) + _ones(t)[0] if y > 0.5 else -t


@inside(forceinline=True)
def _derivatives(y, eta):
    t = exp(eta)
    value, slope, bend, _ = _ones(t)
    one = y > 0.5
    return min(eta, LARGEST_ETA) + value if one else -t, slope if one else -t, -bend if one else t


@inside(forceinline=True)
def _third(y, eta):
    t = exp(eta)
    return _ones(t)[3] if y > 0.5 else -t


@inside(forceinline=True)
def _bound(y, low, high):
    found, at_high = abs(_third(y, low)), abs(_third(y, high))
    found = at_high if at_high > found else found
    one = y > 0.5
    if one & (low <= PEAKS[0]) & (high >= PEAKS[0]):
        found = HEIGHTS[0] if HEIGHTS[0] > found else found
    if one & (low <= PEAKS[1]) & (high >= PEAKS[1]):
        found = HEIGHTS[1] if HEIGHTS[1] > found else found
    return found


# By numba itself: what LLVM inlines into a loop of eight nodes it unrolls before, and then does not vectorise.
_inlined = njit(inline="always")(_third.py_func)


@entry
def chunk_value(y, eta, weights):
    return sum_values(_value, y, eta, weights)


@entry
def chunk_derivatives(y, eta, weights, first, second):
    return sum_derivatives(_derivatives, y, eta, weights, first, second)


@entry
def chunk_bounds(y, low, high, out):
    largest(_bound, y, low, high, out)


@entry
def value(y, eta):
    return _value(y, eta)


@entry
def third(y, eta):
    return _third(y, eta)


@entry
def remainder(y, eta, h):
    return integrate(_inlined, y, eta, h)


TERMS = (chunk_value, chunk_derivatives, chunk_bounds, value, third, remainder)
