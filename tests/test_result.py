import json
import tempfile

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr
from saved import change
from scipy import special, stats

import tallbayes as tb
from tallbayes.data.formula import Formula
from tallbayes.data.writing import check_writable
from tallbayes.families import Bernoulli, Binomial, Poisson
from tallbayes.groups.example import group_example
from tallbayes.groups.fit import HierarchicalFit
from tallbayes.groups.predict import GroupEffects
from tallbayes.results import file
from tallbayes.results.compare import compare, compare_parameters
from tallbayes.results.example import example
from tallbayes.results.file import load
from tallbayes.results.fit import Fit
from tallbayes.results.story import touched
from tallbayes.sampling import diagnostics

COLUMNS = [
    "mean",
    "sd",
    "eti94_lb",
    "eti94_ub",
    "ess_bulk",
    "ess_tail",
    "r_hat",
    "mcse_mean",
    "mcse_sd",
    "edpm",
]


def make(draws, names, seconds=60.0, **rest):
    """A fit with these draws (chain, draw, coefficient)."""
    axes = {"chain": np.arange(draws.shape[0]), "draw": np.arange(draws.shape[1])}
    stats = example(draws=1).stats
    del stats["columns"]  # which are others
    stats["seconds"]["sampling"] = seconds
    beta = {"beta": (("chain", "draw", "coefficient"), draws)}
    return Fit(
        posterior=xr.Dataset(beta, {**axes, "coefficient": list(names)}),
        sample_stats=xr.Dataset({"lp": (("chain", "draw"), draws[..., 0])}, axes),
        stats=stats,
        **rest,
    )


