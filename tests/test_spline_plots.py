from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb

import tallbayes as tb
from tallbayes.results.example import example
from tallbayes.results.figure import COLOURS
from tallbayes.splines import plots as spline_plots
from tallbayes.splines.example import example_mars


def rendered(figure):
    """The figure after drawing it, which is when the layout is decided."""
    FigureCanvasAgg(figure).draw()
    return figure


def renamed(*names):
    """The example with other names of its variables, and more of these if there are more names."""
    fit = example_mars()
    fit.table = fit.table.isel(variable=np.arange(len(names)) % 3).assign_coords(variable=list(names))
    return fit


def texts(labels):
    return [label.get_text() for label in labels]


def band(collection):
    """Lower and upper ends (x, low, high) of what `fill_between` drew."""
    x, y = collection.get_paths()[0].vertices.T
    at = np.unique(x)
    return at, np.array([y[x == one].min() for one in at]), np.array([y[x == one].max() for one in at])


def test_importance_shows_the_table_most_important_first():
    fit = example_mars()
    figure = rendered(tb.plots.importance(fit))
    (panel,) = figure.axes
    table = fit.importance()
    assert texts(panel.get_yticklabels()) == list(table.index) == ["age", "urban", "income"]
    np.testing.assert_array_equal(panel.lines[0].get_xydata(), np.column_stack([table["effect"], range(3)]))
    ends = [path[:, 0] for path in panel.collections[0].get_segments()]
    np.testing.assert_array_equal(ends, table[["eti94_lb", "eti94_ub"]])
    first, last = panel.transData.transform([(0, 0), (0, 2)])[:, 1]
    assert first > last
    assert texts(panel.child_axes[0].get_yticklabels()) == ["100%", "100%", "50%", "included"]
    assert texts(figure.legends[0].get_texts()) == ["posterior mean", "94% interval"]
    assert panel.get_xlabel() == "sd of what the variable changes in the log-odds"


def test_importance_of_very_many_variables_says_how_many_are_left_out():
    figure = tb.plots.importance(renamed(*(f"v{i}" for i in range(45))))
    (panel,) = figure.axes
    assert len(panel.get_yticklabels()) == 40
    assert panel.get_xlabel().endswith("\n(not shown: 5 of lesser effect)")


BASE_RATE = 0.545  # of the example's 200 rows


@pytest.mark.parametrize("scale", ["probability", "log-odds"])
def test_effects_have_a_panel_a_variable_with_the_mean_in_a_band(scale):
    fit = example_mars()
    figure = rendered(tb.plots.effects(fit, scale=scale))
    assert [panel.get_title() for panel in figure.axes] == ["age", "urban", "income"]
    for panel in (figure.axes[0], figure.axes[2]):
        found = fit.effect(panel.get_title(), scale=scale)
        mean, *base, rug = panel.lines
        assert [set(line.get_ydata()) for line in base] == ([{BASE_RATE}] if scale == "probability" else [])
        x, y = mean.get_data()
        np.testing.assert_array_equal(x, found[panel.get_title()])
        np.testing.assert_array_equal(y, found["mean"])
        at, low, high = band(panel.collections[0])
        np.testing.assert_array_equal(at, x)
        np.testing.assert_array_equal([low, high], [found["lower"], found["upper"]])
        assert ((low < y) & (y < high)).all()
        np.testing.assert_array_equal(rug.get_xdata(), fit.table["quantiles"].sel(variable=panel.get_title())[1:-1])
        ends = rug.get_transform().transform(rug.get_xydata())[:, 1]
        assert (ends < panel.transData.transform(np.column_stack([at, low]))[:, 1].min()).all()
    told = ["posterior mean", "94% interval", *(["base rate"] if base else []), "percentiles of the data"]
    for columns in (4, 2):
        assert texts(tb.plots.effects(fit, columns=columns, scale=scale).legends[0].get_texts()) == told


