"""Reversible jump through the harness: prior recovery, posteriors known exactly, and kernels broken on purpose."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import harness
import numpy as np
import pytest
import splines as small
from harness import FALSE_ALARM
from scipy import stats
from test_calibration import uniformity

from tallbayes.models.glm import GLM
from tallbayes.models.priors import Normal
from tallbayes.rows import threads
from tallbayes.rows.memory import MemoryRows
from tallbayes.sampling.kernel import Draws, Streams
from tallbayes.sampling.methods import TwoStage
from tallbayes.splines import reversible_jump
from tallbayes.splines.basis import KNOT, SIGN, VARIABLE, WIDTH
from tallbayes.splines.cells import Cells, at_reference
from tallbayes.splines.model import MARS, splines
from tallbayes.splines.reversible_jump import ReversibleJumpKernel, _on
from tallbayes.splines.reversible_jump_loop import BIRTH, CHANGE, DEATH, NOTHING, VARY, Proposal, explore, make, propose
from tallbayes.splines.sheet import Sheet, Sheets

CHAINS, STEPS = 500, 4
NOTICED = 1_200  # chains for mistakes that take many to be seen
FAST = ("plain", "plain-joint", "subsample", "cells")
KINDS = [how if how in FAST else pytest.param(how, marks=pytest.mark.long) for how in small.KINDS]
ONLY_COEFFICIENTS = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0])


def _pairs(*fast: tuple[str, int], how: tuple[str, ...] = small.KINDS) -> list[Any]:
    """Kinds of kernels with 3 and 4 variables, of which a few are fast enough for every run."""
    every = [(one, variables) for one in how for variables in (3, 4)]
    return [pair if pair in fast else pytest.param(*pair, marks=pytest.mark.long) for pair in every]


# --- the likelihood switched off ---


@pytest.mark.parametrize(
    ("walk", "joint"),
    [(0.5, 0.7), *(pytest.param(*pair, marks=pytest.mark.long) for pair in ((0.0, 0.0), (0.0, 0.7), (0.5, 0.0)))],
)
def test_without_a_likelihood_the_prior_comes_back_from_anywhere(joint, walk):
    model = small.tiny_model()
    nothing = Sheet.of_rows(model.reference.x, model.reference_sheet.y, np.zeros(8))
    law = small.kernel_for(model, "plain").law._replace(joint=joint, walk=walk, wide=1.1)
    chains, moves = 400, 2_000
    found = []
    for chain in range(chains):
        place, rng = _on(nothing, law, model.nothing), np.random.default_rng([5, chain])
        proposal, tally = Proposal.empty(3, 8, 8), np.zeros((6, 2), np.int64)
        explore(nothing, law, place, proposal, moves, rng, tally)
        found.append(np.concatenate([place.head, place.coefficients, place.bases.ravel()]))
    theta = np.array(found)
    # Independent chains: the number of bases is uniform, at 0 and at the largest too, and lambda has its Gamma prior.
    assert stats.chisquare(np.bincount(theta[:, 0].astype(int), minlength=4)).pvalue > FALSE_ALARM
    assert stats.kstest(theta[:, 1], stats.gamma(2, scale=1 / 2).cdf).pvalue > FALSE_ALARM
    assert small.difference(model, theta, small.draw_prior(model, 20_000, np.random.default_rng(6))) > FALSE_ALARM


FEW_LINES = 0.1  # so that bases of many factors are often not admissible


@cache
def _plain_bases(variables: int, size: int = 20_000) -> list[tuple[tuple[int, float, float], ...]]:
    """Bases from the prior as (variable, sign, knot) of their factors, written with NumPy alone."""
    reference, rng = small.tiny_model(30, variables=variables, lines=FEW_LINES).reference, np.random.default_rng(7)
    x, most = reference.x, min(3, variables)
    degree = rng.integers(1, most + 1, 8 * size)
    chosen = rng.permuted(np.tile(np.arange(variables), (degree.size, 1)), axis=1)[:, :most]
    signs, knots = rng.choice([-1.0, 1.0], chosen.shape), x[chosen, rng.integers(x.shape[1], size=chosen.shape)]
    signs[rng.random(chosen.shape) < FEW_LINES] = 0.0
    knots = np.where(signs == 0, x.mean(1)[chosen], knots)
    columns = np.ones((degree.size, x.shape[1]))
    for j in range(most):
        away = x[chosen[:, j]] - knots[:, [j]]
        factor = np.where(signs[:, [j]] == 0, away, np.maximum(signs[:, [j]] * away, 0.0))
        columns *= np.where(j < degree[:, None], factor, 1.0)
    enough, varies = (columns != 0).sum(1) >= reference.fewest, columns.var(1) > 1e-12 * (columns**2).mean(1)
    alone = (degree == 1) & (signs[:, 0] == 0)
    kept = np.flatnonzero((enough | alone) & varies)[:size]
    assert kept.size == size
    hinges = [list(zip(*(part[i].tolist() for part in (chosen, signs, knots)), strict=True)) for i in kept]
    return [tuple(each[:count]) for each, count in zip(hinges, degree[kept].tolist(), strict=True)]


def _table(bases: list[tuple[tuple[int, float, float], ...]]) -> Counter[Any]:
    """How often each set of variables with its signs comes, whatever the order of the factors."""
    return Counter(tuple(sorted((variable, sign) for variable, sign, _ in basis)) for basis in bases)


@pytest.mark.parametrize(
    ("variables", "joint"),
    [(4, 0.7), *(pytest.param(*pair, marks=pytest.mark.long) for pair in ((3, 0.0), (3, 0.7), (4, 0.0)))],
)
def test_without_a_likelihood_bases_of_three_hinges_have_their_prior(variables, joint):
    """Degrees, variables, signs and knots against a prior drawn with NumPy; one basis of each chain."""
    model = small.tiny_model(30, variables=variables, lines=FEW_LINES)
    chains, moves = 1_000, 400
    nothing = Sheet.of_rows(model.reference.x, model.reference_sheet.y, np.zeros(30))
    law = small.kernel_for(model, "plain").law._replace(joint=joint, wide=1.1)
    sizes, found = [], []
    for chain in range(chains):
        place, rng = _on(nothing, law, model.nothing), np.random.default_rng([6, chain])
        explore(nothing, law, place, Proposal.empty(3, 30, 30), moves, rng, np.zeros((6, 2), np.int64))
        sizes.append(int(place.head[0]))
        if sizes[-1]:
            basis = place.bases[chain % sizes[-1]]
            hinges = range(int(basis[0]))
            found.append(tuple((int(basis[VARIABLE + j]), basis[SIGN + j], basis[KNOT + j]) for j in hinges))
    truth = _plain_bases(variables)
    assert stats.chisquare(np.bincount(sizes, minlength=4)).pvalue > FALSE_ALARM
    degrees = [np.bincount([len(one) for one in sample], minlength=4)[1:] for sample in (found, truth)]
    assert min(degrees[1]) > 0
    tables = [_table(found), _table(truth)]
    common = [one for one, count in tables[1].items() if count > 120]  # some six or more among those found
    counts = np.array([[table[one] for one in common] for table in tables])
    rest = np.array([[len(found)], [len(truth)]]) - counts.sum(1, keepdims=True)
    counts = np.concatenate([counts, rest], axis=1)
    p_values = [stats.chi2_contingency(degrees).pvalue, stats.chi2_contingency(counts[:, counts.sum(0) > 0]).pvalue]
    for degree in (1, 2, 3):
        knots = [[one[0][2] for one in sample if len(one) == degree] for sample in (found, truth)]
        p_values.append(stats.ks_2samp(*knots, method="asymp").pvalue)
    assert min(p_values) > FALSE_ALARM / len(p_values)
    # As if all sets of variables and all knots had the same chance, whether admissible or not: told apart.
    uneven = stats.chi2_contingency([np.full(3, len(found) // 3), degrees[1]]).pvalue
    assert uneven < FALSE_ALARM


@pytest.mark.parametrize(("how", "variables"), _pairs(("plain", 4), how=("plain", "plain-joint")))
def test_informed_proposals_of_many_variables_keep_the_prior(how, variables):
    model = small.tiny_model(variables=variables)
    assert small.departure(small.kernel_for(model, how, power=0.0), STEPS, CHAINS, 1) > FALSE_ALARM


@pytest.mark.parametrize(
    "how", ["plain-joint", *(pytest.param(how, marks=pytest.mark.long) for how in ("plain", "plain-walk"))]
)
def test_informed_proposals_keep_the_prior_where_the_likelihood_has_power_zero(how):
    # The sheet still says where coefficients should be: every density of a proposal must be paid back.
    assert small.departure(small.kernel_for(small.tiny_model(), how, power=0.0), STEPS, CHAINS, 1) > FALSE_ALARM


# --- start in the posterior, stay there ---


@pytest.mark.parametrize("how", KINDS)
def test_chains_that_start_in_the_posterior_stay_there(how):
    kernel = small.kernel_for(small.tiny_model(), how)
    assert small.departure(kernel, STEPS, CHAINS, 2) > FALSE_ALARM


@pytest.mark.parametrize(("how", "variables"), _pairs(("cells", 4)))
def test_chains_of_many_variables_stay_in_the_posterior(how, variables):
    kernel = small.kernel_for(small.tiny_model(variables=variables), how)
    assert small.departure(kernel, STEPS, CHAINS, 2) > FALSE_ALARM


@pytest.mark.long
@pytest.mark.parametrize("how", ["plain", "cells"])
def test_a_wrong_prior_of_the_number_of_bases_is_noticed_with_many_variables(how):
    kernel = small.kernel_for(small.tiny_model(variables=4), how)
    tilted = kernel.law._replace(log_k=0.5 * np.arange(4))
    assert small.departure(replace(kernel, law=tilted), 4 * STEPS, NOTICED, 2) < FALSE_ALARM


def test_a_likelihood_to_a_power_is_sampled_as_such():
    model = small.tiny_model()
    kernel = small.kernel_for(model, "cells", power=0.4)
    sheets = tuple(sheet._replace(weights=0.4 * sheet.weights) for sheet in kernel.surrogate.each)
    kernel = replace(kernel, surrogate=Sheets("cells", sheets, kernel.surrogate.partition))
    assert small.departure(kernel, STEPS, CHAINS, 3) > FALSE_ALARM


class _Altered:
    """`propose`, and then something wrong."""

    def __init__(self, kinds: tuple[int, ...], log_factor: float | None) -> None:
        self.kinds, self.log_factor = kinds, log_factor

    def __call__(self, sheet: Any, law: Any, place: Any, rng: Any, proposal: Any, log_uniform: float) -> None:
        propose(sheet, law, place, rng, proposal, -np.inf)
        if proposal.kind[0] in self.kinds:
            proposal.facts[0] = 0.0 if self.log_factor is None else proposal.facts[0] + self.log_factor


@pytest.mark.parametrize(
    ("how", "kinds", "log_factor", "chains"),
    [
        ("plain", (BIRTH,), np.log(6), 1_200),  # as if orders of three bases in the list did not cancel
        ("subsample", (DEATH,), -np.log(2), 2_400),
        ("plain", (BIRTH, DEATH), None, 2_400),  # prior and density dropped
        ("plain", (CHANGE, VARY), None, 2_400),
    ],
)
@pytest.mark.long  # Python makes each move; that a wrong ratio of births is noticed, wrong priors of their number show
def test_a_wrong_ratio_is_noticed(monkeypatch, how, kinds, log_factor, chains):
    altered = _Altered(kinds, log_factor)

    def screen(sheet: Any, law: Any, place: Any, proposal: Any, moves: int, rng: Any, tally: Any) -> int:
        for made in range(moves):
            log_uniform = np.log(rng.random())
            altered(sheet, law, place, rng, proposal, log_uniform)
            if proposal.kind[0] != NOTHING and log_uniform < proposal.facts[0] + proposal.facts[1] - place.value[0]:
                return made
        return moves

    monkeypatch.setattr(reversible_jump, "propose", altered)
    monkeypatch.setattr(reversible_jump, "screen", screen)
    kernel = replace(small.kernel_for(small.tiny_model(), how), rounds=16)
    assert small.departure(kernel, STEPS, chains, 2) < FALSE_ALARM


def test_a_wrong_prior_of_the_number_of_bases_is_noticed():
    kernel = small.kernel_for(small.tiny_model(), "cells")
    tilted = kernel.law._replace(log_k=0.5 * np.arange(4))
    assert small.departure(replace(kernel, law=tilted), 4 * STEPS, CHAINS, 2) < FALSE_ALARM


class _NeverDecides(ReversibleJumpKernel):
    """Takes whatever the surrogate leads to."""

    def _decide(self, *arguments: Any) -> bool:
        super()._decide(*arguments)
        return True


class _ForgetsTheSurrogate(ReversibleJumpKernel):
    """Decides by the full likelihood alone, though stage 1 has already looked at the surrogate's."""

    def _explore(self, *arguments: Any) -> Any:
        return super()._explore(*arguments)._replace(log_ratio=0.0)


