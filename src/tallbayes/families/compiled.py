"""How loops are compiled: cached on disk, vectorised, and with elementary functions that LLVM can vectorise.

A call to libm's `exp` or `log1p` inside a loop keeps LLVM from using vector registers. The functions here are plain
arithmetic, so a loop around them becomes AVX code; they are accurate to a few units in the last place.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numba import extending, njit, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.pythonapi import _unboxers
from numba.core.registry import CPUDispatcher
from numba.core.types.functions import BaseFunction

from tallbayes.families.kept import Kept, Linked, known

# Sums may be reassociated (that is what vectorising a sum means) and a*b + c fused. NaN and infinity keep their
# meaning, so that bad numbers are seen rather than lost.
FAST = {"reassoc", "contract", "nsz", "arcp"}

# Python's division checks for zero, and the branch would keep a loop from being vectorised; NumPy's does not.
OPTIONS: Any = {"fastmath": FAST, "error_model": "numpy"}

# For functions that are called in loops with tuples of many arrays: no reference is counted, which costs more than what
# they do, and most when threads share the arrays. They and what they call may allocate nothing and return no array.
LEAN: Any = OPTIONS | {"_nrt": False}

Function = Callable[..., Any]
Compiled = Any  # callable, with the function as it was in `py_func`


def compiled(**options: Any) -> Callable[[Function], Compiled]:
    """`numba.njit` without the interpreter lock, cached on disk where some folder is writable."""

    def decorate(function: Function) -> Compiled:
        # What a lean function calls would be compiled like it, unless it says that it is not lean.
        settings = (
            {"nogil": True, "no_cfunc_wrapper": True, "_nrt": True, "pipeline_class": _Calling} | OPTIONS | options
        )
        result: Any = njit(**settings)(function)
        result.__class__ = _Compiled
        with suppress(RuntimeError):  # no folder to keep it: it is compiled anew in every process
            result._cache = Kept(function)
        return result

    return decorate


def inside(**options: Any) -> Callable[[Function], Compiled]:
    """For functions that only compiled code calls: they have no entry for Python, which takes long to compile."""

    def decorate(function: Function) -> Compiled:
        result = compiled(no_cpython_wrapper=True, pipeline_class=_Linking, **options)(function)
        result.__class__ = _Inside
        return result

    return decorate


_FUNCTIONS: Any = BaseFunction
_FIND = _FUNCTIONS.get_call_type
_TYPES: dict[Any, Any] = {}  # signatures by function, context and types of arguments


@contextmanager
def quickly() -> Iterator[None]:
    """For compiling, and for reading what was compiled, without what numba does in vain.

    Types that it has found before are looked up: for every `a * b` it would try all that a star may mean, for strings
    and lists too, before it comes to numbers. And no garbage is collected: the collector would go through all that
    numba builds, time and again.
    """
    with global_compiler_lock:  # one thread at a time, as numba has it
        on, before = gc.isenabled(), _FUNCTIONS.get_call_type
        gc.disable()
        if known():
            _FUNCTIONS.get_call_type = _remembered
        try:
            yield
        finally:
            _FUNCTIONS.get_call_type = before
            if on:
                gc.enable()


def _remembered(function: Any, context: Any, arguments: Any, named: Any) -> Any:
    """The signature with which a function of numba's is called."""
    key = function, context, tuple(arguments)
    found = None if named else _TYPES.get(key)
    if found is None:
        found = _FIND(function, context, arguments, named)
        # What numba compiles from Python sources depends on the options of its caller, and has another key.
        if not named and function.get_impl_key(found) is function.typing_key:
            _TYPES[key] = found
    return found


class _Compiled(CPUDispatcher):
    """A compiled function."""

    def compile(self, signature: Any) -> Any:
        with quickly():
            return super().compile(signature)


class _Inside(_Compiled):
    """A compiled function that refuses to be called by Python, where it would crash."""

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"only compiled code can call {self.py_func.__name__}; in Python use its py_func")


class _Called(JITCodeLibrary):
    """Code that Python calls, for much work at once: what takes its arguments apart need not be fast, but is long."""

    def add_ir_module(self, module: Any) -> None:
        for function in module.functions:
            if function.name.startswith("_ZN7cpython"):
                function.attributes.add("noinline")
                function.attributes.add("optnone")
        super().add_ir_module(module)


class _Pipeline(Compiler):
    """Numba's own, with a library from above where numba is known to be as that expects."""

    library: type[JITCodeLibrary]

    def define_pipelines(self) -> Any:
        if known():
            _take_generators()
            self.state.library = self.library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
        return super().define_pipelines()


class _Linking(_Pipeline):
    """For what only compiled code calls."""

    library = Linked


class _Calling(_Pipeline):
    """For what Python calls."""

    library = _Called


class _Uncounted:
    """What numba compiles an entry with, but for the references that it holds while a function runs."""

    def __init__(self, api: Any) -> None:
        self._api = api

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def nrt_meminfo_new_from_pyobject(self, data: Any, value: Any) -> Any:
        return data  # which is NULL


def _take_generators() -> None:
    """Have lean functions take generators without a reference, which they would never give back."""
    from numba.core import boxing  # here, since it is slow to import, and only needed to compile

    def take(kind: Any, value: Any, using: Any) -> Any:
        own = using if using.context.enable_nrt else using._replace(pyapi=_Uncounted(using.pyapi))
        return boxing.unbox_numpy_random_generator(kind, value, own)

    _unboxers.functions[types.NumPyRandomGeneratorType] = take


def small() -> None:
    """In a compiled function: compile it for size, not speed. Vectorised and unrolled, short loops are long code."""


