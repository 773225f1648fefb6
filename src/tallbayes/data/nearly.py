"""Text that is nearly numbers: a column that holds '?' or '12,5' among numbers would become hundreds of categories.

The rule: a column of text is refused if more than half of its different values are written like numbers, and there
are at least `FEWEST` of these. '1,234', '12%', '$5' and '1,5' are written like numbers, too, and where there are `MANY`
of them, so are '5 kg', '(5)', '<5' and '5_000'. If nothing else is there but marks of missing values ('?', '.', 'None',
...), two numbers are enough. What a formula calls a category, as in
C(zip) or x == '17', is never refused, nor are groups, and levels whose order was given.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tallbayes.data.tally import Where
from tallbayes.data.texts import number

FEWEST, MANY = 5, 20
SHORT = 40  # characters of a text that may mark missing values
MINUS = "\u2212"  # which typesetters prefer to '-'
MARKS = (
    "", "?", ".", "..", "...", "-", "--", "---", "*", "none", "null", "na", "n/a", "n.a.", "#n/a", "#na", "nan", "-nan",
    "<na>", "nat", "missing", "unknown", "not available", "#value!", "#div/0!", "#ref!", "#num!", "\\n", "\u2013",
    "\u2014",
)  # fmt: skip
CURRENCIES = "$\u20ac\u00a3\u00a5\u20b9"

_DIGITS = "[+-]?[0-9]"
WRITTEN = {  # like a number, by what is in the way
    "number": re.compile(number()),
    "decimal comma": re.compile(number(",")),
    "thousands": re.compile(rf"^\s*{_DIGITS}{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]*)?\s*$"),
    "points": re.compile(rf"^\s*{_DIGITS}{{1,3}}(?:\.[0-9]{{3}})*(?:,[0-9]*)?\s*$"),
    "spaces": re.compile(rf"^\s*{_DIGITS}{{1,3}}(?:[ '\u00a0\u202f\u2009][0-9]{{3}})+(?:[.,][0-9]*)?\s*$"),
}
DECORATED = re.compile(  # a number with something around it, such as a unit
    r"^\W*[0-9][0-9_]*(?:[.,][0-9]+)?(?:[ed][+-]?[0-9]+)?\s?[^\W\d_]{0,4}\W*$|^[+-]?0x[0-9a-f.]+(?:p[+-]?[0-9]+)?$",
    re.IGNORECASE,
)
_DAY = r"(?:[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{1,2}([/.])[0-9]{1,2}\1[0-9]{2,4})"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_NAMED = rf"(?:[0-9]{{1,2}}[ -]{_MONTH}[ -][0-9]{{2,4}}|{_MONTH} [0-9]{{1,2}},? [0-9]{{4}}|{_MONTH}[ -][0-9]{{4}})"
_TIME = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?\s?(?:[AP]M)?"
DATED = re.compile(rf"^\s*(?:(?:{_DAY}|{_NAMED})(?:[T ]{_TIME}(?:Z|[+-][0-9:]{{2,6}})?)?|{_TIME})\s*$", re.IGNORECASE)
_SIGNS = re.compile(rf"^\s*[+-]?\s*[{CURRENCIES}]|[{CURRENCIES}%]\s*$")


def shown(value: str, most: int = 60) -> str:
    """A text as messages have it, cut if it is long.

    >>> shown("a"), shown("a" * 100, most=5)
    ("'a'", "'aaaaa...'")
    """
    return repr(value if len(value) <= most else f"{value[:most]}...")


class Odd(NamedTuple):
    """The first value of a column that is no plain number, and the name of its row."""

    value: str
    where: str


def first_odd(values: Any, where: Where) -> Odd | None:
    """The first text of a Categorical that is no plain number; None if there is none.

    >>> import pandas as pd
    >>> from tallbayes.data.tally import row
    >>> first_odd(pd.Categorical(["1", "2.5", "?", "1"]), row)
    Odd(value='?', where='row 2')
    """
    levels, codes = values.categories.to_numpy(object), values.codes
    plain = np.array([*map(is_number, levels), True])  # its last entry is for -1, a missing value
    if plain.all() or (found := plain[codes]).all():
        return None
    place = int(found.argmin())
    return Odd(str(levels[codes[place]]), where(place))


def is_number(text: str) -> bool:
    """Whether a text is a number as Python would write it.

    >>> is_number("1e3"), is_number("1,5")
    (True, False)
    """
    return WRITTEN["number"].match(text) is not None


def writing(text: str) -> str:
    """What a text is: "number", or what is in the way of its being one; "mark" of a missing value, or "text".

    >>> [writing(text) for text in ("12", "12,5", "1,234", "1.234,5", "1 234", "12%", "N/A", "5 kg", "b7", "18-25")]
    ['number', 'decimal comma', 'thousands', 'points', 'spaces', 'sign', 'mark', 'decorated', 'text', 'text']
    >>> writing("2020-12-24"), writing("24.12.2020 18:30"), writing("Dec 24, 2020"), writing("\u0661\u0662")
    ('date', 'date', 'date', 'digits')
    """
    if text.strip().casefold() in MARKS:
        return "mark"
    if not text.isascii() and (usual := _usual_digits(text)) != text:
        return "digits" if writing(usual) not in ("mark", "decorated", "text") else "text"
    for kind in ("number", "thousands", "decimal comma", "points", "spaces"):
        if WRITTEN[kind].match(text):
            return kind
    for kind, bare in (("minus", text.replace(MINUS, "-")), ("sign", _SIGNS.sub("", text))):
        if bare != text and writing(bare) not in ("mark", "decorated", "text"):
            return kind
    if DATED.match(text):
        return "date"
    return "decorated" if DECORATED.match(text) else "text"


def _usual_digits(text: str) -> str:
    """A text with the digits 0 to 9 for those of other scripts."""
    return "".join(str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in text)


def nearly(levels: Sequence[Any]) -> bool:
    """Whether a column of text with these different values must be one of numbers, by the rule above.

    >>> nearly(["0", "1", "2+"]), nearly(["0", "1", "?"]), nearly(["1", "2", "3", "4", "5", "many"])
    (False, True, True)
    """
    if not levels or not isinstance(levels[0], str):
        return False
    found = [writing(level) for level in levels]
    marks, others, decorated = (found.count(kind) for kind in ("mark", "text", "decorated"))
    others += decorated if decorated < MANY else 0
    like = len(found) - marks - others
    return (like >= FEWEST and 2 * like > len(found)) or (like >= 2 and marks > 0 and others == 0)


def refusal(name: str, levels: Sequence[str], odd: Odd | None, otherwise: str = "") -> str:
    """What is wrong with a column that is nearly numbers, and what to do about it; `otherwise` is one thing more.

    >>> print(refusal("x", ["1", "2", "?"], Odd("?", "row 7")))
    column 'x' is text, though 2 of its 3 different values are written like numbers: '?' at row 7 is not a number; if \
