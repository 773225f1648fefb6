"""`tallbayes resume` and `tallbayes status`: runs that have a checkpoint."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tallbayes.cli.choices import FORCE, OUT, files, whole
from tallbayes.cli.delivery import deliver, warnings_told
from tallbayes.cli.output import check_page, refuse

FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command("resume")
@click.argument("checkpoint", type=FOLDER)
@click.option("--out", type=OUT, metavar="FILE", help="Save the fit to this file (netCDF).")
@click.option("--report", type=OUT, metavar="FILE", help="Write a page about the fit (HTML).")
@FORCE
@click.option("--data", shell_complete=files, metavar="DATA", help="Where the data are, if they were moved.")
@whole("--draws", 1, "Draws to keep per chain, if more than the run was started for.")
@click.option(
    "--target-ess",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Go on until every coefficient has this many effective draws.",
)
@click.option("--engine", metavar="ADDRESS", help="Let the workers of this Dask scheduler hold the rows.")
@click.option("--json", "as_json", is_flag=True, help="Print the posterior as JSON instead of a table.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def resume_command(
    checkpoint: Path, out: Path | None, report: Path | None, force: bool, as_json: bool, quiet: bool, **again: Any
) -> None:
    """Continue a run that was killed, interrupted, or lost when a machine went down.

    CHECKPOINT is the folder that was given to `tallbayes fit --checkpoint`. The draws are those of an unbroken run, bit
    for bit. Data that have changed since are refused. A run that is complete gives its result again.

    \b
    Examples:
      tallbayes resume run.tb --out fit.nc
      tallbayes resume run.tb --draws 20000 --out fit.nc --force
    """
    from tallbayes.fit import resume
    from tallbayes.sampling.checkpoint import read

    asked, _ = read(checkpoint)
    given = {name: value for name, value in again.items() if value is not None}
    data = given.get("data") or (asked["data"].value("data") if "data" in asked and asked["data"].packed else "")
    refuse(force, {"--out": out, "--report": report}, data, folders={"the checkpoint": checkpoint})
    if report is not None:
        check_page(report)
    with warnings_told():
        result = resume(checkpoint, progress=not quiet, **given)
    sys.exit(deliver(result, out, report, as_json))


@click.command("status")
@click.argument("checkpoint", type=FOLDER)
def status_command(checkpoint: Path) -> None:
    """Print how far a run is that has a checkpoint; it may be under way.

    \b
    Example:
      tallbayes status run.tb
    """
    from tallbayes.sampling.status import status

    for name, value in status(checkpoint).lines():
        click.echo(f"{name:<9} {value}")
