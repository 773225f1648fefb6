"""Group terms at the front door: names and shapes, families, priors, methods that agree, predictions, bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from on_disk import model_on_disk
from scipy import stats

import tallbayes as tb
from tallbayes.groups.mode import find_group_mode

FORMULA = "y ~ x + (1 | bank)"
# Some thirty means and sds are compared, in four tests: false-alarm rate 1e-6 in all.
LARGEST_Z = stats.norm.isf(1e-6 / 200)
SIZES = [400, 300, 200, 100, 60, 30, 8, 1]  # of the banks; the smallest have few events or none


def frame(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    bank = np.repeat(np.arange(len(SIZES)), SIZES)
    data = pd.DataFrame({"x": rng.standard_normal(bank.size), "bank": [f"b{code}" for code in bank]})
    data["eta"] = -1.5 + 0.8 * data["x"] + np.array([0.9, -0.6, 0.4, -1.0, 0.5, 1.2, -0.4, 0.3])[bank]
    data["y"] = (rng.random(bank.size) < 1 / (1 + np.exp(-data["eta"]))).astype(int)
    return data.sample(frac=1, random_state=1).reset_index(drop=True)  # groups are not together


DATA = frame()


def quick(formula: str = FORMULA, data: object = DATA, **options: object) -> tb.Fit:
    return tb.fit(formula, data, **({"draws": 300, "seed": 1, "progress": False} | options))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def fit() -> tb.Fit:
    return quick(draws=4_000)


def test_names_and_shapes(fit):
    assert fit.posterior["beta"].dims == ("chain", "draw", "coefficient")
    assert fit.posterior["1|bank"].dims == ("chain", "draw", "bank")
    assert fit.posterior["1|bank_sigma"].dims == ("chain", "draw")
    assert fit.posterior["bank"].values.tolist() == [f"b{code}" for code in range(8)]
    assert list(fit.summary().index[:4]) == ["Intercept", "x", "1|bank_sigma", "1|bank[b0]"]
    assert (fit.posterior["1|bank_sigma"] > 0).all()
    assert fit.stats["method"] == "thinned"
    assert fit.stats["exact"]
    assert fit.stats["groups"]["count"] == 8
    assert "rows" in fit.stats["why"]
    assert set(fit.stats["acceptance"]) == {"coefficients", "group effects", "scale of groups"}
    assert fit.stats["rows_per_draw"] < 3 * len(DATA)


def test_facts_on_groups(fit):
    counts = DATA.groupby("bank")["y"].agg(["size", "mean"])
    assert np.allclose(fit.groups["rows"], counts["size"])
    assert np.allclose(fit.groups["outcome"], counts["mean"])
    alone, seen = fit.groups["alone"].values, counts["mean"].to_numpy()
    assert np.isnan(alone[(seen == 0) | (seen == 1)]).all()
    mean = fit.posterior["1|bank"].mean(("chain", "draw")).values
    big = slice(0, 4)
    assert (np.abs(mean[big]) < np.abs(alone[big]) + 0.3).all()
    assert np.corrcoef(mean[big], alone[big])[0, 1] > 0.95


METHODS = {
    "mh": {"method": "mh"},
    "two-stage": {"method": "two-stage"},
    "stratified": {"method": tb.TwoStage(tb.Stratified(100, by="bank"))},
}


@pytest.fixture(scope="module")
def no_intercept() -> tb.Fit:
    """With an intercept, one parameter at a time mixes slowly: it and the effects are nearly exchangeable."""
    return quick("y ~ 0 + x + (1 | bank)", draws=4_000)


@pytest.mark.parametrize(
    "name",
    [pytest.param("mh", marks=pytest.mark.long), "two-stage", pytest.param("stratified", marks=pytest.mark.long)],
)
def test_all_methods_agree(no_intercept, name):
    options = METHODS[name]
    other = quick("y ~ 0 + x + (1 | bank)", draws=400, warmup=200, **options)
    table = tb.compare(reference=no_intercept, fit=other).loc["fit"]
    assert table["ess_min"] > 100
    assert table[["largest_z", "largest_z_sd"]].max() < LARGEST_Z
    assert other.stats["exact"]
    assert "lp" in other.sample_stats


def test_subchains_run():
    """With a warm-up long enough to tune the steps inside subchains."""
    fit = quick(method=tb.TwoStage(tb.Stratified(100, by="bank"), subchain=3), draws=50, warmup=60)
    assert np.isfinite(fit.draws).all()


@pytest.mark.parametrize("prior", [tb.HalfCauchy(1), tb.HalfNormal(0.5), tb.InverseSquare(0.05)])
def test_priors_of_tau(prior):
    fit = quick(group_prior=prior)
    assert fit.stats["groups"]["prior"] == str(prior)
    if isinstance(prior, tb.InverseSquare):
        assert fit.posterior["1|bank_sigma"].min() >= prior.lower


def test_a_narrow_prior_of_tau_makes_groups_equal():
    fit = quick(group_prior=tb.HalfNormal(1e-3))
    assert np.abs(fit.posterior["1|bank"]).max() < 0.02
    plain = quick("y ~ x")
    assert np.allclose(
        fit.posterior["beta"].mean(("chain", "draw")), plain.posterior["beta"].mean(("chain", "draw")), atol=0.05
    )


def test_the_lower_limit_is_stated_with_what_the_data_say_of_equal_groups():
    same = DATA.assign(bank=np.random.default_rng(5).permutation(DATA["bank"]))
    fit = quick(data=same, group_prior=tb.InverseSquare(0.01))
    assert fit.stats["groups"]["zero"] > 0.1
    assert "InverseSquare(lower=0.01); equal groups (sd 0) have" in fit.stats["groups"]["said"]
    assert quick().stats["groups"]["zero"] < 0.01


def test_weights_are_repeated_rows():
    weights = np.random.default_rng(2).integers(0, 3, len(DATA)) + (DATA["bank"] == "b7")
    twice = DATA.loc[DATA.index.repeat(weights)]
    a, b = quick(weights=weights, draws=1_500), quick(data=twice, draws=1_500)
    table = tb.compare(a=a, b=b).loc["b"]
    assert table[["largest_z", "largest_z_sd"]].max() < LARGEST_Z


def test_order_of_rows_and_threads_do_not_matter():
    a, b = quick(), quick()
    assert (a.draws == b.draws).all()
    shuffled = quick(data=DATA.sample(frac=1, random_state=3), draws=1_500)
    table = tb.compare(a=quick(draws=1_500), b=shuffled).loc["b"]
    assert table[["largest_z", "largest_z_sd"]].max() < LARGEST_Z


def test_rows_on_disk(fit):
    model = model_on_disk(tb.Hierarchical(FORMULA, DATA))
    other = tb.sample(model, "auto", 1_500, seed=2, progress=False)
    assert other.stats["method"] == "thinned"
    assert tb.compare(a=fit, b=other).loc["b"][["largest_z", "largest_z_sd"]].max() < LARGEST_Z
    assert np.allclose(other.groups["alone"], fit.groups["alone"], equal_nan=True)


def test_known_and_new_groups_are_predicted(fit):
    new = pd.DataFrame({"x": [0.0, 0.0, 0.0], "bank": ["b0", "b7", "nowhere"]})
    table = fit.predict(new)
    width = table["eti94_ub"] - table["eti94_lb"]
    assert width[0] < min(width[1], width[2])
    known = fit.posterior["beta"].sel(coefficient="Intercept") + fit.posterior["1|bank"].sel(bank="b0")
    assert abs(table["mean"][0] - float((1 / (1 + np.exp(-known))).mean())) < 0.01


def test_saved_and_loaded(fit, tmp_path):
    fit.save(tmp_path / "fit.nc")
    again = tb.load(tmp_path / "fit.nc")
    assert (again.draws == fit.draws).all()
    assert again.parameters == fit.parameters
    assert np.allclose(again.groups["alone"], fit.groups["alone"], equal_nan=True)
    new = DATA.head(5)
    assert again.predict(new).equals(fit.predict(new))
    assert "constant_data" in fit.to_arviz().children


def test_target_ess_looks_at_all_parameters():
    fit = quick(draws=20_000, target_ess=300)
    assert fit.summary()["ess_bulk"].min() >= 300
    assert fit.draws.shape[1] < 20_000


def test_arrays():
    X = np.column_stack([np.ones(len(DATA)), DATA["x"]])
    model = tb.Hierarchical.from_arrays(X, DATA["y"], DATA["bank"], coefficients=["Intercept", "x"])
    by_formula = tb.Hierarchical(FORMULA, DATA)
    theta = np.random.default_rng(1).normal(size=(2, len(model.names)))
    assert np.allclose(model.log_likelihood(theta), by_formula.log_likelihood(theta), rtol=1e-13)
    assert np.allclose(model.log_prior(theta), by_formula.log_prior(theta))


def test_a_group_that_lost_its_rows_has_its_prior():
    weights = (DATA["bank"] != "b3").astype(float)
    model = tb.Hierarchical(FORMULA, DATA, weights=weights)
    mode = find_group_mode(model)
    assert mode.at.effect_curvature[3] == 0
    fit = tb.sample(model, "auto", 2_000, seed=1, progress=False)
    z = fit.posterior["1|bank"].sel(bank="b3") / fit.posterior["1|bank_sigma"]
    assert abs(float(z.mean())) < 0.1
    assert abs(float(z.std()) - 1) < 0.1
    assert np.isnan(fit.groups["alone"].sel(bank="b3"))


BAD = {
    "mh proposal": ({"method": tb.MH("random-walk")}, "not for models with group terms"),
    "taylor": ({"method": tb.TwoStage(tb.Taylor())}, "without group terms"),
    "prior kind": ({"group_prior": tb.Normal(0, 1)}, "group_prior must be"),
    "no such stratum": ({"method": tb.TwoStage(tb.Stratified(10, by="county"))}, "county"),
    "two terms": ({"formula": "y ~ x + (1 | bank) + (1 | sent)"}, "one group term"),
    "no group": ({"formula": "y ~ x", "group_prior": tb.HalfNormal(1)}, "group term"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        quick(**options)


def test_models_say_which_formula_they_are_for():
    with pytest.raises(ValueError, match=r"tb\.Hierarchical"):
        tb.GLM(FORMULA, DATA)
    with pytest.raises(ValueError, match=r"tb\.GLM"):
        tb.Hierarchical("y ~ x", DATA)
    with pytest.raises(ValueError, match="only one level"):
        tb.Hierarchical.from_arrays(np.ones((3, 1)), [0, 1, 0], groups=[1, 1, 1])
    with pytest.raises(ValueError, match="groups has shape"):
        tb.Hierarchical.from_arrays(np.ones((3, 1)), [0, 1, 0], groups=[1, 2])


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_scales_of_group_priors_are_checked(scale):
    for kind in (tb.HalfCauchy, tb.HalfNormal, tb.InverseSquare):
        with pytest.raises(ValueError, match="positive number"):
            kind(scale)
