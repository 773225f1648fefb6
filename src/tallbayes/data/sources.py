"""Any input is opened: it tells its columns, and loads those that are asked for.

That is pandas, polars (eager or lazy), pyarrow, other frames that narwhals knows, a dict of arrays, or a path: of one
file, a pattern or folder of files, an address such as s3://bucket/loans, or "-" for standard input. Files are CSV,
Parquet or Arrow (Feather); several of them are one below the other in the order of their names.
"""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tallbayes.data.formats import File, Source, open_file
from tallbayes.data.paths import STANDARD_INPUT, files_of

if TYPE_CHECKING:
    import pandas as pd


def open_source(data: Any) -> Source:
    """Find out what `data` is and which columns it has; a source is one already.

    >>> source = open_source({"y": [0, 1], "fico": [700.0, 650.0]})
    >>> source.names, source.load(["fico"])["fico"].tolist()
    (['y', 'fico'], [700.0, 650.0])
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, str | os.PathLike):
        source = _open_path(os.fspath(data))
    elif isinstance(data, Mapping):
        source = _open_mapping(data)
    else:
        source = _open_frame(data)
    if repeated := [name for name, count in Counter(source.names).items() if count > 1]:
        raise ValueError(f"duplicate column names: {_quote(repeated)}; rename them first")
    return source


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


def require(wanted: Sequence[str], names: Sequence[str], where: str = "the data") -> None:
    """Raise ValueError if some of `wanted` is not among `names`, with the closest names on offer.

    >>> require(["fcio"], ["y", "fico"])
    Traceback (most recent call last):
    ValueError: no column 'fcio' in the data; did you mean 'fico'?
    """
    if missing := [name for name in wanted if name not in names]:
        close = {match: None for name in missing for match in difflib.get_close_matches(name, names)}
        hint = f"did you mean {_quote(list(close))}?" if close else f"it has {_quote(names)}"
        raise ValueError(f"no column {_quote(missing)} in {where}; {hint}")


def _quote(names: Sequence[object], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more


def _open_frame(data: Any) -> Source:
    import narwhals as nw

    data = nw.to_native(data, pass_through=True)
    if nw.dependencies.is_pandas_dataframe(data):  # by position: its names may be repeated, or not text
        names = [str(name) for name in data.columns]
        return Source(names, lambda wanted: {name: data.iloc[:, names.index(name)] for name in wanted})
    if nw.dependencies.is_pyarrow_table(data):
        return Source(data.column_names, lambda wanted: {name: data[name] for name in wanted})
    try:
        frame = nw.from_native(data)
    except TypeError as error:
        raise TypeError(
            f"cannot read data of type {type(data).__name__}; give a data frame (pandas, polars, pyarrow), "
            "a dict of arrays, or a path to CSV, Parquet or Arrow files"
        ) from error

    def load(wanted: list[str]) -> dict[str, Any]:
        needed = frame.select(wanted)
        table = (needed.collect() if isinstance(needed, nw.LazyFrame) else needed).to_arrow()
        return dict(zip(wanted, table.columns, strict=True))

    return Source(frame.collect_schema().names(), load)


def _open_mapping(data: Mapping[Any, Any]) -> Source:
    import pandas as pd

    def column(name: str) -> pd.Series[Any]:
        values = data[name]
        values = values if isinstance(values, pd.Series | pd.Categorical) else np.asarray(values)
        if values.ndim != 1:
            raise ValueError(f"column {name!r} has {values.ndim} dimensions; each column must have one")
        return pd.Series(values, copy=False)

    def load(wanted: list[str]) -> dict[str, Any]:
        columns = {name: column(name) for name in wanted}
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
            raise ValueError(f"columns of unequal length: {shown}")
        return columns

    return Source(list(data), load)


def _open_path(path: str) -> Source:
    """All files that a path means, one below the other."""
    import pyarrow as pa

    files = files_of(path)
    types = _key_types(files)
    sources = {file.name: _with_keys(file, types) for file in files}

    def load(wanted: list[str]) -> dict[str, Any]:
        for name, source in sources.items():
            require(wanted, source.names, name)
        tables = [pa.table(source.load(wanted)) for source in sources.values()]
        try:
            table = pa.concat_tables(tables, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(f"the files {path!r} disagree on the type of a column: {error}") from error
        return dict(zip(wanted, table.columns, strict=True))

    return Source(sources[files[0].name].names, load)


def _with_keys(file: File, types: Mapping[str, Any]) -> Source:
    """The columns of a file, and those that its folders name; of two with the same name the file's own."""
    import pyarrow as pa

    source = open_file(file)
    keys = {key: value for key, value in file.keys.items() if key not in source.names}
    if not keys:
        return source

    def load(wanted: list[str]) -> dict[str, Any]:
        own = [name for name in wanted if name not in keys] or source.names[:1]  # the number of rows is needed
        columns = source.load(own)
        rows = len(columns[own[0]])
        for key in keys.keys() & set(wanted):
            value = pa.scalar(keys[key]).cast(types[key])
            columns[key] = pa.chunked_array([pa.repeat(value, rows)])
        return {name: columns[name] for name in wanted}

    return Source([*source.names, *keys], load)


def _key_types(files: Sequence[File]) -> dict[str, Any]:
    """Of each key that folders are named after, whether its values are whole numbers or text."""
    import pyarrow as pa

    whole: dict[str, bool] = {}
    for file in files:
        for key, value in file.keys.items():
            digits = value is None or (value.isascii() and value.removeprefix("-").isdigit())
            whole[key] = whole.get(key, True) and digits
    return {key: pa.int64() if numbers else pa.string() for key, numbers in whole.items()}
