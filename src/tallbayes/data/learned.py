"""The design of all rows, built piece by piece from what a first pass learned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data import outcome as outcomes
from tallbayes.data import plain
from tallbayes.data.design import materialise, unseen
from tallbayes.data.parts import Part, Parts, Places, changed
from tallbayes.data.tally import Tally

if TYPE_CHECKING:
    import pandas as pd

    from tallbayes.data.formula import Formula
    from tallbayes.data.parsed import Extra

Array = NDArray[np.float64]


class Designed(NamedTuple):
    """The design x (p, m) of the rows of a part, their outcomes, and what else a formula says of each of them."""

    part: Part
    x: Array
    y: Array
    added: Array | None  # to the linear predictor, by offset() terms
    trials: Array | None
    codes: dict[str, NDArray[Any]]  # by strata and group, the number of each row's level


@dataclass(frozen=True, eq=False)
class Learned:
    """A formula that has been learned, and the data to build its design from."""

    formula: Formula
    parts: Parts
    structure: Sequence[Any]  # of the design, as formulaic tells it
    left: dict[str, Any]  # what the left side remembers
    trials: dict[str, Any]
    codes: tuple[str, ...]  # columns of which the number of each row's level is asked for
    numbers: Mapping[str, NDArray[Any]]  # the values of those that are no text
    coded: str | None  # the outcome's column, if its values are taken as 0 and 1
    left_out: list[str]

    @property
    def rows(self) -> int:
        """The number of rows, without those left out."""
        return self.parts.size

    def arrays(self) -> tuple[Array, Array]:
        """The whole design X (p, n) and the outcomes."""
        X, y, end = np.empty((len(self.formula.coefficients), self.rows)), np.empty(self.rows), 0
        for designed in self.designs():
            begin, end = end, end + designed.y.size
            X[:, begin:end], y[begin:end] = designed.x, designed.y
        return X, y

    def designs(self, watched: Finite | None = None) -> Iterator[Designed]:
        """The design part by part; after the last, ValueError if there was a value that is not finite.

        Unless somebody else has `watched`, and will refuse it.
        """
        parsed, own = self.formula.parsed, watched is None
        watched = watched or Finite()
        plan = plain.plan(self.structure, self.parts.kinds)
        places = {name: Places(name, values) for name, values in self.numbers.items()}
        for part in self.parts:
            y = self._outcomes(part)
            watched.add(parsed.outcome, y, part)
            x = self._design(part, plan)
            for name, values, entry in zip(self.formula.coefficients, x, plan.columns, strict=True):
                if entry is None or entry.level is None:  # others are 0 and 1
                    watched.add(name, values, part)
            trials = self._extra(parsed.trials, part, self.trials, watched)
            added = self._extra(parsed.offset, part, self.formula.offset_transforms, watched)
            numbered = {
                name: places[name](part.columns[name], part.where) if name in places else part.columns[name]
                for name in self.codes
            }
            yield Designed(part, x, y, added, trials, numbered)
        if own:
            watched.refuse(self.rows)

    def _outcomes(self, part: Part) -> Array:
        if self.coded is not None:
            return outcomes.coded(part.columns[self.coded], self.parts.kinds[self.coded], self.formula.event)
        y: Array = materialise(self.formula.parsed.left, part.frame, self.left, {}).array[0]
        return y

    def _design(self, part: Part, plan: plain.Plan) -> Array:
        x = plain.fill(plan.columns, part.columns, part.size)
        if not plan.rest:
            return x

        def refuse(what: str, values: pd.Series[Any], known: Sequence[Any]) -> None:
            if (found := unseen(values, known)) is None:
                return
            shown, first = found
            if "levels=" in what:
                raise ValueError(
                    f"levels=... leaves out levels: {what} also has {{{shown}}} (first at {part.where(first)})"
                )
            changed(f"{what} is {shown} at {part.where(first)}, a value that it did not have before")

        formula = self.formula
        design = materialise(
            formula.parsed.right, part.frame, formula.transforms, formula.categories, refuse, plan.rest
        )
        x[[j for j, entry in enumerate(plan.columns) if entry is None]] = design.array
        return x

    def _extra(self, extra: Extra | None, part: Part, transforms: dict[str, Any], watched: Finite) -> Array | None:
        """What an offset, or the number of trials, is in each row."""
        if extra is None:
            return None
        design = materialise(extra.side, part.frame, transforms, {})
        watched.add(design.names[0], design.array[0], part)
        values: Array = design.array[0]
        return values


class Finite:
    """Looks out for values that are not finite."""

    def __init__(self) -> None:
        self.tallies = dict[str, Tally]()

    def add(self, name: str, values: Array, part: Part) -> None:
        """See the values of a part."""
        tally = self.tallies.setdefault(name, Tally())
        if not (finite := np.isfinite(values)).all():
            tally.add(~finite, part.where, values)

    def then(self, later: Finite) -> None:
        """See what was seen in later rows."""
        for name, tally in later.tallies.items():
            self.tallies.setdefault(name, Tally()).then(tally)

    def refuse(self, rows: int) -> None:
        """Raise ValueError if there was one among so many rows."""
        for name, tally in self.tallies.items():
            if tally.count:
                raise ValueError(
                    f"{name!r} is not finite in {tally.count} of {rows} rows (first at {tally.first}: "
                    f"{tally.value}); change the term or drop those rows"
                )
