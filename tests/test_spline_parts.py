"""What splines are made of: bases and their prior, sheets, cells and pairs, joint proposals, effects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import splines as small
from harness import FALSE_ALARM
from numba import njit
from scipy import optimize, stats
from scipy.special import expit, log_expit

from tallbayes.rows.memory import MemoryRows
from tallbayes.splines import basis as bases_of
from tallbayes.splines import joint
from tallbayes.splines import sheet as sheets
from tallbayes.splines.basis import (
    DEGREE,
    KNOT,
    MEAN,
    SD,
    SIGN,
    VARIABLE,
    WIDTH,
    Reference,
    mean_spline,
)
from tallbayes.splines.cells import at_reference
from tallbayes.splines.effects import SUBSETS, effect, subset_means, total_effects
from tallbayes.splines.model import MARS, splines
from tallbayes.splines.partition import Partition, cut
from tallbayes.splines.reversible_jump import _on
from tallbayes.splines.sheet import SHEETS, Sheet

fill = small.from_python(bases_of.fill, bases_of.COLUMNS)
log_likelihood = small.from_python(sheets.log_likelihood, SHEETS)
aim, fill_sheet = (small.from_python(one, SHEETS) for one in (sheets.aim, sheets.fill_sheet))
find, log_q, draw = (small.from_python(one, joint.JOINT) for one in (joint.find, joint.log_q, joint.draw))


def reference_of(rows: int = 60, d: int = 4, degree: int = 3, fewest: int = 5, seed: int = 0) -> Reference:
    """The last variable has two values."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(d, rows)).round(1)
    x[-1] = np.where(rng.random(rows) < 0.3, 1.0, -0.5)
    return Reference.of(x, rows, degree, fewest, lines=0.3)


def drawn(reference: Reference, count: int, seed: int = 0) -> np.ndarray:
    found, rng, buffer = np.zeros((count, 1, WIDTH)), np.random.default_rng(seed), np.empty(reference.x.shape[1])
    small.fill_bases(bases_of.BASES.addresses, reference, np.ones(count, np.intp), rng, found, buffer)
    return found[:, 0]


