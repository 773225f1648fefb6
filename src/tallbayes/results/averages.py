"""Averages over rows of what a fit expects, for each of many draws, without rows x draws of anything.

With g_i(theta) the expected outcome of row i, the average over n rows is wanted for each draw theta_d. One pass over
all rows gives it at one point, theta_c, the posterior mean. What is left is small, and a subsample S of m rows is
enough for it (a difference estimator):

    G(theta_d)  =  1/n sum_i g_i(theta_c)  +  1/m sum_{i in S} [g_i(theta_d) - g_i(theta_c)]

Its error is the posterior sd of g_i times about 1/sqrt(m): with 10,000 rows some hundredth of the sd of G. With m = n
it has none. Rows may be changed before they are looked at (`Side`), weighted, and averaged by the values of columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.new_rows import NewRows, new_rows
from tallbayes.data.pieces import Source, sliced
from tallbayes.data.progress import passing
from tallbayes.results.expected import Centre, Draws
from tallbayes.results.sketch import Sketch, least_of_each
from tallbayes.rows import threads
from tallbayes.rows.chosen import scrambled

Array = NDArray[np.float64]
Key = tuple[Any, ...]  # values of the columns that averages are made by

FEWEST = 500  # rows of each group that are kept for draws, however many groups there are
AT_ONCE = 2**18  # expected outcomes that a thread computes at a time: they stay in the processor's cache
SUMMED = 2**12  # values that are added up one after the other
MOST = 2**27  # numbers that are kept of rows: 1 GB of them
MOST_GROUPS = 10_000


class Change(NamedTuple):
    """What becomes of a column: a value for all rows, or a number that is added.

    With `within`, values move into these bounds before, so that none leaves the range of all by what is added.
    """

    value: Any
    added: bool = False
    within: tuple[float, float] | None = None

    @property
    def words(self) -> str:
        """What it is, for messages."""
        return f"{self.value:+g}" if self.added else f"= {self.value}"

    def of(self, values: Any) -> Any:
        """The column, changed."""
        import pandas as pd

        if self.added:
            numbers = np.asarray(values, dtype=float)
            numbers = numbers if self.within is None else numbers.clip(*self.within)
            return pd.Series(numbers + self.value, copy=False)
        if isinstance(self.value, str) or values.dtype == "category":
            level = pd.Categorical.from_codes(np.zeros(len(values), np.int8), pd.Index([self.value]))
            return pd.Series(level, copy=False)
        return pd.Series(np.full(len(values), self.value), copy=False)


Side = Mapping[str, Change]  # by column; none for rows as they are


class Group(NamedTuple):
    """What was seen of the rows of a group: sums of weights and of each side by pieces, and a sketch."""

    rows: int  # that have a weight
    sums: list[Array]  # (1 + sides,) of each piece
    sketch: Sketch

    def joined(self, later: Group, size: int) -> Group:
        """Both."""
        return Group(self.rows + later.rows, self.sums + later.sums, self.sketch.joined(later.sketch, size))


@dataclass(frozen=True, eq=False)
class Looked:
    """What was seen of some rows."""

    size: int  # rows that are kept
    groups: dict[Key, Group]
    rows: int = 0
    flags: tuple[str, ...] = ()  # columns of `by` that held True and False

    @property
    def each(self) -> int:
        """Rows of each group that are kept."""
        return max(FEWEST, self.size // max(1, len(self.groups)))

    def then(self, later: Looked) -> Looked:
        """That, and what was seen of later rows."""
        keys = dict.fromkeys([*self.groups, *later.groups])
        flags = tuple(dict.fromkeys([*self.flags, *later.flags]))
        joined = Looked(self.size, keys, self.rows + later.rows, flags)  # type: ignore[arg-type]
        if len(joined.groups) > MOST_GROUPS:
            raise ValueError(f"by= gives more than {MOST_GROUPS:,} groups; average by columns with fewer values")
        for key in joined.groups:
            before, after = self.groups.get(key), later.groups.get(key)
            if before is not None and after is not None:
                joined.groups[key] = before.joined(after, joined.each)
            else:
                one = before or after
                assert one is not None
                joined.groups[key] = one._replace(sketch=one.sketch.least(joined.each))
        return joined


@dataclass(frozen=True, eq=False)
class Averages:
    """The question: averages of what is expected at a centre, of rows as each side changes them."""

    centre: Centre
    sides: tuple[Side, ...]
    by: tuple[str, ...]
    weights: str | None
    others: tuple[str, ...]  # columns in which nothing may be missing besides
    drop: bool  # rows with missing values
    size: int
    seed: int

    @property
    def wanted(self) -> list[str]:
        """See `Question`."""
        named = [*self.centre.columns, *self.by, *([self.weights] if self.weights else []), *self.others]
        return list(dict.fromkeys(named))

    def look(self, source: Source) -> Looked:
        """See `Question`."""
        seen = Looked(self.size, {})
        with passing("averaging over rows", source.rows) as done:
            for rows in new_rows(source, self.wanted, self.centre.clean, drop=self.drop, perhaps_flags=self.by):
                seen = seen.then(self._piece(rows))
                done(rows.size)
        return seen

    def _piece(self, rows: NewRows) -> Looked:
        weight = np.ones(rows.size) if self.weights is None else weights_of(self.weights, rows)
        codes, keys = self._groups(rows)
        seen = Looked(self.size, dict.fromkeys(keys), rows.size, rows.flags)  # type: ignore[arg-type]
        priority = scrambled(rows.numbers, self.seed)
        there = np.flatnonzero(weight > 0)  # others say nothing, and must not take the place of these
        kept = [there[own] for own in least_of_each(priority[there], codes[there], len(keys), seen.each)]
        every = np.concatenate(kept)
        sums, features = (
            np.empty((len(keys), 1 + len(self.sides))),
            np.empty((every.size, len(self.sides), self.centre.width)),
        )
        sums[:, 0] = sums_by(codes, weight, len(keys))

        def work(place: int) -> None:
            own = self._features(rows, self.sides[place])
            sums[:, 1 + place] = sums_by(codes, weight * self.centre.mean(own), len(keys))
            features[:, place] = own[:, every].T

        threads.in_turns(work, len(self.sides))
        counts, ends = np.bincount(codes[there], minlength=len(keys)), np.cumsum([own.size for own in kept])
        for number, (key, own, end) in enumerate(zip(keys, kept, ends.tolist(), strict=True)):
            some = slice(end - own.size, end)
            sketch = Sketch(priority[own], weight[own], features[some])
            seen.groups[key] = Group(int(counts[number]), [sums[number]], sketch)
        return seen

    def _features(self, rows: NewRows, side: Side) -> Array:
        """Those of rows that a side has changed."""
        try:
            return self.centre.features(_changed(rows, side, self.wanted))
        except ValueError as error:
            if not side:
                raise
            changes = ", ".join(f"{name} {change.words}" for name, change in side.items())
            raise ValueError(f"rows with {changes}: {error}") from error

    def _groups(self, rows: NewRows) -> tuple[NDArray[np.intp], list[Key]]:
        """The number of each row's group, and the groups."""
        import pandas as pd

        if not self.by:
            return np.zeros(rows.size, np.intp), [()]
        columns = rows.source.load(self.by)
        frame = pd.DataFrame({name: np.asarray(values) for name, values in columns.items()})
        grouped = frame.groupby(list(self.by), sort=True)
        codes: NDArray[np.intp] = np.asarray(grouped.ngroup(), np.intp)
        first = grouped.head(1).assign(_code=codes[grouped.head(1).index]).sort_values("_code")
        return codes, [tuple(key) for key in first[list(self.by)].astype(object).itertuples(index=False, name=None)]


