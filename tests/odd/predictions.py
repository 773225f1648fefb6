"""Predictions for odd rows, and what else can be asked of a fit."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tallbayes as tb
from odd.case import FEW, Case, Complaints, pick, refused
from odd.saved import fitted

KIND = "predictions"


def predicted(kind: str, x: Any, c: Any = None, offset: Any = 0.0) -> Callable[[Any], Complaints]:
    """What a fit of `saved.fitted` predicts, from all of its draws: there are 200, and 300 are asked for."""

    def truth(table: Any) -> Complaints:
        fit = fitted(kind)
        columns = [np.ones(len(x)), np.asarray(x, float)]
        if c is not None:
            columns += [np.asarray(c) == level for level in "bc"]
        eta = fit.posterior["beta"].values.reshape(-1, len(columns)) @ np.array(columns, float) + offset
        mean = eta if kind == "gaussian" else 1 / (1 + np.exp(-eta))
        found = np.asarray(table)
        ends = np.quantile(mean, [0.03, 0.97], axis=0)
        right = np.stack([mean.mean(0), *ends], 1)
        return (
            []
            if found.shape == right.shape and np.allclose(found, right, rtol=1e-9, atol=1e-12)
            else ["predictions are wrong"]
        )

    return truth


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """New rows, arguments, plots and comparisons."""
    yield from _rows(rng)
    yield from _arguments(rng)
    yield from _others(rng)


def _rows(rng: np.random.Generator) -> Iterator[Case]:
    size = int(rng.integers(3, 9))
    x, c = rng.normal(size=size).round(3), np.resize(["a", "b", "c"], size)
    frame = pd.DataFrame({"x": x, "c": c, "y": 0, "unused": [[1]] * size})
    right = predicted("plain", x, c)
    good: dict[str, Any] = {
        "pandas": frame, "a dict": {"x": x, "c": c}, "lists": {"x": x.tolist(), "c": c.tolist()},
        "odd index": frame.set_axis(["r"] * size), "categories": frame.assign(c=pd.Categorical(c)),
        "other categories": frame.assign(c=pd.Categorical(c, ["zz", "c", "b", "a"])),
        "object numbers": frame.assign(x=x.astype(object)), "Float64": frame.assign(x=pd.array(x, dtype="Float64")),
        "columns turned": frame[["c", "x"]], "string": frame.assign(c=pd.array(c, dtype="string")),
    }  # fmt: skip
    for name, data in good.items():
        yield Case(KIND, f"rows as {name}", lambda folder, data=data: fitted("plain").predict(data), right, answer=True)
    one = predicted("plain", x[:1], c[:1])
    yield Case(KIND, "one row", lambda folder: fitted("plain").predict(frame.iloc[:1]), one, answer=True)
    only_a = predicted("plain", x, np.full(size, "a"))
    yield Case(KIND, "one level", lambda folder: fitted("plain").predict(frame.assign(c="a")), only_a, answer=True)
    for scale in (1e3, 1e10, 1e300):
        call = lambda folder, scale=scale: fitted("plain").predict(frame.assign(x=x * scale))  # noqa: E731
        yield Case(KIND, f"x times {scale:g}", call, predicted("plain", x * scale, c), ("x",), answer=scale < 1e6)

    def csv(folder: Path, content: pd.DataFrame, name: str = "new.csv") -> str:
        content.drop(columns="unused").to_csv(folder / name, index=False)
        return str(folder / name)

    yield Case(KIND, "rows of a file", lambda folder: fitted("plain").predict(csv(folder, frame)), right, answer=True)
    marked = frame.assign(x=[*x[:-1].astype(str), "?"])
    yield refused(KIND, "a mark in a file", lambda folder: fitted("plain").predict(csv(folder, marked)), "x")
    bad: dict[str, tuple[Any, str]] = {
        "no x": (frame.drop(columns="x"), "x"), "no c": (frame.drop(columns="c"), "c"),
        "another level": (frame.assign(c="d"), "d"), "one other level": (frame.assign(c=["d", *c[1:]]), "d"),
        "a level in capitals": (frame.assign(c="A"), "A"), "a level with a blank": (frame.assign(c="a "), "c"),
        "an empty level": (frame.assign(c=""), "c"), "numbers for levels": (frame.assign(c=1), "c"),
        "text for x": (frame.assign(x="a"), "x"), "numbers as text for x": (frame.assign(x=x.astype(str)), "x"),
        "NaN in x": (frame.assign(x=[np.nan, *x[1:]]), "x"), "inf in x": (frame.assign(x=[np.inf, *x[1:]]), "x"),
        "None in c": (frame.assign(c=[None, *c[1:]]), "c"),
        "dates for x": (frame.assign(x=pd.Timestamp("2020")), "x"), "complex x": (frame.assign(x=x + 1j), "x"),
        "masked x": ({"x": np.ma.masked_array(x, mask=x == x[0]), "c": c}, "x"),
        "lists for x": (frame.assign(x=[[1]] * size), "x"),
        "no rows": (frame.iloc[:0], "rows"), "no columns": (pd.DataFrame(), "column"), "None": (None, "data|None"),
        "a number": (5, "data"), "a list": ([1, 2], "data"), "an array": (frame[["x"]].to_numpy(), "data"),
        "no file": ("nothing.csv", "nothing.csv"), "unequal lengths": ({"x": x, "c": c[:-1]}, "x|c"),
        "a generator": ((one for one in [frame]), "once"), "x twice": (pd.concat([frame, frame[["x"]]], axis=1), "x"),
        "a dict of numbers": ({"x": 1.0, "c": "a"}, "x|c"),
        "numbers for x as categories": (frame.assign(x=pd.Categorical(x)), "x"),
        "periods for x": (frame.assign(x=pd.period_range("2020", periods=size, freq="D")), "x"),
        "bools for levels": (frame.assign(c=True), "c"), "bytes for levels": (frame.assign(c=[b"a"] * size), "c"),
    }  # fmt: skip
    for name, (data, word) in bad.items():
        yield refused(KIND, f"predict: {name}", lambda folder, data=data: fitted("plain").predict(data), word)
        if not isinstance(data, str | int | list | type(None)):
            yield refused(
                KIND,
                f"predict_to: {name}",
                lambda folder, data=data: fitted("plain").predict_to(data, folder / "out.csv", progress=False),
                word,
                after=_no_file,
            )
    groups: dict[str, tuple[Any, str]] = {
        "no g": ({"x": x}, "g"),
        "NaN in g": ({"x": x, "g": np.full(size, np.nan)}, "g"),
        "None in g": ({"x": x, "g": np.full(size, None)}, "g"),
        "lists in g": ({"x": x, "g": [[1]] * size}, "g"),
        "complex g": ({"x": x, "g": x + 1j}, "g"),
        "dates in g": ({"x": x, "g": np.full(size, np.datetime64("2020-01-01"))}, "g"),
    }
    truths = frame.assign(x=x > 0)
    for name, values in {
        "bools": x > 0, "0 and 1": (x > 0) * 1, "floats": (x > 0) * 1.0, "boolean": pd.array(x > 0, dtype="boolean"),
        "objects": (x > 0).astype(object), "categories": pd.Categorical(x > 0),
        "categories, turned": pd.Categorical(x > 0, [True, False]), "text": (x > 0).astype(str), "others": 1 + (x > 0),
    }.items():  # fmt: skip
        fine = name not in ("text", "others")
        yield Case(
            KIND,
            f"rows for a category of True and False: {name}",
            lambda folder, values=values: _of_truths().predict(frame.assign(x=values)),
            (lambda table: _like(table, _of_truths().predict(truths.astype({"x": "category"})))) if fine else None,
            ("x",),
            answer=fine,
        )
    yield refused(
        KIND,
        "predict what no number can hold",
        lambda folder: _counting().predict({"x": [0.0, 1e9]}),
        "row 1",
        "too large",
    )
    for name, (data, word) in groups.items():
        yield refused(
            KIND, f"predict of groups: {name}", lambda folder, data=data: fitted("groups").predict(data), word
        )
    yield refused(KIND, "predict without its offset", lambda folder: fitted("offset").predict({"x": x}), "o")
    yield refused(
        KIND,
        "predict with NaN in its offset",
        lambda folder: fitted("offset").predict({"x": x, "o": np.full(size, np.nan)}),
        "o",
    )
    yield Case(
        KIND,
        "predict with its offset",
        lambda folder: fitted("offset").predict({"x": x, "o": x / 2}),
        predicted("offset", x, offset=x / 2),
        answer=True,
    )
    yield Case(
        KIND,
        "predict of a gaussian",
        lambda folder: fitted("gaussian").predict({"x": x}),
        predicted("gaussian", x),
        answer=True,
    )


@cache
def _of_truths() -> Any:
    """A fit of a category of True and False."""
    x = np.resize([True, False, True], 48)
    data = {"x": pd.Categorical(x), "y": np.resize([1, 0, 1, 1, 0, 0, 1, 1], 48)}
    return tb.fit("y ~ x", data, **FEW)


@cache
def _counting() -> Any:
    return tb.fit("y ~ x", {"x": np.linspace(-1, 1, 48), "y": np.resize([1, 0, 3, 2], 48)}, "poisson", **FEW)


def _like(found: pd.DataFrame, right: pd.DataFrame) -> Complaints:
    return [] if found.equals(right) else ["predictions are wrong"]


def _no_file(folder: Path) -> Complaints:
    return [f"{path.name} was left behind" for path in folder.iterdir() if "out" in path.name]


def _arguments(rng: np.random.Generator) -> Iterator[Case]:
    new = {"x": [0.0, 1.0], "c": ["a", "b"]}
    wrong: dict[str, tuple[Any, ...]] = {
        "draws": (0, -1, 1.5, "300", None, True, [300], np.nan, 1j),
        "interval": (0, 1, -0.5, 1.5, 94, "0.94", None, True, [0.9], np.nan, np.inf, 1j, np.array([0.5, 0.9])),
        "seed": (-1, 1.5, "1", None, True, [1], np.nan),
        "offset": ("o", [1.0], [1.0, 2.0, 3.0], np.ones((2, 2)), "a", 1j, np.nan, [np.nan, 1.0], np.inf, object(), {},
        ["a", "b"], True, np.ma.masked_array([1.0, 2.0], mask=[True, False])),
    }  # fmt: skip
    for name, values in wrong.items():
        for value in values:
            shown = f"{type(value).__name__} {value!r:.25}".split(" at 0x")[0].replace("\n", " ")
            yield refused(
                KIND,
                f"predict {name}={shown}",
                lambda folder, name=name, value=value: fitted("plain").predict(new, **{name: value}),
                name,
            )
    for value in (5, None, [1], True, "", "out.txt", "out.xlsx", "no/such/out.csv", io.StringIO(), "x" * 300 + ".csv"):
        shown = f"{value!r:.30}".split(" at 0x")[0]
        yield refused(
            KIND,
            f"predict_to {shown}",
            lambda folder, value=value: fitted("plain").predict_to(new, value, progress=False),
            "target|path|file|out|folder|name|csv",
        )
    for name, far in {"gaussian": {"x": [1.0, 1e308]}, "spline": {"x": [1.0, 1e308]}}.items():
        yield refused(
            KIND,
            f"predict far away, {name}",
            lambda folder, name=name, far=far: fitted(name).predict(far),
            "row 1",
        )
    for value in (["nothing"], "x", 5, [5], None, [None], ["x", "x"], ["mean"]):
        keep = f"{value!r}"
        truth: Any = _kept if value in (None, ["x", "x"], "x") else None
        yield Case(
            KIND,
            f"predict_to keep={keep}",
            lambda folder, value=value: fitted("plain").predict_to(new, folder / "out.csv", value, progress=False),
            truth,
            ("keep|nothing|mean|column",),
        )


def _kept(rows: Any) -> Complaints:
    return [] if rows == 2 else ["rows are missing"]


def _others(rng: np.random.Generator) -> Iterator[Case]:
    for plot in ("forest", "trace", "density"):
        for value in (["nothing"], "nothing", 5, [], [5], [None], True, ["x", "nothing"]):
            yield refused(
                KIND,
                f"plots.{plot} names={value!r}",
                lambda folder, plot=plot, value=value: getattr(tb.plots, plot)(fitted("plain"), names=value),
                "name|parameter|nothing",
            )
        for value in (5, None, "fit", [1], pd.DataFrame()):
            yield refused(
                KIND,
                f"plots.{plot} of {value!r:.20}",
                lambda folder, plot=plot, value=value: getattr(tb.plots, plot)(value),
                "fit",
            )
    for value in (0, -1, 1.5, "3"):
        for plot in ("trace", "density"):
            yield refused(
                KIND,
                f"plots.{plot} columns={value!r}",
                lambda folder, plot=plot, value=value: getattr(tb.plots, plot)(fitted("plain"), columns=value),
                "columns",
            )
    yield refused(KIND, "compare nothing", lambda folder: tb.compare(), "nothing|compare")
    yield refused(KIND, "compare other models", lambda folder: tb.compare(a=fitted("plain"), b=fitted("gaussian")), "a")
    yield refused(
        KIND, "compare groups and none", lambda folder: tb.compare(a=fitted("plain"), b=fitted("groups")), "a"
    )
    yield refused(
        KIND,
        "compare_parameters of other models",
        lambda folder: tb.compare_parameters(a=fitted("plain"), b=fitted("gaussian")),
        "a",
    )
    for value in (0, -1, 1.5, "3", None, True):
        yield refused(
            KIND,
            f"compare_parameters thin={value!r}",
            lambda folder, value=value: tb.compare_parameters(value, a=fitted("plain")),
            "thin",
        )
        yield refused(
            KIND, f"edpm thin={value!r}", lambda folder, value=value: fitted("plain").edpm(thin=value), "thin"
        )
    yield Case(
        KIND,
        "compare with itself",
        lambda folder: tb.compare(a=fitted("plain"), b=fitted("plain")),
        lambda table: [] if (table["largest_z"] == 0).all() else ["it differs from itself"],
        answer=True,
    )
    kind = pick(rng, ["plain", "groups", "gaussian"])
    draws = lambda table: [] if np.allclose(table["mean"], fitted(kind).draws.mean((0, 1))) else ["means are wrong"]  # noqa: E731
    yield Case(KIND, f"summary, {kind}", lambda folder: fitted(kind).summary(), draws, answer=True)
