"""Shards: how observations are dealt out to the parts of a consensus.

Any partition is valid: the posterior is the product of the parts' posteriors, each with its share of the prior. But
combining draws treats those as Gaussian, and that is what a partition should help with. A level with 18 rows, spread
over 14 shards, leaves one or two of them to each: far from Gaussian everywhere. Kept together they are as near to it
as in the full data, and the other shards only have their share of the prior to say, which is Gaussian.

Observations are shuffled in each block by itself, with random numbers of its own, and dealt in turn, going on where the
block before has ended. So shards have equally many, and a row's shard does not depend on where blocks lie.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_choice
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.generators import of_block
from tallbayes.rows.moments import ColumnMoments, Moments
from tallbayes.rows.passes import LENGTH, joined_groups
from tallbayes.rows.protocol import Rows, RowsAtHand
from tallbayes.rows.tasks import Once

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

SHARDINGS = ("random", "stratified", "groups")
FEW_EVENTS = 10  # a shard: below that a level's rows stay together
FEWEST_GROUPS = 8  # a shard: below that their sd is hardly known


class Shard(NamedTuple):
    """A part of the rows."""

    rows: RowsAtHand
    groups: Integers | None = None  # that it has, by their number in the full data


def deal(rows: RowsAtHand, shards: int, how: str, rng: np.random.Generator) -> list[Shard]:
    """The rows in so many parts: at random, stratified, or by whole groups.

    >>> from tallbayes.rows.memory import MemoryRows
    >>> rows = MemoryRows(x=np.ones((1, 10)), y=np.arange(10) % 2)
    >>> [shard.rows.size for shard in deal(rows, 3, "random", np.random.default_rng(1))]
    [4, 3, 3]
    """
    check_choice("sharding", how, SHARDINGS)
    if (how == "groups") != bool(rows.groups):
        raise ValueError(
            "sharding 'groups' is for formulas with a group term such as (1 | bank)"
            if how == "groups"
            else f"sharding {how!r} would tear groups apart; with a group term it is 'groups'"
        )
    if how == "groups":
        if rows.groups < FEWEST_GROUPS * shards:
            raise ValueError(
                f"{rows.groups} groups in {shards} shards are too few: a shard with less than {FEWEST_GROUPS} groups "
                "knows so little of their standard deviation that combining shards goes wrong; use at most "
                f"{max(1, rows.groups // FEWEST_GROUPS)} shards, or another method"
            )
        whole = WholeGroups.of(rows.reduce(GroupSizes()), shards, rng)
        return [Shard(*pair) for pair in zip(rows.parted(shards, whole.split), whole.groups, strict=True)]
    if how == "stratified":
        counted, moments = rows.reduce_all((Counted(), None), (ColumnMoments(), None))
        units = Units(shards, counted, True, _levels(moments))
    else:
        units = Units(shards, rows.reduce(Counted()), False, ())
    turns = Turns.of(units, rows.reduce(Census(units)), int(rng.integers(2**63)))
    return [Shard(part) for part in rows.parted(shards, turns.split)]


@dataclass(frozen=True)
class WholeGroups:
    """A way to deal: the groups of each shard, in ascending order, which get the numbers 0, 1, ... there."""

    groups: list[Integers]
    shard: Integers  # of each group
    place: NDArray[np.int32]  # of each group in its shard

    @classmethod
    def of(cls, sizes: Array, shards: int, rng: np.random.Generator) -> WholeGroups:
        """Groups of like size to different shards, so that all have about as many groups and rows."""
        numbers = np.concatenate([rng.permutation(shards) for _ in range(-(-sizes.size // shards))])[: sizes.size]
        order = np.argsort(-sizes, kind="stable")
        groups = [np.sort(order[numbers == one]) for one in range(shards)]
        shard, place = np.empty(sizes.size, np.intp), np.empty(sizes.size, np.int32)
        for number, own in enumerate(groups):
            shard[own], place[own] = number, np.arange(own.size)
        return cls(groups, shard, place)

    def split(self, arrays: Arrays, numbers: range) -> list[Arrays]:
        """See `RowsAtHand.parted`."""
        shard, parts = self.shard[arrays.codes], []
        for number in numbers:
            part = arrays.take(np.flatnonzero(shard == number))
            parts.append(replace(part, codes=self.place[part.codes], groups=self.groups[number].size))
        return parts


@dataclass(frozen=True)
class GroupSizes(Once):
    """A task: the number of rows of each group."""

    def over(self, arrays: Arrays, params: Array) -> tuple[NDArray[Any], ...]:
        """See `Task`."""
        return arrays.group_sums(np.ones(arrays.size))

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> Array:
        """See `Task`."""
        return np.asarray(joined_groups(rows.groups, *parts)[0])


@dataclass(frozen=True)
class Counted(Once):
    """A task: whether weights are whole, and so numbers of observations."""

    def over(self, arrays: Arrays, params: Array) -> tuple[NDArray[Any], ...]:
        """See `Task`."""
        starts = range(0, arrays.weights.size, LENGTH)
        return (np.array([not any((arrays.weights[start : start + LENGTH] % 1).any() for start in starts)]),)

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> bool:
        """See `Task`."""
        return bool(parts[0].all())


def _levels(moments: Moments) -> tuple[int, ...]:
    """Columns with only zeros and ones, but for the intercept; the rarer ones are later."""
    binary = np.flatnonzero(moments.two & (moments.low == 0) & (moments.high == 1))
    return tuple(binary[np.argsort(-moments.mean[binary], kind="stable")].tolist())


@dataclass(frozen=True)
class Units:
    """What is dealt of each row: observations, if weights count them, else the row as a whole.

    A row of many observations gives equally many to all shards, and what is left of them is dealt. Strata are the
    rarest of some levels that a row has, or none, and whether its outcome is above zero.
    """

    shards: int
    counted: bool
    stratified: bool
    levels: tuple[int, ...]

    @property
    def strata(self) -> int:
        """Their number: of each level, and of no level, the rows without an event and those with one."""
        return 2 * (1 + len(self.levels)) if self.stratified else 1

    def of(self, arrays: Arrays, part: slice) -> tuple[Integers, Integers]:
        """Stratum and number of units of each row."""
        size = arrays.y[part].size
        stratum, units = np.zeros(size, np.intp), np.ones(size, np.intp)
        for place, column in enumerate(self.levels, 1):
            stratum[arrays.x[column, part] == 1] = place
        if self.stratified:
            stratum = 2 * stratum + (arrays.y[part] > 0)
        if self.counted and arrays.weights.size:
            units = arrays.weights[part].astype(np.intp)
        return stratum, units


@dataclass(frozen=True)
class Census(Once):
    """A task: units in each block and stratum, and those that are left when every shard has its part of each row."""

    units: Units

    def over(self, arrays: Arrays, params: Array) -> tuple[NDArray[Any], ...]:
        """See `Task`."""
        found = np.empty((arrays.blocks, 2, self.units.strata), np.intp)
        for block in range(arrays.blocks):
            stratum, units = self.units.of(arrays, slice(block * LENGTH, (block + 1) * LENGTH))
            for each, number in enumerate((units, units % self.units.shards)):
                found[block, each] = np.bincount(stratum, number, self.units.strata)
        return (found,)

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> Integers:
        """See `Task`: (blocks, 2, strata)."""
        return np.asarray(parts[0])


@dataclass(frozen=True)
class Turns:
    """A way to deal: one after the other, each stratum by itself, but some strata to one shard."""

    units: Units
    home: Integers  # (strata,) the shard to which all go, or -1
    first: Integers  # (blocks, strata) the turn at which a block begins
    key: int

    @classmethod
    def of(cls, units: Units, census: Integers, key: int) -> Turns:
        """Each level is dealt evenly, events and others apart; those with few events stay together."""
        shards, (total, left) = units.shards, census.sum(0)
        if total.sum() < shards:
            raise ValueError(f"{total.sum()} observations cannot be dealt to {shards} shards")
        home, homes = np.full(units.strata, -1), 0
        for place in range(1, 1 + len(units.levels)):
            pair = slice(2 * place, 2 * place + 2)
            if total[pair].min() < FEW_EVENTS * shards and 0 < total[pair].sum() <= total.sum() // shards:
                home[pair] = homes % shards
                homes += 1
        by_block = np.where(home < 0, census[:, 1], 0)
        left = by_block.sum(0)
        first = homes + np.cumsum(left) - left + np.cumsum(by_block, axis=0) - by_block
        return cls(units, home, first, key)

    def split(self, arrays: Arrays, numbers: range) -> list[Arrays]:
        """See `RowsAtHand.parted`."""
        chosen: list[list[Integers]] = [[] for _ in numbers]
        counts: list[list[Integers]] = [[] for _ in numbers]
        for block in range(arrays.blocks):
            dealt = self._block(arrays, block)
            for number, rows, own in zip(numbers, chosen, counts, strict=True):
                some = np.flatnonzero(dealt[number])
                rows.append(block * LENGTH + some)
                own.append(dealt[number, some])
        parts = [arrays.take(np.concatenate(rows)) for rows in chosen]
        if not (self.units.counted and arrays.weights.size):
            return parts
        return [
            replace(part, weights=np.concatenate(own).astype(float)) for part, own in zip(parts, counts, strict=True)
        ]

    def _block(self, arrays: Arrays, block: int) -> Integers:
        """How many units of each row every shard gets, (shards, rows)."""
        shards, rng = self.units.shards, of_block((self.key, 0), arrays.block + block)
        stratum, units = self.units.of(arrays, slice(block * LENGTH, (block + 1) * LENGTH))
        size, home = units.size, self.home[stratum]
        left = rng.permutation(np.repeat(np.arange(size), np.where(home < 0, units % shards, 0)))
        left = left[np.argsort(stratum[left], kind="stable")]
        order = stratum[left]
        turn = self.first[arrays.block + block][order] + np.arange(left.size) - np.searchsorted(order, order)
        dealt = np.bincount(turn % shards * size + left, minlength=shards * size).reshape(shards, size)
        dealt += np.where(home < 0, units // shards, 0)
        together = np.flatnonzero(home >= 0)
        dealt[home[together], together] = units[together]
        return dealt
