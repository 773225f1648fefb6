"""Formula: learn once from the data, apply to any chunk of it.

Built on formulaic, which turns "y ~ x + g" into columns of numbers. Around it we put what it leaves open: no
row is dropped, no level unseen, no value infinite, the design has the same columns whatever rows it is given,
and what was learned (levels, means, knots) is written as JSON and read back to the last bit. It can call nothing
outside the list of `functions`, wherever it comes from. A group term (1 | g) is not formulaic's: it adds no columns to
the design, but an index of the group of each row.
"""

from __future__ import annotations

import copy
import json
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data import functions, group_term
from tallbayes.data.frames import check, read

if TYPE_CHECKING:
    import pandas as pd

FORMAT_VERSION = 1
MAX_LEVELS = 1_000  # of a text column; more of them are a number stored as text, or a group


class Parsed(NamedTuple):
    """A formula before it meets data: its two sides, the data columns they need and the functions they call."""

    text: str
    outcome: str
    columns: tuple[str, ...]
    predictors: tuple[str, ...]
    functions: tuple[str, ...]
    left: Any
    right: Any
    group: str | None


class Levels(NamedTuple):
    """The levels of a text column, and whether their order means something."""

    values: list[Any]
    ordered: bool


@dataclass(frozen=True, eq=False)
class Formula:
    """What a formula learned from data: enough to build the same design from other rows.

    >>> data = {"y": [0, 1, 1], "fico": [700, 650, 600], "first_time": ["no", "yes", "no"]}
    >>> formula, X, y = Formula.learn("y ~ center(fico) + first_time", data)
    >>> formula.coefficients
    ('Intercept', 'center(fico)', 'first_time[T.yes]')
    >>> X
    array([[  1.,   1.,   1.],
           [ 50.,   0., -50.],
           [  0.,   1.,   0.]])
    """

    parsed: Parsed
    coefficients: tuple[str, ...]
    levels: dict[str, Levels]
    transforms: dict[str, Any]
    categories: dict[str, list[Any]]
    group_levels: tuple[Any, ...]

    @property
    def text(self) -> str:
        """The formula as it was written."""
        return self.parsed.text

    @property
    def outcome(self) -> str:
        """The left side, as text.

        >>> Formula.learn("log(price) ~ 1", {"price": [1.0, 2.0]})[0].outcome
        'log(price)'
        """
        return self.parsed.outcome

    @property
    def group(self) -> str | None:
        """The column g of the group term (1 | g), None without one.

        >>> Formula.learn("y ~ 1 + (1 | bank)", {"y": [0, 1], "bank": ["b", "a"]})[0].group
        'bank'
        """
        return self.parsed.group

    @staticmethod
    def parse(text: str) -> Parsed:
        """Find the outcome and the data columns that a formula needs, before any data is read or anything evaluated.

        >>> Formula.parse("y ~ log(income) + (1 | bank)").columns
        ('y', 'income', 'bank')
        """
        from formulaic import Formula as Sides
        from formulaic.errors import FormulaicError

        try:
            rest, group = group_term.cut(text)
            functions.refuse_code(rest)
            sides = Sides(rest, _context={})
        except (FormulaicError, SyntaxError) as error:
            raise ValueError(f"cannot understand the formula {text!r}: {_plain(error)}") from error
        left, right = getattr(sides, "lhs", []), getattr(sides, "rhs", [])
        (outcomes, called_left), (predictors, called_right) = _used(left), _used(right)
        if not outcomes:
            raise ValueError(f"the formula {text!r} has no outcome; write it as 'outcome ~ predictors'")
        if len(left) > 1:
            names = ", ".join(str(term) for term in left)
            raise ValueError(f"the formula {text!r} has several outcomes ({names}); write only one")
        if len(right) == 0:
            raise ValueError(f"the formula {text!r} has no predictors; an intercept alone is 'y ~ 1'")
        if group in outcomes:
            raise ValueError(f"the outcome {group!r} is also the group of (1 | {group}); group by another column")
        columns = dict.fromkeys([*outcomes, *predictors, *([group] if group else [])])
        called = tuple(dict.fromkeys([*called_left, *called_right]))
        return Parsed(text, str(left[0]), tuple(columns), predictors, called, left, right, group)

    @classmethod
    def learn(cls, text: str, data: Any) -> tuple[Formula, NDArray[np.float64], NDArray[np.float64]]:
        """Learn a formula from data and return it with its design X, of shape (p, n), and the outcome y.

        `data` is anything that `tallbayes.data.frames.read` takes.

        >>> formula, X, y = Formula.learn("y ~ 0 + x", {"y": [True, False], "x": [2, 3]})
        >>> X, y
        (array([[2., 3.]]), array([1., 0.]))
        """
        parsed = cls.parse(text)
        return cls.learn_checked(parsed, check(read(data, parsed.columns)))

    @classmethod
    def learn_checked(
        cls, parsed: Parsed, frame: pd.DataFrame
    ) -> tuple[Formula, NDArray[np.float64], NDArray[np.float64]]:
        """Learn a parsed formula from a frame that `tallbayes.data.frames` has read and checked."""
        functions.refuse_shadowed(parsed.functions, map(str, frame))
        y = _outcome(parsed, frame)
        levels = {
            name: Levels(frame[name].cat.categories.tolist(), bool(frame[name].cat.ordered))
            for name in parsed.predictors
            if frame[name].dtype == "category"
        }
        for name, (values, _) in levels.items():
            if len(values) > MAX_LEVELS:
                raise ValueError(
                    f"column {name!r} is text with {len(values)} levels, such as {values[0]!r} and "
                    f"{values[-1]!r}; make it a number if it is one, merge rare levels, or write it as a group: "
                    f"(1 | {name})"
                )
        names, X, transforms, categories = _materialise(parsed.right, frame, {}, {})
        group_levels = group_term.learn_levels(parsed.group, frame[parsed.group]) if parsed.group else ()
        _require_finite(X, names)
        return cls(parsed, names, levels, transforms, categories, group_levels), X, y

    def apply(self, data: Any) -> NDArray[np.float64]:
        """Build the design of new rows; the outcome and the groups are not needed.

        >>> formula, X, y = Formula.learn("y ~ center(x)", {"y": [0, 1], "x": [1, 3]})
        >>> formula.apply({"x": [10]})
        array([[1.],
               [8.]])
        """
        import pandas as pd

        frame = check(read(data, self.parsed.predictors))
        for name, column in frame.items():
            if str(name) in self.levels:
                known, ordered = self.levels[str(name)]
                _refuse_unseen(f"column {name!r}", column, known)
                frame[name] = pd.Categorical(column, categories=known, ordered=ordered)
            elif column.dtype == "category":
                raise ValueError(f"column {name!r} is text, but held numbers when the formula was learned")
        design = _materialise(self.parsed.right, frame, self.transforms, self.categories)
        if design.names != self.coefficients:
            raise ValueError(f"the design has columns {design.names}, but learned were {self.coefficients}")
        _require_finite(design.array, design.names)
        return design.array

    def group_codes(self, data: Any) -> NDArray[np.intp]:
        """Index of each row's group in `group_levels`, -1 for a group never seen.

        >>> formula, X, y = Formula.learn("y ~ 1 + (1 | bank)", {"y": [0, 1], "bank": ["b", "a"]})
        >>> formula.group_levels, formula.group_codes({"bank": ["a", "b", "new"]})
        (('a', 'b'), array([ 0,  1, -1]))
        """
        if self.group is None:
            raise ValueError(f"the formula {self.text!r} has no group term such as (1 | g)")
        return self.group_codes_checked(check(read(data, [self.group])))

    def group_codes_checked(self, frame: pd.DataFrame) -> NDArray[np.intp]:
        """Index of each row's group, from a frame that `tallbayes.data.frames` has read and checked."""
        assert self.group is not None
        return group_term.match_levels(self.group, frame[self.group], self.group_levels)

    def to_json(self) -> str:
        """Write all that was learned as JSON text.

        >>> formula, X, y = Formula.learn("y ~ scale(x)", {"y": [0, 1], "x": [1.0, 3.5]})
        >>> bool((Formula.from_json(formula.to_json()).apply({"x": [1.0, 3.5]}) == X).all())
        True
        """
        return json.dumps(
            {
                "version": FORMAT_VERSION,
                "text": self.text,
                "coefficients": self.coefficients,
                "levels": self.levels,
                "transforms": _pack(self.transforms),
                "categories": _pack(self.categories),
                "group_levels": self.group_levels,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Formula:
        """Read back what `to_json` wrote.

        >>> formula, X, y = Formula.learn("y ~ x", {"y": [0, 1], "x": [1.0, 3.5]})
        >>> Formula.from_json(formula.to_json()).coefficients
        ('Intercept', 'x')
        """
        saved = json.loads(text)
        version = saved.get("version") if isinstance(saved, dict) else None
        if version != FORMAT_VERSION:
            raise ValueError(f"expected a formula saved in format {FORMAT_VERSION}, got format {version}")
        return cls(
            cls.parse(saved["text"]),
            tuple(saved["coefficients"]),
            {name: Levels(*levels) for name, levels in saved["levels"].items()},
            _unpack(saved["transforms"]),
            _unpack(saved["categories"]),
            tuple(saved.get("group_levels", ())),  # formulas saved before there were groups have none
        )


class Design(NamedTuple):
    """The columns of a design and what formulaic learned on the way."""

    names: tuple[str, ...]
    array: NDArray[np.float64]
    transforms: dict[str, Any]
    categories: dict[str, list[Any]]


def _used(side: Iterable[Any]) -> functions.Used:
    """The data columns that the terms of one side need, in the order they are written, and the functions they call.

    formulaic's own `required_variables` overlooks columns inside center(x) and its kind.
    """
    columns: dict[str, None] = {}
    called: dict[str, None] = {}
    for factor in (factor for term in side for factor in term.factors):
        if factor.eval_method.value == "lookup":
            columns[factor.expr] = None
        elif factor.eval_method.value == "python":
            used = functions.check(factor.expr)
            columns |= dict.fromkeys(used.columns)
            called |= dict.fromkeys(used.functions)
    return functions.Used(tuple(columns), tuple(called))


def _outcome(parsed: Parsed, frame: pd.DataFrame) -> NDArray[np.float64]:
    name = parsed.outcome
    text = name in frame and frame[name].dtype == "category"
    design = None if text else _materialise(parsed.left, frame, {}, {})
    if design is None or design.categories:
        example = frame[name].cat.categories[-1] if text else "yes"
        written = f"`{name}`" if text and not name.isidentifier() else name
        raise ValueError(
            f"the outcome {name!r} is text; say in the formula what counts as 1, for example "
            f"I({written} == {example!r}) ~ ..."
        )
    if len(design.names) != 1:
        raise ValueError(f"the outcome {name!r} gives {len(design.names)} columns; it must give one")
    _require_finite(design.array, design.names)
    y: NDArray[np.float64] = design.array[0]
    return y


def _materialise(
    side: Any, frame: pd.DataFrame, transforms: dict[str, Any], categories: dict[str, list[Any]]
) -> Design:
    """Let formulaic build the columns of one side, from the given state or, if there is none, learning it."""
    import pandas as pd
    from formulaic import ModelSpec
    from formulaic.errors import DataMismatchWarning, FormulaicError
    from formulaic.parser.types import Factor

    spec = ModelSpec(
        side,
        na_action="ignore",
        output="pandas",
        transform_state=copy.deepcopy(transforms),  # formulaic writes into what it is given
        encoder_state={name: (Factor.Kind.CATEGORICAL, {"categories": c}) for name, c in categories.items()},
    )
    materializer = spec.get_materializer(frame, context=functions.context())
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error", DataMismatchWarning)  # formulaic makes zeros of unseen levels
            matrix = materializer.get_model_matrix(spec)
    except DataMismatchWarning as error:
        for name, known in categories.items():
            _refuse_unseen(repr(name), pd.Series(materializer.factor_cache[name].values.__wrapped__), known)
        raise ValueError(f"levels=... leaves out levels: {_plain(error).split('. They')[0]}") from error
    except FormulaicError as error:
        raise ValueError(_plain(error)) from error
    spec = matrix.model_spec
    learned = {name: s["categories"] for name, (_, s) in spec.encoder_state.items() if "categories" in s}
    names = tuple(spec.column_names)
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two columns of the design are called {repeated!r}; rename the data column")
    array = np.empty((len(names), len(frame)))
    for i in range(len(names)):
        array[i] = matrix.iloc[:, i].to_numpy()
    return Design(names, array, spec.transform_state, learned)


def _refuse_unseen(what: str, values: pd.Series[Any], known: Sequence[Any]) -> None:
    levels = values.cat.categories if values.dtype == "category" else values.unique()
    unseen = [level for level in levels.tolist() if level not in known]
    if unseen:
        shown = ", ".join(repr(level) for level in unseen[:5]) + (", ..." if len(unseen) > 5 else "")
        first = values.isin(unseen).argmax()
        raise ValueError(
            f"{what} has levels never seen when the formula was learned: {shown} (first at row {first}); "
            "drop those rows, or learn from data that has them"
        )


def _require_finite(X: NDArray[np.float64], names: Sequence[str]) -> None:
    for name, values in zip(names, X, strict=True):
        finite = np.isfinite(values)
        if not finite.all():
            first = int(finite.argmin())
            raise ValueError(
                f"{name!r} is not finite in {np.count_nonzero(~finite)} of {len(values)} rows "
                f"(first at row {first}: {values[first]}); change the term or drop those rows"
            )


def _plain(error: Exception) -> str:
    """Take the colours and line breaks out of a message of formulaic."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split())


def _pack(value: Any) -> Any:
    """Turn learned state into what JSON can hold; `_unpack` is its inverse."""
    if isinstance(value, np.ndarray):
        return {"array": value.ravel().tolist(), "dtype": str(value.dtype), "shape": value.shape}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {"dict": [[_pack(key), _pack(entry)] for key, entry in value.items()]}
    if isinstance(value, list):
        return [_pack(entry) for entry in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"cannot save what the formula learned: {value!r} of type {type(value).__name__}")


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpack(entry) for entry in value]
    if isinstance(value, dict) and "array" in value:
        return np.array(value["array"], dtype=value["dtype"]).reshape(value["shape"])
    if isinstance(value, dict):
        return {_unpack(key): _unpack(entry) for key, entry in value["dict"]}
    return value