@pytest.mark.parametrize("broken", [_NeverDecides, pytest.param(_ForgetsTheSurrogate, marks=pytest.mark.long)])
@pytest.mark.parametrize("how", ["cells", pytest.param("subsample-subchain", marks=pytest.mark.long)])
def test_a_second_stage_that_errs_is_noticed(broken, how):
    sound = small.kernel_for(small.tiny_model(), how)
    kernel = broken(sound.model, sound.law, sound.surrogate, sound.track, sound.subchain)
    assert small.departure(kernel, 3 * STEPS, 2 * NOTICED, 2) < FALSE_ALARM  # for four seeds below 1e-10


# --- a fixed structure, by quadrature ---


@cache
def _fixed(hinges: int = 1) -> tuple[MARS, GLM, np.ndarray]:
    """One basis and lambda = 0.7 that never change, and the same model as a regression on its column."""
    rng = np.random.default_rng(11)
    x = rng.normal(size=(14, 2 if hinges == 1 else 4))
    y = (x[:, 0] > 0.3).astype(float)
    y[0] = 1 - y[0]
    model = MARS(x, y, max_bases=1)
    theta = np.zeros(model.width)
    theta[:2] = 1.0, 0.7
    basis = theta[4:]
    basis[0], column = hinges, np.ones(14)
    for j, (variable, sign) in enumerate(((0, 1.0), (3, -1.0), (2, 1.0))[:hinges]):
        knot = np.sort(x[:, variable])[3 if sign > 0 else -2]
        basis[VARIABLE + j], basis[SIGN + j], basis[KNOT + j] = variable, sign, knot
        column *= np.maximum(sign * (x[:, variable] - knot), 0.0)
    basis[WIDTH - 2], basis[WIDTH - 1] = column.mean(), column.std()
    design = np.column_stack([np.ones(14), (column - column.mean()) / column.std()])
    prior = {"x0": Normal(0.0, small.INTERCEPT_SD), "x1": Normal(0.0, 0.7**-0.5)}
    return model, GLM.from_arrays(design, y, prior=prior), theta


