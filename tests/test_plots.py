import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from tallbayes import plots
from tallbayes.result import example


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
    assert kept.size <= plots.TRACE_POINTS
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
    x, y = plots._smooth(values, values.size)
    np.testing.assert_allclose(y, np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi), atol=0.02)


def test_a_coefficient_that_never_moves_is_a_line():
    fit = example()
    fit.posterior["beta"][:, :, 1] = 0.5
    panel = rendered(plots.density(["fico"], fit=fit)).axes[0]
    assert panel.lines[0].get_xdata()[0] == 0.5


def test_redpm_shows_the_ratio_of_every_coefficient():
    fits = {
        "mh": example(draws=1_000),
        "same": example(draws=1_000),
        "twice": example(draws=1_000, seconds=30.0),
    }
    figure = rendered(plots.redpm((1, 10), **fits))
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


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda fit: plots.trace(fit, ["fica"]), "no coefficient 'fica'; did you mean 'fico'"),
        (lambda fit: plots.trace(fit, ["zzz"]), "it has 'Intercept', 'fico'"),
        (lambda fit: plots.density([], fit=fit), "at least one name"),
        (lambda fit: plots.density(), "nothing to draw"),
        (lambda fit: plots.redpm(fit=fit), "needs a reference"),
    ],
)
def test_arguments_are_checked(draw, message):
    with pytest.raises(ValueError, match=message):
        draw(example(draws=50))
