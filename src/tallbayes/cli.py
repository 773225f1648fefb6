"""The command line: fit, report, compare, simulate, reproduce.

Heavy imports wait inside the commands, so that help is quick.
A command refuses impossible options and outputs before it reads data, and its exit code tells how it went.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from tallbayes.families import Family
    from tallbayes.groups.scale import ScalePrior
    from tallbayes.models.priors import CoefficientPrior
    from tallbayes.results.fit import Fit
    from tallbayes.sampling.estimators import SplineProxy, TaylorProxy
    from tallbayes.sampling.methods import Method
    from tallbayes.sampling.surrogate import Description

Command = TypeVar("Command", bound=Callable[..., Any])
Kind = TypeVar("Kind")

BAD_DATA, NOT_CONVERGED, INTERRUPTED = 1, 3, 130
# Repeated from methods.py, datasets.py and paper, which take too long to import for a help text; a test compares them.
METHODS = ("auto", "thinned", "two-stage", "mh", "consensus", "subsampling")
INNER = ("auto", "thinned", "two-stage", "mh")
SHARDINGS = ("random", "stratified", "groups")
COMBINERS = ("average", "gaussian")
PROPOSALS = ("one-at-a-time", "random-walk", "independence", "mixture")
LOAN_ROWS = 2_297_813
EXPERIMENTS = ("bank", "loans", "hierarchical", "mars")
METHOD_OPTIONS = (
    "surrogate", "proposal", "subchain", "shards", "inner", "sharding", "combine", "workers", "estimator",
)  # fmt: skip

PRIOR = re.compile(r"(?:(.+)=)?\s*(normal|student_t)\(([^()]+)\)\s*", re.IGNORECASE)
FAMILY = re.compile(r"\s*([a-z]+)\s*(?:\((.+)\))?\s*", re.IGNORECASE)
GROUP_PRIOR = re.compile(r"\s*(half_cauchy|half_normal|inverse_square)\(([^(),]+)\)\s*", re.IGNORECASE)
ROWS_OF = re.compile(r"\s*([a-z-]+)\s*(?:\(\s*(\d[\d_]*)\s*(?:,\s*(\S.*?)\s*)?\))?\s*")

ESTIMATORS = "taylor, taylor(ROWS), spline or spline(ROWS)"
SURROGATES = "taylor, taylor(ROWS), case-control(ROWS), subsample(ROWS) or stratified(ROWS, COLUMN)"
FAMILIES = """bernoulli, bernoulli(probit), bernoulli(cloglog), poisson, poisson(EXPOSURE_COLUMN),
binomial(TRIALS_COLUMN) or binomial(TRIALS_COLUMN, probit)""".replace("\n", " ")
FAMILY_HELP = f"What kind of outcome there is, and its link: {FAMILIES}."
PRIOR_HELP = """"normal(MEAN, SD)" or "student_t(DF, MEAN, SCALE)" for all coefficients, or "NAME=normal(MEAN, SD)" for
one; the latter may be repeated.  [default: normal(0, 10)]"""
GROUP_PRIORS = "half_cauchy(SCALE), half_normal(SCALE) or inverse_square(LOWER)"
GROUP_PRIOR_HELP = f"Of the standard deviation of group effects (1 | g): {GROUP_PRIORS}.  [default: half_cauchy(2.5)]"
METHOD_HELP = """auto chooses and says why; thinned looks at a handful of rows a draw, two-stage at all rows for
proposals that pass a surrogate, mh at all rows for every proposal. These are exact; consensus (which samples shards
of the rows and combines their draws) and subsampling (which estimates the log-likelihood) are not."""
DRAWS_HELP = """Kept draws a chain; with --target-ess, the most there may be.  [default: until converged, 1000 at
least]"""
TARGET_HELP = "Stop as soon as every coefficient has this many effective draws."
EPILOG = """\b
Exit codes:
  0    all went well
  1    bad data, or a file that cannot be read or written
  2    a wrong option or argument
  3    not converged, or not mixed: the result was written, but do not trust it yet
  130  interrupted with Ctrl-C: what was drawn until then was written
