"""Methods side by side: effective draws per minute relative to a reference (REDPM), and whether posteriors agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallbayes.data.options import check_whole
from tallbayes.results.fit import Fit, check_fit

if TYPE_CHECKING:
    import pandas as pd

FEWEST_THINNED = 20  # draws a chain that a thinned chain needs for its ESS to mean something


def compare(**fits: Fit) -> pd.DataFrame:
    """One line per fit of the same model, the first being the reference.

    The redpm columns are ratios of effective draws per minute to the reference: the median over parameters
    for every draw, every 10th and every 20th, and the minimum. `largest_z` is the largest difference from the
    reference's posterior means, in Monte Carlo standard errors, and `largest_z_sd` that of the posterior sds.

    >>> from tallbayes.results.example import example
    >>> table = compare(mh=example(), two_stage=example(seed=1, seconds=30.0))
    >>> table["redpm_1"].round().tolist()
    [1.0, 2.0]
    """
    import pandas as pd

    first = _reference(fits)
    reference = first.summary()
    lines = {}
    for name, fit in fits.items():
        table = fit.summary().loc[list(first.parameters)]
        ratios = {thin: _redpm(fit, first, thin) for thin in (1, 10, 20)}
        lines[name] = {
            "minutes": fit.minutes,
            "draws": fit.posterior.sizes["chain"] * fit.posterior.sizes["draw"],
            "ess_min": table["ess_bulk"].min(),
            "ess_median": table["ess_bulk"].median(),
            "edpm_median": table["edpm"].median(),
            **{f"redpm_{thin}": ratio.median(skipna=False) for thin, ratio in ratios.items()},
            "redpm_min": ratios[1].min(skipna=False),
            "rows_per_draw": fit.stats["rows_per_draw"],
            "largest_z": _largest_z(table, reference, "mean"),
            "largest_z_sd": _largest_z(table, reference, "sd"),
        }
    return pd.DataFrame.from_dict(lines, orient="index").astype({"draws": int})


def compare_parameters(thin: int = 1, /, **fits: Fit) -> pd.DataFrame:
    """Effective draws per minute of each parameter over those of the first fit (REDPM), a column per fit.

    >>> from tallbayes.results.example import example
    >>> compare_parameters(mh=example(), faster=example(seconds=30.0))
               mh  faster
    Intercept  1.0     2.0
    fico       1.0     2.0
    """
    import pandas as pd

    check_whole("thin", thin)
    first = _reference(fits)
    return pd.DataFrame({name: _redpm(fit, first, thin) for name, fit in fits.items()})


def _reference(fits: dict[str, Fit]) -> Fit:
    if not fits:
        raise ValueError("nothing to compare; give fits by name, as in compare(mh=fit_a, two_stage=fit_b)")
    for name, fit in fits.items():
        check_fit(name, fit)
    (name, first), *others = fits.items()
    for other, fit in others:
        if differ := set(first.parameters) ^ set(fit.parameters):
            raise ValueError(
                f"{name!r} and {other!r} have different parameters, such as {min(differ)!r}; "
                "compare fits of the same model"
            )
    return first


def _redpm(fit: Fit, reference: Fit, thin: int) -> pd.Series[float]:
    """Ratio of EDPMs in the reference's order; NaN where a thinned chain is too short to have one."""
    ratio = fit.edpm(thin)[list(reference.parameters)] / reference.edpm(thin)
    shortest = min(len(range(0, f.posterior.sizes["draw"], thin)) for f in (fit, reference))
    return ratio if shortest >= FEWEST_THINNED else ratio * np.nan


def _largest_z(table: pd.DataFrame, reference: pd.DataFrame, of: str) -> float:
    error = np.hypot(table[f"mcse_{of}"], reference[f"mcse_{of}"])
    return float(((table[of] - reference[of]).abs() / error).max(skipna=False))
