"""Alias tables: rows of a group drawn with probabilities in proportion to a weight, each in a few nanoseconds.

A table of n entries holds for every row a probability and a partner: pick an entry uniformly, keep it with its
probability, else take its partner (A. J. Walker, 1977; M. D. Vose, 1991). There is one table a group.
"""

from __future__ import annotations

import numpy as np

from tallbayes.families.compiled import compiled, inside


@inside(inline="always")
def _table(weights, table, stack):
    """The alias table of some weights, (probability, partner) side by side in memory; returns their sum."""
    n, total = weights.size, 0.0
    for i in range(n):
        total += weights[i]
    if total == 0.0:
        return total
    small, large = 0, n  # stacks of the indices below and above the mean grow from both ends
    for i in range(n):
        table[i, 0], table[i, 1] = weights[i] * (n / total), i
        if table[i, 0] < 1.0:
            stack[small] = i
            small += 1
        else:
            large -= 1
            stack[large] = i
    while small > 0 and large < n:
        small -= 1
        low, high = stack[small], stack[large]
        table[low, 1] = high
        table[high, 0] -= 1.0 - table[low, 0]
        if table[high, 0] < 1.0:
            large += 1
            stack[small] = high
            small += 1
    for k in range(small):  # what rounding left over is one
        table[stack[k], 0] = 1.0
    return total


@compiled()
def tables(weights, starts, table, totals, begin, end):
    """One table a block, of the rows from its start to that of the next; and the sum of each block's weights."""
    for block in range(begin, end):
        start, stop = starts[block], starts[block + 1]
        totals[block] = _table(weights[start:stop], table[start:stop], np.empty(stop - start, np.int32))
