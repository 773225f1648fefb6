"""Chains that share the passes in which their rows are drawn: they take turns, one for each pool.

Were one chain to go on alone, the pools that it asks for would have to be kept for the others, or be drawn again.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tallbayes.rows import threads


def take_turns(turn: Callable[[int], bool], chains: int) -> None:
    """Call turn(chain) for every chain, in threads, and again for those that it says are not done.

    >>> left = [1, 3]
    >>> def turn(chain):
    ...     left[chain] -= 1
    ...     return left[chain] == 0
    >>> take_turns(turn, 2)
    >>> left
    [0, 0]
    """
    waiting, workers = list(range(chains)), min(chains, threads.count())
    if workers == 1:
        while waiting:
            waiting = [chain for chain in waiting if not turn(chain)]
        return
    with ThreadPoolExecutor(workers) as pool:
        while waiting:
            waiting = [chain for chain, done in zip(waiting, pool.map(turn, waiting), strict=True) if not done]
