"""What set-up may never do: leave rows out. The kernel that it builds is taken apart and put together again."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import harness
import numpy as np
import pytest

from tallbayes.families import Poisson
from tallbayes.groups import thinned_setup as grouped_setup
from tallbayes.groups.mode import find_group_mode
from tallbayes.groups.model import Hierarchical
from tallbayes.groups.thinned_loop import TOTAL
from tallbayes.models.glm import GLM
from tallbayes.models.priors import Normal
from tallbayes.rows.remainders import RemainderBounds
from tallbayes.rows.subsample import scattered
from tallbayes.rows.urn import Lots
from tallbayes.sampling import thinned_setup
from tallbayes.sampling.thinned_setup import expand


def random_problem(seed: int, given: bool) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """A few rows and columns: levels with many zeros, rows without leverage, rows that stand several times."""
    rng = np.random.default_rng([seed, 1])
    n, p = int(rng.integers(4, 90)), int(rng.integers(1, 4))
    x = rng.normal(size=(n, p)) * (rng.random((n, p)) < rng.uniform(0.3, 1.0, p)) * 10.0 ** rng.uniform(-2, 1, p)
    x[rng.random(n) < 0.2] = 0.0
    x[0] = 1.0
    again = rng.integers(0, n, n // 3)
    x[again] = x[rng.integers(0, n, again.size)]
    y = (rng.random(n) < rng.choice([0.02, 0.3, 0.9])).astype(float)
    options = {"weights": rng.choice([0.0, 0.25, 1.0, 7.0], n) + 1e-3, "offset": rng.normal(size=n)} if given else {}
    return x, y, options


def kernels(seed: int, given: bool) -> list[Any]:
    """Kernels of a random problem with thresholds at the edge of rows' bounds, just below and just above."""
    x, y, options = random_problem(seed, given)
    try:
        model = GLM.from_arrays(x, y, prior=Normal(0, 2), **options)
        mode = harness.mode_of(model)
    except ValueError:  # columns that happen to be collinear
        return []
    rng = np.random.default_rng([seed, 2])
    thresholds = [None, 0.0, np.inf]
    for beyond in thinned_setup.BEYOND[:2]:
        measure = RemainderBounds(model.family.tag, mode.theta, mode.factor, mode.theta.size**0.5 + beyond)
        bounds = np.sort(model.rows.arrays.own * measure.of(model.rows.arrays))
        edge = bounds[np.flatnonzero(bounds)[:1]] if bounds.any() else bounds[:0]
        spread = thinned_setup.typical_spread(rng.standard_normal((2, 500, mode.theta.size)))
        thresholds += [float(spread * value * near) for value in edge for near in (0.5, 0.95, 1.0, 1.05, 2)]
    return [expand(model, mode, np.random.default_rng([seed, 3]), None, one).kernel for one in thresholds]


@pytest.mark.parametrize("given", [False, True], ids=["plain", "weights and offset"])
@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 50), marks=pytest.mark.long)], ids=str)
def test_nothing_of_the_posterior_is_left_out(given, seeds):
    """Expansion, rows always evaluated and what is expected of the urn add up to the log-likelihood of all rows."""
    seen = [kernel for seed in seeds for kernel in kernels(seed, given)]
    worst = max(harness.left_out(kernel, np.random.default_rng(5)) for kernel in seen)
    assert len(seen) > 6 * len(seeds)
    assert worst < 1e-8


def whole_kernel() -> Any:
    """No row is always evaluated, unless its measure is infinite."""
    model = harness.skewed_model()
    return expand(model, harness.mode_of(model), np.random.default_rng(4), None, np.inf).kernel


def without(right: Any, value: float) -> Any:
    """A measure that has another value for one of the rows."""
    return lambda self, arrays: np.where(np.arange(arrays.size) == 3, value, right(self, arrays))


def test_a_row_left_out_is_seen(monkeypatch):
    """The check can fail: without one row of the urn, of those always evaluated, or with a wrong total.

    Set-up says so itself where it happens to look at the row.
    """
    kernel = whole_kernel()
    assert harness.left_out(kernel, np.random.default_rng(5)) < 1e-10
    short = replace(kernel, target=kernel.target._replace(total=0.99 * kernel.target.total))
    assert harness.left_out(short, np.random.default_rng(5)) > 1e-5
    right = RemainderBounds.of
    monkeypatch.setattr(RemainderBounds, "of", without(right, 0.0))
    with pytest.raises(FloatingPointError, match="times its bound"):
        whole_kernel()
    monkeypatch.setattr(RemainderBounds, "excess", lambda *arguments: 0.0)
    forgetful = whole_kernel()
    assert forgetful.urn.rows == kernel.urn.rows - 1
    assert harness.left_out(forgetful, np.random.default_rng(5)) > 1e-3
    monkeypatch.setattr(RemainderBounds, "of", without(right, np.inf))
    apart = whole_kernel()
    assert apart.target.always.y.size == 1
    assert harness.left_out(apart, np.random.default_rng(5)) < 1e-10
    monkeypatch.setattr(Lots, "answer", lambda self, *given, answer=Lots.answer: nobody(answer(self, *given)))
    assert harness.left_out(whole_kernel(), np.random.default_rng(5)) > 1e-3


