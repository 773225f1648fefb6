"""Every source gives the same pieces of a fixed number of rows, as often as asked, however its rows are stored."""

import gzip
import io
import itertools
import os
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from tallbayes.data import columnar, csv_files, pieces
from tallbayes.data.frames import names_and_dates, read
from tallbayes.data.scan import scan
from tallbayes.data.sources import open_source

ROWS, SIZE = 23, 5
TABLE = pa.table(
    {
        "x": np.arange(ROWS) / 4,
        "k": np.arange(ROWS) % 3,
        "g": ["last" if row == ROWS - 1 else "ab"[row % 2] for row in range(ROWS)],
    }
)
CUTS = [0, 1, 1, 7, 12, 13, ROWS]  # the rows of several files, of which one has none
NAMES = ["k", "g", "x"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", SIZE)


def as_csv(table, path):
    pa.csv.write_csv(table, path)


def as_gzip(table, path):
    sink = io.BytesIO()
    pa.csv.write_csv(table, sink)
    path.write_bytes(gzip.compress(sink.getvalue()))


def as_stream(table, path):
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


def as_feather(table, path):
    pa.feather.write_feather(table, str(path), chunksize=4)


def as_parquet(table, path):
    pq.write_table(table, path, row_group_size=4)


WRITERS = {"csv": as_csv, "csv.gz": as_gzip, "arrow": as_stream, "feather": as_feather, "parquet": as_parquet}


def one(folder, ending, table=TABLE):
    path = folder / f"one.{ending}"
    WRITERS[ending](table, path)
    return path


def many(folder, ending):
    for number, (start, stop) in enumerate(itertools.pairwise(CUTS)):
        WRITERS[ending](TABLE[start:stop], folder / f"part-{number}.{ending}")
    return folder / f"part-*.{ending}"


def slices():
    return (TABLE[start:stop] for start, stop in itertools.pairwise(CUTS))


def with_dataset(folder, keep=None):
    many(folder, "parquet")
    found = ds.dataset(folder)
    return found if keep is None else found.filter(keep)


SOURCES = {
    "pandas": lambda folder: TABLE.to_pandas(),
    "pandas, other index": lambda folder: TABLE.to_pandas().set_index(np.arange(ROWS)[::-1] / 2),
    "dict": lambda folder: TABLE.to_pydict(),
    "pyarrow": lambda folder: TABLE,
    "record batch": lambda folder: TABLE.to_batches()[0],
    "polars": lambda folder: pl.from_arrow(TABLE),
    "lazy polars": lambda folder: pl.from_arrow(TABLE).lazy(),
    "data set": with_dataset,
    "data set in memory": lambda folder: ds.dataset(TABLE),
    "data set with filter": lambda folder: with_dataset(folder, ds.field("x") >= 0),
    "scan": lambda folder: scan(slices),
    **{f"one {ending}": lambda folder, ending=ending: one(folder, ending) for ending in WRITERS},
    **{f"many {ending}": lambda folder, ending=ending: many(folder, ending) for ending in WRITERS},
}
HELD = ["pandas", "pandas, other index", "dict", "pyarrow", "record batch", "polars"]
COUNTED = [*HELD, "data set", "one feather", "many feather", "one parquet", "many parquet"]


def values(column):
    return column.tolist() if isinstance(column, pd.Series) else column.to_pylist()


@pytest.mark.parametrize("name", SOURCES)
def test_all_sources_give_the_same_pieces_again_and_again(name, tmp_path):
    source = open_source(SOURCES[name](tmp_path))
    assert sorted(source.names) == sorted(NAMES)
    assert source.rows == (ROWS if name in COUNTED else None)
    assert source.held == (name in HELD)
    for _ in range(3):
        found = list(source.pieces(NAMES))
        assert [piece.start for piece in found] == [0, 5, 10, 15, 20]
        for piece in found:
            assert list(piece.columns) == NAMES
            for column in NAMES:
                assert values(piece.columns[column]) == TABLE[column][piece.start : piece.start + SIZE].to_pylist()
    loaded = source.load(NAMES)
    assert [values(loaded[column]) for column in NAMES] == [TABLE[column].to_pylist() for column in NAMES]
    assert all(
        len(chunk) for column in loaded.values() if isinstance(column, pa.ChunkedArray) for chunk in column.chunks
    )
    assert [values(piece.columns["g"])[-1] for piece in source.pieces(["g"])][-1] == "last"
    assert [len(next(iter(piece.columns.values()))) for piece in source.pieces([])] == [5, 5, 5, 5, 3]


@pytest.mark.parametrize("name", SOURCES)
def test_where_a_row_is(name, tmp_path):
    found = list(open_source(SOURCES[name](tmp_path)).pieces(["k"]))
    if "many" in name or name == "data set":
        said = [piece.where(row) for piece in found for row in range(len(piece.columns["k"]))]
        ending = name.removeprefix("many ").replace("data set", "parquet")
        expected = [(row, n) for n in range(len(CUTS) - 1) for row in range(CUTS[n + 1] - CUTS[n])]
        assert said == [f"row {row} of '{tmp_path}/part-{n}.{ending}'" for row, n in expected]
    elif "one" in name:
        assert found[3].where(2) == f"row 17 of '{tmp_path}/{name.replace(' ', '.')}'"
    else:
        assert found[3].where(2) == "row 17"


def test_standard_input_is_held(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(one(tmp_path, "csv").read_bytes())))
    source = open_source("-")
    assert (source.held, source.identity()) == (True, None)
    for _ in range(2):
        assert [len(piece.columns["g"]) for piece in source.pieces(["g"])] == [5, 5, 5, 5, 3]
    assert next(source.pieces(["g"])).where(3) == "row 3"


