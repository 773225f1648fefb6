"""The model's own log-likelihood on a weighted subsample of the rows, drawn once before sampling.

For a move of length mu in posterior standard deviations the log-likelihood of a plain subsample of a out of n rows
errs with variance (n/a - 1) mu^2, which is large. Where y=1 is rare, nearly all information sits in the rows with
y=1, so keeping all of those (case-control) is far better.

Reference: R. D. Payne and B. K. Mallick, "Two-Stage Metropolis-Hastings for Tall Data".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_flag, check_text, check_whole
from tallbayes.models.likelihood import Follower, Likelihood
from tallbayes.models.model import AnyMode, Posterior
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.protocol import Rows, RowsAtHand
from tallbayes.rows.tasks import Level, Levels

Array = NDArray[np.float64]


class SubsampleSurrogate:
    """The log-likelihood of weighted rows."""

    def __init__(self, likelihood: Likelihood, name: str) -> None:
        self._likelihood, self.name = likelihood, name

    @property
    def rows(self) -> RowsAtHand:
        """The subsample."""
        return self._likelihood.rows

    @property
    def size(self) -> int:
        """See `Surrogate`."""
        return self.rows.size

    @property
    def sizes(self) -> Array:
        """See `Surrogate`."""
        return self._likelihood.sizes

    @property
    def touched(self) -> int:
        """See `Surrogate`."""
        return self.rows.touched

    def log_likelihood(self, params: Array) -> Array:
        """See `Surrogate`."""
        return self._likelihood.log_likelihood(params)

    def follow(self, by_column: bool) -> Follower:
        """See `Surrogate`."""
        return self._likelihood.follow(by_column)


@dataclass(frozen=True)
class Subsample:
    """(n/a) times the log-likelihood of `size` = a rows drawn at random."""

    size: int

    def __post_init__(self) -> None:
        check_whole("size", self.size)

    def build(self, model: Posterior, mode: AnyMode, rng: np.random.Generator) -> SubsampleSurrogate:
        """Draw the subsample."""
        return SubsampleSurrogate(model.on(self.draw(model.rows, rng)), str(self))

    def draw(self, rows: Rows, rng: np.random.Generator) -> MemoryRows:
        """The subsample of these rows."""
        check_enough(self.size, max(rows.size, rows.total_weight), "rows")
        return rows.sample(self.size, rng)


@dataclass(frozen=True)
class CaseControl:
    """All rows with y=1, and `size` rows with y=0.

    The latter are drawn with probabilities that follow their fitted probability of y=1, and weighted accordingly: what
    a row with y=0 adds to the log-likelihood is about that probability, so each drawn row stands for an equal share of
    it. With `uniform=True` all rows with y=0 are equally likely, as in the paper.
    """

    size: int
    uniform: bool = False
    by_outcome = True

    def __post_init__(self) -> None:
        check_whole("size", self.size)
        check_flag("uniform", self.uniform)

    def build(self, model: Posterior, mode: AnyMode, rng: np.random.Generator) -> SubsampleSurrogate:
        """Draw the rows with y=0."""
        levels = model.rows.reduce(Levels("outcome"))
        if 0 not in levels:
            raise ValueError("tb.CaseControl draws rows with outcome 0, and there are none; use tb.Subsample")
        check_enough(self.size, max(levels[0].rows, levels[0].weight), "rows with outcome 0")
        measure = None if self.uniform else model.measure(mode, _mean_outcome(levels))
        return SubsampleSurrogate(
            model.on(model.rows.sample({0: self.size}, rng, by="outcome", measure=measure)), str(self)
        )


@dataclass(frozen=True)
class Stratified:
    """`size` rows from each level of the column `by`, scaled up; smaller levels are taken whole.

    Rows with an outcome above zero, which are rare in tall data and say most, are all kept besides, unless `cases` is
    False; the others are then drawn like those of `CaseControl`, unless `uniform`. With `by` the group of a
    hierarchical model and `uniform` this is the paper's surrogate for it.
    """

    size: int
    by: str
    cases: bool = True
    uniform: bool = False

    def __post_init__(self) -> None:
        check_whole("size", self.size)
        check_text("by", self.by, "the name of a column")
        check_flag("cases", self.cases)
        check_flag("uniform", self.uniform)

    @property
    def columns(self) -> tuple[str, ...]:
        """See `columns_of` in `surrogate.py`."""
        return (self.by,)

    @property
    def by_outcome(self) -> bool:
        """Whether it looks at outcomes."""
        return self.cases

    def build(self, model: Posterior, mode: AnyMode, rng: np.random.Generator) -> SubsampleSurrogate:
        """Draw the rows of each stratum."""
        plain = self.uniform or not self.cases
        measure = None if plain else model.measure(mode, _mean_outcome(model.rows.reduce(Levels(self.by))))
        rows = model.rows.sample(self.size, rng, by=self.by, measure=measure, cases=self.cases)
        return SubsampleSurrogate(model.on(rows), str(self))


def _mean_outcome(levels: dict[int, Level]) -> float:
    """The levels of any stratum say what it is."""
    outcome, weight = (sum(part) for part in zip(*((one.outcome, one.weight) for one in levels.values()), strict=True))
    return float(outcome / weight)


def check_enough(size: int, available: float, what: str) -> None:
    """Refuse a subsample of more than there is."""
    if size > available:
        raise ValueError(f"the subsample asks for {size:,} {what}, but the data has only {available:,.0f}")
