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

from tallbayes.families.compiled import compiled
from tallbayes.splines.basis import WIDTH, Reference, draw_basis, vary_basis
from tallbayes.splines.joint import Gaussian, Products, draw, find, log_q, put_column, take_column
from tallbayes.splines.sheet import aim, fill_sheet, log_likelihood, steepest

Array = NDArray[np.float64]

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
    gaussian: Gaussian
    spare: Array  # (a,)
    buffer: Array  # (reference rows,)

    @classmethod
    def empty(cls, most: int, a: int, reference: int) -> Proposal:
        """Room for one."""
        found = (np.zeros(most + 1), np.zeros(a), Products.empty(most), np.zeros(a), np.zeros(3))
        room = (Gaussian.empty(most), np.zeros(a), np.zeros(reference))
        return cls(np.zeros(3, np.int64), np.zeros(WIDTH), *found, *room)


@compiled()
def copy_place(here, there):
    """Make `there` the same place."""
    size = int(here.head[0]) + 1
    there.head[:] = here.head
    there.coefficients[:] = here.coefficients
    there.bases[:] = here.bases
    there.columns[:size] = here.columns[:size]
    _copy_products(here.products, there.products)
    there.eta[:] = here.eta
    there.value[:] = here.value


@compiled()
def _copy_products(here, there):
    there.gram[:] = here.gram
    there.slope[:] = here.slope


@compiled()
def log_normal(x, mean, variance):
    """Log density, without its constant 2 pi."""
    return -0.5 * (x - mean) ** 2 / variance - 0.5 * math.log(variance)


@compiled()
def log_prior(law, coefficients, size, precision):
    """Of the first `size` coefficients, without (2 pi)^(-size/2)."""
    total = log_normal(coefficients[0], 0.0, law.intercept_sd**2)
    for j in range(1, size):
        total += log_normal(coefficients[j], 0.0, 1.0 / precision)
    return total


@compiled()
def propose(sheet, law, place, rng, proposal, log_uniform):
    """Fill in a proposal. Everything but the likelihood is in facts[0]; all of the sheet's is in facts[1].

    Where the sheet turns down what has a log ratio of at most `log_uniform`, work that could not change that is left
    out, and facts[0] is -inf.
    """
    k, precision, most = int(place.head[0]), place.head[1], place.bases.shape[0]
    u, kind, slot = rng.random(), BIRTH, 0
    while kind < SCALE and u >= law.moves[kind]:
        kind += 1
    proposal.coefficients[:] = place.coefficients
    proposal.kind[0], proposal.kind[1], proposal.kind[2] = kind, slot, 0
    proposal.facts[0], proposal.facts[1], proposal.facts[2] = 0.0, place.value[0], precision
    if kind == SCALE:
        squares = 0.0
        for j in range(1, k + 1):
            squares += place.coefficients[j] ** 2
        proposal.facts[2] = rng.standard_gamma(law.shape + 0.5 * k) / (law.rate + 0.5 * squares)
        return
    together = rng.random() < law.joint
    if kind != COEFFICIENTS:
        if (kind == BIRTH and k == most) or (kind != BIRTH and k == 0):
            proposal.kind[0] = NOTHING
            return
        slot = k if kind == BIRTH else min(k - 1, int(k * rng.random()))
        proposal.kind[1] = slot
        if kind != DEATH:
            if kind == VARY:
                proposal.basis[:] = place.bases[slot]
                if not vary_basis(law.reference, rng, proposal.basis, proposal.buffer):
                    proposal.kind[0] = NOTHING
                    return
            else:
                draw_basis(law.reference, rng, proposal.basis, proposal.buffer)
            fill_sheet(sheet, proposal.basis, proposal.column)
    grown = (1 if kind == BIRTH else 0) - (1 if kind == DEATH else 0)
    log_ratio = law.log_k[k + grown] - law.log_k[k]
    if together and not (kind == COEFFICIENTS and law.walk > 0.0):
        if not find(place.products, k + 1, law.intercept_sd**-2, precision, proposal.gaussian):
            proposal.kind[0] = NOTHING
            return
        log_ratio += log_q(proposal.gaussian, k + 1, law.wide, place.coefficients)
        log_ratio -= log_prior(law, place.coefficients, k + 1, precision)
        _change_products(sheet, place, kind, slot, k, proposal)
        if not find(proposal.products, k + 1 + grown, law.intercept_sd**-2, precision, proposal.gaussian):
            proposal.kind[0] = NOTHING
            return
        draw(proposal.gaussian, k + 1 + grown, law.wide, rng, proposal.coefficients)
        log_ratio -= log_q(proposal.gaussian, k + 1 + grown, law.wide, proposal.coefficients)
        log_ratio += log_prior(law, proposal.coefficients, k + 1 + grown, precision)
        _predict(sheet, place, kind, slot, k, k + 1 + grown, proposal)
        proposal.kind[2] = 1
        proposal.facts[0], proposal.facts[1] = log_ratio, log_likelihood(sheet, proposal.eta)
    else:
        _alone(sheet, law, place, kind, slot, k, rng, proposal, log_ratio, log_uniform)
    if kind == DEATH:
        proposal.coefficients[k] = 0.0


