"""Set-up of the thinned kernel for group effects: lengths, balls, rows that are always evaluated, and proposals.

All choices rest on counts, never on a clock. None of them matters for what is sampled, only for how fast.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, fdtrc, ndtr

from tallbayes.groups.arrow import Arrow
from tallbayes.groups.looking import LookAtCoefficients
from tallbayes.groups.mode import GroupMode
from tallbayes.groups.moves import LOGISTIC, Expansion
from tallbayes.groups.pools import GroupUrn
from tallbayes.groups.remainders import (
    BoundTotals,
    GroupBounds,
    GroupExpansion,
    GroupFacts,
    KeptExpansion,
    LookAtGroups,
)
from tallbayes.groups.split import Always, Drawn, Splits, with_tables
from tallbayes.groups.thinned import Elsewhere, GroupKernel
from tallbayes.groups.thinned_loop import (
    COEFFICIENTS,
    EFFECTS,
    FLAT,
    SCALE,
    STRETCHES,
    TAU,
    Aim,
    GroupTarget,
)
from tallbayes.models.flat import pivots_of
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.remainders import CHECKED, require_bounds
from tallbayes.rows.subsample import scattered
from tallbayes.sampling import shape as shapes
from tallbayes.sampling.shape import Shape
from tallbayes.sampling.tails import tail_powers
from tallbayes.sampling.thinned_loop import Moves, distance_bound
from tallbayes.sampling.thinned_setup import (
    SHAPED_BY,
    all_rows,
    event_cost,
    pass_cost,
    prior_of,
    prior_profile,
    profile,
    shape_of,
)

Array = NDArray[np.float64]

UPPER = 0.95  # quantile of tau for which lengths are measured: with a larger tau effects would leave their balls
MOVES = Moves(step=1.0, heavy=0.02, walk=0.1, df=5, scale=2.0)
FROM_PRIOR = 0.4  # share of proposals for the effects of the smallest groups that come from their prior
WALK = 2.4  # step of the walk in log tau, in standard deviations of the expansion's posterior
BEYOND = np.array([3.0, 5.0, 9.0, 20.0])  # how much a ball's radius may exceed a typical length
OUTSIDE = np.array([2e-3, 1e-6, 0.0, 0.0])[:, None]  # ... and how often a Gaussian then leaves it
PAIRS = 64  # of points, for what is expected of a move
MOVES_A_SWEEP = 3
EVALUATED = 80.0  # what a remainder costs where all rows of a group are evaluated, beside the columns


class Outlook(NamedTuple):
    """What is expected of a sweep."""

    always: float  # rows evaluated
    events: float  # rows drawn
    outside: float  # rows evaluated where groups leave their balls

    @property
    def rows(self) -> float:
        """Rows touched."""
        return self.always + self.events + self.outside


class _Leaves(NamedTuple):
    """How often moves leave a ball."""

    p: int
    wide: Array  # (k,) v
    narrow: Array  # (k,) sd over tau
    from_prior: Array  # (k,)

    def typical(self) -> Array:
        """Lengths of u, by group."""
        return np.sqrt(self.p / self.wide**2 + 1)

    def share(self, radii: Array) -> Array:
        """Of sweeps in which some move leaves a ball of these radii (several, k)."""
        own = np.sqrt(np.maximum(radii**2 - self.p / self.wide**2, 1.0))  # what is left for the effect
        coefficients = MOVES.heavy * fdtrc(self.p, MOVES.df, (radii * self.wide) ** 2 / self.p)
        effect = 2 * expit(-own / LOGISTIC) + self.from_prior * 2 * ndtr(-own * self.narrow)
        return np.asarray(OUTSIDE + coefficients + effect)


def expand(
    mode: GroupMode, rng: np.random.Generator, threshold: float | None = None, at_hand: bool | None = None
) -> tuple[GroupKernel, Outlook]:
    """The kernel for the expansion at the mode, and what is expected of it.

    Rows that would be drawn more than `threshold` times a move are always evaluated: by default those for which that
    is cheaper. Others are drawn where they are wanted if rows are `at_hand`, as those in memory are, and else ahead.
    """
    model, p = mode.model, mode.at.beta.size
    upper = np.exp(np.interp(UPPER, np.cumsum(mode.weights), mode.scales))
    arrow, rows = mode.gaussian(upper), model.rows
    from_prior = FROM_PRIOR * np.exp(-np.minimum(mode.at.effect_curvature * mode.tau**2, 30.0))
    if threshold is None:
        threshold = pass_cost(1.0, p) / event_cost(p)
    at_hand = rows.resident if at_hand is None else at_hand
    kind = KeptExpansion if at_hand else GroupExpansion
    expansion = kind(model.family.tag, mode.theta, arrow.shares, arrow.sd, arrow.factor)
    facts = rows.reduce(LookAtGroups(expansion))
    # The weight v with which sqrt(v^2 a^2 + sd^2) |(z / v, t)| is least for typical lengths of z and t.
    wide = np.sqrt(arrow.sd * p**0.5 / np.maximum(facts.typical, 1e-3 * arrow.sd))
    spread = _spread(wide, p, rng)
    leaves = _Leaves(p, wide, arrow.sd / mode.tau, from_prior)
    radii = leaves.typical() + BEYOND[:, None]
    totals = rows.reduce(BoundTotals(expansion, wide, radii))
    radius, outside = _balls(facts, leaves, radii, totals[:-1] * spread)
    bounds = GroupBounds(expansion, wide, radius, threshold / spread)
    look = (model.first.look or all_rows(rows)).arrays
    require_bounds(bounds.excess(look.take(scattered(look.size, CHECKED, rng)), rng))
    share = SHAPED_BY / max(float(totals[-1].sum()), np.finfo(float).tiny)
    some = LookAtCoefficients(expansion, share, int(rng.integers(2**63)))
    split, seen = rows.reduce_all((Splits(bounds), None), (some, None))
    limit = facts.sizes * (EVALUATED + 2 * p) / event_cost(p)
    groups = [from_prior, arrow.sd, 1 / wide, radius, limit, split.totals]
    if at_hand:
        drawn, elsewhere = rows.keep(with_tables, bounds, split), None
    else:
        drawn, starts = Drawn.room(p, 0 * facts.sizes), np.concatenate([[0], np.cumsum(facts.sizes)])
        moves = MOVES_A_SWEEP + STRETCHES * mode.flat.shape[1]
        elsewhere = Elsewhere(GroupUrn(rows, bounds, starts, split, moves * split.totals * spread), bounds, starts)
    always = Always.of(split.always, expansion)
    target = _target(mode, _expansion(mode, arrow, facts.bends, groups), drawn, always)
    target = target._replace(shape=_shape(mode, expansion, seen.weighted, target))
    center = mode.weights @ mode.scales
    step = WALK * np.sqrt(mode.weights @ (mode.scales - center) ** 2)
    outlook = Outlook(MOVES_A_SWEEP * always.y.size, MOVES_A_SWEEP * float(split.totals @ spread), outside)
    aim = Aim(MOVES, np.zeros(p), np.eye(p), np.eye(p), float(step), np.zeros(p))
    return GroupKernel(model, mode, target, aim, elsewhere), outlook


def _spread(wide: Array, p: int, rng: np.random.Generator) -> Array:
    """The mean of B over moves of the coefficients and moves of an effect, by group."""
    z, new_z = rng.standard_normal((2, PAIRS, p))
    t, new_t = rng.standard_normal((2, PAIRS, 1))
    own, new, jump = (np.linalg.norm(part, axis=1)[:, None] / wide for part in (z, new_z, new_z - z))
    coefficients = distance_bound.py_func(np.hypot(own, t), np.hypot(new, t), jump)
    effect = distance_bound.py_func(np.hypot(own, t), np.hypot(own, new_t), np.abs(new_t - t) + 0 * own)
    return np.asarray((coefficients + effect).mean(0) / 2)


def _balls(facts: GroupFacts, leaves: _Leaves, radii: Array, events: Array) -> tuple[Array, float]:
    """The radius for which a group should cost least, and rows evaluated outside; `events` of a move for each."""
    outside = leaves.share(radii) * 2 * facts.sizes
    best = (MOVES_A_SWEEP * events * event_cost(leaves.p) + outside * (EVALUATED + leaves.p)).argmin(0)
    chosen = best, np.arange(best.size)
    return radii[chosen], float(outside[chosen].sum())


def _shape(mode: GroupMode, expansion: GroupExpansion, some: Arrays, target: GroupTarget) -> Shape:
    """The posterior's shape along each axis of the coefficients, seen on some rows."""
    moves = np.ascontiguousarray((some.x.T - expansion.shares[some.codes]) @ expansion.factor)
    eta, _ = expansion.of(some)
    seen = profile(expansion.family.terms, some.y, eta, some.own, moves)
    axes = np.ascontiguousarray(expansion.factor.T)
    powers = tail_powers(mode.model.prior, expansion.factor)
    return shape_of(seen + prior_profile(target.prior, axes), target.center, powers)