def test_effects_of_few_values_are_points_with_intervals():
    fit = example_mars()
    (panel,) = tb.plots.effects(fit, ["urban"]).axes
    found = fit.effect("urban", scale="probability")
    points, _ = panel.lines
    assert points.get_linestyle() == "None"
    np.testing.assert_array_equal(points.get_xydata(), np.column_stack([[0, 1], found["mean"]]))
    for path, low, mean, high in zip(
        panel.collections[0].get_segments(), *(found[part].values for part in ("lower", "mean", "upper")), strict=True
    ):
        assert path[:, 1].tolist() == [low, high]
        assert low < mean < high
    assert texts(panel.get_xticklabels()) == ["0", "1"]


def test_the_legend_of_effects_shows_lines_if_there_are_any():
    for names, style in ((["urban", "age"], "-"), (["urban"], "None")):
        figure = tb.plots.effects(example_mars(), names)
        assert [panel.get_title() for panel in figure.axes] == names
        assert figure.legends[0].legend_handles[0].get_linestyle() == style


def test_effects_share_the_axis_of_the_probability():
    names = [f"v{i}" for i in range(15)]
    figure = tb.plots.effects(renamed(*names))
    assert len(figure.axes) == 12
    assert figure.get_supxlabel() == "(not shown: 3 of lesser effect)"
    assert len({panel.get_ylim() for panel in figure.axes}) == 1
    labelled = [panel for panel in figure.axes if panel.get_ylabel()]
    assert [panel.get_ylabel() for panel in labelled] == ["probability"] * 3
    shown = [any(label.get_visible() for label in panel.get_yticklabels()) for panel in figure.axes]
    assert shown == [panel in labelled for panel in figure.axes]
    figure = tb.plots.effects(renamed(*names), names)  # all that are asked for
    assert [panel.get_title() for panel in figure.axes] == names
    assert figure.get_supxlabel() == ""


def test_an_interaction_has_a_map_and_the_effect_at_three_quantiles():
    fit = example_mars()
    figure = rendered(tb.plots.interaction(fit, "age", "income", scale="log-odds"))
    left, right, _ = figure.axes
    found = fit.effect("age", "income")
    np.testing.assert_array_equal(left.images[0].get_array(), found["mean"].values.T)
    edges = np.reshape(left.images[0].get_extent(), (2, 2))
    for (low, high), grid in zip(edges, (found["age"].values, found["income"].values), strict=True):
        half = (high - low) / grid.size / 2
        np.testing.assert_allclose([low + half, high - half], [grid[0], grid[-1]])  # the middle of a cell is its value
    assert (left.get_xlabel(), left.get_ylabel(), left.get_title()) == ("age", "income", "log-odds: posterior mean")
    assert (right.get_xlabel(), right.get_ylabel()) == ("age", "log-odds")

    cuts = fit.table["quantiles"].sel(variable="income").values[[10, 50, 90]]
    at_cuts = fit.effect("age", "income", grids=(found["age"].values, cuts))
    assert len(right.lines) == len(right.collections) == 3
    for i, (line, area) in enumerate(zip(right.lines, right.collections, strict=True)):
        one = at_cuts.isel(income=i)
        np.testing.assert_array_equal(line.get_xydata(), np.column_stack([found["age"], one["mean"]]))
        np.testing.assert_array_equal(band(area)[1:], [one["lower"], one["upper"]])
        assert line.get_color() == to_hex(area.get_facecolor()[0]).upper() == COLOURS[i]
    assert [line.get_linestyle() for line in right.lines] == ["-", "--", "--"]
    marks = [line.get_ydata()[0] for line in left.lines]
    np.testing.assert_array_equal(marks, cuts)
    assert [line.get_color() for line in left.lines] == [line.get_color() for line in right.lines]
    assert figure.legends[0].get_title().get_text() == "income"
    expected = [f"{cut:.3g} ({percent}% quantile)" for cut, percent in zip(cuts, (10, 50, 90), strict=True)]
    assert texts(figure.legends[0].get_texts()) == expected


