"""The rows of a model, built piece by piece; weights and outcomes are looked at on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.learned import Learned
from tallbayes.data.parts import Part
from tallbayes.data.tally import Where
from tallbayes.families import Binomial, Family, Poisson
from tallbayes.rows.building import builder
from tallbayes.rows.duplicates import Columns
from tallbayes.rows.protocol import RowsAtHand
from tallbayes.rows.room import ROOM, Room

Array = NDArray[np.float64]

WHAT = ("weights", "offset", "trials", "exposure")  # what may be given for each row


class Building:
    """Takes rows as they are in the data, and gives those of a model of some family.

    A row with k successes among m trials becomes two: y=1 with weight k and y=0 with weight m - k.
    """

    def __init__(
        self,
        family: Family,
        outcome: str,
        columns: int,
        rows: int,
        group: str | None,
        groups: int,
        room: Room = ROOM,
        file: IO[bytes] | None = None,
    ) -> None:
        most = 2 * rows if isinstance(family, Binomial) else rows
        self._builder = builder(columns, most, group, groups, room, file)
        self._check = family.checking(outcome)
        self._lightest, self._some = (np.inf, ""), True  # the smallest weight and its row; whether any is positive
        self.ones = 0  # rows with an outcome other than zero

    def add(self, columns: Columns, where: Where, trials: Array | None = None) -> None:
        """Take the next rows; a row with weight 0 says nothing, and its outcome may be anything."""
        y, weights = columns.y, columns.weights
        self.ones += int(np.count_nonzero(y))
        if weights is not None:
            self._weigh(weights, where)
        if weights is None or (weights > 0).all():
            self._check.add(y, where, trials)
        else:
            heard = np.flatnonzero(weights > 0)
            self._check.add(y[heard], lambda place: where(int(heard[place])), None if trials is None else trials[heard])
        self._builder.add(columns if trials is None else _split(columns, trials))

    def _weigh(self, weights: Array, where: Where) -> None:
        if self._lightest[0] == np.inf:
            self._some = False
        self._some = self._some or bool((weights > 0).any())
        lightest = int(weights.argmin())
        if weights[lightest] < self._lightest[0]:
            self._lightest = float(weights[lightest]), where(lightest)

    def finish(self) -> RowsAtHand:
        """The rows; raise ValueError if weights or outcomes cannot be used."""
        lightest, row = self._lightest
        if lightest < 0 or not self._some:
            raise ValueError(
                f"weights must be positive or zero, and some positive; the smallest is {lightest:g} ({row})"
            )
        self._check.finish()
        return self._builder.finish()

    def close(self) -> None:
        """Let go of what was built so far."""
        self._builder.close()


def build(
    learned: Learned, family: Family, given: Mapping[str, Any], room: Room = ROOM, file: IO[bytes] | None = None
) -> tuple[RowsAtHand, int]:
    """The rows of a formula that has been learned, in one pass over the data; and how many outcomes are not zero.

    `given` are weights, offset, trials and exposure, where there are any: a column's name or an array. Rows go to the
    `file`, if there is one.
    """
    formula = learned.formula
    sizes = len(formula.coefficients), learned.rows
    building = Building(family, formula.outcome, *sizes, formula.group, len(formula.group_levels), room, file)
    try:
        for part, x, y, added, trials, codes in learned.designs():
            weights, offset, others, exposure = (_numbers(part, given.get(what)) for what in WHAT)
            if exposure is not None:
                assert isinstance(family, Poisson)
                offset = family.log_exposure(exposure, part.where) + (0.0 if offset is None else offset)
            if added is not None:
                offset = added + (0.0 if offset is None else offset)
            building.add(Columns(x, y, weights, offset, codes), part.where, others if trials is None else trials)
        return building.finish(), building.ones
    except BaseException:
        building.close()
        raise


def _numbers(part: Part, given: Any) -> Array | None:
    """What was given for each row: a column of the data, or an array with a number for each of its rows."""
    if given is None:
        return None
    return part.numbers(given) if isinstance(given, str) else given[part.rows]


def _split(columns: Columns, trials: Array) -> Columns:
    """Two rows for each: its successes, and its failures."""
    counts = np.stack([columns.y, trials - columns.y], axis=1).ravel()
    weights = counts if columns.weights is None else counts * np.repeat(columns.weights, 2)
    twice = columns.take(np.repeat(np.arange(trials.size), 2))
    return twice._replace(y=np.tile([1.0, 0.0], trials.size), weights=weights)
