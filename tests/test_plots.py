import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from tallbayes import plots
from tallbayes.families import Bernoulli
from tallbayes.groups.example import group_example
from tallbayes.results import plots as general
from tallbayes.results.example import example
from tallbayes.rows.calibration import by_predictor, calibrate
from tallbayes.rows.memory import MemoryRows


def rendered(figure):
    """The figure after drawing it, which is when the layout is decided."""
    FigureCanvasAgg(figure).draw()
    return figure


def test_trace_has_a_panel_a_coefficient_and_a_line_a_chain():
    figure = rendered(plots.trace(example(chains=3, draws=2_500)))
    assert [panel.get_title() for panel in figure.axes] == ["Intercept", "fico"]
    lines = figure.axes[1].lines
    assert [line.get_label() for line in lines] == ["chain 1", "chain 2", "chain 3"]
    kept = lines[2].get_xdata().astype(int)
    assert kept.size <= general.TRACE_POINTS
    np.testing.assert_array_equal(lines[2].get_ydata(), example(chains=3, draws=2_500).draws[2, kept, 1])


def test_density_has_a_line_a_fit_that_integrates_to_one_around_the_mean():
    figure = rendered(plots.density(mh=example(), two_stage=example(seed=1), third=example(seed=2)))
    assert len(figure.axes) == 2
    for panel, center in zip(figure.axes, [-1.0, 0.5], strict=True):
        assert [line.get_label() for line in panel.lines] == ["mh", "two_stage", "third"]
        for line in panel.lines:
            x, y = line.get_data()
            assert np.trapezoid(y, x) == pytest.approx(1, abs=0.01)
            assert np.trapezoid(x * y, x) == pytest.approx(center, abs=0.01)
    assert len(figure.legends) == 1


def test_density_of_normal_draws_is_nearly_normal():
    values = np.random.default_rng(0).normal(size=100_000)
    x, y = general._smooth(values, values.size)
    np.testing.assert_allclose(y, np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi), atol=0.02)


def test_a_coefficient_that_never_moves_is_a_line():
    fit = example()
    fit.posterior["beta"][:, :, 1] = 0.5
    panel = rendered(plots.density(fit, names=["fico"])).axes[0]
    assert panel.lines[0].get_xdata()[0] == 0.5


def test_redpm_shows_the_ratio_of_every_coefficient():
    fits = {
        "mh": example(draws=1_000),
        "same": example(draws=1_000),
        "twice": example(draws=1_000, seconds=30.0),
    }
    figure = plots.redpm((1, 10), **fits)
    assert len(figure.axes) == 2
    for panel in figure.axes:
        reference, same, twice = panel.lines
        assert reference.get_xdata()[0] == 1
        np.testing.assert_allclose(same.get_xdata(), 1)
        np.testing.assert_allclose(twice.get_xdata(), 2)
        assert panel.get_xscale() == "linear"
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["Intercept", "fico"]


def test_redpm_takes_a_log_scale_for_large_ratios_and_says_where_draws_are_too_few():
    figure = rendered(plots.redpm((1, 50), mh=example(), faster=example(seconds=1.0)))
    assert figure.axes[0].get_xscale() == "log"
    assert [text.get_text() for text in figure.axes[0].texts] == []
    assert [text.get_text() for text in figure.axes[1].texts] == ["too few draws"]


def test_nothing_is_clipped_or_overlaps_with_long_names():
    fit = example()
    long = "education[T.university.degree]:marital[T.unknown]"
    fit.posterior = fit.posterior.assign_coords(coefficient=["a_$x$_b", long])
    for figure in (plots.trace(fit), plots.density(a=fit, b=fit), plots.redpm(a=fit, b=fit)):
        renderer = rendered(figure).canvas.get_renderer()
        boxes = [panel.get_tightbbox(renderer) for panel in figure.axes]
        boxes += [legend.get_window_extent(renderer) for legend in figure.legends]
        for i, box in enumerate(boxes):
            assert box.x0 >= figure.bbox.x0 - 1
            assert box.x1 <= figure.bbox.x1 + 1
            assert not any(box.padded(-1).overlaps(other.padded(-1)) for other in boxes[:i])


def test_parameters_of_groups_are_drawn_unless_they_are_many():
    few, many = group_example(3, draws=50), group_example(38, draws=50)
    assert [panel.get_title() for panel in plots.trace(few).axes] == list(few.parameters)
    assert [panel.get_title() for panel in plots.density(fit=few).axes] == list(few.parameters)
    main = ["Intercept", "fico", "1|bank_sigma"]
    assert [panel.get_title() for panel in plots.trace(many).axes] == main
    assert [panel.get_title() for panel in plots.density(fit=many).axes] == main
    (panel,) = plots.trace(many, ["1|bank[b07]"]).axes
    np.testing.assert_array_equal(panel.lines[1].get_ydata(), many.posterior["1|bank"].sel(bank="b07")[1])
    for fit, names in [(few, list(few.parameters)), (many, main)]:
        figure = plots.redpm((1,), a=fit, b=fit)
        assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == names


