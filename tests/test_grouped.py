"""Kernels for group effects through the harness: GroupKernel, and Metropolis and two-stage with a sweep over groups.

Exact checks read the ratio of every decision off the loop of `GroupKernel`, run by Python. Statistical checks are made
on the compiled loop. Broken loops, run by Python again, must fail them.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import harness
import hierarchy
import numpy as np
import pytest
from harness import FALSE_ALARM
from hierarchy import Interpreted, make, mode_of, model_named, with_groups
from scipy import stats

import tallbayes as tb
from tallbayes.groups import moves
from tallbayes.groups import thinned_loop as grouped_loop
from tallbayes.groups.model import Hierarchical
from tallbayes.groups.moves import BENDS, EFFECT, FROM_PRIOR, HERE, METRIC, NARROW, SD, THETA, TOTAL
from tallbayes.groups.proposals import GroupSweep
from tallbayes.groups.remainders import GroupExpansion
from tallbayes.groups.scale import new_log_scale
from tallbayes.groups.thinned import GroupKernel
from tallbayes.groups.thinned_loop import CHANGE, COEFFICIENTS, EFFECTS, SCALE, TOUCHED, Place, Work
from tallbayes.models.cautions import SeparationWarning
from tallbayes.rows import passes, threads
from tallbayes.sampling import shape
from tallbayes.sampling.kernel import Streams
from tallbayes.sampling.methods import Thinned
from tallbayes.sampling.metropolis import MetropolisKernel
from tallbayes.sampling.proposals import Move
from tallbayes.sampling.subsample import Stratified, Subsample
from tallbayes.sampling.thinned_loop import DONE, Moves
from tallbayes.sampling.two_stage import TwoStageKernel

CHAINS, STEPS = 350, 6
NOTICED = 1_500  # chains for mistakes that take many to be seen
MODELS = ["logit", "weighted", "probit", "poisson", "student-t prior"]


INDEPENDENT = Moves(1.0, 0.0, 0.0, 5, 1.7)
MOVES = {
    "independent": INDEPENDENT,
    "autoregressive": INDEPENDENT._replace(step=0.5),
    "heavy": INDEPENDENT._replace(heavy=1.0),
    "walk": INDEPENDENT._replace(walk=1.0),
}
# An aim that warm-up might have learned from a posterior that the expansion does not fit.
SPREAD = np.array([[1.3, 0.0], [-0.5, 0.8]])
AIMED = {
    "moves": Moves(0.6, 0.1, 0.2, 5, 1.7),
    "shift": np.array([0.4, -0.3]),
    "spread": SPREAD,
    "back": np.linalg.inv(SPREAD),
    "step": 0.8,
    "drag": np.array([0.5, -0.4]),
}


# --- kind 1: the ratio of every decision is that of Metropolis-Hastings ---

# Where all rows decide, by remainders that have seven digits or more, or by log-likelihoods that have all of them.
WAYS: dict[str, tuple[dict[str, Any], float]] = {
    "always evaluated": ({"threshold": 0.0}, 1e-9),
    "outside the ball": ({"radius": -1.0}, 1e-6),
    "both": ({"threshold": 0.3, "radius": -1.0}, 1e-6),
}
# Every way for one model, and for the others the one that has both.
CASES = [("logit", way) for way in WAYS] + [(name, "both") for name in MODELS[1:]]
each_case = pytest.mark.parametrize(("name", "way"), CASES)


def where(kernel: GroupKernel, place: Place) -> np.ndarray:
    """The parameter vector."""
    expansion, d = kernel.target.expansion, place.e[HERE] - place.shift[HERE]
    return np.concatenate(
        [expansion.points[THETA] + place.delta[HERE], expansion.groups[EFFECT] + d, place.log_tau[:1]]
    )


def move(kernel: GroupKernel, kind: int, theta: np.ndarray, first: Any) -> Place:
    """Where one of a sweep's moves leads, from theta, if all of it is accepted."""
    place, terms = kernel._enter(theta), kernel.model.family.tag.terms
    work = Work.room(place.delta.shape[1], place.e.shape[1])
    target, out, accepted = kernel.target._replace(moves=np.array([kind])), np.empty((1, theta.size)), np.zeros((1, 3))
    why = grouped_loop.advance.py_func(
        terms, *target, kernel.aim, place, work, first, hierarchy.Second(), out, accepted
    )
    assert why == DONE
    assert accepted[0, kind] == accepted.sum() == 1
    np.testing.assert_allclose(out[0], where(kernel, place), atol=1e-12)
    d = place.e[HERE] - place.shift[HERE]
    for g, kept in enumerate(work.always[HERE]):
        again = grouped_loop.always_remainder(terms, target.always, g, place.delta[HERE], d[g], work.buffer)
        assert kept == pytest.approx(again, abs=1e-9)
    return place


def some_points(name: str, size: int = 8) -> np.ndarray:
    """Draws from the expansion's posterior: also far from the mode."""
    return mode_of(model_named(name)).draw([np.random.default_rng([5, i]) for i in range(size)])


class Scripted:
    """A first generator whose normal numbers are all the same."""

    def __init__(self, normal: float) -> None:
        self._normal = normal

    def standard_normal(self) -> float:
        return self._normal


