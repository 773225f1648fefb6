"""Priors that are not Normal: long tails where the data leave directions flat, and more than one mode.

All posteriors here are known by quadrature on grids that reach as far as the prior does, tail quantiles included.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import harness
import hierarchy
import numpy as np
import pytest
from entries import interpret
from scipy import special, stats

import tallbayes as tb
from tallbayes.groups import thinned_setup as grouped_setup
from tallbayes.groups.mode import find_group_mode
from tallbayes.groups.model import Hierarchical
from tallbayes.models.cautions import TailWarning
from tallbayes.models.flat import flat_directions, pivots_of
from tallbayes.models.glm import GLM
from tallbayes.models.mode import find_mode
from tallbayes.models.priors import Normal, StudentT
from tallbayes.rows import passes
from tallbayes.rows.tasks import Derivatives
from tallbayes.sampling import diagnostics, shape, thinned, thinned_loop
from tallbayes.sampling.kernel import Streams
from tallbayes.sampling.tails import unreached, warn_of_tails
from tallbayes.sampling.thinned_loop import Moves
from tallbayes.sampling.thinned_setup import expand

CHAINS, DRAWS = 100, 600


def far_apart(low: float, high: float, points: int) -> np.ndarray:
    """A grid that is fine around zero and coarse far out."""
    return np.sinh(np.linspace(np.arcsinh(low), np.arcsinh(high), points))


# --- levels of one factor: given the intercept their coefficients are independent ---


def levels(events: Sequence[int], rows: Sequence[int], df: float) -> GLM:
    """The first level is the reference; all coefficients have Student-t priors."""
    g = np.repeat([f"l{level}" for level in range(len(rows))], rows)
    y = np.concatenate([np.arange(n) < k for k, n in zip(events, rows, strict=True)])
    return GLM("y ~ g", {"y": y.astype(float), "g": g}, prior=StudentT(df, 0, 2.5))


def margins(events: Sequence[int], rows: Sequence[int], df: float, ends: tuple[float, float]) -> list[harness.Line]:
    """The margin of each coefficient."""
    a, b = far_apart(*ends, 1501 if ends[0] < -10 else 601), far_apart(-1e7, 1e7, 1501)
    weight = events[0] * a - rows[0] * np.logaddexp(0, a) + stats.t.logpdf(a, df, 0, 2.5) + np.log(np.gradient(a))
    given = []
    for k, n in zip(events[1:], rows[1:], strict=True):
        eta = a[:, None] + b
        logs = k * eta - n * np.logaddexp(0, eta) + stats.t.logpdf(b, df, 0, 2.5) + np.log(np.gradient(b))
        top = logs.max(1, keepdims=True)
        parts = np.exp(logs - top)
        weight += top[:, 0] + np.log(parts.sum(1))
        given.append(parts / parts.sum(1, keepdims=True))
    share = np.exp(weight - weight.max())
    share /= share.sum()
    return [harness.Line(a, share), *(harness.Line(b, share @ part) for part in given)]


LEVELS = {
    "a level without events": ([300, 0], [1500, 60], (-5.0, 1.0)),
    "a level without others": ([300, 60], [1500, 60], (-5.0, 1.0)),
    "the reference without events": ([0, 300, 20], [60, 1500, 60], (-1e7, 60.0)),
    "one with none, one with all": ([300, 0, 30], [1500, 60, 30], (-5.0, 1.0)),
    "many rows without events": ([300, 0], [1500, 5000], (-5.0, 1.0)),
    "one event": ([300, 1], [1500, 60], (-5.0, 1.0)),
}


def kernel_of(model: GLM, seed: int = 1) -> Any:
    return expand(model, harness.mode_of(model), np.random.default_rng(seed)).kernel


# Problems with the longest tails, but for one seen in a mirror, and another prior with the plainest problem.
MIRRORED, PLAIN = "a level without others", "a level without events"
EVERY_RUN = [(name, 1.0) for name in LEVELS if name != MIRRORED] + [(PLAIN, 4.0)]
CASES = [
    pytest.param(name, df, marks=() if (name, df) in EVERY_RUN else pytest.mark.long)
    for name in LEVELS
    for df in (1.0, 2.0, 4.0)
]


@pytest.mark.parametrize(("name", "df"), CASES)
def test_levels_under_student_t_priors(name, df):
    events, rows, ends = LEVELS[name]
    truth = margins(events, rows, df, ends)
    draws = harness.settled(kernel_of(levels(events, rows, df)), DRAWS, CHAINS, seed=2)
    worst = max(line.largest_z(draws[..., j]) for j, line in enumerate(truth))
    assert worst < harness.z_limit(CHAINS, sum(line.checks for line in truth))


@pytest.mark.parametrize("df", [1.0, pytest.param(2.0, marks=pytest.mark.long)])
def test_a_fit_has_the_tails_of_a_level_without_events(df):
    """As a user would: four chains. The error of each probability is that of its own effective draws, 5 of them."""
    events, rows, ends = LEVELS["a level without events"]
    model = levels(events, rows, df)
    data = {"y": np.concatenate([np.arange(n) < k for k, n in zip(events, rows, strict=True)]).astype(float)}
    data["g"] = np.repeat(["l0", "l1"], rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.SeparationWarning)
        fit = tb.fit("y ~ g", data, prior=StudentT(df, 0, 2.5), draws=5_000, seed=3, progress=False)
    assert model.coefficients == fit.coefficients
    assert fit.converged
    line, found = margins(events, rows, df, ends)[1], fit.posterior["beta"].values[..., 1]
    below = np.cumsum(line.probability)
    for level in (0.005, 0.03, 0.1, 0.5, 0.97):
        place = int(np.searchsorted(below, level))
        under = (found <= line.grid[place] + 0.5 * (line.grid[place + 1] - line.grid[place])).astype(float)
        effective = min(float(diagnostics.ess(under[..., None])[0]), under.size)
        error = (below[place] * (1 - below[place]) / effective) ** 0.5
        assert abs(under.mean() - below[place]) < 5 * error, level


def test_few_rows_are_touched_where_few_are_moved_by_a_flat_direction():
    """Chains are far outside of any ball half of the time; only the rows of the level have to be looked at for that."""
    rng = np.random.default_rng(3)
    n = 200_000
    x, level = rng.normal(size=n), (np.arange(n) < 80).astype(float)
    y = (rng.random(n) < 1 / (1 + np.exp(2 - 0.5 * x))) * (1 - level)
    model = GLM("y ~ x + level", {"x": x, "level": level, "y": y}, prior=StudentT(1, 0, 2.5))
    kernel = kernel_of(model)
    assert kernel.target.flat == 1
    streams = Streams.spawn(1, 8)
    state, before = kernel.start(streams), model.rows.touched
    draws = kernel.advance(state, 500, streams)[1]
    assert (draws.theta[..., 2] < -100).any()
    assert model.rows.touched - before < 500 * 8 * 150


# --- a column that separates the outcomes: what is flat is a cone ---


def separated(df: float) -> tuple[GLM, list[harness.Line]]:
    x = np.array([-1.6, -1.1, -0.7, -0.2, 0.1, 0.4, 0.6, 1.0, 1.3, 2.1])
    y = (x > 0.3).astype(float)
    model = GLM("y ~ x", {"x": x, "y": y}, prior=StudentT(df, 0, 2.5))
    a, b = far_apart(-1e4, 1e4, 1201), far_apart(-10, 3e4, 1001)
    logs = stats.t.logpdf(a, df, 0, 2.5)[:, None] + stats.t.logpdf(b, df, 0, 2.5) + np.log(np.gradient(b))
    logs += np.log(np.gradient(a))[:, None]
    for value, outcome in zip(x, y, strict=True):
        eta = a[:, None] + b * value
        logs -= np.logaddexp(0, -eta if outcome else eta)
    joint = np.exp(logs - logs.max())
    joint /= joint.sum()
    # Chains stay for hundreds of steps where one in two thousand draws is: averages over chains are not Normal there.
    levels = (0.005, 0.03, 0.25, 0.5, 0.75, 0.97, 0.995)
    return model, [harness.Line(a, joint.sum(1), levels), harness.Line(b, joint.sum(0), levels)]


@pytest.mark.parametrize("df", [2.0, pytest.param(4.0, marks=pytest.mark.long)])
def test_a_column_that_separates_the_outcomes(df):
    model, truth = separated(df)
    draws = harness.settled(kernel_of(model), 6_000, CHAINS, seed=4)
    assert max(truth[j].largest_z(draws[..., j]) for j in (0, 1)) < harness.z_limit(CHAINS, 14)


# --- two modes ---


def spike(df: float, scale: float, events: int, rows: int) -> tuple[GLM, harness.Line]:
    model = GLM("y ~ 1", {"y": (np.arange(rows) < events).astype(float)}, prior=StudentT(df, 0, scale))
    grid = np.unique(np.concatenate([np.linspace(-2, 8, 40_001), scale * np.sinh(np.linspace(-7, 7, 20_001))]))
    grid = grid[(grid > -2) & (grid < 8)]
    return model, harness.Line.of(
        lambda t: events * t - rows * np.logaddexp(0, t) + stats.t.logpdf(t, df, 0, scale), grid
    )


@pytest.mark.parametrize(
    ("df", "scale", "events", "rows"),
    [
        (3, 0.01, 54, 60),
        pytest.param(3, 0.02, 54, 60, marks=pytest.mark.long),
        pytest.param(3, 0.01, 50, 60, marks=pytest.mark.long),
        pytest.param(1, 0.01, 46, 60, marks=pytest.mark.long),
        pytest.param(5, 0.05, 54, 60, marks=pytest.mark.long),
        pytest.param(2, 0.001, 52, 60, marks=pytest.mark.long),
    ],
)
def test_two_modes(df, scale, events, rows):
    """A prior much narrower than the likelihood: both its peak and that of the likelihood get their share."""
    model, truth = spike(df, scale, events, rows)
    draws = harness.settled(kernel_of(model), 400, CHAINS, seed=5)[..., 0]
    assert truth.largest_z(draws) < harness.z_limit(CHAINS, truth.checks)
    weight = truth.probability[np.abs(truth.grid) < 20 * scale].sum()
    share = (np.abs(draws) < 20 * scale).mean(1)
    error = max(share.std(ddof=1), (weight * (1 - weight) / draws.shape[1]) ** 0.5) / CHAINS**0.5
    assert abs(share.mean() - weight) < harness.z_limit(CHAINS, 1) * error


def test_a_fit_does_not_take_the_peak_of_the_prior_for_the_posterior():
    truth = spike(3, 0.01, 54, 60)[1]
    above = truth.probability[truth.grid > 0.4].sum()
    assert above > 0.998
    for seed in range(3):
        fit = tb.fit(
            "y ~ 1",
            {"y": np.arange(60) < 54},
            prior=StudentT(3, 0, 0.01),
            draws=2_500,
            seed=seed,
            progress=False,
        )
        assert fit.converged
        assert fit.stats["proposal"] == "independence"
        found = (fit.posterior["beta"].values > 0.4).mean()
        assert abs(found - above) < 5 * (above * (1 - above) / 10_000) ** 0.5


def test_the_mode_with_the_larger_mass_is_expanded_at_and_the_other_is_kept():
    for events, first in ((54, True), (40, False)):
        mode = find_mode(spike(3, 0.01, events, 60)[0])
        assert (mode.theta[0] > 0.4) == first
        assert all((other.theta[0] > 0.4) != first for other in mode.others)
        assert mode.log_mass >= max([other.log_mass for other in mode.others], default=-np.inf)
    assert not harness.mode_of(harness.skewed_model()).others


def test_modes_of_single_coefficients_are_found():
    """Columns that do not know of one another: each coefficient has two modes of its own, so that there are four."""
    x = np.repeat(np.eye(2), 60, axis=0)
    y = np.concatenate([np.arange(60) < 50, np.arange(60) < 51]).astype(float)
    mode = find_mode(GLM.from_arrays(x, y, prior=StudentT(3, 0, 0.01)))
    places = {tuple((one.theta > 0.4).tolist()) for one in (mode, *mode.others)}
    assert places == set(itertools.product([False, True], repeat=2))


def test_more_modes_than_are_looked_for_are_told():
    x = np.repeat(np.eye(3), 60, axis=0)
    y = np.tile(np.arange(60) < 50, 3).astype(float)
    with pytest.warns(TailWarning, match="not all combinations"):
        find_mode(GLM.from_arrays(x, y, prior=StudentT(3, 0, 0.01)))


# --- flat directions ---


def seen(curvature: np.ndarray) -> Derivatives:
    return Derivatives(np.zeros(1), np.zeros((1, len(curvature))), curvature[None])


def test_flat_directions_are_those_of_the_null_space():
    rng = np.random.default_rng(1)
    for p, f in ((2, 1), (4, 1), (4, 2), (6, 3)):
        units = 10.0 ** rng.uniform(-3, 3, p)
        flat = np.rint(rng.uniform(-2, 2, (p, f)))
        flat[np.arange(f), np.arange(f)] = 1 + np.abs(flat[np.arange(f), np.arange(f)])
        rest = np.linalg.qr(np.column_stack([flat, rng.normal(size=(p, p - f))]))[0][:, f:]
        far = rest @ rest.T / np.outer(units, units)
        start = far + np.diag(1 / units**2)
        found = flat_directions(seen(start), seen(far + 1e-9 * start))
        assert found.shape == (p, f)
        assert np.abs(far @ found * units[:, None]).max() < 1e-4 * np.abs(found / units[:, None]).max()
        assert (found[pivots_of(found)] == np.eye(f)).all()
    assert flat_directions(seen(np.eye(3)), seen(0.1 * np.eye(3))).shape == (3, 0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a level without events", [[0.0, 1.0]]),
        ("the reference without events", [[1.0, -1.0, -1.0]]),
        ("one with none, one with all", [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        ("one event", []),
    ],
)
def test_the_first_axes_follow_flat_directions(name, expected):
    mode = harness.mode_of(levels(*LEVELS[name][:2], 2.0))
    assert mode.flat == len(expected)
    assert np.abs(mode.factor @ mode.factor.T @ mode.precision - np.eye(mode.theta.size)).max() < 1e-9
    both = np.concatenate([np.array(expected).reshape(-1, mode.theta.size).T, mode.factor[:, : mode.flat]], axis=1)
    assert both.size == 0 or np.linalg.matrix_rank(both, tol=1e-9) == mode.flat


def test_normal_priors_have_no_use_for_flat_directions():
    events, rows, _ = LEVELS["a level without events"]
    model = levels(events, rows, 2.0)
    given = model.rows.arrays
    assert harness.mode_of(GLM.from_arrays(given.x.T, given.y, weights=given.own)).flat == 0


# --- the stretch, and chains that stay in the posterior ---


@cache
def flat_model() -> GLM:
    """Small enough for exact draws by rejection from the prior."""
    y = [0, 1, 0, 1, 0, 1, 0, 0, 1, 0] + [0] * 6
    level = [0.0] * 10 + [1.0] * 6
    return GLM("y ~ level", {"y": y, "level": level}, prior=StudentT(2.0, 0.0, 2.0))


STRETCHED = Moves(1.0, 1.0, 0.0, 5, 1.7, 1)


def flat_kernel(moves: Moves | None = None, **options: Any) -> Any:
    model = flat_model()
    return expand(model, harness.mode_of(model), np.random.default_rng(4), moves, **options).kernel


@pytest.mark.parametrize(
    ("moves", "threshold"),
    [
        pytest.param(None, None, id="mixed"),
        pytest.param(STRETCHED, np.inf, id="stretched, all thinned"),
        pytest.param(STRETCHED, None, id="stretched", marks=pytest.mark.long),
        pytest.param(None, np.inf, id="mixed, all thinned", marks=pytest.mark.long),
    ],
)
def test_chains_stay_in_a_posterior_with_a_flat_direction(moves, threshold):
    kernel = flat_kernel(moves, threshold=threshold)
    assert kernel.mode.flat == 1
    assert harness.departure(kernel, 6, 1_500, seed=11) > harness.FALSE_ALARM


def test_a_stretch_without_its_jacobian_leaves_the_posterior(monkeypatch):
    right, kernel = thinned_loop.stretch.py_func, flat_kernel(STRETCHED)

    def forgetful(center, origin, flat, z, rng, new):
        log_ratio = right(center, origin, flat, z, rng, new)
        factor = (new[0] - origin[0]) / (z[0] - origin[0])
        return log_ratio - np.log(factor)

    def interpreted(terms, target, moves, pool, chain, *rest):
        return thinned_loop.advance.py_func(terms, target, moves, pool, chain.view(np.recarray), *rest)

    kernel.start(Streams.spawn(1, 2))  # what that needs is compiled before parts of it are not
    interpret(monkeypatch, passes, shape, thinned_loop, stretch=forgetful)
    monkeypatch.setattr(thinned, "advance", interpreted)
    assert harness.departure(kernel, 12, 500, seed=13) < harness.FALSE_ALARM


def test_the_ratio_of_a_stretch():
    kernel = replace(flat_kernel(STRETCHED, threshold=0.0), moves=STRETCHED)
    streams = Streams.spawn(5, 3)
    state = kernel.start(streams)
    start = state.theta
    draws = kernel.advance(state, 60, streams)[1]
    before, moved = np.concatenate([start[None], draws.theta[:-1]]), draws.accepted[:, 0]
    z = [np.linalg.solve(kernel.mode.factor, (t[moved] - kernel.mode.theta).T)[0] for t in (before, draws.theta)]
    origin = kernel.target.shape.origin[0]
    expected = np.log(np.abs((z[1] - origin) / (z[0] - origin)))
    expected += harness.log_posterior(kernel.model, draws.theta[moved]) - harness.log_posterior(
        kernel.model, before[moved]
    )
    assert moved.sum() > 20
    np.testing.assert_allclose(draws.log_second[:, 0][moved], expected, atol=1e-8)


def test_chains_start_far_apart_where_tails_may_be_long():
    """Farther than the posterior is wide, so that chains which never meet are seen to disagree."""
    kernel = flat_kernel()
    start = kernel.start(Streams.spawn(1, 400)).theta
    exact = harness.exact_draws(kernel.model, 400)
    assert np.ptp(np.quantile(start[:, 1], [0.1, 0.9])) > 1.5 * np.ptp(np.quantile(exact[:, 1], [0.1, 0.9]))
    model = spike(3, 0.01, 50, 60)[0]
    for method in (tb.MH(), tb.TwoStage()):
        with pytest.warns(TailWarning, match="2 modes"):
            slow = method.kernel(model, seed=1)
        start = slow.start(Streams.spawn(1, 40)).theta[:, 0]
        assert 10 < (np.abs(start) < 0.2).sum() < 30


def test_proposals_with_exponential_tails_are_seen_to_fail():
    """The check of the tails can fail: with the tails that proposals had before, chains do not get there."""
    events, rows, ends = LEVELS["a level without events"]
    kernel = kernel_of(levels(events, rows, 2.0))
    short = kernel.target.shape._replace(powers=np.full(2, np.inf))
    kernel = replace(kernel, target=kernel.target._replace(shape=short), moves=Moves(1.0, 0.0, 0.05, 5, 2.0))
    draws = harness.settled(kernel, DRAWS, CHAINS, seed=2)[..., 1]
    assert margins(events, rows, 2.0, ends)[1].largest_z(draws) > harness.z_limit(CHAINS, 9)


# --- what cannot be vouched for is said ---


@cache
def faint_column() -> GLM:
    """The likelihood holds the coefficient only some 50 prior scales out; until then it has the tail of the prior."""
    rng = np.random.default_rng(3)
    x, y = 0.01 * rng.normal(size=300), (rng.random(300) < 0.3).astype(float)
    return GLM("y ~ x", {"x": x, "y": y}, prior=StudentT(1, 0, 1.0))


def test_tails_that_are_not_flat_for_ever_are_reached_too():
    model = faint_column()
    kernel = kernel_of(model)
    assert kernel.mode.flat == 0
    a, b = np.linspace(-1.6, 0.0, 27), far_apart(-1e5, 1e5, 1001)
    logs = stats.t.logpdf(a, 1)[:, None] + stats.t.logpdf(b, 1) + np.log(np.gradient(b))
    for value, outcome in zip(model.rows.arrays.x[1], model.rows.arrays.y, strict=True):
        eta = a[:, None] + b * value
        logs += outcome * eta - np.logaddexp(0, eta)
    joint = np.exp(logs - logs.max()).sum(0)
    truth = harness.Line(b, joint / joint.sum())
    draws = harness.settled(kernel, DRAWS, CHAINS, seed=2)[..., 1]
    assert truth.largest_z(draws) < harness.z_limit(CHAINS, truth.checks)


def test_tails_that_proposals_do_not_reach_are_told():
    kernel = kernel_of(faint_column())
    assert unreached(kernel, np.random.default_rng(1)) == []
    short = kernel.target.shape._replace(powers=np.full(2, np.inf))
    kernel = replace(kernel, target=kernel.target._replace(shape=short))
    assert unreached(kernel, np.random.default_rng(1)) == [1]
    with pytest.warns(TailWarning, match="'x' long tails.*cannot be vouched for"):
        warn_of_tails(kernel, np.random.default_rng(1))


def test_methods_without_proposals_for_the_tails_say_so():
    events, rows, _ = LEVELS["a level without events"]
    g = np.repeat(["l0", "l1"], rows)
    y = np.concatenate([np.arange(n) < k for k, n in zip(events, rows, strict=True)])
    given: dict[str, Any] = {"draws": 60, "warmup": 20, "seed": 1, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.SeparationWarning)
        with pytest.warns(TailWarning, match=r"'g\[T.l1\]'.*cannot be vouched for"):
            fit = tb.fit("y ~ g", {"y": y, "g": g}, prior=StudentT(2, 0, 2.5), method="mh", **given)
        assert not fit.converged
        assert any("cannot be vouched for" in problem for problem in fit.problems())
        fit = tb.fit("y ~ g", {"y": y, "g": g}, prior=Normal(0, 2.5), method="mh", **given)
        assert fit.stats["doubts"] == []


def test_a_share_of_a_prior_that_is_no_density_is_refused():
    """A Cauchy prior to the power 1/14 has no integral; where a shard has no events of a level nothing else ends it."""
    events, rows, _ = LEVELS["a level without events"]
    g = np.repeat(["l0", "l1"], rows)
    y = np.concatenate([np.arange(n) < k for k, n in zip(events, rows, strict=True)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.SeparationWarning)
        with pytest.raises(tb.ShardError, match="falls too slowly"):
            tb.fit("y ~ g", {"y": y, "g": g}, prior=StudentT(1), method=tb.Consensus(4), draws=10, progress=False)


# --- groups ---


@cache
def grouped_model(df: float) -> Hierarchical:
    """A level without events in all of five groups."""
    rows = []
    for group, (k, n, m) in enumerate(zip(*GROUPED, strict=True)):
        rows += [(group, 0, 1)] * k + [(group, 0, 0)] * (n - k) + [(group, 1, 0)] * m
    group, level, y = np.array(rows).T
    data = {"y": y, "level": level.astype(float), "g": group.astype(str)}
    return Hierarchical("y ~ level + (1 | g)", data, prior=StudentT(df, 0, 2.5))


GROUPED = ([12, 20, 9, 30, 17], [80, 90, 70, 100, 85], [15, 10, 12, 13, 10])


def grouped_kernel(model: Hierarchical) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.SeparationWarning)
        mode = find_group_mode(model)
    return grouped_setup.expand(mode, np.random.default_rng(2))[0]


def grouped_margin(df: float) -> harness.Line:
    """Of the level's coefficient: a grid of intercept, coefficient and log tau, Gauss-Hermite for the effects."""
    a, b, u = np.linspace(-3.3, 0.3, 25), far_apart(-1e7, 1e3, 401), np.linspace(-6, 4, 31)
    tau = np.exp(u)
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    logs = stats.t.logpdf(a, df, 0, 2.5)[:, None, None] + (u - np.log1p((tau / 2.5) ** 2))[None, :, None]
    logs = logs + stats.t.logpdf(b, df, 0, 2.5) + np.log(np.gradient(b))
    joint = np.exp(logs - logs.max())
    for k, n, m in zip(*GROUPED, strict=True):
        eta = a[:, None, None] + tau[:, None] * nodes  # (a, tau, node)
        own = k * eta - n * np.logaddexp(0, eta) + np.log(weights)
        own, part = np.exp(own - own.max()), np.zeros(joint.shape)
        for node in range(nodes.size):
            part += own[:, :, node, None] * special.expit(-eta[:, :, node, None] - b) ** m
        joint *= part
    joint = joint.sum((0, 1))
    return harness.Line(b, joint / joint.sum())


