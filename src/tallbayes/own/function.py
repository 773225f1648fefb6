"""A user's log-likelihood of rows: how it is called, and what is made of what it gives.

It is called with theta and with some rows, both named tuples, and gives one number for each of the rows. Whatever else
it gives is an error that names the row or the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.own.by_jax import called, traced
from tallbayes.own.parameters import Shapes, record
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.passes import LENGTH

Array = NDArray[np.float64]


class NotFiniteError(ValueError):
    """A row has no log-likelihood, or no derivatives of it."""


class Field(NamedTuple):
    """A column as the function sees it, and where rows keep it."""

    name: str
    kind: Literal["outcome", "column", "level"]
    place: int | str = 0  # among the columns of the design, or the name of the levels


class Derivatives(NamedTuple):
    """Value, gradient and minus the curvature of a weighted sum over rows, in x."""

    value: float
    gradient: Array
    curvature: Array


@dataclass(frozen=True)
class RowFunction:
    """The log-likelihood of each of some rows at a parameter vector x (width,), and its derivatives if there are any.

    `derivatives` is a function that gives first (width, rows) and second derivatives (width, width, rows), or "jax".
    """

    function: Callable[..., Any]
    shapes: Shapes
    fields: tuple[Field, ...]
    derivatives: Callable[..., Any] | str | None = None

    @property
    def name(self) -> str:
        """What to call it."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    @property
    def jax(self) -> bool:
        """Whether JAX compiles it."""
        return self.derivatives == "jax"

    @property
    def derived(self) -> str:
        """Where derivatives come from, in words."""
        return "by JAX" if self.jax else "by differences" if self.derivatives is None else "given"

    def values(self, x: Array, arrays: Arrays, start: int, stop: int) -> Array:
        """The log-likelihood of the rows start..stop, were their weight one."""
        if self.jax:
            traced_values, columns = self._traced.values, self._columns(arrays, start, stop)
            found = self._run(self.name, arrays, start, stop, called, traced_values, x, columns)
        else:
            given = self.shapes.theta(_fixed(x)), self._rows(arrays, start, stop)
            found = self._run(self.name, arrays, start, stop, self.function, *given)
        return self._checked(found, x, arrays, start, stop)

    def sums(self, x: Array, arrays: Arrays, start: int, stop: int) -> Derivatives:
        """Weighted sums over the rows start..stop."""
        own = arrays.weights[start:stop] if arrays.weights.size else np.ones(stop - start)
        value = float((own * self.values(x, arrays, start, stop)).sum())
        if self.jax:
            given = x, self._columns(arrays, start, stop), own
            gradient, hessian = (
                self._run("its derivative by JAX", arrays, start, stop, called, one, *given)
                for one in (self._traced.gradient, self._traced.hessian)
            )
        else:
            first, second = self.each(x, arrays, start, stop)
            gradient, hessian = (first * own[:, None]).sum(0), (second * own[:, None, None]).sum(0)
        if not (np.isfinite(gradient).all() and np.isfinite(hessian).all()):
            raise NotFiniteError(
                f"derivatives of {self.name} on {_stretch(arrays, start, stop)} are not finite where "
                f"{self.shapes.told(x)}"
            )
        return Derivatives(value, gradient, -hessian)

    def each(self, x: Array, arrays: Arrays, start: int, stop: int) -> tuple[Array, Array]:
        """First (rows, width) and second derivatives (rows, width, width) of the rows start..stop."""
        rows, width = stop - start, self.shapes.width
        if self.jax:
            given = x, self._columns(arrays, start, stop)
            first, second = (
                self._run("its derivative by JAX", arrays, start, stop, called, one, *given)
                for one in (self._traced.firsts, self._traced.seconds)
            )
            return first, second
        assert callable(self.derivatives)
        given = self.shapes.theta(_fixed(x)), self._rows(arrays, start, stop)
        found = self._run("derivatives", arrays, start, stop, self.derivatives, *given)
        try:
            first, second = (_filled(part, rows) for part in found)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"derivatives must give first ({width}, rows) and second derivatives ({width}, {width}, rows): {error}"
            ) from error
        if first.shape != (width, rows) or second.shape != (width, width, rows):
            raise ValueError(
                f"derivatives must give first ({width}, rows) and second derivatives ({width}, {width}, rows), but for "
                f"{rows:,} rows they have shapes {first.shape} and {second.shape}"
            )
        return np.ascontiguousarray(first.T), np.ascontiguousarray(second.transpose(2, 0, 1))

    @property
    def _traced(self) -> Any:
        return traced(self.function, self.shapes, tuple(field.name for field in self.fields))

    def _columns(self, arrays: Arrays, start: int, stop: int) -> tuple[NDArray[Any], ...]:
        return tuple(_fixed(_column(field, arrays)[start:stop]) for field in self.fields)

    def _rows(self, arrays: Arrays, start: int, stop: int) -> Any:
        return record("rows", tuple(field.name for field in self.fields))(*self._columns(arrays, start, stop))

    def _run(self, what: str, arrays: Arrays, start: int, stop: int, function: Callable[..., Any], *given: Any) -> Any:
        """What a function gives; what it raises is told with the rows that it was given."""
        try:
            with np.errstate(all="ignore"):  # what is not a number is looked for below
                return function(*given)
        except ImportError:
            raise
        except Exception as error:
            raise ValueError(
                f"{what} failed on {_stretch(arrays, start, stop)}: {type(error).__name__}: {error}"
            ) from error

    def _checked(self, found: Any, x: Array, arrays: Arrays, start: int, stop: int) -> Array:
        if isinstance(found, np.ma.MaskedArray):
            raise ValueError(f"{self.name} gives a masked array; it must give a number for each row")
        values = np.asarray(found)
        if values.shape != (stop - start,):
            raise ValueError(
                f"{self.name} must give one number for each row, but for {_stretch(arrays, start, stop)} it gives "
                f"{'one number' if values.shape == () else f'an array of shape {values.shape}'}"
            )
        if values.dtype.kind not in "fiu":
            raise ValueError(f"{self.name} must give real numbers, not {values.dtype}")
        if values.dtype.kind == "f" and values.dtype.itemsize < 8:
            raise ValueError(
                f"{self.name} gives numbers of single precision ({values.dtype}), too few digits for sums over many "
                "rows; with JAX, give derivatives='jax' or set jax_enable_x64"
            )
        values = values.astype(float, copy=False)
        bad = np.isnan(values) | (values == np.inf)
        if bad.any():
            place = start + int(bad.argmax())
            raise NotFiniteError(
                f"{self.name} is {values[place - start]} for {self.told(arrays, place)} where {self.shapes.told(x)}; "
                "give -inf where a row is impossible"
            )
        return values

    def told(self, arrays: Arrays, place: int) -> str:
        """A row by its number and what it holds."""
        held = ", ".join(f"{field.name} = {_column(field, arrays)[place]:g}" for field in self.fields[:8])
        return f"row {arrays.block * LENGTH + place:,} ({held}{', ...' if len(self.fields) > 8 else ''})"


def _column(field: Field, arrays: Arrays) -> NDArray[Any]:
    if field.kind == "outcome":
        return arrays.y
    return arrays.x[field.place] if field.kind == "column" else arrays.strata[str(field.place)]  # type: ignore[index]


def _fixed(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers, which nobody may change."""
    found = array.view()
    found.flags.writeable = False
    return found


def _filled(part: Any, rows: int) -> Array:
    """Derivatives as one array: entries may be numbers where they are the same for all rows."""
    if isinstance(part, list | tuple):
        return np.array([_filled(one, rows) for one in part])
    found = np.asarray(part, dtype=float)
    return np.broadcast_to(found, (rows,)) if found.ndim == 0 else found


def _stretch(arrays: Arrays, start: int, stop: int) -> str:
    first = arrays.block * LENGTH
    return f"rows {first + start:,} to {first + stop - 1:,}"
