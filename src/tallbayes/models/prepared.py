"""From data and a formula to rows: learned and built, or found where they were kept."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.formula import Formula
from tallbayes.data.learned import Learned
from tallbayes.data.learning import learn
from tallbayes.data.missing import DROP
from tallbayes.data.parsed import Parsed
from tallbayes.data.sources import open_source
from tallbayes.families import Bernoulli, Family
from tallbayes.models.building import build
from tallbayes.rows import cache as caches
from tallbayes.rows.building import fits
from tallbayes.rows.disk import DiskRows
from tallbayes.rows.protocol import RowsAtHand
from tallbayes.rows.room import Room
from tallbayes.rows.store import Store

Array = NDArray[np.float64]


class Prepared(NamedTuple):
    """The rows of a model, the formula that made them, and what is to be said about them."""

    rows: RowsAtHand
    formula: Formula
    left_out: list[str]  # a sentence each
    observations: int
    ones: int  # outcomes that are not zero


class Wanted(NamedTuple):
    """What rows are made from, besides data and formula."""

    family: Family
    columns: Mapping[str, str]  # that are named outside the formula, by what they are for
    arrays: Mapping[str, Array]  # the same, where numbers were given
    strata: Sequence[str]
    outcome: Any
    missing: str


def prepare(
    parsed: Parsed, data: Any, wanted: Wanted, room: Room, cache: str | os.PathLike[str] | None = None
) -> Prepared:
    """Learn the formula and build the rows; with a `cache` folder, unless they are kept there from another time."""
    source = open_source(data)
    if cache is None:
        learned = _learn(parsed, source, wanted)
        return _prepared(learned, *_build(learned, wanted, room))
    if (identity := source.identity()) is None:
        raise ValueError(
            "cache= is for files, whose changes can be noticed; the data are in memory, or come from a function or a "
            "query: leave cache= out, or write them to Parquet files first"
        )
    at = caches.place(cache, [version("tallbayes"), parsed.text, *_described(wanted), identity])
    if (found := caches.find(at)) is not None:
        about = found.about
        formula, facts = Formula.from_json(about["formula"]), (about["left_out"], about["observations"], about["ones"])
        return Prepared(rows_of(found.store, room), formula, *facts)
    with caches.writing(at) as draft:
        learned = _learn(parsed, source, wanted)
        rows, ones = _build(learned, wanted, room, draft.file)
        assert isinstance(rows, DiskRows)
        prepared = _prepared(learned, rows, ones)
        about = {"formula": prepared.formula.to_json(), "left_out": prepared.left_out}
        draft.save(rows.store, about | {"observations": prepared.observations, "ones": ones})
    return prepared._replace(rows=rows_of(rows.store, room))


def rows_of(store: Store, room: Room) -> RowsAtHand:
    """The rows of a store: in memory if there is room."""
    rows = DiskRows(store, room)
    return rows.loaded() if fits(len(store.fields.x), store.rows, room) else rows


def _learn(parsed: Parsed, source: Any, wanted: Wanted) -> Learned:
    return learn(
        parsed,
        source,
        wanted.outcome,
        binary=isinstance(wanted.family, Bernoulli),
        numeric={name: what for what, name in wanted.columns.items()},
        strata=wanted.strata,
        arrays=wanted.arrays,
        missing=wanted.missing,
        instead=DROP,
    )


def _build(learned: Learned, wanted: Wanted, room: Room, file: IO[bytes] | None = None) -> tuple[RowsAtHand, int]:
    return build(learned, wanted.family, {**wanted.columns, **wanted.arrays}, room, file)


def _prepared(learned: Learned, rows: RowsAtHand, ones: int) -> Prepared:
    return Prepared(rows, learned.formula, learned.left_out, learned.rows, ones)


def _described(wanted: Wanted) -> list[Any]:
    """What rows are made from, fit for JSON: arrays by a hash of what they hold."""
    arrays = {what: hashlib.sha256(values.tobytes()).hexdigest() for what, values in wanted.arrays.items()}
    return [
        repr(wanted.family),
        dict(wanted.columns),
        arrays,
        list(wanted.strata),
        repr(wanted.outcome),
        wanted.missing,
    ]
