"""What travels between machines, and into files: plain values and tallbayes' own as text, arrays as their bytes.

A message can hold None, numbers, texts, bytes, lists, tuples, dicts, arrays, random generators, pandas' categories, and
values of tallbayes' own classes by the name of the class; reading one runs no code but theirs. Nothing is pickled but a
user's own functions, which a driver sends to its workers; in what workers send, and in files, they are refused.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PACKAGE = "tallbayes"


class Message(NamedTuple):
    """A value taken apart: a text, and the arrays that it refers to by their numbers."""

    text: str
    arrays: list[NDArray[Any]]

    @property
    def size(self) -> int:
        """Bytes that travel."""
        return len(self.text) + sum(array.nbytes for array in self.arrays)


def pack(value: Any, functions: bool = True) -> Message:
    """Take a value apart; without `functions`, TypeError is raised where it holds one of a user's.

    >>> message = pack({"theta": np.ones(2), "names": ("a", "b")})
    >>> message.text
    '["dict", [["theta", ["array", 0]], ["names", ["tuple", ["a", "b"]]]]]'
    >>> unpack(message)
    {'theta': array([1., 1.]), 'names': ('a', 'b')}
    """
    arrays = _Arrays([], functions)
    return Message(json.dumps(_taken(value, arrays)), list(arrays))


def unpack(message: Message | Sequence[Any], functions: bool = False) -> Any:
    """Put a value together, with arrays of its own: compiled code wants those that it could write to.

    With `functions`, it may hold those of a user: reading these runs what the sender wants.
    """
    text, arrays = message
    return _put(json.loads(text), _Arrays(arrays, functions))


def _taken(value: Any, arrays: _Arrays) -> Any:
    """Fit for JSON: what JSON does not know is a list whose first entry says what it is."""
    if value is None or isinstance(value, bool | str):
        return value
    if type(value) is int:
        return value if abs(value) < 2**53 else ["int", str(value)]
    if type(value) is float:
        return ["float", value.hex()]
    if isinstance(value, np.generic):
        return ["scalar", _taken(np.asarray(value), arrays)]
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return ["objects", [_taken(one, arrays) for one in value.ravel()], list(value.shape)]
        own = np.ascontiguousarray(value).reshape(value.shape).view()
        own.flags.writeable = False  # so that whoever gets it, perhaps in this process, has to copy it
        arrays.append(own)
        return ["array", len(arrays) - 1]
    if isinstance(value, bytes):
        arrays.append(np.frombuffer(value, np.uint8))
        return ["bytes", len(arrays) - 1]
    if type(value) in (list, tuple):
        return [type(value).__name__, [_taken(one, arrays) for one in value]]
    if isinstance(value, Mapping):
        return ["dict", [[_taken(key, arrays), _taken(one, arrays)] for key, one in value.items()]]
    if isinstance(value, range):
        return ["range", [value.start, value.stop, value.step]]
    if isinstance(value, np.random.Generator):
        return ["generator", _taken(value.bit_generator.state, arrays)]
    kind = type(value)
    if kind.__module__.partition(".")[0] == PACKAGE:
        name = f"{kind.__module__}:{kind.__qualname__}"
        if isinstance(value, tuple):  # a NamedTuple
            return ["named", name, [_taken(one, arrays) for one in value]]
        return ["own", name, _taken(vars(value), arrays)]
    if kind.__module__.partition(".")[0] == "pandas":
        return _taken_of_pandas(value, arrays)
    if arrays.functions and (hasattr(value, "__code__") or hasattr(value, "py_func")):  # of Python, or of Numba
        arrays.append(np.frombuffer(_pickled(value), np.uint8))
        return ["function", len(arrays) - 1]
    raise TypeError(f"a value of type {kind.__module__}.{kind.__qualname__} cannot travel to another machine")


@lru_cache(16)
def _pickled(function: Any) -> bytes:
    """A function as bytes, also one that no other machine can import, if there is what pickles those."""
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(function)
    return bytes(cloudpickle.dumps(function))


@lru_cache(16)
def _unpickled(function: bytes) -> Any:
    """The function; the same one for the same bytes, so that nobody compiles it again and again."""
    try:
        return pickle.loads(function)
    except ImportError as error:
        raise ValueError(
            f"a worker cannot import what a function of yours needs ({error}); install it there, or define the "
            "function in the script or notebook itself"
        ) from error


class _Arrays(list[NDArray[Any]]):
    """The arrays of a message, and whether it may hold functions."""

    def __init__(self, arrays: Sequence[NDArray[Any]], functions: bool) -> None:
        super().__init__(arrays)
        self.functions = functions

    def function(self, place: int) -> Any:
        """A function of the user's."""
        if not self.functions:
            raise ValueError("a message holds a function where none may be")
        return _unpickled(self[place].tobytes())