def test_the_piece_that_is_left_early_closes_its_file(tmp_path):
    source = open_source(one(tmp_path, "parquet"))
    opened = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    for _ in range(3):
        next(source.pieces(["x"]))
    assert not os.path.isdir("/proc/self/fd") or len(os.listdir("/proc/self/fd")) <= len(opened)


# Types


def test_types_of_all_files_are_made_one(tmp_path):
    pq.write_table(pa.table({"x": [1, 2], "g": pa.nulls(2)}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [0.5], "g": ["u"]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"x": pa.array([], pa.string()), "g": pa.array([], pa.date32())}), tmp_path / "c.parquet")
    source = open_source(tmp_path)
    for piece in source.pieces(["x", "g"]):
        assert [str(column.type) for column in piece.columns.values()] == ["double", "string"]
    assert source.load(["x"])["x"].to_pylist() == [1.0, 2.0, 0.5]


def test_columns_in_another_order(tmp_path):
    pq.write_table(TABLE[:9], tmp_path / "a.parquet")
    pq.write_table(TABLE[9:].select(["g", "x", "k"]), tmp_path / "b.parquet")
    assert read(tmp_path, ["k"])["k"].tolist() == TABLE["k"].to_pylist()
    assert [v for piece in open_source(tmp_path).pieces(["k"]) for v in values(piece.columns["k"])] == values(
        TABLE["k"]
    )


@pytest.mark.parametrize("ending", WRITERS)
def test_a_file_with_other_columns_or_types_is_named(ending, tmp_path):
    WRITERS[ending](TABLE, tmp_path / f"a.{ending}")
    WRITERS[ending](TABLE.drop_columns(["k"]), tmp_path / f"b.{ending}")
    source = open_source(tmp_path)
    for read_all in (source.load, lambda wanted: list(source.pieces(wanted))):
        with pytest.raises(ValueError, match=rf"no column 'k' in .*b\.{ending}'; it has 'x', 'g'"):
            read_all(["k"])
    WRITERS[ending](TABLE.set_column(1, "k", pa.array(["text"] * ROWS)), tmp_path / f"b.{ending}")
    source = open_source(tmp_path)
    for read_all in (source.load, lambda wanted: list(source.pieces(wanted))):
        with pytest.raises(
            ValueError, match=rf"disagree on the type .*b\.{ending}' differs .* 'k' is int64, but .*string"
        ):
            read_all(["k"])


def test_categories_of_several_files(tmp_path, monkeypatch):
    for number, levels in enumerate((["b", "a"], ["c", "b"], ["d"])):
        table = pa.table({"g": pa.array(levels).dictionary_encode()})
        pq.write_table(table, tmp_path / f"{number}.parquet")
    source = open_source(tmp_path)
    for many in (64, 1):  # parts of a piece that are copied together
        monkeypatch.setattr(pieces, "MANY", many)
        assert [values(piece.columns["g"]) for piece in source.pieces(["g"])] == [["b", "a", "c", "b", "d"]]


