"""The log-likelihood of some rows at every draw, for whoever has a use for it: rows x draws, so of some rows only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.data.options import check_flag, check_whole, refuse
from tallbayes.data.progress import showing
from tallbayes.models.model import Model
from tallbayes.results.cross_validation import AT_ONCE, check_same, numbers_are_places
from tallbayes.results.fit import Fit
from tallbayes.results.more import model_of
from tallbayes.rows.chosen import NUMBER, AtRandom, Chosen, Listed
from tallbayes.rows.room import require_free

if TYPE_CHECKING:
    import xarray as xr

WHAT = "a number of rows, a list of different rows' numbers, or None for all"


def log_likelihood(
    fit: Fit, rows: int | ArrayLike | None, seed: int, progress: bool, again: Mapping[str, Any]
) -> xr.DataArray:
    """What `Fit.log_likelihood` does."""
    import xarray as xr

    wanted = _wanted(rows)
    check_whole("seed", seed, 0)
    check_flag("progress", progress)
    with model_of(fit, again, "fit.log_likelihood({}=...)", progress, (NUMBER,)) as model, showing(progress):
        check_same(fit, model)
        chains, draws = fit.posterior.sizes["chain"], fit.posterior.sizes["draw"]
        size = min(wanted, model.rows.size) if isinstance(wanted, int) else wanted.size
        size = model.rows.size if rows is None else size
        what = f"log-likelihoods of {size:,} rows at {chains * draws:,} draws"
        require_free(what, 8 * size * chains * draws, "ask for fewer rows=")
        some = _chosen(model, wanted, size, seed)
        values = np.empty((chains, draws, size))
        for chain in range(chains):
            per_row = model.per_row(fit._chosen_draws(np.arange(chain * draws, (chain + 1) * draws)))
            step = max(1, AT_ONCE // draws)
            for start in range(0, size, step):
                stop = min(size, start + step)
                values[chain, :, start:stop] = per_row.of(some.arrays.take(np.arange(start, stop))).T
    coordinates: dict[str, Any] = {"row": some.numbers}
    if some.arrays.weights.size:
        coordinates["weight"] = ("row", some.arrays.weights)
    name = "y" if fit.formula is None else fit.formula.outcome
    return xr.DataArray(values, dims=("chain", "draw", "row"), coords=coordinates, name=name)


def _wanted(rows: Any) -> int | NDArray[np.int64]:
    """How many rows, or which, in ascending order."""
    if rows is None:
        return 0
    if isinstance(rows, int | np.integer) and not isinstance(rows, bool):
        check_whole("rows", rows)
        return int(rows)
    try:
        given = np.asarray(rows)
    except ValueError:  # lists of lists of different lengths
        refuse("rows", WHAT, rows)
    if given.ndim != 1 or not given.size or given.dtype.kind not in "iu" or given.min() < 0:
        refuse("rows", WHAT, rows)
    numbers = np.unique(given).astype(np.int64)
    if numbers.size < given.size:
        refuse("rows", WHAT, rows)
    return numbers


def _chosen(model: Model, wanted: int | NDArray[np.int64], size: int, seed: int) -> Chosen:
    """The rows of a model that are wanted."""
    if isinstance(wanted, int):
        some: Chosen = model.rows.reduce(AtRandom(size, model.rows.size, seed))
        return some
    if not numbers_are_places(model):
        raise ValueError(
            "the model's rows were sorted by group, or equal ones were merged, so they have no row numbers; ask for a "
            "number of rows, or make the fit by tb.fit"
        )
    some = model.rows.reduce(Listed(wanted))
    if some.numbers.size < wanted.size:
        missing = int(np.setdiff1d(wanted, some.numbers)[0])
        raise ValueError(
            f"there is no row {missing:,}: rows are counted from 0, without those that were left out, and rows of "
            "weight 0 are not there"
        )
    return some
