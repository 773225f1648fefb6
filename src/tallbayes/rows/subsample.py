"""Samples of rows: without replacement, with probabilities in proportion to a measure; and a quick look at some."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.arrays import Arrays

Array = NDArray[np.float64]
Integers = NDArray[np.intp]


def scattered(rows: int, most: int, rng: np.random.Generator) -> Integers:
    """At most so many of the rows, in ascending order, each with the same probability.

    One is drawn from each of equal stretches. Every so-many-th row would be quicker to take, but data has periods: a
    pattern that repeats with the rows could hide from it altogether.

    >>> scattered(10, 5, np.random.default_rng(1)).size, scattered(3, 5, np.random.default_rng(1)).tolist()
    (5, [0, 1, 2])
    """
    if rows <= most:
        return np.arange(rows)
    places = (np.arange(most) + rng.random(most)) * (rows / most)
    return np.minimum(places.astype(np.intp), rows - 1)


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


def stratified(
    arrays: Arrays,
    measure: Array,
    size: int | Mapping[int, int],
    rng: np.random.Generator,
    by: str | None,
    cases: bool,
) -> Arrays:
    """Rows drawn in proportion to a measure, from each level of a stratum if there is one; see `MemoryRows.sample`."""
    if by is None and isinstance(size, Mapping):
        raise TypeError("sizes by stratum need the stratum's column: sample(size, rng, by=...)")
    parts, codes = [], np.zeros(arrays.size, np.intp) if by is None else arrays.stratum(by)
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        if cases:
            events = members[arrays.y[members] > 0]
            parts.append((events, np.ones(events.size)))
            members = members[arrays.y[members] == 0]
        take = size.get(int(code), members.size) if isinstance(size, Mapping) else size
        parts.append(systematic(members, measure, take, rng))
    return _weighed(arrays, *(np.concatenate([part[side] for part in parts]) for side in (0, 1)))


def _weighed(arrays: Arrays, chosen: Integers, scale: Array) -> Arrays:
    """Some rows, their weights multiplied; those of groups stay together."""
    if arrays.codes.size:
        order = np.argsort(chosen, kind="stable")
        chosen, scale = chosen[order], scale[order]
    part = arrays.take(chosen)
    return part.reweighted(part.own * scale)
