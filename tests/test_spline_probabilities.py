"""Effects of splines on the probability scale: what is computed, stored with a fit, and asked of it."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy.special import expit

import tallbayes as tb
from tallbayes.rows import threads
from tallbayes.splines import probabilities as stored
from tallbayes.splines.basis import DEGREE, KNOT, MEAN, SD, SIGN, VARIABLE, WIDTH, Splines
from tallbayes.splines.example import example_mars


def drawn(count: int = 12, most: int = 6, d: int = 4, seed: int = 0) -> Splines:
    """Random splines with products of up to three factors, some of them lines, and some without any basis."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, most + 1, count)
    sizes[0] = 0
    bases = np.zeros((count, most, WIDTH))
    bases[..., DEGREE] = rng.integers(1, 4, (count, most))
    bases[..., VARIABLE : VARIABLE + 3] = np.argsort(rng.random((count, most, d)), axis=2)[..., :3]
    bases[..., SIGN : SIGN + 3] = rng.choice([-1.0, 0.0, 1.0], (count, most, 3))
    bases[..., KNOT : KNOT + 3] = rng.normal(size=(count, most, 3))
    bases[..., MEAN], bases[..., SD] = rng.normal(size=(count, most)), rng.uniform(0.5, 2, (count, most))
    return Splines(sizes, rng.normal(size=(count, most + 1)), bases)


def log_odds(splines: Splines, x: np.ndarray) -> np.ndarray:
    """Written with NumPy."""
    eta = np.repeat(splines.coefficients[:, :1], x.shape[1], axis=1)
    for s, size in enumerate(splines.sizes):
        for basis, coefficient in zip(splines.bases[s, :size], splines.coefficients[s, 1:], strict=False):
            product = np.ones(x.shape[1])
            for j in range(int(basis[DEGREE])):
                away, sign = x[int(basis[VARIABLE + j])] - basis[KNOT + j], basis[SIGN + j]
                product *= away if sign == 0 else np.maximum(sign * away, 0)
            eta[s] += coefficient * (product - basis[MEAN]) / basis[SD]
    return eta


def directly(splines: Splines, x: np.ndarray, variables: tuple[int, ...], *values: float) -> np.ndarray:
    """The mean probability of rows whose variables are set to values, for each spline."""
    moved = x.copy()
    for variable, value in zip(variables, values, strict=True):
        moved[variable] = value
    return expit(log_odds(splines, moved)).mean(1)


@pytest.mark.parametrize(("rows", "at_once"), [(30, 100_000), (30, 700), (30, 1)])
def test_probabilities_are_means_over_rows_with_a_variable_set_to_a_value(rows, at_once, monkeypatch):
    monkeypatch.setattr(stored, "AT_ONCE", at_once)
    splines, x = drawn(), np.random.default_rng(1).normal(size=(4, rows))
    grid, other = np.linspace(-2, 2, 7), np.array([-1.0, 0.5, 3.0])
    for variable in range(4):
        found = stored.probabilities(splines, x, (variable,), (grid,))
        expected = np.stack([directly(splines, x, (variable,), value) for value in grid], axis=1)
        np.testing.assert_allclose(found, expected, rtol=2e-6)
    for pair in ((0, 2), (3, 1)):
        found = stored.probabilities(splines, x, pair, (grid, other))
        expected = [[directly(splines, x, pair, one, two) for two in other] for one in grid]
        np.testing.assert_allclose(found, np.moveaxis(expected, 2, 0), rtol=2e-6)


def test_probabilities_have_the_same_bits_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(threads, "ALONE", 0)
    splines, x, grid = drawn(), np.random.default_rng(1).normal(size=(4, 50)), np.linspace(-2, 2, 61)
    found = []
    for count in (1, 3):
        with threads.using(count):
            found.append(stored.probabilities(splines, x, (1, 2), (grid, grid)))
    np.testing.assert_array_equal(*found)