def assert_consistent(kernel: GroupKernel, place: Place) -> None:
    """What a place keeps besides coefficients, effects and tau follows from these."""
    for one, another in zip(place, kernel._enter(where(kernel, place)), strict=True):
        np.testing.assert_allclose(one[HERE], another[HERE], atol=1e-9)


@each_case
def test_ratios_of_moves_of_the_scale(monkeypatch, name, way):
    """Posterior ratio times the Jacobian, which is had by differences; and the same step backwards leads back."""
    seen, (options, error) = hierarchy.read_ratios(monkeypatch), WAYS[way]
    kernel = make(name, **options, drag=np.array([0.5, -0.4]), step=0.7)
    rng, model = np.random.default_rng(1), kernel.model
    for theta in some_points(name):
        normal = rng.standard_normal()
        place = move(kernel, SCALE, theta, Scripted(normal))
        there, found = where(kernel, place), seen.pop()
        assert_consistent(kernel, place)
        width, h = theta.size, 1e-4
        moved = [
            where(kernel, move(kernel, SCALE, theta + sign * h * unit, Scripted(normal)))
            for sign in (1, -1)
            for unit in np.eye(width)
        ]
        jacobian = (np.array(moved[:width]) - np.array(moved[width:])) / (2 * h)
        expected = hierarchy.log_posterior(model, there) - hierarchy.log_posterior(model, theta)
        expected += np.log(np.abs(np.linalg.det(jacobian)))
        assert found == pytest.approx(expected, abs=error + 1e-5)  # differences err by h^2
        back = where(kernel, move(kernel, SCALE, there, Scripted(-normal)))
        np.testing.assert_allclose(back, theta, atol=1e-9)
        assert there[-1] != theta[-1]
        seen.clear()


