"""Weights, offsets, exposures and groups."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import tallbayes as tb
from odd.case import FAMILIES, FEW, OUTCOMES, SHAPES, Case, Table, fits, pick, refused
from odd.judge import right

KIND = "weights, offset, groups"


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """All of them."""
    table = Table(rng)
    yield from _weights(rng, table)
    yield from _offsets(rng, table)
    yield from _groups(rng, table)


def _weights(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    n, one = table.rows, np.arange(table.rows) == int(rng.integers(4, 48))
    good: dict[str, Any] = {
        "whole": table["w"], "fractions": table["z"] / 5,
        "zeros among them": np.where(np.arange(n) % 3 == 1, 0, table["w"]),
        "all but ten zero": np.where(np.arange(n) < 10, 1, 0),
        "bools": np.arange(n) % 4 != 1, "tiny": table["w"] * 1e-12, "minus zero": np.where(one, -0.0, 1.0),
        "one of 1000": np.where(one, 1000.0, 1.0), "one of 1e-300": np.where(one, 1e-300, 1.0),
    }  # fmt: skip
    for name, values in good.items():
        for family in ("logit", pick(rng, ["poisson", "gaussian", "gamma", "probit"])):
            options = {"family": FAMILIES[family], "weights": pick(rng, ["w", values])}
            data = table.dict(w=values) if isinstance(options["weights"], str) else table.dict()
            truth = right(table.problem(family, weights=np.asarray(values, float), shape=SHAPES.get(family, 1.0)))
            call = fits(f"{OUTCOMES[family]} ~ x", data, **options)
            yield Case(
                KIND,
                f"weights: {name}, {family}",
                call,
                truth,
                ("weights",),
                answer=name in ("whole", "fractions", "bools", "minus zero"),
            )
    for size in (1e6, 1e9, 1e15, 1e50, 1e150, 1e300, 1.7e308):
        for family in ("logit", "poisson", "gaussian"):
            for which in ("all", "one"):
                values = np.where(one, size, 1.0) if which == "one" else np.full(n, size)
                call = fits(f"{OUTCOMES[family]} ~ x", table.dict(w=values), family=FAMILIES[family], weights="w")
                yield Case(
                    KIND,
                    f"weights: {which} of {size:g}, {family}",
                    call,
                    right(table.problem(family, weights=values)),
                    ("weights|'w'|combination",),
                )
    bad: dict[str, Any] = {
        "a negative": np.where(one, -1.0, 1.0), "NaN": np.where(one, np.nan, 1.0), "inf": np.where(one, np.inf, 1.0),
        "all zero": np.zeros(n), "all negative": -np.ones(n), "too short": np.ones(5), "too long": np.ones(n + 1),
        "2-D": np.ones((n, 1)), "one number": 2.0, "text": np.full(n, "a"), "complex": np.ones(n) + 1j,
        "masked": np.ma.masked_array(np.ones(n), mask=one), "dates": np.full(n, np.datetime64("2020-01-01")),
        "None inside": np.where(one, None, 1.0),
        "empty": [], "ragged": [[1], [1, 2]], "lists": [[1]] * n, "a dict": {"w": 1}, "a function": len,
        "bytes": b"w", "a set": {1.0}, "a generator": (1.0 for _ in range(n)),
        "a frame": pd.DataFrame({"w": np.ones(n)}), "no such column": "nothing", "": "",
        "all zero but ones": np.where(table["y"] == 1, 1.0, 0.0),
    }  # fmt: skip
    for name, values in bad.items():
        yield refused(
            KIND,
            f"weights: {name or 'an empty name'}",
            fits("y ~ x", table.dict(), weights=values, **FEW),
            "weights|nothing|y",
        )
        if isinstance(values, np.ndarray) and values.shape == (n,):
            yield refused(
                KIND,
                f"weights: {name}, as a column",
                fits("y ~ x", table.dict(w=values), weights="w", **FEW),
                "w|weights|y",
            )
            yield refused(
                KIND,
                f"weights: {name}, groups",
                fits("y ~ x + (1 | g)", table.dict(w=values), weights="w", **FEW),
                "w|weights|y",
            )


def _offsets(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    n, one = table.rows, np.arange(table.rows) == int(rng.integers(48))
    for family in ("logit", "poisson", "gaussian", "gamma", "probit"):
        for way in ("column", "array", "term", "list"):
            formula = f"{OUTCOMES[family]} ~ x" + (" + offset(o)" if way == "term" else "")
            given = {"column": "o", "array": table["o"], "list": table["o"].tolist(), "term": None}[way]
            truth = right(table.problem(family, offset=table["o"], shape=SHAPES.get(family, 1.0)))
            yield Case(
                KIND,
                f"offset by {way}, {family}",
                fits(formula, table.dict(), family=FAMILIES[family], offset=given),
                truth,
                answer=True,
            )
    call = fits("y ~ x", table.dict(), offset=table["o"].astype(str).astype(object))
    yield Case(KIND, "offset of numbers as text", call, right(table.problem(offset=table["o"])), ("offset",))
    bad: dict[str, Any] = {
        "NaN": np.where(one, np.nan, 0.0), "inf": np.where(one, np.inf, 0.0), "-inf": np.where(one, -np.inf, 0.0),
        "too short": np.zeros(5), "2-D": np.zeros((n, 2)), "text": np.full(n, "a"), "complex": np.zeros(n) + 1j,
        "masked": np.ma.masked_array(np.zeros(n), mask=one), "dates": np.full(n, np.datetime64("2020-01-01")),
        "None inside": np.where(one, None, 0.0), "empty": [], "a dict": {}, "a function": len,
        "no such column": "nothing",
        "a generator": (0.0 for _ in range(n)), "durations": np.full(n, np.timedelta64(1, "s")), "lists": [[0.0]] * n,
    }  # fmt: skip
    for name, values in bad.items():
        yield refused(KIND, f"offset: {name}", fits("y ~ x", table.dict(), offset=values, **FEW), "offset|nothing")
        if isinstance(values, np.ndarray) and values.shape == (n,):
            yield refused(
                KIND, f"offset: {name}, as a term", fits("y ~ x + offset(o)", table.dict(o=values), **FEW), "o"
            )
    for name, values in {
        "zero": np.where(one, 0.0, 2.0),
        "negative": np.where(one, -1.0, 2.0),
        "NaN": np.where(one, np.nan, 2.0),
        "inf": np.where(one, np.inf, 2.0),
        "text": np.full(n, "a"),
    }.items():
        for family in (tb.Poisson("z"), tb.NegativeBinomial(2.0, "z")):
            yield refused(
                KIND,
                f"exposure: {name}, {family.name}",
                fits("k ~ x", table.dict(z=values), family=family, **FEW),
                "z|exposure",
            )
    for scale in (1e-300, 1e-6, 1.0, 1e6, 1e300):
        exposure = table["z"] * scale
        call = fits("k ~ x", table.dict(z=exposure), family=tb.Poisson("z"))
        yield Case(
            KIND,
            f"exposure times {scale:g}",
            call,
            right(table.problem("poisson", offset=np.log(exposure))),
            ("z|exposure",),
            answer=1e-7 < scale < 1e7,
        )


def _groups(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    n, g = table.rows, table["g"]
    codes = np.searchsorted(["p", "q", "r", "s"], g)
    good: dict[str, Any] = {
        "text": g, "whole": codes, "floats": codes.astype(float), "negative": codes - 9, "large": codes * 10**12,
        "bools": codes > 1, "categories": pd.Categorical(g, ["zz", *"srqp"]), "uint8": codes.astype("u1"),
        "halves": codes / 2, "string": pd.array(g, dtype="string"), "Int64": pd.array(codes, dtype="Int64"),
        "blanks": np.char.add(g, " "), "unicode": np.char.add(g, "\u00e9"), "digits": codes.astype(str),
        "a group of one row": np.where(np.arange(n) == 5, "alone", g),
    }  # fmt: skip
    for name, values in good.items():
        family = pick(rng, ["logit", "poisson", "gaussian"])
        plain = np.asarray(values)
        levels = {"bools": lambda one: int(one), "halves": lambda one: one}.get(
            name, lambda one: int(one) if isinstance(one, float) and one.is_integer() else one
        )
        problem = table.problem(family, groups=("g", [levels(one) for one in plain.tolist()]))
        call = fits(f"{OUTCOMES[family]} ~ x + (1 | g)", table.frame(g=values), family=FAMILIES[family])
        yield Case(KIND, f"groups: {name}, {family}", call, _by_place(problem), ("g",), answer=name != "digits")
    bad: dict[str, Any] = {
        "one group": np.full(n, "a"), "one number": np.zeros(n), "NaN": np.where(np.arange(n) == 3, np.nan, codes),
        "None": np.where(np.arange(n) == 3, None, g), "all NaN": np.full(n, np.nan),
        "inf": np.where(np.arange(n) == 3, np.inf, codes),
        "complex": codes + 1j, "masked": np.ma.masked_array(codes, mask=np.arange(n) == 3), "lists": [[1]] * n,
        "mixed": np.where(codes > 1, g, codes.astype(object)),
    }  # fmt: skip
    for name, values in bad.items():
        for family in ("bernoulli", "gaussian"):
            formula = "y ~ x + (1 | g)" if family == "bernoulli" else "v ~ x + (1 | g)"
            yield refused(
                KIND, f"groups: {name}, {family}", fits(formula, table.dict(g=values), family=family, **FEW), "g"
            )
    call = fits("y ~ x + (1 | g)", table.dict(g=np.arange(n)), **FEW)
    yield Case(KIND, "a group for each row", call, _finite, ("g",))
    yield Case(
        KIND,
        "groups of one outcome",
        fits("y ~ x + (1 | g)", table.dict(g=np.where(table["y"] == 1, "a", "b")), **FEW),
        _finite,
        ("g",),
    )
    yield Case(KIND, "groups and a fixed effect of them", fits("y ~ g + (1 | g)", table.dict(), **FEW), _finite, ("g",))
    for prior in (
        partial(tb.HalfNormal, 1e-300),
        partial(tb.HalfNormal, 1e300),
        partial(tb.HalfCauchy, 1e-300),
        partial(tb.HalfCauchy, 1e300),
        partial(tb.InverseSquare, 1e-300),
        partial(tb.InverseSquare, 1e300),
        partial(tb.InverseSquare, 0.01),
    ):
        call = fits("y ~ x + (1 | g)", table.dict(), group_prior=prior, **FEW)
        yield Case(
            KIND,
            f"groups with {prior.func.__name__}({prior.args[0]:g})",
            call,
            _finite,
            ("group_prior|prior|g|scale|lower",),
        )


def _finite(answered: Any) -> list[str]:
    return [] if np.isfinite(answered.fit.draws).all() else ["draws are not finite"]


def _by_place(problem: Any) -> Any:
    """Holds fits against a problem whose groups may be named in another way: by their order."""
    from odd.judge import held_against

    def truth(answered: Any) -> list[str]:
        fit = answered.fit
        names = [name for name in fit.parameters if name.startswith("1|g[")]
        if len(names) != len(problem.levels):
            return [f"groups are {', '.join(names)}"]
        order = dict(zip(sorted(names), sorted(f"1|g[{level}]" for level in problem.levels), strict=True))
        if any(_level(one) != _level(other) for one, other in order.items()):
            return [f"groups are {', '.join(names)}, not {', '.join(order.values())}"]
        return held_against(problem, answered._replace(fit=_Renamed(fit, order)))

    return truth


def _level(name: str) -> Any:
    inside = name[4:-1]
    try:
        return float({"True": "1", "False": "0"}.get(inside, inside))
    except ValueError:
        return inside


class _Renamed:
    """A fit whose parameters have other names."""

    def __init__(self, fit: Any, names: dict[str, str]) -> None:
        self.parameters = tuple(names.get(name, name) for name in fit.parameters)
        self.draws, self.prior, self.stats = fit.draws, fit.prior, fit.stats
