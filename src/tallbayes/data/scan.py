"""Rows that a function gives, frame by frame: from a database, a service, or files of any other kind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import Parameter, signature
from typing import Any

from tallbayes.data.names import listed, require
from tallbayes.data.pieces import Source
from tallbayes.data.sources import NoDataError, open_source
from tallbayes.data.streams import stream

WHAT = "the function given to tb.scan"


def scan(function: Callable[[], Iterable[Any]]) -> Source:
    """Data from a function that returns an iterator of frames, for data that are in no file and too large for memory.

    The frames are of pandas, polars or pyarrow, record batches, or dicts of arrays, of any number of rows, all with the
    same columns. The data are read several times: the function is called for each pass, and must return a new iterator
    over the same rows. It is called once at the start, for the names of the columns.

    >>> import pandas as pd
    >>> import tallbayes as tb
    >>> def quarters():
    ...     for quarter in range(4):  # such as one query each
    ...         yield pd.DataFrame({"paid": [1, 0], "quarter": quarter})
    >>> source = tb.scan(quarters)
    >>> source.names, [piece.columns["quarter"].to_pylist() for piece in source.pieces(["quarter"])]
    (['paid', 'quarter'], [[0, 0, 1, 1, 2, 2, 3, 3]])
    """
    if not callable(function):
        raise ValueError(
            f"tb.scan takes a function that returns an iterator of frames, not {type(function).__name__}: "
            "the data are read several times, and the function is called each time"
        )
    if needed := _arguments(function):
        raise ValueError(
            f"{WHAT} has the arguments {listed(needed)}, but is called without any; give tb.scan(lambda: f(...))"
        )
    frames = _Frames(function)
    names = next((frame.names for frame in frames.start()), None)
    if names is None:
        raise ValueError(f"{WHAT} returned no frames")

    def batches(wanted: Sequence[str]) -> Iterator[Any]:
        for number, frame in enumerate(frames.start()):
            if set(frame.names) != set(names):
                if number == 0:
                    raise ValueError(
                        f"{WHAT} returned the columns {listed(names)} the first time and {listed(frame.names)} later: "
                        "it must give the same columns each time"
                    )
                require(wanted, frame.names, f"frame {number} of {WHAT}")
            yield from as_arrow(frame.load(wanted), f"frame {number} of {WHAT}")

    return stream(WHAT, names, batches)._replace(called="what a function gives to tb.scan")


def _arguments(function: Callable[..., Any]) -> list[str]:
    """The arguments without which a function cannot be called."""
    try:
        known = signature(function).parameters.values()
    except (ValueError, TypeError):  # some of those written in C do not tell
        return []
    optional = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return [one.name for one in known if one.default is Parameter.empty and one.kind not in optional]


class _Frames:
    """The calls of a function; an iterator that it returned before is refused."""

    def __init__(self, function: Callable[[], Iterable[Any]]):
        self.function = function
        self.before: Any = None

    def start(self) -> Iterator[Source]:
        """The frames of another call, opened."""
        returned = self.function()
        if _is_frame(returned) or not isinstance(returned, Iterable):
            raise ValueError(
                f"{WHAT} returned {type(returned).__name__}; it must return an iterator of frames, "
                "such as iter([frame])"
            )
        if returned is self.before and isinstance(returned, Iterator):
            raise ValueError(
                f"{WHAT} returned the same iterator again, which has been read before; it must make a new one each time"
            )
        self.before = returned
        try:
            for number, frame in enumerate(returned):
                if not _is_frame(frame):
                    raise ValueError(f"frame {number} of {WHAT} is of type {type(frame).__name__}, not a data frame")
                yield open_source(frame)
        finally:
            if isinstance(returned, Iterator) and hasattr(returned, "close"):
                returned.close()  # its connection or file, even if it is left early


def _is_frame(value: Any) -> bool:
    """Whether a value holds rows and columns in memory."""
    if isinstance(value, str | bytes | os.PathLike | Iterator):
        return False
    try:
        return open_source(value).held
    except NoDataError:
        return False


def as_arrow(columns: dict[str, Any], where: str) -> list[Any]:
    """Columns of pandas or pyarrow as record batches; `where` is what messages call them."""
    import pandas as pd
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        if isinstance(values, pd.Series) and isinstance(values.dtype, pd.CategoricalDtype):
            kind = pd.api.types.infer_dtype(values.cat.categories)
            if kind not in ("string", "integer", "floating", "boolean", "empty"):
                values = values.cat.rename_categories(str)  # such as the intervals of pandas.cut
        try:
            arrays[name] = values if isinstance(values, pa.ChunkedArray) else pa.array(values, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise ValueError(
                f"column {name!r} of {where} has mixed content or content of a kind that cannot be "
                f"used; make it all numbers or all text ({error})"
            ) from error
    return pa.table(arrays).to_batches() if arrays else []