def given_effects(kernel: GroupKernel, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """v of the coefficients, from dense matrices: precision and mean of delta given e and tau, whitened and aimed."""
    at, prior, aim = kernel.mode.at, kernel.model.prior, kernel.aim
    shares, _, _, bends = kernel.target.expansion.crossed
    (p, k), tau = (at.beta.size, at.effects.size), np.exp(theta[-1])
    delta, d = theta[:p] - at.beta, theta[p:-1] - at.effects
    e = d + shares @ delta
    own = at.curvature + prior.precision(at.beta)
    precision = np.block([[own, at.mixed.T], [at.mixed, np.diag(at.effect_curvature + tau**-2)]])
    slope = np.concatenate([at.slope + prior.gradient(at.beta), at.effect_slope - at.effects / tau**2])
    along = np.concatenate([np.eye(p), -shares])  # what moves when e stays
    inner = along.T @ precision @ along
    fixed = np.concatenate([np.zeros(p), e])
    mean = np.linalg.solve(inner, along.T @ (slope - precision @ fixed) + 0.5 * e**2 @ bends)
    z = np.linalg.cholesky(inner).T @ (delta - mean)
    assert k == e.size
    return z, aim.back @ (z - aim.shift)


def log_q(kernel: GroupKernel, kind: str, v: np.ndarray) -> float:
    """Log density of proposals, or of what they are reversible with respect to."""
    return {
        "independent": lambda: shape.log_densities(kernel.target.shape, v[None])[0],
        "autoregressive": lambda: -0.5 * v @ v,
        "heavy": lambda: stats.multivariate_t.logpdf(v, np.zeros(v.size), np.eye(v.size), kernel.aim.moves.df),
        "walk": lambda: 0.0,
    }[kind]()


@pytest.mark.parametrize("kind", MOVES)
@each_case
def test_ratios_of_moves_of_the_coefficients(monkeypatch, name, way, kind):
    seen, (options, error) = hierarchy.read_ratios(monkeypatch), WAYS[way]
    kernel = make(name, **options, **AIMED | {"moves": MOVES[kind]})
    model = kernel.model
    for i, theta in enumerate(some_points(name)):
        place = move(kernel, COEFFICIENTS, theta, np.random.default_rng(i))
        there = where(kernel, place)
        assert_consistent(kernel, place)
        np.testing.assert_allclose(place.e[HERE], kernel._enter(theta).e[HERE], atol=1e-12)
        expected = hierarchy.log_posterior(model, there) - hierarchy.log_posterior(model, theta)
        expected += log_q(kernel, kind, given_effects(kernel, theta)[1])
        expected -= log_q(kernel, kind, given_effects(kernel, there)[1])
        assert seen.pop() == pytest.approx(expected, abs=error)
        assert there[-1] == theta[-1]
    assert not seen


@each_case
def test_ratios_of_moves_of_the_effects(monkeypatch, name, way):
    """Each group by itself: logistic proposals around the Gaussian given coefficients and tau, or from the prior."""
    seen, (options, error) = hierarchy.read_ratios(monkeypatch), WAYS[way]
    kernel = make(name, **options)
    at, p = kernel.mode.at, 2
    for i, theta in enumerate(some_points(name)):
        place = move(kernel, EFFECTS, theta, np.random.default_rng(i))
        there, tau = where(kernel, place), np.exp(theta[-1])
        assert_consistent(kernel, place)
        assert (there[:p] == theta[:p]).all()
        precision = at.effect_curvature + tau**-2
        mean = (at.effect_slope - at.mixed @ (theta[:p] - at.beta) - at.effects / tau**2) / precision
        unit, share = np.sqrt(3 / precision) / np.pi, kernel.target.expansion.groups[FROM_PRIOR]
        for g, found in enumerate(seen):
            only = theta.copy()
            only[p + g] = there[p + g]
            expected = hierarchy.log_posterior(kernel.model, only) - hierarchy.log_posterior(kernel.model, theta)
            for sign, effect in ((1, theta[p + g]), (-1, there[p + g])):
                density = (1 - share[g]) * stats.logistic.pdf(effect - at.effects[g], mean[g], unit[g])
                expected += sign * np.log(density + share[g] * stats.norm.pdf(effect, 0, tau))
            assert found == pytest.approx(expected, abs=error)
        assert len(seen) == at.effects.size
        seen.clear()


def test_whitened_coefficients():
    """What warm-up learns from."""
    kernel = make("student-t prior")
    points = some_points("student-t prior", 20)
    expected = [given_effects(kernel, theta)[0] for theta in points]
    np.testing.assert_allclose(moves.whitened(kernel.target.expansion, points), expected, atol=1e-10)


# --- kind 1: events ---


def groups_move(kernel: GroupKernel, points: np.ndarray, g: int) -> tuple[Any, ...]:
    """The arguments of `thinned_rows` between two points."""
    ends, target = [kernel._enter(theta) for theta in points], kernel.target
    metric, starts = target.expansion.precisions[METRIC], target.always.starts
    deltas = [end.delta[HERE] for end in ends]
    lengths = tuple(float(np.sqrt(delta @ metric @ delta)) for delta in (*deltas, deltas[1] - deltas[0]))
    e = [end.e[HERE, g] for end in ends]
    d = [end.e[HERE, g] - end.shift[HERE, g] for end in ends]
    return target.drawn, target.expansion.groups, starts[g + 1] - starts[g], g, lengths, *deltas, *e, *d


def thinned_change(kernel: GroupKernel, arguments: tuple[Any, ...], rng: Any, work: Work) -> float:
    """What `thinned_rows` finds."""
    assert grouped_loop.thinned_rows(kernel.model.family.tag.terms, *arguments, rng, work) == DONE
    return float(work.groups[CHANGE, arguments[3]])


def differences(kernel: GroupKernel, points: np.ndarray, g: int) -> np.ndarray:
    """R(there) - R(here) of each row of a group, with NumPy."""
    model, at = kernel.model, kernel.mode.at
    rows, p = model.rows, at.beta.size
    own = slice(int(rows.arrays.starts[g]), int(rows.arrays.starts[g + 1]))
    offset = rows.arrays.offset[own] if rows.arrays.offset.size else 0.0

    def value(theta):
        eta = theta[:p] @ rows.arrays.x[:, own] + theta[p + g] + offset
        return eta, model.family.tag.log_likelihood(rows.arrays.y[own], eta)

    eta, base = value(kernel.mode.theta)
    first, second, _ = model.family.tag.derivatives(rows.arrays.y[own], eta)
    left = []
    for theta in points:
        there, reached = value(theta)
        h = there - eta
        left.append(reached - base - first * h - 0.5 * second * h**2)
    return left[1] - left[0]


class Event:
    """A generator that makes one event: the first row of a chosen place in the table, kept if it can be."""

    def __init__(self, place: float) -> None:
        self._times, self._numbers = [0.0, np.inf], [place, 0.0]

    def standard_exponential(self) -> float:
        return self._times.pop(0)

    def random(self) -> float:
        return self._numbers.pop(0)


@pytest.mark.parametrize("name", ["logit", "weighted", "probit", "poisson"])
def test_events_seen_from_both_sides(monkeypatch, name):
    """The same rate and bound, and differences of the opposite sign: so kept events have the rates of a pair."""
    seen = []
    right = grouped_loop.thin.py_func
    Interpreted(monkeypatch, thin=lambda bound, apart: seen.append((bound, apart)) or right(bound, apart))
    kernel, rng = make(name), np.random.default_rng(2)
    work = Work.room(2, kernel.model.rows.groups)
    for points in some_points(name, 12).reshape(6, 2, -1):
        for g, size in enumerate(np.diff(kernel.model.rows.arrays.starts)):
            forth, back = groups_move(kernel, points, g), groups_move(kernel, points[::-1], g)
            expected = differences(kernel, points, g)
            for place in rng.random(4):
                gains = [thinned_change(kernel, way, Event(place), work) for way in (forth, back)]
                (bound, apart), (same, opposite) = seen
                assert bound == pytest.approx(same, rel=1e-12)
                assert apart == pytest.approx(-opposite, rel=1e-12)
                assert gains[0] == pytest.approx(-gains[1], abs=1e-12)
                assert gains[0] == pytest.approx(np.log((bound - max(0, -apart)) / (bound - max(0, apart))), rel=1e-9)
                assert np.abs(expected - apart).min() < 1e-7
                seen.clear()
            assert size == expected.size


@pytest.mark.parametrize("name", ["logit", "weighted"])
def test_events_come_at_their_rate_from_the_rows_in_proportion_to_their_bounds(monkeypatch, name):
    """And their expected ratio, E exp(sum of gains), is exp(sum of D): what the rows they stand for would say."""
    rows_drawn = []
    right = grouped_loop.difference.py_func

    def difference(terms, x, y, eta, i, *moves):
        rows_drawn.append(i)
        return right(terms, x, y, eta, i, *moves)

    Interpreted(monkeypatch, difference=difference)
    kernel, rng = make(name), np.random.default_rng(3)
    rows, drawn, calls = kernel.model.rows, kernel.target.drawn, 4_000
    weights, mode = rows.arrays.own, kernel.mode.theta
    points = np.stack([mode, mode])
    points[0, :-1] += [0.5, -0.4, 0.3, 1.0, -0.6, 0.2]
    points[1, :-1] += [-0.3, 0.5, -1.2, -0.9, 0.4, 1.5]
    for g in range(rows.groups):
        own = slice(int(rows.arrays.starts[g]), int(rows.arrays.starts[g + 1]))
        arguments, work = groups_move(kernel, points, g), Work.room(2, rows.groups)
        _, groups, _, _, lengths, _, _, old, new, _, _ = arguments
        e = [old / groups[SD, g], new / groups[SD, g]]
        u = [np.hypot(length * groups[NARROW, g], t) for length, t in zip(lengths, (*e, e[1] - e[0]), strict=True)]
        rate = groups[TOTAL, g] * grouped_loop.distance_bound(*u)
        sums = [thinned_change(kernel, arguments, rng, work) for _ in range(calls)]
        touched = work.at[TOUCHED]
        assert abs(touched - calls * rate) < stats.norm.isf(FALSE_ALARM / 2) * np.sqrt(calls * rate)
        expected = np.exp(weights[own] @ differences(kernel, points, g))
        ratios = np.exp(sums)
        assert abs(ratios.mean() - expected) < stats.norm.isf(FALSE_ALARM / 2) * ratios.std(ddof=1) / calls**0.5
        measure = (weights * drawn.bound)[own]
        counts = [rows_drawn.count(i) for i in range(own.start, own.stop)]
        assert sum(counts) == touched > 100
        if measure.size > 1:
            assert stats.chisquare(counts, touched * measure / measure.sum()).pvalue > FALSE_ALARM
        rows_drawn.clear()


# --- kind 2: reductions ---


def bent(kernel: GroupKernel, by: float) -> GroupKernel:
    """With proposals of coefficients that bend so much more with the squares of effects."""
    crossed = kernel.target.expansion.crossed.copy()
    crossed[BENDS] *= by
    return replace(kernel, target=kernel.target._replace(expansion=kernel.target.expansion._replace(crossed=crossed)))


def test_with_no_remainder_at_all_every_move_of_the_coefficients_is_accepted():
    kernel = bent(with_groups(make(moves=MOVES["autoregressive"]), {TOTAL: 0.0}), 0.0)
    assert harness.some_draws(kernel, [200]).accepted[:, COEFFICIENTS].all()


def test_thresholds_split_the_rows():
    sizes = [make(threshold=threshold).target.always.y.size for threshold in (np.inf, 0.3, 0.0)]
    assert sizes[0] == 0 < sizes[1] < sizes[2] == 17


def sweep(model: Hierarchical, by: float = 2.4) -> GroupSweep:
    scales = by * mode_of(model).conditional_sd
    return GroupSweep(scales, scale=model.group_prior.code, coefficients=len(model.coefficients))


def one_at_a_time(name: str, surrogate: Any = None, subchain: int | None = None) -> Any:
    """Metropolis, or two-stage with a surrogate."""
    model = model_named(name)
    mode = mode_of(model)
    if surrogate is None:
        return MetropolisKernel(model, sweep(model), mode)
    built = surrogate.build(model, mode, np.random.default_rng(3))
    return TwoStageKernel(model, built, sweep(model), mode, subchain)


@pytest.mark.parametrize("surrogate", [Subsample(17), Stratified(17, "group")], ids=str)
def test_two_stage_with_the_exact_surrogate_is_metropolis(surrogate):
    mh = harness.some_draws(one_at_a_time("logit"), [120])
    both = harness.some_draws(one_at_a_time("logit", surrogate), [120])
    np.testing.assert_array_equal(mh.theta, both.theta)
    assert 0.1 < mh.accepted[:, :-1].mean() < 0.9


def test_the_draw_of_tau_is_always_accepted():
    """As a proposal its density cancels the posterior's, up to rounding."""
    draws = harness.some_draws(one_at_a_time("logit"), [50])
    assert draws.accepted[:, -1].all()
    assert np.abs(draws.log_first[:, -1]).max() < 1e-10
    both = harness.some_draws(one_at_a_time("logit", Stratified(2, "group")), [50])
    assert both.accepted[:, -1].all()
    assert np.abs(both.log_second[:, -1]).max() < 1e-10


# --- kind 3: start in the posterior, stay there ---

KERNELS: dict[str, dict[str, Any]] = {
    "all thinned": {},
    "default": {"threshold": None},
    "always evaluated": {"threshold": 0.0},
    "some of each": {"threshold": 0.3},
    "small balls": {"radius": 1.2},
    "small balls, some of each": {"threshold": 0.3, "radius": 1.2},
    "low limit": {"limit": 0.5},
    "aimed": AIMED,
    "walks": {"moves": MOVES["walk"]},
    "heavy": {"moves": MOVES["heavy"]},
}


# Each kind of decision; those of moves are exact checks above.
EVERY_RUN = ("all thinned", "small balls, some of each", "aimed")


@pytest.mark.parametrize(
    "options",
    [pytest.param(KERNELS[name], id=name, marks=() if name in EVERY_RUN else pytest.mark.long) for name in KERNELS],
)
def test_chains_started_in_the_posterior_stay_there(options):
    assert hierarchy.departure(make("logit", **options), STEPS, CHAINS, seed=11) > FALSE_ALARM


@pytest.mark.parametrize(
    ("name", "threshold"),
    [
        pytest.param("weighted", np.inf, marks=pytest.mark.long),
        ("weighted", 0.3),
        ("student-t prior", np.inf),
        pytest.param("student-t prior", None, marks=pytest.mark.long),
        pytest.param("two groups", np.inf, marks=pytest.mark.long),
        pytest.param("half-Cauchy", np.inf, marks=pytest.mark.long),
        pytest.param("inverse square", np.inf, marks=pytest.mark.long),
    ],
)
def test_other_models_stay_in_their_posterior(name, threshold):
    assert hierarchy.departure(make(name, threshold), STEPS, CHAINS, seed=12) > FALSE_ALARM


@pytest.mark.parametrize(("name", "limit"), [pytest.param("probit", np.inf, marks=pytest.mark.long), ("poisson", 20.0)])
def test_other_families_stay_in_their_posterior(name, limit):
    """Bounds of a Poisson row grow like e^eta with the ball: most moves of small groups look at all their rows."""
    assert hierarchy.departure(make(name, limit=limit), STEPS, CHAINS, seed=13) > FALSE_ALARM


ONE_AT_A_TIME = {
    "mh": (),
    "two-stage": (Stratified(2, "group"),),
    "two-stage, few rows": (Stratified(1, "group", cases=False),),
    "subchain of 4": (Stratified(2, "group"), 4),
}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(options, id=name, marks=pytest.mark.long if name.startswith("two-stage") else ())
        for name, options in ONE_AT_A_TIME.items()  # two-stage without a subchain has a test of its own below
    ],
)
def test_one_at_a_time_kernels_stay_in_the_posterior(options):
    assert hierarchy.departure(one_at_a_time("logit", *options), STEPS, CHAINS, seed=11) > FALSE_ALARM


