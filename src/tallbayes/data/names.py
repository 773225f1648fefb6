"""Names of columns in messages."""

from __future__ import annotations

import difflib
import unicodedata
from collections import Counter
from collections.abc import Sequence


def require(wanted: Sequence[str], names: Sequence[str], where: str = "the data") -> None:
    """Raise ValueError if some of `wanted` is not among `names`, with the closest names on offer.

    >>> require(["fcio"], ["y", "fico"])
    Traceback (most recent call last):
    ValueError: no column 'fcio' in the data; did you mean 'fico'?
    """
    if missing := [name for name in wanted if name not in names]:
        close = {match: None for name in missing for match in difflib.get_close_matches(name, names)}
        alike = [name for name in names if any(_plain(name) == _plain(one) for one in missing)]
        hint = f"did you mean {listed(list(close))}?" if close else f"it has {listed(names)}"
        if alike:
            hint = f"it has {ascii(alike[0])[1:-1]}, which looks the same but is written in other characters; rename it"
        raise ValueError(f"no column {listed(missing)} in {where}; {hint}")


def _plain(name: str) -> str:
    """A name as it looks, however it is written."""
    return unicodedata.normalize("NFKC", name).strip("\ufeff\u200b")


def require_distinct(names: Sequence[str], where: str = "") -> None:
    """Raise ValueError if a name is there twice, or is no text that can be written.

    >>> require_distinct(["y", "fico", "y"])
    Traceback (most recent call last):
    ValueError: duplicate column names: 'y'; rename them first
    """
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"duplicate column names{where}: {listed(repeated)}; rename them first")
    if odd := [name for name in names if any("\ud800" <= sign <= "\udfff" for sign in name)]:
        raise ValueError(f"the name of column {odd[0]!r}{where} is not valid Unicode; rename it first")


def listed(names: Sequence[object], most: int = 10) -> str:
    """Names one after the other, the first of them if there are many.

    >>> listed(["y", "fico"]), listed(["y", "fico"], most=1)
    ("'y', 'fico'", "'y' and 1 more")
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more
