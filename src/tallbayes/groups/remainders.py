"""Remainders of rows that come in groups: bounds on them that look at the coefficients and at one effect only.

Where coefficients and effects are expanded together, the Gaussian there has coordinates z = (z_1 .. z_p) for the
coefficients and t_g for each group, with  beta = L z  and  theta_g = sd_g t_g - share_g' beta  (see `arrow`). So a row
of group g moves by  h = (x - share_g)' L z + sd_g t_g,  and for any weight v_g > 0

    |h| <= s |u|,    s^2 = v_g^2 a^2 + sd_g^2,    a = |L'(x - share_g)|,    u = (z / v_g, t_g):

all that a row asks for is the length of a vector of p + 1 numbers, whatever the number of groups, and when only one
effect moves, only its group's rows have anything to decide. As in `remainders`, |R(h)| <= c |u|^3 with c = M s^3 / 6
and M the largest third derivative on eta +- radius s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families import Tag
from tallbayes.families.compiled import compiled, small
from tallbayes.families.terms import chunk_bounds, chunk_derivatives, third
from tallbayes.groups.alias import tables
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.passes import CHUNK, LENGTH, joined_groups, piece
from tallbayes.rows.protocol import Count
from tallbayes.rows.remainders import CHECKED, SLACK, largest_excess, require_bounds
from tallbayes.rows.subsample import scattered
from tallbayes.rows.threads import over_blocks

Array = NDArray[np.float64]
Integers = NDArray[np.intp]


class Drawn(NamedTuple):
    """Rows that are drawn in proportion to their weighted bounds, each group from a table of its own."""

    x: Array  # (p, n)
    y: Array  # (n,)
    weights: Array
    eta: Array  # (n,) linear predictor where the rows are expanded
    bound: Array  # (n,) c, for unit weight; 0 for rows that are never drawn
    table: Array  # (n, 2) alias tables
    starts: Integers  # (k + 1,) where each group's rows begin


class Seen(NamedTuple):
    """A few rows."""

    x: Array  # (rows, p)
    y: Array
    eta: Array
    weights: Array
    groups: NDArray[np.int32]


class Always(NamedTuple):
    """Rows that are always evaluated: their log-likelihood minus its expansion is their remainder."""

    x: Array  # (p, m)
    y: Array  # (m,)
    weights: Array
    eta: Array  # (m,) linear predictor where the rows are expanded
    first: Array  # (m,) slope of the weighted log-likelihood there; of a canonical family without what is linear
    second: Array  # (m,) minus its second derivative
    values: Array  # (k,) its sum over each group's rows
    starts: Integers  # (k + 1,)


@compiled()
def _expand(terms, x, y, weights, codes, eta, factor, shift, length, squares, thirds, begin, end):
    """a^2 of every row; and by group (groups + blocks, p + 1) the sums of f''' x and f'''."""
    p, n, buffer = x.shape[0], x.shape[1], np.empty(CHUNK)
    for block in range(begin, end):
        last = (block + 1) * length if (block + 1) * length < n else n
        for start in range(block * length, last, CHUNK):
            stop = start + CHUNK if start + CHUNK < last else last
            moved, total, group = buffer[: stop - start], squares[start:stop], codes[start:stop]
            for j in range(p):
                for i in range(moved.size):
                    moved[i] = -shift[group[i], j]
                for c in range(p):
                    by, column = factor[j, c], x[c, start:stop]
                    for i in range(moved.size):
                        moved[i] += by * column[i]
                for i in range(moved.size):
                    total[i] += moved[i] * moved[i]
            for i in range(start, stop):
                f = third(terms, y[i], eta[i])
                if weights.size > 0:
                    f *= weights[i]
                out = thirds[codes[i] + block]
                for j in range(p):
                    out[j] += f * x[j, i]
                out[p] += f


@compiled()
def _bounds(terms, y, eta, squares, codes, wide, sd, radius, length, out, begin, end):
    """c of every row."""
    last, lows, highs, cubes = end * length, np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK)
    if last > eta.size:
        last = eta.size
    for start in range(begin * length, last, CHUNK):
        stop = start + CHUNK if start + CHUNK < last else last
        low, high, found = lows[: stop - start], highs[: stop - start], out[start:stop]
        for i in range(found.size):
            g = codes[start + i]
            s = np.sqrt(wide[g] * wide[g] * squares[start + i] + sd[g] * sd[g])
            low[i], high[i] = eta[start + i] - radius[g] * s, eta[start + i] + radius[g] * s
            cubes[i] = SLACK / 6.0 * s * s * s
        chunk_bounds(terms, y[start:stop], low, high, found)
        for i in range(found.size):
            found[i] *= cubes[i]


@compiled()
def _derivatives(terms, y, eta, weights, starts, first, second, values):
    """Derivatives of each row's log-likelihood, and the sum of it over each group's rows."""
    small()
    for g in range(values.size):
        values[g] = 0.0
        for low in range(starts[g], starts[g + 1], CHUNK):
            high = low + CHUNK if low + CHUNK < starts[g + 1] else starts[g + 1]
            values[g] += chunk_derivatives(
                terms, y[low:high], eta[low:high], piece(weights, low, high), first[low:high], second[low:high]
            )  # fmt: skip


class Split(NamedTuple):
    """Rows that are drawn and rows that are always evaluated: together they must be all that have a positive bound."""

    drawn: Drawn
    totals: Array  # (k,) by group, of the weighted bounds of rows that are drawn
    always: Always
    rows: int  # with a positive bound, or always evaluated
    total: float  # of the weighted bounds of those that are drawn


class GroupRemainders:
    """The remainders of rows in groups that are expanded at theta = (beta, effects, ...); it lives with the rows.

    Shares, sd and factor are those of an `arrow`.
    """

    def __init__(
        self, arrays: Arrays, count: Count, family: Tag, theta: Array, shares: Array, sd: Array, factor: Array
    ) -> None:
        count(3 * arrays.size, 1)
        self._arrays, self._count, self._terms = arrays, count, family.terms
        self._shares, self._sd, self._factor = shares, sd, factor
        self._eta, self._squares = arrays.predictors(theta[None])[0], np.zeros(arrays.size)
        found = np.zeros((sd.size + arrays.blocks, arrays.columns + 1))
        arrays.over_blocks(
            _expand, self._terms, arrays.x, arrays.y, arrays.weights, arrays.codes, self._eta,
            np.ascontiguousarray(factor.T), shares @ factor, LENGTH, self._squares, found,
        )  # fmt: skip
        sums = joined_groups(sd.size, *arrays.by_group(found[:, None]))[0]
        # Sums by group of f''' times (x - share): how the slope of the coefficients bends with the square of an effect.
        self.bends = np.ascontiguousarray(sums[:, :-1] - shares * sums[:, -1:])
        self.sizes = np.diff(arrays.starts)  # (k,) rows
        squares = np.bincount(arrays.codes, self._squares, sd.size)
        self.typical = np.sqrt(squares / np.maximum(1, self.sizes))  # (k,) root mean square of a

    def bounds(self, wide: Array, radius: Array) -> Array:
        """c of every row, for its unit weight; `wide` (v) and `radius` by group."""
        return self._bounds(wide, self._sd, radius)

    def _bounds(self, wide: Array, sd: Array, radius: Array) -> Array:
        out = np.empty(self._arrays.size)
        data = (self._arrays.y, self._eta, self._squares, self._arrays.codes, wide, sd, radius)
        self._arrays.over_blocks(_bounds, self._terms, *data, LENGTH, out)
        return out

    def totals(self, wide: Array, radius: Array) -> Array:
        """Sums of the weighted bounds over each group's rows."""
        weighted = self._weighted(self.bounds(wide, radius))
        return np.asarray(np.bincount(self._arrays.codes, weighted, self._sd.size), dtype=float)

    def _weighted(self, bounds: Array) -> Array:
        return bounds * self._arrays.weights if self._arrays.weights.size else bounds

    def split(self, wide: Array, radius: Array, most: Array, rng: np.random.Generator) -> Split:
        """Rows whose weighted bound exceeds what is the `most` in their group (k,), from the others.

        Bounds of some rows are checked.
        """
        arrays, bounds = self._arrays, self.bounds(wide, radius)
        weighted = self._weighted(bounds)
        chosen = ~(weighted <= most[arrays.codes])
        left = np.where(chosen, 0.0, bounds)
        weights = self._weighted(left)
        if not np.isfinite(weights.sum()):
            raise ValueError("the weights with which rows are drawn must be finite")
        some = scattered(arrays.size, CHECKED, rng)
        require_bounds(self.excess(bounds, wide, radius, some[~chosen[some]], rng))
        table, totals = np.empty((left.size, 2)), np.empty(self._sd.size)
        over_blocks(tables, totals.size, weights, arrays.starts, table, totals, evaluations=left.size)
        drawn = Drawn(arrays.x, arrays.y, arrays.weights, self._eta, left, table, arrays.starts)
        rows = np.flatnonzero(chosen)
        part, eta = arrays.take(rows), self._eta[rows]
        (first, second), values = np.empty((2, rows.size)), np.empty(self._sd.size)
        starts = np.searchsorted(rows, arrays.starts)
        _derivatives(self._terms, part.y, eta, part.weights, starts, first, second, values)
        self._count(rows.size)
        always = Always(part.x, part.y, part.weights, eta, first, second, values, starts)
        every = int(np.count_nonzero(chosen | (weighted > 0)))
        return Split(drawn, totals, always, every, float(weighted[~chosen].sum()))

    def excess(
        self, bounds: Array, wide: Array, radius: Array, rows: Integers, rng: np.random.Generator, points: int = 10
    ) -> float:
        """The largest |R| over its bound on the surface of the balls, for some rows and directions: at most one."""
        directions = rng.standard_normal((points, self._factor.shape[0] + 1))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        seen = self._seen(rows)
        away = (seen.x - self._shares[seen.groups]) @ self._factor @ directions[:, :-1].T
        wide, radius, sd = wide[seen.groups], radius[seen.groups], self._sd[seen.groups]
        self._count(rows.size * points)
        moves = radius[:, None] * (wide[:, None] * away + np.outer(sd, directions[:, -1]))
        return float(largest_excess(self._terms, seen.y, seen.eta, bounds[rows] * radius**3, moves, 1.0))

    def look(self, size: int, rng: np.random.Generator) -> Seen:
        """So many rows, drawn in proportion to what the coefficients alone can do to their remainders."""
        none = np.zeros(self._sd.size)
        measure = self._weighted(self._bounds(none + 1, none, none + 3))  # |f'''| a^3, up to a factor
        rows, scale = systematic(np.arange(measure.size), measure, size, rng)
        self._count(rows.size)
        seen = self._seen(rows)
        return seen._replace(weights=seen.weights * scale)

    def _seen(self, rows: Integers) -> Seen:
        part = self._arrays.take(rows)
        return Seen(part.x.T, part.y, self._eta[rows], part.own, part.codes)


def systematic(members: Integers, measure: Array, size: int, rng: np.random.Generator) -> tuple[Integers, Array]:
    """Draw `size` of the members without replacement, and give one over their inclusion probabilities.

    The probability is min(1, c * measure). Members are laid end to end in random order, each as long as its
    probability, and picked at unit distances from a random start; with equal measures that is simple random
    sampling.
    """
    if size >= members.size:
        return members, np.ones(members.size)
    lengths = measure[members]
    certain = np.zeros(members.size, dtype=bool)
    while True:  # whoever would be longer than one is taken for certain, and the others share the rest
        rest = ~certain
        count, total = size - int(certain.sum()), lengths[rest].sum()
        probability = certain.astype(float)
        if total > 0:
            probability[rest] = count * (lengths[rest] / total)
        larger = rest & (probability >= 1)
        if not larger.any():
            break
        certain |= larger
    order = rng.permutation(np.flatnonzero(rest & (probability > np.finfo(float).tiny)))
    ends = np.cumsum(probability[order])
    picks = order[np.searchsorted(ends, rng.random() + np.arange(min(count, order.size))).clip(max=order.size - 1)]
    chosen = np.sort(np.concatenate([np.flatnonzero(certain), picks]))
    return members[chosen], 1 / probability[chosen]
