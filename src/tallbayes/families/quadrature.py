"""What the second-order expansion of a row's log-likelihood leaves out, by quadrature of its third derivative.

With f the log-likelihood of a row as a function of its linear predictor, expanded at eta, the remainder at eta + h is

    R(h) = integral from 0 to h of (h - s)^2 / 2 f'''(eta + s) ds,

computed by Gauss-Legendre quadrature in this form: nothing cancels, so that also tiny remainders have ten digits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# Gauss-Legendre on [0, 1]; eight nodes fill a vector register.
NODES, WEIGHTS = (1 + np.polynomial.legendre.leggauss(8)[0]) / 2, np.polynomial.legendre.leggauss(8)[1] / 2
CUBIC = WEIGHTS * (1 - NODES) ** 2 / 2
# What is left of a panel where its second and seventh node are not looked at: a rule of lower order, which tells by how
# much the panel may err.
FEWER = np.zeros(8)
FEWER[[0, 2, 3, 4, 5, 7]] = np.linalg.solve(
    np.vander(NODES[[0, 2, 3, 4, 5, 7]], increasing=True).T, 1 / np.arange(1.0, 7.0)
)
CLOSE = 1e-7  # difference of the two, relative to what is added up: the panel itself is much better than that
SHORTEST = 2.0**-12  # panels, as a share of the way
PANEL = 0.5  # length of a panel: third derivatives have singularities a few units off the real line
FAR = 16.0  # a way that is worth longer panels


@njit(inline="always")
def integrate(third, y, eta, h):
    """R(h), given the third derivative as a compiled function of (y, eta).

    A short way is one panel, on which the integrand is nearly a polynomial. On long ways panels grow with the distance
    from zero, around which third derivatives have their peaks.
    """
    total, s, size = 0.0, 0.0, abs(h)
    if size <= PANEL:
        for k in range(8):
            total += CUBIC[k] * third(y, eta + NODES[k] * h)
        return total * h * h * h
    while s != h:
        length = 0.2 * abs(eta + s) if size > FAR else PANEL
        length = length if length > PANEL else PANEL
        end = h
        if abs(h - s) > length:
            end = s + length if h > 0.0 else s - length
        for k in range(8):
            left = (h - s) - NODES[k] * (end - s)
            total += WEIGHTS[k] * (end - s) * left * left * third(y, eta + (h - left))
        s = end
    return 0.5 * total


@njit(inline="always")
def integrate_carefully(third, y, eta, h):
    """The same for a third derivative of which nothing is known: panels are halved until a coarser rule agrees."""
    total, s, length = 0.0, 0.0, abs(h)
    while s != h:
        whole = abs(h - s) <= length
        step = h - s if whole else (length if h > 0.0 else -length)
        fine, coarse, size = 0.0, 0.0, 0.0
        for k in range(8):
            left = (h - s) - NODES[k] * step
            part = left * left * third(y, eta + (h - left))
            fine += WEIGHTS[k] * part
            coarse += FEWER[k] * part
            size += WEIGHTS[k] * abs(part)
        if abs(fine - coarse) > CLOSE * size and length > SHORTEST * abs(h):
            length *= 0.5
        else:
            total += step * fine
            s = h if whole else s + step
            length *= 2.0
    return 0.5 * total
