"""Files that are damaged, cut, of another kind than they say, or odd: a right answer, or one clear error."""

import bz2
import datetime
import decimal
import gzip
import io
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import tallbayes as tb
from tallbayes.cli import main
from tallbayes.data.sources import open_source
from tallbayes.engines.engine import Local

ROWS = 120
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"y": np.arange(ROWS) % 2, "x": RNG.standard_normal(ROWS).round(3), "g": ["a", "b", "c"] * 40})
TABLE = pa.Table.from_pandas(FRAME, preserve_index=False)
FORMULA = "y ~ x + g"


def arrow(table=TABLE, opener=pa.ipc.new_file, **options):
    sink = io.BytesIO()
    with opener(sink, table.schema, **options) as writer:
        writer.write_table(table, max_chunksize=50)
    return sink.getvalue()


def parquet(table=TABLE):
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=50)
    return sink.getvalue()


CSV = FRAME.to_csv(index=False).encode()
LINES = CSV.decode().splitlines()
FILES = {
    ".csv": CSV,
    ".csv.gz": gzip.compress(CSV, mtime=0),
    ".csv.bz2": bz2.compress(CSV),
    ".csv.zst": pa.compress(CSV, "zstd", asbytes=True),
    ".parquet": parquet(),
    ".arrow": arrow(),
    ".ipc": arrow(opener=pa.ipc.new_stream),
    ".feather": arrow(options=pa.ipc.IpcWriteOptions(compression="zstd")),
}
WORDS_FROM_BELOW = ("thrift", "zlib", "inflate", "Arrow error", "codec can't decode", "flatbuffers", "FieldRef")


def outcome(folder, content, ending):
    """What a fit says of a file: the number of its rows, or the message of a plain error that names it."""
    path = folder / f"data{ending}"
    path.write_bytes(content)
    try:
        return tb.GLM(FORMULA, path).observations
    except ValueError as error:
        refused = error
    assert type(refused) is ValueError  # no subclass of Arrow's or Unicode's
    assert not [word for word in WORDS_FROM_BELOW if word in str(refused)], refused
    return str(refused)


@pytest.mark.parametrize("ending", FILES)
def test_whole_files(ending, tmp_path):
    assert outcome(tmp_path, FILES[ending], ending) == ROWS