def sums_by(codes: NDArray[np.intp], values: Array, groups: int) -> Array:
    """Sums of values by group, made of sums of blocks: for slopes, small differences of them count.

    >>> sums_by(np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0]), 2)
    array([4., 2.])
    """
    found = np.zeros(groups)
    for start in range(0, codes.size, SUMMED):
        some = slice(start, start + SUMMED)
        found += np.bincount(codes[some], values[some], groups)
    return found


def weights_of(name: str, rows: NewRows) -> Array:
    """Weights of some rows; refuse what is not a weight."""
    values: NDArray[Any] = rows.source.load([name])[name].to_numpy()
    if values.dtype.kind not in "if":
        raise ValueError(f"weights {name!r} must be numbers")
    if (wrong := values < 0).any():
        first = int(wrong.argmax())
        raise ValueError(f"weights {name!r} must not be negative, but are {values[first]:g} in {rows.where(first)}")
    return np.asarray(values, dtype=float)


def _changed(rows: NewRows, side: Side, wanted: Sequence[str]) -> NewRows:
    """Rows with some of their columns changed."""
    if not side:
        return rows
    columns = rows.source.load(wanted)
    columns |= {name: change.of(columns[name]) for name, change in side.items()}

    def load(names: Sequence[str]) -> dict[str, Any]:
        return {name: columns[name] for name in names}

    return rows._replace(source=rows.source._replace(load=load, pieces=lambda names: sliced(load, names)))


