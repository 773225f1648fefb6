"""Every statistic against arviz-stats, which computes it, or what it is made of, for one parameter at a time."""

import tracemalloc

import numpy as np
import pytest
from arviz_stats.base import array_stats

from tallbayes.sampling.diagnostics import Diagnostics, diagnose
from tallbayes.sampling.mixing import statistics

NAMES = Diagnostics._fields


def oracle(draws):
    values = np.ascontiguousarray(np.moveaxis(draws, 2, 0))
    half = draws.shape[1] // 2
    quartered = np.concatenate([values[:, :, :half], values[:, :, -half:]], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = ((values - values.mean((1, 2), keepdims=True)) / values.std((1, 2), keepdims=True)) ** 2
        mean, square = (array_stats.ess(of, method="mean") for of in (values, squares))
        worse = np.sqrt(mean / np.fmin(mean, square))
        return Diagnostics(
            array_stats.ess(values, method="bulk"),
            array_stats.ess(values, method="tail", prob=(0.05, 0.95)),
            array_stats.rhat(quartered if len(draws) == 1 else values),
            worse * array_stats.mcse(values, method="mean"),
            worse * array_stats.mcse(values, method="sd"),
        )


def autoregressive(phi, noise):
    x = noise.copy()
    for t in range(1, x.shape[1]):
        x[:, t] = phi * x[:, t - 1] + np.sqrt(1 - phi**2) * noise[:, t]
    return x


def rejecting(noise):
    """A chain that stays where it is two times of three."""
    x = noise.copy()
    for t in range(1, x.shape[1]):
        x[:, t] = np.where(np.abs(noise[:, t]) < 1, x[:, t - 1], noise[:, t])
    return x


def half_still(noise):
    x = noise.copy()
    x[0, x.shape[1] // 2 :] = x[0, -1]
    return x


CASES = {
    "independent": lambda noise: noise,
    "slow": lambda noise: autoregressive(0.95, noise),
    "random walk": lambda noise: noise.cumsum(axis=1),
    "alternating": lambda noise: autoregressive(-0.6, noise),
    "alternating, to the bound of tau": lambda noise: autoregressive(-0.99, noise),
    "heavy tails": lambda noise: (noise / np.abs(noise[:, ::-1])) ** 5,
    "rejecting": rejecting,
    "few values": np.round,
    "rarely another value": lambda noise: (noise > 2.2) * 1.0,
    "two values": lambda noise: np.sign(noise) * 0.1 + 0.3,
    "one chain still for half of the time": half_still,
    "all halves still": lambda noise: np.where(
        np.arange(noise.shape[1])[:, None] < noise.shape[1] // 2, 1.3, noise[:, -1:]
    ),
    "chains apart": lambda noise: noise + 3 * np.arange(len(noise))[:, None, None],
    "chains of other widths": lambda noise: noise * (1 + np.arange(len(noise)))[:, None, None],
    "drift": lambda noise: noise + np.linspace(0, 3, noise.shape[1])[:, None],
    "nearly constant": lambda noise: 1e6 + 1e-8 * noise,
    "constant": lambda noise: np.full_like(noise, 0.7),
}


SHORTEST, OTHERS = 4, (5, 8, 9, 10, 11, 13, 201, 400)
SHAPES = [*((chains, SHORTEST) for chains in (1, 2, 4)), *zip((1, 2, 4, 1, 2, 4, 1, 4), OTHERS, strict=True)]


# The shortest, one more, and the longest; the others are between these.
LOOKED_AT = ((1, 4), (4, 4), (1, 5), (4, 400))


@pytest.mark.parametrize(
    ("chains", "count"),
    [pytest.param(*shape, marks=() if shape in LOOKED_AT else pytest.mark.long) for shape in SHAPES],
)
@pytest.mark.parametrize("case", CASES)
def test_all_statistics_are_those_of_arviz(case, chains, count):
    draws = CASES[case](np.random.default_rng(count).normal(size=(chains, count, 5)))
    found, right = Diagnostics(*statistics(draws, NAMES)), oracle(draws)
    # Two values, equally often, have a sd without error. arviz-stats subtracts moments there and finds the root of
    # plus or minus 1e-17.
    lost = found.mcse_sd < 1e-12 * draws.std(axis=(0, 1))
    assert not (right.mcse_sd[lost] > 1e-7).any()
    right.mcse_sd[lost] = found.mcse_sd[lost]
    for name in NAMES:
        np.testing.assert_allclose(getattr(found, name), getattr(right, name), rtol=1e-10, err_msg=name)


@pytest.mark.parametrize("power", [-400, -60, 400])
def test_units_change_nothing(power):
    """Not so in arviz-stats, which takes a range below 1e-15 for none."""
    draws = np.random.default_rng(1).normal(size=(4, 200, 5))
    found, plain = (Diagnostics(*statistics(draws * unit, NAMES)) for unit in (2.0**power, 1.0))
    for name in NAMES:
        unit = 2.0**power if name.startswith("mcse") else 1.0
        np.testing.assert_array_equal(getattr(found, name), unit * getattr(plain, name), err_msg=name)


@pytest.fixture(scope="module")
def mixed():
    """300 parameters of all kinds."""
    noise = np.random.default_rng(7).normal(size=(4, 250, 300))
    kinds = list(CASES.values())
    return np.dstack([kinds[k % len(kinds)](noise[:, :, k : k + 1]) for k in range(300)])


@pytest.fixture(scope="module")
def of_mixed(mixed):
    return statistics(mixed, NAMES)


@pytest.mark.parametrize("at_once", [1, 7_000, 10**9])
def test_slices_do_not_change_results(mixed, of_mixed, at_once):
    for found, other in zip(statistics(mixed, NAMES, at_once), of_mixed, strict=True):
        np.testing.assert_array_equal(found, other)


def test_many_parameters_are_each_as_if_alone(mixed):
    alone = [diagnose(mixed[:, :, [k]]) for k in range(mixed.shape[2])]
    for found, right in zip(diagnose(mixed), zip(*alone, strict=True), strict=True):
        np.testing.assert_array_equal(found, np.concatenate(right))


def test_a_statistic_does_not_depend_on_what_else_is_asked(mixed, of_mixed):
    for name, found in zip(NAMES, of_mixed, strict=True):
        np.testing.assert_array_equal(statistics(mixed, [name])[0], found)


@pytest.mark.parametrize("bad", [np.nan, np.inf, pytest.param(-np.inf, marks=pytest.mark.long)])
def test_draws_that_are_not_finite_spoil_their_own_parameter_only(mixed, of_mixed, bad):
    spoilt = mixed.copy()
    spoilt[1, 17, [0, 40, 41, 299]] = bad
    good = np.setdiff1d(np.arange(300), [0, 40, 41, 299])
    for at_once in (1_000, 10**6):  # a slice may have none that is good
        for found, right in zip(statistics(spoilt, NAMES, at_once), of_mixed, strict=True):
            assert np.isnan(found[[0, 40, 41, 299]]).all()
            np.testing.assert_array_equal(found[good], right[good])


def test_memory_is_bounded():
    draws = np.random.default_rng(0).normal(size=(4, 250, 2_000))
    tracemalloc.start()
    statistics(draws, NAMES)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16e6  # 80 bytes for each of 100,000 draws, and not for two million


def test_no_parameters_have_no_statistics():
    assert [found.shape for found in statistics(np.ones((2, 10, 0)), NAMES)] == [(0,)] * 5
