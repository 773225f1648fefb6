"""Text: levels with odd names, text that is nearly numbers, and outcomes in words."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import tallbayes as tb
from odd.case import FEW, Case, Table, fits, on_disk, pick, refused
from odd.judge import right

KIND = "text"

MARKS = (
    "?", ".", "-", "--", "None", "none", "missing", "Missing", "unknown", "n.a.", "N/A", "NA", "#N/A", "#DIV/0!",
    "#VALUE!",
    "*", "<NA>", "null", "nil", "NaN?", "x", "see note", "1.5.2", "12,5", "$12", "1 000", "12%", "5 kg", "1/2",
    "\u22125",
)  # fmt: skip
FORMATS: dict[str, Callable[[float], str]] = {
    "percent": lambda z: f"{z:.2f}%",
    "decimal comma": lambda z: f"{z:.2f}".replace(".", ","),
    "thousands": lambda z: f"{1000 * z:,.1f}",
    "thousands by blanks": lambda z: f"{1000 * z:,.1f}".replace(",", " "),
    "thousands by apostrophes": lambda z: f"{1000 * z:,.1f}".replace(",", "'"),
    "European": lambda z: f"{1000 * z:,.2f}".replace(",", "_").replace(".", ",").replace("_", "."),
    "dollars": lambda z: f"${z:.2f}",
    "euros": lambda z: f"{z:.2f} \u20ac",
    "units": lambda z: f"{z:.2f} kg",
    "accounting": lambda z: f"({z:.2f})",
    "trailing minus": lambda z: f"{z:.2f}-",
    "unicode minus": lambda z: f"\u2212{z:.2f}",
    "underscores": lambda z: f"{int(1000 * z):_}",
    "hexadecimal": lambda z: hex(int(1000 * z)),
    "about": lambda z: f"~{z:.2f}",
    "below": lambda z: f"<{z:.2f}",
    "quoted": lambda z: f"'{z:.2f}'",
}
PLAIN: dict[str, Callable[[float], str]] = {
    "plain": lambda z: f"{z:.2f}",
    "blanks around": lambda z: f" {z:.2f} ",
    "signs": lambda z: f"+{z:.2f}",
    "exponents": lambda z: f"{z:.2e}",
    "leading zeros": lambda z: f"00{z:.2f}",
}


def _arrow(data: dict[str, Any], folder: Path) -> pa.Table:
    return pa.table({name: pa.array(values.tolist()) for name, values in data.items()})


def _polars(data: dict[str, Any], folder: Path) -> Any:
    import polars

    return polars.DataFrame({name: values.tolist() for name, values in data.items()})


def _csv(data: dict[str, Any], folder: Path) -> str:
    pd.DataFrame(data).to_csv(folder / "data.csv", index=False)
    return str(folder / "data.csv")


def _parquet(data: dict[str, Any], folder: Path) -> str:
    pd.DataFrame(data).to_parquet(folder / "data.parquet", index=False)
    return str(folder / "data.parquet")


HOLDERS: dict[str, Callable[[dict[str, Any], Path], Any]] = {
    "dict": lambda data, folder: data,
    "lists": lambda data, folder: {name: values.tolist() for name, values in data.items()},
    "pandas": lambda data, folder: pd.DataFrame(data),
    "categories": lambda data, folder: pd.DataFrame(data).astype({"z": "category"}),
    "arrow": _arrow,
    "polars": _polars,
    "csv": _csv,
    "parquet": _parquet,
}


def _held(holder: str, data: dict[str, Any]) -> Callable[[Path], Any]:
    return lambda folder: HOLDERS[holder](data, folder)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """All of them, each in some containers."""
    table = Table(rng)
    yield from _marks(rng, table)
    yield from _formats(rng, table)
    yield from _names(rng, table)
    yield from _outcomes(rng, table)
    yield from _remedies(rng, table)
    yield from _files(table)


def _few(table: Table, **changed: Any) -> dict[str, Any]:
    return {"y": table["y"], "x": table["x"], "z": table["z"], **changed}


def _marks(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    """One text, or some, among numbers."""
    rows = {"first": [0], "last": [-1], "some": [3, 9, 27], "a fifth": list(range(0, 48, 5))}
    for mark in MARKS:
        for holder in ("csv", *(pick(rng, list(HOLDERS)) for _ in range(2))):
            where = pick(rng, list(rows))
            values = table["z"].astype(str).astype(object)
            values[rows[where]] = mark
            formula = pick(rng, ["y ~ z", "y ~ x + z", "y ~ .", "y ~ x:z"])
            call = fits(formula, _held(holder, _few(table, z=values)), **FEW)
            yield refused(KIND, f"{mark} among numbers, {where}, {holder}, {formula}", call, "z", "row|level")


def _formats(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    """Numbers as people write them."""
    for name, form in FORMATS.items():
        for holder in ("csv", pick(rng, list(HOLDERS))):
            values = np.array([form(one) for one in table["z"]], object)
            call = fits(pick(rng, ["y ~ z", "y ~ x + z"]), _held(holder, _few(table, z=values)), **FEW)
            if (name, holder) == ("hexadecimal", "csv"):  # which Arrow reads
                call = fits("y ~ z", _held(holder, _few(table, z=values)))
                truth = right(table.problem(columns={"z": (1000 * table["z"]).astype(int)}))
                yield Case(KIND, f"numbers as {name}, {holder}", call, truth, answer=True)
            else:
                yield refused(KIND, f"numbers as {name}, {holder}", call, "z")
    for name, form in PLAIN.items():
        for holder in ("csv", "pandas", "dict"):
            texts = [form(one) for one in table["z"]]
            call = fits("y ~ z", _held(holder, _few(table, z=np.array(texts, object))))
            truth = right(table.problem(columns={"z": np.array(texts).astype(float)}))
            yield Case(
                KIND, f"numbers as {name}, {holder}", call, truth, ("z",), answer=holder == "csv" and name == "plain"
            )
    for mark in (pick(rng, MARKS), "?"):
        call = fits("y ~ x", lambda folder, mark=mark: _long(folder, table, mark), **FEW)
        yield refused(KIND, f"{mark} in the last of 200,000 rows", call, "x", "row|199")


def _long(folder: Path, table: Table, last: str) -> str:
    lines = [f"{x},{y}" for x, y in zip(table["x"], table["y"], strict=True)]
    many = (lines * (200_000 // len(lines) + 1))[:199_999]
    (folder / "long.csv").write_text("\n".join(["x,y", *many, f'"{last}",1', ""]))
    return str(folder / "long.csv")


def _names(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    """Levels with odd names are levels all the same."""
    names = (
        ["\u00e4rger", "\u65e5\u672c", "\U0001f600"], ["a b", "a  b", "c d"], ["it's", 'say "no"', "`x`"],
        ["[T.b]", "a[b", "]"],
        ["", "b", "c"], [" a", "a", "a "], ["True ", "b", "c"], ["a:b", "a*b", "a+b"], ["\\n", "\\", "/"],
        ["a\nb", "a\tb", "a\rb"],
        ["a" * 500, "a" * 501, "b"], ["nan!", "inf!", "none!"], ["A", "a", "B"], ["{x}", "{}", "%s"],
        ["x", "y", "Intercept"],
        ["\u0130", "i", "I"], ["e\u0301", "\u00e9", "e"], ["a\u00a0b", "a b", "ab"], ["=1+1", "@x", "+x"],
        ["<b>", "&amp;", "</script>"],
    )  # fmt: skip
    for levels in names:
        for holder in (pick(rng, ["dict", "pandas", "arrow", "polars"]), "parquet"):
            values = np.array(levels, object)[np.searchsorted(["a", "b", "c"], table["c"])]
            columns = {f"z[T.{level}]": values == level for level in sorted(levels)[1:]}
            call = fits("y ~ z", _held(holder, _few(table, z=values)))
            truth = right(table.problem(columns=columns))
            yield Case(KIND, f"levels {levels!r:.40}, {holder}", call, truth, ("z",), answer="" not in levels)
    many = np.array([f"id {place:03d}" for place in range(48)], object)
    yield refused(
        KIND, "a level for each row, which leaves nothing", fits("y ~ x + z", _few(table, z=many), **FEW), "z"
    )


def _outcomes(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    """Two words for the outcome."""
    one = table["y"] == 1
    pairs = (
        ("no", "yes"), ("N", "Y"), ("FALSE", "TRUE"), ("false", "true"), ("0", "1"), ("failure", "success"),
        ("No ", "Yes "),
        ("bad", "good"), ("alive", "dead"), ("f", "m"), ("negative", "positive"), ("off", "on"), ("fail", "pass"),
        ("0.0", "1.0"),
    )  # fmt: skip
    for low, high in pairs:
        holder = pick(rng, ["dict", "pandas", "arrow", "polars", "csv", "parquet"])
        data = _few(table, y=np.where(one, high, low).astype(object))
        call = fits("y ~ x", _held(holder, data))
        yield Case(KIND, f"outcome {low!r} or {high!r}, {holder}", call, right(table.problem()), ("y",), answer=True)
        call = fits("y ~ x", _held(holder, data), outcome=low)
        numbers = holder == "csv" and low in ("0", "0.0")
        truth = right(table.problem(y=1 - table["y"]))
        yield Case(KIND, f"outcome {low!r} counts, {holder}", call, truth, ("y",), answer=not numbers)
        call = fits("y ~ x", _held(holder, data), **FEW, outcome="never")
        yield refused(KIND, f"outcome never of {low!r}, {holder}", call, "never")
    for name, values in {
        "three words": np.where(one, "yes", np.where(table["x"] > 0, "no", "maybe")),
        "two spellings": np.where(one, np.where(table["x"] > 0, "yes", "Yes"), "no"),
        "one word": np.full(table.rows, "yes"),
        "no words": np.full(table.rows, ""),
        "a mark": np.where(np.arange(table.rows) == 7, "?", np.where(one, "yes", "no")),
        "an empty one": np.where(np.arange(table.rows) == 7, "", np.where(one, "yes", "no")),
        "a word for each row": table["x"].astype(str),
    }.items():
        for family in ("bernoulli", "poisson", "gaussian"):
            call = fits("y ~ x", _few(table, y=values.astype(object)), family=family, **FEW)
            yield refused(KIND, f"outcome of {name}, {family}", call, "y")


def _remedies(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    """What the arguments decimal= and na_values= are for."""
    if "decimal" not in inspect.signature(tb.fit).parameters:
        return
    commas = np.array([f"{one:.2f}".replace(".", ",") for one in table["z"]], object)
    truth = right(table.problem(columns={"z": table["z"].round(2)}))
    for holder in ("pandas", "dict", "arrow", "parquet"):
        call = fits("y ~ z", _held(holder, _few(table, z=commas)), decimal=",")
        yield Case(KIND, f"decimal commas and decimal=',', {holder}", call, truth, answer=True)
    content = "y;z\n" + "".join(f"{y};{z}\n" for y, z in zip(table["y"], commas, strict=True))
    call = fits("y ~ z", on_disk("data.csv", content), decimal=",")
    yield Case(KIND, "decimal commas and decimal=',', csv", call, truth, answer=True)
    kept = np.arange(table.rows) % 9 != 4
    for mark in ("?", ".", "-99", "missing", "None", "n.a."):
        for holder in ("csv", pick(rng, ["pandas", "dict", "arrow", "parquet"])):
            values = np.where(kept, table["z"].astype(str), mark).astype(object)
            call = fits("y ~ z", _held(holder, _few(table, z=values)), na_values=mark, missing="drop")
            problem = table.problem(columns={"z": table["z"][kept]}, y=table["y"][kept])
            yield Case(KIND, f"na_values={mark!r}, {holder}", call, right(problem), answer=True)
            call = fits("y ~ z", _held(holder, _few(table, z=values)), na_values=mark, **FEW)
            yield refused(KIND, f"na_values={mark!r}, {holder}, not dropped", call, "z")
    for kind in ("f2", "f4", "Float32", "Sparse[float32]", "float32[pyarrow]", "int64", "Int16"):
        mark = -99 if "nt" in kind else -99.9
        values = pd.Series(np.where(kept, np.trunc(table["z"]), mark)).astype(kind)
        call = fits("y ~ z", pd.DataFrame(_few(table, z=values)), na_values=mark, missing="drop")
        problem = table.problem(columns={"z": np.trunc(table["z"][kept])}, y=table["y"][kept])
        yield Case(KIND, f"na_values={mark!r}, {kind}", call, right(problem), answer=True)
    codes = pd.Categorical(np.where(kept, table["i"] % 3, -9))
    columns = {f"z[T.{level}]": table["i"][kept] % 3 == level for level in (1, 2)}
    call = fits("y ~ z", pd.DataFrame(_few(table, z=codes)), na_values=-9, missing="drop")
    problem = table.problem(columns=columns, y=table["y"][kept])
    yield Case(KIND, "na_values=-9, categories of numbers", call, right(problem), answer=True)
    days = np.datetime64("2026-01-01") + 5 * np.arange(table.rows)
    days[~kept] = np.datetime64("9999-12-31")
    call = fits("y ~ days(z)", _few(table, z=days), na_values="9999-12-31", missing="drop")
    problem = table.problem(columns={"days(z)": days[kept].astype(float)}, y=table["y"][kept])
    yield Case(KIND, "na_values='9999-12-31'", call, right(problem), answer=True)
    for value in ("", "..", 5, None if False else True, ["."], ";"):
        yield refused(KIND, f"decimal={value!r}", fits("y ~ z", _few(table), decimal=value, **FEW), "decimal")
    for value in (True, object, 1j, {"z": 1}):
        yield refused(KIND, f"na_values={value!r}", fits("y ~ z", _few(table), na_values=value, **FEW), "na_values")


def _files(table: Table) -> Iterator[Case]:
    """Text that breaks a file."""
    lines = [f"{x},{y}" for x, y in zip(table["x"], table["y"], strict=True)]
    for name, broken in {
        "a NUL byte": [*lines[:9], "1\x002,1", *lines[9:]],
        "NUL for a number": [*lines[:9], "\x00,1", *lines[9:]],
        "a quote that is not closed": [*lines[:9], '"1.5,1', *lines[9:]],
        "a quote that is not closed at the end": [*lines, '"1.5,1'],
        "a quote inside": [*lines[:9], '1"5,1', *lines[9:]],
        "two numbers in one": [*lines[:9], "1.5 2.5,1", *lines[9:]],
        "a line of text": [*lines, "Total"],
        "a line of text and a comma": [*lines, "Total,17"],
    }.items():
        yield refused(
            KIND,
            f"csv with {name}",
            fits("y ~ x", on_disk("data.csv", "x,y\n" + "\n".join(broken) + "\n"), **FEW),
            "data.csv|x|y",
            "row|quote|line",
        )
