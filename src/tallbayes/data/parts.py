"""The data once more, piece by piece, in the form that was learned from a first pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.cleaning import Cleaning
from tallbayes.data.columns import gaps, is_text
from tallbayes.data.kinds import Kind
from tallbayes.data.once import once
from tallbayes.data.pieces import Piece
from tallbayes.data.tally import Where, among, row

if TYPE_CHECKING:
    import pandas as pd


class Part:
    """Rows of one piece: columns of numbers and dates as they are, of text as the numbers of its levels.

    `rows` tells which of all rows of the data these are, so that arrays can be cut to them.
    """

    def __init__(self, columns: dict[str, NDArray[Any]], rows: Any, size: int, where: Where, text: Mapping[str, Any]):
        self.columns, self.rows, self.size, self.where, self._text = columns, rows, size, where, text

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column of numbers; levels of text may be numbers too."""
        values = self.columns[name]
        if name in self._text:
            values = self._text[name].categories.to_numpy(float)[values]
        return values.astype(float, copy=False)

    @once
    def frame(self) -> pd.DataFrame:
        """The columns as formulaic wants them."""
        import pandas as pd

        def column(name: str, values: NDArray[Any]) -> Any:
            return pd.Categorical.from_codes(values, dtype=self._text[name]) if name in self._text else values

        columns = {name: column(name, values) for name, values in self.columns.items()}
        return pd.DataFrame(columns, index=range(self.size), copy=False)


class Parts:
    """All rows, as often as they are asked for; those with missing values are left out if `lacking` names columns.

    ValueError says so if the data are not those that were learned from.
    """

    def __init__(
        self,
        pieces: Callable[[], Iterator[Piece]],
        kinds: Mapping[str, Kind],
        clean: Cleaning,
        lacking: Sequence[str],
        arrays: Mapping[str, NDArray[np.float64]],
        rows: int,
        kept: int,
    ) -> None:
        self._pieces, self.kinds, self._clean, self._lacking = pieces, kinds, clean, lacking
        self._arrays, self._rows, self.size = arrays, rows, kept
        self._text = {name: _dtype(kind) for name, kind in kinds.items() if kind.levels is not None}
        self._recode = {name: _Recode(name, dtype) for name, dtype in self._text.items()}

    def __iter__(self) -> Iterator[Part]:
        """One part for each piece that has rows."""
        rows = size = 0
        for piece in self._pieces():
            columns = {name: self._clean(name, piece.columns[name], piece.where) for name in self.kinds}
            length = len(next(iter(columns.values())))
            kept = self._kept(columns, piece.start, length)
            rows += length
            where: Where = piece.where
            chosen: slice[int, int] | NDArray[np.intp] = slice(piece.start, piece.start + length)
            if kept is not None:
                columns = {name: values[kept] for name, values in columns.items()}
                where, chosen = among(piece.where, kept), piece.start + kept
                length = kept.size
            size += length
            if rows > self._rows or size > self.size:
                break
            if length:
                yield self.part(columns, chosen, where)
        if (rows, size) != (self._rows, self.size):
            changed(f"at first it had {self._rows:,} rows, of which {self.size:,} were used, and now it has others")

    def _kept(self, columns: Mapping[str, Any], start: int, length: int) -> NDArray[np.intp] | None:
        """Which rows of a piece have no missing value; None for all."""
        absent = [gaps(columns[name])[0] for name in self._lacking]
        absent += [gaps(values[start : start + length])[0] for values in self._arrays.values()]
        missing = [mask for mask in absent if mask is not None]
        return np.flatnonzero(~np.logical_or.reduce(missing)) if missing else None

    def part(self, columns: Mapping[str, Any], rows: Any, where: Where) -> Part:
        """Rows whose columns have been cleaned, in the form that was learned."""
        settled = {name: self._settled(name, values, where) for name, values in columns.items()}
        return Part(settled, rows, len(next(iter(settled.values()))), where, self._text)

    def join(self, parts: Sequence[Part], order: NDArray[np.intp]) -> Part:
        """Several parts as one, with its rows in another order."""
        columns = {name: np.concatenate([part.columns[name] for part in parts])[order] for name in parts[0].columns}
        return Part(columns, None, order.size, row, self._text)

    def _settled(self, name: str, values: Any, where: Where) -> NDArray[Any]:
        if is_text(values) != (name in self._recode):
            now, then = ("text", "numbers") if is_text(values) else ("numbers", "text")
            changed(f"column {name!r} holds {now}, but held {then} before")
        if name in self._recode:
            return self._recode[name](values, where)
        if values.dtype.kind == "i" and not self.kinds[name].whole:
            return np.asarray(values, dtype=float)
        if values.dtype.kind == "f" and self.kinds[name].whole:
            changed(f"column {name!r} held whole numbers only before")
        return np.asarray(values)


class _Recode:
    """From the levels of a piece to those of all pieces."""

    def __init__(self, name: str, dtype: Any) -> None:
        self.name, self.levels = name, dtype.categories
        self._known: Any = None
        self._places: NDArray[Any] | None = None  # None: levels are the same

    def __call__(self, values: Any, where: Where) -> NDArray[Any]:
        known = values.categories
        if self._known is None or not (known is self._known or known.equals(self._known)):
            places = self.levels.get_indexer(known)
            same = len(known) == len(self.levels) and (places == np.arange(len(known))).all()
            self._known = known
            self._places = None if same else places.astype(np.min_scalar_type(-len(self.levels) - 1))
        codes: NDArray[Any] = values.codes if self._places is None else self._places[values.codes]
        if codes.min() < 0:
            first = int((codes < 0).argmax())
            changed(f"column {self.name!r} is {values[first]!r} at {where(first)}, a value that it did not have before")
        return codes


def changed(how: str) -> NoReturn:
    """Raise ValueError: the data are not the same in two passes."""
    raise ValueError(f"the data changed between two passes over it: {how}; fit again when nothing else writes to it")


class Places:
    """The place of each number among all that a column has, which are sorted.

    >>> from tallbayes.data.tally import row
    >>> Places("bank", np.array([7, 30]))(np.array([30, 7]), row)
    array([1, 0])
    """

    def __init__(self, name: str, levels: NDArray[Any]) -> None:
        import pandas as pd

        self.name, self._levels = name, pd.Index(levels)

    def __call__(self, values: NDArray[Any], where: Where) -> NDArray[np.intp]:
        """Those of the rows of a part."""
        places: NDArray[np.intp] = self._levels.get_indexer(values)
        if places.min() < 0:
            first = int(places.argmin())
            changed(f"column {self.name!r} is {values[first]} at {where(first)}, a value that it did not have before")
        return places


def _dtype(kind: Kind) -> Any:
    import pandas as pd

    assert kind.levels is not None
    return pd.CategoricalDtype(pd.Index(kind.levels.values), kind.levels.ordered)
