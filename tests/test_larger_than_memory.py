"""Fits of rows that do not fit into memory: the same draws as from memory, and nothing left behind where it fails."""

import errno
import os
import tempfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv

import tallbayes as tb
from tallbayes.data import pieces
from tallbayes.data.datasets import simulate_loans
from tallbayes.models import prepared
from tallbayes.rows import room, threads
from tallbayes.rows.disk import DiskRows
from tallbayes.rows.store import Store

ROWS, FILES = 260_000, 23
FORMULA = "foreclosed ~ first_payment + fico + dti + upb + first_time"
LITTLE = 25_000_000  # bytes, which so many rows do not fit into
QUICK = {"draws": 200, "warmup": 50, "chains": 2, "seed": 1, "progress": False}


@pytest.fixture(scope="module", autouse=True)
def little_will_do():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "LEAST", LITTLE)
        yield


@pytest.fixture(scope="module")
def loans():
    frame = simulate_loans(ROWS, seed=3)
    return frame.assign(first_time=frame["first_time"].astype(str)).drop(columns="bank")


@pytest.fixture(scope="module")
def folder(loans, tmp_path_factory):
    """The same rows in one file, in many of unequal length, and in a compressed CSV file."""
    place = tmp_path_factory.mktemp("loans")
    loans.to_parquet(place / "one.parquet", index=False)
    with pa.CompressedOutputStream(place / "all.csv.gz", "gzip") as out:
        csv.write_csv(pa.Table.from_pandas(loans, preserve_index=False), out)
    (place / "many").mkdir()
    ends = np.sort(np.random.default_rng(1).integers(ROWS, size=FILES - 1))
    for number, part in enumerate(np.split(np.arange(ROWS), ends)):
        loans.iloc[part].to_parquet(place / "many" / f"{number:02d}.parquet", index=False, row_group_size=10_007)
    return place


@pytest.fixture(scope="module")
def reference(loans):
    return tb.fit(FORMULA, loans, **QUICK)


def fitted(data, formula=FORMULA, **options):
    """A fit whose rows are on disk, with their model."""
    model = tb.GLM(formula, data, memory=LITTLE, **options)
    assert isinstance(model.rows, DiskRows)
    return tb.sample(model, "auto", **QUICK)


SOURCES = {
    "frame": lambda place, frame: frame,
    "one file": lambda place, frame: place / "one.parquet",
    "many files": lambda place, frame: place / "many",
    "csv": lambda place, frame: place / "all.csv.gz",
    "scan": lambda place, frame: tb.scan(lambda: (frame.iloc[k : k + 38_888] for k in range(0, ROWS, 38_888))),
}


@pytest.mark.parametrize(
    "source", [pytest.param(name, marks=pytest.mark.long if name == "one file" else ()) for name in SOURCES]
)
def test_the_same_draws_wherever_rows_are(source, loans, folder, reference):
    fit = fitted(SOURCES[source](folder, loans))
    assert (fit.draws == reference.draws).all()
    assert fit.stats["exact"]
    assert fit.stats["rows"] == ROWS
    assert fit.stats["passes"] <= 6


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.long), 4])
def test_the_same_draws_for_any_number_of_threads(count, folder, reference):
    with threads.using(count):
        assert (fitted(folder / "many").draws == reference.draws).all()


def test_what_fits_stays_in_memory(folder, reference):
    model = tb.GLM(FORMULA, folder / "many", memory="1GB")
    assert not isinstance(model.rows, DiskRows)
    assert (tb.sample(model, "auto", **QUICK).draws == reference.draws).all()


# Keeping rows


