"""The standard deviation of group effects: its priors against quadrature, and exact draws of it against its density."""

from __future__ import annotations

import numpy as np
import pytest
from entries import interpret
from harness import FALSE_ALARM
from scipy import integrate, optimize, stats

from tallbayes.families.compiled import compiled
from tallbayes.groups import scale as group_scale
from tallbayes.groups import tangents
from tallbayes.groups.model import Hierarchical
from tallbayes.groups.scale import (
    HalfCauchy,
    HalfNormal,
    InverseSquare,
    ScalePrior,
    draw_log_scale,
    log_density,
    log_prior,
    new_log_scale,
    scale_prior_from_text,
)

PRIORS = {
    "half-Cauchy": HalfCauchy(2.5),
    "narrow half-Cauchy": HalfCauchy(0.01),
    "half-Normal": HalfNormal(1.5),
    "narrow half-Normal": HalfNormal(0.01),
    "inverse square": InverseSquare(0.3),
}
each_prior = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())


@compiled()
def fill(code, count, squares, rng, out):
    for i in range(out.size):
        out[i] = draw_log_scale(code, count, squares, rng)


def drawn(prior: ScalePrior, count: int, squares: float, size: int = 10_000, seed: int = 1) -> np.ndarray:
    out = np.empty(size)
    fill(prior.code, count, squares, np.random.default_rng(seed), out)
    return out


# Priors


@each_prior
def test_densities_are_normalised(prior):
    low = prior.lower if isinstance(prior, InverseSquare) else 0.0
    unit = prior.lower if isinstance(prior, InverseSquare) else prior.scale
    total = sum(
        integrate.quad(lambda tau: np.exp(prior.log_density(np.array(tau))), a, b, epsabs=1e-12)[0]
        for a, b in ((low, low + unit), (low + unit, np.inf))
    )
    assert total == pytest.approx(1.0, abs=1e-9)


@each_prior
def test_samples_have_the_density(prior):
    sample = prior.sample(np.random.default_rng(1), 50_000)
    law = {
        HalfCauchy: lambda: stats.halfcauchy(scale=prior.scale),
        HalfNormal: lambda: stats.halfnorm(scale=prior.scale),
        InverseSquare: lambda: stats.pareto(1.0, scale=prior.lower),
    }[type(prior)]()
    assert stats.kstest(sample, law.cdf, method="asymp").pvalue > FALSE_ALARM
    np.testing.assert_allclose(prior.log_density(sample), law.logpdf(sample), rtol=1e-10, atol=1e-10)


def test_nothing_lies_below_the_limit():
    prior = InverseSquare(0.3)
    assert prior.log_density(np.array([0.2999, 0.3001])).tolist()[0] == -np.inf
    assert log_density(prior.code, 3, 1.0, np.log(0.2999)) == -np.inf
    assert np.isfinite(log_density(prior.code, 3, 1.0, np.log(0.3001)))


