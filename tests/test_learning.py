"""A model does not depend on the pieces in which its data come: what is learned, rows and messages are the same."""

import datetime
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tallbayes as tb
from tallbayes.data import pieces, sample
from tallbayes.data.formula import Formula
from tallbayes.data.kinds import MAX_LEVELS
from tallbayes.data.pieces import Source
from tallbayes.data.sample import Rows, Sample
from tallbayes.data.sources import open_source
from tallbayes.groups.model import Hierarchical
from tallbayes.models.glm import GLM

ROWS = 150
PIECES = [29, 60]
rng = np.random.default_rng(1)
DATA = pd.DataFrame(
    {
        "y": rng.random(ROWS) < 0.4,
        "yes": rng.choice(["no", "yes"], ROWS),
        "one_two": rng.integers(1, 3, ROWS),
        "x": rng.normal(size=ROWS),
        "z": rng.lognormal(size=ROWS),
        "n": np.arange(ROWS) // 30,  # its values come one after the other
        "half": np.where(np.arange(ROWS) < 100, np.arange(ROWS) % 4, 1.5),
        "text": np.where(np.arange(ROWS) < 130, rng.choice(["b", "c"], ROWS), "a"),  # the first level comes last
        "ordered": pd.Categorical(rng.choice(["lo", "hi"], ROWS), ["lo", "mid", "hi"], ordered=True),
        "unused": pd.Categorical(rng.choice(["v", "u"], ROWS), ["w", "v", "u"]),
        "levels": pd.Categorical(rng.choice([3, 1, 7], ROWS)),
        "when": pd.Timestamp("2019-11-01") + pd.to_timedelta(np.arange(ROWS), "D"),
        "bank": [f"b{code:03d}" for code in rng.integers(0, 90, ROWS)],
        "id": rng.integers(0, 40, ROWS) + 2**60,
        "w": rng.integers(0, 4, ROWS).astype(float),
        "o": rng.normal(size=ROWS),
        "trials": rng.integers(0, 6, ROWS),
    },
    index=np.linspace(5, 0, ROWS),
)
DATA["hits"] = rng.binomial(DATA["trials"], 0.4)


def holes(**places):
    data = DATA.copy()
    for name, rows in places.items():
        data[name] = data[name].astype(object) if data[name].dtype.kind in "bi" else data[name]
        data.iloc[rows, data.columns.get_loc(name)] = None
    return data


SOME_HOLES = holes(x=[0, 5, 99], text=[*range(130, 150)], n=[7, 8], when=[75], w=[40])
CASES = [
    ("y ~ x", {}),
    ("y ~ 0 + text + x + n", {}),
    ("y ~ x + text + ordered + unused + levels", {}),
    ("y ~ text * x + ordered:unused", {}),
    ("yes ~ half + C(n) + C(half)", {}),
    ("yes ~ x + C(text, contr.sum) + C(ordered, levels=['hi', 'lo'])", {"outcome": "no"}),
    ("one_two ~ x", {"outcome": 2}),
    ("text ~ x", {"outcome": "a"}),
    ("I(text == 'a') ~ log(z) + I(ordered > 'lo') + {x**2 + n}", {}),
    ("y ~ month(when) + C(year(when)) + days(when)", {}),
    ("y ~ C(x > 0) + hashed(n, levels=3) + C(where(n > 3, 'late', 'early'))", {}),
    ("y ~ x", {"weights": "w", "offset": "o"}),
    ("y ~ text", {"weights": DATA["w"].tolist(), "offset": DATA["o"].to_numpy()}),
    ("y ~ text + ordered", {}),  # with duplicates
    ("p(hits, trials) ~ x + text + offset(o / 2)", {"weights": "w"}),
    ("hits ~ x", {"family": tb.Binomial("trials"), "strata": ["unused"]}),
    ("trials ~ x", {"family": tb.Poisson("z"), "offset": "o"}),
    ("y ~ x + text", {"strata": ["n", "ordered", "half"]}),
    ("y ~ x + (1 | bank)", {"strata": ["n"]}),
    ("y ~ text + (1 | id)", {"weights": "w"}),
    ("y ~ x + (1 | half)", {}),
    ("y ~ x + text + I(2 * x) + n", {"collinear": "drop"}),
    ("y ~ x + text + C(n) + month(when)", {"missing": "drop"}),
    ("yes ~ text + (1 | n)", {"missing": "drop", "weights": "w", "strata": ["n"]}),
    ("y ~ n", {"missing": "drop", "weights": np.where(np.arange(ROWS) % 9, DATA["w"], np.nan)}),
    # learned from a sample, which is all of so few rows
    ("y ~ poly(x, 3) + poly(z, 2, raw=True)", {}),
    ("y ~ bs(x, df=5) + bs(z, knots=[1.0], degree=2) + cr(x, df=4) + cc(z, df=3)", {}),
    ("y ~ bs(x - z, df=4) + text", {"missing": "drop"}),
]
COMBINED = [
    "y ~ center(x) + scale(z) + standardize(n)",
    "y ~ scale(log(z), ddof=0):text + center(half)",
    "y ~ scale(x, center=False) + scale(z, scale=2.5) + scale(n, center=1) + standardize(z, rescale=False)",
    "y ~ scale(x) + x:center(x) + Q('z') + offset(center(x))",
    "p(hits, trials) ~ scale(x)",
    "I(center(x) > 0) ~ z",
    "y ~ {scale(x) * center(z)}",
]
NESTED = ["y ~ center(scale(x)) + scale(bs(z, df=4))", "y ~ C(scale(x) > 0.5) + bs(center(z), df=4)"]


