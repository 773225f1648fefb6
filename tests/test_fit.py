"""The front door: what users type, what they get, and what they are told when it cannot be."""

from __future__ import annotations

import os
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import tallbayes as tb

FORMULA = "y ~ x + g"
# Each comparison of two posteriors looks at some ten means and sds: false-alarm rate 1e-6 in all.
LARGEST_Z = stats.norm.isf(1e-6 / 40)


def frame(rows: int = 3_000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"x": rng.standard_normal(rows), "g": rng.choice(list("abc"), rows, p=[0.6, 0.39, 0.01])})
    eta = -1.5 + 0.8 * data["x"] + data["g"].map({"a": 0.0, "b": 0.5, "c": -0.5})
    data["y"] = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(int)
    return data


DATA = frame()


def quick(formula: str = FORMULA, data: object = DATA, **options: object) -> tb.Fit:
    return tb.fit(formula, data, **({"draws": 300, "warmup": 100, "seed": 1, "progress": False} | options))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def reference() -> tb.Fit:
    return quick(draws=5_000)


METHODS = {
    "mh one-at-a-time": {"method": tb.MH("one-at-a-time")},
    "mh random-walk": {"method": "mh", "draws": 2_500},
    "mh independence": {"method": tb.MH("independence"), "draws": 500},
    "two-stage": {"method": "two-stage", "draws": 500},
    "taylor with remainders": {"method": tb.TwoStage(tb.Taylor(300)), "draws": 400},
    "subsample": {"method": tb.TwoStage(tb.Subsample(1_500)), "draws": 1_600, "seed": 3},
    "case-control": {"method": tb.TwoStage(tb.CaseControl(1_000))},
    "stratified": {"method": tb.TwoStage(tb.Stratified(600, by="g"))},
    "subsample, subchain": {"method": tb.TwoStage(tb.Subsample(1_500), subchain=5), "draws": 2_000, "seed": 3},
}


# Kernels and surrogates are held against exact draws one by one; what is said here of these is said of others too.
ALIKE = ("mh independence", "taylor with remainders", "subsample", "stratified", "subsample, subchain")


@pytest.mark.parametrize(
    "options",
    [pytest.param(METHODS[name], id=name, marks=pytest.mark.long if name in ALIKE else ()) for name in METHODS],
)
def test_all_methods_agree(reference, options):
    fit = quick(**({"draws": 700} | options))
    table = tb.compare(reference=reference, fit=fit).loc["fit"]
    assert table["ess_min"] > 100
    assert table[["largest_z", "largest_z_sd"]].max() < LARGEST_Z
    assert fit.stats["exact"]


def test_agreement_is_not_for_free(reference):
    """The comparison tells apart posteriors under other data."""
    other = quick(data=frame(seed=1), draws=1_000)
    assert tb.compare(reference=reference, fit=other).loc["fit", "largest_z"] > LARGEST_Z


def test_a_function_as_surrogate(reference):
    model = tb.GLM(FORMULA, DATA)
    mode = tb.find_mode(model)

    def rough(theta):
        step = theta - mode.theta
        return -0.4 * step @ mode.curvature @ step

    fit = quick(method=tb.TwoStage(rough, "random-walk", subchain=3), draws=1_500)
    assert tb.compare(reference=reference, fit=fit).loc["fit", "largest_z"] < LARGEST_Z
    assert fit.stats["surrogate"] == "rough"


def test_what_a_fit_tells():
    fit = quick(method=tb.TwoStage(tb.CaseControl(1_000)))
    assert list(fit.posterior["coefficient"].values) == ["Intercept", "x", "g[T.b]", "g[T.c]"]
    assert fit.posterior["beta"].dims == ("chain", "draw", "coefficient")
    assert fit.posterior["beta"].shape == (4, 300, 4)
    stats = fit.stats
    assert {"compile", "design", "mode", "warmup", "sampling"} <= stats["seconds"].keys()
    assert stats["method"] == "two-stage"
    assert stats["surrogate"] == "CaseControl(size=1000, uniform=False)"
    assert stats["proposal"] == "one-at-a-time"
    assert stats["rows"] == 3_000
    assert stats["seed"] == 1
    assert 0 < stats["acceptance"]["stage 1"] < 1
    assert 0 < stats["acceptance"]["stage 2"] <= 1
    # Four updates a draw; only what passes stage 1 touches all rows, stage 1 touches the subsample alone.
    expected = 4 * 3_000 * stats["acceptance"]["stage 1"] + 3_000 / 100
    assert stats["rows_per_draw"] == pytest.approx(expected)


