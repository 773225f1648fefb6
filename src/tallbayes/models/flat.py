"""Directions that the data leave flat: along them the posterior falls only as fast as the prior does.

A level without events sends its coefficient to minus infinity, and a column that separates the outcomes goes there with
others. With a Normal prior the posterior is log-concave all the same. A Student-t prior falls as a power of the
distance, and along a flat direction the posterior has that tail, which may be very long: what is said of it by the
curvature at the mode holds for the next few standard deviations only.

Newton's method without the prior walks out along such directions, by about one unit of the linear predictor a step,
until their rows weigh nothing; there the curvature's null space is spanned by them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.tasks import Derivatives

Array = NDArray[np.float64]

STEPS = 25  # of Newton's method, after which what still moves has no maximum
STILL = 0.01  # move of the largest linear predictor that is none
RIDGE = 1e-10  # share of the curvature at zero that keeps Newton's steps finite
FLAT, FLATTER = 1e-6, 0.05  # shares of a direction's curvature at zero below which the data leave it flat
CLEAN = 1e-5  # what directions are rounded by: they say which columns cancel, and these have whole numbers mostly


def without_prior(
    derivatives: Callable[[Array], Derivatives],
    theta: Array,
    here: Derivatives,
    start: Derivatives,
    moves: Callable[[Array], Array],
) -> tuple[Array, Derivatives, bool]:
    """The likelihood's maximum, or a point far out on the way to it, and which it is.

    `start` was seen at zero; `moves` tells how far a step moves linear predictors.
    """
    scale = _scale(start)
    ridge = RIDGE * np.diag(np.diag(start.curvature[0]) * scale**2 + (scale == 0))
    for _ in range(STEPS):
        gradient, curvature = scale * here.gradient[0], here.curvature[0] * np.outer(scale, scale)
        step = scale * np.linalg.solve(curvature + ridge, gradient)
        reach = float(moves(step).max())
        if not reach >= STILL:
            return theta, here, True
        part = min(1.0, 2.0 / reach)
        while (found := derivatives(theta + part * step)).value[0] < here.value[0] and part > 1e-6:
            part /= 4
        theta, here = theta + part * step, found
    return theta, here, False


def flat_directions(start: Derivatives, far: Derivatives, maximum: bool = False) -> Array:
    """A basis (p, f) of the directions that are flat far out, each with a one in a coefficient that only it has.

    Where a column separates the outcomes there is no `maximum`, but rows near the line between them still weigh
    something: then directions that are all but flat will do.

    >>> def seen(*diagonal):
    ...     return Derivatives(np.zeros(1), np.zeros((1, 3)), np.diag(diagonal)[None])
    >>> flat_directions(seen(9.0, 9.0, 9.0), seen(5.0, 1e-9, 5.0)).T
    array([[0., 1., 0.]])
    """
    scale = _scale(start)
    values, vectors = np.linalg.eigh(far.curvature[0] * np.outer(scale, scale))
    basis = vectors[:, values < (FLAT if maximum or values[0] < FLAT else FLATTER)]
    size = np.where(scale > 0, scale, 1.0)
    pivots: list[int] = []
    for column in range(basis.shape[1]):  # a reduced echelon form: sparse where the directions are
        left = np.abs(basis[:, column:]).max(1)
        left[pivots] = 0.0
        pivot = int(left.argmax())
        best = column + int(np.abs(basis[pivot, column:]).argmax())
        basis[:, [column, best]] = basis[:, [best, column]]
        basis[:, column] /= basis[pivot, column]
        others = np.arange(basis.shape[1]) != column
        basis[:, others] -= np.outer(basis[:, column], basis[pivot, others])
        pivots.append(pivot)
    basis[np.abs(basis) < CLEAN] = 0.0
    basis *= size[:, None] / size[pivots]
    whole = np.rint(basis)
    return np.where((np.abs(basis - whole) < CLEAN) & (whole != 0), whole, basis)


def pivots_of(basis: Array) -> list[int]:
    """The coefficient that only one of the directions has, for each of them."""
    alone = (basis != 0).sum(1) == 1
    return [int(np.flatnonzero(alone & (column == 1))[0]) for column in basis.T]


def _scale(start: Derivatives) -> Array:
    """What gives the curvature at zero a unit diagonal; zero for columns without any row."""
    diagonal = np.diag(start.curvature[0])
    return np.where(diagonal > 0, 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0)
