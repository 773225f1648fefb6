"""A formula is learned once, applied to any chunk, saved as JSON, and refuses what formulaic lets pass."""

import json
import re
import time

import formulaic
import numpy as np
import pandas as pd
import pytest

import tallbayes as tb
from tallbayes.data.formula import Formula
from tallbayes.data.group_term import cut
from tallbayes.data.kinds import MAX_LEVELS

ROWS = 300
rng = np.random.default_rng(1)
DATA = pd.DataFrame(
    {
        "y": rng.random(ROWS) < 0.4,
        "x": rng.normal(size=ROWS),
        "z": rng.lognormal(size=ROWS),
        "n": rng.integers(1, 4, size=ROWS),
        "g": rng.choice(["yes", "no", "maybe"], ROWS),
        "h": pd.Categorical(rng.choice(["lo", "mid", "hi"], ROWS), ["lo", "mid", "hi"], ordered=True),
        "a.b": rng.normal(size=ROWS),
        "my col": rng.random(ROWS),
    }
)
FORMULAS = [
    "y ~ 1",
    "y ~ x",
    "y ~ 0 + x",
    "y ~ x + g",
    "y ~ g - 1",
    "y ~ x * g + h",
    "y ~ g:h",
    "y ~ x + x:g - 1",
    "y ~ x + I(x) + I(2 * x)",
    "y ~ C(n) + C(g, contr.sum)",
    "y ~ C(g, contr.treatment('no')) + C(n, contr.poly)",
    "y ~ C(h, levels=['hi', 'lo', 'mid'])",
    "y ~ center(x) + scale(z) + standardize(n)",
    "y ~ log(z) + np.sqrt(z) + np.maximum(x, 0) + {x**2 + z}",
    "y ~ scale(log(z)) : g",
    "y ~ poly(x, 3) + poly(z, 2, raw=True)",
    "y ~ bs(x, df=5) + bs(z, knots=[1.0], degree=2)",
    "y ~ cr(x, df=4) + cc(z, df=3) + center(bs(x, df=4))",
    "y ~ a.b + `my col` + log(`my col`) + center(`a.b`) + Q('a.b')",
    "y ~ I(h > 'lo') + I(g == 'no')",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_learn_agrees_with_formulaic(text):
    formula, X, y = Formula.learn(text, DATA)
    expected = formulaic.model_matrix(text, DATA.assign(y=DATA["y"].astype(float)), context={})
    assert formula.coefficients == tuple(expected.rhs.columns)
    assert formula.outcome == "y"
    np.testing.assert_array_equal(X, expected.rhs.to_numpy(dtype=float).T)
    np.testing.assert_array_equal(y, DATA["y"])
    assert X.shape == (len(formula.coefficients), ROWS)
    assert X.dtype == y.dtype == np.float64
    assert X.flags.c_contiguous
    assert y.flags.c_contiguous


@pytest.mark.parametrize("text", FORMULAS)
def test_chunks_and_json_give_the_whole_bit_for_bit(text):
    formula, X, _ = Formula.learn(text, DATA)
    loaded = Formula.from_json(formula.to_json())
    assert (loaded.text, loaded.coefficients, loaded.outcome) == (text, formula.coefficients, "y")
    assert loaded.to_json() == formula.to_json()
    new = DATA.drop(columns="y")
    for some in (formula, loaded):
        whole = some.apply(new)
        chunks = [some.apply(new.iloc[start : start + 37]) for start in range(0, ROWS, 37)]
        np.testing.assert_array_equal(np.hstack(chunks), whole)
        np.testing.assert_array_equal(whole, X)
        np.testing.assert_array_equal(some.apply(new.iloc[:1]), X[:, :1])


def test_applying_does_not_change_what_was_learned():
    formula, _, _ = Formula.learn("y ~ scale(x) + C(n)", DATA)
    before = formula.to_json()
    formula.apply(DATA.iloc[:5])
    assert formula.to_json() == before


def test_the_json_has_a_version():
    saved = json.loads(Formula.learn("y ~ x", DATA)[0].to_json())
    assert saved["version"] == 2
    with pytest.raises(ValueError, match="saved in format 2, got format 99"):
        Formula.from_json(json.dumps(saved | {"version": 99}))
    with pytest.raises(ValueError, match="got format None"):
        Formula.from_json("[]")


def test_ordered_levels_keep_their_order_and_unused_ones_go():
    formula, _, _ = Formula.learn("y ~ h", DATA[DATA["h"] != "mid"])
    assert formula.coefficients == ("Intercept", "h[T.hi]")


def test_new_data_may_come_in_another_form():
    data = DATA.assign(k=pd.Categorical(DATA["n"]))
    formula, X, _ = Formula.learn("y ~ k + h", data)
    plain = {"k": DATA["n"].tolist(), "h": DATA["h"].astype(str).tolist()}
    np.testing.assert_array_equal(formula.apply(plain), X)


def test_intercept_alone_needs_only_a_number_of_rows():
    formula, X, y = Formula.learn("y ~ 1", {"y": [1, 0, 1]})
    assert X.tolist() == [[1, 1, 1]]
    assert y.tolist() == [1, 0, 1]
    assert formula.apply({"anything": ["a", "b"]}).tolist() == [[1, 1]]


COLUMNS = [
    ("y ~ x + g:x", ("y", "x", "g")),
    ("log(y) ~ center(x) + C(g) + scale(log(z))", ("y", "x", "g", "z")),
    ("y ~ log(`a.b`) + `my col` + a.b", ("y", "a.b", "my col")),
    ("y ~ Q('my col') + clip(x, 0, 1) + np.log1p(z)", ("y", "my col", "x", "z")),
    ("I(g == 'no') ~ 1", ("g",)),
]


@pytest.mark.parametrize(("text", "columns"), COLUMNS)
def test_parse_finds_the_columns(text, columns):
    parsed = Formula.parse(text)
    assert sorted(parsed.columns) == sorted(columns)
    assert parsed.columns[0] == columns[0]
    assert set(parsed.predictors) <= set(columns)


OUTCOMES = [
    ("log(z) ~ 1", np.log(DATA["z"])),
    ("{g == 'no'} ~ 1", DATA["g"] == "no"),
    ("n ~ 1", DATA["n"]),
    ("I(x > 0) ~ 1", DATA["x"] > 0),
]


@pytest.mark.parametrize(("text", "expected"), OUTCOMES)
def test_outcomes(text, expected):
    np.testing.assert_array_equal(Formula.learn(text, DATA)[2], expected)


ALONE = r"the group term \(1 \| g\) in .* must be added as it is, as in 'y ~ x \+ \(1 \| g\)'"
BAD_TEXT = [
    ("y", "has no '~'; write it as 'outcome ~ predictors'"),
    ("", "has no '~'"),
    ("~ x", "has no outcome"),
    ("1 ~ x", "has no outcome"),
    ("y + x ~ z", r"has several outcomes \(y, x\)"),
    ("y ~ 0", "has no predictors"),
    ("y ~ (1 | g) + x + (1 | h)", "has 2 group terms; this version takes one group term"),
    ("y ~ (1 | g) + (1 | g)", "has 2 group terms"),
    ("y ~ x - (1 | g)", ALONE),
    ("y ~ -(1 | g)", ALONE),
    ("y ~ x + -(1 | g)", ALONE),
    ("y ~ (1 | g):x", ALONE),
    ("y ~ x:(1 | g)", ALONE),
    ("y ~ x*(1 | g)", ALONE),
    ("y ~ (1 | g)*x + z", ALONE),
    ("y ~ (1 | g)**2", ALONE),
    ("y ~ x %in% (1 | g)", ALONE),
    ("y ~ ((1 | g))", ALONE),
    ("y ~ x - (z + (1 | g) + n)", ALONE),
    ("y ~ x (1 | g)", ALONE),
    ("y ~ (1 | g) x", ALONE),
    ("(1 | g) ~ x", ALONE),
    ("y + (1 | g) + z ~ x", ALONE),
    ("y ~ x + (1 | log(g))", r"the group term \(1 \| log\(g\)\) needs the name of a column"),
    ("y ~ x + (1 | 2)", "needs the name of a column"),
    ("y ~ (`1` | g)", r"has a '\|' outside a group term"),
    ("y ~ (1 + x | g)", r"has a '\|' outside a group term"),
    ("y ~ (1 | g:h)", r"has a '\|' outside a group term"),
    ("y ~ 0 + (1 | g)", "has no predictors"),
    ("y ~ x + (1 | y)", r"the outcome 'y' is also the group of \(1 \| y\)"),
    ("y ~ x + (1 | chain)", "name 'chain' has another meaning in a posterior; rename the column"),
    ("y ~ x + (1 | `a/b`)", "name 'a/b' has a '/'.*; rename the column"),
    ("y ~ x | g", r"has a '\|' outside a group term"),
    ("y ~ x + (x | g)", r"has a '\|' outside a group term"),
    ("y ~ x || g", r"has a '\|' outside a group term"),
    ("y | g ~ x", r"has a '\|' outside a group term"),
    ("y ~ .", r"has a '\.'; write the names of the columns"),
    ("y ~ x ~ z", "cannot understand the formula 'y ~ x ~ z': Operator `~` is incorrectly used"),
    ("y ~ log(x", "cannot understand the formula"),
    ("y ~ log(x y)", r"cannot understand 'log\(x y\)' in the formula: invalid syntax"),
    ("y ~ mean(x)", "the formula calls 'mean', which is not among the functions it can call: abs, "),
]


@pytest.mark.parametrize(("text", "message"), BAD_TEXT)
def test_bad_text(text, message):
    with pytest.raises(ValueError, match=message):
        Formula.parse(text)


# Formulas with a group term: what formulaic may see, and the group.
CUT = [
    ("y ~ (1 | bank)", "y ~ 1", "bank"),
    ("y~(1|bank)", "y ~ 1", "bank"),
    ("y ~ x + (1 | bank)", "y ~ x", "bank"),
    ("y ~ (1|bank) + x", "y ~ x", "bank"),
    ("y ~ x + (1 | bank) + z:w", "y ~ x + z:w", "bank"),
    ("y ~ 0 + x + (1 | bank)", "y ~ 0 + x", "bank"),
    ("y ~ (1 | bank) + 0 + x", "y ~ 0 + x", "bank"),
    ("y ~ (1 | bank) - 1 + x", "y ~ x - 1", "bank"),
    ("y ~ x + (1 | bank) - 1", "y ~ x - 1", "bank"),
    ("y ~ x\n+ (1 |\n bank)", "y ~ x", "bank"),
    ("y ~ x + (1 | `my (bank)`) + z", "y ~ x + z", "my (bank)"),
    ("y ~ `(` + (1 | bank)", "y ~ `(`", "bank"),
    ("y ~ I(x | z) + (1 | bank) + {x | z}", "y ~ I(x | z) + {x | z}", "bank"),
]


@pytest.mark.parametrize(("text", "rest", "group"), CUT)
def test_a_group_term_leaves_the_rest_as_it_would_be_without_it(text, rest, group):
    parsed, plain = Formula.parse(text), Formula.parse(rest)
    assert (parsed.group, plain.group) == (group, None)
    assert [*map(str, parsed.right)] == [*map(str, plain.right)]
    assert parsed.predictors == plain.predictors
    assert parsed.columns == (*plain.columns, group)


def test_text_without_a_group_term_is_not_touched():
    for text in ("y ~ x", "y ~ {a | b} + I(a | b)", "y ~  x+ z "):
        assert cut(text) == (text, None)


def learn(bank, text="y ~ x + (1 | bank)"):
    """A formula with a group term, and its copy by way of JSON."""
    rows = len(bank)
    formula, X, _ = Formula.learn(text, {"y": np.arange(rows) % 2, "x": np.arange(rows) ** 2.0, "bank": bank})
    assert X.shape == (len(formula.coefficients), rows)
    return formula, Formula.from_json(formula.to_json())


BANKS = [
    (["b", "c", "a", "b"], ("a", "b", "c"), [1, 2, 0, 1]),
    ([30, 7, 30, 2**60 + 1], (7, 30, 2**60 + 1), [1, 0, 1, 2]),
    ([0.5, -1.25, 2.0**53 - 1, 0.5], (-1.25, 0.5, 2.0**53 - 1), [1, 0, 2, 1]),
    ([True, False, True, True], (0.0, 1.0), [1, 0, 1, 1]),
    (pd.Categorical(["lo", "hi", "lo"], ["lo", "mid", "hi"], ordered=True), ("lo", "hi"), [0, 1, 0]),
    (pd.Categorical(["lo", "hi", "lo"], ["lo", "mid", "hi"]), ("hi", "lo"), [1, 0, 1]),
    (pd.Categorical([3, 1, 3]), (1, 3), [1, 0, 1]),
    (pd.Categorical([True, False, True]), (False, True), [1, 0, 1]),
]


@pytest.mark.parametrize(("bank", "levels", "codes"), BANKS)
def test_groups_have_sorted_levels_and_rows_their_index(bank, levels, codes):
    for formula in learn(bank):
        assert formula.group == "bank"
        assert formula.group_levels == levels
        assert [type(level) for level in formula.group_levels] == [type(level) for level in levels]
        found = formula.group_codes({"bank": bank})
        assert found.tolist() == codes
        assert found.dtype == np.intp


def test_without_a_group_term_there_are_no_groups():
    formula, _, _ = Formula.learn("y ~ x", DATA)
    assert (formula.group, formula.group_levels) == (None, ())
    with pytest.raises(ValueError, match="'y ~ x' has no group term"):
        formula.group_codes(DATA)
    saved = json.loads(formula.to_json())
    del saved["group_levels"]  # as it was before there were groups
    assert Formula.from_json(json.dumps(saved)).group_levels == ()


def test_groups_never_seen_are_minus_one_and_levels_compare_by_value():
    text, _ = learn(["a", "b", "1"])
    assert text.group_codes({"bank": ["b", "c", "1", "c", "A"]}).tolist() == [2, -1, 0, -1, -1]
    assert text.group_codes({"bank": pd.Categorical(["c", "b"])}).tolist() == [-1, 2]
    numbers, _ = learn([3, 1, 2**60 + 1])
    for bank in ([1.0, 2.0, 3.0], pd.Categorical([1, 2, 3]), [True, 2, 3]):
        assert numbers.group_codes({"bank": bank}).tolist() == [0, -1, 1]
    assert numbers.group_codes({"bank": [2.0**52, 3.5]}).tolist() == [-1, -1]
    assert numbers.group_codes({"bank": [2**60, 2**60 + 1]}).tolist() == [-1, 2]


WHOLE = np.arange(40) * 10**9 + 1


@pytest.mark.parametrize("text", ["I(q * q)", "q:r", "I(q ** 3)", "where(x > 0, q * q, 0)", "scale(q * r)", "I(q + r)"])
def test_whole_numbers_do_not_overflow(text):
    data = {"y": np.arange(40) % 2, "x": np.sin(np.arange(40)), "q": WHOLE, "r": WHOLE[::-1]}
    floats = data | {"q": WHOLE * 1.0, "r": WHOLE[::-1] * 1.0}
    whole, X, _ = Formula.learn(f"y ~ {text}", data)
    np.testing.assert_array_equal(X, Formula.learn(f"y ~ {text}", floats)[1])
    np.testing.assert_array_equal(whole.apply(data), X)
    if ":" not in text:
        y = Formula.learn(f"{text} ~ x", {name: values for name, values in data.items() if name != "y"})[2]
        np.testing.assert_array_equal(y, X[1])


def test_categories_keep_their_whole_numbers():
    data = {"y": np.arange(40) % 2, "k": np.arange(40) // 2, "x": np.sin(np.arange(40))}
    names = Formula.learn("y ~ C(k // 10) + I(k * x) + I(k & 1)", data)[0].coefficients
    assert names == ("Intercept", "C(k // 10)[T.1]", "I(k * x)", "I(k & 1)")


COMPARED = [
    ("y ~ I(x * (k != '1'))", "compares column 'k', which holds numbers, with the text '1'"),
    ("y ~ where('00001' == k, x, 0)", "compares column 'k', which holds numbers, with the text '00001'"),
    ("y ~ I(x > 'a')", "compares column 'x', which holds numbers, with the text 'a'"),
    ("y ~ x + I(c == 1)", "compares column 'c', which holds text, with the number 1; write '1'"),
]


@pytest.mark.parametrize(("text", "message"), COMPARED)
def test_numbers_are_not_compared_with_text(text, message):
    data = {"y": np.arange(40) % 2, "x": np.sin(np.arange(40)), "k": np.arange(40) % 2, "c": list("ab") * 20}
    with pytest.raises(ValueError, match=re.escape(message)):
        Formula.learn(text, data)
    assert Formula.learn("y ~ I(c == 'a') + I(k == 1) + I(x > 0)", data)[1].shape == (4, 40)


LARGE = 2**60 + np.arange(4)
GAPS = pd.Series(LARGE, dtype="Int64").where(np.arange(4) != 2)


@pytest.mark.parametrize("bank", [LARGE.astype(float), LARGE.astype(np.uint64) + np.uint64(2**63), GAPS])
def test_names_that_floating_point_would_merge_are_refused(bank):
    data = pd.DataFrame({"y": [0, 1, 0, 1], "bank": bank})
    learned, _ = learn(LARGE)
    for text in ("y ~ 1 + (1 | bank)", "y ~ C(bank)"):
        with pytest.raises(ValueError, match=r"names levels by numbers such as .*; make it text"):
            tb.GLM(text, data, missing="drop") if "C" in text else tb.Hierarchical(text, data, missing="drop")
    with pytest.raises(ValueError, match="names levels by numbers such as"):
        learned.group_codes({"bank": data["bank"].astype(float).dropna()})


def test_large_whole_numbers_stay_apart(tmp_path):
    pd.DataFrame({"y": [0, 1, 0, 1], "bank": LARGE}).to_csv(tmp_path / "data.csv", index=False)
    for data in (str(tmp_path / "data.csv"), {"y": [0, 1, 0, 1], "bank": LARGE.astype(np.uint64)}):
        assert Formula.learn("y ~ 1 + (1 | bank)", data)[0].group_levels == tuple(LARGE.tolist())


def test_text_never_matches_numbers():
    text, numbers = learn(["1", "3"])[0], learn([1, 3])[0]
    with pytest.raises(ValueError, match="column 'bank' holds numbers, but held text when the formula was learned"):
        text.group_codes({"bank": [1, 3]})
    with pytest.raises(ValueError, match="column 'bank' holds text, but held numbers when the formula was learned"):
        numbers.group_codes({"bank": ["1", "3"]})


@pytest.mark.parametrize("bank", [["a", None, "b"], [1.0, np.nan, 2.0], pd.Categorical(["a", None, "b"])])
def test_missing_groups_are_refused(bank):
    with pytest.raises(ValueError, match=r"column 'bank' has 1 missing value \(first at row 1\)"):
        learn(bank)
    known = learn([1, 2] if isinstance(bank[0], float) else ["a", "b"])[0]
    with pytest.raises(ValueError, match=r"column 'bank' has 1 missing value \(first at row 1\)"):
        known.group_codes({"bank": bank})
    with pytest.raises(ValueError, match="no column 'bank'"):
        known.group_codes({"x": [1.0]})


def test_one_group_is_none():
    with pytest.raises(ValueError, match=r"group column 'bank' has only one level, 7, .*drop the term \(1 \| bank\)"):
        learn([7, 7, 7])


def test_the_design_knows_nothing_of_the_groups():
    formula, loaded = learn(["a", "b", "c"])
    for some in (formula, loaded):
        assert some.coefficients == ("Intercept", "x")
        assert some.apply({"x": [2.0]}).tolist() == [[1.0], [2.0]]


def test_a_group_may_have_many_levels_unless_it_is_a_predictor_too():
    bank = [f"b{i}" for i in range(MAX_LEVELS + 1)]
    formula, _ = learn(bank)
    assert formula.group_levels == tuple(sorted(bank))
    with pytest.raises(ValueError, match=r"'bank' is text with 1001 levels.* write it as a group: \(1 \| bank\)"):
        learn(bank, "y ~ bank + (1 | bank)")
    both, _ = learn(["a", "b", "a"], "y ~ bank + (1 | bank)")
    assert both.coefficients == ("Intercept", "bank[T.b]")
    assert (both.parsed.columns, both.group_levels) == (("y", "bank"), ("a", "b"))
    ids, _ = learn([10, 20, 10], "y ~ bank + (1 | bank)")
    assert ids.coefficients == ("Intercept", "bank")


def test_codes_of_millions_of_rows_take_no_time():
    rows, levels = 2_300_000, [f"b{i:05d}" for i in range(10_000)]
    codes = np.random.default_rng(0).integers(0, 10_000, rows)
    frame = pd.DataFrame({"bank": pd.Categorical.from_codes(codes, levels)})
    formula, _ = learn(levels)
    start = time.perf_counter()
    found = formula.group_codes(frame)
    assert time.perf_counter() - start < 0.5  # .02 s on a machine with nothing else to do
    np.testing.assert_array_equal(found, codes)


BAD_DATA = [
    ("y ~ x", {"x": np.nan}, r"column 'x' has 1 missing value \(first at row 4\)"),
    ("y ~ x", {"x": np.inf}, r"column 'x' has 1 infinite value \(first at row 4\)"),
    ("y ~ log(z)", {"z": 0.0}, r"'log\(z\)' is not finite in 1 of 300 rows \(first at row 4: -inf\)"),
    ("y ~ log(z):g", {"z": -1.0}, r"is not finite in 1 of 300 rows \(first at row 4: nan\)"),
    ("log(z) ~ x", {"z": 0.0}, r"'log\(z\)' is not finite in 1 of 300 rows \(first at row 4: -inf\)"),
    ("y ~ w", {}, "no column 'w' in the data"),
    ("g ~ x", {}, r"'g' is text with 3 levels .*outcome=\"yes\", or in the formula: I\(g == 'yes'\) ~ \.\.\."),
    ("C(n) ~ x", {}, r"the outcome 'C\(n\)' is a category"),
    ("poly(x, 2) ~ z", {}, r"the outcome 'poly\(x, 2\)' gives 2 columns"),
    ("y ~ C(n, levels=[1, 2])", {}, r"levels=... leaves out levels: .*\{.*3.*\}"),
    ("y ~ log(g)", {}, "cannot compute .log.g.. of the formula: column 'g' is text, and this needs numbers"),
    ("y ~ nowhere", {}, "no column 'nowhere'"),
]


@pytest.mark.parametrize(("text", "change", "message"), BAD_DATA)
def test_bad_data(text, change, message):
    data = DATA.copy()
    for name, value in change.items():
        data.loc[4, name] = value
    with pytest.raises(ValueError, match=message):
        Formula.learn(text, data)


def test_a_value_that_is_not_finite_in_the_last_row():
    data = DATA.copy()
    data.loc[ROWS - 1, "z"] = -1.0
    with pytest.raises(ValueError, match=r"'log\(z\)' is not finite in 1 of 300 rows \(first at row 299: nan\)"):
        Formula.learn("y ~ log(z)", data)


def test_the_callers_variables_are_out_of_reach():
    nowhere = 3.0
    with pytest.raises(ValueError, match="no column 'nowhere'"):
        Formula.learn("y ~ I(x * nowhere)", DATA.assign(x=nowhere))


def test_a_number_stored_as_text():
    data = {"y": np.zeros(MAX_LEVELS + 1), "x": [f"{i},5" for i in range(MAX_LEVELS + 1)]}
    with pytest.raises(
        ValueError, match=r"column 'x' is text, though 1,001 of .*'0,5' at row 0 is not a number; .*decimal="
    ):
        Formula.learn("y ~ x", data)


def test_a_data_column_called_intercept():
    with pytest.raises(ValueError, match="two columns of the design are called 'Intercept'"):
        Formula.learn("y ~ Intercept", {"y": [0, 1], "Intercept": [3.0, 4.0]})


BAD_NEW = [
    (
        "y ~ g",
        {"g": ["no", "who", "when", "who"]},
        r"column 'g' has levels never .*'when', 'who' \(first at row 1\)",
    ),
    ("y ~ C(n)", {"n": [1, 2, 7]}, r"'C\(n\)' has levels never seen .*: 7 \(first at row 2\)"),
    (
        "y ~ C(n, levels=[1, 2, 3, 4])",
        {"n": [1, 7]},
        r"'C\(n, levels=\[1, 2, 3, 4\]\)' has levels never seen .*: 7 \(first at row 1\)",
    ),
    ("y ~ g", {"g": [1, 2]}, r"column 'g' does not hold text, but did when the formula was learned, such as 'maybe'"),
    ("y ~ x", {"x": ["1.5", "2"]}, "column 'x' is text, but held numbers when the formula was learned"),
    ("y ~ x", {"z": [1.0]}, "no column 'x' in the data"),
    ("y ~ x", {"x": [1.0, np.nan]}, r"column 'x' has 1 missing value \(first at row 1\)"),
    ("y ~ x", {"x": [1.0, np.inf]}, r"column 'x' has 1 infinite value \(first at row 1\)"),
    ("y ~ g", {"g": ["no", None]}, r"column 'g' has 1 missing value \(first at row 1\)"),
    ("y ~ log(z)", {"z": [1.0, 0.0]}, r"'log\(z\)' is not finite in 1 of 2 rows \(first at row 1: -inf\)"),
    ("y ~ bs(x, df=4)", {"x": [1e6]}, "values lie beyond its bounds.*; add extrapolation='clip'"),
    ("y ~ x", {"x": []}, "the data has no rows"),
]


@pytest.mark.parametrize(("text", "new", "message"), BAD_NEW)
def test_bad_new_data(text, new, message):
    formula, _, _ = Formula.learn(text, DATA)
    for some in (formula, Formula.from_json(formula.to_json())):
        with pytest.raises(ValueError, match=message):
            some.apply(new)