def marks(figure, marker):
    """Positions (x, y) of the marks of one kind."""
    lines = [line for line in figure.axes[0].lines if line.get_marker() == marker]
    return np.concatenate([line.get_xydata() for line in lines]) if lines else np.empty((0, 2))


def test_caterpillar_shows_each_group_and_what_its_rows_alone_say():
    fit = group_example(16)
    alone = fit.groups["alone"].values
    alone[[0, 1, 2, 3]] = [np.nan, np.inf, 50.0, -50.0]
    figure = rendered(plots.caterpillar(fit))
    (panel,) = figure.axes
    effects = fit.posterior["1|bank"].values
    mean = effects.mean(axis=(0, 1))
    order = mean.argsort()
    assert [label.get_text() for label in panel.get_yticklabels()] == [f"b{i + 1:02}" for i in order]
    np.testing.assert_allclose(marks(figure, "o"), np.column_stack([mean[order], range(16)]))
    for lines, tails in zip(panel.collections, [(0.03, 0.97), (0.25, 0.75)], strict=True):
        ends = np.quantile(effects, tails, axis=(0, 1))[:, order].T
        np.testing.assert_allclose([path[:, 0] for path in lines.get_segments()], ends)
    rank = order.argsort()
    low, high = panel.get_xlim()
    assert marks(figure, "<").tolist() == [[low, rank[3]]]
    assert marks(figure, ">").tolist() == [[high, rank[2]]]
    kept = [i for i in order if i > 3 and np.isfinite(alone[i])]
    assert len(kept) > 8
    np.testing.assert_array_equal(marks(figure, "D"), np.column_stack([alone[kept], rank[kept]]))
    assert low < np.quantile(effects, 0.03, axis=(0, 1)).min()
    assert high > np.quantile(effects, 0.97, axis=(0, 1)).max()
    texts = [label.get_text() for label in panel.child_axes[0].get_yticklabels()]
    assert texts == [*(f"{count:,}" for count in fit.groups["rows"].values[order]), "rows"]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["94% interval", "50% interval", "posterior mean", "the group's rows alone"]


def test_caterpillar_draws_what_is_known():
    fit = group_example(4, draws=50)
    fit.groups = fit.groups.drop_vars("alone")
    assert len(marks(plots.caterpillar(fit), "D")) == 0
    fit.groups = None
    figure = rendered(plots.caterpillar(fit))
    assert figure.axes[0].child_axes == []
    fit.posterior["1|bank"][:] = 0.0  # no spread at all
    rendered(plots.caterpillar(fit))


def test_caterpillar_of_very_many_groups_has_bands_instead_of_names():
    fit = group_example(10_000, chains=1, draws=20)
    figure = rendered(plots.caterpillar(fit))
    (panel,) = figure.axes
    assert panel.get_yticks().size == 0
    assert panel.get_ylabel() == "10,000 groups, sorted by posterior mean"
    assert len(panel.collections) == 2
    x, y = marks(figure, ".").T
    assert (np.diff(x) >= 0).all()
    assert y.tolist() == list(range(10_000))
    assert tuple(figure.get_size_inches()) < (10, 10)
    assert len(rendered(plots.caterpillar(group_example(5, draws=20), most=4)).axes[0].get_yticks()) == 0


