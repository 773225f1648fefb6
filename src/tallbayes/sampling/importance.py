"""Approximate draws held against the full data.

A Gaussian that fits the draws, with the tails of a Student-t, gives points whose weights p / q all rows decide. The
effective share of the weights says how near the draws are to the posterior as a whole, and the weighted means and sds,
which estimate those of the posterior, how far off theirs are.

Reference: A. Kong (1992), "A note on importance sampling using standardized weights".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Array = NDArray[np.float64]
LogPosterior = Callable[[Array], Array]

POINTS = 400  # with which draws are held against the full data
TAIL_DF = 8.0
SINGULAR = 1e-12  # smallest eigenvalue of a correlation matrix below which it has no inverse to speak of
AT_ONCE = 64  # parameter vectors whose log posterior is asked for in one pass
TRUSTED = 0.1  # effective share below which a check says little


class Weighed(NamedTuple):
    """Points, and what each should weigh to stand for the posterior."""

    points: Array  # (count, parameter)
    weights: Array  # (count,), their sum is one

    @property
    def share(self) -> float:
        """Effective share of the points: one if all weigh the same."""
        return float(1 / (self.weights.size * (self.weights**2).sum()))

    @property
    def mean(self) -> Array:
        """Of the posterior."""
        return np.asarray(self.weights @ self.points)

    @property
    def sd(self) -> Array:
        """Of the posterior."""
        return np.asarray(np.sqrt(self.weights @ (self.points - self.mean) ** 2))

    def resample(self, chains: int, count: int, rng: np.random.Generator) -> Array:
        """As many draws a chain, each point about as often as it weighs, in random order: (chain, draw, parameter)."""
        wanted = chains * count
        picked = np.searchsorted(np.cumsum(self.weights), (rng.random() + np.arange(wanted)) / wanted)
        picked = rng.permutation(picked.clip(max=len(self.points) - 1))
        return np.asarray(self.points[picked].reshape(chains, count, -1))


def weigh(mean: Array, covariance: Array, log_posterior: LogPosterior, count: int, rng: np.random.Generator) -> Weighed:
    """Points from a Gaussian with the tails of a Student-t, weighed by the posterior.

    >>> found = weigh(np.zeros(2), np.eye(2), lambda theta: -0.5 * (theta**2).sum(1), 1000, np.random.default_rng(1))
    >>> bool(found.share > 0.9)
    True
    """
    p, factor = mean.size, np.linalg.cholesky(covariance)
    z = rng.standard_normal((count, p)) / np.sqrt(rng.chisquare(TAIL_DF, count) / TAIL_DF)[:, None]
    points = mean + z @ factor.T
    heights = np.concatenate([log_posterior(points[start : start + AT_ONCE]) for start in range(0, count, AT_ONCE)])
    logs = heights + 0.5 * (TAIL_DF + p) * np.log1p((z**2).sum(1) / TAIL_DF)
    weights = np.exp(logs - logs.max())
    return Weighed(points, weights / weights.sum())


def moments(draws: Array) -> tuple[Array, Array]:
    """Mean and covariance of draws (chain, draw, parameter)."""
    every = draws.reshape(-1, draws.shape[-1])
    return every.mean(0), np.cov(every, rowvar=False).reshape(every.shape[1], every.shape[1])


def spread_out(draws: Array) -> bool:
    """Whether draws (chain, draw, parameter) have a covariance with an inverse, in whatever units they are."""
    if draws[..., 0].size <= draws.shape[2] or (np.ptp(draws, axis=(0, 1)) == 0).any():
        return False
    covariance = moments(draws)[1]
    sd = np.sqrt(np.diag(covariance))
    return bool(np.linalg.eigvalsh(covariance / np.outer(sd, sd))[0] > SINGULAR)


class Errors(NamedTuple):
    """How far draws are off."""

    share: float  # effective, of the points with which it was seen
    points: int
    shift: Array  # (parameter,) of the means, in posterior sds
    stretch: Array  # (parameter,) the draws' sds over those of the posterior
    corrected: bool = False  # whether the draws were taken from these points, so that they agree with them
    noise: float = np.nan  # largest Monte Carlo error of a mean, in sds, where there is more to it than the draws' own

    @classmethod
    def seen(cls, draws: Array, by: Weighed, corrected: bool = False) -> Errors:
        """Of draws (chain, draw, parameter), seen by weighed points."""
        shift = (draws.mean((0, 1)) - by.mean) / by.sd
        return cls(by.share, by.weights.size, shift, draws.std((0, 1)) / by.sd, corrected)

    @property
    def uncertainty(self) -> float:
        """Standard error of a shift, and about that of a stretch."""
        return float(np.inf if self.share == 0 else (self.share * self.points) ** -0.5)

    def said(self, names: tuple[str, ...]) -> str:
        """The largest of them in words."""
        points = f"{self.points:,} weighted points"
        told = f"checked against all rows, {points} have an effective share of {self.share:.2g}: "
        if not self.share >= TRUSTED:
            return told + "too little to tell the error, which may be large"
        if self.corrected:
            return f"{told}the draws, taken from them, are worth {self.share * self.points:,.0f} independent ones"
        mean, sd = int(np.abs(self.shift).argmax()), int(np.abs(np.log(self.stretch)).argmax())
        # The largest of many is far out by chance alone: so wide that all of them are inside with probability 0.95.
        margin = -float(ndtri(0.025 / self.shift.size)) * self.uncertainty
        noise = ""
        if not np.isnan(self.noise):
            noise = f"; Monte Carlo error, that of the shards' weights included, is up to {self.noise:.2f} sds"
        return (
            f"{told}the largest error of a mean is {abs(self.shift[mean]):.2f} posterior sds ({names[mean]}), that of "
            f"an sd a factor of {self.stretch[sd]:.2f} ({names[sd]}), both give or take {margin:.2f}"
            f"{noise}"
        )

    def facts(self, names: tuple[str, ...]) -> dict[str, object]:
        """All of them, as plain numbers by name."""
        named = {"shift": self.shift, "stretch": self.stretch}
        return {
            "effective_share": self.share,
            "points": self.points,
            "uncertainty": self.uncertainty,
            "noise": self.noise,
            **{what: dict(zip(names, map(float, values), strict=True)) for what, values in named.items()},
        }


def seen(draws: Array, log_posterior: LogPosterior, points: int, rng: np.random.Generator) -> Errors:
    """How far draws (chain, draw, parameter) are off, seen by points from a Gaussian that fits them.

    Where none fits, because there are too few draws or some parameter hardly moved, nothing is seen.
    """
    if not spread_out(draws):
        unknown = np.full(draws.shape[2], np.nan)
        return Errors(0.0, points, unknown, unknown)
    return Errors.seen(draws, weigh(*moments(draws), log_posterior, points, rng))
