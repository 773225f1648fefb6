"""What a fit with a group term expects of a row; see `results/expected.py`.

The last feature of a row is the number of its group. Of groups that were never seen it is below zero and made of the
name: at the centre they have no effect, and each draw has one from N(0, sigma^2) for all rows of such a group.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.frames import read
from tallbayes.data.new_rows import NewRows
from tallbayes.results.expected import LinearCentre, LinearDraws
from tallbayes.results.predict import linear

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GroupedCentre(LinearCentre):
    """That of a regression with groups."""

    effects: Array

    @property
    def columns(self) -> list[str]:
        """See `Centre`."""
        return [*super().columns, str(self.formula.group)]

    @property
    def width(self) -> int:
        """See `Centre`."""
        return super().width + 1

    def features(self, rows: NewRows) -> Array:
        """See `Centre`."""
        group = str(self.formula.group)
        frame = read(rows.source, [group])
        codes = self.formula.group_codes(frame).astype(float)
        unknown = np.flatnonzero(codes < 0)
        codes[unknown] = [_numbered(level) for level in frame[group].iloc[unknown]]
        return np.concatenate([super().features(rows), codes[None]])

    def mean(self, features: Array) -> Array:
        """See `Centre`."""
        width, codes = self.beta.size, features[-1].astype(np.intp)
        effects = np.where(codes < 0, 0.0, self.effects[codes.clip(0)])
        eta = linear(features[:width], self.beta[:, None], features[width] + effects)
        return self.family.mean(eta)[:, 0]


@dataclass(frozen=True, eq=False)
class GroupedDraws(LinearDraws):
    """Draws of coefficients, of effects (group, draw) and of their sd."""

    effects: Array
    sigma: Array
    seed: int

    def predictors(self, features: Array) -> Array:
        """See `LinearDraws`."""
        codes = features[-1].astype(np.intp)
        found = super().predictors(features)
        known = codes >= 0
        found[known] += self.effects[codes[known]]
        for code in np.unique(codes[~known]):
            normals = np.random.default_rng([self.seed, -int(code)]).standard_normal(self.sigma.size)
            found[codes == code] += self.sigma * normals
        return found


def _numbered(level: object) -> float:
    """A number below zero for the name of a group, which floating point holds."""
    return -1.0 - (int.from_bytes(hashlib.sha256(str(level).encode()).digest()[:6]))
