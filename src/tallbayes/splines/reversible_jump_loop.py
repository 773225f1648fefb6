"""The compiled moves of reversible jump on a sheet of weighted rows (see `reversible_jump.py` for what they are).

A place of a chain is (k, lambda), the coefficients with the intercept first, and the bases. On a sheet it also has the
columns of the bases, their products, the linear predictor and the log-likelihood. A move is first proposed and then, if
accepted, made.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.addresses import COLUMN, GENERATOR, INTEGER, INTEGERS, MATRIX, NUMBER, Table, struct
from tallbayes.families.addresses import NOTHING as VOID
from tallbayes.families.compiled import LEAN, compiled, inside
from tallbayes.splines.basis import REFERENCE, WIDTH, Reference, gamma, normal, try_basis, uniform, vary_basis
from tallbayes.splines.joint import (
    GAUSSIAN,
    PRODUCTS,
    Gaussian,
    Products,
    copy_products,
    draw,
    find,
    log_q,
    put_column,
)
from tallbayes.splines.places import PLACES, copy, drop_basis
from tallbayes.splines.sheet import SHEET, Sheet, aim, fill_sheet, log_likelihood, steepest

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

BIRTH, DEATH, CHANGE, VARY, COEFFICIENTS, SCALE = 0, 1, 2, 3, 4, 5  # kinds of moves
KINDS = 6
REPLACED = (CHANGE, VARY)  # that put one basis in the place of another
NOTHING = -1  # a move that is impossible


class Law(NamedTuple):
    """The prior, and how moves are proposed."""

    reference: Reference
    log_k: Array  # (K + 1,) log prior of the number of bases
    intercept_sd: float
    shape: float  # of the Gamma prior of lambda
    rate: float
    moves: Array  # (6,) cumulative probabilities of the kinds of moves
    wide: float  # variance of proposals for coefficients, over that of the sheet's posterior
    joint: float  # probability that all coefficients are proposed together, and not one alone
    walk: float  # sd of a random walk of one coefficient, by which they then move where no basis does; or 0


class Place(NamedTuple):
    """Where a chain is, with what it has on a sheet of a rows and pairs."""

    head: Array  # (2,) k, lambda
    coefficients: Array  # (K + 1,)
    bases: Array  # (K, WIDTH)
    columns: Array  # (K + 1, a) that of the intercept first
    products: Products
    eta: Array  # (a,)
    value: Array  # (1,) log-likelihood of the sheet

    @classmethod
    def empty(cls, most: int, a: int) -> Place:
        """Room for one."""
        bases, columns = np.zeros((most, WIDTH)), np.zeros((most + 1, a))
        return cls(np.zeros(2), np.zeros(most + 1), bases, columns, Products.empty(most), np.zeros(a), np.zeros(1))


class Proposal(NamedTuple):
    """A move that may be made, and room to find it."""

    kind: NDArray[np.int64]  # (3,) kind, slot, and whether all coefficients are proposed together
    basis: Array  # (WIDTH,)
    coefficients: Array  # (K + 1,) after it
    column: Array  # (a,) of the new basis
    products: Products  # after it, if all coefficients are proposed together
    eta: Array  # (a,) after it
    facts: Array  # (3,) log prior times proposal ratio, log-likelihood of the sheet after it, lambda after it
    aimed: Array  # (2,) mode and curvature of one coefficient
    gaussian: Gaussian
    spare: Array  # (a,)
    buffer: Array  # (reference rows,)

    @classmethod
    def empty(cls, most: int, a: int, reference: int) -> Proposal:
        """Room for one."""
        found = (np.zeros(most + 1), np.zeros(a), Products.empty(most), np.zeros(a), np.zeros(3))
        room = (np.zeros(2), Gaussian.empty(most), np.zeros(a), np.zeros(reference))
        return cls(np.zeros(3, np.int64), np.zeros(WIDTH), *found, *room)


LAW = struct(Law, REFERENCE, COLUMN, NUMBER, NUMBER, NUMBER, COLUMN, NUMBER, NUMBER, NUMBER)
PLACE = struct(Place, COLUMN, COLUMN, MATRIX, MATRIX, PRODUCTS, COLUMN, COLUMN)
PROPOSAL = struct(
    Proposal, INTEGERS, COLUMN, COLUMN, COLUMN, PRODUCTS, COLUMN, COLUMN, COLUMN, GAUSSIAN, COLUMN, COLUMN
)
MOVES = Table(PLACES)


@MOVES.entry(VOID, COLUMN, NUMBER, COLUMN, COLUMN)
def _shift(eta, step, column, out):
    """out = eta + step x column."""
    for i in range(out.size):
        out[i] = eta[i] + step * column[i]


@inside()
def log_normal(x, mean, variance):
    """Log density, without its constant 2 pi."""
    return -0.5 * (x - mean) ** 2 / variance - 0.5 * math.log(variance)


@inside()
def log_prior(law, coefficients, size, precision):
    """Of the first `size` coefficients, without (2 pi)^(-size/2)."""
    total = log_normal(coefficients[0], 0.0, law.intercept_sd**2)
    for j in range(1, size):
        total += log_normal(coefficients[j], 0.0, 1.0 / precision)
    return total


@MOVES.entry(VOID, SHEET, PLACE, INTEGER, INTEGER, INTEGER, PROPOSAL)
def _change_products(table, sheet, place, kind, slot, k, proposal):
    """The products after a move."""
    products = proposal.products
    copy_products(table, place.products, k + 1, slot + 1 if kind == DEATH else 0, products)
    if kind != DEATH and kind != COEFFICIENTS:
        size, j = k + 2 if kind == BIRTH else k + 1, slot + 1
        put_column(
            table, sheet.curvature, sheet.pull, place.columns, size, j, proposal.column, products, proposal.spare
        )


@MOVES.entry(VOID, COLUMN, MATRIX, COLUMN, INTEGER, INTEGER, INTEGER, COLUMN, COLUMN)
def _predict(offset, columns, new, own, stead, size, coefficients, eta):
    """The linear predictor with these `size` coefficients, where column `own` is the new one, or another in its stead.

    Without either, `own` is none of the columns.
    """
    for i in range(eta.size):
        eta[i] = offset[i]
    for j in range(size):
        column = columns[j]
        if j == own:
            column = columns[stead] if stead > 0 else new
        coefficient = coefficients[j]
        for i in range(eta.size):
            eta[i] += coefficient * column[i]


@MOVES.entry(VOID, SHEET, LAW, PLACE, INTEGER, INTEGER, INTEGER, GENERATOR, PROPOSAL, NUMBER)
def _together(table, sheet, law, place, kind, slot, k, rng, proposal, log_ratio):
    """All coefficients, from the Gaussian at the sheet's reference."""
    precision, gaussian, new = place.head[1], proposal.gaussian, proposal.coefficients
    size = k + 2 if kind == BIRTH else (k if kind == DEATH else k + 1)
    tight = law.intercept_sd**-2
    if not find(table, place.products, k + 1, tight, precision, gaussian):
        proposal.kind[0] = NOTHING
        return
    log_ratio += log_q(table, gaussian, k + 1, law.wide, place.coefficients)
    log_ratio -= log_prior(law, place.coefficients, k + 1, precision)
    _change_products(table, sheet, place, kind, slot, k, proposal)
    if not find(table, proposal.products, size, tight, precision, gaussian):
        proposal.kind[0] = NOTHING
        return
    draw(table, gaussian, size, law.wide, rng, new)
    log_ratio -= log_q(table, gaussian, size, law.wide, new)
    log_ratio += log_prior(law, new, size, precision)
    own, stead = -1 if kind == COEFFICIENTS else slot + 1, k if kind == DEATH else 0
    _predict(table, sheet.offset, place.columns, proposal.column, own, stead, size, new, proposal.eta)
    proposal.kind[2] = 1
    proposal.facts[0] = log_ratio
    proposal.facts[1] = log_likelihood(table, sheet.y, sheet.weights, proposal.eta)


