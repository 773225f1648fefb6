"""Columns of numbers from one side of a formula, by formulaic, and what it lets pass refused."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data import expression, functions
from tallbayes.data.limits import plain
from tallbayes.data.quiet import without
from tallbayes.data.syntax import READING
from tallbayes.data.tally import Where, row
from tallbayes.data.uses import bitwise, declared

if TYPE_CHECKING:
    import pandas as pd

SPLINES = {  # what formulaic says of them, and in our words
    "extend beyond": "values lie beyond its bounds, which are the least and the largest that it was learned from "
    "unless lower_bound= and upper_bound= are given; add extrapolation='clip', 'extend' or 'zero', or drop such rows",
    "inhomogeneous": "it needs a larger df, or more knots",
}


class Design(NamedTuple):
    """The columns of a design and what formulaic learned on the way."""

    names: tuple[str, ...]
    array: NDArray[np.float64]
    transforms: dict[str, Any]
    categories: dict[str, list[Any]]
    structure: Sequence[Any]  # which factors are behind the columns


def materialise(
    side: Any,
    frame: pd.DataFrame,
    transforms: dict[str, Any],
    categories: dict[str, list[Any]],
    refuse: Callable[[str, pd.Series[Any], Sequence[Any]], None] | None = None,
    structure: Sequence[Any] | None = None,
) -> Design:
    """Let formulaic build the columns of one side, from the given state or, if there is none, learning it.

    `refuse` raises ValueError if a C(...) has values outside its levels. `structure` are terms of a design that was
    built before: only these are built.
    """
    import pandas as pd
    from formulaic import ModelSpec, SimpleFormula
    from formulaic.errors import DataMismatchWarning, FormulaicError
    from formulaic.parser.types import Factor

    spec = ModelSpec(
        side if structure is None else SimpleFormula([term.term for term in structure], _ordering="none"),
        structure=structure,
        na_action="ignore",
        output="pandas",
        transform_state=copy.deepcopy(transforms),  # formulaic writes into what it is given
        encoder_state={name: (Factor.Kind.CATEGORICAL, {"categories": c}) for name, c in categories.items()},
    )
    materializer = spec.get_materializer(as_floats(frame, side), context=functions.context())
    try:
        # Of unseen levels, which are looked for below, and of levels without a row here.
        with (
            READING,
            np.errstate(all="ignore"),
            without(DataMismatchWarning, "Constructing a Categorical with a dtype"),
        ):
            matrix = materializer.get_model_matrix(spec)
    except FormulaicError as error:
        raise ValueError(told(error, frame)) from error
    except (ValueError, TypeError, ArithmeticError) as error:  # of contrasts, and of splines
        raise ValueError(f"cannot build the columns of the formula: {_of_contrasts(plain(error))}") from error
    spec = matrix.model_spec
    learned = {name: s["categories"] for name, (_, s) in spec.encoder_state.items() if "categories" in s}
    for name in [name for name in learned if name in materializer.factor_cache]:  # formulaic makes zeros of others
        values = pd.Series(materializer.factor_cache[name].values.__wrapped__)
        if found := unseen(values, learned[name]):
            if name in categories:
                (refuse or refuse_unseen)(repr(name), values, categories[name])
            raise ValueError(f"levels=... leaves out levels: {name!r} also has {{{found[0]}}}")
    names = tuple(spec.column_names)
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two columns of the design are called {repeated!r}; rename the data column")
    array = np.empty((len(names), len(frame)))
    for i, name in enumerate(names):
        if matrix.dtypes.iloc[i].kind not in "biuf":
            raise ValueError(f"{name!r} of the formula is text, not a number")
        array[i] = matrix.iloc[:, i].to_numpy()
    return Design(names, array, spec.transform_state, learned, spec.structure)


def as_floats(frame: pd.DataFrame, side: Iterable[Any]) -> pd.DataFrame:
    """Whole numbers that one side of a formula computes with as floating-point ones.

    Products of whole numbers would overflow without a word. What is a category stays what it is, and so does what '&',
    '|' and '^' join.

    >>> import pandas as pd
    >>> from tallbayes.data.parsed import parse
    >>> as_floats(pd.DataFrame({"q": [10**10], "g": [1]}), parse("y ~ I(q * q) + C(g)").right).dtypes.tolist()
    [dtype('float64'), dtype('int64')]
    """
    kept = declared([side]) | bitwise(side)
    whole = [name for name, kind in frame.dtypes.items() if kind.kind in "iu" and name not in kept]
    return frame.astype(dict.fromkeys(whole, float)) if whole else frame


def told(error: Exception, frame: pd.DataFrame) -> str:
    """What formulaic could not compute, and the column that may be why."""
    said = plain(error)
    if (found := re.match(r"Unable to evaluate factor `(.*?)`\. \[\w+: (.*?)\]?$", said)) is None:
        return said
    factor, reason = found.groups()
    columns = [] if frame.empty else expression.check(factor).columns
    text = [name for name in columns if name in frame and frame[name].dtype == "category"]
    if text and "contrast" not in reason:
        return f"cannot compute {factor!r} of the formula: column {text[0]!r} is text, and this needs numbers"
    if re.search(r"unsupported operand|ufunc", reason):
        reason = (
            "it does not work on such columns; '&', '|' and '~' join comparisons, as in (x > 1) & (z == 1)"
            if re.search("[&|~^]", factor)
            else "it does not work on such values"
        )
    for said, instead in SPLINES.items():
        reason = instead if said in reason else reason
    return f"cannot compute {factor!r} of the formula: {reason}"


def _of_contrasts(said: str) -> str:
    """What formulaic and pandas say of contrasts that do not fit, in words."""
    if found := re.fullmatch(r"Shape of passed values is \((\d+), .*imply \((\d+), .*", said):
        return f"the contrasts have {found[1]} rows, but there are {found[2]} levels"
    if found := re.match(r"Value `(.*)` for `\w+\.base` is not among", said):
        return f"the contrasts begin with the level {found[1]}, which is not one of the levels"
    return "scores= needs a number for each level" if "Contrasts.scores" in said else said


def one_column(what: str, text: str, side: Any, frame: pd.DataFrame, transforms: dict[str, Any]) -> Design:
    """An expression that must give one number for each row, as a design of one column."""
    design = materialise(side, frame, transforms, {})
    if design.categories or len(design.names) != 1:
        raise ValueError(f"the {what} {text} must give one number for each row, not text or several columns")
    return design


def refuse_unseen(what: str, values: pd.Series[Any], known: Sequence[Any], where: Where = row) -> None:
    """Raise ValueError if there are levels that are not known."""
    if found := unseen(values, known):
        raise ValueError(
            f"{what} has levels never seen when the formula was learned: {found[0]} (first at {where(found[1])}); "
            "drop those rows, or learn from data that has them"
        )


def unseen(values: pd.Series[Any], known: Sequence[Any]) -> tuple[str, int] | None:
    """Levels that are not known, in words, and the first row that has one; None if all are known."""
    levels = values.cat.categories if values.dtype == "category" else values.unique()
    others = [level for level in levels.tolist() if level not in known]
    if not others or not (there := values.isin(others)).any():  # a category need not have a row
        return None
    found = set(values[there])
    others = [level for level in others if level in found]
    shown = ", ".join(repr(level) for level in others[:5]) + (", ..." if len(others) > 5 else "")
    return shown, int(there.argmax())


def require_finite(X: NDArray[np.float64], names: Sequence[str], where: Where = row) -> None:
    """Raise ValueError if a column has a value that is not finite."""
    for name, values in zip(names, X, strict=True):
        finite = np.isfinite(values)
        if not finite.all():
            first = int(finite.argmin())
            raise ValueError(
                f"{name!r} is not finite in {np.count_nonzero(~finite)} of {len(values)} rows "
                f"(first at {where(first)}: {values[first]}); change the term or drop those rows"
            )
