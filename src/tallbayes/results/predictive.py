"""Posterior predictive draws: outcomes of new rows as the model would make them, one for each of many draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.new_rows import new_rows
from tallbayes.data.options import check_whole
from tallbayes.data.progress import passing
from tallbayes.results.effects import formula_of
from tallbayes.rows.room import require_free

if TYPE_CHECKING:
    import xarray as xr

    from tallbayes.results.fit import Fit

Array = NDArray[np.float64]

AT_ONCE = 2**20  # outcomes that are made at a time


def predictive(fit: Fit, new_data: Any, offset: float | None, draws: int, seed: int) -> xr.DataArray:
    """What `Fit.predictive` does."""
    import pandas as pd
    import xarray as xr

    check_whole("draws", draws)
    check_whole("seed", seed, 0)
    name, centre, some = formula_of(fit).outcome, fit._centre(offset), fit._some(draws, seed)
    source, found, count = fit._opened(new_data), list[Array](), 0
    _require(source.rows or 0, some.size)
    with passing("drawing outcomes", source.rows) as done:
        for rows in new_rows(source, [*centre.columns, *centre.besides], centre.clean):
            count += rows.size
            _require(count, some.size)
            features, trials = centre.features(rows), centre.trials(rows)
            rng, outcomes = np.random.default_rng([seed, rows.start]), np.empty((rows.size, some.size))
            step = max(1, AT_ONCE // some.size)
            for start in range(0, rows.size, step):
                part = slice(start, start + step)
                own = np.ascontiguousarray(features[:, part])
                outcomes[part] = some.outcomes(own, None if trials is None else trials[part], rng)
            found.append(outcomes)
            done(rows.size)
    every = found[0] if len(found) == 1 else np.concatenate(found)
    index = new_data.index.to_numpy() if isinstance(new_data, pd.DataFrame) else np.arange(count)
    axes = {"chain": np.arange(some.chains), "draw": np.arange(some.size // some.chains), "row": index}
    shaped = every.T.reshape(*(len(values) for values in axes.values()))
    return xr.DataArray(shaped, axes, tuple(axes), name)


def _require(rows: int, draws: int) -> None:
    what = f"{draws:,} draws of the outcomes of {rows:,} rows"
    require_free(what, 16 * draws * rows, "give fewer rows, such as a sample of them, or fewer draws=")
