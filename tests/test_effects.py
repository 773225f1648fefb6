"""Average predictions, comparisons and slopes: against sums over all rows and draws by hand, and published figures.

Errors of published means are those of some 2,000 effective draws. False alarms: below 1e-6 a comparison.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tallbayes as tb
from tallbayes.data import pieces
from tallbayes.engines.engine import Local
from tallbayes.results import averages
from tallbayes.splines.example import example_mars

SURE = 4.9  # standard errors
EFFECTIVE = 2_000  # draws behind published means


def rows(n=3_000, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "g": rng.choice(list("abc"), n),
            "k": rng.integers(1, 4, n),
            "b": rng.random(n) < 0.5,
            "bank": rng.integers(0, 8, n),
            "w": rng.integers(0, 4, n),
            "days": rng.uniform(0.5, 2, n),
        }
    )
    data["eta"] = -1 + 0.7 * data.x + 0.5 * (data.g == "b") - 0.4 * (data.k == 3) + 0.3 * data.b * data.x
    data["eta"] += np.linspace(-0.6, 0.6, 8)[data.bank]
    data["y"] = (rng.random(n) < 1 / (1 + np.exp(-data.eta))).astype(int)
    data["count"] = rng.poisson(np.exp(data.eta) * data.days)
    data["size"] = data.eta + rng.normal(size=n)
    return data


def published(name):
    return pd.read_csv(Path(__file__).parent / "published" / f"{name}.csv")


DATA = rows()
FEW = {"draws": 300, "seed": 1, "progress": False}


@pytest.fixture(scope="module")
def fit():
    return tb.fit("y ~ x*b + g + C(k)", DATA, **FEW)


def by_hand(fit, low, high, compare=np.subtract):
    """Draws of a comparison, with all rows x draws in memory."""
    beta = fit.draws.reshape(-1, len(fit.coefficients))
    low, high = (fit.family.mean(beta @ fit.formula.apply(one)).mean(axis=1) for one in (low, high))
    return compare(high, low)


def same(line, draws, error=1e-9):
    """Whether a line of a table tells of these draws."""
    low, high = np.quantile(draws, [0.03, 0.97])
    expected = [draws.mean(), draws.std(ddof=1), low, high]
    return np.allclose(line[["mean", "sd", "eti94_lb", "eti94_ub"]].astype(float), expected, rtol=1e-6, atol=error)


def test_comparisons_are_those_of_all_rows_and_draws(fit):
    table = fit.avg_comparisons().set_index(["term", "contrast"])
    assert list(table.index) == [
        *(("x", "+1"), ("b", "True - False"), ("g", "b - a"), ("g", "c - a"), ("k", "2 - 1"), ("k", "3 - 1"))
    ]
    pairs = {
        ("x", "+1"): (DATA, DATA.assign(x=DATA.x + 1)),
        ("b", "True - False"): (DATA.assign(b=False), DATA.assign(b=True)),
        ("g", "c - a"): (DATA.assign(g="a"), DATA.assign(g="c")),
        ("k", "3 - 1"): (DATA.assign(k=1), DATA.assign(k=3)),
    }
    for name, sides in pairs.items():
        assert same(table.loc[name], by_hand(fit, *sides))


@pytest.mark.parametrize(
    ("asked", "contrast", "low", "high"),
    [
        ({"x": 2}, "+2", {}, {"x": DATA.x + 2}),
        ({"x": (-1, 1.5)}, "1.5 - -1", {"x": -1}, {"x": 1.5}),
        ({"x": "minmax"}, "max - min", {"x": DATA.x.min()}, {"x": DATA.x.max()}),
        ({"x": "sd"}, "+1 sd", {"x": DATA.x - DATA.x.std() / 2}, {"x": DATA.x + DATA.x.std() / 2}),
        ({"x": "2sd"}, "+2 sd", {"x": DATA.x - DATA.x.std()}, {"x": DATA.x + DATA.x.std()}),
        ({"g": ("c", "b")}, "b - c", {"g": "c"}, {"g": "b"}),
        ({"k": (2, 3)}, "3 - 2", {"k": 2}, {"k": 3}),
        ({"b": (True, False)}, "False - True", {"b": True}, {"b": False}),
    ],
)
def test_what_is_compared(fit, asked, contrast, low, high):
    table = fit.avg_comparisons(asked)
    assert table["contrast"].tolist() == [contrast]
    assert same(table.iloc[0], by_hand(fit, DATA.assign(**low), DATA.assign(**high)))


def test_pairs_of_levels(fit):
    assert fit.avg_comparisons({"g": "pairwise"})["contrast"].tolist() == ["b - a", "c - a", "c - b"]
    assert fit.avg_comparisons({"g": "sequential"})["contrast"].tolist() == ["b - a", "c - b"]


@pytest.mark.parametrize(
    ("comparison", "compare"),
    [
        ("ratio", lambda high, low: high / low),
        ("lnratio", lambda high, low: np.log(high / low)),
        ("lnor", lambda high, low: np.log(high / (1 - high)) - np.log(low / (1 - low))),
        ("lift", lambda high, low: (high - low) / low),
    ],
)
def test_kinds_of_comparison(fit, comparison, compare):
    table = fit.avg_comparisons("x", comparison=comparison)
    assert same(table.iloc[0], by_hand(fit, DATA, DATA.assign(x=DATA.x + 1), compare))


def test_slopes(fit):
    table = fit.avg_slopes("x", by="g")
    assert table["contrast"].tolist() == ["dY/dX"] * 3
    for _, line in table.iterrows():
        own, beta = DATA[DATA.g == line.g], fit.draws.reshape(-1, len(fit.coefficients))
        chance = fit.family.mean(beta @ fit.formula.apply(own))
        names = list(fit.coefficients)
        slope = beta[:, [names.index("x")]] + beta[:, [names.index("x:b")]] * own.b.to_numpy()
        assert same(line, (chance * (1 - chance) * slope).mean(axis=1), 1e-7)


def test_slopes_of_categories_are_differences(fit):
    assert fit.avg_slopes("g").equals(fit.avg_comparisons("g"))


def test_predictions(fit):
    table = fit.avg_predictions({"x": [-1, 1], "b": [True, False]}, by="k")
    assert table[["x", "b", "k"]].to_numpy().tolist() == [
        [x, b, k] for k in (1, 2, 3) for x in (-1.0, 1.0) for b in (True, False)
    ]
    for _, line in table.iterrows():
        own = DATA[DATA.k == line.k].assign(x=line.x, b=line.b)
        assert same(line, by_hand(fit, own, own, lambda high, low: high))
    alone = fit.avg_predictions()
    assert list(alone) == ["mean", "sd", "eti94_lb", "eti94_ub", "mcse_mean"]
    assert fit.avg_predictions("g")["g"].tolist() == ["a", "b", "c"]


def test_one_row_is_an_average_of_itself(fit):
    one = DATA.iloc[[7]]
    table = fit.avg_predictions(data=one, draws=10**6)
    assert np.allclose(table[["mean", "eti94_lb", "eti94_ub"]], fit.predict(one, draws=10**6), rtol=1e-12)


def test_weights_count_rows():
    weighted = tb.fit("y ~ x + g", DATA[DATA.w > 0], weights="w", **FEW)
    often = DATA.loc[DATA.index.repeat(DATA.w)]
    table = weighted.avg_comparisons(by="b")
    assert np.allclose(table["mean"], weighted.avg_comparisons(by="b", data=often)["mean"], rtol=1e-9)
    assert not np.allclose(table["mean"], weighted.avg_comparisons(by="b", data=DATA[DATA.w > 0])["mean"], rtol=1e-4)
    given = weighted.avg_comparisons(by="b", data=DATA[DATA.w > 0], weights="w")
    assert given.equals(table)


def test_rows_with_missing_values_are_left_out_as_they_were():
    holes = DATA.copy()
    holes.loc[::7, "x"] = np.nan
    holes.loc[1::7, "y"] = np.nan
    fit = tb.fit("y ~ x + g", holes, missing="drop", **FEW)
    assert np.allclose(fit.avg_slopes()["mean"], fit.avg_slopes(data=holes.dropna())["mean"], rtol=1e-9)
    with pytest.raises(ValueError, match="column 'x' has 429 missing values"):
        fit.avg_slopes(data=holes)


def test_counts_with_exposure_and_offsets():
    fit = tb.fit("count ~ x", DATA, tb.Poisson(exposure="days"), **FEW)
    beta = fit.draws.reshape(-1, 2)
    rate = np.exp(beta @ fit.formula.apply(DATA)) * DATA.days.to_numpy()
    assert same(fit.avg_predictions().iloc[0], rate.mean(axis=1))
    written = tb.fit("count ~ x + offset(log(days))", DATA, "poisson", **FEW)
    assert same(written.avg_predictions().iloc[0], np.exp(_eta(written)).mean(axis=1))
    assert written.avg_comparisons()["term"].tolist() == ["x", "days"]
    added = tb.fit("count ~ x", DATA, "poisson", offset=np.log(DATA.days), **FEW)
    with pytest.raises(ValueError, match="fitted with an array of offsets, so rows need one"):
        added.avg_predictions()
    assert added.avg_predictions(offset=0.0)["mean"][0] > 0


def _eta(fit):
    return fit.draws.reshape(-1, 2) @ fit.formula.apply(DATA) + np.log(DATA.days.to_numpy())


@pytest.mark.parametrize(("outcome", "family"), [("y", "bernoulli"), ("size", "gaussian")])
def test_groups(outcome, family):
    fit = tb.fit(f"{outcome} ~ x + (1 | bank)", DATA, family, **FEW)
    beta = fit.posterior["beta"].values.reshape(-1, 2)
    effects = fit.posterior["1|bank"].values.reshape(len(beta), -1)
    eta = beta @ fit.formula.apply(DATA) + effects[:, DATA.bank]
    assert same(fit.avg_predictions().iloc[0], fit.family.mean(eta).mean(axis=1))
    by_bank = fit.avg_predictions(by="bank")
    assert by_bank["bank"].tolist() == list(range(8))
    assert same(by_bank.iloc[3], fit.family.mean(eta[:, (DATA.bank == 3).to_numpy()]).mean(axis=1))
    with pytest.raises(ValueError, match="average by it instead"):
        fit.avg_comparisons("bank")


def test_groups_that_were_never_seen_have_effects_of_their_own():
    fit = tb.fit("size ~ x + (1 | bank)", DATA, "gaussian", **FEW)
    new = pd.DataFrame({"x": [0.0, 0.0, 0.0], "bank": [100, 101, 101]})
    table = fit.avg_predictions(by="bank", data=new)
    sigma = fit.posterior["1|bank_sigma"].values
    spread = np.sqrt((sigma**2).mean() + fit.draws[..., 0].var())
    assert np.allclose(table["sd"], spread, rtol=0.15)
    both = fit.avg_predictions(data=new)
    weights = np.array([1, 2]) / 3
    assert both["sd"][0] == pytest.approx(np.sqrt((weights**2).sum()) * spread, rel=0.2)
    assert np.allclose(table["mean"], both["mean"][0], atol=SURE * spread / np.sqrt(1_200))


def test_splines():
    fit = example_mars()
    x = pd.DataFrame(np.random.default_rng(0).random((200, len(fit.variables))), columns=fit.variables)
    if fit.formula is None:
        with pytest.raises(ValueError, match="no formula"):
            fit.avg_slopes(data=x)
    data = DATA.head(1_000)
    fit = tb.fit("y ~ s(x, b)", data, draws=100, seed=1, progress=False)
    low, high = (1 / (1 + np.exp(-fit.log_odds(data.assign(b=b)))) for b in (False, True))
    draws = (high - low).mean(axis=2).ravel()
    assert same(fit.avg_comparisons("b").iloc[0], draws)


# A subsample of the rows


def test_a_subsample_tells_how_draws_differ(fit):
    """Its error is as it should be: of the mean within what is stated, of the sd some 1/sqrt(rows)."""
    exact = fit.avg_comparisons("x", rows=3_000).iloc[0]
    some = [fit.avg_comparisons("x", rows=600, seed=seed).iloc[0] for seed in range(12)]
    off = np.array([(one["mean"] - exact["mean"]) / one["mcse_mean"] for one in some])
    assert np.abs(off).max() < SURE
    assert np.abs([one["sd"] / exact["sd"] - 1 for one in some]).max() < 0.15
    assert len({one["mean"] for one in some}) == len(some)


def test_without_the_centre_over_all_rows_a_subsample_is_far_off(fit, monkeypatch):
    """A negative control: averages of the subsample alone."""
    exact = fit.avg_predictions(rows=3_000)["mean"][0]

    def alone(sketch, sides, draws, centre):
        moved, error = right(sketch, sides, draws, centre)
        means = centre.mean(np.ascontiguousarray(sketch.features[:, 0].T))
        return moved + means.mean() - everything, error

    right = averages._moved
    everything = np.mean(fit.family.mean(fit._centre(None).beta @ fit.formula.apply(DATA)))
    monkeypatch.setattr(averages, "_moved", alone)
    wrong = [fit.avg_predictions(rows=600, seed=seed).iloc[0] for seed in range(5)]
    assert max(abs(one["mean"] - exact) / one["mcse_mean"] for one in wrong) > SURE


def test_rows_of_small_groups_are_kept(fit):
    few = fit.avg_predictions(by="bank", rows=1)  # 500 of each, which are all
    assert few.equals(fit.avg_predictions(by="bank", rows=10**6))


# Where rows are


def test_memory_files_and_engines_give_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 512)
    DATA.drop(columns="eta").to_parquet(tmp_path / "rows.parquet")
    fits = [
        tb.fit("y ~ x*b + g + (1 | bank)", data, draws=100, seed=1, progress=False)
        for data in (DATA, tmp_path / "rows.parquet")
    ]
    asked = {"by": "g", "rows": 100}
    table = fits[0].avg_slopes(**asked)
    assert table.equals(fits[1].avg_slopes(**asked))
    for workers in (2, 3):
        assert table.equals(fits[1].avg_slopes(**asked, engine=Local(workers)))
    fits[1].save(tmp_path / "fit.nc")
    assert table.equals(tb.load(tmp_path / "fit.nc").avg_slopes(**asked))
    fits[0].save(tmp_path / "held.nc")
    loaded = tb.load(tmp_path / "held.nc")
    with pytest.raises(ValueError, match=r"give it again, as in fit.avg_slopes\(data=...\)"):
        loaded.avg_slopes(**asked)
    assert table.equals(loaded.avg_slopes(**asked, data=DATA))


# Published figures


@pytest.fixture(scope="module")
def wells():
    """Households in Bangladesh that switched to another well or not (Gelman and Hill, 2007)."""
    return published("wells").assign(dist100=lambda data: data.dist / 100, educ4=lambda data: data.educ / 4)


def agrees(line, figure):
    return abs(line["mean"] - figure) < SURE * np.hypot(line["mcse_mean"], line["sd"] / np.sqrt(EFFECTIVE))


def test_slopes_in_the_documentation_of_bambi(wells):
    """It models P(switch == 0), so that signs are the other way round there."""
    formula = "switch ~ dist100 + arsenic + educ4 + dist100:educ4 + arsenic:educ4"
    fit = tb.fit(formula, wells, seed=1, progress=False)
    assert agrees(fit.avg_slopes("arsenic").iloc[0], 0.111342)
    by = fit.avg_slopes("arsenic", by="educ4").set_index("educ4")
    for educ4, figure in {0.0: 0.092389, 1.25: 0.112334, 2.5: 0.130748}.items():
        assert agrees(by.loc[educ4], figure)
    plain = tb.fit("switch ~ dist100 + arsenic + educ4", wells, seed=1, progress=False)
    grid = pd.DataFrame({"dist100": [0.2, 0.5, 0.8], "arsenic": 1.5, "educ4": [1.0, 1.2, 2.0]})
    found = plain.avg_slopes("arsenic", by="dist100", data=grid)
    ends = [(0.092806, 0.128775), (0.096543, 0.134562), (0.096476, 0.135079)]
    for (_, line), figure, (low, high) in zip(found.iterrows(), [0.110797, 0.115632, 0.116957], ends, strict=True):
        assert agrees(line, figure)
        assert abs(line["eti94_lb"] - low) < 0.25 * line["sd"]  # of highest densities, of 4,000 draws
        assert abs(line["eti94_ub"] - high) < 0.25 * line["sd"]


def test_comparisons_in_regression_and_other_stories(wells):
    fit = tb.fit("switch ~ dist100 + arsenic + educ4", wells, seed=1, progress=False)
    table = fit.avg_comparisons({"dist100": (0, 1), "arsenic": (0.5, 1), "educ4": (0, 3)}).set_index("term")
    for term, figure, rounding in [("dist100", -0.205, 5e-4), ("arsenic", 0.0566, 5e-5), ("educ4", 0.116, 5e-4)]:
        line = table.loc[term]
        error = np.hypot(line["mcse_mean"], line["sd"] / np.sqrt(EFFECTIVE))
        assert abs(line["mean"] - figure) < SURE * error + rounding


def test_predictions_and_contrasts_in_the_documentation_of_marginaleffects():
    """Medians of brms, with flat priors of slopes; survivors of the Titanic."""
    data = published("titanic").rename(columns={"passengerClass": "ticket"})
    fit = tb.fit("survived ~ woman * age + ticket", data, prior=tb.Normal(0, 100), draws=5_000, seed=1, progress=False)
    age = data.age.mean()
    at = pd.DataFrame({"woman": [0, 1, 0, 1], "age": age, "ticket": ["1st", "3rd", "2nd", "1st"]})
    found = fit.avg_predictions(by=["woman", "ticket"], data=at, draws=20_000)
    figures = {(0, "1st"): (0.51493, 0.431922, 0.601875), (1, "3rd"): (0.570103, 0.49378, 0.644197)}
    for (woman, ticket), (figure, low, high) in figures.items():
        line = found[(found.woman == woman) & (found.ticket == ticket)].iloc[0]
        skew = 0.05 * line["sd"]  # between the mean and the median, at most
        assert abs(line["mean"] - figure) < SURE * line["sd"] / np.sqrt(EFFECTIVE) + skew
        wide = fit.avg_predictions(data=at[(at.woman == woman) & (at.ticket == ticket)], interval=0.95).iloc[0]
        assert abs(wide["eti95_lb"] - low) < 0.25 * line["sd"]
        assert abs(wide["eti95_ub"] - high) < 0.25 * line["sd"]
    woman = pd.DataFrame({"woman": [1], "age": [age], "ticket": ["1st"]})
    assert agrees(fit.avg_comparisons({"ticket": ("1st", "3rd")}, data=woman).iloc[0], -0.365376)
    assert agrees(fit.avg_comparisons({"woman": (0, 1)}, data=woman).iloc[0], 0.420368)


# What cannot be


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"variables": "z"}, "no variable 'z'; it has 'x', 'b', 'g', 'k'"),
        ({"variables": "xx"}, "did you mean 'x'?"),
        ({"variables": 3}, "variables must be the name of a variable, a list of names, or a dict"),
        ({"variables": {}}, "variables must be the name"),
        ({"variables": {"x": "iqr"}}, "a number to add, a pair of numbers, or one of sd, 2sd, minmax, not 'iqr'"),
        ({"variables": {"x": 0}}, "a number to add"),
        ({"variables": {"x": (1, 1)}}, "a number to add"),
        ({"variables": {"g": ("a", "z")}}, r"a pair of its levels \('a', 'b', 'c'\)"),
        ({"comparison": "sum"}, "comparison 'sum' is not known"),
        ({"by": "nothing"}, "nothing"),
        ({"by": 3}, "by must be the name of a column, or a list, not 3"),
        ({"weights": "g"}, "weights 'g' must be numbers"),
        ({"draws": 0}, "draws must be a whole number"),
        ({"rows": -1}, "rows must be a whole number"),
        ({"interval": 2}, "interval must be a number between 0 and 1"),
        ({"seed": "a"}, "seed must be a whole number"),
        ({"offset": 1.0}, "fitted without an offset"),
        ({"data": 3}, "data"),
        ({"data": {"x": [1.0]}}, "b"),
    ],
)
def test_wrong_arguments_are_named(fit, given, said):
    with pytest.raises(ValueError, match=said):
        fit.avg_comparisons(**given)


def test_what_is_no_number_or_not_finite(fit):
    with pytest.raises(ValueError, match=r"variables\['x'\] must be a list of values"):
        fit.avg_predictions("x")
    with pytest.raises(ValueError, match=r"variables\['x'\] must be a list of numbers, not 'a'"):
        fit.avg_predictions({"x": ["a"]})
    with pytest.raises(ValueError, match=r"a list of its levels \('False', 'True'\), not 'yes'"):
        fit.avg_predictions({"b": ["yes"]})
    with pytest.raises(ValueError, match=r"slopes take names of variables only, but 'x' has 2"):
        fit.avg_slopes({"x": 2})
    with pytest.raises(ValueError, match="'x' is spread too widely"):
        fit.avg_slopes("x", data=DATA.assign(x=np.where(DATA.x > 0, 1e308, -1e308)))
    with pytest.raises(ValueError, match=r"term x, contrast .* is not finite"):
        fit.avg_comparisons({"x": (0, 1e6)}, comparison="lnor")
    arrays = tb.sample(tb.GLM.from_arrays(np.ones((20, 1)), [0, 1] * 10), draws=20, seed=1, progress=False)
    with pytest.raises(ValueError, match="no formula"):
        arrays.avg_slopes()


def test_a_fit_of_tb_sample_needs_the_data():
    fit = tb.sample(tb.GLM("y ~ x", DATA), draws=50, seed=1, progress=False)
    with pytest.raises(ValueError, match="does not know which data it was made from"):
        fit.avg_slopes()
    assert fit.avg_slopes(data=DATA)["term"].tolist() == ["x"]
