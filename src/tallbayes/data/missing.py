"""Missing and infinite values: counted over pieces of the data, and refused, or their rows left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.columns import gaps
from tallbayes.data.tally import Tally, Where, rows_from

CHOICES = ("refuse", "drop")
DROP = ', or leave such rows out with missing="drop"'

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Gaps:
    """Missing and infinite values of columns, counted over pieces; with `drop`, rows with missing values are left out.

    `arrays` have a number for each row of the data besides its columns.

    >>> from tallbayes.data.tally import row
    >>> counted = Gaps(["income", "age"], drop=True)
    >>> kept = counted.add({"income": np.array([1.0, np.nan, 3.0]), "age": np.array([30.0, np.nan, np.nan])}, row)
    >>> kept, counted.left_out()
    (array([ True, False, False]), ['2 rows left out for missing values: age 2, income 1'])
    """

    def __init__(self, names: Iterable[str], drop: bool = False, arrays: Mapping[str, Array] | None = None) -> None:
        self.missing = {name: Tally() for name in names}
        self.infinite = {name: Tally() for name in self.missing}
        self.arrays = {what: values for what, values in (arrays or {}).items() if values.ndim == 1}
        self.drop = drop
        self.absent, self.unusable = ({what: Tally() for what in self.arrays} for _ in range(2))
        self.rows = self.kept = 0

    def add(self, columns: Mapping[str, Any], where: Where) -> Mask | None:
        """Count the values of a piece; which of its rows stay, None for all."""
        found = {name: gaps(values) for name, values in columns.items()}
        rows = len(next(iter(columns.values())))
        holes = [(self.missing[name], missing) for name, (missing, _) in found.items()]
        given = {what: part for what in self.arrays if (part := self._part(what, rows)).shape == (rows,)}
        holes += [(self.absent[what], gaps(values)[0]) for what, values in given.items()] if self.drop else []
        kept = None
        for tally, missing in holes:
            if missing is not None:
                tally.add(missing, where)
                if self.drop:
                    kept = ~missing if kept is None else kept & ~missing
        for name, (_, infinite) in found.items():
            if infinite is not None:
                self.infinite[name].add(infinite if kept is None else infinite & kept, where)
        for what, values in given.items():
            wrong = ~np.isfinite(values)
            self.unusable[what].add(wrong if kept is None else wrong & kept, rows_from(self.rows))
        self.rows += rows
        self.kept += rows if kept is None else int(np.count_nonzero(kept))
        return kept

    def then(self, later: Gaps) -> None:
        """Count what was counted in later rows."""
        kinds = ((self.missing, later.missing), (self.infinite, later.infinite))
        for own, others in (*kinds, (self.absent, later.absent), (self.unusable, later.unusable)):
            for name, tally in own.items():
                tally.then(others[name])
        self.rows += later.rows
        self.kept += later.kept

    def _part(self, what: str, rows: int) -> Array:
        return self.arrays[what][self.rows : self.rows + rows]

    def refuse(self, instead: str = "") -> None:
        """Raise ValueError with a line for each column that has a problem.

        `instead` is what else can be done about missing values.
        """
        lines = []
        for name, missing in self.missing.items():
            if not self.drop:
                lines += _line(name, missing, "missing", "drop or impute", instead)
            lines += _line(name, self.infinite[name], "infinite", "drop or replace", "")
        for what, wrong in self.unusable.items():
            if wrong.count:
                lines.append(f"{what} has {wrong.count} missing or infinite values (first at {wrong.first})")
        if lines:
            raise ValueError("\n".join(lines))

    @property
    def troubled(self) -> bool:
        """Whether `refuse` would raise."""
        tallies = [*self.infinite.values(), *self.unusable.values(), *([] if self.drop else self.missing.values())]
        return any(tally.count for tally in tallies)

    def left_out(self) -> list[str]:
        """How many rows are left out, if any, by the columns that lack a value; refuse to leave out all."""
        if self.kept == self.rows:
            return []
        counts = [(name, tally.count) for name, tally in (*self.missing.items(), *self.absent.items()) if tally.count]
        by_column = ", ".join(f"{name} {count:,}" for name, count in sorted(counts, key=lambda one: -one[1]))
        if not self.kept:
            raise ValueError(
                f"every one of the {self.rows:,} rows has a missing value ({by_column}), so none is left; leave "
                "the worst columns out of the formula, or impute them"
            )
        left = self.rows - self.kept
        return [f"{left:,} row{'s' if left > 1 else ''} left out for missing values: {by_column}"]


def _line(name: str, tally: Tally, word: str, remedy: str, more: str) -> list[str]:
    if not tally.count:
        return []
    s, them = ("", "it") if tally.count == 1 else ("s", "them")
    return [f"column {name!r} has {tally.count} {word} value{s} (first at {tally.first}); {remedy} {them} first{more}"]
