"""Metropolis and two-stage through the harness, and broken kernels that must fail it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import harness
import numpy as np
import pytest
from test_thinned import model_named

from tallbayes.models.glm import GLM
from tallbayes.models.mode import Mode
from tallbayes.sampling import metropolis, two_stage
from tallbayes.sampling.metropolis import MetropolisKernel
from tallbayes.sampling.proposals import Independence, Mixture, OneAtATime, RandomWalk
from tallbayes.sampling.subsample import CaseControl, Subsample
from tallbayes.sampling.surrogate import described
from tallbayes.sampling.taylor import Taylor
from tallbayes.sampling.two_stage import TwoStageKernel

CHAINS = 300
STEPS = 6

SKEWED = harness.skewed_model()
MODE = harness.mode_of(SKEWED)
INITIAL = Independence(MODE.center, MODE.factor)


def proposals(mode: Mode) -> dict[str, Any]:
    independent = Independence(mode.center, mode.factor, 5.0)
    return {
        "one-at-a-time": OneAtATime(2.0 * mode.conditional_sd),
        "random-walk": RandomWalk(mode.factor, 1.5),
        "independence": independent,
        "mixture": Mixture(independent, RandomWalk(mode.factor, 1.0)),
    }


PROPOSALS = proposals(MODE)
SURROGATES = {
    "taylor": Taylor(),
    "taylor with remainders": Taylor(remainders=6),
    "subsample": Subsample(9),
    "case-control": CaseControl(6),
    "callable": lambda theta: -0.3 * float(((theta - [-1.0, 1.0]) ** 2).sum()),
}


def make(
    proposal: str = "random-walk", surrogate: str | None = None, subchain: int | None = None, model: GLM = SKEWED
) -> Any:
    mode = harness.mode_of(model)
    start, chosen = Independence(mode.center, mode.factor), proposals(mode)[proposal]
    if surrogate is None:
        return MetropolisKernel(model, chosen, start)
    built = described(SURROGATES[surrogate]).build(model, mode, np.random.default_rng(3))
    return TwoStageKernel(model, built, chosen, start, subchain)


KERNELS = {
    **{f"mh {proposal}": (proposal, None, None) for proposal in PROPOSALS},
    **{f"two-stage {surrogate}": ("random-walk", surrogate, None) for surrogate in SURROGATES},
    **{f"two-stage {proposal}": (proposal, "subsample", None) for proposal in PROPOSALS},
    **{f"subchain of 4, {surrogate}": ("random-walk", surrogate, 4) for surrogate in SURROGATES},
    **{f"subchain of 5, {proposal}": (proposal, "subsample", 5) for proposal in PROPOSALS},
}
each_kernel = pytest.mark.parametrize("parts", KERNELS.values(), ids=KERNELS.keys())


# --- kind 1: balance ---

# Rounding: log densities of a few tens, summed over 14 rows in other orders.
ROUNDING = 1e-11


@pytest.mark.parametrize("column", [None, 0, 1])
@pytest.mark.parametrize("surrogate", [None, *SURROGATES])
def test_balance_holds_for_every_pair(surrogate, column):
    assert harness.imbalance(make("random-walk", surrogate), np.random.default_rng(1), column=column) < ROUNDING


@pytest.mark.parametrize("subchain", [None, 1, 3, 10])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_transition_matrix_keeps_the_target(surrogate, subchain):
    kernel = make("random-walk", surrogate, None if subchain is None else 1)
    space = harness.FiniteSpace.of(kernel, np.random.default_rng(2))
    assert harness.drift(space.target, space.transition(kernel, subchain)) < 1e-10


def test_transition_matrix_of_metropolis_keeps_the_target():
    kernel = make()
    space = harness.FiniteSpace.of(kernel, np.random.default_rng(2))
    assert harness.drift(space.target, space.transition(kernel)) < 1e-10


# --- kind 2: reductions ---


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_two_stage_with_the_exact_surrogate_is_metropolis(proposal):
    exact = Subsample(SKEWED.observations).build(SKEWED, MODE, np.random.default_rng(0))
    mh = harness.some_draws(make(proposal), [50])
    both = harness.some_draws(TwoStageKernel(SKEWED, exact, PROPOSALS[proposal], INITIAL), [50])
    np.testing.assert_array_equal(mh.theta, both.theta)
    assert 0.1 < mh.accepted.mean() < 0.9


def test_a_subchain_of_one_is_plain_two_stage_for_block_proposals():
    one, plain = (harness.some_draws(make("random-walk", "subsample", subchain), [50]) for subchain in (1, None))
    assert harness.same(one, plain)


# --- kind 3: start in the posterior, stay there ---


@each_kernel
def test_chains_started_in_the_posterior_stay_there(parts):
    assert harness.departure(make(*parts), STEPS, CHAINS, seed=11) > harness.FALSE_ALARM


OTHERS = {
    "mh": ("one-at-a-time", None, None),
    "two-stage": ("random-walk", "subsample", None),
    "subchain": ("mixture", "taylor", 5),
}
# Each family and each kernel once; all pairs in the long run.
PAIRED = [("mh", "poisson"), ("two-stage", "cloglog"), ("subchain", "probit")]


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        pytest.param(kind, family, marks=() if (kind, family) in PAIRED else pytest.mark.long)
        for kind in OTHERS
        for family in ("probit", "cloglog", "poisson")
    ],
)
def test_other_families_stay_in_their_posterior(kind, family):
    kernel = make(*OTHERS[kind], model_named(family))
    assert harness.departure(kernel, STEPS, CHAINS, seed=11) > harness.FALSE_ALARM


# --- kind 4: broken kernels must fail ---


def flipped(full, surrogate):
    return (surrogate[0] - surrogate[1]) - (full[0] - full[1])


def skipped(full, surrogate):
    return np.zeros_like(full[0])


def upside_down(log_q, proposed, current):
    return np.asarray(-log_q + proposed - current)


class PriorDropped:
    """The model with its prior left out of the ratio."""

    def __init__(self, model):
        self._model = model

    def __getattr__(self, name):
        return getattr(self._model, name)

    def log_prior(self, theta):
        return np.zeros(len(theta))


WITHOUT_PRIOR = PriorDropped(SKEWED)  # one for all tests: its exact draws are kept


BROKEN_RATIOS = {
    "stage 2 flipped": (two_stage, "second_log_ratio", flipped),
    "stage 2 skipped": (two_stage, "second_log_ratio", skipped),
    "q-ratio upside down, two-stage": (two_stage, "first_log_ratio", upside_down),
    "q-ratio upside down, mh": (metropolis, "first_log_ratio", upside_down),
}


@pytest.mark.parametrize("broken", BROKEN_RATIOS.values(), ids=BROKEN_RATIOS.keys())
def test_broken_ratios_fail_the_balance_checks(monkeypatch, broken):
    module, name, function = broken
    monkeypatch.setattr(module, name, function)
    kernel = make("random-walk", None if module is metropolis else "callable")
    space = harness.FiniteSpace.of(kernel, np.random.default_rng(2))
    matrix = space.transition(kernel)
    assert harness.bias(space.target, matrix) > 0.1  # the mistake matters on this problem
    assert harness.drift(space.target, matrix) > 1e-3
    assert harness.imbalance(kernel, np.random.default_rng(1)) > 0.1


@pytest.mark.parametrize("broken", list(BROKEN_RATIOS)[:3])
def test_broken_ratios_leave_the_posterior(monkeypatch, broken):
    module, name, function = BROKEN_RATIOS[broken]
    monkeypatch.setattr(module, name, function)
    kernel = make("independence" if "q-ratio" in broken else "random-walk", "callable")
    assert harness.departure(kernel, 2 * STEPS, CHAINS, seed=11) < harness.FALSE_ALARM


@pytest.mark.parametrize("surrogate", [None, "subsample"])
def test_a_dropped_prior_leaves_the_posterior(surrogate):
    kernel = replace(make("random-walk", surrogate), model=WITHOUT_PRIOR)
    assert harness.imbalance(kernel, np.random.default_rng(1)) > 0.1
    assert harness.departure(kernel, 2 * STEPS, CHAINS, seed=11) < harness.FALSE_ALARM


def test_a_subchain_in_fixed_order_fails():
    """Two reversible stage-1 kernels, always in the same order, then stage 2; a fair coin for the order mends it."""
    kernel = make("random-walk", "callable", 1)
    rng = np.random.default_rng(5)
    biases = []
    for _ in range(40):
        spaces = [harness.FiniteSpace.of(kernel, rng)]
        spaces.append(replace(spaces[0], proposal=rng.dirichlet(np.full(6, 0.2), 6) + 1e-9))
        a, b = (harness.with_rejections(space.proposal * space.acceptance(kernel)[0]) for space in spaces)
        second, target = spaces[0].acceptance(kernel)[1], spaces[0].target
        ordered = harness.with_rejections((a @ b) * second)
        coin = harness.with_rejections(0.5 * (a @ b + b @ a) * second)
        assert harness.drift(target, coin) < 1e-10
        biases.append((harness.bias(target, ordered), harness.drift(target, ordered)))
    bias, drift = max(biases)
    assert bias > 0.1
    assert drift > 1e-3


def test_a_track_that_forgets_to_move_leaves_the_posterior(monkeypatch):
    from tallbayes.rows import passes

    monkeypatch.setattr(passes, "move", lambda *arguments: None)
    assert harness.departure(make("one-at-a-time"), 2 * STEPS, CHAINS, seed=11) < harness.FALSE_ALARM


# --- kind 5: known posteriors ---


@pytest.mark.parametrize(
    "parts",
    [
        ("one-at-a-time", None, None),
        pytest.param(("random-walk", None, None), marks=pytest.mark.long),
        pytest.param(("mixture", "taylor", 5), marks=pytest.mark.long),
        pytest.param(("mixture", "taylor with remainders", 5), marks=pytest.mark.long),
        ("one-at-a-time", "case-control", None),
    ],
    ids=str,
)
def test_long_runs_agree_with_quadrature(parts):
    chains = 400
    z = harness.largest_z(make(*parts), 120, chains, 5, harness.Quadrature.of(SKEWED))
    assert z < harness.z_limit(chains)


def test_quadrature_check_sees_a_small_bias():
    """A posterior under a prior only a tenth narrower is told apart."""
    chains = 400
    other = harness.skewed_model(prior_sd=1.8)
    z = harness.largest_z(make(), 120, chains, 5, harness.Quadrature.of(other))
    assert z > harness.z_limit(chains)


@pytest.mark.parametrize("remainders", [pytest.param(0, marks=pytest.mark.long), 2])
def test_the_tail_of_a_level_without_events_is_reached(remainders):
    model = harness.zero_event_model()
    mode = harness.mode_of(model)
    initial = Independence(mode.center, mode.factor)
    surrogate = Taylor(remainders).build(model, mode, np.random.default_rng(1))
    proposal = Mixture(Independence(mode.center, mode.factor, 5.0), RandomWalk(mode.factor, 1.7))
    kernel = TwoStageKernel(model, surrogate, proposal, initial, 5)
    chains = 400
    assert harness.largest_z(kernel, 75, chains, 5, harness.Quadrature.of(model)) < harness.z_limit(chains)


# --- kind 7: same seed, same draws ---


@each_kernel
def test_draws_do_not_depend_on_how_steps_are_split(parts):
    kernel = make(*parts)
    draws = harness.some_draws(kernel, [130])
    assert harness.same(draws, harness.some_draws(kernel, [1, 99, 7, 23]))
    assert not harness.same(*(harness.some_draws(kernel, [5], seed) for seed in (3, 4)))


# --- kind 9: honest counts ---


@each_kernel
def test_rows_touched_are_what_the_passes_got(parts):
    kernel = make(*parts)
    surrogate = getattr(kernel, "surrogate", None)
    before = SKEWED.rows.touched, getattr(surrogate, "touched", 0)
    with ExitStack() as stack:
        few = None
        if getattr(surrogate, "size", 0):
            few = stack.enter_context(harness.counting(getattr(surrogate, "rows", None) or surrogate._rows))
        tally = stack.enter_context(harness.counting(SKEWED.rows))
        draws = harness.some_draws(kernel, [20])
    full = SKEWED.rows.touched - before[0]
    assert full == sum(tally) >= SKEWED.rows.size * draws.decided.sum()
    if few is not None:
        assert surrogate.touched - before[1] == sum(few) > 0