class Average(NamedTuple):
    """Averages of a group."""

    key: Key
    rows: int
    draws: Array  # (side, draw)
    error: Array  # (side, side): of its mean, by looking at a subsample of the rows, a covariance


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused later
def averages(
    seen: Looked, sides: int, draws: Draws, centre: Centre, levels: Sequence[Sequence[Any]] = ()
) -> list[Average]:
    """The averages of each group for each draw; `levels` are those of the columns whose order means something."""
    found = []
    for key, group in sorted(seen.groups.items(), key=lambda one: _places(one[0], levels)):
        total = np.array([float(np.sum(one)) for one in np.stack(group.sums, axis=1)])
        if total[0] <= 0:
            raise ValueError(f"weights are 0 in all rows{_of(key)}; leave these out")
        sketch = group.sketch.least(seen.each)
        moved, error = _moved(sketch, sides, draws, centre)
        share = 1 - len(sketch.priority) / group.rows
        found.append(Average(key, group.rows, total[1:, None] / total[0] + moved, error * share))
    return found


def _moved(sketch: Sketch, sides: int, draws: Draws, centre: Centre) -> tuple[Array, Array]:
    """How averages of some rows differ from those at the centre: (side, draw), and the covariance of their mean."""
    rows, step = len(sketch.priority), max(1, AT_ONCE // draws.size)
    count, weight = -(-rows // step), sketch.weight / sketch.weight.sum()
    parts, own = np.zeros((count, sides, draws.size)), np.empty((sides, rows))

    def work(begin: int, end: int) -> None:
        for part in range(begin, end):
            some = slice(part * step, (part + 1) * step)
            for side in range(sides):
                features = np.ascontiguousarray(sketch.features[some, side].T)
                with np.errstate(over="ignore", invalid="ignore"):  # in this thread
                    change = draws.means(features) - centre.mean(features)[:, None]
                own[side, some] = change.mean(axis=1)
                change *= weight[some, None]
                parts[part, side] = change.sum(axis=0)

    threads.over_blocks(work, count, evaluations=rows * sides * draws.size)
    spread = (own - (own * weight).sum(axis=1, keepdims=True)) * weight
    return parts.sum(axis=0), spread @ spread.T


def _places(key: Key, levels: Sequence[Sequence[Any]]) -> tuple[tuple[bool, Any], ...]:
    """Where a group comes: by the order of levels where there are any, numbers before text."""
    each = zip(key, levels or [()] * len(key), strict=True)
    return tuple((False, own.index(one)) if one in own else (isinstance(one, str), one) for one, own in each)


def _of(key: Key) -> str:
    return f" of the group {', '.join(map(str, key))}" if key else ""
