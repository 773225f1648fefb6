"""A newcomer's path: what the README says to type, typed."""

import doctest
import json
import re
from pathlib import Path

import pandas as pd
from command import type_in
from figures import sketched

import tallbayes as tb

README = Path(__file__).parent.parent / "README.md"
PATH = "Your own CSV"


def blocks(heading, language):
    """The blocks of a language under a heading."""
    under = README.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", under, re.DOTALL)


def commands(heading):
    """The lines of the shell under a heading."""
    return [line for block in blocks(heading, "sh") for line in block.splitlines()]


def make_files():
    """Run the first block of Python of the path, which writes raw data into the current folder."""
    names = {}
    for example in doctest.DocTestParser().get_examples(blocks(PATH, "python")[0]):
        exec(example.source, names)


def test_installing():
    assert commands("Install") == ["python3 -m venv env", ". env/bin/activate", "pip install ."]  # make does as much


def test_from_a_raw_file_to_report_predictions_and_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_files()
    raw = pd.read_csv("customers.csv")
    assert set(raw["bought"]) == {"yes", "no"}
    assert raw["income"].isna().any()
    assert raw["income"].mean() > 10_000  # in dollars

    typed = commands(PATH)
    assert [line.split()[:2] for line in typed] == [["tallbayes", name] for name in ("fit", "predict", "summary")]
    sketched(monkeypatch)
    assert ">" in typed[-1]
    for line in typed:
        code, _ = type_in(line)
        assert code == 0, line
    code, said = type_in(typed[0])  # it can be repeated
    assert code == 0
    made = ["customers.csv", "fit.html", "fit.json", "fit.nc", "new.csv", "predictions.csv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == made

    complete = raw.dropna()
    assert "no problems found" in said
    assert f"{len(raw) - len(complete)} rows left out for missing values" in said
    found = tb.load("fit.nc")
    assert found.converged
    assert found.coefficients[:3] == ("Intercept", "age", "income")
    page = Path("fit.html").read_text("utf-8")
    assert "Did it converge?" in page
    assert "bought = 1 where it is &#x27;yes&#x27;" in page

    known = json.loads(Path("fit.json").read_text("utf-8"))
    assert known["converged"] is True
    assert known["problems"] == []
    assert known["told"] == found.stats["told"]
    assert known["rows"] == len(complete)
    truth = {"age": 0.04, "income": -1e-5, "region[T.south]": 0.5}
    for name, value in truth.items():
        one = known["parameters"][name]
        assert abs(one["mean"] - value) < 4 * one["sd"]

    new, predictions = pd.read_csv("new.csv"), pd.read_csv("predictions.csv")
    assert list(predictions) == [*new, "mean", "eti94_lb", "eti94_ub"]
    pd.testing.assert_frame_equal(predictions[list(new)], new, check_dtype=False)
    pd.testing.assert_frame_equal(predictions[["mean", "eti94_lb", "eti94_ub"]], found.predict(new))


def test_the_first_commands_are_targets():
    makefile = (README.parent / "Makefile").read_text("utf-8")
    first = re.search(r"```sh\n(.*?)```", README.read_text("utf-8"), re.DOTALL)[1]
    for line in first.splitlines():
        assert re.search(rf"^{line.split()[1]}:", makefile, re.MULTILINE)


def test_pictures_and_pages_are_there():
    text = README.read_text("utf-8")
    for path in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (README.parent / path).is_file(), path
