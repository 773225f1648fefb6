"""What people try on a formula: none of it runs code, hangs, takes all memory, or ends in an error that is not ours.

`test_functions.py` has calls that formulaic alone would run; here are ways around the check, and formulas that are too
large. A canary notices what nobody should call.
"""

from __future__ import annotations

import builtins
import contextlib
import json
import os
import random
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from command import run

import tallbayes as tb
from tallbayes.data import limits
from tallbayes.data.expression import check
from tallbayes.data.formula import Formula
from tallbayes.groups.scale import scale_prior_from_text
from tallbayes.models.priors import prior_from_text

RNG = np.random.default_rng(0)
DATA = {
    "y": RNG.integers(0, 2, 40), "x": RNG.normal(size=40), "z": RNG.random(40) + 0.1, "n": RNG.integers(0, 3, 40),
    "g": RNG.choice(["a", "b", "it's"], 40),
}  # fmt: skip
QUICK = {"draws": 5, "warmup": 5, "chains": 1, "seed": 1, "progress": False, "method": tb.Thinned()}


class Canary:
    """Counts calls of what a formula must not reach; others may call it."""

    def __init__(self, monkeypatch, folder):
        self.marker, self.called = folder / "harm", []
        real = builtins.open

        def opened(name, *given, **named):
            if str(name) == str(self.marker):
                self.called.append("open")
            return real(name, *given, **named)

        monkeypatch.setattr(builtins, "open", opened)
        monkeypatch.setattr(os, "system", lambda command: self.called.append("system"))
        monkeypatch.setattr(pd.Series, "to_csv", lambda *given, **named: self.called.append("to_csv"))
        monkeypatch.setattr(pd.Series, "to_pickle", lambda *given, **named: self.called.append("to_pickle"))

    @property
    def sings(self):
        return not self.called and not self.marker.exists()


@pytest.fixture
def canary(monkeypatch, tmp_path):
    return Canary(monkeypatch, tmp_path)


def refused(text, data=DATA, **options):
    """The message of the error that a fit ends with."""
    with pytest.raises(ValueError) as caught:
        tb.fit(text, data, **QUICK | options)
    message = str(caught.value)
    assert type(caught.value) is ValueError
    assert "\x1b" not in message
    assert "Error" not in message
    return message


def attempt(work):
    """What some work gives, or the message of its error."""
    try:
        return work(), ""
    except ValueError as error:
        message = str(error)
    assert message
    assert "\x1b" not in message
    return None, message


