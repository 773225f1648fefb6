"""Methods as values; what method="auto" chooses, that it says why, and that it never looks at a clock."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

import tallbayes as tb
from tallbayes.sampling import methods, thinned_setup
from tallbayes.sampling.kernel import Streams
from tallbayes.sampling.metropolis import MetropolisKernel
from tallbayes.sampling.thinned import ThinnedKernel
from tallbayes.sampling.two_stage import TwoStageKernel


def simulated(rows: int, columns: int, share: float = 0.3, slopes: float = 0.3) -> tb.GLM:
    rng = np.random.default_rng(0)
    x = np.ones((columns, rows))
    x[1:] = rng.standard_normal((columns - 1, rows))
    eta = np.log(share / (1 - share)) + slopes * rng.standard_normal(columns - 1) @ x[1:]
    return tb.GLM.from_arrays(x.T, tb.Bernoulli().simulate(rng, eta))


TALL = simulated(200_000, 4)


def test_tall_data_are_thinned():
    kernel = tb.Auto().kernel(TALL, seed=1)
    assert isinstance(kernel, ThinnedKernel)
    assert "of 200,000 rows" in kernel.why
    assert "accepted with probability 1.00" in kernel.why


def test_few_events_for_many_columns_get_passes():
    kernel = tb.Auto().kernel(simulated(60_000, 60, share=0.004), seed=1)
    assert not isinstance(kernel, ThinnedKernel)
    assert "more work than a shared pass" in kernel.why


@pytest.mark.parametrize(
    ("acceptance", "tail", "kind", "because"),
    [
        (0.6, 0.0, TwoStageKernel, "0.60"),
        (0.05, 0.0, MetropolisKernel, "0.05"),
        (0.6, 9.0, MetropolisKernel, "tails are longer"),
    ],
)
def test_where_thinning_does_not_pay(monkeypatch, acceptance, tail, kind, because):
    """Two-stage where the expansion is good, Metropolis-Hastings where it is not; and it says what decided."""
    right = thinned_setup.expand

    def dear(*arguments):
        found = right(*arguments)
        outlook = found.outlook._replace(acceptance=acceptance, tail=tail)
        return found._replace(plan=found.plan._replace(events=1e9), outlook=outlook)

    monkeypatch.setattr(thinned_setup, "expand", dear)
    kernel = tb.Auto().kernel(TALL, seed=1)
    assert isinstance(kernel, kind)
    assert "more work than a shared pass" in kernel.why
    assert because in kernel.why
    assert kernel.exact


def test_long_tails_get_more_proposals_that_reach_out(monkeypatch):
    """The tail guard: it says whose tail it is, and falls back to a mixture that reaches it."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 400))
    y = (np.arange(400) % 200 == 7).astype(float)
    model = tb.GLM.from_arrays(np.stack([np.ones(400), *x], axis=1), y, coefficients=["a", "b", "c"])
    monkeypatch.setattr(thinned_setup, "LONG_TAIL", 0.0)
    kernel = tb.Auto().kernel(model, seed=1)
    assert 0 < kernel.moves.heavy <= kernel.moves.walk == thinned_setup.LONG_SHARE
    assert "tails are longer than those of its proposals (most for '" in kernel.why


def test_the_choice_is_in_the_fit_and_in_print():
    rng = np.random.default_rng(2)
    given = {"x": rng.standard_normal(5_000), "y": rng.random(5_000) < 0.2}
    fit = tb.fit("y ~ x", given, draws=200, seed=1, progress=False)
    assert fit.stats["method"] == "thinned"
    assert "rows" in fit.stats["why"]
    assert "chosen" in repr(fit)
    assert "lp" not in fit.sample_stats
    explicit = tb.fit("y ~ x", given, method="thinned", draws=200, seed=1, progress=False)
    assert explicit.stats["why"] == ""
    assert "chosen" not in repr(explicit)
    np.testing.assert_array_equal(fit.draws, explicit.draws)


def test_a_method_has_its_own_options_only():
    assert isinstance(tb.TwoStage(tb.Subsample(1_000)).kernel(TALL, seed=1), TwoStageKernel)
    for kind, option in ((tb.Thinned, "surrogate"), (tb.MH, "subchain"), (tb.Auto, "shards"), (tb.TwoStage, "inner")):
        with pytest.raises(TypeError, match=option):
            kind(**{option: 3})


def test_names_are_those_of_the_defaults():
    """A name anywhere stands for the method without options, and a method is a value."""
    for name, kind in methods.KINDS.items():
        assert methods.named(name) == kind()
        assert methods.named(kind()) == kind()
        assert hash(kind()) == hash(kind())
    assert tb.Consensus(3, inner="mh") == tb.Consensus(3, inner=tb.MH())
    assert tb.Consensus(3).inner == tb.Auto()
    assert tb.Consensus(3, inner=tb.TwoStage(tb.Stratified(10, by="g"))).columns == ("g",)
    assert tb.TwoStage(len).columns == ()


