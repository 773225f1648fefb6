"""`tallbayes report`."""

from __future__ import annotations

from pathlib import Path

import click

from tallbayes.cli.choices import FORCE, OUT
from tallbayes.cli.output import check_page, refuse


@click.command("report")
@click.argument("fit", type=OUT)
@click.argument("out", type=OUT)
@FORCE
def report_command(fit: Path, out: Path, force: bool) -> None:
    """Write a page about a saved fit.

    It says what was fitted, whether to trust it, and what came out. The page (HTML)
    needs nothing else, and can be mailed, printed and read on a phone.

    \b
    Example:
      tallbayes report fit.nc fit.html
    """
    refuse(force, {"OUT": out}, fit)
    check_page(out)

    from tallbayes.results.file import load

    load(fit).report(out)
    click.echo(f"report: {out}")