AROUND = [
    # attributes and subscripts, by other spellings
    "y ~ x.to_csv", "y ~ log.__globals__", "y ~ `log`.__globals__", "y ~ {x.to_csv('{m}')}", "y ~ {x . to_csv('{m}')}",
    "y ~ I(x\n.to_csv('{m}'))", "y ~ I((x).to_csv('{m}'))", "y ~ I(`x`.to_csv('{m}'))", "y ~ I(np.log.at(x, 0))",
    "y ~ I(np.lib)", "y ~ np.pi.real", "y ~ I('a'.join(g))", "y ~ I((1).bit_length())", "y ~ x[0]", "y ~ `x`[0]",
    "y ~ I([x][0])", "y ~ I({'a': x}['a'])", "y ~ center(x).to_pickle('{m}')", "y ~ Q('x').to_csv('{m}')",
    "y ~ days(x.to_csv('{m}'))", "y ~ contr.sum(x)", "y ~ C(g, contr.__class__)", "y ~ C(g, contr.sum.__init__)",
    # what formulaic reads otherwise than it looks: quotes, backticks, braces, comments, line breaks
    "y ~ I('`' + open('{m}', 'w') + '`')", "y ~ I(`x' + open('{m}', 'w') + '`)", "y ~ `x` {open('{m}', 'w')}",
    "y ~ I('_formulaic_a_b' + `a b`)", "y ~ I(x) # open('{m}', 'w')", "y ~ I(x # )\n + open('{m}', 'w'))",
    "y ~ I(x)\nopen('{m}', 'w')", "y ~ I(x); open('{m}', 'w')", "y ~ {x}; {open('{m}', 'w')}",
    "y ~ I(x)\ropen('{m}', 'w')", "y ~ I('\\'' + open('{m}', 'w') + '\\'')", "y ~ {'}' + open('{m}', 'w')}",
    "y ~ scale(x, ddof='\"] or open(\"{m}\", \"w\")')", "y ~ center(x * (g == '\t'))", "y ~ Q('x\\x00')",
    "y ~ I(\"\"\"`\"\"\" + open('{m}', 'w'))", "y ~ %open('{m}', 'w')% x", "y ~ f'{x}'", "y ~ f\"{open('{m}', 'w')}\"",
    "y ~ I(rb'x')", "y ~ I(...)", "y ~ I(x, *[])", "y ~ I(**{})", "y ~ (yield x)", "y ~ I(await x)", "y ~ I(x := 3)",
    # names that Python takes for others
    "y ~ ｏｐｅｎ('{m}', 'w')", "y ~ `ｏｐｅｎ`('{m}', 'w')", "y ~ I(ｘ)", "y ~ I(`ｘ`)", "y ~ I(`True` * x)",
    "y ~ I(`None`)", "y ~ I(`lambda`: x)", "y ~ I(__builtins__)", "y ~ I(`__import_-`)", "y ~ __import__('os')",
    # other places
    "open('{m}', 'w') ~ x", "p(open('{m}', 'w'), n) ~ x", "cbind(y, open('{m}', 'w')) ~ x", "p(y, x.sum()) ~ z",
    "y ~ x + offset(open('{m}', 'w'))", "y ~ x + offset(x.to_csv('{m}'))", "y ~ x + offset('`' + x)",
    "y ~ x + (1 | x.sum())", "y ~ x + (1 | open('{m}', 'w'))", "y ~ x + (1 | I(x))", "y ~ (open('{m}', 'w') | g)",
    "y ~ s(open('{m}', 'w'))", "y ~ s(x, knots=open('{m}', 'w'))", "y ~ s(x.to_csv('{m}'))", "y ~ s(x)[0]",
    "y ~ s(x, knots=__import__('os').system('touch {m}'))", "y ~ bs(x, df=open('{m}', 'w'))",
    "y ~ C(g, levels=x)", "y ~ C(g, contr.treatment(base=x))", "y ~ bs(x, knots=z)", "y ~ scale(x, center=z)",
]  # fmt: skip


@pytest.mark.parametrize("attack", AROUND)
def test_a_formula_cannot_go_around_the_list(attack, canary):
    text = attack.replace("{m}", str(canary.marker))
    refused(text)
    assert canary.sings
    saved = json.loads(Formula.learn("y ~ x", DATA)[0].to_json())
    with pytest.raises(ValueError):
        Formula.from_json(json.dumps(saved | {"text": text}))
    assert canary.sings


def test_the_canary_dies_where_something_is_called(canary):
    open(canary.marker, "w").close()
    assert not canary.sings