@compiled()
def _alone(sheet, law, place, kind, slot, k, rng, proposal, log_ratio, log_uniform):
    """One coefficient, from the sheet's posterior of it given the others, or by a walk."""
    precision, spare, eta = place.head[1], proposal.spare, proposal.eta
    j = min(k, int((k + 1) * rng.random())) if kind == COEFFICIENTS else slot + 1
    variance, old = law.intercept_sd**2 if j == 0 else 1.0 / precision, place.coefficients[j]
    if kind == COEFFICIENTS and law.walk > 0.0:
        step = law.walk * rng.standard_normal()
        proposal.coefficients[j] = old + step
        for i in range(eta.size):
            eta[i] = place.eta[i] + step * place.columns[j, i]
        proposal.facts[0] = log_normal(old + step, 0.0, variance) - log_normal(old, 0.0, variance)
        proposal.facts[1] = log_likelihood(sheet, eta)
        return
    spare[:] = place.eta
    if kind != BIRTH:
        for i in range(spare.size):
            spare[i] -= old * place.columns[j, i]
        log_ratio -= log_normal(old, 0.0, variance)
    if kind == DEATH:
        proposal.coefficients[j] = place.coefficients[k]
        eta[:] = spare
    else:
        column = place.columns[j] if kind == COEFFICIENTS else proposal.column
        center, bend = aim(sheet, spare, column, math.sqrt(variance))
        new = center + math.sqrt(law.wide / bend) * rng.standard_normal()
        proposal.coefficients[j] = new
        for i in range(eta.size):
            eta[i] = spare[i] + new * column[i]
        log_ratio += log_normal(new, 0.0, variance) - log_normal(new, center, law.wide / bend)
    proposal.facts[1] = log_likelihood(sheet, eta)
    if kind == COEFFICIENTS:  # the old one has the same density
        log_ratio += log_normal(old, center, law.wide / bend)
    elif kind != BIRTH:
        # No density of the old one is larger than this, since no curvature is larger than `steepest`.
        largest = 0.5 * math.log(steepest(sheet, place.columns[j], math.sqrt(variance)) / law.wide)
        if log_ratio + largest + proposal.facts[1] - place.value[0] <= log_uniform:
            proposal.facts[0] = -np.inf
            return
        center, bend = aim(sheet, spare, place.columns[j], math.sqrt(variance))
        log_ratio += log_normal(old, center, law.wide / bend)
    proposal.facts[0] = log_ratio


@compiled()
def _change_products(sheet, place, kind, slot, k, proposal):
    """The products after a move."""
    products = proposal.products
    _copy_products(place.products, products)
    if kind == DEATH:
        take_column(k + 1, slot + 1, products)
    elif kind != COEFFICIENTS:
        size = k + 2 if kind == BIRTH else k + 1
        put_column(sheet, place.columns, size, slot + 1, proposal.column, products, proposal.spare)


@compiled()
def _predict(sheet, place, kind, slot, k, size, proposal):
    """The linear predictor after a move with these `size` coefficients."""
    eta = proposal.eta
    eta[:] = sheet.offset
    for j in range(size):
        own = kind != COEFFICIENTS and j == slot + 1
        column = place.columns[j]
        if own:
            column = place.columns[k] if kind == DEATH else proposal.column
        coefficient = proposal.coefficients[j]
        for i in range(eta.size):
            eta[i] += coefficient * column[i]


@compiled()
def make(sheet, law, place, proposal):
    """Make a move that was proposed."""
    kind, slot, k = proposal.kind[0], proposal.kind[1], int(place.head[0])
    place.head[1] = proposal.facts[2]
    if kind == SCALE:
        return
    place.coefficients[:] = proposal.coefficients
    place.eta[:] = proposal.eta
    place.value[0] = proposal.facts[1]
    if kind == COEFFICIENTS:
        return
    if law.joint > 0.0:
        if proposal.kind[2] == 0:  # otherwise the proposal has needed them
            _change_products(sheet, place, kind, slot, k, proposal)
        _copy_products(proposal.products, place.products)
    if kind == DEATH:
        place.head[0] = k - 1
        place.bases[slot] = place.bases[k - 1]
        place.bases[k - 1] = 0.0
        place.columns[slot + 1] = place.columns[k]
        return
    if kind == BIRTH:
        place.head[0] = k + 1
    place.bases[slot] = proposal.basis
    place.columns[slot + 1] = proposal.column


@compiled()
def explore(sheet, law, place, proposal, steps, rng, tally):
    """Moves on the sheet alone, each picked at random and decided by its likelihood; tally counts (kind, 2)."""
    for _ in range(steps):
        if screen(sheet, law, place, proposal, 1, rng, tally) == 0:
            tally[proposal.kind[0], 1] += 1
            make(sheet, law, place, proposal)


@compiled()
def screen(sheet, law, place, proposal, moves, rng, tally):
    """Propose moves until the sheet lets one pass; returns how many it has turned down before, `moves` if all."""
    for made in range(moves):
        log_uniform = math.log(rng.random())
        propose(sheet, law, place, rng, proposal, log_uniform)
        kind = proposal.kind[0]
        if kind != NOTHING:
            tally[kind, 0] += 1
            if log_uniform < proposal.facts[0] + proposal.facts[1] - place.value[0]:
                return made
    return moves


@compiled()
def put(sheet, law, place, spare):
    """Fill in what a place has on a sheet."""
    for i in range(place.eta.size):
        place.columns[0, i] = 1.0 if i < sheet.y.size else 0.0
        place.eta[i] = sheet.offset[i] + place.coefficients[0] * place.columns[0, i]
    for m in range(int(place.head[0])):
        fill_sheet(sheet, place.bases[m], place.columns[m + 1])
        for i in range(place.eta.size):
            place.eta[i] += place.coefficients[m + 1] * place.columns[m + 1, i]
    if law.joint > 0.0:
        for j in range(int(place.head[0]) + 1):
            put_column(sheet, place.columns, j + 1, j, place.columns[j], place.products, spare)
    place.value[0] = log_likelihood(sheet, place.eta)
