"""Columns of numbers with few different values, stored as short codes, without loss.

Numbers of the real world repeat: ages, prices, zeros and ones. A column's palette lists its values in the order in
which they first come, and a number is stored as its place there: one byte as long as there are at most 256 of them, two
up to 65,536, and from there on numbers are stored as they are. What is read back are the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled

Array = NDArray[np.float64]

MOST = 1 << 16  # values of a palette
SLOTS = 1 << 18  # of its hash table
SPREAD = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio


class Palette:
    """The values of a column so far.

    >>> palette = Palette()
    >>> palette.encode(np.array([7.0, 5.0, 7.0])), palette.encode(np.array([5.0, 5.0]))
    (array([0, 1, 0], dtype=uint8), array([1], dtype=uint8))
    >>> palette.values
    array([7., 5.])
    """

    def __init__(self) -> None:
        self._keys, self._places = np.zeros(SLOTS, np.uint64), np.full(SLOTS, -1, np.int32)
        self._values, self._count = np.empty(MOST), np.zeros(1, np.int64)
        self._full = False

    @property
    def values(self) -> Array:
        """All values, in the order in which they first came."""
        return self._values[: int(self._count[0])].copy()

    def encode(self, numbers: Array) -> NDArray[Any]:
        """Numbers as codes, or as they are if there are too many values; one code alone if all are the same."""
        if self._full:
            return numbers
        codes = np.empty(numbers.size, np.uint16)
        done = _encode(
            numbers.view(np.uint64), self._keys, self._places, self._values.view(np.uint64), self._count, codes
        )  # fmt: skip
        if not done:
            self._full = True
            return numbers
        if (codes == codes[0]).all():
            codes = codes[:1]
        return codes.astype(np.uint8) if self._count[0] <= 256 else codes


@compiled()
def _encode(numbers, keys, places, values, count, codes):
    """Places of numbers among the values, which are given as their bits; false if there are too many."""
    mask, shift = keys.size - 1, np.uint64(40)
    for i in range(numbers.size):
        key = numbers[i]
        slot = np.int64((key * np.uint64(SPREAD)) >> shift) & mask
        while places[slot] >= 0 and keys[slot] != key:
            slot = (slot + 1) & mask
        if places[slot] < 0:
            if count[0] == values.size:
                return False
            keys[slot], places[slot], values[count[0]] = key, count[0], key
            count[0] += 1
        codes[i] = places[slot]
    return True


@compiled()
def look_up(codes, values, out):
    """The values that codes stand for."""
    for i in range(out.size):
        out[i] = values[codes[i]]
