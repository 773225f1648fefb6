"""Splines with coefficients integrated out: weights by quadrature, balance on few bases, known posteriors.

Statistical checks have a false-alarm rate of FALSE_ALARM each, and seeds are fixed. What is broken on purpose is first
shown to be far from what is right.
"""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import harness
import numpy as np
import pytest
import splines as small
from harness import FALSE_ALARM
from scipy import stats

from tallbayes.data.timing import Phases
from tallbayes.families.compiled import LEAN, compiled
from tallbayes.rows import threads
from tallbayes.sampling.kernel import Draws, Path, Streams
from tallbayes.sampling.methods import Auto
from tallbayes.splines import collapsed
from tallbayes.splines.basis import DEGREE, KNOT, MEAN, SD, SIGN, VARIABLE, WIDTH
from tallbayes.splines.collapsed import CollapsedKernel
from tallbayes.splines.collapsed_loop import (
    BIRTH,
    CHANGE,
    COLLAPSED,
    DEATH,
    GUIDED,
    KINDS,
    LOOKING,
    SCALE,
    VARY,
    Place,
    _explore,
    enter,
    explore,
    nudge,
)
from tallbayes.splines.guide import learn_guide
from tallbayes.splines.model import MARS, splines
from tallbayes.splines.places import theta_of
from tallbayes.splines.quadratic import along
from tallbayes.splines.reference import without_stragglers
from tallbayes.splines.reversible_jump import ReversibleJumpKernel

CHAINS, STEPS = 500, 4
NOTICED = 800  # chains for a mistake that takes many to be seen
PRECISION = 0.7  # where lambda is fixed


def only(*kinds: int, share: float = 0.5) -> np.ndarray:
    """Cumulative probabilities with which these kinds of moves alone are picked, the first with this share."""
    chances = np.zeros(KINDS)
    chances[list(kinds)] = [share, 1 - share] if len(kinds) == 2 else 1.0
    return np.cumsum(chances)


ONLY = {
    "birth and death": only(BIRTH, DEATH),
    "change": only(CHANGE),
    "variation": only(VARY),
    "guided birth and death": only(GUIDED + BIRTH, GUIDED + DEATH),
    "guided change": only(GUIDED + CHANGE),
}
NO_LAMBDA = np.cumsum([0.2, 0.2, 0.1, 0.2, 0.0, 0.1, 0.1, 0.1])


# --- the quadratic, and the integral over coefficients ---