@extending.type_callable(small)
def _type_small(context: Any) -> Any:
    return lambda: types.void


@extending.lower_builtin(small)
def _mark_small(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    builder.function.attributes.add("optsize")
    return context.get_dummy_value()


@inside(forceinline=True)
def exp_negative(t):
    """`exp(t)` for t <= 0, flushed to e^-708 below that.

    The relative error is below 5.5e-16 + 2.3e-16 |t|, and the absolute error below 4e-16.
    """
    return _power_of_two((-708.0 if t < -708.0 else t) * 1.4426950408889634)


@inside(forceinline=True)
def exp(t):
    """`exp(t)` for any t: flushed to e^-708 below -708, infinite above 709.4; the relative error is as above."""
    return _power_of_two(min(max(t, -708.0), 709.9) * 1.4426950408889634)


@inside(forceinline=True)
def _power_of_two(s):
    """2^s as 2^k times a polynomial for 2^r with |r| <= 1/2."""
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


@inside(forceinline=True)
def log1p_unit(e):
    """`log(1 + e)` for 0 <= e <= 1, as 2 atanh(s) with s = e / (2 + e) and a polynomial in s^2."""
    s = e / (2.0 + e)
    z = s * s
    z2 = z * z
    z4 = z2 * z2
    low = (1.0 + 0.33333333333341286 * z) + (0.199999999976438 + 0.1428571455582858 * z) * z2
    high = (0.11111095430673142 + 0.09091429900236955 * z) + (0.07681838124445817 + 0.06795652742789947 * z) * z2
    top = 0.04940394524382393 + 0.08890381913056651 * z
    return 2.0 * s * (low + (high + top * z4) * z4)


@inside(forceinline=True)
def log(x):
    """`log(x)` for x > 0, infinity and NaN, with an absolute error below 5e-16 (1 + |log x|) (not for denormal x)."""
    bits = np.float64(x).view(np.int64)
    mantissa = np.int64((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
    found = np.float64((bits >> 52) - 1023) * 0.6931471805599453 + log1p_unit(mantissa - 1.0)
    return found if x < np.inf else x  # the bits of a NaN would make a number


@inside(forceinline=True)
def normal_excess(x):
    """d1 = phi(x) / Phi(-x) - x for x >= 0: (x + 3.5) d1 is a polynomial in (x - 3.5) / (x + 3.5).

    The relative error is a few units in the last place, however large x is, where d1 is close to 1 / x.
    """
    near = 1.0 / (x + 3.5)
    q = 1.0 - 7.0 * near
    q2 = q * q
    q4 = q2 * q2
    q8 = q4 * q4
    a = (1.7597388540038985 - 1.0299783886096383 * q) + (0.2106962463446275 + 0.15371368344032244 * q) * q2
    b = (-0.10078958422195869 - 0.022180098761475267 * q) + (0.035587516161854925 + 0.0020298814180186426 * q) * q2
    c = (-0.01186264295934581 + 0.0002721706886635439 * q) + (0.0038677981312048183 - 0.00020438995789887694 * q) * q2
    d = (-0.0012315975639602139 + 5.557911525009608e-05 * q) + (0.0003761649589763652 - 4.407588148197393e-06 * q) * q2
    e = (-0.00010702603855924166 - 3.504963053939132e-06 * q) + (
        2.7205582095375212e-05 + 1.9250043983939845e-06 * q
    ) * q2
    f = (-5.78133137656462e-06 - 4.855515189017926e-07 * q) + (9.049905055026607e-07 + 5.436006651299007e-08 * q) * q2
    return near * ((a + b * q4) + (c + d * q4) * q8 + (e + f * q4 - 7.665294832106207e-08 * q8) * (q8 * q8))


@inside(forceinline=True)
def normal_fraction(x):
    """d1, d2 and d3 of the continued fraction  phi(x) / Phi(-x) = x + d1,  d1 = 1 / (x + d2),  d2 = 2 / (x + d3).

    For x >= 0, or an array of them: (x + 4) d3 is a polynomial in (x - 4) / (x + 4). As exact as `normal_excess`, which
    takes two divisions less.
    """
    near = 1.0 / (x + 4.0)
    q = 1.0 - 8.0 * near
    q2 = q * q
    q4 = q2 * q2
    q8 = q4 * q4
    a = (4.9956103568260035 - 2.1887353875146935 * q) + (-0.3532736303173831 + 0.6918035378060778 * q) * q2
    b = (0.06703090123417832 - 0.2810537796299377 * q) + (-0.03017304055087835 + 0.1267632400144463 * q) * q2
    c = (0.022038506689511555 - 0.059076591478942495 * q) + (-0.016849575615596152 + 0.02711458774814721 * q) * q2
    d = (0.011981057689272327 - 0.011753501256076512 * q) + (-0.007800044499377973 + 0.004577165482106579 * q) * q2
    e = (0.004641080554949202 - 0.001472598344001123 * q) + (-0.002503021478704055 + 0.0003164164400590743 * q) * q2
    f = (0.0011939344809497898 + 5.860928007458457e-07 * q) + (-0.0004792426629511202 - 3.230710659678647e-05 * q) * q2
    g = (0.00014876543816861403 + 1.2055825947037314e-05 * q) + (
        -3.0978606101587384e-05 - 1.6672908019776815e-06 * q
    ) * q2
    low, middle, high = a + b * q4, c + d * q4, e + f * q4
    d3 = near * (low + middle * q8 + (high + (g + 3.1740294220211553e-06 * q4) * q8) * (q8 * q8))
    d2 = 2.0 / (x + d3)
    return 1.0 / (x + d2), d2, d3
