"""Rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Concatenate

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.rows import threads
from tallbayes.rows.arrays import Arrays, Outcomes
from tallbayes.rows.door import Door, kept
from tallbayes.rows.protocol import Count, Found, Given, Measure, Split, Task
from tallbayes.rows.subsample import Subsample
from tallbayes.rows.urn import Kept, Urn

Array = NDArray[np.float64]

NOTHING: Array = np.empty((1, 0))  # what a question without parameters is given


class MemoryRows(Door):
    """Rows in memory: x (p, n) with one contiguous run a column, outcomes, and optional weights, offset and strata.

    Rows may come in groups, with an effect each: `group` names the stratum that has their numbers, in ascending order.

    >>> rows = MemoryRows(x=[[1.0, 1.0, 1.0], [0.0, 1.0, 2.0]], y=[0.0, 1.0, 1.0])
    >>> from tallbayes.families import Logit
    >>> from tallbayes.rows.tasks import LogLikelihood
    >>> rows.reduce(LogLikelihood(Logit()), [[0.0, 0.0], [0.5, 0.5]]).round(3)
    array([-2.079, -1.489])
    >>> rows.touched, rows.passes
    (6, 1)
    """

    resident = True

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        weights: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        strata: Mapping[str, ArrayLike] | None = None,
        group: str | None = None,
        groups: int = 0,
    ) -> None:
        self._set(Arrays.of(x, y, weights, offset, strata or {}, group, groups))

    @classmethod
    def of(cls, arrays: Arrays) -> MemoryRows:
        """The rows that have these arrays."""
        self = cls.__new__(cls)
        self._set(arrays)
        return self

    def _set(self, arrays: Arrays) -> None:
        Door.__init__(self)
        self.arrays = arrays

    @property
    def size(self) -> int:
        """See `Rows`."""
        return self.arrays.size

    @property
    def columns(self) -> int:
        """See `Rows`."""
        return self.arrays.columns

    @property
    def groups(self) -> int:
        """See `Rows`."""
        return self.arrays.groups

    @property
    def width(self) -> int:
        """See `Rows`."""
        return self.arrays.width

    @property
    def total_weight(self) -> float:
        """See `Rows`."""
        return self.outcomes.weight

    @property
    def outcomes(self) -> Outcomes:
        """See `Rows`."""
        return self.arrays.outcomes

    @property
    def mean_outcome(self) -> float:
        """See `Rows`."""
        return self.outcomes.total / self.outcomes.weight

    @property
    def strata(self) -> tuple[str, ...]:
        """See `Rows`."""
        return tuple(self.arrays.strata)

    def reduce_all(self, *questions: tuple[Task[Any], ArrayLike | None]) -> tuple[Any, ...]:
        """See `Rows`."""
        found, looks = [], 0
        for task, params in questions:
            given = NOTHING if params is None else self.arrays.vectors(params)
            looks += task.looks(given)
            found.append(task.answer(task.over(self.arrays, given), given, self))
        self.count(self.size * looks, int(looks > 0))
        return tuple(found)

    def aside(self, task: Task[Found]) -> Callable[[], Found]:
        """See `Rows`: one thread makes it, since others have work of their own."""
        self.count(self.size * task.looks(NOTHING), 1)
        others = MemoryRows.of(self.arrays)

        def ask() -> Found:
            with threads.using(1):
                return others.reduce(task)

        return ask

    def run(self, start: int, stop: int) -> Arrays:
        """See `RowsAtHand`."""
        return self.arrays.run(start, stop)

    def draw(self, measure: Measure, theta: Array, expected: float, seen: int, seed: int, ahead: int = 0) -> Urn:
        """See `Rows`."""
        return Urn(self, Kept(measure), theta, expected, seen, seed, ahead)

    def sample(
        self,
        size: int | Mapping[int, int],
        rng: np.random.Generator,
        by: str | None = None,
        measure: Measure | None = None,
        cases: bool = False,
    ) -> MemoryRows:
        """A fixed subsample without replacement, weighted so that its sums estimate the sums over all rows.

        Rows are included with probability proportional to their weight, times a measure if one is given, those for
        which that is largest for certain; the subsample's weights are those of the rows over these probabilities. `by`
        names a stratum column, or "outcome"; then `size` is what to take from each stratum: one number, or one per
        stratum code (a stratum not named is taken whole). With `cases`, rows with an outcome above zero are all taken
        besides.

        >>> rows = MemoryRows(x=np.ones((1, 1000)), y=np.arange(1000) % 10 == 0)
        >>> sub = rows.sample({0: 100}, np.random.default_rng(1), by="outcome")
        >>> sub.size, sub.total_weight
        (200, 1000.0)
        """
        return MemoryRows.of(self.reduce(Subsample(size, int(rng.integers(2**63)), by, measure, cases)))

    def parted(self, parts: int, split: Split) -> list[MemoryRows]:
        """See `RowsAtHand`."""
        self.count(self.size, 1)
        found = split(self.arrays, range(parts))
        return [MemoryRows.of(part.reweighted(part.weights) if part.weights.size else part) for part in found]

    def keep(
        self, make: Callable[Concatenate[Arrays, Count, Given], Found], *given: Given.args, **named: Given.kwargs
    ) -> Found:
        """See `RowsAtHand`."""
        return make(self.arrays, self.count, *given, **named)

    def without(self, columns: Sequence[int]) -> MemoryRows:
        """See `RowsAtHand`.

        >>> MemoryRows(x=[[1.0, 1.0], [0.0, 0.0]], y=[0.0, 1.0]).without([1]).columns
        1
        """
        return MemoryRows.of(replace(self.arrays, x=self.arrays.x[kept(self.columns, columns)]))
