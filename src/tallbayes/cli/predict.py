"""`tallbayes predict`: the predictions of a saved fit, beside columns of the data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tallbayes.cli.choices import FORCE, OUT, files, whole
from tallbayes.cli.output import check_table, refuse

INTERVAL = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command("predict")
@click.argument("fit", type=OUT)
@click.argument("data", shell_complete=files)
@click.option("--out", type=OUT, metavar="FILE", help="A name in .parquet or .csv.  [default: CSV to stdout]")
@FORCE
@click.option("--interval", type=INTERVAL, default=0.94, show_default=True, help="Probability of the interval.")
@whole("--draws", 1, "Posterior draws to average over, evenly spaced.", default=300)
@whole("--seed", 0, "Seed for the effects of groups that the fit has not seen.", default=0)
@click.option("--keep", multiple=True, metavar="COLUMN", help="Column of the data to keep; may be repeated.")
@click.option("--keep-all", is_flag=True, help="Keep all columns of the data.")
@click.option("--noise", is_flag=True, help="Intervals for new outcomes, errors included (Gaussian fits only).")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def predict_command(
    fit: Path,
    data: str,
    out: Path | None,
    force: bool,
    keep: tuple[str, ...],
    keep_all: bool,
    noise: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Predict the outcomes of new rows with a saved fit.

    DATA is whatever `tallbayes fit` takes; it needs only the columns on the right of the formula. The output has a
    line for each row, in their order: the columns that are kept, the posterior mean of the expected outcome, and the
    ends of its interval, eti94_lb and eti94_ub. What looks like a number in a CSV file is kept as one: 007 as 7.
    Rows are read and written piece by piece, so that there may be more of them than memory holds.

    \b
    Examples:
      tallbayes predict fit.nc new_loans.parquet --keep loan_id --out predictions.parquet
      tallbayes predict fit.nc new_loans.csv --keep-all --interval 0.8 | head
    """
    if keep and keep_all:
        raise click.UsageError("--keep-all keeps every column; give it or --keep, not both")
    if out is not None:
        check_table(out)
    elif sys.stdout is None:
        raise click.UsageError("the standard output is closed; say --out FILE")
    refuse(force, {"--out": out}, fit, data)

    from tallbayes.families.gaussian import Gaussian
    from tallbayes.results.file import load

    loaded = load(fit)
    source = loaded._opened(data)
    if noise:
        if loaded.family != Gaussian():
            raise click.UsageError("--noise is for fits with family 'gaussian'")
        options["noise"] = True
    kept = source.names if keep_all else keep
    rows = loaded.predict_to(source, out or sys.stdout.buffer, kept, progress=not quiet, **options)
    if out is not None:
        click.echo(f"predictions of {rows:,} rows saved to {out}")
