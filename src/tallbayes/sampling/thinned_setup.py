"""Set-up of the thinned second stage: the ball, the rows that are always evaluated, the urn, and the proposals.

All choices rest on counts, never on a clock. None of them matters for what is sampled, only for how fast.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc, gammaincc

from tallbayes.models.glm import GLM
from tallbayes.models.mode import Mode
from tallbayes.models.priors import Prior
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.looking import Look
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.protocol import RowsAtHand
from tallbayes.rows.remainders import RemainderBounds, require_bounds
from tallbayes.rows.remainders import expected as expected_bounds
from tallbayes.rows.tasks import LogLikelihoodDerivatives, Moved
from tallbayes.rows.urn import Pool, most_rows
from tallbayes.sampling import shape as shapes
from tallbayes.sampling.shape import Shape
from tallbayes.sampling.tails import tail_powers, warn_of_tails
from tallbayes.sampling.thinned import BEYOND, ThinnedKernel, typical_spread
from tallbayes.sampling.thinned_loop import (
    Always,
    Moves,
    Target,
    always_remainders,
    prior_corrections,
    weighted_remainders,
)

Array = NDArray[np.float64]

WALK_SHARE, WALK_SCALE = 0.05, 2.0  # of proposals that walk along one axis, and how far
DF = 5  # of heavy-tailed proposals
LONG_SHARE = 0.2  # of walks and of heavy-tailed proposals, where tails are long
TAIL = 4.0  # posterior sds from the mode at which tails are looked at
LONG_TAIL = 1.5  # log weight that may be there, above that of most proposals
POINTS, DIRECTIONS = 200, 50  # proposals and directions with which proposals are judged
SEEN, SHAPED_BY = 1_000, 500  # rows drawn to plan by, of which so many show the posterior's shape along the axes
PROFILED = np.linspace(-shapes.REACH, shapes.REACH, 33)  # where it is looked at
PAIRS = 1_000  # of proposals, for what is expected of a step
FLAT_SHARE = 0.2  # of proposals that stretch flat directions
FEW_MOVED, SHARE_MOVED = 2_000, 0.01  # rows that flat directions may move for all of them to be always evaluated
OTHER_SHARE, OTHERS_SHARE = 0.1, 0.6  # of independent proposals for a further mode at least, and for all at most
SHARE_OF_POOL = 16  # that a step may ask for: each pool is a pass
USUAL_CHAINS = 4  # for which rows are drawn before one knows how many they are
STEPS_AHEAD, SHARE_AHEAD = 2_000, 1 / 100  # a chain gets rows for so many steps, or such a share: a pass is dear

# What work costs, in units of one row and column of a pass (measured: about 0.14 ns).
ROW = 14.0  # evaluating a row, besides its columns
EVENT, EVENT_COLUMN = 500.0, 40.0  # an event, and a column of its row, which lies scattered in memory


def pass_cost(rows: float, columns: int) -> float:
    """What evaluating some rows costs."""
    return rows * (ROW + columns)


def event_cost(columns: int) -> float:
    """What an event costs."""
    return EVENT + EVENT_COLUMN * columns


class Plan(NamedTuple):
    """What a step is expected to cost with some radius of the ball."""

    radius: float
    always: float  # rows that are always evaluated
    events: float  # rows drawn a step
    outside: float  # share of steps that need all rows

    def rows(self, size: int) -> float:
        """Rows touched a step, of so many."""
        return self.always + self.events + self.outside * size

    def cost(self, size: int, columns: int) -> float:
        """In units of one row and column of a pass."""
        return pass_cost(self.always + self.outside * size, columns) + self.events * event_cost(columns)


class Outlook(NamedTuple):
    """What independent proposals are worth."""

    acceptance: float  # expected
    tail: float  # the largest log weight p / q found, above that of most proposals
    coefficient: int  # that is farthest out there

    @property
    def long_tailed(self) -> bool:
        """Whether the posterior's tails are so much longer that other proposals must reach for them."""
        return not self.tail <= LONG_TAIL


class Setup(NamedTuple):
    """A kernel, and what is expected of it."""

    kernel: ThinnedKernel
    plan: Plan
    outlook: Outlook


