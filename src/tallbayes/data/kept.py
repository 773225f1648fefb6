"""Columns of a file as they are, to stand beside what was computed from others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tallbayes.data.names import require
from tallbayes.data.sources import open_source


def kept_columns(data: Any, columns: Sequence[str]) -> dict[str, Any]:
    """Columns by name, of whatever type: dates and missing values, which no formula takes, included.

    >>> kept_columns({"id": ["a", "b"], "fico": [700.0, 650.0]}, ["id"])["id"].tolist()
    ['a', 'b']
    """
    source, wanted = open_source(data), list(dict.fromkeys(columns))
    require(wanted, source.names)
    return source.load(wanted) if wanted else {}
