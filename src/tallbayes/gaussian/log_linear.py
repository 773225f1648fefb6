"""A law on the line whose log density is linear between points, and falls linearly beyond the last of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.once import once

Array = NDArray[np.float64]

LEAST_SLOPE = 0.2  # of the tails
SAME = 1e-9  # a difference of log densities below which they are taken for equal


@dataclass(frozen=True)
class LogLinear:
    """Log densities at ascending points, up to a constant; tails fall half as fast as the pieces next to them.

    >>> law = LogLinear(np.array([0.0, 1.0]), np.array([0.0, 0.0]))
    >>> law.inverse(np.array([0.5]))
    array([0.5])
    """

    points: Array
    heights: Array

    @once
    def _slopes(self) -> tuple[float, float]:
        """Of the tails, in their sizes."""
        rises = np.diff(self.heights) / np.diff(self.points)
        return max(LEAST_SLOPE, 0.5 * abs(float(rises[0]))), max(LEAST_SLOPE, 0.5 * abs(float(rises[-1])))

    @once
    def _below(self) -> Array:
        """Probability below each point, after 0, with 1 at the end."""
        left, right = self._slopes
        density, rise = np.exp(self.heights - self.heights.max()), np.diff(self.heights)
        flat = np.abs(rise) < SAME
        pieces = density[:-1] * np.diff(self.points) * np.where(flat, 1.0, np.expm1(rise) / np.where(flat, 1.0, rise))
        below = np.cumsum([0.0, density[0] / left, *pieces, density[-1] / right])
        return np.asarray(below / below[-1])

    def inverse(self, probability: Array) -> Array:
        """Where each probability lies below; of uniform ones, draws."""
        below, (left, right) = self._below, self._slopes
        piece = np.clip(np.searchsorted(below, probability, side="right") - 1, 0, below.size - 2)
        share = (probability - below[piece]) / (below[piece + 1] - below[piece])
        inner = np.clip(piece - 1, 0, self.points.size - 2)
        start, rise = self.points[inner], np.diff(self.heights)[inner]
        flat = np.abs(rise) < SAME
        along = np.where(flat, share, np.log1p(share * np.expm1(rise)) / np.where(flat, 1.0, rise))
        found = start + along * np.diff(self.points)[inner]
        with np.errstate(divide="ignore"):
            found = np.where(piece == 0, self.points[0] + np.log(share) / left, found)
            return np.where(piece == below.size - 2, self.points[-1] - np.log1p(-share) / right, found)

    def log_density(self, at: Array) -> Array:
        """Up to a constant."""
        left, right = self._slopes
        inside = np.interp(at, self.points, self.heights)
        beyond = left * np.minimum(at - self.points[0], 0.0) - right * np.maximum(at - self.points[-1], 0.0)
        return np.asarray(inside + beyond)
