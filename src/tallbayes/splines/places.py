"""What places of chains of splines have in common, whatever sampler they are of: (k, lambda), coefficients and bases.

A parameter vector has the same numbers in one row (`model.py`). On some points a place also has the columns of its
bases, that of the intercept first, and their products.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.addresses import COLUMN, INTEGER, MATRIX, NOTHING, Table
from tallbayes.splines.joint import JOINT

Array = NDArray[np.float64]

PLACES = Table(JOINT)


def theta_of(place: Any) -> Array:
    """A place as a parameter vector."""
    return np.concatenate([place.head, place.coefficients, place.bases.ravel()])


def write_theta(theta: Array, place: Any) -> None:
    """Make a place that of a parameter vector; what it has on points is left as it was."""
    most = len(place.bases)
    place.head[:], place.coefficients[:] = theta[:2], theta[2 : most + 3]
    place.bases[:] = theta[most + 3 :].reshape(most, -1)


def live(place: Any) -> tuple[Array, Array]:
    """Coefficients and bases that a place has."""
    k = int(place.head[0])
    return place.coefficients[: k + 1], place.bases[:k]


def copy_place(here: Any, there: Any) -> None:
    """Make `there` the same place; of the columns those that it has."""
    size = int(here.head[0]) + 1
    for name, mine, own in zip(here._fields, here, there, strict=True):
        if name == "columns":
            own[:size] = mine[:size]
        else:
            for part, copy in zip(mine, own, strict=True) if isinstance(mine, tuple) else ((mine, own),):
                copy[:] = part


@PLACES.entry(NOTHING, COLUMN, COLUMN)
def copy(here, there):
    """there = here."""
    for i in range(there.size):
        there[i] = here[i]


@PLACES.entry(NOTHING, COLUMN, MATRIX, MATRIX, INTEGER)
def drop_basis(table, head, bases, columns, slot):
    """A place without the basis in a slot, into which the last one moves."""
    k = int(head[0])
    last = bases[k - 1]
    copy(table, last, bases[slot])
    for j in range(last.size):
        last[j] = 0.0
    copy(table, columns[k], columns[slot + 1])
    head[0] = k - 1
