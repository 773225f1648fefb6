"""The harness for models with group effects: parameter vectors are (beta, theta, log tau).

Like `harness.py`: exact draws from small posteriors, chains that start there and must stay, known posteriors by
quadrature. Besides, the compiled loop of `GroupKernel` can be run by Python, so that a part of it can be broken, and so
that the ratio of every decision can be read off.
"""

from __future__ import annotations

import inspect
import math
import types
import warnings
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest
from entries import interpret
from numba import njit
from on_disk import model_on_disk
from scipy import interpolate, optimize, stats

from tallbayes.families import Bernoulli, Poisson
from tallbayes.families.compiled import OPTIONS
from tallbayes.groups import moves
from tallbayes.groups import thinned as grouped
from tallbayes.groups import thinned_loop as grouped_loop
from tallbayes.groups.mode import GroupMode, find_group_mode
from tallbayes.groups.model import Hierarchical
from tallbayes.groups.scale import HalfCauchy, HalfNormal, InverseSquare, new_log_scale
from tallbayes.groups.thinned import GroupKernel
from tallbayes.groups.thinned_loop import LIMIT, RADIUS
from tallbayes.groups.thinned_setup import expand
from tallbayes.models.cautions import SeparationWarning
from tallbayes.models.priors import Normal, StudentT
from tallbayes.sampling import thinned_loop
from tallbayes.sampling.kernel import Streams

# --- test problems ---

# Six rows without an event, one row, seven rows of both kinds, and three ones.
SIZES = [6, 1, 7, 3]
X = [-1.0, -0.5, 0.3, 0.7, 1.3, -1.2, 0.8, 1.1, 1.5, -0.9, 0.4, -0.7, 0.2, -0.4, 0.9, -0.1, 0.5]
Y = [0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 1, 1]
COUNTS = [0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 1, 0, 0, 1, 1, 0, 1]
WEIGHTS = [1.0, 0.5, 1, 1.5, 1, 1, 2, 1, 1, 0.5, 1, 2, 1, 1, 1, 1.5, 0.5]
OFFSET = [0.0, 0.2, 0, 0, -0.3, 0, 0.1, 0, 0, 0, 0.2, -0.2, 0, 0, 0, 0.3, 0]
PRIOR, GROUP_PRIOR = Normal(0.0, 1.5), HalfNormal(1.0)


@cache
def model_named(name: str) -> Hierarchical:
    """Small skewed problems with proper priors, so that exact draws come from the prior by rejection."""
    design, groups = np.column_stack([np.ones(len(X)), X]), np.repeat([0, 1, 2, 3], SIZES)
    options: dict[str, Any] = {"prior": PRIOR, "group_prior": GROUP_PRIOR}
    if name == "intercept":
        # Three groups: four zeros, five of nine, and two ones; equal rows are merged into weighted ones.
        y, groups = [0] * 4 + [1, 0, 1, 1, 0, 0, 1, 0, 1] + [1] * 2, np.repeat([0, 1, 2], [4, 9, 2])
        return Hierarchical.from_arrays(np.ones((15, 1)), y, groups, offset=np.zeros(15), **options)
    if name in ("two groups", "half-Cauchy", "inverse square"):
        # No intercept: the only column hardly goes with the effects.
        options["group_prior"] = {"half-Cauchy": HalfCauchy(1.0), "inverse square": InverseSquare(0.5)}.get(
            name, GROUP_PRIOR
        )
        return Hierarchical.from_arrays(design[:14, 1:], Y[:14], np.minimum(groups[:14], 1), **options)
    if name == "student-t prior":
        options["prior"] = {"x0": PRIOR, "x1": StudentT(2.0, 0.0, 0.3)}
    if name in ("weighted", "probit", "poisson"):
        options |= {"weights": WEIGHTS, "offset": OFFSET}
    if name == "probit":
        options["weights"] = 0.6 * np.array(WEIGHTS)
    if name == "poisson":
        options["offset"] = np.array(OFFSET) - 1.0
        return Hierarchical.from_arrays(design, COUNTS, groups, Poisson(), **options)
    return Hierarchical.from_arrays(design, Y, groups, Bernoulli("probit" if name == "probit" else "logit"), **options)


