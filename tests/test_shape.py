"""Piecewise exponential densities: normalised, drawn from as they say, and with tails that are long enough."""

import numpy as np
import pytest
from scipy import integrate, stats

from tallbayes.sampling import shape

LEVELS = {
    "normal": -0.5 * shape.KNOTS**2,
    "skewed": np.where(shape.KNOTS < 0, 0.6 * shape.KNOTS, -1.5 * shape.KNOTS**2),
    "flat": np.zeros_like(shape.KNOTS),
    "far from zero": -0.5 * (shape.KNOTS - 5.0) ** 2,
    "no tail at all": 10.0 * shape.KNOTS,
}


def density(found: shape.Shape, z: float) -> float:
    return float(np.exp(shape.log_densities(found, np.array([[z]]))[0]))


@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS.keys())
def test_densities_integrate_to_one(levels):
    found = shape.fit_shape(levels[None])
    inside = sum(
        integrate.quad(lambda z: density(found, z), a, b)[0] for a, b in zip(shape.KNOTS, shape.KNOTS[1:], strict=False)
    )
    tails = sum(density(found, s * shape.REACH) / found.slopes[0, i] for i, s in enumerate((-1, 1)))
    assert inside + tails == pytest.approx(1.0, abs=1e-9)
    assert density(found, -shape.REACH - 2) == pytest.approx(
        density(found, -shape.REACH) * np.exp(-2 * found.slopes[0, 0]), rel=1e-9
    )


@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS.keys())
def test_draws_have_that_density(levels):
    """Kolmogorov-Smirnov with a false-alarm rate of 1e-6."""
    found = shape.fit_shape(levels[None])
    drawn = np.empty((20_000, 1))
    shape.draws(found, np.random.default_rng(1), drawn)

    def cumulative(z):
        low, high = found.slopes[0]
        left = found.below[0, 0] * np.exp(low * np.minimum(0.0, z + shape.REACH))
        right = 1 - (1 - found.below[0, -1]) * np.exp(-high * np.maximum(0.0, z - shape.REACH))
        fine = np.linspace(-shape.REACH, shape.REACH, 20_001)
        heights = np.exp(shape.log_densities(found, fine[:, None]))
        middle = found.below[0, 0] + integrate.cumulative_trapezoid(heights, fine, initial=0)
        return np.where(z < -shape.REACH, left, np.where(z > shape.REACH, right, np.interp(z, fine, middle)))

    assert stats.kstest(drawn[:, 0], cumulative).pvalue > 1e-6


def test_coordinates_are_independent_and_have_their_own_densities():
    found = shape.fit_shape(np.stack([LEVELS["normal"], LEVELS["skewed"]]))
    rng, drawn = np.random.default_rng(2), np.empty((20_000, 2))
    for point in drawn:
        shape.draws(found, rng, point[None])
    assert abs(np.corrcoef(drawn.T)[0, 1]) < stats.norm.isf(5e-7) / np.sqrt(len(drawn))
    assert abs(drawn[:, 0].mean()) < stats.norm.isf(5e-7) / np.sqrt(len(drawn))
    assert drawn[:, 1].mean() < -0.5


def test_a_flat_end_still_has_a_tail_that_falls():
    found = shape.fit_shape(LEVELS["flat"][None])
    assert (found.slopes == shape.FLATTEST[0]).all()
