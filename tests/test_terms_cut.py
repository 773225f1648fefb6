"""What a formula has outside its design: offset() terms, and counts of successes on the left side."""

import numpy as np
import pandas as pd
import pytest
from figures import sketched

import tallbayes as tb
from tallbayes.data import counts, offset_term
from tallbayes.data.formula import Formula
from tallbayes.groups.model import Hierarchical
from tallbayes.models.glm import GLM
from tallbayes.rows.tasks import LogLikelihood

ROWS = 300
rng = np.random.default_rng(1)
DATA = pd.DataFrame(
    {
        "y": rng.integers(0, 2, ROWS),
        "n": rng.integers(0, 5, ROWS),
        "x": rng.normal(size=ROWS),
        "days": rng.integers(1, 30, ROWS),
        "my o": rng.normal(size=ROWS),
        "g": rng.choice(list("uv"), ROWS),
    }
)
DATA["k"] = rng.binomial(DATA["days"], 0.3)
DATA["not k"] = DATA["days"] - DATA["k"]


def same(model, other):
    """Whether two models have the same rows."""
    theta = np.random.default_rng(2).normal(size=(3, model.rows.width))
    found, expected = (one.rows.reduce(LogLikelihood(one.family.tag), theta) for one in (model, other))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    return model.coefficients == other.coefficients and model.family.tag == other.family.tag


# Offsets

CUT = [
    ("y ~ x", "y ~ x", ""),
    ("y ~ offset(x)", "y ~ 1", "(x)"),
    ("y ~ offset(log(x)) + z", "y ~ 1 + z", "(log(x))"),
    ("y ~ 0 + z + offset(x)", "y ~ 0 + z ", "(x)"),
    ("y ~ z + offset(`my o`) - 1", "y ~ z  - 1", "(`my o`)"),
    ("y ~ offset(x) + z + offset(x) + w", "y ~ 1 + z  + w", "(x) + (x)"),
    ("y ~ offset + x", "y ~ offset + x", ""),
]


@pytest.mark.parametrize(("text", "rest", "offset"), CUT)
def test_offset_terms_are_cut_out(text, rest, offset):
    assert offset_term.cut(text) == (rest, offset)


OFFSETS = [
    ("y ~ x + offset(`my o`)", DATA["my o"], {}),
    ("y ~ offset(log(days)) + x", np.log(DATA["days"]), {}),
    ("y ~ x + offset(log(days)) + offset(`my o` - 2 * x)", np.log(DATA["days"]) + DATA["my o"] - 2 * DATA["x"], {}),
    ("y ~ x + offset(`my o`) + offset(`my o`)", 2 * DATA["my o"], {}),
    ("y ~ x + offset(where(g == 'u', 1, 0))", 1.0 * (DATA["g"] == "u"), {}),
    ("y ~ x + offset(scale(`my o`))", (DATA["my o"] - DATA["my o"].mean()) / DATA["my o"].std(), {}),
    ("y ~ x + (1 | g) + offset(`my o`)", DATA["my o"], {}),
    ("y ~ x + offset(2.5)", np.full(ROWS, 2.5), {}),
    ("n ~ x + offset(log(days))", np.log(DATA["days"]), {"family": "poisson"}),
]


@pytest.mark.parametrize(("text", "values", "options"), OFFSETS)
def test_an_offset_term_is_an_offset(text, values, options):
    kind, plain = (Hierarchical, "{} ~ x + (1 | g)") if "|" in text else (GLM, "{} ~ x")
    model = kind(text, DATA, **options)
    assert same(model, kind(plain.format(text[0]), DATA, **options, offset=values))
    assert not model.has_offset  # none that a prediction would have to be given
    both = kind(text, DATA, **options, offset="my o")
    assert same(both, kind(plain.format(text[0]), DATA, **options, offset=values + DATA["my o"]))
    for formula in (model.formula, Formula.from_json(model.formula.to_json())):
        np.testing.assert_allclose(formula.offset(DATA), values, rtol=1e-12)
        np.testing.assert_allclose(formula.offset(DATA.iloc[:3]), values[:3], rtol=1e-12)


