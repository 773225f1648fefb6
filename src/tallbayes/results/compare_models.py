"""Models side by side: which one best predicts rows that it has not seen.

All of them are looked at on the same rows, so that the difference between two is known far better than each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallbayes.data.options import check_choice, refuse
from tallbayes.data.progress import showing
from tallbayes.results.criteria import CRITERIA, Criterion
from tallbayes.results.cross_validation import check_asked, look
from tallbayes.results.elpd import Elpd, result
from tallbayes.results.fit import Fit
from tallbayes.results.more import model_of
from tallbayes.rows.chosen import NUMBER

if TYPE_CHECKING:
    import pandas as pd

CLOSE = 1e-9  # weights of all rows that differ by less, relative to these, are the same


def compare_models(
    fits: Mapping[str, Fit | Elpd] | None = None,
    /,
    *,
    kind: str = "loo",
    rows: int = 10_000,
    seed: int = 0,
    progress: bool = True,
    data: Any = None,
    **others: Fit | Elpd,
) -> pd.DataFrame:
    """Compare models of the same outcomes by how well each predicts rows that it has not seen, the best first.

    Give fits, or what `fit.loo()` returns, by name. `rows`, drawn at random with the same `seed` for all, are looked at
    closely; see `Fit.loo`. `kind` is "loo" or "waic". The `data` are needed for fits that were loaded, if the data were
    not a file. Densities of `tb.family` and `tb.Model` are what you wrote: beside another family they need all
    constants.

    Columns are as in `arviz.compare`: `rank`, `elpd` (higher is better), `p` (the effective number of parameters),
    `elpd_diff` (to the best), `se` of `elpd`, `dse` of `elpd_diff`, `subsampling_se` and `subsampling_dse` (how much of
    either is unknown because only some rows were looked at closely), and `warning` (whether LOO is unsure of some row).

    >>> import numpy as np
    >>> import tallbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> x, z = rng.standard_normal((2, 5_000))
    >>> data = {"x": x, "z": z, "y": rng.random(5_000) < 1 / (1 + np.exp(1 - x - 0.3 * z))}
    >>> small = tb.fit("y ~ x", data, draws=500, seed=1, progress=False)
    >>> large = tb.fit("y ~ x + z", data, draws=500, seed=1, progress=False)
    >>> table = compare_models(small=small, large=large, rows=1_000, progress=False)
    >>> table[["rank", "elpd_diff", "dse"]].round()
           rank  elpd_diff   dse
    large     0        0.0   0.0
    small     1       44.0  10.0
    """
    check_choice("kind", kind, tuple(CRITERIA))
    check_asked(rows, seed, progress)
    if fits is not None and not isinstance(fits, Mapping):
        refuse("fits", "a dict of fits by name, or fits given by name: compare_models(a=fit_a, b=fit_b)", fits)
    every = {**(fits or {}), **others}
    if len(every) < len(fits or {}) + len(others):
        raise ValueError("two of the fits have the same name; give each a name of its own")
    if len(every) < 2:
        raise ValueError("a comparison needs two models at least; give fits by name: compare_models(a=fit_a, b=fit_b)")
    for name, one in every.items():
        if not isinstance(one, Fit | Elpd):
            refuse(name, "a fit, or what fit.loo() gives", one)
    again = {} if data is None else {"data": data}
    found = {name: _looked(name, one, CRITERIA[kind], rows, seed, progress, again) for name, one in every.items()}
    return _table(found)


def _looked(
    name: str, one: Fit | Elpd, criterion: Criterion, rows: int, seed: int, progress: bool, again: Mapping[str, Any]
) -> Elpd:
    """What is known of one of the models, on rows that have the numbers which they have in the data."""
    if isinstance(one, Fit):
        how = "compare_models(..., {}=...)"
        with model_of(one, again, how, progress, (NUMBER,)) as model, showing(progress):
            one = result(look(one, model, criterion, rows, seed))
    if one.kind != criterion.kind:
        raise ValueError(f"{name!r} is {one.kind.upper()}, but the comparison is by {criterion.kind.upper()}")
    if not one.looked.places:
        raise ValueError(
            f"the rows of {name!r} were sorted by group, or equal ones were merged, so they cannot be "
            "matched with the rows of another model: make the fit by tb.fit, and give the fit itself"
        )
    return one


class _Difference(NamedTuple):
    """Between the best model and another one."""

    elpd: float
    se: float
    subsampling_se: float


def _table(found: dict[str, Elpd]) -> pd.DataFrame:
    import pandas as pd

    order = sorted(found, key=lambda name: -found[name].elpd)
    best = found[order[0]]
    lines = {}
    for rank, name in enumerate(order):
        one = found[name]
        _check_alike(order[0], best, name, one)
        between = _difference(best, one)
        lines[name] = {
            "rank": rank,
            "elpd": one.elpd,
            "p": one.p,
            "elpd_diff": between.elpd,
            "se": one.se,
            "dse": between.se,
            "subsampling_se": one.subsampling_se,
            "subsampling_dse": between.subsampling_se,
            "warning": one.warning,
        }
    return pd.DataFrame.from_dict(lines, orient="index").astype({"rank": int, "warning": bool})


def _difference(best: Elpd, other: Elpd) -> _Difference:
    """Squares of differences come from many rows, since in a few there may hardly be an event."""
    one, two = best.looked, other.looked
    exact, near = one.exact.elpd - two.exact.elpd, one.near[0] - two.near[0]
    total, variance = one.total(exact, near, one.sums.elpd - two.sums.elpd)
    many = one.wide.weights * (one.wide.elpd - two.wide.elpd) ** 2
    squares, _ = one.total(exact**2, near**2, one.every * float(many.mean()))
    return _Difference(total, one.spread(squares, total, variance), variance**0.5)


def _check_alike(name: str, one: Elpd, other: str, two: Elpd) -> None:
    """Refuse models of other data."""
    first, second = one.looked, two.looked
    if one.n_data_points != two.n_data_points or abs(first.sums.weight / second.sums.weight - 1) > CLOSE:
        raise ValueError(
            f"{name!r} is of {one.n_data_points:,} rows and {other!r} of {two.n_data_points:,}; compare models of the "
            "same rows. If missing='drop' left some out, drop the rows of all columns first"
        )
    if (first.seed, first.numbers.size) != (second.seed, second.numbers.size):
        raise ValueError(
            f"{name!r} and {other!r} were evaluated on different rows; give fit.loo() the same rows= and seed=, or "
            "compare_models the fits themselves"
        )
    pairs = ((first.numbers, second.numbers), (first.y, second.y), (first.weights, second.weights))
    if not all(np.array_equal(*pair) for pair in pairs):
        raise ValueError(
            f"{name!r} and {other!r} have other outcomes or weights in the same rows; compare models of the same data "
            "and outcome: y and log(y) are not the same, nor is a tb.Model without outcome="
        )
