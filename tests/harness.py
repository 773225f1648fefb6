"""How a sampler earns trust: every kernel goes through these checks, and broken kernels must fail them.

Exact checks read the acceptance ratios off the real kernel: a scripted proposal sends each chain to a chosen point,
and generators that always say yes make it compute every stage. From the ratios come pointwise balance and, on a
small finite space, the whole transition matrix. Statistical checks start chains in the stationary distribution and
test that they stay there, or compare long runs with quadrature. Each has a stated false-alarm rate, and seeds are
fixed.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from entries import applied, remainders
from scipy import optimize, stats

from tallbayes.models.cautions import SeparationWarning
from tallbayes.models.glm import GLM
from tallbayes.models.mode import Mode, find_mode
from tallbayes.models.priors import Normal
from tallbayes.rows import arrays as arrays_module
from tallbayes.rows import passes
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.track import Track
from tallbayes.sampling.kernel import Draws, Streams
from tallbayes.sampling.proposals import Move
from tallbayes.sampling.two_stage import TwoStageKernel

FALSE_ALARM = 1e-6  # of each statistical check


# --- test problems ---


def skewed_model(prior_sd: float = 2.0) -> GLM:
    """Fourteen rows and three ones: a posterior far from Gaussian."""
    y = [0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0]
    x = [-1.0, -0.5, 0.0, 2.0, 0.3, -1.2, 0.8, -0.1, 1.5, 1.1, 0.4, -0.7, 0.2, 0.9]
    return GLM("y ~ x", {"y": y, "x": x}, prior=Normal(0.0, prior_sd))


def zero_event_model() -> GLM:
    """A level with eight rows and no event: its coefficient has a long left tail that the prior alone ends."""
    y = [0, 1, 0, 1, 0, 1, 0, 0, 1, 0] + [0] * 8
    rare = [0.0] * 10 + [1.0] * 8
    return GLM("y ~ rare", {"y": y, "rare": rare}, prior=Normal(0.0, 5.0))


def mode_of(model: GLM) -> Mode:
    """The mode, without the warning that a test problem is separated on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeparationWarning)
        return find_mode(model)


# --- kind 1: balance, read off the real kernel ---


