"""The rows of a model, built piece by piece; weights and outcomes are looked at on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.learned import Finite, Learned
from tallbayes.data.parts import Part
from tallbayes.data.tally import Where
from tallbayes.families import Binomial, Family
from tallbayes.families.checks import SIZES
from tallbayes.families.exposure import Exposed
from tallbayes.models.limits import OFFSETS
from tallbayes.rows.building import builder
from tallbayes.rows.chosen import NUMBER
from tallbayes.rows.duplicates import Columns
from tallbayes.rows.protocol import RowsAtHand
from tallbayes.rows.room import ROOM, Room

Array = NDArray[np.float64]

WHAT = ("weights", "offset", "trials", "exposure")  # what may be given for each row


class Looked:
    """What rows are like as they are in the data: outcomes, weights, and values that are not finite."""

    def __init__(self, family: Family, outcome: str) -> None:
        self.check, self.finite = family.checking(outcome), Finite()
        self.lightest, self.lightest_at = np.inf, ""  # the smallest weight and its row
        self.weighted, self.some = False, False  # whether there are weights, and any that is positive
        self.ones = 0  # rows with an outcome other than zero
        self.farthest, self.farthest_at = 0.0, ""  # the offset of the largest size, and its row
        self.most = SIZES[1] if family.location else OFFSETS  # that it may have

    def add(self, columns: Columns, where: Where, trials: Array | None = None) -> None:
        """See the next rows; a row with weight 0 says nothing, and its outcome may be anything."""
        y, weights = columns.y, columns.weights
        self.ones += int(np.count_nonzero(y))
        if weights is not None:
            self._weigh(weights, where)
        if columns.offset is not None:
            self._add_offset(columns.offset, where)
        if weights is None or (weights > 0).all():
            self.check.add(y, where, trials)
        else:
            heard = np.flatnonzero(weights > 0)
            self.check.add(y[heard], lambda place: where(int(heard[place])), None if trials is None else trials[heard])

    def _weigh(self, weights: Array, where: Where) -> None:
        self.weighted, self.some = True, self.some or bool((weights > 0).any())
        lightest = int(weights.argmin())
        if weights[lightest] < self.lightest:
            self.lightest, self.lightest_at = float(weights[lightest]), where(lightest)

    def _add_offset(self, offset: Array, where: Where) -> None:
        farthest = int(np.abs(offset).argmax())
        if abs(offset[farthest]) > abs(self.farthest):
            self.farthest, self.farthest_at = float(offset[farthest]), where(farthest)

    def then(self, later: Looked) -> None:
        """See what later rows are like."""
        if abs(later.farthest) > abs(self.farthest):
            self.farthest, self.farthest_at = later.farthest, later.farthest_at
        self.check.then(later.check)
        self.finite.then(later.finite)
        if later.lightest < self.lightest:
            self.lightest, self.lightest_at = later.lightest, later.lightest_at
        self.weighted, self.some = self.weighted or later.weighted, self.some or later.some
        self.ones += later.ones

    def finish(self, rows: int) -> None:
        """Raise ValueError if something of so many rows cannot be used."""
        self.finite.refuse(rows)
        if self.weighted and (self.lightest < 0 or not self.some):
            raise ValueError(
                "weights must be positive or zero, and some positive; the smallest is "
                f"{self.lightest:g} ({self.lightest_at})"
            )
        if abs(self.farthest) > self.most:
            raise ValueError(
                f"the offset, or with it the log of an exposure, is {self.farthest:.4g} ({self.farthest_at}), but must "
                f"lie between {-self.most:g} and {self.most:g}: it is added to the linear predictor"
            )
        self.check.finish()


def build(
    learned: Learned,
    family: Family,
    given: Mapping[str, Any],
    room: Room = ROOM,
    file: IO[bytes] | None = None,
    merge: bool = True,
    numbered: bool = False,
) -> tuple[RowsAtHand, int]:
    """The rows of a formula that has been learned, in one pass over the data; and how many outcomes are not zero.

    `given` are weights, offset, trials and exposure, where there are any: a column's name or an array. Rows go to the
    `file`, if there is one. `merge` says whether duplicates may become rows with weights; rows that are `numbered` have
    no duplicates.
    """
    formula, looked = learned.formula, Looked(family, learned.formula.outcome)
    most = most_rows(family, learned.rows)
    building = builder(len(formula.coefficients), most, formula.group, len(formula.group_levels), room, file, merge)
    try:
        for columns in pieces(learned, family, given, looked, 0 if numbered else None):
            building.add(columns)
        looked.finish(learned.rows)
        return building.finish(), looked.ones
    except BaseException:
        building.close()
        raise


def most_rows(family: Family, rows: int) -> int:
    """So many rows of the data may become: each with k successes among m trials becomes two."""
    return 2 * rows if isinstance(family, Binomial) else rows


def pieces(
    learned: Learned, family: Family, given: Mapping[str, Any], looked: Looked, first: int | None = None
) -> Iterator[Columns]:
    """The rows piece by piece, as a model of this family has them; they are `looked` at on the way.

    If the number of the `first` one is given, they keep their numbers.
    """
    for part, x, y, added, trials, codes in learned.designs(looked.finite):
        weights, offset, others, exposure = (_numbers(part, given.get(what)) for what in WHAT)
        with np.errstate(over="ignore"):  # what is too large is refused
            if exposure is not None:
                assert isinstance(family, Exposed)
                offset = family.log_exposure(exposure, part.where) + (0.0 if offset is None else offset)
            if added is not None:
                offset = added + (0.0 if offset is None else offset)
        columns, tried = Columns(x, y, weights, offset, codes), others if trials is None else trials
        looked.add(columns, part.where, tried)
        columns = columns if tried is None else _split(columns, tried)
        if first is not None:
            numbers = np.arange(first, first + columns.y.size)
            columns, first = columns._replace(strata={**columns.strata, NUMBER: numbers}), first + columns.y.size
        yield columns


def _numbers(part: Part, given: Any) -> Array | None:
    """What was given for each row: a column of the data, or an array with a number for each of its rows."""
    if given is None:
        return None
    return part.numbers(given) if isinstance(given, str) else given[part.rows]


def _split(columns: Columns, trials: Array) -> Columns:
    """Two rows for each: y=1 with the weight of its successes, and y=0 with that of its failures."""
    counts = np.stack([columns.y, trials - columns.y], axis=1).ravel()
    weights = counts if columns.weights is None else counts * np.repeat(columns.weights, 2)
    twice = columns.take(np.repeat(np.arange(trials.size), 2))
    return twice._replace(y=np.tile([1.0, 0.0], trials.size), weights=weights)
