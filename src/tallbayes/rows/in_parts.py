"""Rows that are looked at part by part: chunks of a store, or what the workers of an engine hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.data.once import once
from tallbayes.rows.arrays import Outcomes
from tallbayes.rows.door import Door
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.passes import in_order
from tallbayes.rows.protocol import Measure, Task
from tallbayes.rows.store import Fields
from tallbayes.rows.subsample import Subsample
from tallbayes.rows.tasks import OutcomeSums, Parts
from tallbayes.rows.urn import Urn

Array = NDArray[np.float64]


class InParts(Door):
    """What such rows have in common: each question is one pass, and what the parts say is joined in their order."""

    resident = False

    @property
    def size(self) -> int:
        """See `Rows`."""
        raise NotImplementedError

    @property
    def fields(self) -> Fields:
        """Which columns they have."""
        raise NotImplementedError

    @property
    def totals(self) -> Array:
        """Sums of weights and of weighted outcomes, by blocks."""
        raise NotImplementedError

    def parts(self, *questions: tuple[Task[Any], ArrayLike | None]) -> list[tuple[Task[Any], Array, Parts]]:
        """What all blocks say to each task, with its parameters, in their order: one pass."""
        raise NotImplementedError

    @property
    def columns(self) -> int:
        """See `Rows`."""
        return len(self.fields.x)

    @property
    def groups(self) -> int:
        """See `Rows`."""
        return self.fields.groups

    @property
    def width(self) -> int:
        """See `Rows`."""
        return self.columns + (self.groups + 1 if self.groups else 0)

    @property
    def strata(self) -> tuple[str, ...]:
        """See `Rows`."""
        return tuple(self.fields.strata)

    @property
    def total_weight(self) -> float:
        """See `Rows`."""
        return float(in_order(self.totals)[0])

    @property
    def mean_outcome(self) -> float:
        """See `Rows`."""
        weight, total = in_order(self.totals).tolist()
        return float(total / weight)

    @once
    def outcomes(self) -> Outcomes:
        """See `Rows`."""
        ((task, params, parts),) = self.parts((OutcomeSums(), None))
        return cast(Outcomes, task.answer(parts, params, self))

    def reduce_all(self, *questions: tuple[Task[Any], ArrayLike | None]) -> tuple[Any, ...]:
        """See `Rows`; the outcomes' part of the log-likelihood, which most tasks need, comes with the first pass."""
        if "outcomes" not in vars(self):
            (own, params, parts), *asked = self.parts((OutcomeSums(), None), *questions)
            self.outcomes = own.answer(parts, params, self)
        else:
            asked = self.parts(*questions)
        return tuple(task.answer(parts, params, self) for task, params, parts in asked)

    def draw(self, measure: Measure, theta: Array, expected: float, seen: int, seed: int, ahead: int = 0) -> Urn:
        """See `Rows`."""
        return Urn(self, measure, theta, expected, seen, seed, ahead)

    def sample(
        self,
        size: int | Mapping[int, int],
        rng: np.random.Generator,
        by: str | None = None,
        measure: Measure | None = None,
        cases: bool = False,
    ) -> MemoryRows:
        """See `Rows`."""
        return MemoryRows.of(self.reduce(Subsample(size, int(rng.integers(2**63)), by, measure, cases)))
