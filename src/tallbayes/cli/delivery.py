"""What commands do with a fit that they have made: write it, print it, and tell what to think of it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallbayes.cli.output import judge, tell
from tallbayes.cli.summary import to_json
from tallbayes.starting import INTERRUPTED

if TYPE_CHECKING:
    from tallbayes.results.fit import Fit


def deliver(result: Fit, out: Path | None, report: Path | None, as_json: bool) -> int:
    """Write and print a fit; returns the exit code."""
    if out is not None:
        result.save(out)  # before all else, which may be interrupted
    try:
        return _told(result, out, report, as_json)
    except KeyboardInterrupt:
        if out is None:
            raise
        tell(f"interrupted after the result was saved to {out}")
        return INTERRUPTED


def _told(result: Fit, out: Path | None, report: Path | None, as_json: bool) -> int:
    if report is not None:
        result.report(report)
    click.echo(to_json(result) if as_json else f"{result!r}\n")
    code, say = judge(result), tell if as_json else click.echo  # with JSON, stdout has nothing else
    checkpoint = None if result.origin is None else result.origin.checkpoint
    if code == INTERRUPTED and checkpoint is not None:
        tell(f"go on with: tallbayes resume {checkpoint}")
    if out is not None:
        say(f"saved to {out}; in Python: import tallbayes as tb; fit = tb.load({str(out)!r})")
    elif checkpoint is not None:
        say(f"kept in {checkpoint}; tallbayes resume {checkpoint} --out fit.nc saves the fit")
    else:
        say("not saved; add --out fit.nc to keep the draws")
    if report is not None:
        say(f"report: {report}")
    return code


@contextmanager
def warnings_told() -> Iterator[None]:
    """While it lasts, warnings of fits are told as a line each."""
    from tallbayes.models.cautions import SeparationWarning, TailWarning

    with warnings.catch_warnings():
        for kind in (SeparationWarning, TailWarning):
            warnings.simplefilter("always", kind)
        warnings.showwarning = lambda message, *rest, **more: tell(f"warning: {message}")
        yield
