"""Functions that compiled code calls by their addresses."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from tallbayes.families.addresses import COLUMN, GENERATOR, NOTHING, NUMBER, Table


def small_table() -> tuple[Table, Table, dict]:
    one = Table()

    @one.entry(NUMBER, NUMBER)
    def twice(x):
        return 2.0 * x

    two = Table(one)

    @two.entry(NOTHING, GENERATOR, COLUMN)
    def draw(table, rng, out):
        for i in range(out.size):
            out[i] = twice(table, rng.random())

    return one, two, {"twice": twice, "draw": draw}


def test_functions_call_each_other_through_the_table():
    one, two, functions = small_table()
    twice, draw = functions["twice"], functions["draw"]

    @njit
    def run(table, rng, out):
        draw(table, rng, out)
        return twice(table, 3.0)

    out = np.zeros(4)
    assert run(two.addresses, np.random.default_rng(1), out) == 6.0
    np.testing.assert_array_equal(out, 2 * np.random.default_rng(1).random(4))
    assert np.count_nonzero(one.addresses) == 1
    # What the shorter table has, the longer one has at the same place.
    used = np.flatnonzero(one.addresses)
    np.testing.assert_array_equal(one.addresses[used], two.addresses[used])


def test_a_function_keeps_its_place_when_others_are_declared_before_it():
    """Compiled code that is kept on disk knows the place, and does not see that another file has changed."""
    places = []
    for names in (["twice"], ["other", "twice"]):
        table = Table()
        for name in names:

            def function(x):
                return 2.0 * x

            function.__name__ = name
            table.entry(NUMBER, NUMBER)(function)
        places.append(set(table._entries))
    assert places[0] < places[1]


def test_arguments_of_another_type_are_refused():
    _, two, functions = small_table()
    draw = functions["draw"]

    @njit
    def run(table, rng, out):
        draw(table, rng, out)

    with pytest.raises(TypingError):
        run(two.addresses, np.random.default_rng(1), np.zeros((2, 2)))
