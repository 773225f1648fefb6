"""The entries of a family's table as Python can call them, for tests and for loops that run interpreted."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core.extending import _Intrinsic

from tallbayes.families import terms as table
from tallbayes.families.compiled import OPTIONS, _Inside


@njit(**OPTIONS)
def chunk_value(terms, y, eta, weights):
    return table.chunk_value(terms, y, eta, weights)


@njit(**OPTIONS)
def value(terms, y, eta):
    return table.value(terms, y, eta)


@njit(**OPTIONS)
def third(terms, y, eta):
    return table.third(terms, y, eta)


@njit(**OPTIONS)
def remainder(terms, y, eta, h):
    return table.remainder(terms, y, eta, h)


@njit(**OPTIONS)
def remainders(terms, y, eta, h, out):
    for i in range(eta.size):
        out[i] = table.remainder(terms, y[i], eta[i], h[i])


@njit(**OPTIONS)
def differences(terms, y, eta, h, new_h, out):
    for i in range(eta.size):
        out[i] = table.remainder(terms, y[i], eta[i], new_h[i]) - table.remainder(terms, y[i], eta[i], h[i])


@njit(**OPTIONS)
def values(terms, y, eta, out):
    for i in range(eta.size):
        out[i] = table.value(terms, y[i], eta[i])


@njit(**OPTIONS)
def thirds(terms, y, eta, out):
    for i in range(eta.size):
        out[i] = table.third(terms, y[i], eta[i])


@njit(**OPTIONS)
def bounds(terms, y, low, high, out):
    table.chunk_bounds(terms, y, low, high, out)


@njit(**OPTIONS)
def linear_predictors(terms, x, offset, theta, start, stop, eta):
    table.linear_predictors(terms, x, offset, theta, start, stop, eta)


def interpret(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType, **broken: Any) -> None:
    """Let Python run what only compiled code calls, so that parts of it can be broken; those of the last are given."""
    for module in modules:
        for name, part in list(vars(module).items()):
            if isinstance(part, _Inside):
                monkeypatch.setattr(module, name, part.py_func)
            elif isinstance(part, _Intrinsic) and name in globals():
                monkeypatch.setattr(module, name, globals()[name])
    for name, part in broken.items():
        monkeypatch.setattr(modules[-1], name, part)


def applied(loop, tag, *arguments):
    """What one of the loops above gives for arrays that are broadcast against one another."""
    arguments = np.broadcast_arrays(*arguments)
    out = np.empty(arguments[0].size)
    loop(tag.terms, *(np.array(one, dtype=float).ravel() for one in arguments), out)
    return out.reshape(arguments[0].shape)
