"""Pictures of a fit by their names, for `Fit.plot`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tallbayes.data.options import check_choice, refuse
from tallbayes.results.forest import forest
from tallbayes.results.plots import calibration, density, trace
from tallbayes.results.speed_plots import seconds, speed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tallbayes.results.fit import Fit

OF_PARAMETERS: Mapping[str, Callable[..., Any]] = {
    "forest": forest,
    "density": lambda fit, names: density(fit, names=names),
    "trace": trace,
    "speed": speed,
}
OF_THE_WHOLE: Mapping[str, Callable[..., Any]] = {"calibration": calibration, "seconds": seconds}


def plot(fit: Fit, names: Sequence[str] | None, kind: str, own: Mapping[str, Callable[..., Any]]) -> Figure:
    """What `Fit.plot` does; `own` are pictures that only fits of its kind have."""
    whole = {**OF_THE_WHOLE, **own}
    check_choice("kind", kind, (*OF_PARAMETERS, *whole))
    if kind not in OF_PARAMETERS and names is not None:
        refuse("names", f"left out for {kind!r}, which is of the whole fit", names)
    figure: Figure = whole[kind](fit) if kind in whole else OF_PARAMETERS[kind](fit, names)
    return figure
