"""A family's log-likelihood of a row from functions of (y, eta), which Numba compiles.

`value` is the log-likelihood. Without `derivatives`, which gives the first and the second, these are differences: good
enough for surrogates, on which exactness does not hang. The thinned sampler needs the `third` derivative and a `bound`
on its size over an interval (y, low, high), and differences never stand for these.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from tallbayes.data.once import once
from tallbayes.families.chunks import largest, sum_derivatives, sum_values
from tallbayes.families.compiled import inside
from tallbayes.families.expressed import by_row
from tallbayes.families.quadrature import integrate_carefully
from tallbayes.families.terms import entry, table

Array = NDArray[np.float64]
Function = Callable[..., Any]

STEP = 1e-3  # of differences, relative to 1 + |eta|


@dataclass(frozen=True, eq=False)
class Given:
    """Tag of a user's own functions."""

    value: Function
    first_two: Function | None = None
    third: Function | None = None
    bound: Function | None = None
    canonical = False

    def __post_init__(self) -> None:
        for function in vars(self).values():
            if function is not None:
                _refuse_unfit(function)

    @property
    def trust(self) -> str:
        """What is known of bounds on third derivatives."""
        return "none" if None in (self.first_two, self.third, self.bound) else "given"

    @once
    def terms(self) -> NDArray[np.intp]:
        """What compiled loops ask for."""
        try:
            return table(*self._entries())
        except NumbaError as error:
            names = ", ".join(repr(one.__name__) for one in vars(self).values() if callable(one))
            first = str(error).strip().splitlines()[0]
            raise ValueError(
                f"the functions of the family ({names}) cannot be compiled by Numba: {first}. They take numbers and "
                "return numbers; use math.exp and the like, and nothing that Numba does not know"
            ) from error

    def _entries(self) -> list[Any]:
        _value = _compiled(self.value)
        if self.first_two is None:

            @inside()
            def _derivatives(y, eta):
                h = STEP * (1.0 + abs(eta))
                here, up, down = _value(y, eta), _value(y, eta + h), _value(y, eta - h)
                far, low = _value(y, eta + 2.0 * h), _value(y, eta - 2.0 * h)
                first = (8.0 * (up - down) - (far - low)) / (12.0 * h)
                second = (16.0 * (up + down) - (far + low) - 30.0 * here) / (12.0 * h * h)
                return here, first, -second

        else:
            _first_two = _compiled(self.first_two)

            @inside()
            def _derivatives(y, eta):
                first, second = _first_two(y, eta)
                return _value(y, eta), first, -second

        bounded = self.trust == "given"
        _third = _compiled(self.third if bounded and self.third is not None else _nothing)
        _bound = _compiled(self.bound if bounded and self.bound is not None else _no_bound)
        _inlined = njit(inline="always")(_third.py_func)

        @entry
        def chunk_value(y, eta, weights):
            return sum_values(_value, y, eta, weights)

        @entry
        def chunk_derivatives(y, eta, weights, first, second):
            return sum_derivatives(_derivatives, y, eta, weights, first, second)

        @entry
        def chunk_bounds(y, low, high, out):
            largest(_bound, y, low, high, out)

        @entry
        def value(y, eta):
            return _value(y, eta)

        @entry
        def third(y, eta):
            return _third(y, eta)

        @entry
        def remainder(y, eta, h):
            return integrate_carefully(_inlined, y, eta, h)

        return [chunk_value, chunk_derivatives, chunk_bounds, value, third, remainder]

    def log_likelihood(self, y: Array, eta: Array) -> Array:
        """Log-likelihood of each row."""
        return np.asarray(by_row(self.terms, y, eta)[0])

    def derivatives(self, y: Array, eta: Array) -> tuple[Array, Array, Array]:
        """First, second and third derivative in eta of each row's log-likelihood; the third may be unknown, and NaN."""
        _, first, second, third = by_row(self.terms, y, eta)
        return first, second, third


def _refuse_unfit(function: Function) -> None:
    """Refuse what Numba does not take, and functions that raise errors, which would be lost in compiled code."""
    name = getattr(function, "__name__", repr(function))
    if not isinstance(_plain(function), FunctionType):
        raise ValueError(f"the function {name!r} of the family is not written in Python; wrap it in one that is")
    waiting, seen = [_plain(function)], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if any(step.opname == "RAISE_VARARGS" for step in dis.get_instructions(one)):
            where = "" if one is _plain(function) else f", which it calls as {one.__name__!r},"
            raise ValueError(
                f"the function {name!r} of the family{where} raises errors (by raise or assert), which are lost in "
                "compiled code; give float('nan') where there is no value, and -inf where a row is impossible"
            )
        others = [one.__globals__.get(called) for called in one.__code__.co_names]
        others += [cell.cell_contents for cell in one.__closure__ or ()]
        waiting += [_plain(other) for other in others if hasattr(other, "py_func")]


def _plain(function: Any) -> Any:
    """A function as Python has it, where Numba has compiled it already."""
    return getattr(function, "py_func", function)


def _compiled(function: Function) -> Any:
    return inside()(_plain(function))


def _nothing(y, eta):
    return np.nan


def _no_bound(y, low, high):
    return np.inf