def model(text, options, data=None):
    kind = Hierarchical if "|" in text else GLM
    return kind(text, (SOME_HOLES if "missing" in options else DATA) if data is None else data, **options)


def in_pieces(monkeypatch, make):
    """What is made from one piece, and from pieces of some lengths."""
    whole = make()
    for rows in PIECES:
        monkeypatch.setattr(pieces, "PIECE", rows)
        yield whole, make()


def assert_same(one, other, **tolerance):
    """Two models are the same; to the last bit, or what terms remember to a tolerance."""
    assert one.coefficients == other.coefficients
    mine, yours = (json.loads(fit.formula.to_json()) for fit in (one, other))
    if tolerance:
        for learned in (mine, yours):
            del learned["transforms"], learned["offset_transforms"]
    assert mine == yours
    for name in ("levels", "left_out", "outcome_said", "observations", "has_offset", "offset", "family"):
        assert getattr(one, name) == getattr(other, name), name
    for name in ("x", "y", "weights", "offset", "codes"):
        np.testing.assert_allclose(*(getattr(m.rows.arrays, name) for m in (one, other)), **({"rtol": 0} | tolerance))
    assert one.rows.arrays.strata.keys() == other.rows.arrays.strata.keys()
    for name, codes in one.rows.arrays.strata.items():
        np.testing.assert_array_equal(codes, other.rows.arrays.strata[name])
    if not tolerance:
        assert one.described_prior() == other.described_prior()


@pytest.mark.parametrize(("text", "options"), CASES, ids=str)
def test_a_model_does_not_depend_on_pieces(monkeypatch, text, options):
    for whole, parts in in_pieces(monkeypatch, lambda: model(text, options)):
        assert_same(whole, parts)


