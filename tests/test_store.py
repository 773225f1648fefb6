"""Rows in files: every bit comes back, whatever columns hold and however they are cut; and what a full disk says."""

import errno
import itertools
import os
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tallbayes.rows import room as rooms
from tallbayes.rows.duplicates import Columns
from tallbayes.rows.palette import MOST, Palette
from tallbayes.rows.room import Room, free_memory, in_bytes, telling_of_space
from tallbayes.rows.sorting import ranges, sorted_by_group
from tallbayes.rows.store import ALIGNED, CHUNK_ROWS, Fields, StoreWriter
from tallbayes.rows.writing import DiskBuilder

# Columns


def column(kind, size, seed=1):
    rng = np.random.default_rng(seed)
    return {
        "constant": lambda: np.full(size, 0.1),
        "two values": lambda: rng.integers(2, size=size).astype(float),
        "256 values": lambda: rng.permutation(np.arange(256.0))[rng.integers(256, size=size)] / 7,
        "257 values": lambda: (np.arange(size) % 257) / 7,
        "a thousand": lambda: np.exp(rng.integers(1_000, size=size) / 100.0),
        "all different": lambda: rng.normal(size=size),
        "bits that compare equal, or not at all": lambda: np.resize([0.0, -0.0, np.nan, -np.nan, np.inf, 5e-324], size),
        "changes its mind": lambda: np.where(np.arange(size) < size // 2, 1.0, rng.normal(size=size)),
    }[kind]()


KINDS = ["constant", "two values", "256 values", "257 values", "a thousand", "all different", "changes its mind"]
KINDS += ["bits that compare equal, or not at all"]


def same_bits(one, another):
    return (np.ascontiguousarray(one).view(np.uint64) == np.ascontiguousarray(another).view(np.uint64)).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 1_000, 100_000])
def test_a_palette_gives_back_every_bit(kind, size):
    numbers, palette = column(kind, size), Palette()
    for part in np.array_split(numbers, 3):
        if not part.size:
            continue
        codes = palette.encode(part)
        back = codes if codes.dtype == np.float64 else palette.values[codes]
        assert same_bits(np.broadcast_to(back, part.shape), part)
        assert codes.size in (1, part.size)


def test_codes_are_as_short_as_they_can_be():
    palette = Palette()
    assert palette.encode(np.arange(256.0)).dtype == np.uint8
    assert palette.encode(np.arange(257.0)).dtype == np.uint16
    assert palette.encode(np.arange(100.0)).dtype == np.uint16  # its values may be any from now on
    assert palette.encode(np.arange(float(MOST))).dtype == np.uint16
    assert palette.encode(np.arange(MOST + 1.0)).dtype == np.float64
    assert palette.encode(np.zeros(5)).dtype == np.float64  # full for good
    assert palette.encode(np.zeros(5)).size == 5


def columns(size, seed=2, weights=True, offset=True, groups=0):
    rng = np.random.default_rng(seed)
    x = np.stack([np.ones(size), column("two values", size, seed), column("all different", size, seed)])
    strata = {"bank": rng.integers(max(2, groups), size=size)}
    given = rng.integers(1, 4, size).astype(float) if weights else None
    return Columns(
        x, rng.integers(2, size=size).astype(float), given, rng.normal(size=size) if offset else None, strata
    )


def built(parts, group=None, groups=0, memory=10**8):
    builder = DiskBuilder(group, groups, Room(memory))
    for part in parts:
        builder.add(part)
    return builder.finish()


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("size", [1, 1_000, CHUNK_ROWS, CHUNK_ROWS + 1, 2 * CHUNK_ROWS + 5])
def test_rows_come_back_from_disk(size, weights, offset):
    given = columns(size, weights=weights, offset=offset)
    rng = np.random.default_rng(3)
    ends = [0, *np.sort(rng.integers(size + 1, size=4)).tolist(), size]
    pieces = [given.part(start, stop) for start, stop in itertools.pairwise(ends) if stop > start]
    rows = built(pieces)
    arrays = rows.keep(lambda arrays, count: arrays)
    assert (rows.size, rows.columns, rows.strata) == (size, 3, ("bank",))
    assert same_bits(arrays.x, given.x)
    assert same_bits(arrays.y, given.y)
    assert (arrays.strata["bank"] == given.strata["bank"]).all()
    for own, expected in ((arrays.weights, given.weights), (arrays.offset, given.offset)):
        assert own.size == 0 if expected is None else same_bits(own, expected)


