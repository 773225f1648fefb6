"""Rows against plain NumPy in long double: sums, threads, duplicates, counts, tracks and samples.

Tolerances. A sum over rows is a chain of at most 512 additions in a chunk, 32 chunks a block and some blocks, and a
row's term takes a few dozen roundings, so it errs by less than ROUNDING = 1,000 eps times the sum of the terms' sizes;
a row's linear predictor errs by some eps times a_i = sum_j |x_ij theta_j| + |offset_i|, which no derivative of the
family enlarges.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor

import harness
import numpy as np
import pytest
from scipy import stats
from threadpoolctl import threadpool_limits

from tallbayes.families import Bernoulli, Binomial, Log, Logit, Poisson
from tallbayes.rows import threads
from tallbayes.rows.duplicates import LOOK, Columns
from tallbayes.rows.looking import FirstLook, Look
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.moments import ColumnMoments
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.remainders import RemainderBounds, expected
from tallbayes.rows.tasks import DEFENSIVE, Fitted, Levels, LogLikelihood, LogLikelihoodDerivatives

ROUNDING = 1000 * np.finfo(float).eps
PARTS = ("x", "y", "weights", "offset")
VALUE, ALL = LogLikelihood(Logit()), LogLikelihoodDerivatives(Logit())


def data(n, p, weighted=False, offset=False, seed=1):
    """Arguments of MemoryRows, and a generator for more."""
    rng = np.random.default_rng([seed, n, p])
    return {
        "x": rng.normal(size=(p, n)) + rng.normal(size=(p, 1)),
        "y": (rng.random(n) < 0.3).astype(float),
        "weights": rng.uniform(0, 3, n) if weighted else None,
        "offset": rng.normal(size=n) if offset else None,
    }, rng


def reference(x, y, params, weights=None, offset=None):
    """Value, gradient and curvature with NumPy in long double, and how far rounding may take a sum from them."""
    x, y = np.asarray(x, np.longdouble), np.asarray(y, np.longdouble)
    weights = np.ones(y.size) if weights is None else weights
    offset = np.zeros(y.size) if offset is None else offset
    found, slack = [], []
    for theta in np.atleast_2d(params):
        eta = theta @ x + offset
        mean = 1 / (1 + np.exp(-eta))
        size = weights * (1 + np.abs(theta) @ np.abs(x) + np.abs(offset))
        found.append(
            (
                (weights * (y * eta - np.logaddexp(0, eta))).sum(),
                x @ (weights * (y - mean)),
                (x * (weights * mean * (1 - mean))) @ x.T,
            )
        )
        slack.append((size.sum(), np.abs(x) @ size, (np.abs(x) * size) @ np.abs(x).T))
    values = [np.array(part).astype(float) for part in zip(*found, strict=True)]
    return values, [ROUNDING * np.array(part).astype(float) for part in zip(*slack, strict=True)]


def assert_close(found, expected):
    for name, got, truth, slack in zip(("value", "gradient", "curvature"), found, *expected, strict=False):
        assert got.shape == truth.shape, name
        assert (np.abs(got - truth) <= slack).all(), name


def assert_sums_are_right(given, params):
    rows, expected = MemoryRows(**given), reference(params=params, **given)
    assert_close([rows.reduce(VALUE, params)], expected)
    assert_close(rows.reduce(ALL, params), expected)
    assert rows.touched == 2 * rows.size * len(params)


SIZES = [1, 2, 511, 512, 513, LENGTH - 1, LENGTH, LENGTH + 1, 40_000]


@pytest.mark.parametrize(("weighted", "offset"), list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize(("n", "vectors"), [(n, 1 + i % 5) for i, n in enumerate(SIZES)])
def test_sums(n, vectors, weighted, offset):
    given, rng = data(n, 1 + n % 4, weighted, offset)
    assert_sums_are_right(given, rng.normal(size=(vectors, len(given["x"]))))


@pytest.mark.parametrize(("p", "vectors"), list(itertools.product(range(1, 10), [1, 2, 3, 4, 5])))
def test_sums_of_many_columns(p, vectors):
    given, rng = data(700, p, weighted=p % 2 == 0, offset=vectors % 2 == 0)
    assert_sums_are_right(given, rng.normal(size=(vectors, p)))


def test_sums_where_blocks_are_longer_than_the_shortest():
    given, _ = data(2_200_000, 1)
    eta = 0.7 * given["x"][0]
    truth = (given["y"] * eta - np.logaddexp(0, eta)).sum()  # pairwise in double: far below the tolerance
    slack = ROUNDING * (1 + np.abs(eta)).sum()
    assert MemoryRows(**given).reduce(VALUE, [[0.7]]) == pytest.approx(truth, abs=slack)


@pytest.mark.parametrize("params", [[0.5, -1.0], [[0.5, -1.0]], [[1, 2]], np.array([[0.5, 9.0, -1.0]])[:, ::2]])
def test_forms_of_parameters(params):
    given, _ = data(600, 2)
    expected = reference(params=np.array(params, float), **given)
    assert_close([MemoryRows(**given).reduce(VALUE, params)], expected)
    assert_close(MemoryRows(**given).reduce(ALL, params), expected)


@pytest.mark.parametrize("layout", ["fortran", "float32", "integers", "strided"])
def test_forms_of_columns(layout):
    given, rng = data(600, 3)
    x = {
        "fortran": np.asfortranarray(given["x"]),
        "float32": given["x"].astype(np.float32),
        "integers": given["x"].round().astype(int),
        "strided": np.repeat(given["x"], 2, axis=1)[:, ::2],
    }[layout]
    params = rng.normal(size=(2, 3))
    assert_close(MemoryRows(x, given["y"]).reduce(ALL, params), reference(x.astype(float), given["y"], params))


def test_wrong_number_of_coefficients():
    with pytest.raises(ValueError):
        MemoryRows(**data(600, 3)[0]).reduce(VALUE, [[1.0, 2.0]])


@pytest.mark.parametrize(
    "wrong",
    [{"y": np.ones(7)}, {"y": np.ones(2)}, {"weights": np.ones(1)}, {"strata": {"g": [0, 1]}}],
    ids=["y longer", "y shorter", "one weight", "strata"],
)
def test_lengths_that_differ_are_refused(wrong):
    with pytest.raises(ValueError):
        MemoryRows(**({"x": np.ones((2, 3)), "y": np.ones(3)} | wrong))


def test_parameter_vectors_of_another_width_are_refused():
    rows = MemoryRows(np.ones((2, 3)), np.ones(3))
    for ask in (lambda theta: rows.reduce(VALUE, theta), lambda theta: harness.tracked(rows, Logit(), theta)):
        with pytest.raises(ValueError, match="3 entries, but these rows take 2"):
            ask(np.zeros((1, 3)))


@pytest.mark.parametrize(("weighted", "offset"), [(False, False), (True, True)])
def test_same_bits_for_any_number_of_threads(weighted, offset):
    given, rng = data(70_003, 5, weighted, offset)
    params, factor = rng.normal(size=(3, 5)), rng.normal(size=(5, 5)) / 100
    chains = np.arange(3)
    answers = []
    for count in (1, 2, 4):
        with threads.using(count):
            rows = MemoryRows(**given)
            track = harness.tracked(rows, Logit(), params)
            moved = params + np.array([0, 0, 0, 0.1, 0])
            value = track.at(moved, 3, chains)
            track.accept(moved, 3, chains, value)
            measure = RemainderBounds(Logit(), params[0], factor, 5.0)
            urn, look = rows.draw(measure, params[0], 1.0, 50, 1), Look(rows.arrays, np.ones(rows.size))
            answers.append(
                (
                    *rows.reduce(ALL, params)[:3],
                    rows.reduce(VALUE, params),
                    value,
                    track.at(moved, 1, chains),
                    measure.of(rows.arrays),
                    expected(look, Logit(), params[0], factor, np.array([2.0, 5.0]), 3.0, 1e-4),
                    np.array([urn.total]),
                    *urn.seen,
                    *urn.pool((1, 0), 0, 1, 100),
                    rows.reduce(FirstLook(500, rows.mean_outcome, rows.total_weight)).arrays.x,
                    Columns(**given, strata={}).hashes(),
                )
            )
    for other in answers[1:]:
        for one, another in zip(answers[0], other, strict=True):
            assert (one == another).all()


@pytest.mark.parametrize("n", [20_001, 70_003, 200_000])
def test_same_bits_for_any_number_of_blas_threads(n):
    given, _ = data(n, 2, weighted=True, offset=True)
    answers = []
    for count in (1, 2):
        with threadpool_limits(count, user_api="blas"):
            rows = MemoryRows(**given)
            answers.append((rows.outcomes.constant, rows.reduce(VALUE, [[0.1, 0.2]])[0]))
    assert answers[0] == answers[1]


# Alone or among others


def assert_same_bits_alone(rows, tag, params):
    """Each parameter vector has the very answers alone that it has among others, wherever it stands there."""
    order = np.random.default_rng(1).permutation(len(params))
    for ask in (LogLikelihood(tag), LogLikelihoodDerivatives(tag)):
        together, shuffled = (as_parts(rows.reduce(ask, vectors)) for vectors in (params, params[order]))
        alone = [as_parts(rows.reduce(ask, one)) for one in params]
        for part, other, single in zip(together, shuffled, zip(*alone, strict=True), strict=True):
            np.testing.assert_array_equal(part, np.concatenate(single))
            np.testing.assert_array_equal(part[order], other)
    np.testing.assert_array_equal(
        rows.outcomes.linear(tag, params), np.concatenate([rows.outcomes.linear(tag, one[None]) for one in params])
    )


def as_parts(found):
    return [part for part in found if part is not None] if isinstance(found, tuple) else [found]


# Few rows are summed by one thread, alone or not, and many by all threads.
@pytest.mark.parametrize(("n", "vectors"), [(1_003, 17), (20_001, 6), (140_001, 3)])
@pytest.mark.parametrize("p", [1, 2, 5, 13])
def test_a_parameter_vector_has_the_same_bits_alone_as_among_others(p, n, vectors):
    given, rng = data(n, p, weighted=p % 2 == 0, offset=p % 2 == 0)
    assert_same_bits_alone(MemoryRows(**given), Logit(), rng.normal(size=(vectors, p)))


@pytest.mark.parametrize("tag", [Bernoulli("probit").tag, Bernoulli("cloglog").tag, Log()])
def test_other_families_have_the_same_bits_alone_as_among_others(tag):
    given, rng = data(20_001, 7)
    assert_same_bits_alone(MemoryRows(**given), tag, rng.normal(size=(6, 7)) / 10)


@pytest.mark.parametrize("groups", [1, 5, 40])
def test_effects_of_groups_have_the_same_bits_alone_as_among_others(groups):
    given, rng = data(1_500, 3, weighted=True, offset=True)
    strata = {"g": np.sort(rng.integers(groups, size=1_500))}
    rows = MemoryRows(**given, strata=strata, group="g", groups=groups)
    assert_same_bits_alone(rows, Logit(), rng.normal(size=(19, rows.width)) / 3)


@pytest.mark.parametrize("groups", [1, 5, 40])
@pytest.mark.parametrize("place", [0, 1, 6, 10])
def test_the_sd_of_effects_changes_no_bit(groups, place):
    given, rng = data(300, 3, weighted=True)
    strata = {"g": np.sort(rng.integers(groups, size=300))}
    rows = MemoryRows(**given, strata=strata, group="g", groups=groups)
    params = rng.normal(size=(11, rows.width))
    params[place, :-1] = params[-1, :-1]
    values = rows.reduce(VALUE, params)
    assert values[place] == values[-1]


@pytest.mark.parametrize("n", [1_003, 150_001])
def test_tracked_chains_have_the_same_bits_alone_as_among_others(n):
    given, rng = data(n, 13)
    rows, params = MemoryRows(**given), rng.normal(size=(5, 13)) / 10
    moved = params + 0.1 * np.eye(13)[4]
    together = harness.tracked(rows, Logit(), params).at(moved, 4, np.arange(5))
    each = [(params[k : k + 1], moved[k : k + 1]) for k in range(5)]
    alone = [harness.tracked(rows, Logit(), here).at(there, 4, np.arange(1)) for here, there in each]
    np.testing.assert_array_equal(together, np.concatenate(alone))


def test_order_of_rows_does_not_matter():
    given, rng = data(20_000, 4, weighted=True, offset=True)
    params = rng.normal(size=(2, 4))
    order = rng.permutation(20_000)
    expected = reference(params=params, **given)
    shuffled = {name: values[..., order] for name, values in given.items()}
    assert_close(MemoryRows(**shuffled).reduce(ALL, params), expected)


def test_duplicated_rows_are_rows_of_weight_two():
    given, rng = data(9000, 3)
    params = rng.normal(size=(2, 3))
    twice = MemoryRows(np.tile(given["x"], 2), np.tile(given["y"], 2)).reduce(ALL, params)
    weighted = given | {"weights": np.full(9000, 2.0)}
    assert_close(twice, reference(params=params, **weighted))
    assert_close(MemoryRows(**weighted).reduce(ALL, params), reference(params=params, **weighted))


def test_weight_zero_is_no_row():
    given, rng = data(3000, 2)
    keep = rng.random(3000) < 0.5
    params = rng.normal(size=(1, 2))
    expected = reference(given["x"][:, keep], given["y"][keep], params)
    assert_close(MemoryRows(**given | {"weights": keep.astype(float)}).reduce(ALL, params), expected)


# Collapsing


def categorical(n, levels, weighted=False, offset=False, seed=2):
    rng = np.random.default_rng(seed)
    return {
        "x": np.stack([np.ones(n), *rng.integers(levels, size=(2, n))]).astype(float),
        "y": rng.integers(2, size=n).astype(float),
        "weights": rng.uniform(0.5, 2, n) if weighted else None,
        "offset": rng.integers(2, size=n) * 0.25 if offset else None,
    }


def collapsed(x, y, weights=None, offset=None, strata=None):
    numbers = (np.asarray(part, dtype=float) for part in (x, y))
    return MemoryRows(*Columns(*numbers, weights, offset, strata or {}).without_duplicates())


@pytest.mark.parametrize(("n", "levels"), [(300, 3), (30_000, 4), (100_001, 30)])
@pytest.mark.parametrize(("weighted", "offset"), [(False, False), (True, True)])
def test_collapsing_is_exact(n, levels, weighted, offset):
    given = categorical(n, levels, weighted, offset)
    strata = {"g": np.arange(n) % 2}
    rows, merged = MemoryRows(**given, strata=strata), collapsed(**given, strata=strata)
    keys = [*given["x"], given["y"], np.arange(n) % 2] + ([given["offset"]] if offset else [])
    assert merged.size == np.unique(np.stack(keys), axis=1).shape[1] < n / 2
    total = n if given["weights"] is None else given["weights"].sum()
    assert merged.total_weight == pytest.approx(total, rel=ROUNDING)
    params = np.random.default_rng(3).normal(size=(2, 3))
    assert_close(merged.reduce(ALL, params), reference(params=params, **given))
    for by in ("g", "outcome"):
        before, after = (some.reduce(Levels(by)) for some in (rows, merged))
        assert before.keys() == after.keys()
        for level, other in zip(before.values(), after.values(), strict=True):
            assert other[1:] == pytest.approx(level[1:], rel=ROUNDING)
        assert sum(level.rows for level in after.values()) == merged.size


@pytest.mark.parametrize("apart", ["x", "y", "offset", "strata"])
def test_collapsing_keeps_apart_what_differs(apart):
    n, half = 1000, np.arange(1000) % 2
    merged = collapsed(
        x=[np.ones(n), half if apart == "x" else np.zeros(n)],
        y=half if apart == "y" else np.zeros(n),
        offset=half if apart == "offset" else np.zeros(n),
        strata={"g": half if apart == "strata" else np.zeros(n, int)},
    )
    assert merged.size == 2
    assert merged.total_weight == n


def test_collapsing_does_not_mix_columns_up():
    # The same values in other columns are another row.
    a = np.arange(1000) % 2
    assert collapsed(x=[a, 1 - a], y=np.zeros(1000)).size == 2
    assert collapsed(x=[a, a], y=a).size == 2
    assert collapsed(x=[1 - a, a], y=a).size == 2


def test_collapsing_zero_and_minus_zero():
    x = np.where(np.arange(1000) % 2, 0.0, -0.0)
    merged = collapsed(x=[np.ones(1000), x], y=np.arange(1000) // 500)
    assert merged.size <= 4
    assert merged.total_weight == 1000
    assert merged.reduce(VALUE, [[1.0, 3.0]]) == pytest.approx(500 * 1.0 - 1000 * np.log1p(np.e), rel=ROUNDING)


@pytest.mark.parametrize("repeated", [0.0, 0.3, 0.49])
def test_collapsing_only_if_it_pays(repeated):
    rng = np.random.default_rng(4)
    x = rng.normal(size=4000)
    x[: int(repeated * 4000)] = 1.0  # fewer than half of the rows can go
    columns = Columns(x[None], np.zeros(4000), None, None, {})
    assert columns.without_duplicates() is columns


def test_collapsing_when_hashes_collide(monkeypatch):
    columns = Columns(**categorical(2000, 3), strata={})
    monkeypatch.setattr(Columns, "hashes", lambda self: np.zeros(self.y.size, np.uint64))
    assert columns.without_duplicates() is columns  # rather no gain than a wrong sum


def test_collapsing_keeps_the_order_of_first_appearance():
    merged = collapsed(x=[[3.0, 1, 3, 2, 1, 3, 2, 1, 3, 3]], y=np.zeros(10))
    assert merged.arrays.x.tolist() == [[3, 1, 2]]
    assert merged.arrays.weights.tolist() == [5, 3, 2]


def test_collapsing_not_a_number():
    merged = collapsed(x=[np.full(1000, np.nan)], y=np.zeros(1000))
    assert np.isnan(merged.reduce(VALUE, [[1.0]])).all()


# Counts


def test_honest_counts():
    given, rng = data(1500, 3)
    rows = MemoryRows(**given)
    assert rows.touched == 0
    rows.reduce(VALUE, np.zeros((4, 3)))
    assert rows.touched == 4 * 1500
    rows.reduce(ALL, np.zeros(3))
    assert rows.touched == 5 * 1500
    theta = np.zeros((2, 3))
    track = harness.tracked(rows, Logit(), theta)
    assert rows.touched == (5 + 2 * 2) * 1500  # the predictors, and the values where the chains start
    track.at(theta, 1, np.array([0]))
    assert rows.touched == (9 + 1) * 1500
    track.accept(theta, 1, np.array([0]), track.value[:1])
    track.refresh()
    assert rows.touched == (10 + 2) * 1500
    urn = rows.draw(RemainderBounds(Logit(), theta[0], np.eye(3), 1.0), theta[0], 1.0, 30, 1)
    assert rows.touched == (12 + 2) * 1500  # the predictor and the reach of every row
    urn.pool((1, 0), 0, 1, 50)  # a pass that looks at no row: in memory the bounds are kept
    assert rows.touched == 14 * 1500
    part = rows.sample(100, rng)
    part.reduce(VALUE, np.zeros((3, 3)))
    assert part.touched == 300
    assert rows.touched == 14 * 1500
    rows.reduce(ColumnMoments())
    rows.sample(30, rng, measure=Fitted(Bernoulli(), theta[0], 0.5))
    assert rows.touched == 16 * 1500
    assert rows.passes == 9
    rows.reduce_all((ColumnMoments(), None), (VALUE, np.zeros((2, 3))), (FirstLook(20, 0.5, 1500.0), None))
    assert rows.touched == 20 * 1500
    assert rows.passes == 10
    rows.count(5)
    assert rows.touched == 20 * 1500 + 5
    assert rows.outcomes.linear(Logit(), theta).shape == (2,)  # no look at rows
    assert rows.touched == 20 * 1500 + 5


def test_counts_of_several_threads():
    rows = MemoryRows(**data(600, 1)[0])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: [rows.count(1) for _ in range(2000)], range(8)))
    assert rows.touched == 16_000


def test_several_questions_have_the_answers_that_each_has_alone():
    given, rng = data(40_000, 3, weighted=True, offset=True)
    rows, params = MemoryRows(**given), rng.normal(size=(2, 3))
    values, found, moments = rows.reduce_all((VALUE, params), (ALL, params[0]), (ColumnMoments(), None))
    assert (values == rows.reduce(VALUE, params)).all()
    for one, other in zip(as_parts(found), as_parts(rows.reduce(ALL, params[0])), strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(moments, rows.reduce(ColumnMoments()), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="4 entries, but these rows take 3"):
        rows.reduce_all((VALUE, params), (VALUE, np.zeros(4)))


# Tracks


@pytest.mark.parametrize(("weighted", "offset"), [(False, False), (True, True)])
def test_track_follows_direct_sums(weighted, offset):
    given, rng = data(9000, 4, weighted, offset)
    rows, theta = MemoryRows(**given), rng.normal(size=(5, 4))
    track = harness.tracked(rows, Logit(), theta)
    expected, slack = reference(params=theta, **given)
    assert (np.abs(track.value - expected[0]) <= slack[0]).all()
    moves = 150
    for _ in range(moves):
        column = int(rng.integers(4))
        proposed = theta.copy()
        proposed[:, column] += rng.normal(size=5) * 0.3
        chains = np.flatnonzero(rng.random(5) < 0.6)
        value = track.at(proposed, column, chains)
        assert value.shape == chains.shape
        accepted = chains[rng.random(chains.size) < 0.5]
        track.accept(proposed, column, accepted, value[np.isin(chains, accepted)])
        theta[accepted] = proposed[accepted]
    # Each move rounds every predictor once more, by eps times its size, and the walk may have been farther
    # out before (5 times, say): some 150 x 5 roundings, on top of the 1,000.
    expected, slack = reference(params=theta, **given)
    assert (np.abs(track.value - expected[0]) <= 2 * slack[0]).all()
    assert (np.abs(track.at(theta, 2, np.arange(5)) - expected[0]) <= 2 * slack[0]).all()
    track.refresh()
    assert (np.abs(track.at(theta, 0, np.arange(5)) - expected[0]) <= slack[0]).all()
    other = np.array([3, 1])  # chains in another order
    assert (np.abs(track.at(theta, 0, other) - expected[0][other]) <= slack[0][other]).all()


def test_track_leaves_chains_alone_until_they_move():
    given, rng = data(600, 2)
    theta = rng.normal(size=(3, 2))
    track = harness.tracked(MemoryRows(**given), Logit(), theta)
    before = track.value.copy()
    proposed = theta + np.array([0.0, 1.0])
    value = track.at(proposed, 1, np.arange(3))
    assert (value != before).all()
    assert (track.at(theta, 1, np.arange(3)) == before).all()
    track.accept(proposed, 1, np.array([1]), value[1:2])
    assert (track.value == [before[0], value[1], before[2]]).all()
    track.accept(proposed, 1, np.array([], dtype=np.intp), np.array([]))
    assert track.at(proposed, 1, np.array([], dtype=np.intp)).size == 0
    theta[0] = 99.0  # the track keeps its own copy
    assert track.at(proposed, 1, np.array([0])) == value[0]


def test_track_refuses_moves_of_all_columns():
    track = harness.tracked(MemoryRows(**data(600, 2)[0]), Logit(), np.zeros((1, 2)))
    with pytest.raises(ValueError, match="one column only"):
        track.at(np.ones((1, 2)), None, np.array([0]))


def test_track_started_in_whole_numbers():
    given, _ = data(600, 2)
    track = harness.tracked(MemoryRows(**given), Logit(), np.zeros((1, 2), dtype=int))
    moved, chain = np.array([[0.5, 0.0]]), np.array([0])
    value = track.at(moved, 0, chain)
    track.accept(moved, 0, chain, value)
    assert track.at(moved, 0, chain) == pytest.approx(value, rel=ROUNDING)


# Parts of rows


@pytest.mark.parametrize(("weighted", "offset"), list(itertools.product([False, True], repeat=2)))
def test_arrays_and_taken_rows(weighted, offset):
    given, rng = data(700, 2, weighted, offset)
    rows = MemoryRows(**given, strata={"g": np.arange(700) % 3})
    x, y, weights, added = (getattr(rows.arrays, part) for part in PARTS)
    assert (x == given["x"]).all()
    assert (y == given["y"]).all()
    assert (added == given["offset"]).all() if offset else added.size == 0
    assert (weights == given["weights"]).all() if weighted else weights.size == 0
    chosen = rng.permutation(700)[:50]
    part = MemoryRows.of(rows.arrays.take(chosen))
    for name, whole in zip(PARTS, (x.T, y, weights, added), strict=True):
        found = getattr(part.arrays, name)
        assert (whole[chosen] == found.T).all() if whole.size else found.size == 0
    assert (part.arrays.strata["g"] == chosen % 3).all()
    params = rng.normal(size=(2, 2))
    expected = reference(params=params, **{name: v if v is None else v[..., chosen] for name, v in given.items()})
    assert_close(part.reduce(ALL, params), expected)
    assert rows.arrays.take(chosen[:0]).size == 0


@pytest.mark.parametrize(("weighted", "offset"), list(itertools.product([False, True], repeat=2)))
def test_the_linear_part(weighted, offset):
    given, rng = data(700, 2, weighted, offset)
    params = rng.normal(size=(3, 2))
    eta = params @ given["x"] + (given["offset"] if offset else 0)
    times = (given["weights"] if weighted else 1) * given["y"]
    slack = ROUNDING * (1 + np.abs(eta)).sum() * 3
    for tag in (Logit(), Log()):
        assert MemoryRows(**given).outcomes.linear(tag, params) == pytest.approx(eta @ times, abs=slack)
    assert (MemoryRows(**given).outcomes.linear(Bernoulli("probit").tag, params) == 0).all()


def test_all_cases_are_kept_without_a_stratum_too():
    rows = MemoryRows(np.ones((1, 1_000)), np.arange(1_000) % 10 == 0)
    part = rows.sample(50, np.random.default_rng(1), cases=True)
    assert part.size == 150
    found = part.reduce(Levels("outcome"))
    assert found[1] == (100, 100.0, 100.0)
    assert found[0].rows == 50
    assert found[0].weight == pytest.approx(900.0)


def test_fitted_outcomes():
    given, rng = data(700, 2, weighted=True, offset=True)
    theta, rows = rng.normal(size=2), MemoryRows(**given)
    eta = theta @ given["x"] + given["offset"]
    for family, mean in [(Poisson(), np.exp(eta)), (Binomial("m", "probit"), stats.norm.cdf(eta))]:
        average = np.average(mean, weights=given["weights"])
        assert Fitted(family, theta, average).of(rows.arrays) == pytest.approx(mean + DEFENSIVE * average, rel=1e-12)


# Samples


def sampling_data(n=400):
    rng = np.random.default_rng(5)
    x = np.stack([np.ones(n), rng.normal(size=n)])
    given = {"x": x, "y": (rng.random(n) < 0.2).astype(float), "offset": rng.normal(size=n)}
    return given | {"weights": rng.gamma(0.5, size=n)}, {"g": rng.integers(4, size=n) * 3}, rng.gamma(1.0, size=n)


SAMPLES = {
    "plain": (False, {"size": 60}),
    "own weights": (True, {"size": 60}),
    "by outcome": (False, {"size": {0: 30}, "by": "outcome"}),
    "by outcome, own weights": (True, {"size": {0: 30, 1: 20}, "by": "outcome"}),
    "by strata": (False, {"size": 15, "by": "g"}),
    "by strata, own weights": (True, {"size": 15, "by": "g"}),
    "by measure": (True, {"size": 60, "measure": True}),
    "by measure and strata": (True, {"size": 15, "measure": True, "by": "g"}),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_is_unbiased(name):
    weighted, request = SAMPLES[name]
    given, strata, measure = sampling_data()
    rows = MemoryRows(**given | ({} if weighted else {"weights": None}), strata=strata)
    request = request | ({"measure": harness.Known(measure)} if "measure" in request else {})
    params = np.array([[0.3, -0.8], [-1.0, 2.0]])
    truth = np.append(rows.reduce(VALUE, params), rows.total_weight)
    samples = [rows.sample(rng=np.random.default_rng([6, seed]), **request) for seed in range(300)]
    if "by" not in request:
        assert {sample.size for sample in samples} == {60}
    elif isinstance(request["size"], int):
        assert {sample.size for sample in samples} == {4 * 15}
    found = np.array([np.append(sample.reduce(VALUE, params), sample.total_weight) for sample in samples])
    # 5 standard errors: a false alarm in 3 x 6e-7 of all seeds; an estimate without variance is right to
    # rounding.
    slack = 5 * found.std(0, ddof=1) / 300**0.5 + ROUNDING * np.abs(truth)
    assert (np.abs(found.mean(0) - truth) <= slack).all()
    if "measure" not in request:  # equal weights after scaling, or nearly: the total is that of the data
        assert np.ptp(found[:, -1]) <= ROUNDING * truth[-1]


def test_sample_sizes_by_stratum():
    given, strata, _ = sampling_data()
    rows = MemoryRows(**given | {"weights": None}, strata=strata)
    sample = rows.sample({0: 7, 3: 10_000, 6: 0}, np.random.default_rng(7), by="g")
    codes, counts = np.unique(sample.arrays.strata["g"], return_counts=True)
    whole = dict(zip(*np.unique(strata["g"], return_counts=True), strict=True))
    # Taken in part, whole because more was asked for, not at all, and whole because it was not named.
    assert dict(zip(codes.tolist(), counts.tolist(), strict=True)) == {0: 7, 3: whole[3], 9: whole[9]}
    totals = {code: level.weight for code, level in sample.reduce(Levels("g")).items()}
    assert totals[0] == pytest.approx(whole[0], rel=ROUNDING)
    assert (totals[3], totals[9]) == (whole[3], whole[9])


def test_sample_has_no_row_twice():
    given, _, measure = sampling_data()
    rows = MemoryRows(np.arange(400.0)[None], given["y"])
    for seed in range(200):
        chosen = rows.sample(250, np.random.default_rng(seed), measure=harness.Known(measure)).arrays.x[0]
        assert np.unique(chosen).size == chosen.size == 250


def test_inclusion_probabilities():
    n, size, seeds = 12, 5, 2000
    measure = np.arange(1.0, n + 1)
    rows = MemoryRows(np.arange(float(n))[None], np.zeros(n))
    counts = np.zeros(n)
    for seed in range(seeds):
        counts[
            rows.sample(size, np.random.default_rng([8, seed]), measure=harness.Known(measure)).arrays.x[0].astype(int)
        ] += 1
    p = size * measure / measure.sum()
    z = (counts - seeds * p) / np.sqrt(seeds * p * (1 - p))
    assert (np.abs(z) < 5).all()  # a false alarm in 12 x 6e-7 of all seeds


def test_large_weights_are_certain():
    weights = np.ones(100)
    weights[[3, 50]] = 1000.0
    rows = MemoryRows(np.arange(100.0)[None], np.zeros(100), weights)
    for seed in range(50):
        sample = rows.sample(10, np.random.default_rng(seed))
        assert sample.size == 10
        assert {3, 50} <= set(sample.arrays.x[0])
        assert (sample.arrays.weights[np.isin(sample.arrays.x[0], [3, 50])] == 1000).all()
        assert sample.total_weight == pytest.approx(2098, rel=ROUNDING)


def test_zero_weights_are_never_drawn():
    weights = np.ones(100)
    weights[10:] = 0.0
    rows = MemoryRows(np.arange(100.0)[None], np.zeros(100), weights)
    for size in (5, 10, 50):
        sample = rows.sample(size, np.random.default_rng(size))
        assert sample.size == min(size, 10)
        assert sample.arrays.x[0].max() < 10
        assert sample.total_weight == pytest.approx(10, rel=ROUNDING)


def test_tiny_weights():
    rows = MemoryRows(np.arange(4.0)[None], np.zeros(4))
    sample = rows.sample(3, np.random.default_rng(1), measure=harness.Known(np.array([1.0, 1.0, 1e-320, 0.0])))
    assert sample.arrays.x[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("size", [400, 401, 10**9])
@pytest.mark.parametrize("weighted", [False, True])
def test_sample_of_everything_is_everything(size, weighted):
    given, strata, measure = sampling_data()
    rows = MemoryRows(**given | ({} if weighted else {"weights": None}), strata=strata)
    for request in ({}, {"by": "g"}, {"measure": harness.Known(measure)}):
        sample = rows.sample(size, np.random.default_rng(9), **request)
        assert sample.size == 400
        assert sample.total_weight == pytest.approx(rows.total_weight, rel=ROUNDING)
        params = np.array([[0.3, -0.8]])
        expected = reference(params=params, **given | ({} if weighted else {"weights": None}))
        assert_close(sample.reduce(ALL, params), expected)


def test_sample_leaves_the_rows_alone_and_repeats():
    given, strata, _ = sampling_data()
    rows = MemoryRows(**given, strata=strata)
    before = rows.reduce(VALUE, [[1.0, 1.0]])
    first, again, other = (rows.sample(50, np.random.default_rng(seed)).arrays.x for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    assert rows.reduce(VALUE, [[1.0, 1.0]]) == before


def test_unknown_stratum():
    rows = MemoryRows(np.ones((1, 10)), np.zeros(10), strata={"bank": np.zeros(10)})
    for ask in (lambda by: rows.reduce(Levels(by)), lambda by: rows.sample(3, np.random.default_rng(1), by=by)):
        with pytest.raises(
            ValueError, match=r"no stratum 'city' is kept with the rows; there are \['outcome', 'bank'\]"
        ):
            ask("city")


def test_collapse_look_is_a_sample():
    # Long data is judged by every so manieth row; sorted duplicates that the stride steps over are missed,
    # not miscounted.
    n = 3 * LOOK
    assert collapsed(x=[np.arange(n) // 3], y=np.zeros(n)).total_weight == n