def test_one_at_a_time_with_weights_stays_in_the_posterior():
    kernel = one_at_a_time("weighted", Stratified(3, "group"))
    assert hierarchy.departure(kernel, STEPS, CHAINS, seed=12) > FALSE_ALARM


# --- kind 4: broken kernels must fail ---


def few_chains(kernel: Any, steps: int = STEPS, chains: int = 350) -> float:
    return hierarchy.departure(kernel, steps, chains, seed=13)


def test_the_interpreted_loop_is_the_compiled_one(monkeypatch):
    kernel = make("logit", 0.3, 2.0, **AIMED)
    compiled = harness.some_draws(kernel, [40])
    Interpreted(monkeypatch)
    interpreted = harness.some_draws(kernel, [40])
    np.testing.assert_allclose(compiled.theta, interpreted.theta, atol=1e-9)
    np.testing.assert_array_equal(compiled.screened, interpreted.screened)


def test_the_interpreted_loop_stays_in_the_posterior(monkeypatch):
    """With so few chains as the broken ones below, and all that they need."""
    Interpreted(monkeypatch)
    assert few_chains(bent_more(make("logit", drag=np.full(2, 0.7), step=1e-3))) > FALSE_ALARM


def test_a_wrong_sign_leaves_the_posterior(monkeypatch):
    """On the problem with the largest remainders of all: many groups with few rows."""
    right = grouped_loop.thin.py_func
    Interpreted(monkeypatch, thin=lambda bound, apart: right(bound, -apart))
    assert few_chains(make("logit")) < FALSE_ALARM