class Yes:
    """A generator whose uniform numbers accept whatever can be accepted."""

    def random(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Scripted:
    """Sends every chain to a chosen point; with a column, only that coefficient differs from where the chain is."""

    targets: np.ndarray
    log_q: np.ndarray
    column: int | None = None
    updates = 1

    @property
    def by_column(self) -> bool:
        return self.column is not None

    def propose(self, theta: np.ndarray, update: int, rng: list[Any]) -> Move:
        return Move(self.targets, self.log_q, self.column)

    def pick(self, theta: np.ndarray, rng: list[Any]) -> Move:
        return Move(self.targets, self.log_q)


def log_acceptance(
    kernel: Any, here: np.ndarray, there: np.ndarray, log_q: np.ndarray, column: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Log probabilities with which stages 1 and 2 accept moves from `here` to `there` (one pair a row)."""
    scripted = replace(kernel, proposal=Scripted(there, log_q, column))
    yes = Streams([Yes()] * len(here), [Yes()] * len(here))  # type: ignore[list-item]
    state = scripted.start(yes, theta=here)
    draws = scripted.advance(state, 1, yes)[1]
    assert draws.accepted.all(), "a move of positive probability was not accepted by generators that accept all"
    second = draws.log_second[0, 0] if isinstance(kernel, TwoStageKernel) else np.zeros(len(here))
    return np.minimum(draws.log_first[0, 0], 0.0), np.minimum(second, 0.0)


def log_likelihood(model: GLM, theta: np.ndarray, part: slice = slice(None)) -> np.ndarray:
    """Written with NumPy alone, apart from the passes that kernels use; of a part of the rows, if one is given."""
    rows = model.rows.arrays
    eta = theta @ rows.x[:, part] + (rows.offset[part] if rows.offset.size else 0.0)
    return model.family.tag.log_likelihood(rows.y[part], eta) @ rows.own[part]


def log_posterior(model: GLM, theta: np.ndarray) -> np.ndarray:
    """Up to no constant at all."""
    return log_likelihood(model, theta) + log_prior(model, theta)


def log_prior(model: GLM, theta: np.ndarray) -> np.ndarray:
    prior = model.prior
    return stats.t.logpdf(theta, prior.df, prior.mean, prior.scale).sum(-1)


def imbalance(kernel: Any, rng: np.random.Generator, pairs: int = 200, column: int | None = None) -> float:
    """Largest |log p(x) q(x,y) a(x,y) - log p(y) q(y,x) a(y,x)| over random pairs and random q."""
    spread = kernel.initial.factor * 3
    here = kernel.initial.center + rng.standard_normal((pairs, len(spread))) @ spread.T
    there = kernel.initial.center + rng.standard_normal((pairs, len(spread))) @ spread.T
    if column is not None:
        there = np.where(np.arange(len(spread)) == column, there, here)
    log_q = rng.normal(0.0, 2.0, (2, pairs))  # densities of the two directions
    flows = []
    for a, b, forth, back in ((here, there, *log_q), (there, here, *log_q[::-1])):
        first, second = log_acceptance(kernel, a, b, back - forth, column)
        flows.append(log_posterior(kernel.model, a) + forth + first + second)
    return float(np.abs(flows[0] - flows[1]).max())


@dataclass(frozen=True)
class FiniteSpace:
    """A few points with the posterior restricted to them, and a proposal matrix."""

    points: np.ndarray  # (m, p)
    target: np.ndarray  # (m,) posterior probabilities
    proposal: np.ndarray  # (m, m) rows sum to one

    @classmethod
    def of(cls, kernel: Any, rng: np.random.Generator, points: int = 6) -> FiniteSpace:
        spread = kernel.initial.factor * 1.5
        chosen = kernel.initial.center + rng.standard_normal((points, len(spread))) @ spread.T
        logs = log_posterior(kernel.model, chosen)
        target = np.exp(logs - logs.max())
        return cls(chosen, target / target.sum(), rng.dirichlet(np.ones(points), points))

    def acceptance(self, kernel: Any) -> tuple[np.ndarray, np.ndarray]:
        """Matrices of stage 1 and stage 2 acceptance probabilities, from the real kernel."""
        m = len(self.points)
        i, j = np.divmod(np.arange(m * m), m)
        log_q = np.log(self.proposal)
        found = log_acceptance(kernel, self.points[i], self.points[j], (log_q.T - log_q)[i, j])
        first, second = (np.exp(part).reshape(m, m) for part in found)
        return first, second

    def transition(self, kernel: Any, subchain: int | None = None) -> np.ndarray:
        """The kernel's transition matrix; with a subchain, of so many stage-1 steps before each stage 2."""
        first, second = self.acceptance(kernel)
        screened = with_rejections(self.proposal * first)
        if subchain is None:
            return with_rejections(self.proposal * first * second)
        return with_rejections(np.linalg.matrix_power(screened, subchain) * second)


def with_rejections(moves: np.ndarray) -> np.ndarray:
    """A transition matrix from the probabilities of leaving: what is left stays."""
    matrix = moves - np.diag(np.diag(moves))
    return matrix + np.diag(1 - matrix.sum(1))


def drift(target: np.ndarray, matrix: np.ndarray) -> float:
    """Largest |pi P - pi|."""
    return float(np.abs(target @ matrix - target).max())


def bias(target: np.ndarray, matrix: np.ndarray) -> float:
    """Total variation distance between a matrix's stationary distribution and the target."""
    m = len(target)
    system = np.vstack([matrix.T - np.eye(m), np.ones(m)])
    stationary = np.linalg.lstsq(system, np.append(np.zeros(m), 1.0), rcond=None)[0]
    return float(0.5 * np.abs(stationary - target).sum())


# --- set-up: nothing may be left out ---


def drawing_probabilities(urn: Any, arrays: Arrays) -> np.ndarray:
    """With what probability each row is drawn: in proportion to weight times the urn's own measure.

    Not over the urn's total, which may be wrong; that rows are drawn like this is what `test_urn.py` looks at.
    """
    weighted = arrays.own * urn.measure.of(arrays)
    weighted[~np.isfinite(weighted)] = 0.0  # given apart
    return weighted / weighted.sum()


def left_out(kernel: Any, rng: np.random.Generator, points: int = 5) -> float:
    """What is missing of the log-likelihood inside the ball, at worst: of a thinned kernel, put together again.

    The expansion, the rows always evaluated, and the sum over rows of total x probability x R / bound, which is what
    drawn rows estimate, are held against the log-likelihood written with NumPy alone.
    """
    model, mode, target, tag = kernel.model, kernel.mode, kernel.target, kernel.model.family.tag
    z = rng.standard_normal((points, mode.theta.size))
    z *= rng.uniform(0.2, 1.0, (points, 1)) * target.radius / np.linalg.norm(z, axis=1, keepdims=True)
    delta = z @ mode.factor.T
    found = mode.log_likelihood + delta @ mode.gradient - 0.5 * ((delta @ mode.curvature) * delta).sum(1)
    found += [kernel._always(*pair) for pair in zip(z, delta, strict=True)]
    if kernel.urn is not None:
        rows = model.rows.arrays
        share, bounds = drawing_probabilities(kernel.urn, rows), kernel.urn.measure.of(rows)
        eta = mode.theta @ rows.x + (rows.offset if rows.offset.size else 0.0)
        drawn = np.flatnonzero(share)
        for point in range(points):
            h = delta[point] @ rows.x
            rest = applied(remainders, tag, rows.y[drawn], eta[drawn], h[drawn])
            found[point] += target.total * (share[drawn] * rest / bounds[drawn]).sum()
    truth = log_likelihood(model, mode.theta + delta)
    return float((np.abs(found - truth) / (1 + np.abs(truth))).max())


# --- kind 3: start in the stationary distribution, stay there ---


@cache
def _pool(model: GLM) -> tuple[np.random.Generator, list[slice], list[float], list[np.ndarray]]:
    """A generator, parts of the rows with their bounds, and what has been drawn: the same for all tests of a model."""
    ends = np.unique(np.linspace(0, model.rows.size, 5).astype(int))
    tops = [_top(model, slice(start, None)) for start in ends[:-1]]  # of these rows and all that follow
    return np.random.default_rng([11, 1]), [slice(*pair) for pair in itertools.pairwise(ends)], tops, []


def exact_draws(model: GLM, size: int) -> np.ndarray:
    """Independent draws from the posterior, by rejection from the prior: keep theta with probability L / max L.

    A few rows are looked at after the other, and a point is dropped as soon as the rest cannot save it.
    """
    rng, parts, tops, kept = _pool(model)
    while sum(map(len, kept)) < size:
        theta = model.prior.sample(rng, 100_000)
        level, value = np.log(rng.random(len(theta))) + tops[0], np.zeros(len(theta))
        for part, rest in zip(parts, [*tops[1:], 0.0], strict=True):
            value += log_likelihood(model, theta, part)
            alive = value + rest > level
            theta, level, value = theta[alive], level[alive], value[alive]
        assert value.max(initial=-np.inf) <= tops[0], "the likelihood exceeds what should be its maximum"
        kept.append(theta)
    return np.concatenate(kept)[:size]


def _top(model: GLM, part: slice) -> float:
    """What the log-likelihood of some rows does not exceed."""
    return 1e-3 - optimize.minimize(lambda t: -log_likelihood(model, t, part), np.zeros(model.rows.columns)).fun


def departure(kernel: Any, steps: int, chains: int, seed: int) -> float:
    """Smallest p-value that chains started in the posterior are still there: each coefficient, and the log density.

    A two-sample Kolmogorov-Smirnov test against fresh draws; the result is Bonferroni-corrected, so that a correct
    kernel gives less than FALSE_ALARM with at most that probability.
    """
    start, fresh = np.split(exact_draws(kernel.model, 3 * chains), [chains])
    streams = Streams.spawn(seed, chains)
    state = kernel.start(streams, theta=start)
    final = kernel.advance(state, steps, streams)[1].theta[-1]
    views = [*range(final.shape[1]), None]
    p_values = []
    for view in views:
        a, b = (log_posterior(kernel.model, t) if view is None else t[:, view] for t in (final, fresh))
        p_values.append(stats.ks_2samp(a, b, method="asymp").pvalue)
    return float(min(1.0, len(views) * min(p_values)))


# --- kind 5: known posteriors by quadrature ---


@dataclass(frozen=True)
class Quadrature:
    """A two-coefficient posterior on a fine grid."""

    grid: np.ndarray  # (m, 2)
    probability: np.ndarray  # (m,)

    @classmethod
    @cache
    def of(cls, model: GLM, points: int = 601) -> Quadrature:
        mode = mode_of(model)
        # Where the prior has a say, the tails end only where it ends them.
        ends = np.where(np.isinf(model.prior.df), 8, 24) * model.prior.scale
        reach = np.where(mode.sd > 0.2 * model.prior.scale, ends, 20 * mode.sd)
        sides = [np.linspace(-1, 1, points) * r + c for r, c in zip(reach, mode.center, strict=True)]
        grid = np.stack([side.ravel() for side in np.meshgrid(*sides, indexing="ij")], axis=1)
        logs = np.concatenate([log_posterior(model, part) for part in np.array_split(grid, 50)])
        weights = np.exp(logs - logs.max()).reshape(points, points)
        edges = [weights[0], weights[-1], weights[:, 0], weights[:, -1]]
        assert max(edge.max() for edge in edges) < 1e-8, "the grid is too small"
        return cls(grid, weights.ravel() / weights.sum())

    def expectation(self, values: np.ndarray) -> float:
        return float(values @ self.probability)

    @cached_property
    def _margins(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The values of each column, and the cumulative probability."""
        found = [np.unique(column, return_inverse=True) for column in self.grid.T]
        return [(values, np.cumsum(np.bincount(index, self.probability))) for values, index in found]

    def quantile(self, column: int, level: float) -> float:
        """The end of the grid cell in which the cumulative probability reaches the level."""
        values, cumulative = self._margins[column]
        return float(values[np.searchsorted(cumulative, level)] + 0.5 * (values[1] - values[0]))


@dataclass(frozen=True)
class Line:
    """A posterior of one number on a grid, which need not be even: its tails may be long."""

    grid: np.ndarray
    probability: np.ndarray
    levels: tuple[float, ...] = (0.0005, 0.005, 0.03, 0.25, 0.5, 0.75, 0.97, 0.995, 0.9995)

    @classmethod
    def of(cls, log_density: Callable[[np.ndarray], np.ndarray], grid: np.ndarray) -> Line:
        logs = log_density(grid)
        weights = np.exp(logs - logs.max()) * np.gradient(grid)
        return cls(grid, weights / weights.sum())

    @property
    def checks(self) -> int:
        return len(self.levels)

    def largest_z(self, draws: np.ndarray) -> float:
        """Largest |z| of the probabilities of being below each quantile, for draws (chains, draws).

        Moments are not looked at: a Student-t posterior may have none. Where few chains ever come, the standard error
        is at least that of independent chains that come as often as they should.
        """
        below, chains = np.cumsum(self.probability), len(draws)
        scores = []
        for level in self.levels:
            place = int(np.searchsorted(below, level))
            share = (draws <= self.grid[place] + 0.5 * (self.grid[place + 1] - self.grid[place])).mean(1)
            least = np.sqrt(level * (1 - level) / draws.shape[1])
            error = max(share.std(ddof=1), least) / np.sqrt(chains)
            scores.append(abs(share.mean() - below[place]) / error)
        return float(max(scores))


def settled(kernel: Any, draws: int, chains: int, seed: int) -> np.ndarray:
    """Draws (chains, draws, p) of chains from where the kernel starts them, without the first fifth."""
    streams = Streams.spawn(seed, chains)
    theta = kernel.advance(kernel.start(streams), draws, streams)[1].theta
    return theta[draws // 5 :].swapaxes(0, 1)


def largest_z(kernel: Any, draws: int, chains: int, seed: int, truth: Quadrature) -> float:
    """Largest |z| of means, squares and tail probabilities against quadrature.

    Chains are independent, so the standard error comes from the spread of the chains' own averages.
    """
    streams = Streams.spawn(seed, chains)
    start = exact_draws(kernel.model, chains)
    theta = kernel.advance(kernel.start(streams, theta=start), draws, streams)[1].theta
    scores = []
    for column in range(theta.shape[2]):
        grid, drawn = truth.grid[:, column], theta[..., column]
        pairs = [(drawn, grid), (drawn**2, grid**2)]
        for level in (0.005, 0.05, 0.5, 0.95, 0.995):
            cut = truth.quantile(column, level)
            pairs.append((drawn <= cut, grid <= cut))
        for values, on_grid in pairs:
            averages = values.mean(0)
            error = averages.std(ddof=1) / np.sqrt(chains)
            scores.append(abs(averages.mean() - truth.expectation(on_grid)) / error)
    return float(max(scores))


def z_limit(chains: int, checks: int = 14) -> float:
    """What `largest_z` stays below for a correct kernel, but for FALSE_ALARM."""
    return float(stats.t.isf(FALSE_ALARM / (2 * checks), chains - 1))


# --- kinds 2, 7 and 9: reductions, splitting, honest counts ---


def some_draws(kernel: Any, calls: Sequence[int], seed: int = 3, chains: int = 2) -> Draws:
    """Draws of several calls of `advance`, put together."""
    rng = Streams.spawn(seed, chains)
    state, pieces = kernel.start(rng), []
    for steps in calls:
        state, piece = kernel.advance(state, steps, rng)
        pieces.append(piece)
    return Draws(*(np.concatenate(kind) for kind in zip(*pieces, strict=True)))


def same(a: Draws, b: Draws) -> bool:
    """Whether two kernels, or two ways to call one, made the very same draws and said the same of them."""
    return all(np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in zip(a, b, strict=True))


@dataclass(frozen=True, eq=False)
class CountingArrays(Arrays):
    """Counts row evaluations where they are made, apart from what Rows says of them."""

    tally: list[int] = field(default_factory=list)

    def over_blocks(self, function: Callable[..., Any], *arguments: Any, looks: int = 1) -> None:
        vectors = {
            passes.values: lambda given: len(given[6]),
            passes.moved_values: lambda given: given[5].size,
            passes.predictors: lambda given: len(given[4]),
        }.get(function)

        def counted(*given: Any) -> None:
            begin, end = (min(self.size, block * passes.LENGTH) for block in given[-2:])
            if vectors is not None:
                self.tally.append((end - begin) * vectors(given))
            function(*given)

        super().over_blocks(counted, *arguments, looks=looks)


@contextmanager
def counting(rows: MemoryRows) -> Iterator[list[int]]:
    """Rows that count: the tally has the evaluations of each run of blocks."""
    before = rows.arrays
    given = {part.name: getattr(before, part.name) for part in fields(before)}
    rows.arrays = CountingArrays(**given, tally=[])
    try:
        yield rows.arrays.tally
    finally:
        rows.arrays = before


class Following:
    """A follower and the trail of its chains."""

    def __init__(self, follower: Any, theta: np.ndarray) -> None:
        self.follower, self.trail = follower, follower.start(theta)

    @property
    def value(self) -> np.ndarray:
        return self.trail.value

    def at(self, theta: np.ndarray, column: int | None, chains: np.ndarray) -> np.ndarray:
        return self.follower.at(self.trail, theta, column, chains)

    def accept(self, theta: np.ndarray, column: int | None, chains: np.ndarray, value: np.ndarray) -> None:
        self.follower.accept(self.trail, theta, column, chains, value)

    def refresh(self) -> None:
        self.follower.refresh(self.trail)


def tracked(rows: MemoryRows, family: Any, theta: np.ndarray) -> Following:
    """Chains whose linear predictors stay with the rows."""
    return Following(rows.keep(Track, family), theta)


@dataclass(frozen=True)
class Known:
    """A measure of each row that is known beforehand; some of the blocks have theirs of it."""

    values: np.ndarray
    looks = 0

    def of(self, arrays: Arrays) -> np.ndarray:
        start = arrays.block * arrays_module.LENGTH
        return self.values[start : start + arrays.size]