def expand(
    model: GLM, mode: Mode, rng: np.random.Generator, moves: Moves | None = None, threshold: float | None = None
) -> Setup:
    """The thinned kernel for the expansion at the mode.

    Unless `moves` are given, their mixture depends on how long the posterior's tails are. Rows that would be drawn more
    than `threshold` times a step are always evaluated: by default those for which that is cheaper.
    """
    p = mode.theta.size
    if threshold is None:
        threshold = pass_cost(1.0, p) / event_cost(p)
    given, moves = moves, moves or Moves(1.0, 0.0, WALK_SHARE, DF, WALK_SCALE)
    if given is None and mode.flat:
        moves = moves._replace(heavy=FLAT_SHARE, flat=mode.flat)
    center = np.linalg.solve(mode.factor, mode.center - mode.theta)
    gaussian = shapes.fit_shape(-0.5 * (shapes.KNOTS - center[:, None]) ** 2)
    flat, moved = _flat_axes(model, mode)
    radii = (p - flat) ** 0.5 + BEYOND
    points = rng.standard_normal((2, PAIRS, p))
    spread = typical_spread(points[..., flat:])
    look = model.first.look or all_rows(model.rows)
    expected = expected_bounds(look, model.family.tag, mode.theta, mode.factor, radii, spread, threshold)
    expected[:, 0] += moved
    plan = _plan(model.rows.size, radii, expected, points[..., flat:], moves)
    kernel = _build(model, mode, look, plan, spread, threshold, moves, gaussian, flat, rng)
    shape = see_shape(kernel)
    kernel = replace(kernel, target=kernel.target._replace(shape=shape))
    seen = judge(kernel, rng)
    if given is None and seen.long_tailed and not mode.flat:
        moves = moves._replace(heavy=LONG_SHARE * min(1.0, 5 / p), walk=LONG_SHARE)  # in many dimensions few t's fit
    shapes.draws(shape, rng, points.reshape(-1, p))
    wider = typical_spread(points[..., flat:])
    expected[:, 1] *= wider / spread if spread else 1.0  # none where all axes are flat
    shaped = _plan(model.rows.size, radii, expected, points[..., flat:], moves)
    if shaped.radius != plan.radius:
        kernel = _build(model, mode, look, shaped, wider, threshold, moves, shape, flat, rng)
    if not model.prior.normal:
        warn_of_tails(kernel, rng)
    return Setup(replace(kernel, moves=moves), shaped, seen)


def most(threshold: float, spread: float) -> float:
    """The largest bound of a row that is drawn, and not always evaluated."""
    return threshold / spread if spread else np.inf


def _flat_axes(model: GLM, mode: Mode) -> tuple[int, int]:
    """The flat directions, and the rows that they move, if these are few enough to be always evaluated; else none.

    Then proposals may go as far out along flat directions as they like, and no other row has to be looked at for it.
    """
    if not mode.flat:
        return 0, 0
    moved = model.rows.reduce(Moved(mode.factor[:, : mode.flat]))
    few = 0 < moved <= max(FEW_MOVED, SHARE_MOVED * model.rows.size)
    return (mode.flat, moved) if few else (0, 0)


def all_rows(rows: RowsAtHand) -> Look:
    """A look at every row."""
    return rows.keep(lambda arrays, count: Look(arrays, np.ones(arrays.size)))


def judge(kernel: ThinnedKernel, rng: np.random.Generator) -> Outlook:
    """What independent proposals are worth, from a few rows: their acceptance, and whether they reach the tails.

    Tails are looked at far out along each coefficient and along random directions, and among the proposals themselves:
    one whose weight p / q is far above the others' is a place where a chain would stay for long.
    """
    p, target, mode = kernel.mode.theta.size, kernel.target, kernel.mode
    directions = np.concatenate([mode.factor, -mode.factor, rng.standard_normal((DIRECTIONS, p))])
    far = TAIL * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    points = np.concatenate([far, np.empty((POINTS, p))])
    shapes.draws(target.shape, rng, points[len(far) :])
    points = points[(np.abs(points) <= shapes.REACH).all(1)]  # farther out a few rows say nothing
    pool = kernel.urn.seen.some(SHAPED_BY, SEEN) if kernel.urn else Pool.empty(p)
    values = log_weights(kernel, pool, points)
    values -= 0.5 * ((points - target.center) ** 2).sum(1)
    values -= shapes.log_densities(target.shape, points)
    near = values[len(far) :]
    weights = np.exp(near - near.max())
    accept = np.minimum(1.0, weights[:, None] / np.maximum(weights, np.finfo(float).tiny)).mean(0)
    worst = int(values.argmax())
    farthest = int((np.abs(mode.factor @ points[worst]) / mode.sd).argmax())
    return Outlook(float(weights @ accept / weights.sum()), float(values[worst] - np.median(near)), farthest)