def test_same_seed_same_draws_and_a_seed_is_recorded():
    first, second, third = (quick(draws=50, seed=seed) for seed in (3, 3, None))
    np.testing.assert_array_equal(first.draws, second.draws)
    np.testing.assert_array_equal(quick(draws=50, seed=third.stats["seed"]).draws, third.draws)


def test_row_weights_are_copies():
    weights = np.random.default_rng(0).integers(0, 4, len(DATA))
    copies = DATA.loc[DATA.index.repeat(weights)]
    weighted, copied = quick(data=DATA.assign(w=weights), weights="w", draws=3_000), quick(data=copies, draws=3_000)
    assert tb.compare(copied=copied, weighted=weighted).loc["weighted", "largest_z"] < LARGEST_Z
    assert tb.compare(plain=quick(draws=3_000), weighted=weighted).loc["weighted", "largest_z"] > LARGEST_Z


def test_an_offset_shifts_the_intercept():
    plain, shifted = (
        quick(draws=3_000),
        quick(data=DATA.assign(o=1.0), offset="o", draws=3_000, prior=tb.Normal(0, 100)),
    )
    difference = plain.summary()["mean"] - shifted.summary()["mean"]
    np.testing.assert_allclose(difference, [1.0, 0.0, 0.0, 0.0], atol=0.1)


def test_duplicate_rows_are_merged_where_it_pays():
    fit = quick("y ~ g")
    assert fit.stats["distinct_rows"] == 6
    assert fit.stats["rows"] == 3_000
    assert quick("y ~ x").stats["distinct_rows"] == 3_000


def test_priors_by_name_matter():
    tight = quick(prior={"g[T.c]": tb.Normal(2.0, 0.01)}, draws=2_000).summary()
    assert tight.loc["g[T.c]", "mean"] == pytest.approx(2.0, abs=0.05)


def test_target_ess():
    fit = quick(target_ess=800, draws=None)
    assert fit.summary()["ess_bulk"].min() >= 800


def test_separation_warns_and_is_kept_with_the_fit():
    data = DATA.assign(y=np.where(DATA["g"] == "c", 0, DATA["y"]))
    with pytest.warns(tb.SeparationWarning, match=r"g\[T.c\]"):
        fit = quick(data=data)
    assert "g[T.c]" in fit.stats["warnings"][0]
    assert "g[T.c]" in repr(fit)


def test_parts_and_front_door_agree():
    method = tb.TwoStage(tb.Taylor())
    parts = tb.sample(tb.GLM(FORMULA, DATA), method, 200, seed=1, warmup=100, progress=False)
    np.testing.assert_array_equal(parts.draws, quick(method=method, draws=200).draws)


def test_a_saved_fit_predicts_as_before(tmp_path):
    fit = quick("y ~ center(x) + g")
    fit.save(tmp_path / "fit.nc")
    new = frame(50, seed=9)
    pd.testing.assert_frame_equal(tb.load(tmp_path / "fit.nc").predict(new), fit.predict(new))


BAD_OPTIONS = {
    "unknown method": ({"method": "nuts"}, "method 'nuts' is not known; choose one of auto, thinned, two-stage, mh"),
    "unknown proposal": ({"method": tb.MH("hmc")}, "proposal 'hmc' is not known"),
    "no draws": ({"draws": 0}, "draws must be a whole number of at least 1, not 0"),
    "half a chain": ({"chains": 0.5}, "chains must be a whole number"),
    "negative warm-up": ({"warmup": -1}, "warmup must be"),
    "negative seed": ({"seed": -1}, "seed must be"),
    "target of zero": ({"target_ess": 0}, "target_ess must be a positive number"),
    "unknown family": ({"family": "weibull"}, "family 'weibull' is not known"),
    "large subsample": (
        {"method": tb.TwoStage(tb.Subsample(4_000))},
        "asks for 4,000 rows, but the data has only 3,000",
    ),
    "unknown stratum": ({"method": tb.TwoStage(tb.Stratified(10, by="h"))}, "no column 'h'"),
    "prior of a stranger": ({"prior": {"fico": tb.Normal()}}, "prior given for 'fico', which is not a coefficient"),
    "weights of a stranger": ({"weights": "w"}, "no column 'w'"),
    "short weights": ({"weights": [1.0, 2.0]}, "weights has shape"),
    "negative weights": ({"weights": -np.ones(3_000)}, "weights must be positive or zero"),
    "missing offset": ({"offset": np.full(3_000, np.nan)}, "offset has 3000 missing or infinite values"),
}


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS.values(), ids=BAD_OPTIONS.keys())
def test_impossible_options(options, message):
    with pytest.raises(ValueError, match=message):
        quick(**options)


