"""Duplicate rows merged into weighted ones, exactly, before `Rows` are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.subsample import scattered

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

LOOK = 20_000  # rows looked at before deciding whether to merge duplicates


class Columns(NamedTuple):
    """What rows in memory are made of: x (p, n), outcomes, and optional weights, offset and strata."""

    x: Array
    y: Array
    weights: Array | None
    offset: Array | None
    strata: Mapping[str, NDArray[Any]]

    def take(self, chosen: Integers) -> Columns:
        """Some of the rows, in this order."""
        weights, offset = (None if part is None else part[chosen] for part in (self.weights, self.offset))
        strata = {name: codes[chosen] for name, codes in self.strata.items()}
        return Columns(np.take(self.x, chosen, axis=1), self.y[chosen], weights, offset, strata)

    def without_duplicates(self) -> Columns:
        """Duplicates merged into weighted rows, if a sample shows that it pays; else these rows.

        Exact: candidates are found by a hash and then compared value by value.

        >>> ones = np.ones(6)
        >>> Columns(np.array([ones, [0, 1, 0, 0, 1, 0]]), ones, None, None, {}).without_duplicates()[:3]
        (array([[1., 1.],
               [0., 1.]]), array([1., 1.]), array([4., 2.]))
        """
        size = self.y.size
        seen = self._hashes(scattered(size, LOOK, np.random.default_rng(size)))
        repeats = seen.size - np.unique(seen).size
        # With d equally likely distinct rows a sample of m has about m^2 / 2d repeats.
        if repeats == 0 or seen.size**2 / (2 * repeats) > size:
            return self
        _, first, inverse = np.unique(self._hashes(), return_index=True, return_inverse=True)
        if 2 * first.size > size or not self._same(first[inverse]):
            return self
        order = np.argsort(first)  # keep the order in which rows first appear
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        weights = np.bincount(rank[inverse], self.weights, minlength=first.size).astype(float)
        return self.take(first[order])._replace(weights=None if (weights == 1).all() else weights)

    def _hashes(self, rows: Integers | None = None) -> NDArray[np.uint64]:
        """A hash of each row's values, or of some rows' only."""
        hashes = np.zeros(self.y.size if rows is None else rows.size, np.uint64)
        for column in self._keys():
            values = np.ascontiguousarray(column if rows is None else column[rows])
            hashes ^= values.astype(float if values.dtype.kind == "f" else np.int64, copy=False).view(np.uint64)
            hashes *= np.uint64(0x9E3779B97F4A7C15)
            hashes ^= hashes >> np.uint64(29)
            hashes += np.uint64(0xBF58476D1CE4E5B9)
        return hashes

    def _same(self, other: Integers) -> bool:
        """Whether each row equals the row that `other` names for it."""
        return all(bool((column == column[other]).all()) for column in self._keys())

    def _keys(self) -> list[NDArray[Any]]:
        """The columns in which duplicates agree."""
        offset = [] if self.offset is None else [self.offset]
        return [*self.x, self.y, *offset, *self.strata.values()]
