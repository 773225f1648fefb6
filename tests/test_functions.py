"""A formula can call a closed list of functions, each of them row by row, and can do nothing else."""

import contextlib
import gc
import json
import warnings

import formulaic
import numpy as np
import pandas as pd
import pytest

import tallbayes as tb
from tallbayes.data import functions
from tallbayes.data.formula import Formula

ROWS = 60
rng = np.random.default_rng(2)
DATA = pd.DataFrame(
    {
        "y": rng.random(ROWS) < 0.4,
        "x": rng.uniform(-0.9, 0.9, ROWS),
        "z": rng.uniform(0.1, 3.0, ROWS),
        "n": np.arange(ROWS) % 3,
        "g": np.array(["a", "b", "it's"])[rng.integers(0, 3, ROWS)],
        "my col": rng.random(ROWS),
        "my-col": rng.random(ROWS),
        "my_col": rng.random(ROWS),
        "2nd (%)": rng.random(ROWS),
        "scale": rng.random(ROWS),
        "Sum": rng.random(ROWS),
    }
)
x, z, n, g = (DATA[name].to_numpy() for name in "xzng")

# What may be written, and the design's columns after the intercept where NumPy gives them.
ALLOWED = {
    "abs(x) + np.abs(z)": [abs(x), z],
    "arccos(x) + arcsin(x) + arcsinh(x) + arctan(x)": [np.arccos(x), np.arcsin(x), np.arcsinh(x), np.arctan(x)],
    "cbrt(x) + ceil(x) + floor(x) + sign(x)": [np.cbrt(x), np.ceil(x), np.floor(x), np.sign(x)],
    "cos(x) + cosh(x) + sin(x) + sinh(x) + tan(x) + tanh(x)": [
        f(x) for f in (np.cos, np.cosh, np.sin, np.sinh, np.tan, np.tanh)
    ],
    "exp(x) + exp2(x) + expm1(x)": [np.exp(x), np.exp2(x), np.expm1(x)],
    "log(z) + log2(z) + log10(z) + log1p(z)": [np.log(z), np.log2(z), np.log10(z), np.log1p(z)],
    "sqrt(z) + np.sqrt(z) + square(x)": [np.sqrt(z), np.sqrt(z), x**2],
    "maximum(x, 0) + np.minimum(x, z)": [np.maximum(x, 0), np.minimum(x, z)],
    "clip(x, -0.5, 0.5) + round(x) + round(x, 1) + round(x, decimals=2)": [
        x.clip(-0.5, 0.5),
        x.round(),
        x.round(1),
        x.round(2),
    ],
    "where(x > 0, z, -1) + np.where(g == 'a', 1, 2)": [np.where(x > 0, z, -1), np.where(g == "a", 1, 2)],
    "I(1 * (x > 0) + (z > 1)) + I((x > 0) * (z > 1))": [(x > 0) * 1 + (z > 1), (x > 0) & (z > 1)],
    "I(where(x > 0, z > 1, n > 1)) + I(maximum(x > 0, z > 1))": [np.where(x > 0, z > 1, n > 1), (x > 0) | (z > 1)],
    "sin(2 * np.pi * x) + I(np.e ** x)": [np.sin(2 * np.pi * x), np.e**x],
    "I(-x + 2 * z - x / z) + {x ** 2 // 0.1 % 7} + I(+n & 1)": [-x + 2 * z - x / z, x**2 // 0.1 % 7, n & 1],
    "I((x > 0) & (z <= 1) | ~(n == 2)) + I(g != 'a') + {x < z}": [
        (x > 0) & (z <= 1) | ~(n == 2),
        g != "a",
        x < z,
    ],
    'I(g == "it\'s") + I(x >= 1e-3) + I(x * True)': [g == "it's", x >= 1e-3, x],
    "`my col` + `2nd (%)` + log(`2nd (%)`)": [DATA["my col"], DATA["2nd (%)"], np.log(DATA["2nd (%)"])],
    "I(`my col` * `my-col` + my_col)": [DATA["my col"] * DATA["my-col"] + DATA["my_col"]],
    "Q('my col') + center(`2nd (%)`)": [DATA["my col"], DATA["2nd (%)"] - DATA["2nd (%)"].mean()],
    "scale + I(scale * Sum)": [DATA["scale"], DATA["scale"] * DATA["Sum"]],
    "center(x)": [x - x.mean()],
    "scale(x) + scale(x, center=False, ddof=0) + standardize(log(z), ddof=1)": None,
    "poly(x, 2) + poly(z, degree=2, raw=True)": None,
    "bs(x, df=5) + bs(z, knots=[1.0, 2.0], degree=2, extrapolation='clip')": None,
    "cc(x, df=4) + cr(x, df=4) + cs(z, knots=(1.0, 2.0), constraints='center')": None,
    'C(n) + C(g, contr.sum) + C(g, contr.treatment("it\'s"))': None,
    "C(n, contr.poly) + C(n, contr.helmert(reverse=False)) + C(n, contr.diff) + C(n, contr.SAS)": None,
    "C(n, Poly) + C(n, Helmert) + C(n, Diff) + C(n, Sum) + C(g, Treatment('b'))": None,
    "C(n, levels=[2, 1, 0]) + C(g, contrasts=contr.treatment(base='b')) + C(x > 0)": None,
    "C(n, {'up': [-1, 0, 1]}) + C(n, contr.custom([[1], [0], [-1]], names=['down']))": None,
    "hashed(g, 4) + hashed(n, levels=2, contrasts=contr.sum)": None,
    "scale(where(x > 0, x, 0)) : g + (x + log(z)) ** 2": None,
}


@pytest.mark.parametrize("right", ALLOWED)
def test_what_is_on_the_list_is_computed_row_by_row(right):
    formula, X, _ = Formula.learn(f"y ~ {right}", DATA)
    if ALLOWED[right] is not None:
        np.testing.assert_allclose(X[1:], np.array(ALLOWED[right], dtype=float), rtol=1e-12)
    # A row has the same design alone as among others: nothing on the list depends on the rows around it.
    loaded, some = Formula.from_json(formula.to_json()), range(0, ROWS, 8)
    alone = np.hstack([loaded.apply(DATA.iloc[[row]]) for row in some])
    np.testing.assert_allclose(alone, X[:, some], rtol=1e-12, atol=1e-13)


def test_the_table_above_has_every_function():
    used = {name for right in ALLOWED for name in Formula.parse(f"y ~ {right}").functions}
    assert {name.removeprefix("np.") for name in used} >= {*functions.WITH_MEMORY, *functions.PLAIN, *functions.NUMPY}
    assert used >= {*functions.CONTRASTS}


NO_NUMBERS = {  # what NumPy would compute, and not as it is meant
    "I((x > 0) + (z > 1))": r"\(x > 0\) \+ \(z > 1\)', but a comparison is not a number; write 1 \* \(x > 0\)",
    "I((x > 0) - (z > 1))": "but a comparison is not a number",
    "I(-(x > 0))": "but a comparison is not a number",
    "I((x > 0) * (z > 1) + (n == 2))": "but a comparison is not a number",
    "I(maximum(x > 0, z > 1) + I(n == 2))": "but a comparison is not a number",
    "exp(x > 0)": "but exp is for numbers, and a comparison is not one",
    "I(n ^ 2)": r"'n \^ 2', where '\^' works on bits; write '\*\*' for a power",
    "log(z ^ 2)": "where '.' works on bits",
    "I(x * 2 ^ 3)": "where '.' works on bits",
    "where(g, x, z)": "column 'g' is text, and this needs numbers",
    "round(g)": "column 'g' is text, and this needs numbers",
    "clip(x, 1, -1)": "whose lower bound is above the upper one",
    "maximum(x)": "maximum takes 2 arguments",
    "where(x > 0, 1)": "where takes 3 arguments",
    "C(g, Treatment)": r"contrasts Treatment, which need arguments, as in Treatment\('b'\)",
    "C(g, contr.custom())": "contrasts contr.custom, which need arguments",
    "C(g, 'treatment')": "contrasts='treatment' in C.*, which must be contrasts such as contr.sum, or a list",
    "C(g, Treatment('q'))": "contrasts begin with the level 'q', which is not one of the levels",
    "C(g, contr.poly(scores=[1]))": "scores= needs a number for each level",
    "cr(x, df=2)": "it needs a larger df, or more knots",
    "scale(x) + `scale(x)`": r"scale\(x\) as the name of a column, and as what is computed; rename the column",
    "log( z ):`log(z)`": r"log\(z\) as the name of a column, and as what is computed; rename the column",
    "s(x)": r"which tb.fit takes; for tb.MARS, add up its variables",
    "x:5": "has 5 in an interaction, which would not be in its name; .*I.5 . x",
    "x * 5": "the only numbers that can be terms are 0 and 1; .*I.5 . x",
}


@pytest.mark.parametrize("right", NO_NUMBERS)
def test_what_would_be_another_number_is_refused(right):
    with pytest.raises(ValueError, match=NO_NUMBERS[right]):
        Formula.learn(f"y ~ {right}", DATA)


# Each of these would write a file {m}. They are where formulaic evaluates, or parses, or checks what it evaluates.
ATTACKS = [
    "center(open('{m}', 'w')) ~ x",
    "I(open('{m}', 'w')) ~ x",
    "y ~ open('{m}', 'w')",
    "y ~ ｏpen('{m}', 'w')",  # a letter that Python takes for an o
    "y ~ log(\nopen('{m}', 'w'))",
    "y ~ center(open('{m}', 'w'))",
    "y ~ x + g:I(open('{m}', 'w'))",
    "y ~ (x + open('{m}', 'w')) ** 2",
    "y ~ 1 + open('{m}', 'w') %in% x",
    "y ~ I(__import__('os').system('touch {m}'))",
    "y ~ {{__import__('pathlib').Path('{m}').touch() or x}}",
    "y ~ eval(\"open('{m}', 'w')\")",
    "y ~ exec(\"open('{m}', 'w')\")",
    "y ~ getattr(x, 'to_csv')('{m}')",
    "y ~ x.to_csv('{m}')",
    "y ~ I(x.__class__.to_csv(x, '{m}'))",
    "y ~ np.savetxt('{m}', x)",
    "y ~ np.memmap('{m}', mode='w+', shape=3)",
    "y ~ np.log.__class__.__init__(open('{m}', 'w'))",
    "y ~ contr.sum.__init__.__globals__['__builtins__']['open']('{m}', 'w')",
    "y ~ I(__builtins__['open']('{m}', 'w'))",
    "y ~ I(().__class__.__base__.__subclasses__() and open('{m}', 'w'))",
    "y ~ I((lambda: open('{m}', 'w'))())",
    "y ~ I([open('{m}', 'w') for _ in [1]])",
    "y ~ I(any(open('{m}', 'w') for _ in [1]))",
    "y ~ {{(w := open('{m}', 'w')) and x}}",
    "y ~ I(f\"{{open('{m}', 'w')}}\")",
    "y ~ I('%s' % open('{m}', 'w'))",
    "y ~ I({{'a': open('{m}', 'w')}})",
    "y ~ I({{open('{m}', 'w')}})",
    "y ~ I(-open('{m}', 'w'))",
    "y ~ I(x @ open('{m}', 'w'))",
    "y ~ I(x in [open('{m}', 'w')])",
    "y ~ I(1 < 2 < open('{m}', 'w').fileno())",
    "y ~ I(x if open('{m}', 'w') else x)",
    "y ~ I(open('{m}', 'w') and x)",
    "y ~ x[open('{m}', 'w')]",
    "y ~ I(x[:open('{m}', 'w')])",
    "y ~ log(x, where=open('{m}', 'w'))",
    "y ~ log(*[open('{m}', 'w')])",
    "y ~ log(**{{'a': open('{m}', 'w')}})",
    "y ~ C(g, open('{m}', 'w'))",
    "y ~ C(g, contr.treatment(open('{m}', 'w')))",
    "y ~ C(g, levels=open('{m}', 'w'))",
    "y ~ hashed(g, 3, hash_func=open('{m}', 'w'))",
    "y ~ Q(open('{m}', 'w'))",
    "y ~ Q(variable=open('{m}', 'w'))",
    "y ~ bs(x, df=open('{m}', 'w'))",
    "y ~ scale(x, _state=open('{m}', 'w'))",
]
REFUSED = r"the formula (calls .* which is not among the functions it can call: abs, |has .* but )"


def formulaic_alone(text, data):
    """What formulaic does with a formula; most of the attacks fail in the end, when the harm is done."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(Exception):
            formulaic.model_matrix(text, data, context={})
        gc.collect()  # files that were opened and not closed


@pytest.fixture(scope="module")
def little_garbage():
    """What is there already is left out when garbage is collected, which takes long otherwise."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("little_garbage")
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_formula_cannot_run_code(attack, tmp_path):
    marker = tmp_path / "harm"
    text = attack.format(m=marker)
    formulaic_alone(text, DATA)
    assert marker.exists(), "formulaic alone would do no harm, so nothing is tested"
    marker.unlink()
    saved = json.loads(Formula.learn("y ~ x", DATA)[0].to_json())
    for door in (
        lambda: Formula.parse(text),
        lambda: Formula.learn(text, DATA),
        lambda: Formula.from_json(json.dumps(saved | {"text": text})),
        lambda: tb.GLM(text, DATA),
        lambda: tb.MARS(text, DATA),
        lambda: tb.fit(text, DATA, progress=False),
    ):
        with pytest.raises(ValueError, match=REFUSED):
            door()
        assert not marker.exists()


WRITES = ["log(z, x)", "log(z, out=x)", "np.log(z, x)", "minimum(z, 0, x)", "clip(z, 0, 1, x)", "round(z, 1, x)"]


@pytest.mark.parametrize("call", WRITES)
def test_a_formula_cannot_write_into_the_data(call):
    """Some versions of pandas keep copies, and then formulaic alone would leave the data as it is, too."""
    data = {name: DATA[name].to_numpy(dtype=float, copy=True) for name in ("y", "x", "z")}
    with pytest.raises(ValueError, match=r"takes at most \d arguments? by position"):
        Formula.learn(f"y ~ {call}", data)
    np.testing.assert_array_equal(data["x"], x)


MESSAGES = [
    ("x.clip(0)", r"calls 'x.clip', which is not among .*: abs, .* clip, .*sqrt.*contr.treatment"),
    ("np.cumsum(x)", "calls 'np.cumsum', which is not"),
    ("lag(x)", "calls 'lag', which is not"),  # its first row would have no value
    ("I(x > 0 and z > 0)", r"has 'x > 0 and z > 0', which does not work on columns; write '&' for and"),
    ("I(not x)", "has 'not x', which does not work on columns"),
    ("I(0 < x < 1)", r"has '0 < x < 1'.*\(0 < x\) & \(x < 1\)"),
    ("I(g in ['a', 'b'])", r"\(g == 'a'\) \| \(g == 'b'\) for g in"),
    ("I(x if z else n)", r"where\(test, x, z\) for if"),
    ("log(x, z)", r"has 'log\(x, z\)', but log takes at most 1 argument by position, none by name"),
    ("scale(x, by=z)", "scale takes at most 4 arguments by position and, by name, center, scale, ddof"),
    ("I(`my col`[0])", r"has '`my col`\[0\]', but can hold only columns, numbers, text, lists"),
    ("I(1j * x)", "has '1j', but can hold only"),
    ("I(x << 2)", "has 'x << 2', but can hold only"),
    ("I(np)", "no column 'np' in the data"),
    ("I(np.log)", "has 'np.log', but can hold only"),
    ("I(contr.sum)", "has 'contr.sum', but can hold only"),
    ("I(__name__)", "has '__name__', but can hold only"),
    ("Q(g)", r"has 'Q\(g\)', but Q takes the name of a column in quotes"),
    ('scale(x * (g == "it\'s"))', r"text \"it's\" inside scale\(...\), where text cannot have quotes"),
    ("Q('a\"b')", "where text cannot have quotes or backslashes"),
    ("scale + scale(x)", "column 'scale' has the name of a function that the formula calls; rename the column"),
]


@pytest.mark.parametrize(("right", "message"), MESSAGES)
def test_the_error_says_what_is_wrong_and_what_there_is(right, message):
    with pytest.raises(ValueError, match=message):
        Formula.learn(f"y ~ {right}", DATA)


def test_a_column_of_weights_may_not_hide_a_function():
    with pytest.raises(ValueError, match="column 'scale' has the name of a function"):
        tb.GLM("y ~ scale(x)", DATA, weights="scale")
