"""The arrays behind the door, in blocks of a fixed length: what tasks are given to work on, and nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tallbayes.data.once import once
from tallbayes.families import Tag
from tallbayes.families.terms import no_family
from tallbayes.rows import passes
from tallbayes.rows.passes import LENGTH, in_order, joined_groups
from tallbayes.rows.room import Room
from tallbayes.rows.threads import over_blocks

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

NONE: Array = np.empty(0)  # weights or offsets that are absent: compiled loops have one signature


class Outcomes(NamedTuple):
    """The sum of w_i y_i eta_i as a function of the parameters: all that a canonical family needs of the outcomes.

    It is the part of the log-likelihood that is linear in them (`families/terms.py`), and needs no pass.
    """

    slopes: Array  # (width,)
    constant: float
    weight: float  # of all rows
    total: float  # of the weighted outcomes

    @classmethod
    def of(
        cls, groups: int, slopes: Array, constants: Array, totals: Array, numbers: Integers, by_group: Array
    ) -> Outcomes:
        """From the sums of blocks."""
        found = in_order(slopes)
        if groups:
            found = np.concatenate([found, joined_groups(groups, numbers, by_group)[0], [0.0]])
        return cls(found, float(in_order(constants)[0]), *map(float, in_order(totals)))

    def linear(self, family: Tag, params: Array) -> Array:
        """Its value for each parameter vector; zero where the family is not canonical."""
        # Not `params @ slopes`: BLAS adds up a vector in an order that depends on its place among the others.
        return (params * self.slopes).sum(1) + self.constant if family.canonical else np.zeros(len(params))

    def slope(self, family: Tag) -> Array:
        """Its gradient."""
        return self.slopes if family.canonical else np.zeros(self.slopes.size)


@dataclass(frozen=True, eq=False)
class Arrays:
    """x (p, n) with one contiguous run a column, outcomes, and what else is known of each row.

    Rows may come in groups, with an effect each: `codes` has their numbers, in ascending order, so that a group's rows
    are contiguous. A parameter vector is then (coefficients, effects, log of the effects' sd); the last makes it the
    whole state of a chain, and does not touch the rows.
    """

    x: Array
    y: Array
    weights: Array  # empty: each row counts once
    offset: Array  # empty: nothing is added to the linear predictor
    strata: Mapping[str, NDArray[np.int64]]  # by name, the level of each row
    codes: NDArray[np.int32]  # empty: no groups
    groups: int
    block: int = 0  # number of the first block, where these are some of the blocks
    room: Room | None = None  # where these are mapped from scratch files, others can be too

    @classmethod
    def of(
        cls,
        x: ArrayLike,
        y: ArrayLike,
        weights: ArrayLike | None,
        offset: ArrayLike | None,
        strata: Mapping[str, ArrayLike],
        group: str | None,
        groups: int,
    ) -> Arrays:
        """What was given, as compiled loops want it: they know arrays that may be written to only."""
        columns, outcomes = (np.require(part, float, ["C", "W"]) for part in (x, y))
        size = columns.shape[1]
        own, added = (NONE if part is None else np.require(part, float, ["C", "W"]) for part in (weights, offset))
        kept = {name: np.ascontiguousarray(codes, dtype=np.int64) for name, codes in strata.items()}
        for name, values in [("y", outcomes), ("weights", own), ("offset", added), *kept.items()]:
            if values is not NONE and values.shape != (size,):
                raise ValueError(f"{name} has shape {values.shape}, but there are {size} rows")
        codes = np.empty(0, np.int32) if group is None else kept[group].astype(np.int32)
        if (np.diff(codes) < 0).any():
            raise ValueError("rows must be sorted by their group")
        return cls(columns, outcomes, own, added, kept, codes, groups)

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.y.size

    @property
    def columns(self) -> int:
        """Number of columns of the design."""
        return len(self.x)

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.size // LENGTH)

    @property
    def width(self) -> int:
        """Entries of a parameter vector."""
        return self.columns + (self.groups + 1 if self.groups else 0)

    @once
    def starts(self) -> Integers:
        """Where each group's rows begin, and where the last ends."""
        return np.searchsorted(self.codes, np.arange(self.groups + 1))

    def empty(self, *shape: int, dtype: DTypeLike = float) -> NDArray[Any]:
        """Space for numbers of all rows, which lies where the rows do: in memory, or in a scratch file."""
        return np.empty(shape, dtype) if self.room is None else self.room.scratch(shape, dtype)

    @property
    def own(self) -> Array:
        """The weight of each row."""
        return self.weights if self.weights.size else np.ones(self.size)

    def take(self, chosen: Integers) -> Arrays:
        """Some of the rows, in this order."""
        weights, offset = (part[chosen] if part.size else part for part in (self.weights, self.offset))
        codes = self.codes[chosen] if self.codes.size else self.codes
        strata = {name: level[chosen] for name, level in self.strata.items()}
        return Arrays(np.take(self.x, chosen, axis=1), self.y[chosen], weights, offset, strata, codes, self.groups)

    def run(self, start: int, stop: int) -> Arrays:
        """Copies of the rows start..stop."""
        x, part = self.x[:, start:stop].copy(), slice(start, stop)
        y, weights, offset = (one[part].copy() for one in (self.y, self.weights, self.offset))
        strata = {name: level[part].copy() for name, level in self.strata.items()}
        return Arrays(x, y, weights, offset, strata, self.codes[part].copy(), self.groups, start // LENGTH)

    def then(self, later: Arrays) -> Arrays:
        """These rows, and others of the same kind after them."""
        x = np.concatenate([self.x, later.x], axis=1)
        strata = {name: np.concatenate([level, later.strata[name]]) for name, level in self.strata.items()}
        names = ("y", "weights", "offset", "codes")
        y, weights, offset, codes = (np.concatenate([getattr(self, one), getattr(later, one)]) for one in names)
        return Arrays(x, y, weights, offset, strata, codes, self.groups)

    def parts(self, chosen: Integers) -> tuple[NDArray[Any], ...]:
        """Some of the rows as a task may answer them: copies that are joined along their first axis."""
        part = self.take(chosen)
        return np.ascontiguousarray(part.x.T), part.y, part.weights, part.offset, part.codes, *part.strata.values()

    @classmethod
    def joined(cls, parts: tuple[NDArray[Any], ...], names: Iterable[str], groups: int) -> Arrays:
        """The rows that such parts are together; `names` are those of the strata."""
        x, y, weights, offset, codes, *levels = parts
        return cls(
            np.ascontiguousarray(x.T), y, weights, offset, dict(zip(names, levels, strict=True)), codes, groups
        )  # fmt: skip

    def reweighted(self, weights: Array) -> Arrays:
        """The same rows with other weights; none if all of them are one."""
        return replace(self, weights=NONE if (weights == 1).all() else weights)

    def over_blocks(self, function: Callable[..., Any], *arguments: Any, looks: int = 1) -> None:
        """function(*arguments, begin, end) for runs of blocks that together are all; each row is looked at so often."""
        over_blocks(function, self.blocks, *arguments, evaluations=self.size * looks)

    def stratum(self, by: str) -> Integers:
        """The level of each row in a column kept with the rows, or in "outcome"."""
        if by == "outcome":
            return self.y.astype(np.intp)
        if by not in self.strata:
            raise ValueError(f"no stratum {by!r} is kept with the rows; there are {['outcome', *self.strata]}")
        return self.strata[by]

    def vectors(self, params: ArrayLike) -> Array:
        """Parameter vectors as rows of a contiguous array; compiled loops do not check their width."""
        return vectors(params, self.width)

    def predictors(self, params: Array, out: Array | None = None) -> Array:
        """Linear predictors (k, n) of parameter vectors (k, width), in `out` if that is given."""
        params = self.vectors(params)
        eta = self.empty(len(params), self.size) if out is None else out
        data = (no_family(), self.x, self.offset, self.codes, params, LENGTH, eta)
        self.over_blocks(passes.predictors, *data, looks=len(params))
        return eta

    @once
    def outcomes(self) -> Outcomes:
        """The part of the log-likelihood that is linear in the parameters."""
        return Outcomes.of(self.groups, *self.outcome_sums())

    def outcome_sums(self) -> tuple[Array, Array, Array, Integers, Array]:
        """Sums by blocks.

        They are products of the weighted outcomes with columns and with the offset, sums of weights and of weighted
        outcomes, and the latter by group.
        """
        weighted = self.y * self.weights if self.weights.size else self.y
        totals = totals_of(self.y, self.weights if self.weights.size else None)
        slopes, constants = np.zeros((self.blocks, self.columns)), np.zeros((self.blocks, 1))
        self.over_blocks(passes.products, self.x, weighted, LENGTH, slopes)
        if self.offset.size:
            self.over_blocks(passes.products, self.offset[None], weighted, LENGTH, constants)
        return slopes, constants, totals, *self.group_sums(weighted)

    def group_sums(self, *values: Array) -> tuple[Integers, Array]:
        """Sums of values of each row: what blocks have of groups, in the order of blocks, after the groups' numbers."""
        place, size = self.codes + np.arange(self.codes.size) // LENGTH, self.groups + self.blocks
        return self.by_group(np.array([np.bincount(place, each[: place.size], size) for each in values], dtype=float).T)

    def by_group(self, found: Array) -> tuple[Integers, Array]:
        """(groups + blocks, ...) -> what blocks have of groups, in the order of blocks, after these groups' numbers.

        Since codes ascend, the part of group g in block b had place g + b to itself.
        """
        numbers, places = [np.empty(0, np.intp)], [np.empty(0, np.intp)]
        for block in range(self.blocks if self.groups else 0):
            own = self.codes[block * LENGTH : (block + 1) * LENGTH]
            numbers.append(np.arange(own[0], own[-1] + 1))
            places.append(numbers[-1] + block)
        return np.concatenate(numbers), found[np.concatenate(places)]


def vectors(params: ArrayLike, width: int) -> Array:
    """Parameter vectors as rows of a contiguous array, refused if they have another width."""
    params = np.array(np.atleast_2d(params), dtype=float, order="C")
    if params.shape[1] != width:
        raise ValueError(f"a parameter vector has {params.shape[1]} entries, but these rows take {width}")
    return params


def totals_of(y: Array, weights: Array | None) -> Array:
    """Sums of weights and of weighted outcomes, by blocks."""
    parts = [slice(start, start + LENGTH) for start in range(0, y.size, LENGTH)]
    if weights is None:
        return np.array([(y[part].size, y[part].sum()) for part in parts], dtype=float).reshape(-1, 2)
    return np.array([(weights[part].sum(), (y[part] * weights[part]).sum()) for part in parts]).reshape(-1, 2)


def together(codes: NDArray[Any]) -> Integers:
    """The order that brings the rows of each level together, where they keep theirs; small numbers are sorted fastest.

    >>> together(np.array([1, 0, 1]))
    array([1, 0, 2])
    """
    small = codes.size == 0 or codes.max() < 1 << 16
    return np.argsort(codes.astype(np.uint16) if small else codes, kind="stable")