@pytest.mark.parametrize("df", [1.0, pytest.param(2.0, marks=pytest.mark.long)])
def test_a_level_without_events_beside_group_effects(df):
    kernel = grouped_kernel(grouped_model(df))
    assert kernel.mode.flat.shape == (2, 1)
    draws = harness.settled(kernel, 750, CHAINS, seed=3)[..., 1]
    truth = grouped_margin(df)
    assert truth.largest_z(draws) < harness.z_limit(CHAINS, truth.checks)


@cache
def small_groups() -> Hierarchical:
    """Small enough for exact draws by rejection from the prior."""
    y = [0, 1, 0, 1, 0, 0, 1, 0, 0] + [0] * 4
    level = [0.0] * 9 + [1.0] * 4
    g = list("aaabbbccc") + list("abca")
    data = {"y": y, "level": level, "g": g}
    return Hierarchical("y ~ level + (1 | g)", data, prior=StudentT(2.0, 0.0, 2.0), group_prior=tb.HalfNormal(1.0))


def test_groups_stay_in_a_posterior_with_a_flat_direction():
    kernel = grouped_kernel(small_groups())
    assert kernel.target.pivots.tolist() == [1]
    start, exact = kernel.start(Streams.spawn(1, 400)).theta, hierarchy.exact_draws(kernel.model)
    assert np.ptp(np.quantile(start[:, 1], [0.1, 0.9])) > 1.5 * np.ptp(np.quantile(exact[:, 1], [0.1, 0.9]))
    assert np.isfinite(hierarchy.log_posterior(kernel.model, start)).all()
    assert hierarchy.departure(kernel, 4, 1_500, seed=11) > harness.FALSE_ALARM


