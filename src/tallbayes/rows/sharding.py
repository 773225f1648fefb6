"""Shards: how observations are dealt out to the parts of a consensus.

Any partition is valid: the posterior is the product of the parts' posteriors, each with its share of the prior. But
combining draws treats those as Gaussian, and that is what a partition should help with. A level with 18 rows, spread
over 14 shards, leaves one or two of them to each: far from Gaussian everywhere. Kept together they are as near to it
as in the full data, and the other shards only have their share of the prior to say, which is Gaussian.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.arrays import Arrays
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.protocol import Count, RowsAtHand

Integers = NDArray[np.intp]

SHARDINGS = ("random", "stratified", "groups")
FEW_EVENTS = 10  # a shard: below that a level's rows stay together
FEWEST_GROUPS = 8  # a shard: below that their sd is hardly known
MOST_UNITS = 100_000_000  # observations that are told apart where rows stand for many


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
    if how not in SHARDINGS:
        raise ValueError(f"sharding {how!r} is not known; choose one of {', '.join(SHARDINGS)}")
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
        return rows.keep(_by_groups, shards, rng)
    return rows.keep(_by_units, shards, how == "stratified", rng)


def _by_groups(arrays: Arrays, count: Count, shards: int, rng: np.random.Generator) -> list[Shard]:
    """Whole groups."""
    parts = _deal_groups(np.diff(arrays.starts), shards, rng)
    return [Shard(MemoryRows.of(_of_groups(arrays, part)), part) for part in parts]


def _by_units(arrays: Arrays, count: Count, shards: int, stratified: bool, rng: np.random.Generator) -> list[Shard]:
    """Single observations."""
    units = _units(arrays)
    if units.size < shards:
        raise ValueError(f"{units.size} observations cannot be dealt to {shards} shards")
    numbers = _at_random(units.size, shards, rng)
    if stratified:
        numbers = _stratified(arrays, units, shards, rng)
    order = np.argsort(numbers, kind="stable")
    parts = np.split(units[order], np.searchsorted(numbers[order], np.arange(1, shards)))
    return [Shard(MemoryRows.of(_part(arrays, part))) for part in parts]


def _counted(arrays: Arrays) -> bool:
    """Whether weights are numbers of observations."""
    return not (arrays.weights.size and (arrays.weights.sum() > MOST_UNITS or (arrays.weights % 1).any()))


def _units(arrays: Arrays) -> Integers:
    """The row of each observation: whole weights tell how many a row stands for, otherwise each is one."""
    each = np.arange(arrays.size)
    return np.repeat(each, arrays.weights.astype(np.intp)) if arrays.weights.size and _counted(arrays) else each


def _part(arrays: Arrays, units: Integers) -> Arrays:
    """The rows of some of the units, with the weights that they have there."""
    counts = np.bincount(units, minlength=arrays.size)
    chosen = np.flatnonzero(counts)
    part = arrays.take(chosen)
    return part.reweighted(counts[chosen].astype(float) if _counted(arrays) else part.own)


def _of_groups(arrays: Arrays, groups: Integers) -> Arrays:
    """The rows of some groups, in ascending order, which get the numbers 0, 1, ... there."""
    place = np.full(arrays.groups, -1, np.int32)
    place[groups] = np.arange(groups.size)
    part = arrays.take(np.flatnonzero(place[arrays.codes] >= 0))
    return replace(part, codes=place[part.codes], groups=groups.size)


def _rarest_level(arrays: Arrays) -> tuple[Integers, NDArray[np.bool_]]:
    """Of each row the rarest column with only zeros and ones in which it has a one, or -1; and if its y is not 0.

    A column is rarer if the rows with a one in it weigh less.
    """
    own, x = arrays.own, arrays.x
    binary = [j for j in range(arrays.columns) if ((x[j] == 0) | (x[j] == 1)).all()]
    weight = {j: float(own @ x[j]) for j in binary}
    level = np.full(arrays.size, -1)
    for j in sorted(binary, key=lambda j: -weight[j]):
        if weight[j] < own.sum():  # all rows have the intercept
            level[x[j] == 1] = j
    return level, arrays.y > 0


def _at_random(count: int, shards: int, rng: np.random.Generator) -> Integers:
    """The shard of each unit, all shards having as many or one more."""
    return rng.permutation(np.arange(count) % shards)


def _stratified(arrays: Arrays, units: Integers, shards: int, rng: np.random.Generator) -> Integers:
    """Each level dealt evenly, events and others apart; levels with few events stay together, in one shard each."""
    level, event = _rarest_level(arrays)
    level, event = level[units], event[units]
    numbers, nowhere = np.full(units.size, -1), level < 0
    home = 0
    for one in np.unique(level[~nowhere]):
        members = level == one
        events = int(event[members].sum())
        fewer = min(events, int(members.sum()) - events)
        if fewer < FEW_EVENTS * shards and members.sum() <= units.size // shards:
            numbers[members] = home % shards
            home += 1
    left = np.flatnonzero(numbers < 0)
    shuffled = rng.permutation(left)
    ordered = shuffled[np.lexsort([event[shuffled], level[shuffled]])]
    numbers[ordered] = (np.arange(left.size) + home) % shards
    return numbers


def _deal_groups(sizes: Integers, shards: int, rng: np.random.Generator) -> list[Integers]:
    """Groups of like size to different shards, so that all have about as many groups and rows."""
    numbers = np.concatenate([rng.permutation(shards) for _ in range(-(-sizes.size // shards))])[: sizes.size]
    order = np.argsort(-sizes, kind="stable")
    return [np.sort(order[numbers == one]) for one in range(shards)]
