"""Rows from a function, and from queries: read again and again, and refused where that cannot be."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tallbayes as tb
from tallbayes.data import pieces
from tallbayes.data.frames import read
from tallbayes.data.sources import open_source

FRAME = pd.DataFrame({"x": np.arange(11.0), "k": np.arange(11), "g": list("abbaabcabba")})


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 4)


def pieces_of(data, wanted):
    return [[column.to_pylist() for column in piece.columns.values()] for piece in open_source(data).pieces(wanted)]


def parts():
    return [FRAME[:3], FRAME[3:3], FRAME[3:8], FRAME[8:]]


KINDS = {
    "pandas": lambda: iter(parts()),
    "list": parts,
    "polars": lambda: (pl.from_pandas(part) for part in parts()),
    "pyarrow": lambda: (pa.Table.from_pandas(part, preserve_index=False) for part in parts()),
    "record batches": lambda: (pa.RecordBatch.from_pandas(part, preserve_index=False) for part in parts()),
    "reader": lambda: pa.Table.from_pandas(FRAME, preserve_index=False).to_reader(5),
    "dicts": lambda: (part.to_dict("list") for part in parts() if len(part)),
    "other order": lambda: (part[["g", "k", "x"][:: 1 if len(part) % 2 else -1]] for part in parts()),
    "categories": lambda: (part.astype({"g": "category"}) for part in parts()),
}


@pytest.mark.parametrize("name", KINDS)
def test_frames_of_all_kinds(name):
    source = tb.scan(KINDS[name])
    assert sorted(source.names) == ["g", "k", "x"]
    assert (source.rows, source.held, source.identity()) == (None, False, None)
    for _ in range(3):
        assert pieces_of(source, ["k", "g"]) == [
            [[0, 1, 2, 3], list("abba")],
            [[4, 5, 6, 7], list("abca")],
            [[8, 9, 10], list("bba")],
        ]
    frame = read(source, ["g", "x"])
    assert frame["g"].tolist() == FRAME["g"].tolist()
    assert frame["x"].tolist() == FRAME["x"].tolist()
    assert read(source, []).shape == (11, 0)


def test_types_may_widen():
    def frames():
        yield pd.DataFrame({"x": [1, 2, 3, 4, 5], "g": [None] * 5})
        yield pd.DataFrame({"x": [0.5, None], "g": ["u", "v"]})

    source = tb.scan(frames)
    first, second = ([str(column.type) for column in piece.columns.values()] for piece in source.pieces(["x", "g"]))
    assert first[0] == "int64"
    assert second[0] == "double"
    for piece in source.pieces(["x", "g"]):  # now they are known
        assert [str(column.type) for column in piece.columns.values()] == second
    assert read(source, ["x"])["x"].tolist()[:6] == [1, 2, 3, 4, 5, 0.5]


def test_intervals_are_text():
    cut = pd.DataFrame({"g": pd.cut(pd.Series([1, 9]), [0, 5, 10])})
    assert pieces_of(tb.scan(lambda: iter([cut])), ["g"]) == [[["(0, 5]", "(5, 10]"]]]


def shrinking(sizes):
    remaining = iter(sizes)
    return lambda: iter([FRAME[: next(remaining)]])


@pytest.mark.parametrize(("sizes", "second"), [([5, 5, 3], "3 the second"), ([5, 5, 5, 7], "7 later")])
def test_another_number_of_rows_is_refused(sizes, second):
    source = tb.scan(shrinking(sizes))  # which calls the function once
    for _ in sizes[2:]:
        list(source.pieces(["x"]))
    message = rf"tb\.scan returned 5 rows the first time and {second}: it must give the same rows each time"
    with pytest.raises(ValueError, match=message):
        list(source.pieces(["x"]))


CHANGES = {
    "numbers": lambda rng: rng.normal(size=50),
    "one number": lambda rng: np.append(np.zeros(49), rng.integers(2**40)),
    "text": lambda rng: rng.choice(["a", "b", "c"], 50),
    "categories": lambda rng: pd.Categorical(rng.choice(["a", "b", "c"], 50)),
    "True and False": lambda rng: rng.random(50) < rng.random(),
    "dates": lambda rng: pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 900, 50), unit="D"),
    "gaps": lambda rng: pd.Series(np.arange(50)).where(rng.random(50) < 0.5),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_other_values_are_refused_but_not_another_order(kind):
    moving, fixed = np.random.default_rng(1), np.random.default_rng(1)

    def frames(rng, order):
        frame = pd.DataFrame({"x": CHANGES[kind](rng)}).iloc[order.permutation(50)]
        return iter([frame[:20], frame[20:]])

    source = tb.scan(lambda: frames(moving, np.random.default_rng(1)))
    list(source.pieces(["x"]))
    with pytest.raises(ValueError, match=r"tb\.scan returned other values of column 'x' than before: .* from a seed"):
        list(source.pieces(["x"]))
    source = tb.scan(lambda: frames(np.random.default_rng(1), fixed))
    assert [sum(len(piece.columns["x"]) for piece in source.pieces(["x"])) for _ in range(3)] == [50, 50, 50]


def test_a_function_that_needs_arguments_is_refused():
    with pytest.raises(ValueError, match=r"has the arguments 'quarter', but is called without any; give tb\.scan\(lam"):
        tb.scan(lambda quarter: iter([FRAME]))
    for function in (lambda quarter=1: iter([FRAME]), lambda *quarters: iter([FRAME]), partial(iter, [FRAME])):
        assert list(tb.scan(function).pieces(["x"]))


def test_other_columns_are_refused():
    given = iter([["x", "k"], ["x", "k"], ["x"]])
    source = tb.scan(lambda: iter([FRAME[next(given)]]))
    list(source.pieces(["x"]))
    with pytest.raises(ValueError, match=r"returned the columns 'x', 'k' the first time and 'x' later"):
        list(source.pieces(["x"]))
    source = tb.scan(lambda: iter([FRAME, FRAME[["x"]]]))
    assert len(list(source.pieces(["x"]))) == 6
    with pytest.raises(ValueError, match=r"no column 'k' in frame 1 of the function given to tb\.scan; it has 'x'"):
        list(source.pieces(["k"]))


def test_an_iterator_that_is_used_up_is_refused():
    for again in (iter(parts()), (part for part in parts()), pa.Table.from_pandas(FRAME).to_reader()):
        source = tb.scan(lambda again=again: again)
        with pytest.raises(ValueError, match="returned the same iterator again, which has been read before"):
            list(source.pieces(["x"]))


REFUSED = {
    "no frame": (lambda: iter([]), r"the function given to tb\.scan returned no frames"),
    "text": (lambda: iter(["a.csv"]), "frame 0 of .* is of type str, not a data frame"),
    "number": (lambda: iter([3]), "frame 0 of .* is of type int, not a data frame"),
    "lazy": (lambda: iter([pl.LazyFrame({"x": [1]})]), "is of type LazyFrame, not a data frame"),
    "nothing": (lambda: None, "returned NoneType; it must return an iterator of frames"),
    "a frame": (lambda: FRAME, r"returned DataFrame; it must return an iterator of frames, such as iter\(\[frame\]\)"),
    "duplicates": (lambda: iter([FRAME[["x", "x"]]]), "duplicate column names: 'x'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        tb.scan(function)


def test_a_later_frame_that_is_none():
    source = tb.scan(lambda: iter([FRAME, "b.csv"]))
    with pytest.raises(ValueError, match=r"frame 1 of the function given to tb\.scan is of type str, not a data frame"):
        list(source.pieces(["x"]))


def test_content_that_cannot_be_used():
    mixed = pd.DataFrame({"x": np.array(["a", 1], dtype=object)})
    with pytest.raises(ValueError, match=r"column 'x' of frame 0 of .* has mixed content"):
        list(tb.scan(lambda: iter([mixed])).pieces(["x"]))
    source = tb.scan(lambda: iter([FRAME[["x"]], FRAME[["g"]].set_axis(["x"], axis=1)]))
    with pytest.raises(ValueError, match=r"tb\.scan changed the type of a column between its parts"):
        list(source.pieces(["x"]))
    with pytest.raises(ValueError, match="the data has no rows"):
        list(tb.scan(lambda: iter([FRAME[:0]])).pieces(["x"]))
    with pytest.raises(ValueError, match="the data has no rows"):
        read(tb.scan(lambda: iter([FRAME[:0]])), ["x"])


def test_what_is_no_function():
    for data in (FRAME, iter(parts()), "a.csv"):
        with pytest.raises(ValueError, match="takes a function that returns an iterator of frames, not"):
            tb.scan(data)


@pytest.mark.parametrize("data", [iter(parts()), (part for part in parts()), pa.Table.from_pandas(FRAME).to_reader()])
def test_what_can_be_read_only_once(data):
    with pytest.raises(ValueError, match=r"can be read only once, .*; give tb\.scan\(function\)"):
        read(data, ["x"])


def test_an_iterator_that_is_left_early_is_closed():
    closed = []

    def frames():
        try:
            yield from parts()
        finally:
            closed.append(1)

    source = tb.scan(frames)
    assert len(closed) == 1
    next(source.pieces(["x"]))
    assert len(closed) == 2


# Queries


def test_lazy_frames_run_again(tmp_path):
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    lazy = pl.scan_csv(tmp_path / "a.csv").filter(pl.col("k") > 1).with_columns(z=pl.col("x") * 2)
    source = open_source(lazy)
    assert (source.names, source.rows, source.held) == (["x", "k", "g", "z"], None, False)
    for _ in range(2):
        assert pieces_of(source, ["z"]) == [[[4, 6, 8, 10]], [[12, 14, 16, 18]], [[20]]]
    FRAME[:5].to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ValueError, match="the polars LazyFrame returned 9 rows the first time and 3 later"):
        list(source.pieces(["z"]))


def test_lazy_frames_before_polars_had_batches(monkeypatch):
    monkeypatch.delattr(pl.LazyFrame, "collect_batches", raising=False)
    for rows in (11, 8):
        source = open_source(pl.from_pandas(FRAME[:rows]).lazy())
        assert [value for (piece,) in pieces_of(source, ["k"]) for value in piece] == list(range(rows))


def test_duckdb_relations():
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("frame", pa.Table.from_pandas(FRAME, preserve_index=False))
    relation = connection.sql('select k, g, 2 * x as "2 x" from frame order by k')
    source = open_source(relation)
    assert (source.names, source.rows, source.held, source.identity()) == (["k", "g", "2 x"], None, False, None)
    next(source.pieces(["g"]))  # left early
    for _ in range(2):
        assert pieces_of(source, ["2 x"]) == [[[0, 2, 4, 6]], [[8, 10, 12, 14]], [[16, 18, 20]]]
    assert read(relation, ["g"])["g"].tolist() == FRAME["g"].tolist()