def test_rows_are_found_again(folder, reference, tmp_path, monkeypatch):
    passes = []
    for memory in (LITTLE, LITTLE, "1GB"):
        fit = tb.fit(FORMULA, folder / "many", memory=memory, cache=tmp_path, **QUICK)
        assert (fit.draws == reference.draws).all()
        assert len(list(tmp_path.iterdir())) == 1
        passes.append(fit.stats["passes"])
        monkeypatch.setattr(prepared, "learn", None)  # from now on nobody reads the files,
        monkeypatch.setattr(prepared, "first_pass", None)  # and what the first pass tells is known
    assert passes[0] == reference.stats["passes"]
    assert passes[1] == passes[2] == passes[0] - 1
    assert fit.stats["told"] == reference.stats["told"]
    assert fit.stats["rows"] == ROWS


def test_other_formulas_and_files_have_rows_of_their_own(loans, folder, tmp_path):
    source, cache = tmp_path / "a.parquet", tmp_path / "designs"
    loans[:2_000].to_parquet(source)

    def places(formula=FORMULA, **options):
        tb.GLM(formula, source, cache=cache, **options)
        return len(list(cache.iterdir()))

    assert [places(), places(), places("foreclosed ~ fico"), places(missing="drop"), places(offset="upb")] == [
        1,
        1,
        2,
        3,
        4,
    ]
    assert places(weights=np.ones(2_000)) == places(weights=np.ones(2_000)) == 5
    assert places(weights=np.full(2_000, 2.0)) == 6
    os.utime(source, ns=(1, 1))
    assert places() == 7


@pytest.mark.parametrize("broken", ["about.json", "index.npz", "known.npz", "rows.bin"])
def test_rows_that_are_not_whole_are_built_again(broken, loans, tmp_path):
    source, cache = tmp_path / "a.parquet", tmp_path / "designs"
    loans[:2_000].to_parquet(source)
    first = tb.fit("foreclosed ~ 1", source, cache=cache, **QUICK)
    (place,) = cache.iterdir()
    (place / broken).write_bytes((place / broken).read_bytes()[:-5])
    assert (tb.fit("foreclosed ~ 1", source, cache=cache, **QUICK).draws == first.draws).all()
    assert len(list(cache.iterdir())) == 1


def test_a_cache_is_for_files(loans, tmp_path):
    for data in (loans[:100], tb.scan(lambda: iter([loans[:100]]))):
        with pytest.raises(ValueError, match="cache= is for files, whose changes can be noticed"):
            tb.fit(FORMULA, data, cache=tmp_path, **QUICK)
    assert list(tmp_path.iterdir()) == []


