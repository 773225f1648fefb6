"""Predictions: the posterior of each new row's expected outcome, a slice of rows at a time.

What is computed for a row has the same bits whatever other rows there are, and however they are cut into pieces and
slices: no product of matrices, whose sums depend on their shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.data.formula import Formula
from tallbayes.data.frames import read
from tallbayes.data.new_rows import NewRows, new_rows
from tallbayes.data.options import check_number, check_whole
from tallbayes.data.per_row import as_numbers
from tallbayes.data.pieces import Source
from tallbayes.data.tally import Where, row
from tallbayes.families import Family
from tallbayes.families.exposure import Exposed
from tallbayes.results.intervals import Interval
from tallbayes.rows import threads

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

PREDICTED_AT_ONCE = 2**20  # linear predictors held in memory by a thread: 8 MB of them
SUMMED_AT_ONCE = 2**15  # of these while their sums are made: they stay in the processor's cache


class Asked(NamedTuple):
    """How rows are to be predicted."""

    offset: ArrayLike | None
    draws: int
    interval: float
    seed: int

    def check(self) -> None:
        """Refuse what cannot be."""
        check_whole("draws", self.draws)
        check_interval(self.interval)
        check_whole("seed", self.seed, 0)


class Predicted(NamedTuple):
    """Rows of one piece of the data, and their posterior means and ends of the interval (3, row)."""

    rows: NewRows
    values: Array


class Effects(Protocol):
    """What rows have in their linear predictor besides x'beta and the offset."""

    def order(self, rows: int) -> NDArray[np.intp]:
        """In which order so many rows are best asked for."""

    def of(self, rows: NDArray[np.intp]) -> Array:
        """Effects (row, draw) of some rows."""


def predicted(
    formula: Formula,
    source: Source,
    keep: Sequence[str],
    beta: Array,
    offsets: Offsets,
    effects: Callable[[Source], Effects] | None,
    mean: Callable[[Array], Array],
    interval: float,
) -> Iterator[Predicted]:
    """Predictions of all rows, piece by piece; `effects` makes those of the rows of a piece."""
    if source.rows is not None:
        offsets.check_rows(source.rows)
    parsed, rows = formula.parsed, 0
    added = () if parsed.offset is None else parsed.offset.columns
    group = () if parsed.group is None else (parsed.group,)
    for new in new_rows(source, [*parsed.predictors, *added, *offsets.columns, *group], formula.clean_raw, keep):
        rows += new.size
        X = formula.apply(new.source, new.where)
        offset = offsets.of(new) + formula.offset(new.source, new.where)
        own = None if effects is None else effects(new.source)
        yield Predicted(new, predict(X, beta, offset, own, mean, interval, new.where))
    offsets.check_rows(rows)


def gathered(parts: Iterable[Predicted], rows: int | None) -> Array:
    """The predictions of all parts (3, row), of so many rows if their number is known."""
    if rows is None:
        return np.concatenate([values for _, values in parts], axis=1)
    result = np.empty((3, rows))
    for new, values in parts:
        result[:, new.start : new.start + new.size] = values
    return result


def predict(
    X: Array,
    beta: Array,
    offset: Array,
    effects: Effects | None,
    mean: Callable[[Array], Array],
    interval: float,
    where: Where = row,
) -> Array:
    """Posterior mean and ends of the interval (3, row) of the expected outcome, from draws of beta (draw, column).

    >>> predict(np.ones((1, 2)), np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 10.0]), None, np.abs, 0.5)
    array([[ 1. , 11. ],
           [ 0.5, 10.5],
           [ 1.5, 11.5]])
    """
    slopes = np.ascontiguousarray(beta.T)

    def predictors(rows: NDArray[np.intp]) -> Array:
        eta = linear(X[:, rows], slopes, offset[rows])
        if effects is not None:
            eta += effects.of(rows)
        return eta

    order = np.arange(X.shape[1]) if effects is None else effects.order(X.shape[1])
    return summarise(order, len(beta), predictors, mean, interval, where)