def test_an_interaction_shows_stored_probabilities():
    fit = example_mars()
    found = fit.effect("age", "income", scale="probability")
    cuts = fit.table["quantiles"].sel(variable="income").values[[10, 50, 90]]
    for columns in (2, 1):
        figure = rendered(tb.plots.interaction(fit, "age", "income", columns))
        left, right, _ = figure.axes
        assert (left.get_title(), right.get_ylabel()) == ("probability: posterior mean", "probability")
        picture = left.images[0].get_array()
        assert picture.shape == (60, 60)
        corners = found["mean"].values.T[[0, 0, -1, -1], [0, -1, 0, -1]]
        np.testing.assert_allclose(picture[[0, 0, -1, -1], [0, -1, 0, -1]], corners)
        for line, area, cut in zip(right.lines, right.collections, cuts, strict=True):
            one = found.sel(income=cut)  # the grid has it
            np.testing.assert_array_equal(line.get_xydata(), np.column_stack([found["age"], one["mean"]]))
            np.testing.assert_array_equal(band(area)[1:], [one["lower"], one["upper"]])
        assert figure.legends[0].get_title().get_text() == "income"
        assert len(figure.legends[0].get_texts()) == 3
        assert len(figure.legends) == 1


@pytest.mark.parametrize("scale", ["probability", "log-odds"])
def test_the_contours_of_a_map_are_where_its_colour_bar_has_numbers(scale):
    left, _, bar = rendered(tb.plots.interaction(example_mars(), "age", "income", scale=scale)).axes
    mean = left.images[0].get_array()
    (contours,) = left.collections
    assert set(contours.levels) == {tick for tick in bar.get_yticks() if mean.min() < tick < mean.max()}
    assert len(contours.labelTexts) > 0
    for text in contours.labelTexts:  # which can be read on the map
        here = spline_plots._luminance(left.images[0].to_rgba(np.array(float(text.get_text().replace("−", "-")))))
        ink = spline_plots._luminance(np.array(to_rgb(text.get_color())))
        assert (max(here, ink) + 0.05) / (min(here, ink) + 0.05) > 4.5


def test_an_interaction_with_a_second_variable_of_few_values_is_drawn_at_these():
    fit = example_mars()
    figure = tb.plots.interaction(fit, "age", "urban")
    left, right, _ = figure.axes
    assert texts(figure.legends[0].get_texts()) == texts(left.get_yticklabels()) == ["0", "1"]
    for i, line in enumerate(right.lines):
        np.testing.assert_array_equal(line.get_ydata(), fit.effect("age", "urban", scale="probability")["mean"][:, i])
    fit.table["quantiles"][2] = np.repeat([0, 1, 2, 3, 4, 5, 6], [15, 15, 15, 15, 15, 15, 11])
    figure = tb.plots.interaction(fit, "age", "urban", scale="log-odds")
    assert texts(figure.legends[0].get_texts()) == ["0", "3", "6"]
    assert [line.get_ydata()[0] for line in figure.axes[0].lines if line.get_marker() == "<"] == [0, 3, 6]


def test_an_interaction_with_a_first_variable_of_few_values_has_points_side_by_side():
    left, right, _ = tb.plots.interaction(example_mars(), "urban", "age").axes
    assert left.collections[:] == []  # no contours
    assert texts(left.get_xticklabels()) == texts(right.get_xticklabels()) == ["0", "1"]
    x = np.array([line.get_xdata() for line in right.lines])
    assert x.shape == (3, 2)
    assert (np.diff(x.T.ravel()) > 0).all()
    assert (abs(x - [0, 1]) < 0.3).all()
    assert len({line.get_marker() for line in right.lines}) == 3


def test_a_spline_without_any_effect_is_drawn():
    fit = example_mars()
    fit.splines["beta"][..., 0], fit.splines["beta"][..., 1:] = -1.0, 0.0
    fit.table["effects"][:] = 0.0
    rendered(tb.plots.importance(fit))
    rendered(tb.plots.effects(fit, scale="log-odds"))
    left, right, _ = rendered(tb.plots.interaction(fit, "age", "income", scale="log-odds")).axes
    assert left.collections[:] == []
    assert (right.lines[0].get_ydata() == -1).all()


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (-1.2345, "−1.23"), (2001.0, "2001"), (-54_321.9, "−54322"), (0.00123, "0.00123")]
)
def test_numbers_are_short(value, text):
    assert spline_plots._number(value) == text