def _taken_of_pandas(value: Any, arrays: _Arrays) -> Any:
    import pandas as pd

    if isinstance(value, pd.Categorical):
        codes, categories = _taken(value.codes, arrays), _taken(value.categories.to_numpy(), arrays)
        return ["categories", codes, categories, bool(value.ordered)]
    if isinstance(value, pd.Index):
        return ["index", _taken(value.to_numpy(), arrays)]
    raise TypeError(f"a value of type pandas.{type(value).__name__} cannot travel to another machine")


def _put(value: Any, arrays: _Arrays) -> Any:
    if not isinstance(value, list):
        return value
    kind, first, *others = value
    if kind in ("list", "tuple"):
        parts = [_put(one, arrays) for one in first]
        return parts if kind == "list" else tuple(parts)
    if kind == "dict":
        return {_put(key, arrays): _put(one, arrays) for key, one in first}
    if kind == "named":
        return _class(first, tuple)(*(_put(one, arrays) for one in others[0]))
    if kind == "own":
        found: Any = object.__new__(_class(first))
        vars(found).update(_put(others[0], arrays))
        return found
    if kind in ("categories", "index"):
        return _put_for_pandas(kind, [_put(one, arrays) for one in (first, *others)])
    if kind == "objects":
        objects = np.empty(len(first), object)
        objects[:] = [_put(one, arrays) for one in first]
        return objects.reshape(others[0])
    return _PLAIN[kind](first, arrays)


def _put_for_pandas(kind: str, parts: list[Any]) -> Any:
    import pandas as pd

    if kind == "index":
        return pd.Index(parts[0])
    codes, categories, ordered = parts
    return pd.Categorical.from_codes(codes, pd.Index(categories), ordered=ordered)


_PLAIN: dict[str, Any] = {
    "int": lambda first, arrays: int(first),
    "float": lambda first, arrays: float.fromhex(first),
    "scalar": lambda first, arrays: _put(first, arrays)[()],
    "array": lambda first, arrays: arrays[first] if arrays[first].flags.writeable else arrays[first].copy(),
    "bytes": lambda first, arrays: bytes(arrays[first]),
    "function": lambda first, arrays: arrays.function(first),
    "range": lambda first, arrays: range(*first),
    "generator": lambda first, arrays: _generator(_put(first, arrays)),
}


def _generator(state: dict[str, Any]) -> np.random.Generator:
    """A generator in this state; one that has not spawned others yet."""
    found = np.random.Generator(np.random.PCG64(0))
    found.bit_generator.state = state
    return found


def _class(name: str, kind: type = object) -> type:
    """A class of tallbayes' own, of some kind: making one of any other might do anything."""
    module, _, qualified = name.partition(":")
    if module.partition(".")[0] != PACKAGE:
        raise ValueError(f"a message names {name!r}, which is none of tallbayes' own classes")
    found: Any = import_module(module)
    for part in qualified.split("."):
        found = getattr(found, part)
    if not (isinstance(found, type) and issubclass(found, kind)):
        raise ValueError(f"a message names {name!r}, which is no class of {kind.__name__}s")
    return found
