"""Designs of plain columns and text alone: filled in directly, which is much faster than by way of formulaic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.kinds import Kind


class Entry(NamedTuple):
    """What a column of a design holds: ones, the numbers of a data column, or ones where a text column has a level."""

    column: str | None = None
    level: int | None = None


def entries(structure: Sequence[Any], kinds: Mapping[str, Kind]) -> list[Entry] | None:
    """What the columns of a design hold, from the structure that formulaic tells; None where it is something else."""
    found = []
    for scoped in (scoped for term in structure for scoped in term.scoped_terms):
        if scoped.scale != 1 or len(scoped.factors) > 1:
            return None
        if not scoped.factors:
            found.append(Entry())
            continue
        factor = scoped.factors[0]
        if factor.factor.factor.eval_method.value != "lookup":
            return None
        name = factor.factor.expr
        levels = kinds[name].levels
        found += (
            [Entry(name)] if levels is None else [Entry(name, i) for i in range(factor.reduced, len(levels.values))]
        )
    return found


def fill(design: Sequence[Entry], columns: Mapping[str, NDArray[Any]], rows: int) -> NDArray[np.float64]:
    """The design of some rows, from numbers and from numbers of levels.

    >>> fill([Entry(), Entry("x"), Entry("g", 1)], {"x": np.array([2.5, 3.0]), "g": np.array([0, 1])}, 2)
    array([[1. , 1. ],
           [2.5, 3. ],
           [0. , 1. ]])
    """
    x = np.empty((len(design), rows))
    for values, (name, level) in zip(x, design, strict=True):
        if name is None:
            values[:] = 1
        elif level is None:
            values[:] = columns[name]
        else:
            np.equal(columns[name], level, out=values)
    return x