LONG = ("education[T.university.degree]:marital[T.unknown]", "a_$x$_b", "the $share$ of those who live in a city")


MANY = tuple(f"variable {i}" for i in range(50))


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        pytest.param(("x1", "x2", "x3"), [(0, 1), (2, 0)], id="short", marks=pytest.mark.long),
        pytest.param(LONG, [(0, 1), (2, 0)], id="long"),
        pytest.param(MANY, [], id="many", marks=pytest.mark.long),
    ],
)
def test_nothing_is_clipped_or_overlaps(names, pairs):
    fit = renamed(*names)
    for figure in (
        tb.plots.importance(fit),
        tb.plots.importance(fit, narrow=True),
        tb.plots.effects(fit),
        tb.plots.effects(fit, columns=2),
        tb.plots.effects(fit, narrow=True),
        *(tb.plots.interaction(fit, names[first], names[second]) for first, second in pairs),
        *(tb.plots.interaction(fit, names[first], names[second], 1) for first, second in pairs),
        *(tb.plots.interaction(fit, names[first], names[second], narrow=True) for first, second in pairs[:1]),
        *(tb.plots.interaction(fit, names[first], names[second], scale="log-odds") for first, second in pairs[:1]),
    ):
        renderer = rendered(figure).canvas.get_renderer()
        boxes = [panel.get_tightbbox(renderer) for panel in figure.axes]
        boxes += [legend.get_window_extent(renderer) for legend in figure.legends]
        for i, box in enumerate(boxes):
            assert figure.bbox.x0 - 1 <= box.x0 < box.x1 <= figure.bbox.x1 + 1
            assert figure.bbox.y0 - 1 <= box.y0 < box.y1 <= figure.bbox.y1 + 1
            assert not any(box.padded(-1).overlaps(other.padded(-1)) for other in boxes[:i])
        for panel in figure.axes:
            low, high = panel.get_xlim()
            labels = [label for label in panel.get_xticklabels() if low <= label.get_position()[0] <= high]
            extents = sorted(label.get_window_extent(renderer).extents[[0, 2]].tolist() for label in labels)
            assert all(left[1] < right[0] for left, right in pairwise(extents))


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda fit: tb.plots.effects(fit, ["agee"]), "no variable 'agee'; there are 'age', 'income', 'urban'"),
        (lambda fit: tb.plots.effects(fit, []), "at least one name"),
        (lambda fit: tb.plots.interaction(fit, "age", "zzz"), "no variable 'zzz'"),
        (lambda fit: tb.plots.interaction(fit, "age", "age"), "two different ones"),
    ],
)
def test_arguments_are_checked(draw, message):
    with pytest.raises(ValueError, match=message):
        draw(example_mars())


@pytest.mark.parametrize(
    "draw", [tb.plots.importance, tb.plots.effects, lambda fit: tb.plots.interaction(fit, "a", "b")]
)
def test_a_fit_that_is_no_spline_is_refused(draw):
    with pytest.raises(ValueError, match=r"fit must be the fit of a spline, .*plots.trace.*, not a value of type Fit"):
        draw(example(draws=50))


def test_the_example_is_a_fit_that_can_be_printed_saved_and_asked(tmp_path):
    fit = example_mars(seed=3)
    assert fit.draws.shape == (2, 40, len(fit.parameters))
    assert "two-stage reversible jump" in repr(fit)
    fit.save(tmp_path / "fit.nc")
    again = tb.load(tmp_path / "fit.nc")
    assert isinstance(again, tb.MARSFit)
    np.testing.assert_array_equal(again.effect("age")["mean"], example_mars(seed=3).effect("age")["mean"])
    np.testing.assert_allclose(fit.log_odds(fit.table["points"].values), fit.posterior["log_odds"])
