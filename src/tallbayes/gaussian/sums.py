"""The posterior of a Gaussian regression from sums of squares and products, with coefficients integrated out.

With A = X'WX, b the least squares and R their sum of squared residuals, and the prior N(m, P^-1) of the coefficients,
let LL' = P, and let Q V Q' be L^-1 A L^-T by its eigenvectors and eigenvalues. In z = Q'L'(beta - m) the prior is
N(0, I), and given the standard deviation s of the errors

    z_j ~ N( v_j c_j / (v_j + s^2),  s^2 / (v_j + s^2) ),     c = Q'L'(b - m),

    log p(y | s) = -n log s - R / (2 s^2) - sum_j [ log(1 + v_j / s^2) + v_j c_j^2 / (v_j + s^2) ] / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.models.priors import Prior
from tallbayes.rows.tasks import Derivatives

Array = NDArray[np.float64]

ROUNDING = 1e-14  # of a linear predictor, beside outcomes
LOST = 1e5  # a sum of squares over that of residuals from which on digits of the latter are lost


def check_errors(squares: float, residual: float, weight: float, width: int) -> None:
    """Refuse outcomes whose errors drown in rounding, given sums of squares of outcomes and errors.

    Where there are no more rows than coefficients and effects, there are no errors, and priors decide.

    >>> check_errors(1e30, 10.0, 50.0, 2)
    Traceback (most recent call last):
    ValueError: errors have an sd of about 0.45 beside outcomes of size 1.4e+14, and rounding hides what is left...
    """
    size, sd = (squares / weight) ** 0.5, (residual / weight) ** 0.5
    if weight > width and _rounding(squares, weight) > residual:
        raise ValueError(
            f"errors have an sd of about {sd:.2g} beside outcomes of size {size:.2g}, and rounding hides what is left "
            "of them; subtract a constant from the outcomes, and leave out columns that give them exactly"
        )


def _rounding(squares: float, weight: float) -> float:
    """A sum of squared residuals below which rounding hides what they are."""
    return ROUNDING**2 * squares * max(1.0, weight)


class Sums(NamedTuple):
    """What rows say about coefficients."""

    weight: float  # of all rows
    curvature: Array  # (p, p) A
    least: Array  # (p,) b
    residual: float  # R

    @classmethod
    def at(cls, theta: Array, weight: float, here: Derivatives) -> Sums:
        """From derivatives of minus half the sum of squares at some coefficients."""
        curvature, slope = here.curvature[0], here.gradient[0]
        scale = 1 / np.sqrt(np.maximum(np.diag(curvature), np.finfo(float).tiny))
        step = scale * np.linalg.lstsq(curvature * np.outer(scale, scale), scale * slope)[0]
        residual = -2 * float(here.value[0]) - float(step @ slope)
        return cls(weight, curvature, theta + step, max(residual, 0.0))

    def with_rounding(self, squares: float) -> Sums:
        """The same with residuals no smaller than rounding has them, given the sum of squared outcomes."""
        return self._replace(residual=max(self.residual, _rounding(squares, self.weight)))


@dataclass(frozen=True)
class Given:
    """The posterior given Normal priors of the coefficients."""

    sums: Sums
    mean: Array  # (p,) m
    back: Array  # (p, p) L^-T Q: from z to coefficients
    values: Array  # (p,) v
    center: Array  # (p,) c

    @classmethod
    def of(cls, sums: Sums, prior: Prior) -> Given:
        """With eigenvectors for these priors, which are Normal."""
        zero = np.zeros(sums.least.size)
        precision = prior.precision(zero)
        mean: Array = np.asarray(np.linalg.solve(precision, prior.gradient(zero)), dtype=float)
        root = np.linalg.inv(np.linalg.cholesky(precision))
        values, vectors = np.linalg.eigh(root @ sums.curvature @ root.T)
        vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(0), np.arange(values.size)])  # one of two signs
        back = root.T @ vectors
        return cls(sums, mean, back, np.maximum(values, 0.0), np.linalg.solve(back, sums.least - mean))

    def log_likelihood(self, log_sd: Array) -> Array:
        """log p(y | s) for each log s, up to a constant."""
        variance = np.exp(2 * np.asarray(log_sd))[..., None]
        each = np.log1p(self.values / variance) + self.values * self.center**2 / (self.values + variance)
        known = self.sums.weight * np.asarray(log_sd) + 0.5 * self.sums.residual / variance[..., 0]
        return np.asarray(-known - 0.5 * each.sum(-1))

    def coefficients(self, log_sd: Array, noise: Array) -> Array:
        """A draw of the coefficients for each log s (steps,), from standard Normal noise (steps, p)."""
        variance = np.exp(2 * log_sd)[:, None]
        share = self.values / (self.values + variance)
        z = share * self.center + np.sqrt(variance / (self.values + variance)) * noise
        # Not z @ back.T: BLAS adds up a vector in an order that depends on its place among the others.
        return np.asarray(self.mean + (z[:, None, :] * self.back).sum(-1))
