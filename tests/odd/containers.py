"""Data in every container that people bring, and in some that hold no table."""

from __future__ import annotations

import array
import collections
import io
import sqlite3
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

import tallbayes as tb
from odd.case import FAMILIES, FEW, OUTCOMES, SHAPES, Case, Table, fits, pick, refused
from odd.judge import right

KIND = "data container"


def _polars(frame: pd.DataFrame) -> Any:
    import polars

    return polars.DataFrame({name: frame[name].to_numpy() for name in frame})


def _narwhals(frame: pd.DataFrame) -> Any:
    import narwhals

    return narwhals.from_native(frame)


def _folder(frame: pd.DataFrame, folder: Path) -> str:
    (folder / "parts").mkdir()
    for part, place in enumerate(range(0, len(frame), 10)):
        frame.iloc[place : place + 10].to_parquet(folder / "parts" / f"{part}.parquet", index=False)
    return str(folder / "parts")


def _pattern(frame: pd.DataFrame, folder: Path) -> str:
    for part, place in enumerate(range(0, len(frame), 13)):
        frame.iloc[place : place + 13].to_csv(folder / f"part{part}.csv", index=False)
    return str(folder / "part*.csv")


def _csv(frame: pd.DataFrame, folder: Path, name: str = "data.csv", **options: Any) -> Path:
    frame.to_csv(folder / name, index=False, **options)
    return folder / name


def _parquet(frame: pd.DataFrame, folder: Path) -> str:
    frame.to_parquet(folder / "data.parquet", index=False)
    return str(folder / "data.parquet")


def _feather(frame: pd.DataFrame, folder: Path) -> str:
    pyarrow.feather.write_feather(pa.Table.from_pandas(frame, preserve_index=False), str(folder / "data.feather"))
    return str(folder / "data.feather")


def _dataset(frame: pd.DataFrame, folder: Path) -> Any:
    import pyarrow.dataset

    return pyarrow.dataset.dataset(_folder(frame, folder))


def _read_only(frame: pd.DataFrame, folder: Path) -> Any:
    found = {name: frame[name].to_numpy().copy() for name in frame}
    for values in found.values():
        values.flags.writeable = False
    return found


def _big_endian(values: np.ndarray) -> np.ndarray:
    return values.astype(values.dtype.newbyteorder(">")) if values.dtype.kind in "if" else values


def _is_number(column: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column))


GOOD: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "pandas": lambda frame, folder: frame,
    "pandas, repeated index": lambda frame, folder: frame.set_axis([7] * len(frame)),
    "pandas, text index": lambda frame, folder: frame.set_axis([f"r{i % 5}" for i in range(len(frame))]),
    "pandas, index of dates": lambda frame, folder: frame.set_axis(pd.date_range("2020", periods=len(frame))),
    "pandas, two indices": lambda frame, folder: frame.set_index(["t", "w"], drop=False),
    "pandas, shuffled index": lambda frame, folder: frame.set_axis(range(len(frame))[::-1]),
    "pandas, unused list column": lambda frame, folder: frame.assign(unused=[[1]] * len(frame)),
    "pandas, unused column of int name": lambda frame, folder: frame.assign(unused=1).rename(columns={"unused": 5}),
    "polars": lambda frame, folder: _polars(frame),
    "polars, lazy": lambda frame, folder: _polars(frame).lazy(),
    "pyarrow": lambda frame, folder: pa.Table.from_pandas(frame, preserve_index=False),
    "pyarrow, many chunks": lambda frame, folder: pa.concat_tables(
        [pa.Table.from_pandas(frame.iloc[place : place + 5], preserve_index=False) for place in range(0, len(frame), 5)]
    ),
    "pyarrow batch": lambda frame, folder: pa.RecordBatch.from_pandas(frame, preserve_index=False),
    "pyarrow dataset": _dataset,
    "narwhals": lambda frame, folder: _narwhals(frame),
    "dict of lists": lambda frame, folder: frame.to_dict("list"),
    "dict of tuples": lambda frame, folder: {name: tuple(frame[name]) for name in frame},
    "dict of arrays": lambda frame, folder: {name: frame[name].to_numpy() for name in frame},
    "dict of series": lambda frame, folder: {name: frame[name] for name in frame},
    "dict of series, other indices": lambda frame, folder: {
        name: frame[name].set_axis(np.random.default_rng(place).permutation(len(frame)))
        for place, name in enumerate(frame)
    },
    "dict of reversed views": lambda frame, folder: {name: frame[name].to_numpy()[::-1][::-1] for name in frame},
    "dict of strided views": lambda frame, folder: {
        name: np.repeat(frame[name].to_numpy(),
        2)[::2] if _is_number(frame[name]) else frame[name] for name in frame
    },
    "dict of big-endian arrays": lambda frame, folder: {name: _big_endian(frame[name].to_numpy()) for name in frame},
    "dict of read-only arrays": _read_only,
    "dict of array.array": lambda frame, folder: {
        name: array.array("d", frame[name].astype(float)) if _is_number(frame[name]) else list(frame[name])
        for name in frame
    },
    "ordered dict": lambda frame, folder: collections.OrderedDict(frame.to_dict("list")),
    "mapping": lambda frame, folder: types.MappingProxyType(frame.to_dict("list")),
    "scan": lambda frame, folder: tb.scan(lambda: (frame.iloc[i : i + 20] for i in range(0, len(frame), 20))),
    "scan with an empty batch": lambda frame,
    folder: tb.scan(lambda: iter([frame.iloc[:9], frame.iloc[:0], frame[9:]])),
    "csv": _csv,
    "csv, by its text": lambda frame, folder: str(_csv(frame, folder)),
    "csv, relative": lambda frame, folder: _csv(frame, folder).name,
    "csv with tabs": lambda frame, folder: _csv(frame, folder, "data.tsv", sep="\t"),
    "csv with semicolons": lambda frame, folder: _csv(frame, folder, sep=";"),
    "csv, compressed": lambda frame, folder: _csv(frame, folder, "data.csv.gz"),
    "csv of one column of quotes": lambda frame, folder: _csv(frame, folder, quoting=1),
    "parquet": _parquet,
    "feather": _feather,
    "folder": _folder,
    "pattern": _pattern,
}  # fmt: skip


