"""Pictures of fits: coefficients, densities of several methods over each other, traces, predictions against outcomes;
where the time went and effective draws per minute; group effects; of splines, how much each variable matters and what
it does.

Every function returns a matplotlib Figure that belongs to nobody: save it with `figure.savefig("name.png")`.
"""

from tallbayes.groups.plots import caterpillar
from tallbayes.results.forest import forest
from tallbayes.results.plots import calibration, density, trace
from tallbayes.results.predictive_plot import predictive
from tallbayes.results.speed_plots import redpm, seconds, speed
from tallbayes.splines.plots import effects, importance, interaction

__all__ = [
    "calibration",
    "caterpillar",
    "density",
    "effects",
    "forest",
    "importance",
    "interaction",
    "predictive",
    "redpm",
    "seconds",
    "speed",
    "trace",
]