@pytest.mark.parametrize("text", [*COMBINED, *NESTED])
def test_means_and_spreads_are_those_of_all_rows(monkeypatch, text):
    for whole, parts in in_pieces(monkeypatch, lambda: model(text, {})):
        assert_same(whole, parts, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rows", [29, 149])  # 149 leaves a last piece of one row, which has no spread
def test_a_formula_learned_from_pieces_builds_the_same_design_again(monkeypatch, rows):
    monkeypatch.setattr(pieces, "PIECE", rows)
    for text in ("y ~ scale(x) + text * ordered + C(n)", "y ~ bs(x, df=4) + center(z):unused", "y ~ text + x"):
        formula, X, y = Formula.learn(text, DATA)
        for some in (formula, Formula.from_json(formula.to_json())):
            np.testing.assert_array_equal(some.apply(DATA), X)
        assert y.tolist() == DATA["y"].tolist()


def test_splines_too(monkeypatch):
    for one, other in in_pieces(monkeypatch, lambda: tb.MARS("yes ~ x + text + z", DATA)):
        np.testing.assert_array_equal(one.rows.arrays.x, other.rows.arrays.x)
        assert one.outcome_said == other.outcome_said


# Refusals

LATE = np.arange(ROWS) >= 140
REFUSED = [
    ("y ~ x + z", DATA.assign(x=np.where(LATE, np.nan, 1), z=np.where(LATE, np.inf, 1)), {}),
    ("y ~ x", holes(x=[100, 110], y=[99]), {}),
    ("y ~ text + month(when)", holes(text=[100, 110], when=[120]), {}),
    ("y ~ x + z", DATA.assign(x=np.where(LATE, np.inf, DATA["x"])), {"missing": "drop"}),
    ("y ~ x", holes(x=list(range(ROWS))), {"missing": "drop"}),
    ("y ~ log(x + 10) + log(z - 1e9)", DATA, {}),
    ("y ~ log(z)", DATA.assign(z=np.where(LATE, 0, DATA["z"])), {}),
    ("log(z) ~ x", DATA.assign(z=np.where(LATE, 0, DATA["z"])), {"family": "poisson"}),
    ("y ~ offset(log(z)) + x", DATA.assign(z=np.where(LATE, -1, DATA["z"])), {}),
    ("n ~ x", DATA, {}),
    ("y ~ x", DATA.assign(y=1.0), {}),
    ("y ~ x", DATA.assign(y=np.where(LATE, 2, DATA["y"])), {"weights": "w"}),
    ("one_two ~ x", DATA, {}),
    ("one_two ~ x", DATA, {"outcome": 7}),
    ("z ~ x", DATA, {"outcome": 7}),
    ("bank ~ x", DATA, {}),
    ("yes ~ x", DATA, {"outcome": "maybe"}),
    ("text ~ x", DATA, {"family": "poisson"}),
    ("C(n) ~ x", DATA, {}),
    ("poly(x, 2) ~ z", DATA, {}),
    ("y ~ C(n, levels=[0, 1, 2, 3])", DATA, {}),
    ("y ~ C(text, levels=['b', 'c'])", DATA, {}),
    ("y ~ scale(text)", DATA, {}),
    ("y ~ log(text)", DATA, {}),
    ("y ~ x + offset(text)", DATA, {}),
    ("y ~ x + (1 | n)", DATA.assign(n=3), {}),
    ("y ~ x", DATA, {"weights": "text"}),
    ("y ~ x", DATA, {"weights": DATA["w"] - LATE}),
    ("y ~ x", DATA.assign(w=DATA["w"] - LATE), {"weights": "w"}),
    ("y ~ x", DATA, {"weights": np.zeros(ROWS)}),
    ("y ~ x", DATA, {"offset": np.where(LATE, np.nan, 0.0)}),
    ("y ~ x", DATA, {"offset": np.zeros(ROWS - 1)}),
    ("y ~ x", DATA, {"offset": np.zeros(ROWS + 1), "missing": "drop"}),
    ("y ~ x", DATA, {"offset": np.zeros((ROWS, 1)), "missing": "drop"}),
    ("trials ~ x", DATA.assign(z=np.where(LATE, 0, 1)), {"family": tb.Poisson("z")}),
    ("trials ~ x", DATA.assign(trials=np.where(LATE, 0.5, 1)), {"family": "poisson"}),
    ("trials ~ x", DATA.assign(trials=0), {"family": "poisson"}),
    ("p(hits, trials) ~ x", DATA.assign(hits=np.where(LATE, 9, 0)), {}),
    ("p(hits, trials) ~ x", DATA.assign(trials=np.where(LATE, 6.5, 9)), {}),
    ("p(hits, trials) ~ x", DATA.assign(hits=0), {}),
    ("p(hits, trials) ~ x", DATA.assign(hits=DATA["trials"]), {}),
    ("y ~ x", DATA.assign(x=[1j] * ROWS), {}),
    ("y ~ when", DATA, {}),
]


@pytest.mark.parametrize("case", range(len(REFUSED)), ids=lambda case: f"{case}: {REFUSED[case][0]}")
def test_messages_do_not_depend_on_pieces(monkeypatch, case):
    text, data, options = REFUSED[case]

    def message():
        with pytest.raises(ValueError) as caught:
            model(text, options, data)
        return str(caught.value)

    for whole, parts in in_pieces(monkeypatch, message):
        assert whole == parts


def test_text_with_too_many_levels_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 600)
    read = []

    def watched(wanted):
        for piece in source.pieces(wanted):
            read.append(piece.start)
            yield piece

    texts = [f"t{i}" for i in range(5000)]
    source = open_source({"y": np.arange(5000) % 2, "g": texts})
    with pytest.raises(ValueError, match=r"'g' is text with 1200 levels in the first 1,200 rows, such as 't0' and"):
        GLM("y ~ g", source._replace(pieces=watched))
    assert read == [0, 600, 1200]
    few = {"y": np.arange(MAX_LEVELS) % 2, "g": texts[:MAX_LEVELS], "x": np.arange(MAX_LEVELS) ** 2.0}
    assert len(GLM("y ~ g", few).coefficients) == MAX_LEVELS