@pytest.mark.long  # that somebody looks is tested below
def test_bounds_that_are_too_small_leave_the_posterior_if_nobody_looks(monkeypatch):
    """A NaN ratio is a rejection."""

    def unchecked(bound, apart):
        forward, backward = bound - max(0.0, apart), bound - max(0.0, -apart)
        return forward / bound, np.log(backward / forward) if min(forward, backward) > 0 else np.nan

    Interpreted(monkeypatch, breaks=lambda bound, apart: False, thin=unchecked)
    assert few_chains(smaller_bounds(make("logit"), 0.05), STEPS, NOTICED) < FALSE_ALARM


def smaller_bounds(kernel: GroupKernel, by: float) -> GroupKernel:
    target = kernel.target
    drawn = target.drawn._replace(bound=by * target.drawn.bound)
    kernel = replace(kernel, target=target._replace(drawn=drawn))
    return with_groups(kernel, {TOTAL: by * target.expansion.groups[TOTAL]})


def test_a_dropped_jacobian_leaves_the_posterior(monkeypatch):
    """With few rows a group the width of an effect's Gaussian goes with tau, and the Jacobian is nearly its power."""
    Interpreted(monkeypatch, propose_drag=hierarchy.without("propose_drag", "log_ratio += math.log(narrower)"))
    assert few_chains(make("intercept")) < FALSE_ALARM


