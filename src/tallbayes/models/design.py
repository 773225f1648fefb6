"""What is asked for beside the formula of a regression: weights, offsets and priors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes import families
from tallbayes.data.formula import Formula
from tallbayes.data.parsed import Parsed
from tallbayes.data.per_row import as_numbers
from tallbayes.families import Family
from tallbayes.models.priors import AnyPrior

Array = NDArray[np.float64]

FORMULA = "a text such as 'y ~ x'"


def parse_for(
    formula: str, data: Any, family: str | Family, weights: str | ArrayLike | None, offset: str | ArrayLike | None
) -> tuple[Parsed, Any]:
    """The formula of a regression, parsed, and the data: opened where a '.' has to be known.

    >>> parse_for("y ~ .", {"y": [0, 1], "x": [2, 3], "times": [1, 9]}, "bernoulli", "times", None)[0].text
    'y ~ x'
    """
    return Formula.parse_for(formula, data, named(family, weights, offset))


def named(family: str | Family, weights: Any, offset: Any) -> list[str]:
    """Columns that are named outside the formula."""
    kind = families.resolve(family)
    given = (weights, offset, getattr(kind, "trials", None), getattr(kind, "exposure", None))
    return [name for name in given if isinstance(name, str)]


def priors_of(prior: AnyPrior | None, gone: Collection[str]) -> AnyPrior | None:
    """Priors by name without those of columns that were left out."""
    if not isinstance(prior, Mapping):
        return prior
    return {name: one for name, one in prior.items() if name not in gone}


def numbers(what: str, values: Any) -> Array:
    """What was given for each row, as an array, where it could have been a column's name, too."""
    return as_numbers(what, values, "numbers, one for each row, or the name of a column")


def per_row(what: str, given: Any, size: int) -> Array | None:
    """What was given for each row, as an array of finite numbers."""
    if given is None:
        return None
    values = as_numbers(what, given)
    if values.shape != (size,):
        raise ValueError(f"{what} has shape {values.shape}, but the data has {size} rows")
    bad = ~np.isfinite(values)
    if bad.any():
        raise ValueError(f"{what} has {int(bad.sum())} missing or infinite values (first at row {int(bad.argmax())})")
    return values