THREE = [(how, 3) if how == "cells" else pytest.param(how, 3, marks=pytest.mark.long) for how in small.KINDS]
ONE = [(how, 1) if how == "plain" else pytest.param(how, 1, marks=pytest.mark.long) for how in small.KINDS]


@pytest.mark.parametrize(("how", "hinges"), ONE + THREE)
def test_coefficients_of_a_fixed_structure_agree_with_quadrature(how, hinges):
    model, same, theta = _fixed(hinges)
    kernel = small.kernel_for(model, how)
    kernel = replace(kernel, law=kernel.law._replace(moves=ONLY_COEFFICIENTS))
    # With three hinges some proposals stay long in the tails: only many chains have averages that are about Normal.
    chains, draws = (80, 50) if hinges == 1 else (400, 20)
    start = np.tile(theta, (chains, 1))
    start[:, 2:4] = harness.exact_draws(same, chains)
    rng = Streams.spawn(8, chains)
    drawn = kernel.advance(kernel.start(rng, theta=start), draws, rng)[1].theta[..., 2:4]
    truth, scores = harness.Quadrature.of(same), []
    for j in range(2):
        grid = truth.grid[:, j]
        pairs = [(drawn[..., j], grid), (drawn[..., j] ** 2, grid**2)]
        cuts = [truth.quantile(j, level) for level in (0.01, 0.05, 0.5, 0.95, 0.99)]
        pairs += [(drawn[..., j] <= cut, grid <= cut) for cut in cuts]
        for values, on_grid in pairs:
            average = values.mean(0)
            error = average.std(ddof=1) / np.sqrt(chains)
            scores.append(abs(average.mean() - truth.expectation(on_grid)) / error)
    assert max(scores) < harness.z_limit(chains)