@dataclass(frozen=True)
class Written:
    """L* of a kernel, written with NumPy alone but for the values of splines: the first-order term over all rows."""

    kernel: CollapsedKernel
    reference: np.ndarray  # (splines, width) around whose mean the quadratic is
    share: float = 1.0  # of the first-order term that is there

    @property
    def slope(self) -> np.ndarray:
        """g of each row."""
        rows = self.kernel.model.rows.arrays
        return self.share * self.kernel.power * (rows.y - 1 / (1 + np.exp(-self.on(rows.x))))

    def on(self, x: np.ndarray) -> np.ndarray:
        """Log-odds of the reference."""
        return splines(self.reference, self.kernel.model.most).mean(x)

    def products(self, bases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A and r of some bases (k, WIDTH), the intercept first."""
        k, points = len(bases), self.kernel.quadratic
        each = splines(_unit_vectors(self.kernel.model, bases), self.kernel.model.most)
        on_points, on_rows = each.each(points.x), each.each(self.kernel.model.rows.arrays.x)
        assert on_points.shape[0] == k + 1
        pull = points.weights * self.on(points.x)
        return (on_points * points.weights) @ on_points.T, on_points @ pull + on_rows @ self.slope

    def log_weight(self, bases: np.ndarray, precision: float) -> float:
        """Log of the integral of exp L* and the prior over coefficients, besides a constant."""
        gram, slope = self.products(bases)
        prior = np.append(self.kernel.law.intercept_sd**-2, np.full(len(bases), precision))
        full = gram + np.diag(prior)
        value = slope @ np.linalg.solve(full, slope) - np.linalg.slogdet(full)[1] + np.log(prior).sum()
        return float(0.5 * value)


def _unit_vectors(model: MARS, bases: np.ndarray) -> np.ndarray:
    """Parameter vectors of one, and of each basis by itself."""
    theta = np.zeros((len(bases) + 1, model.width))
    theta[0, 2] = 1.0
    theta[1:, 0] = theta[1:, 3] = 1.0
    theta[1:, model.most + 3 : model.most + 3 + WIDTH] = bases
    return theta


def _written(kernel: CollapsedKernel) -> Written:
    return Written(kernel, small.draw_prior(kernel.model, 2, np.random.default_rng(1)))


def to_power(kernel: CollapsedKernel, power: float) -> CollapsedKernel:
    """The same for the likelihood to some power."""
    reference = splines(_written(kernel).reference, kernel.model.most)
    return replace(kernel, quadratic=kernel.expansion.at(reference, power), power=power)


def with_law(kernel: CollapsedKernel, **changes: Any) -> CollapsedKernel:
    """With another prior, or other moves."""
    return replace(kernel, law=kernel.law._replace(**changes))


def with_first_order(kernel: CollapsedKernel, share: float) -> CollapsedKernel:
    """With a share of the first-order term."""
    first = kernel.quadratic.first
    less = first._replace(numbers=share * first.numbers, total=share * first.total)
    return replace(kernel, quadratic=kernel.quadratic._replace(first=less))


def apart(one: np.ndarray, two: np.ndarray) -> float:
    """Total variation distance."""
    return float(0.5 * np.abs(one - two).sum())


def _place(kernel: CollapsedKernel, bases: np.ndarray, precision: float = PRECISION) -> tuple[Place, Any]:
    """A place with these bases, and the room that it was entered from."""
    place, room = Place.empty(kernel.model.most, kernel.quadratic.weights.size), kernel._room()
    place.head[:], place.bases[: len(bases)] = (len(bases), precision), bases
    enter(kernel.quadratic, kernel.law, place, room)
    return place, room


@pytest.mark.parametrize("points", [3, 60])
def test_products_are_those_of_points_and_all_rows(points):
    kernel = small.collapsed_kernel(small.larger_model(), points)
    written, rng = _written(kernel), np.random.default_rng(4)
    for k in range(5):
        bases = small.prior_bases(kernel.model.reference, k, rng)
        place, _ = _place(kernel, bases)
        gram, slope = written.products(bases)
        np.testing.assert_allclose(place.products.gram[: k + 1, : k + 1], gram, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(place.products.slope[: k + 1], slope, rtol=1e-10, atol=1e-9)


def test_weights_are_integrals_over_coefficients():
    """By a grid, up to one constant for any number of bases and any lambda; and the mean of the Gaussian is its top."""
    kernel = small.collapsed_kernel(small.larger_model())
    written, rng, apart = _written(kernel), np.random.default_rng(5), []
    for k, precision in itertools.product((0, 1, 2), (0.2, 3.0)):
        bases = small.prior_bases(kernel.model.reference, k, rng)
        place, room = _place(kernel, bases, precision)
        gram, slope = written.products(bases)
        sd = np.append(kernel.law.intercept_sd, np.full(k, precision**-0.5))

        def log_density(b: np.ndarray, gram: Any = gram, slope: Any = slope, sd: Any = sd) -> np.ndarray:
            return b @ slope - 0.5 * ((b @ gram) * b).sum(-1) + stats.norm.logpdf(b, 0.0, sd).sum(-1)

        mean, steps = room.gaussian.mean[: k + 1], 1e-3 * np.eye(k + 1)
        uphill = (log_density(mean + steps) - log_density(mean - steps)) / 2e-3
        np.testing.assert_allclose(uphill, 0.0, atol=1e-6)
        axes = np.linalg.inv(np.linalg.cholesky(gram + np.diag(sd**-2.0)))  # z = axis'(b - mean) has sd one
        one = np.linspace(-9.0, 9.0, 45)
        grid = mean + np.stack(np.meshgrid(*[one] * (k + 1)), -1).reshape(-1, k + 1) @ axes
        volume = (one[1] - one[0]) ** (k + 1) * np.prod(np.diag(axes))
        integral = np.log(np.exp(log_density(grid) - log_density(mean)).sum() * volume) + log_density(mean)
        apart.append(place.values[0] - integral)
        assert place.values[0] == pytest.approx(written.log_weight(bases, precision) + np.log(sd[0]), abs=1e-8)
    assert np.ptp(apart) < 1e-8


def test_the_quadratic_of_all_rows_is_that_of_the_likelihood():
    model = small.larger_model()
    kernel = small.collapsed_kernel(model, points=60)
    written, x = _written(kernel), model.rows.arrays.x
    eta = written.on(x)
    p = 1 / (1 + np.exp(-eta))
    theta = small.draw_prior(model, 20, np.random.default_rng(6))
    h = splines(theta, model.most).each(x) - eta
    truth = h @ written.slope - 0.5 * h**2 @ (p * (1 - p))
    found = np.array([small.placed(kernel, one).values[1] for one in theta])
    np.testing.assert_allclose(np.diff(found), np.diff(truth), rtol=1e-9, atol=1e-9)


def test_points_meet_any_sum_on_average():
    """Each row is chosen as often as its measure says, so that weights of one over that give sums of all rows."""
    rng, offsets = np.random.default_rng(8), (np.arange(2_000) + 0.5) / 2_000
    measure, order = rng.gamma(1.0, size=40), rng.permutation(40)
    measure[7] *= 30  # is chosen more than once
    sums = np.zeros(40)
    for offset in offsets:
        chosen, share = along(measure, order, 12, offset)
        np.add.at(sums, chosen, share / len(offsets))
    np.testing.assert_allclose(sums, 1.0, atol=0.03)
    assert np.ptp(along(measure, order, 40, 0.3)[1]) == 0  # all of them, as they are


def test_the_curvature_of_points_is_about_that_of_all_rows():
    model = small.larger_model(20_000)
    kernel = small.collapsed_kernel(model, points=2_000)
    rows = model.rows.arrays
    bases = small.prior_bases(model.reference, 20, np.random.default_rng(4))
    eta = _written(kernel).on(rows.x)
    weights = 1 / (2 + np.exp(eta) + np.exp(-eta))
    columns = splines(_unit_vectors(model, bases), model.most)
    full, found = ((w * columns.each(x) ** 2).sum(1) for x, w in ((rows.x, weights), kernel.quadratic[:2]))
    np.testing.assert_allclose(found, full, rtol=0.25)


# --- balance, on few bases ---


@dataclass(frozen=True)
class FewBases:
    """All states that a small model has with lambda fixed, and how probable they are on a quadratic."""

    kernel: CollapsedKernel
    bases: np.ndarray  # (bases, WIDTH)
    density: np.ndarray  # (bases,) under the prior
    admissible: float  # share of bases under the law that draws them again until they are
    states: list[tuple[int, ...]]  # numbers of bases, ascending

    @classmethod
    def of(cls, variables: int, knots: int, most: int, power: float) -> FewBases:
        rng = np.random.default_rng(3)
        x = np.maximum(rng.normal(size=(40, variables)).round(1), -0.3)  # a value so frequent that it is a knot twice
        y = rng.random(40) < 1 / (1 + np.exp(0.5 - 1.5 * np.abs(x[:, 0])))
        model = MARS(x, y, knots=knots, max_bases=most, precision=(2.0, 2.0), min_rows=14, lines=0.2)
        found = _all_bases(model)
        density = np.array([density for _, density in found.values()])
        numbers = range(len(found))
        states = [one for k in range(most + 1) for one in itertools.combinations_with_replacement(numbers, k)]
        bases = np.array([basis for basis, _ in found.values()])
        kernel = to_power(small.collapsed_kernel(model, points=8), power)
        guide = learn_guide(model.reference, bases[:: 1 + len(bases) // 8])  # leaves some forms out
        kernel, share = with_law(kernel, guide=guide), float(density.sum())
        return cls(kernel, bases, density / share, share, states)

    def target(self, share: float = 1.0, tilt: float = 0.0) -> np.ndarray:
        """Probabilities of states, written with NumPy; with a share of the first-order term, and a tilted prior."""
        written = replace(_written(self.kernel), share=share)
        logs = np.array([written.log_weight(self.bases[list(one)], PRECISION) + tilt * len(one) for one in self.states])
        # A list of bases has the product of their densities; a state is all lists that have its bases.
        logs += [np.log(_orders(one) * self.density[list(one)].prod()) for one in self.states]
        odds = np.exp(logs - logs.max())
        return np.asarray(odds / odds.sum())

    def pairs(self, kernel: CollapsedKernel, size: int, seed: int) -> np.ndarray:
        """How often a move led from each state to each, of moves that start where the target says."""
        rng, tally = np.random.default_rng(seed), np.zeros((KINDS, 2), np.int64)
        index = {state: i for i, state in enumerate(self.states)}
        number = {_hinges(basis): i for i, basis in enumerate(self.bases)}
        places = [_place(kernel, self.bases[list(one)])[0] for one in self.states]
        there = Place.empty(kernel.model.most, kernel.quadratic.weights.size)
        common = there, kernel._room(), rng, tally
        counts = np.zeros((len(self.states),) * 2, int)
        for state, times in enumerate(rng.multinomial(size, self.target())):
            reached = np.empty(times), np.empty((times, *there.bases.shape))
            single_moves(COLLAPSED.addresses, kernel.quadratic, kernel.law, places[state], *common, *reached)
            for k, bases in zip(*reached, strict=True):
                now = sorted(number[_hinges(basis)] for basis in bases[: int(k)])
                counts[state, index[tuple(now)]] += 1
        return counts


@compiled(**LEAN)
def single_moves(table, quadratic, law, here, there, room, rng, tally, sizes, bases):
    """The number of bases, and the bases, after one move from the same place, again and again."""
    for i in range(sizes.size):
        for j in range(2):
            there.head[j], there.values[j] = here.head[j], here.values[j]
        for j in range(here.coefficients.size):
            there.coefficients[j] = here.coefficients[j]
            there.products.slope[j] = here.products.slope[j]
            for m in range(here.columns.shape[1]):
                there.columns[j, m] = here.columns[j, m]
            for m in range(here.coefficients.size):
                there.products.gram[j, m] = here.products.gram[j, m]
        for j in range(here.bases.shape[0]):
            for m in range(here.bases.shape[1]):
                there.bases[j, m] = here.bases[j, m]
        _explore(table, quadratic, law, there, room, 1, rng, tally)
        sizes[i] = there.head[0]
        for j in range(here.bases.shape[0]):
            for m in range(here.bases.shape[1]):
                bases[i, j, m] = there.bases[j, m]


def _orders(state: tuple[int, ...]) -> int:
    """Different lists that have these bases."""
    return len(set(itertools.permutations(state)))


def _hinges(basis: np.ndarray) -> Any:
    """What a basis is, in whatever order its hinges are."""
    hinges = range(int(basis[DEGREE]))
    return frozenset((int(basis[VARIABLE + j]), basis[SIGN + j], basis[KNOT + j]) for j in hinges)


def _all_bases(model: MARS) -> dict[Any, tuple[np.ndarray, float]]:
    """Every basis of a model by its hinges, with its density under the prior, besides a constant."""
    x, knots, most, fewest, lines = model.reference
    found: dict[Any, tuple[np.ndarray, float]] = {}
    for degree in range(1, most + 1):
        for some in itertools.permutations(range(len(x)), degree):
            choices = []
            for v in some:
                forms = (0.0, lines[v]), (-1.0, (1 - lines[v]) / 2), (1.0, (1 - lines[v]) / 2)
                choices.append([(sign, knot, chance / knots.shape[1]) for sign, chance in forms for knot in knots[v]])
            for chosen in itertools.product(*choices):
                basis, column, density = np.zeros(WIDTH), np.ones(x.shape[1]), 1 / (most * math.perm(len(x), degree))
                basis[DEGREE] = degree
                for j, (variable, (sign, knot, chance)) in enumerate(zip(some, chosen, strict=True)):
                    basis[[VARIABLE + j, SIGN + j, KNOT + j]] = variable, sign, knot
                    away = x[variable] - knot
                    column *= away if sign == 0 else np.maximum(sign * away, 0.0)
                    density *= chance
                if ((column != 0).sum() < fewest and not (degree == 1 and sign == 0)) or column.std() < 1e-6:
                    continue
                basis[[MEAN, SD]] = column.mean(), column.std()
                found[_hinges(basis)] = basis, density + found.get(_hinges(basis), (basis, 0.0))[1]
    return found


@cache
def few_bases(variables: int) -> FewBases:
    """One variable with five knots and two bases, or two variables with two knots and a basis of up to two factors."""
    return FewBases.of(1, 5, 2, 1.0) if variables == 1 else FewBases.of(2, 2, 1, 0.3)


def asymmetry(counts: np.ndarray) -> float:
    """p-value that moves from where the target says lead from each state to each other as often as back (Bowker)."""
    both = counts + counts.T
    there = np.triu(both >= 10, 1)  # chosen by the sum, which tells nothing of the difference
    assert there.sum() > 5, "hardly anything moves, so nothing is tested"
    squares = (counts - counts.T)[there] ** 2 / both[there]
    return float(stats.chi2.sf(squares.sum(), there.sum()))


MOVES = list(ONLY)


@pytest.mark.parametrize("kind", MOVES)
@pytest.mark.parametrize("variables", [1, 2])
def test_each_kind_of_move_is_in_balance(kind, variables):
    few = few_bases(variables)
    kernel = with_law(few.kernel, moves=ONLY[kind])
    assert asymmetry(few.pairs(kernel, 10_000, 1)) > FALSE_ALARM


@pytest.mark.parametrize("kind", MOVES)
def test_moves_with_a_slope_that_is_off_are_noticed(kind):
    few = few_bases(1)
    assert apart(few.target(), few.target(share=0.0)) > 0.1
    kernel = with_first_order(with_law(few.kernel, moves=ONLY[kind]), 0.0)
    assert asymmetry(few.pairs(kernel, 40_000, 1)) < FALSE_ALARM


@pytest.mark.parametrize("variables", [1, 2])
def test_births_and_deaths_with_a_wrong_ratio_are_noticed(variables):
    few = few_bases(variables)
    assert apart(few.target(), few.target(tilt=0.5)) > 0.1
    for kinds in ((BIRTH, DEATH), (GUIDED + BIRTH, GUIDED + DEATH)):
        tilted = {"moves": only(*kinds), "log_k": 0.5 * np.arange(few.kernel.model.most + 1.0)}
        for changes in (tilted, {"moves": only(*kinds, share=0.62)}):
            kernel = with_law(few.kernel, **changes)
            assert asymmetry(few.pairs(kernel, 10_000 if BIRTH in kinds else 20_000, 1)) < FALSE_ALARM


@pytest.mark.parametrize("variables", [1, 2])
def test_a_guide_that_is_not_what_it_says_or_draws_again_would_be_noticed(variables):
    """Without the coin of guided deaths, each basis would be less probable by the share that is admissible."""
    few = few_bases(variables)
    assert apart(few.target(), few.target(tilt=np.log(few.admissible))) > 0.1
    for kind, part in (("guided birth and death", "gain"), ("guided change", "knot_gain")):
        guide = few.kernel.law.guide
        known = getattr(guide, part)
        other = guide._replace(**{part: known + 0.8 * np.sin(9.0 * np.arange(known.size)).reshape(known.shape)})
        kernel = with_law(few.kernel, moves=ONLY[kind], guide=other)
        assert asymmetry(few.pairs(kernel, 20_000, 1)) < FALSE_ALARM


@pytest.mark.parametrize("k", [0, 2])
def test_lambda_is_in_balance(k):
    few, size = few_bases(1), 5_000
    kernel, rng = with_law(few.kernel, moves=only(SCALE)), np.random.default_rng(2)
    bases, written = few.bases[[1, 4][:k]], _written(few.kernel)
    grid = np.exp(np.linspace(-7.0, 4.0, 1_200))
    logs = np.array([written.log_weight(bases, precision) for precision in grid])
    density = np.exp(logs + stats.gamma.logpdf(grid, kernel.law.shape, scale=1 / kernel.law.rate))
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) * np.diff(grid))])
    before = np.interp(rng.random(size), below / below[-1], grid)
    (place, room), after, tally = _place(kernel, bases), np.empty(size), np.zeros((KINDS, 2), np.int64)
    for i in range(size):
        place.head[1] = before[i]
        explore(kernel.quadratic, kernel.law, place, room, 1, rng, tally)
        after[i] = place.head[1]
    assert stats.kstest(after, lambda at: np.interp(at, grid, below / below[-1])).pvalue > FALSE_ALARM
    assert place.values[0] == pytest.approx(written.log_weight(bases, after[-1]) + np.log(small.INTERCEPT_SD))
    cuts = np.quantile(before, [0.2, 0.4, 0.6, 0.8])
    counts = np.zeros((5, 5), int)
    np.add.at(counts, (np.searchsorted(cuts, before), np.searchsorted(cuts, after)), 1)
    assert asymmetry(counts) > FALSE_ALARM


# --- the likelihood switched off ---


def _without_likelihood(kernel: CollapsedKernel, chains: int, moves: int, precision: float) -> np.ndarray:
    """Parameter vectors after so many moves from nothing, of chains of their own."""
    kernel, found = to_power(kernel, 0.0), []
    assert not any(part.any() for part in (kernel.quadratic.weights, kernel.quadratic.first.numbers))
    for chain in range(chains):
        (place, room), rng = _place(kernel, np.zeros((0, WIDTH)), precision), np.random.default_rng([5, chain])
        explore(kernel.quadratic, kernel.law, place, room, moves, rng, np.zeros((KINDS, 2), np.int64))
        found.append(theta_of(place))
    return np.array(found)


def test_without_a_likelihood_the_prior_comes_back_from_nothing():
    model = small.tiny_model()
    theta = _without_likelihood(small.collapsed_kernel(model), 2_000, 500, 1.0)
    assert stats.chisquare(np.bincount(theta[:, 0].astype(int), minlength=4)).pvalue > FALSE_ALARM
    assert stats.kstest(theta[:, 1], stats.gamma(2, scale=1 / 2).cdf).pvalue > FALSE_ALARM
    fresh = small.draw_prior(model, 20_000, np.random.default_rng(6))
    assert small.difference(model, theta, fresh) > FALSE_ALARM
    wrong = fresh[np.random.default_rng(7).random(20_000) < 0.6 ** fresh[:, 0]]
    assert small.difference(model, theta, wrong) < FALSE_ALARM


def test_without_a_likelihood_and_with_lambda_fixed_any_prior_of_the_number_of_bases_comes_back():
    model, log_k = small.tiny_model(most=3), np.log([1.0, 4.0, 2.0, 3.0])
    kernel = with_law(small.collapsed_kernel(model), log_k=log_k, moves=NO_LAMBDA)
    theta = _without_likelihood(kernel, 3_000, 200, PRECISION)
    assert (theta[:, 1] == PRECISION).all()
    expected = 3_000 * np.exp(log_k) / np.exp(log_k).sum()
    assert stats.chisquare(np.bincount(theta[:, 0].astype(int), minlength=4), expected).pvalue > FALSE_ALARM
    live = theta[:, 3:6][np.arange(3) < theta[:, [0]]]
    assert stats.kstest(live * PRECISION**0.5, "norm").pvalue > FALSE_ALARM
    bases = theta[:, 6:].reshape(-1, 3, WIDTH)[np.arange(3) < theta[:, [0]]]
    truth = small.prior_bases(model.reference, 20_000, np.random.default_rng(8))
    degrees = [np.bincount(some[:, DEGREE].astype(int), minlength=3)[1:] for some in (bases, truth)]
    assert stats.chi2_contingency(degrees).pvalue > FALSE_ALARM
    assert stats.ks_2samp(bases[:, SD], truth[:, SD], method="asymp").pvalue > FALSE_ALARM


# --- start in the posterior, stay there ---


@pytest.mark.parametrize("variables", [2, 4])
def test_chains_that_start_in_the_posterior_stay_there(variables):
    kernel = small.collapsed_kernel(small.tiny_model(variables=variables))
    assert small.departure(kernel, STEPS, CHAINS, 2) > FALSE_ALARM


def test_chains_that_start_in_the_posterior_move():
    """Or else it would be no wonder that they stay there."""
    kernel, rng = small.collapsed_kernel(small.tiny_model()), Streams.spawn(2, 200)
    start = small.exact_draws(kernel.model, 3 * CHAINS)[:200]
    state, draws = kernel.advance(kernel.start(rng, theta=start), STEPS, rng)
    assert draws.decided.all()
    assert 0.2 < draws.accepted.mean() < 0.8
    assert (state.theta[:, 0] != start[:, 0]).mean() > 0.3
    assert (state.tally[:, :, 1].sum(0) > 50).all()


def test_coefficients_that_are_nudged_keep_their_gaussian():
    """Pairs before and after have the same law in both orders, with the correlation that the size of a step says."""
    kernel, runs = small.collapsed_kernel(small.larger_model()), 4_000
    bases = small.prior_bases(kernel.model.reference, 2, np.random.default_rng(4))
    (place, room), rng = _place(kernel, bases), np.random.default_rng(5)
    gram, slope = _written(kernel).products(bases)
    full = gram + np.diag([small.INTERCEPT_SD**-2, PRECISION, PRECISION])
    before = rng.multivariate_normal(np.linalg.solve(full, slope), np.linalg.inv(full), runs)
    after = np.empty_like(before)
    for i in range(runs):
        place.coefficients[:3] = before[i]
        nudge(kernel.law, place, room, 0.6, rng)
        after[i] = place.coefficients[:3]
    root = np.linalg.cholesky(full)  # (b - mean) @ root has independent standard Normal entries
    one, two = ((b - np.linalg.solve(full, slope)) @ root for b in (before, after))
    for values in (*two.T, *((two - 0.8 * one) / 0.6).T):
        assert stats.kstest(values, "norm").pvalue > FALSE_ALARM
    assert stats.kstest(((two - 0.3 * one) / 0.6)[:, 0], "norm").pvalue < FALSE_ALARM
    assert place.values[1] == pytest.approx(after[-1] @ slope - 0.5 * after[-1] @ gram @ after[-1])


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_chains_whose_coefficients_are_nudged_stay_in_the_posterior(share):
    kernel = small.collapsed_kernel(small.tiny_model(), nudges=share)
    assert small.departure(kernel, STEPS, CHAINS, 4) > FALSE_ALARM


def test_nudges_that_are_decided_wrongly_are_noticed(monkeypatch):
    monkeypatch.setattr(collapsed, "NUDGE", 0.9)
    kernel = _OtherQuadratic(**vars(small.collapsed_kernel(small.tiny_model(), nudges=1.0)))
    assert small.departure(kernel, 8, CHAINS, 2) < FALSE_ALARM


def test_a_likelihood_to_a_power_is_sampled_as_such():
    kernel = to_power(small.collapsed_kernel(small.tiny_model()), 0.4)
    assert small.departure(kernel, STEPS, CHAINS, 3) > FALSE_ALARM


class _OtherQuadratic(CollapsedKernel):
    """Decides by an L* without the first-order term, which is not that of its moves."""

    def _decide(self, chain: int, here: Place, there: Place, *arguments: Any) -> bool:
        kept = [place.values[1] for place in (here, there)]
        here.values[1], there.values[1] = (star_without(self, theta_of(place)) for place in (here, there))
        accepted = super()._decide(chain, here, there, *arguments)
        here.values[1], there.values[1] = kept
        return accepted


def star_without(kernel: CollapsedKernel, theta: np.ndarray) -> float:
    """L* without the first-order term."""
    return float(small.placed(with_first_order(kernel, 0.0), theta).values[1])


def _broken(how: str, kernel: CollapsedKernel) -> CollapsedKernel:
    if how == "another quadratic":
        return _OtherQuadratic(**vars(kernel))
    return replace(kernel, decided=False) if how == "nobody decides" else with_law(kernel, log_k=0.6 * np.arange(4))


@pytest.mark.parametrize(("how", "steps"), [("another quadratic", 4), ("nobody decides", 4), ("wrong prior", 10)])
def test_a_second_stage_or_a_prior_that_errs_is_noticed(how, steps):
    kernel = small.collapsed_kernel(small.tiny_model())
    # What the broken kernel has as its target, over what it should have, on draws from the posterior.
    theta = small.exact_draws(kernel.model, 3 * NOTICED)[:500]
    star = np.array([small.placed(kernel, one).values[1] for one in theta])
    if how == "another quadratic":
        logs = star - [star_without(kernel, one) for one in theta]
    else:
        logs = star - small.log_likelihood(kernel.model, theta) if how == "nobody decides" else 0.6 * theta[:, 0]
    odds = np.exp(logs - logs.max())
    assert apart(odds / odds.sum(), np.full(theta.shape[0], 1 / len(theta))) > 0.1
    assert small.departure(_broken(how, kernel), steps, NOTICED if how == "wrong prior" else CHAINS, 2) < FALSE_ALARM


# --- against plain reversible jump ---


def test_it_agrees_with_plain_reversible_jump_on_some_rows():
    """Number of bases, lambda and log-odds at 20 points, after a warm-up that finds a reference of its own."""
    model, chains = small.larger_model(300), 40
    plain: Any = with_law(replace(small.kernel_for(model, "plain"), rounds=10), intercept_sd=10.0)
    kernel = replace(with_law(small.collapsed_kernel(model, points=60), intercept_sd=10.0), moves=100)
    one, two = Streams.spawn(2, chains), Streams.spawn(3, chains)
    state, _ = plain.advance(plain.start(one), 15, one)
    kernel, found = kernel.tune(kernel.start(two), 40, lambda kernel, *call: kernel.advance(*call, two))
    found, own = kernel.advance(found, 30, two)
    draws = [plain.advance(state, 25, one)[1], own]
    assert 0.3 < draws[1].accepted.mean() < 0.9  # the quadratic is neither perfect nor useless
    a, b = (model.watched(drawn.theta.swapaxes(0, 1)).mean(1) for drawn in draws)
    z = (a.mean(0) - b.mean(0)) / np.sqrt((a.var(0, ddof=1) + b.var(0, ddof=1)) / chains)
    limit = stats.t.isf(FALSE_ALARM / (2 * z.size), chains - 1)
    assert np.abs(z).max() < limit
    # More bases under another prior: told apart.
    tilted = with_law(kernel, log_k=4.0 * np.arange(5))
    c = model.watched(tilted.advance(found, 30, two)[1].theta.swapaxes(0, 1)).mean(1)
    z = (a.mean(0) - c.mean(0)) / np.sqrt((a.var(0, ddof=1) + c.var(0, ddof=1)) / chains)
    assert np.abs(z).max() > limit


def test_the_reference_is_found_where_outcomes_are_rare():
    """Newton's method from nothing would go too far, and then ever further."""
    rng = np.random.default_rng(1_000)
    x = rng.normal(size=(1_000, 2))
    model = MARS(x, rng.random(1_000) < 1 / (1 + np.exp(4 - 2 * x[:, 0])))
    kernel, rng = replace(Auto().kernel(model, seed=1), moves=100), Streams.spawn(1, 4)
    kernel, state = kernel.tune(kernel.start(rng), 120, lambda kernel, *call: kernel.advance(*call, rng))
    draws = kernel.advance(state, 40, rng)[1]
    assert np.isfinite(draws.theta).all()
    assert draws.accepted.mean() > 0.3


def test_heights_are_those_of_the_posterior_of_bases():
    """On few bases, where all states and their probabilities are known."""
    few = few_bases(2)
    place = Place.empty(few.kernel.model.most, few.kernel.quadratic.weights.size)
    theta = []
    for state in few.states:
        place.head[:], place.bases[:] = (len(state), PRECISION), 0.0
        place.bases[: len(state)] = few.bases[list(state)]
        theta.append(theta_of(place))
    density, probability = few.kernel.heights(np.array(theta))
    truth = np.log(few.target()) - [np.log(_orders(state)) for state in few.states]
    # The prior is that of bases before some are turned down, of which a share is admissible, and of lists of them.
    truth += [len(state) * np.log(few.admissible) for state in few.states]
    np.testing.assert_allclose(probability - probability[0], truth - truth[0], atol=1e-8)
    prior = [np.log(few.density[list(state)] * few.admissible).sum() for state in few.states]
    np.testing.assert_allclose(probability - density, prior, atol=1e-8)


def test_a_chain_that_lags_behind_goes_on_from_where_the_best_one_is():
    """If it is far below by either measure; one that is below by one of them only may just have more room."""
    kernel, rng = small.collapsed_kernel(small.larger_model()), Streams.spawn(1, 3)
    state = kernel.start(rng)
    theta = state.theta + np.arange(3.0)[:, None] * (np.arange(state.theta.shape[1]) == 2)  # intercepts tell them apart

    def heights(rows: Any) -> Any:
        return np.array([[100.0, 85.0, 85.0], [50.0, 35.0, 45.0]])

    seen = SimpleNamespace(heights=heights, enter=lambda state: state)
    found: Any = without_stragglers(seen, state._replace(theta=theta), theta[None])  # type: ignore[arg-type]
    assert found.theta[:, 2].tolist() == theta[[0, 0, 2], 2].tolist()


# --- what does not change the draws, and what passes the door ---


def test_draws_do_not_depend_on_how_steps_are_split():
    kernel = small.collapsed_kernel(small.larger_model())
    assert harness.same(harness.some_draws(kernel, [12]), harness.some_draws(kernel, [5, 1, 6]))


def test_a_run_that_was_stopped_and_saved_goes_on_as_if_it_had_not_been(monkeypatch):
    monkeypatch.setattr(collapsed, "REFRESH", 50)
    kernel = small.collapsed_kernel(small.larger_model())
    rng = Streams.spawn(3, 2)
    state, first = kernel.advance(kernel.start(rng), 7, rng)
    state, rng = pickle.loads(pickle.dumps((state, rng)))
    _, second = kernel.advance(state, 55, rng)  # beyond a refresh
    broken = Draws(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))
    assert broken.accepted.any()
    assert harness.same(broken, harness.some_draws(kernel, [62]))


