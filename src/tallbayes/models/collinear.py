"""Columns of a design that are linear combinations of those before them: the data cannot tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from tallbayes.data.names import listed

Array = NDArray[np.float64]

COLLINEAR = 1e-11  # share of a column's variance that the columns before it leave unexplained
CHOICES = ("refuse", "drop")


class Dependent(NamedTuple):
    """A column that adds nothing, and those before it that it is made of: none if it is zero in every row."""

    column: int
    made_of: tuple[int, ...]


def dependent(coefficients: Sequence[str], largest: Array, curvature: Array) -> list[Dependent]:
    """The columns that add nothing to those before them, from the largest value of each and the curvature at zero.

    >>> dependent(["Intercept", "x"], np.array([1.0, 2.0]), np.array([[1.0, 2.0], [2.0, 4.0]]))
    [Dependent(column=1, made_of=(0,))]
    """
    scale = np.sqrt(np.diag(curvature))
    scale = np.where(largest > 0, scale, 1.0)
    gram = curvature / np.outer(scale, scale)
    found: list[Dependent] = []
    kept: list[int] = []
    factor = np.zeros_like(gram)  # of Cholesky, a row for each column that is kept
    for j in range(len(coefficients)):
        if largest[j] == 0:
            found.append(Dependent(j, ()))
            continue
        before = factor[: len(kept), : len(kept)]
        shared = solve_triangular(before, gram[kept, j], lower=True)
        left = gram[j, j] - shared @ shared
        if left < COLLINEAR:
            weights = solve_triangular(before, shared, lower=True, trans="T")
            made_of = (i for i, weight in zip(kept, weights, strict=True) if abs(weight) > 1e-6)
            found.append(Dependent(j, tuple(made_of)))
            continue
        factor[len(kept), : len(kept)], factor[len(kept), len(kept)] = shared, np.sqrt(left)
        kept.append(j)
    return found


def refuse_collinear(coefficients: Sequence[str], largest: Array, curvature: Array) -> None:
    """Raise if a column is a linear combination of those before it."""
    found = dependent(coefficients, largest, curvature)
    for column, made_of in sorted(found, key=lambda one: len(one.made_of) > 0):  # zeros are the simplest to explain
        name = coefficients[column]
        if not made_of:
            raise ValueError(
                f'column {name!r} is zero in every row; drop it from the formula, or let collinear="drop" leave it out'
            )
        used = listed([coefficients[i] for i in made_of])
        raise ValueError(
            f"column {name!r} is a linear combination of {used}, or so nearly that rounding hides the difference; "
            'drop one of them from the formula, centre the column, or let collinear="drop" leave it out'
        )


def said(coefficients: Sequence[str], found: Sequence[Dependent]) -> list[str]:
    """Which columns are left out, and why.

    >>> said(["Intercept", "x", "z"], [Dependent(1, ()), Dependent(2, (0,))])
    ["'x' left out: it is zero in every row", "'z' left out: it is a linear combination of 'Intercept'"]
    """
    lines = []
    for column, made_of in found:
        used = listed([coefficients[i] for i in made_of])
        why = f"a linear combination of {used}" if made_of else "zero in every row"
        lines.append(f"{coefficients[column]!r} left out: it is {why}")
    return lines