@pytest.mark.parametrize("ending", [ending for ending in FILES if ending != ".csv"])
def test_files_that_are_cut(ending, tmp_path):
    content = FILES[ending]
    for length in (0, 1, 3, 6, 20, len(content) // 3, len(content) // 2, len(content) - 60, len(content) - 10):
        said = outcome(tmp_path, content[:length], ending)
        assert isinstance(said, str), (length, said)
        assert f"data{ending}'" in said


@pytest.mark.parametrize("ending", FILES)
def test_files_with_a_byte_flipped(ending, tmp_path):
    content = FILES[ending]
    places = np.random.default_rng(1).integers(0, len(content), 30)
    for place in places.tolist():
        flipped = bytearray(content)
        flipped[place] ^= 0xFF
        said = outcome(tmp_path, bytes(flipped), ending)  # values that no checksum guards may well have changed
        assert said == ROWS or isinstance(said, str)


def test_a_text_of_arrow_that_lies_outside_the_file(tmp_path):
    """Arrow would read it from anywhere, and crash."""
    content = arrow()
    lengths = np.arange(0, 51, dtype="<i8").tobytes()  # of the texts in the first batch, which have a letter each
    assert content.count(lengths)
    wrong = content.replace(lengths, lengths[:80] + b"\xff\xff\xff\x7f" + lengths[84:])
    assert "data.arrow' from row 0 on: some of its values are damaged" in outcome(tmp_path, wrong, ".arrow")


def test_the_row_from_which_on_a_file_is_damaged(tmp_path):
    content = arrow(opener=pa.ipc.new_stream)
    assert "from row 100 on: it ends too early" in outcome(tmp_path, content[:-200], ".arrow")


@pytest.mark.parametrize("named", FILES)
@pytest.mark.parametrize("ending", FILES)
def test_files_of_another_kind_than_their_name_says(ending, named, tmp_path):
    said = outcome(tmp_path, FILES[ending], named)
    if {ending, named} <= {".arrow", ".ipc", ".feather"} or ending == named:
        assert said == ROWS
    else:
        assert f"data{named}' is not " in said
        assert " but " in said
        assert "rename it" in said


OTHERS = {
    b"PK\x03\x04" + bytes(100): "a ZIP archive or an Excel workbook: save it as CSV",
    b"\xd0\xcf\x11\xe0" + bytes(100): "an Excel workbook: save it as CSV",
    CSV.decode().encode("utf-16"): "text in UTF-16: save it as CSV in UTF-8",
    b"SQLite format 3\0" + bytes(50): "an SQLite database: save its rows",
}


@pytest.mark.parametrize("content", OTHERS, ids=list(OTHERS.values()))
def test_files_that_are_no_data(content, tmp_path):
    for ending in (".csv", ".parquet", ".feather"):
        assert f"data{ending}' is not " in (said := outcome(tmp_path, content, ending))
        assert OTHERS[content] in said


def inserted(*rows, at=100):
    """The file with some rows more, of which the first is row 99."""
    return "\n".join([*LINES[:at], *rows, *LINES[at:]]) + "\n"


NOT_CLOSED = "data.csv': column 'g' has a value at row 99 that goes on over other rows"
ROW_99 = "as CSV separated by ',': CSV parse error: row 99: Expected 3 columns, got"
CSV_FILES = {
    "empty": ("", "is empty"),
    "blank": ("\n\n\n", "is empty"),
    "header only": ("y,x,g\n", "data.csv' has no rows"),
    "header without an end": ("y,x,g", "it has no rows"),
    "no header": ("\n".join(LINES[1:]), "no column 'y', 'x', 'g'"),
    "blank first": ("\n" + CSV.decode(), ROWS),
    "byte order mark": (b"\xef\xbb\xbf" + CSV, ROWS),
    "CRLF": (CSV.replace(b"\n", b"\r\n"), ROWS),
    "CR": (CSV.replace(b"\n", b"\r"), ROWS),
    "mixed ends": (CSV.replace(b"a\n", b"a\r\n"), ROWS),
    "no last end": (CSV.rstrip(), ROWS),
    "semicolons": (CSV.replace(b",", b";"), ROWS),
    "UTF-16 without a mark": (CSV.decode().encode("utf-16-le"), "is not a CSV file in UTF-8"),
    "Latin-1 in a name": (
        CSV.replace(b"g", b"\xe4", 1),
        "is not a CSV file in UTF-8; save it as such, or read it with",
    ),
    "Latin-1 in a value": (CSV[:-2] + b"\xe4\n", rf"column 'g' is b'\xe4' at row {ROWS - 1} of "),
    "short row": (inserted("1,2"), ROW_99),
    "long row": (inserted("1,2,a,b"), ROW_99),
    "short last row": (CSV + b"1,2", f"row {ROWS}: Expected 3 columns, got 2"),
    "blank row": (inserted(""), ROWS),
    "quoted newline": (inserted('1,2.5,"a', 'b"'), ROWS + 1),
    "quoted prose": (inserted('1,2.5,"well, yes,', "no, or, what", '"'), ROWS + 1),
    "quote inside": (inserted('1,2.5,a"b'), ROWS + 1),
    "not closed": (inserted('1,2.5,"a'), NOT_CLOSED),
    "not closed twice": (inserted('1,2.5,"a', "0,1.5,b", '1,2.5,"a'), NOT_CLOSED),
    "not closed before": (inserted('1,"2.5,a'), ROW_99),
    "not closed first": (inserted('"1,2.5,a'), ROW_99),
    "not closed last": (CSV + b'1,2.5,"a\n', ROWS + 1),
    "NUL in a number": (inserted("1,2\0,a"), r"column 'x' is '2\x00' at row 99 of "),
    "NUL in text": (inserted("1,2.5,a\0b"), r"column 'g' is 'a\x00b' at row 99 of "),
    "NUL in a name": (CSV.replace(b"x", b"x\0", 1), "its first line is not text"),
    "NULs after it": (CSV + bytes(500), f"row {ROWS}: Expected 3 columns, got 1"),
    "the same name": (CSV.replace(b"x", b"y", 1), "duplicate column names in"),
    "no name": (CSV.replace(b"y,x,g", b"y,x,"), "no column 'g' in the data; it has 'y', 'x', ''"),
    "no names": (CSV.replace(b"y,x,g", b"y,,"), "duplicate column names in"),
    "a row of 5 MB": (inserted("1,2.5," + "a" * 5_000_000), ROWS + 1),
    "whole numbers beyond 64 bits": (inserted("1,99999999999999999999999,a"), ROWS + 1),
    "a number beyond all": (inserted("1,1e999,a"), "column 'x' has 1 infinite value (first at row 99 of "),
    "a text among numbers": (inserted("1,oops,a"), "'oops' at row 99 of "),
}


@pytest.mark.parametrize("case", CSV_FILES)
def test_csv_files(case, tmp_path):
    content, expected = CSV_FILES[case]
    said = outcome(tmp_path, content.encode() if isinstance(content, str) else content, ".csv")
    if isinstance(expected, int):
        assert said == expected
    else:
        assert expected in str(said)


def test_a_quote_that_is_missing_in_a_column_that_nobody_needs(tmp_path):
    path = tmp_path / "data.csv"
    for content in (CSV_FILES["not closed"][0], CSV_FILES["not closed twice"][0]):
        path.write_text(content)
        for read in (lambda: tb.GLM("y ~ x", path), lambda: open_source(path).load(["x"])):
            with pytest.raises(ValueError, match=r"closing quote is missing in '.*data\.csv': column 'g' .* at row 99"):
                read()
    path.write_text(CSV_FILES["quoted prose"][0])
    assert len(open_source(path).load(["x"])["x"]) == tb.GLM("y ~ x", path).observations == ROWS + 1


def half(*values):
    return list(values) * (ROWS // len(values))


NUMBERS = ("Intercept", "x", "g[T.b]", "g[T.c]")
TEXT = ("Intercept", "x[T.b]", "g[T.b]", "g[T.c]")
NOT_TIME = "column 'x' holds durations or times of day; make it a number first"
COLUMNS = {
    "list": (pa.array(half([1.0])), "column 'x' holds values of type list"),
    "struct": (pa.array(half({"a": 1.0})), "column 'x' holds values of type struct"),
    "map": (pa.array(half([("a", 1)]), pa.map_(pa.string(), pa.int64())), "column 'x' holds values of type map"),
    "binary": (pa.array(half(b"a", b"b")), "column 'x' holds values of type binary"),
    "bytes that are no text": (pa.array(half(b"a", b"\xff")), r"column 'x' is b'\xff' at row 1 of"),
    "fixed binary": (pa.array(half(b"ab", b"cd"), pa.binary(2)), "column 'x' holds values of type fixed_size_binary"),
    "duration": (pa.array(half(datetime.timedelta(1))), NOT_TIME),
    "time": (pa.array(half(datetime.time(1))), NOT_TIME),
    "date": (pa.array(half(datetime.date(2020, 1, 1))), "column 'x' holds dates or times; in a formula, use a part"),
    "timestamp": (pa.array(half(datetime.datetime(2020, 1, 1))), "column 'x' holds dates or times"),
    "null": (pa.nulls(ROWS), f"column 'x' has {ROWS} missing values (first at row 0 of"),
    "decimal": (pa.array(half(decimal.Decimal("1.5"), decimal.Decimal("2.5"))), NUMBERS),
    "boolean": (pa.array(half(True, False)), NUMBERS),
    "half": (pa.array(np.linspace(0, 1, ROWS).astype(np.float16)), NUMBERS),
    "uint64": (pa.array(np.array(half(1, 2**64 - 1), np.uint64)), NUMBERS),
    "large string": (pa.array(half("a", "b"), pa.large_string()), TEXT),
    "string view": (pa.array(half("a", "b"), pa.string_view()), TEXT),
    "dictionary": (pa.array(half("a", "b")).dictionary_encode(), TEXT),
    "dictionary with gaps": (pa.array(half("a", None)).dictionary_encode(), f"column 'x' has {ROWS // 2} missing"),
    "nearly numbers": (pa.array([*half(*map(str, range(60)))[1:], "?"]), f"'?' at row {ROWS - 1} of "),
}


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
@pytest.mark.parametrize("case", COLUMNS)
def test_columns_of_all_types(case, ending, tmp_path):
    column, expected = COLUMNS[case]
    table, path = TABLE.set_column(1, "x", column), tmp_path / f"data{ending}"
    path.write_bytes(parquet(table) if ending == ".parquet" else arrow(table))
    if isinstance(expected, tuple):
        assert tb.GLM(FORMULA, path).coefficients == expected
    else:
        with pytest.raises(ValueError) as refused:
            tb.GLM(FORMULA, path)
        assert expected in str(refused.value)


TABLES = {
    "no rows": (TABLE[:0], "' has no rows"),
    "no columns": (pa.table({}), "the data has no columns"),
    "the same name": (TABLE.rename_columns(["y", "x", "x"]), "duplicate column names in"),
    "no name": (TABLE.rename_columns(["y", "x", ""]), "no column 'g' in the data"),
}


@pytest.mark.parametrize("write", [parquet, arrow])
@pytest.mark.parametrize("case", TABLES)
def test_tables(case, write, tmp_path):
    table, expected = TABLES[case]
    assert expected in outcome(tmp_path, write(table), ".parquet" if write is parquet else ".arrow")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_files_that_may_not_be_read(tmp_path):
    for ending, content in FILES.items():
        path = tmp_path / f"data{ending}"
        path.write_bytes(content)
        path.chmod(0)
        with pytest.raises(PermissionError):
            tb.GLM(FORMULA, path)
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)


BAD = {
    ".csv": inserted('1,2.5,"a').encode(),
    ".csv.gz": FILES[".csv.gz"][:-20],
    ".parquet": FILES[".parquet"][:-20],
    ".arrow": FILES[".arrow"][:-20],
}


@pytest.mark.parametrize("ending", BAD)
def test_predictions_engines_and_the_command_line(ending, tmp_path):
    fit = tb.fit(FORMULA, FRAME, draws=20, seed=1, progress=False)
    fit.save(tmp_path / "fit.nc")
    path = tmp_path / f"data{ending}"
    path.write_bytes(BAD[ending])
    calls = {
        "fit": lambda: tb.fit(FORMULA, path, progress=False),
        "engine": lambda: tb.fit(FORMULA, path, progress=False, engine=Local()),
        "predict": lambda: fit.predict(path),
        "predict_to": lambda: fit.predict_to(path, tmp_path / "out.csv", progress=False),
    }
    for call in calls.values():
        with pytest.raises(ValueError, match=f"data{ending}'") as refused:
            call()
        assert type(refused.value) is ValueError
    assert not (tmp_path / "out.csv").exists()
    for arguments in (["fit", str(path), FORMULA], ["predict", str(tmp_path / "fit.nc"), str(path)]):
        result = CliRunner().invoke(main, [*arguments, "--quiet"])
        assert result.exit_code == 1
        assert f"data{ending}'" in result.output


def test_many_threads_at_one_bad_file(tmp_path):
    with ThreadPoolExecutor(4) as pool:
        folders = [tmp_path / str(number) for number in range(4)]
        for folder in folders:
            folder.mkdir()
        said = list(pool.map(lambda folder: outcome(folder, BAD[".parquet"], ".parquet"), folders))
    assert all("is not a Parquet file, or is damaged" in one for one in said)
