"""The thinned second stage through the harness: exact checks of its parts, statistical checks of the compiled loop."""

from __future__ import annotations

import itertools
import warnings
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import harness
import numpy as np
import pytest
from entries import interpret, remainder
from scipy import stats

from tallbayes.families import Bernoulli, Poisson
from tallbayes.families.compiled import compiled
from tallbayes.models.cautions import SeparationWarning
from tallbayes.models.glm import GLM
from tallbayes.models.priors import Normal, StudentT
from tallbayes.rows import passes, threads
from tallbayes.rows.remainders import RemainderBounds
from tallbayes.rows.urn import Pool, Urn
from tallbayes.sampling import shape, thinned, thinned_loop, thinned_setup
from tallbayes.sampling.kernel import Streams
from tallbayes.sampling.thinned import ThinnedKernel
from tallbayes.sampling.thinned_loop import Moves
from tallbayes.sampling.thinned_setup import expand

CHAINS, STEPS, SEED = 400, 6, 11
NOTICED = 1_000  # chains for a mistake that takes many to be seen
INDEPENDENT = Moves(1.0, 0.0, 0.0, 5, 1.7)
MIXED = Moves(1.0, 0.2, 0.2, 5, 1.7)
MOVES = {
    "independent": INDEPENDENT,
    "autoregressive": INDEPENDENT._replace(step=0.5),
    "heavy": INDEPENDENT._replace(heavy=1.0),
    "walk": INDEPENDENT._replace(walk=1.0),
    "mixed": MIXED,
}


@cache
def model_named(name: str) -> GLM:
    """Small skewed problems, one for each family, and one with a prior that is not Normal."""
    x = [-1.0, -0.5, 0.0, 2.0, 0.3, -1.2, 0.8, -0.1, 1.5, 1.1, 0.4, -0.7, 0.2, 0.9]
    y = [0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0]
    counts = [0, 0, 1, 3, 0, 0, 1, 0, 2, 1, 0, 0, 0, 1]
    days = [1.0, 2.0, 1.0, 0.5, 1.0, 3.0, 1.0, 1.0, 0.5, 1.0, 2.0, 1.0, 1.0, 1.0]
    data = {"x": x, "y": y, "k": counts, "days": days}
    prior = Normal(0.0, 2.0)
    if name == "zero event":
        return harness.zero_event_model()
    if name == "intercept":
        return GLM("y ~ 1", {"y": [0, 0, 0, 0, 0, 1]}, prior=Normal(0.0, 5.0))
    if name == "poisson":
        return GLM("k ~ x", data, Poisson("days"), prior)
    if name == "student-t prior":
        return GLM("y ~ x", data, prior={"Intercept": prior, "x": StudentT(4.0, 0.5, 1.0)})
    if name == "weighted":
        return GLM("y ~ x", data, prior=prior, weights=np.array([1.0, 2, 1, 1, 3, 1, 1, 1, 2, 1, 1, 1, 1, 1]))
    return GLM("y ~ x", data, Bernoulli(name), prior)


MODELS = ["logit", "probit", "cloglog", "poisson", "student-t prior", "weighted"]


def make(
    name: str = "logit", moves: Moves = MIXED, threshold: float = np.inf, limit: float = np.inf, **options: Any
) -> ThinnedKernel:
    """By default every row is thinned, however much cheaper a pass would be on a small problem."""
    model = model_named(name)
    kernel = expand(model, harness.mode_of(model), np.random.default_rng(4), moves, threshold).kernel
    return replace(kernel, target=kernel.target._replace(limit=limit, **options))


# --- kind 1: balance ---


