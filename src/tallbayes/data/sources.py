"""Any input is opened: it becomes a source, which tells its columns and gives the rows of those that are asked for.

That is pandas, polars (eager or lazy), pyarrow (a table or a data set), a DuckDB relation, other frames that narwhals
knows, a dict of arrays, `scan`, or a path: of one file, a pattern or folder of files, an address such as
s3://bucket/loans, or "-" for standard input. Files are CSV, Parquet or Arrow (Feather); several of them are one below
the other in the order of their names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from tallbayes.data.arrow_datasets import open_dataset
from tallbayes.data.files import open_path
from tallbayes.data.names import require_distinct
from tallbayes.data.options import check_text, shown
from tallbayes.data.paths import STANDARD_INPUT
from tallbayes.data.pieces import Piece, Source, sliced
from tallbayes.data.queries import open_lazy_frame, open_relation
from tallbayes.data.source_names import called
from tallbayes.data.texts import USUAL, Texts

if TYPE_CHECKING:
    import pandas as pd


class NoDataError(ValueError):
    """Says that something is of no type that holds data."""


def open_source(data: Any, texts: Texts = USUAL) -> Source:
    """Find out what `data` is and which columns it has; a source is one already. CSV files are written as `texts` say.

    >>> source = open_source({"y": [0, 1], "fico": [700.0, 650.0]})
    >>> source.names, source.load(["fico"])["fico"].tolist()
    (['y', 'fico'], [700.0, 650.0])
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, Iterator):
        raise ValueError(
            f"data of type {type(data).__name__} can be read only once, and the data are read several times; give "
            "tb.scan(function), where the function returns a new iterator of frames each time"
        )
    if isinstance(data, str | os.PathLike):
        source = open_path(os.fspath(data), texts)
    elif isinstance(data, Mapping):
        source = _open_mapping(data)
    else:
        source = _open_frame(data)
    require_distinct(source.names)
    return source._replace(called=called(data))


def opened(data: Any, texts: Texts) -> Any:
    """The data as they are or, if something is said of `texts`, as a source that reads CSV files so.

    >>> opened("loans.csv", USUAL)
    'loans.csv'
    """
    return data if texts == USUAL else open_source(data, texts)


def column_names(data: Any) -> list[str]:
    """Return the columns on offer, without loading the data.

    >>> column_names({"y": [0, 1], "fico": [700.0, 650.0]})
    ['y', 'fico']
    """
    return open_source(data).names


def rereadable(data: Any) -> Any:
    """The data as something that can be read several times: of standard input what it held, else the data itself.

    >>> rereadable("loans.csv")
    'loans.csv'
    """
    return open_source(data) if isinstance(data, str) and data == STANDARD_INPUT else data


def _open_frame(data: Any) -> Source:
    import narwhals as nw
    import pyarrow as pa

    data = nw.to_native(data, pass_through=True)
    if nw.dependencies.is_pandas_dataframe(data):  # by position: its names may be repeated, or not text
        if hasattr(data.columns, "levels"):
            raise ValueError(
                f"the columns of the data have names on several levels, such as {data.columns[0]!r}; join these first"
            )
        names = [str(name) for name in data.columns]
        return _held(names, len(data), lambda wanted: {name: data.iloc[:, names.index(name)] for name in wanted})
    if isinstance(data, pa.Table | pa.RecordBatch):
        table = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
        return _held(table.column_names, table.num_rows, lambda wanted: {name: table[name] for name in wanted})
    if nw.dependencies.is_polars_lazyframe(data):
        return open_lazy_frame(data)
    kind = type(data).__module__.partition(".")[0].lstrip("_")
    if kind == "duckdb" and hasattr(data, "columns"):
        return open_relation(data)
    if kind == "pyarrow" and hasattr(data, "get_fragments"):
        return open_dataset(data)
    try:
        frame = nw.from_native(data)
    except TypeError as error:
        raise NoDataError(
            f"cannot read data of type {type(data).__name__}; give a data frame (pandas, polars, pyarrow), "
            "a dict of arrays, a path to CSV, Parquet or Arrow files, or tb.scan(function)"
        ) from error

    def load(wanted: Sequence[str]) -> dict[str, Any]:
        needed = frame.select(wanted)
        found = needed.collect() if isinstance(needed, nw.LazyFrame) else needed
        return {name: _in_arrow(name, found) for name in wanted}

    source = _held(frame.collect_schema().names(), None, load)
    return source._replace(held=False) if isinstance(frame, nw.LazyFrame) else source._replace(rows=len(frame))


def _in_arrow(name: str, frame: Any) -> Any:
    import pyarrow as pa

    try:
        return frame.select(name).to_arrow().column(0)
    except pa.ArrowInvalid as error:
        kind = frame.schema[name]
        raise ValueError(
            f"column {name!r} is {kind}, which Arrow does not have; make it Int64, Float64 or text"
        ) from error


def _held(names: list[str], rows: int | None, load: Callable[[Sequence[str]], dict[str, Any]]) -> Source:
    """Data in memory."""

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        return sliced(load, wanted or names[:1])

    return Source(names, rows, True, load, pieces)


def _open_mapping(data: Mapping[Any, Any]) -> Source:
    import pandas as pd

    for name in data:
        check_text("the name of a column", name, "a text that is not empty")

    def column(name: str) -> pd.Series[Any]:
        return pd.Series(_values(name, data[name]), copy=False)

    def load(wanted: Sequence[str]) -> dict[str, Any]:
        columns = {name: column(name) for name in wanted}
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
            raise ValueError(f"columns of unequal length: {shown}")
        return columns

    lengths = {_length(values) for values in data.values()}
    return _held(list(data), lengths.pop() if len(lengths) == 1 else None, load)


def _length(values: Any) -> int | None:
    """How many rows a column has; None for what is none."""
    try:
        return len(values)
    except TypeError:  # numbers have no length, nor have sparse matrices
        return None


def _values(name: str, given: Any) -> Any:
    """What a dict has for a column, as pandas takes it; masked values are missing there."""
    import pandas as pd

    own = (pd.Series, pd.Index, pd.api.extensions.ExtensionArray, np.ma.MaskedArray)
    if isinstance(given, str | bytes | Mapping | Set | Iterator):
        found: Any = np.empty(())
    else:
        try:
            found = given if isinstance(given, own) else np.asarray(given)
        except (TypeError, ValueError):
            raise ValueError(
                f"column {name!r} has lists of unequal length in it; give one value for each row"
            ) from None
    if found.dtype.kind == "V":
        raise ValueError(f"column {name!r} has several fields in each row; give each field as a column of its own")
    if found.ndim != 1:
        what = f"has {found.ndim} dimensions" if found.ndim else f"is {shown(given)}"
        raise ValueError(f"column {name!r} {what}; give a list or an array with one value for each row")
    if found.dtype.kind in "US" and not isinstance(given, np.ndarray):  # NumPy makes texts of numbers among texts
        others = [one for one in given if not isinstance(one, str if found.dtype.kind == "U" else bytes)]
        if others and pd.isna(others).all():
            return pd.Series(list(given), dtype=object)
        odd = next((one for one in others if not pd.isna(one)), None)
        if odd is not None:
            raise ValueError(
                f"column {name!r} has mixed content, texts and {shown(odd)}; make it all numbers or all text"
            )
    return found
