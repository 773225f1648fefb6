"""Random numbers of blocks: each block has its own, whoever looks at it and whatever was looked at before."""

from __future__ import annotations

import numpy as np


def of_block(key: tuple[int, int], block: int) -> np.random.Generator:
    """The random numbers of a block; the same key gives the same.

    >>> bool(of_block((1, 0), 7).random() == of_block((1, 0), 7).random())
    True
    >>> bool(of_block((1, 0), 7).random() == of_block((1, 0), 8).random())
    False
    """
    words = np.array(key, dtype=np.uint64), np.array([0, 0, 0, block], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=words[0], counter=words[1]))