def nobody(drawn: Any) -> Any:
    return drawn._replace(certain=drawn.certain.take(np.empty(0, np.intp)))


def test_no_row_of_a_group_is_left_out():
    """Of every group, the bounds that are drawn from and the rows always evaluated are those of all its rows."""
    split = 0
    for seed in range(6):
        rng = np.random.default_rng([seed, 7])
        n, k = int(rng.integers(20, 200)), int(rng.integers(2, 6))
        data = {"x": rng.normal(size=n) * (rng.random(n) < 0.6), "g": rng.integers(0, k, n), "y": rng.random(n) < 0.3}
        model = Hierarchical("y ~ x + (1 | g)", data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mode = find_group_mode(model)
        for threshold in (None, 0.0, 1e-3, 0.1, np.inf):
            kernel, _ = grouped_setup.expand(mode, np.random.default_rng(1), threshold)
            drawn, always = kernel.target.drawn, kernel.target.always
            assert np.count_nonzero(drawn.bound) + always.y.size == model.rows.size
            weights = drawn.weights if drawn.weights.size else 1.0
            sums = np.bincount(model.rows.arrays.codes, drawn.bound * weights, model.rows.groups)
            np.testing.assert_allclose(kernel.target.expansion.groups[TOTAL], sums, rtol=1e-12)
            split += 0 < always.y.size < model.rows.size
    assert split > 5


# --- data has periods ---


def sparse_rows(n: int, period: int, phase: int, events: int, seed: int) -> GLM:
    """No intercept, and x is zero in all rows but those of one phase; offsets keep rows from being merged."""
    rng = np.random.default_rng(seed)
    x = np.where(np.arange(n) % period == phase, 1.0, 0.0)
    y = np.zeros(n)
    y[rng.choice(np.flatnonzero(x), events, replace=False)] = 1.0
    return GLM.from_arrays(x[:, None], y, prior=Normal(0, 10), offset=1e-3 * rng.standard_normal(n))


@pytest.mark.parametrize(
    ("period", "phase", "events"),
    [
        (2, 1, 4),
        pytest.param(4, 3, 2, marks=pytest.mark.long),
        (3, 2, 9),
        pytest.param(8, 6, 4, marks=pytest.mark.long),
    ],
)
def test_a_period_in_the_data_hides_no_row(period, phase, events):
    """A million rows, of which an estimate from every second one would see none that matter."""
    n, chains = 1_000_000, 40
    model = sparse_rows(n, period, phase, events, 3)
    assert model.rows.size == n
    kernel = expand(model, harness.mode_of(model), np.random.default_rng(1)).kernel
    assert kernel.urn.rows == np.count_nonzero(model.rows.arrays.x) - kernel.target.always.y.size
    offset, moved = model.rows.arrays.offset, model.rows.arrays.x[0] != 0

    def log_density(t):
        # Of so rare events: the sum of log(1 + e^(t + offset)) is that of e^(t + offset), and of minus half its square.
        first, second = np.exp(offset[moved]).sum(), np.exp(2 * offset[moved]).sum()
        return events * t - np.exp(t) * first + np.exp(2 * t) * second / 2 - t**2 / 200

    truth = harness.Line.of(log_density, np.linspace(-25.0, -5.0, 40_001))
    draws = harness.settled(kernel, 600, chains, seed=2)[..., 0]
    assert truth.largest_z(draws) < harness.z_limit(chains, truth.checks)


def test_scattered_rows_follow_no_period():
    rng = np.random.default_rng(1)
    for rows, most in [(10, 10), (11, 10), (1000, 10), (1_000_003, 1000)]:
        found = scattered(rows, most, rng)
        assert found.size == min(rows, most)
        assert (np.diff(found) >= 0).all()
        assert found.min() >= 0
        assert found.max() < rows
    parity = np.concatenate([scattered(1000, 500, rng) for _ in range(100)]) % 2
    assert abs(parity.mean() - 0.5) < 5.1 * 0.5 / parity.size**0.5  # a false alarm in 4e-7 of all seeds


def test_families_without_a_global_bound_lose_no_row_either():
    rng = np.random.default_rng(8)
    x = np.column_stack([np.ones(60), rng.normal(size=60) * (rng.random(60) < 0.5)])
    model = GLM.from_arrays(x, rng.poisson(1.0, 60), Poisson(), Normal(0, 2), offset=rng.normal(size=60))
    mode = harness.mode_of(model)
    for threshold in (None, 0.0, 1e-6, 1e-3, 0.1, np.inf):
        kernel = expand(model, mode, np.random.default_rng(3), None, threshold).kernel
        assert harness.left_out(kernel, np.random.default_rng(5)) < 1e-8