def test_names_with_dots(tmp_path):
    pq.write_table(pa.table({"w": [1], "w.1": [2], "w.1.a": [3]}), tmp_path / "a.parquet")
    for name, value in (("w", 1), ("w.1", 2), ("w.1.a", 3)):
        (piece,) = open_source(tmp_path).pieces([name])
        assert {name: values(column) for name, column in piece.columns.items()} == {name: [value]}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_later_file_with_a_name_twice(ending, tmp_path):
    WRITERS[ending](pa.table({"x": [1]}), tmp_path / f"a.{ending}")
    WRITERS[ending](pa.table([[1], [2]], names=["x", "x"]), tmp_path / f"b.{ending}")
    with pytest.raises(ValueError, match=rf"duplicate column names in .*b\.{ending}': 'x'; rename"):
        open_source(tmp_path)


# Row groups and batches of all sizes


@pytest.mark.parametrize(("many", "parts"), [(64, ROWS), (4, 1)])
def test_many_parts_of_a_piece_are_made_one(many, parts, tmp_path, monkeypatch):
    for row in range(ROWS):
        pq.write_table(TABLE[row : row + 1], tmp_path / f"{row:02}.parquet")
    monkeypatch.setattr(pieces, "PIECE", ROWS)
    monkeypatch.setattr(pieces, "MANY", many)
    (piece,) = open_source(tmp_path).pieces(["g"])
    assert (piece.columns["g"].num_chunks, values(piece.columns["g"])) == (parts, values(TABLE["g"]))
    assert piece.where(7) == f"row 0 of '{tmp_path}/07.parquet'"


def test_very_many_tiny_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 1 << 18)
    table = pa.table({"x": np.arange(6_000.0), "k": np.arange(6_000)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    (piece,) = open_source(tmp_path / "a.parquet").pieces(["k"])
    assert piece.columns["k"].to_numpy().tolist() == list(range(6_000))


def test_one_huge_row_group_takes_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 1 << 16)
    rows = 2_000_000
    table = pa.table({name: np.random.default_rng(1).standard_normal(rows) for name in "ab"})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=rows)
    pa.feather.write_feather(table, str(tmp_path / "b.arrow"), chunksize=rows, compression="uncompressed")
    del table
    before = pa.total_allocated_bytes()
    for file in ("a.parquet", "b.arrow"):
        most = 0
        for _ in open_source(tmp_path / file).pieces(["a", "b"]):
            most = max(most, pa.total_allocated_bytes() - before)
        assert most < 16 * rows / 2, file


def test_long_batches_of_an_arrow_file(tmp_path, monkeypatch):
    monkeypatch.setattr(columnar, "LONG", 10)
    monkeypatch.setattr(columnar, "BATCH", 4)
    table = TABLE.set_column(2, "g", TABLE["g"].dictionary_encode())
    pa.feather.write_feather(table, str(tmp_path / "a.arrow"), chunksize=ROWS, compression="uncompressed")
    source = open_source(tmp_path / "a.arrow")
    found = list(source.pieces(NAMES))
    loaded = source.load(NAMES)
    (tmp_path / "a.arrow").write_bytes(b"")  # nothing that was read is lost with the file
    assert source.rows == ROWS
    for name in NAMES:
        assert [v for piece in found for v in values(piece.columns[name])] == values(TABLE[name])
        assert values(loaded[name]) == values(TABLE[name])


# Files that are no good


@pytest.mark.parametrize("ending", WRITERS)
def test_no_rows(ending, tmp_path):
    WRITERS[ending](TABLE[:0], tmp_path / f"a.{ending}")
    WRITERS[ending](TABLE[:0], tmp_path / f"b.{ending}")
    with pytest.raises(ValueError, match=r"the data of .* has no rows"):
        list(open_source(tmp_path).pieces(["g"]))
    with pytest.raises(ValueError, match="the data has no rows"):
        read(tmp_path, ["g"])
    with pytest.raises(ValueError, match="the data has no rows"):
        list(open_source(TABLE[:0]).pieces(["g"]))


TRUNCATED = {
    "csv.gz": r"b\.csv\.gz' (as CSV separated by ','|is not complete): it ends too early",
    "arrow": r"b\.arrow'",
    "feather": r"b\.feather' is not an Arrow or Feather file",
    "parquet": r"b\.parquet' is not a Parquet file",
}


@pytest.mark.parametrize("ending", TRUNCATED)
def test_truncated_files_are_named(ending, tmp_path):
    big = pa.table({"x": np.random.default_rng(1).standard_normal(2000), "g": ["some text"] * 2000})
    WRITERS[ending](big, tmp_path / f"a.{ending}")
    content = (tmp_path / f"a.{ending}").read_bytes()
    (tmp_path / f"b.{ending}").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=TRUNCATED[ending]):
        list(open_source(tmp_path).pieces(["x"]))
    with pytest.raises(ValueError, match=TRUNCATED[ending]):
        read(tmp_path, ["x"])


