"""`tallbayes reproduce`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tallbayes.cli.choices import EXPERIMENTS, OUT
from tallbayes.cli.output import tell
from tallbayes.starting import INTERRUPTED


@click.command("reproduce")
@click.argument("experiments", nargs=-1, required=True, type=click.Choice([*EXPERIMENTS, "all"]))
@click.option("--out", type=OUT, default=Path("reproduction"), show_default=True, metavar="FOLDER", help="Where to.")
@click.option("--full", is_flag=True, help="The paper's 100,000 iterations, which take hours.")
@click.option("--data", type=OUT, metavar="FOLDER", help="With the bank's CSV, or Freddie Mac's text files.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def reproduce_command(experiments: tuple[str, ...], out: Path, full: bool, data: Path | None, quiet: bool) -> None:
    """Run the experiments of Payne and Mallick.

    Figures of their paper stand beside ours. The folder gets one page (index.html), tables as CSV and figures as
    SVG. An experiment takes up to ten minutes on two cores. The bank's data are downloaded once unless --data or
    TALLBAYES_DATA say where they are; Freddie Mac's loans are simulated unless --data has them. Ctrl-C ends the run:
    the page says what was cut short, and has what was complete.

    \b
    Examples:
      tallbayes reproduce bank
      tallbayes reproduce all --out paper
      tallbayes reproduce loans hierarchical --data freddie_mac --full
    """
    from tallbayes.paper import reproduce
    from tallbayes.paper.experiment import CutShort

    names = EXPERIMENTS if "all" in experiments else tuple(dict.fromkeys(experiments))
    try:
        found = reproduce(names, out, full=full, data=data, tell=None if quiet else tell)
    except CutShort as cut:
        tell(f"interrupted: {cut}")
        click.echo(f"page: {out / 'index.html'}")
        sys.exit(INTERRUPTED)
    click.echo(f"page: {found}")
