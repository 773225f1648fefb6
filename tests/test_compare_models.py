"""Models side by side on the same rows, whatever order these have in each of them."""

import arviz_stats
import numpy as np
import pandas as pd
import pytest
from test_loo import QUICK, own, simulated

import tallbayes as tb
from tallbayes.data import pieces
from tallbayes.engines.engine import Local
from tallbayes.results import cross_validation
from tallbayes.rows.passes import LENGTH

ROWS = 12_000
FORMULAS = {"x": "y ~ x", "all": "y ~ x + z + size + (1 | bank)", "sizes": "y ~ size", "spline": "y ~ s(x)"}


@pytest.fixture(scope="module")
def frame():
    return simulated(ROWS, seed=3)


@pytest.fixture(scope="module")
def fits(frame):
    return {name: tb.fit(formula, frame, warmup=300, **QUICK) for name, formula in FORMULAS.items()}


@pytest.fixture(scope="module")
def exact(fits):
    return tb.compare_models(fits, rows=ROWS, progress=False)


def test_the_right_one_is_first(fits, exact):
    assert fits["sizes"].stats["distinct_rows"] == 6
    assert exact.index.tolist()[0] == "all"
    assert exact.index.tolist()[-1] == "sizes"
    assert exact["rank"].tolist() == [0, 1, 2, 3]
    assert exact.loc["all", ["elpd_diff", "dse"]].tolist() == [0, 0]
    assert (exact["subsampling_se"] == 0).all()
    assert (exact["subsampling_dse"] == 0).all()
    assert not exact.loc[["all", "x", "sizes"], "warning"].any()


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, in arviz
def test_all_rows_give_what_arviz_gives(frame):
    few, trees = frame.iloc[:1_500], {}
    fits = {name: tb.fit(FORMULAS[name], few, **QUICK) for name in ("x", "all", "sizes")}
    for name, fit in fits.items():
        trees[name] = fit.to_arviz()
        trees[name]["log_likelihood"] = fit.log_likelihood(rows=None, progress=False).to_dataset()
    wanted, found = arviz_stats.compare(trees), tb.compare_models(fits, progress=False)
    assert wanted.index.tolist() == found.index.tolist()
    for column in ("elpd", "p", "elpd_diff", "se", "dse"):
        np.testing.assert_allclose(found[column], wanted[column].astype(float), rtol=1e-4, atol=1e-9)


def test_subsamples_are_within_their_stated_error(fits, exact):
    """Errors of at most 6 standard errors; the difference is known far better than either of the two."""
    for seed in range(5):
        found = tb.compare_models(fits, rows=3_000, seed=seed, progress=False)
        for name in ("x", "sizes"):
            one, true = found.loc[name], exact.loc[name]
            assert abs(one["elpd"] - true["elpd"]) < 6 * one["subsampling_se"] + 1e-9 * abs(true["elpd"])
            assert abs(one["elpd_diff"] - true["elpd_diff"]) < 6 * one["subsampling_dse"]
            assert one["subsampling_dse"] < 0.05 * one["dse"]
            assert one["dse"] == pytest.approx(true["dse"], rel=1e-3)


def test_the_spread_of_differences_comes_from_many_rows(fits, exact, monkeypatch):
    monkeypatch.setattr(cross_validation, "MANY", 6_000)
    found = tb.compare_models(fits, rows=1_000, progress=False)
    for name in ("x", "sizes"):
        assert found.loc[name, "dse"] == pytest.approx(exact.loc[name, "dse"], rel=0.1)


def test_families_are_compared_with_all_of_their_densities(frame):
    poisson = tb.fit("claims ~ x", frame, "poisson", **QUICK)
    spread = tb.fit("claims ~ x", frame, tb.NegativeBinomial(2.5), **QUICK)
    found = tb.compare_models(poisson=poisson, spread=spread, progress=False)
    assert found.index[0] == "spread"
    assert found.loc["poisson", "elpd_diff"] > 5 * found.loc["poisson", "dse"]
    normal, other = tb.fit("v ~ x", frame, "gaussian", **QUICK), tb.sample(own(frame), **QUICK)
    same = tb.compare_models(normal=normal, other=other, progress=False)
    assert same["elpd_diff"].iloc[1] < 0.5  # the same model, with other priors


