"""Freddie Mac's files, as small ones of the same layout."""

import numpy as np
import pytest

import tallbayes as tb
from tallbayes.data.freddie_mac import find_files, load_loans


def loan(number, fico="700", month="200903", first="N", dti="30", upb="200000", bank="BANK A"):
    fields = [""] * 32
    fields[0], fields[1], fields[2], fields[9], fields[10] = fico, month, first, dti, upb
    fields[19], fields[23] = number, bank
    return "|".join(fields)


def month(number, when, code=""):
    fields = [""] * 32
    fields[0], fields[1], fields[8] = number, when, code
    return "|".join(fields)


@pytest.fixture
def folder(tmp_path):
    loans = [
        loan("F1", fico="650", month="200902", first="Y", dti="45", upb="100000"),
        loan("F2", fico="9999"),
        loan("F3", fico="800", month="201001", first="9", dti="20", upb="400000", bank="BANK B"),
        loan("F4", dti="999"),
        loan("F5", fico="750", upb="300000"),
    ]
    later = [loan("F6", fico="720", month="201012", dti="35")]
    months = [
        month("F1", "201001"),
        month("F1", "201106", "09"),
        month("F3", "201409", "02"),
        month("F5", "201001", "01"),  # paid back
        month("F2", "201001", "09"),  # without a score
    ]
    (tmp_path / "historical_data_2009Q1.txt").write_text("\n".join(loans) + "\n")
    (tmp_path / "historical_data_time_2009Q1.txt").write_text("\n".join(months) + "\n")
    (tmp_path / "historical_data_2010Q4.txt").write_text("\n".join(later) + "\n")
    (tmp_path / "historical_data_time_2010Q4.txt").write_text(month("F6", "201410", "9") + "\n")  # too late
    return tmp_path


def test_loans(folder):
    frame = load_loans(folder)
    assert list(frame) == list(tb.datasets.simulate_loans(1_000))
    assert frame["foreclosed"].tolist() == [1, 1, 0, 0]
    assert frame["first_time"].tolist() == ["yes", "unknown", "no", "no"]
    assert frame["bank"].tolist() == ["BANK A", "BANK B", "BANK A", "BANK A"]
    for name in ("first_payment", "fico", "dti", "upb"):
        np.testing.assert_allclose([frame[name].mean(), frame[name].std(ddof=0)], [0, 1], atol=1e-12)
    assert frame["fico"].to_numpy().argsort().tolist() == [0, 3, 2, 1]
    months = np.diff(frame["first_payment"].to_numpy()[[0, 1, 3]])
    np.testing.assert_allclose(months[0] / months[1], 1.0)  # from 2009-02 eleven months, and eleven more
    assert tb.GLM("foreclosed ~ fico + dti", frame).rows.size == 4


def test_the_small_sample_has_other_names(folder, tmp_path):
    for path in list(folder.glob("*.txt")):
        kind = "svcg" if "time" in path.name else "orig"
        path.rename(folder / f"sample_{kind}_{2009 if '2009' in path.name else 2010}.txt")
    assert [len(part) for part in find_files(folder)] == [2, 2]
    assert load_loans(folder)["foreclosed"].sum() == 2


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file of loans"):
        load_loans(tmp_path)
    (tmp_path / "historical_data_2009Q1.txt").write_text(loan("F1") + "\n")
    with pytest.raises(FileNotFoundError, match="no file of their months"):
        load_loans(tmp_path)


def test_another_file_is_refused(tmp_path):
    (tmp_path / "historical_data_2009Q1.txt").write_text(loan("F1", fico="") + "\n")
    (tmp_path / "historical_data_time_2009Q1.txt").write_text(month("F1", "201001") + "\n")
    with pytest.raises(ValueError, match="Freddie Mac's file"):
        load_loans(tmp_path)
