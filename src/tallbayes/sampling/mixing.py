"""What the draws of thousands of parameters are worth, computed for many parameters at once.

Every chain is cut into halves: m half chains of n draws. With W the mean variance within them and B the variance
of their means (B is n times that in the paper), var+ = W (n - 1) / n + B, and

- R-hat = sqrt(var+ / W), of normal scores: the draws of all chains are ranked together and a rank r of N becomes the
  normal quantile of (r - 3/8) / (N + 1/4). The larger of two: of the draws, which finds other places, and of their
  distances from the median, which finds other widths.
- ESS = m n / tau, tau = 1 + 2 sum_t rho_t, with rho_t = 1 - (W - mean autocovariance at lag t) / var+. Noise rules the
  far lags, so neighbours are added in pairs, which are positive and decrease for a reversible chain: the sum ends
  at the first pair that is not positive, no pair counts for more than the one before it, and of the pair where it
  ends only the even lag is taken, once instead of twice. tau is at least 1 / log10(m n), so that chains which alternate
  do not claim to know everything. Bulk: of the normal scores. Tail: of "below the 5% quantile" and of "below the
  95% quantile", the smaller one. Mean: of the draws as they are.
- MCSE of the mean is sd / sqrt(ESS), and of the sd sqrt(var((x - mean)^2) / ESS) / (2 sd). ESS is that of the mean or
  that of the squares (x - mean)^2, whichever is smaller: a chain that rarely goes far off, but then stays there, tells
  so in its squares long before its mean. Over runs of 4,000 draws with some 13 stays of 20 draws 4 sds away, errors of
  the mean were 1.4 times as large as the ESS of the mean alone says, and 1.0 times with both; of independent draws, all
  MCSEs grow by 1%. No error can tell of places where no chain has been.

A. Vehtari, A. Gelman, D. Simpson, B. Carpenter, P.-C. Buerkner (2021), Rank-normalization, folding, and localization.
C. J. Geyer (1992), Practical Markov chain Monte Carlo. arviz-stats computes the same, one parameter at a time,
but for the squares in the MCSE.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len
from scipy.special import ndtri

from tallbayes.data.once import once
from tallbayes.models.side_by_side import AT_ONCE, Parameters, cuts
from tallbayes.rows import threads

Array = NDArray[np.float64]

TAILS = (0.05, 0.95)
CONSTANT = 1e-15  # a range below this is none


class Batch:
    """Some parameters' draws and their statistics; those that build on the same step share it.

    Draws have the shape (parameter, chain, draw), are finite, and at least 4 a chain.
    """

    def __init__(self, draws: Array) -> None:
        self.draws = draws
        self.pooled = draws.reshape(len(draws), -1)

    @once
    def halves(self) -> Array:
        """Each chain as two; of an odd number of draws the one in the middle is left out."""
        half = self.draws.shape[2] // 2
        return np.concatenate([self.draws[:, :, :half], self.draws[:, :, -half:]], axis=1)

    @once
    def scores(self) -> Array:
        """Normal scores of the halves."""
        return _normal_scores(self.halves)

    @once
    def ess_moments(self) -> Array:
        """Effective draws for the mean or for the mean of squares, whichever has fewer."""
        mean, sd = (of(self.pooled, axis=1)[:, None, None] for of in (np.mean, np.std))
        squares = ((self.halves - mean) / sd) ** 2  # not a number where nothing ever moves
        return np.fmin(_ess(self.halves), _ess(squares))

    @property
    def ess_bulk(self) -> Array:
        """Effective draws after ranking."""
        return _ess(self.scores)

    @property
    def ess_tail(self) -> Array:
        """Effective draws for the worse of two quantiles."""
        limits = np.quantile(self.pooled, TAILS, axis=1)[:, :, None, None]
        low, high = (_ess((self.halves <= limit).astype(float)) for limit in limits)
        return np.minimum(low, high)

    @property
    def r_hat(self) -> Array:
        """Disagreement of half chains; one chain has too few halves to tell and is compared by quarters."""
        if self.draws.shape[1] == 1:
            return Batch(self.halves).r_hat
        if self.halves.shape[2] < 2:  # no variance
            return np.full(len(self.draws), np.nan)
        centre = np.median(self.halves.reshape(len(self.halves), -1), axis=1)
        distances = np.abs(self.halves - centre[:, None, None])
        # Two values, equally often, have one distance: there is no width to compare.
        return np.fmax(_r_hat(self.scores), _r_hat(_normal_scores(distances)))

    @property
    def mcse_mean(self) -> Array:
        """Monte Carlo error of the mean."""
        return np.asarray(self.pooled.std(axis=1, ddof=1) / np.sqrt(self.ess_moments))

    @property
    def mcse_sd(self) -> Array:
        """Monte Carlo error of the sd."""
        squares = (self.pooled - self.pooled.mean(axis=1, keepdims=True)) ** 2
        return np.asarray(np.sqrt(squares.var(axis=1) / self.ess_moments / squares.mean(axis=1)) / 2)


def statistics(draws: Parameters, names: Sequence[str], at_once: int = AT_ONCE) -> list[Array]:
    """Statistics of `Batch` by name, an array each, for draws of the shape (chain, draw, parameter).

    NaN for parameters with draws that are not finite. At most `at_once` draws, or those of one parameter, are worked on
    at a time by a thread, with some 80 bytes of scratch each: sorts and transforms release the interpreter lock, and no
    parameter's statistics depend on the others.

    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 1_000))
    >>> r_hat, ess_tail = statistics(draws, ["r_hat", "ess_tail"])
    >>> bool((r_hat < 1.02).all()), bool((ess_tail > 1_000).all())
    (True, True)
    """
    found = [np.full(draws.shape[2], np.nan) for _ in names]

    def put(cut: slice) -> None:
        some = np.ascontiguousarray(np.moveaxis(np.asarray(draws[:, :, cut]), 2, 0))
        good = np.flatnonzero(np.isfinite(some).all(axis=(1, 2)))
        if not good.size:
            return
        unit = _units(some[good])
        batch = Batch(some[good] / unit[:, None, None])
        with np.errstate(divide="ignore", invalid="ignore"):  # all halves may stand still: r_hat is then infinite
            for name, values in zip(names, found, strict=True):
                values[cut.start + good] = getattr(batch, name) * (unit if name.startswith("mcse") else 1.0)

    every = cuts(draws, at_once)
    with ThreadPoolExecutor(min(len(every), threads.count())) as pool:
        list(pool.map(put, every))
    return found


def _units(draws: Array) -> Array:
    """Powers of two as large as each parameter's range: with these, fourth powers are numbers, and no digit changes."""
    _, exponents = np.frexp(draws.max(axis=(1, 2)) / 2 - draws.min(axis=(1, 2)) / 2)
    return np.asarray(np.ldexp(1.0, np.minimum(exponents, 1_000)))