def test_damage_inside_a_parquet_file(tmp_path):
    big = pa.table({"x": np.random.default_rng(1).standard_normal(20_000)})
    pq.write_table(big, tmp_path / "a.parquet", use_dictionary=False)
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    content[4:200] = b"\xff" * 196
    (tmp_path / "a.parquet").write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"cannot read .*a\.parquet'"):
        list(open_source(tmp_path).pieces(["x"]))


def overwrite(path, ending):
    WRITERS[ending](TABLE[:9], path)


def touch(path, ending):
    about = path.stat()
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns + 1_000_000))


@pytest.mark.parametrize("change", [overwrite, touch])
@pytest.mark.parametrize("ending", WRITERS)
def test_a_file_that_changes_between_two_passes(change, ending, tmp_path):
    for name in "abc":
        WRITERS[ending](TABLE, tmp_path / f"{name}.{ending}")
    source = open_source(tmp_path)
    assert len(list(source.pieces(["k"]))) == 14
    change(tmp_path / f"b.{ending}", ending)
    for read_all in (source.load, lambda wanted: list(source.pieces(wanted)), lambda wanted: source.identity()):
        with pytest.raises(ValueError, match=rf"b\.{ending}' changed while it was being read; start again"):
            read_all(["k"])


def test_a_file_that_changes_during_a_pass(tmp_path):
    for name in "ab":
        as_parquet(TABLE, tmp_path / f"{name}.parquet")
    source = open_source(tmp_path)
    started = source.pieces(["k"])
    next(started)
    touch(tmp_path / "a.parquet", "parquet")
    with pytest.raises(ValueError, match=r"a\.parquet' changed while it was being read"):
        list(started)


@pytest.mark.parametrize("ending", WRITERS)
def test_a_file_that_is_removed_between_two_passes(ending, tmp_path):
    for name in "ab":
        WRITERS[ending](TABLE, tmp_path / f"{name}.{ending}")
    source = open_source(tmp_path)
    list(source.pieces(["k"]))
    (tmp_path / f"b.{ending}").unlink()
    with pytest.raises(FileNotFoundError, match=rf"b\.{ending}' was removed while it was being read"):
        list(source.pieces(["k"]))


def test_a_file_of_a_data_set_that_changes(tmp_path):
    source = open_source(with_dataset(tmp_path))
    list(source.pieces(["k"]))
    touch(tmp_path / "part-3.parquet", "parquet")
    with pytest.raises(ValueError, match=r"part-3\.parquet' changed while it was being read"):
        list(source.pieces(["k"]))
    (tmp_path / "part-3.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"part-3\.parquet' was removed"):
        list(source.pieces(["k"]))


# What the data are


def test_identity(tmp_path):
    path = one(tmp_path, "parquet")
    known = open_source(path).identity()
    assert known == open_source(os.path.relpath(path)).identity() == open_source(path).identity()
    assert known[0][:2] == [str(path), path.stat().st_size]
    about = path.stat()
    content = bytearray(path.read_bytes())
    content[4] ^= 1
    path.write_bytes(bytes(content))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert open_source(path).identity() != known
    for data in (TABLE, TABLE.to_pandas(), pl.from_arrow(TABLE).lazy(), scan(slices), TABLE.to_pydict()):
        assert open_source(data).identity() is None


# Dates


def test_dates_are_known_from_the_first_piece(tmp_path, monkeypatch):
    dates = pa.table({"x": np.arange(ROWS), "d": np.arange(ROWS).astype("datetime64[D]")})
    for ending in WRITERS:
        path = one(tmp_path, ending, dates)
        known = names_and_dates(path)
        assert (known.names, known.dates, known.data.held) == (["x", "d"], {"d"}, False)
        assert read(known.data, ["x"])["x"].tolist() == list(range(ROWS))
    monkeypatch.setattr(csv_files, "BLOCK", 40)
    late = "x,d\n" + "1,2020-01-01\n" * 30 + "1,unknown\n"
    (tmp_path / "late.csv").write_text(late)
    assert names_and_dates(tmp_path / "late.csv").dates == set()
    assert names_and_dates(scan(lambda: iter([dates]))).dates == {"d"}