BAD = {
    "unknown name": (lambda: tb.sample(TALL, "nuts"), "method 'nuts' is not known; choose one of auto, thinned"),
    "no method": (lambda: tb.sample(TALL, 200), "method must be one of 'auto'.*, or a value such as"),
    "a class": (lambda: tb.sample(TALL, tb.MH), "or a value such as"),
    "half a step": (lambda: tb.TwoStage(subchain=2.5), "subchain must be a whole number from 0 to 1,000, not 2.5"),
    "no surrogate": (lambda: tb.TwoStage("taylor"), "surrogate must be tb.Taylor, .* not 'taylor'"),
    "no shards": (lambda: tb.Consensus(0), "shards must be a whole number from 1 to 10,000"),
    "no worker": (lambda: tb.Consensus(workers=0), "workers must be"),
    "unknown inner": (lambda: tb.Consensus(inner="gibbs"), "inner 'gibbs' is not known"),
    "inner approximate": (lambda: tb.Consensus(inner=tb.Subsampling()), "inner must be an exact method"),
    "inner consensus": (lambda: tb.Consensus(inner=tb.Consensus()), "inner must be an exact method"),
    "no estimator": (lambda: tb.Subsampling(tb.Taylor()), "estimator must be tb.TaylorProxy or tb.SplineProxy"),
    "unknown proposal": (lambda: tb.MH("hmc").kernel(TALL), "proposal 'hmc' is not known; choose one of one-at-a-time"),
    "cells": (lambda: tb.TwoStage(tb.Cells()).kernel(TALL), "tb.Cells is a surrogate for splines"),
}


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD.keys())
def test_impossible_methods(make, message):
    with pytest.raises(ValueError, match=message):
        make()


OLD = {
    "surrogate": r"method=tb.TwoStage\(surrogate=...\)",
    "proposal": r"method=tb.MH\(proposal=...\) or tb.TwoStage\(proposal=...\)",
    "subchain": r"method=tb.TwoStage\(subchain=...\)",
    "shards": r"method=tb.Consensus\(shards=...\)",
    "inner": r"method=tb.Consensus\(inner=...\)",
    "sharding": r"method=tb.Consensus\(sharding=...\)",
    "combine": r"method=tb.Consensus\(combine=...\)",
    "workers": r"method=tb.Consensus\(workers=...\)",
    "estimator": r"method=tb.Subsampling\(estimator=...\)",
    "drws": "unexpected keyword argument 'drws'",
}


@pytest.mark.parametrize(("name", "message"), OLD.items())
def test_old_spellings_are_refused_with_the_new_one(name, message):
    with pytest.raises(TypeError, match=message):
        tb.fit("y ~ x", "nowhere.csv", **{name: 3})


@pytest.mark.parametrize("name", ["make_kernel", "Metropolis", "Grouped", "ReversibleJump"])
def test_names_that_are_gone_say_what_there_is(name):
    with pytest.raises(AttributeError, match=rf"tb.{name} is gone; there is .*kernel\(model"):
        getattr(tb, name)


def test_no_clock_decides(monkeypatch):
    """With clocks that run wild the draws are the same."""
    rng = np.random.default_rng(2)
    given = {"x": rng.standard_normal(5_000), "y": rng.random(5_000) < 0.2}
    options = {"draws": 300, "seed": 1, "progress": False}
    plain = tb.fit("y ~ x", given, **options)
    monkeypatch.setattr(time, "perf_counter", iter(np.cumsum(rng.exponential(5.0, 1_000_000))).__next__)
    np.testing.assert_array_equal(plain.draws, tb.fit("y ~ x", given, **options).draws)


def test_warm_up_takes_shorter_steps_only_where_they_pay():
    for good in (TALL, simulated(10_000, 7, share=0.05)):  # the second draws many rows ahead
        assert _tuned(tb.Thinned().kernel(good, seed=1)).moves.step == 1.0
    rng = np.random.default_rng(1)
    x = np.ones((12, 120))
    x[1:] = rng.standard_normal((11, 120))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.SeparationWarning)
        poor = tb.Thinned().kernel(tb.GLM.from_arrays(x.T, np.arange(120) % 20 == 0), seed=1)
    assert _tuned(poor).moves.step < 1.0


def _tuned(kernel: ThinnedKernel) -> ThinnedKernel:
    streams = Streams.spawn(1, 4)
    advance = lambda kernel, state, steps: kernel.advance(state, steps, streams)  # noqa: E731
    return kernel.tune(kernel.start(streams), 400, advance)[0]