def column_of(basis: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Written with NumPy."""
    product = np.ones(x.shape[1])
    for j in range(int(basis[DEGREE])):
        away = x[int(basis[VARIABLE + j])] - basis[KNOT + j]
        product *= away if basis[SIGN + j] == 0 else np.maximum(basis[SIGN + j] * away, 0.0)
    return (product - basis[MEAN]) / basis[SD]


def test_columns_are_standardised_products_of_hinges_and_lines():
    reference = reference_of()
    for basis in drawn(reference, 50):
        out = np.empty(60)
        fill(basis, reference.x, 0, 60, out)
        assert np.allclose(out, column_of(basis, reference.x), atol=1e-12)
        assert np.allclose([out.mean(), out.std()], [0, 1], atol=1e-9)
        there = out != -basis[MEAN] / basis[SD]
        assert there.sum() >= reference.fewest or (basis[DEGREE] == 1 and basis[SIGN] == 0)
        assert len(set(basis[VARIABLE : VARIABLE + int(basis[DEGREE])])) == basis[DEGREE]


def prior_with_numpy(reference: Reference, count: int) -> np.ndarray:
    """The same law, written down a second time."""
    rng, found, d = np.random.default_rng(9), [], len(reference.x)
    while len(found) < count:
        basis, degree = np.zeros(WIDTH), rng.integers(1, reference.degree + 1)
        basis[DEGREE] = degree
        basis[VARIABLE : VARIABLE + degree] = rng.permutation(d)[:degree]
        for j in range(degree):
            variable = int(basis[VARIABLE + j])
            if variable == d - 1:
                basis[KNOT + j] = -0.5  # the more frequent of its two values
            else:
                basis[KNOT + j] = rng.choice(reference.x[variable])
                basis[SIGN + j] = 0.0 if rng.random() < 0.3 else rng.choice([-1.0, 1.0])
        basis[SD] = 1.0
        column = column_of(basis, reference.x)
        alone = degree == 1 and basis[SIGN] == 0
        if ((column != 0).sum() >= reference.fewest or alone) and column.std() > 0:
            basis[MEAN], basis[SD] = column.mean(), column.std()
            found.append(basis)
    return np.array(found)


def different_laws(reference: Reference, one: np.ndarray, two: np.ndarray) -> float:
    """p-value that two samples of bases have the same law, corrected for the number of tests."""
    degrees = [np.bincount(group[:, DEGREE].astype(int), minlength=4)[1:] for group in (one, two)]
    p_values = [stats.chi2_contingency(np.array(degrees)).pvalue]
    for j in range(len(reference.x)):  # how often each variable is there
        has = [(group[:, VARIABLE : VARIABLE + 3] == j) & (np.arange(3) < group[:, [DEGREE]]) for group in (one, two)]
        yes = [int(h.any(1).sum()) for h in has]
        table = [[yes[0], len(one) - yes[0]], [yes[1], len(two) - yes[1]]]
        p_values.append(stats.fisher_exact(table).pvalue)
    for part in (KNOT, SIGN, MEAN):
        p_values.append(stats.ks_2samp(one[:, part], two[:, part], method="asymp").pvalue)
    return float(len(p_values) * min(p_values))


def test_bases_have_their_prior():
    reference = reference_of()
    truth = prior_with_numpy(reference, 4_000)
    assert different_laws(reference, drawn(reference, 8_000), truth) > FALSE_ALARM
    narrower = reference._replace(fewest=15)
    assert different_laws(reference, drawn(narrower, 8_000), truth) < FALSE_ALARM


def law_of_variation(reference: Reference, vary: Any, chains: int, steps: int) -> float:
    """p-value that bases from the prior, varied, are still from the prior."""

    @njit
    def varied(table, reference, rng, bases, buffer):
        tried = np.empty(WIDTH)
        for i in range(len(bases)):
            for _ in range(steps):
                tried[:] = bases[i]
                if vary(table, reference, rng, tried, buffer):
                    bases[i] = tried

    start, fresh = drawn(reference, chains, 1), drawn(reference, 4 * chains, 2)
    start = start.copy()
    varied(bases_of.BASES.addresses, reference, np.random.default_rng(3), start, np.empty(reference.x.shape[1]))
    return different_laws(reference, start, fresh)


def test_variations_keep_the_prior_of_bases():
    assert law_of_variation(reference_of(rows=25), bases_of.vary_basis, 3_000, 6) > FALSE_ALARM


def test_hinges_that_are_turned_keep_the_prior_of_bases(monkeypatch):
    """Where nothing else is done, so that a mistake would be plain to see."""
    for name, value in {"STEP": 0.0, "REDRAW": 0.0, "BEND": 0.0, "TURN": 0.3, "MIRROR": 1.0}.items():
        monkeypatch.setattr(bases_of, name, value)
    turned = njit(bases_of.vary_basis.py_func)  # reads the constants
    assert law_of_variation(reference_of(rows=25), turned, 3_000, 3) > FALSE_ALARM


@pytest.mark.parametrize(("name", "value"), [("ADD", 0.9), pytest.param("MIRROR", 0.55, marks=pytest.mark.long)])
def test_variations_that_are_not_as_probable_as_their_reverse_are_noticed(monkeypatch, name, value):
    """More hinges are added than dropped; or dropped than added."""
    monkeypatch.setattr(bases_of, name, value)
    broken = njit(bases_of.vary_basis.py_func)  # reads the constant
    assert law_of_variation(reference_of(rows=25), broken, 1_500, 6) < FALSE_ALARM


def test_splines_on_rows():
    model = small.larger_model()
    theta = small.draw_prior(model, 30, np.random.default_rng(1))
    some, x = splines(theta, model.most), model.rows.arrays.x
    expected = [
        beta[0] + sum((beta[m + 1] * column_of(bases[m], x) for m in range(k)), np.zeros(x.shape[1]))
        for k, beta, bases in zip(some.sizes, some.coefficients, some.bases, strict=True)
    ]
    assert np.allclose(some.each(x), expected, atol=1e-10)
    assert np.allclose(mean_spline(model.rows.arrays, some), np.mean(expected, axis=0), atol=1e-10)


# --- cells ---


def cells_of(x: np.ndarray, unit: np.ndarray, cells: int) -> np.ndarray:
    codes, order = cut(MemoryRows(x, np.zeros(x.shape[1])).arrays, unit, cells)
    assert (np.sort(order) == np.arange(codes.size)).all()
    assert (np.diff(codes[order]) != 0).sum() == codes.max()  # rows of a cell are together
    return codes


def test_cells_part_the_rows_where_they_are_widest():
    x = np.concatenate([np.zeros(100), np.full(100, 10.0), np.linspace(50, 60, 100)])[None]
    cells = cells_of(x, np.ones(1), 3)
    assert len(set(cells[:100])) == len(set(cells[100:200])) == len(set(cells[200:])) == 1
    assert len(set(cells)) == 3
    assert len(set(cells_of(np.zeros((2, 50)), np.ones(2), 10))) == 1  # nothing to tell rows apart by
    assert sorted(set(cells_of(np.arange(8.0)[None], np.ones(1), 8))) == list(range(8))


def test_rounding_does_not_choose_the_column_of_a_cut():
    """In units of their sd all columns tie at the first cut: the first is taken, however sums are rounded."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x = 10.0 ** rng.uniform(-3, 3, (4, 1)) * rng.normal(size=(4, int(rng.integers(5, 60))))
        cells = cells_of(x, 1 / x.std(1), 2)
        np.testing.assert_array_equal(cells == cells[x[0].argmax()], x[0] >= x[0].mean())


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_pseudo_rows_have_the_summed_derivative_of_their_rows(scale):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 500)), (rng.random(500) < 0.4).astype(float)
    eta = scale * rng.normal(size=500)
    partition = MemoryRows(x, y).keep(Partition, 20, 50, 0)
    rows = partition.pseudo_rows(eta)
    assert np.isfinite(rows.weights).all()
    assert np.isfinite(rows.x).all()
    for code in range(rows.y.size):
        mine = partition.codes == code
        log_w = log_expit(np.where(y[mine] > 0.5, -eta[mine], eta[mine]))
        q = np.exp(log_w - np.logaddexp.reduce(log_w))
        assert np.allclose(rows.x[:, code], x[:, mine] @ q)
        assert np.isclose(rows.eta[code], eta[mine] @ q)
        own = log_expit(-rows.eta[code] if rows.y[code] > 0.5 else rows.eta[code])
        assert np.isclose(np.log(rows.weights[code]) + own, np.logaddexp.reduce(log_w))


