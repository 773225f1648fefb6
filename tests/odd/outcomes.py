"""Outcomes that a family cannot have, and those that only look so."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tallbayes as tb
from odd.case import FAMILIES, FEW, SHAPES, Case, Table, fits, pick, refused
from odd.judge import right

KIND = "outcome and family"


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """Outcomes by family, and what formulas make of them."""
    table = Table(rng)
    yield from _impossible(rng, table)
    yield from _possible(rng, table)
    yield from _successes(rng, table)
    yield from _left_sides(table)


def _impossible(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    y, k, x = table["y"].astype(float), table["k"].astype(float), table["x"]
    place = int(rng.integers(table.rows))
    one = np.arange(table.rows) == place
    columns = {
        "1 and 2": y + 1, "-1 and 1": 2 * y - 1, "0 and 2": 2 * y, "0, 1 and 2": np.where(one, 2, y),
        "probabilities": 1 / (1 + np.exp(-x)),
        "0, 1 and 0.5": np.where(one, 0.5, y), "all 0": 0 * y, "all 1": 0 * y + 1, "0 and nearly 1": y * (1 - 1e-9),
        "percent": 100 * y,
        "0, 1 and -9": np.where(one, -9, y),
    }  # fmt: skip
    for name, values in columns.items():
        for family in ("logit", "probit", "cloglog"):
            call = fits("y ~ x", pick(rng, [table.dict, table.frame])(y=values), family=FAMILIES[family], **FEW)
            yield refused(KIND, f"{name}, {family}", call, "y")
    columns = {
        "a negative count": np.where(one, -1, k), "a fraction": np.where(one, 0.5, k), "nearly whole": k + 1e-6,
        "all fractions": x,
        "logarithms": np.log(k + 1.5), "a code for missing, -99": np.where(one, -99, k),
        "yes and no": np.where(y > 0, "yes", "no"),
    }  # fmt: skip
    for name, values in columns.items():
        for family in ("poisson", "negative_binomial"):
            call = fits("k ~ x", pick(rng, [table.dict, table.frame])(k=values), family=FAMILIES[family], **FEW)
            yield refused(KIND, f"{name}, {family}", call, "k")
    for name, values in {
        "a zero": np.where(one, 0, table["q"]),
        "a negative": np.where(one, -0.1, table["q"]),
        "all negative": -table["q"],
    }.items():
        call = fits("q ~ x", table.dict(q=values), family=tb.Gamma(2.0), **FEW)
        yield refused(KIND, f"{name}, gamma", call, "q")
    for name, values in {"2-D": np.stack([y, y], 1), "too short": y[:5]}.items():
        yield refused(KIND, f"outcome {name}", fits("y ~ x", table.dict(y=values), **FEW), "y")


def _possible(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    y, k = table["y"], table["k"]
    kinds = {
        "bool": y == 1,
        "float": y.astype(float),
        "f4": y.astype("f4"),
        "u1": y.astype("u1"),
        "i8": y,
        "minus zero": np.where(y == 1, 1.0, -0.0),
    }
    for name, values in kinds.items():
        for family in ("logit", "probit", "poisson"):
            call = fits("y ~ x", table.dict(y=values), family=FAMILIES[family])
            yield Case(KIND, f"0 and 1 as {name}, {family}", call, right(table.problem(family, y=y)), answer=True)
    for name, values in {"float": k.astype(float), "u1": k.astype("u1"), "f4": k.astype("f4"), "bool": k > 0}.items():
        for family in ("poisson", "negative_binomial", "gaussian"):
            call = fits("k ~ x", table.dict(k=values), family=FAMILIES[family])
            problem = table.problem(family, y=np.asarray(values, float), shape=SHAPES.get(family, 1.0))
            yield Case(KIND, f"counts as {name}, {family}", call, right(problem), answer=True)
    for first, second in ((1, 2), (-1, 1), (0, 2), (3.5, 7)):
        values = np.where(y == 1, second, first)
        for counted, truth in ((second, y), (first, 1 - y), (str(second), y)):
            call = fits("y ~ x", table.dict(y=values), outcome=counted)
            yield Case(
                KIND,
                f"{first} and {second}, of which {counted!r} counts",
                call,
                right(table.problem(y=truth)),
                answer=True,
            )
        for counted in (9, "no", np.nan, None if False else [second], True):
            if counted is True and 1 in (first, second):
                continue
            yield refused(
                KIND,
                f"{first} and {second}, of which {counted!r} counts",
                fits("y ~ x", table.dict(y=values), outcome=counted, **FEW),
                "outcome|y",
            )
    call = fits("k ~ x", table.dict(k=0 * k), family="poisson")
    yield Case(KIND, "no counts at all", call, right(table.problem("poisson", y=0 * k)), ("k",))
    for family in ("poisson", "gaussian", "gamma"):
        column = {"poisson": "k", "gaussian": "v", "gamma": "q"}[family]
        yield refused(
            KIND,
            f"outcome= for {family}",
            fits(f"{column} ~ x", table.dict(), family=family, outcome=1, **FEW),
            "outcome",
        )


def _successes(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    s, t = table["s"], table["t"]
    one = np.arange(table.rows) == int(rng.integers(table.rows))
    ways = {
        "p()": ("p(s, t) ~ x", {}), "binomial": ("s ~ x", {"family": tb.Binomial("t")}),
        "cbind": ("cbind(s, I(t - s)) ~ x", {}),
        "probit": ("p(s, t) ~ x", {"family": tb.Bernoulli("probit")}),
    }  # fmt: skip
    for name, (formula, options) in ways.items():
        truth = right(table.problem("probit" if name == "probit" else "logit", y=s, trials=t))
        yield Case(KIND, f"successes by {name}", fits(formula, table.dict(), **options), truth, answer=True)
        free = np.where(one, 0, t)
        none = np.where(one, 0, s)
        truth = right(table.problem("probit" if name == "probit" else "logit", y=none, trials=free))
        yield Case(
            KIND,
            f"successes by {name}, no trials in a row",
            fits(formula, table.dict(t=free, s=none), **options),
            truth,
            ("t",),
        )
        for what, changed in {
            "more successes than trials": {"s": np.where(one, t + 1, s)},
            "negative successes": {"s": np.where(one, -1, s)},
            "negative trials": {"t": np.where(one, -2, t)}, "half a success": {"s": np.where(one, 0.5, s)},
            "half a trial": {"t": t + 0.5},
            "missing trials": {"t": np.where(one, np.nan, t)}, "infinite trials": {"t": np.where(one, np.inf, t)},
            "text": {"t": np.full(48, "5a")},
        }.items():  # fmt: skip
            yield refused(KIND, f"{what} by {name}", fits(formula, table.dict(**changed), **{**options, **FEW}), "t|s")
    for family in ("poisson", "gaussian", "gamma"):
        yield refused(KIND, f"p() for {family}", fits("p(s, t) ~ x", table.dict(), family=family, **FEW), "trials")
    yield refused(KIND, "binomial without trials", fits("s ~ x", table.dict(), family="binomial", **FEW), "trials")
    yield refused(KIND, "trials that are no column", fits("s ~ x", table.dict(), family=tb.Binomial("tt"), **FEW), "tt")
    yield refused(KIND, "trials twice", fits("p(s, t) ~ x", table.dict(), family=tb.Binomial("t"), **FEW), "t")


def _left_sides(table: Table) -> Iterator[Case]:
    v, q = table["v"], table["q"]
    good = {
        "log(q) ~ x": ("gaussian", np.log(q)), "I(v > 2) ~ x": ("logit", v > 2),
        "I(c == 'a') ~ x": ("logit", table["c"] == "a"),
        "v + 1 ~ x": None, "I(v + 1) ~ x": ("gaussian", v + 1), "np.sqrt(q) ~ x": ("gaussian", np.sqrt(q)),
        "round(v) ~ x": ("gaussian", np.round(v)),
    }  # fmt: skip
    for formula, found in good.items():
        if found is None:
            yield refused(KIND, formula, fits(formula, table.dict(), family="gaussian", **FEW), "v|outcome|left")
            continue
        call = fits(formula, table.dict(), family=FAMILIES[found[0]])
        yield Case(KIND, formula, call, right(table.problem(found[0], y=found[1])), answer=True)
    for formula in (
        "~ x",
        "y ~",
        "~",
        "y",
        "",
        "1 ~ x",
        "y + k ~ x",
        "y:k ~ x",
        "poly(v, 2) ~ x",
        "bs(v) ~ x",
        "C(c) ~ x",
        ". ~ x",
        "(1 | g) ~ x",
        "y ~ x ~ z",
        "y | g ~ x",
    ):
        yield refused(KIND, f"left side: {formula!r}", fits(formula, table.dict(), **FEW), "formula|outcome|left|~|'y'")
    for formula, word in {
        "log(v - 100) ~ x": "log",
        "sqrt(-q) ~ x": "sqrt",
        "I(v / 0) ~ x": "v",
        "I(1 / (y - y)) ~ x": "y",
    }.items():
        yield refused(KIND, f"left side: {formula}", fits(formula, table.dict(), family="gaussian", **FEW), word)