# What goes wrong


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A folder for scratch files and one to keep rows in; both must be empty in the end."""
    scratch, cache = tmp_path / "scratch", tmp_path / "designs"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield scratch, cache
    assert list(scratch.iterdir()) == []
    assert not cache.exists() or list(cache.iterdir()) == []


# While learning, and while building, which take three pieces each.
@pytest.mark.parametrize(
    ("turn", "kept"),
    [
        pytest.param(turn, kept, marks=() if (turn, kept) in ((1, False), (6, False), (4, True)) else pytest.mark.long)
        for turn in (1, 3, 4, 6)
        for kept in (False, True)
    ],
)
def test_an_interrupt_while_reading(turn, kept, folder, places, monkeypatch):
    right, seen = pieces._joined, []

    def interrupted(*arguments):
        seen.append(1)
        if len(seen) == turn:
            raise KeyboardInterrupt
        return right(*arguments)

    monkeypatch.setattr(pieces, "PIECE", 100_000)
    monkeypatch.setattr(pieces, "_joined", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tb.fit(FORMULA, folder / "many", memory=LITTLE, cache=places[1] if kept else None, **QUICK)
    assert len(seen) == turn


@pytest.mark.parametrize(
    "turn", [0, pytest.param(1, marks=pytest.mark.long), 2, pytest.param(3, marks=pytest.mark.long), 4]
)
def test_an_interrupt_in_a_pass(turn, folder, places, monkeypatch):
    right, seen = Store.piece, []

    def interrupted(self, *arguments):
        seen.append(1)
        if len(seen) == 1 + 9 * turn:  # there are eight chunks, and some are looked at besides
            raise KeyboardInterrupt
        return right(self, *arguments)

    monkeypatch.setattr(Store, "piece", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tb.fit(FORMULA, folder / "one.parquet", memory=LITTLE, **QUICK)
    monkeypatch.setattr(Store, "piece", right)
    tb.GLM(FORMULA, folder / "one.parquet", memory=LITTLE)  # threads are well


def test_a_file_that_changes_between_passes(loans, tmp_path, places, monkeypatch):
    source, right = tmp_path / "data", prepared.build
    source.mkdir()
    for name, part in (("a", loans[:3_000]), ("b", loans[3_000:6_000])):
        part.to_parquet(source / f"{name}.parquet")

    def build(*arguments):
        loans[3_000:5_999].to_parquet(source / "b.parquet")
        return right(*arguments)

    monkeypatch.setattr(prepared, "build", build)
    with pytest.raises(ValueError, match=r"b\.parquet' changed while"):
        tb.fit(FORMULA, source, cache=places[1], **QUICK)


def test_a_level_that_only_the_last_file_has(loans, tmp_path):
    frame = loans[:60_000].assign(place="here")
    frame.loc[59_000:, "place"] = "there"
    for number, part in enumerate((frame[:30_000], frame[30_000:59_000], frame[59_000:])):
        part.to_parquet(tmp_path / f"{number}.parquet")
    model = tb.GLM("foreclosed ~ place", tmp_path)
    assert model.coefficients == ("Intercept", "place[T.there]")
    assert model.moments.mean[1] == pytest.approx(1_000 / 60_000)


def test_a_value_that_cannot_be_used_is_named_with_its_file_and_row(loans, tmp_path):
    for number in range(3):
        part = loans[number * 1_000 : (number + 1) * 1_000].reset_index(drop=True)
        if number == 1:
            part.loc[7, "fico"], part.loc[9, "dti"] = np.inf, np.nan
        part.to_parquet(tmp_path / f"{number}.parquet")
    with pytest.raises(ValueError, match=r"'fico' has 1 infinite value \(first at row 7 of '.*1\.parquet'\)") as caught:
        tb.GLM(FORMULA, tmp_path)
    assert "'dti' has 1 missing value (first at row 9 of" in str(caught.value)


@pytest.mark.parametrize("kept", [False, True])
def test_a_full_disk(kept, folder, small_disk, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(small_disk))
    monkeypatch.setattr(tempfile, "tempdir", None)
    said = "cannot write '.*designs/.*': the disk is full .* make room" if kept else "no space left in"
    with pytest.raises(OSError, match=said) as caught:
        tb.fit(FORMULA, folder / "one.parquet", memory=LITTLE, cache=small_disk / "designs" if kept else None, **QUICK)
    assert caught.value.errno == errno.ENOSPC
    assert [place for place in small_disk.rglob("*") if place.name != "designs"] == []


def test_groups_on_disk(tmp_path):
    rng = np.random.default_rng(6)
    size, groups = 400_000, 30
    group = rng.integers(groups, size=size)
    x = rng.normal(size=size).round(2)
    eta = -3 + 0.5 * x + rng.normal(size=groups)[group] / 2
    frame = pd.DataFrame({"y": (rng.random(size) < 1 / (1 + np.exp(-eta))).astype(int), "x": x, "g": group})
    frame.to_parquet(tmp_path / "a.parquet")
    model = tb.Hierarchical("y ~ x + (1 | g)", tmp_path / "a.parquet", memory=LITTLE)
    assert isinstance(model.rows, DiskRows)
    fits = [
        tb.sample(one, draws=400, seed=1, progress=False) for one in (model, tb.Hierarchical("y ~ x + (1 | g)", frame))
    ]
    table = tb.compare(memory=fits[1], disk=fits[0])
    assert table.loc["disk", ["largest_z", "largest_z_sd"]].max() < 5  # 64 numbers: a false alarm in 1e-4 of all seeds