it marks a missing value, say na_values="?"
    """
    if odd is None:
        return (
            f"column {name!r} holds numbers as text, such as {levels[0]!r} and {levels[-1]!r}; make them numbers "
            f"first, with pandas.to_numeric for example{otherwise}"
        )
    like = sum(writing(level) not in ("mark", "text") for level in levels)  # those with a unit, too
    if writing(odd.value) == "date":
        return (
            f"column {name!r} holds dates or times as text, such as {shown(odd.value)} at {odd.where}; "
            f"{remedy(odd.value)}{otherwise}"
        )
    return (
        f"column {name!r} is text, though {like:,} of its {len(levels):,} different values are written like numbers: "
        f"{shown(odd.value)} at {odd.where} is not a number; {remedy(odd.value, levels)}{otherwise}"
    )


def remedy(value: str, levels: Iterable[str] = ()) -> str:
    """What to do about a text where a number should be; other values of its column tell what a ',' means.

    >>> remedy("1,234"), remedy("1,234", ["1,5"])
    ('if its \\',\\' separates thousands, take it out first, as pandas.read_csv(..., thousands=",") does; if it is the \
decimal sign, say decimal=","', 'if its \\',\\' is the decimal sign, say decimal=","')
    """
    kind = writing(value)
    if kind == "thousands" and any(writing(level) == "decimal comma" for level in levels):
        kind = "decimal comma"
    if kind == "number":
        return "make its column numbers first, with pandas.to_numeric for example"
    if kind == "date":
        return "make its column dates first, with pandas.to_datetime for example, and use year(...) or hour(...) of it"
    if kind == "digits":
        return "write its digits as 0 to 9 first"
    if kind == "decimal comma":
        return "if its ',' is the decimal sign, say decimal=\",\""
    if kind == "thousands":
        return (
            "if its ',' separates thousands, take it out first, as pandas.read_csv(..., thousands=\",\") does; if it "
            'is the decimal sign, say decimal=","'
        )
    if kind == "points":
        return 'take out the \'.\' between thousands first, as pandas.read_csv(..., thousands=".", decimal=",") does'
    if kind == "spaces":
        sign = next(one for one in value.strip() if not one.isdigit() and one not in "+-")
        return f'take out the {sign!r} between thousands first, as pandas.read_csv(..., thousands="{sign}") does'
    if kind == "minus":
        return f"write '-' for its {MINUS!r} first"
    if kind == "sign":
        sign = "%" if "%" in value else next(one for one in value if one in CURRENCIES)
        share = " (and divide by 100, if you want shares)" if sign == "%" else ""
        return f'strip the sign first, such as by column.str.replace("{sign}", "")' + share
    if kind == "decorated" and any(writing(level) == "decorated" for level in levels if level != value):
        return "make its column numbers first, without the text around them; if they are names, write C(...)"
    said = f'"{value}"' if value.isprintable() and '"' not in value and len(value) < SHORT else shown(value)
    return f"if it marks a missing value, say na_values={said}"