def test_a_number_with_too_many_levels(monkeypatch):
    data = {"y": np.arange(100_000) % 2, "x": np.arange(100_000) / 7}
    for rows in (100_000, 20_000):
        monkeypatch.setattr(pieces, "PIECE", rows)
        with pytest.raises(ValueError, match=r"'C\(x\)' has more than 10,000 levels; leave out the C\(\) if"):
            GLM("y ~ C(x)", data)


# Pieces that differ in kind


def frames(*parts):
    """A source of these frames, a piece each."""

    def read(wanted):
        start = 0
        for number, part in enumerate(parts):
            columns = {name: part[name] for name in wanted}
            yield pieces.Piece(columns, start, lambda row, number=number: f"row {row} of part {number}")
            start += len(part["y"])

    def load(wanted):
        return {name: pd.concat([part[name] for part in parts]) for name in wanted}

    return Source(list(parts[0]), None, False, load, read)


def two(first, second):
    parts = [{"y": [0, 1, 1], "x": first}, {"y": [0, 1, 0], "x": second}]
    return frames(*({name: pd.Series(values) for name, values in part.items()} for part in parts))


def test_whole_numbers_in_one_piece_and_others_in_the_next():
    whole = {"y": [0, 1, 1, 0, 1, 0], "x": [1, 2, 3, 1.0, 2.5, 3]}
    for text in ("y ~ x", "y ~ C(x)", "y ~ I(x // 2)"):
        assert_same(GLM(text, two([1, 2, 3], [1.0, 2.5, 3.0])), GLM(text, whole))
    grouped = Hierarchical("y ~ 1 + (1 | x)", two([1, 2, 3], [1.0, 2.5, 3.0]))
    assert grouped.levels == (1.0, 2.0, 2.5, 3.0)
    assert_same(grouped, Hierarchical("y ~ 1 + (1 | x)", whole))
    floats = GLM("y ~ C(x)", two([1, 2, 3], pd.array([1, 2, None], dtype="Int64")), missing="drop")
    assert floats.coefficients == ("Intercept", "C(x)[T.2.0]", "C(x)[T.3.0]")


def test_a_piece_without_values_is_of_any_kind():
    for nothing in ([None, None, None], [np.nan] * 3, pd.Categorical([None] * 3)):
        assert GLM("y ~ x", two(["a", "b", "a"], nothing), missing="drop").coefficients == ("Intercept", "x[T.b]")
        assert GLM("y ~ x", two([1.5, 2.0, 3.0], nothing), missing="drop").coefficients == ("Intercept", "x")
        assert GLM("y ~ x", two(nothing, ["a", "b", "a"]), missing="drop").coefficients == ("Intercept", "x[T.b]")
        with pytest.raises(ValueError, match=r"'x' has 3 missing values \(first at row 0 of part 1\); drop or impute"):
            GLM("y ~ x", two(["a", "b", "a"], nothing))


def test_text_in_one_piece_and_numbers_in_the_next():
    message = "column 'x' holds numbers from row 0 of part 1 on, but text before; make it all text or all numbers"
    with pytest.raises(ValueError, match=message):
        GLM("y ~ x", two(["a", "b", "a"], [1, 2, 3]))
    with pytest.raises(ValueError, match="holds text from row 0 of part 1 on, but numbers before"):
        GLM("y ~ x", two([1, 2, 3], ["a", "b", "a"]))
    with pytest.raises(ValueError, match="column 'x' has levels of mixed types"):
        GLM("y ~ x", two(pd.Categorical([1, 2, 3]), pd.Categorical(["a", "b", "a"])))


