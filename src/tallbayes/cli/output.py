"""What commands tell and write: exit codes, messages, and files that may not be written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tallbayes.results.fit import Fit

BAD_DATA, NOT_CONVERGED, INTERRUPTED = 1, 3, 130


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