def test_a_stretch_among_groups_without_its_jacobian_leaves_the_posterior(monkeypatch):
    kernel = grouped_kernel(small_groups())
    right = "log_ratio = log_factor = STRETCH * normal(first)"
    wrong = hierarchy.without("advance", right, "log_ratio, log_factor = 0.0, STRETCH * normal(first)")
    hierarchy.Interpreted(monkeypatch, advance=wrong)
    assert hierarchy.departure(kernel, 4, 350, seed=13) < harness.FALSE_ALARM


def test_two_modes_beside_group_effects_are_told():
    rng = np.random.default_rng(2)
    y, g = (np.arange(120) % 12 < 10).astype(float), rng.integers(0, 6, 120).astype(str)
    with pytest.warns(TailWarning, match="2 modes"):
        tb.Auto().kernel(Hierarchical("y ~ 1 + (1 | g)", {"y": y, "g": g}, prior=StudentT(3, 0, 0.003)), seed=1)


# --- the density of proposals ---


def test_power_law_tails_and_further_components_are_densities_that_are_drawn_from():
    """Kolmogorov-Smirnov with a false-alarm rate of 1e-6; the mass by the trapezoid rule on a far grid."""
    powers = np.array([2.0])
    others = shape.components([0.3], [np.array([-3.0])], [np.array([[0.05]])])
    found = shape.fit_shape(
        np.where(shape.KNOTS < 0, 0.2 * shape.KNOTS, -0.5 * shape.KNOTS**2)[None], powers, None, others
    )
    fine = np.linspace(-3.5, -2.5, 20_001)
    grid = np.unique(np.concatenate([far_apart(-1e9, 1e9, 400_001), fine]))
    heights = np.exp(shape.log_densities(found, np.array(grid)[:, None]))
    below = np.concatenate([[0.0], np.cumsum(0.5 * (heights[1:] + heights[:-1]) * np.diff(grid))])
    assert below[-1] == pytest.approx(1.0, abs=1e-5)
    drawn = np.empty((20_000, 1))
    shape.draws(found, np.random.default_rng(1), drawn)
    assert (np.abs(drawn) > 100).sum() > 20
    assert stats.kstest(drawn[:, 0], lambda z: np.interp(z, grid, below)).pvalue > 1e-6
