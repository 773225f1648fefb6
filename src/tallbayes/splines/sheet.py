"""Sheets: a few weighted rows on which splines are proposed and screened, and what they say about one coefficient.

A sheet has rows of the logit model, with weights and offsets, and it may have pairs. A pair is a row and one of the
rows before it. Its column of a basis is the difference of the two, and its loss is quadratic:

    log L(eta) = sum over rows of w [y eta - log(1 + e^eta)]  -  sum over pairs of w eta^2 / 2,

which is concave in eta and has no term that grows. `cells.py` says what pairs are for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.addresses import COLUMN, INTEGER, INTEGERS, MATRIX, NOTHING, NUMBER, Table, struct
from tallbayes.families.compiled import exp_negative, log1p_unit
from tallbayes.splines.basis import BASES, fill
from tallbayes.splines.partition import Partition

Array = NDArray[np.float64]

NEWTON = 6  # steps towards the mode of one coefficient
CLOSE = 0.14  # length of the last, in standard deviations, over the fourth root of the rows: some .02 are left then
FAR = 2.0  # the longest


class Sheet(NamedTuple):
    """Rows, and pairs behind them."""

    x: Array  # (d, rows + pairs)
    y: Array  # (rows,)
    weights: Array  # (rows + pairs,)
    offset: Array  # (rows + pairs,)
    partner: NDArray[np.intp]  # (pairs,) the row of each pair
    curvature: Array  # (rows + pairs,) at a reference, for proposals of all coefficients (`joint.py`)
    pull: Array  # (rows + pairs,) the slope there, and the curvature times what the reference adds to the offset

    @classmethod
    def of_rows(cls, x: Array, y: Array, weights: Array) -> Sheet:
        """Rows only, without a reference."""
        nothing = np.zeros(y.size)
        return cls(np.ascontiguousarray(x), y, weights, nothing, np.zeros(0, np.intp), nothing, nothing)


@dataclass
class Sheets:
    """A sheet for every chain, or one for all of them; counts the rows that proposals look at."""

    name: str
    each: tuple[Sheet, ...]
    partition: Partition | None = None  # from which to make others
    touched: int = 0

    def of(self, chain: int) -> Sheet:
        """The sheet of a chain."""
        return self.each[chain % len(self.each)]


SHEET = struct(Sheet, MATRIX, COLUMN, COLUMN, COLUMN, INTEGERS, COLUMN, COLUMN)
SHEETS = Table(BASES)


@SHEETS.entry(NOTHING, MATRIX, INTEGERS, COLUMN, COLUMN)
def fill_sheet(table, x, partner, basis, column):
    """The column of a basis on a sheet."""
    fill(table, basis, x, 0, column.size, column)
    rows = column.size - partner.size
    for i in range(partner.size):
        column[rows + i] -= column[partner[i]]


@SHEETS.entry(NUMBER, COLUMN, COLUMN, COLUMN)
def log_likelihood(y, weights, eta):
    """Of a sheet, where it has this linear predictor."""
    total, rows = 0.0, y.size
    for i in range(rows):
        positive = eta[i] if eta[i] > 0.0 else 0.0
        total += weights[i] * (y[i] * eta[i] - positive - log1p_unit(exp_negative(-abs(eta[i]))))
    for i in range(rows, eta.size):
        total -= 0.5 * weights[i] * eta[i] * eta[i]
    return total


@SHEETS.entry(NOTHING, COLUMN, COLUMN, COLUMN, COLUMN, NUMBER, COLUMN)
def aim(y, weights, eta, column, sd, found):
    """Mode and curvature of a coefficient with prior N(0, sd^2), given the linear predictor without it: to found."""
    b, bend, rows = 0.0, 1.0, y.size
    pull, stiff, close = 0.0, 1.0 / (sd * sd), CLOSE * math.sqrt(math.sqrt(rows))
    for i in range(rows, eta.size):
        pull -= weights[i] * column[i] * eta[i]
        stiff += weights[i] * column[i] * column[i]
    for _ in range(NEWTON):
        slope, bend = pull - stiff * b, stiff
        for i in range(rows):
            at = eta[i] + b * column[i]
            e = exp_negative(-abs(at))
            small = e / (1.0 + e)
            slope += weights[i] * column[i] * (y[i] - (small if at < 0.0 else 1.0 - small))
            bend += weights[i] * column[i] * column[i] * small * (1.0 - small)
        step = slope / bend
        b += -FAR if step < -FAR else (FAR if step > FAR else step)
        if abs(step) * math.sqrt(bend) < close:
            break
    found[0], found[1] = b, bend


@SHEETS.entry(NUMBER, INTEGER, COLUMN, COLUMN, NUMBER)
def steepest(rows, weights, column, sd):
    """The largest curvature that a coefficient can have, whatever the linear predictor."""
    bend = 1.0 / (sd * sd)
    for i in range(column.size):
        bend += (0.25 if i < rows else 1.0) * weights[i] * column[i] * column[i]
    return bend
