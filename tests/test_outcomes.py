"""Predictions against outcomes: sums of cells, bins of cells, and what a fit keeps of them."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

import tallbayes as tb
from tallbayes.families import Bernoulli, Poisson
from tallbayes.results.example import example
from tallbayes.results.file import load
from tallbayes.rows import calibration
from tallbayes.rows.calibration import by_predictor, calibrate
from tallbayes.rows.looking import FirstLook, Look
from tallbayes.rows.memory import MemoryRows

FALSE_ALARM = 1e-4
NONE = np.empty(0)  # no weights


def sums(eta, y, weights):
    """Of rows that have these linear predictors."""
    return by_predictor(MemoryRows([eta], y, weights if weights.size else None), [1.0])


LOGIT = Bernoulli()


def rows(n=200_000, seed=0, family=LOGIT, spread=1.0, low=-2.0):
    rng = np.random.default_rng(seed)
    eta = rng.normal(low, spread, n)
    return eta, family.simulate(rng, eta)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_all_rows(weighted):
    eta, y = rows(5_000)
    weights = np.random.default_rng(1).random(5_000) if weighted else NONE
    found = sums(eta, y, weights)
    own = weights if weighted else np.ones(5_000)
    np.testing.assert_allclose([part.sum() for part in found], [own.sum(), own @ eta, own @ y, own @ y**2])
    some = found.weight > 0
    centre = found.predictor[some] / found.weight[some]
    assert (np.diff(centre) > 0).all()  # cells are in order


def test_weights_are_numbers_of_rows():
    eta, y = rows(2_000)
    times = np.random.default_rng(1).integers(1, 5, 2_000)
    once = calibrate(sums(eta, y, times.astype(float)), Bernoulli())
    again = calibrate(sums(np.repeat(eta, times), np.repeat(y, times), NONE), Bernoulli())
    for part, other in zip(once, again, strict=True):
        np.testing.assert_allclose(part, other)


@pytest.mark.parametrize(
    ("family", "low"), [(Bernoulli(), -2.0), (Bernoulli(), -7.0), (Bernoulli("probit"), 0.5), (Poisson(), 0.3)]
)
def test_a_true_model_lies_in_the_band(family, low):
    """94% of bins should; how many do, over several data sets, is nearly binomial."""
    inside = total = 0
    for seed in range(10):
        eta, y = rows(seed=seed, family=family, low=low)
        found = calibrate(sums(eta, y, NONE), family)
        np.testing.assert_allclose(found.rows.sum(), y.size)
        np.testing.assert_allclose((found.rows * found.observed).sum(), y.sum())
        np.testing.assert_allclose((found.rows * found.predicted).sum(), family.mean(eta).sum(), rtol=1e-4)
        assert (np.diff(found.predicted) > 0).all()
        inside += int(((found.lower <= found.observed) & (found.observed <= found.upper)).sum())
        total += found.rows.size
    assert binom.ppf(FALSE_ALARM, total, 0.92) <= inside <= binom.isf(FALSE_ALARM, total, 0.96)


def test_a_wrong_model_does_not():
    rng = np.random.default_rng(1)
    x = rng.standard_normal(100_000)
    y = (rng.random(x.size) < expit(-2 + 0.3 * x**2)) * 1.0  # predicted without the curve
    found = calibrate(sums(-1.7 + 0.05 * x, y, NONE), Bernoulli())
    assert ((found.lower <= found.observed) & (found.observed <= found.upper)).mean() < 0.5


def test_rare_events_get_bins_of_their_own():
    eta, y = rows(n=1_000_000, low=-7.0)
    found = calibrate(sums(eta, y, NONE), Bernoulli())
    assert found.rows[-1] < 0.02 * y.size
    assert found.rows[0] > 0.05 * y.size
    assert found.predicted[-1] > 30 * found.predicted[0]


def test_extremes():
    """Certain outcomes, and predictions that are all the same."""
    found = calibrate(sums(np.array([-900.0, 0.0, 900.0]), np.array([0.0, 1.0, 1.0]), NONE), Bernoulli())
    assert all(np.isfinite(part).all() for part in found)
    np.testing.assert_allclose(found.predicted[[0, -1]], [0, 1], atol=1e-12)
    same = calibrate(sums(np.zeros(10), np.arange(10) % 2 * 1.0, NONE), Bernoulli())
    assert (same.rows.tolist(), same.predicted.tolist(), same.observed.tolist()) == ([10.0], [0.5], [0.5])


def test_rows_ask_for_their_own_predictor():
    rng = np.random.default_rng(1)
    x = rng.standard_normal(4_000)
    offset, weights = rng.normal(size=4_000), rng.integers(1, 4, 4_000).astype(float)
    group = rng.choice(["a", "b", "c"], 4_000)
    y = (rng.random(4_000) < expit(x + offset)) * 1
    data = {"x": x, "y": y, "o": offset, "w": weights, "g": group}
    model = tb.Hierarchical("y ~ x + (1 | g)", data, weights="w", offset="o")
    theta = np.array([0.3, 0.8, -0.5, 0.1, 0.4, 0.0])
    effects = theta[2:5][np.searchsorted(["a", "b", "c"], group)]
    expected = sums(theta[0] + theta[1] * x + offset + effects, y * 1.0, weights)
    for part, other in zip(by_predictor(model.rows, theta), expected, strict=True):
        np.testing.assert_allclose(part.sum(), other.sum())
    mine, theirs = calibrate(by_predictor(model.rows, theta), model.family), calibrate(expected, model.family)
    np.testing.assert_allclose(mine.observed, theirs.observed, atol=0.02)


@pytest.mark.parametrize("method", ["auto", "mh", tb.Consensus(3)], ids=str)
def test_a_fit_keeps_it(method, tmp_path):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(20_000)
    data = {"x": x, "y": (rng.random(x.size) < expit(-1 + x)) * 1}
    fit = tb.fit("y ~ x", data, method=method, draws=200, seed=1, progress=False)
    table = fit.calibration()
    assert table["rows"].sum() == x.size
    np.testing.assert_allclose((table["rows"] * table["observed"]).sum(), data["y"].sum())
    inside = int(((table["lower"] <= table["observed"]) & (table["observed"] <= table["upper"])).sum())
    assert inside >= binom.ppf(FALSE_ALARM, len(table), 0.92)
    assert "calibration" in fit.stats["seconds"]
    fit.save(tmp_path / "fit.nc")
    np.testing.assert_array_equal(load(tmp_path / "fit.nc").calibration(), table)


def test_splines_keep_it():
    data = tb.datasets.simulate_mars(2_000, seed=1)
    fit = tb.sample(tb.MARS("y ~ x1 + x2 + x3 + x4", data), draws=30, warmup=60, chains=2, seed=1, progress=False)
    table = fit.calibration()
    assert table["rows"].sum() == 2_000
    assert abs(table["predicted"] - table["observed"]).max() < 0.2


def test_an_old_file_has_none(tmp_path):
    fit = example()
    fit._calibration = None
    fit.save(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match="fit again"):
        load(tmp_path / "fit.nc").calibration()


@pytest.mark.parametrize(
    ("family", "low", "spread"), [(Bernoulli(), -2.0, 1.0), (Bernoulli(), -7.0, 1.5), (Poisson(), 0.3, 0.5)]
)
def test_some_rows_tell_how_far_predictors_reach(family, low, spread):
    """One pass; those farther out are not lost, and bins are those of a pass that has found the ends before."""
    eta, y = rows(family=family, low=low, spread=spread)
    every = MemoryRows([eta], y)
    look = every.reduce(FirstLook(3_000, every.mean_outcome, every.total_weight))
    before = every.passes
    found = by_predictor(every, [1.0], look=look)
    assert every.passes == before + 1
    for part, total in zip(found, (y.size, eta.sum(), y.sum(), (y**2).sum()), strict=True):
        np.testing.assert_allclose(part.sum(), total)
    outside = found.weight[[0, -1]].sum()
    assert 0 < outside < y.size / 300
    one, other = (calibrate(cells, family) for cells in (found, by_predictor(every, [1.0])))
    assert one.rows.size == other.rows.size
    for name in ("rows", "predicted", "observed", "lower", "upper"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=0.05, err_msg=name)


def test_a_fit_of_many_rows_looks_at_them_once(monkeypatch):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(100_000)
    model = tb.GLM("y ~ x", {"x": x, "y": (rng.random(x.size) < expit(-1 + x)) * 1})
    monkeypatch.setattr(calibration, "Reach", lambda predictor: pytest.fail("all rows are looked at for the ends"))
    fit = tb.sample(model, "mh", draws=5, warmup=5, chains=1, seed=1, progress=False)
    assert fit.calibration()["rows"].sum() == x.size


@pytest.mark.parametrize("far", [1e5, 1e300])
def test_rows_that_are_far_out_go_into_the_last_cells(far):
    eta = np.array([-far, 0.0, 1.0, far])
    every = MemoryRows([eta], [0.0, 0.0, 1.0, 1.0])
    look = Look(every.arrays.take(np.array([1, 2])), np.ones(2))
    found = by_predictor(every, [1.0], look=look)
    assert found.weight[[0, -1]].tolist() == [1.0, 1.0]
    assert found.predictor[[0, -1]].tolist() == [-far, far]


def test_bins_are_as_many_as_told():
    eta, y = rows()
    assert calibration.BINS - 2 <= calibrate(sums(eta, y, NONE), Bernoulli()).rows.size <= calibration.BINS
