"""The front door: `fit` goes from a formula and data to a posterior."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from numpy.typing import ArrayLike

from tallbayes import families
from tallbayes.data import spline_term
from tallbayes.data.missing import CHOICES
from tallbayes.data.options import check_choice, check_flag, check_path, check_text
from tallbayes.data.progress import showing
from tallbayes.data.texts import Texts
from tallbayes.data.timing import Phases
from tallbayes.engines.dask_frames import is_dask_frame
from tallbayes.engines.opening import on_engine
from tallbayes.families import Bernoulli, Family
from tallbayes.families.gaussian import Gaussian
from tallbayes.gaussian.group_model import GaussianGroups
from tallbayes.gaussian.model import GaussianModel
from tallbayes.groups.model import Hierarchical
from tallbayes.groups.scale import ScalePrior, given_scale_prior
from tallbayes.models.collinear import CHOICES as COLLINEAR
from tallbayes.models.design import FORMULA, parse_for
from tallbayes.models.glm import GLM
from tallbayes.models.model import Model
from tallbayes.models.priors import GivenPrior, without_texts
from tallbayes.results.fit import Fit
from tallbayes.results.more import DOORS, Door, Origin
from tallbayes.results.sample import answer, folder_of
from tallbayes.results.update import FRONT
from tallbayes.rows.room import Room, in_bytes
from tallbayes.sampling.checkpoint import past_of, read, recalled
from tallbayes.sampling.journal import Standing
from tallbayes.sampling.methods import Method, named
from tallbayes.sampling.request import Request

PINNED = ("seed", "memory", "progress")  # arguments that a run has, whoever has chosen them

OPTIONS = {  # of methods, which were arguments of `fit` once
    **dict.fromkeys(("surrogate", "subchain"), "tb.TwoStage({})"),
    **dict.fromkeys(("shards", "inner", "sharding", "combine", "workers"), "tb.Consensus({})"),
    "proposal": "tb.MH({0}) or tb.TwoStage({0})",
    "estimator": "tb.Subsampling({})",
}


def fit(
    formula: str,
    data: Any,
    family: str | Family = "bernoulli",
    prior: GivenPrior | None = None,
    method: str | Method = "auto",
    *,
    group_prior: ScalePrior | str | None = None,
    draws: int | None = None,
    target_ess: float | None = None,
    chains: int = 4,
    warmup: int | None = None,
    seed: int | None = None,
    weights: str | ArrayLike | None = None,
    offset: str | ArrayLike | None = None,
    outcome: Any = None,
    missing: str = "refuse",
    decimal: str = ".",
    na_values: Any = (),
    collinear: str = "refuse",
    memory: int | str | None = None,
    cache: str | os.PathLike[str] | None = None,
    engine: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
    **old: Any,
) -> Fit:
    """Fit a Bayesian regression to all rows of the data.

    Parameters
    ----------
    formula: such as "foreclosed ~ fico + dti + first_time"; see formulaic's grammar. With "foreclosed ~ s(fico, dti)"
        the log-odds are a spline of these variables, whose shape is estimated too. A term (1 | bank) gives every bank
        an effect of its own, Normal around zero with a standard deviation that is estimated too. A '.' on the right
        stands for all other columns, offset(log(days)) is added to the linear predictor as it is, and counts of
        successes are p(successes, trials) or cbind(successes, failures) on the left. Of dates, use year(d), month(d),
        day(d), weekday(d), hour(d) or days(d).
    data: pandas, polars or pyarrow table, dict of arrays, or a path: of a CSV, Parquet or Feather file, a pattern or
        folder of them, an address such as "s3://bucket/loans" (with fsspec), or "-" for standard input.
    family: "bernoulli" (binary outcomes), "poisson", "gaussian", or `tb.Bernoulli(link="probit")`,
        `tb.Binomial(trials="sent")`, `tb.Poisson(exposure="days")`, `tb.NegativeBinomial(shape=2.0)`,
        `tb.Gamma(shape=2.0)`, or one of your own by `tb.family`.
    prior: `tb.Normal` or `tb.StudentT` for all coefficients on the scale of the data, or a dict of them by name, or
        texts such as "normal(0, 1)" and "student_t(4, 0, 2.5)". Those not given follow the columns: Normal(0, 5 / sd of
        the column), Normal(0, 5 / difference) if it has two values, and for the intercept Normal(0, 10) where all
        columns are at their means. `fit.prior` has them.
    group_prior: prior of the standard deviation of group effects: `tb.HalfCauchy(2.5)` unless given, `tb.HalfNormal` or
        `tb.InverseSquare`, or a text such as "half_normal(1)".
    method: "auto" chooses among the others and says why in `fit.stats["why"]`; "thinned" looks at a handful of rows a
        draw, "two-stage" at all rows for what a surrogate lets pass, "mh" (Metropolis-Hastings) at all rows always.
        These are exact. "consensus" samples shards of the rows and combines their draws, "subsampling" estimates the
        log-likelihood from some rows: both are approximate, and the result says how far off it may be. For options,
        give a value: `tb.TwoStage(surrogate=tb.CaseControl(10_000))`, `tb.MH(proposal="one-at-a-time")`,
        `tb.Consensus(14, inner=tb.MH())`, `tb.Subsampling(tb.SplineProxy(7_000))`, `tb.Thinned()` or `tb.Auto()`.
    draws: draws to keep per chain. With `target_ess`, the most there may be. With neither, at least 1,000, and then as
        many as it takes to converge, within a budget: 20,000 of "thinned", 5,000 of "two-stage" and "mh"; approximate
        methods do not go on. `fit.stats["stopped"]` says why there are no more: "asked", "converged", "budget",
        "interrupted".
    target_ess: stop as soon as every coefficient has this many effective draws.
    chains: how many chains; they run together and share passes over the data.
    warmup: warm-up draws per chain, which are not kept.
    seed: the same seed gives the same draws; drawn at random and recorded in `fit.stats` if None.
    weights: how often each row counts: a column's name or one number a row.
    offset: added to the linear predictor: a column's name or one number a row.
    outcome: the value of the outcome's column that counts as 1, where that holds anything but 0 and 1. If not given, it
        is the obvious one of two levels of text ("yes", "true", ...), else the second; the fit says which.
    missing: "refuse" rows with missing values, or "drop" them; the fit says how many.
    decimal: the decimal sign of numbers in CSV files and in columns of text, "." or ",".
    na_values: texts that mark missing values, such as "?", or ["?", "-999"]; with these or `decimal`, columns of text
        that are all numbers otherwise become numbers, unless they are groups or categories as in C(x). A fit remembers
        both, and reads new data for predictions in the same way.
    collinear: "refuse" columns of the design that are linear combinations of those before them, or "drop" them; the fit
        says which.
    memory: how much the rows may take, such as "2GB"; half of what is free, unless given. Rows that need more go to
        disk, where every method works on them, and gives the same draws (of group terms: the same posterior).
    cache: a folder that keeps the rows as the formula makes them, so that the next fit with the same formula and files
        need not read the files again.
    engine: who holds the rows, if not this machine: a Dask client, the address of a Dask scheduler such as
        "tcp://10.0.0.1:8786", or the engine that `tb.mpi.run` gives. Paths are then read by the workers. A Dask frame
            given as data uses its own client. The draws are those of one machine; with group terms, those of rows on
            disk.
    checkpoint: a folder that keeps the run. Whatever ended it, `tb.resume(checkpoint)` or the same call of `fit`
        continues it, and ends with the draws of an unbroken run, bit for bit. A call that asks for more `draws`
        continues it, too. A second process is refused while the run is under way, and other data are always refused.
    progress: whether to show the progress of the draws and of long passes over the data.

    >>> import numpy as np
    >>> import tallbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal(2_000)
    >>> y = rng.random(2_000) < 1 / (1 + np.exp(1 - x))
    >>> fit = tb.fit("y ~ x", {"x": x, "y": y}, draws=500, seed=1, progress=False)
    >>> fit.summary()[["mean", "sd"]].round(1)
               mean   sd
    Intercept  -1.0  0.1
    x           1.0  0.1
    """
    _refuse_old(old)
    check_text("formula", formula, FORMULA)
    check_choice("missing", missing, CHOICES)
    check_choice("collinear", collinear, COLLINEAR)
    families.resolve(family)
    without_texts(prior)
    given_scale_prior("group_prior", group_prior)
    if memory is not None:
        in_bytes(memory)
    if cache is not None:
        cache = check_path("cache", cache, "the path of a folder")
    given: dict[str, Any] = {
        "formula": formula, "data": data, "family": family, "prior": prior, "method": named(method),
        "group_prior": group_prior, "draws": draws, "target_ess": target_ess, "chains": chains, "warmup": warmup,
        "seed": seed, "weights": weights, "offset": offset, "outcome": outcome, "missing": missing,
        "decimal": decimal, "na_values": na_values, "collinear": collinear,
        "memory": memory, "cache": cache, "engine": engine, "progress": progress,
    }  # fmt: skip
    return _fitted(given, folder_of(checkpoint))


FRONT["fit"] = fit


def _fitted(given: dict[str, Any], checkpoint: str | None, standing: Standing | None = None) -> Fit:
    """The door that `fit` is, and `more` and `resume` come back to."""
    asked = {name: value for name, value in given.items() if name not in PINNED}
    asked |= {"data": lasting(given["data"]), "cache": lasting(given["cache"])}
    with past_of(checkpoint, asked, standing) as past:
        request = Request.of(given, past)
        memory = past.pinned("memory", given["memory"], lambda: Room.of().memory)
        with _modelled(given | {"memory": memory}) as model:
            result = answer(model, given["method"], request, past)
    result.origin = Origin.of("fit", asked | {"memory": memory}, checkpoint)
    return result


def resume(checkpoint: str | os.PathLike[str], *, progress: bool = True, **again: Any) -> Fit:
    """Continue a run of `fit(..., checkpoint=...)`, however and whenever it was ended.

    It ends with the draws of an unbroken run, bit for bit. What files do not keep has to be given again, under the
    names of the arguments of `fit`: `data` that were not files, weights and offsets that were arrays, functions of
    yours, and an `engine`. Data that have changed are refused, and so is another version of tallbayes or of the
    libraries that it computes with. A run that is complete gives its fit once more.

    >>> import tempfile
    >>> import tallbayes as tb
    >>> data = {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit = tb.fit("y ~ x", data, draws=100, seed=1, checkpoint=f"{folder}/run.tb", progress=False)
    ...     again = tb.resume(f"{folder}/run.tb", data=data, progress=False)
    >>> bool((fit.draws == again.draws).all())
    True
    """
    folder = check_path("checkpoint", checkpoint, "the path of a folder")
    check_flag("progress", progress)
    asked, _ = read(folder)
    if "formula" not in asked:
        raise ValueError(f"the run in {folder!r} is one of tb.sample; go on with the same call of tb.sample")
    again = {name: named(value) if name == "method" else value for name, value in again.items()}
    arguments = recalled(asked, again, "tb.resume(checkpoint, {}=...)")
    return _fitted({"seed": None, "memory": None, **arguments, "progress": progress}, folder)


def lasting(path: Any) -> Any:
    """A path that means the same for a process in another folder; anything else as it is."""
    if not isinstance(path, str | os.PathLike) or str(path) == "-" or "://" in str(path):
        return path
    return os.path.abspath(os.path.expanduser(path))


@contextmanager
def _modelled(given: dict[str, Any], strata: Sequence[str] = ()) -> Iterator[Model]:
    """The model that arguments are of, as long as its rows are at hand; `strata` are kept with these besides."""
    formula, data, family, prior, method = (given[one] for one in ("formula", "data", "family", "prior", "method"))
    weights, offset, group_prior, engine = (given[one] for one in ("weights", "offset", "group_prior", "engine"))
    how = {one: given[one] for one in ("outcome", "missing", "decimal", "na_values", "memory")}
    options = how | {one: given[one] for one in ("weights", "offset", "collinear")}
    options |= {"strata": (*method.columns, *strata), "cache": None if strata else given["cache"]}
    phases, progress = Phases(), given["progress"]
    if (spline := spline_term.cut(formula)) is not None:
        from tallbayes.splines.model import MARS  # here, since few need them

        refused = {one: given[one] for one in ("prior", "group_prior", "weights", "offset", "cache", "engine")}
        _refuse_for_splines(families.resolve(family), refused, data)
        with showing(progress):
            splines = MARS(spline.text, data, **how, **spline.options)
        yield splines
        return
    with on_engine(engine, data, Texts.of(given["decimal"], given["na_values"])) as rows:
        with showing(progress):
            with phases("design"):
                parsed, rows = parse_for(formula, rows, family, weights, offset)
            if parsed.group is None and group_prior is not None:
                raise ValueError("group_prior is for formulas with a group term such as (1 | bank)")
            if families.resolve(family) == Gaussian():
                model: GLM
                if parsed.group is not None:
                    model = GaussianGroups(parsed, rows, prior, group_prior=group_prior, **options)
                else:
                    model = GaussianModel(parsed, rows, prior, **options)
            elif parsed.group is not None:
                model = Hierarchical(parsed, rows, family, prior, group_prior, **options)
            else:
                model = GLM(parsed, rows, family, prior, **options)
        model.seconds["design"] += phases.seconds["design"]
        yield model


def _refuse_for_splines(family: Family, given: dict[str, Any], data: Any) -> None:
    """Say what a spline cannot have."""
    if family != Bernoulli():
        raise ValueError(f"s(...) is for binary outcomes with the logit link, not for {family}")
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name}= is not for splines; leave it out, or fit a regression with terms such as bs(x)")
    if is_dask_frame(data):
        raise ValueError("splines need any row at any time, and cannot have a Dask frame; write it to Parquet files")


def _refuse_old(given: dict[str, Any]) -> None:
    """Say how an option of a method is spelt now; refuse any other argument as Python does."""
    for name in given:
        if name not in OPTIONS:
            raise TypeError(f"fit() got an unexpected keyword argument {name!r}")
        raise TypeError(f"{name} is an option of a method now: give fit method={OPTIONS[name].format(name + '=...')}")


DOORS["fit"] = Door(_fitted, _modelled)
