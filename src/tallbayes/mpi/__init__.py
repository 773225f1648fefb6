"""Fits by all ranks of MPI: `mpiexec -n 4 python -m tallbayes.mpi fit loans/ "foreclosed ~ fico"`, or with `run`.

Rank 0 runs the program, and all ranks hold rows and make passes over them. The draws are those of one machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Callable[[Any], T], comm: Any = None) -> T | None:
    """Call `main(engine)` on rank 0 and give its result back; on other ranks serve until it ends, and give None.

    Without mpiexec there is one rank. `comm` is a communicator of mpi4py, all ranks unless given.

    >>> run(lambda engine: engine.name)
    'mpi'
    """
    from tallbayes.engines.mpi_link import mpi
    from tallbayes.engines.mpi_rank import serve
    from tallbayes.engines.on_mpi import MPIEngine

    comm = mpi().COMM_WORLD if comm is None else comm
    if comm.rank:
        serve(comm)
        return None
    engine = MPIEngine(comm)
    try:
        return main(engine)
    finally:
        engine.close()


def command_line() -> None:
    """The command line, whose fits are made by all ranks."""
    from tallbayes.cli import main

    run(lambda engine: main(obj=engine, prog_name="tallbayes"))