def log_weights(kernel: ThinnedKernel, pool: Pool, z: Array) -> Array:
    """log p / p* at each z, estimated from a pool.

    The pool's rows were drawn in proportion to their bounds, so the mean of R / c over them, times the total of the
    bounds, estimates the sum of R over all rows that are not always evaluated.
    """
    target, terms, deltas = kernel.target, kernel.model.family.tag.terms, z @ kernel.mode.factor.T
    found, always = np.empty((2, len(z)))
    moves = np.ascontiguousarray(deltas @ pool.x.T)
    weighted_remainders(terms, pool.y, pool.eta, target.total / max(1, pool.y.size) / pool.bound, moves, found)
    if target.always.y.size:
        always_remainders(terms, target.always, z, deltas, always)
        found += always
    return found + corrections(target.prior, deltas) - corrections(target.prior, np.zeros((1, z.shape[1])))


def corrections(prior: Array, deltas: Array) -> Array:
    """What priors add to their quadratic approximations, at each row of `deltas`."""
    out = np.empty(len(deltas))
    prior_corrections(prior, deltas, out)
    return out


def profile(terms: NDArray[np.intp], y: Array, eta: Array, weights: Array, moves: Array) -> Array:
    """Sums of the rows' remainders along each axis, (p, grid); a unit of z moves their eta by `moves` (rows, p)."""
    axes, out = np.ascontiguousarray(moves.T), np.empty((PROFILED.size, moves.shape[1]))
    for step, line in zip(PROFILED, out, strict=True):
        weighted_remainders(terms, y, eta, weights, step * axes, line)
    return np.asarray(out.T)


def prior_profile(prior: Array, axes: Array) -> Array:
    """The prior's correction along each axis, (p, grid); a unit of z moves the coefficients by a row of `axes`."""
    steps = np.multiply.outer(axes, PROFILED).transpose(0, 2, 1)
    return corrections(prior, steps.reshape(-1, axes.shape[1])).reshape(steps.shape[:2])


def see_shape(kernel: ThinnedKernel) -> Shape:
    """The posterior's shape along each axis, seen on the rows that are always evaluated and a few of the others.

    Along flat directions, where much depends on it, all rows are looked at.
    """
    target, mode, p = kernel.target, kernel.mode, kernel.mode.theta.size
    x, y, offset, weights = target.always[:4]
    pool = kernel.urn.seen.some(0, SHAPED_BY) if kernel.urn else Pool.empty(p)
    excess = prior_profile(target.prior, target.factor) + profile(
        kernel.model.family.tag.terms,
        np.concatenate([y, pool.y]),
        np.concatenate([kernel.mode.theta @ x + (offset if offset.size else 0.0), pool.eta]),
        np.concatenate([weights if weights.size else np.ones(y.size), target.total / max(1, pool.y.size) / pool.bound]),
        np.concatenate([x.T, pool.x]) @ kernel.mode.factor,
    )
    for k in range(mode.flat):
        heights = kernel.model.log_posterior(mode.theta + np.outer(PROFILED, mode.factor[:, k]))
        excess[k] = heights + 0.5 * (PROFILED - target.center[k]) ** 2
    powers = tail_powers(kernel.model.prior, mode.factor)
    origin = np.asarray(np.linalg.solve(mode.factor, -mode.theta), dtype=float)
    return shape_of(excess, target.center, powers, origin, _others(mode))


def shape_of(
    excess: Array, center: Array, powers: Array, origin: Array | None = None, others: shapes.Others | None = None
) -> Shape:
    """Densities that exceed Gaussians around a center by so much, on the grid PROFILED, with tails of these powers."""
    log_density = np.array([np.interp(shapes.KNOTS, PROFILED, line) for line in excess])
    return shapes.fit_shape(log_density - 0.5 * (shapes.KNOTS - center[:, None]) ** 2, powers, origin, others)


