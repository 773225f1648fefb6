"""The same rows on a disk."""

import numpy as np

from tallbayes.rows.cutting import Chunks
from tallbayes.rows.disk import DiskRows
from tallbayes.rows.duplicates import Columns
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.room import Room
from tallbayes.rows.store import Fields


def on_disk(rows: MemoryRows, room: Room | None = None) -> DiskRows:
    arrays, room = rows.arrays, room or Room(10**9)
    group = next((name for name, levels in arrays.strata.items() if np.array_equal(levels, arrays.codes)), None)
    weights, offset = (part if part.size else None for part in (arrays.weights, arrays.offset))
    optional = weights is not None, offset is not None
    chunks = Chunks(None, Fields.of(rows.columns, *optional, rows.strata, group, rows.groups), room)
    chunks.add(Columns(arrays.x, arrays.y, weights, offset, arrays.strata))
    return DiskRows(chunks.finish(), room)
