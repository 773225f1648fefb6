"""Fingerprints of rows: one number for each column, by which changed data are noticed, and where they have changed.

The bits of a block's numbers, each multiplied by an odd number of its own, are added up modulo 2^64: any change of one
number changes the sum, and so do two numbers that trade places. Sums of blocks are joined in their order.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.protocol import Rows

Array = NDArray[np.float64]

FACTORS = np.random.default_rng(0).integers(0, 2**63, LENGTH, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


@dataclass(frozen=True)
class Fingerprint:
    """A task: the fingerprints of all columns by name, "1" being the first column of the design.

    >>> from tallbayes.rows.memory import MemoryRows
    >>> rows = MemoryRows(x=[[1.0, 1.0], [0.5, 2.0]], y=[0.0, 1.0])
    >>> sorted(rows.reduce(Fingerprint()))
    ['1', '2', 'outcome']
    """

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return 1

    def over(self, arrays: Arrays, params: Array) -> tuple[NDArray[Any], ...]:
        """See `Task`."""
        others: list[NDArray[Any]] = [arrays.y, arrays.weights, arrays.offset, arrays.codes, *arrays.strata.values()]
        return tuple(_of_columns(arrays, columns) for columns in (arrays.x, *(one[None] for one in others)))

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> dict[str, int]:
        """See `Task`."""
        design = [str(number + 1) for number in range(rows.columns)]
        names = [*design, "outcome", "weights", "offset", "groups", *rows.strata]
        columns = [sums for part in parts for sums in part.T]
        return {name: zlib.crc32(sums.tobytes()) for name, sums in zip(names, columns, strict=True) if sums.size}


def _of_columns(arrays: Arrays, columns: NDArray[Any]) -> NDArray[np.uint64]:
    """A number for each block of each column; none of an absent one."""
    if columns.size == 0:
        return np.empty((0, len(columns)), np.uint64)
    found = np.empty((arrays.blocks, len(columns)), np.uint64)
    bits = (columns if columns.dtype.itemsize == 8 else columns.astype(np.int64)).view(np.uint64)
    arrays.over_blocks(_add_up, bits, FACTORS, LENGTH, found)
    return found


@compiled()
def _add_up(bits, factors, length, found, begin, end):
    for block in range(begin, end):
        start = block * length
        for j in range(bits.shape[0]):
            column, total = bits[j, start : start + length], np.uint64(0)
            for i in range(column.size):
                total += column[i] * factors[i]
            found[block, j] = total
