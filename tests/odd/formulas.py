"""Formulas: slips of the pen, functions outside their domain, odd names, and attempts to run code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tallbayes as tb
from odd.case import FEW, Case, Complaints, Table, fits, pick, refused
from odd.judge import right

KIND = "formula"

SLIPS = (
    "y ~ x +", "y ~ + ", "y ~ (x", "y ~ x)", "y ~ x + * z", "y ~ x ** ", "y ~ log(x", "y ~ log x", "y ~ x z",
    "y ~ 'x'", 'y ~ "x', "y ~ `x",
    "y = x", "y == x", "y <- x", "y ~ x ; z", "y ~ x, z", "y ~ {x", "y ~ {}", "y ~ []", "y ~ [x]", "y ~ x[0]",
    "y ~ x.mean()", "y ~ x.z", "y ~ x..z",
    "y ~ (1 | )", "y ~ ( | g)", "y ~ (1 | g", "y ~ (x | g)", "y ~ (1 + x | g)", "y ~ (1 || g)",
    "y ~ (1 | g) + (1 | c)", "y ~ (1 | g:c)", "y ~ (1 | 5)",
    "y ~ (1 | log(g))", "y ~ x | g", "y ~ s()", "y ~ s(x", "y ~ s(x, k=)", "y ~ s(x) + z", "y ~ s(x, unknown=3)",
    "y ~ s(log(x))", "y ~ s(x, max_bases=-1)",
    "y ~ offset()", "y ~ offset(o, o)", "y ~ offset('o')", "y ~ x - - x +", "y ~ x^", "y ~ %in%",  "y ~ x / 0",
    "y ~ x ? z", "y ~ x ! z", "y ~ @x",
    "y ~ #x", "y ~ $x", "y ~ \\x", "y ~ x\\", "y ~ lambda: x", "y ~ x if z else i", "y ~ not x", "y ~ I(x and z)",
    "y ~ I(x in z)", "y ~ I(0 < x < 1)",
    "y ~ log()", "y ~ log(x, z, i)", "y ~ log(x, base=2)", "y ~ poly()", "y ~ poly(x, degree='a')", "y ~ poly(x, -1)",
    "y ~ bs(x, df=-2)",
    "y ~ bs(x, df='a')", "y ~ bs(x, knots=[99])", "y ~ C()", "y ~ C(c, Unknown)", "y ~ C(c, Treatment('zz'))",
    "y ~ C(c, levels=['a'])", "y ~ scale(c)", "y ~ log(c)",
    "y ~ exp('a')", "y ~ I(c + 1)", "y ~ I(c * 2)", "y ~ c * 'a'", "y ~ clip(x, 2, 1, 0)", "y ~ where(x)",
    "y ~ year(x)", "y ~ month(c)", "y ~ days('2020-01-01')",
    "y ~ Q(x)", "y ~ Q('nothing')", "y ~ Q('')", "y ~ 2", "y ~ 2 * x", "y ~ 0", "y ~ -1", "y ~ 1 - 1",
    "y ~ x - x - 1", "y ~ x ** 0.5", "y ~ x ** -1", "y ~ (x + z) ** z",
    "y ~ .. ", "y ~ . ~ .", "y ~ .x", "y ~ x.", "y ~ \x00", "y ~ x\x00", "y ~ \u200bx", "y ~ x\u2212z", "y \u223c x",
    "y ~ x \u00d7 z", "y ~ \u201cx\u201d", "y ~ nothing", "y ~ X", "Y ~ x",
    "nothing ~ x", "y ~ x + nothing", "y ~ log(nothing)", "y ~ (1 | nothing)", "y ~ offset(nothing)",
    "y ~ s(nothing)", "y ~ x:nothing", "y ~ `no thing`", "y ~ nothing.at.all",
    "y ~ np.log", "y ~ np", "y ~ log", "y ~ np.nothing(x)", "y ~ np.linalg.norm(x)", "y ~ True", "y ~ None",
    "y ~ x + None", "y ~ 1e400 * x", "y ~ I(x * 1e400)",
    "y - x ~ z", "y - 1 ~ x", "y * x ~ z", "y ~ -z", "y ~ x + -z", "y ~ x - z", "y ~ (x - z):c", "y ~ x**2", "y ~ x^2",
    "y ~ y", "y ~ x:y", "y ~ y:c", "y ~ offset(y)", "y ~ s(y)", "y ~ log(y + 1)", "y ~ . + y", "y ~ days(y)",
    "log(z) ~ z", "I(z > 3) ~ z + x",
    "y ~ C(1)", "y ~ x + C(1)", "y ~ I(3)", "y ~ x + log(2)", "y ~ where(x > 0, 'p', 'n')", "y ~ I(x & z)", "y ~ I(~x)",
    "y ~ poly(x, 70)", "y ~ poly(x, 0)", "y ~ poly(x, 3, raw='no')", "y ~ bs(x, df=200)", "y ~ bs(x, degree=-1)",
    "y ~ bs(x, knots=[1, 'a'])", "y ~ bs(x, extrapolation='no')", "y ~ cr(x, df=200)", "y ~ cc(x, df=47)",
    "y ~ scale(x, ddof=100)", "y ~ hashed(c)", "y ~ hashed(c, levels=0)", "y ~ hashed(c, levels=-2)",
    "y ~ C(c, levels=['a', 'a', 'b', 'c'])", "y ~ C(c, levels=[])", "y ~ C(c, contr.custom([1, 2]))",
    "y ~ C(c, contr.custom([[1], [2]]))", "y ~ C(c, contr.custom('a'))",
    "y ~ C(c, contr.custom)", "y ~ C(c, contr.custom())", "y ~ C(c, Treatment)", "y ~ C(c, 'treatment')", "y ~ C(c, 5)",
    "y ~ C(c, Treatment(None))", "y ~ C(c, contr.poly(scores=[1, 2]))", "y ~ C(c, contr.SAS('zz'))",
    "y ~ hashed(g, levels=3, contrasts=Treatment)", "y ~ C(c, contr.custom([[1], [0], [0]], names=['u', 'v']))",
    "y ~ I(x^2)", "y ~ I(i^2)", "y ~ log(z^2)", "y ~ I((x + z)^2)", "y ~ I(x * 2^3)", "y ~ I((x > 0) + (z > 5))",
    "y ~ I((x > 0) - (z > 5))", "y ~ I(-(x > 0))", "y ~ I(+(x > 0))", "y ~ exp(x > 0)", "y ~ sqrt(I(x > 0))",
    "y ~ I((x > 0) * (z > 5) + (i > 0))", "I((x > 0) + (z > 5)) ~ i", "y ~ x + offset((x > 0) + (z > 5))",
    "y ~ x:5", "y ~ 5:x", "y ~ x * 5", "y ~ x / 2", "y ~ (x + z):2", "y ~ x:2.5", "y ~ (x + z) ** 2.0",
    "y ~ where(c, x, z)", "y ~ where(c, 1, 0)", "y ~ round(c)", "y ~ maximum(x)", "y ~ where(x > 0, 1)",
    "y ~ clip(x, 1, 0)", "y ~ clip(x, 0)", "y + y ~ x",
    "y ~ cr(x, df=2)", "y ~ cs(x, df=2)", "y ~ bs(x, df=4, lower_bound=0)", "y ~ bs(x, df=4, upper_bound=0)",
)  # fmt: skip

DOMAIN = {
    "log(x)": "x", "log(i)": "i", "sqrt(x)": "x", "log10(x)": "x", "log2(x)": "x", "log1p(x - 5)": "x",
    "arcsin(z)": "z", "arccos(z)": "z", "I(1 / i)": "i", "I(i / i)": "i",
    "I(z / (x - x))": "x|z", "I(i ** -1)": "i", "exp(1000 * z)": "z", "sinh(1000 * z)": "z", "I(x ** 0.5)": "x",
    "I(z ** 1000)": "z", "I(i % 0)": "i", "I(x // 0)": "x",
    "scale(x - x)": "x", "center(log(x))": "x", "poly(log(x), 2)": "x", "bs(1 / i)": "i", "tan(1 / i)": "i",
    "cosh(1e4 * z)": "z", "square(z * 1e200)": "z",
}  # fmt: skip

# What is tried to get out of a formula; each would leave a file behind.
CODE = (
    "__import__('os').system('touch {mark}')", "I(__import__('os').system('touch {mark}'))",
    "eval('open(\"{mark}\", \"w\")')", "open('{mark}', 'w')",
    "exec('open(\"{mark}\", \"w\")')", "x.to_csv('{mark}')", "I(x.to_csv('{mark}'))", "{{x.to_csv('{mark}')}}",
    "x.tofile('{mark}')", "I(x.values.tofile('{mark}'))",
    "x.to_pickle('{mark}')", "np.save('{mark}', x)", "np.savetxt('{mark}', x)",
    "np.lib.npyio.os.system('touch {mark}')", "I(np.log.__class__)", "np.f2py.os.system('touch {mark}')",
    "log.__globals__['os'].system('touch {mark}')",
    "poly.__wrapped__.__globals__['__builtins__']['open']('{mark}', 'w')",
    "C.__globals__['__builtins__']['open']('{mark}', 'w')",
    "contr.treatment.__init__.__globals__['__builtins__']['open']('{mark}', 'w')",
    "().__class__.__bases__[0].__subclasses__()", "I((lambda: open('{mark}', 'w'))())",
    "[open('{mark}', 'w') for _ in [1]]", "I([open('{mark}', 'w') for _ in [1]])", "f\"{{open('{mark}', 'w')}}\"",
    "I(f'{{open(\"{mark}\", \"w\")}}')", "getattr(x, 'to_csv')('{mark}')",
    "x.pipe(open, '{mark}')", "x.apply('to_csv', '{mark}')", "x.agg('to_csv')", "x.map(open)", "x.__class__",
    "log(x, out=x)", "log(x, where=x)", "bs(x.to_csv('{mark}'))",
    "poly(x.to_csv('{mark}'), 2)", "scale(x, center=x.to_csv('{mark}'))", "C(c, contr.custom(open('{mark}', 'w')))",
    "hashed(c, levels=x.to_csv('{mark}'))", "Q(open('{mark}', 'w'))",
    "offset(x.to_csv('{mark}'))", "s(x.to_csv('{mark}'))", "(1 | x.to_csv('{mark}'))", "`x`.to_csv('{mark}')",
    "x:`x`.to_csv('{mark}')", "{{open('{mark}', 'w')}}", "state.system('touch {mark}')",
    "_context['np']", "I((y := open('{mark}', 'w')))", "I(x @ x)", "I(await x)", "I(*x)", "log(**x)",
    "I(x if open('{mark}', 'w') else x)", "I(globals())", "I(vars())", "breakpoint()", "input()", "quit()",
)  # fmt: skip


def unmarked(folder: Path) -> Complaints:
    """Nothing that a formula has run."""
    return [f"the formula has written {path.name}" for path in folder.iterdir() if path.name.startswith("mark")]


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """Slips, domains, code, names, and formulas that are right."""
    table = Table(rng)
    for formula in SLIPS:
        call = fits(formula, pick(rng, [table.dict, table.frame])(), **FEW)
        yield refused(KIND, f"slip: {formula!r}", call, "formula|column|coefficient|'x'|x|~|level|max_bases")
    for term, column in DOMAIN.items():
        formula = pick(rng, ["y ~ {}", "y ~ w + {}", "y ~ 0 + {}"]).format(term)
        yield refused(KIND, f"domain: {formula}", fits(formula, table.dict(), **FEW), column)
    for code in CODE:
        mark = f"mark{int(rng.integers(1000))}"
        term = code.format(mark=mark)
        formula = pick(rng, ["y ~ {}", "y ~ x + {}", "{} ~ x"]).format(term)
        yield refused(
            KIND, f"code: {formula}", fits(formula, table.frame(), **FEW), "formula|column|right side", after=unmarked
        )
        door = pick(rng, [tb.GLM, tb.Hierarchical, tb.MARS])
        yield refused(
            KIND,
            f"code: {door.__name__} {formula}",
            lambda folder, d=door, f=formula: d(f, table.frame()),
            "formula|column|right side",
            after=unmarked,
        )
    for name in ("x.to_csv('mark')", "__import__('os').system('touch mark')", "`", "x`y", "np", "log"):
        for formula in ("y ~ .", f"y ~ `{name}`"):
            data = {"y": table["y"], name: table["x"]}
            truth = right(table.problem(columns={name: table["x"]}))
            yield Case(
                KIND,
                f"code as a name: {name}, {formula}",
                fits(formula, data),
                truth,
                ("name|formula|column|`",),
                after=unmarked,
            )
    for value in (None, 5, b"y ~ x", ["y ~ x"], True, tb.Normal, {"y": "x"}, ("y", "x"), np.nan, object()):
        yield refused(KIND, f"a formula that is {value!r:.20}", fits(value, table.dict(), **FEW), "formula")
    yield refused(
        KIND,
        "a formula of a million terms",
        fits("y ~ " + "+".join(["x"] * 10 + ["(" * 800]), table.dict(), **FEW),
        "formula",
    )
    yield from _right(rng, table)
    yield from _names(rng, table)


def _right(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    x, z, i = table["x"], table["z"], table["i"].astype(float)
    b, c = (table["c"] == level for level in "bc")
    plain: dict[str, dict[str, Any]] = {
        "x + z": {"x": x, "z": z}, "x+z": {"x": x, "z": z}, "  x   +z ": {"x": x, "z": z}, "x + x": {"x": x},
        "x:z": {"x:z": x * z}, "x * z": {"x": x, "z": z, "x:z": x * z},
        "x + I(x ** 2)": {"x": x, "I(x ** 2)": x**2}, "log(z)": {"log(z)": np.log(z)},
        "np.log(z)": {"np.log(z)": np.log(z)}, "x + z - x": {"z": z},
        "c": {"c[T.b]": b, "c[T.c]": c}, "C(c)": {"C(c)[T.b]": b, "C(c)[T.c]": c},
        "x + c": {"x": x, "c[T.b]": b, "c[T.c]": c},
        "x + x:c": {"x": x, "x:c[T.b]": x * b, "x:c[T.c]": x * c}, "I(x > 0)": {"I(x > 0)": x > 0},
        "where(x > 0, x, 0)": {"where(x > 0, x, 0)": np.where(x > 0, x, 0)},
        "(x + z) ** 2": {"x": x, "z": z, "x:z": x * z}, "(x + z):(x + z)": {"x": x, "z": z, "x:z": x * z},
        "(x + z) * (x + z)": {"x": x, "z": z, "x:z": x * z}, "x\n + z": {"x": x, "z": z}, "x\t+ z": {"x": x, "z": z},
        "`x`": {"x": x}, "1 + x": {"x": x}, "Q('x')": {"Q('x')": x},
        "maximum(x, 0)": {"maximum(x, 0)": np.maximum(x, 0)}, "sqrt(z)": {"sqrt(z)": np.sqrt(z)},
        "I(x / z)": {"I(x / z)": x / z}, "i": {"i": i}, "abs(i)": {"abs(i)": np.abs(i)},
        "I(1 * (x > 0) + (z > 5))": {"I(1 * (x > 0) + (z > 5))": (x > 0) * 1 + (z > 5)},
        "I((x > 0) * (z > 5))": {"I((x > 0) * (z > 5))": (x > 0) & (z > 5)},
        "I((x > 0) ^ (z > 5))": {"I((x > 0) ^ (z > 5))": (x > 0) ^ (z > 5)},
        "I(1 - (x > 0))": {"I(1 - (x > 0))": x <= 0},
        "scale(x > 0)": {"scale(x > 0)": ((x > 0) - (x > 0).mean()) / (x > 0).std(ddof=1)},
        "center(x)": {"center(x)": x - x.mean()}, "clip(x, -1, 1)": {"clip(x, -1, 1)": np.clip(x, -1, 1)}, "1": {},
    }  # fmt: skip
    for right_side, columns in plain.items():
        call = fits(f"y ~ {right_side}", pick(rng, [table.dict, table.frame])())
        truth = right(table.problem(columns=columns))
        yield Case(KIND, f"right: {right_side!r}", call, truth, answer=True)
    few = {name: table[name] for name in ("y", "x", "z")}
    yield Case(KIND, "right: '.'", fits("y ~ .", few), right(table.problem(columns={"x": x, "z": z})), answer=True)
    yield Case(KIND, "right: '. - z'", fits("y ~ . - z", few), right(table.problem(columns={"x": x})), answer=True)
    offset = fits("y ~ x + offset(log(z))", table.dict())
    yield Case(KIND, "right: offset(log(z))", offset, right(table.problem(offset=np.log(z))), answer=True)
    groups = fits("y ~ x + (1 | g)", table.dict())
    yield Case(KIND, "right: (1 | g)", groups, right(table.problem(groups=("g", table["g"].tolist()))), answer=True)


def _names(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    names = (
        "my x", "x.1", "x-1", "1x", "x y z", "\u00e4", "\u65e5\u672c", "\U0001f600", "x'", 'x"', "x+z", "x:z", "x*z",
        "x|z", "x~z", "(x)", "[x]", "{x}", "x,z", "%", "#", "x\\", "\n", "\t", " x", "x ", "  ",
        "True", "None", "if", "lambda", "import", "class", "e\u0301", "x" * 300, "1", "0", "-1", ".", "..",
        "Intercept", "I", "C", "chain", "draw", "beta", "coefficient", "sd", "y ", "__x__", "__class__", "nan",
    )  # fmt: skip
    for name in names:
        formula = pick(rng, ["y ~ .", f"y ~ `{name}`", f"y ~ `{name}`"])
        data = {"y": table["y"], name: table["x"]}
        shown = name
        if name in ("1", "0", ".") or (
            name in ("-1", "nan") and formula == "y ~ ."
        ):  # backticks are no help with these
            shown = f"Q('{name}')"
        truth = right(table.problem(columns={shown: table["x"]}))
        holder = pick(rng, [dict, __import__("pandas").DataFrame])
        plain = (
            name.strip() == name
            and name.isprintable()
            and not set(name) & set("`\\")
            and name != "Intercept"
            and name != ".."
        )
        yield Case(
            KIND,
            f"name {name!r:.40}, {formula!r:.40}",
            fits(formula, holder(data)),
            truth,
            ("name|column|formula|" + name.strip(),),
            answer=plain and formula != "y ~ `.`" and name not in ("1", "0", "-1", "."),
        )
    for term in ("scale(x)", "log(z)", "I(x + z)", "{x + z}"):
        name = term.strip("{}")
        data = table.dict(**{name: table["i"]})
        for formula in (f"y ~ {term} + `{name}`", f"y ~ `{name}`:c + {term}", f"`{name}` ~ {term}"):
            yield refused(KIND, f"a column named {name}: {formula}", fits(formula, data, **FEW), "rename the column")
        truth = right(table.problem(columns={name: table["i"]}))
        yield Case(KIND, f"a column named {name}, by itself", fits(f"y ~ `{name}`", data), truth, answer=True)
    for name in names[:25]:
        data = {"y": table["y"], "x": table["x"], name: table["g"]}
        truth = right(table.problem(groups=(name, table["g"].tolist())))
        yield Case(
            KIND,
            f"group named {name!r:.40}",
            fits(f"y ~ x + (1 | `{name}`)", data),
            truth,
            ("name|column|formula|group",),
        )
