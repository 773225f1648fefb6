"""What averages are compared: the variables of a formula, and the values that rows get in turn."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data import expression
from tallbayes.data.formula import Formula
from tallbayes.data.new_rows import new_rows
from tallbayes.data.options import check_texts, is_number, refuse, shown
from tallbayes.data.pieces import Source
from tallbayes.data.syntax import tree
from tallbayes.results.averages import Change, Side
from tallbayes.results.expected import Centre

PAIRS = ("reference", "sequential", "pairwise")
WIDTHS = ("sd", "2sd", "minmax")
STEP = 5e-5  # of the range of a variable, which is gone both ways for its slope
INSIDE = 1e-6  # if something is computed of it, which may bend more, as logarithms do
NEAR_ZERO = 0.25  # of the least value then, if all are positive
ROUNDED = 1e-11  # of the largest value at least, so that digits are left
BOUNDED = {"bs", "cc", "cr", "cs"}  # functions that end where the data do
WHAT = "the name of a variable, a list of names, or a dict such as {'age': 10} by name"

Variables = str | Sequence[str] | Mapping[str, Any] | None


class Compared(NamedTuple):
    """Two sides, what is compared in words, and by what their difference is divided."""

    term: str
    contrast: str
    low: Side
    high: Side
    width: float = 1.0


class Kind(NamedTuple):
    """What a variable is: its values if they are categories, or a number."""

    name: str
    levels: tuple[Any, ...] | None
    flag: bool = False  # True and False
    uses: frozenset[str] = frozenset()  # functions that are computed of it, "" among them for any expression


def kinds(formula: Formula) -> dict[str, Kind]:
    """The variables of a formula that can be changed."""
    parsed, found = formula.parsed, dict[str, Kind]()
    added = () if parsed.offset is None else parsed.offset.columns
    coded = {}
    for text, levels in formula.categories.items():
        if (column := text if text in parsed.predictors else _coded(text)) is not None:
            coded[column] = tuple(levels)
    uses = _uses(formula)
    for name in dict.fromkeys([*parsed.predictors, *added]):
        if name in parsed.dates:
            continue
        if name in formula.flags:
            found[name] = Kind(name, (0.0, 1.0), True)
        elif name in formula.levels:
            found[name] = Kind(name, tuple(formula.levels[name].values))
        else:
            found[name] = Kind(name, coded.get(name), uses=frozenset(uses.get(name, ())))
    return found


def _coded(text: str) -> str | None:
    """The column whose own values are the levels of what is computed: that of C(x), but none of C(x > 0).

    >>> _coded("C(age)"), _coded("C(`my age`, Treatment(2))"), _coded("C(Q('my age'))"), _coded("C(age > 30)")
    ('age', 'my age', 'my age', None)
    """
    columns = expression.check(text).columns
    match tree(text)[0]:
        case ast.Call(args=[ast.Name() | ast.Call(func=ast.Name(id="Q")), *_]) if len(columns) == 1:
            return columns[0]
    return None


def _uses(formula: Formula) -> dict[str, set[str]]:
    """By column the functions that the formula calls where it computes something of it, and "" besides."""
    parsed, found = formula.parsed, dict[str, set[str]]()
    sides = (parsed.right, () if parsed.offset is None else parsed.offset.side)
    factors = (factor for side in sides for term in side for factor in term.factors)
    for one in (expression.check(str(one.expr)) for one in factors if one.eval_method.value == "python"):
        for name in one.columns:
            found.setdefault(name, {""}).update(one.functions)
    return found


def given(asked: Variables, known: Mapping[str, Kind], formula: Formula) -> dict[str, Any]:
    """What was asked for of each variable by name, None for the default; all of them if nothing is said."""
    if asked is None:
        return dict.fromkeys(known)
    if isinstance(asked, str):
        asked = [asked]
    if not isinstance(asked, Mapping):
        check_texts("variables", asked, WHAT)
        asked = dict.fromkeys(asked)
    found = dict(asked)
    if not found or not all(isinstance(name, str) for name in found):
        refuse("variables", WHAT, asked)
    for name in found:
        if name not in known:
            _refuse_unknown(name, known, formula)
    return found


def _refuse_unknown(name: str, known: Mapping[str, Kind], formula: Formula) -> None:
    if name in formula.parsed.dates:
        raise ValueError(f"{name!r} is a column of dates, which cannot be set to a value; change it in data= instead")
    if name == formula.group:
        raise ValueError(f"{name!r} is the group of (1 | {name}); average by it instead: by={name!r}")
    close = difflib.get_close_matches(name, known)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(map(repr, known))}"
    raise ValueError(f"the formula has no variable {name!r}; {hint}")


class Spread(NamedTuple):
    """What numbers a column holds."""

    least: float
    most: float
    sd: float


@dataclass(frozen=True, eq=False)
class Tallied:
    """By pieces: numbers of rows, least and most values, means, sums of squared differences from them (5, column)."""

    pieces: list[NDArray[np.float64]]

    def then(self, later: Tallied) -> Tallied:
        """That, and what was seen of later rows."""
        return Tallied(self.pieces + later.pieces)

    def spreads(self) -> list[Spread]:
        """What each column holds."""
        count, least, most, mean, squares = np.stack(self.pieces, axis=1)
        whole = count.sum(axis=0)
        centre = (count * mean).sum(axis=0) / whole
        sd = np.sqrt((squares + count * (mean - centre) ** 2).sum(axis=0) / np.maximum(1, whole - 1))
        return [Spread(*map(float, one)) for one in zip(least.min(axis=0), most.max(axis=0), sd, strict=True)]


@dataclass(frozen=True, eq=False)
class Spreads:
    """The question how columns of numbers are spread."""

    centre: Centre
    columns: tuple[str, ...]
    others: tuple[str, ...]  # columns whose missing values leave rows out as well
    drop: bool

    @property
    def wanted(self) -> list[str]:
        """See `Question`."""
        return list(dict.fromkeys([*self.columns, *(self.others if self.drop else ())]))

    def look(self, source: Source) -> Tallied:
        """See `Question`."""
        seen = []
        for rows in new_rows(source, self.wanted, self.centre.clean, drop=self.drop):
            columns = rows.source.load(self.columns)
            for name, values in columns.items():
                if values.dtype == "category":
                    raise ValueError(f"column {name!r} holds text, such as {values.iloc[0]!r}, but held numbers before")
            values = np.stack([np.asarray(columns[name], dtype=float) for name in self.columns])
            with np.errstate(over="ignore", invalid="ignore"):  # which is told below
                mean = values.mean(axis=1)
                squares = ((values - mean[:, None]) ** 2).sum(axis=1)
            if not (finite := np.isfinite(squares)).all():
                worst = self.columns[int(finite.argmin())]
                raise ValueError(
                    f"column {worst!r} is spread too widely to be computed with; correct its largest values"
                )
            seen.append(np.stack([np.full(len(values), rows.size), values.min(1), values.max(1), mean, squares]))
        return Tallied(seen)


def needs_spread(kind: Kind, asked: Any, slopes: bool) -> bool:
    """Whether it has to be known how a variable is spread."""
    return kind.levels is None and (slopes or (isinstance(asked, str) and asked in WIDTHS))


def compared(kind: Kind, asked: Any, spread: Spread | None, slopes: bool, sign: str) -> list[Compared]:
    """What is compared of a variable; `sign` stands between the values of categories in words."""
    name = kind.name
    if kind.levels is not None:
        return [
            Compared(name, f"{_word(kind, high)} {sign} {_word(kind, low)}", {name: Change(low)}, {name: Change(high)})
            for low, high in _pairs(kind, kind.levels, asked)
        ]
    if slopes:
        assert spread is not None
        if asked is not None:
            raise ValueError(
                f"slopes take names of variables only, but {name!r} has {shown(asked)}; for steps use avg_comparisons"
            )
        half, ends = _half(spread, bool(kind.uses)), BOUNDED.intersection(kind.uses) and spread.least < spread.most
        inside = (spread.least + half, spread.most - half) if ends else None
        below, above = ({name: Change(move, True, inside)} for move in (-half, half))
        return [Compared(name, "dY/dX", below, above, 2 * half)]
    if isinstance(asked, str) and asked in WIDTHS:
        assert spread is not None
        if asked == "minmax":
            return [Compared(name, "max - min", {name: Change(spread.least)}, {name: Change(spread.most)})]
        half = spread.sd * (0.5 if asked == "sd" else 1.0)
        word = {"sd": "+1 sd", "2sd": "+2 sd"}[asked]
        return [Compared(name, word, {name: Change(-half, True)}, {name: Change(half, True)})]
    gap: Any = 1 if asked is None else asked
    if is_number(gap) and gap != 0:
        return [Compared(name, f"{gap:+g}", {}, {name: Change(float(gap), True)})]
    if _is_pair(gap) and all(map(is_number, gap)) and gap[0] != gap[1]:
        low, high = map(float, gap)
        return [Compared(name, f"{high:g} {sign} {low:g}", {name: Change(low)}, {name: Change(high)})]
    refuse(f"variables[{name!r}]", f"a number to add, a pair of numbers, or one of {', '.join(WIDTHS)}", asked)


def _half(spread: Spread, computed: bool) -> float:
    """How far a variable is moved both ways for its slope."""
    largest = max(abs(spread.least), abs(spread.most))
    width = (spread.most - spread.least) or largest or 1.0
    if not computed:
        return STEP * width
    half = min(INSIDE * width, NEAR_ZERO * spread.least) if spread.least > 0 else INSIDE * width
    return min(max(half, ROUNDED * largest), STEP * width)


def _is_pair(asked: Any) -> bool:
    return isinstance(asked, list | tuple | np.ndarray) and len(asked) == 2


def _pairs(kind: Kind, levels: Sequence[Any], asked: Any) -> list[tuple[Any, Any]]:
    """Pairs of categories, the lower one first."""
    if asked is None or (isinstance(asked, str) and asked == "reference"):
        return [(levels[0], level) for level in levels[1:]]
    if isinstance(asked, str) and asked == "sequential":
        return list(pairwise(levels))
    if isinstance(asked, str) and asked == "pairwise":
        return list(combinations(levels, 2))
    if _is_pair(asked) and all(value in levels for value in asked) and asked[0] != asked[1]:
        return [(_level(kind, asked[0]), _level(kind, asked[1]))]
    few = ", ".join(repr(_word(kind, level)) for level in levels[:5])
    refuse(f"variables[{kind.name!r}]", f"one of {', '.join(PAIRS)}, or a pair of its levels ({few})", asked)


def _level(kind: Kind, value: Any) -> Any:
    """A level as the data have it."""
    assert kind.levels is not None
    return kind.levels[kind.levels.index(value)]


def _word(kind: Kind, level: Any) -> str:
    return str(bool(level)) if kind.flag else str(level)


def crossed(asked: Mapping[str, Any], known: Mapping[str, Kind]) -> list[tuple[dict[str, Any], Side]]:
    """All combinations of the values that variables are set to, in words and as sides."""
    each = []
    for name, values in asked.items():
        kind = known[name]
        if values is None:
            if kind.levels is None:
                refuse(f"variables[{name!r}]", f"a list of values, as in {{{name!r}: [0, 1]}}", values)
            values = kind.levels
        values = [values] if isinstance(values, str) or not hasattr(values, "__iter__") else list(values)
        each.append([(name, _value(kind, value)) for value in values])
        if not values:
            refuse(f"variables[{name!r}]", "a list of at least one value", values)
    found = list[tuple[dict[str, Any], Side]]()
    for chosen in product(*each):
        words = {name: bool(value) if known[name].flag else value for name, value in chosen}
        found.append((words, {name: Change(value) for name, value in chosen}))
    return found


def _value(kind: Kind, value: Any) -> Any:
    if kind.levels is None:
        if not is_number(value):
            refuse(f"variables[{kind.name!r}]", "a list of numbers", value)
        return float(value)
    if value not in kind.levels:
        few = ", ".join(repr(_word(kind, level)) for level in kind.levels[:5])
        refuse(f"variables[{kind.name!r}]", f"a list of its levels ({few})", value)
    return _level(kind, value)