@each_prior
def test_compiled_code_knows_the_same_density(prior):
    """Of u = log tau, so that tau is added to it; up to a constant."""
    unit = prior.lower if isinstance(prior, InverseSquare) else prior.scale
    u = np.log(unit) + np.linspace(0 if isinstance(prior, InverseSquare) else -4, 3, 60)
    apart = [log_prior.py_func(prior.code, one) for one in u] - (prior.log_density(np.exp(u)) + u)
    assert apart == pytest.approx(np.full(u.size, apart[0]), rel=1e-11, abs=1e-11)
    apart = [log_density(prior.code, 7, unit**2, one) for one in u] - height(prior, 7, unit**2, u)
    assert apart == pytest.approx(np.full(u.size, apart[0]), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("kind", [HalfCauchy, HalfNormal, InverseSquare])
@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_scales_must_be_positive_numbers(kind, scale):
    what = "lower limit" if kind is InverseSquare else "scale"
    with pytest.raises(ValueError, match=f"the {what} of a group prior must be a positive number"):
        kind(scale)


# Draws given the effects


def height(prior: ScalePrior, count: int, squares: float, u: np.ndarray) -> np.ndarray:
    """Log density of u = log tau given so many effects with this sum of squares, with NumPy alone."""
    with np.errstate(over="ignore"):
        return prior.log_density(np.exp(u)) + u - count * u - 0.5 * squares * np.exp(-2 * u)


def distribution(prior: ScalePrior, count: int, squares: float) -> tuple[np.ndarray, np.ndarray]:
    """u and the probability below it, on a grid that ends where the density has fallen by e^45.

    The mode is looked for between limits that have nothing to do with how draws are made; the density is concave.
    """
    lowest = np.log(prior.lower) if isinstance(prior, InverseSquare) else -400.0

    def down(u: float) -> float:
        return -float(height(prior, count, squares, np.array(u)))

    low, high = lowest, 400.0
    for _ in range(3):  # each time nearer to the mode, which may be no wider than a hundredth
        grid = np.linspace(low, high, 4001)
        best = int(height(prior, count, squares, grid).argmax())
        low, high = grid[max(0, best - 1)], grid[min(4000, best + 1)]
    mode = optimize.minimize_scalar(down, bounds=(low, high), method="bounded", options={"xatol": 1e-9}).x
    mode = min((mode, lowest), key=down)
    ends = [lowest, 400.0]
    for side in (0, 1):
        if down(ends[side]) - down(mode) > 45:
            ends[side] = optimize.brentq(lambda u: min(down(u) - down(mode), 1e6) - 45, *sorted((mode, ends[side])))
    grid = np.linspace(*ends, 20_001)
    density = np.exp(height(prior, count, squares, np.maximum(grid, lowest + 1e-12)) + down(mode))
    below = integrate.cumulative_simpson(density, x=grid, initial=0)
    return grid, below / below[-1]


def agreement(draws: np.ndarray, prior: ScalePrior, count: int, squares: float) -> float:
    """p-value of the Kolmogorov-Smirnov test that draws have this density."""
    grid, below = distribution(prior, count, squares)
    assert (draws >= grid[0] - 1e-12).all()
    return float(stats.kstest(draws, lambda u: np.interp(u, grid, below), method="asymp").pvalue)


COUNTS = [2, 3, 5, 12, 100, 1_000, 10_000]
SQUARES = [1e-12, 1e-3, 0.3, 1.0, 4.0, 1e3, 1e12]  # a group
LIMITS = [1e-6, 0.5, 0.95, 1.05, 2.0, 1e3]  # over the mode


@pytest.mark.parametrize(
    ("kind", "scale"),
    [
        pytest.param(kind, scale, marks=() if scale in every_run else pytest.mark.long)
        for kind, every_run in ((HalfCauchy, (1e-4, 2.5)), (HalfNormal, (0.1, 1e4)))
        for scale in (1e-4, 0.1, 2.5, 1e4)
    ],
)
def test_draws_have_the_density_given_the_effects(kind, scale):
    """Also where the prior lies far from what the effects say, on either side."""
    prior = kind(scale)
    cases = [(count, count * each) for count in COUNTS for each in SQUARES]
    found = [agreement(drawn(prior, *case, seed=seed), prior, *case) for seed, case in enumerate(cases)]
    assert len(cases) * min(found) > FALSE_ALARM


@pytest.mark.parametrize("limit", LIMITS)
def test_draws_have_the_density_above_a_limit(limit):
    """Below the mode, next to it, and above, where the density falls from the limit on."""
    found = []
    for count in COUNTS:
        for each in (1e-12, 1.0, 1e6):
            prior = InverseSquare(limit * np.sqrt(count * each / (count + 1)))
            case = (count, count * each)
            draws = drawn(prior, *case, seed=count)
            assert (draws >= np.log(prior.lower)).all()
            found.append(agreement(draws, prior, *case))
    assert len(found) * min(found) > FALSE_ALARM


@pytest.mark.parametrize(
    ("broken", "prior", "count", "squares"),
    [
        ("one group more", HalfNormal(1.0), 2, 2.0),
        ("one group more", HalfCauchy(2.5), 12, 12.0),
        ("one group less", InverseSquare(0.1), 8, 8.0),
        ("a tenth more squares", HalfNormal(1.0), 10, 10.0),
        ("no prior", HalfNormal(1.0), 4, 4.0),
    ],
)
def test_draws_from_a_slightly_wrong_density_are_seen(broken, prior, count, squares):
    wrong = {
        "one group more": (prior, count + 1, squares),
        "one group less": (prior, count - 1, squares),
        "a tenth more squares": (prior, count, 1.1 * squares),
        "no prior": (HalfNormal(1e6), count, squares),
    }[broken]
    draws = drawn(*wrong, size=30_000)
    assert agreement(draws, *wrong) > FALSE_ALARM
    assert agreement(draws, prior, count, squares) < FALSE_ALARM


def test_effects_that_are_all_zero_give_a_number():
    """Their density has no mass that is finite, but a chain that starts there must go on."""
    for prior in (HalfCauchy(2.5), HalfNormal(1.0), InverseSquare(1e-6)):
        assert np.isfinite(drawn(prior, 3, 0.0, 100)).all()


class Counting:
    """A generator that counts what it was asked."""

    def __init__(self, seed: int) -> None:
        self._generator, self.asked = np.random.default_rng(seed), 0

    def random(self) -> float:
        self.asked += 1
        return self._generator.random()


@each_prior
@pytest.mark.parametrize("count", [2, 10, 1_000])
def test_nearly_all_proposals_are_accepted(prior, count, monkeypatch):
    """Two random numbers a try, and nine tries in ten succeed: with 2,000 draws the error is below a hundredth."""
    interpret(monkeypatch, tangents, group_scale)  # which takes any generator
    rng = Counting(1)
    for _ in range(2_000):
        draw_log_scale.py_func(prior.code, count, 0.5 * count, rng)
    assert rng.asked / 2 / 2_000 < 1 / 0.8


def test_draws_take_their_numbers_from_the_generator_alone():
    one, same, other = (drawn(HalfCauchy(2.5), 5, 4.0, 50, seed) for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).all()


@pytest.mark.parametrize("squares", [np.nan, np.inf])
def test_squares_that_are_no_numbers_give_none(squares):
    """Rejection would go on for ever; the loop then sees a rate that is not a number and raises."""
    assert np.isnan(new_log_scale(HalfCauchy(1.0).code, 3, squares, np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("text", "prior"),
    [
        ("half_cauchy(1)", HalfCauchy(1.0)),
        (" Half_Normal( 2.5 ) ", HalfNormal(2.5)),
        ("inverse_square(1e-2)", InverseSquare(0.01)),
    ],
)
def test_priors_from_text(text, prior):
    assert scale_prior_from_text(text) == prior
    data = {"bank": ["a", "a", "b", "b"], "y": [0, 1, 0, 1]}
    assert Hierarchical("y ~ 1 + (1 | bank)", data, group_prior=text).group_prior == prior
    assert Hierarchical.from_arrays([[1.0], [1.0]], [0, 1], [1, 2], group_prior=text).group_prior == prior


@pytest.mark.parametrize(
    "text", ["", "half_normal", "half_normal()", "half_normal(one)", "half_normal(1, 2)", "cauchy(1)"]
)
def test_texts_that_are_no_priors(text):
    with pytest.raises(ValueError, match=r"is not like half_cauchy\(SCALE\), .* such as half_normal\(1\)"):
        scale_prior_from_text(text)


def test_a_text_with_a_scale_that_cannot_be():
    with pytest.raises(ValueError, match=r"scale of a group prior must be a positive number .*, not -1"):
        scale_prior_from_text("half_normal(-1)")
