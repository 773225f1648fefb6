"""Coefficients for a usual difference in their column, so that those of dollars and of years can be compared.

The step of a column is its sd or, if it has only two values, the way from one to the other. A coefficient times the
step says how far the linear predictor moves with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallbayes.models.priors import rounded
from tallbayes.rows.moments import Moments

if TYPE_CHECKING:
    from tallbayes.results.fit import Fit


def steps(fit: Fit) -> dict[str, float]:
    """The step of the column of each coefficient; nothing if the fit does not know its columns.

    Constant columns, such as that of the intercept, have none.

    >>> from tallbayes.results.example import example
    >>> steps(example())
    {'fico': 1.0}
    """
    if (found := _moments(fit)) is None:
        return {}
    differ = found.high > found.low
    return {name: float(unit) for name, unit, some in zip(fit.coefficients, found.unit, differ, strict=True) if some}


def steps_in_words(fit: Fit) -> dict[str, str]:
    """The same in words.

    >>> from tallbayes.results.example import example
    >>> steps_in_words(example())
    {'fico': 'sd 1'}
    """
    if (found := _moments(fit)) is None:
        return {}
    words = dict[str, str]()
    for name, low, high, two, unit in zip(fit.coefficients, found.low, found.high, found.two, found.unit, strict=True):
        if high > low:
            words[name] = f"{rounded(low)} to {rounded(high)}" if two else f"sd {rounded(unit)}"
    return words


def _moments(fit: Fit) -> Moments | None:
    """What the fit knows of its columns; those saved by earlier versions know nothing."""
    if (known := fit.stats.get("columns")) is None:
        return None
    numbers = {name: np.array(values, float) for name, values in known.items()}
    return Moments(**numbers | {"two": numbers["two"].astype(bool)})
