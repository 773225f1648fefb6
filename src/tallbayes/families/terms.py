"""What one row adds to the log-likelihood, as compiled loops ask for it: a table of addresses of compiled functions.

A loop that is given the table calls the functions through their addresses, so that it is compiled once and serves every
family: outcomes y, linear predictors eta.

- `chunk_value(terms, y, eta, weights)`: the weighted log-likelihood of a chunk of rows; no weights are an empty array.
- `chunk_derivatives(terms, y, eta, weights, first, second)`: the same, and writes d/d eta and -d2/d eta2 of every row.
- `chunk_bounds(terms, y, low, high, out)`: of every row the largest |third derivative| for eta in [low, high].
- `value(terms, y, eta)`: the log-likelihood of one row.
- `third(terms, y, eta)`: its third derivative, with small relative error also in the tails.
- `remainder(terms, y, eta, h)`: what the second-order expansion at eta leaves out of it at eta + h.
- `linear_predictors(terms, x, offset, theta, start, stop, eta)`: those of a chunk of rows, the same for all families.

A canonical family has log-likelihood  y eta - b(eta).  The sum of y_i eta_i is linear in the coefficients and is
computed once, so its chunk functions give only the part -b(eta) and never read y. Functions of one row give all of it.

A family's file writes the first six as plain functions, decorated with `entry`; they are compiled when they are
first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import extending
from numpy.typing import NDArray

from tallbayes.families import linear
from tallbayes.families.addresses import COLUMN, INTEGER, MATRIX, NOTHING, NUMBER, Entry, call_at
from tallbayes.families.compiled import LEAN

intrinsic: Any = extending.intrinsic
SIGNATURES = {
    "chunk_value": NUMBER(COLUMN, COLUMN, COLUMN),
    "chunk_derivatives": NUMBER(COLUMN, COLUMN, COLUMN, COLUMN, COLUMN),
    "chunk_bounds": NOTHING(COLUMN, COLUMN, COLUMN, COLUMN),
    "value": NUMBER(NUMBER, NUMBER),
    "third": NUMBER(NUMBER, NUMBER),
    "remainder": NUMBER(NUMBER, NUMBER, NUMBER),
    "linear_predictors": NOTHING(MATRIX, COLUMN, COLUMN, INTEGER, INTEGER, COLUMN),
}
PLACES = {name: place for place, name in enumerate(SIGNATURES)}
LINEAR = Entry(linear.linear_predictors, SIGNATURES["linear_predictors"], LEAN)


def entry(function: Callable[..., Any]) -> Entry:
    """Declare a function of a family's table; its name says which."""
    return Entry(function, SIGNATURES[function.__name__])


def table(*entries: Entry) -> NDArray[np.intp]:
    """The addresses of a family's functions, in the order of SIGNATURES."""
    assert [one.function.__name__ for one in entries] == list(SIGNATURES)[:-1]
    return np.array([one.address for one in (*entries, LINEAR)], dtype=np.intp)


def no_family() -> NDArray[np.intp]:
    """A table for loops that ask for linear predictors only."""
    found = np.zeros(len(SIGNATURES), dtype=np.intp)
    found[PLACES["linear_predictors"]] = LINEAR.address
    return found


def _call(name: str) -> Any:
    """For an intrinsic that calls the entry of this name."""
    return call_at(PLACES[name], SIGNATURES[name])


# An intrinsic needs its arguments by name.
@intrinsic
def chunk_value(context, terms, y, eta, weights):
    """Sum of the weighted log-likelihood over a chunk of rows."""
    return _call("chunk_value")(context, terms, y, eta, weights)


@intrinsic
def chunk_derivatives(context, terms, y, eta, weights, first, second):
    """Like `chunk_value`, and write weighted d/d eta and -d2/d eta2 of every row."""
    return _call("chunk_derivatives")(context, terms, y, eta, weights, first, second)


@intrinsic
def chunk_bounds(context, terms, y, low, high, out):
    """The largest |third derivative| of every row for eta in [low, high]."""
    return _call("chunk_bounds")(context, terms, y, low, high, out)


@intrinsic
def value(context, terms, y, eta):
    """Log-likelihood of one row."""
    return _call("value")(context, terms, y, eta)


@intrinsic
def third(context, terms, y, eta):
    """Third derivative of one row's log-likelihood."""
    return _call("third")(context, terms, y, eta)


@intrinsic
def remainder(context, terms, y, eta, h):
    """What the expansion of one row's log-likelihood at eta leaves out at eta + h."""
    return _call("remainder")(context, terms, y, eta, h)


@intrinsic
def linear_predictors(context, terms, x, offset, theta, start, stop, eta):
    """eta = offset + x' theta on the rows start..stop."""
    return _call("linear_predictors")(context, terms, x, offset, theta, start, stop, eta)
