"""Saved fits: files that were cut, edited or tampered with, or hold something else."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tallbayes as tb
from odd.case import FEW, Case, Complaints, Table, pick, refused
from odd.formulas import unmarked

KIND = "saved fits"
NEW = {"x": [-1.0, 0.5], "z": [2.0, 3.0], "c": ["a", "b"], "g": ["p", "new"], "o": [0.1, 0.2]}
FORMULAS = {
    "plain": "y ~ x + c",
    "groups": "y ~ x + (1 | g)",
    "gaussian": "v ~ x",
    "spline": "y ~ s(x)",
    "offset": "y ~ x + offset(o)",
    "scaled": "y ~ scale(x)",
}


@functools.cache
def fitted(kind: str, seed: int = 1) -> tb.Fit:
    """A small fit of its kind, of 200 draws in all."""
    table = Table(np.random.default_rng(seed))
    family = "gaussian" if kind == "gaussian" else "bernoulli"
    how = {**FEW, "draws": 100, "warmup": 50}
    return tb.fit(FORMULAS[kind], table.dict(), family=family, **how)


@functools.cache
def content(kind: str) -> bytes:
    """The file of such a fit."""
    with tempfile.TemporaryDirectory() as folder:
        fitted(kind).save(f"{folder}/fit.nc")
        return Path(folder, "fit.nc").read_bytes()


def same(kind: str) -> Callable[[Any], Complaints]:
    """A fit that was loaded is the one that was saved."""

    def truth(loaded: Any) -> Complaints:
        right = fitted(kind)
        if loaded.parameters != right.parameters or not np.array_equal(loaded.draws, right.draws):
            return ["the draws are not those that were saved"]
        if loaded.prior != right.prior or loaded.family != right.family or loaded.formula.text != right.formula.text:
            return ["the model is not the one that was saved"]
        if kind != "spline" and not loaded.predict(NEW).equals(right.predict(NEW)):
            return ["it predicts something else"]
        return (
            []
            if json.dumps(loaded.stats, default=str)
            == json.dumps(json.loads(json.dumps(right.stats, default=lambda one: one.item())), default=str)
            else ["its story is another one"]
        )

    return truth


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """Bytes, attributes, variables."""
    for kind in FORMULAS:
        yield Case(
            KIND,
            f"as it was, {kind}",
            lambda folder, kind=kind: _loaded(folder, content(kind)),
            same(kind),
            answer=True,
        )
    yield from _bytes(rng)
    yield from _edited(rng)


def _loaded(folder: Path, whole: bytes) -> tb.Fit:
    (folder / "fit.nc").write_bytes(whole)
    return tb.load(folder / "fit.nc")


def _bytes(rng: np.random.Generator) -> Iterator[Case]:
    def flip(folder: Path, kind: str, places: np.ndarray) -> Any:
        broken = bytearray(content(kind))
        for one in places:
            broken[int(one * len(broken))] ^= 1 << int(one * 1e6) % 8
        return _loaded(folder, bytes(broken))

    def cut(folder: Path, kind: str, share: float) -> Any:
        return _loaded(folder, content(kind)[: int(share * len(content(kind)))])

    for number in range(48):
        kind, places = pick(rng, list(FORMULAS)), rng.random(pick(rng, [1, 1, 3, 30]))
        yield Case(
            KIND,
            f"bits flipped at {places[0]:.6f} ({len(places)}), {kind}, {number}",
            lambda folder, kind=kind, places=places: flip(folder, kind, places),
            same(kind),
            ("fit.nc",),
        )
    for share in (0.0, 1e-4, 0.01, 0.3, 0.7, 0.99, 0.9999):
        kind = pick(rng, list(FORMULAS))
        yield Case(
            KIND,
            f"cut to {share:g}, {kind}",
            lambda folder, kind=kind, share=share: cut(folder, kind, share),
            same(kind),
            ("fit.nc",),
        )
    for name, whole in {
        "text": b"hello\n" * 50,
        "zeros": bytes(5_000),
        "JSON": b'{"format": 2}',
        "the head of HDF5": b"\x89HDF\r\n\x1a\n" + bytes(2_000),
        "classic netCDF": b"CDF\x01" + bytes(2_000),
        "a pickle": b"\x80\x04\x95\x0b\x00",
        "a zip": b"PK\x03\x04" + bytes(99),
    }.items():
        yield refused(KIND, f"holds {name}", lambda folder, whole=whole: _loaded(folder, whole), "fit.nc")

    def other(folder: Path, how: str) -> Any:
        import h5py

        with h5py.File(folder / "fit.nc", "w") as file:
            if how == "array":
                file["x"] = np.arange(5)
            if how == "number":
                file.attrs["tallbayes"] = 5
            if how == "bytes":
                file.attrs["tallbayes"] = np.arange(3)
            if how == "empty":
                file.attrs["tallbayes"] = ""
        return tb.load(folder / "fit.nc")

    for how in ("nothing", "array", "number", "bytes", "empty"):
        yield refused(KIND, f"HDF5 of {how}", lambda folder, how=how: other(folder, how), "fit.nc")
    yield refused(KIND, "a folder", lambda folder: tb.load(folder), "folder|file|odd-")
    yield refused(KIND, "no such file", lambda folder: tb.load(folder / "nothing.nc"), "nothing.nc")
    yield refused(
        KIND, "save to a folder that is not there", lambda folder: fitted("plain").save(folder / "no" / "fit.nc"), "no"
    )
    yield refused(KIND, "save to a folder", lambda folder: fitted("plain").save(folder), "folder|directory|odd-")
    for value in (None, 5, True, b"\0", "", "a\0b"):
        for what in ("save", "report"):
            yield refused(
                KIND,
                f"{what} to {value!r}",
                lambda folder, value=value, what=what: getattr(fitted("plain"), what)(value),
                "path|file|name|''|folder",
            )


EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "not JSON": lambda state: "{", "a list": lambda state: [], "null": lambda state: None,
    "a number": lambda state: 5, "a text": lambda state: "fit", "nothing": lambda state: {},
    "another format": lambda state: {**state, "format": 99},
    "format of text": lambda state: {**state, "format": "two"},
    "another kind": lambda state: {**state, "kind": "neural"}, "kind null": lambda state: {**state, "kind": None},
    "kind of splines": lambda state: {**state, "kind": "splines"}, "kind a list": lambda state: {**state, "kind": []},
    "family null": lambda state: {**state, "family": None},
    "family unknown": lambda state: {**state, "family": {"name": "no"}},
    "family without a name": lambda state: {**state, "family": {}},
    "family with more": lambda state: {**state, "family": {"name": "poisson", "rate": 1}},
    "family a number": lambda state: {**state, "family": 5},
    "a bad link": lambda state: {**state, "family": {"name": "bernoulli", "link": "no"}},
    "stats null": lambda state: {**state, "stats": None}, "stats a list": lambda state: {**state, "stats": []},
    "stats empty": lambda state: {**state, "stats": {}}, "prior null": lambda state: {**state, "prior": []},
    "formula a number": lambda state: {**state, "formula": 5},
    "formula empty": lambda state: {**state, "formula": ""},
    "calibration a number": lambda state: {**state, "calibration": 5},
    "calibration too short": lambda state: {**state, "calibration": [[1.0]]},
    "calibration of text": lambda state: {**state, "calibration": ["a"] * 5},
    "offset a number": lambda state: {**state, "offset": 5},
}  # fmt: skip
OF_FORMULA: dict[str, Callable[[dict[str, Any]], Any]] = {
    "text of code": lambda formula: {**formula, "text": "y ~ x.to_csv('mark1') + c"},
    "text of an import": lambda formula: {**formula, "text": "y ~ __import__('os').system('touch mark2') + c"},
    "text of a call": lambda formula: {**formula, "text": "y ~ I(open('mark3', 'w')) + c"},
    "text of more": lambda formula: {**formula, "text": "y ~ x + c + z"},
    "text of less": lambda formula: {**formula, "text": "y ~ x"},
    "text of others": lambda formula: {**formula, "text": "y ~ z + c"},
    "text of nothing": lambda formula: {**formula, "text": ""},
    "text a number": lambda formula: {**formula, "text": 5}, "text null": lambda formula: {**formula, "text": None},
    "fewer coefficients": lambda formula: {**formula, "coefficients": formula["coefficients"][:2]},
    "more coefficients": lambda formula: {**formula, "coefficients": [*formula["coefficients"], "z"]},
    "other coefficients": lambda formula: {**formula, "coefficients": formula["coefficients"][::-1]},
    "coefficients a number": lambda formula: {**formula, "coefficients": 5},
    "coefficients null": lambda formula: {**formula, "coefficients": None},
    "levels gone": lambda formula: {**formula, "levels": {}},
    "other levels": lambda formula: {**formula, "levels": {"c": [["a", "b"], False]}},
    "levels a number": lambda formula: {**formula, "levels": 5},
    "levels turned": lambda formula: {**formula, "levels": {"c": [["c", "b", "a"], False]}},
    "version 99": lambda formula: {**formula, "version": 99},
    "version null": lambda formula: {**formula, "version": None},
    "transforms a number": lambda formula: {**formula, "transforms": 5},
    "transforms of code": lambda formula: {**formula, "transforms": {"dict": [["x.to_csv('mark4')", {"dict": []}]]}},
    "group_levels a number": lambda formula: {**formula, "group_levels": 5},
    "no text": lambda formula: {key: value for key, value in formula.items() if key != "text"},
    "no coefficients": lambda formula: {key: value for key, value in formula.items() if key != "coefficients"},
    "no levels": lambda formula: {key: value for key, value in formula.items() if key != "levels"},
    "no transforms": lambda formula: {key: value for key, value in formula.items() if key != "transforms"},
    "a list": lambda formula: [], "null": lambda formula: None,
}  # fmt: skip


def _edited(rng: np.random.Generator) -> Iterator[Case]:
    import h5py

    def edited(folder: Path, kind: str, change: Callable[[dict[str, Any]], Any], use: str) -> Any:
        (folder / "fit.nc").write_bytes(content(kind))
        with h5py.File(folder / "fit.nc", "r+") as file:
            found = change(json.loads(file.attrs["tallbayes"]))
            file.attrs["tallbayes"] = found if isinstance(found, str) else json.dumps(found)
        loaded = tb.load(folder / "fit.nc")
        return {
            "predict": lambda: loaded.predict(NEW),
            "summary": lambda: (repr(loaded), loaded.summary()),
            "report": lambda: loaded.report(folder / "fit.html"),
        }[use]()

    def inside(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
        return lambda state: {**state, "formula": json.dumps(change(json.loads(state["formula"])))}

    def without(key: str) -> Callable[[dict[str, Any]], Any]:
        return lambda state: {name: value for name, value in state.items() if name != key}

    missing = {
        f"no {key}": without(key)
        for key in ("format", "kind", "stats", "formula", "family", "offset", "has_offset", "prior")
    }
    changes = {**EDITS, **missing, **{f"formula: {name}": inside(change) for name, change in OF_FORMULA.items()}}
    for name, change in changes.items():
        use = pick(rng, ["predict", "predict", "summary", "report"]) if not name.startswith("formula") else "predict"
        yield refused(
            KIND,
            f"edited: {name}, {use}",
            lambda folder, change=change, use=use: edited(folder, "plain", change, use),
            "fit.nc|formula|saved|learned",
            after=unmarked,
        )

    def variables(folder: Path, what: str) -> Any:
        (folder / "fit.nc").write_bytes(content("groups" if "group" in what else "plain"))
        with h5py.File(folder / "fit.nc", "r+") as file:
            draws = file["posterior/beta"]
            if what == "no posterior":
                del file["posterior"]
            elif what == "no beta":
                del file["posterior/beta"]
            elif what == "NaN draws":
                draws[0, 3] = np.nan
            elif what == "infinite draws":
                draws[...] = np.inf
            elif what == "other names":
                file["posterior/coefficient"][0] = "nothing"
            elif what == "a group less":
                del file["constant_data"]
            elif what == "a draw changed":
                draws[0, 3, 1] += 1.0
            elif what == "beta of text":
                del file["posterior/beta"]
                file["posterior/beta"] = "text"
            elif what == "beta too short":
                del file["posterior/beta"]
                file["posterior/beta"] = np.zeros((2, 3))
        loaded = tb.load(folder / "fit.nc")
        return loaded.summary(), loaded.predict(NEW)

    for what in (
        "no posterior",
        "no beta",
        "NaN draws",
        "infinite draws",
        "other names",
        "a group less",
        "a draw changed",
        "beta of text",
        "beta too short",
    ):
        yield refused(KIND, f"variables: {what}", lambda folder, what=what: variables(folder, what), "fit.nc")
