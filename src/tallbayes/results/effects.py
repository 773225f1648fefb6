"""Marginal effects: average predictions, comparisons and slopes, on the scale of the outcome.

Each is a difference, a ratio or the like of averages over rows (`averages.py`), draw by draw; `changes.py` says what
becomes of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_choice, check_text, check_texts, check_whole
from tallbayes.data.questions import ask
from tallbayes.results.averages import MOST, Average, Averages, Side, averages
from tallbayes.results.changes import Spread, Spreads, Variables, compared, crossed, given, kinds, needs_spread
from tallbayes.results.expected import Centre
from tallbayes.results.intervals import Interval
from tallbayes.results.predict import check_interval
from tallbayes.results.rows_of import Rows, rows_of
from tallbayes.results.table import described
from tallbayes.sampling.diagnostics import diagnose

if TYPE_CHECKING:
    import pandas as pd

    from tallbayes.results.fit import Fit

Array = NDArray[np.float64]

COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {  # of the averages on the lower and the higher side
    "difference": lambda low, high: high - low,
    "ratio": lambda low, high: high / low,
    "lnratio": lambda low, high: np.log(high / low),
    "lnor": lambda low, high: np.log(high / (1 - high)) - np.log(low / (1 - low)),
    "lift": lambda low, high: (high - low) / low,
}


class How(NamedTuple):
    """What is asked of rows, besides the sides."""

    data: Any
    by: str | Sequence[str] | None
    weights: str | None
    offset: float | None
    engine: Any
    draws: int
    rows: int
    interval: float
    seed: int

    def check(self) -> tuple[str, ...]:
        """Refuse what cannot be; the columns to average by."""
        by: tuple[str, ...] = ()
        if self.by is not None:
            check_texts("by", [self.by] if isinstance(self.by, str) else self.by, "the name of a column, or a list")
            by = (self.by,) if isinstance(self.by, str) else tuple(self.by)
        check_text("weights", self.weights, "the name of a column", optional=True)
        for name in ("draws", "rows"):
            check_whole(name, getattr(self, name))
        check_whole("seed", self.seed, 0)
        check_interval(self.interval)
        return by


class Line(NamedTuple):
    """What a line of the table is about, the averages that it is made of, and how."""

    words: dict[str, Any]
    sides: tuple[int, ...]
    value: Callable[..., Array]


def avg_predictions(fit: Fit, variables: Variables, how: How) -> pd.DataFrame:
    """What `Fit.avg_predictions` does."""
    by, formula = how.check(), formula_of(fit)
    known = kinds(formula)
    asked = {} if variables is None else given(variables, known, formula)
    if both := [name for name in by if name in asked]:
        raise ValueError(f"by= has {both[0]!r}, which variables= sets: there is a line for each value; leave it out")
    _refuse_names((*asked, *by), (), how)
    pairs = crossed(asked, known)
    lines = [Line(words, (place,), lambda mean: mean) for place, (words, _) in enumerate(pairs)]
    with rows_of(fit, how.data, how.engine, how.weights, "fit.avg_predictions({}=...)") as rows:
        return _table(fit, rows, fit._centre(how.offset), [side for _, side in pairs], lines, by, how)


def avg_comparisons(fit: Fit, variables: Variables, comparison: str, how: How) -> pd.DataFrame:
    """What `Fit.avg_comparisons` does."""
    check_choice("comparison", comparison, tuple(COMPARISONS))
    compare = COMPARISONS[comparison]
    sign = "-" if comparison == "difference" else "/" if comparison in ("ratio", "lnratio") else "vs"
    return _compared(fit, variables, how, False, sign, lambda width: compare, "fit.avg_comparisons({}=...)")


def avg_slopes(fit: Fit, variables: Variables, how: How) -> pd.DataFrame:
    """What `Fit.avg_slopes` does."""

    def slope(width: float) -> Callable[[Array, Array], Array]:
        return lambda low, high: (high - low) / width

    return _compared(fit, variables, how, True, "-", slope, "fit.avg_slopes({}=...)")


def _compared(
    fit: Fit, variables: Variables, how: How, slopes: bool, sign: str, value: Callable[[float], Any], ask_again: str
) -> pd.DataFrame:
    by, formula = how.check(), formula_of(fit)
    known = kinds(formula)
    asked = given(variables, known, formula)
    if not asked:
        raise ValueError("the formula has no variables whose changes could be compared")
    _refuse_names(by, ("term", "contrast"), how)
    with rows_of(fit, how.data, how.engine, how.weights, ask_again) as rows:
        centre = fit._centre(how.offset)
        wide = [name for name in asked if needs_spread(known[name], asked[name], slopes)]
        spreads = _spreads(fit, rows, centre, wide, by)
        sides, lines = list[Side](), list[Line]()
        for name, one in asked.items():
            for each in compared(known[name], one, spreads.get(name), slopes, sign):
                places = (_place(each.low, sides), _place(each.high, sides))
                lines.append(Line({"term": each.term, "contrast": each.contrast}, places, value(each.width)))
        return _table(fit, rows, centre, sides, lines, by, how)


def _place(side: Side, sides: list[Side]) -> int:
    """The number of a side among those that are looked at."""
    if side not in sides:
        sides.append(side)
    return sides.index(side)


def formula_of(fit: Fit) -> Any:
    """The formula, without which rows cannot be changed."""
    if fit.formula is None:
        raise ValueError("this fit has no formula, so it does not know its variables; use fit.posterior instead")
    return fit.formula


def _refuse_names(names: Sequence[str], others: Sequence[str], how: How) -> None:
    """Refuse names of columns that the table has others for."""
    taken = {"mean", "sd", *Interval(how.interval).names, "mcse_mean", *others}
    if wrong := [name for name in names if name in taken]:
        raise ValueError(f"the table of averages has a column {wrong[0]!r} of its own; rename that of the data")


def _needed(fit: Fit, rows: Rows) -> tuple[str, ...]:
    """Columns of the fit in which rows must have values, those of the outcome among them, if rows are its own."""
    return tuple(fit.formula.parsed.columns) if fit.formula is not None and rows.own else ()


def _spreads(fit: Fit, rows: Rows, centre: Centre, names: list[str], by: tuple[str, ...]) -> dict[str, Spread]:
    """How columns of numbers are spread, in the rows that are averaged over."""
    if not names:
        return {}
    others = (*centre.columns, *_needed(fit, rows), *by, *([rows.weights] if rows.weights else []))
    seen = ask(rows.source, Spreads(centre, tuple(names), others, rows.drop))
    return dict(zip(names, seen.spreads(), strict=True))


def _table(
    fit: Fit, rows: Rows, centre: Centre, sides: list[Side], lines: list[Line], by: tuple[str, ...], how: How
) -> pd.DataFrame:
    """A line for each group and each thing asked: mean, sd, ends of the interval, and Monte Carlo error."""
    import pandas as pd

    draws = fit._some(how.draws, how.seed)
    size = min(how.rows, max(1, MOST // (len(sides) * centre.width)))
    question = Averages(centre, tuple(sides), by, rows.weights, _needed(fit, rows), rows.drop, size, how.seed)
    seen = ask(rows.source, question)
    if rows.own:
        _require_all(seen.rows, fit.stats["rows"], rows.drop)
    known = {} if fit.formula is None else fit.formula.levels
    levels = [known[name].values if name in known and known[name].ordered else () for name in by]
    found = averages(seen, len(sides), draws, centre, levels)
    flags = (*seen.flags, *(() if fit.formula is None else fit.formula.flags))
    words = [line.words | dict(zip(by, _words(flags, by, group.key), strict=True)) for group in found for line in lines]
    values, errors = zip(*(_value(line, group) for group in found for line in lines), strict=True)
    shaped = np.stack(values, axis=1).reshape(draws.chains, -1, len(values))
    error = np.hypot(diagnose(shaped).mcse_mean, np.array(errors))
    table = pd.DataFrame(words, index=range(len(words)))
    interval = Interval(how.interval)
    columns = dict(zip(("mean", "sd", *interval.names), described(shaped, interval), strict=True))
    return table.assign(**columns, mcse_mean=error)


def _require_all(rows: int, fitted: int, drop: bool) -> None:
    """Refuse to average over others than the rows of the fit."""
    if rows != fitted:
        lack = ", or columns of by= or weights= lack values in some rows" if drop else ""
        raise ValueError(
            f"the fit was made from {fitted:,} rows, but {rows:,} of its data can be averaged over: the data have "
            f"changed{lack}; give the rows to average over as data=, or fit again"
        )


def _value(line: Line, group: Average) -> tuple[Array, float]:
    """Draws of what a line is about, and the error of their mean by looking at a subsample of the rows."""
    averages = [group.draws[side] for side in line.sides]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = line.value(*averages)
    if not np.isfinite(value).all():
        said = ", ".join(f"{name} {word}" for name, word in line.words.items())
        raise ValueError(
            f"{said or 'the average'} is not finite: an average is too large there, or not above 0 (and below 1 for "
            "lnor), as this comparison needs; take another one, or other rows"
        )
    at = np.array([average.mean() for average in averages])
    step = 1e-6 * np.maximum(np.abs(at), 1e-300)
    slope = np.array(
        [(line.value(*(at + move)) - line.value(*(at - move))) / (2 * size) for move, size in _moves(step)]
    )
    error = slope @ group.error[np.ix_(line.sides, line.sides)] @ slope
    return value, float(np.sqrt(max(0.0, error)))


def _moves(step: Array) -> list[tuple[Array, float]]:
    """One average moves after the other."""
    return [(np.where(np.arange(step.size) == place, step, 0.0), float(step[place])) for place in range(step.size)]


def _words(flags: tuple[str, ...], by: tuple[str, ...], key: tuple[Any, ...]) -> list[Any]:
    """Values of columns in words: of those that held True and False, these."""
    return [bool(value) if name in flags and value in (0, 1) else value for name, value in zip(by, key, strict=True)]