def test_exposure_and_offsets_add_up():
    model = GLM("n ~ x + offset(`my o`)", DATA, tb.Poisson(exposure="days"), offset="x")
    values = np.log(DATA["days"]) + DATA["my o"] + DATA["x"]
    assert same(model, GLM("n ~ x", DATA, "poisson", offset=values))


def test_predictions_have_the_offset_also_when_loaded(tmp_path):
    common = {"draws": 50, "chains": 1, "seed": 1, "progress": False}
    fit = tb.fit("y ~ x + offset(center(`my o`))", DATA, **common)
    values = DATA["my o"] - DATA["my o"].mean()
    plain = tb.fit("y ~ x", DATA, offset=values.to_numpy(), **common)
    fit.save(tmp_path / "fit.nc")
    for one in (fit, tb.load(tmp_path / "fit.nc")):
        new = one.predict(DATA[["x", "my o"]].head(7))
        np.testing.assert_allclose(new, plain.predict(DATA.head(7), offset=values.head(7)), rtol=1e-9)
        with pytest.raises(ValueError, match="no column 'my o'"):
            one.predict({"x": [1.0]})
        with pytest.raises(ValueError, match="fitted without an offset"):
            one.predict(DATA.head(7), offset=1.0)


ALONE = r"the term offset\(x\) in .* must be added as it is, as in 'y ~ x \+ offset\(x\)'"
BAD_OFFSETS = [
    ("y ~ z - offset(x)", ALONE),
    ("y ~ z:offset(x)", ALONE),
    ("y ~ offset(x):z", ALONE),
    ("y ~ (z + offset(x))", ALONE),
    ("offset(x) ~ z", ALONE),
    ("y ~ offset(x, z)", "needs one column or expression"),
    ("y ~ offset()", "needs one column or expression"),
    ("y ~ log(offset(x))", "calls 'offset', which is not among the functions"),
    ("y ~ offset(open(x))", "calls 'open', which is not among the functions"),
    ("y ~ offset(x.__class__)", "can hold only columns"),
]


@pytest.mark.parametrize(("text", "message"), BAD_OFFSETS)
def test_bad_offsets(text, message):
    with pytest.raises(ValueError, match=message):
        Formula.parse(text)


BRACES = [
    "y ~ offset(where(g == '} + {open(1)} + {', 1, 0))",
    "y ~ offset(`} + {open(1)} + {`)",
    "cbind(I(`} + {open(1)} + {`), x) ~ x",
    "p(I(g == '} + {open(1)} + {'), x) ~ x",
]


@pytest.mark.parametrize("text", BRACES)
def test_braces_in_quotes_end_nothing(text):
    parsed = Formula.parse(text)
    assert "open" not in parsed.functions
    for side in (parsed.left, *(extra.side for extra in (parsed.offset, parsed.trials) if extra)):
        assert [len(term.factors) for term in side] == [1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y ~ offset(g)", r"the offset \(g\) must give one number for each row, not text"),
        ("y ~ offset(poly(x, 2))", "must give one number for each row"),
        ("y ~ offset(log(x))", "is not finite in"),
    ],
)
def test_offsets_that_are_no_numbers(text, message):
    with pytest.raises(ValueError, match=message):
        Formula.learn(text, DATA)


def test_splines_have_neither():
    with pytest.raises(ValueError, match=r"has an offset\(\), which splines cannot have"):
        tb.MARS("y ~ x + offset(n)", DATA)
    with pytest.raises(ValueError, match="has counts of successes, which splines cannot have"):
        tb.MARS("p(k, days) ~ x", DATA)


# Counts

