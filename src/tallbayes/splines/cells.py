"""Cells: the likelihood of a spline on pseudo-rows, one for each cell of the covariate space and outcome.

`partition.py` says what the pseudo-rows are. With its weight and its offset each has, at the reference fit, the summed
derivative of its rows; so the surrogate has the gradient of all rows in every direction that is linear within cells.
What it lacks is curvature: where a spline varies inside cells, pseudo-rows do not see it, and chains that follow them
alone soon find bases between them that cost nothing. So pairs are added, rows drawn at random, each with its pseudo-row
c:

    log L*(eta) = sum_c W_c l(eta_c) - 1/2 sum_i v_i [delta(x_i) - delta(c_i)]^2,    delta = eta - reference,

where v_i is p(1 - p) of row i at the reference, over the expected number of times that it is drawn. The second sum
estimates the missing curvature and leaves the gradient as it is. Both are bounded above and concave in eta.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from tallbayes.data.options import check_whole
from tallbayes.splines.model import MARS, splines
from tallbayes.splines.partition import Pairs, Partition, PseudoRows
from tallbayes.splines.sheet import Sheet, Sheets

Array = NDArray[np.float64]

MOST = 1_000_000  # cells, and pairs: a surrogate that has more is no cheaper than the rows


@dataclass(frozen=True)
class Cells:
    """At most `count` cells, and `pairs` drawn rows."""

    count: int = 4_096
    pairs: int = 4_000

    def __post_init__(self) -> None:
        check_whole("count", self.count, 1, MOST)
        check_whole("pairs", self.pairs, 1, MOST)

    def build(self, model: MARS, mode: Any, rng: np.random.Generator) -> Sheets:
        """Cut the space into cells; the first reference is a spline without any basis."""
        if not isinstance(model, MARS):
            raise ValueError("tb.Cells is a surrogate for splines (tb.MARS); use tb.Taylor() or another one here")
        partition = model.rows.keep(Partition, self.count, self.pairs, int(rng.integers(2**31)))
        return Sheets(str(self), (at_reference(model, partition, model.nothing[None]),), partition)


def at_reference(model: MARS, partition: Partition, theta: Array, power: float = 1.0) -> Sheet:
    """Cells where the reference is the mean of the splines of some parameter vectors (several, width)."""
    reference = splines(theta, model.most)
    rows, eta = partition.at(reference)
    return sheet_of(rows, partition.pairs, eta, reference.mean(rows.x), power)


def sheet_of(rows: PseudoRows, pairs: Pairs, eta: Array, there: Array, power: float = 1.0) -> Sheet:
    """The surrogate to some power; the reference is eta (pairs,) on the pairs and `there` where the pseudo-rows lie."""
    within = eta - there[pairs.code]  # what the reference adds in pairs
    small = np.exp(-np.abs(np.concatenate([rows.eta, eta])))
    unit = small / (1 + small) ** 2  # p (1 - p)
    weights = power * np.concatenate([rows.weights, pairs.scale * unit[rows.y.size :]])
    curvature = weights * np.concatenate([unit[: rows.y.size], np.ones(within.size)])
    slope = np.zeros(weights.size)
    slope[: rows.y.size] = weights[: rows.y.size] * (rows.y - expit(rows.eta))
    return Sheet(
        np.ascontiguousarray(np.concatenate([rows.x, pairs.x], axis=1)),
        rows.y,
        weights,
        np.concatenate([rows.eta - there, -within]),
        pairs.code,
        curvature,
        slope + curvature * np.concatenate([there, within]),
    )
