"""Dealing observations to shards: nothing lost, nothing twice, rare levels together, groups whole."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from on_disk import on_disk

from tallbayes.rows.duplicates import Columns
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.room import Room
from tallbayes.rows.sharding import FEW_EVENTS, deal
from tallbayes.rows.store import CHUNK_ROWS

RNG = np.random.default_rng


def design(size=5_000, rare=0.004):
    rng = RNG(1)
    level = rng.choice(3, size, p=[0.6, 0.4 - rare, rare])
    x = np.stack([np.ones(size), level == 1, level == 2, rng.standard_normal(size)]).astype(float)
    return x, (rng.random(size) < 0.2).astype(float)


def rebuilt(rows, shards):
    """Total weight of each distinct row, over all shards."""
    totals: dict[tuple[float, ...], float] = {}
    for shard in shards:
        weights = shard.rows.arrays.own
        for *row, weight in np.column_stack([*shard.rows.arrays.x, shard.rows.arrays.y, weights]):
            totals[tuple(row)] = totals.get(tuple(row), 0.0) + weight
    return totals


@pytest.mark.parametrize("how", ["random", "stratified"])
@pytest.mark.parametrize("weights", [None, "counts", "fractions"])
def test_every_observation_is_in_one_shard(how, weights):
    x, y = design(600, 0.02)
    x[3] = x[3].round()  # so that rows repeat
    given = {None: None, "counts": RNG(2).integers(1, 5, 600), "fractions": RNG(2).random(600) + 0.1}[weights]
    rows = MemoryRows(*Columns(x, y, given, None, {}).without_duplicates())
    assert rows.size < 600
    shards = deal(rows, 7, how, RNG(3))
    totals, own = rebuilt(rows, shards), np.ones(600) if given is None else given
    expected: dict[tuple[float, ...], float] = {}
    for row, weight in zip(np.column_stack([*x, y]), own, strict=True):
        expected[tuple(row)] = expected.get(tuple(row), 0.0) + weight
    assert totals.keys() == expected.keys()
    for row, weight in expected.items():
        assert totals[row] == pytest.approx(weight, rel=1e-12)
    if weights != "fractions":  # an observation is the unit, not a row that stands for many
        sizes = [shard.rows.total_weight for shard in shards]
        together = own[x[2] == 1].sum()  # of the rare level, in one shard
        assert max(sizes) - min(sizes) <= 1 + (0 if how == "random" else together)


def test_weights_that_are_no_counts_keep_their_rows_whole():
    x, y = design(200)
    weights = np.where(np.arange(200) % 2, 2.0, 0.5)
    for shard in deal(MemoryRows(x, y, weights), 3, "random", RNG(1)):
        assert set(shard.rows.arrays.weights) <= {0.5, 2.0}


def test_shards_are_random_and_depend_on_the_seed():
    x, y = design(1_000)
    rows = MemoryRows(x, y)
    one, same, other = (deal(rows, 4, "random", RNG(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one[0].rows.arrays.x, same[0].rows.arrays.x)
    assert not np.array_equal(one[0].rows.arrays.x, other[0].rows.arrays.x)
    # A fair deal: the number of events of a shard is hypergeometric; 6 standard deviations, false alarm below 1e-7.
    events, share = [shard.rows.arrays.y.sum() for shard in one], y.mean()
    assert np.abs(np.array(events) - 250 * share).max() < 6 * np.sqrt(250 * share * (1 - share))


def test_a_rare_level_stays_together_and_the_others_are_dealt_evenly():
    x, y = design()
    rows, shards = MemoryRows(x, y), 10
    assert 0 < (x[2] * y).sum() < FEW_EVENTS * shards < (x[1] * y).sum()
    dealt = deal(rows, shards, "stratified", RNG(1))
    assert sorted(shard.rows.arrays.x[2].sum() for shard in dealt)[:-1] == [0] * (shards - 1)
    for column, outcome in ((1, 0), (1, 1)):
        counts = [((shard.rows.arrays.x[column] == 1) & (shard.rows.arrays.y == outcome)).sum() for shard in dealt]
        assert max(counts) - min(counts) <= 1
    spread = [shard.rows.arrays.x[2].sum() for shard in deal(rows, shards, "random", RNG(1))]
    assert max(spread) < x[2].sum()  # at random it is not


def test_a_level_that_is_rarely_an_event_but_large_is_dealt_evenly():
    x, y = design()
    y[x[1] == 1] = 0.0  # two fifths of all rows without an event
    counts = [shard.rows.arrays.x[1].sum() for shard in deal(MemoryRows(x, y), 10, "stratified", RNG(1))]
    assert max(counts) - min(counts) <= 1


def grouped(count, rng):
    sizes = rng.integers(1, 60, count)
    codes = np.repeat(np.arange(count), sizes)
    return MemoryRows(np.ones((1, codes.size)), codes % 2, strata={"g": codes}, group="g", groups=count)


def test_groups_stay_whole():
    rows = grouped(100, RNG(1))
    dealt = deal(rows, 7, "groups", RNG(2))
    np.testing.assert_array_equal(np.sort(np.concatenate([shard.groups for shard in dealt])), np.arange(100))
    for shard in dealt:
        np.testing.assert_array_equal(np.diff(shard.rows.arrays.starts), np.diff(rows.arrays.starts)[shard.groups])
        assert shard.rows.groups == shard.groups.size in (14, 15)
    sizes = [shard.rows.size for shard in dealt]
    assert max(sizes) < 1.3 * min(sizes)  # like sizes go to different shards


@pytest.mark.parametrize(
    ("how", "shards", "message"),
    [
        ("alphabetical", 2, "choose one of random, stratified, groups"),
        ("groups", 2, "for formulas with a group term"),
        ("random", 6_000, "5000 observations cannot be dealt to 6000 shards"),
    ],
)
def test_what_cannot_be_dealt_is_refused(how, shards, message):
    with pytest.raises(ValueError, match=message):
        deal(MemoryRows(*design()), shards, how, RNG(1))


def test_few_groups_a_shard_are_refused():
    with pytest.raises(ValueError, match=r"16 groups in 14 shards are too few: .* use at most 2 shards"):
        deal(grouped(16, RNG(1)), 14, "groups", RNG(1))
    with pytest.raises(ValueError, match="would tear groups apart"):
        deal(grouped(16, RNG(1)), 2, "random", RNG(1))


def test_rows_that_stand_for_many_give_equal_parts_to_all():
    """What is left of them is dealt: all shards have as many observations, however uneven the weights are."""
    x, y = design(500)
    weights = RNG(1).integers(0, 10**7, 500).astype(float)
    for how in ("random", "stratified"):
        dealt = deal(MemoryRows(x, y, weights), 7, how, RNG(2))
        totals = np.zeros(500)
        for shard in dealt:
            own = shard.rows.arrays
            place = np.searchsorted(np.sort(x[3]), own.x[3])
            totals[np.argsort(x[3])[place]] += own.weights
            whole = (own.x[2] == 0) | (how == "random")
            assert (np.abs(own.weights - weights[np.argsort(x[3])[place]] / 7)[whole] < 7).all()
        np.testing.assert_array_equal(totals, weights)
        if how == "random":
            assert np.ptp([shard.rows.total_weight for shard in dealt]) <= 1


def test_a_deal_is_fair_within_blocks():
    """No row's shard follows from its place, nor from that of the row before it; 6 standard deviations each."""
    n = 3 * LENGTH
    rows = MemoryRows(np.arange(float(n))[None], np.zeros(n))
    shard = np.empty(n, int)
    for number, one in enumerate(deal(rows, 4, "random", RNG(1))):
        shard[one.rows.arrays.x[0].astype(int)] = number
        assert one.rows.size == n // 4
        assert (np.diff(one.rows.arrays.x[0]) > 0).all()  # rows keep their order
    pairs = np.bincount(4 * shard[:-1] + shard[1:], minlength=16)
    assert np.abs(pairs - n / 16).max() < 6 * np.sqrt(n / 16)
    for part in np.split(shard, 3 * 16):
        assert np.abs(np.bincount(part, minlength=4) - LENGTH / 64).max() < 6 * np.sqrt(LENGTH / 64)


