"""What LOO and WAIC of tall data come to, and how well that is known.

With a~ the approximation for a row and a what all draws say of it, the sum over n rows of weight w is

    sum of w a~ over all rows  +  n / m  x  the sum of w (a - a~) over m rows drawn at random,

which is unbiased, and as exact as a~ is close. The second part is made twice, of rows with an event (an outcome that is
not zero) and of rows without, since where events are rare it is they that approximations are unsure of. The variance
over rows is estimated in the same way.

Reference: M. Magnusson, A. Vehtari, J. Jonasson and M. R. Andersen (2020), "Leave-one-out cross-validation for Bayesian
model comparison in large data".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.results.criteria import Density
from tallbayes.results.psis import good_shape

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Elpd:
    """How well a model predicts rows that it has not seen: the sum of their expected log predictive densities.

    `elpd` is higher for better models. Its standard error `se` comes from the limited number of rows, and
    `subsampling_se` from using `subsample_size` rows to stand for all. `p` is the effective number of parameters.
    `pareto_k` shows whether to trust the weights of each row that was looked at; below `good_k` they are fine.

    Names are those of arviz's ELPDData.
    """

    kind: str
    elpd: float
    se: float
    p: float
    n_samples: int  # draws
    n_data_points: int
    subsample_size: int
    subsampling_se: float
    p_subsampling_se: float
    warning: bool
    good_k: float | None  # WAIC has none
    pareto_k: Array | None
    looked: Looked  # for comparisons
    scale: str = "log"

    def __repr__(self) -> str:
        rows = f"{self.n_data_points:,} rows"
        if self.subsample_size < self.looked.every:
            rows = f"{rows}, {self.subsample_size:,} of them looked at closely"
        lines = [f"Computed from {self.n_samples:,} draws and {rows}.", ""]
        lines.append(f"{'':10}{'Estimate':>14}{'SE':>12}{'subsampling SE':>17}")
        numbers = (f"{one:,.2f}" for one in (self.elpd, self.se, self.subsampling_se))
        lines.append("{:10}{:>14}{:>12}{:>17}".format(f"elpd_{self.kind}", *numbers))
        numbers = (f"{one:,.2f}" for one in (self.p, self.p_subsampling_se))
        lines.append("{:10}{:>14}{:>12}{:>17}".format(f"p_{self.kind}", next(numbers), "", next(numbers)))
        if self.pareto_k is not None and self.good_k is not None:
            bad = int((self.pareto_k > self.good_k).sum())
            some = f"{bad:,} of them above: LOO is unsure there" if bad else "all of them below"
            lines += ["", f"Pareto k: {self.pareto_k.max():.2f} at most; good to {self.good_k:.2f}, {some}."]
        return "\n".join(lines)


class Sums(NamedTuple):
    """Over all rows, with their weights: of the approximations, and of the weights themselves."""

    elpd: float
    p: float
    squares: float  # of the elpd
    weight: float
    parts: float  # of a row, that weights which are not whole have: the largest


class Wide(NamedTuple):
    """Approximations of many rows, for the spread of differences; their numbers ascend."""

    numbers: NDArray[np.int64]
    weights: Array
    elpd: Array


class Looked(NamedTuple):
    """What a comparison needs: what is exact and what is near of some rows, and sums over all."""

    kind: str
    draws: int
    seed: int
    rows: tuple[int, int]  # without an event and with one
    numbers: NDArray[np.int64]  # of the rows that were looked at
    places: bool  # whether these are their places in the data
    y: Array
    weights: Array
    exact: Density
    near: tuple[Array, Array]  # elpd and p
    sums: Sums
    wide: Wide

    def total(self, exact: Array, near: Array, over_all: float) -> tuple[float, float]:
        """The sum over all rows of what is exact for some and near for all, and the variance of the estimate."""
        each, total, variance = self.weights * (exact - near), over_all, 0.0
        for rows, event in zip(self.rows, (False, True), strict=True):
            if (size := int(np.count_nonzero(own := (self.y != 0) == event))) == 0:
                continue
            total += rows * float(each[own].mean())
            if 1 < size < rows:
                variance += rows**2 * (1 - size / rows) * float(each[own].var(ddof=1)) / size
        return total, variance

    @property
    def every(self) -> int:
        """The number of all rows."""
        return sum(self.rows)

    def spread(self, squares: float, total: float, variance: float) -> float:
        """The standard error of a sum over rows, from the sum of squares, itself and the variance of its estimate."""
        return float(max(squares - (total**2 - variance) / self.sums.weight, 0.0) ** 0.5)


def result(looked: Looked) -> Elpd:
    """The sums over all rows, and how well they are known."""
    exact, (elpd_near, p_near), sums = looked.exact, looked.near, looked.sums
    total, variance = looked.total(exact.elpd, elpd_near, sums.elpd)
    p, p_variance = looked.total(exact.p, p_near, sums.p)
    squares, _ = looked.total(exact.elpd**2, elpd_near**2, sums.squares)
    good = None if exact.k is None else good_shape(looked.draws)
    return Elpd(
        kind=looked.kind,
        elpd=total,
        se=looked.spread(squares, total, variance),
        p=p,
        n_samples=looked.draws,
        n_data_points=round(sums.weight),
        subsample_size=looked.numbers.size,
        subsampling_se=variance**0.5,
        p_subsampling_se=p_variance**0.5,
        warning=bool(exact.k is not None and good is not None and (exact.k > good).any()),
        good_k=good,
        pareto_k=exact.k,
        looked=looked,
    )