def test_draws_have_the_same_bits_for_any_number_of_threads():
    drawn = []
    for count in (1, 2, 3):
        with threads.using(count):
            kernel = replace(small.collapsed_kernel(small.larger_model(200_000), points=500), moves=50)
            drawn.append(harness.some_draws(kernel, [4], chains=3))
    assert harness.same(drawn[0], drawn[1])
    assert harness.same(drawn[0], drawn[2])


def test_what_is_said_of_a_draw_is_its_likelihood_and_what_the_quadratic_misses():
    kernel = small.collapsed_kernel(small.larger_model())
    draws = harness.some_draws(kernel, [30])
    theta, value = draws.theta.swapaxes(0, 1), draws.log_posterior.T
    found = kernel.finish(Path(theta, value, np.zeros_like(value)), np.random.default_rng(0), Phases())
    truth = small.log_likelihood(kernel.model, theta.reshape(-1, kernel.model.width)).reshape(value.shape)
    np.testing.assert_allclose(found.sample_stats["total_log_likelihood"], truth, rtol=1e-9)
    missed = truth - [[small.placed(kernel, one).values[1] for one in chain] for chain in theta]
    np.testing.assert_allclose(found.sample_stats["surrogate_error"], missed - missed.mean(), atol=1e-6)


def test_rows_and_points_are_counted_as_they_pass(monkeypatch):
    from tallbayes.splines import track as spline_track

    monkeypatch.setattr(collapsed, "REFRESH", 20)
    kernel, rng, passed = small.collapsed_kernel(small.larger_model()), Streams.spawn(3, 2), []
    compiled = spline_track.moved_spline
    monkeypatch.setattr(spline_track, "moved_spline", lambda *a: passed.append(a[2].size) or compiled(*a))
    before, points = kernel.touched
    state = kernel.start(rng)
    state, draws = kernel.advance(state, 50, rng)
    assert kernel.touched[0] - before == sum(passed)
    assert len(passed) == 2 + draws.decided.sum() + 2 * 2  # at the start, to decide, and when all is computed anew
    looked = state.tally[:, LOOKING, 0].sum()  # others look at no point
    assert kernel.touched[1] - points == looked * kernel.quadratic.weights.size
    before = kernel.model.rows.touched
    kernel.expansion.at(splines(state.theta[:1], kernel.model.most))
    assert kernel.model.rows.touched - before == 2 * kernel.model.rows.size  # its log-odds, and then the rows


def test_where_the_quadratic_does_not_hold_cells_are_taken():
    """If all rows accept nothing in the end of warm-up, that is told, and another sampler begins from nothing."""
    x = np.random.default_rng(1).normal(size=(200, 1))
    kernel, streams = Auto().kernel(MARS(x, x[:, 0] > 0), seed=1), Streams.spawn(1, 2)

    def rejecting(kernel, state, steps):
        state, draws = kernel.advance(state, steps, streams)
        draws.accepted[:] = False
        return state, draws

    tuned, state = kernel.tune(kernel.start(streams), 40, rejecting)
    assert isinstance(tuned, ReversibleJumpKernel)
    assert "accepted 0.0% of" in tuned.why
    assert tuned.advance(state, 2, streams)[1].theta.shape[:2] == (2, 2)


def test_with_too_many_variables_for_tables_cells_are_taken():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 25))
    kernel = Auto().kernel(MARS(x, x[:, 0] > 0, max_interaction=3), seed=1)
    assert isinstance(kernel, ReversibleJumpKernel)
    assert "tables" in kernel.why