def rows_between(kernel: ThinnedKernel, here: np.ndarray, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the compiled loop makes of every row for a pair of points: phi and the gain of a kept event."""
    rows, mode, tag = kernel.model.rows.arrays, kernel.mode, kernel.model.family.tag
    weights = rows.own
    z = [np.linalg.solve(mode.factor, point - mode.theta) for point in (here, there)]
    spread = thinned_loop.distance_bound.py_func(*map(np.linalg.norm, z), np.linalg.norm(z[1] - z[0]))
    bounds = RemainderBounds(tag, mode.theta, mode.factor, kernel.target.radius).of(rows)
    offset = rows.offset if rows.offset.size else 0.0
    eta = mode.theta @ rows.x + offset
    phi, gain = np.empty(rows.size), np.empty(rows.size)
    for i in range(rows.size):
        h, new_h = (rows.x[:, i] @ (point - mode.theta) for point in (here, there))
        difference = remainder(tag.terms, rows.y[i], eta[i], new_h) - remainder(tag.terms, rows.y[i], eta[i], h)
        keep, gain[i] = thinned_loop.thin.py_func(bounds[i] * spread, difference)
        phi[i] = weights[i] * bounds[i] * spread * keep
    return phi, gain


def log_surrogate(kernel: ThinnedKernel, theta: np.ndarray) -> np.ndarray:
    """log p*, with the exact prior in it."""
    mode = kernel.mode
    d = theta - mode.theta
    return (
        harness.log_prior(kernel.model, theta)
        + d @ mode.gradient
        - 0.5 * np.einsum("...i,ij,...j", d, mode.curvature, d)
    )


@pytest.mark.parametrize("name", MODELS)
def test_balance_holds_pointwise_in_the_auxiliary_variables(name):
    """p(x) q(x,y) Poisson(S; phi) a(x,y,S) is symmetric for random pairs and random counts S."""
    kernel = make(name)
    rng = np.random.default_rng(1)
    points = kernel.mode.center + 0.9 * rng.standard_normal((40, 2)) @ kernel.mode.factor.T
    for here, there in itertools.pairwise(points):
        ways = []
        counts = rng.poisson(1.0, kernel.model.rows.size)
        log_q = rng.normal(0.0, 1.0, 2)
        for a, b, forth, back in ((here, there, *log_q), (there, here, *log_q[::-1])):
            phi, gain = rows_between(kernel, a, b)
            log_ratio = back - forth + log_surrogate(kernel, b) - log_surrogate(kernel, a) + counts @ gain
            log_density = harness.log_posterior(kernel.model, a) + forth + stats.poisson.logpmf(counts, phi).sum()
            ways.append(log_density + min(0.0, log_ratio))
        assert ways[0] == pytest.approx(ways[1], abs=1e-9)


def test_the_distance_bound_holds_and_is_attained():
    """Over h, h' with |h| <= a |z|, |h'| <= a |z'| and |h' - h| <= a |z' - z|, of |integral of t^2| * 3."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        z = rng.standard_normal((2, 3)) * 10 ** rng.uniform(-2, 1, (2, 1))
        here, there = np.linalg.norm(z, axis=1)
        jump = np.linalg.norm(z[1] - z[0])
        bound = thinned_loop.distance_bound.py_func(here, there, jump)
        assert 0 <= bound <= (here**3 + there**3) * (1 + 1e-8)
        for direction in (*rng.standard_normal((50, 3)), z[0], z[1], z[1] - z[0]):
            h, new_h = z @ direction / np.linalg.norm(direction)
            assert abs(new_h**3 - h**3) <= bound * (1 + 1e-9)
    assert thinned_loop.distance_bound.py_func(2.0, 3.0, 5.0) == pytest.approx(2**3 + 3**3)  # opposite sides
    assert thinned_loop.distance_bound.py_func(2.0, 3.0, 1.0) == pytest.approx(3**3 - 2**3)  # the same side
    for jump in (1e-12, 1e-5):  # there is always room for rounding
        rounding = thinned_loop.ROUNDING * 3**3
        assert thinned_loop.distance_bound.py_func(3.0, 3.0, jump) == pytest.approx(
            3 * 3**2 * jump + rounding, rel=1e-5
        )


def five_rows() -> ThinnedKernel:
    """A problem small enough to enumerate all auxiliary variables."""
    data = {"x": [-1.0, 0.5, 2.0, 0.3, 1.2], "y": [0, 0, 1, 0, 1]}
    model = GLM("y ~ x", data, prior=Normal(0.0, 2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeparationWarning)
        kernel = expand(model, harness.mode_of(model), np.random.default_rng(4), INDEPENDENT, np.inf).kernel
    return replace(kernel, target=kernel.target._replace(limit=np.inf))


def six_points(kernel: ThinnedKernel) -> harness.FiniteSpace:
    space = harness.FiniteSpace.of(kernel, np.random.default_rng(8))
    inside = np.linalg.norm(np.linalg.solve(kernel.mode.factor, (space.points - kernel.mode.theta).T), axis=0)
    assert inside.max() < kernel.target.radius
    return space


def enumerated(kernel: ThinnedKernel, space: harness.FiniteSpace, most: int | None = None, sign: int = 1) -> np.ndarray:
    """Transition matrix with the auxiliaries summed out, event by event: N, the rows drawn, and which are kept.

    With `most`, a step that draws more than so many events gets the full second stage instead, which is wrong.
    """
    m, tag = len(space.points), kernel.model.family.tag
    rows, mode = kernel.model.rows, kernel.mode
    bounds = RemainderBounds(tag, mode.theta, mode.factor, kernel.target.radius).of(rows.arrays)
    eta = mode.theta @ rows.arrays.x
    z = np.linalg.solve(mode.factor, (space.points - mode.theta).T).T
    moves = np.zeros((m, m))
    for i, j in itertools.permutations(range(m), 2):
        spread = thinned_loop.distance_bound.py_func(*np.linalg.norm(z[[i, j]], axis=1), np.linalg.norm(z[j] - z[i]))
        h = (space.points[[i, j]] - mode.theta) @ rows.arrays.x
        parts = [[remainder(tag.terms, rows.arrays.y[k], eta[k], step[k]) for k in range(rows.size)] for step in h]
        difference = sign * (np.array(parts[1]) - np.array(parts[0]))
        pairs = np.array([thinned_loop.thin.py_func(c * spread, d) for c, d in zip(bounds, difference, strict=True)])
        fixed = np.log(space.proposal[j, i] / space.proposal[i, j])
        fixed += log_surrogate(kernel, space.points[j]) - log_surrogate(kernel, space.points[i])
        if most is None:
            accept = expectation(bounds * spread * pairs[:, 0], pairs[:, 1], fixed)
        else:
            full = min(1.0, np.exp(fixed + difference.sum()))
            accept = switched(bounds * spread, pairs, fixed, full, most)
        moves[i, j] = space.proposal[i, j] * accept
    return harness.with_rejections(moves)


def expectation(phi: np.ndarray, gain: np.ndarray, fixed: float) -> float:
    """E min(1, exp(fixed + sum S gain)) over independent S ~ Poisson(phi), to 1e-12.

    In two halves: for each sum of the first, sums of the second, sorted, are below or above where the minimum is one.
    """

    def sums(part: slice) -> tuple[np.ndarray, np.ndarray]:
        logs, probability = np.zeros(1), np.ones(1)
        for rate, each in zip(phi[part], gain[part], strict=True):
            counts = np.arange(int(stats.poisson.isf(1e-13, rate)) + 2)
            logs = np.add.outer(logs, each * counts).ravel()
            probability = np.multiply.outer(probability, stats.poisson.pmf(counts, rate)).ravel()
        order = np.argsort(logs)
        return logs[order], probability[order]

    (one, share), (other, own) = sums(slice(2)), sums(slice(2, None))
    below = np.append(0.0, np.cumsum(own * np.exp(other)))
    above = np.append(np.cumsum(own[::-1])[::-1], 0.0)
    place = np.searchsorted(other, -(fixed + one))
    return float((share * (np.exp(fixed + one) * below[place] + above[place])).sum())


def switched(rates: np.ndarray, pairs: np.ndarray, fixed: float, full: float, most: int) -> float:
    """The same when N is drawn first and steps with more than `most` events are decided on all rows."""
    total = rates.sum()
    accept = stats.poisson.sf(most, total) * full
    outcomes = [(rate / total * keep, gain) for rate, (keep, gain) in zip(rates, pairs, strict=True)]
    outcomes.append((sum(rate / total * (1 - keep) for rate, (keep, _) in zip(rates, pairs, strict=True)), 0.0))
    for events in range(most + 1):
        for chosen in itertools.product(outcomes, repeat=events):
            probability = np.prod([p for p, _ in chosen]) if chosen else 1.0
            log_ratio = fixed + sum(gain for _, gain in chosen)
            accept += stats.poisson.pmf(events, total) * probability * np.exp(min(0.0, log_ratio))
    return float(accept)


def test_transition_matrix_keeps_the_target_with_the_auxiliaries_summed_out():
    kernel = five_rows()
    space = six_points(kernel)
    assert harness.drift(space.target, enumerated(kernel, space)) < 1e-10


@pytest.mark.parametrize(("broken", "least"), [({"sign": -1}, 0.1), ({"most": 0}, 0.02), ({"most": 1}, 0.02)])
def test_broken_transition_matrices_do_not(broken, least):
    """D with the wrong sign, and a switch to all rows that depends on the N drawn: both matter on this problem."""
    kernel = five_rows()
    space = harness.FiniteSpace.of(kernel, np.random.default_rng(23))
    matrix = enumerated(kernel, space, **broken)
    assert harness.bias(space.target, matrix) > least
    assert harness.drift(space.target, matrix) > 1e-3


# --- kind 2: reductions ---


def exact_log_ratio(kernel: ThinnedKernel, here: np.ndarray, there: np.ndarray, kind: str) -> np.ndarray:
    """log of p-ratio times q-ratio, written with NumPy alone."""
    mode, ratio = kernel.mode, harness.log_posterior(kernel.model, there) - harness.log_posterior(kernel.model, here)
    z = [np.linalg.solve(mode.factor, (point - mode.center).T).T for point in (here, there)]
    squares = [(part**2).sum(-1) for part in z]
    if kind == "heavy":
        density = [stats.multivariate_t.logpdf(part, np.zeros(2), np.eye(2), kernel.moves.df) for part in z]
        return ratio + density[0] - density[1]
    if kind == "walk":
        return ratio
    if kind == "independent":
        around_mode = [np.linalg.solve(mode.factor, (point - mode.theta).T).T for point in (here, there)]
        density = [shape.log_densities(kernel.target.shape, np.array(points)) for points in around_mode]
        return ratio + np.array(density[0]) - np.array(density[1])
    return ratio + 0.5 * (squares[1] - squares[0])  # reversible with respect to the Gaussian


@pytest.mark.parametrize("kind", ["independent", "autoregressive", "heavy", "walk"])
@pytest.mark.parametrize("how", [{"threshold": 0.0}, {"limit": 0.0}], ids=["always evaluated", "passes"])
@pytest.mark.parametrize("name", MODELS)
def test_without_thinning_the_ratio_is_that_of_metropolis_hastings(name, how, kind):
    kernel = make(name, MOVES[kind], **how)
    streams = Streams.spawn(5, 3)
    state = kernel.start(streams)
    start = state.theta
    _, draws = kernel.advance(state, 60, streams)
    before = np.concatenate([start[None], draws.theta[:-1]])
    moved = draws.accepted[:, 0]
    expected = exact_log_ratio(kernel, before[moved], draws.theta[moved], kind)
    assert moved.sum() > 20
    np.testing.assert_allclose(draws.log_second[:, 0][moved], expected, atol=1e-9)


def test_with_no_remainder_at_all_every_proposal_is_accepted():
    kernel = make(moves=MOVES["autoregressive"], total=0.0)
    assert harness.some_draws(kernel, [200]).accepted.all()


# --- kind 3: start in the posterior, stay there ---


# A limit decides which rows are looked at, whatever the move.
LIMITED = [
    pytest.param(kind, limit, marks=pytest.mark.long if limit < np.inf and kind != "mixed" else ())
    for kind in MOVES
    for limit in (np.inf, 4.0)
]


@pytest.mark.parametrize(("kind", "limit"), LIMITED)
def test_chains_started_in_the_posterior_stay_there(kind, limit):
    assert harness.departure(make(moves=MOVES[kind], limit=limit), STEPS, CHAINS, seed=SEED) > harness.FALSE_ALARM


# All rows thinned are held against quadrature below for the others; where all those of cloglog are, it takes long.
ALL_THINNED = ("student-t prior", "weighted")
SOME_THINNED = ("cloglog", "poisson")  # one loop runs for all: others in the long run


@pytest.mark.parametrize(
    ("name", "threshold"),
    [
        pytest.param(name, threshold, marks=() if name in every_run else pytest.mark.long)
        for threshold, every_run in ((np.inf, ALL_THINNED), (0.3, SOME_THINNED))
        for name in MODELS
    ],
)
def test_every_family_stays_in_its_posterior(name, threshold):
    kernel = make(name, threshold=threshold)
    assert harness.departure(kernel, STEPS, CHAINS, seed=SEED) > harness.FALSE_ALARM


def test_thresholds_split_the_rows():
    sizes = [make(threshold=threshold).target.always.y.size for threshold in (np.inf, 0.3, 0.0)]
    assert sizes[0] == 0 < sizes[1] < sizes[2] == 14


# --- kind 4: broken kernels must fail ---


class Interpreted:
    """The compiled loop run by Python, so that a part of it can be broken."""

    def __init__(self, monkeypatch, **parts):
        interpret(monkeypatch, passes, shape, thinned_loop, **parts)
        monkeypatch.setattr(thinned, "advance", self)

    def __call__(self, terms, target, moves, pool, chain, *rest):
        return thinned_loop.advance.py_func(terms, target, moves, pool, chain.view(np.recarray), *rest)


def few_chains(kernel: ThinnedKernel, steps: int = 8, chains: int = 700) -> float:
    return harness.departure(kernel, steps, chains, seed=SEED)


def test_the_interpreted_loop_is_the_compiled_one(monkeypatch):
    compiled = harness.some_draws(make(), [40])
    Interpreted(monkeypatch)
    interpreted = harness.some_draws(make(), [40])
    np.testing.assert_allclose(compiled.theta, interpreted.theta, atol=1e-10)
    np.testing.assert_array_equal(compiled.accepted, interpreted.accepted)


def test_a_wrong_sign_leaves_the_posterior(monkeypatch):
    right = thinned_loop.thin.py_func
    Interpreted(monkeypatch, thin=lambda bound, difference: right(bound, -difference))
    assert few_chains(make(moves=INDEPENDENT)) < harness.FALSE_ALARM


def scaled_bounds(monkeypatch, by: float) -> None:
    right = RemainderBounds.of
    monkeypatch.setattr(RemainderBounds, "of", lambda self, arrays: by * right(self, arrays))


def test_bounds_that_are_too_small_are_seen_in_set_up(monkeypatch):
    scaled_bounds(monkeypatch, 0.2)
    with pytest.raises(FloatingPointError, match="times its bound"):
        make()


def test_bounds_that_are_too_small_are_seen_while_sampling(monkeypatch):
    scaled_bounds(monkeypatch, 0.2)
    monkeypatch.setattr(RemainderBounds, "excess", lambda *arguments: 0.0)
    with pytest.raises(FloatingPointError, match="exceeds its bound"):
        harness.some_draws(make(moves=INDEPENDENT), [500])


@pytest.mark.long  # that somebody looks is tested above
def test_bounds_that_are_too_small_leave_the_posterior_if_nobody_looks(monkeypatch):
    """On a problem with one coefficient, where rows come close to their bounds; a NaN ratio is a rejection."""

    def unchecked(bound, difference):
        forward, backward = bound - max(0.0, difference), bound - max(0.0, -difference)
        return forward / bound, np.log(backward / forward) if min(forward, backward) > 0 else np.nan

    scaled_bounds(monkeypatch, 0.2)
    monkeypatch.setattr(RemainderBounds, "excess", lambda *arguments: 0.0)
    Interpreted(monkeypatch, breaks=lambda bound, difference: False, thin=unchecked)
    assert few_chains(make("intercept", INDEPENDENT), 12, 3_000) < harness.FALSE_ALARM


def small_pools(monkeypatch, rows: int) -> None:
    """A chain gets so few rows at a time that most steps need some of the next pool."""
    right = Urn.pool
    monkeypatch.setattr(thinned_setup, "USUAL_CHAINS", 0)
    monkeypatch.setattr(Urn, "pool", lambda self, key, chain, chains, ahead: right(self, key, chain, chains, rows))


@pytest.mark.parametrize("chains", [CHAINS, pytest.param(600, marks=pytest.mark.long)])
def test_small_pools_stay_in_the_posterior(monkeypatch, chains):
    small_pools(monkeypatch, 2)
    assert harness.departure(make(), STEPS, chains, seed=SEED) > harness.FALSE_ALARM


@pytest.mark.long
def test_rows_that_come_again_leave_the_posterior(monkeypatch):
    """The same small pool again and again, for each chain its own."""
    right = Urn.pool
    monkeypatch.setattr(thinned_setup, "USUAL_CHAINS", 0)
    monkeypatch.setattr(Urn, "pool", lambda self, key, chain, chains, ahead: right(self, (key[0], 0), chain, chains, 2))
    assert few_chains(make(moves=INDEPENDENT), 12, 3_000) < harness.FALSE_ALARM


def test_a_sorted_pool_leaves_the_posterior(monkeypatch):
    right = Urn.pool

    def ordered(self, *given):
        pool = right(self, *given)
        order = np.argsort(-pool.x[:, 1])
        return Pool(*(part[order] for part in pool))

    monkeypatch.setattr(Urn, "pool", ordered)
    assert harness.departure(make(moves=INDEPENDENT), 3, NOTICED, seed=SEED) < harness.FALSE_ALARM


@pytest.mark.long
def test_cutting_the_number_of_events_leaves_the_posterior(monkeypatch):
    right = thinned_loop.poisson.py_func
    Interpreted(monkeypatch, poisson=lambda rate, rng: min(right(rate, rng), 1))
    assert few_chains(make(moves=INDEPENDENT), 12, 4_000) < harness.FALSE_ALARM


@compiled()
def poissons(rate, rng, out):
    for i in range(out.size):
        out[i] = thinned_loop.poisson(rate, rng)


@pytest.mark.parametrize("rate", [1e-3, 0.7, 9.0, 40.0, 499.9, 500.0, 1_200.0])
def test_numbers_of_events_are_poisson(rate):
    """Also where they are counted in parts; cells have an expectation of 50 at least."""
    drawn = np.empty(60_000, np.int64)
    poissons(rate, np.random.default_rng(1), drawn)
    edges = np.unique(stats.poisson.ppf(np.linspace(0, 1, 41)[1:-1], rate))
    expected = np.diff(np.concatenate([[0.0], stats.poisson.cdf(edges, rate), [1.0]])) * drawn.size
    seen = np.bincount(np.searchsorted(edges, drawn), minlength=expected.size)
    assert expected.min() > 50
    assert stats.chisquare(seen, expected).pvalue > harness.FALSE_ALARM


def test_few_events_are_those_of_numpy():
    """The same numbers for the same generator, as long as NumPy multiplies uniform numbers too."""
    rates = np.random.default_rng(1).uniform(0, 9.9, 300)
    ours, theirs, one = np.random.default_rng(2), np.random.default_rng(2), np.empty(1, np.int64)
    for rate in (0.0, *rates):
        poissons(rate, ours, one)
        assert one[0] == theirs.poisson(rate)


@pytest.mark.parametrize("total", [np.nan, -1.0])
def test_a_rate_that_is_not_a_number_raises(total):
    with pytest.raises(FloatingPointError, match="rate"):
        harness.some_draws(make(total=total), [5])


def test_a_dropped_prior_correction_leaves_the_posterior():
    kernel = make("student-t prior", prior=np.empty((7, 0)))
    assert harness.departure(kernel, 4 * STEPS, 1_500, seed=SEED) < harness.FALSE_ALARM


# --- kind 5: known posteriors ---


# Families that come again, and grids that take long.
NOT_EVERY_RUN = {
    "default": ("logit", "probit", "cloglog", "student-t prior", "weighted"),
    "all thinned": ("cloglog", *ALL_THINNED),
}


@pytest.mark.parametrize(
    ("how", "name"),
    [
        pytest.param(how, name, marks=pytest.mark.long if name in later else ())
        for how, later in NOT_EVERY_RUN.items()
        for name in [*MODELS, "zero event"]
    ],
)
def test_long_runs_agree_with_quadrature(how, name):
    """The tail quantiles (0.5% and 99.5%) of a level without events are among what is compared."""
    chains = 300
    model = model_named(name)
    default = how == "default"
    kernel = expand(model, harness.mode_of(model), np.random.default_rng(4)).kernel if default else make(name)
    draws = 200 if default else 25
    assert harness.largest_z(kernel, draws, chains, 5, harness.Quadrature.of(model)) < harness.z_limit(chains)


def test_gaussian_proposals_alone_miss_the_tail_of_a_level_without_events():
    """Why proposals are a mixture: chains that start near the mode do not reach the left tail in this time."""
    chains = 400
    kernel = make("zero event", INDEPENDENT, threshold=0.0)
    gaussian = shape.fit_shape(np.tile(-0.5 * shape.KNOTS**2, (2, 1)))
    kernel = replace(kernel, target=kernel.target._replace(shape=gaussian))
    truth = harness.Quadrature.of(kernel.model)
    far = truth.quantile(1, 0.005)
    shares = []
    for moves in (INDEPENDENT, MIXED):
        streams = Streams.spawn(6, chains)
        draws = replace(kernel, moves=moves).advance(kernel.start(streams), 150, streams)[1]
        shares.append((draws.theta[..., 1] < far).mean())
    assert shares[0] < 0.0025 < shares[1]


# --- kind 7: same seed, same draws ---


@pytest.mark.parametrize("limit", [np.inf, 4.0])
def test_draws_do_not_depend_on_how_steps_are_split(limit):
    kernel = make(limit=limit)
    draws = harness.some_draws(kernel, [130])
    assert harness.same(draws, harness.some_draws(kernel, [1, 99, 7, 23]))
    assert not harness.same(*(harness.some_draws(kernel, [5], seed) for seed in (3, 4)))


@pytest.mark.parametrize("ahead", [None, 3])
def test_draws_and_counts_do_not_depend_on_threads_and_calls(ahead, monkeypatch):
    """Also where a chain has had many pools before another one asks for its part of them."""
    if ahead:
        small_pools(monkeypatch, ahead)
    kernel, found = make(), []
    for count, calls in ((1, [100]), (2, [100]), (4, [100]), (2, [7, 90, 3])):
        before = kernel.model.rows.touched
        with threads.using(count):
            found.append((harness.some_draws(kernel, calls, chains=4), kernel.model.rows.touched - before))
    assert all(harness.same(found[0][0], draws) for draws, _ in found)
    assert len({touched for _, touched in found}) == 1


def test_a_state_can_be_gone_on_from_twice():
    """What chains have had of the urn is part of their state, and of nothing else."""
    kernel, runs = make(), []
    streams = Streams.spawn(3, 2)
    state = kernel.advance(kernel.start(streams), 50, streams)[0]
    for _ in range(2):
        runs.append(kernel.advance(state, 300, deepcopy(streams))[1])
    assert harness.same(*runs)


# --- kind 9: honest counts ---


@pytest.mark.parametrize("ahead", [None, 3])
@pytest.mark.parametrize("threshold", [np.inf, 0.3])
def test_rows_touched_are_what_was_used_and_passed(monkeypatch, threshold, ahead):
    """Not what was drawn ahead: rows that are left in a pool may never be looked at."""
    kernel = make(threshold=threshold, limit=4.0)
    if ahead:
        small_pools(monkeypatch, ahead)
    given, right = {0: [], 1: []}, Urn.pool

    def recorded(self, key, chain, *rest):
        pool = right(self, key, chain, *rest)
        given[chain].append(pool.y.size)
        return pool

    monkeypatch.setattr(Urn, "pool", recorded)
    rows, rng = kernel.model.rows, Streams.spawn(3, 2)
    state, before = kernel.start(rng), rows.touched
    with harness.counting(rows) as tally:
        for steps in (3, 47):
            state, _ = kernel.advance(state, steps, rng)
    used = sum(sum(given[c][:-1]) + chain.used for c, chain in enumerate(state.chains))
    assert used > 50 < sum(tally)
    assert rows.touched - before == used + sum(tally) + 2 * 50 * kernel.target.always.y.size
