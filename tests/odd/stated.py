"""A prior as `fit.prior` states it, in words."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]

WORDS = re.compile(r"(\w+)\((.*)\)( at the columns' means)?")


class Stated(NamedTuple):
    """A density of one parameter, or of the intercept where columns are at their means."""

    kind: str
    numbers: tuple[float, ...]
    at_means: bool = False

    @classmethod
    def read(cls, text: str) -> Stated:
        """The density that a line states: "Normal(0, 1,234)" has a comma in its sd."""
        found = WORDS.fullmatch(text)
        if found is None:
            raise ValueError(f"no prior is known by the words {text!r}")
        parts = found[2].replace(", ", ";").replace(",", "").split(";")
        return cls(found[1], tuple(float(part.partition("=")[2] or part) for part in parts), found[3] is not None)

    def log_density(self, at: Array) -> Array:
        if self.kind == "Normal":
            return stats.norm.logpdf(at, *self.numbers)
        if self.kind == "StudentT":
            return stats.t.logpdf(at, *self.numbers)
        if self.kind == "HalfNormal":
            return stats.halfnorm.logpdf(at, 0, self.numbers[0])
        if self.kind == "HalfCauchy":
            return stats.halfcauchy.logpdf(at, 0, self.numbers[0])
        if self.kind == "InverseSquare":
            return np.where(at > self.numbers[0], -2 * np.log(at), -np.inf)
        raise ValueError(f"no prior is known by the name {self.kind!r}")

    def slope(self, at: float) -> tuple[float, float]:
        """The slope of the log density, and the precision of a Normal with that slope."""
        *df, mean, scale = np.array((0.0, *self.numbers) if self.kind == "HalfNormal" else self.numbers)
        z = (at - mean) / scale
        precision = (1.0 if not df else (df[0] + 1) / (df[0] + z * z)) / scale
        return -precision * z, precision / scale
