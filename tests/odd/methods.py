"""Methods, surrogates and models of the user's own, with options that do not fit the data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import tallbayes as tb
from odd.case import FEW, Answered, Case, Complaints, Table, fits, pick, refused
from odd.judge import right

KIND = "methods"
SHORT = {"draws": 400, "warmup": 200}


def _raises(theta: Any) -> Any:
    raise RuntimeError("no surrogate today")


SURROGATES: dict[str, Any] = {
    "of NaN": lambda theta: np.nan, "of inf": lambda theta: np.inf, "of text": lambda theta: "a",
    "of None": lambda theta: None, "of an array": lambda theta: np.ones(7), "that raises": _raises,
    "without arguments": lambda: 0.0, "of two arguments": lambda a, b: 0.0,
    "of complex numbers": lambda theta: 1j, "of a list": lambda theta: [1.0, 2.0, 3.0],
}  # fmt: skip


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """Methods that work on any data, options that do not fit, and models of one's own."""
    table = Table(rng)
    for name, method in {
        "mh": "mh", "one-at-a-time": tb.MH("one-at-a-time"), "independence": tb.MH("independence"),
        "mixture": tb.MH("mixture"), "two-stage": "two-stage", "taylor": tb.TwoStage(tb.Taylor(20)),
        "case-control": tb.TwoStage(tb.CaseControl(20)),
        "subsample": tb.TwoStage(tb.Subsample(20)), "stratified": tb.TwoStage(tb.Stratified(20, "c")),
        "subchain": tb.TwoStage(subchain=3), "thinned": "thinned", "auto": tb.Auto(),
        "a function": tb.TwoStage(lambda theta: -0.5 * float((theta**2).sum())),
        "subsample of one": tb.TwoStage(tb.Subsample(1)),
    }.items():  # fmt: skip
        family = pick(rng, ["bernoulli", "poisson"])
        formula = "y ~ x" if family == "bernoulli" else "k ~ x"
        problem = table.problem("logit" if family == "bernoulli" else "poisson")
        slow = name in ("subsample of one", "a function", "case-control", "subsample", "stratified")
        truth = right(problem) if not slow else _posterior_of_model(problem)
        call = fits(formula, table.dict(), family=family, method=method, **SHORT)
        yield Case(KIND, f"{name}, {family}", call, truth, ("subsample",), answer=name != "case-control")
    for name, method in {
        "consensus": tb.Consensus(2),
        "consensus of mh": tb.Consensus(2, inner="mh"),
        "subsampling": "subsampling",
        "gaussian product": tb.Consensus(2, combine="gaussian"),
        "spline proxy": tb.Subsampling(tb.SplineProxy(10)),
    }.items():
        yield Case(
            KIND,
            name,
            fits("y ~ x", table.dict(), method=method, **SHORT),
            _approximate(table),
            ("rows|shard|columns|method|proxy|draws|points",),
        )
    yield from _misfits(rng, table)
    yield from _own(table)


def _posterior_of_model(problem: Any) -> Any:
    """Chains that move slowly have too few effective draws to be judged by; their model has not."""

    def truth(answered: Answered) -> Complaints:
        found = right(problem)(answered)
        return [one for one in found if "log posterior" in one or "not finite" in one]

    return truth


def _approximate(table: Table) -> Any:
    def truth(answered: Answered) -> Complaints:
        if answered.fit.stats["exact"]:
            return ["an approximate method says that it is exact"]
        return right(table.problem())(answered)

    return truth


