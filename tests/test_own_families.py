"""Families of one's own: through the harness, beside what is built in, on disk and in groups; and what is refused."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import harness
import numpy as np
import pandas as pd
import pytest
from figures import sketched
from numba import njit
from scipy import stats
from test_expressions import BUILT_IN, PROBIT

import tallbayes as tb
from tallbayes.engines import wire
from tallbayes.engines.engine import Local
from tallbayes.families import from_json, to_json
from tallbayes.families.expressed import Expressed
from tallbayes.families.own import Own, family
from tallbayes.models.glm import GLM
from tallbayes.models.priors import Normal
from tallbayes.rows import room
from tallbayes.rows.disk import DiskRows
from tallbayes.sampling.thinned_loop import Moves
from tallbayes.sampling.thinned_setup import expand

CHAINS, STEPS, SEED = 600, 6, 11
MIXED = Moves(1.0, 0.2, 0.2, 5, 1.7)
STUDENT = "-2.5 * log1p((y - eta)**2 / (4 * s**2))"  # with one scale where any will do: each is compiled
X = [-1.0, -0.5, 0.0, 2.0, 0.3, -1.2, 0.8, -0.1, 1.5, 1.1, 0.4, -0.7, 0.2, 0.9]
DATA = {
    "x": X,
    "y": [0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0],
    "k": [0, 0, 1, 3, 0, 0, 1, 0, 2, 1, 0, 0, 0, 1],
    "m": [0.1, 0.9, -0.4, 4.0, 0.2, -0.3, 1.4, 5.0, 1.2, 0.8, 0.9, -1.5, 0.2, 0.6],
    "t": [0.2, 0.5, 1.3, 2.0, 0.1, 0.4, 3.0, 0.9, 2.5, 1.2, 0.7, 0.3, 1.1, 1.6],
}
MODELS: dict[str, tuple[str, Any]] = {
    "poisson": ("k ~ x", family(BUILT_IN["poisson"], outcomes="counts")),
    "probit": ("y ~ x", family(PROBIT, outcomes="0/1")),
    "student t": ("m ~ x", family(STUDENT, s=0.5)),
    "tobit": ("t ~ x", family("where(y > 0.3, -(y - eta)**2 / 2, log_ndtr(0.3 - eta))")),
    "negative binomial": ("k ~ x", tb.NegativeBinomial(1.5)),
    "gamma": ("t ~ x", tb.Gamma(2.0)),
}


@cache
def model_named(name: str) -> GLM:
    formula, kind = MODELS[name]
    return GLM(formula, DATA, kind, Normal(0.0, 2.0))


def thinned(name: str, model: GLM | None = None) -> Any:
    model = model or model_named(name)
    return expand(model, harness.mode_of(model), np.random.default_rng(4), MIXED, np.inf).kernel


# --- the harness ---


SHOWN = ("poisson", "probit", "student t")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SHOWN else [pytest.mark.long]) for name in MODELS]
)
def test_chains_that_start_in_the_posterior_stay_there(name):
    assert harness.departure(thinned(name), STEPS, CHAINS, seed=SEED) > harness.FALSE_ALARM


@pytest.mark.parametrize("name", ["student t", pytest.param("probit", marks=pytest.mark.long)])
def test_draws_are_those_of_quadrature(name):
    kernel, chains = thinned(name), 200
    truth = harness.Quadrature.of(kernel.model)
    assert harness.largest_z(kernel, 100, chains, 5, truth) < harness.z_limit(chains)


def test_a_family_that_is_off_by_a_little_is_noticed():
    """Chains of a Student-t with another scale do not stay in the posterior of this one."""
    kernel, model = thinned("student t"), model_named("student t")
    other = GLM("m ~ x", DATA, family(STUDENT, s=0.75), Normal(0.0, 2.0))
    start, fresh = np.split(harness.exact_draws(model, 3 * CHAINS), [CHAINS])
    streams = harness.Streams.spawn(SEED, CHAINS)
    wrong = thinned("", other)
    final = wrong.advance(wrong.start(streams, theta=start), STEPS, streams)[1].theta[-1]
    heights = [harness.log_posterior(kernel.model, theta) for theta in (final, fresh)]
    assert stats.ks_2samp(*heights).pvalue < harness.FALSE_ALARM


# --- beside what is built in ---


@cache
def frame(rows: int = 5_000) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    x, g = rng.normal(size=rows), rng.integers(0, 30, rows)
    effects = 0.7 * rng.normal(size=30)
    eta = -0.5 + 0.8 * x
    found = pd.DataFrame({"x": x, "bank": g})
    found["y"] = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(int)
    found["late"] = (rng.random(rows) < 1 / (1 + np.exp(-eta - effects[g]))).astype(int)
    found["k"] = rng.poisson(np.exp(0.3 * eta))
    found["m"] = 300 + 2 * x + 0.5 * rng.standard_t(4, rows)
    return found


def close(a: Any, b: Any, draws: int) -> bool:
    """Whether two fits agree within six Monte Carlo errors of means."""
    one, two = (fit.summary() for fit in (a, b))
    error = np.hypot(one["mcse_mean"], two["mcse_mean"])
    return bool((np.abs(one["mean"] - two["mean"]) < 6 * error).all() and draws)


def test_an_expression_gives_the_posterior_of_the_family_that_is_built_in():
    own = family(BUILT_IN["logit"], outcomes="0/1", name="logit")
    a, b = (tb.fit("y ~ x", frame(), family=one, seed=1, draws=1_000, progress=False) for one in ("bernoulli", own))
    assert close(a, b, 1_000)
    assert b.stats["bounds"] == "proved"
    np.testing.assert_allclose(a.predict(frame()[:9]), b.predict(frame()[:9]), atol=0.01)
    with_groups = [
        tb.fit("late ~ x + (1 | bank)", frame(), family=one, seed=1, draws=500, progress=False)
        for one in ("bernoulli", own)
    ]
    assert close(*with_groups, 500)


@pytest.mark.parametrize("method", ["thinned", "two-stage", "mh", "consensus"])
def test_every_method_takes_it(method):
    given = {"draws": 600, "seed": 2, "progress": False, "family": family(STUDENT, s=0.5)}
    found = tb.fit("m ~ x", frame(), method=method, **given).summary()["mean"]
    np.testing.assert_allclose(found, [300.0, 2.0], atol=0.06)


def test_draws_are_the_same_on_disk_and_after_travelling(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "LEAST", 0)
    frame().to_parquet(tmp_path / "some.parquet")
    own = family(STUDENT, s=0.5, name="robust")
    models = [GLM("m ~ x", tmp_path / "some.parquet", own, memory=memory) for memory in (None, 1)]
    a, b = (tb.sample(model, seed=2, draws=200, progress=False) for model in models)
    assert isinstance(models[1].rows, DiskRows)
    assert np.array_equal(a.draws, b.draws)
    assert wire.unpack(wire.pack(own)) == own
    assert wire.unpack(wire.pack(own.tag)) == own.tag
    assert from_json(to_json(own)) == own


def test_a_fit_is_saved_and_predicts_after_it(tmp_path, monkeypatch):
    sketched(monkeypatch)
    fit = tb.fit("m ~ x", frame(), family=family(STUDENT, s=0.5, name="robust"), seed=1, draws=200, progress=False)
    fit.save(tmp_path / "fit.nc")
    again = tb.load(tmp_path / "fit.nc")
    assert again.family == fit.family
    new = pd.DataFrame({"x": [0.0, 1.0]})
    assert np.allclose(again.predict(new), fit.predict(new))
    np.testing.assert_allclose(fit.predict(new).iloc[:, 0], [300, 302], atol=0.1)
    fit.report(tmp_path / "page.html")
    assert "Robust regression" in (tmp_path / "page.html").read_text()
    bins = fit.calibration()
    predicted, observed = bins["predicted"], bins["observed"]
    np.testing.assert_allclose(predicted, observed, atol=0.3)
    assert ((bins.lower < observed) & (observed < bins.upper)).mean() > 0.7


def test_default_priors_follow_outcomes_where_eta_is_where_they_are():
    fit = tb.fit("m ~ x", frame(), family=family(STUDENT, s=0.5), seed=1, draws=50, progress=False)
    sd = frame()["m"].std()
    assert fit.prior["Intercept"].startswith("Normal(300")
    assert fit.prior["x"] == f"Normal(0, {5 * sd / frame()['x'].std(ddof=0):.4g})"


def test_counts_and_positive_outcomes():
    rng, data = np.random.default_rng(4), frame().copy()
    for kind in (tb.NegativeBinomial(2.0), tb.Gamma(2.0)):
        eta = 0.4 + 0.5 * data["x"].to_numpy()
        data["o"] = kind.simulate(rng, eta)
        assert np.var(data["o"] / np.exp(eta)) > 0.2
        fit = tb.fit("o ~ x", data, family=kind, seed=1, draws=500, progress=False)
        np.testing.assert_allclose(fit.summary()["mean"], [0.4, 0.5], atol=0.1)
        bins = fit.calibration()
        within = (bins.lower < bins.observed) & (bins.observed < bins.upper)
        assert within.mean() > 0.7
    exposed = tb.fit("k ~ x", data.assign(days=2.0), family=tb.NegativeBinomial(2.0, "days"), draws=50, progress=False)
    plain = tb.fit("k ~ x", data, family=tb.NegativeBinomial(2.0), draws=50, seed=1, progress=False)
    shift = plain.summary()["mean"].iloc[0] - exposed.summary()["mean"].iloc[0]
    assert shift == pytest.approx(math.log(2), abs=0.1)


# --- tiers of trust ---


def value(y, eta):
    return y * eta - math.log1p(math.exp(eta))


def derivatives(y, eta):
    p = 1 / (1 + math.exp(-eta))
    return y - p, -p * (1 - p)


def third(y, eta):
    p = 1 / (1 + math.exp(-eta))
    return -p * (1 - p) * (1 - 2 * p)


def bound(y, low, high):
    return 1 / (6 * math.sqrt(3))


def test_functions_with_a_bound_are_trusted_and_thinned():
    own = family(value=value, derivatives=derivatives, third=third, bound=bound, outcomes="0/1", mean="logistic(eta)")
    fit = tb.fit("y ~ x", frame(), family=own, seed=1, draws=1_000, progress=False)
    assert fit.stats["bounds"] == "given"
    assert "thinned" in fit.stats["method"]
    assert close(fit, tb.fit("y ~ x", frame(), seed=1, draws=1_000, progress=False), 1_000)


def test_functions_without_a_bound_let_all_rows_decide(tmp_path):
    own = family(value=value, outcomes="0/1", mean="logistic(eta)", name="mine")
    fit = tb.fit("y ~ x", frame(), family=own, seed=1, draws=500, warmup=200, progress=False)
    assert fit.stats["bounds"] == "none"
    assert "no bounds on third derivatives" in fit.stats["why"]
    assert close(fit, tb.fit("y ~ x", frame(), seed=1, draws=1_000, progress=False), 500)
    for method in ("thinned", "subsampling", tb.TwoStage(tb.Taylor(100))):
        with pytest.raises(ValueError, match="needs bounds on third derivatives"):
            tb.fit("y ~ x", frame(), family=own, method=method, progress=False)
    with pytest.raises(ValueError, match="needs bounds on third derivatives"):
        tb.fit("late ~ x + (1 | bank)", frame(), family=own, method="thinned", progress=False)
    groups = tb.fit("late ~ x + (1 | bank)", frame(), family=own, seed=1, draws=50, warmup=100, progress=False)
    assert "no bounds on third derivatives" in groups.stats["why"]
    usual = tb.fit("late ~ x + (1 | bank)", frame(), seed=1, draws=200, progress=False)
    assert groups.summary()["mean"]["x"] == pytest.approx(usual.summary()["mean"]["x"], abs=0.1)
    fit.save(tmp_path / "fit.nc")
    again = tb.load(tmp_path / "fit.nc")
    assert np.allclose(again.predict(frame()[:5]), fit.predict(frame()[:5]))
    with pytest.raises(ValueError, match="made from functions, which are not kept"):
        _ = again.family.tag
    workers = tb.fit("y ~ x", frame(), family=own, engine=Local(2), seed=1, draws=50, progress=False)
    alone = tb.fit("y ~ x", frame(), family=own, seed=1, draws=50, progress=False)
    assert np.array_equal(workers.draws, alone.draws)


def test_what_is_not_smooth_has_no_bound():
    assert family("-(1 + abs(y - eta))**2").tag.trust == "none"
    assert Expressed("-abs(y) * eta**2").trust == "proved"


# --- what is refused ---


def off(y, eta):
    p = 1 / (1 + math.exp(-eta))
    return y - p, -1.02 * p * (1 - p)


def no_bound(y, low, high):
    return 0.09 if low > 0 else 0.2


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"derivatives": off}, "second derivative of the family 'mine' is .* but finite differences give"),
        ({"bound": no_bound}, "the bound of the family 'mine' is 0.09 .* that is no bound"),
        ({"third": lambda y, eta: 0.5 * math.tanh(eta)}, "third derivative of the family 'mine' is"),
        ({"value": lambda y, eta: math.log(eta)}, "the value of the family 'mine' is"),
        ({"value": lambda y, eta: {}[y]}, "cannot be compiled by Numba"),
    ],
)
def test_functions_that_do_not_fit_each_other_are_refused(changed, said):
    given: dict[str, Any] = {"value": value, "derivatives": derivatives, "third": third, "bound": bound} | changed
    with pytest.raises(ValueError, match=said):
        tb.fit("y ~ x", frame(), family=family(**given, outcomes="0/1", name="mine"), progress=False)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "needs an expression, or a function"),
        ({"expression": "y * eta", "value": value}, "and not both"),
        ({"expression": "y * eta", "bound": bound}, "leave out bound="),
        ({"value": 3}, "must be a function"),
        ({"expression": "y + 1"}, "has no eta"),
        ({"expression": "k * eta", "k": "a"}, "must be a number"),
        ({"expression": "k * eta", "k": math.inf}, "must be a number, not inf"),
        ({"value": value, "k": 1.0}, "leave out k"),
        ({"expression": "-eta**2", "outcomes": "dates"}, "choose one of numbers, positive"),
        ({"expression": "-eta**2", "mean": "y + eta"}, "without y"),
    ],
)
def test_what_a_family_cannot_be(given, said):
    with pytest.raises(ValueError, match=said):
        family(**given)


def test_outcomes_that_a_family_cannot_have():
    data = frame().assign(zero=0.0)
    with pytest.raises(ValueError, match=r"must be positive, but .* rows are not"):
        tb.fit("m ~ x", data.assign(m=data["x"]), family=tb.Gamma(), progress=False)
    with pytest.raises(ValueError, match="'zero' is 0 in every row"):
        tb.fit("zero ~ x", data, family=family(STUDENT, s=0.5), progress=False)
    with pytest.raises(ValueError, match="must be counts"):
        tb.fit("m ~ x", data, family=tb.NegativeBinomial(1.0), progress=False)
    with pytest.raises(ValueError, match="need a shape"):
        tb.fit("k ~ x", data, family="negative_binomial", progress=False)
    for shape in (0, -1, "a", math.nan):
        with pytest.raises(ValueError, match="must be a positive number"):
            tb.Gamma(shape)


def test_an_expression_that_is_not_a_number_somewhere_is_refused():
    with pytest.raises(ValueError, match="it must be a finite number wherever the data may lead"):
        tb.fit("m ~ x", frame(), family=family("log(eta - 300.5)"), progress=False)


def test_the_mode_of_what_is_not_concave_is_found():
    """From far away the log-likelihood of Student-t errors curves upwards."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=400)
    y = np.where(rng.random(400) < 0.2, rng.normal(0, 300, 400), 250 - 15 * x + 0.5 * rng.normal(size=400))
    found = tb.find_mode(GLM("y ~ x", {"x": x, "y": y}, family(STUDENT, s=0.5)))
    np.testing.assert_allclose(found.theta, [250, -15], atol=0.1)