@MOVES.entry(VOID, SHEET, LAW, PLACE, INTEGER, INTEGER, INTEGER, GENERATOR, PROPOSAL, NUMBER, NUMBER)
def _alone(table, sheet, law, place, kind, slot, k, rng, proposal, log_ratio, log_uniform):
    """One coefficient, from the sheet's posterior of it given the others, or by a walk."""
    y, weights, spare, eta, facts = sheet.y, sheet.weights, proposal.spare, proposal.eta, proposal.facts
    j = int((k + 1) * uniform(table, rng)) if kind == COEFFICIENTS else slot + 1
    variance, old = law.intercept_sd**2 if j == 0 else 1.0 / place.head[1], place.coefficients[j]
    live, aimed, sd = place.columns[j if kind != BIRTH else 0], proposal.aimed, math.sqrt(variance)
    if kind == COEFFICIENTS and law.walk > 0.0:
        step = law.walk * normal(table, rng)
        proposal.coefficients[j] = old + step
        _shift(table, place.eta, step, live, eta)
        facts[0] = log_normal(old + step, 0.0, variance) - log_normal(old, 0.0, variance)
        facts[1] = log_likelihood(table, y, weights, eta)
        return
    if kind == BIRTH:
        copy(table, place.eta, spare)
    else:
        _shift(table, place.eta, -old, live, spare)
        log_ratio -= log_normal(old, 0.0, variance)
    if kind == DEATH:
        proposal.coefficients[j] = place.coefficients[k]
        copy(table, spare, eta)
    else:
        column = live if kind == COEFFICIENTS else proposal.column
        aim(table, y, weights, spare, column, sd, aimed)
        new = aimed[0] + math.sqrt(law.wide / aimed[1]) * normal(table, rng)
        proposal.coefficients[j] = new
        _shift(table, spare, new, column, eta)
        log_ratio += log_normal(new, 0.0, variance) - log_normal(new, aimed[0], law.wide / aimed[1])
    facts[1] = log_likelihood(table, y, weights, eta)
    if kind != BIRTH and kind != COEFFICIENTS:
        # No density of the old one is larger than this, since no curvature is larger than `steepest`.
        largest = 0.5 * math.log(steepest(table, y.size, weights, live, sd) / law.wide)
        if log_ratio + largest + facts[1] - place.value[0] <= log_uniform:
            facts[0] = -np.inf
            return
        aim(table, y, weights, spare, live, sd, aimed)
    if kind != BIRTH:  # where no basis moves, old and new have the same density
        log_ratio += log_normal(old, aimed[0], law.wide / aimed[1])
    facts[0] = log_ratio