# --- one stage against two ---


@pytest.mark.long
def test_one_stage_and_two_agree_on_small_data():
    model, chains, runs = small.larger_model(), 24, {}
    for how, draws in (("plain", 120), ("plain-joint", 120), ("subsample", 160), ("cells", 240)):
        kernel, rng = small.kernel_for(model, how), Streams.spawn(9, chains)
        kernel = replace(kernel, rounds=10 if kernel.subchain < 2 else 1, law=kernel.law._replace(intercept_sd=10.0))
        if how == "cells":
            partition = kernel.surrogate.partition
            assert partition is not None
            sheet = at_reference(model, partition, kernel.start(rng).theta)
            kernel = replace(kernel, surrogate=Sheets("cells", (sheet,), partition), subchain=10)
        state, _ = kernel.advance(kernel.start(rng), draws // 4, rng)
        runs[how] = model.watched(kernel.advance(state, draws, rng)[1].theta.swapaxes(0, 1)).mean(1)
    limit = stats.t.isf(FALSE_ALARM / (2 * 3 * 22), chains - 1)
    for how in ("plain-joint", "subsample", "cells"):
        a, b = runs["plain"], runs[how]
        z = (a.mean(0) - b.mean(0)) / np.sqrt((a.var(0, ddof=1) + b.var(0, ddof=1)) / chains)
        assert np.abs(z).max() < limit, how


def test_with_all_rows_as_the_surrogate_two_stages_are_one():
    model = small.larger_model()
    x, y = model.rows.arrays.x, model.rows.arrays.y
    sheets = Sheets("all", (Sheet.of_rows(x, y, np.ones(y.size)),))
    plain = replace(small.kernel_for(model, "plain"), surrogate=sheets)
    plain = replace(plain, law=plain.law._replace(wide=1.5))
    one, two = (harness.some_draws(kernel, [40]) for kernel in (plain, replace(plain, subchain=1)))
    assert np.array_equal(one.theta, two.theta)
    assert two.accepted.any()
    assert np.abs(two.log_second[two.decided]).max() < 1e-9  # nothing is left for the second stage


# --- what does not change the draws, and what passes the door ---


@pytest.mark.parametrize("how", small.KINDS)
def test_draws_do_not_depend_on_how_steps_are_split(how):
    kernel = small.kernel_for(small.larger_model(), how)
    assert harness.same(harness.some_draws(kernel, [12]), harness.some_draws(kernel, [5, 1, 6]))


@pytest.mark.parametrize("how", ["plain", "cells"])
def test_a_run_that_was_stopped_and_saved_goes_on_as_if_it_had_not_been(monkeypatch, how):
    monkeypatch.setattr(reversible_jump, "REFRESH", 50)
    kernel = small.kernel_for(small.larger_model(), how)
    rng = Streams.spawn(3, 2)
    state, first = kernel.advance(kernel.start(rng), 7, rng)
    saved = pickle.dumps((state, rng))
    state, rng = pickle.loads(saved)
    _, second = kernel.advance(state, 55, rng)  # beyond a refresh
    broken = Draws(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))
    assert harness.same(broken, harness.some_draws(kernel, [62]))