def test_log_odds_far_out_are_sure(recwarn):
    splines = Splines(np.array([0, 0]), np.array([[-1e4], [1e4]]), np.zeros((2, 0, WIDTH)))
    found = stored.probabilities(splines, np.zeros((1, 3)), (0,), (np.zeros(2),))
    assert found.tolist() == [[0, 0], [1, 1]]
    assert not recwarn.list


def test_rows_stand_for_all():
    rng = np.random.default_rng(0)
    eta = rng.normal(0, 2, 2_000)
    errors, times = [], np.zeros(2_000)
    for _ in range(400):
        rows = stored.spread_rows(eta, 64, rng)
        assert len(set(rows)) == 64
        errors.append(expit(eta[rows]).mean() - expit(eta).mean())
        times[rows] += 1
    alone = expit(eta).std() / 8
    assert np.std(errors) < 0.2 * alone
    assert abs(np.mean(errors)) < 5 * np.std(errors) / 20
    assert times.min() > 0  # each is expected 12.8 times
    assert stored.spread_rows(eta[:5], 64, rng).tolist() == [0, 1, 2, 3, 4]


def test_pairs_are_counted_in_bases_that_are_there():
    splines = drawn(count=30)
    expected = np.zeros((4, 4), int)
    for size, bases in zip(splines.sizes, splines.bases, strict=True):
        for basis in bases[:size]:
            variables = sorted(basis[VARIABLE : VARIABLE + int(basis[DEGREE])].astype(int))
            for i, first in enumerate(variables):
                for second in variables[i + 1 :]:
                    expected[first, second] += 1
    np.testing.assert_array_equal(stored.together(splines, 4), expected)


def test_what_is_stored_are_summaries_of_draws_on_the_rows():
    splines, rng = drawn(count=40), np.random.default_rng(2)
    x = rng.normal(size=(4, 90))
    x[3] = rng.integers(0, 2, 90)
    quantiles = np.quantile(x, np.linspace(0, 1, 101), axis=1, method="inverted_cdf").T
    given = stored.stored_effects(splines, x, quantiles, np.arange(4.0))
    table = xr.Dataset(given, {"variable": ["a", "b", "c", "d"]})
    for variable in range(4):
        known, (grid,) = stored.stored_effect(table, (variable,))
        np.testing.assert_array_equal(grid, stored.grid_of(quantiles[variable]))
        draws = np.stack([directly(splines, x, (variable,), value) for value in grid], axis=1)  # all rows are taken
        expected = [draws.mean(0), *np.quantile(draws, [0.03, 0.97], axis=0), draws.std(0)]
        np.testing.assert_allclose(known.T, expected, rtol=1e-5)
    counts = stored.together(splines, 4)
    pairs = table["pair"].values
    assert len(pairs) == 3
    assert min(counts[tuple(pair)] for pair in pairs) >= np.sort(counts[np.triu_indices(4, 1)])[-3]
    for first, second in pairs.tolist():
        known, (one, two) = stored.stored_effect(table, (first, second))
        for cut in (10, 50, 90):
            assert quantiles[first, cut] in one
            assert quantiles[second, cut] in two
        draws = directly(splines, x, (first, second), one[1], two[-1])
        np.testing.assert_allclose(
            known[1, -1], [draws.mean(), *np.quantile(draws, [0.03, 0.97]), draws.std()], rtol=1e-5
        )
        turned, grids = stored.stored_effect(table, (second, first))
        np.testing.assert_array_equal(turned, known.swapaxes(0, 1))
        np.testing.assert_array_equal(grids[0], two)


def test_equally_frequent_pairs_are_stored_by_importance():
    none = Splines(np.zeros(3, int), np.zeros((3, 1)), np.zeros((3, 0, WIDTH)))
    x = np.random.default_rng(0).random((4, 30))
    quantiles = np.quantile(x, np.linspace(0, 1, 101), axis=1).T
    given = stored.stored_effects(none, x, quantiles, np.array([0.1, 3.0, 0.2, 2.0]))
    assert given["pair"][1].tolist() == [[1, 3], [1, 2], [2, 3]]
    assert "pair" not in stored.stored_effects(none, x[:1], quantiles[:1], np.ones(1))


