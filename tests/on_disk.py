"""Rows on a disk, made from rows in memory."""

from __future__ import annotations

import copy
import tempfile
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np

from tallbayes.rows import disk, store
from tallbayes.rows.disk import DiskRows
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.room import Room
from tallbayes.rows.store import Fields, StoreWriter


class FewBlocks(ExitStack):
    """While it lasts, a chunk of a store has so many blocks: several chunks need fewer rows."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        for module, name, value in (
            (store, "BLOCKS", blocks),
            (store, "CHUNK_ROWS", blocks * LENGTH),
            (disk, "CHUNK_ROWS", blocks * LENGTH),
        ):
            self.enter_context(patch.object(module, name, value))


def on_disk(rows: MemoryRows, group: str) -> DiskRows:
    """The same rows on a disk; those in memory stay at hand for tests, as `arrays`."""
    arrays = rows.arrays
    names = tuple(arrays.strata)
    fields = Fields.of(arrays.columns, arrays.weights.size > 0, arrays.offset.size > 0, names, group, arrays.groups)
    columns = [*arrays.x, arrays.y, *(part for part in (arrays.weights, arrays.offset) if part.size)]
    columns += [level.astype(float) for level in arrays.strata.values()]
    with tempfile.TemporaryFile() as file:
        writer = StoreWriter(file, fields)
        for start in range(0, rows.size, store.CHUNK_ROWS):
            writer.add([np.asarray(column[start : start + store.CHUNK_ROWS], float) for column in columns])
        made = DiskRows(writer.finish(), Room.of("1GB"))
    made.arrays = arrays  # type: ignore[attr-defined]
    return made


def model_on_disk(model: Any) -> Any:
    """The same model of rows on a disk."""
    made = copy.copy(model)
    made.rows, made.twin = on_disk(model.rows, model.group), model
    vars(made).pop("first", None)
    return made
