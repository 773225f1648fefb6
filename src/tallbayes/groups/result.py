"""What a result says of groups besides their effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tallbayes.groups.fit import HierarchicalFit
from tallbayes.groups.mode import GroupMode
from tallbayes.models.model import Result, Sampled
from tallbayes.rows.tasks import GroupTotals

if TYPE_CHECKING:
    from tallbayes.groups.model import Hierarchical


def with_groups(model: Hierarchical, result: Result, run: Sampled) -> Result:
    """The result of a regression, with the facts of all groups."""
    modes: list[GroupMode] = [kernel.initial for kernel in run.kernel.kernels]  # of all rows, or of each shard
    said, zero = f"their sd with prior {model.group_prior}", None
    if len(modes) == 1:
        said, zero = modes[0].said, modes[0].zero
    stats = {"term": f"1|{model.group}", "count": len(model.levels), "prior": str(model.group_prior)}
    stats |= {"zero": zero, "said": said}
    groups = (_joined(modes), {model.group: list(model.levels)})
    return result._replace(
        kind=HierarchicalFit.kind, stats=result.stats | {"groups": stats}, others=result.others | {"groups": groups}
    )


def _joined(modes: list[GroupMode]) -> dict[str, Any]:
    """The facts of all groups, in their order, from the modes that have some of them each."""
    found = [group_facts(mode) for mode in modes]
    order = np.argsort(np.concatenate([mode.model.places for mode in modes]))
    return {
        name: (dims, np.concatenate([one[name][1] for one in found])[order]) for name, (dims, _) in found[0].items()
    }


def group_facts(mode: GroupMode) -> dict[str, Any]:
    """What is known of each group besides its effect: rows (their total weight), mean outcome, and the effect `alone`.

    The last is what the group's rows would say without the prior of the effects: one Newton step from the mode, with
    the coefficients as they are. Groups where that is no estimate, because all outcomes are the same, have none.
    """
    model, at = mode.model, mode.at
    weight, outcome = model.rows.reduce(GroupTotals())
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = outcome / weight
        alone = at.effects + at.effect_slope / at.effect_curvature
    variance = model.family.variance(mean)
    same = weight == 0 if variance is None else (weight == 0) | (variance == 0)
    dims, whole = (model.group,), np.rint(weight).astype(np.int64)
    return {
        "rows": (dims, whole if (whole == weight).all() else weight),
        "outcome": (dims, mean),
        "alone": (dims, np.where(same, np.nan, alone)),
    }
