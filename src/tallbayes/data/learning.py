"""Learn a formula from data in one pass over its pieces: all that a second pass needs to build the design.

The first pass finds what columns hold, the levels of text, missing and infinite values and where they are, what counts
as 1, and what terms such as scale(x) remember. No more than a piece of the data is held at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data import functions, group_term, limits
from tallbayes.data import outcome as outcomes
from tallbayes.data.ahead import ahead
from tallbayes.data.cleaning import Cleaning
from tallbayes.data.columns import is_text, is_truth, zone_of
from tallbayes.data.design import Design, materialise, one_column
from tallbayes.data.formula import Formula
from tallbayes.data.kinds import MAX_LEVELS, Column, Distinct, Kind, Levels, exact
from tallbayes.data.learned import Learned
from tallbayes.data.memory import Memory
from tallbayes.data.missing import Gaps
from tallbayes.data.names import require
from tallbayes.data.nearly import first_odd, remedy, writing
from tallbayes.data.parsed import Extra, Parsed, refuse_outcome
from tallbayes.data.parts import Parts
from tallbayes.data.pieces import Piece, Source
from tallbayes.data.progress import passing
from tallbayes.data.sample import Rows, Sample
from tallbayes.data.sources import open_source
from tallbayes.data.summand import quoted
from tallbayes.data.tally import row
from tallbayes.data.texts import USUAL, Texts
from tallbayes.data.uses import compared, declared

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]


class Asked(NamedTuple):
    """What is to be learned besides the formula."""

    outcome: Any = None  # what of an outcome's values counts as 1
    binary: bool = True  # whether the outcome may be text
    numeric: Mapping[str, str] = {}  # other columns that must hold numbers, by what they are for
    strata: Sequence[str] = ()  # and those of levels
    missing: str = "refuse"  # or "drop" rows with missing values
    instead: str = ""  # what else can be done about them
    texts: Texts = USUAL


def learn(parsed: Parsed, data: Any, asked: Asked | None = None, arrays: Mapping[str, Array] | None = None) -> Learned:
    """Learn a parsed formula from anything that `sources.py` can open; `arrays` have a number for each row.

    >>> from tallbayes.data.parsed import parse
    >>> learned = learn(parse("y ~ g"), {"y": ["no", "yes", "no"], "g": ["b", "a", "b"]})
    >>> learned.formula.coefficients, learned.formula.event
    (('Intercept', 'g[T.b]'), 'yes')
    """
    learning = Learning(parsed, open_source(data), asked or Asked(), arrays or {})
    learning.look()
    return learning.finish()


class Seen(NamedTuple):
    """What a part of the rows has shown: plain values, which those who look at other parts can be told."""

    gaps: Gaps
    columns: dict[str, Column]
    values: dict[str, dict[str, Distinct]]  # of C(...) terms, by the sides of the formula
    states: dict[str, dict[str, dict[str, Any]]]  # what other terms remember
    sample: Sample | None
    first: Rows | None


class Learning:
    """The first pass over the data: over a part, if others tell what they have seen in the parts that follow."""

    def __init__(self, parsed: Parsed, source: Source, asked: Asked, arrays: Mapping[str, Array]) -> None:
        self.parsed, self.source, self.asked, self.arrays = parsed, source, asked, arrays
        others = (*asked.numeric, *asked.strata)
        self.wanted = list(dict.fromkeys([*parsed.columns, *others]))
        dates = tuple(name for name in parsed.dates if name not in others)
        if not self.source.names:
            raise ValueError("the data has no columns")
        require(self.wanted, self.source.names)
        for name, what in asked.numeric.items():
            refuse_outcome([parsed.outcome_column or ""], [name], f"given as {what}")
        functions.refuse_shadowed(parsed.functions, self.wanted)
        self.coded = parsed.outcome_column if asked.binary and parsed.trials is None else None
        if asked.outcome is not None and self.coded is None:
            raise ValueError(
                f"outcome={asked.outcome!r} says which value of a column counts as 1, but the left side "
                f"{parsed.outcome!r} is not a plain column; write the column's name there, or leave outcome= out"
            )
        wanted = None if asked.outcome is None else outcomes.number(asked.outcome)
        self.distinct = {} if self.coded is None else {self.coded: Distinct(MAX_LEVELS, wanted)}
        self.codes = (*asked.strata, *([parsed.group] if parsed.group else []))  # columns that give each row a number
        self.distinct |= {name: Distinct(wanted=wanted) for name in self.codes}
        categories = declared([parsed.left, parsed.right])
        named = {*self.codes, *categories} - {*asked.numeric}  # text by what it is used for
        self.clean = Cleaning(asked.texts, dates, frozenset(named))
        hints = dict.fromkeys(self.wanted, "")
        hints |= {name: f"; if these are names of categories, write C({quoted(name)})" for name in parsed.predictors}
        terms = {*parsed.predictors} - categories  # which may be groups, too
        watched = {name: hint for name, hint in hints.items() if name not in named or name in terms}
        self.columns = {name: Column(name, self.distinct.get(name), watched.get(name)) for name in self.wanted}
        extras = {what: extra.side for what, extra in _extras(parsed)}
        sides = {"right": parsed.right, "left": [] if self.coded else parsed.left} | extras
        self.memories = {name: Memory(side) for name, side in sides.items()}
        self.sample = Sample() if any(memory.sampled for memory in self.memories.values()) else None
        self.gaps = Gaps(self.wanted, asked.missing == "drop", arrays)
        self.first: Rows | None = None  # a row, where no sample is needed

    def look(self) -> None:
        """Go through the data."""
        first = None
        for piece in _pieces(self.source, self.wanted, "looking at the data"):
            first = piece.start if first is None else first
            self.refuse_many(
                f" in {piece.start - first:,} rows from row {first} on"
                if first
                else f" in the first {piece.start:,} rows"
            )
            self.add(piece)
        if first:
            self.refuse_many(f" in {self.gaps.rows:,} rows from row {first} on")

    def seen(self) -> Seen:
        """What the rows have shown."""
        values = {name: memory.values for name, memory in self.memories.items()}
        states = {name: memory.states for name, memory in self.memories.items()}
        return Seen(self.gaps, self.columns, values, states, self.sample, self.first)

    def then(self, later: Seen) -> None:
        """See what later rows have shown."""
        self.gaps.then(later.gaps)
        for name, column in self.columns.items():
            column.then(later.columns[name])
        for name, memory in self.memories.items():
            memory.then(later.values[name], later.states[name])
        if self.sample is not None and later.sample is not None:
            self.sample.then(later.sample)
        self.first = self.first or later.first
        self.refuse_many(f" in the first {self.gaps.rows:,} rows")

    def finish(self, own: tuple[int, int] | None = None) -> Learned:
        """Put together what was found; `own` are the rows of the source and those kept, if it is a part of the data."""
        self.refuse_nearly()
        left_out = self.rows_left_out()
        kinds = {name: column.kind() for name, column in self.columns.items()}
        for name, value in compared([self.parsed.left, self.parsed.right]):
            _refuse_compared(name, value, kinds[name].levels)
        event = None
        if self.coded is not None:
            event = outcomes.event(self.coded, kinds[self.coded], self.distinct[self.coded], self.asked.outcome)
        self.refuse_many("")
        parts, parsed = self.parts(kinds, *(own or (self.gaps.rows, self.gaps.kept))), self.parsed
        example = self.example(parts)
        known = {name: memory.transforms() for name, memory in self.memories.items()}
        left = {} if self.coded is not None else self.left(example, kinds, known["left"]).transforms
        categories = self.memories["right"].categories()
        wide = {name: len(kind.levels.values) for name, kind in kinds.items() if kind.levels is not None}
        limits.refuse_wide(parsed.right, wide | {name: len(values) for name, values in categories.items()})
        right = materialise(parsed.right, example, known["right"], categories)
        group = group_term.at_least_two(parsed.group, self.levels(parsed.group, kinds)) if parsed.group else ()
        others = {
            what: one_column(what, extra.text, extra.side, example, known[what]).transforms
            for what, extra in _extras(parsed)
        }
        added, trials = others.get("offset", {}), others.get("number of trials", {})
        levels = {name: kind for name in parsed.predictors if (kind := kinds[name].levels) is not None}
        _refuse_single({name: values for name, (values, _) in levels.items()} | right.categories, right.names)
        zones = {name: self.columns[name].zone or "" for name in self.clean.dates}
        flags = tuple(name for name in parsed.predictors if self.columns[name].truth)
        formula = Formula(
            parsed, right.names, levels, right.transforms, right.categories, group, event, added,
            texts=self.asked.texts, flags=flags, zones=zones,
        )  # fmt: skip
        numbers = {name: exact(name, self.distinct[name].values()) for name in self.codes if kinds[name].levels is None}
        return Learned(formula, parts, right.structure, left, trials, self.codes, numbers, self.coded, left_out)

    def add(self, piece: Piece) -> None:
        """Learn from one piece."""
        columns = {name: self.clean(name, piece.columns[name], piece.where) for name in self.wanted}
        for name, what in self.asked.numeric.items():
            if is_text(columns[name]) and columns[name].categories.inferred_type == "string":
                odd = first_odd(columns[name], piece.where)
                told = "" if odd is None else f", but {name!r} is {odd.value!r} at {odd.where}; {remedy(odd.value)}"
                raise ValueError(f"{what} must be numbers: a column's name or one number per row{told}")
        kept = self.gaps.add(columns, piece.where)
        for name, column in self.columns.items():
            column.add(columns[name], kept, piece.where, is_truth(piece.columns[name]))
            if name in self.clean.dates:
                column.in_zone(zone_of(piece.columns[name]))
        memories = [memory for memory in self.memories.values() if memory.factors]
        if self.gaps.troubled or not (memories or self.first is None):
            return
        numbers = np.arange(piece.start, piece.start + len(next(iter(columns.values()))))
        rows = Rows(numbers, {name: columns[name] for name in self.parsed.columns})
        rows = rows if kept is None else rows.take(kept)
        if rows.numbers.size:
            self.first = rows.take(slice(1)) if self.first is None else self.first
            if self.sample is not None:
                self.sample.add(rows)
            for memory in memories:
                memory.add(rows, self.sample)

    def rows_left_out(self) -> list[str]:
        """What to say of rows with missing values; raise ValueError if a value of the others cannot be used."""
        for what, values in self.arrays.items():
            if values.shape != (self.gaps.rows,):
                raise ValueError(f"{what} has shape {values.shape}, but the data has {self.gaps.rows} rows")
        left_out = self.gaps.left_out()
        self.gaps.refuse(self.asked.instead)
        return left_out

    def parts(self, kinds: Mapping[str, Kind], rows: int, kept: int) -> Parts:
        """All rows once more; nothing that was held to learn from is held any longer."""
        gaps, again = self.gaps, partial(_pieces, self.source, self.wanted, "building rows")
        lacking = [name for name, tally in gaps.missing.items() if tally.count]
        text = frozenset(name for name, kind in kinds.items() if kind.levels is not None)
        clean = self.clean._replace(text=text)
        return Parts(again, kinds, clean, lacking, self.arrays if gaps.drop else {}, rows, kept)

    def refuse_many(self, where: str) -> None:
        """Raise ValueError if a text column of the right side has too many levels."""
        for name in self.parsed.predictors:
            self.columns[name].refuse_many(where)

    def refuse_nearly(self) -> None:
        """Raise ValueError if a text column is nearly numbers; an outcome of two kinds may be any text."""
        for name, column in self.columns.items():
            if name != self.coded or (self.asked.outcome is None and column.text.count() > 2):
                column.refuse_nearly()

    def example(self, parts: Parts) -> pd.DataFrame:
        """Rows that show formulaic what there is: a sample if something is to be learned from it, or else just one."""
        assert self.first is not None
        rows = [self.first] if self.sample is None else self.sample.rows()
        order = np.argsort(np.concatenate([part.numbers for part in rows]))
        return parts.join([parts.part(part.columns, None, row) for part in rows], order).frame

    def levels(self, name: str, kinds: Mapping[str, Kind]) -> list[Any]:
        """The different values of a column, as plain Python values."""
        levels = kinds[name].levels
        return exact(name, self.distinct[name].values()).tolist() if levels is None else levels.values

    def left(self, example: pd.DataFrame, kinds: Mapping[str, Kind], transforms: dict[str, Any]) -> Design:
        """The left side, which must give one number for each row."""
        column, name = self.parsed.outcome_column, self.parsed.outcome
        levels = None if column is None else kinds[column].levels
        design = None if levels is not None else materialise(self.parsed.left, example, transforms, {})
        if design is None or design.categories:
            odd = self.columns[column].odd if column else None
            what = "text" if levels is not None and isinstance(levels.values[0], str) else "a category"
            told = "" if odd is None else f": it is {odd.value!r} at {odd.where}"
            mark = f"; {remedy(odd.value)}" if odd is not None and writing(odd.value) != "text" else ""
            raise ValueError(f"the outcome {name!r} is {what}; make it a number{told}{mark}")
        if len(design.names) != 1:
            raise ValueError(f"the outcome {name!r} gives {len(design.names)} columns; it must give one")
        return design


def _refuse_single(levels: Mapping[str, Sequence[Any]], coefficients: Sequence[str]) -> None:
    """Raise ValueError if a category of one level has no coefficient: formulaic leaves it out without a word."""
    for name, values in levels.items():
        if len(values) == 1 and not any(f"{name}[" in coefficient for coefficient in coefficients):
            raise ValueError(
                f"column {name!r} is {values[0]!r} in all rows, so nothing can be learned about it; leave it out of "
                "the formula"
            )


def _refuse_compared(name: str, value: Any, levels: Levels | None) -> None:
    """Raise ValueError if a column of numbers is compared with a text, or one of texts with a number."""
    holds_text = levels is not None and isinstance(levels.values[0], str)
    if isinstance(value, str) == holds_text:
        return
    if holds_text:
        raise ValueError(
            f"the formula compares column {name!r}, which holds text, with the number {value!r}; write '{value}'"
        )
    raise ValueError(
        f"the formula compares column {name!r}, which holds numbers, with the text {value!r}; write a number without "
        "quotes (where a file has 007, its column holds 7), or make the column text first"
    )


def _pieces(source: Source, wanted: Sequence[str], what: str) -> Iterator[Piece]:
    """A pass over the data; files are read ahead."""
    found = source.pieces(wanted)
    with passing(what, source.rows) as done:
        for piece in found if source.held else ahead(found):
            yield piece
            done(len(next(iter(piece.columns.values()))))


def _extras(parsed: Parsed) -> list[tuple[str, Extra]]:
    """What a formula says of each row besides the design, by name."""
    found = (("offset", parsed.offset), ("number of trials", parsed.trials))
    return [(what, extra) for what, extra in found if extra is not None]
