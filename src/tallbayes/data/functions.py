"""What a formula can call: a closed list, so that a formula from a file or a command line cannot run code.

Functions have the arguments that are listed: NumPy's `out`, for example, could write into the user's data.
`expression.py` holds formulas to it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import numpy as np

from tallbayes.data import dates


class Arguments(NamedTuple):
    """What a function takes: so many arguments by position, and these by name."""

    most: int
    names: tuple[str, ...] = ()


_CUBIC = Arguments(6, ("df", "knots", "lower_bound", "upper_bound", "constraints", "extrapolation"))

# Of formulaic. Those with a memory learn something from the data, such as a mean, and apply it to new rows; Q has none.
WITH_MEMORY = {
    "bs": Arguments(8, ("df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound", "extrapolation")),
    "cc": _CUBIC,
    "center": Arguments(1),
    "cr": _CUBIC,
    "cs": _CUBIC,
    "poly": Arguments(3, ("degree", "raw")),
    "Q": Arguments(1),
    "scale": Arguments(4, ("center", "scale", "ddof")),
    "standardize": Arguments(4, ("center", "rescale", "ddof")),
}
PLAIN = {
    "C": Arguments(2, ("contrasts", "levels", "spans_intercept")),
    "hashed": Arguments(3, ("levels", "contrasts", "spans_intercept")),
    "I": Arguments(1),
}
FLAGS = ("backward", "include_intercept", "raw", "reverse", "spans_intercept")  # options that are True or False
BEYOND = ("raise", "clip", "na", "zero", "extend")  # what splines can do with values beyond their bounds
CODED = {"C": 1, "hashed": 2}  # functions that take contrasts, and at which position
CONTRASTS = {
    "contr.custom": Arguments(2, ("contrasts", "names")),
    "contr.diff": Arguments(1, ("backward",)),
    "contr.helmert": Arguments(2, ("reverse", "scale")),
    "contr.poly": Arguments(1, ("scores",)),
    "contr.SAS": Arguments(1, ("base",)),
    "contr.sum": Arguments(0),
    "contr.treatment": Arguments(1, ("base",)),
    "Diff": Arguments(1, ("backward",)),
    "Helmert": Arguments(2, ("reverse", "scale")),
    "Poly": Arguments(1, ("scores",)),
    "Sum": Arguments(0),
    "Treatment": Arguments(1, ("reference",)),
}
NOT_BARE = {  # contrasts that are none by their name alone
    "contr.custom": "contr.custom([[0, 0], [1, 0], [0, 1]])",
    "Treatment": "Treatment('b')",
}
# Of NumPy: as log(x) or np.log(x).
_ELEMENTARY = (
    "abs", "arccos", "arcsin", "arcsinh", "arctan", "cbrt", "ceil", "cos", "cosh", "exp", "exp2", "expm1", "floor",
    "log", "log10", "log1p", "log2", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh",
)  # fmt: skip
NUMPY = {
    **dict.fromkeys(_ELEMENTARY, Arguments(1)),
    "clip": Arguments(3),
    "maximum": Arguments(2),
    "minimum": Arguments(2),
    "round": Arguments(2, ("decimals",)),
    "where": Arguments(3),
}
COMPLETE = ("clip", "maximum", "minimum", "where")  # functions that need all of their arguments
NUMBERS = ("e", "pi")  # np.e and np.pi
DATES = dict.fromkeys(dates.PARTS, Arguments(1))  # of a column of dates
CALLABLE = WITH_MEMORY | PLAIN | NUMPY | DATES | {f"np.{name}": takes for name, takes in NUMPY.items()}

LISTED = (
    f"{', '.join(sorted([*WITH_MEMORY, *PLAIN, *NUMPY, *DATES], key=str.lower))} (those of NumPy also as np.log), "
    f"np.pi, np.e, and as contrasts of C: {', '.join(CONTRASTS)}"
)


def context() -> dict[str, Any]:
    """What formulaic gets to see besides the data and its own transforms: NumPy is no more than the list."""
    functions = {name: _of_numbers(getattr(np, name)) for name in NUMPY}
    return (
        functions
        | dates.on_columns()
        | {"np": types.SimpleNamespace(**functions, **{name: getattr(np, name) for name in NUMBERS})}
    )


def _of_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that refuses text, which NumPy takes for true, or leaves as it is."""

    def call(*arguments: Any, **options: Any) -> Any:
        if any(getattr(one, "dtype", None) == "category" for one in arguments):
            raise TypeError("this needs numbers")
        return function(*arguments, **options)

    return call


def refuse_shadowed(functions: Iterable[str], columns: Collection[str]) -> None:
    """Refuse columns with the name of a function that is called: formulaic would call the column.

    >>> refuse_shadowed(["log", "np.exp"], ["x", "log"])
    Traceback (most recent call last):
    ValueError: column 'log' has the name of a function that the formula calls; rename the column
    """
    if own := [name for name in columns if name.startswith("__FORMULAIC_")]:
        raise ValueError(f"formulaic has a meaning of its own for the name of column {own[0]!r}; rename the column")
    if shadowed := {name.split(".")[0] for name in functions}.intersection(columns):
        raise ValueError(
            f"column {min(shadowed)!r} has the name of a function that the formula calls; rename the column"
        )
