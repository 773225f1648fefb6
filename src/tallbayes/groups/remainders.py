"""Remainders of rows that come in groups: bounds on them that look at the coefficients and at one effect only.

Where coefficients and effects are expanded together, the Gaussian there has coordinates z = (z_1 .. z_p) for the
coefficients and t_g for each group, with  beta = L z  and  theta_g = sd_g t_g - share_g' beta  (see `arrow`). So a row
of group g moves by  h = (x - share_g)' L z + sd_g t_g,  and for any weight v_g > 0

    |h| <= s |u|,    s^2 = v_g^2 a^2 + sd_g^2,    a = |L'(x - share_g)|,    u = (z / v_g, t_g):

all that a row asks for is the length of a vector of p + 1 numbers, whatever the number of groups, and when only one
effect moves, only its group's rows have anything to decide. As in `rows/remainders.py`, |R(h)| <= c |u|^3 with
c = M s^3 / 6 and M the largest third derivative on eta +- radius s.

Nothing is kept of each row: tasks and measures look at rows as they pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.once import once
from tallbayes.families import Tag
from tallbayes.families.compiled import compiled
from tallbayes.families.terms import chunk_bounds, linear_predictors, third
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.passes import CHUNK, LENGTH, add_effects, joined_groups
from tallbayes.rows.protocol import Rows
from tallbayes.rows.remainders import SLACK, largest_excess
from tallbayes.rows.tasks import Parts

Array = NDArray[np.float64]

ALONE = 3.0  # radius of the ball in which the coefficients alone are looked at


@compiled()
def _expand(terms, x, offset, codes, theta, factor, shift, length, eta, squares, begin, end):
    """eta and a^2 of every row."""
    p, last, buffer = x.shape[0], min(x.shape[1], end * length), np.empty(CHUNK)
    for start in range(begin * length, last, CHUNK):
        stop = min(last, start + CHUNK)
        linear_predictors(terms, x, offset, theta, start, stop, eta[start:stop])
        add_effects(codes, theta[p:], start, stop, eta[start:stop])
        moved, total, group = buffer[: stop - start], squares[start:stop], codes[start:stop]
        for i in range(moved.size):
            total[i] = 0.0
        for j in range(p):
            for i in range(moved.size):
                moved[i] = -shift[group[i], j]
            for c in range(p):
                by, column = factor[j, c], x[c, start:stop]
                for i in range(moved.size):
                    moved[i] += by * column[i]
            for i in range(moved.size):
                total[i] += moved[i] * moved[i]


@compiled()
def _sums(terms, x, y, weights, codes, eta, squares, length, out, begin, end):
    """By group (groups + blocks, p + 3) the sums of f''' x, f''' and a^2, and the number of rows."""
    p, n = x.shape[0], x.shape[1]
    for block in range(begin, end):
        for i in range(block * length, min(n, (block + 1) * length)):
            f = third(terms, y[i], eta[i])
            if weights.size > 0:
                f *= weights[i]
            own = out[codes[i] + block]
            for j in range(p):
                own[j] += f * x[j, i]
            own[p] += f
            own[p + 1] += squares[i]
            own[p + 2] += 1.0


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


@dataclass(frozen=True, eq=False)
class GroupExpansion:
    """Where rows are expanded, theta = (beta, effects, ...), and in which Gaussian: that of an `arrow`."""

    family: Tag
    theta: Array
    shares: Array  # (k, p)
    sd: Array  # (k,)
    factor: Array  # (p, p)

    @once
    def _whitening(self) -> tuple[Array, Array]:
        """L', and what is taken off L'x in each group."""
        return np.ascontiguousarray(self.factor.T), self.shares @ self.factor

    def of(self, arrays: Arrays) -> tuple[Array, Array]:
        """eta and a^2 of each row."""
        eta, squares = np.empty(arrays.size), np.empty(arrays.size)
        data = (arrays.x, arrays.offset, arrays.codes, self.theta, *self._whitening)
        arrays.over_blocks(_expand, self.family.terms, *data, LENGTH, eta, squares)
        return eta, squares

    def alone(self, arrays: Arrays, eta: Array, squares: Array) -> Array:
        """What the coefficients alone can do to each row's remainder: |f'''| a^3, up to a factor."""
        none = np.zeros(arrays.groups)
        return self.bounds(arrays, eta, squares, none + 1, none, none + ALONE)

    def bounds(self, arrays: Arrays, eta: Array, squares: Array, wide: Array, sd: Array, radius: Array) -> Array:
        """c of each row for its unit weight; `wide` (v), `sd` and `radius` by group."""
        out = np.empty(arrays.size)
        data = (arrays.y, eta, squares, arrays.codes, wide, sd, radius)
        arrays.over_blocks(_bounds, self.family.terms, *data, LENGTH, out)
        return out


class KeptExpansion(GroupExpansion):
    """The same for rows in memory, which stay as they are: what was asked is remembered."""

    @once
    def _answers(self) -> dict[int, tuple[Arrays, tuple[Array, Array]]]:
        return {}

    def of(self, arrays: Arrays) -> tuple[Array, Array]:
        """See `GroupExpansion`."""
        if id(arrays) not in self._answers:
            self._answers[id(arrays)] = arrays, super().of(arrays)  # kept too, so that no others get their number
        return self._answers[id(arrays)][1]


class GroupFacts(NamedTuple):
    """What is known of each group's rows where they are expanded."""

    sizes: NDArray[np.intp]  # (k,) rows
    typical: Array  # (k,) root mean square of a
    bends: Array  # (k, p) sums of f''' (x - share): how the slope of the coefficients bends with an effect's square