@pytest.mark.parametrize("how", ["plain", "subsample", "cells"])
def test_the_memory_for_columns_changes_no_number(how):
    model = small.larger_model(300)
    kernel, drawn = small.kernel_for(model, how), []
    for memory in (1e9, 0.0, 3 * 8 * 300):  # all columns, none, three of them
        model.memory = memory
        drawn.append(harness.some_draws(kernel, [60]))
    assert drawn[0].accepted.any()
    assert harness.same(drawn[0], drawn[1])
    assert harness.same(drawn[0], drawn[2])


def test_draws_have_the_same_bits_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(reversible_jump, "LITTLE", 0)
    model = small.larger_model(200_000)
    kernel, drawn = small.kernel_for(model, "cells"), []
    for count in (1, 2):
        with threads.using(count):
            drawn.append(harness.some_draws(kernel, [4]))
    assert harness.same(*drawn)


def _check_looks(kernel: ReversibleJumpKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are counted as they pass, and pass only where a move or a subchain on the sheet has led somewhere else."""
    from tallbayes.splines import track as spline_track

    rows, surrogate, rng, passed = kernel.model.rows, kernel.surrogate, Streams.spawn(3, 2), []
    state = kernel.start(rng)
    compiled = spline_track.moved_spline
    monkeypatch.setattr(spline_track, "moved_spline", lambda *a: passed.append(a[2].size) or compiled(*a))
    before, screened = rows.touched, surrogate.touched
    _, draws = kernel.advance(state, 200, rng)
    assert rows.touched - before == sum(passed) > 0, "rows pass uncounted"
    moves = 200 * 2 * kernel.rounds * max(1, kernel.subchain)
    assert surrogate.touched - screened == moves * surrogate.of(0).weights.size, "rows of the sheet pass uncounted"
    if kernel.subchain == 0:
        return
    # The column of a basis that stage 1 turns down is never computed on all rows. Of a subchain all moves may be turned
    # down, or all but those of lambda, and then there is nothing to decide; otherwise all rows decide once, at its end.
    turned_down = draws.screened == 0
    assert turned_down.any(), "stage 1 turns nothing down, so nothing is tested"
    assert len(passed) == draws.decided.sum(), "rows are looked at more than once for a decision"
    assert not draws.decided[turned_down].any(), "rows are looked at for what stage 1 has turned down"


@pytest.mark.parametrize("how", ["plain", "subsample", "subsample-subchain", "cells"])
def test_rows_are_counted_as_they_pass(monkeypatch, how):
    _check_looks(small.kernel_for(small.larger_model(), how), monkeypatch)


class _LooksTwice(ReversibleJumpKernel):
    """Looks at all rows once more than it counts decisions."""

    def _decide(self, chain: int, found: Any, full: Any, *arguments: Any) -> bool:
        self.track.at(full, chain, found.terms)
        return super()._decide(chain, found, full, *arguments)


class _LooksAnyway(ReversibleJumpKernel):
    """Looks at all rows also where a subchain has led nowhere."""

    def _decide(self, chain: int, found: Any, *arguments: Any) -> bool:
        terms = found.terms._replace(constant=found.terms.constant or 1e-300)
        return super()._decide(chain, found._replace(terms=terms), *arguments)


@pytest.mark.parametrize(("broken", "how", "message"), [
    (_LooksTwice, "subsample", "more than once"),
    (_LooksTwice, "cells", "more than once"),
    (_LooksAnyway, "subsample-subchain", "stage 1 has turned down"),
    (_LooksAnyway, "cells", "stage 1 has turned down"),
])  # fmt: skip
def test_looks_at_rows_that_are_not_needed_are_noticed(monkeypatch, broken, how, message):
    sound = small.kernel_for(small.larger_model(), how)
    kernel = broken(sound.model, sound.law, sound.surrogate, sound.track, sound.subchain, sound.rounds)
    with pytest.raises(AssertionError, match=message):
        _check_looks(kernel, monkeypatch)


def test_a_death_pays_back_what_the_birth_has_cost():
    model = small.larger_model()
    sheet, law = model.reference_sheet, small.kernel_for(model, "plain").law
    births, deaths = (law._replace(moves=np.array(moves, float)) for moves in ([1] * 6, [0, 1, 1, 1, 1, 1]))
    for seed in range(40):
        rng = np.random.default_rng(seed)
        theta = small.draw_prior(model, 1, rng)[0]
        place, proposal = _on(sheet, law, theta), Proposal.empty(4, 60, 60)
        if theta[0] == 4:
            continue
        before = place.value[0]
        propose(sheet, births, place, rng, proposal, -np.inf)
        cost = proposal.facts[0] + proposal.facts[1] - before
        make(sheet, law, place, proposal)
        proposal.kind[1] = -1
        while proposal.kind[1] != theta[0]:  # until the very basis that was born is the one to die
            propose(sheet, deaths, place, rng, proposal, -np.inf)
        assert np.isclose(proposal.facts[0] + proposal.facts[1] - place.value[0], -cost, atol=1e-6)
        assert np.isclose(proposal.facts[1], before)


def test_what_is_left_undone_would_not_have_changed_the_decision():
    """A proposal whose log ratio cannot pass is cut short; the same numbers without the cut are turned down as well."""
    model = small.larger_model()
    sheet, law = model.reference_sheet, small.kernel_for(model, "plain").law
    cut = 0
    for seed in range(300):
        theta = small.draw_prior(model, 1, np.random.default_rng([1, seed]))[0]
        ratios = []
        for log_uniform in (-3.0, -np.inf):
            place, proposal = _on(sheet, law, theta), Proposal.empty(4, 60, 60)
            propose(sheet, law, place, np.random.default_rng([2, seed]), proposal, log_uniform)
            ratios.append(proposal.facts[0] + proposal.facts[1] - place.value[0])
        if ratios[0] == -np.inf:
            cut += 1
            assert ratios[1] <= -3.0
        else:
            assert ratios[0] == ratios[1]
    assert cut > 5


def test_impossible_moves_do_nothing():
    model = small.tiny_model()
    sheet, law = model.reference_sheet, small.kernel_for(model, "plain").law
    place, proposal = _on(sheet, law, model.nothing), Proposal.empty(3, 8, 8)
    for kind, moves in ((DEATH, [0, 1, 1, 1, 1, 1]), (CHANGE, [0, 0, 1, 1, 1, 1]), (VARY, [0, 0, 0, 1, 1, 1])):
        propose(sheet, law._replace(moves=np.array(moves, float)), place, np.random.default_rng(0), proposal, 0.0)
        assert proposal.kind[0] == NOTHING, kind
    full = small.exact_draws(model, 2_000)
    place = _on(sheet, law, full[full[:, 0] == 3][0])
    propose(sheet, law._replace(moves=np.ones(6)), place, np.random.default_rng(0), proposal, 0.0)
    assert proposal.kind[0] == NOTHING


# --- simulation-based calibration ---


def _ranks(repeats: int, log_k: np.ndarray) -> np.ndarray:
    """Ranks of the true k, lambda and log-odds among 99 draws, over data simulated from the prior with k uniform."""
    model, rng, found = small.larger_model(most=log_k.size - 1), np.random.default_rng(20), []
    x = model.rows.arrays.x
    for seed in range(repeats):
        truth = small.draw_prior(model, 1, rng)
        eta = splines(truth, model.most).each(x)[0]
        y = (rng.random(eta.size) < 1 / (1 + np.exp(-eta))).astype(float)
        model.rows = MemoryRows(x, y)
        model.reference_sheet = model.reference_sheet._replace(y=y)  # all rows are reference rows
        kernel = TwoStage(Cells(20, 60)).kernel(model, seed=seed)
        kernel = replace(kernel, law=kernel.law._replace(intercept_sd=small.INTERCEPT_SD, log_k=log_k))
        streams = Streams.spawn(seed, 1)

        def advance(kernel: Any, state: Any, steps: int, streams: Streams = streams) -> Any:
            return kernel.advance(state, steps, streams)

        kernel, state = kernel.tune(kernel.start(streams), 150, advance)
        theta = kernel.advance(state, 396, streams)[1].theta[::4, 0]
        drawn, true = (np.array(small.views(model, t)[:5]).T for t in (theta, truth))
        ties = rng.random(drawn.shape) < rng.random()  # of k, broken at random
        found.append(((drawn < true) | ((drawn == true) & ties)).sum(0))
    return np.array(found)


@pytest.mark.long
def test_simulation_based_calibration():
    assert uniformity(_ranks(250, np.zeros(5))) > FALSE_ALARM


@pytest.mark.long
def test_simulation_based_calibration_sees_a_wrong_prior():
    assert uniformity(_ranks(250, -0.9 * np.arange(5.0))) < FALSE_ALARM
