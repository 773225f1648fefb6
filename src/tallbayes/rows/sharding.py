"""Shards: how observations are dealt out to the parts of a consensus.

Any partition is valid: the posterior is the product of the parts' posteriors, each with its share of the prior. But
combining draws treats those as Gaussian, and that is what a partition should help with. A level with 18 rows, spread
over 14 shards, leaves one or two of them to each: far from Gaussian everywhere. Kept together they are as near to it
as in the full data, and the other shards only have their share of the prior to say, which is Gaussian.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.memory import MemoryRows

Integers = NDArray[np.intp]

SHARDINGS = ("random", "stratified", "groups")
FEW_EVENTS = 10  # a shard: below that a level's rows stay together
FEWEST_GROUPS = 8  # a shard: below that their sd is hardly known


class Shard(NamedTuple):
    """A part of the rows."""

    rows: MemoryRows
    groups: Integers | None = None  # that it has, by their number in the full data


def deal(rows: MemoryRows, shards: int, how: str, rng: np.random.Generator) -> list[Shard]:
    """The rows in so many parts: at random, stratified, or by whole groups.

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
        return [Shard(rows.of_groups(part), part) for part in _deal_groups(np.diff(rows.starts), shards, rng)]
    units = rows.units()
    if units.size < shards:
        raise ValueError(f"{units.size} observations cannot be dealt to {shards} shards")
    numbers = _at_random(units.size, shards, rng)
    if how == "stratified":
        numbers = _stratified(rows, units, shards, rng)
    order = np.argsort(numbers, kind="stable")
    parts = np.split(units[order], np.searchsorted(numbers[order], np.arange(1, shards)))
    return [Shard(rows.part(part)) for part in parts]


def _at_random(count: int, shards: int, rng: np.random.Generator) -> Integers:
    """The shard of each unit, all shards having as many or one more."""
    return rng.permutation(np.arange(count) % shards)


def _stratified(rows: MemoryRows, units: Integers, shards: int, rng: np.random.Generator) -> Integers:
    """Each level dealt evenly, events and others apart; levels with few events stay together, in one shard each."""
    level, event = rows.rarest_level()
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
