"""Rows of a store brought together by their groups, with as much memory as there is.

Groups are taken range by range, as many as memory has room for: a pass over the store finds the rows of a range, and
they are sorted in memory and written, chunk by chunk. Rows of a group keep their order.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.arrays import Arrays, together
from tallbayes.rows.duplicates import Columns
from tallbayes.rows.store import CHUNK_ROWS, Store
from tallbayes.rows.threads import in_turns

SHARE = 3  # of the memory for the rows that are sorted at a time: they are held twice, and some chunks besides


def sorted_by_group(store: Store, memory: int) -> Iterator[Columns]:
    """The rows in ascending order of their groups, some of them at a time."""
    group = store.fields.group
    assert group is not None
    sizes, adding = np.zeros(store.fields.groups, np.int64), threading.Lock()
    codes = store.fields.strata[group]

    def tally(chunk: int) -> None:
        numbers = np.empty(store.size(chunk))
        store.column(chunk, codes, numbers)
        own = np.bincount(numbers.astype(np.intp), minlength=sizes.size)
        with adding:
            np.add(sizes, own, out=sizes)

    in_turns(tally, store.chunks)
    most = max(1, memory // (SHARE * 8 * store.fields.count))
    for first, last in ranges(sizes, most):
        yield from _sorted(store, group, first, last)


def _sorted(store: Store, group: str, first: int, last: int) -> Iterator[Columns]:
    """The rows of a range of groups, a chunk at a time."""
    found: list[Columns] = [None] * store.chunks  # type: ignore[list-item]

    def pick(chunk: int) -> None:
        arrays = store.piece(chunk)
        found[chunk] = as_columns(arrays, np.flatnonzero((arrays.codes >= first) & (arrays.codes < last)))

    in_turns(pick, store.chunks)
    rows = Columns.joined(found)
    found.clear()  # they would be held a third time
    order = together(rows.strata[group])
    for start in range(0, order.size, CHUNK_ROWS):
        yield rows.take(order[start : start + CHUNK_ROWS])


def ranges(sizes: NDArray[np.int64], most: int) -> list[tuple[int, int]]:
    """Runs of groups, first and behind the last, that have at most so many rows or are one group only.

    >>> ranges(np.array([3, 2, 4, 9, 1]), 6)
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    found, first, held = [], 0, 0
    for group, size in enumerate(sizes.tolist()):
        if group > first and held + size > most:
            found.append((first, group))
            first, held = group, 0
        held += size
    return [*found, (first, sizes.size)]


def as_columns(arrays: Arrays, chosen: NDArray[np.intp]) -> Columns:
    """Some rows of arrays."""
    part = arrays.take(chosen)
    weights = part.weights if arrays.weights.size else None
    offset = part.offset if arrays.offset.size else None
    return Columns(part.x, part.y, weights, offset, part.strata)


def taken_from(store: Store, rows: NDArray[np.intp]) -> Iterator[Columns]:
    """Some rows of a store, in ascending order."""
    chunks = rows // CHUNK_ROWS
    for chunk in np.unique(chunks).tolist():
        yield as_columns(store.piece(chunk), rows[chunks == chunk] - chunk * CHUNK_ROWS)
