"""Drawing rows: the tables give every row its exact share, and draws come independently and in random order."""

from unittest.mock import patch

import numpy as np
import pytest
from scipy import stats

from tallbayes.rows import urn as module
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.urn import Urn

LENGTH = 64  # rows in a block, so that a few hundred rows have several


def make(weights, length=LENGTH, count=lambda rows: None, offset=False):
    """An urn of rows whose first column is their number; what they are drawn for is weight times bound."""
    rng = np.random.default_rng(1)
    weights = np.asarray(weights, float)
    n = weights.size
    x, theta = np.stack([np.arange(n, dtype=float), rng.normal(size=n)]), np.array([0.5, -2.0])
    added, bounds = rng.normal(size=n) if offset else None, 2.0 ** rng.integers(-3, 3, n)
    rows = MemoryRows(x, rng.integers(2, size=n), weights / bounds, added)
    with patch.object(module, "LENGTH", length):
        return Urn(rows.arrays, count, bounds, theta)


def shares(table):
    """How often each entry of an alias table comes, by enumeration."""
    probability, partner, n = table[:, 0], table[:, 1].astype(int), len(table)
    assert ((partner >= 0) & (partner < n)).all()
    assert ((probability >= 0) & (probability <= 1 + 1e-9)).all()  # what is above 1 counts as 1
    keep = np.minimum(probability, 1)
    return (keep + np.bincount(partner, 1 - keep, minlength=n)) / n


def rows_shares(urn):
    """The probability of each row: of its block, times that in its block."""
    out = np.zeros(urn._arrays.size)
    for block, share in enumerate(shares(urn._blocks)):
        part = slice(*urn._starts[block : block + 2])
        if share:  # the table of a block that is never picked is not written
            out[part] = share * shares(urn._table[part])
    return out


def gamma(n, seed=2):
    return np.random.default_rng(seed).gamma(0.3, size=n)


def holes(n, seed=3):
    """Nine rows in ten have weight zero."""
    return gamma(n) * (np.random.default_rng(seed).random(n) < 0.1)


def blocks_of_zeros(n):
    weights = gamma(n)
    weights[LENGTH : 3 * LENGTH] = 0
    weights[-5:] = 0
    return weights


