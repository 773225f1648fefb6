"""Alias tables of groups: every row has its exact share, by enumeration."""

from itertools import pairwise

import numpy as np
import pytest
from measures import LENGTH, WEIGHTS

from tallbayes.groups.alias import tables


def built(weights, length=LENGTH):
    """The tables of groups of so many rows, where they start, and their totals."""
    weights = np.asarray(weights, float)
    starts = np.append(np.arange(0, weights.size, length), weights.size)
    table, totals = np.empty((weights.size, 2)), np.empty(starts.size - 1)
    tables(weights, starts, table, totals, 0, totals.size)
    return table, starts, totals


def shares(table):
    """How often each entry of an alias table comes, by enumeration."""
    probability, partner, n = table[:, 0], table[:, 1].astype(int), len(table)
    assert ((partner >= 0) & (partner < n)).all()
    assert ((probability >= 0) & (probability <= 1 + 1e-9)).all()  # what is above 1 counts as 1
    keep = np.minimum(probability, 1)
    return (keep + np.bincount(partner, 1 - keep, minlength=n)) / n


def assert_every_row_has_its_share(weights, length=LENGTH):
    table, starts, totals = built(weights, length)
    for group, (start, stop) in enumerate(pairwise(starts)):
        part = weights[start:stop]
        assert totals[group] == pytest.approx(part.sum(), rel=1e-12)
        if totals[group] == 0:  # then its table is not written
            continue
        # A row below its group's mean has a product of its own; one above it is what subtractions leave of a number
        # above 1, with one rounding (eps) for every partner.
        expected, found = part / part.sum(), shares(table[start:stop])
        assert (np.abs(found - expected) <= 1e-12 * expected).all()
        assert (found[part == 0] == 0).all()


@pytest.mark.parametrize("length", [LENGTH, 1_000])
@pytest.mark.parametrize("name", WEIGHTS)
def test_tables_give_every_row_its_share(name, length):
    assert_every_row_has_its_share(WEIGHTS[name], length)


def test_tables_of_random_weights():
    rng = np.random.default_rng(5)
    for _ in range(300):
        weights = rng.gamma(rng.choice([0.05, 1, 20]), size=rng.integers(1, 400))
        weights[rng.random(weights.size) < rng.random()] = 0
        weights[rng.integers(weights.size)] = 1.0
        assert_every_row_has_its_share(weights, length=int(rng.integers(1, 100)))