def test_a_drag_that_the_ratio_does_not_know_leaves_the_posterior(monkeypatch):
    Interpreted(monkeypatch, quadratic=lambda slope, precision, deltas: 0.0)
    assert few_chains(make("intercept", drag=np.full(1, 0.7))) < FALSE_ALARM


def bent_more(kernel: GroupKernel) -> GroupKernel:
    """Proposals that bend too far with the squares of effects: any bend is exact, if the ratio knows it."""
    return bent(kernel, 4.0)


def test_a_bend_that_the_ratio_does_not_know_leaves_the_posterior(monkeypatch):
    right = moves.coefficient_gaussian.py_func

    def forgotten(expansion, e, log_tau, root, mean, bent):
        right(expansion, e, log_tau, root, mean, bent)
        bent[:] = 0.0

    Interpreted(monkeypatch, coefficient_gaussian=forgotten)
    assert few_chains(bent_more(make("logit"))) < FALSE_ALARM


def test_dropped_densities_of_proposed_effects_leave_the_posterior(monkeypatch):
    Interpreted(monkeypatch, log_mixture=lambda *arguments: 0.0)
    assert few_chains(make("logit")) < FALSE_ALARM


def test_one_group_too_few_in_the_draw_of_tau_leaves_the_posterior(monkeypatch):
    """With the walk in log tau cut short, which would bring tau back."""
    right = new_log_scale
    Interpreted(monkeypatch, draw_log_scale=lambda code, count, *rest: right(code, count - 1, *rest))
    assert few_chains(make("two groups", step=1e-3)) < FALSE_ALARM


class Unweighed(GroupSweep):
    """Draws tau as if it had no prior, and forgets to say so."""

    def propose(self, theta: np.ndarray, update: int, rng: Any) -> Move:
        move = replace(self, scale=self.scale._replace(light=0.0)) if update == self.updates - 1 else self
        return GroupSweep.propose(move, theta, update, rng)._replace(log_q=0.0)


class Unasked(Unweighed):
    """Draws tau from another density, and says so."""

    def propose(self, theta: np.ndarray, update: int, rng: Any) -> Move:
        move = replace(self, scale=self.scale._replace(power=1.5)) if update == self.updates - 1 else self
        return GroupSweep.propose(move, theta, update, rng)


def test_a_wrong_draw_of_tau_is_corrected_only_if_its_density_is_known():
    kernel = one_at_a_time("two groups")
    own = {"scales": kernel.proposal.scales, "scale": kernel.proposal.scale, "coefficients": 1}
    assert hierarchy.departure(replace(kernel, proposal=Unasked(**own)), STEPS, CHAINS, seed=13) > FALSE_ALARM
    assert hierarchy.departure(replace(kernel, proposal=Unweighed(**own)), 4 * STEPS, NOTICED, seed=13) < FALSE_ALARM


def test_bounds_that_are_too_small_are_seen_in_set_up(monkeypatch):
    right = GroupExpansion.bounds
    monkeypatch.setattr(GroupExpansion, "bounds", lambda self, *rest: 0.05 * right(self, *rest))
    with pytest.raises(FloatingPointError, match="times its bound"):
        make("logit")


def test_bounds_that_are_too_small_are_seen_while_sampling():
    with pytest.raises(FloatingPointError, match="exceeds its bound"):
        harness.some_draws(smaller_bounds(make("logit"), 0.05), [500])


@pytest.mark.parametrize("total", [np.nan, -1.0])
def test_a_rate_that_is_not_a_number_raises(total):
    kernel = make("logit")
    totals = kernel.target.expansion.groups[TOTAL].copy()
    totals[2] = total
    with pytest.raises(FloatingPointError, match="rate"):
        harness.some_draws(with_groups(kernel, {TOTAL: totals}), [5])


def test_a_dropped_prior_correction_leaves_the_posterior():
    kernel = make("student-t prior")
    kernel = replace(kernel, target=kernel.target._replace(prior=kernel.target.prior[:, :0].copy()))
    assert hierarchy.departure(kernel, 4 * STEPS, NOTICED, seed=12) < FALSE_ALARM


# --- kind 5: known posteriors ---


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="all thinned"),
        pytest.param({"threshold": None}, id="default", marks=pytest.mark.long),
        pytest.param({"radius": 1.2}, id="small", marks=pytest.mark.long),
    ],
)
def test_long_runs_agree_with_quadrature(options):
    chains = 300
    truth = hierarchy.Quadrature.of(model_named("intercept"))
    z, checks = hierarchy.largest_z(make("intercept", **options), 200, chains, 5, truth)
    assert z < harness.z_limit(chains, checks)


@pytest.mark.parametrize(
    "options",
    [pytest.param((), id="mh"), pytest.param((Stratified(1, "group"),), id="two-stage")],
)
@pytest.mark.long
def test_long_one_at_a_time_runs_agree_with_quadrature(options):
    chains = 300
    truth = hierarchy.Quadrature.of(model_named("intercept"))
    z, checks = hierarchy.largest_z(one_at_a_time("intercept", *options), 60, chains, 5, truth)
    assert z < harness.z_limit(chains, checks)


