"""Drawing rows: every row has its share, draws are independent and in random order, wherever the rows lie."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from harness import Known
from measures import LENGTH, WEIGHTS, gamma
from scipy import stats

from tallbayes.rows import arrays as arrays_module
from tallbayes.rows import urn as module
from tallbayes.rows.memory import NOTHING, MemoryRows
from tallbayes.rows.urn import MOST_POOLS, Lots, Pool, Urn, _marks

THETA = np.array([0.5, -2.0])
FALSE_ALARM = 1e-6  # of each statistical check, over all seeds


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    for place in (arrays_module, module):
        monkeypatch.setattr(place, "LENGTH", LENGTH)


def make(weights, offset=False, strata=None):
    """Rows whose first column is their number, and a measure; what they are drawn for is weight times measure."""
    rng = np.random.default_rng(1)
    weights = np.asarray(weights, float)
    n = weights.size
    x, added = np.stack([np.arange(n, dtype=float), rng.normal(size=n)]), rng.normal(size=n) if offset else None
    bounds = 2.0 ** rng.integers(-3, 3, n)
    own = np.where(np.isfinite(weights), weights, 1.0)
    bounds[~np.isfinite(weights)] = weights[~np.isfinite(weights)]
    own[np.isfinite(weights)] /= bounds[np.isfinite(weights)]
    return MemoryRows(x, rng.integers(2, size=n), own, added, strata), Known(bounds)


def urn_of(weights, seen=0, expected=0.0, seed=5, ahead=0, **options):
    rows, measure = make(weights, **options)
    return rows.draw(measure, THETA, expected, seen, seed, ahead)


def numbers(pool):
    """Of the rows in a pool."""
    return pool.x[:, 0].astype(int)


def drawn(weights, size, key=(7, 0)):
    """About so many rows, in one pool."""
    return numbers(urn_of(weights).pool(key, 0, 1, size))


# --- shares ---


def share_p_value(rows, weights):
    """Of rows drawn with these weights: a chi-square; those that should hardly come are one cell, looked at apart."""
    weights = weights / weights.sum()
    counts, expected = np.bincount(rows, minlength=weights.size), rows.size * weights
    often = expected >= 10
    rare = stats.binomtest(int(counts[~often].sum()), rows.size, min(1.0, weights[~often].sum())).pvalue
    counts = np.append(counts[often], counts[~often].sum())
    expected = np.append(expected[often], expected[~often].sum())
    if expected[-1] < 10:  # not a cell of its own
        counts[-2], expected[-2] = counts[-2:].sum(), expected[-2:].sum()
        counts, expected = counts[:-1], expected[:-1]
    return float(min(1.0, 2 * min(rare, stats.chisquare(counts, expected).pvalue if counts.size > 1 else 1.0)))


@pytest.mark.parametrize("name", WEIGHTS)
def test_rows_are_drawn_by_their_shares(name):
    weights = WEIGHTS[name]
    urn = urn_of(weights)
    assert urn.total == pytest.approx(weights.sum(), rel=1e-12)
    assert urn.rows == np.count_nonzero(weights)
    rows = numbers(urn.pool((7, 0), 0, 1, 200_000))
    assert (weights[rows] > 0).all()
    assert share_p_value(rows, weights) > FALSE_ALARM


def test_other_shares_are_noticed():
    """A tenth too much for every second row, a block that comes too often, a row that does not come."""
    weights = WEIGHTS["uneven"]
    wrong = [weights * np.where(np.arange(1000) % 2, 1.1, 1.0), weights.copy(), weights.copy()]
    wrong[1][LENGTH : 2 * LENGTH] *= 1.2
    wrong[2][np.argsort(weights)[-300]] = 0.0
    rows = drawn(weights, 200_000)
    assert all(share_p_value(rows, other) < FALSE_ALARM for other in wrong)


def test_rows_of_random_weights_are_drawn_by_their_shares():
    rng, found = np.random.default_rng(5), []
    for key in range(100):
        weights = rng.gamma(rng.choice([0.05, 1, 20]), size=rng.integers(1, 400))
        weights[rng.random(weights.size) < rng.random()] = 0
        weights[rng.integers(weights.size)] = 1.0
        rows = drawn(weights, 20_000, (key, 3))
        assert (weights[rows] > 0).all()
        found.append(share_p_value(rows, weights))
    assert min(found) > FALSE_ALARM / 100


class Even:
    """Random numbers that are not: as many as are given, evenly apart between zero and one."""

    def __init__(self, number):
        self.number, self.means = number, []

    def __call__(self, key, block):
        return self

    def poisson(self, mean):
        self.means.append(mean)
        return self.number if mean else 0

    def random(self, number):
        return (np.arange(number) + 0.5) / max(1, number)


@pytest.mark.parametrize("name", WEIGHTS)
def test_blocks_and_rows_in_them_have_their_exact_shares(name, monkeypatch):
    """Evenly spaced numbers meet every row of a block as often as its share says, but for one at each end of it."""
    weights, even = WEIGHTS[name], Even(10_000)
    monkeypatch.setattr(module, "of_block", even)
    rows, measure = make(weights)
    lots = Lots(measure, THETA, 100.0, weights.sum(), 10**9, (0, 0))
    found = np.bincount(numbers(rows.reduce(lots).pool), minlength=weights.size)
    blocks = [slice(start, start + LENGTH) for start in range(0, weights.size, LENGTH)]
    totals = np.array([weights[part].sum() for part in blocks])
    np.testing.assert_allclose(even.means, 100 * (totals / weights.sum()), rtol=1e-12)
    for part, total in zip(blocks, totals, strict=True):
        share = weights[part] / total if total > 0 else weights[part]
        assert (np.abs(found[part] - even.number * share) <= 1 + 1e-6).all()
    assert (found[weights == 0] == 0).all()


@pytest.mark.parametrize("number", [0.0, 5e-324, np.nextafter(1.0, 0.0)])
@pytest.mark.parametrize("weights", [[0, 0, 1, 0], [0, 3, 0, 2e-17, 0, 0], [1e-300, 1, 1e-300, 0], [0.1] * 10 + [0]])
def test_no_random_number_meets_a_row_without_weight(number, weights, monkeypatch):
    even = Even(3)
    even.random = lambda count: np.full(count, number)
    monkeypatch.setattr(module, "of_block", even)
    rows, measure = make(weights)
    found = numbers(rows.reduce(Lots(measure, THETA, 1.0, 1.0, 10, (0, 0))).pool)
    assert found.size == 3
    assert (np.array(weights)[found] > 0).all()


# --- rows that are given apart ---


@pytest.mark.parametrize("offset", [False, True])
def test_rows_whose_measure_is_infinite_are_given_once_and_never_drawn(offset):
    weights, levels = gamma(500), np.arange(500) % 7
    apart = np.array([0, 3, LENGTH - 1, LENGTH, 200, 201, 499])
    weights[apart] = np.where(np.arange(apart.size) % 2, np.inf, np.nan)
    rows, measure = make(weights, offset, {"g": levels})
    urn = rows.draw(measure, THETA, 1.0, 50, 5)
    for name in ("x", "y", "weights", "offset"):
        part = getattr(rows.arrays, name)
        np.testing.assert_array_equal(getattr(urn.certain, name), part[..., apart] if part.size else part)
    np.testing.assert_array_equal(urn.certain.strata["g"], levels[apart])
    weights[apart] = 0.0
    assert urn.rows == 500 - apart.size
    assert urn.total == pytest.approx(weights.sum(), rel=1e-12)
    assert not np.isin(numbers(urn.seen), apart).any()
    found = numbers(urn.pool((1, 0), 0, 1, 100_000))
    assert not np.isin(found, apart).any()
    assert share_p_value(found, weights) > FALSE_ALARM


def test_all_rows_may_be_given_apart():
    urn = urn_of(np.full(200, np.inf), seen=10, expected=1.0)
    assert (urn.rows, urn.total, urn.seen.y.size, urn.certain.size) == (0, 0.0, 0, 200)
    assert urn_of(np.ones(200)).certain.size == 0


# --- independent draws in random order ---


def serial_p_values(rows, blocks):
    """Of one draw and the next: rank correlation, and a chi-square over pairs of blocks; and of trend."""
    correlation = stats.spearmanr(rows[:-1], rows[1:]).pvalue
    trend = stats.spearmanr(np.arange(rows.size), rows).pvalue
    return np.array([correlation, trend, pair_p_value(rows[:-1:2], rows[1::2], blocks)])


def pair_p_value(one, other, blocks):
    """That the blocks of two rows are independent."""
    most = max(one.max(), other.max()) + 1
    pairs = np.bincount(one * blocks // most * blocks + other * blocks // most, minlength=blocks**2)
    return stats.chi2_contingency(pairs.reshape(blocks, blocks)).pvalue


def test_draws_are_independent_of_one_another():
    rows = drawn(gamma(500), 40_000)[:40_000]
    assert (serial_p_values(rows, 8) > FALSE_ALARM / 3).all()
    assert (serial_p_values(np.sort(rows), 8) < FALSE_ALARM).all()  # a pool sorted by row would be seen
    by_block = rows[np.argsort(rows // LENGTH % 2, kind="stable")]
    assert (serial_p_values(by_block, 8) < FALSE_ALARM).any()  # and so would one that is sorted in part
    two_by_two = np.sort(rows.reshape(-1, 2), axis=1).ravel()
    assert (serial_p_values(two_by_two, 8) < FALSE_ALARM).any()  # or sorted within pairs


def lots_of(measure, weights, wanted, size=10**9, key=(3, 0)):
    return Lots(measure, THETA, wanted, float(weights.sum()), size, key)


@pytest.mark.parametrize("wanted", [6_000.0, 60_000.0])
def test_a_pool_that_is_cut_keeps_the_shares(wanted):
    """Of many more rows than are kept, the first by their marks are kept: those of all blocks, and independent."""
    weights = gamma(500)
    rows, measure = make(weights)
    pools = [rows.reduce(lots_of(measure, weights, wanted, 300, (key, 0))).pool for key in range(400)]
    found = np.array([numbers(pool) for pool in pools])
    assert found.shape == (400, 300)
    assert share_p_value(found.ravel(), weights) > FALSE_ALARM
    assert share_p_value(found[:, :10].ravel(), weights) > FALSE_ALARM
    assert share_p_value(found[:, -10:].ravel(), weights) > FALSE_ALARM
    assert (serial_p_values(found.ravel(), 8) > FALSE_ALARM / 3).all()


@pytest.mark.parametrize("size", [300, 5_400])
def test_a_pool_that_is_cut_in_the_order_of_blocks_is_noticed(size):
    weights = gamma(500)
    rows, measure = make(weights)
    wrong = []
    for key in range(40):
        lots = lots_of(measure, weights, 6_000.0, key=(key, 0))
        totals, counts, marks, *rest = lots.over(rows.arrays, NOTHING)
        in_blocks = totals, counts, np.arange(marks.size) / marks.size, *rest
        wrong.append(numbers(replace(lots, size=size).answer(in_blocks, NOTHING, rows).pool))
    assert share_p_value(np.concatenate(wrong), weights) < FALSE_ALARM
    if size > 300:  # else they are all of one block, and there in random order
        assert (serial_p_values(np.concatenate(wrong), 8) < FALSE_ALARM).any()


def test_a_cut_pool_is_the_beginning_of_the_whole():
    weights = np.ones(20 * LENGTH)
    rows, measure = make(weights)
    whole, cut = (rows.reduce(lots_of(measure, weights, 10_000.0, size)).pool for size in (10**9, 1_000))
    assert_same(cut, whole.some(0, 1_000))


def test_the_number_of_rows_is_poisson_and_says_nothing_of_them():
    weights, keys, wanted = gamma(300), 2_000, 30.0
    rows, measure = make(weights)
    found = [numbers(rows.reduce(lots_of(measure, weights, wanted, key=(key, 1))).pool) for key in range(keys)]
    counts = np.array([one.size for one in found])
    # The mean of Poisson numbers, and their dispersion: the sum of squares over the mean is chi-square, nearly.
    assert abs(counts.mean() - wanted) < stats.norm.isf(FALSE_ALARM / 2) * (wanted / keys) ** 0.5
    dispersion = stats.chi2.sf(((counts - counts.mean()) ** 2).sum() / counts.mean(), keys - 1)
    assert FALSE_ALARM / 2 < dispersion < 1 - FALSE_ALARM / 2
    first = np.array([one[0] for one in found if one.size])
    assert stats.spearmanr(counts[counts > 0], first).pvalue > FALSE_ALARM
    # So are the numbers of blocks, and those of two blocks are independent of each other.
    early, late = (np.array([((one // LENGTH) == block).sum() for one in found]) for block in (0, 3))
    mean = wanted * weights[:LENGTH].sum() / weights.sum()
    assert abs(early.mean() - mean) < stats.norm.isf(FALSE_ALARM / 2) * (mean / keys) ** 0.5
    assert stats.spearmanr(early, late).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    "mean", [20.5, 1e9, *(pytest.param(mean, marks=pytest.mark.long) for mean in (19.0, 20.0, 40.0))]
)
def test_the_first_marks_are_those_of_a_poisson_process(mean):
    """However many there are: their number, where it is below the most, and the place of the first and the last."""
    most, keys = 20, 20_000
    found = [np.sort(_marks(np.random.default_rng([9, key]), mean, most))[:most] for key in range(keys)]
    counts = np.bincount([one.size for one in found], minlength=most + 1)
    expected = keys * np.append(stats.poisson.pmf(np.arange(most), mean), stats.poisson.sf(most - 1, mean))
    cells = expected >= 10
    lump = [counts[~cells].sum(), expected[~cells].sum()]
    counts, expected = counts[cells], expected[cells]
    counts[0], expected[0] = counts[0] + lump[0], expected[0] + lump[1]
    assert counts.size == 1 or stats.chisquare(counts, expected).pvalue > FALSE_ALARM
    for place in (0, most - 1):  # the time of an event, where it is before one
        there = np.array([one[place] for one in found if one.size > place])
        law = stats.gamma(place + 1, scale=1 / mean)
        assert stats.kstest(law.cdf(there) / law.cdf(1.0), "uniform").pvalue > FALSE_ALARM
        assert stats.kstest(law.cdf(1.1 * there) / law.cdf(1.0), "uniform").pvalue < FALSE_ALARM


@pytest.mark.parametrize("expected", [1e-300, 1e-12, 1e-3, 0.5, 2.0, 1e6, 0.0])
def test_rows_are_seen_however_wrong_the_expected_total_is(expected):
    weights = gamma(500)
    seen = [urn_of(weights, 200, expected * weights.sum(), seed).seen for seed in range(100)]
    assert {pool.y.size for pool in seen} == {200}
    assert share_p_value(np.concatenate([numbers(pool) for pool in seen]), weights) > FALSE_ALARM


# --- pools and chains ---


def assert_same(one, another):
    assert len(one) == len(another)
    for part, other in zip(one, another, strict=True):
        np.testing.assert_array_equal(part, other)


def joined(pools):
    return Pool(*map(np.concatenate, zip(*pools, strict=True)))


@pytest.mark.parametrize("other", [(7, 1), (8, 0), (0, 7), (7 + 2**62, 0)])
def test_pools_of_different_keys_are_independent(other):
    weights = gamma(500)
    first, second = (drawn(weights, 20_000, key)[:19_000] for key in ((7, 0), other))
    assert (first != second).mean() > 0.5
    assert stats.spearmanr(first, second).pvalue > FALSE_ALARM / 2
    assert pair_p_value(first, second, 8) > FALSE_ALARM / 2
    assert pair_p_value(first, first, 8) < FALSE_ALARM


def test_what_is_seen_is_not_what_chains_get():
    urn = urn_of(gamma(500), 5_000, seed=7)
    found, seen = numbers(urn.pool((8, 0), 0, 1, 6_000))[:5_000], numbers(urn.seen)
    assert pair_p_value(found, seen, 8) > FALSE_ALARM


@pytest.fixture
def later(monkeypatch):
    """The sizes of what is drawn after the first pass of an urn."""
    right, found = Urn._draw, []

    def draw(self, size, key):
        found.append(size)
        return right(self, size, key)

    monkeypatch.setattr(Urn, "_draw", draw)
    return found


def test_the_first_pool_comes_with_what_is_seen(later):
    weights = gamma(500)
    urn = urn_of(weights, 5_000, weights.sum(), seed=7, ahead=20_000)
    found = np.concatenate([numbers(urn.pool((8, 0), chain, 4, 5_000)) for chain in range(4)])
    assert (found.size, urn.seen.y.size, later) == (20_000, 5_000, [])
    assert share_p_value(found, weights) > FALSE_ALARM
    assert pair_p_value(found[:5_000], numbers(urn.seen), 8) > FALSE_ALARM
    assert (serial_p_values(found, 8) > FALSE_ALARM).all()


def test_the_first_pool_is_for_who_asks_first(later):
    weights = gamma(500)
    urn, other = (urn_of(weights, 100, weights.sum(), seed=7, ahead=4_000) for _ in range(2))
    first = {chain: urn.pool((8, 0), chain, 2, 2_000) for chain in range(2)}
    assert_same(urn.pool((8, 0), 1, 2, 2_000), first[1])  # also if it is asked for again
    assert_same(other.pool((9, 0), 0, 2, 2_000), first[0])
    assert later == []
    second = urn.pool((9, 3), 0, 2, 2_000)
    assert later == [4_000]
    assert_same(second, urn_of(weights).pool((9, 3), 0, 2, 2_000))
    assert pair_p_value(numbers(second), numbers(first[0]), 4) > FALSE_ALARM


@pytest.mark.parametrize("expected", [0.0, 100.0], ids=["nothing", "too much"])
def test_a_first_pool_that_is_too_small_is_not_used(expected, later):
    weights = gamma(500)
    urn = urn_of(weights, 10, expected * weights.sum(), seed=7, ahead=4_000)
    assert urn.pool((8, 0), 0, 2, 2_000).y.size == 2_000
    assert later[-1] == 4_000


def test_the_same_key_gives_the_same_rows():
    weights = gamma(300)
    first, again, other, seeded = (
        urn_of(weights, seed=seed).pool(key, 0, 1, 50)
        for key, seed in (((12, 0), 5), ((12, 0), 5), ((13, 0), 5), ((12, 0), 6))
    )
    assert_same(first, again)
    assert_same(first, seeded)  # the seed is for what is seen
    assert (first.x[:40] != other.x[:40]).any()


@pytest.mark.parametrize("chains", [1, 2, 4, 7])
def test_chains_get_parts_that_together_are_the_pool(chains):
    urn = urn_of(gamma(300))
    whole = urn.pool((3, 0), 0, 1, 50 * chains)
    parts = {chain: urn.pool((3, 0), chain, chains, 50) for chain in np.random.default_rng(1).permutation(chains)}
    assert_same(joined([parts[chain] for chain in range(chains)]), whole)
    sizes = [part.y.size for part in parts.values()]
    assert max(sizes) - min(sizes) <= 1
    assert not urn._pools  # all parts are with the chains


def test_asking_again_gives_the_same_whoever_asks_first():
    """Also when what was kept for a chain had to be dropped, since others went on without it."""
    weights = gamma(300)
    urn, pools, chains = urn_of(weights), 3 * MOST_POOLS, 3
    first = {(key, chain): urn.pool((4, key), chain, chains, 20) for chain in range(chains) for key in range(pools)}
    assert len(urn._pools) <= MOST_POOLS
    other = urn_of(weights)
    for key, chain in np.random.default_rng(2).permutation([list(place) for place in first]).tolist():
        assert_same(other.pool((4, key), chain, chains, 20), first[key, chain])
        assert len(other._pools) <= MOST_POOLS


def test_chains_ask_from_several_threads():
    weights, chains, pools = gamma(2_000), 6, 2 * MOST_POOLS
    alone, shared = urn_of(weights), urn_of(weights)
    expected = [[alone.pool((2, key), chain, chains, 40) for key in range(pools)] for chain in range(chains)]
    with ThreadPoolExecutor(chains) as workers:
        found = workers.map(lambda c: [shared.pool((2, key), c, chains, 40) for key in range(pools)], range(chains))
        for one, other in zip(found, expected, strict=True):
            assert_same(joined(one), joined(other))


def test_wide_rows_come_in_smaller_pools(monkeypatch):
    urn = urn_of(gamma(300))
    monkeypatch.setattr(module, "MOST_BYTES", 8 * 5 * 100)  # five numbers a row
    assert sum(urn.pool((1, 0), chain, 4, 10_000).y.size for chain in range(4)) == 100
    monkeypatch.setattr(module, "MOST_BYTES", 1)
    assert sum(urn.pool((1, 0), chain, 4, 10_000).y.size for chain in range(4)) <= 4


def test_pools_after_one_another():
    urn = urn_of(gamma(300))
    one, other = (urn.pool((1, key), 0, 1, 30) for key in range(2))
    both = one.then(other)
    assert_same(both.some(0, one.y.size), one)
    assert_same(both.some(one.y.size, both.y.size), other)
    assert_same(Pool.empty(2).then(one), one)


# --- what is in a pool, and what it costs ---


@pytest.mark.parametrize("offset", [False, True])
def test_pools_hold_the_rows(offset):
    rows, measure = make(gamma(300), offset)
    theta = THETA.copy()
    urn = rows.draw(measure, theta, 0.0, 100, 5)
    theta[:] = 99.0  # the urn has its own copy
    for pool in (urn.seen, urn.pool((10, 0), 0, 1, 1000)):
        chosen, arrays = numbers(pool), rows.arrays
        assert pool.x.flags["C_CONTIGUOUS"]
        np.testing.assert_array_equal(pool.x, arrays.x[:, chosen].T)
        np.testing.assert_array_equal(pool.y, arrays.y[chosen])
        np.testing.assert_array_equal(pool.bound, measure.values[chosen])
        eta = THETA @ arrays.x[:, chosen] + (arrays.offset[chosen] if offset else 0)
        assert pool.eta == pytest.approx(eta, rel=1e-14, abs=1e-13)  # three roundings of numbers up to 150


class Looking(Known):
    """Counts how often it is asked."""

    looks = 2
    asked = 0

    def of(self, arrays):
        type(self).asked += 1
        return super().of(arrays)


def test_rows_in_memory_are_measured_once():
    Looking.asked = 0
    rows, measure = make(gamma(300))
    urn = rows.draw(Looking(measure.values), THETA, 0.0, 10, 5)
    for key in range(3):
        urn.pool((1, key), 0, 1, 100)
    assert Looking.asked == 1
    assert (rows.touched, rows.passes) == (2 * 300, 1)  # who evaluates the rows of a pool counts them


@pytest.mark.parametrize("bad", [1e308, 9.1e307])
def test_the_sum_of_weights_must_be_finite(bad):
    with (
        np.errstate(over="ignore"),
        pytest.raises(ValueError, match="weights with which rows are drawn must be finite"),
    ):
        MemoryRows(np.ones((1, 3)), np.ones(3)).draw(Known(np.array([1.0, bad, bad])), np.zeros(1), 1.0, 10, 5)


def test_nothing_to_draw():
    urn = urn_of(np.zeros(200), seen=10, expected=1.0)
    assert urn.total == 0
    assert urn.seen.y.size == 0
    with pytest.raises(ValueError, match="no row has a positive weight"):
        urn.pool((1, 0), 0, 1, 1)


# --- wherever the rows lie ---


def pieces(arrays, blocks):
    """The rows cut after so many blocks each, as somebody would hold them who has some of the blocks."""
    start = 0
    for count in blocks:
        chosen = np.arange(start * LENGTH, min(arrays.size, (start + count) * LENGTH))
        yield replace(arrays.take(chosen), block=start)
        start += count
    assert start * LENGTH >= arrays.size


@pytest.mark.parametrize("size", [10**9, 900, 40])
@pytest.mark.parametrize("blocks", [[16], [1] * 16, [5, 1, 10], [15, 1]], ids=str)
def test_a_pool_does_not_depend_on_where_blocks_lie(blocks, size):
    """Also where a piece has more rows than are kept, and where a block has."""
    weights = gamma(16 * LENGTH - 11)
    weights[[5, 6, 700]] = np.inf
    weights[2 * LENGTH : 4 * LENGTH] = 0.0
    rows, measure = make(weights, offset=True, strata={"g": np.arange(weights.size) % 3})
    lots = Lots(measure, THETA, 1_000.0, float(weights[np.isfinite(weights)].sum()), size, (3, 4))
    whole = rows.reduce(lots)
    assert whole.pool.y.size == min(size, whole.pool.y.size) > 30
    parts = [lots.over(piece, NOTHING) for piece in pieces(rows.arrays, blocks)]
    found = lots.answer(tuple(map(np.concatenate, zip(*parts, strict=True))), NOTHING, rows)
    assert_same(found.pool, whole.pool)
    assert (found.total, found.rows) == (whole.total, whole.rows)
    for name in ("x", "y", "weights", "offset"):
        np.testing.assert_array_equal(getattr(found.certain, name), getattr(whole.certain, name))


def test_blocks_with_the_wrong_number_are_noticed():
    weights = gamma(4 * LENGTH)
    rows, _ = make(weights)
    lots = Lots(Ones(), THETA, 100.0, float(weights.sum()), 10**9, (3, 4))
    right, wrong = (lots.over(replace(rows.arrays, block=block), NOTHING) for block in (0, 1))
    assert right[2].size != wrong[2].size or (right[2] != wrong[2]).any()


@pytest.mark.parametrize("equal", [0.5, 0.0])
def test_equal_marks_keep_the_order_of_blocks(equal, monkeypatch):
    """Marks have 53 bits: of a million, two are equal now and then. Then too a pool is the same for all pieces."""
    even = Even(30)
    even.random = lambda count: np.full(count, equal)
    monkeypatch.setattr(module, "of_block", even)
    weights = np.ones(4 * LENGTH)
    rows, measure = make(weights)
    lots = lots_of(measure, weights, 100.0, 119)
    parts = [lots.over(piece, NOTHING) for piece in pieces(rows.arrays, [1, 2, 1])]
    found = lots.answer(tuple(map(np.concatenate, zip(*parts, strict=True))), NOTHING, rows)
    assert_same(found.pool, rows.reduce(lots).pool)


class Ones:
    """A measure that is one."""

    looks = 0

    def of(self, arrays):
        return np.ones(arrays.size)