def linear(x: Array, slopes: Array, offset: Array) -> Array:
    """x'beta + offset (row, draw), from x (column, row) and slopes (column, draw)."""
    rows, draws = x.shape[1], slopes.shape[1]
    eta = np.empty((rows, draws))
    step = max(1, SUMMED_AT_ONCE // draws)
    product = np.empty((min(step, rows), draws))
    for start in range(0, rows, step):
        own = eta[start : start + step]
        own[:] = offset[start : start + step, None]
        for values, slope in zip(x[:, start : start + step], slopes, strict=True):
            own += np.multiply(values[:, None], slope, out=product[: len(own)])
    return eta


def summarise(
    order: NDArray[np.intp],
    draws: int,
    predictors: Callable[[NDArray[np.intp]], Array],
    mean: Callable[[Array], Array],
    interval: float,
    where: Where = row,
) -> Array:
    """Mean and ends of the interval (3, row), from linear predictors (row, draw) that are asked for in order."""
    place = np.array([[1 - interval], [1 + interval]]) / 2 * (draws - 1)  # among sorted draws
    below, above, share = np.floor(place[:, 0]).astype(int), np.ceil(place[:, 0]).astype(int), place % 1
    result = np.empty((3, len(order)))
    step = max(1, PREDICTED_AT_ONCE // draws)

    def work(begin: int, end: int) -> None:
        for start in range(begin * step, min(end * step, len(order)), step):
            rows = order[start : start + step]
            with np.errstate(over="ignore"):  # which is told below
                expected = mean(predictors(rows))
                result[0, rows] = expected.mean(axis=1)
            if not (finite := np.isfinite(result[0, rows])).all():
                worst = int(rows[finite.argmin()])
                raise ValueError(f"the expected outcome of {where(worst)} {_why(result[0, worst])}")
            expected.sort(axis=1)  # vectorised, so twice as fast as the partition inside np.quantile
            result[1:, rows] = (1 - share) * expected.T[below] + share * expected.T[above]

    threads.over_blocks(work, -(-len(order) // step), evaluations=len(order) * draws)
    return result


def _why(mean: float) -> str:
    """What is wrong with the mean of an expected outcome, and what to do."""
    if np.isnan(mean):
        return "is not a number for some draws; see where the mean= of the family is defined"
    return "is too large for a number for some draws; correct that row, or leave it out"


def evenly_spaced(draws: int, every: int) -> NDArray[np.intp]:
    """Numbers of so many draws out of all, or of all if there are fewer.

    >>> evenly_spaced(3, 9)
    array([0, 4, 8])
    """
    check_whole("draws", draws)
    return np.linspace(0, every - 1, min(draws, every)).round().astype(np.intp)


def check_interval(interval: float) -> None:
    """Refuse what is not strictly between 0 and 1."""
    check_number("interval", interval, above=0, below=1)


def names_of(interval: float) -> list[str]:
    """What the columns of predictions are called.

    >>> names_of(0.94)
    ['mean', 'eti94_lb', 'eti94_ub']
    """
    return ["mean", *Interval(interval).names]


def as_table(result: Array, interval: float, new_data: Any) -> pd.DataFrame:
    """Mean and ends of the interval (3, row) with their names, and the index that the rows had."""
    import pandas as pd

    index = new_data.index if isinstance(new_data, pd.DataFrame) else None
    return pd.DataFrame(result.T, columns=names_of(interval), index=index, copy=False)


class Offsets:
    """What is added to the linear predictor of each new row: the offset, and the log exposure of counts.

    `given` is the caller's offset, `column` the name that the model has for it, if any.
    """

    def __init__(self, given: ArrayLike | None, column: str | None, has_offset: bool, family: Family) -> None:
        if given is None and column is None and has_offset:
            raise ValueError(
                "the model was fitted with an array of offsets, so rows need one for predictions: give offset=, "
                "where 0 means none"
            )
        if given is not None and not has_offset:
            raise ValueError("the model was fitted without an offset, so predictions take none")
        self._given = _numbers(0.0 if given is None else given)
        if not np.isfinite(self._given).all():
            raise ValueError("offset has missing or infinite values; give a number for every row")
        self._column = column if given is None else None
        self._exposed = family if isinstance(family, Exposed) and family.exposure is not None else None

    @property
    def columns(self) -> list[str]:
        """Those that the data must have."""
        exposure = None if self._exposed is None else self._exposed.exposure
        return [name for name in (self._column, exposure) if name is not None]

    def check_rows(self, rows: int) -> None:
        """Refuse an array that does not have a number for each row."""
        if self._given.ndim and self._given.shape != (rows,):
            raise ValueError(f"offset has shape {self._given.shape}, but the data has {rows} rows")

    def of(self, rows: NewRows) -> Array:
        """Those of some rows."""
        own = self._given[rows.start : rows.start + rows.size] if self._given.ndim else self._given
        if own.ndim and own.shape != (rows.size,):
            raise ValueError(f"offset has shape {self._given.shape}, but the data has more rows")
        added = np.broadcast_to(own, rows.size)
        frame = read(rows.source, self.columns)
        if self._column is not None:
            added = added + _numbers(frame[self._column].to_numpy())
        if self._exposed is not None:
            added = added + self._log_exposure(frame, self._exposed, rows)
        return added

    def _log_exposure(self, frame: pd.DataFrame, family: Exposed, rows: NewRows) -> Array:
        try:
            exposure = frame[family.exposure].to_numpy(dtype=float)
        except (TypeError, ValueError):
            raise ValueError(f"exposure {family.exposure!r} must be numbers") from None
        return family.log_exposure(exposure, rows.where)


def _numbers(values: ArrayLike) -> Array:
    return as_numbers("offset", values, "numbers: one for each row, or one for all")