@MOVES.entry(VOID, SHEET, LAW, PLACE, GENERATOR, PROPOSAL, NUMBER)
def propose_move(table, sheet, law, place, rng, proposal, log_uniform):
    """Fill in a proposal. Everything but the likelihood is in facts[0]; all of the sheet's is in facts[1].

    Where the sheet turns down what has a log ratio of at most `log_uniform`, work that could not change that is left
    out, and facts[0] is -inf.
    """
    k, precision, basis, what = int(place.head[0]), place.head[1], proposal.basis, proposal.kind
    u, kind, slot = uniform(table, rng), BIRTH, 0
    while kind < SCALE and u >= law.moves[kind]:
        kind += 1
    copy(table, place.coefficients, proposal.coefficients)
    what[0], what[1], what[2] = kind, slot, 0
    proposal.facts[0], proposal.facts[1], proposal.facts[2] = 0.0, place.value[0], precision
    if kind == SCALE:
        squares = 0.0
        for j in range(1, k + 1):
            squares += place.coefficients[j] ** 2
        proposal.facts[2] = gamma(table, rng, law.shape + 0.5 * k) / (law.rate + 0.5 * squares)
        return
    together = uniform(table, rng) < law.joint
    if kind != COEFFICIENTS:
        if (kind == BIRTH and k == place.bases.shape[0]) or (kind != BIRTH and k == 0):
            what[0] = NOTHING
            return
        slot = k if kind == BIRTH else int(k * uniform(table, rng))
        what[1] = slot
        if kind == VARY:
            copy(table, place.bases[slot], basis)
            if not vary_basis(table, law.reference, rng, basis, proposal.buffer):
                what[0] = NOTHING
                return
        elif kind != DEATH:
            while not try_basis(table, law.reference, rng, basis, proposal.buffer):
                pass  # `MARS` has seen to it that this takes few tries
        if kind != DEATH:
            fill_sheet(table, sheet.x, sheet.partner, basis, proposal.column)
    grown = (1 if kind == BIRTH else 0) - (1 if kind == DEATH else 0)
    log_ratio = law.log_k[k + grown] - law.log_k[k]
    if together and not (kind == COEFFICIENTS and law.walk > 0.0):
        _together(table, sheet, law, place, kind, slot, k, rng, proposal, log_ratio)
    else:
        _alone(table, sheet, law, place, kind, slot, k, rng, proposal, log_ratio, log_uniform)
    if kind == DEATH:
        proposal.coefficients[k] = 0.0