def test_rows_of_weight_zero_are_left_out():
    given = columns(5_000)
    given.weights[::3] = 0.0
    rows = built([given.part(0, 2_000), given.part(2_000, 5_000)])
    arrays = rows.keep(lambda arrays, count: arrays)
    assert same_bits(arrays.x, given.x[:, given.weights > 0])


def test_columns_are_left_out_without_writing_again():
    rows = built([columns(1_000)])
    fewer = rows.without([1])
    assert fewer.columns == 2
    assert same_bits(fewer.keep(lambda arrays, count: arrays.x), columns(1_000).x[[0, 2]])


# Groups


@pytest.mark.parametrize("memory", [10**3, 10**6, 10**9])  # a group at a time, some, all
@pytest.mark.parametrize("groups", [2, 40])
def test_rows_of_a_group_come_together_in_their_order(memory, groups):
    size = CHUNK_ROWS + 7_777
    given = columns(size, groups=groups)
    rows = built([given.part(0, 50_000), given.part(50_000, size)], "bank", groups, memory)
    arrays, order = rows.keep(lambda arrays, count: arrays), np.argsort(given.strata["bank"], kind="stable")
    assert (arrays.codes == given.strata["bank"][order]).all()
    assert same_bits(arrays.x, given.x[:, order])
    assert same_bits(arrays.offset, given.offset[order])
    assert rows.groups == groups


def test_ranges_hold_all_groups():
    rng = np.random.default_rng(4)
    for _ in range(200):
        sizes, most = rng.integers(0, 20, rng.integers(1, 30)), int(rng.integers(1, 60))
        found = ranges(sizes, most)
        assert [first for first, _ in found[1:]] == [last for _, last in found[:-1]]
        assert (found[0][0], found[-1][1]) == (0, sizes.size)
        assert all(sizes[first:last].sum() <= most or last == first + 1 for first, last in found)


def test_sorting_holds_no_more_than_a_range():
    given = columns(60_000, groups=30)
    builder = DiskBuilder("bank", 30, Room(10**9))
    builder.add(given)
    store = builder._chunks.finish()
    assert max(part.y.size for part in sorted_by_group(store, 3 * 8 * store.fields.count * 7_000)) <= 7_000


def test_rows_that_are_sorted_are_held_twice():
    given = columns(30 * CHUNK_ROWS, groups=30)
    builder = DiskBuilder("bank", 30, Room(10**12))
    builder.add(given)
    tracemalloc.start()
    store = builder.store()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.7 * 8 * store.fields.count * store.rows  # with the order in which to take them, and some chunks


# Duplicates


def test_duplicates_are_merged_on_disk_as_in_memory():
    rng = np.random.default_rng(5)
    size = 2 * CHUNK_ROWS + 100
    x = np.stack([np.ones(size), rng.integers(5, size=size).astype(float)])
    given = Columns(x, rng.integers(2, size=size).astype(float), rng.gamma(1.0, size=size), None, {})
    merged = given.without_duplicates()
    rows = built([given.part(start, min(size, start + 99_999)) for start in range(0, size, 99_999)])
    assert rows.size == merged.y.size == 10
    assert same_bits(rows.keep(lambda arrays, count: arrays.x), merged.x)
    assert same_bits(rows.keep(lambda arrays, count: arrays.weights), merged.weights)
    assert rows.total_weight == pytest.approx(given.weights.sum())


def test_rows_that_all_differ_are_not_merged():
    assert built([columns(5_000)]).size == 5_000


