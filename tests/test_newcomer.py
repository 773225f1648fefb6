"""A newcomer who knows pandas follows one page, in an empty folder: from a raw CSV file to a report."""

import doctest
from pathlib import Path

import pytest

import tallbayes as tb

PAGE = Path(__file__).parents[1] / "docs" / "from-a-csv.md"
STEPS = {  # what has to be reached, by what the page calls
    "raw file": "pd.read_csv(",
    "fit": "tb.fit(",
    "odds ratios": "summary(exponentiate=True)",
    "marginal effect": "avg_comparisons(",
    "model comparison": "tb.compare_models(",
    "report": ".report(",
}


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """The folder in which all lines of the page were run, one after the other, and what they left behind."""
    folder, found = tmp_path_factory.mktemp("newcomer"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        test = doctest.DocTestParser().get_doctest(PAGE.read_text("utf-8"), found, PAGE.name, str(PAGE), 0)
        said = []
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
        runner.run(test, out=said.append, clear_globs=False)
    assert not runner.failures, "".join(said)
    return folder, test.globs


def test_the_page_goes_all_the_way():
    text = PAGE.read_text("utf-8")
    places = [text.index(call) for call in STEPS.values()]
    assert places == sorted(places)


def test_the_report_says_what_was_asked(followed):
    page = (followed[0] / "customers.html").read_text("utf-8")
    for said in (
        "odds ratio",
        "left ~ age + plan + bill + complaints",
        "&#x27;basic&#x27; of the 3 levels of plan",
        "left out",
    ):
        assert said in page


def test_what_was_saved_is_what_was_found(followed):
    folder, found = followed
    again, fit = tb.load(folder / "customers.nc"), found["richer"]
    assert again.summary(exponentiate=True).equals(fit.summary(exponentiate=True))
    effects = again.avg_comparisons("plan", data=found["customers"].dropna().query("age != '?'"))
    assert effects["term"].tolist() == ["plan", "plan"]
    assert (effects["mean"] < 0).all()


def test_numbers_are_those_of_the_truth(followed):
    """The page makes its own data, so that they are known; intervals of 4.9 sds, for false alarms below 1e-6 each."""
    table = followed[1]["richer"].summary()
    truth = {"age": -0.015, "plan[T.plus]": -0.3, "plan[T.pro]": -0.7, "bill": 0.12, "complaints": 0.5}
    for name, value in truth.items():
        assert abs(table.loc[name, "mean"] - value) < 4.9 * table.loc[name, "sd"]
