"""From what a user gives as `engine=` to data that its workers read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from tallbayes.data.options import shown
from tallbayes.data.source_names import called
from tallbayes.data.sources import opened
from tallbayes.data.texts import USUAL, Texts
from tallbayes.engines.dask_frames import InDask, is_dask_frame
from tallbayes.engines.preparing import remote, source_of

PATIENCE = 10  # seconds until a scheduler has answered


@contextmanager
def on_engine(engine: Any, data: Any, texts: Texts = USUAL) -> Iterator[Any]:
    """The data as its workers have them: those of an engine, a Dask client, or the address of a Dask scheduler.

    Without an engine, a frame of Dask is with the client that Dask uses; other data stay as they are, or are opened if
    something is said of `texts`.

    >>> with on_engine(None, "loans.csv") as data:
    ...     data
    'loans.csv'
    """
    if engine is None and not is_dask_frame(data):
        yield opened(data, texts)
        return
    if engine is not None and hasattr(engine, "ask"):
        if is_dask_frame(data):
            raise ValueError("a Dask frame needs Dask's workers; give engine= a Dask client, or the frame as files")
        yield remote(engine, data, texts)
        return
    from_dask = _dask()
    given = engine
    if engine is None:
        try:
            engine = from_dask.get_client()
        except ValueError:
            raise ValueError(
                "data is a Dask frame, but there is no Dask client: make one, client = distributed.Client(...)"
            ) from None
    elif isinstance(engine, str):
        try:
            engine = _client(from_dask, engine)
        except Exception as error:  # of whatever answers there instead
            why = str(error) or "whatever answers there is something else"
            raise ValueError(f"no Dask scheduler answers at {shown(given)}: {why}") from error
    if not isinstance(engine, from_dask.Client):
        raise ValueError(
            "engine= takes a Dask client, the address of a Dask scheduler such as 'tcp://10.0.0.1:8786', or the engine "
            f"of tb.mpi.run, not {type(given).__name__}"
        )
    if engine.status in ("closing", "closed"):
        raise ValueError("the Dask client of engine= is closed; give one that is open, engine=distributed.Client(...)")
    from tallbayes.engines.on_dask import DaskEngine

    try:
        own = DaskEngine(engine)
        if is_dask_frame(data):
            frame = InDask(own, data)
            yield source_of(frame.names, None, frame, called(data))
        else:
            yield remote(own, data, texts)
    finally:
        if isinstance(given, str):
            engine.close()


def _client(from_dask: Any, address: str) -> Any:
    """The client of a scheduler. Dask would wait forever for something else that listens there and says nothing."""
    made = Future[Any]()

    def make() -> None:
        try:
            made.set_result(from_dask.Client(address, timeout=PATIENCE, set_as_default=False))
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=make, daemon=True).start()
    return made.result(2 * PATIENCE)  # whatever becomes of it


def _dask() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ValueError("engine= needs Dask; install it: pip install 'tallbayes[dask]'") from error
    return distributed
