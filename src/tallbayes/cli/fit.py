"""`tallbayes fit`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tallbayes.cli.choices import (
    COMBINERS,
    DECIMALS,
    FORCE,
    INNER,
    METHODS,
    OUT,
    PROPOSALS,
    REFUSE_OR_DROP,
    SHARDINGS,
    files,
    whole,
)
from tallbayes.cli.delivery import deliver, warnings_told
from tallbayes.cli.headings import WithHeadings
from tallbayes.cli.output import check_page, refuse
from tallbayes.cli.texts import (
    COLLINEAR_HELP,
    DECIMAL_HELP,
    ESTIMATORS,
    FAMILY_HELP,
    GROUP_PRIOR_HELP,
    MISSING_HELP,
    NA_VALUES_HELP,
    OUTCOME_HELP,
    PRIOR_HELP,
    SURROGATES,
    _estimator,
    _family,
    _group_prior,
    _priors,
    _surrogate,
)

if TYPE_CHECKING:
    from tallbayes.sampling.methods import Method

METHOD_OPTIONS = (
    "surrogate", "proposal", "subchain", "shards", "inner", "sharding", "combine", "workers", "estimator",
)  # fmt: skip
MODEL_OPTIONS = (
    "family", "splines", "outcome", "missing", "decimal", "na_values", "collinear", "prior", "group_prior",
    "weights", "offset",
)  # fmt: skip
HEADINGS = {  # options that are not here come before them
    "Model options": MODEL_OPTIONS,
    "Sampler options": ("method", "draws", "target_ess", "chains", "warmup", "seed"),
    "Method options": METHOD_OPTIONS,
}
METHOD_HELP = """auto chooses and says why; thinned looks at a handful of rows a draw, two-stage at all rows for
proposals that pass a surrogate, mh at all rows for every proposal. These are exact; consensus (which samples shards
of the rows and combines their draws) and subsampling (which estimates the log-likelihood) are not."""
MEMORY_HELP = "Memory that the rows may use, such as 2GB; the rest go to disk.  [default: half of what is free]"
ENGINE_HELP = "Let the workers of this Dask scheduler (tcp://host:8786) read the data and hold the rows."
CACHE_HELP = "Folder that keeps the rows as the formula makes them, for the next fit."
CHECKPOINT_HELP = "Folder that keeps the run; `tallbayes resume FOLDER` continues it, however it was ended."
SPLINES_HELP = "A spline of all variables, as with y ~ s(x, z): its shape and interactions are estimated."
TARGET_HELP = "Stop as soon as every coefficient has this many effective draws."


@click.command("fit", cls=WithHeadings, headings=HEADINGS)
@click.argument("data", shell_complete=files)
@click.argument("formula")
@click.argument("more", nargs=-1, metavar="")
@click.option("--out", type=OUT, metavar="FILE", help="Save the fit to this file (netCDF).")
@click.option("--report", type=OUT, metavar="FILE", help="Write a page about the fit (HTML).")
@FORCE
@click.option("--family", callback=_family, default="bernoulli", show_default=True, help=FAMILY_HELP)
@click.option("--splines", is_flag=True, help=SPLINES_HELP)
@click.option("--outcome", metavar="VALUE", help=OUTCOME_HELP)
@click.option("--missing", type=REFUSE_OR_DROP, default="refuse", show_default=True, help=MISSING_HELP)
@click.option("--decimal", type=click.Choice(DECIMALS), default=".", show_default=True, help=DECIMAL_HELP)
@click.option("--na-values", multiple=True, metavar="TEXT", help=NA_VALUES_HELP)
@click.option("--collinear", type=REFUSE_OR_DROP, default="refuse", show_default=True, help=COLLINEAR_HELP)
@click.option("--prior", multiple=True, callback=_priors, help=PRIOR_HELP)
@click.option("--group-prior", callback=_group_prior, help=GROUP_PRIOR_HELP)
@click.option("--method", type=click.Choice(METHODS), default="auto", show_default=True, help=METHOD_HELP)
@click.option("--surrogate", callback=_surrogate, help=f"Surrogate that screens proposals: {SURROGATES}.")
@click.option("--proposal", type=click.Choice(PROPOSALS), help="How chains propose to move.")
@whole("--subchain", 0, "Screened steps between looks at all rows; 0: look at all rows for each update.")
@whole("--shards", 1, "Number of shards of a consensus.  [default: 14]")
@click.option("--inner", type=click.Choice(INNER), help="Method on each shard of a consensus.  [default: auto]")
@click.option("--sharding", type=click.Choice(SHARDINGS), help="How a consensus divides rows among shards.")
@click.option("--combine", type=click.Choice(COMBINERS), help="How a consensus combines draws.  [default: average]")
@whole("--workers", 1, "Threads that work on shards.  [default: all cores]")
@click.option("--estimator", callback=_estimator, help=f"Estimator of the log-likelihood in subsampling: {ESTIMATORS}.")
@whole("--draws", 1, "Draws to keep per chain; with --target-ess, at most.  [default: until converged, 1000 at least]")
@click.option("--target-ess", type=click.FloatRange(0, min_open=True), metavar="N", help=TARGET_HELP)
@whole("--chains", 1, "Number of chains, which run together.", default=4)
@whole("--warmup", 0, "Warm-up draws per chain, which are not kept.")
@whole("--seed", 0, "The same seed gives the same draws.")
@click.option("--weights", metavar="COLUMN", help="How many times each row counts.")
@click.option("--offset", metavar="COLUMN", help="Added to the linear predictor of each row.")
@click.option("--memory", metavar="SIZE", help=MEMORY_HELP)
@click.option("--engine", metavar="ADDRESS", help=ENGINE_HELP)
@click.option("--cache", type=click.Path(file_okay=False), metavar="FOLDER", help=CACHE_HELP)
@click.option("--checkpoint", type=click.Path(file_okay=False), metavar="FOLDER", help=CHECKPOINT_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print the posterior as JSON instead of a table.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def fit_command(
    data: str,
    formula: str,
    more: tuple[str, ...],
    out: Path | None,
    report: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    splines: bool,
    **options: Any,
) -> None:
    """Fit a Bayesian regression to all rows of the data.

    DATA is a CSV, Parquet or Feather file, a folder of them, a quoted pattern such as "loans/*.parquet", an
    address such as s3://bucket/loans (with fsspec), or - for standard input. FORMULA has the outcome (binary, or
    numbers with other families) on the left of ~ and what explains it on the right, where '.' stands for all other
    columns. The posterior is printed as a table, progress and warnings go to stderr. Ctrl-C stops early and keeps what
    was drawn; with --checkpoint, a run can be resumed, however it was ended.

    \b
    Examples:
      tallbayes fit loans.parquet "foreclosed ~ fico + dti + first_time" --out fit.nc --report fit.html
      tallbayes fit loans.csv "foreclosed ~ fico" --prior "fico=normal(0, 2.5)" --target-ess 2000
      tallbayes fit loans.csv "foreclosed ~ fico" --surrogate "case-control(10000)" --seed 1
      tallbayes fit loans.csv "foreclosed ~ fico + (1 | bank)" --group-prior "half_normal(1)"
      tallbayes fit loans.csv "foreclosed ~ fico" --method consensus --shards 8 --inner mh
      tallbayes fit claims.csv "claims ~ age" --family "poisson(years)" --prior "student_t(4, 0, 2.5)"
      tallbayes fit bank.csv "y ~ ." --outcome yes --missing drop --collinear drop
      tallbayes fit prices.csv "sold ~ price" --decimal , --na-values "?" --na-values -999 --missing drop
      tallbayes fit bank.csv "y ~ s(age, duration, month)" --outcome yes --report splines.html
      tallbayes fit loans.csv "foreclosed ~ fico" --method mh --checkpoint run.tb --out fit.nc
      zcat loans.csv.gz | tallbayes fit - "foreclosed ~ fico"
    """
    if more:
        raise click.UsageError(f'unexpected {" ".join(more)!r} after {formula!r}; quote the formula, as in "y ~ x"')
    kept = {"--checkpoint": options["checkpoint"], "--cache": options["cache"]}
    refuse(force, {"--out": out, "--report": report}, data, folders=kept)
    if report is not None:
        check_page(report)

    from tallbayes.data.spline_term import wrap
    from tallbayes.fit import fit

    method = _method(options.pop("method"), {name: options.pop(name) for name in METHOD_OPTIONS})
    options["engine"] = options["engine"] or click.get_current_context().obj  # that of `tallbayes.mpi`

    with warnings_told():
        result = fit(wrap(formula) if splines else formula, data, method=method, progress=not quiet, **options)
    sys.exit(deliver(result, out, report, as_json))


def _method(name: str, options: dict[str, Any]) -> Method:
    """The method of that name with the options that were given, those of a consensus' inner method included."""
    from dataclasses import fields

    from tallbayes.sampling.methods import KINDS

    takes = {kind: {field.name for field in fields(KINDS[kind])} for kind in METHODS}
    given = {option: value for option, value in options.items() if value is not None}
    if name == "auto" and takes["two-stage"] & given.keys():
        name = "two-stage"
    own = {option: value for option, value in given.items() if option in takes[name]}
    others = {option: value for option, value in given.items() if option not in own}
    if name == "consensus":
        own["inner"], others = _method(own.get("inner", "auto"), others), {}
    for option in others:
        owner = next(kind for kind in METHODS if option in takes[kind])
        raise click.UsageError(f"--{option} is for --method {owner}, not for {name}")
    method: Method = KINDS[name](**own)
    return method
