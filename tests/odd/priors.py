"""Priors: far too narrow or wide, far away, by text and by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import tallbayes as tb
from odd.case import FAMILIES, FEW, OUTCOMES, SHAPES, Answered, Case, Complaints, Table, fits, pick, refused
from odd.judge import held_against, right
from odd.problem import Problem
from odd.stated import Stated

KIND = "priors"


def with_prior(problem: Problem, asked: dict[str, tuple[str, tuple[float, ...]]]) -> Callable[[Answered], Complaints]:
    """The right posterior, under the prior that was asked for: what a fit states of it is not trusted."""

    def truth(answered: Answered) -> Complaints:
        for name, (kind, numbers) in asked.items():
            stated = answered.fit.prior.get(name, "")
            found = Stated.read(stated)
            if found.kind != kind or found.at_means or not np.allclose(found.numbers, numbers, rtol=1e-3):
                return [f"the prior of {name} is {stated}, not {kind}{numbers}"]
        return held_against(problem, answered)

    return truth


def near(name: str, mean: float, sd: float) -> Callable[[Answered], Complaints]:
    """A prior so narrow that it is the posterior."""

    def truth(answered: Answered) -> Complaints:
        draws = np.asarray(answered.fit.draws)[..., answered.fit.parameters.index(name)]
        z = (draws - mean) / sd
        good = np.isfinite(draws).all() and np.abs(z).max() < 10 and 0.5 < z.std() < 2
        return [] if good else [f"draws of {name} are {draws.min():g} to {draws.max():g}, not {mean:g} within {sd:g}"]

    return truth


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """All of them."""
    table = Table(rng)
    yield from _normal(rng, table)
    yield from _student(rng, table)
    yield from _by_name(rng, table)
    yield from _wrong(rng, table)


def _normal(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    for sd in (1e-3, 0.1, 1.0, 10.0, 1e3, 1e6):
        for family in {"logit", pick(rng, list(FAMILIES)), pick(rng, list(FAMILIES))}:
            mean = float(pick(rng, [0.0, 0.5, -1.0]))
            asked = dict.fromkeys(["Intercept", "x"], ("Normal", (mean, sd)))
            prior = pick(
                rng,
                [
                    partial(tb.Normal, mean, sd),
                    f"normal({mean}, {sd})",
                    {"x": partial(tb.Normal, mean, sd), "Intercept": f"Normal({mean},{sd})"},
                ],
            )
            call = fits(f"{OUTCOMES[family]} ~ x", table.dict(), family=FAMILIES[family], prior=prior)
            truth = with_prior(table.problem(family, shape=SHAPES.get(family, 1.0)), asked)
            yield Case(
                KIND,
                f"normal {mean:g} {sd:g}, {family}, {type(prior).__name__}",
                call,
                truth,
                ("prior",),
                answer=0.05 < sd < 1e5,
            )
    for sd in (1e-300, 1e-200, 1e-100, 1e-30, 1e-12, 1e-8):
        for family in ("logit", pick(rng, ["poisson", "gaussian", "gamma", "probit"])):
            mean = float(pick(rng, [0.0, 0.0, 1.0])) if sd > 1e-13 else 0.0
            call = fits(
                f"{OUTCOMES[family]} ~ x",
                table.dict(),
                family=FAMILIES[family],
                prior={"x": partial(tb.Normal, mean, sd)},
            )
            yield Case(KIND, f"normal {mean:g} {sd:g} of x, {family}", call, near("x", mean, sd), ("prior",))
    for sd in (1e9, 1e30, 1e100, 1e200, 1e300):
        for family in ("logit", "poisson", "gaussian"):
            call = fits(
                f"{OUTCOMES[family]} ~ x", table.dict(), family=FAMILIES[family], prior=partial(tb.Normal, 0, sd)
            )
            yield Case(KIND, f"normal 0 {sd:g}, {family}", call, _wide(table.problem(family)), ("prior|sd",))
    for mean in (1e2, 1e6, 1e15, 1e100, 1e300):
        for family in ("logit", "poisson", "gaussian"):
            call = fits(
                f"{OUTCOMES[family]} ~ x",
                table.dict(),
                family=FAMILIES[family],
                prior={"x": partial(tb.Normal, mean, 1.0)},
            )
            yield Case(KIND, f"normal {mean:g} 1 of x, {family}", call, _finite, ("prior|x",))


def _wide(problem: Problem) -> Callable[[Answered], Complaints]:
    """A prior so wide that one of sd 1e6 gives the same posterior."""

    class Stated:
        def __init__(self, fit: Any) -> None:
            self.parameters, self.draws, self.stats = fit.parameters, fit.draws, fit.stats
            self.prior = {name: text if name == "sd" else "Normal(0, 1e6)" for name, text in fit.prior.items()}

    return lambda answered: held_against(problem, Answered(Stated(answered.fit), None))


def _finite(answered: Answered) -> Complaints:
    return [] if np.isfinite(answered.fit.draws).all() else ["draws are not finite"]


def _student(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    for df in (0.5, 1.0, 4.0, 30.0, 1e3, 1e6):
        for scale in (0.1, 2.5, 100.0):
            family = pick(rng, ["logit", "poisson", "probit", "gamma", "logit"])
            asked = dict.fromkeys(["Intercept", "x"], ("StudentT", (df, 0.0, scale)))
            prior = pick(rng, [partial(tb.StudentT, df, 0, scale), f"student_t({df}, 0, {scale})"])
            call = fits(f"{OUTCOMES[family]} ~ x", table.dict(), family=FAMILIES[family], prior=prior)
            truth = with_prior(table.problem(family, shape=SHAPES.get(family, 1.0)), asked)
            yield Case(KIND, f"student {df:g} 0 {scale:g}, {family}", call, truth, ("prior|df",), answer=1 <= df <= 30)
    for df in (1e-300, 1e-9, 1e15, 1e100, 1e300):
        call = fits("y ~ x", table.dict(), prior=partial(tb.StudentT, df, 0, 2.5))
        yield Case(KIND, f"student {df:g} 0 2.5", call, _finite if df < 1 else right(table.problem()), ("prior|df",))
    for scale in (1e-300, 1e-100, 1e100, 1e300):
        yield Case(
            KIND,
            f"student 4 0 {scale:g}",
            fits("y ~ x", table.dict(), prior=partial(tb.StudentT, 4, 0, scale)),
            _finite,
            ("prior|scale",),
        )


def _by_name(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    names = {"c[T.b]": table["c"] == "b", "c[T.c]": table["c"] == "c"}
    for name in ("c[T.b]", "c[T.c]", "Intercept"):
        call = fits("y ~ c", table.dict(), prior={name: tb.Normal(0.5, 0.4)})
        truth = with_prior(table.problem(columns=names), {name: ("Normal", (0.5, 0.4))})
        yield Case(KIND, f"by name: {name}", call, truth, answer=True)
    for name in ("c", "c[b]", "C[T.b]", "intercept", "(Intercept)", "", "x", 5, None, ("c", "b")):
        yield refused(
            KIND,
            f"by the name {name!r}",
            fits("y ~ c", table.dict(), prior={name: tb.Normal()}, **FEW),
            str(name) if name else "prior",
        )
    call = fits("y ~ x", table.dict(), prior={})
    yield Case(KIND, "none, as an empty dict", call, right(table.problem()), ("prior",))
    call = fits("v ~ x", table.dict(), family="gaussian", prior={"sd": tb.Normal(0, 1)})
    yield Case(KIND, "of the sd of a gaussian", call, _finite, ("sd",))


def _wrong(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    texts = (
        "", " ", "normal", "normal()", "normal(0)", "normal(0,)", "normal(0, 1, 2)", "normal(0; 1)", "normal(0, 1) ",
        "Normal(0, x)", "normal(0, 0)", "normal(0, -1)", "normal(nan, 1)", "normal(0, inf)", "normal(0, 1e400)",
        "n(0, 1)", "gauss(0, 1)",
        "student_t(4)", "student_t(0, 0, 1)", "student_t(4, 0, -1)", "t(4, 0, 1)", "normal(0, 1), normal(0, 1)",
        "normal(0, __import__('os'))", "x = normal(0, 1)", "normal(0,1", "cauchy(0, 1)", "half_normal(1)",
        "uniform(0, 1)", "flat", "None",
    )  # fmt: skip
    for text in texts:
        if text == "normal(0, 1) ":
            asked = dict.fromkeys(["Intercept", "x"], ("Normal", (0.0, 1.0)))
            yield Case(
                KIND,
                f"text {text!r}",
                fits("y ~ x", table.dict(), prior=text),
                with_prior(table.problem(), asked),
                answer=True,
            )
            continue
        formula = pick(rng, ["y ~ x", "y ~ x + (1 | g)"])
        prior = pick(rng, [text, {"x": text}])
        yield refused(KIND, f"text {text!r}, {formula}", fits(formula, table.dict(), prior=prior, **FEW), "prior")
    for text in (
        "",
        "half_normal",
        "half_normal()",
        "half_normal(0)",
        "half_normal(-1)",
        "half_normal(a)",
        "half_normal(1, 2)",
        "normal(0, 1)",
        "half_student(1)",
        "half_cauchy(inf)",
        "half_cauchy(nan)",
        "inverse_square(0)",
        "uniform(0, 1)",
    ):
        for formula, family in (("y ~ x + (1 | g)", "bernoulli"), ("v ~ x + (1 | g)", "gaussian")):
            yield refused(
                KIND,
                f"group_prior {text!r}, {family}",
                fits(formula, table.dict(), family=family, group_prior=text, **FEW),
                "prior",
            )
    yield refused(
        KIND,
        "group_prior without groups",
        fits("y ~ x", table.dict(), group_prior=tb.HalfNormal(1), **FEW),
        "group_prior",
    )
    yield refused(KIND, "a prior for a spline", fits("y ~ s(x)", table.dict(), prior=tb.Normal(), **FEW), "prior")
