"""How set-up, sampling and rows touched grow with the number of rows and with the number of columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit

from benchmarks.peers.ours import COMPILE_DRAWS, COMPILE_ROWS, timed_fit
from tallbayes.sampling.diagnostics import ess

ROWS = (10**4, 10**5, 10**6, 10**7)
COLUMNS = (5, 10, 20, 50, 100)
COLUMNS_ROWS = 10**6
DRAWS = 2_500  # a chain, of four
RATE = 0.05  # of outcomes
COMMON, RARE = 0.3, 36e-6  # shares of the first dummy and of the last one at 100 columns


def rows_data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """An intercept, four correlated Gaussian columns and two dummies; the coefficients are the same for any rows."""
    rng = np.random.default_rng(1)
    return _simulate(rows, rng.normal(0, 0.4, 4), rng.normal(0, 0.5, 2), np.array([0.2, 0.03]), rng)


def columns_data(columns: int, rows: int = COLUMNS_ROWS) -> tuple[np.ndarray, np.ndarray]:
    """An intercept, correlated Gaussian columns, and as many dummies, each rarer than the one before."""
    rng = np.random.default_rng(1)
    dummies = columns // 2
    gaussians = columns - 1 - dummies
    shares = COMMON * (RARE / COMMON) ** (np.arange(dummies) / (max(COLUMNS) // 2 - 1))
    return _simulate(rows, rng.normal(0, 1 / columns**0.5, gaussians), rng.normal(0, 0.5, dummies), shares, rng)


def _simulate(
    rows: int, slopes: np.ndarray, effects: np.ndarray, shares: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """X with contiguous columns, and outcomes at about RATE; any two Gaussian columns have correlation .5."""
    columns = np.ones((1 + slopes.size + effects.size, rows))
    gaussian, dummy = np.split(columns[1:], [slopes.size])
    common = rng.standard_normal(rows)
    for row in gaussian:
        row[:] = (common + rng.standard_normal(rows)) / 2**0.5
    for row, share in zip(dummy, shares, strict=True):
        row[:] = rng.random(rows) < share
    eta = np.concatenate([slopes, effects]) @ columns[1:]
    some = eta[:100_000]
    intercept = brentq(lambda a: expit(a + some).mean() - RATE, -20, 20)
    return columns.T, (rng.random(rows) < expit(intercept + eta)).astype(float)


def measure(X: np.ndarray, y: np.ndarray) -> dict[str, float | str]:
    """What one fit with method "auto" takes and gives."""
    fit, total = timed_fit(X, y, DRAWS)
    sampling = fit.stats["seconds"]["sampling"]
    least = float(ess(fit.posterior["beta"].to_numpy()).min())
    return {
        "set-up s": total - sampling,
        "sampling s": sampling,
        "min ESS": least,
        "us a min-ESS": 1e6 * sampling / least,
        "set-up s a million rows": (total - sampling) / len(y) * 1e6,
        "min ESS/s": least / total,
        "min ESS/s after set-up": least / sampling,
        "rows a draw": fit.stats["rows_per_draw"],
        "acceptance": " then ".join(f"{share:.2f}" for share in fit.stats["acceptance"].values()),
        "method": fit.stats["method"],
    }


def show(title: str, lines: dict[str, dict[str, float | str]], columns: list[str]) -> None:
    """A table with some of the measures, a line a fit."""
    table = pd.DataFrame(lines).T[columns]
    print(f"\n{title}")
    print(table.map(lambda value: value if isinstance(value, str) else f"{value:,.3g}").to_string())


def main() -> None:
    for rows in (ROWS[0], COMPILE_ROWS):  # compile what small and what large data need
        timed_fit(*rows_data(rows), COMPILE_DRAWS)
    by_rows = {f"{rows:,} rows": measure(*rows_data(rows)) for rows in ROWS}
    shown = ["set-up s", "sampling s", "min ESS", "us a min-ESS", "rows a draw", "set-up s a million rows", "method"]
    show(f"Growing number of rows, 7 columns, 4 chains of {DRAWS:,} draws", by_rows, shown)
    by_columns = {f"{columns} columns": measure(*columns_data(columns)) for columns in COLUMNS}
    shown = ["acceptance", "rows a draw", "min ESS/s", "min ESS/s after set-up", "method"]
    show(f"Growing number of columns, {COLUMNS_ROWS:,} rows, 4 chains of {DRAWS:,} draws", by_columns, shown)