def _scanned_once(frame: pd.DataFrame) -> Any:
    once = iter([frame])
    return tb.scan(lambda: once)


BAD: dict[str, tuple[Callable[[pd.DataFrame, Path], Any], str]] = {
    "None": (lambda frame, folder: None, "data|NoneType"),
    "a number": (lambda frame, folder: 7, "data"),
    "NaN": (lambda frame, folder: float("nan"), "data"),
    "True": (lambda frame, folder: True, "data"),
    "a text": (lambda frame, folder: "not a file", "not a file"),
    "an empty text": (lambda frame, folder: "", "data|empty|file|path"),
    "bytes": (lambda frame, folder: b"x,y\n1,2\n", "data|bytes"),
    "a list of dicts": (lambda frame, folder: frame.to_dict("records"), "data"),
    "a list of lists": (lambda frame, folder: frame.to_numpy().tolist(), "data"),
    "an empty list": (lambda frame, folder: [], "data"),
    "a set": (lambda frame, folder: set(frame), "data"),
    "a structured array": (lambda frame, folder: frame[["x", "y"]].to_records(index=False).view(np.ndarray), "data"),
    "a record array": (lambda frame, folder: frame[["x", "y"]].to_records(index=False), "data"),
    "a matrix": (lambda frame, folder: frame[["x", "y"]].to_numpy(), "data"),
    "a masked matrix": (lambda frame, folder: np.ma.masked_array(frame[["x", "y"]].to_numpy()), "data"),
    "a series": (lambda frame, folder: frame["x"], "data"),
    "groups of a frame": (lambda frame, folder: frame.groupby("g"), "data"),
    "the class of frames": (lambda frame, folder: pd.DataFrame, "data"),
    "a function": (lambda frame, folder: lambda: frame, "data"),
    "a generator": (lambda frame, folder: (one for one in [frame]), "once"),
    "an iterator": (lambda frame, folder: iter([frame]), "once"),
    "an open file": (lambda frame, folder: open(_csv(frame, folder)), "data|once"),  # noqa: SIM115
    "text in memory": (lambda frame, folder: io.StringIO("x,y\n1,0\n"), "data|once"),
    "bytes in memory": (lambda frame, folder: io.BytesIO(b"x,y\n1,0\n"), "data|once"),
    "a connection": (lambda frame, folder: sqlite3.connect(":memory:"), "data"),
    "a module": (lambda frame, folder: types, "data"),
    "a list of frames": (lambda frame, folder: [frame, frame], "data"),
    "an empty frame": (lambda frame, folder: pd.DataFrame(), "no columns|no others"),
    "an empty dict": (lambda frame, folder: {}, "no columns|no others"),
    "no rows": (lambda frame, folder: frame.iloc[:0], "no rows"),
    "no rows, polars": (lambda frame, folder: _polars(frame)[:0], "no rows"),
    "no rows, csv": (lambda frame, folder: _csv(frame.iloc[:0], folder), "rows"),
    "no rows, parquet": (lambda frame, folder: _parquet(frame.iloc[:0], folder), "rows"),
    "no rows, scan": (lambda frame, folder: tb.scan(lambda: iter([frame.iloc[:0]])), "rows"),
    "scan of nothing": (lambda frame, folder: tb.scan(lambda: iter([])), "scan|no "),
    "scan of None": (lambda frame, folder: tb.scan(lambda: None), "scan|function"),
    "scan of numbers": (lambda frame, folder: tb.scan(lambda: iter([1, 2])), "scan|function|batch|frame"),
    "scan of one iterator": (lambda frame, folder: _scanned_once(frame), "scan|once|again|function"),
    "a dict of numbers": (lambda frame, folder: {"x": 1.0, "y": 0}, "x|y"),
    "a dict of None": (lambda frame, folder: {"x": None, "y": None}, "x|y"),
    "a dict of unequal lengths": (lambda frame, folder: frame.to_dict("list") | {"x": [1.0, 2.0]}, "x"),
    "a dict of matrices": (lambda frame, folder: {"y": frame["y"], "x": frame[["x", "z"]].to_numpy()}, "x"),
    "a dict of frames": (lambda frame, folder: {"y": frame["y"], "x": frame[["x", "z"]]}, "x"),
    "a dict of generators": (lambda frame, folder: {"y": list(frame["y"]), "x": (x for x in frame["x"])}, "x"),
    "a dict of sets": (lambda frame, folder: {"y": list(frame["y"]), "x": set(frame["x"])}, "x"),
    "a dict of dicts": (lambda frame, folder: frame.to_dict(), "x|y"),
    "a dict of texts": (lambda frame, folder: {"x": "abc", "y": "010"}, "x|y"),
    "a dict with an int name": (lambda frame, folder: frame.to_dict("list") | {3: list(frame["x"])}, "3", ),
    "a dict with an empty name": (lambda frame, folder: frame.to_dict("list") | {"": list(frame["x"])}, "name"),
    "a dict with a blank name": (lambda frame, folder: frame.to_dict("list") | {"  ": list(frame["x"])}, "name"),
    "a dict with the name None": (lambda frame, folder: frame.to_dict("list") | {None: list(frame["x"])}, "None|name"),
    "a dict with a tuple as name": (lambda frame, folder: frame.to_dict("list") | {("a", 1): list(frame["x"])}, "name"),
    "columns of two levels": (lambda frame, folder: pd.concat({"first": frame}, axis=1), "levels"),
    "repeated column": (lambda frame, folder: pd.concat([frame, frame[["x"]]], axis=1), "x"),
    "ragged lists": (lambda frame, folder: {"y": list(frame["y"]), "x": [[1], [1, 2]] * (len(frame) // 2)}, "x"),
}  # fmt: skip


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """Each good container with some families, and each bad one."""
    table = Table(rng)
    families = list(FAMILIES)
    for name, make in GOOD.items():
        for family in {"logit", pick(rng, families), pick(rng, families)}:
            formula = f"{OUTCOMES[family]} ~ x"
            call = fits(formula, lambda folder, make=make: make(table.frame(), folder), family=FAMILIES[family])
            truth = right(table.problem(family, shape=SHAPES.get(family, 1.0)))
            yield Case(KIND, f"{name}, {family}", call, truth, answer=True)
    for name, (make, word) in BAD.items():
        for formula in ("y ~ x", "y ~ ."):
            call = fits(formula, lambda folder, make=make: make(table.frame(), folder), **FEW)
            yield refused(KIND, f"{name}, {formula}", call, word)
    for name, (make, word) in list(BAD.items())[:40]:
        yield refused(
            KIND, f"{name}, GLM", lambda folder, make=make: tb.GLM("y ~ x", make(table.frame(), folder)), word
        )
