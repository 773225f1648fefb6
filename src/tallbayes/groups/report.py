"""The section on groups in the report of a fit."""

from __future__ import annotations

import numpy as np

from tallbayes.groups.fit import HierarchicalFit
from tallbayes.groups.plots import caterpillar
from tallbayes.results import page
from tallbayes.results.report import FORMATS, in_words

MOST_GROUPS = 500  # in the table


def group_section(fit: HierarchicalFit) -> str:
    """The effect of each group, as a figure and a table."""
    table = fit.summary().iloc[len(fit.main_parameters) :]
    table.index = fit.posterior[fit.group].values
    table = in_words(table)
    table.insert(0, "mean outcome", fit.groups["outcome"].values)
    table.insert(0, "rows", fit.groups["rows"].values)
    table = table.iloc[np.argsort(-table["mean"].to_numpy(), kind="stable")]
    count, more = len(table), ""
    if count > MOST_GROUPS:
        half = MOST_GROUPS // 2
        table = table.iloc[[*range(half), *range(count - half, count)]]
        more = page.text(f"The {half} largest and the {half} smallest of {count:,}; fit.summary() has them all.")
    caption = f"The effect of each {fit.group} on the linear predictor, and the one that its rows alone would give."
    drawn = page.figure(caterpillar(fit), caption, caterpillar(fit, narrow=True))
    return page.section(f"Groups: {fit.group}", page.beside(drawn, page.table(table, fit.group, FORMATS)), more)
