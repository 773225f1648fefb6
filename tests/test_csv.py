"""CSV in pieces: the types are those of the whole file, and files that cannot be read say where."""

import bz2
import gzip
import io
import random

import pyarrow as pa
import pyarrow.csv
import pytest

from tallbayes.data import csv_files, pieces
from tallbayes.data.frames import read
from tallbayes.data.sources import open_source


@pytest.fixture
def short_blocks(monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK", 200)


def streamed(path, wanted):
    found = [pa.table(piece.columns) for piece in open_source(path).pieces(wanted)]
    assert len({table.schema for table in found}) == 1
    return pa.concat_tables(found)


def in_one_block(content):
    return pa.csv.read_csv(
        io.BytesIO(content),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(strings_can_be_null=True),
    )


VALUES = [
    *("1", "2", "0", "01", "true", "false", "1.5", "nan", "inf", "12345678901234567890", "", "NA", "abc"),
    *("2020-01-01", "10:00:00", "2020-01-01 10:00:00", "2020-01-01 10:00:00.5", "2020-01-01T10:00:00Z"),
    *("2020-01-01T10:00:00.5Z", '"a\nb"', '"a,""b\n"', "\xff"),
]


@pytest.mark.usefixtures("short_blocks")
def test_types_are_those_of_the_whole_file(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 7)
    draw = random.Random(1)
    path = tmp_path / "a.csv"
    for _ in range(120):
        columns = []
        for _ in range(2):
            some = draw.sample(VALUES, draw.choice([1, 2, 3]))
            columns.append([draw.choice(some[: 1 if row < 30 else 3]) for row in range(60)])
        rows = "".join(f"{first},{second},1\n" for first, second in zip(*columns, strict=True))
        content = ("p,q,z\n" + rows).encode("latin-1")
        path.write_bytes(content)
        expected = in_one_block(content).select(["q", "p"])
        loaded = pa.table(open_source(path).load(["q", "p"]))
        for found in (streamed(path, ["q", "p"]), loaded):
            assert found.schema == expected.schema
            assert str(found.to_pydict()) == str(expected.to_pydict())  # nan is equal to nothing


@pytest.mark.usefixtures("short_blocks")
def test_types_are_learned_once(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("x,y,z\n" + "1,2,3\n" * 100 + "2.5,a,4\n")
    source = open_source(path)
    started = []
    start = pa.csv.open_csv
    monkeypatch.setattr(pa.csv, "open_csv", lambda *given, **options: started.append(1) or start(*given, **options))
    assert [str(column.type) for column in next(source.pieces(["x", "y"])).columns.values()] == ["double", "string"]
    assert len(started) > 2
    for wanted, passes in ((["x"], 1), (["y", "x"], 1), (["z"], 2), (["z", "y"], 1)):
        started.clear()
        list(source.pieces(wanted))
        assert len(started) == passes


def test_several_files_have_one_type(tmp_path):
    (tmp_path / "a.csv").write_text("x,g\n1,\n2,\n")
    (tmp_path / "b.csv").write_text("g,x\nu,2.5\n")
    (tmp_path / "c.csv").write_text("x,g\n")
    found = streamed(tmp_path, ["x", "g"])
    assert found.to_pydict() == {"x": [1.0, 2.0, 2.5], "g": [None, None, "u"]}
    (tmp_path / "d.csv").write_text("x,g\n2020-01-01,v\n")
    with pytest.raises(ValueError, match=r"disagree on the type of a column: .*d\.csv' differs from those before it"):
        streamed(tmp_path, ["x"])
    assert streamed(tmp_path, ["g"])["g"].to_pylist() == [None, None, "u", "v"]


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("value", ["p\nq", "\n", "a\n\n\nb"])
def test_newlines_in_values(value, tmp_path):
    for columns in (1, 2):
        rows = [value if row % 3 else "x" for row in range(200)]
        lines = [f'"{text}"' + f",{row}" * (columns - 1) for row, text in enumerate(rows)]
        (tmp_path / "a.csv").write_text("\n".join(["g,n"[: 2 * columns - 1], *lines, ""]))
        assert streamed(tmp_path / "a.csv", ["g"])["g"].to_pylist() == rows
        assert read(tmp_path / "a.csv", ["g"])["g"].tolist() == rows


def test_a_row_longer_than_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK", 200)
    (tmp_path / "a.csv").write_text("g,x\nu,1\n" + "v" * 5000 + ",2\nw,3\n")
    assert streamed(tmp_path / "a.csv", ["g"])["g"].to_pylist() == ["u", "v" * 5000, "w"]
    assert read(tmp_path / "a.csv", ["x"])["x"].tolist() == [1, 2, 3]
    monkeypatch.setattr(csv_files, "LARGEST_BLOCK", 1 << 20)
    (tmp_path / "a.csv").write_text('g,x\nu,1\n"v,1\n' + "w,2\n" * 600_000)
    with pytest.raises(ValueError, match=r"a\.csv' .*: a row has more than 1 MB; a closing quote may be missing"):
        streamed(tmp_path / "a.csv", ["x"])


BAD = {
    "short": ("x,y\n" + "1,2\n" * 500 + "3\n4,5\n", "row 500: Expected 2 columns, got 1: 3"),
    "long": ("x,y\n" + "1,2\n" * 500 + "3,4,5\n", "row 500: Expected 2 columns, got 3: 3,4,5"),
    "long first": ("x,y\n1,2,3\n4,5\n", "row 0: Expected 2 columns, got 3: 1,2,3"),
}


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("name", BAD)
def test_bad_rows_are_named(name, tmp_path):
    content, message = BAD[name]
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text(content)
    for read_all in (streamed, read):
        with pytest.raises(ValueError, match=rf"cannot read .*b\.csv' as CSV separated by ',': .*{message}"):
            read_all(tmp_path, ["x"])


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lambda content: pa.compress(content, "zstd", True)])
def test_compressed_files_that_are_cut(compress, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK", 1 << 16)
    draw = random.Random(1)
    content = b"x\n" + b"".join(b"%d\n" % draw.randrange(10**9) for _ in range(60_000))
    ending = {gzip.compress: "gz", bz2.compress: "bz2"}.get(compress, "zst")
    path = tmp_path / f"a.csv.{ending}"
    whole = compress(content)
    path.write_bytes(whole)
    assert streamed(path, ["x"]).num_rows == 60_000
    path.write_bytes(whole[:-9])
    for read_all in (streamed, read):
        with pytest.raises(ValueError, match=rf"cannot read .*a\.csv\.{ending}' .*: it ends too early"):
            read_all(path, ["x"])
    path.write_bytes(whole[:100])
    with pytest.raises(ValueError, match=rf"a\.csv\.{ending}' is not complete: it ends too early"):
        streamed(path, ["x"])


def test_text_that_is_not_utf8_is_seen_when_it_is_used(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"x,g\n1,ab\n2,\xe9\n")
    assert streamed(tmp_path / "a.csv", ["x"])["x"].to_pylist() == [1, 2]
    assert str(streamed(tmp_path / "a.csv", ["g"]).schema.types) == "[DataType(binary)]"
    with pytest.raises(ValueError, match=r"column 'g' is b'\\xe9' at row 1: the file is not in UTF-8"):
        read(tmp_path / "a.csv", ["g"])