@cache
def on_disk_named(name: str) -> Hierarchical:
    """The same problems with their rows on a disk."""
    return model_on_disk(model_named(name))


@cache
def mode_of(model: Hierarchical) -> GroupMode:
    """The mode, without the warning that a test problem is separated on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeparationWarning)
        return find_group_mode(model)


def make(
    name: str = "logit",
    threshold: float | None = np.inf,
    radius: float | None = None,
    limit: float = np.inf,
    disk: bool = False,
    **aim: Any,
) -> GroupKernel:
    """By default every row is thinned, however much cheaper it would be to evaluate them all on a small problem.

    `radius` is that of the ball of every group: with a small one all rows of a group decide on most of its moves.
    """
    model = (on_disk_named if disk else model_named)(name)
    kernel, _ = expand(mode_of(model), np.random.default_rng(4), threshold)
    assert (kernel.elsewhere is not None) == disk
    kernel = with_groups(kernel, {LIMIT: limit} if radius is None else {LIMIT: limit, RADIUS: radius})
    return replace(kernel, aim=kernel.aim._replace(**aim))


def with_groups(kernel: GroupKernel, changed: dict[int, Any]) -> GroupKernel:
    """With other numbers in some rows of what the expansion knows of groups."""
    groups = kernel.target.expansion.groups.copy()
    for row, values in changed.items():
        groups[row] = values
    return replace(kernel, target=kernel.target._replace(expansion=kernel.target.expansion._replace(groups=groups)))


# --- the posterior, with NumPy alone ---


def parts(model: Hierarchical, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """beta, the effects and log tau."""
    p = len(model.coefficients)
    return theta[..., :p], theta[..., p:-1], theta[..., -1]


def group_log_likelihood(model: Hierarchical, group: int, beta: np.ndarray, effect: np.ndarray) -> np.ndarray:
    """Of the rows of one group."""
    rows = model.rows
    own = slice(int(rows.arrays.starts[group]), int(rows.arrays.starts[group + 1]))
    eta = (
        beta @ rows.arrays.x[:, own] + effect[..., None] + (rows.arrays.offset[own] if rows.arrays.offset.size else 0.0)
    )
    values = model.family.tag.log_likelihood(rows.arrays.y[own], eta)
    return values @ rows.arrays.own[own]


def log_likelihood(model: Hierarchical, theta: np.ndarray) -> np.ndarray:
    beta, effects, _ = parts(model, theta)
    return sum(group_log_likelihood(model, g, beta, effects[..., g]) for g in range(model.rows.groups))


def log_prior(model: Hierarchical, theta: np.ndarray) -> np.ndarray:
    """Of (beta, theta, log tau)."""
    beta, effects, log_tau = parts(model, theta)
    prior, tau = model.prior, np.exp(log_tau)
    given = stats.t.logpdf(beta, prior.df, prior.mean, prior.scale).sum(-1)
    given += stats.norm.logpdf(effects, 0.0, tau[..., None]).sum(-1)
    return given + model.group_prior.log_density(tau) + log_tau


def log_posterior(model: Hierarchical, theta: np.ndarray) -> np.ndarray:
    """Up to no constant at all."""
    return log_likelihood(model, theta) + log_prior(model, theta)


# --- start in the stationary distribution, stay there ---


DRAWN = 3_000


def exact_draws(model: Hierarchical) -> np.ndarray:
    """Those of the same model of rows in memory, if there is one."""
    return _exact_draws(getattr(model, "twin", model))


@cache
def _exact_draws(model: Hierarchical) -> np.ndarray:
    """DRAWN independent draws from the posterior, by rejection from the prior: kept with probability L / max L.

    Groups are looked at one after the other, and a point is dropped as soon as the others cannot save it.
    """
    rng, (p, k) = np.random.default_rng(11), (len(model.coefficients), model.rows.groups)
    tops = np.array([_top(p + 1, lambda t, g=g: group_log_likelihood(model, g, t[:p], t[p])) for g in range(k)])
    top = _top(p + k, lambda t: log_likelihood(model, np.append(t, 0.0)))
    order = np.argsort(np.diff(model.rows.arrays.starts))
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < DRAWN:
        tau = model.group_prior.sample(rng, 200_000)
        level, value, saved = top - rng.standard_exponential(tau.size), np.zeros(tau.size), tops.sum()
        parts = [tau, *model.prior.sample(rng, tau.size).T]
        for g in order:
            effect = parts[0] * rng.standard_normal(parts[0].size)
            value += group_log_likelihood(model, g, np.stack(parts[1 : p + 1], axis=1), effect)
            saved -= tops[g]
            alive = value + saved > level
            parts = [part[alive] for part in (*parts, effect)]
            level, value = level[alive], value[alive]
        assert value.max(initial=top) <= top, "the likelihood exceeds what should be its maximum"
        effects = np.stack(parts[p + 1 :], axis=1)[:, np.argsort(order)]
        kept.append(np.column_stack([*parts[1 : p + 1], effects, np.log(parts[0])]))
    return np.concatenate(kept)[:DRAWN]


def _top(size: int, function: Any) -> float:
    return 1e-3 - optimize.minimize(lambda t: -function(t), np.zeros(size)).fun


def departure(kernel: Any, steps: int, chains: int, seed: int) -> float:
    """Smallest p-value that chains started in the posterior are still there.

    Looked at are all parameters, the log-likelihood and the log prior, by two-sample Kolmogorov-Smirnov tests against
    fresh draws; Bonferroni-corrected, so that a correct kernel gives less than FALSE_ALARM with at most that
    probability.
    """
    model = kernel.model
    start, fresh = np.split(exact_draws(model), [chains])
    streams = Streams.spawn(seed, chains)
    final = kernel.advance(kernel.start(streams, theta=start), steps, streams)[1].theta[-1]
    views = [np.column_stack([t, log_likelihood(model, t), log_prior(model, t)]) for t in (final, fresh)]
    p_values = [stats.ks_2samp(a, b, method="asymp").pvalue for a, b in zip(*(view.T for view in views), strict=True)]
    return float(min(1.0, len(p_values) * min(p_values)))


# --- the loop run by Python ---


@njit(**OPTIONS)
def propose(center, shape, moves, v, rng, new_v):
    return thinned_loop.propose(center, shape, moves, v, rng, new_v)


class Interpreted:
    """The compiled loop run by Python, so that a part of it can be broken: by another function, or without a line."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **broken: Any) -> None:
        interpret(monkeypatch, moves, grouped_loop, propose=propose, draw_log_scale=new_log_scale)
        for name, part in broken.items():
            for module in (moves, grouped_loop):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, part)
        loop = grouped_loop.advance
        monkeypatch.setattr(grouped, "advance", getattr(loop, "py_func", loop))


