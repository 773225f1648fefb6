"""Warm-up: the scales it finds are near the best ones that theory or brute force give."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import tallbayes as tb
from tallbayes.sampling import warmup
from tallbayes.sampling.kernel import Streams


def gaussian_like(rows: int = 8_000, columns: int = 3, seed: int = 0) -> tb.GLM:
    """Enough balanced rows that the posterior is close to Gaussian."""
    rng = np.random.default_rng(seed)
    data = {f"x{j}": rng.standard_normal(rows) for j in range(columns)}
    data["y"] = rng.random(rows) < 0.5
    return tb.GLM("y ~ " + " + ".join(f"x{j}" for j in range(columns)), data)


MODEL = gaussian_like()


def tuned(kernel, draws=600, chains=4, seed=1):
    rng = Streams.spawn(seed, chains)
    return kernel.tune(kernel.start(rng), draws, lambda k, state, steps: k.advance(state, steps, rng))


def test_formulas_agree_with_simulation():
    """Acceptance and squared jump of a random walk on a Gaussian, within five Monte Carlo standard errors."""
    rng = np.random.default_rng(0)
    acceptance, jump = warmup._walk(by_column=True)
    for index in (150, 250, 330):
        s = warmup.STEPS[index]
        x, z = rng.standard_normal((2, 400_000))
        accept = np.exp(np.minimum(0, (x**2 - (x + s * z) ** 2) / 2))
        for values, expected in ((accept, acceptance[index]), (accept * (s * z) ** 2, jump[index])):
            assert abs(values.mean() - expected) < 5 * stats.sem(values)


@pytest.fixture(scope="module")
def mh():
    """Metropolis, tuned."""
    return tuned(tb.MH("one-at-a-time").kernel(MODEL, seed=1))[0]


@pytest.mark.parametrize(
    ("proposal", "best", "start"),
    [
        pytest.param(proposal, best, start, marks=() if start in every_run else pytest.mark.long)
        for proposal, best, every_run in (("one-at-a-time", 0.44, (8.0,)), ("random-walk", 0.234, (0.1, 8.0)))
        for start in (0.1, 1.0, 8.0)
    ],
)
def test_metropolis_reaches_the_textbook_acceptance(proposal, best, start):
    kernel = tb.MH(proposal).kernel(MODEL, seed=1)
    object.__setattr__(kernel, "proposal", kernel.proposal.scaled(start))
    kernel, state = tuned(kernel)
    rng = Streams.spawn(2, 4)
    draws = kernel.advance(state, 300, rng)[1]
    # The smallest nearly best step accepts somewhat more than the best one; a block of four is not yet "many".
    assert best - 0.05 < draws.accepted.mean() < best + 0.15


def test_a_good_cheap_surrogate_asks_for_larger_steps(mh):
    cheap = tb.TwoStage(tb.Taylor(), "one-at-a-time", subchain=0).kernel(MODEL, seed=1)
    assert (tuned(cheap)[0].proposal.scales > 1.3 * mh.proposal.scales).all()


def test_a_poor_surrogate_asks_for_smaller_steps(mh):
    poor = tb.TwoStage(tb.Subsample(200)).kernel(MODEL, seed=1)
    assert np.median(tuned(poor)[0].proposal.scales / mh.proposal.scales) < 0.7


def test_without_draws_nothing_is_tuned():
    kernel = tb.MH().kernel(MODEL, seed=1)
    assert tuned(kernel, draws=0)[0] is kernel


def test_tuning_makes_a_new_kernel_and_leaves_the_old_one():
    kernel = tb.MH().kernel(MODEL, seed=1)
    before = kernel.proposal.scale
    after = tuned(kernel)[0]
    assert kernel.proposal.scale == before
    assert after.proposal.scale != before