def _normal_scores(draws: Array) -> Array:
    """Draws replaced by normal quantiles of their ranks among all chains; ties share the mean of their ranks."""
    count, size = len(draws), draws[0].size
    order = np.argsort(draws.reshape(count, size), axis=1)
    order += size * np.arange(count)[:, None]  # places in the flat array, which are quicker to take from
    ordered = np.take(draws, order)
    first = np.ones(order.shape, dtype=bool)  # whether a group of ties begins here
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=first[:, 1:])
    begins = np.flatnonzero(first)
    ties = np.diff(begins, append=first.size)
    # Mean ranks are halves of integers, so a table has all scores: begin + (ties + 1) / 2 is entry 2 begin + ties - 1.
    table = ndtri((np.arange(2, 2 * size + 1) / 2 - 3 / 8) / (size + 1 / 4))
    scores = np.empty(draws.size)
    scores[order.ravel()] = np.repeat(table[2 * (begins % size) + ties - 1], ties)
    return scores.reshape(draws.shape)


def _r_hat(halves: Array) -> Array:
    n = halves.shape[2]
    within = halves.var(axis=2, ddof=1).mean(axis=1)
    between = n * halves.mean(axis=2).var(axis=1, ddof=1)
    return np.asarray(np.sqrt((between / within + n - 1) / n))


def _ess(halves: Array) -> Array:
    """Effective draws of half chains; all of them where nothing varies."""
    m, n = halves.shape[1:]
    means = halves.mean(axis=2)
    covariances = _autocovariances(halves - means[:, :, None])
    within = covariances[:, :1] * n / (n - 1)
    total = covariances[:, :1] + means.var(axis=1, ddof=1, keepdims=True)
    rho = 1 - (within - covariances) / total
    rho[:, 0] = 1
    tau = np.maximum(_summed(rho), 1 / np.log10(m * n))
    tau[np.isnan(rho).any(axis=1)] = np.nan  # squares that overflow
    still = np.ptp(halves, axis=(1, 2)) < CONSTANT
    return np.asarray(np.where(still, m * n, m * n / tau))


def _autocovariances(centred: Array) -> Array:
    """By lag, the mean of all chains: of their power spectra, so that only one has to be transformed back."""
    n = centred.shape[2]
    padded = next_fast_len(2 * n)  # or the end would wrap around to the beginning
    parts = np.fft.rfft(centred, n=padded).view(float)  # real and imaginary in turn
    np.square(parts, out=parts)  # in place: new memory costs more than the transform
    squares = parts.mean(axis=1)
    return np.asarray(np.fft.irfft(squares[:, ::2] + squares[:, 1::2], n=padded)[:, :n] / n)


def _summed(rho: Array) -> Array:
    """tau: -1 + 2 sum rho_t, up to where noise begins."""
    last = max(0, (rho.shape[1] - 3) // 2)  # the pair that ends the sum at the latest
    pairs = rho[:, 0 : 2 * last + 2 : 2] + rho[:, 1 : 2 * last + 2 : 2]
    goes_on = pairs > 0
    goes_on[:, last] = False
    end = np.argmin(goes_on, axis=1)[:, None]
    falling = np.minimum.accumulate(pairs, axis=1)
    full = np.sum(falling, axis=1, where=np.arange(last + 1) < end)
    pair, even = np.take_along_axis(pairs, end, axis=1)[:, 0], np.take_along_axis(rho, 2 * end, axis=1)[:, 0]
    # Of a negative pair the even lag counts if it is positive; where lags run out, whatever it is.
    return np.asarray(2 * full - 1 + np.where(pair < 0, np.maximum(even, 0), even))
