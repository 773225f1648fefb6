"""What a fit expects of a row, at one point of the posterior and for many of its draws.

`Centre` is that point: it can travel to workers, and turns rows into features, the few numbers of each row by which it
is known what any draw expects there. So a pass over all rows needs the centre only, and draws are for features that are
kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.cleaning import Cleaning
from tallbayes.data.formula import Formula
from tallbayes.data.new_rows import NewRows
from tallbayes.data.per_row import as_numbers
from tallbayes.families import Family
from tallbayes.results.predict import Offsets, linear

Array = NDArray[np.float64]


class Centre(Protocol):
    """One point of the posterior."""

    @property
    def columns(self) -> Sequence[str]:
        """Those that rows must have."""

    @property
    def clean(self) -> Cleaning:
        """How columns of rows become numbers, text or dates."""

    @property
    def width(self) -> int:
        """How many features there are."""

    def features(self, rows: NewRows) -> Array:
        """What is needed of each row (feature, row)."""

    def mean(self, features: Array) -> Array:
        """The expected outcome of rows with these features."""

    @property
    def besides(self) -> Sequence[str]:
        """Columns that rows must have besides, if outcomes are drawn."""

    def trials(self, rows: NewRows) -> Array | None:
        """How many trials there are in each row, if outcomes are successes."""


class Draws(Protocol):
    """Some draws of the posterior, so many of each chain."""

    @property
    def chains(self) -> int:
        """How many chains they are of, one after the other."""

    @property
    def size(self) -> int:
        """How many there are."""

    def means(self, features: Array) -> Array:
        """The expected outcomes (row, draw) of rows with these features."""

    def outcomes(self, features: Array, trials: Array | None, rng: np.random.Generator) -> Array:
        """New outcomes (row, draw) of rows with these features."""


@dataclass(frozen=True, eq=False)
class LinearCentre:
    """That of a regression: features are the columns of the design, and after them what is added to x'beta."""

    written: str  # the formula
    family: Family
    beta: Array
    offset: float | None  # what the caller has given
    offset_column: str | None
    has_offset: bool

    @property
    def formula(self) -> Formula:
        """The formula."""
        return read(self.written)

    @property
    def columns(self) -> list[str]:
        """See `Centre`."""
        parsed = self.formula.parsed
        added = () if parsed.offset is None else parsed.offset.columns
        return [*parsed.predictors, *added, *self._offsets.columns]

    @property
    def clean(self) -> Cleaning:
        """See `Centre`."""
        return self.formula.clean_raw

    @property
    def width(self) -> int:
        """See `Centre`."""
        return self.beta.size + 1

    @property
    def _offsets(self) -> Offsets:
        return Offsets(self.offset, self.offset_column, self.has_offset, self.family)

    def features(self, rows: NewRows) -> Array:
        """See `Centre`."""
        X = self.formula.apply(rows.source, rows.where)
        found = np.empty((len(X) + 1, rows.size))
        found[:-1] = X
        found[-1] = self._offsets.of(rows) + self.formula.offset(rows.source, rows.where)
        return found

    def mean(self, features: Array) -> Array:
        """See `Centre`."""
        width = self.beta.size
        eta = linear(features[:width], self.beta[:, None], features[width])
        return self.family.mean(eta)[:, 0]

    @property
    def besides(self) -> list[str]:
        """See `Centre`."""
        written, named = self.formula.parsed.trials, getattr(self.family, "trials", None)
        return list(written.columns) if written is not None else [named] if named else []

    def trials(self, rows: NewRows) -> Array | None:
        """See `Centre`."""
        if not self.besides:
            return None
        found = self.formula.trials(rows.source, rows.where)
        if found is None:
            found = as_numbers("trials", rows.source.load(self.besides)[self.besides[0]])
        if (wrong := ~((found >= 0) & (found % 1 == 0))).any():
            first = int(wrong.argmax())
            raise ValueError(f"trials must be whole numbers from 0, but are {found[first]:g} in {rows.where(first)}")
        return found


@dataclass(frozen=True, eq=False)
class LinearDraws:
    """Draws of coefficients (draw, column), so many of each chain."""

    beta: Array
    family: Family
    chains: int

    @property
    def size(self) -> int:
        """See `Draws`."""
        return len(self.beta)

    def means(self, features: Array) -> Array:
        """See `Draws`."""
        return self.family.mean(self.predictors(features))

    def outcomes(self, features: Array, trials: Array | None, rng: np.random.Generator) -> Array:
        """See `Draws`."""
        eta = self.predictors(features)
        return self.family.simulate(rng, eta) if trials is None else self.family.simulate(rng, eta, trials[:, None])

    def predictors(self, features: Array) -> Array:
        """Linear predictors (row, draw)."""
        width = self.beta.shape[1]
        return linear(features[:width], np.ascontiguousarray(self.beta.T), features[width])


@lru_cache(8)
def read(written: str) -> Formula:
    """The formula that was written as JSON, read once."""
    return Formula.from_json(written)


def posterior_mean(draws: Array) -> Array:
    """The mean over all draws (chain, draw, parameter), with the same bits however they lie in memory."""
    return np.asarray(np.ascontiguousarray(draws).mean(axis=(0, 1)))
