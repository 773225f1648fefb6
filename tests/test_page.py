import re

import pandas as pd
import pytest

from tallbayes.results import page
from tallbayes.results.figure import COLOURS, make_figure


def test_words_are_escaped():
    frame = pd.DataFrame({"<b>": ["<i>"]}, index=["<u>"])
    for shown in (
        page.page("<b>", "", []),
        page.section("<b>"),
        page.text("<b>"),
        page.bullets(["<b>"]),
        page.facts({"<b>": "<i>"}),
        page.cards(("<b>", "<i>", "<u>", "")),
        page.table(frame, "<s>"),
        page.figure(make_figure(3, 2), "<b>"),
    ):
        assert not {"<b><", "<i><", "<u><", "<s><"} & {shown[i : i + 4] for i in range(len(shown))}
        assert "&lt;" in shown


def test_numbers_without_a_value_are_empty():
    shown = page.table(pd.DataFrame({"a": [float("nan"), 1.0, float("inf")]}, index=["x", "y", "z"]))
    assert shown.count("<td></td>") == 2


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (1234567, "1,234,567"), (0.000123456, "0.0001235"), (999.96, "1000"), (-2, "−2")]
)
def test_numbers(value, shown):
    assert page.number(value) == shown


def test_formats():
    shown = page.table(pd.DataFrame({"share": [0.254], "n": [3]}, index=["a"]), formats={"share": ".0%"})
    assert ">25%</td>" in shown
    assert ">3</td>" in shown


def test_figures_take_the_colours_of_the_page():
    figure = make_figure(3, 2)
    panel = figure.add_subplot()
    panel.plot([0, 1], color=COLOURS[1])
    panel.axhline(0, color="0.4")
    panel.axhline(1, color="#123456")
    shown = page.figure(figure, "lines")
    assert "var(--orange)" in shown
    assert "color-mix(in srgb, var(--ink) 60%, var(--paper))" in shown
    assert "#123456" in shown
    assert COLOURS[1].lower() not in shown
    assert "<metadata>" not in shown
    assert "<!DOCTYPE" not in shown


def test_the_same_figure_twice_has_different_names():
    figure = make_figure(3, 2)
    figure.add_subplot().plot([0, 1], "o")
    first, second = page.figure(figure, "one"), page.figure(figure, "two")
    names = [{part.split('"')[0] for part in shown.split('id="m')[1:]} for shown in (first, second)]
    assert names[0]
    assert not names[0] & names[1]


def test_coordinates_are_short_and_words_are_whole():
    figure = make_figure(3, 2)
    panel = figure.add_subplot()
    panel.plot([0, 1 / 3, 1])
    panel.set_title("sd 0.0005")
    shown = page.figure(figure, "step 0.00025")
    assert "sd 0.0005<" in shown
    assert shown.count("step 0.00025") == 2
    assert not re.search(r' d="[^"]*\d\.\d{3}', shown)


def test_phones_get_the_narrow_one():
    shown = page.figure(make_figure(9, 2), "wide", make_figure(4, 4))
    assert shown.index('class="narrow"') < shown.index('class="wide"')  # the style asks for this order