def test_what_loo_gave_can_be_compared(fits, exact):
    looked = {name: fits[name].loo(rows=ROWS, progress=False) for name in ("x", "spline")}
    found = tb.compare_models(looked, all=fits["all"], rows=ROWS, progress=False)
    pd.testing.assert_frame_equal(found.drop(columns="rank"), exact.loc[found.index].drop(columns="rank"))


def test_rows_on_workers_with_some_left_out(frame, monkeypatch):
    """Parts lose rows, so that places are those among the rows that are used."""
    monkeypatch.setattr(pieces, "PIECE", LENGTH)
    holes = pd.concat([frame, frame, frame], ignore_index=True)
    holes.loc[::11, "x"] = np.nan
    given = {"missing": "drop", **QUICK}
    here = {name: tb.fit(formula, holes, **given) for name, formula in (("x", "y ~ x"), ("both", "y ~ x + (1 | bank)"))}
    wanted = tb.compare_models(here, rows=2_000, progress=False)
    there = dict(here)
    there["x"] = tb.fit("y ~ x", holes, engine=Local(3), **given)
    pd.testing.assert_frame_equal(tb.compare_models(there, rows=2_000, progress=False), wanted)


def test_trials_keep_their_numbers(frame):
    rng = np.random.default_rng(2)
    data = frame.assign(m=rng.integers(1, 4, ROWS)).assign(k=lambda frame: frame["m"] * frame["y"])
    small, large = (tb.fit(f"p(k, m) ~ {right}", data, **QUICK) for right in ("size", "size + x"))
    exact = tb.compare_models(small=small, large=large, rows=2 * ROWS, progress=False)
    found = tb.compare_models(small=small, large=large, rows=4_000, progress=False)
    assert exact.index.tolist() == found.index.tolist() == ["large", "small"]
    off = abs(found.loc["small", "elpd_diff"] - exact.loc["small", "elpd_diff"])
    assert off < 6 * found.loc["small", "subsampling_dse"]


def test_other_data_are_refused(fits, frame):
    few = tb.fit("y ~ x", frame.iloc[1:], **QUICK)
    with pytest.raises(
        ValueError, match=r"is of 1[12],[09]{3} rows and '.*' of 1[12],[09]{3}; compare models of the same"
    ):
        tb.compare_models(a=fits["x"], b=few, progress=False)
    turned = tb.fit("y ~ x", frame.iloc[::-1], **QUICK)
    with pytest.raises(ValueError, match="have other outcomes or weights in the same rows"):
        tb.compare_models(a=fits["x"], b=turned, progress=False)
    other = tb.fit("v ~ x", frame, "gaussian", **QUICK)
    with pytest.raises(ValueError, match="y and log"):
        tb.compare_models(a=fits["x"], b=other, progress=False)


def test_what_cannot_be_compared(fits, frame):
    merged = tb.sample(tb.GLM("y ~ size", frame), **QUICK)
    with pytest.raises(ValueError, match="rows of 'b' were sorted by group, or equal ones were merged"):
        tb.compare_models(a=fits["x"], b=merged, progress=False)
    with pytest.raises(ValueError, match="rows of 'b' were sorted by group"):
        tb.compare_models(a=fits["x"], b=fits["all"].loo(rows=500, progress=False), progress=False)
    with pytest.raises(ValueError, match=r"evaluated on different rows; give fit\.loo"):
        tb.compare_models(a=fits["x"], b=fits["spline"].loo(rows=500, progress=False), rows=600, progress=False)
    with pytest.raises(ValueError, match="'b' is WAIC, but the comparison is by LOO"):
        tb.compare_models(a=fits["x"], b=fits["spline"].waic(rows=500, progress=False), rows=500, progress=False)


def test_by_waic(fits):
    found = tb.compare_models(fits, kind="waic", rows=2_000, progress=False)
    assert found.index[0] == "all"
    assert not found["warning"].any()


def test_loaded_fits(fits, frame, tmp_path):
    for name in ("x", "all"):
        fits[name].save(tmp_path / f"{name}.nc")
    loaded = {name: tb.load(tmp_path / f"{name}.nc") for name in ("x", "all")}
    with pytest.raises(
        ValueError, match=r"data was .*DataFrame, which files do not keep: give it again, as in compare_models"
    ):
        tb.compare_models(loaded, progress=False)
    found = tb.compare_models(loaded, data=frame, rows=2_000, progress=False)
    wanted = tb.compare_models({name: fits[name] for name in loaded}, rows=2_000, progress=False)
    pd.testing.assert_frame_equal(found, wanted)