def _misfits(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    bad: dict[str, tuple[Any, str]] = {
        "shards of less than a row": (partial(tb.Consensus, 10**6), "shards"),
        "more shards than rows": (tb.Consensus(49), "shards|rows"),
        "case-control of more than all": (tb.TwoStage(tb.CaseControl(10**12)), "rows|size|surrogate|CaseControl"),
        "subsample of more than all": (tb.TwoStage(tb.Subsample(10**12)), "rows|size|surrogate|Subsample"),
        "strata that are no column": (tb.TwoStage(tb.Stratified(10, "nothing")), "nothing"),
        "a proposal of splines": (tb.MH("informed"), "proposal"),
        "a proposal of nothing": (partial(tb.MH, "nuts"), "proposal"),
        "cells": (tb.TwoStage(tb.Cells()), "Cells|splines|surrogate"),
        "groups as shards": (tb.Consensus(2, sharding="groups"), "groups"),
        "a subchain of 10^9": (partial(tb.TwoStage, subchain=10**9), "subchain"),
    }  # fmt: skip
    for name, (method, word) in bad.items():
        yield refused(KIND, name, fits("y ~ x", table.dict(), method=method, **FEW), word)
    for name, function in SURROGATES.items():
        yield refused(
            KIND, f"a surrogate {name}", fits("y ~ x", table.dict(), method=tb.TwoStage(function), **FEW), "surrogate"
        )
    for method in (
        "consensus",
        "subsampling",
        tb.TwoStage(tb.Taylor()),
        tb.TwoStage(tb.CaseControl(10)),
        tb.MH("independence"),
    ):
        for formula, family in (
            ("y ~ x + (1 | g)", "bernoulli"),
            ("v ~ x", "gaussian"),
            ("y ~ s(x)", "bernoulli"),
            ("v ~ x + (1 | g)", "gaussian"),
        ):
            call = fits(formula, table.dict(), family=family, method=method, **FEW)
            yield Case(
                KIND,
                f"{method!r:.40}, {formula}, {family}",
                call,
                _finite,
                ("method|surrogate|proposal|shard|group|consensus|subsampling|gaussian|spline",),
            )
    for name, options in {
        "group_prior": {"group_prior": tb.HalfNormal()},
        "weights": {"weights": "w"},
        "offset": {"offset": "o"},
        "family": {"family": "poisson"},
        "cache": {"cache": "here"},
    }.items():
        yield refused(KIND, f"splines with {name}", fits("y ~ s(x)", table.dict(), **options, **FEW), f"{name}|logit")
    for term in (
        "s(x, max_bases=0)",
        "s(x, max_bases=10**9)",
        "s(x, max_bases='a')",
        "s(c)",
        "s(x, x)",
        "s(x, y)",
        "s(5)",
        "s(x) + s(z)",
        "s(x, max_interaction=0)",
        "s(x, z=3)",
    ):
        yield Case(
            KIND,
            f"splines: {term}",
            fits(f"y ~ {term}", table.dict(), **FEW),
            _never if "10**9" in term or "'a'" in term or "(5)" in term or "+" in term or "z=3" in term else _finite,
            ("s(|spline|max|column|formula|c|y",),
        )


def _never(answered: Answered) -> Complaints:
    return ["accepted what has no answer"]


def _finite(answered: Answered) -> Complaints:
    return [] if np.isfinite(answered.fit.draws).all() else ["draws are not finite"]


def _own(table: Table) -> Iterator[Case]:
    """`tb.Model` with functions that go wrong."""
    data = {"x": table["x"], "v": table["v"]}
    prior = {"a": tb.Normal(0, 10), "b": tb.Normal(0, 10)}
    start = {"a": 0.0, "b": 0.0}

    def good(theta: Any, rows: Any) -> Any:
        return -0.5 * (rows.v - theta.a - theta.b * rows.x) ** 2

    wrong: dict[str, Any] = {
        "that sums": lambda theta, rows: good(theta, rows).sum(), "of two columns": lambda theta,
        rows: np.ones((len(rows.v), 2)), "too short": lambda theta, rows: np.ones(3), "of NaN": lambda theta,
        rows: rows.v * np.nan, "of inf": lambda theta, rows: rows.v + np.inf, "of text": lambda theta,
        rows: ["a"] * len(rows.v),
        "of None": lambda theta, rows: None, "of complex numbers": lambda theta, rows: rows.v + 1j,
        "of another column": lambda theta, rows: rows.nothing, "of another parameter": lambda theta,
        rows: theta.nothing * rows.v, "without rows": lambda theta: 0.0, "that raises": lambda theta, rows: 1 / 0,
        "of bools": lambda theta, rows: rows.v > 0,
    }  # fmt: skip
    for name, function in wrong.items():
        yield refused(
            KIND,
            f"a log-likelihood {name}",
            lambda folder, f=function: tb.sample(tb.Model(f, prior, start=start, data=data, columns=["x", "v"]), **FEW),
            "log_likelihood|log-likelihood|function|nothing|<lambda>",
            quotes=True,
        )
    options: dict[str, tuple[dict[str, Any], str]] = {
        "no function": ({"log_likelihood": 5}, "log_likelihood|function"), "prior None": ({"prior": None}, "prior"),
        "prior empty": ({"prior": {}}, "prior|parameter"), "prior a list": ({"prior": [tb.Normal()]}, "prior"),
        "prior of numbers": ({"prior": {"a": 1, "b": 2}}, "a|prior"),
        "start too short": ({"start": {"a": 0.0}}, "b|start"),
        "start of text": ({"start": {"a": "x", "b": 0.0}}, "a|start"),
        "start NaN": ({"start": {"a": np.nan, "b": 0.0}}, "a|start"),
        "start a list": ({"start": [0.0, 0.0]}, "start"),
        "start with more": ({"start": {"a": 0.0, "b": 0.0, "c": 0.0}}, "c|start"),
        "no data": ({"data": None}, "data"), "no such column": ({"columns": ["nothing"]}, "nothing"),
        "columns a number": ({"columns": 5}, "columns"), "columns empty": ({"columns": []}, "columns"),
        "data of text": ({"data": {"x": ["a"] * 48, "v": table["v"]}}, "x"),
        "data with NaN": ({"data": {"x": np.full(48, np.nan), "v": table["v"]}}, "x"),
        "no rows": ({"data": {"x": [], "v": []}}, "rows"), "derivatives 5": ({"derivatives": 5}, "derivatives"),
        "derivatives wrong": ({"derivatives": lambda theta, rows: (1.0, 2.0)}, "derivatives"),
        "start outside": ({"prior": {"a": tb.Uniform(1, 2), "b": tb.Normal()}}, "a|start"),
    }  # fmt: skip
    for name, (changed, word) in options.items():
        given = {"log_likelihood": good, "prior": prior, "start": start, "data": data, "columns": ["x", "v"], **changed}
        yield refused(
            KIND,
            f"own model: {name}",
            lambda folder, given=given: tb.sample(
                tb.Model(given.pop("log_likelihood"), given.pop("prior"), **given), **FEW
            ),
            word,
        )
