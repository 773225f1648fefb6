"""What a spline says about its variables: effects of one or two of them, and how much each matters.

The effect of some variables is the log-odds as a function of them, averaged over the values that the reference rows
have in all others. In a product of hinges these average to one number, so that with m(S) the mean over the reference
rows of the product of a basis's hinges in the set S, all that an effect needs of the rows is m of each basis: eight
numbers at most, kept with the draws instead of rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled
from tallbayes.splines.basis import DEGREE, KNOT, MEAN, MOST, SD, SIGN, VARIABLE, Reference, Splines

Array = NDArray[np.float64]

SUBSETS = 1 << MOST  # of the hinges of a basis


@compiled()
def subset_means(x, bases, out):
    """out (bases, SUBSETS): means over rows x (d, n) of the products of a basis's hinges, for each set of them."""
    n = x.shape[1]
    hinges = np.ones((MOST, n))
    for b in range(bases.shape[0]):
        degree = int(bases[b, DEGREE])
        for j in range(MOST):
            for i in range(n):
                hinges[j, i] = 1.0
            if j < degree:
                column, sign, knot = x[int(bases[b, VARIABLE + j])], bases[b, SIGN + j], bases[b, KNOT + j]
                for i in range(n):
                    hinges[j, i] = max(sign * (column[i] - knot), 0.0)
        for subset in range(SUBSETS):
            total = 0.0
            if subset >= 1 << degree:
                out[b, subset] = 0.0
                continue
            for i in range(n):
                product = 1.0
                for j in range(MOST):
                    if (subset >> j) & 1:
                        product *= hinges[j, i]
                total += product
            out[b, subset] = total / n


def effect(splines: Splines, means: Array, variables: tuple[int, ...], grids: tuple[Array, ...]) -> Array:
    """Draws (splines, grid[, second grid]) of the effect of one or two variables.

    The means (splines, K, SUBSETS) are those of `subset_means`.
    """
    values = np.zeros((splines.sizes.size, *(grid.size for grid in grids)))
    for s, k in enumerate(splines.sizes):
        values[s] += splines.coefficients[s, 0]
        for m in range(k):
            basis, left, shape = splines.bases[s, m], 0, np.ones((1,) * len(grids))
            for j in range(int(basis[DEGREE])):
                variable = int(basis[VARIABLE + j])
                if variable in variables:
                    axis = variables.index(variable)
                    hinge = np.maximum(basis[SIGN + j] * (grids[axis] - basis[KNOT + j]), 0.0)
                    shape = shape * hinge.reshape([-1 if a == axis else 1 for a in range(len(grids))])
                else:
                    left |= 1 << j
            values[s] += splines.coefficients[s, m + 1] * (shape * means[s, m, left] - basis[MEAN]) / basis[SD]
    return values


def total_effects(splines: Splines, reference: Reference, rng: np.random.Generator) -> Array:
    """How much each variable matters (splines, d): the sd of what changes with it alone.

    That is the root of half the mean squared change of the log-odds when a row gets another row's value of the
    variable.
    """
    here = splines.each(reference.x)
    found = np.empty((splines.sizes.size, len(reference.x)))
    for j in range(len(reference.x)):
        moved = reference.x.copy()
        moved[j] = rng.permutation(moved[j])
        found[:, j] = np.sqrt(((splines.each(moved) - here) ** 2).mean(1) / 2)
    return found
