"""What a saved fit must hold: nothing that was changed in a file becomes a fit without a word."""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from tallbayes.rows.calibration import Calibration
from tallbayes.rows.moments import Moments

if TYPE_CHECKING:
    from tallbayes.results.fit import Fit

STATE: dict[str, tuple[type, ...]] = {
    "kind": (str,), "stats": (dict,), "formula": (str, type(None)), "family": (dict,), "offset": (str, type(None)),
    "has_offset": (bool,), "prior": (dict, type(None)),
}  # fmt: skip
STATS: dict[str, tuple[type, ...]] = {  # what is told of every run
    "exact": (bool,), "method": (str,), "seconds": (dict,), "doubts": (list,), "pulled": (list,), "warnings": (list,),
    "interrupted": (bool,), "rows": (int,), "rows_per_draw": (int, float), "acceptance": (dict,), "why": (str,),
    "seed": (int, type(None)), "approximation": (dict,), "surrogate_rows_per_draw": (int, float),
    "distinct_rows": (int,), "surrogate": (str, type(None)), "proposal": (str, type(None)),
}  # fmt: skip
TOLD: dict[str, tuple[type, ...]] = {  # of most runs
    "told": (list,), "outcome": (str,), "stopped": (str, type(None)), "groups": (dict,), "data": (str,),
    "fitted": (str,), "default_priors": (list,), "outcomes": (dict,), "columns": (dict,),
}  # fmt: skip
OUTCOMES: dict[str, tuple[type, ...]] = dict.fromkeys(("weight", "mean", "sd"), (int, float))
DRAWN = ("posterior", "sample_stats")


def state_of(saved: Any) -> dict[str, Any]:
    """What a file has as JSON, with its format; ValueError if it is something else."""
    try:
        state = json.loads(saved)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"its description of the fit is not JSON ({error})") from error
    if not isinstance(state, dict):
        raise ValueError("its description of the fit is not a JSON object")
    _require(state, {"format": (int,)}, "the fit")
    return state


def check_state(state: dict[str, Any]) -> None:
    """Raise ValueError if something is missing, or of another type."""
    _require(state, STATE, "the fit")
    stats = state["stats"]
    _require(stats, STATS | {name: kinds for name, kinds in TOLD.items() if name in stats}, "stats")
    seconds = stats["seconds"].get("sampling")
    if not isinstance(seconds, int | float) or not seconds >= 0:
        raise ValueError(f"stats have no seconds of sampling, but {seconds!r}")
    for name in ("doubts", "pulled", "warnings", "told", "default_priors"):
        if not all(isinstance(one, str) for one in stats.get(name, [])):
            raise ValueError(f"{name!r} of stats are not sentences")
    if "fitted" in stats:
        datetime.fromisoformat(stats["fitted"])
    if "outcomes" in stats:
        _require(stats["outcomes"], OUTCOMES, "outcomes")
    if not all(isinstance(one, str) for pair in (state["prior"] or {}).items() for one in pair):
        raise ValueError("'prior' is not in words")
    if not isinstance(state["family"].get("name"), str):
        raise ValueError("the family has no name")


def check_draws(parts: dict[str, Any]) -> None:
    """Raise ValueError if there are no draws, or some are not numbers."""
    for name in DRAWN:
        if name not in parts:
            raise ValueError(f"there is no {name}")
    posterior = parts["posterior"]
    if not posterior.data_vars:
        raise ValueError("the posterior has no variables")
    sizes = [parts[name].sizes.get(axis, 0) for name in DRAWN for axis in ("chain", "draw")]
    if min(sizes[:2]) < 1 or (parts["sample_stats"].data_vars and sizes[:2] != sizes[2:]):
        raise ValueError("the posterior has no draws, or sample_stats have others")
    for part in DRAWN:
        for name, values in parts[part].data_vars.items():
            if not {"chain", "draw"} <= {*values.dims} or values.dtype.kind not in "iufb":
                raise ValueError(f"{name!r} of the {part} has no number for each draw")
            if part == "posterior" and not np.isfinite(values.values).all():
                raise ValueError(f"{name!r} of the posterior is not finite in some draws")


def calibration(saved: Any) -> Calibration:
    """Predictions against outcomes, by bins."""
    if not isinstance(saved, list) or len(saved) != len(Calibration._fields):
        raise ValueError("the calibration does not have its five parts")
    parts = [np.array(part, dtype=float) for part in saved]
    if {part.shape for part in parts} != {(len(saved[0]),)} or not len(saved[0]):
        raise ValueError("the calibration does not have the same bins in all parts")
    return Calibration(*parts)


def check_fit(fit: Fit) -> None:
    """Raise ValueError if its parts do not fit each other."""
    parameters, draws = fit.parameters, fit._draws
    if len(set(parameters)) < len(parameters) or draws.shape[2] != len(parameters):
        raise ValueError(f"there are draws of {draws.shape[2]} parameters with {len(set(parameters))} names")
    if not (isinstance(fit.family.title, str) and fit.family.title):
        raise ValueError("the family has no name")
    if (columns := fit.stats.get("columns")) is not None:
        _check_columns(columns, len(fit.coefficients))
    formula = fit.formula
    if formula is not None and fit.coefficients and fit.coefficients != formula.coefficients:
        raise ValueError(
            f"the coefficients {_some(fit.coefficients)} are not those of the formula, {_some(formula.coefficients)}"
        )
    if formula is not None and formula.group != fit.group:
        raise ValueError(f"the formula has the group {formula.group!r}, but the draws are of {fit.group!r}")
    if formula is not None and fit.group is not None:
        levels = fit.posterior[fit.group].values.tolist()
        if levels != [*formula.group_levels]:
            raise ValueError(f"the groups {_some(levels)} are not those of the formula, {_some(formula.group_levels)}")
    fit._check()


def _check_columns(columns: dict[str, Any], count: int) -> None:
    """Raise ValueError if what is known of the columns of the design is not there for each of so many."""
    lists = [columns.get(name) for name in Moments._fields]
    if not all(isinstance(one, list) and len(one) == count for one in lists):
        raise ValueError(f"what is known of the columns is not there for each of {count} coefficients")
    if not all(isinstance(value, int | float) for one in lists if one is not None for value in one):
        raise ValueError("what is known of the columns is not numeric")


def _some(names: Any) -> str:
    return ", ".join(map(repr, [*names][:5])) + (", ..." if len(names) > 5 else "")


def _require(found: dict[str, Any], wanted: dict[str, tuple[type, ...]], where: str) -> None:
    for name, kinds in wanted.items():
        if name not in found:
            raise ValueError(f"{name!r} of {where} is missing")
        value = found[name]
        if not isinstance(value, kinds) or (isinstance(value, float) and math.isnan(value)):
            raise ValueError(f"{name!r} of {where} is {str(value)[:40]!r}, and not as it was written")
