"""A user's own family is tried before it is used: whether derivatives are those of the value, and bounds are bounds.

The trial looks at some outcomes of the data, with linear predictors around where they are plausible. Derivatives are
held against differences of what comes before them, and the bound against third derivatives at random points of random
intervals. What fails is an error that says where: nothing that is wrong there can give a wrong posterior in silence.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tallbayes.families.expressed import by_row
from tallbayes.families.terms import chunk_bounds

Array = NDArray[np.float64]

OUTCOMES, POINTS = 60, 40  # outcomes looked at, and linear predictors for each
STEP = 1e-4  # of differences, relative to how far linear predictors spread, or to one
AGREE = 1e-3  # how well differences and derivatives must agree, relative to their size there,
SOMEWHERE = 0.01  # and such a part of their largest size for the same outcome
ROUNDED = 1e-8  # step of differences beside linear predictors that are so large that a shorter one is lost
SLACK = 1 + 1e-6  # that the sampler allows for rounding, too


@np.errstate(over="ignore", invalid="ignore")  # differences of what is finite need not be
def try_family(tag: Any, y: Array, eta: Array, name: str) -> None:
    """Refuse a family whose functions do not fit each other, on outcomes (n,) and linear predictors that suit them."""
    rng = np.random.default_rng(0)
    outcomes = rng.choice(y, min(OUTCOMES, y.size), replace=False)
    spread = float(np.ptp(eta)) or 1.0
    at = np.concatenate(
        [rng.choice(eta, POINTS // 2), rng.uniform(eta.min() - spread / 2, eta.max() + spread / 2, POINTS // 2)]
    )
    yy, ee = np.repeat(outcomes, at.size), np.tile(at, outcomes.size)
    terms = tag.terms
    value, first, second, third = _whole(tag, terms, yy, ee)
    _require_finite(name, yy, ee, {"value": value, "first derivative": first, "second derivative": second})
    h = np.maximum(STEP * min(spread, 1.0), ROUNDED * np.abs(ee))
    h = (ee + h) - ee  # as it is after rounding
    up, down = _whole(tag, terms, yy, ee + h), _whole(tag, terms, yy, ee - h)
    noise = 1e-9 * (1 + np.abs(value)) / h
    pairs = [("first", first, 0, noise), ("second", second, 1, 1e-9 * (1 + np.abs(first)) / h)]
    if tag.trust != "none":
        _require_finite(name, yy, ee, {"third derivative": third})
        pairs.append(("third", third, 2, 1e-9 * (1 + np.abs(second)) / h))
    for what, found, below, rounding in pairs:
        slope = (up[below] - down[below]) / (2 * h)
        size = np.abs(np.stack([up[below + 1], down[below + 1], found])).max(0)
        size += SOMEWHERE * np.repeat(size.reshape(outcomes.size, -1).max(1), at.size)
        off = np.abs(slope - found) - AGREE * size - rounding
        if (worst := int(np.argmax(np.nan_to_num(off, nan=-np.inf)))) >= 0 and off[worst] > 0:
            raise ValueError(
                f"the {what} derivative of the family {name!r} is {found[worst]:.6g} at y = {yy[worst]:g}, eta = "
                f"{ee[worst]:.6g}, but finite differences give {slope[worst]:.6g}"
            )
    if tag.trust != "none":
        _try_bounds(tag, name, yy, ee, spread, rng)


def _whole(tag: Any, terms: NDArray[np.intp], y: Array, eta: Array) -> Array:
    found = by_row(terms, y, eta)
    if tag.canonical:
        found[1] += y
    return found


def _require_finite(name: str, y: Array, eta: Array, parts: dict[str, Array]) -> None:
    for what, found in parts.items():
        bad = ~np.isfinite(found)
        if bad.any():
            worst = int(bad.argmax())
            raise ValueError(
                f"the {what} of the family {name!r} is {found[worst]} at y = {y[worst]:g}, eta = {eta[worst]:.6g}; it "
                "must be a finite number wherever the data may lead"
            )


def _try_bounds(tag: Any, name: str, y: Array, eta: Array, spread: float, rng: np.random.Generator) -> None:
    width = spread * 10 ** rng.uniform(-6, 0, eta.size)
    low = eta - width * rng.random(eta.size)
    bounds = np.empty(eta.size)
    _bounds(tag.terms, y, low, low + width, bounds)
    for share in (0.0, 1.0, *rng.random(6)):
        inside = low + share * width
        third = np.abs(by_row(tag.terms, y, inside)[3])
        over = third - SLACK * bounds - 1e-290
        if not (over <= 0).all():
            worst = int(np.argmax(np.where(np.isnan(over), np.inf, over)))
            raise ValueError(
                f"the bound of the family {name!r} is {bounds[worst]:.6g} for y = {y[worst]:g} and eta from "
                f"{low[worst]:.6g} to {low[worst] + width[worst]:.6g}, but the third derivative at eta = "
                f"{inside[worst]:.6g} is {third[worst]:.6g}: that is no bound"
            )


@njit
def _bounds(terms, y, low, high, out):
    chunk_bounds(terms, y, low, high, out)
