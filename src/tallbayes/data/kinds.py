"""What a column holds, learned piece by piece: numbers, text and its levels, or dates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.columns import is_text
from tallbayes.data.nearly import Odd, first_odd, nearly, refusal, remedy, shown
from tallbayes.data.tally import Where, among

AT_ONCE = 1 << 16  # values that are worth joining with those seen before
EXACT = 2.0**53  # from where on neighbours of whole numbers are missing among floating-point numbers
MAX_LEVELS = 1_000  # of a text column; more of them are a number stored as text, or a group

WORDS = {"f": "numbers", "i": "numbers", "M": "dates"}


class Levels(NamedTuple):
    """The levels of a text column, and whether their order means something."""

    values: list[Any]
    ordered: bool


class Kind(NamedTuple):
    """What a column holds in all pieces: text with these levels, or numbers, all whole or not, or dates."""

    levels: Levels | None
    whole: bool


def exact(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """The different values of a column that names things; refused where floating point may have merged some.

    >>> exact("bank", np.array([2.0**53, 2.0**53 + 2]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: column 'bank' names levels by numbers such as 9007199254740992, which ...
    """
    if values.dtype.kind == "f" and values.size and float(np.abs(values).max()) >= EXACT:
        first = values[np.abs(values) >= EXACT][0]
        raise ValueError(
            f"column {name!r} names levels by numbers such as {first:.0f}, which floating point cannot tell from their "
            "neighbours; make it text, or whole numbers below 2^63 without gaps"
        )
    return values


class Distinct:
    """The different values of a column of numbers that comes in pieces; beyond `most` of them they are not kept.

    It is looked out for the value `wanted` in any case.

    >>> values = Distinct()
    >>> values.add(np.array([3, 1, 3]))
    >>> values.add(np.array([2, 2]))
    >>> values.values()
    array([1, 2, 3])
    """

    def __init__(self, most: int | None = None, wanted: float | None = None) -> None:
        self.most, self.more = most, False
        self.wanted, self.found = wanted, False  # the latter for good once the value has been there
        self._parts: list[NDArray[Any]] = []
        self._pending = 0

    def add(self, values: NDArray[Any]) -> None:
        """See the values of a piece."""
        import pandas as pd

        if self.wanted is not None and not self.found:
            self.found = bool((values == self.wanted).any())
        if self.more:
            return
        if values.dtype.kind not in "biuf":
            found = pd.unique(values.astype(object))
        else:
            low, high = values.min(), values.max()
            two = ((values == low) | (values == high)).all()  # the fastest way to see that there are no others
            found = np.unique(np.array([low, high])) if two else pd.unique(values)
        self._gather(found)

    def _gather(self, found: NDArray[Any]) -> None:
        self._parts.append(found)
        self._pending += found.size
        if self._pending > max(AT_ONCE, 2 * self._parts[0].size):
            self._parts = [self.values()]
            self._pending = self._parts[0].size
            self.more = self.most is not None and self._pending > self.most

    def then(self, later: Distinct) -> None:
        """See what was seen in later rows."""
        self.found, self.more = self.found or later.found, self.more or later.more
        if not self.more and later._parts:
            self._gather(later.values())

    def values(self) -> NDArray[Any]:
        """All of them, sorted."""
        return np.unique(np.concatenate(self._parts)) if self._parts else np.empty(0)


class Text:
    """The levels of a text column that comes in pieces.

    >>> import pandas as pd
    >>> text = Text("size")
    >>> text.add(pd.Categorical(["m", "l"], ["s", "m", "l"], ordered=True))
    >>> text.add(pd.Categorical(["xl"], ["l", "xl"], ordered=True))
    >>> text.levels()
    Levels(values=['m', 'l', 'xl'], ordered=True)
    """

    def __init__(self, name: str) -> None:
        self.name, self.ordered = name, True
        self._seen: dict[Any, None] = {}
        self._order: list[Any] = []
        self._known: Any = None  # levels that the last piece could have, and which of them had a row
        self._used = np.empty(0, bool)

    def add(self, values: Any) -> None:
        """See the levels of a piece that have a row."""
        known, codes = values.categories, values.codes
        self.ordered &= bool(values.ordered)
        if self._known is None or not (known is self._known or known.equals(self._known)):
            self._settle()
            self._known, self._used = known, np.zeros(len(known), bool)
        if codes.min() < 0:
            codes = codes[codes >= 0]
        self._used |= np.bincount(codes, minlength=len(known)) > 0

    def _settle(self) -> None:
        """Add the levels of pieces with the same list of levels to those of other pieces."""
        if self._known is None:
            return
        self._add(self._known[self._used].tolist(), self._known.tolist())
        self._known = None

    def _add(self, found: list[Any], order: list[Any]) -> None:
        if self._seen and found and isinstance(next(iter(self._seen)), str) != isinstance(found[0], str):
            raise ValueError(f"column {self.name!r} has levels of mixed types; make them all numbers or all text")
        self._seen |= dict.fromkeys(found)
        if self.ordered:
            self._order = _in_one_order(self.name, self._order, order)

    def then(self, later: Text) -> None:
        """See what was seen in later rows."""
        self._settle()
        later._settle()
        self.ordered &= later.ordered
        self._add(list(later._seen), later._order)

    def count(self) -> int:
        """How many levels have a row."""
        if self._seen:
            self._settle()
        return len(self._seen) or int(np.count_nonzero(self._used))

    def levels(self) -> Levels:
        """Those with a row: sorted, unless their order means something."""
        self._settle()
        values = [level for level in self._order if level in self._seen] if self.ordered else sorted(self._seen)
        return Levels(values, self.ordered)


def _in_one_order(name: str, first: list[Any], second: list[Any]) -> list[Any]:
    """Two lists of ordered levels as one in which both keep their order."""
    place = {level: i for i, level in enumerate(first)}
    merged: list[Any] = []
    taken = 0  # of the first list
    for level in second:
        if level not in place:
            merged.append(level)
            continue
        if place[level] < taken:
            raise ValueError(
                f"column {name!r} has ordered levels, but not everywhere in the same order: {first[taken - 1]!r} "
                f"stands before and after {level!r}; give them one order"
            )
        merged += first[taken : place[level] + 1]
        taken = place[level] + 1
    return merged + first[taken:]


class Column:
    """What one column holds, learned piece by piece; `distinct` gathers the different values of numbers.

    With a `hint`, it is watched: text that is nearly numbers can be refused, and the hint is what else can be done
    about it. Of numbers as text, no more than enough are kept.

    >>> from tallbayes.data.tally import row
    >>> column = Column("x")
    >>> column.add(np.array([1, 2]), None, row)
    >>> column.add(np.array([2.5]), None, row)
    >>> column.kind()
    Kind(levels=None, whole=False)
    """

    def __init__(self, name: str, distinct: Distinct | None = None, hint: str | None = None) -> None:
        self.name, self.distinct, self.text, self.hint = name, distinct, Text(name), hint
        self.odd: Odd | None = None  # the first text that is not a number, if it is watched
        self._looked = False  # for one
        self.truth = True  # all pieces held True and False
        self.zone: str | None = None  # of times
        self._word, self._since = "", ""  # what it holds, and the first row that tells
        self._whole = True

    def add(self, values: Any, kept: NDArray[np.bool_] | None, where: Where, truth: bool = False) -> None:
        """See the values of a piece, or of those of its rows that are kept; `truth`: they were True and False."""
        self.truth &= truth
        if not is_text(values):
            self._whole &= values.dtype.kind == "i"
        if kept is not None:
            values = values[kept]
        if len(values) == 0 or _nothing(values):
            return
        if kept is not None:
            where = among(where, np.flatnonzero(kept))
        word = "text" if is_text(values) else WORDS[values.dtype.kind]
        if word == "text" and values.categories.inferred_type == "string":
            _refuse_nul(self.name, values, where)
            if self.hint is not None and self.odd is None and not values.ordered:
                self.odd, self._looked = first_odd(values, where), True
        self._must_be(word, where(0))
        if word == "text":
            if not (self._all_numbers and self.text.count() > MAX_LEVELS):
                self.text.add(values)
        elif self.distinct is not None:
            self.distinct.add(values)

    def in_zone(self, zone: str | None) -> None:
        """See the time zone of a piece."""
        if None not in (zone, self.zone) and zone != self.zone:
            raise ValueError(
                f"column {self.name!r} has times of several time zones ({self.zone or 'none'}, {zone or 'none'}); "
                "convert them to one first"
            )
        self.zone = self.zone if zone is None else zone

    def _must_be(self, word: str, since: str) -> None:
        if self._word and word != self._word:
            self.refuse_nearly()
            told = ""
            if self.odd is not None and word == "text":
                told = f": it is {self.odd.value!r} at {self.odd.where}; {remedy(self.odd.value)}"
            raise ValueError(
                f"column {self.name!r} holds {word} from {since} on, but {self._word} before; make it all "
                f"{self._word} or all {word}{told}"
            )
        self._word, self._since = word, self._since or since

    def then(self, later: Column) -> None:
        """See what was seen in later rows."""
        self._whole &= later._whole
        self.truth &= later.truth
        self.in_zone(later.zone)
        self.odd, self._looked = self.odd or later.odd, self._looked or later._looked
        if later._word:
            self._must_be(later._word, later._since)
            self.text.then(later.text)
        if self.distinct is not None and later.distinct is not None:
            self.distinct.then(later.distinct)

    def kind(self) -> Kind:
        """What it holds in all pieces."""
        return Kind(self.text.levels() if self._word == "text" else None, self._whole and self._word == "numbers")

    @property
    def _all_numbers(self) -> bool:
        """Whether it is watched, and text that is all numbers so far."""
        return self._looked and self.odd is None

    def refuse_nearly(self) -> None:
        """Raise ValueError if it is text that is nearly numbers, and is watched."""
        if self._looked and not self.text.ordered:
            levels = self.text.levels().values
            if nearly(levels):
                raise ValueError(refusal(self.name, levels, self.odd, self.hint or ""))

    def refuse_many(self, where: str = "") -> None:
        """Raise ValueError if there are more levels than a term can have, unless these are all numbers so far."""
        if self._word == "text" and self.text.count() > MAX_LEVELS and not self._all_numbers:
            self.refuse_nearly()
            values = self.text.levels().values
            raise ValueError(
                f"column {self.name!r} is text with {len(values)} levels{where}, such as {values[0]!r} and "
                f"{values[-1]!r}; make it a number if it is one, merge rare levels, or write it as a group: "
                f"(1 | {self.name})"
            )


def _refuse_nul(name: str, values: Any, where: Where) -> None:
    """Raise ValueError if a text has a NUL byte, at which files of results would cut it off."""
    wrong = [place for place, level in enumerate(values.categories.to_numpy(object)) if "\0" in level]
    if wrong and (found := np.isin(values.codes, wrong)).any():
        first = int(found.argmax())
        raise ValueError(
            f"column {name!r} is {shown(values[first])} at {where(first)}, with a NUL byte in it; the data may "
            "be damaged or not in UTF-8: correct that value"
        )


def _nothing(values: Any) -> bool:
    """Whether all values are missing, which says nothing of what a column holds."""
    if is_text(values):
        return bool(values.codes[0] < 0 and (values.codes < 0).all())
    return bool(values.dtype.kind == "f" and np.isnan(values[0]) and np.isnan(values).all())