COUNTS = [
    ("p(k, days) ~ x", "k ~ x", "days"),
    ("p(`a b`, `a b c`) ~ x", "`a b` ~ x", "`a b c`"),
    ("cbind(k, `not k`) ~ x", "k ~ x", "k + `not k`"),
    ("cbind(a - b, c) ~ x", "{(a - b)} ~ x", "(a - b) + c"),
    ("p(k, 12) ~ x", "k ~ x", "12"),
    ("p ~ x", "p ~ x", ""),
    ("y ~ p(k, days)", "y ~ p(k, days)", ""),
]


@pytest.mark.parametrize(("text", "rest", "trials"), COUNTS)
def test_counts_are_cut_out(text, rest, trials):
    assert counts.cut(text) == (rest, trials)


@pytest.mark.parametrize("text", ["p(k, days) ~ x", "cbind(k, `not k`) ~ x", "p(days - `not k`, k + `not k`) ~ x"])
@pytest.mark.parametrize(
    ("family", "link"),
    [("bernoulli", "logit"), (tb.Bernoulli("probit"), "probit"), ("binomial", "logit"), (tb.Binomial(), "logit")],
)
def test_counts_choose_the_binomial_family(text, family, link):
    model = GLM(text, DATA, family)
    assert same(model, GLM("k ~ x", DATA, tb.Binomial("days", link)))
    assert model.family.name == "binomial"


def test_a_number_of_trials_for_all():
    data = DATA.assign(k=DATA["k"] % 5, twelve=12)
    assert same(GLM("p(k, 12) ~ x", data), GLM("k ~ x", data, tb.Binomial("twelve")))


def test_fits_of_counts(tmp_path, monkeypatch):
    sketched(monkeypatch)
    common = {"draws": 30, "chains": 1, "seed": 1, "progress": False}
    fit = tb.fit("cbind(k, `not k`) ~ x + (1 | g)", DATA, **common)
    plain = tb.fit("k ~ x + (1 | g)", DATA, tb.Binomial("days"), **common)
    np.testing.assert_allclose(fit.draws, plain.draws)
    fit.save(tmp_path / "fit.nc")
    loaded = tb.load(tmp_path / "fit.nc")
    assert loaded.family == fit.family == tb.Binomial("k + `not k`")
    new = DATA[["x", "g"]].head(3)
    pd.testing.assert_frame_equal(loaded.predict(new), fit.predict(new))
    fit.report(tmp_path / "fit.html")
    assert "binomial (trials k + `not k`, link logit)" in (tmp_path / "fit.html").read_text()


BAD_COUNTS = [
    ("p(k, days) ~ x", "poisson", r"counts successes among trials \(days\), which is not for family poisson"),
    ("p(k, days) ~ x", tb.Binomial("days"), r"trials is given twice, in the formula \(days\) and in Binomial"),
    ("k ~ x", "binomial", r"need the number of trials: write p\(successes, trials\) ~ ..."),
    ("k ~ x", tb.Binomial(link="probit"), "need the number of trials"),
    ("p(k) ~ x", "bernoulli", r"the outcome p\(k\) needs two columns or expressions, as in p\(successes, trials\)"),
    ("cbind(k, n, y) ~ x", "bernoulli", r"needs two columns or expressions, as in cbind\(successes, failures\)"),
    ("p(days, k) ~ x", "bernoulli", r"successes in row \d+, which had only"),
    ("cbind(k, x) ~ x", "bernoulli", "must be counts"),
    ("p(g, days) ~ x", "bernoulli", "the outcome 'g' is text"),
    ("p(k, g) ~ x", "bernoulli", "the number of trials g must give one number for each row"),
    ("p(k, days) + y ~ x", "bernoulli", "calls 'p', which is not among the functions"),
    ("y ~ p(k, days)", "bernoulli", "calls 'p', which is not among the functions"),
    ("p(open(k), days) ~ x", "bernoulli", "calls 'open'"),
    ("p(k, open(days)) ~ x", "bernoulli", "calls 'open'"),
]


@pytest.mark.parametrize(("text", "family", "message"), BAD_COUNTS)
def test_bad_counts(text, family, message):
    with pytest.raises(ValueError, match=message):
        GLM(text, DATA, family)