def test_a_fit_has_effects_on_both_scales(tmp_path):
    fit = example_mars()
    for names in (("age",), ("urban",), ("age", "urban"), ("urban", "age")):
        found = fit.effect(*names, scale="probability")
        assert found["mean"].dims == names
        assert list(found) == list(fit.effect(*names)) == ["mean", "lower", "upper", "sd"]
        assert (found["lower"] <= found["mean"]).all()
        assert (found["mean"] <= found["upper"]).all()
        assert 0 < found["lower"].min() < found["upper"].max() < 1
    np.testing.assert_array_equal(fit.effect("age", scale="probability")["age"], fit.effect("age")["age"])
    assert fit.effect("age").identical(fit.effect("age", scale="log-odds"))
    fit.save(tmp_path / "fit.nc")
    again = tb.load(tmp_path / "fit.nc")
    for names in (("income",), ("age", "urban"), ("urban", "income")):
        assert again.effect(*names, scale="probability").identical(fit.effect(*names, scale="probability"))


def test_effects_are_near_those_of_predictions():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 2))
    y = rng.random(400) < expit(X[:, 0] * (1 + X[:, 1]))
    fit = tb.sample(tb.MARS(X, y, max_bases=6), draws=50, warmup=60, chains=2, seed=1, progress=False)
    found = fit.effect("x0", scale="probability")
    for value, mean, low, high in zip(*(found[part].values for part in ("x0", "mean", "lower", "upper")), strict=True):
        draws = expit(fit.log_odds(np.column_stack([np.full(400, value), X[:, 1]]))).mean(2)
        assert abs(draws.mean() - mean) < 0.003  # though most draws look at half of the rows
        np.testing.assert_allclose([low, high], np.quantile(draws, [0.03, 0.97]), atol=0.02)


def test_a_fit_of_one_variable_has_no_pairs(tmp_path):
    X = np.random.default_rng(0).random((200, 1))
    fit = tb.sample(tb.MARS(X, X[:, 0] > 0.5, max_bases=3), draws=10, warmup=20, chains=2, seed=1, progress=False)
    fit.save(tmp_path / "fit.nc")
    assert tb.load(tmp_path / "fit.nc").effect("x0", scale="probability").sizes == {"x0": 60}
    assert stored.stored_pairs(fit.table) == []


@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        (("age",), {"scale": "odds"}, "scale 'odds' is not known; choose one of log-odds, probability"),
        (("age",), {"scale": "probability", "grids": ([30.0],)}, "grids, draws and another interval do not go with it"),
        (("age",), {"scale": "probability", "draws": 50}, "grids, draws and another interval do not go with it"),
        (("age",), {"scale": "probability", "interval": 0.5}, "stored with 94% intervals"),
        (("agee",), {"scale": "probability"}, "no variable 'agee'"),
    ],
)
def test_what_is_not_stored_is_refused(names, options, said):
    with pytest.raises(ValueError, match=said):
        example_mars().effect(*names, **options)


def test_pairs_that_are_stored_are_named():
    fit = example_mars()
    fit.table = fit.table.isel(pairs=[0])
    with pytest.raises(
        ValueError, match=r"'income' and 'age' do together is not stored; these pairs are: 'age' and 'ur"
    ):
        fit.effect("income", "age", scale="probability")
    with pytest.raises(ValueError, match='take scale="log-odds"'):
        tb.plots.interaction(fit, "income", "age")


def test_an_older_fit_says_that_it_has_no_probabilities():
    fit = example_mars()
    fit.table = fit.table.drop_vars(["grid", "probability", "pair", "pair_grid", "pair_probability"])
    for draw in (lambda: fit.effect("age", scale="probability"), lambda: tb.plots.effects(fit)):
        with pytest.raises(
            ValueError, match="version that stored no effects on the probability scale; fit again, or t"
        ):
            draw()
    assert tb.plots.effects(fit, scale="log-odds").axes
