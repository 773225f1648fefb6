"""Parameters of a fit by their names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallbayes.results.fit import Fit

MANY = 40  # parameters; of more than these only the coefficients and the sd of the groups are shown unless asked for


def main_names(fit: Fit) -> Sequence[str]:
    """All parameters, or the main ones where all are too many.

    >>> from tallbayes.results.example import example
    >>> main_names(example())
    ('Intercept', 'fico')
    """
    return fit.parameters if len(fit.parameters) <= MANY else fit.main_parameters


def places(fit: Fit, names: Iterable[str]) -> list[int]:
    """Where parameters stand among all; ValueError for a name that the fit does not have.

    >>> from tallbayes.results.example import example
    >>> places(example(), ["fico"])
    [1]
    >>> places(example(), ["fcio"])
    Traceback (most recent call last):
    ValueError: the fit has no parameter 'fcio'; did you mean 'fico'?
    """
    first = {name: place for place, name in reversed(list(enumerate(fit.parameters)))}
    found = []
    for name in names:
        if name not in first:
            raise unknown(fit, name)
        found.append(first[name])
    return found


def unknown(fit: Fit, *names: str) -> ValueError:
    """The error for a parameter that a fit does not have, by any of the names that may have been meant."""
    close = [match for name in names for match in difflib.get_close_matches(name, fit.parameters)]
    hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(map(repr, main_names(fit)))}"
    return ValueError(f"the fit has no parameter {names[0]!r}; {hint}")
