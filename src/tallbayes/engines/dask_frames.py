"""Dask frames: their parts are read by those who have them, and cut into runs of whole pieces on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallbayes.data.frames import names_and_dates
from tallbayes.data.scan import as_arrow
from tallbayes.data.sources import open_source
from tallbayes.engines.engine import Handle
from tallbayes.engines.on_dask import DaskEngine
from tallbayes.engines.preparing import Elsewhere, lengths
from tallbayes.engines.work import Sent, written


def is_dask_frame(data: Any) -> bool:
    """Whether data are a frame of Dask.

    >>> is_dask_frame({"x": [1, 2]})
    False
    """
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(data, "to_delayed")


@dataclass(frozen=True)
class InDask(Elsewhere):
    """A Dask frame."""

    engine: DaskEngine
    frame: Any

    @property
    def names(self) -> list[str]:
        """See `Elsewhere`."""
        return [str(name) for name in self.frame.columns]

    def dates(self) -> list[str]:
        """See `Elsewhere`."""
        return list(names_and_dates(self.frame._meta)[2])

    def stretches(self, wanted: Sequence[str]) -> tuple[list[Handle], list[int]]:
        """See `Elsewhere`: each run is made of rows of one part of the frame or several."""
        places = [self.names.index(name) for name in wanted] or [0]
        parts = self.engine.client.compute(self.frame.iloc[:, places].to_delayed())
        ends = np.cumsum([0, *self.engine.results(self.engine.submit("length", len, parts))])
        self.engine.rounds += 1
        if not ends[-1]:
            raise ValueError("the data has no rows")
        runs = list(self.cut(int(ends[-1])))
        chosen = [self._run(parts, ends, *run) for run in runs]
        given = [list(column) for column in zip(*chosen, strict=True)]
        names, firsts = [list(wanted)] * len(runs), [first for first, _ in runs]
        return self.engine.submit("cut", cut_out, *given, names, firsts), lengths(runs)

    def _run(self, parts: Sequence[Any], ends: Any, first: int, last: int) -> tuple[list[Any], list[int], list[int]]:
        """The parts that the rows first..last are of, and where these begin and end in each."""
        chosen = [
            (part, max(first, begin) - begin, min(last, end) - begin)
            for part, begin, end in zip(parts, ends[:-1].tolist(), ends[1:].tolist(), strict=True)
            if max(first, begin) < min(last, end)
        ]
        frames, begins, stops = (list(column) for column in zip(*chosen, strict=True))
        return frames, begins, stops


def cut_out(frames: Sequence[Any], begins: Sequence[int], ends: Sequence[int], names: list[str], first: int) -> Sent:
    """Rows of frames that follow each other."""
    batches = []
    for frame, begin, end in zip(frames, begins, ends, strict=True):
        rows = frame.iloc[begin:end]
        rows.columns = names or rows.columns
        batches += as_arrow(open_source(rows).load(list(rows.columns)), "the Dask frame")
    return Sent([str(name) for name in batches[0].schema.names], written(batches), first)