# Room


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2 * 10**9),
        ("1.5 GiB", 3 * 2**29),
        ("500mb", 5 * 10**8),
        (10**9, 10**9),
        ("100000000", 10**8),
        ("1T", 10**12),
    ],
)
def test_sizes_in_words(text, size):
    assert in_bytes(text) == size


@pytest.mark.parametrize("text", ["much", "-2GB", "2 XB", "", True, "GB", float("nan")])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="memory must be a size of at least 50 MB and less than"):
        in_bytes(text)


def test_too_little_memory_is_refused():
    with pytest.raises(ValueError, match="memory must be a size of at least 50 MB"):
        in_bytes("1kB")


@pytest.mark.parametrize(
    ("kinds", "names"), [("", ("max", "current")), ("memory", ("limit_in_bytes", "usage_in_bytes"))]
)
def test_free_memory_is_what_is_left_of_control_groups(tmp_path, monkeypatch, kinds, names):
    limit, used = (f"memory.{name}" for name in names)
    monkeypatch.setitem(rooms.CONTROL_GROUPS, kinds, (str(tmp_path), limit, used))
    (tmp_path / "own").write_text(f"9:freezer:/\n4:{kinds}:/jobs/mine\n")
    group = tmp_path / "jobs" / "mine"
    group.mkdir(parents=True)

    def left():
        return min(rooms._left_in_groups(tmp_path / "own"))

    assert left() == 1 << 62  # no limits are known
    (group / used).write_text("100000000\n")
    (group / limit).write_text("max\n")
    assert left() == 1 << 62
    (group / limit).write_text("500000000\n")
    assert left() == 400_000_000
    (group / "memory.stat").write_text("cache 90000000\ninactive_file 30000000\n")
    assert left() == 430_000_000  # files in memory make way
    (tmp_path / "jobs" / used).write_text("1\n")
    (tmp_path / "jobs" / limit).write_text("300000001\n")
    assert left() == 300_000_000  # the group that it is in has less
    monkeypatch.setattr(rooms, "_left_in_groups", lambda: [5])
    assert free_memory() == 2 * rooms.LEAST  # rather try than divide by nothing


def test_scratch_is_zero_and_leaves_nothing(tmp_path):
    array = Room(10**8, str(tmp_path)).scratch((3, 1_000))
    assert (array == 0).all()
    array[1] = 7.0
    assert array.sum() == 7_000
    assert array.flags["C_CONTIGUOUS"]
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_in_words(tmp_path):
    room = Room(10**8, str(tmp_path))
    words = r"no space left in .* for 3 GB, which holds rows .* cache= or .* TMPDIR"
    with pytest.raises(OSError, match=words) as caught, telling_of_space(room, 3 * 10**9):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(PermissionError), telling_of_space(room):
        raise PermissionError(errno.EACCES, "no")


def test_files_in_memory_are_no_place_for_what_memory_cannot_hold(monkeypatch):
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(rooms, "_in_memory", lambda folder: True)
    assert rooms.scratch_folder() == ("/var/tmp" if os.access("/var/tmp", os.W_OK) else tempfile.gettempdir())
    monkeypatch.setenv("TMPDIR", "/tmp")  # somebody chose it
    assert rooms.scratch_folder() == tempfile.gettempdir()


def test_mounts_are_told_apart(tmp_path, monkeypatch):
    text = "disk / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\ndisk /tmp/large ext4 rw 0 0\n"
    monkeypatch.setattr(Path, "read_text", lambda self: text)
    found = [rooms._in_memory(folder) for folder in ("/tmp/a", "/tmp", "/tmp/large/b", "/home", "/tmpx")]
    assert found == [True, True, False, False, False]


def test_only_the_last_chunk_may_be_short():
    with tempfile.TemporaryFile() as file:
        writer = StoreWriter(file, Fields.of(1, False, False, (), None, 0))
        writer.add([np.ones(5), np.ones(5)])
        with pytest.raises(ValueError, match="only the last chunk"):
            writer.add([np.ones(5), np.ones(5)])


def test_numbers_lie_where_processors_like_them():
    store = built([columns(5_000)]).store
    assert not (store.offsets[store.widths > 0] % ALIGNED).any()
