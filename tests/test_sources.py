"""Data from folders, Arrow files, standard input and addresses: the same columns, and clear words where they fail."""

import fnmatch
import gzip
import importlib.util
import io
import sys
import types
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tallbayes.cli import main
from tallbayes.cli.output import BAD_DATA, NOT_CONVERGED
from tallbayes.data.frames import check, read
from tallbayes.data.sources import column_names, open_source, rereadable
from tallbayes.results.example import example

TABLE = pa.table({"y": [True, False, True], "fico": [700.5, 650.0, 600.0], "bank": ["b", "a", "b"]})


def as_stream(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def as_file(table):
    sink = pa.BufferOutputStream()
    pa.feather.write_feather(table, sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def as_parquet(table):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def as_csv(table, compression=None):
    text = table.to_pandas().to_csv(index=False).encode()
    if compression is None:
        return text
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, compression) as stream:
        stream.write(text)
    return sink.getvalue().to_pybytes()


BYTES = {
    "csv": as_csv(TABLE),
    "csv.gz": as_csv(TABLE, "gzip"),
    "csv.bz2": as_csv(TABLE, "bz2"),
    "csv.zst": as_csv(TABLE, "zstd"),
    "parquet": as_parquet(TABLE),
    "feather": as_file(TABLE),
    "arrow": as_stream(TABLE),
    "ipc": as_file(TABLE),
}
WRITERS = {"csv": as_csv, "parquet": as_parquet, "feather": as_file}


def same(data):
    """Whether data gives the columns of TABLE."""
    frame = check(read(data, ["bank", "y", "fico"]))
    assert frame["bank"].tolist() == ["b", "a", "b"]
    assert frame["bank"].cat.categories.tolist() == ["a", "b"]
    assert frame["y"].tolist() == [1.0, 0.0, 1.0]
    assert frame["fico"].tolist() == [700.5, 650.0, 600.0]
    return list(frame) == ["bank", "y", "fico"]


# Files


@pytest.mark.parametrize("ending", BYTES)
def test_files(ending, tmp_path):
    path = tmp_path / f"a.{ending}"
    path.write_bytes(BYTES[ending])
    assert column_names(path) == TABLE.column_names
    assert same(path)
    assert same(f"file://{path}")


@pytest.mark.parametrize("writer", [as_file, as_stream])
def test_arrow_categories_differ_between_batches(writer, tmp_path):
    banks = [pa.array(values).dictionary_encode() for values in (["b", "a"], ["c", "b"])]
    table = pa.table({"bank": pa.chunked_array(banks), "x": [1, 2, 3, 4]})
    if writer is as_file:  # where one dictionary serves all
        table = table.unify_dictionaries()
    path = tmp_path / "a.arrow"
    path.write_bytes(writer(table))
    assert read(path, ["bank"])["bank"].tolist() == ["b", "a", "c", "b"]


def test_compressed_csv_types_come_from_all_rows(tmp_path):
    path = tmp_path / "long.csv.gz"  # far smaller than its content
    path.write_bytes(gzip.compress(b"x\n" + b"1234567\n" * 200_000 + b"2.5\n"))
    assert read(path, ["x"])["x"].iloc[-1] == 2.5


BAD_FILES = {
    "not arrow": ("a.arrow", b"x,y\n1,2\n", "is not an Arrow or Feather file"),
    "empty arrow": ("a.ipc", b"", "is not an Arrow or Feather file"),
    "cut feather": ("a.feather", BYTES["feather"][:40], "is not an Arrow or Feather file"),
    "old feather": ("a.feather", b"FEA1\0\0\0\0", "is a Feather file of version 1; write it again"),
    "not gzip": ("a.csv.gz", b"x,y\n1,2\n", "is not compressed with gzip"),
    "not zstd": ("a.csv.zst", b"x,y\n1,2\n", "is not compressed with zstd"),
    "parquet has its own": ("a.parquet.gz", b"x", "is neither CSV nor Parquet nor Arrow"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files(name, tmp_path):
    file, content, message = BAD_FILES[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{file}' {message}"):
        read(tmp_path / file, ["x"])


def test_feather_of_version_1_is_told_as_it_is_written(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyarrow says that it is old
        pa.feather.write_feather(TABLE, str(tmp_path / "a.feather"), version=1)
    with pytest.raises(ValueError, match="is a Feather file of version 1"):
        read(tmp_path / "a.feather", ["y"])


# Folders


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize("ending", WRITERS)
def test_folders(ending, tmp_path):
    write(tmp_path / f"part-1.{ending}", WRITERS[ending](TABLE[1:]))
    write(tmp_path / f"part-0.{ending}", WRITERS[ending](TABLE[:1]))
    for hidden in ("_SUCCESS", ".part-0.crc", "_delta_log/0.json", ".git/a.parquet"):
        write(tmp_path / hidden, b"x")
    assert column_names(tmp_path) == TABLE.column_names
    assert same(tmp_path)
    assert same(f"{tmp_path}/")


def test_a_folder_may_be_called_like_a_file(tmp_path):
    write(tmp_path / "loans.parquet" / "part-0.parquet", BYTES["parquet"])
    assert same(tmp_path / "loans.parquet")


@pytest.mark.parametrize("ending", WRITERS)
def test_folders_named_after_keys(ending, tmp_path):
    for year, bank, rows in ((2010, "b%2Fc", 1), (2009, "a", 2), (2009, "b%2Fc", 3)):
        table = pa.table({"x": np.arange(rows) + 10 * rows})
        write(tmp_path / f"year={year}" / f"bank={bank}" / f"part.{ending}", WRITERS[ending](table))
    assert column_names(tmp_path) == ["x", "year", "bank"]
    frame = check(read(tmp_path, ["year", "x", "bank"]))
    assert frame["x"].tolist() == [20, 21, 30, 31, 32, 10]
    assert frame["year"].tolist() == [2009] * 5 + [2010]
    assert frame["year"].dtype == "int64"
    assert frame["bank"].tolist() == ["a"] * 2 + ["b/c"] * 4
    assert read(tmp_path, ["bank"])["bank"].tolist() == frame["bank"].tolist()  # no column of the files themselves
    assert read(tmp_path, []).shape == (6, 0)


def test_keys_as_pyarrow_writes_them(tmp_path):
    table = pa.table({"x": [1, 2, 3, 4], "bank": ["a", "b", None, "a"], "code": ["01", "2", "-3", "01"]})
    pq.write_to_dataset(table, tmp_path, partition_cols=["bank", "code"])
    frame = read(tmp_path, ["x", "bank", "code"]).sort_values("x")
    assert frame["bank"].tolist()[::3] == ["a", "a"]
    assert frame["code"].tolist() == [1, 2, -3, 1]
    with pytest.raises(ValueError, match="column 'bank' has 1 missing value"):
        check(frame)


def test_a_column_of_the_file_goes_before_a_key(tmp_path):
    write(tmp_path / "x=7" / "a.csv", b"x,z\n1,2\n")
    assert column_names(tmp_path) == ["x", "z"]
    assert read(tmp_path, ["x"])["x"].tolist() == [1]


def test_a_linked_subfolder_is_not_forgotten(tmp_path):
    write(tmp_path / "elsewhere" / "a.csv", b"x\n1\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "k=5").symlink_to(tmp_path / "elsewhere")
    assert read(tmp_path / "data", ["x", "k"]).to_dict("list") == {"x": [1], "k": [5]}


BAD_FOLDERS = {
    "two kinds": (["a.csv", "b.parquet"], r"files of several kinds \(CSV, Parquet\); give a pattern .*/\*\.parquet'"),
    "something else": (["a.csv", "notes.md"], r"files of several kinds \(CSV, 'notes.md'\)"),
    "nothing": (["_SUCCESS"], "has no data files"),
    "only something else": (["notes.md"], "has no data files"),
    "subfolder": (["2009/a.csv"], r"holds the folder '2009', whose name is not like key=value; give a pattern"),
}


@pytest.mark.parametrize("name", BAD_FOLDERS)
def test_bad_folders(name, tmp_path):
    files, message = BAD_FOLDERS[name]
    for file in files:
        write(tmp_path / file, b"x\n1\n")
    with pytest.raises(ValueError, match=message):
        read(tmp_path, ["x"])


def test_files_of_a_folder_that_lack_a_column_or_key(tmp_path):
    write(tmp_path / "k=1" / "a.csv", b"x,z\n1,2\n")
    write(tmp_path / "k=2" / "a.csv", b"x\n1\n")
    with pytest.raises(ValueError, match=r"no column 'z' in .*k=2/a\.csv'; it has 'x', 'k'"):
        read(tmp_path, ["z"])
    write(tmp_path / "z.csv", b"x\n1\n")
    with pytest.raises(ValueError, match=r"no column 'k' in .*z\.csv'"):
        read(tmp_path, ["k"])


# Standard input


def feed(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.zst", "parquet", "feather", "arrow"])
def test_standard_input(ending, monkeypatch):
    feed(monkeypatch, BYTES[ending])
    assert same("-")
    with pytest.raises(ValueError, match="standard input is empty, or was read before"):
        read("-", ["y"])


def test_standard_input_that_is_held_can_be_read_again(monkeypatch):
    feed(monkeypatch, BYTES["csv"])
    held = rereadable("-")
    assert same(held)
    assert same(held)
    assert rereadable(held) is held
    assert rereadable(TABLE) is TABLE


def test_errors_name_standard_input(monkeypatch):
    feed(monkeypatch, b"x,y\n1,2\n3\n")
    with pytest.raises(ValueError, match="cannot read standard input as CSV"):
        read("-", ["x"])
    feed(monkeypatch, b"x,y\n1,2\n")
    with pytest.raises(ValueError, match="no column 'fico' in the data"):
        read("-", ["fico"])


def test_a_terminal_is_no_data(monkeypatch):
    feed(monkeypatch, b"x\n1\n")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with pytest.raises(ValueError, match=r"nothing is piped into it; name a file, or pipe one: .* \| tallbayes fit -"):
        read("-", ["x"])
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="nothing is piped into it"):
        read("-", ["x"])


def test_predictions_for_standard_input(monkeypatch):
    fit = example()
    fit.offset, fit.has_offset = "extra", True  # so that the data are read twice
    new = pd.DataFrame({"fico": [-1.0, 1.0], "extra": [0.0, 0.5]})
    feed(monkeypatch, as_csv(pa.Table.from_pandas(new)))
    pd.testing.assert_frame_equal(fit.predict("-"), fit.predict(new))


def test_fit_from_a_pipe():
    rng = np.random.default_rng(1)
    x = rng.standard_normal(300)
    table = pa.table({"x": x, "y": (rng.random(300) < 1 / (1 + np.exp(-x))).astype(int)})
    options = ["--draws", "20", "--seed", "1", "--quiet"]
    done = CliRunner().invoke(main, ["fit", "-", "y ~ x", *options], input=as_csv(table))
    assert done.exit_code == NOT_CONVERGED, done.output  # so few draws never do
    assert "of 300" in done.stdout
    done = CliRunner().invoke(main, ["fit", "-", "y ~ x", *options], input=b"")
    assert (done.exit_code, done.stderr) == (
        BAD_DATA,
        "error: standard input is empty, or was read before: it can be read once\n",
    )


# Addresses


class Memory:
    """As much of fsspec's memory file system as is needed here."""

    def __init__(self, files):
        self.files = files

    def open(self, path, mode):
        assert mode == "rb"
        if path not in self.files:
            raise FileNotFoundError(path)
        stream = io.BytesIO(self.files[path])
        stream.size = len(self.files[path])
        return stream

    def info(self, path):
        if path not in self.files:
            raise FileNotFoundError(path)
        return {"name": path, "size": len(self.files[path]), "type": "file", "etag": hash(self.files[path])}

    def isdir(self, path):
        return any(file.startswith(path + "/") for file in self.files)

    def find(self, path):
        return sorted(file for file in self.files if file.startswith(path + "/"))

    def glob(self, path, detail):
        assert detail
        return {file: {"type": "file"} for file in fnmatch.filter(self.files, path)}

    def unstrip_protocol(self, path):
        return f"memory://{path}"


@pytest.fixture
def put(monkeypatch):
    """Put files at addresses memory://...: of fsspec where it is installed, else of a stand-in."""
    if importlib.util.find_spec("fsspec"):
        import fsspec

        system = fsspec.filesystem("memory")
        yield system.pipe_file
        system.store.clear()
        return
    files = {}
    stub(monkeypatch, lambda url: (Memory(files), "/" + url.removeprefix("memory://").strip("/")))
    yield lambda url, content: files.update({"/" + url.removeprefix("memory://"): content})


def stub(monkeypatch, url_to_fs):
    core = types.ModuleType("fsspec.core")
    core.url_to_fs = url_to_fs
    monkeypatch.setitem(sys.modules, "fsspec", types.ModuleType("fsspec"))
    monkeypatch.setitem(sys.modules, "fsspec.core", core)


@pytest.mark.parametrize("ending", BYTES)
def test_addresses(ending, put):
    put(f"memory://loans.{ending}", BYTES[ending])
    assert column_names(f"memory://loans.{ending}") == TABLE.column_names
    assert same(f"memory://loans.{ending}")


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "feather"])
def test_an_address_without_an_ending_is_told_by_its_first_bytes(ending, put):
    put("memory://download", BYTES[ending])
    assert same("memory://download")


@pytest.mark.parametrize("path", ["memory://loans", "memory://loans/", "memory://loans/*.csv"])
def test_folders_and_patterns_at_addresses(path, put):
    put("memory://loans/b.csv", as_csv(TABLE[1:]))
    put("memory://loans/a.csv", as_csv(TABLE[:1]))
    put("memory://loans/_SUCCESS", b"")
    assert same(path)


def test_keys_at_addresses(put):
    put("memory://loans/year=2009/a.parquet", BYTES["parquet"])
    put("memory://loans/year=2010/a.parquet", BYTES["parquet"])
    assert read("memory://loans", ["year"])["year"].tolist() == [2009] * 3 + [2010] * 3
    put("memory://loans/year=2011/a.parquet", as_parquet(TABLE.select(["y"])))
    with pytest.raises(ValueError, match=r"no column 'fico' in 'memory:///loans/year=2011/a.parquet'"):
        read("memory://loans", ["fico"])


def test_a_file_that_changes_at_an_address(put):
    put("memory://loans/a.parquet", as_parquet(TABLE))
    put("memory://loans/b.parquet", as_parquet(TABLE))
    source = open_source("memory://loans")
    known = source.identity()
    assert [entry[0] for entry in known] == ["memory:///loans/a.parquet", "memory:///loans/b.parquet"]
    assert known == open_source("memory://loans").identity()
    assert [len(piece.columns["y"]) for piece in source.pieces(["y"])] == [6]
    put("memory://loans/b.parquet", as_parquet(TABLE[1:]))
    with pytest.raises(ValueError, match=r"'memory:///loans/b.parquet' changed while it was being read"):
        list(source.pieces(["y"]))
    assert open_source("memory://loans").identity() != known


def test_nothing_at_an_address(put):
    put("memory://loans/a.csv", BYTES["csv"])
    with pytest.raises(FileNotFoundError, match=r"no such file: 'memory://b.csv'"):
        read("memory://b.csv", ["y"])
    with pytest.raises(FileNotFoundError, match=r"no file matches 'memory://b/\*.csv'"):
        read("memory://b/*.csv", ["y"])


def test_a_stream_that_cannot_go_back_is_held_in_memory(monkeypatch):
    class Stream(io.BytesIO):
        size = None

        def seek(self, *place):
            raise ValueError("cannot seek")

    class Web(Memory):
        def open(self, path, mode):
            return Stream(self.files[path])

        def isdir(self, path):
            raise AssertionError("this would load a page")

    address = "https://example.org/loans.parquet?version=2"
    stub(monkeypatch, lambda url: (Web({address: BYTES["parquet"]}), url))
    assert same(address)


def test_a_folder_that_matches_a_pattern_at_an_address(monkeypatch):
    class Folders(Memory):
        def glob(self, path, detail):
            return {"loans/2009": {"type": "directory"}}

    stub(monkeypatch, lambda url: (Folders({}), url))
    with pytest.raises(ValueError, match="'loans/2009' is a folder"):
        read("s3://loans/*", ["y"])


@pytest.mark.parametrize(
    ("path", "install"),
    [
        ("https://example.org/a.csv", "pip install fsspec aiohttp"),
        ("s3://bucket/a.parquet", "pip install fsspec s3fs"),
        ("simplecache::gs://bucket/a.parquet", "pip install fsspec gcsfs"),
        ("ftp://example.org/a.csv", "pip install fsspec"),
    ],
)
def test_what_to_install_for_an_address(path, install, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ValueError, match=f"{install}$"):
        read(path, ["x"])


def test_what_else_to_install_for_an_address(monkeypatch):
    def fail(url):
        raise ImportError("Install s3fs to access S3")

    stub(monkeypatch, fail)
    with pytest.raises(ValueError, match=r"another package \(Install s3fs to access S3\); .*: pip install s3fs$"):
        read("s3://bucket/a.csv", ["x"])
    with pytest.raises(ValueError, match=r"fsspec needs another package \(Install s3fs to access S3\)$"):
        read("odd://bucket/a.csv", ["x"])


def test_errors_of_a_service_name_the_address(monkeypatch):
    def fail(url):
        raise RuntimeError("no credentials")

    stub(monkeypatch, fail)
    with pytest.raises(OSError, match=r"cannot read 's3://bucket/a.csv': RuntimeError: no credentials"):
        read("s3://bucket/a.csv", ["x"])