def _expansion(mode: GroupMode, arrow: Arrow, bends: Array, groups: list[Array]) -> Expansion:
    """The expansion; `groups` are the rows of its array that come last."""
    at, shares, prior = mode.at, arrow.shares, mode.model.prior
    own_slope, own_precision = at.slope + prior.gradient(at.beta), at.curvature + prior.precision(at.beta)
    crossed, curved = at.mixed.T @ shares, shares * at.effect_curvature[:, None]
    precision = own_precision - crossed - crossed.T + curved.T @ shares
    return Expansion(
        np.array([at.beta, own_slope, own_slope - shares.T @ at.effect_slope]),
        np.array([own_precision, precision, shares.T @ shares, arrow.precision]),
        np.array([shares, at.mixed, curved - at.mixed, bends]),
        np.array([at.effects, at.effect_slope, at.effect_curvature, *groups]),
    )


def _target(mode: GroupMode, expansion: Expansion, drawn: Drawn, always: Always) -> GroupTarget:
    flat = FLAT + np.repeat(np.arange(mode.flat.shape[1]), STRETCHES)
    return GroupTarget(
        expansion,
        drawn,
        always,
        prior_of(mode.model.prior, mode.at.beta),
        mode.model.group_prior.code,
        np.ascontiguousarray(mode.flat.T),
        np.array(pivots_of(mode.flat), dtype=np.intp),
        np.zeros(mode.at.beta.size),
        shapes.fit_shape(np.tile(-0.5 * shapes.KNOTS**2, (mode.at.beta.size, 1))),
        np.array([TAU, SCALE, COEFFICIENTS, *flat, EFFECTS], dtype=np.intp),
    )
