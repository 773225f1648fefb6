"""From a model and a method to a fit."""

from __future__ import annotations

import warnings

from tallbayes.data.progress import showing
from tallbayes.data.timing import Phases, telling
from tallbayes.models.cautions import PriorWarning, SeparationWarning, TailWarning
from tallbayes.models.model import Model
from tallbayes.results.fit import Fit
from tallbayes.sampling import loop
from tallbayes.sampling.methods import Method, named
from tallbayes.sampling.request import Request


def sample(
    model: Model,
    method: str | Method = "auto",
    draws: int | None = None,
    chains: int = 4,
    seed: int | None = None,
    *,
    target_ess: float | None = None,
    warmup: int | None = None,
    progress: bool = True,
) -> Fit:
    """Draw from the posterior of a model: a `tb.GLM`, `tb.Hierarchical` or `tb.MARS`; the arguments are those of `fit`.

    >>> import tallbayes as tb
    >>> model = tb.GLM("y ~ x", {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]})
    >>> sample(model, tb.MH(), draws=50, seed=1, progress=False).draws.shape
    (4, 50, 2)
    """
    return answer(model, named(method), Request(draws, chains, seed, target_ess, warmup, progress))


def answer(model: Model, method: Method, request: Request) -> Fit:
    """The fit that was asked for, with what was warned of on the way."""
    phases = Phases(model.seconds)
    with phases("other"):  # what is in no phase of its own, so that all phases together are the time it took
        with telling(request.progress), showing(request.progress), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            kernel = method.kernel(model, request.seed, phases)
        for warning in caught:
            if not issubclass(warning.category, PriorWarning):  # a strong prior may be meant; `fit.problems` has it
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        run = loop.run(kernel, request, phases)
        with showing(request.progress):
            found = model.result(run)
        result = Fit.kinds[found.kind].of(found)
        for name, kind in (("warnings", SeparationWarning), ("doubts", TailWarning), ("pulled", PriorWarning)):
            result.stats[name] = [str(one.message) for one in caught if issubclass(one.category, kind)]
    return result
