"""A user's functions, tried on some rows before they are used."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tallbayes.own.function import RowFunction
from tallbayes.own.parameters import Parameters
from tallbayes.rows.arrays import Arrays

Array = NDArray[np.float64]

SAME = 1e-8  # by how much the value of a row may differ from one call to another
STEP = 1e-3  # of differences
DIFFERS = 1e-4  # share by which given derivatives may differ from differences


def try_values(function: RowFunction, x: Array, some: Arrays) -> None:
    """Refuse a function whose value of a row depends on what other rows there are, or on the time."""
    rows, half = some.size, some.size // 2
    together = function.values(x, some, 0, rows)
    order = np.r_[half:rows, 0:half]
    apart = np.empty(rows)
    apart[order] = function.values(x, some.take(order), 0, rows)
    _refuse_change(function, together, apart, some, "when rows come in another order")
    if half:
        apart = np.concatenate([function.values(x, some, 0, half), function.values(x, some, half, rows)])
        _refuse_change(function, together, apart, some, f"when {half:,} and {rows - half:,} rows are given apart")
    again = function.values(x, some, 0, rows)
    _refuse_change(function, together, again, some, "when the same rows are given again")


def try_prior(parameters: Parameters) -> None:
    """Refuse a prior that changes from one call to another."""
    at = parameters.free(parameters.start)
    one, other = (float(parameters.log_prior(at)[0]) for _ in range(2))
    if one != other:
        raise ValueError(
            f"the prior gives {one:.10g} at the start, but {other:.10g} when it is called again; it may depend on "
            "theta alone"
        )


def _refuse_change(function: RowFunction, one: Array, other: Array, some: Arrays, when: str) -> None:
    with np.errstate(invalid="ignore"):
        changed = ~((one == other) | (np.abs(one - other) <= SAME * (1 + np.abs(one))))
    if changed.any():
        place = int(changed.argmax())
        raise ValueError(
            f"{function.name} gives {one[place]:.10g} for {function.told(some, place)}, but {other[place]:.10g} "
            f"{when}; the value of a row may depend only on theta and that row"
        )


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
