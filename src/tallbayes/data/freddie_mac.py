"""Freddie Mac's loans, from the files that registered users may download.

The single-family loan-level dataset comes as text files without heads, fields separated by |: one with the loans as
they began (historical_data_2009Q1.txt, or sample_orig_2009.txt of the small sample) and one with what became of them
month by month (historical_data_time_2009Q1.txt, sample_svcg_2009.txt).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

# Places of fields, counted from 0 as the files have no heads; they have not changed since the paper.
FIELDS = {0: "fico", 1: "first_payment", 2: "first_time", 9: "dti", 10: "upb", 19: "loan", 23: "bank"}
MONTHLY = {0: "loan", 1: "month", 8: "code"}
FORECLOSED = ("02", "09")  # why a balance is zero: sold at auction, or owned by the lender and sold
LAST_MONTH = 201409
YEARS = (2009, 2010)
MISSING = {"fico": 9999, "dti": 999}
ROWS_AT_ONCE = 2_000_000
FIRST_TIME = {"Y": "yes", "N": "no"}


def load_loans(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """Load Freddie Mac's loans of 2009 and 2010, with the columns of `simulate_loans`.

    `folder` holds the text files of both years. A loan is foreclosed if by September 2014 its balance went to zero
    because it was sold at auction, or owned by the lender and sold. Loans without a credit score or a debt-to-income
    ratio are left out. `first_payment` is in months and `upb` the log of the balance before all four numbers are
    centred and scaled.
    """
    import pandas as pd

    begun, monthly = find_files(folder)
    loans = pd.concat([part for path in begun for part in _read(path, FIELDS)], ignore_index=True)
    numbers = {name: pd.to_numeric(loans[name], errors="coerce") for name in ("fico", "first_payment", "dti", "upb")}
    known = np.logical_and.reduce([column.notna() & (column != MISSING.get(name)) for name, column in numbers.items()])
    if not known.any():
        raise ValueError(
            f"no loan in {begun[0]} has a credit score and a debt-to-income ratio; is it Freddie Mac's file?"
        )
    month = numbers["first_payment"]
    raw = numbers | {"first_payment": 12 * (month // 100) + month % 100, "upb": np.log(numbers["upb"])}
    columns = {name: standardise(column[known].to_numpy(float)) for name, column in raw.items()}
    foreclosed = loans["loan"][known].isin(set().union(*(_foreclosed(path) for path in monthly)))
    return pd.DataFrame(
        {
            "foreclosed": foreclosed.to_numpy(np.int8),
            **{name: columns[name] for name in ("first_payment", "fico", "dti", "upb")},
            "first_time": pd.Categorical(loans["first_time"][known].map(FIRST_TIME).fillna("unknown")),
            "bank": pd.Categorical(loans["bank"][known].fillna("unknown")),
        }
    )


def find_files(folder: str | os.PathLike[str]) -> tuple[list[Path], list[Path]]:
    """The files of loans and those of their months; refuse a folder that lacks either."""
    named = [path for year in YEARS for path in sorted(Path(folder).glob(f"*{year}*.txt"))]
    monthly = [path for path in named if "_time_" in path.name or "_svcg_" in path.name]
    begun = [path for path in named if path not in monthly]
    for what, found, like in (
        ("loans", begun, "historical_data_2009Q1.txt"),
        ("their months", monthly, "historical_data_time_2009Q1.txt"),
    ):
        if not found:
            raise FileNotFoundError(f"no file of {what} in '{folder}'; put Freddie Mac's files there, such as {like}")
    return begun, monthly


def _read(path: Path, fields: dict[int, str]) -> Iterator[pd.DataFrame]:
    """Some fields as text, some rows at a time; empty ones are missing."""
    import pandas as pd

    how: dict[str, Any] = {"sep": "|", "header": None, "usecols": list(fields), "dtype": "str"}
    for part in pd.read_csv(path, chunksize=ROWS_AT_ONCE, **how):
        yield part.rename(columns=fields)


def _foreclosed(path: Path) -> set[str]:
    found: set[str] = set()
    for part in _read(path, MONTHLY):
        ended = part["code"].str.zfill(2).isin(FORECLOSED) & (part["month"].astype(int) <= LAST_MONTH)
        found |= set(part["loan"][ended])
    return found


def standardise(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centre and scale to sd 1.

    >>> standardise(np.array([1.0, 3.0]))
    array([-1.,  1.])
    """
    centred = column - column.mean()
    scaled: NDArray[np.float64] = centred / (centred.std() or 1.0)
    return scaled
