"""Bayesian MARS as its user sees it."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import tallbayes as tb
from tallbayes.sampling.diagnostics import ess
from tallbayes.sampling.kernel import Draws, Streams
from tallbayes.sampling.warmup import shares
from tallbayes.splines.basis import DEGREE, SD, WIDTH, Splines
from tallbayes.splines.partition import Partition
from tallbayes.splines.reversible_jump_loop import COEFFICIENTS
from tallbayes.splines.warmup import _length


def data(rows: int = 1_500, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(50, 10, rows), "dose": rng.random(rows), "noise": rng.normal(size=rows)})
    frame["sex"] = pd.Categorical(np.where(rng.random(rows) < 0.5, "f", "m"))
    frame["truth"] = expit(np.abs(frame.age - 50) / 5 - 2 + 2 * frame.dose * (frame.sex == "m"))
    frame["ill"] = (rng.random(rows) < frame.truth).astype(int)
    return frame


FORMULA = "ill ~ age + dose + noise + sex"


@pytest.fixture(scope="module")
def fit() -> tb.MARSFit:
    return tb.sample(tb.MARS(FORMULA, data()), draws=60, warmup=100, seed=1, progress=False)


def test_a_fit_finds_the_shape_and_the_variables_that_matter(fit):
    frame = data()
    assert np.sqrt(((fit.predict(frame)["mean"] - frame.truth) ** 2).mean()) < 0.06
    table = fit.importance()
    assert table.index[0] == "age"
    assert table.loc["noise", "effect"] < 0.3 * table.loc["age", "effect"]
    assert table.loc["age", "included"] == 1.0
    effect = fit.effect("age", grids=([30.0, 50.0, 70.0],))["mean"].values
    assert effect[0] > effect[1] + 1
    assert effect[2] > effect[1] + 1
    probability = fit.effect("age", scale="probability")["mean"].sel(age=[30.0, 50.0, 70.0], method="nearest").values
    assert probability[0] > probability[1] + 0.3
    assert probability[2] > probability[1] + 0.3


def test_draws_of_varying_dimension_have_names_and_shapes(fit):
    posterior = fit.posterior
    assert posterior["bases"].dims == ("chain", "draw")
    assert fit.splines["beta"].dims == ("chain", "draw", "term")
    sizes = posterior["bases"].values
    assert sizes.min() < sizes.max()
    assert np.array_equal(np.isfinite(fit.splines["beta"].values).sum(2), sizes + 1)
    assert np.array_equal((fit.splines["basis"].values >= 0).sum(2), sizes)
    assert list(fit.summary().index[:3]) == ["bases", "precision", "log_odds[0]"]
    assert np.isfinite(fit.sample_stats["total_log_likelihood"].values).all()
    assert np.allclose(fit.log_odds(data().head(5)).shape, (4, 60, 5))
    assert ess(fit.log_odds(data().head(5))).shape == (5,)


def test_watched_log_odds_are_those_of_the_draws(fit):
    again = fit._all[0].each(fit.table["points"].values.T).reshape(4, 60, -1)
    assert np.array_equal(again, fit.posterior["log_odds"].values)


def test_a_saved_fit_predicts_the_same(fit, tmp_path):
    assert np.isfinite(fit.summary()["mean"]).all()  # diagnostics before it is saved: their time is a part of its story
    fit.save(tmp_path / "fit.nc")
    again = tb.load(tmp_path / "fit.nc")
    assert isinstance(again, tb.MARSFit)
    new = data(50, seed=3)
    pd.testing.assert_frame_equal(again.predict(new), fit.predict(new))
    pd.testing.assert_frame_equal(again.importance(), fit.importance())
    assert again.effect("age", "dose").identical(fit.effect("age", "dose"))
    assert again.effect("age", scale="probability").identical(fit.effect("age", scale="probability"))
    assert repr(again) == repr(fit)
    assert list(fit.to_arviz().children) == ["posterior", "sample_stats", "splines", "constant_data"]


def test_rows_are_predicted_piece_by_piece(fit, tmp_path, monkeypatch):
    new = data(100, seed=4)
    whole = fit.predict(new)
    monkeypatch.setattr("tallbayes.data.pieces.PIECE", 13)
    pd.testing.assert_frame_equal(fit.predict(new), whole, check_exact=True)
    assert fit.predict_to(new, tmp_path / "out.parquet", ["sex"], progress=False) == 100
    found = pd.read_parquet(tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(found.drop(columns="sex"), whole, check_exact=True)
    assert found["sex"].tolist() == new["sex"].tolist()


def test_predictions_have_intervals_and_the_index_of_the_rows(fit):
    new = data(30, seed=4).set_index(pd.Index(range(100, 130)))
    table = fit.predict(new, interval=0.8)
    assert list(table.columns) == ["mean", "eti80_lb", "eti80_ub"]
    assert table.index.equals(new.index)
    assert (table["eti80_lb"] < table["mean"]).all()
    assert (table["mean"] < table["eti80_ub"]).all()


def test_a_printed_fit_says_how_it_went(fit):
    text = repr(fit)
    for said in ("collapsed reversible jump, exact", "log_odds[0]", "age", "included", "and 12 more log-odds"):
        assert said in text
    assert fit._repr_html_().count("<table") == 2
    assert fit.stats["exact"] is True
    assert fit.stats["surrogate"] == "quadratic, 1,500 points"
    assert fit.stats["rows_per_draw"] == pytest.approx(1_500, rel=0.01)


@pytest.mark.parametrize(
    "method",
    [
        tb.MH(),
        tb.MH("random-walk"),
        tb.TwoStage(tb.Subsample(200)),
        tb.TwoStage(tb.Subsample(200), "random-walk", subchain=3),
        tb.TwoStage(tb.Cells(64, 100), "random-walk"),
        tb.TwoStage(tb.Cells(64, 100), subchain=7),
    ],
)
def test_every_sampler_runs_from_a_matrix(method):
    frame = data(400)
    model = tb.MARS(frame[["age", "dose"]].to_numpy(), frame.ill.to_numpy(), names=["age", "dose"], max_bases=5)
    fit = tb.sample(model, method, draws=30, chains=2, seed=1, warmup=40, progress=False)
    assert fit.variables == ("age", "dose")
    assert 0 < fit.stats["acceptance"]["stage 1"] <= 1
    assert fit.predict(frame).shape == (400, 3)
    if getattr(method, "subchain", None):
        assert fit.stats["subchain"] == method.subchain


def test_the_same_seed_gives_the_same_draws():
    frame = data(300)
    runs = [tb.sample(tb.MARS(FORMULA, frame), draws=20, warmup=30, chains=2, seed=5, progress=False) for _ in range(2)]
    assert runs[0].posterior.identical(runs[1].posterior)


def test_sampling_stops_when_there_are_enough_effective_draws():
    frame = data(300)
    model = tb.MARS("ill ~ age", frame, max_bases=3)
    fit = tb.sample(model, draws=4_000, target_ess=30, warmup=60, chains=2, seed=5, progress=False)
    assert fit.posterior.sizes["draw"] < 4_000
    assert ess(fit.draws).min() >= 30


def test_warm_up_steers_the_length_of_subchains_and_the_step_of_walks():
    frame = data(700)
    model = tb.MARS(FORMULA, frame)
    method = tb.TwoStage(proposal="random-walk")
    kernel = method.kernel(model, seed=1)
    before = kernel.law.walk
    fit = tb.sample(model, method, draws=40, warmup=120, chains=2, seed=1, progress=False)
    assert fit.stats["subchain"] != kernel.subchain
    assert fit.stats["acceptance"]["stage 2"] > 0.2
    rng = Streams.spawn(1, 2)
    tuned, state = kernel.tune(kernel.start(rng), 120, lambda k, s, n: k.advance(s, n, rng))
    assert tuned.law.walk != before
    tally = tuned.advance(state, 100, rng)[0].tally - state.tally
    tried, accepted = tally[:, COEFFICIENTS].sum(0)
    assert 0.1 < accepted / tried < 0.6
    assert tuned.power == 1.0


def test_the_best_length_weighs_acceptance_against_the_pass():
    frame = data(300)
    kernel = tb.TwoStage(tb.Cells()).kernel(tb.MARS(FORMULA, frame), seed=1)
    seen = Draws.empty(50, 1, 2, 3)
    seen.accepted[:], seen.decided[:] = True, True
    assert _length(kernel, seen) > kernel.subchain
    seen.accepted[:] = False
    assert _length(kernel, seen) < kernel.subchain
    assert shares(10, 4) == [2, 3, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("ill ~ age + (1 | sex)", "frame"), {}, "group"),
        (("ill ~ 1", "frame"), {}, "at least one variable"),
        (("age ~ dose", "frame"), {}, "'age'"),
        (([[1.0], [2.0]], [0, 1, 1]), {}, "must be"),
        (([[1.0], [np.nan]], [0, 1]), {}, "missing"),
        (([[1.0], [2.0]], [0, 1]), {"names": ["a", "b"]}, "different names"),
        (("ill ~ age", "frame"), {"max_bases": 0}, "max_bases"),
        (("ill ~ age", "frame"), {"max_interaction": 1.5}, "max_interaction"),
        (("ill ~ age", "frame"), {"max_interaction": 4}, "from 1 to 3"),
        (("ill ~ age", "frame"), {"precision": (0.0, 1.0)}, "precision"),
        (("ill ~ age", "frame"), {"expected_bases": -1.0}, "expected_bases"),
        (("ill ~ age", "frame"), {"memory": -1.0}, "memory"),
        (([[1.0], [1.0], [1.0]], [0, 1, 1]), {}, "differ"),
        ((np.eye(400)[:, :2], np.arange(400) % 2), {"lines": 0.0}, "almost constant"),
        (("ill ~ age", "frame"), {"lines": 1.5}, "lines must be a probability"),
        (("ill ~ age", "frame"), {"names": ["a"]}, "names of its own"),
    ],
)
def test_bad_input_is_refused(arguments, options, said):
    first, second = arguments
    with pytest.raises(ValueError, match=said):
        tb.MARS(first, data(50) if isinstance(second, str) else second, **options)


@pytest.mark.parametrize(
    ("method", "error", "said"),
    [
        (tb.Thinned(), ValueError, "'thinned' is not for splines; use one of auto, two-stage, mh"),
        (tb.Consensus(3), ValueError, "'consensus' is not for splines"),
        (tb.Subsampling(), ValueError, "'subsampling' is not for splines"),
        (tb.TwoStage(tb.Taylor()), ValueError, "tb.Cells or tb.Subsample"),
        (tb.TwoStage(len), ValueError, "tb.Cells or tb.Subsample"),
        (tb.TwoStage(proposal="independence"), ValueError, "informed, random-walk"),
        (tb.MH("one-at-a-time"), ValueError, "informed, random-walk"),
        (tb.TwoStage(tb.Subsample(1_000)), ValueError, "only 50"),
    ],
)
def test_methods_that_do_not_fit_are_refused(method, error, said):
    with pytest.raises(error, match=said):
        method.kernel(tb.MARS("ill ~ age", data(50)))


def test_wrong_questions_to_a_fit_are_refused(fit):
    with pytest.raises(ValueError, match="no variable 'agee'"):
        fit.effect("agee")
    with pytest.raises(ValueError, match="one variable, or of two"):
        fit.effect("age", "age")
    with pytest.raises(ValueError, match="without an offset"):
        fit.predict(data(3), offset=1.0)
    with pytest.raises(ValueError, match="list of values for each of 'age', 'dose'"):
        fit.effect("age", "dose", grids=([1.0, 2.0],))
    with pytest.raises(ValueError, match="interval"):
        fit.effect("age", interval=94)
    with pytest.raises(ValueError, match="interval"):
        fit.predict(data(3), interval=1.0)
    model = tb.MARS(np.random.default_rng(0).random((40, 2)), np.arange(40) % 2, max_bases=2)
    small = tb.sample(model, draws=4, warmup=4, chains=1, seed=0, progress=False)
    with pytest.raises(ValueError, match="2 variables"):
        small.predict(np.zeros((3, 5)))
    with pytest.raises(ValueError, match="missing"):
        small.predict([[np.nan, 0.0]])


def test_the_prior_of_the_number_of_bases_may_be_poisson():
    model = tb.MARS("ill ~ age", data(60), max_bases=4, expected_bases=2.0)
    ratio = np.exp(np.diff(model.log_k))
    assert np.allclose(ratio, 2.0 / np.arange(1, 5))


def test_a_variable_with_two_values_has_an_effect_at_both(fit):
    assert fit.effect("sex[T.m]")["sex[T.m]"].values.tolist() == [0.0, 1.0]


def test_a_constant_variable_is_named_and_does_no_harm():
    frame = data(300)
    frame["always"] = 0.1
    with pytest.warns(UserWarning, match="'always' is constant among the 300 reference rows"):
        model = tb.MARS("ill ~ age + always", frame)
    assert len(model.rows.keep(Partition, 64, 10, 0).outcome) > 64


def test_columns_of_a_frame_are_found_by_name():
    frame = data(300)
    X = frame[["age", "dose"]]
    fit = tb.sample(tb.MARS(X, frame.ill, max_bases=4), draws=20, warmup=40, chains=2, seed=1, progress=False)
    assert fit.variables == ("age", "dose")
    pd.testing.assert_frame_equal(fit.predict(X), fit.predict(frame[["dose", "noise", "age"]]))
    with pytest.raises(ValueError, match="no column 'dose'"):
        fit.predict(frame[["age", "noise"]])


def test_a_number_of_bases_at_its_limit_is_told():
    frame = data(500)
    model = tb.MARS("ill ~ age", frame, max_bases=1)
    fit = tb.sample(model, draws=200, target_ess=50, warmup=60, chains=2, seed=1, progress=False)
    assert any("raise max_bases above 1" in said for said in fit.problems())
    assert not any("never" in said for said in fit.problems())


def test_rows_far_out_do_not_take_the_cells_from_the_others():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5_000))
    x[0, 7] = 1e9
    partition = tb.MARS(x.T, x[1] > 0).rows.keep(Partition, 64, 100, 0)
    spread = [
        np.ptp(x[0, partition.codes == code]) for code in range(partition.outcome.size) if code != partition.codes[7]
    ]
    assert np.median(spread) < 2.0


def test_rows_that_splines_look_at_are_given_back():
    """What is compiled to count no references may not be given any."""
    basis, x = np.zeros(WIDTH), np.linspace(0, 1, 5)[None]
    basis[[DEGREE, SD]] = 1.0
    line = Splines(np.array([1]), np.array([[0.5, 2.0]]), basis[None, None])
    before = sys.getrefcount(x)
    np.testing.assert_array_equal(line.each(x), 0.5 + 2 * x)
    assert sys.getrefcount(x) == before
