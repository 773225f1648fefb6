"""Intervals of draws: with equal tails ("eti"), or the shortest ("hdi", of highest density where there is one mode)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_choice, check_number

Array = NDArray[np.float64]

KINDS = ("eti", "hdi")


class Interval(NamedTuple):
    """An interval that holds a share of the draws.

    >>> Interval(0.5).names
    ('eti50_lb', 'eti50_ub')
    >>> Interval(0.5, "hdi").ends(np.array([[0.0], [1.0], [2.0], [2.5], [9.0]])).T
    array([[1. , 2.5]])
    """

    share: float = 0.94
    kind: str = "eti"

    @classmethod
    def of(cls, interval: float, kind: str) -> Interval:
        """What users ask for, checked."""
        check_number("interval", interval, above=0, below=1)
        check_choice("kind", kind, KINDS)
        return cls(float(interval), kind)

    @property
    def names(self) -> tuple[str, str]:
        """What columns with its ends are called."""
        name = f"{self.kind}{100 * self.share:g}"
        return f"{name}_lb", f"{name}_ub"

    def ends(self, draws: Array) -> Array:
        """Both ends (2, parameter), of draws (draw, parameter)."""
        if self.kind == "eti":
            tail = round((1 - self.share) / 2, 15)  # 0.03 of 0.94, in all digits
            found = np.quantile(draws, [tail, 1 - tail], axis=0)
            infinite = np.isnan(found)  # between infinite draws
            return np.where(infinite, np.inf, found) if infinite.any() else found
        held = min(int(self.share * len(draws)), len(draws) - 1)  # draws after the first that the interval holds
        draws = np.sort(draws, axis=0)
        with np.errstate(invalid="ignore"):  # between infinite draws, which are no interval
            widths = draws[held:] - draws[: len(draws) - held]
        first = np.where(np.isnan(widths), np.inf, widths).argmin(axis=0)
        each = np.arange(draws.shape[1])
        return np.stack([draws[first, each], draws[first + held, each]])
