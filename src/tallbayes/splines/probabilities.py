"""Effects on the probability scale: the mean probability of some rows when one or two variables are set to a value.

    P(v) = mean over rows i of expit(eta(x_i with variable j set to v)), for each draw of eta

A curve in the log-odds has no such mean in closed form, and a fit holds no rows. So means, intervals and sds over draws
are computed when the fit is made, for each variable and for a few pairs, and stored with it. Many draws on some of the
rows say how draws differ, and a few draws on all rows by how much the mean over those rows is off.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.results.predict import evenly_spaced
from tallbayes.rows.threads import over_blocks
from tallbayes.splines.basis import DEGREE, MOST, VARIABLE, Splines

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]

DRAWS, CORRECTING = 100, 2  # draws that make means and intervals, and those that are averaged over all rows
ROWS, PAIR_ROWS = 200, 100  # over which probabilities are averaged, for one variable and for two
GRID, PAIR_GRID, FEW = 60, 13, 10  # points of an effect, for each of a pair; values of a variable that are all shown
CUTS = (10, 50, 90)  # quantiles, in percent, of one variable at which the effect of another is shown
PAIRS = 3  # pairs of variables whose effects are stored
INTERVAL = 0.94
EFFECT = ("mean", "lower", "upper", "sd")  # what is known of an effect
AT_ONCE, LONGEST = 100_000, 16_384  # log-odds that fit into the cache, and rows that are set to values at a time


def grid_of(quantiles: Array, points: int = GRID) -> Array:
    """Values from the 1% to the 99% of 101 quantiles; of a variable that takes few, all of those.

    >>> grid_of(np.linspace(0, 100, 101), 3)
    array([ 1., 50., 99.])
    >>> grid_of(np.repeat([0.0, 1.0], [60, 41]), 3)
    array([0., 1.])
    """
    values = np.unique(quantiles)
    return values if values.size <= FEW else np.linspace(quantiles[1], quantiles[-2], points)


def probabilities(splines: Splines, x: Array, variables: tuple[int, ...], grids: tuple[Array, ...]) -> Array:
    """Draws (splines, grid[, second grid]) of the mean probability of rows x (d, n) with variables set to values.

    >>> line = Splines(np.array([0]), np.array([[0.0]]), np.zeros((1, 0, 12)))
    >>> probabilities(line, np.ones((2, 3)), (0,), (np.array([1.0, 2.0]),))
    array([[0.5, 0.5]])
    """
    moving, still = _split(splines, variables)
    at = np.stack([part.ravel() for part in np.meshgrid(*grids, indexing="ij")])
    base, (rows, points) = still.each(x), (x.shape[1], at.shape[1])
    found = np.repeat(_mean_probability(base)[:, None], points, axis=1)
    moved = np.flatnonzero(moving.sizes)  # other draws do not have the variables
    if not moved.size:
        return found.reshape(splines.sizes.size, *(grid.size for grid in grids))
    moving, base = moving.some(moved), base[moved, None, :]
    used = np.flatnonzero(_has(moving, len(x)))
    step = max(1, min(AT_ONCE // moved.size, LONGEST) // rows)
    blocks = -(-points // step)
    at = np.pad(at, ((0, 0), (0, blocks * step - points)), "edge")

    def work(begin: int, end: int) -> None:
        set_to = np.empty((len(x), step * rows))
        set_to[used] = np.tile(x[used], step)
        for start in range(begin * step, end * step, step):
            set_to[list(variables)] = np.repeat(at[:, start : start + step], rows, axis=1)
            eta = moving.each(set_to).reshape(moved.size, step, rows)
            eta += base
            found[moved, start : start + step] = _mean_probability(eta)[:, : points - start]

    over_blocks(work, blocks, evaluations=moved.size * rows * points)
    return found.reshape(splines.sizes.size, *(grid.size for grid in grids))


def _mean_probability(eta: Array) -> Array:
    """The mean of expit(eta) over the last axis, to six digits: with 32-bit numbers it takes half of the time."""
    odds = np.negative(eta, dtype=np.float32, casting="same_kind")
    with np.errstate(over="ignore"):  # 1 / (1 + inf) is as it should be
        np.exp(odds, out=odds)
    odds += 1.0
    np.reciprocal(odds, out=odds)
    return np.asarray(odds.mean(axis=-1, dtype=float))


def _has(splines: Splines, variables: int) -> NDArray[np.bool_]:
    """Which of so many variables the bases of splines have."""
    live = np.arange(splines.bases.shape[1]) < splines.sizes[:, None]
    bases, found = splines.bases[live], np.zeros(variables, bool)
    for j in range(MOST):
        found[bases[bases[:, DEGREE] > j, VARIABLE + j].astype(np.intp)] = True
    return found


def _split(splines: Splines, variables: tuple[int, ...]) -> tuple[Splines, Splines]:
    """The bases that have one of the variables, and the others with the intercept."""
    degree, variable = splines.bases[..., DEGREE], splines.bases[..., VARIABLE : VARIABLE + MOST]
    has = (np.isin(variable, variables) & (np.arange(MOST) < degree[..., None])).any(2)
    live = np.arange(has.shape[1]) < splines.sizes[:, None]
    parts = []
    for mine, share in ((live & has, 0.0), (live & ~has, 1.0)):
        order = np.argsort(~mine, axis=1, kind="stable")
        coefficients = np.take_along_axis(splines.coefficients[:, 1:], order, axis=1)
        bases = np.take_along_axis(splines.bases, order[..., None], axis=1)
        intercept = share * splines.coefficients[:, :1]
        parts.append(Splines(mine.sum(1), np.concatenate([intercept, coefficients], axis=1), bases))
    return parts[0], parts[1]


def spread_rows(log_odds: Array, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """So many rows, each as likely as any other, that stand for all: sorted by log-odds, they are evenly spaced.

    >>> spread_rows(np.array([0.0, 3.0, 1.0, 2.0]), 2, np.random.default_rng(0)).tolist()
    [2, 1]
    """
    rows = log_odds.size
    if rows <= count:
        return np.arange(rows)
    places = ((np.arange(count) + rng.random()) * rows / count).astype(np.intp)
    return np.argsort(log_odds, kind="stable")[places]


def together(splines: Splines, variables: int) -> NDArray[np.intp]:
    """In how many bases of all draws two variables stand together (variables, variables), the lesser first."""
    live = np.arange(splines.bases.shape[1]) < splines.sizes[:, None]
    bases, found = splines.bases[live], np.zeros((variables, variables), np.intp)
    for i, j in combinations(range(MOST), 2):
        both = bases[bases[:, DEGREE] > j][:, [VARIABLE + i, VARIABLE + j]].astype(np.intp)
        np.add.at(found, (both.min(1), both.max(1)), 1)
    return found


def stored_effects(splines: Splines, x: Array, quantiles: Array, importance: Array) -> dict[str, Any]:
    """What the table of a fit holds: effects of all variables, and of the pairs that stand together in most bases.

    `quantiles` (d, 101) are those of the variables. Among pairs that are equally frequent, those of variables of most
    `importance` come first.
    """
    some, rng = splines.some(evenly_spaced(DRAWS, splines.sizes.size)), np.random.default_rng(0)
    log_odds = some.mean(x)
    rows, fewer = (np.ascontiguousarray(x[:, spread_rows(log_odds, count, rng)]) for count in (ROWS, PAIR_ROWS))

    def known(some_rows: Array, variables: tuple[int, ...], grids: tuple[Array, ...]) -> Array:
        found = probabilities(some, some_rows, variables, grids)
        if some_rows.shape[1] < x.shape[1]:
            few = some.some(evenly_spaced(CORRECTING, some.sizes.size))
            on_all, on_some = (probabilities(few, each, variables, grids).mean(0) for each in (x, some_rows))
            found = np.clip(found + on_all - on_some, 0.0, 1.0)
        return effect_summary(found)

    d = len(x)
    grids, effects = np.full((d, GRID), np.nan), np.full((d, GRID, len(EFFECT)), np.nan)
    for j in range(d):
        grid = grid_of(quantiles[j])
        grids[j, : grid.size] = grid
        effects[j, : grid.size] = known(rows, (j,), (grid,))
    found: dict[str, Any] = {
        "grid": (("variable", "place"), grids),
        "probability": (("variable", "place", "summary"), effects),
    }
    if d == 1:
        return found
    first, second = np.triu_indices(d, 1)
    best = np.lexsort((-(importance[first] * importance[second]), -together(splines, d)[first, second]))[:PAIRS]
    pairs, most = np.stack([first[best], second[best]], axis=1), PAIR_GRID + len(CUTS)
    grids, effects = np.full((len(pairs), 2, most), np.nan), np.full((len(pairs), most, most, len(EFFECT)), np.nan)
    for i, pair in enumerate(pairs.tolist()):
        both = tuple(_with_cuts(quantiles[j]) for j in pair)
        for grid, place in zip(both, grids[i], strict=True):
            place[: grid.size] = grid
        effects[i, : both[0].size, : both[1].size] = known(fewer, tuple(pair), both)
    return found | {
        "pair": (("pairs", "side"), pairs),
        "pair_grid": (("pairs", "side", "first"), grids),
        "pair_probability": (("pairs", "first", "second", "summary"), effects),
    }


def _with_cuts(quantiles: Array) -> Array:
    """A coarser grid that has the values at which cuts are made."""
    grid = grid_of(quantiles, PAIR_GRID)
    return grid if grid.size <= FEW else np.unique([*grid, *quantiles[list(CUTS)]])


def effect_summary(values: Array, interval: float = INTERVAL) -> Array:
    """What is known of an effect, on the last axis, from its draws on the first."""
    low, high = np.quantile(values, [(1 - interval) / 2, (1 + interval) / 2], axis=0)
    return np.stack([values.mean(0), low, high, values.std(0)], axis=-1)


def effect_dataset(variables: tuple[str, ...], known: Array, grids: tuple[Array, ...]) -> xr.Dataset:
    """What is known (grid[, second grid], EFFECT) with its names."""
    import xarray as xr

    parts = {name: (variables, known[..., i]) for i, name in enumerate(EFFECT)}
    return xr.Dataset(parts, dict(zip(variables, grids, strict=True)))


def is_stored(table: xr.Dataset) -> bool:
    """Whether the table of a fit has effects on the probability scale: those of older versions have none."""
    return "probability" in table


def stored_pairs(table: xr.Dataset) -> list[tuple[str, str]]:
    """The pairs of variables whose effects a table has, the most frequent in bases first."""
    names = [str(name) for name in table["variable"].values]
    return [(names[first], names[second]) for first, second in table["pair"].values] if "pair" in table else []


def stored_effect(table: xr.Dataset, variables: tuple[int, ...]) -> tuple[Array, tuple[Array, ...]]:
    """Of one or two variables: what is known (grid[, second grid], EFFECT), and the grids."""
    if not is_stored(table):
        raise ValueError(
            "this fit was saved by a version that stored no effects on the probability scale; fit again, or take "
            'scale="log-odds"'
        )
    if len(variables) == 1:
        grid = table["grid"].values[variables[0]]
        there = np.isfinite(grid)
        return table["probability"].values[variables[0]][there], (grid[there],)
    found = np.flatnonzero((table["pair"].values == np.sort(variables)).all(1))
    if not found.size:
        first, second = (str(table["variable"].values[j]) for j in variables)
        stored = "; ".join(f"{one!r} and {two!r}" for one, two in stored_pairs(table))
        raise ValueError(
            f"on the probability scale, what {first!r} and {second!r} do together is not stored; these pairs are: "
            f'{stored}. For others take scale="log-odds"'
        )
    one, two = (grid[np.isfinite(grid)] for grid in table["pair_grid"].values[found[0]])
    known = table["pair_probability"].values[found[0], : one.size, : two.size]
    return (known, (one, two)) if variables[0] < variables[1] else (known.swapaxes(0, 1), (two, one))
