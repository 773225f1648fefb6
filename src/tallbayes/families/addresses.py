"""Compiled functions that call each other through their addresses, so that each is compiled once.

A function that calls another one in the usual way has all of its code, and is optimised with it once more; so has
whoever calls that function. A call through an address costs a few nanoseconds, and the caller is compiled without what
it calls. The addresses come in a table, an array that is given to compiled code by whoever calls it from Python: were
they part of the code, it could not be kept on disk.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from zlib import crc32

import numpy as np
from llvmlite import ir
from numba import extending, typeof, types
from numba.core import event, sigutils
from numba.core.ccallback import CFunc
from numba.core.errors import TypingError
from numpy.typing import NDArray

from tallbayes.families.compiled import LEAN, OPTIONS, quickly
from tallbayes.families.kept import Kept

NUMBER, INTEGER, TRUTH, NOTHING = types.float64, types.int64, types.boolean, types.void
COLUMN, MATRIX, INTEGERS = (types.Array(kind, n, "C") for kind, n in ((NUMBER, 1), (NUMBER, 2), (INTEGER, 1)))
TABLE = types.Array(types.intp, 1, "C")
GENERATOR = typeof(np.random.default_rng(0))
PLACES = 1 << 12  # in a table; most are empty


def struct(name: type, *kinds: Any) -> Any:
    """The type of a NamedTuple with fields of these types."""
    return types.BaseTuple.from_types(kinds, name)


class Entry:
    """A function with a declared signature, compiled when its address is first asked for."""

    def __init__(self, function: Callable[..., Any], signature: Any, options: Any = OPTIONS) -> None:
        self.function, self.signature, self._options = function, signature, options
        self._compiled: Any = None

    @property
    def address(self) -> int:
        """Where the compiled function is."""
        if self._compiled is None:
            with event.trigger_event("numba:compile", {"function": self.function}), quickly():
                made: Any = CFunc(self.function, sigutils.normalize_signature(self.signature), {}, self._options)
                with suppress(RuntimeError):  # no folder to keep it: it is compiled anew in every process
                    made._cache = Kept(self.function)
                made.compile()
                self._compiled = made
        return int(self._compiled.address)


def call_at(place: int, signature: Any) -> Any:
    """What an intrinsic needs to call the function at some place of the table that is its first argument.

    The function itself is given the table if that is the first of the signature.
    """
    given = signature.args[1:] if signature.args[:1] == (TABLE,) else signature.args

    def typing(context: Any, *arguments: Any) -> Any:
        # Numba would pass on any array, also one of another layout.
        for kind, expected in zip(arguments, (TABLE, *given), strict=True):
            if context.can_convert(kind, expected) is None:
                raise TypingError(f"expected {expected}, not {kind}")

        def code(context: Any, builder: Any, typed: Any, values: Any) -> Any:
            data = context.make_array(TABLE)(context, builder, values[0]).data
            address = builder.load(builder.gep(data, [ir.Constant(ir.IntType(64), place)]))
            kinds = [context.get_value_type(kind) for kind in signature.args]
            function = ir.FunctionType(context.get_value_type(signature.return_type), kinds)
            found = builder.call(builder.inttoptr(address, function.as_pointer()), values[-len(kinds) :])
            return context.get_dummy_value() if signature.return_type == types.void else found

        return signature.return_type(TABLE, *given), code

    return typing


class Table:
    """Functions by their places; it may begin with those of other tables, and then serves in their stead.

    The place of a function follows from its name. Were they in the order in which they are declared, code
    that was compiled before a function was added in another file, and kept on disk, would call the wrong ones.
    """

    def __init__(self, *before: Table) -> None:
        self._entries: dict[int, Entry] = {place: entry for one in before for place, entry in one._entries.items()}
        self._addresses: NDArray[np.intp] | None = None

    @property
    def addresses(self) -> NDArray[np.intp]:
        """For compiled code; all functions are compiled when this is first asked for."""
        if self._addresses is None:
            found = np.zeros(PLACES, dtype=np.intp)
            for place, entry in self._entries.items():
                found[place] = entry.address
            self._addresses = found
        return self._addresses

    def entry(self, returned: Any, *kinds: Any, options: Any = LEAN) -> Callable[[Callable[..., Any]], Any]:
        """Declare a function with arguments of these kinds; compiled code calls it with the table before them.

        It may allocate nothing, unless options say otherwise. If it calls others, it is given the table too, as the
        first argument of its own.
        """

        def decorate(function: Callable[..., Any]) -> Any:
            names = list(inspect.signature(function).parameters)
            signature = returned(TABLE, *kinds) if names[0] == "table" else returned(*kinds)
            assert len(names) == len(signature.args)
            place = crc32(f"{function.__module__}.{function.__name__}".encode()) % PLACES
            assert place not in self._entries, "two functions in one place: change PLACES"
            self._entries[place] = Entry(function, signature, options)
            typing = call_at(place, signature)
            names = ["context", "table", *(name for name in names if name != "table")]
            one = inspect.Parameter.POSITIONAL_OR_KEYWORD
            typing.__signature__ = inspect.Signature([inspect.Parameter(name, one) for name in names])
            typing.__name__, typing.__doc__ = function.__name__, function.__doc__
            found: Any = extending.intrinsic(typing)
            found.py_func = function
            return found

        return decorate
