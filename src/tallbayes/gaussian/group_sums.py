"""The posterior of a Gaussian regression with group effects, with coefficients and effects integrated out.

Rows are expanded at coefficients b. Of each group d is the total weight, a (p,) the mean of the columns and f that of
the residuals; A, g and R are the sums of squares and products of columns and residuals less these means, "within"
groups. With effects N(0, r s^2), where s is the standard deviation of the errors and r a ratio of variances, the mean
of a group counts k = d / (1 + r d) times, and the rows are known by four functions of r alone,

    S = sum k aa',          m = sum k a f,          q = sum k f^2,          l = sum log(1 + r d).

Given s and r the coefficients less b are Normal with precision Q = (A + S) / s^2 + P and Q times mean
h = (g + m) / s^2 + v, where P and v are precision and slope of the prior at b. So

    log p(y | s, r) = -n log s - (R + q) / (2 s^2) - l / 2 + (h'Q^-1 h - log|Q|) / 2.

The four are sums over groups of functions of u = log r that are analytic where |Im u| < pi. On a panel of length 2
their interpolation at 20 Chebyshev points errs by less than rounding does, so that a draw costs nothing that grows with
the number of groups, but for the effects themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.once import once
from tallbayes.groups.arrow import Expansion

Array = NDArray[np.float64]

PANEL = 2.0  # length of a panel of log r
NODES = 20  # Chebyshev points of a panel
NOTHING = 1e-12  # share of a sum of squares below which what is left of it is rounding
_ANGLES = (np.arange(NODES) + 0.5) * np.pi / NODES
_POINTS = 0.5 * PANEL * np.cos(_ANGLES)  # from the middle of the panel
_WEIGHTS = np.where(np.arange(NODES) % 2, -1.0, 1.0) * np.sin(_ANGLES)  # barycentric


class Reduced(NamedTuple):
    """What the rows are, for each of several ratios of variances."""

    gram: Array  # (several, p, p) S
    slope: Array  # (several, p) m
    square: Array  # (several,) q
    log_spread: Array  # (several,) l


class Within(NamedTuple):
    """Sums of squares and products less the means of groups."""

    gram: Array  # (p, p) A
    slope: Array  # (p,) g
    square: float  # R


@dataclass(frozen=True, eq=False)
class GroupSums:
    """All that rows in groups say, and panels of their functions of log r, made when they are first needed."""

    weight: float  # of all rows
    at: Expansion

    @once
    def means(self) -> tuple[Array, Array]:
        """Of each group, those of columns (k, p) and of residuals (k,)."""
        weight = np.where(self.at.effect_curvature > 0, self.at.effect_curvature, 1.0)
        return self.at.mixed / weight[:, None], self.at.effect_slope / weight + self.at.effects

    @once
    def within(self) -> Within:
        """What is left of the sums when those of the groups' means are taken out."""
        at, (columns, residuals) = self.at, self.means
        away = residuals - at.effects
        gram, slope = at.curvature - at.mixed.T @ columns, at.slope - at.mixed.T @ away
        square = -2 * at.value - float(at.effect_slope @ away)
        # A column that is the same in all rows of each group has nothing left but rounding errors.
        scale = np.sqrt(np.diag(at.curvature))
        values, vectors = np.linalg.eigh(gram / np.outer(scale, scale))
        kept = vectors[:, values > NOTHING]
        gram = np.outer(scale, scale) * ((kept * values[values > NOTHING]) @ kept.T)
        return Within(gram, scale * (kept @ (kept.T @ (slope / scale))), max(square, 0.0))

    @property
    def residual(self) -> float:
        """The sum of squares that is left within groups by coefficients which fit there."""
        within = self.within
        return max(0.0, within.square - float(_solved(within.gram, within.slope) @ within.slope))

    def nearby(self) -> Array:
        """Coefficients and effects from where few digits are lost: where each group tells half of its effect."""
        columns, residuals = self.means
        found = self.reduced(np.array([-np.log(self.at.effect_curvature.mean())]))
        beta = self.at.beta + _solved(self.within.gram + found.gram[0], self.within.slope + found.slope[0])
        return np.concatenate([beta, residuals - columns @ (beta - self.at.beta)])

    @once
    def _panels(self) -> dict[int, Array]:
        return {}

    @once
    def _columns(self) -> Array:
        """Sums of the columns by group (p, k), each column in one run."""
        return np.ascontiguousarray(self.at.mixed.T)

    def times(self, beta: Array) -> Array:
        """Sums over the rows of each group of columns times coefficients; no product of matrices, for its bits."""
        found = np.zeros(self._columns.shape[1])
        for column, one in zip(self._columns, beta, strict=True):
            found += column * one
        return found

    def exactly(self, u: float) -> Array:
        """S, m, q and l at one log r, in a row."""
        (columns, residuals), weight = self.means, self.at.effect_curvature
        count = weight / (1 + np.exp(u) * weight)
        gram, slope = (columns * count[:, None]).T @ columns, (count * residuals) @ columns
        square, spread = (count * residuals**2).sum(), np.log1p(np.exp(u) * weight).sum()
        return np.concatenate([gram.ravel(), slope, [square, spread]])

    def _panel(self, number: int) -> Array:
        if number not in self._panels:
            middle = (number + 0.5) * PANEL
            self._panels[number] = np.array([self.exactly(middle + point) for point in _POINTS])
        return self._panels[number]

    def scattered(self, u: Array) -> Reduced:
        """S, m, q and l at several log r that are far apart."""
        return self._parts(np.array([self.exactly(one) for one in u]))

    def _parts(self, found: Array) -> Reduced:
        p = self.at.beta.size
        return Reduced(found[:, : p * p].reshape(-1, p, p), found[:, p * p : -2], found[:, -2], found[:, -1])

    def reduced(self, u: Array) -> Reduced:
        """S, m, q and l at several log r, from panels; the bits of one do not depend on the others."""
        numbers = np.floor(u / PANEL)
        names, place = np.unique(numbers, return_inverse=True)
        panels = np.array([self._panel(int(name)) for name in names])
        away = (u - (numbers + 0.5) * PANEL)[:, None] - _POINTS
        hit = away == 0
        weights = np.where(hit.any(1)[:, None], hit, _WEIGHTS / np.where(hit, 1.0, away))
        found, total = np.zeros((u.size, panels.shape[2])), np.zeros(u.size)
        for node in range(NODES):  # not a product of matrices, whose sums depend on their shape
            found += weights[:, node, None] * panels[place, node]
            total += weights[:, node]
        return self._parts(found / total[:, None])


