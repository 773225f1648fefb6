"""The compiled moves of splines whose coefficients are integrated out (see `collapsed.py` for what they are).

A place of a chain is (k, lambda), the bases, their columns on the points, and the products A and r of these columns.
Its log weight is that of its posterior, without the prior of the number of bases.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.addresses import COLUMN, GENERATOR, INTEGER, MATRIX, NOTHING, NUMBER, TRUTH, Table, struct
from tallbayes.families.compiled import LEAN, compiled
from tallbayes.splines.basis import REFERENCE, WIDTH, Reference, fill, gamma, try_basis, uniform, vary_basis
from tallbayes.splines.guide import GUIDE, GUIDES, Guide, log_gain, try_guided
from tallbayes.splines.joint import (
    GAUSSIAN,
    PRODUCTS,
    Gaussian,
    Products,
    copy_products,
    draw,
    find,
    put_column,
)
from tallbayes.splines.places import PLACES, copy, drop_basis
from tallbayes.splines.quadratic import QUADRATIC, Quadratic
from tallbayes.splines.tables import SCRATCH, TABLES, sum_of

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

BIRTH, DEATH, CHANGE, VARY, SCALE = 0, 1, 2, 3, 4  # kinds of moves
GUIDED = 5  # and from this number on births, deaths and changes with a guide
KINDS = 8
LOOKING = [BIRTH, CHANGE, VARY, GUIDED + BIRTH, GUIDED + CHANGE]  # need the column of a basis on the points


class Law(NamedTuple):
    """The prior, and how often each kind of move is picked."""

    reference: Reference
    log_k: Array  # (K + 1,) log prior of the number of bases
    intercept_sd: float
    shape: float  # of the Gamma prior of lambda
    rate: float
    moves: Array  # (KINDS,) cumulative probabilities of the kinds of moves
    guide: Guide


class Place(NamedTuple):
    """Where a chain is."""

    head: Array  # (2,) k, lambda
    coefficients: Array  # (K + 1,) as last drawn
    bases: Array  # (K, WIDTH)
    columns: Array  # (K + 1, points) that of the intercept first
    products: Products
    values: Array  # (2,) log weight, and L* of the coefficients

    @classmethod
    def empty(cls, most: int, points: int) -> Place:
        """Room for one."""
        columns, products = np.zeros((most + 1, points)), Products.empty(most)
        return cls(np.zeros(2), np.zeros(most + 1), np.zeros((most, WIDTH)), columns, products, np.zeros(2))


class Room(NamedTuple):
    """What a move is proposed in."""

    basis: Array  # (WIDTH,)
    column: Array  # (points,) of the new basis
    products: Products  # after it
    gaussian: Gaussian  # of the coefficients after it
    spare: Array  # (points,)
    buffer: Array  # (reference rows,)
    scratch: Array  # (SCRATCH,)
    before: Array  # (K + 1,) coefficients before a step

    @classmethod
    def empty(cls, most: int, points: int, reference: int) -> Room:
        """Room for one."""
        columns = np.zeros(points), np.zeros(reference), np.zeros(SCRATCH), np.zeros(most + 1)
        return cls(np.zeros(WIDTH), np.zeros(points), Products.empty(most), Gaussian.empty(most), *columns)


LAW = struct(Law, REFERENCE, COLUMN, NUMBER, NUMBER, NUMBER, COLUMN, GUIDE)
PLACE = struct(Place, COLUMN, COLUMN, MATRIX, MATRIX, PRODUCTS, COLUMN)
ROOM = struct(Room, COLUMN, COLUMN, PRODUCTS, GAUSSIAN, COLUMN, COLUMN, COLUMN, COLUMN)
COLLAPSED = Table(PLACES, TABLES, GUIDES)


@COLLAPSED.entry(NUMBER, LAW, PRODUCTS, INTEGER, NUMBER, GAUSSIAN)
def log_weight(table, law, products, size, precision, gaussian):
    """Log of the integral over `size` coefficients, besides a constant; their Gaussian is written down.

    That is r'(A + P)^-1 r / 2 - log|A + P| / 2 + log|P| / 2, with P the precision of the prior.
    """
    if not find(table, products, size, law.intercept_sd**-2, precision, gaussian):
        return -np.inf
    total = 0.5 * (size - 1) * math.log(precision)
    for j in range(size):
        total += 0.5 * products.slope[j] * gaussian.mean[j] - math.log(gaussian.factor[j, j])
    return total


@COLLAPSED.entry(NOTHING, QUADRATIC, COLUMN, MATRIX, INTEGER, INTEGER, COLUMN, PRODUCTS, COLUMN, COLUMN)
def _put_basis(table, quadratic, basis, columns, size, j, column, products, spare, scratch):
    """Column j of `size` is that of a basis: its products with all others, and its own r."""
    put_column(table, quadratic.weights, quadratic.pull, columns, size, j, column, products, spare)
    products.slope[j] += sum_of(table, quadratic.first, basis, scratch)


@COLLAPSED.entry(NUMBER, QUADRATIC, LAW, PLACE, INTEGER, TRUTH, INTEGER, GENERATOR, ROOM)
def _propose(table, quadratic, law, place, kind, guided, slot, rng, room):
    """The products after a move of some kind; returns what to add to the log ratio of weights, or NaN if impossible."""
    k, basis, more = int(place.head[0]), room.basis, 0.0
    if guided and kind != BIRTH:
        more += log_gain(table, law.reference, law.guide, place.bases[slot])
    if kind == DEATH:
        # The prior draws bases again until they are admissible, and the guide does not: so the prior of a basis is p0
        # over the share that is admissible, which is how often this coin shows heads.
        if guided and not try_basis(table, law.reference, rng, basis, room.buffer):
            return np.nan
        copy_products(table, place.products, k + 1, slot + 1, room.products)
        return more
    if kind == VARY:
        copy(table, place.bases[slot], basis)
        if not vary_basis(table, law.reference, rng, basis, room.buffer):
            return np.nan
    elif guided:
        if not try_guided(table, law.reference, law.guide, rng, basis, room.buffer):
            return np.nan
        more -= log_gain(table, law.reference, law.guide, basis)
    else:
        while not try_basis(table, law.reference, rng, basis, room.buffer):
            pass  # `MARS` has seen to it that this takes few tries
    fill(table, basis, quadratic.x, 0, room.column.size, room.column)
    copy_products(table, place.products, k + 1, 0, room.products)
    size = k + 2 if kind == BIRTH else k + 1
    _put_basis(
        table, quadratic, basis, place.columns, size, slot + 1, room.column, room.products, room.spare, room.scratch
    )
    return more


@COLLAPSED.entry(NOTHING, PLACE, INTEGER, INTEGER, ROOM)
def _make(table, place, growth, slot, room):
    """Make a move that was proposed."""
    copy_products(table, room.products, int(place.head[0]) + growth + 1, 0, place.products)
    if growth < 0:
        drop_basis(table, place.head, place.bases, place.columns, slot)
        return
    copy(table, room.basis, place.bases[slot])
    copy(table, room.column, place.columns[slot + 1])
    place.head[0] += growth


@COLLAPSED.entry(NOTHING, PLACE)
def _value(place):
    """L* of the coefficients."""
    size, b, gram, star = int(place.head[0]) + 1, place.coefficients, place.products.gram, 0.0
    for i in range(size):
        bent = 0.0
        for j in range(size):
            bent += gram[i, j] * b[j]
        star += b[i] * (place.products.slope[i] - 0.5 * bent)
    place.values[1] = star


@COLLAPSED.entry(NOTHING, LAW, PLACE, GENERATOR, ROOM)
def _draw_scale(table, law, place, rng, room):
    """Lambda given coefficients that are drawn for it and then forgotten; it stays where A + P cannot be factored."""
    k, squares = int(place.head[0]), 0.0
    log_weight(table, law, place.products, k + 1, place.head[1], room.gaussian)
    draw(table, room.gaussian, k + 1, 1.0, rng, place.coefficients)
    for j in range(1, k + 1):
        squares += place.coefficients[j] ** 2
    precision = gamma(table, rng, law.shape + 0.5 * k) / (law.rate + 0.5 * squares)
    if precision > 0.0:
        there = log_weight(table, law, place.products, k + 1, precision, room.gaussian)
        if there > -np.inf:
            place.head[1], place.values[0] = precision, there


@COLLAPSED.entry(NOTHING, LAW, PLACE, GENERATOR, ROOM)
def _draw_coefficients(table, law, place, rng, room):
    """Coefficients given the rest, and L* of them."""
    size, b = int(place.head[0]) + 1, place.coefficients
    log_weight(table, law, place.products, size, place.head[1], room.gaussian)
    for j in range(size, b.size):
        b[j] = 0.0
    draw(table, room.gaussian, size, 1.0, rng, b)
    _value(table, place)


@compiled(**LEAN)
def _explore(table, quadratic, law, place, room, moves, rng, tally):
    for _ in range(moves):
        u, kind, k = uniform(table, rng), BIRTH, int(place.head[0])
        while kind < KINDS - 1 and u >= law.moves[kind]:
            kind += 1
        if kind == SCALE:
            _draw_scale(table, law, place, rng, room)
            tally[kind, 0] += 1
            tally[kind, 1] += 1
            continue
        tally_of, guided = tally[kind], kind >= GUIDED
        if guided:
            kind -= GUIDED
        growth = 1 if kind == BIRTH else (-1 if kind == DEATH else 0)
        if (k == place.bases.shape[0] if kind == BIRTH else k == 0) or (guided and law.guide.below.size == 0):
            continue
        slot = k if kind == BIRTH else int(k * uniform(table, rng))
        tally_of[0] += 1
        more = _propose(table, quadratic, law, place, kind, guided, slot, rng, room)
        if more > -np.inf:
            there = log_weight(table, law, room.products, k + growth + 1, place.head[1], room.gaussian)
            log_ratio = law.log_k[k + growth] - law.log_k[k] + there - place.values[0] + more
            if math.log(uniform(table, rng)) < log_ratio:
                tally_of[1] += 1
                _make(table, place, growth, slot, room)
                place.values[0] = there
    _draw_coefficients(table, law, place, rng, room)


@compiled(**LEAN)
def _nudge(table, law, place, room, size, rng):
    count, b = int(place.head[0]) + 1, place.coefficients
    log_weight(table, law, place.products, count, place.head[1], room.gaussian)
    mean, kept = room.gaussian.mean, math.sqrt(1.0 - size * size)
    for j in range(count):
        room.before[j] = b[j]
    draw(table, room.gaussian, count, size * size, rng, b)
    for j in range(count):
        b[j] += kept * (room.before[j] - mean[j])
    _value(table, place)


def nudge(law: Law, place: Place, room: Room, size: float, rng: np.random.Generator) -> None:
    """A step of the coefficients that is reversible with respect to their Gaussian: of size 1 it is a fresh draw."""
    _nudge(COLLAPSED.addresses, law, place, room, size, rng)


def explore(
    quadratic: Quadratic, law: Law, place: Place, room: Room, moves: int, rng: np.random.Generator, tally: Integers
) -> None:
    """Moves that are picked at random and decided by L*, then coefficients; tally counts (kind, 2)."""
    _explore(COLLAPSED.addresses, quadratic, law, place, room, moves, rng, tally)


@compiled(**LEAN)
def _enter(table, quadratic, law, place, room):
    k, columns, products = int(place.head[0]), place.columns, place.products
    for i in range(room.spare.size):
        columns[0, i] = 1.0
    put_column(table, quadratic.weights, quadratic.pull, columns, 1, 0, columns[0], products, room.spare)
    products.slope[0] += quadratic.first.total
    for m in range(k):
        column = columns[m + 1]
        fill(table, place.bases[m], quadratic.x, 0, column.size, column)
        _put_basis(table, quadratic, place.bases[m], columns, m + 2, m + 1, column, products, room.spare, room.scratch)
    place.values[0] = log_weight(table, law, products, k + 1, place.head[1], room.gaussian)
    _value(table, place)


def enter(quadratic: Quadratic, law: Law, place: Place, room: Room) -> None:
    """Fill in what a place with these bases and coefficients has: columns, products and values."""
    _enter(COLLAPSED.addresses, quadratic, law, place, room)
