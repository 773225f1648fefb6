"""Data sets of pyarrow are read file by file, whatever their files lack and their folders say."""

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tallbayes.data import arrow_datasets, pieces
from tallbayes.data.frames import check, read
from tallbayes.data.sources import open_source

TABLE = pa.table({"x": [1, 2, 3, 4], "bank": ["a", "b", None, "a"], "code": [7, 8, 8, 7]})


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 3)


def rows(data, wanted):
    found = [
        list(zip(*(column.to_pylist() for column in p.columns.values()), strict=True)) for p in data.pieces(wanted)
    ]
    assert all(len(piece) == 3 for piece in found[:-1])
    return [row for piece in found for row in piece]


@pytest.mark.parametrize("dictionary", [False, True])
def test_keys(dictionary, tmp_path, monkeypatch):
    pq.write_to_dataset(TABLE, tmp_path, partition_cols=["bank", "code"])
    monkeypatch.setattr(arrow_datasets, "_scanned", lambda *given: None)  # it is not needed
    source = open_source(ds.dataset(tmp_path, partitioning=ds.HivePartitioning.discover(infer_dictionary=dictionary)))
    assert source.names == ["x", "bank", "code"]
    assert source.rows == 4
    expected = sorted(zip(*TABLE.to_pydict().values(), strict=True))
    assert sorted(rows(source, ["x", "bank", "code"])) == expected
    assert sorted(rows(source, ["bank"]), key=str) == [("a",), ("a",), ("b",), (None,)]
    assert sorted(read(source, ["code"])["code"].tolist()) == [7, 7, 8, 8]


def test_files_that_lack_a_column_or_have_another_type(tmp_path):
    pq.write_table(pa.table({"x": [1.5], "g": ["u"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": pa.array([2, 3], pa.int32())}), tmp_path / "b.parquet")
    source = open_source(ds.dataset(tmp_path))
    assert rows(source, ["x", "g"]) == [(1.5, "u"), (2.0, None), (3.0, None)]
    assert source.rows == 3
    with pytest.raises(ValueError, match="column 'g' has 2 missing values"):
        check(read(source, ["g"]))
    with pytest.raises(ValueError, match=r"no column 'z' in .*a\.parquet'"):
        source.load(["z"])


def test_some_row_groups_of_a_file(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet", row_group_size=1)
    (fragment,) = ds.dataset(tmp_path).get_fragments()
    chosen = ds.FileSystemDataset(
        [fragment.subset(row_group_ids=[1, 3])], fragment.physical_schema, fragment.format, fragment.filesystem
    )
    source = open_source(chosen)
    assert source.rows is None
    assert rows(source, ["x"]) == [(2,), (4,)]


def test_other_formats_and_data_sets_together(tmp_path):
    (tmp_path / "a.csv").write_text("x,g\n1,u\n2,v\n")
    text = ds.dataset(tmp_path / "a.csv", format="csv")
    source = open_source(text)
    assert source.rows is None
    assert rows(source, ["g", "x"]) == [("u", 1), ("v", 2)]
    assert next(source.pieces(["x"])).where(1) == f"row 1 of '{tmp_path}/a.csv'"
    both = open_source(ds.dataset([text, ds.dataset(pa.table({"x": [3], "g": ["w"]}))]))
    assert rows(both, ["x"]) == [(1,), (2,), (3,)]


def test_a_filter_is_kept(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet")
    source = open_source(ds.dataset(tmp_path).filter(ds.field("x") > 2))
    for _ in range(2):
        assert rows(source, ["code"]) == [(8,), (7,)]
    assert read(source, ["x"])["x"].tolist() == [3, 4]