NAMES = [
    "open('{m}', 'w')", "{open('{m}', 'w')}", "x`y", "a\nb", "a~b", "a{b}c", "it's", 'say "hi"', "a\\", "a\\`+b",
    "a b", "a_b", "log", "np", "np.log", "contr", "I", "C", "Q", "center", "log.__globals__", "__FORMULAIC_STATE__",
    "__import__", "__import_-", "x[0]", "1", "1e5", "nan", ".", " ", "True", "lambda", "ｘ", "µ", "a|b", "(1 | g)",
    "offset(x)", "y ~ x", "#", "%in%", "_formulaic_a_b", "\u2028", "x\x00", "days", "a:b", "-1", "a" * 3_000,
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_of_columns_are_only_names(name, canary):
    """Either the fit has a coefficient of this column, or it says what is wrong with the name."""
    name = name.replace("{m}", str(canary.marker))
    numbers = {"y": DATA["y"], name: RNG.random(40) + 0.5, "w": DATA["z"]}
    dated = numbers | {name: pd.date_range("2020-01-01", periods=40)}
    text = numbers | {name: DATA["g"]}
    for formula, data in [
        ("y ~ .", numbers),
        ("y ~ .", dated),
        ("y ~ .:w", text),
        (f"y ~ w + `{name}`", numbers),
        (f"y ~ w + log(`{name}`)", numbers),
        (f"y ~ w + center(`{name}`)", numbers),
        (f"y ~ w + (1 | `{name}`)", text),
    ]:
        found, message = attempt(lambda: Formula.learn(formula, data))  # noqa: B023
        assert canary.sings
        if message:
            continue
        learned, X, _ = found
        assert any(name in one for one in (*learned.coefficients, learned.group or ""))
        assert X.shape[0] == len(learned.coefficients)
        if formula.startswith("y ~ w + log"):
            np.testing.assert_array_equal(X[2], np.log(numbers[name]))
    for option in ("weights", "offset"):
        fit, message = attempt(lambda: tb.fit("y ~ w", numbers, **{option: name}, **QUICK))  # noqa: B023
        assert message or fit.coefficients == ("Intercept", "w")
    assert canary.sings


LARGE = {
    "a tower of powers": ("y ~ I(x * 9**9**9**9)", "has '9 [*][*] 9 [*][*] 9', which is too large"),
    "inside I": ("y ~ I(I(9)**I(9)**I(9))", "which is too large"),
    "inside C": ("y ~ I(C(9)**C(9)**C(9))", "which is too large"),
    "a small power": ("y ~ I(2**-10**9 * x)", "too small, for a number"),
    "whole numbers of NumPy": ("y ~ I(maximum([9**99], 0)**999999999)", "beyond 2.63"),
    "many digits": (f"y ~ I(x * {'9' * 5_000})", "4300 digits"),
    "many digits of another kind": (f"y ~ I(x * 0x{'f' * 5_000})", "beyond 2.63"),
    "long text": ("y ~ I(g == 'a' * 10**10)", "arithmetic is for numbers and columns"),
    "text through I": ("y ~ I(I('a') * 10**10)", "arithmetic is for numbers and columns"),
    "text through where": ("y ~ I(where(x > 0, 'aaaa', None) * 10**9)", "where is for numbers and columns"),
    "formatted text": ("y ~ I('%9999999999d' % 3)", "arithmetic is for numbers and columns"),
    "a long list": ("y ~ C(n, levels=[1] * 10**9)", "arithmetic is for numbers and columns"),
    "a written list": (f"y ~ bs(x, knots=[{'1,' * 2_000}])", "a list of 2,000 entries; it can have 1,000"),
    "division": ("y ~ I(1 / 0)", "cannot be computed"),
    "a root": ("y ~ I((-8)**0.5 * x)", "not a real number"),
    "brackets": ("y ~ " + "(" * 3_000 + "x" + ")" * 3_000, "more than 150 brackets inside each other"),
    "brackets in a call": ("y ~ I(" + "(" * 3_000 + "x" + ")" * 3_000 + ")", "too many nested"),
    "signs": ("y ~ I(" + "-" * 5_000 + "x)", "cannot understand"),
    "many signs": ("y ~ I(" + "-" * 90_000 + "x)", "cannot understand"),
    "a long sum": ("y ~ I(x" + " + x" * 300 + ")", "more than 150 operations inside each other"),
    "calls": ("y ~ " + "log(" * 180 + "x" + ")" * 180, "more than 150 operations|too many nested"),
    "terms": ("y ~ " + " + ".join(f"x{i}" for i in range(10_000)), "20,001 names, operators .*; it can have 10,000"),
    "fewer terms": ("y ~ " + "+".join(f"x{i}" for i in range(2_100)), "2,101 terms; it can have 2,000"),
    "powers of sums": ("y ~ (x + z + n)**20", "multiplied out to more than 20,000 products"),
    "powers of one": ("y ~ x**999999999", "multiplied out to more than 20,000 products"),
    "a power in brackets": ("y ~ (x + z)**(20 + 1)", "multiplied out to more than 20,000 products"),
    "another sign": ("y ~ (x + z)^999", "multiplied out to more than 20,000 products"),
    "products": ("y ~ " + "*".join(f"x{i}" for i in range(40)), "multiplied out to more than 20,000 products"),
    "nested": ("y ~ " + "/".join(f"x{i}" for i in range(300)), "multiplied out to more than 20,000 products"),
    "splines of formulaic": ("y ~ bs(x, df=10**7)", r"has df=10 \*\* 7 in bs\(...\), which must be .* to 1,000"),
    "by position": ("y ~ bs(x, 10000000)", "df=10000000 in bs"),
    "degrees": ("y ~ bs(x, df=30, degree=10**6)", "to 20"),
    "polynomials": ("y ~ poly(x, 10**6)", "to 100"),
    "no whole number": ("y ~ poly(x, 1e6)", "must be a whole number"),
    "cubic": ("y ~ cr(x, df=10**7)", "to 1,000"),
    "hashes": ("y ~ hashed(g, levels=10**9)", "to 1,000"),
    "digits": ("y ~ round(x, 10**9)", "to 300"),
    "ten megabytes": ("y ~ x" + " + x" * 2_500_000, "10,000,005 characters; it can have 100,000"),
    "offsets": ("y ~ x" + " + offset(x)" * 400, r"more than 150 offset\(\) terms"),
    "bases": ("y ~ s(x, max_bases=10000000000)", "max_bases='10000000000' in s.*too large; it can be 1,000"),
    "knots": ("y ~ s(x, knots=10000000000)", "too large; it can be 10,000"),
    "a deep option": ("y ~ s(x, knots=" + "[" * 5_000 + "]" * 5_000 + ")", "must be a number"),
    "ten megabytes of splines": ("y ~ s(x" + ", x" * 3_500_000 + ")", "characters; it can have 100,000"),
    "a number as a name": ("y ~ x + `1`", r"has `1`, which formulaic reads as 1; write Q\('1'\) for that column"),
    "empty names": ("y ~ `` + x", "backticks without a name"),
    "nothing": ("y ~ ", "nothing right of the '~'"),
    "wrong brackets": ("y ~ [x)", "has square brackets"),
}


@pytest.mark.parametrize("what", LARGE)
def test_what_is_too_large_is_refused_with_its_limit(what):
    text, message = LARGE[what]
    with pytest.raises(ValueError, match=message) as caught:
        tb.fit(text, DATA, **QUICK)
    assert len(str(caught.value)) < 1_500


def test_designs_have_a_limit():
    levels = [f"level {number}" for number in range(200)]
    data = {"y": [0, 1] * 100, "g": levels, "h": levels, "n": list(range(200))}
    with pytest.raises(ValueError, match=r"the term g:h has 40,000 columns, .*; a design can have 10,000: merge"):
        Formula.learn("y ~ g * h", data)
    with pytest.raises(ValueError, match=r"the term C\(n\):g has 40,000 columns|the term g:C\(n\) has 40,000 columns"):
        Formula.learn("y ~ g:C(n)", data)


def test_what_is_within_the_limits_is_as_before():
    formula, X, _ = Formula.learn("y ~ I(x * 2**10 + 10**3) + (x + z + n)**3 + round(z, 2) + clip(x, None, 1)", DATA)
    np.testing.assert_array_equal(X[1], DATA["x"] * 1024 + 1000)
    assert "x:z:n" in formula.coefficients
    assert check("where(g == 'a', x, 1e300)").columns == ("g", "x")
    assert len(Formula.parse("y ~ " + " + ".join(f"x{i}" for i in range(500))).predictors) == 500


@pytest.mark.parametrize("value", [None, 3, b"y ~ x", ["y ~ x"]])
def test_a_formula_is_text(value):
    with pytest.raises(ValueError, match="formula must be a text such as 'y ~ x', not "):
        tb.fit(value, DATA)


PIECES = [
    "x", "z", "g", "y", "1", "0", "2", "'a'", '"', "'", "`a b`", "`", "(", ")", "[", "]", "{", "}", "~", "|", "+", "-",
    "*", "**", "^", "/", ":", "%in%", "%", ".", ",", "=", "==", "<", "!", "#", "\\", "\n", "\r", "\x00", "ｘ", "log(",
    "np.log(", "np", "I(", "C(", "Q('x')", "center(", "bs(x, df=3)", "poly(", "hashed(", "contr.sum", "x.sum()", "x[0]",
    "lambda", "f'", "__import__", "offset(", "p(", "cbind(", "s(", "(1 | g)", "1e999", "0x1f", "None", ";", "@", "&",
]  # fmt: skip


def test_whatever_is_written_is_a_formula_or_an_error_of_ours(canary):
    """A thousand texts out of pieces of formulas."""
    dice, outcomes = random.Random(22), {"refused": 0, "read": 0}
    for number in range(1_000):
        text = "".join(dice.choice(PIECES) + dice.choice(["", " "]) for _ in range(dice.randint(1, 8)))
        text = dice.choice(["y ~ x + ", "y ~ ", "", "y ~ I(", "log(z) ~ ", "y ~ center("]) + text
        text += dice.choice(["", ")", " + x"])
        read = Formula.parse if number % 4 else lambda text: Formula.learn(text, DATA)
        _, message = attempt(lambda: read(text))  # noqa: B023
        outcomes["refused" if message else "read"] += 1
    assert canary.sings
    assert min(outcomes.values()) > 10


TEXTS = [
    "open('{m}', 'w') * eta", "__import__('os').system('touch {m}') * eta", "eta.__class__", "eta[0]",
    "(lambda: eta)()", "f'{eta}'", "9**9**9**9 * eta", "-" * 1_900 + "eta", "eta; y", "eta\x00",
    "(" * 300 + "eta" + ")" * 300, f"eta * {'9' * 1_900}", "eta**1000", "eta" + " + eta" * 1_000,
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_a_family_is_an_expression_and_no_more(text, canary):
    with pytest.raises(ValueError):
        tb.family(text.replace("{m}", str(canary.marker)))
    assert canary.sings


@pytest.mark.parametrize(
    "text", ["y*eta - " + "exp(" * 60 + "eta" + ")" * 60, "-(1 + eta**2)**" + "(1 + eta**2)**" * 20 + "2"]
)
def test_a_family_that_would_take_minutes_to_compile_is_refused(text):
    with pytest.raises(ValueError, match=r"too long to be compiled: .* different parts, and can have 100"):
        tb.fit("z ~ x", DATA, family=tb.family(text), **QUICK)


@pytest.mark.parametrize(
    "text", ["normal(__import__('os'), 1)", "normal(0, 1" + ", 1" * 10_000 + ")", "eval(0, 1)", "\x00"]
)
def test_a_prior_is_numbers_and_no_more(text):
    for read in (prior_from_text, scale_prior_from_text):
        with pytest.raises(ValueError, match="is not like"):
            read(text)


COMMANDS = [
    ("y ~ x.to_csv('{m}')", ()),
    ("y ~ open('{m}', 'w')", ()),
    ("y ~ I(9**9**9**9)", ()),
    ("y ~ (x + z)**999", ("--splines",)),
    ("y ~ x", ("--family", "open('{m}', 'w') * eta")),
    ("y ~ x", ("--family", "poisson(open('{m}', 'w'))")),
    ("y ~ x", ("--prior", "x=normal(open('{m}', 'w'), 1)")),
    ("y ~ x + (1 | g)", ("--group-prior", "half_normal(open('{m}', 'w'))")),
    ("y ~ x", ("--weights", "open('{m}', 'w')")),
    ("y ~ x", ("--offset", "x.to_csv('{m}')")),
    ("y ~ x", ("--surrogate", "stratified(10, open('{m}', 'w'))")),
]


@pytest.mark.parametrize(("formula", "options"), COMMANDS)
def test_on_the_command_line(formula, options, canary, tmp_path):
    pd.DataFrame(DATA).to_csv(tmp_path / "data.csv", index=False)
    given = [one.replace("{m}", str(canary.marker)) for one in (formula, *options)]
    done = run("fit", tmp_path / "data.csv", *given, "--quiet")
    assert done.exit_code in (1, 2), done.stdout
    assert "Traceback" not in done.stderr + done.stdout
    assert canary.sings


def test_a_process_of_its_own_writes_nothing(tmp_path):
    """As above, where no canary is in the way: a name that Python would find among its built-in functions."""
    code = (
        "import tallbayes as tb, contextlib\n"
        "data = {'y': [0, 1, 0, 1], 'x': [1.0, 2.0, 3.0, 5.0]}\n"
        "for text in ('y ~ open(\"harm\", \"w\")', 'y ~ x.to_csv(\"harm\")', 'y ~ I(exit)'):\n"
        "    with contextlib.suppress(ValueError):\n"
        "        tb.data.formula.Formula.learn(text, data)\n"
        "        raise SystemExit(text)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(tmp_path / "__pycache__")
    assert list(tmp_path.iterdir()) == []


def test_limits_are_those_that_the_documentation_has():
    assert (limits.LETTERS, limits.TERMS, limits.PRODUCTS, limits.COLUMNS) == (100_000, 2_000, 20_000, 10_000)