"""


class Commands(click.Group):
    """A group whose commands end with our exit codes instead of tracebacks."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _tell("interrupted before there was a result")
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:  # of a reader such as head; click ends quietly
            raise
        except (ValueError, OSError) as error:
            _tell(f"error: {error}")
            ctx.exit(BAD_DATA)


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tallbayes")
def main() -> None:
    """Exact Bayesian regression on millions of rows.

    A Markov chain looks at a handful of rows a draw, or at all rows for those proposals only that a cheap
    surrogate lets pass. Either way the posterior is that of the full data, at a fraction of its cost.

    \b
    A first session:
      tallbayes simulate loans --rows 200000 --out loans.parquet
      tallbayes fit loans.parquet "foreclosed ~ fico + dti" --out fit.nc
      tallbayes fit loans.parquet "foreclosed ~ fico + dti" --method mh --out mh.nc
      tallbayes compare mh.nc fit.nc
    """


def _family(ctx: click.Context, param: click.Parameter, text: str) -> Family:
    """The family that the text describes."""
    from tallbayes.families import NAMES

    name, inside = found.groups() if (found := FAMILY.fullmatch(text)) else ("", None)
    arguments = [part.strip() for part in inside.split(",")] if inside else []
    try:
        return NAMES[name.lower() if all(arguments) else ""](*arguments)
    except (KeyError, TypeError) as error:
        raise click.BadParameter(f"{text!r} is not like {FAMILIES}") from error
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}") from error


def _priors(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> CoefficientPrior | dict[str, CoefficientPrior] | None:
    """One prior for all coefficients, or priors by coefficient."""
    from tallbayes.models.priors import Normal, StudentT

    kinds: dict[str, tuple[Callable[..., CoefficientPrior], int]] = {"normal": (Normal, 2), "student_t": (StudentT, 3)}
    found: dict[str, CoefficientPrior] = {}
    for text in texts:
        match = PRIOR.fullmatch(text)
        kind, count = kinds[match[2].lower()] if match else (Normal, 0)
        numbers = match[3].split(",") if match else []
        if match is None or len(numbers) != count:
            raise click.BadParameter(
                f"{text!r} is not like 'normal(0, 10)', 'student_t(4, 0, 2.5)' or 'fico=normal(0, 2.5)'"
            )
        name = (match[1] or "").strip()
        if name in found:
            raise click.BadParameter(f"there are two priors for {name or 'all coefficients'}; give one")
        try:
            found[name] = kind(*map(float, numbers))
        except ValueError as error:
            raise click.BadParameter(f"{text!r}: {error}") from error
    if "" in found and len(found) > 1:
        raise click.BadParameter(
            "give one prior for all coefficients, or priors by name (the others have normal(0, 10)), not both"
        )
    return found.get("") or found or None


def _group_prior(ctx: click.Context, param: click.Parameter, text: str | None) -> ScalePrior | None:
    """The prior of the groups' standard deviation that the text describes."""
    if text is None:
        return None
    from tallbayes.groups.scale import HalfCauchy, HalfNormal, InverseSquare

    kinds: dict[str, Callable[[float], ScalePrior]]
    kinds = {"half_cauchy": HalfCauchy, "half_normal": HalfNormal, "inverse_square": InverseSquare}
    if not (match := GROUP_PRIOR.fullmatch(text)):
        raise click.BadParameter(f"{text!r} is not like {GROUP_PRIORS}, such as half_normal(1)")
    try:
        return kinds[match[1].lower()](float(match[2]))
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}") from error


def _surrogate(ctx: click.Context, param: click.Parameter, text: str | None) -> Description | None:
    """The surrogate that the text describes."""
    if text is None:
        return None
    from tallbayes.sampling.subsample import CaseControl, Stratified, Subsample
    from tallbayes.sampling.taylor import Taylor

    kinds: dict[str, Callable[..., Description]] = {"taylor": Taylor, "case-control": CaseControl}
    kinds |= {"subsample": Subsample, "stratified": Stratified}
    return _described(text, kinds, f"{SURROGATES}, such as subsample(50000)")


