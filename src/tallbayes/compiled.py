"""How loops are compiled: cached on disk, vectorised, and with elementary functions that LLVM can vectorise.

A call to libm's `exp` or `log1p` inside a loop keeps LLVM from using vector registers. The two functions here are
plain arithmetic, so a loop around them becomes AVX code; both are accurate to a few units in the last place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

# Sums may be reassociated (that is what vectorising a sum means) and a*b + c fused. NaN and infinity keep their
# meaning, so that bad numbers are seen rather than lost.
FAST = {"reassoc", "contract", "nsz", "arcp"}

# Python's division checks for zero, and the branch would keep a loop from being vectorised; NumPy's does not.
OPTIONS: Any = {"fastmath": FAST, "error_model": "numpy"}

Function = Callable[..., Any]


def compiled(**options: Any) -> Callable[[Function], Function]:
    """`numba.njit` without the interpreter lock, cached on disk where some folder is writable."""

    def decorate(function: Function) -> Function:
        settings = {"nogil": True} | OPTIONS | options
        try:
            result: Function = njit(cache=True, **settings)(function)
        except RuntimeError:  # no writable cache folder: compile anew in every process
            result = njit(**settings)(function)
        return result

    return decorate


@njit(inline="always")
def exp_negative(t):  # type: ignore[no-untyped-def]
    """`exp(t)` for t <= 0: 2^k times a polynomial for 2^r with |r| <= 1/2; flushed to e^-708 below that.

    The relative error is below 5.5e-16 + 2.3e-16 |t|, and the absolute error below 4e-16.
    """
    s = max(t, -708.0) * 1.4426950408889634
    k = np.rint(s)
    r = s - k
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + 0.69314718055995 * r) + (0.24022650695910097 + 0.05550410866444772 * r) * r2
    middle = (0.009618129107606888 + 0.0013333558230164974 * r) + (
        0.0001540353044173605 + 1.5252657260200837e-05 * r
    ) * r2
    high = (1.321544258792169e-06 + 1.0208690299958306e-07 * r) + 7.072585949269224e-09 * r2
    power = (np.int64(k) + 1023) << 52
    return (low + (middle + high * r4) * r4) * np.int64(power).view(np.float64)


@njit(inline="always")
def log1p_unit(e):  # type: ignore[no-untyped-def]
    """`log(1 + e)` for 0 <= e <= 1, as 2 atanh(s) with s = e / (2 + e) and a polynomial in s^2."""
    s = e / (2.0 + e)
    z = s * s
    z2 = z * z
    z4 = z2 * z2
    low = (1.0 + 0.33333333333341286 * z) + (0.199999999976438 + 0.1428571455582858 * z) * z2
    high = (0.11111095430673142 + 0.09091429900236955 * z) + (0.07681838124445817 + 0.06795652742789947 * z) * z2
    top = 0.04940394524382393 + 0.08890381913056651 * z
    return 2.0 * s * (low + (high + top * z4) * z4)
