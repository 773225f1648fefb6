"""Columns of a design that are columns of the data: filled in directly, much faster than by way of formulaic."""

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


class Plan(NamedTuple):
    """How to build a design: what its columns hold, None for those that formulaic has to compute, from these terms."""

    columns: list[Entry | None]
    rest: list[Any]


def plan(structure: Sequence[Any], kinds: Mapping[str, Kind]) -> Plan:
    """The way to build a design, from the structure that formulaic tells of it."""
    columns: list[Entry | None] = []
    rest = []
    for term in structure:
        if (found := _entries(term, kinds)) is None:
            rest.append(term)
            columns += [None] * len(term.columns)
        else:
            columns += found
    return Plan(columns, rest)


def _entries(term: Any, kinds: Mapping[str, Kind]) -> list[Entry] | None:
    """What the columns of a term hold; None unless it is the intercept or a column of the data."""
    if len(term.scoped_terms) != 1 or term.scoped_terms[0].scale != 1:
        return None
    factors = term.scoped_terms[0].factors
    if not factors:
        return [Entry()]
    if len(factors) > 1 or factors[0].factor.factor.eval_method.value != "lookup":
        return None
    name = factors[0].factor.expr
    levels = kinds[name].levels
    places = [None] if levels is None else range(int(factors[0].reduced), len(levels.values))
    return [Entry(name, place) for place in places]


def fill(design: Sequence[Entry | None], columns: Mapping[str, NDArray[Any]], rows: int) -> NDArray[np.float64]:
    """The design of some rows, from numbers and from numbers of levels; columns without an entry are left empty.

    >>> fill([Entry(), Entry("x"), Entry("g", 1)], {"x": np.array([2.5, 3.0]), "g": np.array([0, 1])}, 2)
    array([[1. , 1. ],
           [2.5, 3. ],
           [0. , 1. ]])
    """
    x = np.empty((len(design), rows))
    for values, entry in zip(x, design, strict=True):
        if entry is None:
            continue
        if entry.column is None:
            values[:] = 1
        elif entry.level is None:
            values[:] = columns[entry.column]
        else:
            np.equal(columns[entry.column], entry.level, out=values)
    return x
