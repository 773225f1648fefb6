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

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families import Tag
from tallbayes.families.compiled import compiled
from tallbayes.families.terms import chunk_bounds, chunk_derivatives, third
from tallbayes.rows.passes import CHUNK, piece, predictors
from tallbayes.rows.remainders import CHECKED, SLACK, largest_excess
from tallbayes.rows.subsample import scattered
from tallbayes.rows.threads import over_blocks
from tallbayes.rows.urn import tables

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
    for g in range(values.size):
        values[g] = 0.0
        for low in range(starts[g], starts[g + 1], CHUNK):
            high = low + CHUNK if low + CHUNK < starts[g + 1] else starts[g + 1]
            values[g] += chunk_derivatives(
                terms, y[low:high], eta[low:high], piece(weights, low, high), first[low:high], second[low:high]
            )  # fmt: skip


class GroupRemainders:
    """The remainders of rows in groups that are expanded at theta = (beta, effects, ...)."""

    def __init__(
        self,
        tag: Tag,
        x: Array,
        y: Array,
        weights: Array,
        offset: Array,
        codes: NDArray[np.int32],
        starts: Integers,
        theta: Array,
        shares: Array,
        sd: Array,
        factor: Array,
        length: int,
        join: Callable[[Array], Array],
    ) -> None:
        self._terms, self._x, self._y, self._weights = tag.terms, x, y, weights
        self._codes, self._starts, self._sd, self._length = codes, starts, sd, length
        self._shares, self._factor = shares, factor
        eta, self._squares = np.empty((1, y.size)), np.zeros(y.size)
        self._over_blocks(predictors, x, offset, codes, theta[None], length, eta)
        self._eta = eta[0]
        by_block = np.zeros((sd.size - (-y.size // length), 1, x.shape[0] + 1))
        self._over_blocks(
            _expand, self._terms, x, y, weights, codes, self._eta, np.ascontiguousarray(factor.T), shares @ factor,
            length, self._squares, by_block[:, 0],
        )  # fmt: skip
        sums = join(by_block)[0]
        # Sums by group of f''' times (x - share): how the slope of the coefficients bends with the square of an effect.
        self.bends = np.ascontiguousarray(sums[:, :-1] - shares * sums[:, -1:])
        counts = np.maximum(1, np.diff(starts))
        self.typical = np.sqrt(np.bincount(codes, self._squares, sd.size) / counts)  # (k,) root mean square of a

    def _over_blocks(self, function: Callable[..., None], *arguments: Any) -> None:
        blocks = -(-self._y.size // self._length)
        over_blocks(function, blocks, *arguments, evaluations=self._y.size)

    def bounds(self, wide: Array, radius: Array) -> Array:
        """c of every row, for its unit weight; `wide` (v) and `radius` by group."""
        out = np.empty(self._y.size)
        data = (self._y, self._eta, self._squares, self._codes, wide, self._sd, radius)
        self._over_blocks(_bounds, self._terms, *data, self._length, out)
        return out

    def weighted(self, bounds: Array) -> Array:
        """Bounds times the rows' weights."""
        return bounds * self._weights if self._weights.size else bounds

    def by_group(self, values: Array) -> Array:
        """Sums over each group's rows."""
        return np.asarray(np.bincount(self._codes, values, self._sd.size), dtype=float)

    def each(self, values: NDArray[Any]) -> NDArray[Any]:
        """One value a group -> that of its group for each row."""
        return values[self._codes]

    def split(self, bounds: Array, chosen: NDArray[np.bool_]) -> tuple[Drawn, Array, Always]:
        """Rows to be drawn in proportion to their weighted bounds, with the sum of these by group; and others.

        The others are those `chosen` to be evaluated always.
        """
        left = np.where(chosen, 0.0, bounds)
        weights = self.weighted(left)
        if not np.isfinite(weights.sum()):
            raise ValueError("the weights with which rows are drawn must be finite")
        table, totals = np.empty((left.size, 2)), np.empty(self._sd.size)
        over_blocks(tables, totals.size, weights, self._starts, table, totals, evaluations=left.size)
        drawn = Drawn(self._x, self._y, self._weights, self._eta, left, table, self._starts)
        rows = np.flatnonzero(chosen)
        y, eta = self._y[rows], self._eta[rows]
        own = self._weights[rows] if self._weights.size else self._weights
        (first, second), values = np.empty((2, rows.size)), np.empty(self._sd.size)
        starts = np.searchsorted(rows, self._starts)
        _derivatives(self._terms, y, eta, own, starts, first, second, values)
        always = Always(np.ascontiguousarray(self._x[:, rows]), y, own, eta, first, second, values, starts)
        return drawn, totals, always

    def excess(self, bounds: Array, wide: Array, radius: Array, rng: np.random.Generator, points: int = 10) -> float:
        """The largest |R| over its bound on the surface of the balls, for some rows and directions: at most one."""
        rows = scattered(self._y.size, CHECKED, rng)
        directions = rng.standard_normal((points, self._factor.shape[0] + 1))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        x, y, eta, _, groups = self.looked_at(rows)
        away = (x - self._shares[groups]) @ self._factor @ directions[:, :-1].T
        moves = radius[groups, None] * (wide[groups, None] * away + np.outer(self._sd[groups], directions[:, -1]))
        return float(largest_excess(self._terms, y, eta, bounds[rows] * radius[groups] ** 3, moves, 1.0))

    def looked_at(self, rows: Integers) -> tuple[Array, Array, Array, Array, NDArray[np.int32]]:
        """Columns (rows, p), outcomes, linear predictors, weights and groups of a few rows."""
        weights = self._weights[rows] if self._weights.size else np.ones(rows.size)
        return self._x[:, rows].T, self._y[rows], self._eta[rows], weights, self._codes[rows]

    @property
    def coefficient_bounds(self) -> Array:
        """What the coefficients alone can do to each row's remainder, up to a factor: |f'''| a^3."""
        out = np.empty(self._y.size)
        flat = np.zeros(self._sd.size)
        data = (self._y, self._eta, self._squares, self._codes, flat + 1, flat, flat + 3)
        self._over_blocks(_bounds, self._terms, *data, self._length, out)
        return self.weighted(out)
