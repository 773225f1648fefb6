"""Data that make samplers lie: an exact answer or a clear message, never a silent wrong one.

Posteriors of two coefficients are compared with quadrature: means, and the probability below the 0.5% and 99.5%
quantiles. Monte Carlo errors come from the effective number of draws; z is limited for a false-alarm rate of 1e-6 over
all comparisons of a test.
"""

from __future__ import annotations

import warnings

import harness
import numpy as np
import pytest
from scipy import stats

import tallbayes as tb
from tallbayes.sampling.diagnostics import mcse

DRAWS = 5_000
RNG = np.random.default_rng(5)
NORMALS = RNG.standard_normal(400)


def data(name: str) -> dict[str, object]:
    """Columns x and y."""
    if name == "separated":
        x = np.array([-2.0, -1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0])
        return {"x": x, "y": x > 0}
    if name == "nearly separated":
        x = np.linspace(-3, 3, 60)
        return {"x": x, "y": (x > 0) ^ (np.arange(60) == 31)}
    if name == "a level without events":
        return {"x": np.r_[np.zeros(300), np.ones(18)], "y": np.r_[NORMALS[:300] > 1.0, np.zeros(18, bool)]}
    if name == "a level with events only":
        return {"x": np.r_[np.zeros(300), np.ones(9)], "y": np.r_[NORMALS[:300] > 1.0, np.ones(9, bool)]}
    if name == "a few hundred rows, skewed":
        x = NORMALS[:300] ** 2
        return {"x": x, "y": np.arange(300) % 60 == 7}
    if name == "one event in thousands":
        return {"x": np.tile(NORMALS, 8), "y": np.arange(3_200) == 1_234}
    raise KeyError(name)


CASES = [
    "separated",
    "nearly separated",
    "a level without events",
    "a level with events only",
    "a few hundred rows, skewed",
    "one event in thousands",
]
WARNED = ["separated", "a level without events", "a level with events only"]


def largest_z(fit: tb.Fit, truth: harness.Quadrature) -> float:
    scores = []
    for column in range(2):
        drawn, grid = fit.draws[..., column], truth.grid[:, column]
        pairs = [(drawn, grid)]
        for level in (0.005, 0.995):
            cut = truth.quantile(column, level)
            pairs.append(((drawn <= cut).astype(float), (grid <= cut).astype(float)))
        for values, on_grid in pairs:
            error = mcse(values[..., None])[0]
            scores.append(abs(values.mean() - truth.expectation(on_grid)) / error)
    return max(scores)


SLOWER = [
    pytest.param("a level without events", "two-stage", 2_500, marks=pytest.mark.long),
    ("a level without events", "mh", 2_500),
]


@pytest.mark.parametrize(("name", "method", "draws"), [(name, "auto", DRAWS) for name in CASES] + SLOWER)
def test_hard_data_get_an_exact_answer(name, method, draws):
    given, prior = data(name), tb.Normal(0, 5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = tb.fit("y ~ x", given, prior=prior, method=method, draws=draws, seed=3, progress=False)
    warned = [one for one in caught if issubclass(one.category, tb.SeparationWarning)]
    assert bool(warned) == (name in WARNED)
    truth = harness.Quadrature.of(tb.GLM("y ~ x", given, prior=prior), points=301)
    assert largest_z(fit, truth) < stats.norm.isf(1e-6 / 12)


@pytest.mark.parametrize("unit", [1e9, 1e-9])
def test_columns_in_wild_units(unit):
    """A column in other units, with a prior in other units, is the same problem."""
    x, y = NORMALS, RNG.random(400) < 0.3
    fits = [
        tb.fit(
            "y ~ x",
            {"x": x * by, "y": y},
            prior={"Intercept": tb.Normal(0, 5), "x": tb.Normal(0, 5 / by)},
            draws=DRAWS,
            seed=4,
            progress=False,
        )
        for by in (1.0, unit)
    ]
    tables = [fit.summary() for fit in fits]
    scale = np.array([1.0, unit])
    apart = (tables[1]["mean"] * scale - tables[0]["mean"]) / np.hypot(*(t["mcse_mean"] for t in (tables[0],) * 2))
    assert np.abs(apart).max() < stats.norm.isf(1e-6 / 4)
    np.testing.assert_allclose(tables[1]["sd"] * scale, tables[0]["sd"], rtol=0.05)


@pytest.mark.parametrize(
    ("formula", "columns", "message"),
    [
        ("y ~ x + c", {"c": np.full(400, 3.0)}, "linear combination"),
        ("y ~ x + c", {"c": np.zeros(400)}, "zero in every row"),
        ("y ~ x + c", {"c": 1e200 * NORMALS}, "reaches .* in size, but must reach between 1e-50 and"),
        ("y ~ x + c", {"c": 2 * NORMALS}, "linear combination"),
        ("c ~ x", {"c": np.zeros(400)}, "in every row"),
        ("c ~ x", {"c": np.arange(400)}, "must be 0 or 1"),
    ],
    ids=["constant", "zero", "enormous", "collinear", "no event", "counts"],
)
def test_hopeless_columns_get_a_message_that_names_them(formula, columns, message):
    given = {"x": NORMALS, "y": NORMALS > 0.3, **columns}
    with pytest.raises(ValueError, match=message) as caught:
        tb.fit(formula, given, progress=False)
    assert "'c'" in str(caught.value) or "'x'" in str(caught.value)


def test_a_constant_column_without_intercept_is_an_intercept():
    given = {"c": np.ones(400), "x": NORMALS, "y": np.sin(np.arange(400)) > 0.5}
    fit = tb.fit("y ~ 0 + c + x", given, draws=500, seed=1, progress=False)
    other = tb.fit("y ~ x", given, draws=500, seed=1, progress=False)
    np.testing.assert_array_equal(fit.draws, other.draws)