def _estimator(ctx: click.Context, param: click.Parameter, text: str | None) -> TaylorProxy | SplineProxy | None:
    """The estimator that the text describes."""
    if text is None:
        return None
    from tallbayes.sampling.estimators import SplineProxy, TaylorProxy

    kinds: dict[str, Callable[..., TaylorProxy | SplineProxy]]
    kinds = {"taylor": TaylorProxy, "spline": lambda size=None: SplineProxy(size)}  # its other options have no text
    return _described(text, kinds, f"{ESTIMATORS}, such as spline(7000)")


def _described(text: str, kinds: dict[str, Callable[..., Kind]], like: str) -> Kind:
    """What a text such as stratified(1000, bank) describes."""
    kind, size, by = found.groups() if (found := ROWS_OF.fullmatch(text)) else ("", None, None)
    try:
        return kinds[kind](*([int(size)] if size else []), *([by] if by else []))
    except (KeyError, TypeError, ValueError) as error:
        raise click.BadParameter(f"{text!r} is not like {like}") from error


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


def _whole(name: str, least: int, help: str, default: int | None = None) -> Callable[[Command], Command]:
    """An option that is a whole number."""
    kind = click.IntRange(min=least)
    return click.option(name, type=kind, default=default, show_default=True, metavar="N", help=help)


OUT = click.Path(path_type=Path)
FORCE = click.option("--force", is_flag=True, help="Replace the output file if it exists.")


@main.command("fit")
@click.argument("data")
@click.argument("formula")
@click.option("--out", type=OUT, metavar="FILE", help="Keep the draws in this file (netCDF).")
@click.option("--report", type=OUT, metavar="FILE", help="Write a page about the fit (HTML).")
@FORCE
@click.option("--family", callback=_family, default="bernoulli", show_default=True, help=FAMILY_HELP)
@click.option("--prior", multiple=True, callback=_priors, help=PRIOR_HELP)
@click.option("--group-prior", callback=_group_prior, help=GROUP_PRIOR_HELP)
@click.option("--method", type=click.Choice(METHODS), default="auto", show_default=True, help=METHOD_HELP)
@click.option("--surrogate", callback=_surrogate, help=f"What screens proposals: {SURROGATES}.")
@click.option("--proposal", type=click.Choice(PROPOSALS), help="How chains propose to move.")
@_whole("--subchain", 0, "Screened steps before each look at all rows; 0: look at each update.")
@_whole("--shards", 1, "Parts of the rows that a consensus samples.  [default: 14]")
@click.option("--inner", type=click.Choice(INNER), help="Method on each shard of a consensus.  [default: auto]")
@click.option("--sharding", type=click.Choice(SHARDINGS), help="How a consensus deals rows to shards.")
@click.option("--combine", type=click.Choice(COMBINERS), help="How a consensus combines draws.  [default: average]")
@_whole("--workers", 1, "Threads that work on shards.  [default: all cores]")
@click.option("--estimator", callback=_estimator, help=f"Of the log-likelihood, in subsampling: {ESTIMATORS}.")
@_whole("--draws", 1, DRAWS_HELP)
@click.option("--target-ess", type=click.FloatRange(0, min_open=True), metavar="N", help=TARGET_HELP)
@_whole("--chains", 1, "They run together.", default=4)
@_whole("--warmup", 0, "Draws for tuning and settling, not kept.")
@_whole("--seed", 0, "The same seed gives the same draws.")
@click.option("--weights", metavar="COLUMN", help="How many times each row counts.")
@click.option("--offset", metavar="COLUMN", help="Added to the linear predictor of each row.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def fit_command(
    data: str, formula: str, out: Path | None, report: Path | None, force: bool, quiet: bool, **options: Any
) -> None:
    """Fit a Bayesian regression to all rows of the data.

    DATA is a CSV or Parquet file, or a quoted pattern for many, such as "loans/*.parquet". FORMULA has the
    outcome (0 or 1, or counts with other families) on the left of ~ and what explains it on the right. The
    posterior is printed as a table, progress and warnings go to stderr. Ctrl-C stops early and keeps what was
    drawn.

    \b
    Examples:
      tallbayes fit loans.parquet "foreclosed ~ fico + dti + first_time" --out fit.nc --report fit.html
      tallbayes fit loans.csv "foreclosed ~ fico" --prior "fico=normal(0, 2.5)" --target-ess 2000
      tallbayes fit loans.csv "foreclosed ~ fico" --surrogate "case-control(10000)" --seed 1
      tallbayes fit loans.csv "foreclosed ~ fico + (1 | bank)" --group-prior "half_normal(1)"
      tallbayes fit loans.csv "foreclosed ~ fico" --method consensus --shards 8 --inner mh
      tallbayes fit claims.csv "claims ~ age" --family "poisson(years)" --prior "student_t(4, 0, 2.5)"
    """
    for path in filter(None, (out, report)):
        _refuse(path, force)
    if report is not None:
        _check_page(report)

    from tallbayes.fit import fit
    from tallbayes.models.mode import SeparationWarning, TailWarning

    method = _method(options.pop("method"), {name: options.pop(name) for name in METHOD_OPTIONS})

    with warnings.catch_warnings():
        for kind in (SeparationWarning, TailWarning):
            warnings.simplefilter("always", kind)
        warnings.showwarning = lambda message, *rest, **more: _tell(f"warning: {message}")
        result = fit(formula, data, method=method, progress=not quiet, **options)
    if out is not None:
        result.save(out)  # before all else, which may be interrupted
    if report is not None:
        result.report(report)
    click.echo(f"{result!r}\n")
    code = _judge(result)
    click.echo(
        f"saved to {out}; in Python: import tallbayes as tb; fit = tb.load({str(out)!r})"
        if out is not None
        else "not saved; add --out fit.nc to keep the draws"
    )
    if report is not None:
        click.echo(f"report: {report}")
    sys.exit(code)