def _others(mode: Mode) -> shapes.Others | None:
    """Components of the proposals for further modes: in proportion to their mass, but a fair share at least."""
    if not mode.others:
        return None
    mass = np.exp([one.log_mass - mode.log_mass for one in mode.others])
    shares = np.maximum(mass / (1 + mass.sum()), OTHER_SHARE)
    shares *= min(1.0, OTHERS_SHARE / shares.sum())
    back = np.linalg.inv(mode.factor)
    centers = [back @ (one.theta - mode.theta) for one in mode.others]
    return shapes.components(shares.tolist(), centers, [back @ one.factor for one in mode.others])


def _plan(size: int, radii: Array, expected: Array, points: Array, moves: Moves) -> Plan:
    """The radius for which a step should cost least, given what each costs inside, and some proposals."""
    p = max(1, points.shape[2])
    seen = (np.linalg.norm(points, axis=2)[..., None] > radii).mean((0, 1))
    outside = 2 * np.maximum(seen, gammaincc(p / 2, radii**2 / 2))
    outside += moves.walk * gammaincc(p / 2, (radii - moves.scale) ** 2 / 2)
    if not moves.flat:
        outside += moves.heavy * fdtrc(p, moves.df, radii**2 / p)
    plans = [Plan(*map(float, numbers)) for numbers in np.column_stack([radii, expected, outside])]
    return min(plans, key=lambda plan: plan.cost(size, p))


def _build(
    model: GLM,
    mode: Mode,
    look: Look,
    plan: Plan,
    spread: float,
    threshold: float,
    moves: Moves,
    shape: Shape,
    flat: int,
    rng: np.random.Generator,
) -> ThinnedKernel:
    """The kernel for a plan; the bounds of some rows are checked."""
    p = mode.theta.size
    largest = most(threshold, spread)
    bounds = RemainderBounds(model.family.tag, mode.theta, mode.factor, plan.radius, largest, mode.factor[:, :flat])
    require_bounds(bounds.excess(look.arrays, rng))
    total = plan.events / spread if spread else 0.0
    ahead = int(np.ceil(max(64.0, STEPS_AHEAD * plan.events, SHARE_AHEAD * model.rows.size)))
    first = min(USUAL_CHAINS * ahead, most_rows(p))
    urn = model.rows.draw(bounds, mode.theta, total, SEEN, int(rng.integers(2**63)), first)
    limit = min(pass_cost(model.rows.size, p) / event_cost(p), most_rows(p) / SHARE_OF_POOL)
    target = _target(model, mode, urn.certain, flat, urn.total, plan.radius, limit, shape)
    return ThinnedKernel(model, mode, target, urn if urn.rows else None, moves, ahead)


def _target(
    model: GLM, mode: Mode, always: Arrays, flat: int, total: float, radius: float, limit: float, shape: Shape
) -> Target:
    p, factor, tag, rows = mode.theta.size, mode.factor, model.family.tag, MemoryRows.of(always)
    slope, curvature, constant = np.zeros(p), np.zeros((p, p)), float(rows.outcomes.linear(tag, np.zeros((1, p)))[0])
    if rows.size:
        at_mode = rows.reduce(LogLikelihoodDerivatives(tag), mode.theta)
        slope, curvature = factor.T @ at_mode.gradient[0], factor.T @ at_mode.curvature[0] @ factor
        constant -= float(at_mode.value[0])
    arrays = (always.x, always.y, always.offset, always.weights)
    linear = rows.outcomes.slope(tag).copy()
    evaluated = Always(*arrays, mode.theta, linear, slope, np.ascontiguousarray(curvature), constant)
    center = np.asarray(np.linalg.solve(factor, mode.center - mode.theta))
    prior = prior_of(model.prior, mode.theta)
    return Target(
        mode.theta, np.ascontiguousarray(factor.T), center, prior, shape, evaluated, flat, total, radius, limit
    )  # fmt: skip


def prior_of(prior: Prior, theta: Array) -> Array:
    """What the loop knows of the priors, whose quadratic approximation is at theta."""
    parts = [theta, prior.mean, prior.scale, prior.df, prior.exponent, *prior.each(theta)]
    return np.array(parts, dtype=float)[:, : 0 if prior.normal else theta.size].copy()