@dataclass(frozen=True, eq=False)
class LookAtGroups:
    """A task: the facts of each group."""

    expansion: GroupExpansion

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return 3

    def over(self, arrays: Arrays, params: Array) -> Parts:
        """See `Task`."""
        found = np.zeros((arrays.groups + arrays.blocks, arrays.columns + 3))
        data = (arrays.x, arrays.y, arrays.weights, arrays.codes, *self.expansion.of(arrays))
        arrays.over_blocks(_sums, self.expansion.family.terms, *data, LENGTH, found)
        return arrays.by_group(found[:, None])

    def answer(self, parts: Parts, params: Array, rows: Rows) -> GroupFacts:
        """See `Task`."""
        sums = joined_groups(rows.groups, *parts)[0]
        bends = np.ascontiguousarray(sums[:, :-3] - self.expansion.shares * sums[:, -3, None])
        sizes = sums[:, -1].astype(np.intp)
        return GroupFacts(sizes, np.sqrt(sums[:, -2] / np.maximum(1, sizes)), bends)


@dataclass(frozen=True, eq=False)
class BoundTotals:
    """A task: sums of the weighted bounds over each group's rows (several + 1, k).

    They are for several radii (several, k), and for what the coefficients alone can do.
    """

    expansion: GroupExpansion
    wide: Array  # (k,)
    radii: Array

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return 2 + len(self.radii)

    def over(self, arrays: Arrays, params: Array) -> Parts:
        """See `Task`."""
        expansion, expanded = self.expansion, self.expansion.of(arrays)
        found = [expansion.bounds(arrays, *expanded, self.wide, expansion.sd, radius) for radius in self.radii]
        found.append(expansion.alone(arrays, *expanded))
        return arrays.group_sums(*(weighted(arrays, bounds) for bounds in found))

    def answer(self, parts: Parts, params: Array, rows: Rows) -> Array:
        """See `Task`."""
        return joined_groups(rows.groups, *parts)


@dataclass(frozen=True, eq=False)
class GroupBounds:
    """A measure: c of each row; it is infinite where the weighted c exceeds what is the `most` in the row's group."""

    expansion: GroupExpansion
    wide: Array  # (k,)
    radius: Array  # (k,)
    most: Array  # (k,)
    looks = 2

    def of(self, arrays: Arrays) -> Array:
        """See `Measure`."""
        return self.expanded(arrays)[1]

    def expanded(self, arrays: Arrays) -> tuple[Array, Array]:
        """eta and c of each row."""
        eta, squares = self.expansion.of(arrays)
        bounds = self.expansion.bounds(arrays, eta, squares, self.wide, self.expansion.sd, self.radius)
        apart = ~(weighted(arrays, bounds) <= self.most[arrays.codes])  # also where it is not a number
        bounds[apart] = np.inf
        return eta, bounds

    def excess(self, arrays: Arrays, rng: np.random.Generator, points: int = 10) -> float:
        """The largest |R| over its bound on the surface of the balls, for some rows and directions: at most one."""
        expansion, (eta, bounds) = self.expansion, self.expanded(arrays)
        held = np.flatnonzero(np.isfinite(bounds))
        some, groups = arrays.take(held), arrays.codes[held]
        directions = rng.standard_normal((points, some.columns + 1))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        away = (some.x.T - expansion.shares[groups]) @ expansion.factor @ directions[:, :-1].T
        wide, radius, sd = self.wide[groups], self.radius[groups], expansion.sd[groups]
        moves = radius[:, None] * (wide[:, None] * away + np.outer(sd, directions[:, -1]))
        return float(largest_excess(expansion.family.terms, some.y, eta[held], bounds[held] * radius**3, moves, 1.0))


def weighted(arrays: Arrays, values: Array) -> Array:
    """Values of each row times its weight."""
    return values * arrays.weights if arrays.weights.size else values
