import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import tallbayes as tb
from tallbayes.results.example import example
from tallbayes.results.forest import framed
from tallbayes.results.steps import steps, steps_in_words


@pytest.fixture(scope="module")
def fit():
    """One of a level whose outcomes are all the same, with a very wide prior, and of a column of large numbers."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"income": rng.normal(40_000, 9_000, 4_000), "share": rng.normal(0, 1e-4, 4_000)})
    frame["home"] = rng.choice(["own", "rent", "other"], 4_000)
    chance = 1 / (1 + np.exp(-4e-5 * (frame["income"] - 40_000) - 3_000 * frame["share"]))
    frame["y"] = np.where(frame["home"] == "rent", 1, rng.random(4_000) < chance)
    with pytest.warns(tb.SeparationWarning):
        return tb.fit(
            "y ~ income + share + home", frame, prior={"home[T.rent]": tb.Normal(0, 1_000)}, seed=1, progress=False
        )


def lines(figure):
    """Ends of the 94% intervals, by name."""
    panel = figure.axes[0]
    names = [label.get_text() for label in panel.get_yticklabels()]
    return dict(zip(names, (one[:, 0] for one in panel.collections[0].get_segments()), strict=True))


def test_coefficients_are_drawn_for_a_step_of_their_column(fit):
    table, sd = fit.summary(), fit.stats["columns"]["sd"]
    assert steps(fit) == {"income": sd[1], "share": sd[2], "home[T.own]": 1.0, "home[T.rent]": 1.0}
    assert steps_in_words(fit)["home[T.own]"] == "0 to 1"
    found = lines(tb.plots.forest(fit))
    for name in ("income", "share", "home[T.own]"):
        np.testing.assert_allclose(found[name], steps(fit)[name] * table.loc[name, ["eti94_lb", "eti94_ub"]])
    for name in ("income", "Intercept"):
        raw = lines(tb.plots.forest(fit, [name], per="unit"))
        np.testing.assert_allclose(raw[name], table.loc[name, ["eti94_lb", "eti94_ub"]])


def test_an_interval_that_would_squash_all_others_ends_at_the_frame(fit):
    figure = tb.plots.forest(fit)
    FigureCanvasAgg(figure).draw()
    panel, found = figure.axes[0], lines(figure)
    low, high = panel.get_xlim()
    others = np.array([ends for name, ends in found.items() if name != "home[T.rent]"])
    assert np.ptp(others) > 0.8 * (high - low)
    assert found["home[T.rent]"][1] == high < fit.summary().loc["home[T.rent]", "eti94_ub"] / 100
    (arrow,) = [line for line in panel.lines if line.get_marker() == ">"]
    assert arrow.get_xydata().tolist() == [[high, 3.0]]
    texts = [label.get_text() for label in panel.child_axes[0].get_yticklabels()]
    assert texts[:3] == ["", "", ""]
    assert texts[3].endswith(")")
    assert " to " in texts[3]


def test_a_narrow_forest_has_names_and_numbers_above_the_lines(fit):
    figure = tb.plots.forest(fit, narrow=True)
    FigureCanvasAgg(figure).draw()
    renderer = figure.canvas.get_renderer()
    texts = [text for text in figure.axes[0].texts if text.get_text()]
    assert [text.get_text() for text in texts[:4]] == ["income", "share", "home[T.own]", "home[T.rent]"]
    boxes = [text.get_window_extent(renderer) for text in texts]
    for i, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert not any(box.overlaps(other) for other in boxes[:i])


@pytest.mark.parametrize(
    ("spans", "clipped"),
    [
        ([(0.1, 0.3), (-0.2, 0.1), (1.8, 2.2)], []),  # a strong effect that is known well
        ([(0.1, 0.3), (-0.2, 0.1), (-1_500, -20)], [2]),
        ([(0.1, 0.3), (-0.2, 0.1), (0.2, 0.4), (-9.0, 4.0)], [3]),  # wide
        ([(0.1, 0.3), (-0.2, 0.1), (0.2, 0.4), (7.6, 8.4)], [3]),  # far
        ([(0.1, 0.3), (-0.2, 0.1), (0.2, 0.4), (7.9, 8.1)], []),  # far, and known well: the others are small
        ([(0.1, 0.3), (-0.2, 0.1), (0.2, 0.4), (-900, 900), (-800, 800)], [3, 4]),
        ([(-900, 900)], []),
        ([(0.0, 0.0), (0.0, 0.0), (1.0, 2.0)], []),
    ],
)
def test_what_is_clipped(spans, clipped):
    low, high = np.transpose(spans).astype(float)
    ends = np.array([low, 0.75 * low + 0.25 * high, 0.25 * low + 0.75 * high, high])
    frame = framed(ends.mean(0), ends, zero=True)
    assert np.flatnonzero(frame.clipped).tolist() == clipped
    assert frame.low <= 0 <= frame.high
    kept = ~frame.clipped
    assert frame.low < low[kept].min() + 1e-9
    assert frame.high > high[kept].max() - 1e-9


def test_a_fit_that_does_not_know_its_columns_is_drawn_as_it_is():
    fit = example()
    per_sd = tb.plots.forest(fit)
    del fit.stats["columns"]
    with pytest.raises(ValueError, match=r"does not know the sd of its columns: .* take per='unit', or fit again"):
        tb.plots.forest(fit, per="sd")
    figure = tb.plots.forest(fit)
    assert lines(figure)["fico"].tolist() == lines(per_sd)["fico"].tolist()  # whose sd is one
    assert figure.axes[0].get_xlabel() == "coefficient per unit of the column\n(log-odds)"


def test_what_the_fit_knows_of_its_columns_is_saved(fit, tmp_path):
    fit.save(tmp_path / "fit.nc")
    back = tb.load(tmp_path / "fit.nc")
    assert steps(back) == steps(fit)
    for change in (lambda columns: columns["sd"].pop(), lambda columns: columns["two"].append("x")):
        broken = example()
        change(broken.stats["columns"])
        broken.save(tmp_path / "broken.nc")
        with pytest.raises(tb.DamagedError, match="what is known of the columns"):
            tb.load(tmp_path / "broken.nc")
