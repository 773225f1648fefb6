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
        others = (arrays.y, arrays.weights, arrays.offset, arrays.codes, *arrays.strata.values())
        return tuple(_sums(column) for column in (*arrays.x, *others))

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> dict[str, int]:
        """See `Task`."""
        design = [str(number + 1) for number in range(rows.columns)]
        names = [*design, "outcome", "weights", "offset", "groups", *rows.strata]
        return {name: zlib.crc32(sums.tobytes()) for name, sums in zip(names, parts, strict=True) if sums.size}


def _sums(column: NDArray[Any]) -> NDArray[np.uint64]:
    """A number for each block."""
    bits = column.view(np.uint64) if column.dtype.itemsize == 8 else column.astype(np.int64).view(np.uint64)
    starts = range(0, bits.size, LENGTH)
    return np.array([(bits[at : at + LENGTH] * FACTORS[: bits.size - at]).sum() for at in starts], np.uint64)
