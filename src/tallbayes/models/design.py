"""What a generalised linear model is made from: columns of numbers and their names, out of a formula and arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes import families
from tallbayes.data.formula import Formula
from tallbayes.data.parsed import Parsed
from tallbayes.families import Family
from tallbayes.models.priors import AnyPrior
from tallbayes.rows.duplicates import Columns

Array = NDArray[np.float64]


class Design(NamedTuple):
    """Columns, what they are called, and what some families know of each row besides its outcome."""

    columns: Columns
    outcome: str
    coefficients: tuple[str, ...]
    group: str | None = None
    levels: Sequence[Any] = ()
    trials: Array | None = None
    exposure: Array | None = None
    added: Array | None = None  # to eta, by offset() terms of the formula


def parse_for(
    formula: str, data: Any, family: str | Family, weights: str | ArrayLike | None, offset: str | ArrayLike | None
) -> tuple[Parsed, Any]:
    """The formula of a regression, parsed, and the data: loaded where a '.' has to be known.

    >>> parse_for("y ~ .", {"y": [0, 1], "x": [2, 3], "times": [1, 9]}, "bernoulli", "times", None)[0].text
    'y ~ x'
    """
    return Formula.parse_for(formula, data, named(family, weights, offset))


def named(family: str | Family, weights: Any, offset: Any) -> list[str]:
    """Columns that are named outside the formula."""
    kind = families.resolve(family)
    given = (weights, offset, getattr(kind, "trials", None), getattr(kind, "exposure", None))
    return [name for name in given if isinstance(name, str)]


def without(design: Design, gone: Sequence[int]) -> Design:
    """The design without some of its columns."""
    kept = [column for column in range(len(design.coefficients)) if column not in gone]
    if not kept:
        raise ValueError("no column of the design is left: all are zero in every row")
    names = tuple(design.coefficients[column] for column in kept)
    return design._replace(columns=design.columns._replace(x=design.columns.x[kept]), coefficients=names)


def priors_of(prior: AnyPrior | None, learned: Formula) -> AnyPrior | None:
    """Priors by name without those of columns that were left out."""
    if not isinstance(prior, Mapping):
        return prior
    return {name: one for name, one in prior.items() if name not in learned.left_out}


def numbers(what: str, values: Any, size: int) -> Array:
    """What was given for each row, as an array."""
    try:
        found = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be numbers: a column's name or one number per row") from None
    if found.shape != (size,):
        raise ValueError(f"{what} has shape {found.shape}, but the data has {size} rows")
    return found


def per_row(frame: Any, size: int, what: str, given: Any) -> Array | None:
    """What was given for each row: a column of the frame, which has been checked with the others, or other numbers."""
    if given is None:
        return None
    by_name = isinstance(given, str)
    values = numbers(what, frame[given] if by_name and frame is not None else given, size)
    bad = ~np.isfinite(values)
    if not by_name and bad.any():
        raise ValueError(f"{what} has {int(bad.sum())} missing or infinite values (first at row {int(bad.argmax())})")
    return values
