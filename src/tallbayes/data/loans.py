"""Simulated loans, like those that Freddie Mac bought in 2009 and 2010, in one frame or in pieces of any number."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_whole

if TYPE_CHECKING:
    from pandas import DataFrame

Array = NDArray[np.float64]

LOAN_ROWS, FORECLOSURES = 2_297_813, 3_711  # Payne and Mallick's counts

# The truth behind the simulated loans. The intercept follows from the rate of foreclosure.
LOAN_EFFECTS = {"first_payment": -0.3, "fico": -0.8, "dti": 0.45, "upb": -0.2}
FIRST_TIME_SHARES = {"no": 0.84, "unknown": 0.04, "yes": 0.12}
FIRST_TIME_EFFECTS = {"no": 0.0, "unknown": 0.3, "yes": -0.25}
BANKS = [f"b{number:02d}" for number in range(1, 17)]
BANK_SHARES = (
    *(0.28, 0.18, 0.13, 0.1, 0.08, 0.06, 0.05, 0.035),
    *(0.025, 0.02, 0.015, 0.01, 0.007, 0.0045, 0.0028, 0.0007),
)
BANK_EFFECTS = (  # mean 0, sd .49
    *(-0.14, 0.45, -0.55, 0.2, 0.82, -0.3, 0.05, -0.85),
    *(0.32, -0.42, 0.62, -0.04, -0.68, 0.12, -0.2, 0.6),
)
PIECE = 1_000_000  # rows
MOST_ROWS = 10**12  # that anybody may ask for


def simulate_loans(rows: int = LOAN_ROWS, seed: int = 0) -> DataFrame:
    """Simulate loans like those Freddie Mac bought in 2009 and 2010, of which few were foreclosed.

    The columns are `foreclosed` (0/1), `first_payment`, `fico`, `dti` (debt to income), `upb` (original
    balance), `first_time` (buyer: no, unknown, yes) and `bank` (b01 to b16, from 28% of rows down to .07%).
    The four numbers are centred and scaled to mean 0 and sd 1 over these rows (dividing by n; a constant
    column is 0). The log odds are linear, with LOAN_EFFECTS, FIRST_TIME_EFFECTS and BANK_EFFECTS.

    Whatever the number of rows, 3,711 in 2,297,813 are expected to be foreclosed, 16 in 10,000. A thousand
    rows may well have none, and small banks may have no rows: take 100,000 or more to fit a model.

    >>> loans = simulate_loans(rows=100_000, seed=1)
    >>> list(loans.columns)
    ['foreclosed', 'first_payment', 'fico', 'dti', 'upb', 'first_time', 'bank']
    >>> bool(loans.fico[loans.foreclosed == 1].mean() < loans.fico.mean())
    True
    """
    check_whole("rows", rows, 1, MOST_ROWS)
    check_whole("seed", seed, 0)
    return _simulate(rows, np.random.default_rng(seed))[0]


def simulate_loans_in_pieces(rows: int = LOAN_ROWS, seed: int = 0, piece: int = PIECE) -> Iterator[DataFrame]:
    """Simulate more loans than memory holds: frames of `piece` rows one after the other, the last one of the rest.

    The first piece is what `simulate_loans` makes of so many rows. It fixes how the four numbers are centred and
    scaled, and the intercept, so that all pieces follow one model. Every other piece has a stream of random numbers
    of its own. While one is used the next is made.

    >>> [len(loans) for loans in simulate_loans_in_pieces(rows=2_500, seed=1, piece=1_000)]
    [1000, 1000, 500]
    """
    check_whole("rows", rows, 1, MOST_ROWS)
    check_whole("seed", seed, 0)
    check_whole("piece", piece)
    return _pieces(rows, seed, piece)


def _pieces(rows: int, seed: int, piece: int) -> Iterator[DataFrame]:
    frame, scale = _simulate(min(piece, rows), np.random.default_rng(seed))
    with ThreadPoolExecutor(1) as ahead:
        for start in range(piece, rows, piece):
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(start // piece,)))
            coming = ahead.submit(_simulate, min(piece, rows - start), rng, scale)
            yield frame
            frame = coming.result()[0]
    yield frame


class _Scale(NamedTuple):
    """What the first rows fix for all that follow."""

    centres: dict[str, float]
    sds: dict[str, float]
    intercept: float


def _simulate(rows: int, rng: np.random.Generator, scale: _Scale | None = None) -> tuple[DataFrame, _Scale]:
    """Some loans and their scale, which they fix by themselves unless it is given."""
    import pandas as pd
    from scipy.special import expit

    raw = _raw_numbers(rows, rng)
    centres = {name: float(column.mean()) for name, column in raw.items()} if scale is None else scale.centres
    centred = {name: column - centres[name] for name, column in raw.items()}
    sds = {name: float(column.std()) or 1.0 for name, column in centred.items()} if scale is None else scale.sds
    numeric = {name: column / sds[name] for name, column in centred.items()}
    first_time = rng.choice(len(FIRST_TIME_SHARES), size=rows, p=list(FIRST_TIME_SHARES.values()))
    bank = rng.choice(len(BANKS), size=rows, p=BANK_SHARES)

    log_odds = np.take(list(FIRST_TIME_EFFECTS.values()), first_time) + np.take(BANK_EFFECTS, bank)
    for name, effect in LOAN_EFFECTS.items():
        log_odds += effect * numeric[name]
    scale = scale or _Scale(centres, sds, _intercept(log_odds))
    foreclosed = rng.random(rows) < expit(scale.intercept + log_odds)

    loans = pd.DataFrame(
        {
            "foreclosed": foreclosed.astype(np.int8),
            **numeric,
            "first_time": pd.Categorical.from_codes(first_time, pd.Index(list(FIRST_TIME_SHARES))),
            "bank": pd.Categorical.from_codes(bank, pd.Index(BANKS)),
        }
    )
    return loans, scale


def _raw_numbers(rows: int, rng: np.random.Generator) -> dict[str, Array]:
    """The four numbers in their own units."""
    from scipy.special import expit

    correlation = [[1, 0.05, -0.05, 0], [0.05, 1, -0.2, 0.1], [-0.05, -0.2, 1, 0.15], [0, 0.1, 0.15, 1]]
    month, score, ratio, balance = np.linalg.cholesky(correlation) @ rng.standard_normal((4, rows))
    return {
        "first_payment": np.floor(24 * expit(1.3 * month - 0.3)),  # months since the first one
        "fico": np.rint(620 + 200 * expit(0.9 * score + 1.1)),  # a long tail to the left
        "dti": np.rint(65 * expit(0.6 * ratio - 0.05)),  # percent
        "upb": np.minimum(np.rint(190 * np.exp(0.55 * balance)), 730),  # $1,000s, up to a limit
    }


def _intercept(log_odds: Array) -> float:
    """The one at which the expected rate of foreclosure is the paper's."""
    from scipy.optimize import newton
    from scipy.special import expit

    rate = FORECLOSURES / LOAN_ROWS
    # Odds are nearly probabilities when the event is rare: a start so close that a few secant steps do.
    start = np.log(rate / np.exp(log_odds).mean())
    return float(newton(lambda a: np.log(expit(a + log_odds).mean() / rate), start))
