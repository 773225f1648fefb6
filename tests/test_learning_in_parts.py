"""What is learned from parts of the data, put together, is what is learned from all of it."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from tallbayes.data.learning import Asked, Learning
from tallbayes.data.parsed import parse
from tallbayes.data.pieces import Batch, Source, cut
from tallbayes.data.scan import as_arrow
from tallbayes.data.sources import open_source
from tallbayes.families import Bernoulli, Binomial, Poisson
from tallbayes.models.building import Looked
from tallbayes.rows.duplicates import Columns

N = 400


def data():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=N), "n": rng.integers(0, 5, N), "g": rng.choice(["a", "b"], N)})
    frame["late"] = np.where(np.arange(N) < 390, "usual", "new")  # a level that only the last rows have
    frame["size"] = pd.Categorical(rng.choice(["s", "m", "l"], N), ["s", "m", "l"], ordered=True)
    frame["gap"] = np.where(rng.random(N) < 0.05, np.nan, rng.normal(size=N))
    frame["day"] = pd.Timestamp("2020-01-31") + pd.to_timedelta(np.arange(N), "D")
    frame["half"] = np.where(np.arange(N) < 200, 1.0, 1.5)  # whole numbers first
    frame["y"] = np.where(rng.random(N) < 0.3, "yes", "no")
    return frame


def source(frame, first, last):
    """Rows first..last, numbered as among all."""
    rows = frame.iloc[first:last]

    def pieces(wanted):
        columns = {name: rows[name] for name in wanted}
        return cut((Batch(batch) for batch in as_arrow(columns, "the frame")), first)

    return Source(list(frame.columns), len(rows), False, lambda wanted: {}, pieces)


FORMULAS = [
    "y ~ x + n + g + late + size",
    "y ~ scale(x) + center(n) + C(n)",
    "y ~ bs(x, df=4) + poly(n, 2) + cr(x, df=4)",
    "y ~ scale(bs(x, df=4)) + half",
    "y ~ gap + month(day) + days(day)",
    "n ~ standardize(x) + offset(log(half)) + (1 | g)",
    "y ~ x + (1 | n)",
]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("ends", [[0, 200, N], [0, 1, 2, 150, 395, N]], ids=["two", "five"])
def test_parts_teach_what_all_rows_do(formula, ends):
    frame, parsed = data(), parse(formula)
    asked = Asked(binary=formula.startswith("y"), missing="drop")
    whole = Learning(parsed, source(frame, 0, N), asked, {})
    whole.look()
    together = Learning(parsed, open_source(frame), asked, {})
    for first, last in pairwise(ends):
        part = Learning(parsed, source(frame, first, last), asked, {})
        part.look()
        together.then(part.seen())
    one, other = whole.finish(), together.finish()
    assert one.formula.coefficients == other.formula.coefficients
    assert (one.rows, one.left_out, one.formula.event) == (other.rows, other.left_out, other.formula.event)
    for part, same in zip(one.arrays(), other.arrays(), strict=True):
        np.testing.assert_allclose(
            part, same, rtol=1e-12, atol=1e-12
        )  # means of pieces of other lengths round otherwise


def test_a_part_that_is_forgotten_is_noticed():
    frame, parsed = data(), parse("y ~ late + scale(x)")
    together = Learning(parsed, open_source(frame), Asked(), {})
    for first, last in ((0, 100), (100, 390)):
        part = Learning(parsed, source(frame, first, last), Asked(), {})
        part.look()
        together.then(part.seen())
    with pytest.raises(ValueError, match="column 'late' is 'usual' in all rows"):
        together.finish()


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (np.where(np.arange(N) < 200, "1", "2"), "holds text from row 200 on, but numbers before"),
        (np.where(np.arange(N) == 333, np.inf, 1.0), r"1 infinite value \(first at row 333\)"),
        (np.where(np.isin(np.arange(N), [250, 333]), np.nan, 1.0), r"2 missing values \(first at row 250\)"),
    ],
    ids=["text", "infinite", "missing"],
)
def test_what_is_wrong_in_a_part_is_told_as_of_all(column, message):
    frame, parsed = data(), parse("y ~ n")
    values = frame["n"].astype(object)
    values[200:] = column[200:]
    parts = [frame.assign(n=frame["n"].astype(float)), frame.assign(n=values)]
    together = Learning(parsed, open_source(frame), Asked(), {})
    with pytest.raises(ValueError, match=message):
        _all(together, parsed, parts)


def _all(together, parsed, parts):
    for number, frame in enumerate(parts):
        rows = frame.assign(n=frame["n"][200 * number : 200 * number + 200].infer_objects())
        part = Learning(parsed, source(rows, 200 * number, 200 * number + 200), Asked(), {})
        part.look()
        together.then(part.seen())
    together.finish()


CHECKS = {
    "zeros and ones": (Bernoulli(), [0.0, 1.0], [0.0, 2.0], "1 rows are not .first at row 3: 2"),
    "all the same": (Bernoulli(), [1.0, 1.0], [1.0, 1.0], "is 1 in every row"),
    "counts": (Poisson(), [0.0, 1.5], [0.0, 2.5], "2 rows are not .first at row 1: 1.5"),
    "no counts": (Poisson(), [0.0, 0.0], [0.0, 0.0], "is 0 in every row"),
    "successes": (Binomial("m"), [1.0, 2.0], [1.0, 5.0], "counts 5 successes in row 3, which had only 3 trials"),
}


@pytest.mark.parametrize("name", CHECKS)
def test_outcomes_of_parts_are_judged_together(name):
    family, first, second, message = CHECKS[name]
    looked = [Looked(family, "y") for _ in range(3)]
    for number, y in enumerate((first, second)):
        trials = np.array([3.0, 3.0]) if isinstance(family, Binomial) else None
        columns = Columns(np.ones((1, 2)), np.array(y), None, None, {})
        looked[number + 1].add(columns, lambda row, number=number: f"row {2 * number + row}", trials)
        looked[0].then(looked[number + 1])
    with pytest.raises(ValueError, match=message):
        looked[0].finish(4)


def test_weights_of_parts_are_judged_together():
    def looked(*weights):
        found = Looked(Bernoulli(), "y")
        size = len(weights)
        columns = Columns(np.ones((1, size)), np.arange(size) % 2.0, np.array(weights), None, {})
        found.add(columns, lambda row: f"row {row} of {size}")
        return found

    every = Looked(Bernoulli(), "y")
    for part in (looked(0.0, 0.0), looked(1.0, 2.0, 3.0)):
        every.then(part)
    every.finish(5)
    assert every.ones == 2
    every.then(looked(1.0, -2.0))
    with pytest.raises(ValueError, match=r"the smallest is -2 \(row 1 of 2\)"):
        every.finish(7)
    none = Looked(Bernoulli(), "y")
    none.then(looked(0.0, 0.0))
    with pytest.raises(ValueError, match="some positive"):
        none.finish(2)
