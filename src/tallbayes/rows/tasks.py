"""Tasks: questions to all rows, each a small frozen value, and measures of each row (`protocol.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families import Family, Tag
from tallbayes.rows import passes
from tallbayes.rows.arrays import Arrays, Outcomes
from tallbayes.rows.passes import LENGTH, in_order, joined_groups
from tallbayes.rows.protocol import Rows

Array = NDArray[np.float64]
Parts = tuple[NDArray[Any], ...]

DEFENSIVE = 0.1  # part of the mean outcome that every row's measure gets, so that no weight is out of bounds


class Derivatives(NamedTuple):
    """Value, gradient and minus the curvature of the log-likelihood, for each of k parameter vectors.

    Where rows come in groups, gradient and curvature are those of the coefficients, and `by_group` has for each group's
    effect minus the mixed derivatives with the coefficients, the first derivative, and minus the second.
    """

    value: Array  # (k,)
    gradient: Array  # (k, p)
    curvature: Array  # (k, p, p)
    by_group: Array | None = None  # (k, groups, p + 2)


@dataclass(frozen=True)
class _EachVector:
    """A question about each parameter vector."""

    family: Tag

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return len(params)


@dataclass(frozen=True)
class LogLikelihood(_EachVector):
    """The log-likelihood of each parameter vector."""

    def over(self, arrays: Arrays, params: Array) -> Parts:
        """See `Task`."""
        values = np.empty((arrays.blocks, len(params)))
        arrays.over_blocks(passes.values, *_terms_of(self.family, arrays, params), values, looks=len(params))
        return (values,)

    def answer(self, parts: Parts, params: Array, rows: Rows) -> Array:
        """See `Task`."""
        return np.asarray(rows.outcomes.linear(self.family, params) + in_order(parts[0]))


@dataclass(frozen=True)
class LogLikelihoodDerivatives(_EachVector):
    """The log-likelihood of each parameter vector, with gradient and curvature."""

    def over(self, arrays: Arrays, params: Array) -> Parts:
        """See `Task`; what blocks have of groups comes with the groups' numbers."""
        blocks, k, p = arrays.blocks, len(params), arrays.columns
        values, gradients, lower = np.zeros((blocks, k)), np.zeros((blocks, k, p)), np.zeros((blocks, k, p, p))
        by_group = np.zeros((arrays.groups + blocks if arrays.codes.size else 0, k, p + 2))
        data = (*_terms_of(self.family, arrays, params), values, gradients, lower, by_group)
        arrays.over_blocks(passes.derivatives, *data, looks=k)
        return values, gradients, lower, *arrays.by_group(by_group)

    def answer(self, parts: Parts, params: Array, rows: Rows) -> Derivatives:
        """See `Task`."""
        values, gradients, lower, groups, by_group = parts
        p, curvature = rows.columns, in_order(lower)
        curvature += np.tril(curvature, -1).transpose(0, 2, 1)
        slope = rows.outcomes.slope(self.family)
        value = rows.outcomes.linear(self.family, params) + in_order(values)
        found = Derivatives(value, slope[:p] + in_order(gradients), curvature)
        if not rows.groups:
            return found
        joined = joined_groups(rows.groups, groups, by_group)
        joined[..., p] += slope[p:-1]
        return found._replace(by_group=joined)


def _terms_of(family: Tag, arrays: Arrays, params: Array) -> tuple[Any, ...]:
    data = (arrays.x, arrays.y, arrays.offset, arrays.weights, arrays.codes)
    return family.terms, *data, params, LENGTH


class Once:
    """A question without parameters."""

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return 1


@dataclass(frozen=True)
class OutcomeSums(Once):
    """The part of the log-likelihood that is linear in the parameters."""

    def over(self, arrays: Arrays, params: Array) -> Parts:
        """See `Task`."""
        return arrays.outcome_sums()

    def answer(self, parts: Parts, params: Array, rows: Rows) -> Outcomes:
        """See `Task`."""
        return Outcomes.of(rows.groups, *parts)


@dataclass(frozen=True)
class Levels(Once):
    """Rows of each level of a column kept with the rows, or of "outcome": how many, their weight, and outcomes."""

    by: str

    def over(self, arrays: Arrays, params: Array) -> Parts:
        """See `Task`."""
        stratum, own, found, totals = arrays.stratum(self.by), arrays.own, [], []
        for start in range(0, arrays.size, LENGTH):
            part = slice(start, start + LENGTH)
            codes, index = np.unique(stratum[part], return_inverse=True)
            sums = [np.bincount(index, each) for each in (None, own[part], own[part] * arrays.y[part])]
            found.append(codes)
            totals.append(np.array(sums, dtype=float).T)
        return np.concatenate(found), np.concatenate(totals)

    def answer(self, parts: Parts, params: Array, rows: Rows) -> dict[int, Level]:
        """See `Task`."""
        codes, index = np.unique(parts[0], return_inverse=True)
        joined = np.zeros((codes.size, 3))
        np.add.at(joined, index, parts[1])
        return {int(code): Level(int(sums[0]), *map(float, sums[1:])) for code, sums in zip(codes, joined, strict=True)}


class Level(NamedTuple):
    """What the rows of a level come to."""

    rows: int
    weight: float
    outcome: float  # sum of the weighted outcomes


@dataclass(frozen=True)
class GroupTotals(Once):
    """Total weight and weighted sum of the outcomes (2, groups) of each group."""

    def over(self, arrays: Arrays, params: Array) -> Parts:
        """See `Task`."""
        return arrays.group_sums(arrays.own, arrays.own * arrays.y)

    def answer(self, parts: Parts, params: Array, rows: Rows) -> Array:
        """See `Task`."""
        return joined_groups(rows.groups, *parts)


@dataclass(frozen=True)
class Moved(Once):
    """The number of rows whose linear predictor changes along any of some `directions` (p, f)."""

    directions: Array

    def over(self, arrays: Arrays, params: Array) -> Parts:
        """See `Task`."""
        return (moved(arrays, self.directions).sum(keepdims=True),)

    def answer(self, parts: Parts, params: Array, rows: Rows) -> int:
        """See `Task`."""
        return int(parts[0].sum())


def moved(arrays: Arrays, directions: Array) -> NDArray[np.bool_]:
    """Whether each row's linear predictor changes along any of some directions (p, f)."""
    found = np.zeros(arrays.size, bool)
    for start in range(0, arrays.size, LENGTH):
        part = slice(start, start + LENGTH)
        found[part] = (directions.T @ arrays.x[:, part] != 0).any(0)
    return found


@dataclass(frozen=True)
class Fitted:
    """A measure: the expected outcome at theta, and for every row a part of the mean outcome."""

    family: Family
    theta: Array
    outcome: float  # mean of all rows
    looks = 1

    def of(self, arrays: Arrays) -> Array:
        """See `Measure`."""
        return np.asarray(self.family.mean(arrays.predictors(self.theta[None])[0]) + DEFENSIVE * self.outcome)
