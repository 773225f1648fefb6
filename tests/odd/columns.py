"""What a column may hold: every type there is, in every place that a column can have."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from odd.case import FEW, QUICK, Case, Table, fits, pick, refused
from odd.judge import right

KIND = "column content"

# Whole numbers from -3 to 3 in types that hold them without a loss.
NUMBERS: dict[str, Callable[[np.ndarray], Any]] = {
    **{
        f"{kind}": lambda i, kind=kind: i.astype(kind)
        for kind in ("i1", "i2", "i4", "i8", "f2", "f4", "f8", "g", ">i4")
    },
    **{f"{kind}": lambda i, kind=kind: (i + 3).astype(kind) for kind in ("u1", "u2", "u4", "u8")},
    "bool": lambda i: i > 0,
    "Int64": lambda i: pd.array(i, dtype="Int64"),
    "Int8": lambda i: pd.array(i, dtype="Int8"),
    "UInt64": lambda i: pd.array(i + 3, dtype="UInt64"),
    "Float32": lambda i: pd.array(i.astype(float), dtype="Float32"),
    "boolean": lambda i: pd.array(i > 0, dtype="boolean"),
    "Sparse": lambda i: pd.arrays.SparseArray(i.astype(float)),
    "objects: floats": lambda i: np.array([float(one) for one in i], object),
    "objects: ints": lambda i: np.array([int(one) for one in i], object),
    "objects: bools": lambda i: np.array([bool(one > 0) for one in i], object),
    "objects: ints and floats": lambda i: np.array([int(one) if one > 0 else float(one) for one in i], object),
    "objects: numpy numbers": lambda i: np.array([np.float32(one) for one in i], object),
    "objects: Decimal": lambda i: np.array([decimal.Decimal(int(one)) for one in i], object),
    "arrow decimal": lambda i: pd.array(
        [decimal.Decimal(int(one)) for one in i], dtype=pd.ArrowDtype(pa.decimal128(9, 2))
    ),
    **{
        f"arrow {kind}": lambda i, kind=kind: pd.array(i, dtype=pd.ArrowDtype(kind))
        for kind in (pa.int8(), pa.int64(), pa.float32(), pa.float64())
    },
    "arrow bool": lambda i: pd.array(i > 0, dtype=pd.ArrowDtype(pa.bool_())),
}

# Levels a, b, c.
LEVELS: dict[str, Callable[[np.ndarray], Any]] = {
    "text": lambda c: c,
    "objects: text": lambda c: c.astype(object),
    "string": lambda c: pd.array(c, dtype="string"),
    "arrow string": lambda c: pd.array(c, dtype=pd.ArrowDtype(pa.string())),
    "arrow large string": lambda c: pd.array(c, dtype=pd.ArrowDtype(pa.large_string())),
    "categories": lambda c: pd.Categorical(c),
    "categories, unused levels": lambda c: pd.Categorical(c, ["zz", "c", "b", "a", "0"]),
    "categories, ordered": lambda c: pd.Categorical(c, ["a", "b", "c"], ordered=True),
    "arrow dictionary": lambda c: pa.array(c).dictionary_encode(),
}  # fmt: skip


def _objects(make: Callable[[Any], Any]) -> Callable[[np.ndarray], np.ndarray]:
    def made(x: np.ndarray) -> np.ndarray:
        found = np.empty(len(x), object)
        for place, one in enumerate(x):
            found[place] = make(one)
        return found

    return made


class Colour(enum.Enum):
    """Values that no table has a type for."""

    RED = 1
    BLUE = 2


DAY = datetime.date(2020, 1, 1)
# What is neither a number nor a level.
NEITHER: dict[str, Callable[[np.ndarray], Any]] = {
    "complex": lambda x: x + 1j,
    "complex, real": lambda x: x + 0j,
    "datetime64": lambda x: np.datetime64("2020-01-01") + (100 * x).astype(int),
    "datetime64 of seconds": lambda x: (np.datetime64("2020-01-01T00:00:00") + (100 * x).astype(int)),
    "datetimes with a zone": lambda x: pd.Series(pd.date_range("2020", periods=len(x), tz="Asia/Tokyo")),
    "timedelta64": lambda x: (100 * x).astype("timedelta64[s]"),
    "period": lambda x: pd.period_range("2020", periods=len(x), freq="M").array,
    "objects: dates": _objects(lambda one: DAY + datetime.timedelta(days=int(100 * one))),
    "objects: times": _objects(lambda one: datetime.time(int(abs(one) * 10) % 24)),
    "objects: complex": _objects(lambda one: complex(one, 1)),
    "objects: bytes": _objects(lambda one: b"%d" % int(10 * one)),
    "objects: lists": _objects(lambda one: [one]),
    "objects: empty lists": _objects(lambda one: []),
    "objects: dicts": _objects(lambda one: {"value": one}),
    "objects: arrays": _objects(lambda one: np.array([one, one])),
    "objects: sets": _objects(lambda one: {one}),
    "objects: functions": _objects(lambda one: lambda: one),
    "objects: frames": _objects(lambda one: pd.DataFrame({"x": [one]})),
    "objects: numbers and text": _objects(lambda one: one if one > -1 else "a"),
    "objects: numbers and dates": _objects(lambda one: one if one > -1 else DAY),
    "objects: bools and text": _objects(lambda one: True if one > -1 else "a"),
    "objects: bools and numbers": _objects(lambda one: bool(one > 0) if one < 0.5 else 2.5),
    "objects: Decimal and numbers": _objects(lambda one: decimal.Decimal("1.5") if one > 0 else 2.5),
    "objects: enums": _objects(lambda one: Colour.RED if one > 0 else Colour.BLUE),
    "objects: dates and times of them": _objects(lambda one: DAY if one > 0 else datetime.datetime(2020, 1, 2)),
    "objects: arrays of no axes": _objects(np.array),
    "interval": lambda x: pd.IntervalIndex(pd.cut(x, 4)),
    "bytes": lambda x: np.array([b"%d" % int(10 * one) for one in x]),
    "void": lambda x: np.array([(one, 1) for one in x], dtype=[("a", float), ("b", int)]),
    "masked array": lambda x: np.ma.masked_array(x, mask=np.arange(len(x)) == 3),
    "masked array of whole numbers": lambda x: np.ma.masked_array((10 * x).astype(int),
    mask=np.arange(len(x)) % 7 == 3),
    "arrow binary": lambda x: pd.array([b"a"] * len(x), dtype=pd.ArrowDtype(pa.binary())),
    "arrow list": lambda x: pd.array([[1.0]] * len(x), dtype=pd.ArrowDtype(pa.list_(pa.float64()))),
    "arrow struct": lambda x: pd.array([{"a": 1}] * len(x), dtype=pd.ArrowDtype(pa.struct([("a", pa.int64())]))),
    "arrow time": lambda x: pd.array([datetime.time(1)] * len(x), dtype=pd.ArrowDtype(pa.time32("s"))),
    "arrow duration": lambda x: pd.array([datetime.timedelta(1)] * len(x), dtype=pd.ArrowDtype(pa.duration("s"))),
    "arrow timestamp": lambda x: pd.array([datetime.datetime(2020, 1, 1)] * len(x),
    dtype=pd.ArrowDtype(pa.timestamp("s"))),
    "nothing": lambda x: np.full(len(x), np.nan),
    "None": lambda x: np.full(len(x), None, object),
    "arrow nulls": lambda x: pd.array([None] * len(x), dtype=pd.ArrowDtype(pa.null())),
}  # fmt: skip
UNLIKE_GROUPS = ("complex", "masked", "nothing", "None", "lists", "dicts", "arrays", "struct", "nulls", "sets", "void")

# Values that one row of a column of numbers has.
GAPS: dict[str, Any] = {
    "NaN": np.nan, "None": None, "NA": pd.NA, "NaT": pd.NaT, "inf": np.inf, "-inf": -np.inf,
    "Decimal NaN": decimal.Decimal("NaN"),
}  # fmt: skip


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """Types, gaps, and columns that say nothing."""
    table = Table(rng)
    yield from _types(rng, table)
    yield from _gaps(rng, table)
    yield from _levels(table)
    yield from _collinear(rng, table)


def _types(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    for name, make in NUMBERS.items():
        values = make(table["i"])
        plain = np.asarray(values, float)
        holder = pick(rng, [table.dict, table.frame])
        truth = right(table.problem(columns={"i": plain}))
        yield Case(KIND, f"numbers as {name}", fits("y ~ i", holder(i=values)), truth, answer=True)
    exact = _objects(lambda one: fractions.Fraction(int(one), 1))(table["i"])
    call = fits("y ~ i", table.dict(i=exact))
    yield Case(KIND, "numbers as Fraction", call, right(table.problem(columns={"i": table["i"]})), ("i",))
    places = {
        "predictor": ("y ~ x", {}, "x"),
        "outcome": ("y ~ x", {}, "y"),
        "weights": ("y ~ x", {"weights": "w"}, "w|weights"),
        "offset": ("y ~ x", {"offset": "o"}, "o|offset"),
        "offset term": ("y ~ x + offset(o)", {}, "o|offset"),
        "function": ("y ~ log(abs(z) + 1)", {}, "z"),
        "group": ("y ~ x + (1 | g)", {}, "g"),
        "trials": ("p(s, t) ~ x", {}, "t"),
        "spline": ("y ~ s(x)", {}, "x"),
        "dot": ("y ~ .", {}, "x"),
    }
    for name, make in NEITHER.items():
        here = [one for one in places if one != "group" or any(part in name for part in UNLIKE_GROUPS)]
        kept = {"predictor", "outcome", *(pick(rng, here) for _ in range(3))}
        for place in sorted(kept):
            formula, options, column = places[place]
            if (place == "dot" and "date" in name) or (place == "outcome" and "objects: bytes" in name):
                continue  # a '.' takes days of dates
            values = make(table["x"])
            holder = table.dict if "void" in name or "masked" in name else pick(rng, [table.dict, table.frame])
            call = fits(
                formula, lambda folder, h=holder, c=column, v=values: h(**{c.partition("|")[0]: v}), **FEW, **options
            )
            yield refused(KIND, f"{name} as {place}", call, column)


def _gaps(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    rows = {"first": [0], "last": [-1], "some": [5, 17, 30], "most": list(range(44))}
    for column in ("x", "y", "w", "o", "c", "g"):
        for gap, value in GAPS.items():
            where = pick(rng, list(rows)[:3])
            values = table[column].astype(object)
            values[rows[where]] = value
            formula = {"c": "y ~ c", "g": "y ~ x + (1 | g)"}.get(column, "y ~ x")
            options = {"w": {"weights": "w"}, "o": {"offset": "o"}}.get(column, {})
            if column in "cg" and "inf" in gap:
                continue
            numbers = not isinstance(value, decimal.Decimal | type(None)) and value is not pd.NA and value is not pd.NaT
            values = values.astype(float) if numbers and column not in "cg" else values
            holder = pick(rng, [table.dict, table.frame])
            call = fits(formula, holder(**{column: values}), **FEW, **options)
            yield refused(KIND, f"{gap} in {column}, {where} rows", call, column)
            kept = np.setdiff1d(np.arange(table.rows), np.arange(table.rows)[rows[where]])
            call = fits(formula, holder(**{column: values}), **QUICK, **options, missing="drop")
            if "inf" in gap:
                yield refused(KIND, f"{gap} in {column}, {where} rows, dropped", call, column)
            elif column in ("x", "y", "w", "o"):
                own = {"w": {"weights": table["w"][kept]}, "o": {"offset": table["o"][kept]}}.get(column, {})
                problem = table.problem(columns={"x": table["x"][kept]}, y=table["y"][kept], **own)
                yield Case(KIND, f"{gap} in {column}, {where} rows, dropped", call, right(problem), (column,))
    for column in ("x", "y", "c"):
        values = np.full(table.rows, None, object)
        call = fits("y ~ x + c", table.dict(**{column: values}), **FEW, missing="drop")
        yield refused(KIND, f"all of {column} missing, dropped", call, column)


def _levels(table: Table) -> Iterator[Case]:
    dummies = {f"c[T.{level}]": table["c"] == level for level in "bc"}
    for name, make in LEVELS.items():
        values = make(table["c"])
        holder = table.dict if "dictionary" in name else table.frame
        made = values.to_pandas() if "dictionary" in name else values
        yield Case(
            KIND, f"levels as {name}", fits("y ~ c", holder(c=made)), right(table.problem(columns=dummies)), answer=True
        )
    coded = pd.Categorical(np.searchsorted(["a", "b", "c"], table["c"]))
    numbers = {f"c[T.{level}]": np.asarray(coded) == level for level in (1, 2)}
    yield Case(
        KIND,
        "levels that are numbers",
        fits("y ~ c", table.frame(c=coded)),
        right(table.problem(columns=numbers)),
        ("c",),
    )
    other = pd.Categorical(table["c"], ["c", "a", "b"], ordered=True)
    first = {f"c[T.{level}]": table["c"] == level for level in "ab"}
    call = fits("y ~ c", table.frame(c=other))
    yield Case(KIND, "ordered levels, another first", call, right(table.problem(columns=first)), answer=True)


def _collinear(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    x, z = table["x"], table["z"]
    copies = {
        "constant": np.full(table.rows, 3.0), "zero": np.zeros(table.rows), "a copy": x, "minus": -x,
        "a multiple": 1e6 * x,
        "a sum": x + z, "shifted": x + 5, "nearly constant": 1 + 1e-17 * x, "one level": np.full(table.rows, "a"),
    }  # fmt: skip
    for name, values in copies.items():
        data = pick(rng, [table.dict, table.frame])(extra=values)
        yield refused(KIND, f"collinear: {name}", fits("y ~ x + z + extra", data, **FEW), "extra")
        truth = right(table.problem(columns={"x": x, "z": z}))
        call = fits("y ~ x + z + extra", data, collinear="drop")
        yield Case(KIND, f"collinear: {name}, dropped", call, truth, ("extra",), answer=name != "one level")
