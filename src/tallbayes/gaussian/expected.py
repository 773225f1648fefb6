"""Draws of a Gaussian regression, which know the errors' standard deviation; see `results/expected.py`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallbayes.results.expected import Draws

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GaussianDraws:
    """Draws of what is expected, and of the sd (draw,)."""

    expected: Draws
    sd: Array

    @property
    def chains(self) -> int:
        """See `Draws`."""
        return self.expected.chains

    @property
    def size(self) -> int:
        """See `Draws`."""
        return self.expected.size

    def means(self, features: Array) -> Array:
        """See `Draws`."""
        return self.expected.means(features)

    def outcomes(self, features: Array, trials: Array | None, rng: np.random.Generator) -> Array:
        """See `Draws`."""
        return rng.normal(self.means(features), self.sd)
