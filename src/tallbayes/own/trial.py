"""A user's functions, tried on some rows before they are used."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tallbayes.own.function import RowFunction
from tallbayes.rows.arrays import Arrays

Array = NDArray[np.float64]

STEP = 1e-3  # of differences
DIFFERS = 1e-4  # share by which given derivatives may differ from differences


def try_derivatives(function: RowFunction, x: Array, some: Arrays) -> None:
    """Hold derivatives against differences: first ones against those of values, second ones against those of first."""
    found, width, labels = function.sums(x, some, 0, some.size), x.size, function.shapes.labels

    def total(at: Array) -> float:
        return float((some.own * function.values(at, some, 0, some.size)).sum())

    def slope(at: Array) -> Array:
        return function.sums(at, some, 0, some.size).gradient

    bends = np.abs(np.diag(found.curvature))
    usual = np.where(bends > 0, 1 / np.sqrt(np.where(bends > 0, bends, 1.0)), 1.0)  # how far these rows can tell
    step = STEP * np.where(x == 0, usual, np.minimum(usual, np.abs(x)))
    for j in range(width):
        away = np.where(np.arange(width) == j, step, 0.0)
        rounding = 1e-15 * (1 + abs(found.value)) * some.size**0.5 / step[j]
        by_difference = (total(x + away) - total(x - away)) / (2 * step[j])
        size = abs(found.gradient[j]) + abs(by_difference) + 1 / usual[j]
        if abs(by_difference - found.gradient[j]) > DIFFERS * size + 100 * rounding:
            raise ValueError(
                f"derivatives give {found.gradient[j]:.6g} as the slope along {labels[j]} at the start, summed "
                f"over {some.size:,} rows, but differences give {by_difference:.6g}"
            )
    for j in range(width):
        away = np.where(np.arange(width) == j, step, 0.0)
        bend = -(slope(x + away) - slope(x - away)) / (2 * step[j])
        sizes = np.sqrt(bends * bends[j]) + np.abs(found.curvature[j]) + np.abs(bend)
        noise = 1e-12 * (1 + np.abs(found.gradient)) / step[j]
        off = np.abs(bend - found.curvature[j]) > 10 * DIFFERS * sizes + noise
        if off.any():
            k = int(off.argmax())
            raise ValueError(
                f"derivatives give {-found.curvature[j, k]:.6g} as the second derivative along {labels[j]} and "
                f"{labels[k]} at the start, summed over {some.size:,} rows, but differences of their first "
                f"derivatives give {-bend[k]:.6g}"
            )