BAD_DATA = {
    "missing": (DATA.assign(x=DATA["x"].where(DATA.index != 7)), "column 'x' has 1 missing value .first at row 7"),
    "infinite": (DATA.assign(x=np.inf), "column 'x' has 3000 infinite values"),
    "constant outcome": (DATA.assign(y=1), "outcome 'y' is 1 in every row"),
    "outcome of two": (DATA.assign(y=2 * DATA["y"]), "outcome 'y' must be 0 or 1, but"),
    "no such column": (DATA.drop(columns="x"), "no column 'x'"),
    "empty": (DATA.head(0), "no rows"),
    "collinear": (DATA.assign(x=(DATA["g"] == "b") * 2.0), "linear combination"),
    "constant column": (DATA.assign(x=3.0), "'x' is a linear combination of 'Intercept'"),
}


@pytest.mark.parametrize(("data", "message"), BAD_DATA.values(), ids=BAD_DATA.keys())
def test_bad_data(data, message):
    with pytest.raises(ValueError, match=message):
        quick(data=data)


@pytest.fixture(scope="module")
def bank() -> pd.DataFrame:
    if "TALLBAYES_DATA" not in os.environ:
        assert os.environ.get("CI") != "true", "the bank data must be there in CI: set TALLBAYES_DATA"
        pytest.skip("TALLBAYES_DATA is not set")
    return tb.datasets.load_bank()


@pytest.mark.long  # the same check as above, of real data
def test_bank_methods_agree_on_all_coefficients(bank):
    """Fifteen coefficients, levels of 18 and 80 rows among them; the thinned kernel has the most effective draws."""
    formula = "y ~ poutcome + log_age + contact + education + marital"
    common = {"data": bank, "formula": formula}
    reference = quick(**common, draws=10_000)
    limit = stats.norm.isf(1e-6 / (4 * 15))
    assert len(reference.coefficients) == 15
    assert reference.stats["method"] == "thinned"
    for method, draws in (
        (tb.MH("independence"), 500),
        (tb.TwoStage(tb.Taylor(1_000)), 300),
        (tb.TwoStage(tb.CaseControl(2_000), "independence"), 1_000),
    ):
        fit = quick(**common, draws=draws, method=method)
        table = tb.compare(reference=reference, fit=fit).loc["fit"]
        assert table["ess_min"] > 50
        assert table[["largest_z", "largest_z_sd"]].max() < limit


def test_priors_may_be_texts() -> None:
    fit = quick("y ~ x", prior={"x": "normal(7, 0.001)"}, draws=50)
    assert abs(fit.summary()["mean"]["x"] - 7) < 0.01
    with pytest.raises(ValueError, match="the prior 'normal' is not like"):
        quick("y ~ x", "no_such_file.csv", prior="normal")
    with pytest.raises(ValueError, match="the group prior 'normal' is not like"):
        quick("y ~ x + (1 | g)", "no_such_file.csv", group_prior="normal")


def test_rows_of_counts_of_successes_are_those_of_the_data() -> None:
    rng = np.random.default_rng(2)
    data = {"x": rng.standard_normal(200), "sent": rng.integers(5, 9, 200), "y": rng.integers(1, 5, 200)}
    fit = quick("y ~ x", data, family=tb.Binomial(trials="sent"), draws=20, warmup=10)
    assert fit.stats["rows"] == 200
    assert fit.stats["distinct_rows"] == 400  # y=1 and y=0 apart
    assert "distinct" not in repr(fit)


def test_only_public_names_are_listed() -> None:
    estimators = ["BayesLinear", "BayesLogistic", "BayesPoisson", "MARSClassifier"]
    assert dir(tb) == sorted([*tb.__all__, *estimators, "__version__"])
    assert all(hasattr(tb, name) for name in dir(tb))


@pytest.mark.parametrize("name", ["BayesLogistic", "MARSClassifier"])
def test_what_to_install_for_estimators(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for module in [module for module in sys.modules if module.startswith("tallbayes.estimators.")]:
        monkeypatch.delitem(sys.modules, module)
    for module in [module for module in sys.modules if module.split(".")[0] == "sklearn"]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match=rf"tb\.{name} needs scikit-learn: pip install scikit-learn"):
        getattr(tb, name)