def _solved(gram: Array, slope: Array) -> Array:
    """Least squares, whatever the units; what is not known is zero."""
    scale = 1 / np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
    return np.asarray(scale * np.linalg.lstsq(gram * np.outer(scale, scale), scale * slope, rcond=NOTHING)[0])


class Heights(NamedTuple):
    """log p(y | s, r) at several points, and the Normal law of the coefficients there."""

    value: Array  # (several,)
    root: Array  # (several, p, p) Cholesky factor of the precision Q
    mean: Array  # (several, p) less b


@dataclass(frozen=True)
class GroupsGiven:
    """The posterior given Normal priors of the coefficients, by their slope and precision at b."""

    sums: GroupSums
    slope: Array  # (p,) v
    precision: Array  # (p, p) P

    def heights(self, log_sd: Array, u: Array) -> Heights:
        """log p(y | s, r) for each log s and log r, up to a constant; the bits of one do not depend on the others."""
        return self.at(log_sd, self.sums.reduced(u))

    def at(self, log_sd: Array, found: Reduced) -> Heights:
        """The same, where the functions of r are known."""
        within = self.sums.within
        variance = np.exp(2 * log_sd)
        full = (within.gram + found.gram) / variance[:, None, None] + self.precision
        right = (within.slope + found.slope) / variance[:, None] + self.slope
        scale = 1 / np.sqrt(np.diagonal(full, axis1=1, axis2=2))
        root = np.linalg.cholesky(full * (scale[:, :, None] * scale[:, None, :])) / scale[:, :, None]
        white = np.linalg.solve(root, right[..., None])[..., 0]
        mean = np.linalg.solve(root.swapaxes(1, 2), white[..., None])[..., 0]
        value = -0.5 * ((within.square + found.square) / variance + found.log_spread) - self.sums.weight * log_sd
        value += 0.5 * (white * white).sum(1) - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1)
        return Heights(value, root, mean)

    def effects(self, log_sd: float, u: float, beta: Array, noise: Array) -> Array:
        """A draw of the effects given all others, from standard Normal noise (k,)."""
        at, ratio = self.sums.at, np.exp(u)
        spread = 1 + ratio * at.effect_curvature
        left = at.effect_slope - self.sums.times(beta - at.beta)
        mean = at.effects + (ratio * left - at.effects) / spread
        return np.asarray(mean + np.exp(log_sd) * np.sqrt(ratio / spread) * noise)
