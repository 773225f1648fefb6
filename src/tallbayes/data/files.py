"""All files that a path means as one source. The folders that they lie in may name columns, such as year=2009."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tallbayes.data.columnar import open_arrow, open_parquet
from tallbayes.data.csv_files import open_csv
from tallbayes.data.formats import Contents, File, other_kind
from tallbayes.data.paths import STANDARD_INPUT, files_of
from tallbayes.data.pieces import Source
from tallbayes.data.stack import Part, stack, with_keys
from tallbayes.data.texts import USUAL, Texts

KINDS = {"CSV": "a CSV file in UTF-8", "Parquet": "a Parquet file", "Arrow": "an Arrow or Feather file"}
OPENERS = {"Parquet": open_parquet, "Arrow": open_arrow}


def open_file(file: File, known: Mapping[str, Any] = MappingProxyType({})) -> Contents:
    """The columns of one file; types of some may be known, where a file does not tell them itself.

    >>> import io
    >>> contents = open_file(File("'a.csv'", lambda: io.BytesIO(b"x,y\\n1,2\\n3,4\\n"), "CSV"))
    >>> contents.names, [batch["y"].to_pylist() for batch in contents.batches(["y"])]
    (['x', 'y'], [[2, 4]])
    """
    try:
        return open_csv(file, known) if file.kind == "CSV" else OPENERS[file.kind](file)
    except ValueError as error:
        if not (other := other_kind(file)):
            raise
        own = f"compressed with {file.compression}" if file.compression else KINDS[file.kind]
        raise ValueError(f"{file.name} is not {own} but {other}: {_instead(other)}") from error


def _instead(other: str) -> str:
    """What to do about a file that is something else than its name says."""
    if "Excel" in other or "UTF-16" in other:
        return "save it as CSV in UTF-8"
    if "database" in other or "HDF5" in other or "web page" in other:
        return "save its rows as Parquet or CSV"
    return "rename it, so that its ending tells what it is"


def open_path(path: str, texts: Texts = USUAL) -> Source:
    """All files that a path means, one below the other in the order of their names.

    >>> open_path("nothing.csv")
    Traceback (most recent call last):
    FileNotFoundError: no such file: 'nothing.csv'
    """
    files = files_of(path, texts)
    keys = keys_of(files)
    parts = [Part(file, file.stamp(), with_keys(open_file(file), own)) for file, own in zip(files, keys, strict=True)]
    return stack(parts, path, held=path == STANDARD_INPUT)


def keys_of(files: Sequence[File]) -> list[dict[str, Any]]:
    """What the folders of each file say of its rows: whole numbers if they are in all files, else text."""
    import pyarrow as pa

    whole: dict[str, bool] = {}
    for file in files:
        for key, value in file.keys.items():
            digits = value is None or (value.isascii() and value.removeprefix("-").isdigit())
            whole[key] = whole.get(key, True) and digits
    types = {key: pa.int64() if numbers else pa.string() for key, numbers in whole.items()}
    return [{key: pa.scalar(value).cast(types[key]) for key, value in file.keys.items()} for file in files]
