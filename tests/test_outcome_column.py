"""Outcomes of text or of other numbers than 0 and 1: what counts as 1, said and remembered."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from figures import sketched

import tallbayes as tb
from tallbayes.data.formula import Formula
from tallbayes.models.glm import GLM

X = np.linspace(-1, 1, 6)


def coded(values, outcome=None, text="y ~ x"):
    formula, _, y = Formula.learn(text, {"y": values, "x": X[: len(values)]}, outcome)
    assert Formula.from_json(formula.to_json()).event == formula.event
    return y.tolist(), formula.event


OBVIOUS = [
    (["no", "yes"], "yes"),
    (["Yes", "No"], "Yes"),
    (["N", "Y"], "Y"),
    (["TRUE", "FALSE"], "TRUE"),
    (["t", "f"], "t"),
    (["0", "1"], "1"),
    (["success", "failure"], "success"),
    (["Positive", "Negative"], "Positive"),
    (["on", "off"], "on"),
    (["alive", "dead"], "dead"),  # not obvious: the second
    (["no", "maybe"], "no"),
    (["yes", "zero"], "zero"),
]


@pytest.mark.parametrize(("values", "event"), OBVIOUS)
def test_of_two_levels_the_obvious_or_the_second_counts(values, event):
    for order in (values, values[::-1]):
        y, found = coded(order)
        assert found == event
        assert y == [float(value == event) for value in order]


CATEGORIES = [
    (pd.Categorical(["b", "a"], ["b", "a"], ordered=True), "a"),
    (pd.Categorical(["b", "a"], ["b", "a"]), "b"),
    (pd.Categorical([2, 1]), 2),
    (pd.Categorical([0, 1]), 1),
    (pd.Categorical([True, False]), True),
    (pl.Series(["no", "yes"], dtype=pl.Categorical), "yes"),
]


@pytest.mark.parametrize(("values", "event"), CATEGORIES)
def test_categories_count_as_text_does(values, event):
    data = {"y": values, "x": X[:2]}
    frame = pl.DataFrame(data) if isinstance(values, pl.Series) else pd.DataFrame(data)
    formula, _, y = Formula.learn("y ~ x", frame)
    assert formula.event == event
    assert y.tolist() == [float(value == event) for value in values]


GIVEN = [
    (["no", "yes"], "no", [1, 0], "no"),
    (["a", "b", "c"], "b", [0, 1, 0], "b"),  # against all others
    (["a", "a"], "a", [1, 1], "a"),
    ([1, 2, 2], 2, [0, 1, 1], 2),
    ([1, 2, 2], "2", [0, 1, 1], 2),  # as on a command line
    ([1, 2, 3], 1, [1, 0, 0], 1),
    ([0.5, 1.5], "1.5", [0, 1], 1.5),
    ([0, 1], 0, [1, 0], 0),
    ([True, False], "False", [0, 1], 0),
    ([True, False], True, [1, 0], 1),
    (["1", "2"], 2, [0, 1], "2"),
    (pd.Categorical([3, 1]), "1", [0, 1], 1),
]


@pytest.mark.parametrize(("values", "outcome", "y", "event"), GIVEN)
def test_what_is_given_counts(values, outcome, y, event):
    assert coded(values, outcome) == (y, event)


def test_zeros_and_ones_need_no_word():
    assert coded([0, 1, 1]) == ([0, 1, 1], None)
    assert coded([True, False]) == ([1, 0], None)
    assert coded([1, 2, 3]) == ([1, 2, 3], None)  # the family refuses them, or takes them as counts


LIKE = r"; say (what|which) counts as 1, for example outcome={0}, or in the formula: I\(y == {1}\) ~ \.\.\."
REFUSED = [
    (["a", "b", "c"], None, r"the outcome 'y' is text with 3 levels \('a', 'b' and 'c'\)" + LIKE.format('"c"', "'c'")),
    (list("abcdefgh"), None, r"8 levels \('a', 'b', 'c', 'd', 'e', 'f', ... \(8 in all\)\)"),
    (["a", "a"], None, r"the outcome 'y' is text with only one level \('a'\)" + LIKE.format('"a"', "'a'")),
    ([1, 2, 2], None, "outcome 'y' must be 0 or 1, but is 1 or 2" + LIKE.format("2", "2")),
    ([0, 2.5], None, "must be 0 or 1, but is 0 or 2.5" + LIKE.format("2.5", "2.5")),
    (["no", "yes"], "maybe", "outcome='maybe' never occurs: the outcome 'y' is 'no' or 'yes'"),
    ([1, 2], 3, "outcome=3 never occurs: the outcome 'y' is 1 or 2"),
    ([1, 2], "yes", "outcome='yes' never occurs"),
    ([1, 2], ["no"], "never occurs"),
]


@pytest.mark.parametrize(("values", "outcome", "message"), REFUSED)
def test_refused(values, outcome, message):
    with pytest.raises(ValueError, match=message):
        Formula.learn("y ~ 1", {"y": values}, outcome)


def test_only_a_plain_column_takes_an_outcome():
    with pytest.raises(ValueError, match=r"the left side .*y == 'a'.* is not a plain column; write the column's name"):
        coded(["a", "b"], "a", "I(y == 'a') ~ x")


def test_names_in_backticks():
    data = {"my y": ["no", "yes", "so"], "x": X[:3]}
    with pytest.raises(ValueError, match=r"I\(`my y` == 'yes'\) ~ ...|I\(`my y` == 'so'\) ~ ..."):
        Formula.learn("`my y` ~ x", data)
    formula, _, y = Formula.learn("`my y` ~ x", data, "so")
    assert (formula.event, y.tolist()) == ("so", [0, 0, 1])
    assert Formula.learn("I(`my y` == 'so') ~ x", data)[2].tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("family", "text"), [("poisson", "n ~ x"), (tb.Binomial("n"), "n ~ x"), ("bernoulli", "p(n, n) ~ x")]
)
def test_other_families_take_no_outcome(family, text):
    with pytest.raises(ValueError, match="outcome= says what counts as 1, for family 'bernoulli', not for"):
        GLM(text, {"n": [1, 2], "x": [0.0, 1.0]}, family, outcome=1)


def test_other_families_take_no_text():
    with pytest.raises(ValueError, match="the outcome 'y' is text; make it a number"):
        GLM("y ~ x", {"y": ["no", "yes"], "x": [0.0, 1.0]}, "poisson")


def test_formulas_of_the_first_format_are_read():
    saved = json.loads(Formula.learn("y ~ x", {"y": [0, 1], "x": [1.0, 2.0]})[0].to_json())
    for name in ("event", "offset_transforms", "left_out"):
        del saved[name]
    old = Formula.from_json(json.dumps(saved | {"version": 1}))
    assert (old.event, old.left_out) == (None, ())
    assert old.apply({"x": [3.0]}).tolist() == [[1], [3]]


def fitted(text="y ~ x", **options):
    rng = np.random.default_rng(1)
    x = rng.normal(size=300)
    y = np.where(rng.random(300) < 1 / (1 + np.exp(-x)), "bad", "good")
    data = pd.DataFrame({"y": y, "x": x, "bad": (y == "bad").astype(int), "g": rng.choice(list("ab"), 300)})
    return tb.fit(text, data, draws=30, chains=1, seed=1, progress=False, **options), data


def test_a_fit_says_what_counted(tmp_path, monkeypatch):
    sketched(monkeypatch)
    fit, data = fitted(outcome="bad")
    same = fitted("bad ~ x")[0]
    np.testing.assert_array_equal(fit.draws, same.draws)
    told = f"y = 1 where it is 'bad': {data['bad'].sum()} of 300 rows"
    assert fit.stats["told"] == [told]
    assert same.stats["told"] == []
    assert repr(fit).startswith(f"outcome      {told}\n")
    assert not repr(same).startswith("outcome")
    fit.save(tmp_path / "fit.nc")
    loaded = tb.load(tmp_path / "fit.nc")
    assert (loaded.formula.event, loaded.stats["told"]) == ("bad", [told])
    fit.report(tmp_path / "fit.html")
    page = (tmp_path / "fit.html").read_text()
    assert "bernoulli (link logit); y = 1 where it is" in page
    pd.testing.assert_frame_equal(loaded.predict(data[["x"]]), fit.predict(data[["x"]]))


def test_groups_and_splines_say_it_too():
    fit, data = fitted("y ~ x + (1 | g)")
    told = f"y = 1 where it is 'good': {300 - data['bad'].sum()} of 300 rows"
    assert fit.stats["told"] == [told]
    spline = tb.sample(tb.MARS("y ~ x", data), draws=20, warmup=20, chains=1, seed=1, progress=False)
    assert spline.stats["told"] == [told]
    assert repr(spline).startswith(f"outcome      {told}\n")
