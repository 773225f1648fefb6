"""Draws from log-concave densities by three tangents.

The tangents of a concave function lie above it. Three of them, at the mode and on both sides, make an envelope of
exponential pieces, from which a draw is accepted with probability f over envelope: nine times in ten where f is nearly
Gaussian and the outer tangents touch it APART standard deviations from the mode.

Reference: W. R. Gilks and P. Wild (1992), "Adaptive rejection sampling for Gibbs sampling".
"""

from __future__ import annotations

import math

from tallbayes.families.compiled import inside
from tallbayes.sampling.shape import uniform

APART = 1.2


@inside()
def _mass(value, slope, low, high):
    """Integral of exp(value + slope t) for t from low to high."""
    if high <= low:
        return 0.0
    if abs(slope) * (high - low) < 1e-6:
        return math.exp(value + slope * low) * (high - low)
    if slope > 0.0:
        return math.exp(value + slope * high) * -math.expm1(-slope * (high - low)) / slope
    return math.exp(value + slope * low) * -math.expm1(slope * (high - low)) / -slope


@inside()
def _inside(slope, low, high, share):
    """Where between low and high a share of the integral of exp(slope t) is reached."""
    if abs(slope) * (high - low) < 1e-6:
        return low + share * (high - low)
    if slope > 0.0:
        return high + math.log1p((1.0 - share) * math.expm1(-slope * (high - low))) / slope
    return low + math.log1p(share * math.expm1(slope * (high - low))) / slope


@inside()
def envelope(width, left, left_slope, slope, right, right_slope, lowest):
    """Of a log density with value 0 at t = 0, given values and slopes at -width, 0 and width; t is above `lowest`.

    The tangents' heights at t = 0, where they cross, and the masses below them.
    """
    left, right = left + left_slope * width, right - right_slope * width
    first, second = left / (slope - left_slope), right / (slope - right_slope)
    first, second = first if first > lowest else lowest, second if second > lowest else lowest
    below = _mass(left, left_slope, lowest, first)
    middle = _mass(0.0, slope, first, second)
    above = _mass(right, right_slope, second, math.inf)
    return left, right, first, second, below, middle, above


@inside()
def draw(made, left_slope, slope, right_slope, lowest, rng):
    """A draw of t from an envelope, and the envelope's log height there."""
    left, right, first, second, below, middle, above = made
    place = uniform(rng) * (below + middle + above)
    if place < below:
        t = _inside(left_slope, lowest, first, place / below)
        return t, left + left_slope * t
    if place < below + middle:
        t = _inside(slope, first, second, (place - below) / middle)
        return t, slope * t
    t = _inside(right_slope, second, math.inf, (place - below - middle) / above)
    return t, right + right_slope * t
