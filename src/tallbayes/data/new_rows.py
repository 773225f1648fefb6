"""New rows for a model that has been fitted, piece by piece: columns that it needs, checked, and others as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.cleaning import USUALLY, Cleaning
from tallbayes.data.columns import is_truth
from tallbayes.data.missing import Gaps
from tallbayes.data.names import require
from tallbayes.data.pieces import Piece, Source, sliced
from tallbayes.data.tally import Where, among


class NewRows(NamedTuple):
    """Rows of one piece of the data."""

    source: Source  # of these rows alone
    kept: dict[str, Any]  # pandas or pyarrow columns
    start: int  # the number of the first row among all rows
    size: int
    where: Where
    places: NDArray[np.intp] | None = None  # of those that stay, among the rows of the piece; None for all
    flags: tuple[str, ...] = ()  # columns that held True and False, of those that were asked about

    @property
    def numbers(self) -> NDArray[np.intp]:
        """The number of each row among all rows."""
        return self.start + (np.arange(self.size) if self.places is None else self.places)


def new_rows(
    source: Source,
    needed: Sequence[str],
    clean: Cleaning = USUALLY,
    kept: Sequence[str] = (),
    drop: bool = False,
    perhaps_flags: Sequence[str] = (),
) -> Iterator[NewRows]:
    """All rows of a source; ValueError after the last if a needed column had a missing or infinite value.

    Pieces come until the first such value. After that the rest is only counted. With `drop`, rows with missing values
    are left out, and nothing can be kept besides the needed columns.

    >>> from tallbayes.data.sources import open_source
    >>> data = open_source({"fico": [700.0, 650.0], "id": ["a", "b"]})
    >>> [(rows.size, rows.kept["id"].tolist()) for rows in new_rows(data, ["fico"], kept=["id"])]
    [(2, ['a', 'b'])]
    """
    if not source.names:
        raise ValueError("the data has no columns")
    needed, kept = list(dict.fromkeys(needed)), list(dict.fromkeys(kept))
    wanted = list(dict.fromkeys([*needed, *kept]))
    require(wanted, source.names)
    assert not (drop and kept)
    counted = Gaps(needed, drop)
    for piece in source.pieces(wanted):
        cleaned = {name: clean(name, piece.columns[name], piece.where) for name in needed}
        size, where = len(next(iter(piece.columns.values()))), piece.where
        stay, places = counted.add(cleaned, where) if cleaned else None, None
        if stay is not None:
            places = np.flatnonzero(stay)
            cleaned, size, where = (
                {name: values[stay] for name, values in cleaned.items()},
                places.size,
                among(where, places),
            )
        if size and not counted.troubled:
            beside = {name: piece.columns[name] for name in kept}
            flags = tuple(name for name in perhaps_flags if is_truth(piece.columns[name]))
            yield NewRows(_alone(piece, cleaned), beside, piece.start, size, where, places, flags)
    counted.refuse()


def _alone(piece: Piece, cleaned: dict[str, Any]) -> Source:
    """The rows of a piece as a source of their own; where a model needs no column, their number still counts."""
    import pandas as pd

    columns = {name: pd.Series(values, copy=False) for name, values in cleaned.items()} or piece.columns

    def load(wanted: Sequence[str]) -> dict[str, Any]:
        return {name: columns[name] for name in wanted}

    return Source(list(columns), None, True, load, lambda wanted: sliced(load, wanted))
