"""Outcomes looked at piece by piece: those that a family cannot have, and whether they vary at all."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.tally import Tally, Where

Array = NDArray[np.float64]

MOST_COUNTED = 1e12  # a count k adds k log k to a log-likelihood, whose differences of .01 must be seen
SIZES = (1e-50, 1e50)  # of the largest outcome, and of the largest value of a column: their squares are summed
POSITIVE = (1e-40, 1e40)  # of outcomes that must be positive: their logarithms are where linear predictors are


class Check(Protocol):
    """Is shown all outcomes, and then refuses them if need be."""

    def add(self, y: Array, where: Where, trials: Array | None = None) -> None:
        """See the outcomes of a piece, and the number of trials behind each of them if they are counts of successes."""

    def then(self, later: Any) -> None:
        """See what another of its kind has seen in later rows."""

    def finish(self) -> None:
        """Raise ValueError if the outcomes cannot be used."""


class ZerosAndOnes:
    """Outcomes that must be 0 or 1, and both.

    >>> check = ZerosAndOnes("late")
    >>> check.add(np.array([0.0, 2.0]), lambda row: f"row {row}")
    >>> check.finish()
    Traceback (most recent call last):
    ValueError: outcome 'late' must be 0 or 1, but 1 rows are not (first at row 1: 2); recode it, for example...
    """

    def __init__(self, name: str) -> None:
        self.name, self.wrong = name, Tally()
        self.low, self.high = np.inf, -np.inf

    def add(self, y: Array, where: Where, trials: Array | None = None) -> None:
        """See `Check`."""
        wrong = (y != 0) & (y != 1)
        self.wrong.add(wrong, where, y)
        if y.size:
            self.low, self.high = min(self.low, float(y.min())), max(self.high, float(y.max()))

    def then(self, later: ZerosAndOnes) -> None:
        """See `Check`."""
        self.wrong.then(later.wrong)
        self.low, self.high = min(self.low, later.low), max(self.high, later.high)

    def finish(self) -> None:
        """See `Check`."""
        name, wrong = self.name, self.wrong
        if wrong.count:
            raise ValueError(
                f"outcome {name!r} must be 0 or 1, but {wrong.count} rows are not (first at {wrong.first}: "
                f"{wrong.value:g}); recode it, for example ({name} > 0), or choose another family"
            )
        if self.low == self.high:
            raise ValueError(
                f"outcome {name!r} is {self.low:g} in every row; a regression needs rows with 0 and rows with 1"
            )


class Counts:
    """Outcomes that must be counts, not all of them zero, and not so large that sums of them lose digits that matter.

    >>> check = Counts("clicks")
    >>> check.add(np.array([0.0, 1e15]), lambda row: f"row {row}")
    >>> check.finish()
    Traceback (most recent call last):
    ValueError: outcome 'clicks' must be counts of at most 1e+12, but 1 rows are not (first at row 1: 1e+15): ...
    """

    def __init__(self, name: str) -> None:
        self.name, self.wrong, self.some, self.large = name, Tally(), False, Tally()

    def add(self, y: Array, where: Where, trials: Array | None = None) -> None:
        """See `Check`."""
        self.wrong.add(_no_counts(y), where, y)
        self.large.add(y > MOST_COUNTED, where, y)
        self.some = self.some or bool(y.any())

    def then(self, later: Counts) -> None:
        """See `Check`."""
        self.wrong.then(later.wrong)
        self.large.then(later.large)
        self.some = self.some or later.some

    def finish(self) -> None:
        """See `Check`."""
        _refuse(self.name, self.wrong)
        if self.large.count:
            raise ValueError(
                f"outcome {self.name!r} must be counts of at most {MOST_COUNTED:g}, but {self.large.count} rows are "
                f"not (first at {self.large.first}: {self.large.value:g}): rounding hides what so large counts say; "
                "count in larger units, or choose another family"
            )
        if not self.some:
            raise ValueError(f"outcome {self.name!r} is 0 in every row; a regression needs some counts above 0")


class Numbers:
    """Outcomes that may be any number, but must vary.

    >>> check = Numbers("weight")
    >>> check.add(np.array([2.0, 2.0]), lambda row: f"row {row}")
    >>> check.finish()
    Traceback (most recent call last):
    ValueError: outcome 'weight' is 2 in every row; a regression needs outcomes that vary
    """

    def __init__(self, name: str) -> None:
        self.name, self.low, self.high = name, np.inf, -np.inf

    def add(self, y: Array, where: Where, trials: Array | None = None) -> None:
        """See `Check`."""
        if y.size:
            self.low, self.high = min(self.low, float(y.min())), max(self.high, float(y.max()))

    def then(self, later: Numbers) -> None:
        """See `Check`."""
        self.low, self.high = min(self.low, later.low), max(self.high, later.high)

    def finish(self) -> None:
        """See `Check`."""
        if self.low == self.high:
            raise ValueError(
                f"outcome {self.name!r} is {self.low:g} in every row; a regression needs outcomes that vary"
            )
        largest = max(self.high, -self.low)
        if not SIZES[0] <= largest <= SIZES[1]:
            raise ValueError(
                f"outcome {self.name!r} reaches {largest:.3g} in size, but must reach between {SIZES[0]:g} and "
                f"{SIZES[1]:g}: its squares are summed; give it in other units"
            )


class Anything(Numbers):
    """Numbers of any kind, which need not vary."""

    def finish(self) -> None:
        """Nothing is wrong with them."""


class Positive(Numbers):
    """Outcomes that must be above zero."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.wrong = Tally()

    def add(self, y: Array, where: Where, trials: Array | None = None) -> None:
        """See `Check`."""
        super().add(y, where)
        self.wrong.add(~(y > 0), where, y)

    def then(self, later: Numbers) -> None:
        """See `Check`."""
        assert isinstance(later, Positive)
        super().then(later)
        self.wrong.then(later.wrong)

    def finish(self) -> None:
        """See `Check`."""
        if self.wrong.count:
            raise ValueError(
                f"outcome {self.name!r} must be positive, but {self.wrong.count} rows are not (first at "
                f"{self.wrong.first}: {self.wrong.value:g})"
            )
        if not POSITIVE[0] <= self.low <= self.high <= POSITIVE[1]:
            raise ValueError(
                f"outcome {self.name!r} goes from {self.low:.3g} to {self.high:.3g}, but must lie between "
                f"{POSITIVE[0]:g} and {POSITIVE[1]:g}; give it in other units"
            )
        super().finish()