def loans(**rest):
    """A fit of y ~ center(fico) + bank, and the data that it was learned from."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"y": [0, 1] * 20, "fico": rng.normal(700, 50, 40), "bank": ["a", "a", "b", "b"] * 10})
    formula, _, _ = Formula.learn("y ~ center(fico) + bank", frame)
    draws = rng.normal([0.2, 0.01, -1.0], [0.5, 0.002, 0.3], (2, 500, 3))
    return make(draws, formula.coefficients, formula=formula, **rest), frame


def expected(fit, learned, fico, bank, offset=0.0, draws=300, tails=(0.03, 0.97)):
    """Mean and interval by hand."""
    X = np.array([np.ones(len(fico)), np.asarray(fico) - learned["fico"].mean(), np.asarray(bank) == "b"])
    every = fit.draws.reshape(-1, 3)
    beta = every[np.linspace(0, len(every) - 1, draws).round().astype(int)]
    p = 1 / (1 + np.exp(-(beta @ X + offset)))
    return np.column_stack([p.mean(0), *np.quantile(p, tails, axis=0)])


# Summary


def test_summary_has_exactly_these_columns_and_values():
    fit = example(chains=3, draws=400, seconds=30.0)
    table, draws = fit.summary(), fit.draws
    assert table.columns.tolist() == COLUMNS
    assert table.index.tolist() == ["Intercept", "fico"]
    np.testing.assert_allclose(table["mean"], draws.reshape(-1, 2).mean(0))
    np.testing.assert_allclose(table["sd"], draws.reshape(-1, 2).std(0, ddof=1))
    np.testing.assert_allclose(table["eti94_lb"], np.quantile(draws.reshape(-1, 2), 0.03, axis=0))
    np.testing.assert_allclose(table["eti94_ub"], np.quantile(draws.reshape(-1, 2), 0.97, axis=0))
    np.testing.assert_array_equal(table["ess_tail"], diagnostics.ess(draws, "tail"))
    np.testing.assert_array_equal(table["r_hat"], diagnostics.r_hat(draws))
    np.testing.assert_array_equal(table["mcse_sd"], diagnostics.mcse(draws, "sd"))
    np.testing.assert_allclose(table["edpm"], table["ess_bulk"] / 0.5)


def test_edpm_counts_sampling_alone_or_all_phases():
    fit = example(seconds=60.0)
    ess = diagnostics.ess(fit.draws[:, ::10])
    np.testing.assert_allclose(fit.edpm(thin=10), ess)
    np.testing.assert_allclose(fit.edpm(thin=10, setup=True), ess / (65.3 / 60))
    assert fit.edpm().index.tolist() == ["Intercept", "fico"]


def test_summary_of_a_single_draw_has_a_mean_and_no_diagnostics():
    table = example(chains=1, draws=1).summary()
    assert np.isfinite(table[["mean", "eti94_lb", "eti94_ub"]]).all(axis=None)
    assert table[["ess_bulk", "r_hat", "mcse_mean", "edpm"]].isna().all(axis=None)


def test_convergence_in_words():
    assert example().converged
    short = example(draws=20)
    assert not short.converged
    assert any("bulk ESS should be at least 400" in sentence for sentence in short.problems())


def test_an_approximation_is_never_said_to_have_converged():
    fit = example()
    fit.stats["exact"] = False
    assert fit.converged
    text = repr(fit)
    assert "mixing       mixed, approximate: the chains agree, but may all be off\n" in text
    assert "mixed, approximate" in fit._repr_html_()
    for words in (text, fit._repr_html_()):
        assert "converge" not in words
        assert "no problems found" not in words
    assert "mixed, approximate" not in repr(example())
    short = example(draws=20)
    short.stats["exact"] = False
    assert f"mixing       {short.problems()[0].split(':')[0]}" in repr(short)
    assert "mixed, approximate" not in repr(short)


def test_a_fit_without_draws_is_refused():
    with pytest.raises(ValueError, match="at least one draw"):
        example(draws=0)


def test_repr_tells_the_story():
    fit = example(chains=1, draws=50)
    fit.stats.update(exact=False, interrupted=True, distinct_rows=500, warnings=["first", "second"])
    text = repr(fit)
    for part in [
        "two-stage Metropolis-Hastings, approximate",
        "1 chain x 50, interrupted",
        "stage 1 0.410, stage 2 0.930",
        "410 touched per draw, of 1,000 (500 distinct), and 50 of the surrogate",
        "warmup 5.00, sampling 60.00",
        "bulk ESS should be at least 100",
        "warnings     first\n             second\n",
        *COLUMNS,
    ]:
        assert part in text
    assert "no problems found" in repr(example())
    assert "<table" in fit._repr_html_()


def test_long_sentences_are_wrapped_under_their_title():
    fit = example()
    fit.stats.update(why="word " * 60, warnings=["one " * 40 + "'a_long_name_that_is_not_split'", "two"])
    lines = fit._story().splitlines()
    assert max(map(len, lines)) <= 110
    start = next(i for i, line in enumerate(lines) if line.startswith("chosen       because word word"))
    assert all(line.startswith(" " * 13 + "word") for line in lines[start + 1 : start + 3])
    titles = [line[:13] for line in lines if not line.startswith(" ")]
    assert all(title.endswith(" ") for title in titles)
    story = " ".join(" ".join(lines).split())
    assert "because " + ("word " * 60).strip() + " draws" in story  # nothing is lost
    assert lines[-1] == " " * 13 + "two"  # a sentence begins on a line of its own
    assert "'a_long_name_that_is_not_split'" in fit._story()


def test_nothing_is_said_where_there_is_nothing_to_say():
    assert "chosen" not in repr(example())
    assert "warnings" not in repr(example())


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (0.0, "none touched per draw, of 60,000"),
        (0.0004, "fewer than 0.01 touched per draw, of 60,000"),
        (0.0448, "0.045 touched per draw, of 60,000"),
        (0.448, "0.45 touched per draw, of 60,000"),
        (9.74, "9.7 touched per draw, of 60,000"),
        (27.3, "27 touched per draw, of 60,000"),
        (41188.0, "41,188 touched per draw, of 60,000"),
        (60000.0, "60,000 touched per draw, 1.0 passes over 60,000"),
        (150_120.0, "150,120 touched per draw, 2.5 passes over 60,000"),
    ],
)
def test_rows_per_draw_in_words(rows, text):
    fit = example()
    fit.stats.update(rows=60_000, distinct_rows=60_000, rows_per_draw=rows, surrogate_rows_per_draw=0.0)
    assert f"rows         {text}\n" in repr(fit)
    assert touched(fit.stats) == tuple(text.split(" touched per draw, "))


def test_distinct_rows_in_words():
    fit = example()
    fit.stats.update(rows=60_000, distinct_rows=2_000, rows_per_draw=3_000.0, surrogate_rows_per_draw=0.0)
    assert "3,000 touched per draw, 1.5 passes over 60,000 (2,000 distinct)\n" in repr(fit)
    fit.stats.update(distinct_rows=120_000)  # counts of successes are held as rows with y=1 and with y=0
    assert "3,000 touched per draw, of 60,000\n" in repr(fit)
    fit.stats.update(rows_per_draw=90_000.0)
    assert "90,000 touched per draw, 0.8 passes over 60,000\n" in repr(fit)


# Prediction


def test_predictions_are_those_of_numpy_whatever_the_chunks(monkeypatch):
    fit, frame = loans()
    table = fit.predict(frame)
    assert table.columns.tolist() == ["mean", "eti94_lb", "eti94_ub"]
    np.testing.assert_allclose(table, expected(fit, frame, frame["fico"], frame["bank"]), rtol=1e-12)
    monkeypatch.setattr("tallbayes.results.predict.PREDICTED_AT_ONCE", 2_100)  # 7 rows, which do not divide 40
    pd.testing.assert_frame_equal(fit.predict(frame), table)
    monkeypatch.setattr("tallbayes.results.predict.PREDICTED_AT_ONCE", 1)
    pd.testing.assert_frame_equal(fit.predict(frame), table)


def test_predictions_keep_the_order_and_index_of_the_data():
    fit, frame = loans()
    shuffled = frame.sample(frac=1, random_state=0)
    table = fit.predict(shuffled[["bank", "fico"]])
    pd.testing.assert_index_equal(table.index, shuffled.index)
    pd.testing.assert_frame_equal(table.sort_index(), fit.predict(frame))
    plain = fit.predict(pl.from_pandas(shuffled))
    assert plain.index.tolist() == list(range(40))
    np.testing.assert_array_equal(plain, table)


def test_draws_and_interval_are_as_asked():
    fit, frame = loans()
    new = {"fico": [650.0, 720.0], "bank": ["b", "a"]}
    table = fit.predict(new, draws=50, interval=0.5)
    assert table.columns.tolist() == ["mean", "eti50_lb", "eti50_ub"]
    np.testing.assert_allclose(table, expected(fit, frame, **new, draws=50, tails=(0.25, 0.75)), rtol=1e-12)
    everything = fit.predict(new, draws=10**6)
    np.testing.assert_allclose(everything, expected(fit, frame, **new, draws=1_000), rtol=1e-12)


def test_a_named_offset_is_read_from_the_data():
    fit, frame = loans(offset="exposure")
    new = {"fico": [650.0, 720.0], "bank": ["b", "a"]}
    answer = expected(fit, frame, **new, offset=np.array([1.0, -2.0]))
    np.testing.assert_allclose(fit.predict({**new, "exposure": [1.0, -2.0]}), answer, rtol=1e-12)
    np.testing.assert_allclose(fit.predict(new, offset=[1.0, -2.0]), answer, rtol=1e-12)
    with pytest.raises(ValueError, match="no column 'exposure'"):
        fit.predict(new)
    with pytest.raises(ValueError, match="'exposure' has 1 missing value"):
        fit.predict({**new, "exposure": [1.0, np.nan]})
    with pytest.raises(ValueError, match="offset must be numbers"):
        fit.predict({**new, "exposure": ["much", "little"]})


def test_an_offset_that_was_an_array_must_be_given():
    fit, frame = loans(has_offset=True)
    new = {"fico": [650.0, 720.0], "bank": ["b", "a"]}
    np.testing.assert_allclose(
        fit.predict(new, offset=[1.0, -2.0]),
        expected(fit, frame, **new, offset=np.array([1.0, -2.0])),
        rtol=1e-12,
    )
    np.testing.assert_allclose(fit.predict(new, offset=0), expected(fit, frame, **new), rtol=1e-12)
    for offset, message in [
        (None, "fitted with an array of offsets"),
        ([1.0], r"shape \(1,\), but the data has 2 rows"),
        ([1.0, np.inf], "missing or infinite"),
    ]:
        with pytest.raises(ValueError, match=message):
            fit.predict(new, offset=offset)


# Other families


NEW = {"fico": [650.0, 720.0, 700.0], "bank": ["b", "a", "a"]}


def eta_of(fit, learned, draws=300):
    X = np.array([np.ones(3), np.array(NEW["fico"]) - learned["fico"].mean(), np.array(NEW["bank"]) == "b"])
    every = fit.draws.reshape(-1, 3)
    return every[np.linspace(0, len(every) - 1, draws).round().astype(int)] @ X


@pytest.mark.parametrize(
    ("family", "mean"),
    [
        (Bernoulli("probit"), stats.norm.cdf),
        (Bernoulli("cloglog"), lambda eta: 1 - np.exp(-np.exp(eta))),
        (Binomial("sent"), special.expit),
        (Binomial("sent", "probit"), stats.norm.cdf),
        (Poisson(), np.exp),
    ],
    ids=["probit", "cloglog", "binomial", "binomial probit", "poisson"],
)
def test_predictions_of_other_families(family, mean):
    # For counts of successes it is their expected share, so that the number of trials is not needed.
    fit, frame = loans(family=family)
    table = fit.predict(NEW)
    truth = mean(eta_of(fit, frame))
    np.testing.assert_allclose(table["mean"], truth.mean(0), rtol=1e-12)
    np.testing.assert_allclose(table["eti94_ub"], np.quantile(truth, 0.97, axis=0), rtol=1e-12)


def test_predicted_counts_grow_with_the_exposure():
    fit, frame = loans(family=Poisson("days"))
    days = np.array([1.0, 2.0, 0.5])
    truth = days * np.exp(eta_of(fit, frame))
    np.testing.assert_allclose(fit.predict(NEW | {"days": days})["mean"], truth.mean(0), rtol=1e-12)
    both, _ = loans(family=Poisson("days"), offset="more")
    table = both.predict(NEW | {"days": days, "more": [0.0, 1.0, -1.0]})
    np.testing.assert_allclose(table["mean"], (truth * np.exp([0, 1, -1])).mean(0), rtol=1e-12)
    for wrong, message in [
        ({}, "no column 'days'"),
        ({"days": [1.0, 0.0, 2.0]}, "exposure 'days' must be positive, but is 0 in row 1"),
        ({"days": [1.0, 2.0, -3.0]}, "exposure 'days' must be positive, but is -3 in row 2"),
        ({"days": [1.0, np.nan, 2.0]}, "'days' has 1 missing value"),
        ({"days": ["a", "b", "c"]}, "exposure 'days' must be numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            fit.predict(NEW | wrong)


def test_what_was_true_or_false_stays_so(tmp_path):
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.random(80) < 0.5, "z": rng.random(80) < 0.5, "y": rng.integers(2, size=80)})
    data["z"] = data["z"].astype(float)  # numbers, which may be others
    fit = tb.fit("y ~ x + z", data, draws=20, warmup=20, seed=1, progress=False)
    fit.save(tmp_path / "fit.nc")
    for one in (fit, tb.load(tmp_path / "fit.nc")):
        for fine in (data, data.assign(x=data["x"].astype(int)), data.assign(z=5), data.assign(x=data["x"] * 1.0)):
            assert len(one.predict(fine)) == 80
        with pytest.raises(ValueError, match=r"column 'x' held True and False when .* was learned, but is 5 at row 2"):
            one.predict(data.assign(x=[0, 1, 5, 2] * 20))
    saved = json.loads(fit.formula.to_json())
    assert saved.pop("flags") == ["x"]
    assert Formula.from_json(json.dumps(saved)).flags == ()  # as it was before flags were remembered


def test_categories_of_true_and_false_are_found_in_other_types():
    rng = np.random.default_rng(1)
    x = rng.random(80) < 0.5
    data = {"x": pd.Categorical(x), "y": rng.integers(2, size=80)}
    for formula in ("y ~ x", "y ~ C(x)", "y ~ I(x == True)"):
        fit = tb.fit(formula, data, draws=20, warmup=20, seed=1, progress=False)
        right = fit.predict(data)
        assert right["mean"].nunique() == 2
        for other in (x, x.astype(int), x.astype(float), x.astype(object), pd.Categorical(x, [True, False])):
            assert fit.predict({"x": other}).equals(right)
        with pytest.raises(ValueError, match=r"levels never seen .*'False', 'True'"):
            fit.predict({"x": x.astype(str)})


def test_predictions_that_no_number_can_hold_are_refused():
    rng = np.random.default_rng(1)
    data = {"x": rng.normal(size=80), "y": rng.poisson(2.0, 80)}
    for family, far in (("poisson", 1e9), ("gaussian", 1.7e308)):
        fit = tb.fit("y ~ x", data, family, draws=20, warmup=20, seed=1, progress=False)
        pieces = tb.scan(lambda far=far: iter([pd.DataFrame({"x": [0.0, 1.0]}), pd.DataFrame({"x": [1.0, far, -far]})]))
        with pytest.raises(
            ValueError, match=r"the expected outcome of row [34]\b.* is too large for a number for some"
        ):
            fit.predict(pieces)


def test_predict_says_what_is_wrong():
    fit, _ = loans()
    new = {"fico": [650.0, 720.0], "bank": ["b", "a"]}
    for call, message in [
        (lambda: fit.predict({"fico": [1.0]}), "no column 'bank'"),
        (lambda: fit.predict({**new, "bank": ["a", "c"]}), "levels never seen .*'c' .*row 1"),
        (lambda: fit.predict({**new, "fico": [np.nan, 1.0]}), "'fico' has 1 missing value .*row 0"),
        (lambda: fit.predict(new, offset=[1.0, 2.0]), "fitted without an offset"),
        (lambda: fit.predict(new, draws=0), "draws must be a whole number of at least 1, not 0"),
        (lambda: fit.predict(new, draws=True), "draws must be a whole number of at least 1, not True"),
        (lambda: fit.predict(new, draws=2.5), "draws must be a whole number of at least 1, not 2.5"),
        (lambda: fit.predict(new, draws=None), "draws must be a whole number of at least 1"),
        (lambda: fit.predict(new, interval=94), "between 0 and 1"),
        (lambda: make(fit.draws, "abc").predict(new), "no formula"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


# Groups


LEVELS = [30, 7, 2**60 + 1]


def grouped(levels=LEVELS, chains=2, draws=300, **rest):
    """A fit of y ~ x + (1 | bank)."""
    rng = np.random.default_rng(3)
    rows = [*levels, *levels]
    formula, _, _ = Formula.learn(
        "y ~ x + (1 | bank)", {"y": np.arange(len(rows)) % 2, "x": rng.normal(size=len(rows)), "bank": rows}
    )
    known = list(formula.group_levels)
    plain = make(rng.normal([0.2, -1.0], 0.3, (chains, draws, 2)), formula.coefficients)
    effects = rng.normal(np.linspace(-2, 2, len(known)), 0.4, (chains, draws, len(known)))
    facts = {"rows": ("bank", np.full(len(known), 2)), "outcome": ("bank", np.full(len(known), 0.5))}
    facts["alone"] = ("bank", np.array([np.nan, np.inf, *np.zeros(len(known) - 2)]))
    variables = {
        "1|bank_sigma": (("chain", "draw"), rng.uniform(0.5, 1.5, (chains, draws))),
        "1|bank": (("bank", "chain", "draw"), np.moveaxis(effects, 2, 0)),  # whatever the order of the axes
    }
    return HierarchicalFit(
        posterior=plain.posterior.assign(variables).assign_coords(bank=known),
        sample_stats=plain.sample_stats,
        stats=plain.stats,
        formula=formula,
        groups=xr.Dataset(facts, {"bank": known}),
        **rest,
    )


def test_parameters_are_coefficients_then_sigma_then_groups():
    fit = grouped()
    names = ("Intercept", "x", "1|bank_sigma", "1|bank[7]", "1|bank[30]", f"1|bank[{2**60 + 1}]")
    assert fit.parameters == names
    assert fit.coefficients == names[:2]
    assert fit.group == "bank"
    beta, sigma, effects = (fit.posterior[name] for name in ("beta", "1|bank_sigma", "1|bank"))
    assert fit.draws.shape == (2, 300, 6)
    np.testing.assert_array_equal(fit.draws[..., :2], beta)
    np.testing.assert_array_equal(fit.draws[..., 2], sigma)
    np.testing.assert_array_equal(fit.draws[..., 3:], effects.transpose("chain", "draw", "bank"))
    table = fit.summary()
    assert table.index.tolist() == fit.edpm().index.tolist() == list(names)
    assert table.loc["1|bank[30]", "mean"] == pytest.approx(float(effects.sel(bank=30).mean()))
    assert table.notna().all(axis=None)


def test_without_groups_parameters_are_coefficients_and_draws_no_copy():
    fit = example()
    assert fit.parameters == fit.coefficients
    assert (fit.group, fit.groups) == (None, None)
    assert np.shares_memory(fit.draws, fit.posterior["beta"].values)


def test_problems_name_groups_too():
    fit = grouped()
    fit.posterior["1|bank"][1] = 0.5
    assert "no chain ever moved '1|bank[30]'" in fit.problems()[0]


@pytest.mark.parametrize(("groups", "line"), [(2, None), (20, None), (21, "1 more"), (1_234, "1,214 more")])
def test_a_printed_fit_shows_some_groups_and_counts_the_rest(groups, line):
    fit = group_example(groups, chains=1, draws=3)  # too few for diagnostics, which would take a while
    text, html = repr(fit), fit._repr_html_()
    assert len(fit.summary()) == 3 + groups
    shown = [row for row in text.splitlines() if row.startswith("1|bank[")]
    assert len(shown) == html.count('<th scope="row">1|bank[') == min(groups, 20)
    assert "1|bank_sigma" in text
    said = f"... and {line} of 1|bank; fit.summary() has them all"
    assert text.endswith(said) == (line is not None)
    assert (f">{said}</p>" in html) == (line is not None)
    assert f"groups       {groups:,} of 1|bank\n" in text


def test_the_story_says_what_was_said_about_the_groups():
    fit = group_example(3)
    fit.stats["groups"].update(count=10_000, said="whose sd is at the limit.")
    assert "groups       10,000 of 1|bank, whose sd is at the limit.\n" in repr(fit)
    assert "groups" not in repr(example())


def test_facts_on_groups_are_saved_and_given_to_arviz(tmp_path):
    for levels in (LEVELS, ["b", "a", "c"], [0.5, -1.25], [True, False]):
        fit = grouped(levels)
        fit.save(tmp_path / "fit.nc")
        back = load(tmp_path / "fit.nc")
        assert back.groups.identical(fit.groups)
        assert back.posterior.identical(fit.posterior)
        assert back.parameters == fit.parameters
        assert back.formula.group_levels == fit.formula.group_levels
        assert back.to_arviz()["constant_data"].to_dataset().identical(fit.groups)
        assert back.groups.attrs["inference_library"] == "tallbayes"
        new = {"x": [0.0, 1.0], "bank": [levels[0], levels[1]]}
        pd.testing.assert_frame_equal(back.predict(new), fit.predict(new), check_exact=True)
    assert set(example().to_arviz().children) == {"posterior", "sample_stats"}
    assert example().groups is None


def by_hand(fit, x, place, draws=300):
    """Linear predictors (draw, row), without an effect where place is -1."""
    every = fit.draws.reshape(-1, 6)
    every = every[np.linspace(0, len(every) - 1, draws).round().astype(int)]
    effects = np.column_stack([every[:, 3:], np.zeros(draws)])
    return every[:, :1] + every[:, 1:2] * np.asarray(x) + effects[:, place], every[:, 2]


def test_known_groups_are_predicted_with_their_draws(monkeypatch):
    fit = grouped()
    rng = np.random.default_rng(0)
    x, place = rng.normal(size=50), rng.integers(0, 3, 50)
    new = pd.DataFrame({"x": x, "bank": np.array([7, 30, 2**60 + 1])[place]}, index=range(50, 100))
    p = special.expit(by_hand(fit, x, place)[0])
    table = fit.predict(new)
    assert table.index.tolist() == list(range(50, 100))
    np.testing.assert_allclose(table, np.column_stack([p.mean(0), *np.quantile(p, [0.03, 0.97], axis=0)]), rtol=1e-12)
    np.testing.assert_allclose(fit.predict(new, seed=5), table, rtol=1e-12)
    stranger = pd.concat([pd.DataFrame({"x": [0.0] * 3, "bank": [8, 9, 8]}), new])
    np.testing.assert_allclose(fit.predict(stranger)[3:], table, rtol=1e-12)
    monkeypatch.setattr("tallbayes.results.predict.PREDICTED_AT_ONCE", 2_100)  # 7 rows, which do not divide 50
    np.testing.assert_allclose(fit.predict(new), table, rtol=1e-12)
    np.testing.assert_allclose(fit.predict(stranger.iloc[::-1])[:-3][::-1], table, rtol=1e-12)


def test_new_groups_get_effects_of_their_own():
    fit = grouped(draws=10_000, family=Poisson())
    new = pd.DataFrame({"x": [0.0, 1.0, 0.0, 1.0, 0.0], "bank": [8, 9, 9, 8, 7]})
    table = fit.predict(new, draws=20_000)
    eta, sigma = by_hand(fit, new["x"], [-1, -1, -1, -1, 0], 20_000)
    # The mean of exp(eta + N(0, sigma^2)) has a Monte Carlo error of sd / sqrt(20,000); 4.5 of them, 4 means.
    wide = np.exp(eta[:, :4] + np.random.default_rng(1).normal(size=(20_000, 1)) * sigma[:, None])
    error = wide.std(0) / np.sqrt(20_000)
    assert (np.abs(table["mean"][:4] - np.exp(eta[:, :4] + sigma[:, None] ** 2 / 2).mean(0)) < 4.5 * error).all()
    np.testing.assert_allclose(table["eti94_ub"][:4], np.quantile(wide, 0.97, axis=0), rtol=0.1)
    # Rows of one group share its effects, other groups have others.
    flat = fit.predict(pd.DataFrame({"x": [0.0] * 4, "bank": [8, 9, 8, 10]}))["mean"]
    assert flat[0] == pytest.approx(flat[2], rel=1e-12)
    assert len({round(value, 9) for value in flat}) == 3


def test_new_groups_depend_on_the_seed_and_their_name_alone(monkeypatch):
    fit = grouped()
    new = pd.DataFrame({"x": np.linspace(-1, 1, 40), "bank": np.tile([8, 7, 9, 10**18, 30], 8)})
    table = fit.predict(new)
    pd.testing.assert_frame_equal(fit.predict(new), table, check_exact=True)
    shuffled = new.sample(frac=1, random_state=0)
    pd.testing.assert_frame_equal(fit.predict(shuffled).sort_index(), table, rtol=1e-12)
    alone = new[new["bank"] == 9]
    pd.testing.assert_frame_equal(fit.predict(alone), table.loc[alone.index], rtol=1e-12)
    number = alone.assign(bank=9.0)
    pd.testing.assert_frame_equal(fit.predict(number), table.loc[alone.index], rtol=1e-12)
    other = fit.predict(new, seed=1)
    changed = (np.abs(other / table - 1) > 1e-9).any(axis=1)
    assert changed.tolist() == (~new["bank"].isin(LEVELS)).tolist()
    monkeypatch.setattr("tallbayes.results.predict.PREDICTED_AT_ONCE", 2_100)
    pd.testing.assert_frame_equal(fit.predict(new), table, rtol=1e-12)
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0"):
        fit.predict(new, seed=-1)


def test_new_groups_with_names():
    fit = group_example(3)
    new = {"fico": [0.0] * 4, "bank": ["b02", "né", "new", "né"]}
    mean = fit.predict(new)["mean"]
    assert mean[1] == pytest.approx(mean[3], rel=1e-12)
    assert mean[1] != pytest.approx(mean[2], rel=1e-6)
    np.testing.assert_allclose(fit.predict({**new, "bank": pd.Categorical(new["bank"])})["mean"], mean, rtol=1e-12)
    for bank, message in [
        ([1, 2, 3, 4], "column 'bank' holds numbers, but held text"),
        (["b01", None, "b02", "b03"], "column 'bank' has 1 missing value"),
    ]:
        with pytest.raises(ValueError, match=message):
            fit.predict({**new, "bank": bank})
    with pytest.raises(ValueError, match="no column 'bank'"):
        fit.predict({"fico": [0.0]})


def test_predictions_of_groups_are_made_in_slices(monkeypatch):
    fit, seen = group_example(200, chains=1, draws=50), []
    new = {"fico": np.zeros(1_000), "bank": [f"b{i:03}" for i in range(1_000)]}  # 799 of them are new
    whole = fit.predict(new)
    monkeypatch.setattr("tallbayes.results.predict.PREDICTED_AT_ONCE", 5_000)
    of = GroupEffects.of
    monkeypatch.setattr(GroupEffects, "of", lambda self, rows: seen.append(of(self, rows)) or seen[-1])
    pd.testing.assert_frame_equal(fit.predict(new), whole, rtol=1e-12)
    assert {effects.shape for effects in seen} == {(100, 50)}
    assert len(seen) == 10


def test_offsets_go_with_groups():
    fit = grouped(offset="more")
    eta, _ = by_hand(fit, [0.0, 1.0], [1, 2])
    table = fit.predict({"x": [0.0, 1.0], "bank": [30, 2**60 + 1], "more": [0.5, -0.5]})
    np.testing.assert_allclose(table["mean"], special.expit(eta + np.array([0.5, -0.5])).mean(0), rtol=1e-12)


def test_the_example_with_groups_is_the_one_without_plus_groups():
    fit = group_example(120, draws=50)
    np.testing.assert_array_equal(fit.posterior["beta"], example(draws=50).posterior["beta"])
    assert fit.formula.text == "y ~ fico + (1 | bank)"
    assert fit.formula.group_levels == tuple(fit.posterior["bank"].values) == tuple(fit.groups["bank"].values)
    assert fit.parameters[3] == "1|bank[b001]"
    assert fit.groups["rows"].dtype == int
    mean, alone = fit.posterior["1|bank"].mean(["chain", "draw"]), fit.groups["alone"]
    few = np.isfinite(alone) & (fit.groups["rows"] < 30)
    assert (abs(mean) < abs(alone)).values[few.values].mean() > 0.9  # shrinkage
    assert "groups" not in example().stats


def test_compare_compares_groups_too():
    table = compare(a=group_example(3), b=group_example(3, seconds=30.0))
    assert table["redpm_1"].round(6).tolist() == [1.0, 2.0]
    assert table["draws"].tolist() == [2_000, 2_000]
    assert compare_parameters(a=group_example(3)).index.tolist() == list(group_example(3).parameters)
    with pytest.raises(ValueError, match=r"have different parameters, such as '1\|bank\[b04\]'"):
        compare(a=group_example(3), b=group_example(4))
    with pytest.raises(ValueError, match="have different parameters"):
        compare(a=group_example(3), b=example())


# Files


def test_to_arviz_has_both_groups_and_says_who_made_them():
    tree = example().to_arviz()
    assert set(tree.children) == {"posterior", "sample_stats"}
    for node in (tree, tree["posterior"], tree["sample_stats"]):
        assert node.attrs["inference_library"] == "tallbayes"
        assert node.attrs["inference_library_version"]
    import arviz_stats

    table = arviz_stats.summary(tree, round_to="none")
    np.testing.assert_allclose(table["ess_bulk"], example().summary()["ess_bulk"])


def test_a_loaded_fit_is_the_saved_one(tmp_path):
    fit, frame = loans(offset="exposure")
    fit.stats.update(subchain=np.int64(3), interrupted=np.bool_(True), warnings=["naïve 'x'"])
    frame["exposure"] = 0.5
    fit.save(tmp_path / "fit.nc")
    back = load(str(tmp_path / "fit.nc"))
    assert back.posterior.identical(fit.posterior)
    assert back.sample_stats.identical(fit.sample_stats)
    assert back.stats == fit.stats
    assert (back.family, back.offset, back.has_offset) == (Bernoulli(), "exposure", True)
    pd.testing.assert_frame_equal(back.predict(frame), fit.predict(frame), check_exact=True)
    pd.testing.assert_frame_equal(back.summary(), fit.summary(), check_exact=True)
    assert repr(back) == repr(fit)


FAMILIES = [
    *(Bernoulli(link) for link in ("logit", "probit", "cloglog")),
    *(Binomial("sent", link) for link in ("logit", "probit", "cloglog")),
    Poisson(),
    Poisson("days"),
]


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_every_family_survives(family, tmp_path):
    fit, frame = loans(family=family)
    fit.save(tmp_path / "fit.nc")
    back = load(tmp_path / "fit.nc")
    assert back.family == family
    frame["days"] = 3.0
    pd.testing.assert_frame_equal(back.predict(frame), fit.predict(frame), check_exact=True)


def test_a_fit_without_a_formula_survives_too(tmp_path):
    make(np.zeros((1, 5, 1)), ["a"], has_offset=True).save(tmp_path / "fit.nc")
    back = load(tmp_path / "fit.nc")
    assert back.formula is None
    assert (back.offset, back.has_offset) == (None, True)


def test_saving_replaces_the_old_file_only_when_it_succeeds(tmp_path, monkeypatch):
    path = tmp_path / "fit.nc"
    example(seed=1).save(path)
    example(seed=2).save(path)
    assert load(path).stats["seed"] == 2

    def fail(content):
        yield content
        raise OSError("no space left on device")

    monkeypatch.setattr(file, "sealed", fail)
    with pytest.raises(OSError, match="no space left"):
        example(seed=3).save(path)
    assert load(path).stats["seed"] == 2
    assert [file.name for file in tmp_path.iterdir()] == ["fit.nc"]


def test_a_place_that_cannot_be_written_is_found_out_before(tmp_path, monkeypatch):
    check_writable(tmp_path / "fit.nc")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere'; create it first"):
        check_writable(tmp_path / "nowhere" / "fit.nc")
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        check_writable(tmp_path)

    def refuse(**options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(PermissionError, match=r"does not accept new files \(Permission denied"):
        example().save(tmp_path / "fit.nc")


def test_load_says_what_is_wrong_with_a_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such file: .*fit\.nc"):
        load(tmp_path / "fit.nc")
    (tmp_path / "text.nc").write_text("hello")
    with pytest.raises(ValueError, match=r"text\.nc' is not a netCDF file"):
        load(tmp_path / "text.nc")
    example().posterior.to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["x"] = np.ones(3)
    for name in ("other.nc", "plain.h5"):
        with pytest.raises(ValueError, match="was not written by tallbayes"):
            load(tmp_path / name)
    example().save(tmp_path / "future.nc")
    change(tmp_path / "future.nc", lambda opened, state: {"format": 99})
    with pytest.raises(ValueError, match="has format 99"):
        load(tmp_path / "future.nc")


def test_files_say_which_kind_of_fit_they_hold(tmp_path):
    """A kind that is not known is refused."""
    path, fit = tmp_path / "fit.nc", group_example(3)
    assert fit.converged  # now: what that takes is a part of its story
    fit.save(path)
    assert type(load(path)) is HierarchicalFit
    assert repr(load(path)) == repr(fit)
    change(path, lambda opened, state: state | {"kind": "forest"})
    with pytest.raises(ValueError, match="holds a fit of kind 'forest'; load it with the version that wrote it"):
        load(path)


# Comparison


def test_compare_by_hand():
    rng = np.random.default_rng(5)
    slow, fast = rng.normal(size=(4, 600, 3)), rng.normal(0.01, 1.1, size=(2, 400, 3))
    slow[:, 1:] = (slow[:, 1:] + slow[:, :-1]) / np.sqrt(2)
    a, b = make(slow, "abc", seconds=120.0), make(fast[:, :, [2, 0, 1]], "cab", seconds=15.0)
    b.stats["rows_per_draw"] = 7.0
    table = compare(mh=a, two_stage=b)
    assert table.index.tolist() == ["mh", "two_stage"]
    assert " ".join(table.columns) == (
        "minutes draws ess_min ess_median edpm_median redpm_1 redpm_10 redpm_20 redpm_min rows_per_draw "
        "largest_z largest_z_sd"
    )
    ess_a, ess_b = diagnostics.ess(slow), diagnostics.ess(fast)
    ratio = (ess_b / 0.25) / (ess_a / 2)
    ten = 8 * diagnostics.ess(fast[:, ::10]) / diagnostics.ess(slow[:, ::10])
    twenty = 8 * diagnostics.ess(fast[:, ::20]) / diagnostics.ess(slow[:, ::20])
    error = np.hypot(diagnostics.mcse(slow), diagnostics.mcse(fast))
    error_sd = np.hypot(diagnostics.mcse(slow, "sd"), diagnostics.mcse(fast, "sd"))
    z = np.abs(slow.mean((0, 1)) - fast.mean((0, 1))) / error
    z_sd = np.abs(slow.std((0, 1), ddof=1) - fast.std((0, 1), ddof=1)) / error_sd
    row = [0.25, 800, ess_b.min(), np.median(ess_b), np.median(ess_b) / 0.25, np.median(ratio)]
    row += [np.median(ten), np.median(twenty), ratio.min(), 7.0, z.max(), z_sd.max()]
    np.testing.assert_allclose(table.loc["two_stage"].astype(float), row)
    assert table.loc["mh", ["redpm_1", "redpm_10", "redpm_20", "redpm_min"]].tolist() == [1, 1, 1, 1]
    assert table.loc["mh", ["largest_z", "largest_z_sd"]].tolist() == [0, 0]

    each = compare_parameters(mh=a, two_stage=b)
    assert each.index.tolist() == ["a", "b", "c"]
    assert each["mh"].tolist() == [1, 1, 1]
    np.testing.assert_allclose(each["two_stage"], ratio)
    np.testing.assert_allclose(compare_parameters(10, mh=a, two_stage=b)["two_stage"], ten)


def test_thinned_ratios_need_enough_draws():
    table = compare(long=example(draws=400), short=example(draws=381), shorter=example(draws=380))
    assert table.loc["short"].notna().all()
    assert np.isnan(table.loc["shorter", "redpm_20"])
    assert np.isfinite(table.loc["shorter", "redpm_10"])


def test_a_parameter_that_never_moves_shows():
    draws = example().draws
    draws[:, :, 1] = 0.5
    table = compare(good=example(), stuck=make(draws, ["Intercept", "fico"]))
    assert table.loc["stuck", ["ess_min", "redpm_min"]].tolist() == [0, 0]
    assert np.isnan(table.loc["stuck", "largest_z"])


def test_compare_wants_fits_of_the_same_model():
    assert len(compare(only=example())) == 1
    for function in (compare, compare_parameters):
        with pytest.raises(ValueError, match="nothing to compare"):
            function()
        with pytest.raises(ValueError, match="'one' and 'two' have different parameters, such as 'dti'"):
            function(one=example(), two=make(example().draws, ["Intercept", "dti"]))