def some_sheet(cells: int = 30, pairs: int = 400, rows: int = 400) -> tuple[MARS, Sheet, np.ndarray]:
    model = small.larger_model(rows)
    reference = small.draw_prior(model, 3, np.random.default_rng(2))
    return model, at_reference(model, model.rows.keep(Partition, cells, pairs, 1), reference), reference


def on_sheet(sheet: Sheet, eta: np.ndarray) -> float:
    return float(log_likelihood(sheet.y, sheet.weights, eta))


def value_at(sheet: Sheet, model: MARS, theta: np.ndarray) -> float:
    law = small.kernel_for(small.tiny_model(), "plain").law._replace(log_k=model.log_k)
    return float(_on(sheet, law, theta).value[0])


def test_cells_have_the_gradient_of_all_rows_in_directions_linear_in_cells():
    model, sheet, reference = some_sheet()
    x, y = model.rows.arrays.x, model.rows.arrays.y
    eta = mean_spline(model.rows.arrays, splines(reference, model.most))
    # A linear function of x, as a column of pseudo-rows and of pairs.
    slope = np.array([0.3, -0.8])
    rows = sheet.y.size
    column = np.concatenate([slope @ sheet.x[:, :rows], np.zeros(sheet.partner.size)])
    at = np.concatenate([sheet.offset[:rows], np.zeros(sheet.partner.size)])
    at[:rows] += splines(reference, model.most).mean(sheet.x[:, :rows])
    step = 1e-6
    found = (on_sheet(sheet, at + step * column) - on_sheet(sheet, at - step * column)) / (2 * step)
    assert np.isclose(found, ((y - expit(eta)) * (slope @ x)).sum(), rtol=1e-5, atol=1e-5)