def without(name: str, line: str, instead: str = "pass") -> Any:
    """A function of the loop with one line of it left out, or with another."""
    right = getattr(grouped_loop, name).py_func
    source = inspect.getsource(right)
    assert source.count(line) == 1, f"{name} no longer has the line {line!r}; break it in another way"
    found: dict[str, Any] = {}
    exec(source[source.index("def ") :].replace(line, instead), vars(inspect.getmodule(right)), found)
    return found[name]


class Asked(float):
    """A uniform number of the second generator."""


@dataclass
class Ratios:
    """Stands for the logarithm of a uniform number: accepts everything, and keeps the ratios it is compared with."""

    seen: list[float]

    def __lt__(self, log_ratio: float) -> bool:
        self.seen.append(float(log_ratio))
        return True


class Second:
    """A second generator for `read_ratios`: whatever is decided is accepted, and no event is ever drawn."""

    def random(self) -> Asked:
        return Asked(0.5)

    def standard_exponential(self) -> float:
        return math.inf


def read_ratios(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Run the loop by Python, and keep the log ratios of all decisions that take their numbers from `Second`."""
    Interpreted(monkeypatch)
    ratios = Ratios([])
    shim = types.SimpleNamespace(**vars(math))
    shim.log = lambda x: ratios if isinstance(x, Asked) else math.log(x)
    monkeypatch.setattr(grouped_loop, "math", shim)
    return ratios.seen


# --- known posteriors by quadrature ---


@dataclass(frozen=True, eq=False)
class Margin:
    """A parameter's density on lines: at `scale` times s for each line, with the density along s."""

    scales: np.ndarray  # (lines,)
    s: np.ndarray  # (points,)
    density: np.ndarray  # (lines, points), with the sum one

    @classmethod
    def of(cls, scales: np.ndarray, s: np.ndarray, density: np.ndarray) -> Margin:
        return cls(scales, s, density / density.sum())

    def mean(self, power: int) -> float:
        return float((self.density * (self.scales[:, None] * self.s) ** power).sum())

    @cached_property
    def _parts(self) -> list[interpolate.PPoly]:
        """The probability along each line. Sums over whole lines converge fast; those over a part of one need this."""
        whole = interpolate.CubicSpline(self.s, self.density / (self.s[1] - self.s[0]), axis=1).antiderivative()
        return [interpolate.PPoly(np.ascontiguousarray(whole.c[:, :, i]), whole.x) for i in range(self.scales.size)]

    def below(self, value: float) -> float:
        """Probability below a value."""
        ends = np.clip(value / self.scales, self.s[0], self.s[-1])
        return float(sum(part(end) for part, end in zip(self._parts, ends, strict=True)))

    @cache  # noqa: B019
    def quantile(self, level: float) -> float:
        reach = self.scales.max() * np.abs(self.s).max()
        return optimize.brentq(lambda value: self.below(value) - level, -reach, reach, xtol=1e-6)


@dataclass(frozen=True)
class Quadrature:
    """The posterior of the problem "intercept", from a grid of beta, log tau and one effect after the other.

    Given beta and tau the effects are independent, and an effect is tau s with s standard normal: so a grid of s serves
    every tau.
    """

    margins: list[Margin]  # of each parameter

    @classmethod
    @cache
    def of(cls, model: Hierarchical, group_scale: float = 1.0) -> Quadrature:
        prior, groups = model.prior, model.rows.groups
        beta, s = np.linspace(-7, 7, 113), np.linspace(-7, 7, 113)
        log_tau = np.linspace(-14, np.log(7 * group_scale), 129)
        tau = np.exp(log_tau)
        weights = stats.norm.logpdf(beta, prior.mean[0], prior.scale[0])[:, None]
        weights = np.exp(weights + stats.halfnorm.logpdf(tau, scale=group_scale) + log_tau)
        bell = stats.norm.pdf(s) / stats.norm.pdf(s).sum()
        eta = beta[:, None, None] + tau[:, None] * s
        inside = [np.exp(group_log_likelihood(model, g, np.zeros((1, 1, 1, 1)), eta)) * bell for g in range(groups)]
        given = [part.sum(2) for part in inside]
        joint = weights * np.prod(given, axis=0)
        assert max(edge.max() for edge in (joint[0], joint[-1], joint[:, 0], joint[:, -1])) < 1e-5 * joint.max()
        one = np.ones(1)
        effects = [
            Margin.of(tau, s, np.einsum("bt,bts->ts", joint / alone, part))
            for part, alone in zip(inside, given, strict=True)
        ]
        return cls([Margin.of(one, beta, joint.sum(1)[None]), *effects, Margin.of(one, log_tau, joint.sum(0)[None])])


LEVELS = (0.005, 0.05, 0.5, 0.95, 0.995)


def largest_z(kernel: Any, draws: int, chains: int, seed: int, truth: Quadrature) -> tuple[float, int]:
    """Largest |z| of means, squares and tail probabilities against quadrature, and how many were looked at.

    Chains are independent, so the standard error comes from the spread of the chains' own averages.
    """
    streams = Streams.spawn(seed, chains)
    start = exact_draws(kernel.model)[:chains]
    theta = kernel.advance(kernel.start(streams, theta=start), draws, streams)[1].theta
    scores = []
    for column in range(theta.shape[2]):
        drawn = theta[..., column]
        margin = truth.margins[column]
        pairs: list[tuple[np.ndarray, float]] = [(drawn**power, margin.mean(power)) for power in (1, 2)]
        pairs += [(drawn <= margin.quantile(level), level) for level in LEVELS]
        for values, expected in pairs:
            averages = values.mean(0)
            scores.append(abs(averages.mean() - expected) / (averages.std(ddof=1) / np.sqrt(chains)))
    return float(max(scores)), len(scores)