@main.command("report")
@click.argument("fit", type=OUT)
@click.argument("out", type=OUT)
@FORCE
def report_command(fit: Path, out: Path, force: bool) -> None:
    """Write a page about a saved fit: what was fitted, whether to trust it, and what came out.

    The page (HTML) needs nothing else, and can be mailed, printed and read on a phone.

    \b
    Example:
      tallbayes report fit.nc fit.html
    """
    _refuse(out, force)
    _check_page(out)

    from tallbayes.results.file import load

    load(fit).report(out)
    click.echo(f"report: {out}")


@main.command("compare")
@click.argument("fits", nargs=-1, required=True, metavar="[NAME=]FILE...")
@click.option("--by-parameter", is_flag=True, help="A line per parameter instead of a line per fit.")
@_whole("--thin", 1, "With --by-parameter: look at every N-th draw only.  [default: 1]")
def compare_command(fits: tuple[str, ...], by_parameter: bool, thin: int | None) -> None:
    """Compare saved fits of one model: their effective draws per minute, and whether they agree.

    The first is the reference: the redpm columns are ratios to it, and so are the numbers by parameter.
    largest_z and largest_z_sd are the largest differences of a posterior mean and sd to the reference, in
    Monte Carlo standard errors. A fit is called by the name of its file unless you give it one.

    \b
    Examples:
      tallbayes compare mh.nc fit.nc
      tallbayes compare mh=runs/1/fit.nc two_stage=runs/2/fit.nc --by-parameter --thin 10
    """
    if thin is not None and not by_parameter:
        raise click.UsageError("--thin goes with --by-parameter; the table of fits thins by 1, 10 and 20")
    paths: dict[str, str] = {}
    for text in fits:
        name, equals, path = text.partition("=")
        if not equals or Path(text).exists():
            name, path = Path(text).stem, text
        if name in paths:
            raise click.UsageError(f"two fits are called {name!r}; name them: a={paths[name]} b={path}")
        paths[name] = path

    from tallbayes.results.compare import compare, compare_parameters
    from tallbayes.results.file import load
    from tallbayes.results.story import number

    loaded = {name: load(path) for name, path in paths.items()}
    table = compare_parameters(thin or 1, **loaded) if by_parameter else compare(**loaded)
    click.echo(table.to_string(float_format=number))


