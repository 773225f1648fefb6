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
from numba import njit, types
from numba.extending import overload
from numpy.typing import NDArray

from tallbayes.families.compiled import INSIDE, OPTIONS, exp_negative, log, normal_excess, normal_fraction
from tallbayes.families.terms import bound3, chunk_derivatives, chunk_value, has_tag, third, value

Array = NDArray[np.float64]

PEAK, LARGEST = 1.0023693422683706, 0.29571881919312310
HEIGHT = 0.3989422804014327  # phi(0)


class Probit(NamedTuple):
    """Tag of the probit link."""

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


@njit(inline="always")
def _tail(e, d1):
    """m = phi(e) / Phi(e),  m + e,  and what log Phi(e) is made of: log(inside) - outside; d1 is that of |e|."""
    left = e < 0.0
    bell = exp_negative(-0.5 * e * e)
    scaled = HEIGHT / (abs(e) + d1)  # of the smaller side: exp(e^2 / 2) Phi(-|e|)
    above = 1.0 - bell * scaled
    ratio = d1 - e if left else HEIGHT * bell / above
    return ratio, d1 if left else ratio + e, scaled if left else above, 0.5 * e * e if left else 0.0


@overload(chunk_value, jit_options=OPTIONS)
def _(tag, y, eta, weights):
    if not has_tag(tag, Probit):
        return None
    no_weights = isinstance(weights, types.NoneType)

    def total_value(tag, y, eta, weights):
        total = 0.0
        for i in range(eta.size):
            e = eta[i] if y[i] > 0.5 else -eta[i]
            _, _, inside, outside = _tail(e, normal_excess(abs(e)))
            total += (1.0 if no_weights else weights[i]) * (log(inside) - outside)
        return total

    return total_value


@overload(chunk_derivatives, jit_options=OPTIONS)
def _(tag, y, eta, weights, first, second):
    if not has_tag(tag, Probit):
        return None
    no_weights = isinstance(weights, types.NoneType)

    def derivatives(tag, y, eta, weights, first, second):
        total = 0.0
        for i in range(eta.size):
            sign = 1.0 if y[i] > 0.5 else -1.0
            e = sign * eta[i]
            ratio, more, inside, outside = _tail(e, normal_excess(abs(e)))
            weight = 1.0 if no_weights else weights[i]
            total += weight * (log(inside) - outside)
            first[i] = weight * sign * ratio
            second[i] = weight * ratio * more
        return total

    return derivatives


@overload(value, jit_options=INSIDE)
def _(tag, y, eta):
    if not has_tag(tag, Probit):
        return None

    def one(tag, y, eta):
        _, _, inside, outside = _tail(eta if y > 0.5 else -eta, normal_excess(abs(eta)))
        return log(inside) - outside

    return one


@overload(third, jit_options=INSIDE)
def _(tag, y, eta):
    if not has_tag(tag, Probit):
        return None

    def derivative(tag, y, eta):
        sign = 1.0 if y > 0.5 else -1.0
        e = sign * eta
        d1, d2, d3 = normal_fraction(abs(e))
        ratio, more, _, _ = _tail(e, d1)
        size = d1 * d1 * d2 * (d3 - d2) if e < 0.0 else more * (2.0 * ratio + e) - 1.0
        return sign * ratio * size

    return derivative


@overload(bound3, jit_options=INSIDE)
def _(tag, y, low, high):
    if not has_tag(tag, Probit):
        return None

    def bound(tag, y, low, high):
        at_ends = max(abs(third(tag, y, low)), abs(third(tag, y, high)))
        peak = PEAK if y > 0.5 else -PEAK
        return LARGEST if (low <= peak) & (high >= peak) else at_ends

    return bound