class Successes:
    """Numbers of successes among trials: some of the trials, and not all."""

    def __init__(self, name: str, trials: str) -> None:
        self.name, self.trials = name, trials
        self.wrong, self.wrong_trials, self.too_many = Tally(), Tally(), Tally()
        self.had = float("nan")  # trials, where there were too many successes
        self.some, self.only = False, True

    def add(self, y: Array, where: Where, trials: Array | None = None) -> None:
        """See `Check`."""
        assert trials is not None
        self.wrong.add(_no_counts(y), where, y)
        self.wrong_trials.add(_no_counts(trials), where, trials)
        beyond = y > trials
        if not self.too_many.count and beyond.any():
            self.had = float(trials[beyond.argmax()])
        self.too_many.add(beyond, where, y)
        self.some, self.only = self.some or bool(y.any()), self.only and bool((y == trials).all())

    def then(self, later: Successes) -> None:
        """See `Check`."""
        if not self.too_many.count:
            self.had = later.had
        for own, other in (
            (self.wrong, later.wrong),
            (self.wrong_trials, later.wrong_trials),
            (self.too_many, later.too_many),
        ):
            own.then(other)
        self.some, self.only = self.some or later.some, self.only and later.only

    def finish(self) -> None:
        """See `Check`."""
        _refuse(self.name, self.wrong)
        _refuse(self.trials, self.wrong_trials)
        if self.too_many.count:
            raise ValueError(
                f"outcome {self.name!r} counts {self.too_many.value:g} successes in {self.too_many.first}, which had "
                f"only {self.had:g} trials ({self.trials!r})"
            )
        if not self.some or self.only:
            some = "only" if self.some else "no"
            raise ValueError(f"outcome {self.name!r} has {some} successes; a regression needs both")


def _no_counts(y: Array) -> NDArray[np.bool_]:
    return np.asarray((y < 0) | (y != np.floor(y)))


def _refuse(name: str, wrong: Tally) -> None:
    if wrong.count:
        raise ValueError(
            f"{name!r} must be counts (0, 1, 2, ...), but {wrong.count} rows are not "
            f"(first at {wrong.first}: {wrong.value:g})"
        )
