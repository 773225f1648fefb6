"""Rows: the one door to the data.

Samplers hold no arrays. They ask for sums over all rows (`sum`), for a fixed weighted subsample (`sample`), for rows
drawn in proportion to bounds on what an expansion leaves out of them (`remainders`), or for a linear predictor that
stays with the rows and is moved one column at a time (`track`). Whatever answers these calls can feed every sampler:
`MemoryRows` does it from memory. Rows also count what they are asked: `touched` is
the number of (row, parameter vector) pairs that passed the door.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.families import Family, Tag
from tallbayes.groups import given as group_given
from tallbayes.groups.remainders import GroupRemainders
from tallbayes.rows import passes
from tallbayes.rows.calibration import Sums, sums
from tallbayes.rows.passes import in_order
from tallbayes.rows.remainders import Remainders
from tallbayes.rows.subsample import systematic
from tallbayes.rows.threads import over_blocks
from tallbayes.rows.track import Track
from tallbayes.rows.urn import Urn
from tallbayes.splines.basis import Splines
from tallbayes.splines.partition import Partition
from tallbayes.splines.track import SplineTrack

Array = NDArray[np.float64]
Integers = NDArray[np.intp]


class Derivatives(NamedTuple):
    """Value, gradient and minus the curvature of the log-likelihood, for each of k parameter vectors.

    Where rows come in groups, gradient and curvature are those of the coefficients, and `by_group` has for each group's
    effect minus the mixed derivatives with the coefficients, the first derivative, and minus the second.
    """

    value: Array  # (k,)
    gradient: Array  # (k, p)
    curvature: Array  # (k, p, p)
    by_group: Array | None = None  # (k, groups, p + 2)


class LogLikelihood(NamedTuple):
    """Ask `rows.sum` for log-likelihoods."""

    family: Tag


class LogLikelihoodDerivatives(NamedTuple):
    """Ask `rows.sum` for log-likelihoods with gradient and curvature."""

    family: Tag


NONE: Array = np.empty(0)  # weights or offsets that are absent: compiled loops have one signature
GIVEN = 6  # times that a group's rows are evaluated for a draw of its effect, about
MOST_UNITS = 100_000_000  # observations that are told apart where rows stand for many


class MemoryRows:
    """Rows in memory: x (p, n) with one contiguous run a column, outcomes, and optional weights, offset and strata.

    Rows may come in groups, with an effect each: `group` names the stratum that has their numbers, in ascending order,
    so that a group's rows are contiguous. A parameter vector is then (coefficients, effects, log of the effects' sd);
    the last makes it the whole state of a chain, and does not touch the rows.

    >>> rows = MemoryRows(x=[[1.0, 1.0, 1.0], [0.0, 1.0, 2.0]], y=[0.0, 1.0, 1.0])
    >>> from tallbayes.families import Logit
    >>> rows.sum(LogLikelihood(Logit()), [[0.0, 0.0], [0.5, 0.5]]).round(3)
    array([-2.079, -1.489])
    >>> rows.touched
    6
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        weights: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        strata: Mapping[str, ArrayLike] | None = None,
        group: str | None = None,
        groups: int = 0,
    ) -> None:
        # Compiled loops know arrays that may be written to only; others would be another type to them.
        self._x, self._y = (np.require(part, float, ["C", "W"]) for part in (x, y))
        self._weights = NONE if weights is None else np.require(weights, float, ["C", "W"])
        self._offset = NONE if offset is None else np.require(offset, float, ["C", "W"])
        self._strata = {name: np.ascontiguousarray(codes, dtype=np.int64) for name, codes in (strata or {}).items()}
        given = [("y", self._y), ("weights", self._weights), ("offset", self._offset), *self._strata.items()]
        for name, values in given:
            if values is not NONE and values.shape != (self.size,):
                raise ValueError(f"{name} has shape {values.shape}, but there are {self.size} rows")
        self._group, self.groups = group, groups
        self._codes = np.empty(0, np.int32) if group is None else self._strata[group].astype(np.int32)
        self.starts = np.zeros(1, np.intp)  # where each group's rows begin, and where the last ends
        if group is not None:
            if (np.diff(self._codes) < 0).any():
                raise ValueError("rows must be sorted by their group")
            self.starts = np.searchsorted(self._codes, np.arange(groups + 1))
        self._length = passes.block_length(self.size)
        self._blocks = -(-self.size // self._length)
        weighted = self._y * self._weights if self._weights.size else self._y
        # The gradient of sum(y_i eta_i): all that a canonical family needs of y.
        self._linear = self._products(self._x, weighted)
        if group is not None:
            self._linear = np.concatenate([self._linear, np.bincount(self._codes, weighted, groups), [0.0]])
        self._constant = float(self._products(self._offset[None], weighted)[0]) if self._offset.size else 0.0
        self.touched = 0
        self._counting = threading.Lock()

    @property
    def size(self) -> int:
        """Number of rows held; after collapsing, of distinct ones."""
        return int(self._x.shape[1])

    @property
    def columns(self) -> int:
        """Number of columns of the design."""
        return int(self._x.shape[0])

    @property
    def width(self) -> int:
        """Entries of a parameter vector."""
        return self.columns if self._group is None else self.columns + self.groups + 1

    @property
    def sizes(self) -> Array:
        """Rows touched when one entry of a parameter vector moves: all, or those of a group at both points, or none."""
        if self._group is None:
            return np.full(self.columns, float(self.size))
        return np.concatenate([np.full(self.columns, self.size), 2 * np.diff(self.starts), [0]]).astype(float)

    @property
    def total_weight(self) -> float:
        """Sum of the weights: the number of rows that the data had, where no weights were given."""
        return float(self._weights.sum() if self._weights.size else self.size)

    def count(self, rows: int) -> None:
        """Rows pass the door; chains may ask from several threads."""
        with self._counting:
            self.touched += rows

    def linear(self, family: Tag, params: Array) -> Array:
        """The part of the log-likelihood that is linear in the coefficients: it needs no pass (`families.terms`)."""
        # Not `params @ self._linear`: BLAS adds up a vector in an order that depends on its place among the others.
        return (params * self._linear).sum(1) + self._constant if family.canonical else np.zeros(len(params))

    def sum(self, f: LogLikelihood | LogLikelihoodDerivatives, params: ArrayLike) -> Any:
        """Sum of `f` over all rows for each parameter vector, in one pass."""
        params = self._vectors(params)
        k, p = len(params), self.columns
        self.count(self.size * k)
        values = np.zeros((self._blocks, k))
        data = (
            f.family.terms,
            self._x,
            self._y,
            self._offset,
            self._weights,
            self._codes,
            params,
            self._length,
            values,
        )
        linear = self.linear(f.family, params)
        if isinstance(f, LogLikelihood):
            over_blocks(passes.values, self._blocks, *data, evaluations=self.size * k)
            return linear + in_order(values)
        gradients, lower = np.zeros((self._blocks, k, p)), np.zeros((self._blocks, k, p, p))
        by_group = np.zeros((0 if self._group is None else self.groups + self._blocks, k, p + 2))
        over_blocks(
            passes.derivatives, self._blocks, *data, gradients, lower, by_group, evaluations=self.size * k
        )  # fmt: skip
        curvature = in_order(lower)
        curvature += np.tril(curvature, -1).transpose(0, 2, 1)
        slope = self._linear if f.family.canonical else np.zeros(self.width)
        found = Derivatives(linear + in_order(values), slope[:p] + in_order(gradients), curvature)
        if self._group is None:
            return found
        joined = self._join_groups(by_group)
        joined[..., p] += slope[p:-1]
        return found._replace(by_group=joined)

    def _join_groups(self, by_block: Array) -> Array:
        """(groups + blocks, k, ...) -> (k, groups, ...): what the blocks have of each group, in the order of blocks."""
        joined = np.zeros((self.groups, *by_block.shape[1:]))
        for block in range(self._blocks):
            start, stop = block * self._length, min(self.size, (block + 1) * self._length)
            first, last = self._codes[start], self._codes[stop - 1] + 1
            joined[first:last] += by_block[first + block : last + block]
        return np.ascontiguousarray(joined.swapaxes(0, 1))

    def track(self, family: Tag, theta: Array) -> Track:
        """Follow chains, one a row of theta, that move one column at a time."""
        return Track(self, family, theta)

    def track_splines(self, chains: int, bases: int, memory: float) -> SplineTrack:
        """Follow chains of splines with so many bases at most, keeping their columns in so many bytes."""
        return SplineTrack(self.size, chains, bases, memory)

    def mean_spline(self, splines: Splines) -> Array:
        """The mean of some splines on each row."""
        self.count(self.size * splines.sizes.size)
        eta = np.empty((1, self.size))
        splines.write(self._x, self._length, eta)
        return np.asarray(eta[0])

    def partition(self, cells: int, pairs: int, seed: int) -> Partition:
        """The rows sorted into cells of the covariate space."""
        self.count(self.size)
        return Partition(self._x, self._y, cells, pairs, seed, self.count)

    def count_by(self, by: str) -> dict[int, int]:
        """Number of rows in each stratum (a column kept with the rows, or "outcome")."""
        codes, counts = np.unique(self._stratum(by), return_counts=True)
        return dict(zip(codes.tolist(), counts.tolist(), strict=True))

    def weight_by(self, by: str) -> dict[int, float]:
        """Total weight of each stratum."""
        codes, index = np.unique(self._stratum(by), return_inverse=True)
        return dict(zip(codes.tolist(), np.bincount(index, self._own()).tolist(), strict=True))

    def group_totals(self) -> tuple[Array, Array]:
        """Total weight and weighted sum of the outcomes of each group."""
        weights = self._own()
        total, outcome = (np.bincount(self._codes, w, self.groups).astype(float) for w in (weights, weights * self._y))
        return total, outcome

    def largest(self) -> Array:
        """The largest absolute value of each column."""
        self.count(self.size)
        found = np.empty((self._blocks, self.columns))

        def look(begin: int, end: int) -> None:
            for block in range(begin, end):
                part = self._x[:, block * self._length : (block + 1) * self._length]
                found[block] = np.maximum(part.max(1), -part.min(1))

        over_blocks(look, self._blocks, evaluations=self.size)
        return np.asarray(found.max(0))

    def expected(self, family: Family, theta: Array) -> Array:
        """The expected outcome of each row, times its weight."""
        mean = family.mean(self._predictors(theta)[0])
        return mean * self._weights if self._weights.size else mean

    def by_predictor(self, theta: Array) -> Sums:
        """Weights and outcomes of rows sorted by their linear predictor at theta."""
        return sums(self._predictors(theta)[0], self._y, self._weights)

    def by_spline(self, splines: Splines) -> Sums:
        """The same where the linear predictor is the mean of some splines."""
        return sums(self.mean_spline(splines), self._y, self._weights)

    def moved_by(self, directions: Array) -> Integers:
        """The rows whose linear predictor changes along any of some directions (p, f)."""
        self.count(self.size)
        starts = range(0, self.size, self._length)
        parts = [(directions.T @ self._x[:, start : start + self._length] != 0).any(0) for start in starts]
        return np.flatnonzero(np.concatenate(parts))

    def remainders(self, family: Tag, theta: Array, factor: Array) -> Remainders:
        """What an expansion at theta leaves out of each row, where theta has the covariance factor @ factor'."""
        self.count(2 * self.size)
        data = (self._x, self._y, self._weights, self._offset)
        return Remainders(family, *data, np.array(theta, dtype=float), factor, self._length, self.count)

    def proxies(self, proxies: Array, theta: Array) -> Urn:
        """Rows to be drawn in proportion to their weight times a proxy, with their linear predictors at theta."""
        weighted = proxies * self._weights if self._weights.size else proxies
        data = (self._x, self._y, self._offset)
        return Urn(weighted, proxies, *data, np.array(theta, dtype=float), self._length, self.count)

    def group_remainders(self, family: Tag, theta: Array, shares: Array, sd: Array, factor: Array) -> GroupRemainders:
        """The same where rows come in groups; shares, sd and factor are those of an `arrow`."""
        self.count(3 * self.size)
        data = (self._x, self._y, self._weights, self._offset, self._codes, self.starts)
        return GroupRemainders(family, *data, theta, shares, sd, factor, self._length, self._join_groups)

    def draw_effects(self, family: Tag, beta: Array, tau: Array, around: Array, rng: np.random.Generator) -> Array:
        """Effects of all groups (draws, groups), drawn given coefficients (draws, p) and tau; modes are `around`."""
        self.count(GIVEN * self.size * tau.size)
        out = np.empty((tau.size, self.groups))
        group_given.draw_effects(family.terms, *self._for_groups(family), beta, tau, around.copy(), rng, out)
        return out

    def log_integral(self, family: Tag, beta: Array, tau: Array, around: Array) -> Array:
        """Log-likelihood of coefficients (k, p) and tau (k,), the effects of all groups integrated out."""
        self.count(len(group_given.NODES) * self.size * tau.size)
        out = np.empty(tau.size)
        group_given.log_integral(family.terms, *self._for_groups(family), beta, tau, around.copy(), out)
        whole = np.concatenate([beta, np.zeros((tau.size, self.groups + 1))], axis=1)
        return self.linear(family, whole) + out

    def _for_groups(self, family: Tag) -> tuple[Any, ...]:
        slopes = self._linear[self.columns : -1] if family.canonical else np.zeros(self.groups)
        return self._x, self._y, self._offset, self._weights, self.starts, slopes

    def take(self, chosen: Integers) -> MemoryRows:
        """Some of the rows, with their weights."""
        self.count(chosen.size)
        return self._subset(chosen, self._own()[chosen])

    def units(self) -> Integers:
        """The row of each observation: whole weights tell how many a row stands for, otherwise each is one."""
        each = np.arange(self.size)
        return np.repeat(each, self._weights.astype(np.intp)) if self._weights.size and self._counted else each

    @cached_property
    def _counted(self) -> bool:
        """Whether weights are numbers of observations."""
        return not (self._weights.size and (self.total_weight > MOST_UNITS or (self._weights % 1).any()))

    def part(self, units: Integers) -> MemoryRows:
        """A shard: the rows of some of the `units`, with the weights that they have there."""
        counts = np.bincount(units, minlength=self.size)
        chosen = np.flatnonzero(counts)
        weights = counts[chosen].astype(float)
        if not self._counted:
            weights = self._weights[chosen]
        return self._subset(chosen, weights)

    def of_groups(self, groups: Integers) -> MemoryRows:
        """A shard: the rows of some groups, in ascending order, which get the numbers 0, 1, ... in it."""
        assert self._group is not None
        place = np.full(self.groups, -1)
        place[groups] = np.arange(groups.size)
        chosen = np.flatnonzero(place[self._codes] >= 0)
        weights = self._own()[chosen]
        return self._subset(chosen, weights, place)

    def rarest_level(self) -> tuple[Integers, NDArray[np.bool_]]:
        """Of each row the rarest column with only zeros and ones in which it has a one, or -1; and if its y is not 0.

        A column is rarer if the rows with a one in it weigh less.
        """
        own = self._own()
        binary = [j for j in range(self.columns) if ((self._x[j] == 0) | (self._x[j] == 1)).all()]
        weight = {j: float(own @ self._x[j]) for j in binary}
        level = np.full(self.size, -1)
        for j in sorted(binary, key=lambda j: -weight[j]):
            if weight[j] < own.sum():  # all rows have the intercept
                level[self._x[j] == 1] = j
        return level, self._y > 0

    def sample(
        self,
        size: int | Mapping[int, int],
        rng: np.random.Generator,
        by: str | None = None,
        weight: Array | None = None,
        cases: bool = False,
    ) -> MemoryRows:
        """A fixed subsample without replacement, weighted so that its sums estimate the sums over all rows.

        Rows are included with probability proportional to `weight` (default: the row's own weight), those with the
        largest weights for certain; the subsample's weights are those of the rows over these probabilities. `by`
        names a stratum column, or "outcome"; then `size` is what to take from each stratum: one number, or one per
        stratum code (a stratum not named is taken whole). With `cases`, rows with an outcome above zero are all taken
        besides.

        >>> rows = MemoryRows(x=np.ones((1, 1000)), y=np.arange(1000) % 10 == 0)
        >>> sub = rows.sample({0: 100}, np.random.default_rng(1), by="outcome")
        >>> sub.size, sub.total_weight
        (200, 1000.0)
        """
        own = self._own()
        measure = own if weight is None else weight
        if by is None:
            if isinstance(size, Mapping):
                raise TypeError("sizes by stratum need the stratum's column: sample(size, rng, by=...)")
            chosen, scale = systematic(np.arange(self.size), measure, size, rng)
        else:
            parts = []
            codes = self._stratum(by)
            for code in np.unique(codes):
                members = np.flatnonzero(codes == code)
                if cases:
                    parts.append((members[self._y[members] > 0], np.ones(int((self._y[members] > 0).sum()))))
                    members = members[self._y[members] == 0]
                take = size.get(int(code), members.size) if isinstance(size, Mapping) else size
                parts.append(systematic(members, measure, take, rng))
            chosen = np.concatenate([part[0] for part in parts])
            scale = np.concatenate([part[1] for part in parts])
        return self._subset(chosen, own[chosen] * scale)

    def pilot(self, size: int, rng: np.random.Generator) -> MemoryRows:
        """A quick weighted subsample for first guesses, half of it spent on rows in proportion to their outcome.

        Rows are laid end to end in the order they have, each as long as its share, and one is picked from each of equal
        stretches: not at equal distances, because data has periods.
        """
        self.count(size)
        own = self._own()
        measure = own * (self._y + max(float(own @ self._y / own.sum()), np.finfo(float).tiny))
        ends = np.cumsum(measure)
        distance = ends[-1] / size
        chosen = np.searchsorted(ends, (rng.random(size) + np.arange(size)) * distance).clip(max=self.size - 1)
        return self._subset(chosen, own[chosen] * distance / measure[chosen])

    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """Columns, outcomes, offsets and weights, for the compiled loop of a kernel that keeps a few rows."""
        return self._x, self._y, self._offset, self._weights

    def _subset(self, chosen: Integers, weights: Array, place: Integers | None = None) -> MemoryRows:
        """Some rows with new weights; where `place` gives groups a new number, those of the others are none."""
        strata = {name: codes[chosen] for name, codes in self._strata.items()}
        groups = self.groups
        if self._group is not None:  # whose rows stay together
            order = np.argsort(chosen, kind="stable")
            chosen, weights = chosen[order], weights[order]
            strata = {name: codes[order] for name, codes in strata.items()}
            if place is not None:
                strata[self._group], groups = place[strata[self._group]], int(place.max()) + 1
        return MemoryRows(
            self._x[:, chosen],
            self._y[chosen],
            None if (weights == 1).all() else weights,
            self._offset[chosen] if self._offset.size else None,
            strata,
            self._group,
            groups,
        )

    def _stratum(self, by: str) -> Integers:
        if by == "outcome":
            return self._y.astype(np.intp)
        if by not in self._strata:
            raise ValueError(f"no stratum {by!r} is kept with the rows; there are {['outcome', *self._strata]}")
        return self._strata[by]

    def _vectors(self, params: ArrayLike) -> Array:
        """Parameter vectors as rows of a contiguous array; compiled loops do not check their width."""
        params = np.ascontiguousarray(np.atleast_2d(params), dtype=float)
        if params.shape[1] != self.width:
            raise ValueError(f"a parameter vector has {params.shape[1]} entries, but these rows take {self.width}")
        return params

    def _predictors(self, params: ArrayLike) -> Array:
        params = self._vectors(params)
        self.count(self.size * len(params))
        eta = np.empty((len(params), self.size))
        data = (self._x, self._offset, self._codes, params, self._length, eta)
        over_blocks(passes.predictors, self._blocks, *data, evaluations=eta.size)
        return eta

    def _own(self) -> Array:
        """The weight of each row."""
        return self._weights if self._weights.size else np.ones(self.size)

    def _products(self, x: Array, v: Array) -> Array:
        """The product of every column with v."""
        sums = np.zeros((self._blocks, len(x)))
        over_blocks(passes.products, self._blocks, x, v, self._length, sums, evaluations=self.size)
        return in_order(sums)