def test_levels_of_pieces_are_joined():
    model = GLM("y ~ x", two(pd.Categorical(["d", "c", "d"]), pd.Categorical(["a", "c", "a"], ["q", "c", "a"])))
    assert model.formula.levels["x"] == (["a", "c", "d"], False)
    assert model.rows.arrays.x[1:].tolist() == [[0, 1, 0, 0, 1, 0], [1, 0, 1, 0, 0, 0]]
    first = pd.Categorical(["lo", "hi", "lo"], ["lo", "mid", "hi"], ordered=True)
    ordered = GLM("y ~ x", two(first, pd.Categorical(["top", "mid", "lo"], ["lo", "mid", "top"], ordered=True)))
    assert ordered.formula.levels["x"] == (["lo", "mid", "top", "hi"], True)
    with pytest.raises(ValueError, match="has ordered levels, but not everywhere in the same order: 'hi' stands"):
        GLM("y ~ x", two(first, pd.Categorical(["lo", "hi", "mid"], ["hi", "mid", "lo"], ordered=True)))


def test_levels_of_many_thousand_groups(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 5000)
    codes = np.random.default_rng(2).permutation(np.arange(40_000) % 20_000)
    data = {
        "y": np.arange(40_000) % 2,
        "x": np.arange(40_000) ** 0.5,
        "text": [f"g{code}" for code in codes],
        "id": codes,
    }
    for name in ("text", "id"):
        grouped = Hierarchical(f"y ~ x + (1 | {name})", data)
        assert grouped.levels == tuple(sorted(set(data[name])))
        assert (np.bincount(grouped.rows.arrays.codes) == 2).all()


# Samples


@pytest.mark.parametrize("text", ["y ~ poly(x, 2) + text", "y ~ bs(x - z, df=5)", "y ~ cr(x, df=4)", *NESTED])
def test_a_sample_does_not_depend_on_pieces(monkeypatch, text):
    monkeypatch.setattr(sample, "SAMPLE", 40)
    for whole, parts in in_pieces(monkeypatch, lambda: model(text, {})):
        assert_same(whole, parts, rtol=1e-12, atol=1e-12)


def test_splines_of_a_sample_span_all_rows(monkeypatch):
    whole = model("y ~ bs(x - z, df=6)", {})
    monkeypatch.setattr(sample, "SAMPLE", 75)
    found = model("y ~ bs(x - z, df=6)", {})
    (mine,), (all_of_them,) = (m.formula.transforms.values() for m in (found, whole))
    for bound in ("lower_bound", "upper_bound"):
        assert mine[bound] == all_of_them[bound]
    assert mine["knots"] != all_of_them["knots"]
    np.testing.assert_allclose(mine["knots"], all_of_them["knots"], atol=1)
    (center,) = model("y ~ center(x)", {}).formula.transforms.values()
    assert center["center"] == DATA["x"].mean()


# Files


@pytest.fixture
def files(tmp_path):
    for number, (begin, end) in enumerate([(0, 60), (60, 61), (61, 150)]):
        some = SOME_HOLES.iloc[begin:end].reset_index(drop=True)
        pl.from_pandas(some.drop(columns=["levels"])).write_parquet(tmp_path / f"{number}.parquet")
    return tmp_path


@pytest.mark.parametrize("rows", [*PIECES, ROWS])
@pytest.mark.parametrize(
    "text",
    ["y ~ x + text + unused + C(n)", "yes ~ scale(z) + month(when) + (1 | bank)", "p(hits, trials) ~ bs(z, df=4)"],
)
def test_files_are_like_a_frame(files, monkeypatch, text, rows):
    monkeypatch.setattr(pieces, "PIECE", rows)
    assert_same(model(text, {"missing": "drop"}, files), model(text, {"missing": "drop"}))


@pytest.mark.parametrize("rows", [*PIECES, ROWS])
def test_messages_name_the_file(files, monkeypatch, rows):
    monkeypatch.setattr(pieces, "PIECE", rows)
    with pytest.raises(ValueError) as caught:
        GLM("y ~ x + text", files)
    assert "'x' has 3 missing values (first at row 0 of" in str(caught.value)
    assert f"'text' has 20 missing values (first at row 69 of {str(files / '2.parquet')!r})" in str(caught.value)


BY_FILE = [
    ("y ~ log(z)", {}, "'log(z)' is not finite in 1 of 151 rows (first at {}: nan)"),
    ("trials ~ x", {"family": "poisson"}, "but 1 rows are not (first at {}: -3)"),
    ("trials ~ x", {"family": tb.Poisson("z")}, "exposure 'z' must be positive, but is -1 in {}"),
    ("y ~ x", {"weights": "w"}, "the smallest is -1 ({})"),
    ("y ~ x", {}, "outcome 'y' must be 0 or 1, but 1 rows are not (first at {}: 2)"),
    ("y ~ z", {"offset": np.where(np.arange(151) == 150, np.inf, 0)}, "infinite values (first at row 150)"),
]


