"""What a spline says about its variables: effects of one or two of them, and how much each matters.

The effect of some variables is the log-odds as a function of them, averaged over the values that the reference rows
have in all others. In a product of hinges these average to one number, so that with m(S) the mean over the reference
rows of the product of a basis's hinges in the set S, all that an effect needs of the rows is m of each basis: eight
numbers at most, kept with the draws instead of rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tallbayes.splines.basis import DEGREE, KNOT, MEAN, MOST, SD, SIGN, VARIABLE, Reference, Splines

Array = NDArray[np.float64]

SUBSETS = 1 << MOST  # of the hinges of a basis


def subset_means(x: Array, bases: Array, out: Array) -> None:
    """out (bases, SUBSETS): means over rows x (d, n) of the products of a basis's hinges, for each set of them."""
    products = np.ones((SUBSETS, x.shape[1]))
    out[:] = 0.0
    for basis, means in zip(bases, out, strict=True):
        degree = int(basis[DEGREE])
        for j in range(degree):
            factor = factor_of(basis, j, x[int(basis[VARIABLE + j])])
            before = 1 << j  # sets without this hinge; as many have it
            np.multiply(products[:before], factor, out=products[before : 2 * before])
        means[: 1 << degree] = products[: 1 << degree].mean(1)


def factor_of(basis: Array, j: int, x: Array) -> Array:
    """The j-th factor of a basis for values of its variable."""
    away = x - basis[KNOT + j]
    return np.asarray(away if basis[SIGN + j] == 0 else np.maximum(basis[SIGN + j] * away, 0.0))


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
                    hinge = factor_of(basis, j, grids[axis])
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
