"""Outcomes 0 and 1 with the probit link: P(y = 1) = Phi(eta).

The log-likelihood is log Phi(e) with e = eta for y = 1 and e = -eta for y = 0. With the ratio m = phi(e) / Phi(e) its
derivatives in e are  m,  -m (m + e)  and  m ((m + e)(2m + e) - 1),  the last positive with one peak.

In the left tail m is close to -e, and both brackets are differences of nearly equal numbers. There m comes from its
continued fraction in x = -e (`normal_fraction`):  m + e = d1, and  d1 (x + 2 d1) - 1 = d1 (2 d1 - d2), which is
d1^2 d2 (d3 - d2)  since  d1 = 1 / (x + d2)  and  d2 = 2 / (x + d3).  In the far tail d2 is 2 / x and d3 is 3 / x.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tallbayes.families.chunks import largest, sum_derivatives, sum_values
from tallbayes.families.compiled import exp_negative, inside, log, normal_excess, normal_fraction
from tallbayes.families.quadrature import integrate
from tallbayes.families.terms import entry, table

Array = NDArray[np.float64]

PEAK, LARGEST = 1.0023693422683706, 0.29571881919312310
HEIGHT = 0.3989422804014327  # phi(0)


class Probit(NamedTuple):
    """Tag of the probit link."""

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
        from scipy.special import log_ndtr

        return np.asarray(log_ndtr(np.where(y > 0.5, eta, -eta)))

    def derivatives(self, y: Array, eta: Array) -> tuple[Array, Array, Array]:
        """First, second and third derivative in eta of each row's log-likelihood."""
        from scipy.special import ndtr

        sign = np.where(y > 0.5, 1.0, -1.0)
        e = sign * eta
        d1, d2, d3 = normal_fraction.py_func(np.abs(e))
        left = e < 0
        m = np.where(left, d1 - e, HEIGHT * np.exp(-0.5 * e * e) / ndtr(np.abs(e)))
        third_ = np.where(left, m * d1 * d1 * d2 * (d3 - d2), m * ((m + e) * (2 * m + e) - 1))
        return sign * m, -m * np.where(left, d1, m + e), sign * third_

    def mean(self, eta: Array) -> Array:
        """P(y = 1)."""
        from scipy.special import ndtr

        return np.asarray(ndtr(eta))


@inside(forceinline=True)
def _tail(e, d1):
    """m = phi(e) / Phi(e),  m + e,  and what log Phi(e) is made of: log(inside) - outside; d1 is that of |e|."""
    left = e < 0.0
    bell = exp_negative(-0.5 * e * e)
    scaled = HEIGHT / (abs(e) + d1)  # of the smaller side: exp(e^2 / 2) Phi(-|e|)
    above = 1.0 - bell * scaled
    ratio = d1 - e if left else HEIGHT * bell / above
    return ratio, d1 if left else ratio + e, scaled if left else above, 0.5 * e * e if left else 0.0


@inside(forceinline=True)
def _value(y, eta):
    e = eta if y > 0.5 else -eta
    _, _, inside, outside = _tail(e, normal_excess(abs(e)))
    return log(inside) - outside


@inside(forceinline=True)
def _derivatives(y, eta):
    sign = 1.0 if y > 0.5 else -1.0
    e = sign * eta
    ratio, more, inside, outside = _tail(e, normal_excess(abs(e)))
    return log(inside) - outside, sign * ratio, ratio * more


@inside(forceinline=True)
def _third(y, eta):
    sign = 1.0 if y > 0.5 else -1.0
    e = sign * eta
    d1, d2, d3 = normal_fraction(abs(e))
    ratio, more, _, _ = _tail(e, d1)
    size = d1 * d1 * d2 * (d3 - d2) if e < 0.0 else more * (2.0 * ratio + e) - 1.0
    return sign * ratio * size


@inside(forceinline=True)
def _bound(y, low, high):
    at_low, at_high = abs(_third(y, low)), abs(_third(y, high))
    peak = PEAK if y > 0.5 else -PEAK
    within = (low <= peak) & (high >= peak)
    return LARGEST if within else (at_low if at_low > at_high else at_high)


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
