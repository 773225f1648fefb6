"""Numbers at the edge: far too large or small, many digits, few rows, outcomes that separate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import tallbayes as tb
from odd.case import FAMILIES, FEW, OUTCOMES, SHAPES, Answered, Case, Complaints, Table, fits, pick, refused
from odd.judge import effective, right

KIND = "numbers at the edge"
SCALES = (1e-308, 1e-200, 1e-100, 1e-30, 1e-12, 1e-6, 1e6, 1e12, 1e30, 1e100, 1e150, 1e160, 1e200, 1e300)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """All of them; most may be refused, but none may be wrong."""
    table = Table(rng)
    yield from _predictors(rng, table)
    yield from _outcomes(rng, table)
    yield from _few_rows(rng, table)
    yield from _separated(rng, table)


def _predictors(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    for scale in SCALES:
        for family in {"logit", pick(rng, list(FAMILIES)), pick(rng, list(FAMILIES))}:
            x = table["x"] * scale
            call = fits(f"{OUTCOMES[family]} ~ x", table.dict(x=x), family=FAMILIES[family])
            truth = right(table.problem(family, {"x": x}, shape=SHAPES.get(family, 1.0)))
            yield Case(KIND, f"x times {scale:g}, {family}", call, truth, ("x",), answer=1e-13 < scale < 1e13)
    for shift in (1e3, 1e5, 1e7, 1e10, 1e13, 1e16, 1e300):
        x = table["x"] + shift
        call = fits("y ~ x", table.dict(x=x))
        yield Case(KIND, f"x plus {shift:g}", call, right(table.problem(columns={"x": x})), ("x",), answer=shift < 1e6)
    for name, x in {
        "beyond 2^53": 2**53 + table["i"].astype(np.int64),
        "near 2^63": 2**63 - 10 + table["i"].astype(np.uint64) % 7,
        "whole numbers of 1e15": (table["i"] * 10**15).astype(np.int64),
        "smallest numbers": table["i"] * 5e-324,
        "largest numbers": np.sign(table["x"]) * 1.7e308,
        "one outlier of 1e6": np.where(np.arange(table.rows) == 5, 1e6, table["x"]),
        "one outlier of 1e100": np.where(np.arange(table.rows) == 5, 1e100, table["x"]),
        "one outlier of 1e308": np.where(np.arange(table.rows) == 5, 1e308, table["x"]),
        "a code for missing, -99": np.where(np.arange(table.rows) % 9 == 5, -99.0, table["x"]),
        "minus zero": np.where(table["x"] > 0, 1.0, -0.0),
        "two numbers that differ by rounding": 1 + np.spacing(1.0) * (table["x"] > 0),
    }.items():
        call = fits("y ~ x", table.dict(x=x))
        yield Case(KIND, f"x: {name}", call, right(table.problem(columns={"x": np.asarray(x, float)})), ("x",))
    for name, x in {
        "python ints of 40 digits": [10**40 + int(one) for one in table["i"]],
        "ints below int64": [-(10**25)] * 48,
    }.items():
        yield Case(
            KIND,
            f"x: {name}",
            fits("y ~ x", table.dict(x=x)),
            right(table.problem(columns={"x": np.array(x, float)})),
            ("x",),
        )
    for offset in (1e3, -1e3, 1e10, 1e300, -1e308, 1.7e308):
        for family in ("logit", "poisson", "gaussian"):
            own = np.where(np.arange(table.rows) % 2 == 0, offset, 0.0)
            call = fits(f"{OUTCOMES[family]} ~ x", table.dict(o=own), family=FAMILIES[family], offset="o")
            yield Case(
                KIND, f"offset {offset:g}, {family}", call, right(table.problem(family, offset=own)), ("offset|'o'",)
            )


def _outcomes(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    for scale in (1e3, 1e6, 1e9, 1e12, 1e15, 1e18, 1e30, 1e100, 1e300):
        for family in ("poisson", "negative_binomial"):
            k = np.floor(table["k"] * scale)
            call = fits("k ~ x", table.dict(k=k), family=FAMILIES[family])
            truth = right(table.problem(family, y=k, shape=SHAPES.get(family, 1.0)))
            yield Case(
                KIND,
                f"counts times {scale:g}, {family}",
                call,
                truth,
                ("k",),
                answer=family == "poisson" and scale < 1e4,
            )
        one = np.where(np.arange(table.rows) == 5, scale, table["k"])
        yield Case(
            KIND,
            f"one count of {scale:g}",
            fits("k ~ x", table.dict(k=one), family="poisson"),
            right(table.problem("poisson", y=one)),
            ("k",),
        )
    for scale in SCALES:
        v, q = table["v"] * scale, table["q"] * scale
        call = fits("v ~ x", table.dict(v=v), family="gaussian")
        yield Case(
            KIND, f"v times {scale:g}", call, right(table.problem("gaussian", y=v)), ("v",), answer=1e-13 < scale < 1e13
        )
        call = fits("q ~ x", table.dict(q=q), family=tb.Gamma(2.0))
        yield Case(
            KIND,
            f"q times {scale:g}",
            call,
            right(table.problem("gamma", y=q, shape=2.0)),
            ("q",),
            answer=1e-7 < scale < 1e7,
        )
        trials = np.floor(table["t"] * max(scale, 1.0))
        call = fits("p(s, t) ~ x", table.dict(t=trials), family="binomial")
        if scale > 1:
            yield Case(
                KIND,
                f"trials times {scale:g}",
                call,
                right(table.problem(y=table["s"], trials=trials)),
                ("t",),
                answer=scale < 1e5,
            )
    for name, v in {
        "constant": np.full(48, 2.0),
        "a line": 2 + 3 * table["x"],
        "nearly a line": 2 + 3 * table["x"] + 1e-10 * table["v"],
    }.items():
        call = fits("v ~ x", table.dict(v=v), family="gaussian", **FEW)
        if name == "nearly a line":
            call = fits("v ~ x", table.dict(v=v), family="gaussian")
            yield Case(KIND, f"outcome: {name}", call, right(table.problem("gaussian", y=v)), ("v",))
        else:
            yield refused(KIND, f"outcome: {name}", call, "v|outcome")
    for shape in (1e-6, 1e-3, 1e3, 1e6, 1e12, 1e300):
        for kind, family, column in ((tb.NegativeBinomial, "negative_binomial", "k"), (tb.Gamma, "gamma", "q")):
            call = fits(f"{column} ~ x", table.dict(), family=partial(kind, shape))
            truth = right(table.problem(family, shape=shape))
            yield Case(KIND, f"shape {shape:g}, {family}", call, truth, ("shape|" + column,))


def _few_rows(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    for rows in (1, 2, 3, 5):
        for family in ("logit", "poisson", "gaussian", "gamma"):
            few = {name: values[:rows] for name, values in table.columns.items()}
            call = fits(f"{OUTCOMES[family]} ~ x", few, family=FAMILIES[family])
            problem = table.problem(family, {"x": few["x"]}, y=few[OUTCOMES[family]], shape=SHAPES.get(family, 1.0))
            truth = _finite if family == "gaussian" and rows < 4 else right(problem)  # the sd may be zero: no mode
            yield Case(KIND, f"{rows} rows, {family}", call, truth, ("x|row|outcome|'y'",))
    few = {name: values[:3] for name, values in table.columns.items()}
    yield refused(
        KIND, "more columns than rows", fits("y ~ x + z + i + o + w", few, **FEW), "collinear|combination|depend"
    )


def _finite(answered: Answered) -> Complaints:
    return [] if np.isfinite(answered.fit.draws).all() else ["draws are not finite"]


def _separated(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    apart = (table["x"] > 0) * 1
    for sd in (None, 2.5, 100, 1e6, 1e9, 1e100):
        prior = {} if sd is None else {"prior": partial(tb.Normal, 0, sd)}
        for link in ("logit", "probit", "cloglog"):
            call = fits("y ~ x", table.dict(y=apart), family=FAMILIES[link], **prior)
            truth = (
                right(table.problem(link, y=apart)) if sd is None or sd < 1e4 else _in_a_wedge(table["x"], apart, sd)
            )
            yield Case(KIND, f"separated, prior sd {sd}, {link}", call, truth, ("x|prior",), answer=sd == 2.5)
    level = np.where(table["c"] == "b", 1, table["y"])
    columns = {f"c[T.{one}]": table["c"] == one for one in "bc"}
    yield Case(
        KIND,
        "a level of ones",
        fits("y ~ c", table.dict(y=level)),
        right(table.problem(columns=columns, y=level)),
        answer=True,
    )
    empty = np.where(table["c"] == "b", 0, table["k"])
    call = fits("k ~ c", table.dict(k=empty), family="poisson")
    yield Case(KIND, "a level of zero counts", call, right(table.problem("poisson", columns, y=empty)), answer=True)


def _in_a_wedge(x: np.ndarray, y: np.ndarray, sd: float) -> Callable[[Answered], Complaints]:
    """With a very wide prior, coefficients are Normal where they separate the outcomes, and nowhere else.

    Which is where a + b x is negative for all zeros and positive for all ones: between two directions of (a, b).
    """
    low, high = np.sort(np.arctan2(1.0, [-x[y == 1].min(), -x[y == 0].max()]))
    rng = np.random.default_rng(1)
    angle, radius = rng.uniform(low, high, 4_000), sd * np.sqrt(rng.chisquare(2, 4_000))
    expected = {"Intercept": radius * np.cos(angle), "x": radius * np.sin(angle)}

    def truth(answered: Answered) -> Complaints:
        found = []
        for name, right_ones in expected.items():
            draws = np.asarray(answered.fit.draws)[..., answered.fit.parameters.index(name)]
            for share in (0.1, 0.5, 0.9):
                below = (draws <= np.quantile(right_ones, share)).astype(float)[..., None]
                error = np.sqrt(share * (1 - share) * (1 / effective(below)[0] + 1 / 4_000))
                if abs(below.mean() - share) > 6 * error:
                    found.append(f"{below.mean():.0%} of {name} are below the {share:.0%} point")
        return found

    return truth