@pytest.mark.parametrize("rows", [*PIECES, ROWS])
@pytest.mark.parametrize(("text", "options", "message"), BY_FILE)
def test_messages_of_the_second_pass_name_the_file(tmp_path, monkeypatch, text, options, message, rows):
    monkeypatch.setattr(pieces, "PIECE", rows)
    numbers = DATA[["y", "x", "z", "n", "w", "trials"]].astype(float)
    numbers.to_parquet(tmp_path / "a.parquet")
    numbers.iloc[[0]].assign(z=-1.0, trials=-3.0, w=-1.0, y=2.0).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(ValueError) as caught:
        GLM(text, tmp_path, **options)
    place = f"row 0 of {str(tmp_path / 'b.parquet')!r}"
    assert message.format(place) in str(caught.value)


# Data that change between two passes


def changing(first, then):
    """A source whose second pass gives other rows."""
    sources = [open_source(first), open_source(then)]
    return sources[0]._replace(pieces=lambda wanted: sources.pop(0).pieces(wanted))


BASE = {"y": [0, 1, 1, 0], "x": [1, 2, 3, 4], "g": ["a", "b", "a", "b"], "n": [5, 6, 5, 6]}
CHANGES = [
    ("y ~ g", {"g": ["a", "b", "c", "b"]}, "column 'g' is 'c' at row 2, a value that it did not have before"),
    ("y ~ x + (1 | n)", {"n": [5, 6, 5, 7]}, "column 'n' is 7 at row 3, a value that it did not have before"),
    ("y ~ C(n)", {"n": [5, 6, 5, 7]}, r"'C\(n\)' is 7 at row 3, a value that it did not have before"),
    ("y ~ g", {"g": [1, 2, 1, 2]}, "column 'g' holds numbers, but held text before"),
    ("y ~ x", {"x": ["1", "2", "1", "2"]}, "column 'x' holds text, but held numbers before"),
    ("y ~ x", {"x": [1, 2, 3, 4.5]}, "column 'x' held whole numbers only before"),
]


@pytest.mark.parametrize(("text", "change", "message"), CHANGES)
def test_data_that_change(text, change, message):
    with pytest.raises(ValueError, match=f"the data changed between two passes over it: {message}; fit again when"):
        model(text, {}, changing(BASE, BASE | change))


@pytest.mark.parametrize("rows", [2, 3, 5, 9])
def test_another_number_of_rows(rows):
    other = {name: (values * 3)[:rows] for name, values in BASE.items()}
    with pytest.raises(ValueError, match="changed between two passes over it: at first it had 4 rows, of which 4 were"):
        GLM("y ~ x", changing(BASE, other))


def test_other_missing_values():
    holed = BASE | {"x": [1, None, 3, 4.0]}
    with pytest.raises(ValueError, match="at first it had 4 rows, of which 3 were used, and now it has others"):
        GLM("y ~ x", changing(holed, BASE | {"x": [1.0, 2, 3, 4]}), missing="drop")
    with pytest.raises(ValueError, match=r"'x' is not finite in 1 of 4 rows \(first at row 1: nan\)"):
        GLM("y ~ x", changing(BASE | {"x": [1, 2.5, 3, 4]}, holed))


def test_many_kinds_of_columns_in_pieces(monkeypatch):
    """Tables of other libraries, cut in the middle of what they hold."""
    some = {"y": [0, 1] * 10, "x": [datetime.date(2020, 1, day) for day in range(1, 21)], "g": list("abcde") * 4}
    monkeypatch.setattr(pieces, "PIECE", 3)
    expected = GLM("y ~ days(x) + g", pd.DataFrame(some))
    for table in (some, pl.DataFrame(some), pl.LazyFrame(some), pa.table(some), pd.DataFrame(some).convert_dtypes()):
        assert_same(GLM("y ~ days(x) + g", table), expected)


def test_a_piece_of_which_the_sample_takes_no_row():
    """After the sample was cut to its size, a short piece may have no row below the bound."""
    sample = Sample(most=2)
    for start in range(0, 200, 5):
        sample.add(Rows(np.arange(start, start + 5), {"x": np.arange(5.0)}))
    sample.add(Rows(np.arange(200, 201), {"x": np.arange(1.0)}))
    found = sample.rows()
    assert sum(part.numbers.size for part in found) == 2
    assert all(part.numbers.size for part in found)
