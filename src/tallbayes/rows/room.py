"""How much memory rows may take, and where they lie if they take more."""

from __future__ import annotations

from typing import NamedTuple


class Room(NamedTuple):
    """Bytes of memory that rows may take, and the folder for those that need more; None is one that vanishes."""

    memory: int
    folder: str | None = None


ROOM = Room(1 << 62)  # all that there is