def test_with_every_row_its_own_cell_the_surrogate_is_the_likelihood():
    model = small.larger_model(60)
    theta = small.draw_prior(model, 6, np.random.default_rng(0))
    sheet = at_reference(model, model.rows.keep(Partition, 60, 10, 0), theta[:2])
    assert sheet.partner.size == 0
    values = np.array([value_at(sheet, model, one) for one in theta])
    full = small.log_likelihood(model, theta)
    assert np.allclose(values - values[0], full - full[0], atol=1e-8)


def test_pairs_have_the_curvature_that_is_inside_cells():
    model, sheet, reference = some_sheet(cells=4, pairs=40_000)  # every row is drawn many times
    x = model.rows.arrays.x
    partition = model.rows.keep(Partition, 4, 40_000, 1)
    eta = mean_spline(model.rows.arrays, splines(reference, model.most))
    p = expit(eta)
    centers = partition.pseudo_rows(eta).x
    out = np.empty(sheet.weights.size)
    for basis in drawn(model.reference, 8):
        fill_sheet(sheet.x, sheet.partner, basis, out)
        found = (sheet.weights[sheet.y.size :] * out[sheet.y.size :] ** 2).sum()
        within = column_of(basis, x) - column_of(basis, centers)[partition.codes]
        assert np.isclose(found, (p * (1 - p) * within**2).sum(), rtol=0.15)


def test_the_surrogate_is_concave_along_coefficients():
    model, sheet, _ = some_sheet()
    thetas = small.draw_prior(model, 40, np.random.default_rng(5))
    for theta in thetas[thetas[:, 0] > 0][:15]:
        line = []
        for t in (-1.0, 0.0, 1.0):
            moved = theta.copy()
            moved[2 : 3 + int(theta[0])] += t
            line.append(value_at(sheet, model, moved))
        assert line[1] >= 0.5 * (line[0] + line[2])
        assert max(line) <= 0.0


# --- proposals ---


def test_aim_finds_the_mode_of_a_coefficient():
    model, sheet, reference = some_sheet()
    law = small.kernel_for(small.tiny_model(), "plain").law._replace(log_k=model.log_k)
    place, column, found = _on(sheet, law, reference[0]), np.empty(sheet.weights.size), np.empty(2)
    for basis in drawn(model.reference, 6):
        fill_sheet(sheet.x, sheet.partner, basis, column)

        def loss(b, column=column):
            return b * b / (2 * 0.8**2) - on_sheet(sheet, place.eta + b * column)

        best = optimize.minimize_scalar(loss, method="brent", options={"xtol": 1e-12}).x
        aim(sheet.y, sheet.weights, place.eta, column, 0.8, found)
        center, bend = found
        curvature = (loss(best + 1e-3) - 2 * loss(best) + loss(best - 1e-3)) / 1e-6
        assert abs(center - best) * np.sqrt(bend) < 0.1
        assert np.isclose(bend, curvature, rtol=0.1)