# --- on a disk ---


def several_chunks(weights, groups=0, n=2 * CHUNK_ROWS + 12_345):
    rng = RNG(5)
    level = rng.choice(4, n, p=[0.6, 0.399, 0.0009, 0.0001])
    x = np.stack([np.ones(n), level == 1, level == 2, level == 3, rng.normal(size=n).round(2)]).astype(float)
    y = (rng.random(n) < 0.05).astype(float)
    given = {None: None, "counts": rng.integers(1, 9, n), "fractions": rng.random(n), "ones": np.ones(n)}[weights]
    if groups:
        strata = {"g": np.sort(rng.integers(groups, size=n)), "h": rng.integers(3, size=n)}
        return MemoryRows(x, y, given, rng.normal(size=n), strata, "g", groups)
    return MemoryRows(x, y, given, strata={"h": rng.integers(3, size=n)})


def assert_same_rows(one, other):
    """Bit for bit; a group's number may be another where it is a level only."""
    one, other = (rows.keep(lambda arrays, count: arrays) for rows in (one, other))
    for name in ("x", "y", "weights", "offset", "codes"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    assert one.groups == other.groups
    np.testing.assert_array_equal(one.strata["h"], other.strata["h"])


@pytest.mark.parametrize("memory", [10**9, 10**6], ids=["in one pass", "in several"])
@pytest.mark.parametrize("weights", [None, "counts", "fractions", "ones"])
@pytest.mark.parametrize("how", ["random", "stratified", "groups"])
def test_rows_on_a_disk_are_dealt_like_those_in_memory(how, weights, memory):
    rows = several_chunks(weights, 60 if how == "groups" else 0)
    there = deal(on_disk(rows, Room(memory)), 5, how, RNG(3))
    for shard, other in zip(deal(rows, 5, how, RNG(3)), there, strict=True):
        assert_same_rows(shard.rows, other.rows)
        assert shard.rows.total_weight == other.rows.total_weight
        np.testing.assert_array_equal(shard.groups, other.groups)


@pytest.mark.parametrize("how", ["random", "stratified", "groups"])
def test_dealing_rows_on_a_disk_takes_memory_for_chunks_only(how):
    peaks = []
    for chunks in (16, 32):
        rows = several_chunks("counts", 60 if how == "groups" else 0, chunks * CHUNK_ROWS)
        there = on_disk(rows)
        del rows
        tracemalloc.start()
        deal(there, 3, how, RNG(3))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 2 * 16 * CHUNK_ROWS  # two bytes a row
