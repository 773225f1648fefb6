"""From the draws of splines to what a `MARSFit` is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallbayes.models.model import Result, Sampled
from tallbayes.results.predict import evenly_spaced
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.calibration import by_predictor, calibrate, described_outcomes
from tallbayes.splines.basis import Splines, mean_spline
from tallbayes.splines.effects import SUBSETS, subset_means, total_effects
from tallbayes.splines.fit import MARSFit
from tallbayes.splines.model import MARS, splines
from tallbayes.splines.probabilities import EFFECT, stored_effects

Array = NDArray[np.float64]

KEPT = 200  # draws that say how much variables matter
AVERAGED = 20  # draws that make the predictions which are held against outcomes
LEVELS = 101  # quantiles of each variable
PARTS = ("degree", *(f"{what}_{j}" for what in ("variable", "sign", "knot") for j in (1, 2, 3)), "mean", "sd")
MEANING = {  # of what is followed
    "bases": "the number of bases of the spline",
    "precision": "lambda, the precision of the prior of the coefficients",
    "log_odds": "the log-odds of one of {rows} rows drawn at random from the data, followed to judge convergence",
}


@dataclass(frozen=True, eq=False)
class _Mean:
    """The mean of some splines, as a predictor of rows."""

    splines: Splines

    @property
    def looks(self) -> int:
        """See `Predictor`."""
        return self.splines.sizes.size

    def of(self, arrays: Arrays, params: Array) -> Array:
        """See `Predictor`."""
        return mean_spline(arrays, self.splines)


def spline_result(model: MARS, run: Sampled) -> Result:
    """What is told of draws (chain, draw, width)."""
    theta = run.theta
    chains, draws = theta.shape[:2]
    every = splines(theta, model.most)
    live = np.arange(model.most) < every.sizes[:, None]
    bases, number = np.unique(every.bases[live], axis=0, return_inverse=True)
    basis = np.full(live.shape, -1, np.int32)
    basis[live] = number.reshape(-1)
    beta = np.where(np.concatenate([np.ones((len(live), 1), bool), live], axis=1), every.coefficients, np.nan)
    means = np.empty((len(bases), SUBSETS))
    subset_means(model.reference.x, bases, means)
    some = every.some(evenly_spaced(KEPT, every.sizes.size))
    effects = total_effects(some, model.reference, np.random.default_rng(run.seed))
    levels = np.linspace(0, 1, LEVELS)
    quantiles = np.quantile(model.reference.x, levels, axis=1, method="inverted_cdf")  # values that rows have
    averaged = every.some(evenly_spaced(AVERAGED, every.sizes.size))
    axes = ("chain", "draw")
    drawn = {
        "beta": ((*axes, "term"), beta.reshape(chains, draws, -1)),
        "basis": ((*axes, "slot"), basis.reshape(chains, draws, -1)),
    }
    table = {
        "bases": (("basis", "part"), bases),
        "means": (("basis", "subset"), means),
        "quantiles": (("variable", "level"), quantiles.T),
        "points": (("point", "variable"), model.points.T),
        "effects": (("kept", "variable"), effects),
        **stored_effects(every, model.reference.x, quantiles.T, effects.mean(0)),
    }
    cells = by_predictor(model.rows, None, _Mean(averaged), model.look)
    others = {
        "formula": model.formula,
        "splines": (drawn, {"chain": np.arange(chains), "draw": np.arange(draws)}),
        "table": (table, {"variable": list(model.names), "part": list(PARTS), "summary": list(EFFECT)}),
        "calibration": calibrate(cells, model.family),
    }
    stats = run.stats | {"named": model.named, "outcome": model.outcome_said}
    stats |= {"data": model.called, "prior": model.described_prior(), "outcomes": described_outcomes(cells)}
    stats["told"] = [*([model.outcome_said] if model.outcome_said else []), *model.left_out]
    variables, coordinates = model.variables(theta)
    meaning = {name: {"description": said.format(rows=model.points.shape[1])} for name, said in MEANING.items()}
    described = {name: (*part, meaning[name]) for name, part in variables.items()}
    return Result(MARSFit.kind, (described, coordinates), run.sample_stats, stats, others)
