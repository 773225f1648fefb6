"""What one row adds to the log-likelihood, as compiled loops ask for it: a table of addresses of compiled functions.

A loop that is given the table calls the functions through their addresses, so that it is compiled once and serves every
family: outcomes y, linear predictors eta.

- `chunk_value(terms, y, eta, weights)`: the weighted log-likelihood of a chunk of rows; no weights are an empty array.
- `chunk_derivatives(terms, y, eta, weights, first, second)`: the same, and writes d/d eta and -d2/d eta2 of every row.
- `chunk_bounds(terms, y, low, high, out)`: of every row the largest |third derivative| for eta in [low, high].
- `value(terms, y, eta)`: the log-likelihood of one row.
- `third(terms, y, eta)`: its third derivative, with small relative error also in the tails.
- `remainder(terms, y, eta, h)`: what the second-order expansion at eta leaves out of it at eta + h.

A canonical family has log-likelihood  y eta - b(eta).  The sum of y_i eta_i is linear in the coefficients and is
computed once, so its chunk functions give only the part -b(eta) and never read y. Functions of one row give all of it.

A family's file writes the six as plain functions, decorated with `entry`; they are compiled when they are first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cfunc, extending, types
from numba.core import event
from numpy.typing import NDArray

from tallbayes.families.compiled import OPTIONS

intrinsic: Any = extending.intrinsic
NUMBER, COLUMN = types.float64, types.Array(types.float64, 1, "C")
SIGNATURES = {
    "chunk_value": NUMBER(COLUMN, COLUMN, COLUMN),
    "chunk_derivatives": NUMBER(COLUMN, COLUMN, COLUMN, COLUMN, COLUMN),
    "chunk_bounds": types.void(COLUMN, COLUMN, COLUMN, COLUMN),
    "value": NUMBER(NUMBER, NUMBER),
    "third": NUMBER(NUMBER, NUMBER),
    "remainder": NUMBER(NUMBER, NUMBER, NUMBER),
}
PLACES = {name: place for place, name in enumerate(SIGNATURES)}


class Entry:
    """One function of a family's table, compiled when its address is first asked for."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._compiled: Any = None
        self.signature = SIGNATURES[function.__name__]

    @property
    def address(self) -> int:
        """Where the compiled function is."""
        if self._compiled is None:
            with event.trigger_event("numba:compile", {"function": self.function}):
                try:
                    self._compiled = cfunc(self.signature, cache=True, **OPTIONS)(self.function)
                except RuntimeError:  # no writable cache folder: compile anew in every process
                    self._compiled = cfunc(self.signature, **OPTIONS)(self.function)
        return int(self._compiled.address)


def entry(function: Callable[..., Any]) -> Entry:
    """Declare a function of a family's table; its name says which."""
    return Entry(function)


def table(*entries: Entry) -> NDArray[np.intp]:
    """The addresses of a family's functions, in the order of SIGNATURES."""
    assert [one.function.__name__ for one in entries] == list(SIGNATURES)
    return np.array([one.address for one in entries], dtype=np.intp)


def _call(name: str, arguments: int) -> Any:
    """A function for compiled code that calls the entry of this name."""
    signature, place = SIGNATURES[name], PLACES[name]
    assert len(signature.args) == arguments

    def typing(context: Any, terms: Any, *given: Any) -> Any:
        def code(context: Any, builder: Any, typed: Any, values: Any) -> Any:
            terms, *given = values
            data = context.make_array(typed.args[0])(context, builder, terms).data
            address = builder.load(builder.gep(data, [ir.Constant(ir.IntType(64), place)]))
            kinds = [context.get_value_type(kind) for kind in signature.args]
            function = ir.FunctionType(context.get_value_type(signature.return_type), kinds)
            found = builder.call(builder.inttoptr(address, function.as_pointer()), given)
            return context.get_dummy_value() if signature.return_type == types.void else found

        return signature.return_type(terms, *signature.args), code

    return typing


# An intrinsic needs its arguments by name.
@intrinsic
def chunk_value(context, terms, y, eta, weights):
    """Sum of the weighted log-likelihood over a chunk of rows."""
    return _call("chunk_value", 3)(context, terms, y, eta, weights)


@intrinsic
def chunk_derivatives(context, terms, y, eta, weights, first, second):
    """Like `chunk_value`, and write weighted d/d eta and -d2/d eta2 of every row."""
    return _call("chunk_derivatives", 5)(context, terms, y, eta, weights, first, second)


@intrinsic
def chunk_bounds(context, terms, y, low, high, out):
    """The largest |third derivative| of every row for eta in [low, high]."""
    return _call("chunk_bounds", 4)(context, terms, y, low, high, out)


@intrinsic
def value(context, terms, y, eta):
    """Log-likelihood of one row."""
    return _call("value", 2)(context, terms, y, eta)


@intrinsic
def third(context, terms, y, eta):
    """Third derivative of one row's log-likelihood."""
    return _call("third", 2)(context, terms, y, eta)


@intrinsic
def remainder(context, terms, y, eta, h):
    """What the expansion of one row's log-likelihood at eta leaves out at eta + h."""
    return _call("remainder", 3)(context, terms, y, eta, h)