def test_quadrature_check_sees_a_small_bias():
    """A posterior under a prior of tau only a tenth narrower is told apart."""
    chains = 300
    other = hierarchy.Quadrature.of(model_named("intercept"), 0.9)
    z, checks = hierarchy.largest_z(make("intercept", None), 200, chains, 5, other)
    assert z > harness.z_limit(chains, checks)


# --- kind 7: same seed, same draws ---

EVERY = {
    "all thinned": lambda: make("logit"),
    "small balls, some of each": lambda: make("logit", 0.3, 1.2),
    "mh": lambda: one_at_a_time("logit"),
    "two-stage": lambda: one_at_a_time("logit", Stratified(2, "group")),
    "subchain": lambda: one_at_a_time("logit", Stratified(2, "group"), 3),
}
each_kernel = pytest.mark.parametrize("kernel", EVERY.values(), ids=EVERY.keys())


@each_kernel
def test_draws_do_not_depend_on_how_steps_are_split(kernel):
    kernel = kernel()
    draws = harness.some_draws(kernel, [130])
    assert harness.same(draws, harness.some_draws(kernel, [1, 99, 7, 23]))
    assert not harness.same(*(harness.some_draws(kernel, [5], seed) for seed in (3, 4)))


def test_draws_do_not_depend_on_the_number_of_threads():
    kernel, found = make("logit", 0.3, 2.0), []
    for count in (1, 2, 4):
        with threads.using(count):
            found.append(harness.some_draws(kernel, [100], chains=5))
    assert harness.same(found[0], found[1])
    assert harness.same(found[0], found[2])


def test_no_steps_change_nothing():
    kernel, streams = make("logit"), Streams.spawn(3, 2)
    state = kernel.start(streams)
    after, draws = kernel.advance(state, 0, streams)
    assert len(draws.theta) == 0
    assert (after.theta == state.theta).all()


# --- kind 9: honest counts ---


@pytest.mark.parametrize(("threshold", "radius"), [(np.inf, None), (0.0, None), (0.3, None), (np.inf, 1.2), (0.3, 1.2)])
def test_rows_touched_are_what_the_loop_looked_at(monkeypatch, threshold, radius):
    """An event is one row; where all rows of a group decide, each counts for both points."""
    looked = {"events": 0, "rows": 0, "always": 0}
    functions = {name: getattr(grouped_loop, name).py_func for name in ("difference", "thin", "always_remainder")}

    def difference(*arguments):
        looked["rows"] += 1
        return functions["difference"](*arguments)

    def thin(*arguments):
        looked["events"] += 1
        return functions["thin"](*arguments)

    def always_remainder(terms, rows, g, *rest):
        looked["always"] += int(rows.starts[g + 1] - rows.starts[g])
        return functions["always_remainder"](terms, rows, g, *rest)

    Interpreted(monkeypatch, difference=difference, thin=thin, always_remainder=always_remainder)
    kernel = make("logit", threshold, radius)
    before = kernel.model.rows.touched
    harness.some_draws(kernel, [40])
    events, always = looked["events"], looked["always"]
    both = 2 * (looked["rows"] - events)
    assert kernel.model.rows.touched - before == events + both + always
    assert (events > 0) == (threshold > 0)
    assert (always > 0) == (threshold < 1)
    assert (both > 0) == (radius is not None)


class Only:
    """A sweep of which one update is made."""

    updates, by_column, name = 1, True, "only"

    def __init__(self, sweep: GroupSweep, update: int) -> None:
        self._sweep, self._update = sweep, update

    def propose(self, theta: np.ndarray, update: int, rng: Any) -> Move:
        return self._sweep.propose(theta, self._update, rng)


def shifted_rows(monkeypatch) -> list[int]:
    """Rows that the compiled loops were asked to shift, with the number of chains, at both points."""
    asked: list[int] = []
    right = passes.shifted_values

    def counted(*arguments):
        asked.append(2 * (arguments[7] - arguments[6]) * arguments[4].size)
        return right(*arguments)

    monkeypatch.setattr(passes, "shifted_values", counted)
    return asked


@pytest.mark.parametrize("update", range(7))
def test_metropolis_looks_at_the_rows_of_a_group_only(monkeypatch, update):
    chains, sizes = 5, np.diff(model_named("logit").rows.arrays.starts)
    asked = shifted_rows(monkeypatch)
    kernel = one_at_a_time("logit")
    kernel = replace(kernel, proposal=Only(kernel.proposal, update))
    streams, rows = Streams.spawn(1, chains), kernel.model.rows
    state = kernel.start(streams)
    before = rows.touched
    kernel.advance(state, 1, streams)
    expected = [17, 17, *2 * sizes, 0][update] * chains
    assert rows.touched - before == expected
    assert sum(asked) == (expected if update >= 2 else 0)


