"""The first look at the rows: estimates without bias, the same rows wherever they lie; random numbers of blocks."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tallbayes.families import Log, Logit
from tallbayes.rows import looking
from tallbayes.rows.generators import of_block
from tallbayes.rows.looking import FirstLook
from tallbayes.rows.memory import NOTHING, MemoryRows
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.tasks import LogLikelihood

FALSE_ALARM = 1e-6  # of each statistical check, over all seeds
N = 5_000


def made(kind, weighted=False, n=N, **options):
    """Rows with outcomes of a kind, whose offset is their number."""
    rng = np.random.default_rng(9)
    x = np.stack([np.ones(n), rng.normal(size=n)])
    y = {
        "rare": (rng.random(n) < 0.004).astype(float),
        "common": (rng.random(n) < 0.9).astype(float),
        "sorted": (np.arange(n) < 40).astype(float),
        "counts": rng.poisson(np.exp(x[1])).astype(float),
        "rare counts": rng.poisson(0.002 * np.exp(x[1])).astype(float),
        "none": np.zeros(n),
    }[kind]
    given = {"weights": rng.gamma(0.5, size=n)} if weighted else {}
    return MemoryRows(x, y, **{"offset": np.arange(float(n))} | given | options)


def task(rows, size=300):
    return FirstLook(size, rows.mean_outcome, rows.total_weight)


def numbers(look):
    """Of the rows in a look."""
    return look.arrays.offset.astype(int)


def shares(rows, size=300):
    """With what probability each row is looked at, written with NumPy alone."""
    y, own, mean = rows.arrays.y, rows.arrays.own, rows.mean_outcome
    alike, by_outcome = own / own.sum(), own * y / (own * y).sum() if mean else 0.0
    return np.minimum(1.0, size / 2 * (alike + by_outcome))


KINDS = ["rare", "common", "sorted", "counts", "rare counts"]
each_kind = pytest.mark.parametrize("kind", KINDS)
each_weight = pytest.mark.parametrize("weighted", [False, True])


@pytest.fixture
def many(monkeypatch):
    """Looks with other random numbers each time."""

    def looks(rows, count, size=300):
        found = []
        for key in range(count):
            monkeypatch.setattr(looking, "KEY", (key, 11))
            found.append(rows.reduce(task(rows, size)))
        return found

    return looks


@each_weight
@each_kind
def test_looks_estimate_the_sums(kind, weighted, many):
    rows, params, seeds = made(kind, weighted), np.array([[0.3, -0.8], [-2.0, 0.5]]), 300
    tag = Log() if "counts" in kind else Logit()
    plain = MemoryRows.of(replace(rows.arrays, offset=np.empty(0)))

    def sums(some):
        outcomes = some.arrays.y @ some.arrays.own
        return np.append(some.reduce(LogLikelihood(tag), params), [some.total_weight, outcomes])

    looks = many(plain, seeds)
    truth, found = sums(plain), np.array([sums(MemoryRows.of(look.weighted)) for look in looks])
    # Four sums, of which those of rare outcomes do not vary: they are all there.
    limit = stats.t.isf(FALSE_ALARM / 8, seeds - 1)
    slack = limit * found.std(0, ddof=1) / seeds**0.5 + 1e-12 * np.abs(truth)
    assert (np.abs(found.mean(0) - truth) <= slack).all()
    # A scale that is off by a twentieth would be seen.
    wrong = np.array([sums(MemoryRows.of(look._replace(scale=1.05 * look.scale).weighted)) for look in looks])
    assert (np.abs(wrong.mean(0) - truth) > slack).any()


@each_weight
@each_kind
def test_every_row_has_its_probability_whoever_else_is_looked_at(kind, weighted, many):
    rows, seeds = made(kind, weighted), 400
    p, looks = shares(rows), many(rows, seeds)
    assert p.sum() <= 300 * (1 + 1e-9)
    for look in looks[:5]:
        assert (np.diff(numbers(look)) > 0).all()  # once each, in their order
        assert look.scale == pytest.approx(1 / p[numbers(look)], rel=1e-12)
    counts = np.bincount(np.concatenate([numbers(look) for look in looks]), minlength=N)
    certain = p == 1
    assert (counts[certain] == seeds).all()
    # Squares of standard scores have a mean of one; their own variance has to do with rare rows.
    some = (p > 0) & ~certain
    squares = (counts[some] - seeds * p[some]) ** 2 / (seeds * p[some] * (1 - p[some]))
    fourth = 3 + (1 - 6 * p[some] * (1 - p[some])) / (seeds * p[some] * (1 - p[some]))
    error = np.sqrt((fourth - 1).sum()) / some.sum()
    assert abs(squares.mean() - 1) < stats.norm.isf(FALSE_ALARM / 2) * error
    # If rows are independent, so are the sizes of looks, with this variance.
    sizes, variance = np.array([look.scale.size for look in looks]), (p * (1 - p)).sum()
    assert abs(sizes.mean() - p.sum()) < stats.norm.isf(FALSE_ALARM / 2) * (variance / seeds) ** 0.5
    dispersion = stats.chi2.sf((seeds - 1) * sizes.var(ddof=1) / variance, seeds - 1)
    assert FALSE_ALARM / 2 < dispersion < 1 - FALSE_ALARM / 2


@pytest.mark.parametrize("kind", ["rare", "sorted", "rare counts"])
def test_rare_outcomes_are_all_looked_at(kind):
    rows = made(kind)
    look = rows.reduce(task(rows))
    cases = np.flatnonzero(rows.arrays.y)
    assert np.isin(cases, numbers(look)).all()
    assert (look.scale[look.arrays.y > 0] == 1).all()


def test_large_weights_are_certain():
    weights = np.ones(N)
    weights[[3, 700]] = 1e6
    rows = made("common", weights=weights)
    look = rows.reduce(task(rows))
    assert {3, 700} <= set(numbers(look))
    assert (look.scale[np.isin(numbers(look), [3, 700])] == 1).all()
    assert (look.weighted.weights[np.isin(numbers(look), [3, 700])] == 1e6).all()


def test_no_row_without_weight_is_looked_at():
    rows = made("rare", weights=np.where(np.arange(N) % 2, 0.0, 1.0))
    look = rows.reduce(task(rows, 500))
    assert (numbers(look) % 2 == 0).all()
    assert np.isfinite(look.weighted.own).all()


@pytest.mark.parametrize("weight", [1.0, 1e-3, 1e9])
def test_no_outcome_at_all(weight):
    rows = made("none", weights=np.full(N, weight))
    look = rows.reduce(task(rows, 1_000))
    assert 350 < look.scale.size < 650  # 500 expected: six standard deviations
    assert look.weighted.own.sum() == pytest.approx(N * weight, rel=0.3)


def test_a_look_repeats_and_keeps_all_that_is_known_of_rows(monkeypatch):
    levels = np.arange(N) % 7
    rows = made("counts", True, strata={"g": levels, "h": -levels})
    first, again = (rows.reduce(task(rows)) for _ in range(2))
    chosen = numbers(first)
    assert (chosen == numbers(again)).all()
    for name in ("x", "y", "weights"):
        np.testing.assert_array_equal(getattr(first.arrays, name), getattr(rows.arrays, name)[..., chosen])
    assert (first.arrays.strata["g"] == levels[chosen]).all()
    assert (first.arrays.strata["h"] == -levels[chosen]).all()
    monkeypatch.setattr(looking, "KEY", (1, 0))
    other = numbers(rows.reduce(task(rows)))
    assert other.size != chosen.size or (other != chosen).any()


def test_a_look_at_groups_keeps_their_numbers():
    codes = np.sort(np.random.default_rng(1).integers(40, size=N))
    rows = made("common", strata={"g": codes}, group="g", groups=40)
    look = rows.reduce(task(rows))
    assert look.arrays.groups == 40
    np.testing.assert_array_equal(look.arrays.codes, codes[numbers(look)])
    theta = np.random.default_rng(2).normal(size=(1, rows.width)) / 10
    part = MemoryRows.of(look.weighted)
    assert np.isfinite(part.reduce(LogLikelihood(Logit()), theta)).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_a_look_does_not_depend_on_where_blocks_lie(weighted):
    rows = made("rare", weighted, n=4 * LENGTH - 100, strata={"g": np.arange(4 * LENGTH - 100) % 5})
    asked = task(rows, 2_000)
    whole = rows.reduce(asked)
    for blocks in ([1, 1, 1, 1], [1, 3], [2, 2]):
        parts, start = [], 0
        for count in blocks:
            chosen = np.arange(start * LENGTH, min(rows.size, (start + count) * LENGTH))
            parts.append(asked.over(replace(rows.arrays.take(chosen), block=start), NOTHING))
            start += count
        found = asked.answer(tuple(map(np.concatenate, zip(*parts, strict=True))), NOTHING, rows)
        np.testing.assert_array_equal(found.scale, whole.scale)
        for name in ("x", "y", "weights", "offset"):
            np.testing.assert_array_equal(getattr(found.arrays, name), getattr(whole.arrays, name))
        np.testing.assert_array_equal(found.arrays.strata["g"], whole.arrays.strata["g"])


# Random numbers of blocks

KEYS = [(0, 0), (0, 1), (1, 0), (2**63 - 1, 5), (2**64 - 1, 2**64 - 1)]
BLOCKS = [0, 1, 2, 6_103, 2**40]


def test_blocks_have_random_numbers_of_their_own():
    drawn = {(key, block): of_block(key, block).random(1_000) for key in KEYS for block in BLOCKS}
    for (key, block), found in drawn.items():
        assert (found == of_block(key, block).random(1_000)).all()
    together = np.concatenate(list(drawn.values()))
    assert np.unique(together).size == together.size  # no two streams have a part in common
    assert stats.kstest(together, "uniform").pvalue > FALSE_ALARM
    matrix = np.corrcoef(list(drawn.values()))[np.triu_indices(len(drawn), 1)]
    assert np.abs(matrix).max() < stats.norm.isf(FALSE_ALARM / (2 * matrix.size)) / 1_000**0.5


def test_blocks_do_not_depend_on_what_others_have_taken():
    later = of_block((1, 2), 5)
    of_block((1, 2), 4).random(10**6)
    assert (later.random(10) == of_block((1, 2), 5).random(10)).all()