@pytest.mark.parametrize(
    "groups", [2, pytest.param(16, marks=pytest.mark.long), 60, pytest.param(100, marks=pytest.mark.long)]
)
def test_a_caterpillar_has_nothing_clipped_or_overlapping(groups):
    fit = group_example(groups, draws=50)
    names = fit.posterior["bank"].values.astype(object)
    names[0] = "A rather long name of a $bank$ in Pennsylvania"
    fit.posterior, fit.groups = (part.assign_coords(bank=names) for part in (fit.posterior, fit.groups))
    fit.groups["rows"].values[1] = 123_456_789
    fit.groups["alone"].values[:2] = [50.0, -50.0]
    figure = rendered(plots.caterpillar(fit))
    renderer, (panel,) = figure.canvas.get_renderer(), figure.axes
    low, high = panel.get_xlim()
    labels = [panel.xaxis.label, panel.yaxis.label, *figure.legends[0].get_texts()]
    labels += [label for label in panel.get_xticklabels() if low <= label.get_position()[0] <= high]
    for axes in (panel, *panel.child_axes):
        labels += axes.get_yticklabels()
    boxes = [label.get_window_extent(renderer) for label in labels if label.get_text()]
    for i, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert not any(box.padded(-0.5).overlaps(other.padded(-0.5)) for other in boxes[:i])
    legend, drawn = figure.legends[0].get_window_extent(renderer), panel.get_window_extent(renderer)
    assert 0 <= legend.x0 < legend.x1 <= figure.bbox.x1
    assert drawn.height > 0.3 * figure.bbox.height  # no room is lost to what is not drawn
    assert not any(box.padded(-0.5).overlaps(drawn.padded(-0.5)) for box in boxes)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda fit: plots.trace(fit, ["fica"]), "no parameter 'fica'; did you mean 'fico'"),
        (lambda fit: plots.trace(fit, ["zzz"]), "it has 'Intercept', 'fico'"),
        (lambda fit: plots.density(fit, names=[]), "at least one name"),
        (lambda fit: plots.density(), "nothing to draw"),
        (lambda fit: plots.redpm(fit=fit), "needs a reference"),
        (lambda fit: plots.caterpillar(fit), r"no groups to draw; .*a group term such as \(1 \| bank\)"),
    ],
)
def test_arguments_are_checked(draw, message):
    with pytest.raises(ValueError, match=message):
        draw(example(draws=50))


def test_forest_has_a_line_a_coefficient_but_the_intercept():
    fit = group_example(3)
    figure = plots.forest(fit)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["fico"]
    named = plots.forest(fit, ["Intercept", "1|bank_sigma"])
    (dots,) = [line for line in named.axes[0].lines if line.get_label() == "posterior mean"]
    table = fit.summary()
    np.testing.assert_allclose(dots.get_xdata(), table.loc[["Intercept", "1|bank_sigma"], "mean"])
    ends = named.axes[0].collections[0].get_segments()
    np.testing.assert_allclose(ends[0][:, 0], table.loc["Intercept", ["eti94_lb", "eti94_ub"]])
    with pytest.raises(ValueError, match="did you mean 'fico'"):
        plots.forest(fit, ["ficco"])


def test_calibration_shows_the_table():
    fit = example()
    figure = rendered(plots.calibration(fit))
    table = fit.calibration()
    (dots,) = [line for line in figure.axes[0].lines if line.get_label() == "observed"]
    np.testing.assert_array_equal(dots.get_xdata(), table["predicted"])
    np.testing.assert_array_equal(dots.get_ydata(), table["observed"])
    assert figure.axes[0].get_xscale() == "linear"


def test_calibration_of_rare_events_is_logarithmic():
    eta = np.linspace(-9, -1, 100_000)
    fit = example()
    fit._calibration = calibrate(by_predictor(MemoryRows([eta], np.zeros(eta.size)), [1.0]), Bernoulli())
    figure = rendered(plots.calibration(fit))
    assert figure.axes[0].get_xscale() == figure.axes[0].get_yscale() == "log"
    (dots,) = [line for line in figure.axes[0].lines if line.get_label() == "observed"]
    assert (dots.get_ydata() > 0).all()  # bins without events are seen


def test_speed_of_a_single_draw_is_not_known():
    with pytest.raises(ValueError, match="nobody knows the effective draws of 'Intercept'"):
        plots.speed(example(draws=1, chains=2))


def test_speed_and_seconds_are_bars():
    fit = group_example(4)
    for figure, values in ((plots.speed(fit), fit.edpm()), (plots.seconds(fit), fit.stats["seconds"])):
        bars = rendered(figure).axes[0].patches
        np.testing.assert_allclose([bar.get_width() for bar in bars], list(dict(values).values()))
    assert len(plots.speed(fit, ["fico"]).axes[0].patches) == 1


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_panels_side_by_side(columns):
    for figure in (
        plots.trace(group_example(3), columns=columns),
        plots.density(group_example(3), columns=columns),
    ):
        assert {panel.get_subplotspec().get_gridspec().ncols for panel in figure.axes} == {columns}


def test_one_line_needs_no_legend():
    assert plots.density(example()).legends == []
    assert len(plots.density(a=example(), b=example(seed=1)).legends) == 1


def test_densities_of_fits_by_position_and_by_name():
    a, b = example(), example(seed=1)
    figure = plots.density(a, b, mh=example(seed=2), names=["fico"])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["fit 1", "fit 2", "mh"]
    np.testing.assert_array_equal(
        plots.density(a).axes[1].lines[0].get_ydata(), plots.density(only=a).axes[1].lines[0].get_ydata()
    )
    with pytest.raises(ValueError, match=r"fit 1 must be a fit, as tb.fit, tb.sample and tb.load return them, not"):
        plots.density(["fico"], fit=a)
