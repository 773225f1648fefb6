"""What to call data on a page: by the name of a file, or by what holds them in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tallbayes.data.paths import STANDARD_INPUT

KINDS = {  # by the package that they are of and the name of their type
    ("pandas", "DataFrame"): "a pandas data frame in memory",
    ("polars", "DataFrame"): "a polars data frame in memory",
    ("polars", "LazyFrame"): "a lazy frame of polars",
    ("pyarrow", "Table"): "a pyarrow table in memory",
    ("pyarrow", "RecordBatch"): "a pyarrow record batch in memory",
    ("duckdb", "DuckDBPyRelation"): "a DuckDB relation",
    ("dask", "DataFrame"): "a Dask data frame",
    ("dask_expr", "DataFrame"): "a Dask data frame",
}


def called(data: Any) -> str:
    """What to call data: a path by its last part, since pages are sent to others, and folders bear people's names.

    >>> called("/home/ada/loans.csv"), called("s3://bucket/loans/*.parquet"), called({"x": [1, 2]})
    ('loans.csv', '*.parquet', 'a dict of arrays in memory')
    """
    if isinstance(data, str | os.PathLike):
        return _last_part(os.fspath(data))
    if isinstance(data, Mapping):
        return "a dict of arrays in memory"
    package, name = type(data).__module__.partition(".")[0].lstrip("_"), type(data).__name__
    if (package, name) in KINDS:
        return KINDS[package, name]
    if package == "pyarrow":
        return "an Arrow dataset"
    return f"data of type {name}"


def _last_part(path: str) -> str:
    if path == STANDARD_INPUT:
        return "standard input"
    if "://" in path:  # a query may hold keys, and what stands before a host a password
        found = urlsplit(path)
        return found.path.rstrip("/").rpartition("/")[2] or found.hostname or found.scheme
    return os.path.basename(os.path.abspath(os.path.expanduser(path)))
