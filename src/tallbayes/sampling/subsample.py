"""The model's own log-likelihood on a weighted subsample of the rows, drawn once before sampling.

For a move of length mu in posterior standard deviations the log-likelihood of a plain subsample of a out of n rows
errs with variance (n/a - 1) mu^2, which is large. Where y=1 is rare, nearly all information sits in the rows with
y=1, so keeping all of those (case-control) is far better.

Reference: R. D. Payne and B. K. Mallick, "Two-Stage Metropolis-Hastings for Tall Data".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.models.glm import GLM
from tallbayes.models.likelihood import Direct, Follower
from tallbayes.models.mode import AnyMode
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.tasks import Fitted, Level, Levels, LogLikelihood
from tallbayes.rows.track import Track

Array = NDArray[np.float64]


class SubsampleSurrogate:
    """The log-likelihood of a family on weighted rows."""

    def __init__(self, rows: MemoryRows, family: Any, name: str) -> None:
        self.rows, self._family, self.name = rows, family, name

    @property
    def size(self) -> int:
        """See `Surrogate`."""
        return self.rows.size

    @property
    def sizes(self) -> Array:
        """See `Surrogate`."""
        return self.rows.keep(Track, self._family).sizes

    @property
    def touched(self) -> int:
        """See `Surrogate`."""
        return self.rows.touched

    def log_likelihood(self, params: Array) -> Array:
        """See `Surrogate`."""
        return self.rows.reduce(LogLikelihood(self._family), params)

    def follow(self, by_column: bool) -> Follower:
        """See `Surrogate`."""
        return self.rows.keep(Track, self._family) if by_column else Direct(self.log_likelihood)


@dataclass(frozen=True)
class Subsample:
    """(n/a) times the log-likelihood of `size` = a rows drawn at random."""

    size: int

    def __post_init__(self) -> None:
        _check_size(self.size)

    def build(self, model: Any, mode: AnyMode | None, rng: np.random.Generator) -> SubsampleSurrogate:
        """Draw the subsample; any model with a family will do."""
        check_enough(self.size, max(model.rows.size, model.rows.total_weight), "rows")
        return SubsampleSurrogate(model.rows.sample(self.size, rng), model.family.tag, str(self))


@dataclass(frozen=True)
class CaseControl:
    """All rows with y=1, and `size` rows with y=0.

    The latter are drawn with probabilities that follow their fitted probability of y=1, and weighted accordingly: what
    a row with y=0 adds to the log-likelihood is about that probability, so each drawn row stands for an equal share of
    it. With `uniform=True` all rows with y=0 are equally likely, as in the paper.
    """

    size: int
    uniform: bool = False

    def __post_init__(self) -> None:
        _check_size(self.size)

    def build(self, model: GLM, mode: AnyMode, rng: np.random.Generator) -> SubsampleSurrogate:
        """Draw the rows with y=0."""
        levels = model.rows.reduce(Levels("outcome"))
        if 0 not in levels:
            raise ValueError("tb.CaseControl draws rows with outcome 0, and there are none; use tb.Subsample")
        check_enough(self.size, max(levels[0].rows, levels[0].weight), "rows with outcome 0")
        measure = None if self.uniform else _fitted(model, mode, levels)
        rows = model.rows.sample({0: self.size}, rng, by="outcome", measure=measure)
        return SubsampleSurrogate(rows, model.family.tag, str(self))


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
        _check_size(self.size)

    @property
    def columns(self) -> tuple[str, ...]:
        """See `columns_of` in `surrogate.py`."""
        return (self.by,)

    def build(self, model: GLM, mode: AnyMode, rng: np.random.Generator) -> SubsampleSurrogate:
        """Draw the rows of each stratum."""
        plain = self.uniform or not self.cases
        measure = None if plain else _fitted(model, mode, model.rows.reduce(Levels(self.by)))
        rows = model.rows.sample(self.size, rng, by=self.by, measure=measure, cases=self.cases)
        return SubsampleSurrogate(rows, model.family.tag, str(self))


def _fitted(model: GLM, mode: AnyMode, levels: dict[int, Level]) -> Fitted:
    """Rows by their fitted outcome; the levels of any stratum say what the mean outcome is."""
    outcome, weight = (sum(part) for part in zip(*((one.outcome, one.weight) for one in levels.values()), strict=True))
    return Fitted(model.family, mode.theta, outcome / weight)


def _check_size(size: int) -> None:
    if isinstance(size, bool) or not (isinstance(size, int | np.integer) and size > 0):
        raise ValueError(f"a subsample's size must be a positive whole number, not {size!r}")


def check_enough(size: int, available: float, what: str) -> None:
    """Refuse a subsample of more than there is."""
    if size > available:
        raise ValueError(f"the subsample asks for {size:,} {what}, but the data has only {available:,.0f}")