WEIGHTS = {
    "equal": np.ones(300),
    "one row": np.ones(1),
    "one block": gamma(LENGTH),
    "one more than a block": gamma(LENGTH + 1),
    "uneven": gamma(1000),
    "zeros": holes(1000),
    "blocks of zeros": blocks_of_zeros(1000),
    "one of many": np.where(np.arange(500) == 77, 3.0, 0.0),
    "one heavy": np.where(np.arange(500) == 77, 1e12, 1.0),
    "many orders of magnitude": 10 ** np.random.default_rng(4).uniform(-200, 100, 500),
    "tiny": 1e-290 * gamma(200),
    "growing": np.arange(400.0),
    "twenty thousand": gamma(20_000),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_tables_give_every_row_its_share(name):
    weights = WEIGHTS[name]
    urn = make(weights)
    assert urn.total == pytest.approx(weights.sum(), rel=1e-12)
    # A row below its block's mean has a product of its own; one above it is what subtractions leave of a number
    # above 1, with one rounding (eps) for every partner, of which there are at most 20,000 x 2e-16.
    expected = weights / weights.sum()
    assert (np.abs(rows_shares(urn) - expected) <= 1e-12 * expected).all()
    assert (rows_shares(urn)[weights == 0] == 0).all()


def test_tables_of_random_weights():
    rng = np.random.default_rng(5)
    for _ in range(300):
        weights = rng.gamma(rng.choice([0.05, 1, 20]), size=rng.integers(1, 400))
        weights[rng.random(weights.size) < rng.random()] = 0
        weights[rng.integers(weights.size)] = 1.0
        found, expected = rows_shares(make(weights, length=int(rng.integers(1, 100)))), weights / weights.sum()
        assert (np.abs(found - expected) <= 1e-12 * expected).all()


@pytest.mark.parametrize("name", ["zeros", "blocks of zeros", "one of many"])
def test_rows_without_weight_are_never_drawn(name):
    weights = WEIGHTS[name]
    drawn = make(weights).draw(20_000, np.random.default_rng(6)).x[:, 0].astype(int)
    assert (weights[drawn] > 0).all()


@pytest.mark.parametrize("name", ["equal", "uneven", "zeros", "blocks of zeros", "growing"])
def test_draws_have_these_shares(name):
    weights, size = WEIGHTS[name], 200_000
    drawn = make(weights).draw(size, np.random.default_rng(7)).x[:, 0].astype(int)
    counts, expected = np.bincount(drawn, minlength=weights.size), size * weights / weights.sum()
    often = expected >= 10  # chi-square wants a few of each: the others are one cell
    counts = np.append(counts[often], counts[~often].sum())
    expected = np.append(expected[often], expected[~often].sum())
    some = expected > 0
    assert counts[~some].sum() == 0
    assert stats.chisquare(counts[some], expected[some]).pvalue > 1e-6  # a false alarm in 1e-6 of all seeds


def serial_p_values(drawn, blocks):
    """Of one draw and the next: rank correlation, and a chi-square over pairs of blocks; and of trend."""
    correlation = stats.spearmanr(drawn[:-1], drawn[1:]).pvalue
    trend = stats.spearmanr(np.arange(drawn.size), drawn).pvalue
    block = drawn * blocks // (drawn.max() + 1)
    pairs = np.bincount(block[:-1:2] * blocks + block[1::2], minlength=blocks**2).reshape(blocks, blocks)
    return np.array([correlation, trend, stats.chi2_contingency(pairs).pvalue])


def test_draws_are_independent_of_one_another():
    drawn = make(gamma(500)).draw(40_000, np.random.default_rng(8)).x[:, 0].astype(int)
    assert (serial_p_values(drawn, 8) > 1e-6 / 3).all()  # a false alarm in 1e-6 of all seeds
    assert (serial_p_values(np.sort(drawn), 8) < 1e-6).all()  # a pool sorted by row would be seen
    by_block = drawn[np.argsort(drawn // LENGTH % 2, kind="stable")]
    assert (serial_p_values(by_block, 8) < 1e-6).any()  # and so would one that is sorted in part


def test_pools_of_one_generator_are_independent():
    urn, rng = make(gamma(500)), np.random.default_rng(9)
    first, second = (urn.draw(20_000, rng).x[:, 0] for _ in range(2))
    assert (first != second).any()
    assert stats.spearmanr(first, second).pvalue > 1e-6


@pytest.mark.parametrize("offset", [False, True])
def test_pools_hold_the_rows(offset):
    urn = make(gamma(300), offset=offset)
    pool = urn.draw(1000, np.random.default_rng(10))
    rows = pool.x[:, 0].astype(int)
    x, y, added, bounds = urn._rows
    assert pool.x.flags["C_CONTIGUOUS"]
    assert (pool.x == x[:, rows].T).all()
    assert (pool.y == y[rows]).all()
    assert (pool.bound == bounds[rows]).all()
    eta = np.array([0.5, -2.0]) @ x[:, rows] + (added[rows] if offset else 0)
    assert pool.eta == pytest.approx(eta, rel=1e-14, abs=1e-13)  # three roundings of numbers up to 150


def test_counts_what_it_draws():
    counted = []
    urn = make(gamma(300), count=counted.append)
    assert counted == []
    for size in (10, 0, 3):
        assert urn.draw(size, np.random.default_rng(11)).y.size == size
    assert counted == [10, 0, 3]


def test_the_same_generator_gives_the_same_rows():
    pools = [make(gamma(300)).draw(50, np.random.default_rng(seed)) for seed in (12, 12, 13)]
    assert all((one == another).all() for one, another in zip(pools[0], pools[1], strict=True))
    assert (pools[0].x != pools[2].x).any()


@pytest.mark.parametrize("bad", [np.inf, np.nan, 1e308])
def test_weights_must_be_finite_and_so_their_sum(bad):
    with (
        np.errstate(over="ignore"),
        pytest.raises(ValueError, match="weights with which rows are drawn must be finite"),
    ):
        make([1.0, bad, bad])


def test_nothing_to_draw():
    urn = make(np.zeros(200))
    assert urn.total == 0
    with pytest.raises(ValueError, match="no row has a positive weight"):
        urn.draw(1, np.random.default_rng(14))