@MOVES.entry(VOID, SHEET, LAW, PLACE, PROPOSAL)
def make_move(table, sheet, law, place, proposal):
    """Make a move that was proposed."""
    kind, slot, k = proposal.kind[0], proposal.kind[1], int(place.head[0])
    place.head[1] = proposal.facts[2]
    if kind == SCALE:
        return
    copy(table, proposal.coefficients, place.coefficients)
    copy(table, proposal.eta, place.eta)
    place.value[0] = proposal.facts[1]
    if kind == COEFFICIENTS:
        return
    if law.joint > 0.0:
        if proposal.kind[2] == 0:  # otherwise the proposal has needed them
            _change_products(table, sheet, place, kind, slot, k, proposal)
        copy_products(table, proposal.products, k + 2 if kind == BIRTH else k + 1, 0, place.products)
    if kind == DEATH:
        drop_basis(table, place.head, place.bases, place.columns, slot)
        return
    if kind == BIRTH:
        place.head[0] = k + 1
    copy(table, proposal.basis, place.bases[slot])
    copy(table, proposal.column, place.columns[slot + 1])


@compiled(**LEAN)
def _screen(table, sheet, law, place, proposal, moves, rng, tally, made):
    """Moves that are picked at random and decided by the sheet; returns at the first that passes, or makes them."""
    for move in range(moves):
        log_uniform = math.log(uniform(table, rng))
        propose_move(table, sheet, law, place, rng, proposal, log_uniform)
        kind = proposal.kind[0]
        if kind != NOTHING:
            tally[kind, 0] += 1
            if log_uniform < proposal.facts[0] + proposal.facts[1] - place.value[0]:
                if not made:
                    return move
                tally[kind, 1] += 1
                make_move(table, sheet, law, place, proposal)
    return moves


def explore(
    sheet: Sheet, law: Law, place: Place, proposal: Proposal, steps: int, rng: np.random.Generator, tally: Integers
) -> None:
    """Moves on the sheet alone, each picked at random and decided by its likelihood; tally counts (kind, 2)."""
    _screen(MOVES.addresses, sheet, law, place, proposal, steps, rng, tally, True)


def screen(
    sheet: Sheet, law: Law, place: Place, proposal: Proposal, moves: int, rng: np.random.Generator, tally: Integers
) -> int:
    """Propose moves until the sheet lets one pass; returns how many it has turned down before, `moves` if all."""
    return int(_screen(MOVES.addresses, sheet, law, place, proposal, moves, rng, tally, False))


@compiled(**LEAN)
def _propose(table, sheet, law, place, rng, proposal, log_uniform):
    propose_move(table, sheet, law, place, rng, proposal, log_uniform)


def propose(
    sheet: Sheet, law: Law, place: Place, rng: np.random.Generator, proposal: Proposal, log_uniform: float
) -> None:
    """`propose_move` for Python."""
    _propose(MOVES.addresses, sheet, law, place, rng, proposal, log_uniform)


@compiled(**LEAN)
def _make(table, sheet, law, place, proposal):
    make_move(table, sheet, law, place, proposal)


def make(sheet: Sheet, law: Law, place: Place, proposal: Proposal) -> None:
    """`make_move` for Python."""
    _make(MOVES.addresses, sheet, law, place, proposal)


@compiled(**LEAN)
def _put(table, sheet, place, joint, spare):
    columns, eta, coefficients, k = place.columns, place.eta, place.coefficients, int(place.head[0])
    for i in range(eta.size):
        columns[0, i] = 1.0 if i < sheet.y.size else 0.0
    _shift(table, sheet.offset, coefficients[0], columns[0], eta)
    for m in range(k):
        fill_sheet(table, sheet.x, sheet.partner, place.bases[m], columns[m + 1])
        _shift(table, eta, coefficients[m + 1], columns[m + 1], eta)
    if joint:
        for j in range(k + 1):
            put_column(table, sheet.curvature, sheet.pull, columns, j + 1, j, columns[j], place.products, spare)
    place.value[0] = log_likelihood(table, sheet.y, sheet.weights, eta)


def put(sheet: Sheet, law: Law, place: Place, spare: Array) -> None:
    """Fill in what a place has on a sheet."""
    _put(MOVES.addresses, sheet, place, law.joint > 0.0, spare)
