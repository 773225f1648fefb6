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
from tallbayes.data.learning import Asked, learn
from tallbayes.data.missing import DROP
from tallbayes.data.parsed import Parsed
from tallbayes.data.sources import open_source
from tallbayes.data.texts import Texts
from tallbayes.families import Bernoulli, Family
from tallbayes.models.building import build
from tallbayes.models.first import First, first_pass
from tallbayes.rows import cache as caches
from tallbayes.rows.building import fits
from tallbayes.rows.chosen import NUMBER
from tallbayes.rows.disk import DiskRows
from tallbayes.rows.protocol import RowsAtHand
from tallbayes.rows.room import Room

Array = NDArray[np.float64]


class Prepared(NamedTuple):
    """The rows of a model, the formula that made them, and what is to be said about them."""

    rows: RowsAtHand
    formula: Formula
    left_out: list[str]  # a sentence each
    observations: int
    ones: int  # outcomes that are not zero
    first: First | None = None  # what the first pass tells, where somebody has made it
    called: str = ""  # what to call the data


class Wanted(NamedTuple):
    """What rows are made from, besides data and formula."""

    family: Family
    columns: Mapping[str, str]  # that are named outside the formula, by what they are for
    arrays: Mapping[str, Array]  # the same, where numbers were given
    strata: Sequence[str]
    outcome: Any
    missing: str
    texts: Texts
    merge: bool = True  # whether duplicates may become rows with weights

    @property
    def numbered(self) -> bool:
        """Whether rows keep their numbers."""
        return NUMBER in self.strata

    @property
    def asked(self) -> Asked:
        """What has to be learned of the data besides the formula."""
        binary, numeric = isinstance(self.family, Bernoulli), {name: what for what, name in self.columns.items()}
        strata = [name for name in self.strata if name != NUMBER]
        return Asked(self.outcome, binary, numeric, strata, self.missing, DROP, self.texts)


def prepare(
    parsed: Parsed, data: Any, wanted: Wanted, room: Room, cache: str | os.PathLike[str] | None = None
) -> Prepared:
    """Learn the formula and build the rows; with a `cache` folder, unless they are kept there from another time."""
    source = open_source(data, wanted.texts)
    if source.elsewhere is not None:
        if cache is not None:
            raise ValueError("cache= is for rows on this machine; with engine= they are with the workers")
        prepared: Prepared = source.elsewhere.prepare(parsed, wanted, room)
        return prepared._replace(called=source.called)
    if cache is None:
        learned = _learn(parsed, source, wanted)
        return _prepared(learned, *_build(learned, wanted, room), source.called)
    if (identity := source.identity()) is None:
        raise ValueError(
            "cache= is for files, whose changes can be noticed; the data are in memory, or come from a function or a "
            "query: leave cache= out, or write them to Parquet files first"
        )
    at = caches.place(cache, [version("tallbayes"), parsed.text, *_described(wanted), identity])
    if (found := caches.find(at)) is not None:
        about = found.about
        formula, facts = Formula.from_json(about["formula"]), (about["left_out"], about["observations"], about["ones"])
        rows = DiskRows(found.store, room)
        first = First.found(found.known, rows)
        rows.outcomes = first.outcomes
        return Prepared(_placed(rows, room), formula, *facts, first, source.called)
    with caches.writing(at) as draft:
        learned = _learn(parsed, source, wanted)
        written, ones = _build(learned, wanted, room, draft.file)
        assert isinstance(written, DiskRows)
        first = first_pass(written, wanted.family.tag_at_zero)
        prepared = _prepared(learned, written, ones, source.called)
        about = {"formula": prepared.formula.to_json(), "left_out": prepared.left_out}
        draft.save(written.store, about | {"observations": prepared.observations, "ones": ones}, first.kept())
    return prepared._replace(rows=_placed(written, room), first=first)


def _placed(rows: DiskRows, room: Room) -> RowsAtHand:
    """The rows in memory if there is room."""
    return rows.loaded() if fits(rows.columns, rows.size, room) else rows


def _learn(parsed: Parsed, source: Any, wanted: Wanted) -> Learned:
    return learn(parsed, source, wanted.asked, wanted.arrays)


def _build(learned: Learned, wanted: Wanted, room: Room, file: IO[bytes] | None = None) -> tuple[RowsAtHand, int]:
    given = {**wanted.columns, **wanted.arrays}
    return build(learned, wanted.family, given, room, file, wanted.merge, wanted.numbered)


def _prepared(learned: Learned, rows: RowsAtHand, ones: int, called: str) -> Prepared:
    return Prepared(rows, learned.formula, learned.left_out, learned.rows, ones, called=called)


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
        wanted.texts,
    ]
