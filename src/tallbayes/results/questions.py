"""Questions about parameters: one by name, all as a table, the probability of a statement, contrasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_flag, check_text, check_texts, refuse
from tallbayes.results.arithmetic import Computed, Expression, expression
from tallbayes.results.fit import Fit
from tallbayes.results.intervals import Interval
from tallbayes.results.names import places
from tallbayes.results.table import exponentiated, table
from tallbayes.sampling.diagnostics import diagnose

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

Array = NDArray[np.float64]

CONTRASTS = "a text such as 'a - b', a list of them, or a dict of them by name"


def columns(fit: Fit, names: Sequence[str]) -> list[Array]:
    """Draws (chain, draw) of each named parameter.

    >>> from tallbayes.results.example import example
    >>> [column.shape for column in columns(example(), ["fico"])]
    [(4, 500)]
    """
    draws = fit._draws
    return [np.ascontiguousarray(np.asarray(draws[:, :, place : place + 1])[..., 0]) for place in places(fit, names)]


def parameter(fit: Fit, name: str) -> xr.DataArray:
    """What `Fit.__getitem__` does."""
    import xarray as xr

    check_text("the name of a parameter", name)
    axes = {axis: fit.posterior[axis] for axis in ("chain", "draw")}
    return xr.DataArray(columns(fit, [name])[0].copy(), axes, ("chain", "draw"), name)


def draws_frame(fit: Fit, names: Sequence[str] | None) -> pd.DataFrame:
    """What `Fit.draws_frame` does."""
    import pandas as pd

    check_texts("names", names, "a list of parameters' names", optional=True)
    listed = fit.parameters if names is None else tuple(names)
    draws = np.array(fit._draws) if names is None else _stacked(columns(fit, listed), fit)
    axes = [fit.posterior[axis].values for axis in ("chain", "draw")]
    index = pd.MultiIndex.from_product(axes, names=("chain", "draw"))
    return pd.DataFrame(draws.reshape(len(index), -1), index, list(listed), copy=False)


def probability(fit: Fit, statement: str) -> float:
    """What `Fit.prob` does."""
    asked = expression(fit, statement, "fit.prob")
    return float(_computed(fit, asked).truth(asked.node).mean())


def contrast(
    fit: Fit, asked: str | Sequence[str] | Mapping[str, str], exponentiate: bool, interval: Interval
) -> pd.DataFrame:
    """What `Fit.contrast` does."""
    check_flag("exponentiate", exponentiate)
    texts = _texts(asked)
    every = [expression(fit, text, "fit.contrast") for text in texts.values()]
    if exponentiate:
        _require_ratios(fit, every)
    computed = [(_computed(fit, one), one.node) for one in every]
    draws = _stacked([one.each(one.number(node)) for one, node in computed], fit)
    if exponentiate:
        return exponentiated(draws, list(texts), np.full(len(texts), True), fit.minutes, interval)
    return table(draws, list(texts), diagnose(draws), fit.minutes, interval)


def _texts(asked: object) -> dict[str, str]:
    """Expressions by name."""
    if isinstance(asked, str):
        return {asked: asked}
    if isinstance(asked, Mapping):
        check_texts("names of contrasts", list(asked), "texts")
        check_texts("contrasts", list(asked.values()), "a dict of texts by name")
        found = dict(asked)
    else:
        check_texts("contrasts", asked, CONTRASTS)
        found = {text: text for text in asked}  # type: ignore[attr-defined]
    if not found:
        refuse("contrasts", f"{CONTRASTS}, at least one", asked)
    return found


def _computed(fit: Fit, asked: Expression) -> Computed:
    return Computed(asked, dict(zip(asked.names, columns(fit, asked.names), strict=True)))


def _require_ratios(fit: Fit, every: Sequence[Expression]) -> None:
    """Refuse to exponentiate what is not a difference of coefficients."""
    ratios = fit._ratios()
    for one in every:
        for name, place in zip(one.names, places(fit, one.names), strict=True):
            if not ratios[place]:
                raise ValueError(
                    f"exponentiate=True is for coefficients and effects of groups, but {name!r} is neither"
                )


def _stacked(columns: Sequence[Array], fit: Fit) -> Array:
    """Columns as one array (chain, draw, column), also if there are none."""
    sizes = fit.posterior.sizes
    return np.stack(columns, axis=2) if columns else np.empty((sizes["chain"], sizes["draw"], 0))
