"""Sums of bases from tables, against sums over all rows."""

import numpy as np
import pytest
from splines import from_python, prior_bases

from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.threads import using
from tallbayes.splines.basis import WIDTH, Reference, Splines, quantiles
from tallbayes.splines.tables import SCRATCH, TABLES, Boxes, knots_for, numbers_in, sum_of


def columns(n, seed=1):
    """Smooth, discrete, binary, far from zero, and heavy-tailed."""
    rng = np.random.default_rng(seed)
    return np.stack(
        [
            rng.normal(size=n),
            rng.integers(0, 6, n).astype(float),
            (rng.random(n) < 0.3).astype(float),
            2_000 + rng.random(n),
            rng.standard_t(2, n),
        ]
    )


def on_rows(basis, x):
    """The standardised column of a basis."""
    one = Splines(np.array([1]), np.array([[0.0, 1.0]]), basis[None, None])
    return one.each(x)[0]


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("count", [4, 50])
def test_sums_are_those_over_all_rows(degree, count):
    rows = MemoryRows(columns(20_000), np.zeros(20_000)).arrays
    number = np.random.default_rng(2).normal(size=rows.size)
    reference = Reference.of(rows.x[:, :500].copy(), count, degree, 5, lines=0.4)
    sums = Boxes(rows, reference.knots, degree).sums(number)
    assert sums.total == pytest.approx(number.sum(), rel=1e-9, abs=1e-9)
    found, sum_from = set(), from_python(sum_of, TABLES)
    for basis in prior_bases(reference, 200, np.random.default_rng(3)):
        column = on_rows(basis, rows.x)
        scale = np.abs(number) @ np.abs(column)
        assert sum_from(sums, basis, np.empty(SCRATCH)) == pytest.approx(number @ column, abs=1e-10 * scale)
        found.add(int(basis[0]))
    assert found == set(range(1, degree + 1))


def test_knots_on_rows_count_neither_way():
    """A row at a knot adds nothing, on whichever side it is taken to be."""
    x = np.array([[0.0, 1.0, 1.0, 2.0, 3.0]])
    rows, sum_from = MemoryRows(x, np.zeros(5)).arrays, from_python(sum_of, TABLES)
    sums = Boxes(rows, np.array([[1.0, 1.0, 2.0]]), 1).sums(np.ones(5))
    for sign, total in ((1.0, 3.0), (-1.0, 1.0)):
        basis = np.zeros(WIDTH)
        basis[[0, 4, 7, 11]] = 1.0, sign, 1.0, 1.0  # degree, sign, knot, sd
        assert sum_from(sums, basis, np.empty(SCRATCH)) == total


def test_tables_fit():
    """As many knots as memory allows; none where there are too many sets of variables."""
    x = np.random.default_rng(0).random((30, 2_000))
    assert [knots_for(x[:d], degree) for d, degree in ((4, 2), (4, 3), (30, 2), (30, 3))] == [256, 64, 64, 0]
    assert knots_for((x > 0.5).astype(float), 3) == 256  # a column of two values has two knots
    assert numbers_in([1], 1) == 4


def test_threads_do_not_matter():
    rows = MemoryRows(columns(50_000), np.zeros(50_000)).arrays
    number, found = np.random.default_rng(2).normal(size=rows.size), []
    for threads in (1, 3):
        with using(threads):
            found.append(Boxes(rows, quantiles(rows.x[:, :300], 20), 2).sums(number).numbers)
    np.testing.assert_array_equal(*found)