@main.command("simulate")
@click.argument("dataset", type=click.Choice(["loans"]))
@_whole("--rows", 1, "How many.", default=LOAN_ROWS)
@_whole("--seed", 0, "The same seed gives the same rows.", default=0)
@click.option("--out", type=OUT, metavar="FILE", required=True, help="A name in .parquet or .csv.")
@FORCE
def simulate_command(dataset: str, rows: int, seed: int, out: Path, force: bool) -> None:
    """Simulate a tall data set to try things with.

    "loans" is like the loans that Freddie Mac bought in 2009 and 2010: foreclosed (0 or 1, where 16 in 10,000
    are 1) with first_payment, fico, dti, upb, first_time and bank.

    \b
    Example:
      tallbayes simulate loans --rows 200000 --seed 1 --out loans.parquet
    """
    if out.suffix.lower() not in (".parquet", ".csv"):
        raise click.BadParameter(f"{str(out)!r} must end in .parquet or .csv", param_hint="--out")
    _refuse(out, force)

    from tallbayes.data.datasets import simulate_loans
    from tallbayes.results.file import replacing

    loans = simulate_loans(rows, seed)
    with replacing(out) as partial:
        (loans.to_csv if out.suffix.lower() == ".csv" else loans.to_parquet)(partial, index=False)
    click.echo(f"{rows:,} rows, {loans['foreclosed'].sum():,} of them ones (foreclosed), saved to {out}")


@main.command("reproduce")
@click.argument("experiments", nargs=-1, required=True, type=click.Choice([*EXPERIMENTS, "all"]))
@click.option("--out", type=OUT, default=Path("reproduction"), show_default=True, metavar="FOLDER", help="Where to.")
@click.option("--full", is_flag=True, help="The paper's 100,000 iterations, which take hours.")
@click.option("--data", type=OUT, metavar="FOLDER", help="With the bank's CSV, or Freddie Mac's text files.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def reproduce_command(experiments: tuple[str, ...], out: Path, full: bool, data: Path | None, quiet: bool) -> None:
    """Run the experiments of Payne and Mallick's paper, and hold their figures beside ours.

    The folder gets one page (index.html), tables as CSV and figures as SVG. An experiment takes up to ten minutes
    on two cores. The bank's data are downloaded once unless --data or TALLBAYES_DATA say where they are;
    Freddie Mac's loans are simulated unless --data has them.

    \b
    Examples:
      tallbayes reproduce bank
      tallbayes reproduce all --out paper
      tallbayes reproduce loans hierarchical --data freddie_mac --full
    """
    from tallbayes.paper import reproduce

    names = EXPERIMENTS if "all" in experiments else tuple(dict.fromkeys(experiments))
    found = reproduce(names, out, full=full, data=data, tell=None if quiet else _tell)
    click.echo(f"page: {found}")


def _tell(message: str) -> None:
    click.echo(message, err=True)


def _refuse(out: Path, force: bool) -> None:
    """Raise OSError if nothing can, or should, be written there."""
    from tallbayes.results.file import check_writable

    check_writable(out)
    if out.exists() and not force:
        raise FileExistsError(f"'{out}' exists already; choose another name, or --force to replace it")


def _check_page(path: Path) -> None:
    if path.suffix.lower() not in (".html", ".htm"):
        raise click.BadParameter(f"{str(path)!r} must end in .html: a report is a page")


def _judge(fit: Fit) -> int:
    """The exit code, after telling why it is not 0."""
    problems = fit.problems()
    for problem in problems:
        _tell(f"not {'converged' if fit.stats['exact'] else 'mixed'}: {problem}")
    if fit.stats["interrupted"]:
        _tell(f"interrupted: the result rests on {fit.draws.shape[1]:,} draws a chain")
        return INTERRUPTED
    return NOT_CONVERGED if problems else 0
