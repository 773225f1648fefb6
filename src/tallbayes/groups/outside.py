"""All rows of the groups that have left their balls, for rows that are not in memory: they are read, and only they."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled
from tallbayes.groups.moves import HERE, THERE
from tallbayes.groups.remainders import GroupBounds
from tallbayes.groups.thinned_loop import Place, difference
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.passes import CHUNK, LENGTH
from tallbayes.rows.protocol import RowsAtHand

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

MOST_ROWS = 8 * LENGTH  # that are read at once


@compiled()
def _add_changes(terms, x, y, weights, eta, bounds, codes, first, last, deltas, d, changes):
    """Add the differences of the remainders of the rows first..last to the changes of their groups; returns how many.

    Rows that are always evaluated, whose bounds are infinite, are left out.
    """
    count = 0
    for i in range(first, last):
        if bounds[i] != 0.0 and bounds[i] < np.inf:
            g = codes[i]
            change = difference(terms, x, y, eta, i, deltas[HERE], d[HERE, g], deltas[THERE], d[THERE, g])
            changes[g] += change * weights[i] if weights.size > 0 else change
            count += 1
    return count


def evaluate(
    rows: RowsAtHand, bounds: GroupBounds, starts: Integers, groups: Integers, place: Place, changes: Array
) -> None:
    """Fill in what the rows of some groups that can be drawn add to the log ratio of what is proposed.

    Groups are given by their numbers, in ascending order, and `starts` (k + 1,) is where each one's rows begin.
    """
    d = place.e - place.shift
    changes[groups] = 0.0
    for start, stop in _runs(starts[groups], starts[groups + 1]):
        arrays, first, last = fetch(rows, start, stop)
        eta, found = bounds.expanded(arrays)
        count = _add_changes(
            bounds.expansion.family.terms, arrays.x, arrays.y, arrays.weights, eta, found, arrays.codes, first, last,
            place.delta, d, changes,
        )  # fmt: skip
        rows.count(2 * count + bounds.looks * arrays.size)


def fetch(rows: RowsAtHand, start: int, stop: int) -> tuple[Arrays, int, int]:
    """The rows start..stop and some around them, and where they begin and end there.

    These are whole chunks, as in a pass: rounding differs between a row in the middle of a chunk and one at its end,
    and a row that was just within the bounds must not be found just outside.
    """
    low, high = start - start % CHUNK, min(rows.size, stop + -stop % CHUNK)
    return rows.run(low, high), start - low, stop - low


def _runs(starts: Integers, stops: Integers) -> Iterator[tuple[int, int]]:
    """Rows that follow each other, cut where they are too many.

    >>> list(_runs(np.array([0, 10, 30]), np.array([10, 20, 40])))
    [(0, 20), (30, 40)]
    """
    begins = np.flatnonzero(np.append(True, starts[1:] != stops[:-1]))
    for begin, end in zip(starts[begins].tolist(), stops[np.append(begins[1:], starts.size) - 1].tolist(), strict=True):
        for low in range(begin - begin % MOST_ROWS, end, MOST_ROWS):
            yield max(begin, low), min(end, low + MOST_ROWS)
