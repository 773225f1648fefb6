"""A log-likelihood that JAX can trace: compiled by it, with its derivatives, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.own.parameters import Shapes, record

Array = NDArray[np.float64]


class Traced(NamedTuple):
    """Compiled functions of a parameter vector and of the columns of some rows."""

    values: Callable[..., Any]  # (rows,)
    gradient: Callable[..., Any]  # of the weighted sum: (p,)
    hessian: Callable[..., Any]  # (p, p)
    firsts: Callable[..., Any]  # (rows, p)
    seconds: Callable[..., Any]  # (rows, p, p)


@lru_cache(8)
def traced(function: Callable[..., Any], shapes: Shapes, fields: tuple[str, ...]) -> Traced:
    """What JAX makes of a log-likelihood."""
    jax = _jax()

    def values(flat: Any, columns: Any) -> Any:
        return function(shapes.theta(flat), record("rows", fields)(*columns))

    def total(flat: Any, columns: Any, weights: Any) -> Any:
        return (weights * values(flat, columns)).sum()

    functions = (
        values,
        jax.grad(total),
        jax.hessian(total),
        jax.jacfwd(values),
        jax.jacfwd(jax.jacfwd(values)),
    )
    return Traced(*map(jax.jit, functions))


def called(function: Callable[..., Any], *given: Any) -> Array:
    """What a compiled function gives, as a NumPy array of double precision."""
    with _jax().enable_x64(True):
        return np.asarray(function(*given))


def _jax() -> Any:
    try:
        import jax
    except ImportError as error:
        raise ImportError('derivatives="jax" needs JAX: pip install "tallbayes[jax]"') from error
    return jax