def test_a_family_can_be_named_on_the_command_line(tmp_path):
    from click.testing import CliRunner

    from tallbayes.cli import main

    frame().to_csv(tmp_path / "some.csv", index=False)
    for text in ("-2.5 * log1p((y - eta)**2 / 4)", "gamma(2)", "negative_binomial(2)"):
        outcome = "k" if text.startswith("neg") else "m"
        told = CliRunner().invoke(
            main, ["fit", str(tmp_path / "some.csv"), f"{outcome} ~ x", "--family", text, "--draws", "50"]
        )
        assert told.exit_code in (0, 3), told.output
    told = CliRunner().invoke(main, ["fit", str(tmp_path / "some.csv"), "m ~ x", "--family", "open(eta)"])
    assert told.exit_code == 2
    assert "no function 'open'" in told.output
    assert isinstance(family("-eta**2"), Own)


def test_groups_of_what_is_not_concave():
    """From zero Newton's method would have no way up; it begins where least squares are."""
    rng = np.random.default_rng(3)
    g, effects, x = rng.integers(0, 20, 4_000), rng.normal(0, 2, 20), rng.normal(size=4_000)
    data = {"x": x, "g": g, "m": 300 + 2 * x + effects[g] + 0.5 * rng.standard_t(4, 4_000)}
    fit = tb.fit("m ~ x + (1 | g)", data, family=family(STUDENT, s=0.5), seed=1, draws=200, progress=False)
    found = fit.posterior["1|g"].mean(("chain", "draw")).to_numpy()
    np.testing.assert_allclose(found - found.mean(), effects - effects.mean(), atol=0.3)
    assert fit.summary()["mean"]["x"] == pytest.approx(2.0, abs=0.05)


