"""What method="auto" chooses, that it says why, and that it never looks at a clock or picks an approximation."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

import tallbayes as tb
from tallbayes.sampling import thinned_setup
from tallbayes.sampling.kernel import Streams
from tallbayes.sampling.metropolis import Metropolis
from tallbayes.sampling.thinned import Thinned
from tallbayes.sampling.two_stage import TwoStage
from tallbayes.sampling.warmup import tune


def simulated(rows: int, columns: int, share: float = 0.3, slopes: float = 0.3) -> tb.GLM:
    rng = np.random.default_rng(0)
    x = np.ones((columns, rows))
    x[1:] = rng.standard_normal((columns - 1, rows))
    eta = np.log(share / (1 - share)) + slopes * rng.standard_normal(columns - 1) @ x[1:]
    return tb.GLM.from_arrays(x.T, tb.Bernoulli().simulate(rng, eta))


TALL = simulated(200_000, 4)


def test_tall_data_are_thinned():
    kernel = tb.make_kernel(TALL, seed=1)
    assert isinstance(kernel, Thinned)
    assert "of 200,000 rows" in kernel.why
    assert "accepted with probability 1.00" in kernel.why


def test_few_events_for_many_columns_get_passes():
    kernel = tb.make_kernel(simulated(60_000, 60, share=0.004), seed=1)
    assert not isinstance(kernel, Thinned)
    assert "more work than a shared pass" in kernel.why


@pytest.mark.parametrize(
    ("acceptance", "tail", "kind", "because"),
    [(0.6, 0.0, TwoStage, "0.60"), (0.05, 0.0, Metropolis, "0.05"), (0.6, 9.0, Metropolis, "tails are longer")],
)
def test_where_thinning_does_not_pay(monkeypatch, acceptance, tail, kind, because):
    """Two-stage where the expansion is good, Metropolis-Hastings where it is not; and it says what decided."""
    right = thinned_setup.expand

    def dear(*arguments):
        found = right(*arguments)
        outlook = found.outlook._replace(acceptance=acceptance, tail=tail)
        return found._replace(plan=found.plan._replace(events=1e9), outlook=outlook)

    monkeypatch.setattr(thinned_setup, "expand", dear)
    kernel = tb.make_kernel(TALL, seed=1)
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
    kernel = tb.make_kernel(model, seed=1)
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


def test_a_surrogate_means_two_stage():
    assert isinstance(tb.make_kernel(TALL, surrogate=tb.Subsample(1_000), seed=1), TwoStage)
    with pytest.raises(ValueError, match="takes no surrogate"):
        tb.make_kernel(TALL, "thinned", surrogate=tb.Taylor())


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
        assert _tuned(tb.make_kernel(good, "thinned", seed=1)).moves.step == 1.0
    rng = np.random.default_rng(1)
    x = np.ones((12, 120))
    x[1:] = rng.standard_normal((11, 120))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.SeparationWarning)
        poor = tb.make_kernel(tb.GLM.from_arrays(x.T, np.arange(120) % 20 == 0), "thinned", seed=1)
    assert _tuned(poor).moves.step < 1.0


def _tuned(kernel: Thinned) -> Thinned:
    streams = Streams.spawn(1, 4)
    advance = lambda kernel, state, steps: kernel.advance(state, steps, streams)  # noqa: E731
    found: Thinned = tune(kernel, kernel.start(streams), 400, advance)[0]
    return found
