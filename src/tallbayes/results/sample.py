"""From a model and a method to a fit."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any

from tallbayes.data.options import check_path, refuse
from tallbayes.data.progress import showing
from tallbayes.data.timing import Phases, telling
from tallbayes.models.cautions import PriorWarning, SeparationWarning, TailWarning, noting
from tallbayes.models.model import Model
from tallbayes.results.fit import Fit
from tallbayes.results.more import DOORS, Door, Origin
from tallbayes.sampling import loop
from tallbayes.sampling.checkpoint import past_of
from tallbayes.sampling.journal import Standing
from tallbayes.sampling.methods import Method, named
from tallbayes.sampling.past import Forgetful, Past
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
    checkpoint: str | os.PathLike[str] | None = None,
) -> Fit:
    """Draw from the posterior of a model: a `tb.GLM`, `tb.Hierarchical` or `tb.MARS`; the arguments are those of `fit`.

    With a `checkpoint`, make the same model and call again to continue a run that was ended.

    >>> import tallbayes as tb
    >>> model = tb.GLM("y ~ x", {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]})
    >>> sample(model, tb.MH(), draws=50, seed=1, progress=False).draws.shape
    (4, 50, 2)
    """
    if isinstance(model, type) or not all(hasattr(model, part) for part in ("width", "variables", "result")):
        refuse("model", "a model, such as tb.GLM, tb.Hierarchical, tb.MARS or tb.Model makes", model)
    given = {"model": model, "method": named(method), "draws": draws, "chains": chains, "seed": seed}
    given |= {"target_ess": target_ess, "warmup": warmup, "progress": progress}
    return _sampled(given, folder_of(checkpoint))


def folder_of(checkpoint: str | os.PathLike[str] | None) -> str | None:
    """The folder of a checkpoint as text, if there is one."""
    return None if checkpoint is None else os.path.abspath(check_path("checkpoint", checkpoint, "the path of a folder"))


def _sampled(given: dict[str, Any], checkpoint: str | None, standing: Standing | None = None) -> Fit:
    """The door that `sample` is, and `more` comes back to."""
    asked = {name: value for name, value in given.items() if name not in ("seed", "progress")}
    with past_of(checkpoint, asked, standing) as past:
        request = Request.of(given, past)
        fit = answer(given["model"], given["method"], request, past)
    fit.origin = Origin.of("sample", asked, checkpoint)
    return fit


def _given(given: dict[str, Any], strata: Sequence[str]) -> AbstractContextManager[Model]:
    """The model itself, whose rows are as they are."""
    return nullcontext(given["model"])


DOORS["sample"] = Door(_sampled, _given)


def answer(model: Model, method: Method, request: Request, past: Past | None = None) -> Fit:
    """The fit that was asked for, with what was warned of on the way."""
    past = past or Forgetful()
    phases = Phases(model.seconds)
    with phases("other"):  # what is in no phase of its own, so that all phases together are the time it took
        with telling(request.progress), showing(request.progress), noting() as notes:
            past.holds(model)
            kernel = method.kernel(model, request.seed, phases)
        for note in notes:
            if not isinstance(note, PriorWarning):  # a strong prior may be meant; `fit.problems` has it
                warnings.warn(note, stacklevel=2)
        run = loop.run(kernel, request, phases, past)
        with showing(request.progress):
            found = model.result(run)
        result = Fit.kinds[found.kind].of(found)
        result.standing = run.standing
        for name, kind in (("warnings", SeparationWarning), ("doubts", TailWarning), ("pulled", PriorWarning)):
            result.stats[name] = [str(note) for note in notes if isinstance(note, kind)]
        result.stats["fitted"] = datetime.now(UTC).isoformat(timespec="seconds")
    return result