def test_a_mode_that_cannot_be_climbed_to_is_an_error():
    """Least squares turned upside down have no top."""
    with pytest.raises(ValueError, match="curves upwards where its slope is zero"):
        tb.find_mode(GLM("m ~ x", frame(), family("(y - eta)**2 * 10")))


@njit
def _only_small(u):
    assert u < 100
    return -u * u


def _raises(y, eta):
    if y == 0.125:
        raise ValueError("no such outcome")
    return -((y - eta) ** 2)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (_raises, "the function '_raises' of the family raises errors"),
        (lambda y, eta: _only_small(y - eta), "of the family, which it calls as '_only_small', raises errors"),
        (max, "the function 'max' of the family is not written in Python"),
        (np.hypot, "the function 'hypot' of the family is not written in Python"),
    ],
)
def test_functions_whose_errors_would_be_lost_are_refused(value, message):
    with pytest.raises(ValueError, match=message):
        tb.family(value=value)
    assert tb.family(value=njit(lambda y, eta: -((y - eta) ** 2))).label == "own"


@pytest.mark.parametrize("text", ["-1e400 * (y - eta)**2", "-s * (y - eta)**2", "-(s * 100 * eta - y)**2"])
def test_numbers_too_large_to_compute_with_are_refused(text):
    own = tb.family(text, **({"s": 1e308} if "s" in text else {}))
    with pytest.raises(ValueError, match="too large"):
        tb.GLM("y ~ x", {"y": [0.0, 1.0, 3.0], "x": [0.5, 2.0, 1.0]}, family=own)


def test_a_log_likelihood_without_a_maximum_is_refused():
    data = {"y": np.arange(9.0), "x": np.sin(np.arange(9.0))}
    with pytest.raises(ValueError, match="does not curve anywhere near zero, so it has no maximum"):
        tb.fit("y ~ x", data, family=tb.family("y * eta"), draws=5, progress=False)


def test_a_mean_that_is_no_number_is_refused():
    data = {"y": np.arange(9.0), "x": np.linspace(0, 2, 9)}
    how = {"draws": 20, "warmup": 20, "chains": 2, "seed": 1, "progress": False}
    own = tb.family("y * eta - exp(eta)", mean="log(eta)", outcomes="counts")
    with pytest.raises(ValueError, match="the mean of the family 'own' is not a number where eta = -3"):
        tb.fit("y ~ x", data, family=own, **how)
    own = tb.family("y * eta - exp(eta)", mean="log(eta + 9)", outcomes="counts")
    with pytest.raises(ValueError, match="expected outcome of row 1 is not a number"):
        tb.fit("y ~ x", data, family=own, **how).predict({"x": [5.0, -5000.0]})
