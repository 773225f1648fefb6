"""The same rows on a disk."""

from __future__ import annotations

import copy
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np

from tallbayes.rows import cutting, disk, store
from tallbayes.rows.cutting import Chunks
from tallbayes.rows.disk import DiskRows
from tallbayes.rows.duplicates import Columns
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.room import Room
from tallbayes.rows.store import Fields


class FewBlocks(ExitStack):
    """While it lasts, a chunk of a store has so many blocks: several chunks need fewer rows."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.enter_context(patch.object(store, "BLOCKS", blocks))
        for module in (store, disk, cutting):
            self.enter_context(patch.object(module, "CHUNK_ROWS", blocks * LENGTH))


def on_disk(rows: MemoryRows, room: Room | None = None) -> DiskRows:
    """The same rows on a disk."""
    arrays, room = rows.arrays, room or Room(10**9)
    group = next((name for name, levels in arrays.strata.items() if np.array_equal(levels, arrays.codes)), None)
    weights, offset = (part if part.size else None for part in (arrays.weights, arrays.offset))
    optional = weights is not None, offset is not None
    chunks = Chunks(None, Fields.of(rows.columns, *optional, rows.strata, group, rows.groups), room)
    chunks.add(Columns(arrays.x, arrays.y, weights, offset, arrays.strata))
    return DiskRows(chunks.finish(), room)


def model_on_disk(model: Any) -> Any:
    """The same model of rows on a disk; its twin's rows in memory stay at hand for tests, as `rows.arrays`."""
    made = copy.copy(model)
    made.rows, made.twin = on_disk(model.rows), model
    made.rows.arrays = model.rows.arrays
    vars(made).pop("first", None)
    return made
