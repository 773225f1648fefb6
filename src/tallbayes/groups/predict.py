"""Group effects of new rows.

The linear predictor of a row is x'beta + offset + theta_g. A group that the model was fitted to has draws of its
theta_g. Of any other all that is known is theta_g ~ N(0, sigma^2), so it gets one such effect for each draw of sigma.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.formula import Formula
from tallbayes.data.frames import read

Array = NDArray[np.float64]

REMEMBERED = 2**22  # effects of new groups: 32 MB of them


class NewGroups:
    """Effects of groups that a fit has not seen, from draws `sigma` (draw,); those asked for last are remembered."""

    def __init__(self, sigma: Array, seed: int) -> None:
        self.effects = lru_cache(max(1, REMEMBERED // sigma.size))(
            lambda level: sigma * _normals(level, seed, sigma.size)
        )


class GroupEffects:
    """Draws of the group effect of each new row, made when asked for: all at once they may not fit into memory.

    `theta` (draw, group) are posterior draws.
    """

    def __init__(self, formula: Formula, theta: Array, new: NewGroups, rows: Any) -> None:
        import pandas as pd

        frame = read(rows, [str(formula.group)])
        self.theta, self.new = theta, new
        self.codes = formula.group_codes(frame)  # those beyond the groups of the fit count the new ones
        unknown = self.codes < 0
        places, levels = pd.factorize(frame.loc[unknown, str(formula.group)])
        self.codes[unknown] = theta.shape[1] + places
        self.new_levels: list[Any] = levels.tolist()

    def order(self, rows: int) -> NDArray[np.intp]:
        """Rows sorted by group, so that a slice of them has few groups."""
        return np.argsort(self.codes, kind="stable")

    def of(self, rows: NDArray[np.intp]) -> Array:
        """Effects (row, draw) of some rows."""
        groups, place = np.unique(self.codes[rows], return_inverse=True)
        known = groups < self.theta.shape[1]
        effects = np.empty((len(groups), len(self.theta)))
        effects[known] = self.theta.T[groups[known]]
        for i in np.flatnonzero(~known):
            effects[i] = self.new.effects(self.new_levels[groups[i] - self.theta.shape[1]])
        return effects[place]


def _normals(level: Any, seed: int, count: int) -> Array:
    """Standard normals that depend on the seed and the level alone, not on what other rows there are."""
    text = level if isinstance(level, str) else str(int(level)) if level % 1 == 0 else repr(level)  # 3 is 3.0
    entropy = int.from_bytes(hashlib.sha256(text.encode()).digest())
    return np.random.default_rng([seed, entropy]).standard_normal(count)