def test_joint_proposals_are_the_gaussian_at_the_reference():
    model, sheet, reference = some_sheet()
    law = small.kernel_for(small.tiny_model(), "cells").law._replace(log_k=model.log_k)
    theta = small.draw_prior(model, 50, np.random.default_rng(8))
    theta = theta[theta[:, 0] == 3][0]
    place, size = _on(sheet, law, theta), 4
    gaussian, precision = joint.Gaussian.empty(model.most), float(theta[1])
    assert find(place.products, size, 0.25, precision, gaussian)
    columns, prior = place.columns[:size], np.diag([0.25, precision, precision, precision])
    hessian = columns * sheet.curvature @ columns.T + prior
    mean = np.linalg.solve(hessian, columns @ sheet.pull)
    assert np.allclose(gaussian.mean[:size], mean)
    assert np.allclose(np.tril(gaussian.factor[:size, :size]), np.linalg.cholesky(hessian))
    b = mean + 0.1
    expected = stats.multivariate_normal(mean, 1.3 * np.linalg.inv(hessian)).logpdf(b) + 2 * np.log(2 * np.pi)
    assert np.isclose(log_q(gaussian, size, 1.3, b), expected)
    rng, out = np.random.default_rng(0), np.empty(size)
    many = np.array([(draw(gaussian, size, 1.3, rng, out), out.copy())[1] for _ in range(4_000)])
    z = (many - mean) @ np.linalg.cholesky(hessian) / np.sqrt(1.3)
    assert stats.kstest(z.ravel(), "norm").pvalue > FALSE_ALARM
    # The quadratic has the sheet's own value, slope and curvature at the reference, in these columns.
    own = splines(reference, model.most)
    rows = sheet.y.size
    at = sheet.offset.copy()
    at[:rows] += own.mean(sheet.x[:, :rows])
    at[rows:] += own.mean(sheet.x[:, rows:]) - own.mean(sheet.x[:, :rows])[sheet.partner]
    shift = at - sheet.offset
    slope = np.array([
        (on_sheet(sheet, at + 1e-5 * c) - on_sheet(sheet, at - 1e-5 * c)) / 2e-5 for c in columns
    ])  # fmt: skip
    assert np.allclose(columns @ (sheet.pull - sheet.curvature * shift), slope, rtol=1e-4, atol=1e-3)


# --- effects ---


def test_effects_are_averages_over_the_reference_rows():
    model = small.larger_model()
    theta = small.draw_prior(model, 5, np.random.default_rng(3))
    some, x = splines(theta, model.most), model.reference.x
    flat = some.bases.reshape(-1, WIDTH)
    means = np.empty((len(flat), SUBSETS))
    subset_means(x, flat, means)
    means = means.reshape(5, model.most, SUBSETS)
    grid, other = np.array([-1.0, 0.2, 1.1]), np.array([-0.3, 0.6])
    one = effect(some, means, (1,), (grid,))
    two = effect(some, means, (1, 0), (grid, other))
    for i, value in enumerate(grid):
        moved = x.copy()
        moved[1] = value
        assert np.allclose(one[:, i], some.each(moved).mean(1))
        for j, second in enumerate(other):
            both = moved.copy()
            both[0] = second
            assert np.allclose(two[:, i, j], some.each(both).mean(1))


def test_total_effects_of_a_linear_function_are_standard_deviations():
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(0, 1, 4_000), rng.normal(0, 3, 4_000), rng.normal(size=4_000)])
    low = x.min(1)
    bases = np.zeros((1, 2, WIDTH))
    for m, j in enumerate((0, 1)):
        bases[0, m, [DEGREE, VARIABLE, SIGN, KNOT, SD]] = 1.0, j, 1.0, low[j], 1.0
    some = splines(np.concatenate([[2.0, 1.0, 0.0, 2.0, -1.0], bases.ravel()])[None], 2)
    found = total_effects(some, Reference.of(x, 256, 1, 1, lines=0.0), rng)
    assert np.allclose(found, [[2.0, 3.0, 0.0]], rtol=0.1)