@pytest.mark.parametrize("update", range(7))
def test_two_stage_looks_at_the_rows_of_a_group_only(monkeypatch, update):
    """All chains look at the surrogate's rows, and those that pass at the group's; the draw of tau at none."""
    chains = 40
    kernel = one_at_a_time("logit", Stratified(2, "group"))
    kernel = replace(kernel, proposal=Only(kernel.proposal, update))
    streams, rows, few = Streams.spawn(1, chains), kernel.model.rows, kernel.surrogate.rows
    state = kernel.start(streams)
    before, asked = (rows.touched, few.touched), shifted_rows(monkeypatch)
    draws = kernel.advance(state, 1, streams)[1]
    passed = int(draws.decided.sum())
    full, own = ([part.size, part.size, *2 * np.diff(part.arrays.starts), 0][update] for part in (rows, few))
    assert few.touched - before[1] == own * chains
    assert rows.touched - before[0] == full * passed
    assert passed > 0
    assert sum(asked) == ((own * chains + full * passed) if update >= 2 else 0)


# --- many groups ---


@cache
def many(groups: int) -> tuple[GroupKernel, float]:
    """A kernel, and the rows that it touches in a sweep, by group; group sizes are the same tenfold."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(groups), np.tile(np.arange(5, 105, 5), groups // 20))
    x = np.column_stack([np.ones(codes.size), rng.normal(size=codes.size)])
    eta = -1.5 + 0.5 * x[:, 1] + 0.7 * rng.normal(size=groups)[codes]
    y = tb.Bernoulli().simulate(rng, eta)
    kernel = Thinned().kernel(Hierarchical.from_arrays(x, y, codes), seed=1)
    streams, rows = Streams.spawn(1, 1), kernel.model.rows
    before = rows.touched
    kernel.advance(kernel.start(streams), 30, streams)
    return kernel, (rows.touched - before) / 30 / groups


def test_two_thousand_groups_touch_as_few_rows_each_as_two_hundred():
    (kernel, few), (other, fewer) = many(200), many(2_000)
    assert other.target.expansion.groups.shape[1] == 2_000
    assert 0 < fewer < 1.1 * few
    assert few < 0.3 * kernel.model.rows.size / 200 * 3  # of the rows that three moves of a sweep would look at


def test_two_thousand_groups_are_sampled():
    """Effects follow those of the expansion, which many rows make good."""
    kernel, _ = many(2_000)
    streams = Streams.spawn(2, 2)
    draws = kernel.advance(kernel.start(streams), 100, streams)[1]
    assert np.isfinite(draws.theta).all()
    assert (draws.screened.mean((0, 2)) > 0.05).all()
    mean = draws.theta[50:, :, 2:-1].mean((0, 1))
    assert np.corrcoef(mean, kernel.mode.at.effects)[0, 1] > 0.9


# --- simulation-based calibration ---

GROUPS = [1, 1, 2, 3, 4, 5, 7, 9, 12, 18, 28, 40]
KEPT = 49


def ranks(method: str, repeats: int, draws: int, scale: float = 1.0) -> np.ndarray:
    """Ranks of the true intercept, slope and tau among draws, over data simulated from the prior.

    With groups of one row, and others without events. Data that no model takes (all outcomes the same) is left out,
    which does not matter to ranks, since these are uniform whatever the data. `scale` is that of the fitted prior.
    """
    rng, found, seed = np.random.default_rng(0), [], 0
    codes = np.repeat(np.arange(len(GROUPS)), GROUPS)
    while len(found) < repeats:
        seed += 1
        beta, tau = rng.standard_normal(2), np.abs(rng.standard_normal())
        x = np.column_stack([np.ones(codes.size), rng.normal(size=codes.size)])
        y = tb.Bernoulli().simulate(rng, x @ beta + tau * rng.standard_normal(len(GROUPS))[codes])
        if y.min() == y.max():
            continue
        model = Hierarchical.from_arrays(x, y, codes, prior=tb.Normal(0, 1), group_prior=tb.HalfNormal(scale))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeparationWarning)
            fit = tb.sample(model, method, draws, 1, seed, progress=False)
        posterior = fit.posterior.isel(chain=0)
        drawn = np.column_stack([posterior["beta"].values, posterior["1|group_sigma"].values])
        found.append((drawn[:: draws // KEPT][:KEPT] < [*beta, tau]).sum(0))
    return np.array(found)


def uniformity(found: np.ndarray) -> float:
    """Smallest p-value, over the parameters, that ranks are uniform: Kolmogorov-Smirnov, with ties broken at random."""
    spread = (found + np.random.default_rng(1).random(found.shape)) / (KEPT + 1)
    return float(min(1.0, found.shape[1] * min(stats.kstest(column, "uniform").pvalue for column in spread.T)))


def test_simulation_based_calibration_in_short():
    assert uniformity(ranks("thinned", 12, 490)) > FALSE_ALARM


@pytest.mark.long
@pytest.mark.parametrize(("method", "repeats", "draws"), [("thinned", 400, 980), ("mh", 150, 980)])
def test_simulation_based_calibration(method, repeats, draws):
    assert uniformity(ranks(method, repeats, draws)) > FALSE_ALARM


@pytest.mark.long
def test_simulation_based_calibration_sees_a_wrong_prior():
    assert uniformity(ranks("thinned", 400, 490, scale=0.3)) < FALSE_ALARM
