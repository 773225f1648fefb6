"""What commands tell and write: exit codes, messages, and files that may not be written."""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallbayes.starting import INTERRUPTED

if TYPE_CHECKING:
    from tallbayes.results.fit import Fit

OPTION = re.compile(r"""\b(missing|collinear|outcome|decimal|na_values)=(?:"([^"]*)"|'([^']*)'|([\w.+-]+))""")
BAD_DATA, NOT_CONVERGED = 1, 3


def tell(message: str) -> None:
    """Say something that is no result; if nobody can hear it, nothing is lost."""
    with suppress(OSError):
        click.echo(message, err=True)


def as_typed(message: str) -> str:
    """A message of the library, with its options as they are typed on the command line.

    >>> as_typed('leave such rows out with missing="drop"; say outcome=2')
    'leave such rows out with --missing drop; say --outcome 2'
    >>> as_typed('say na_values="?"')
    "say --na-values '?'"
    """

    def typed(found: re.Match[str]) -> str:
        return f"--{found[1].replace('_', '-')} {shlex.quote(found[2] or found[3] or found[4] or '')}"

    return OPTION.sub(typed, message)


def refuse(
    force: bool, outputs: Mapping[str, Path | None], *inputs: str | Path, folders: Mapping[str, str | Path | None] = {}
) -> None:
    """Raise an error if nothing can, or should, be written to the outputs, which are given by their names.

    What is read is never replaced, and no output by another, also with force; nor is anything written into `folders`
    that have files of their own.
    """
    from tallbayes.data.writing import check_writable, is_open_as

    for file in (file for source in inputs for file in _files(source)):
        if is_open_as(1, file) and os.path.isfile(file):
            raise click.UsageError(f"the standard output is '{file}', which is also read; send the output elsewhere")
    given = {name: path for name, path in outputs.items() if path is not None}
    for name in (name for name, path in {**given, **folders}.items() if str(path) == "-"):
        raise click.UsageError(f"{name} '-' would be a file of that name, not the standard output; give it a name")
    for (name, path), (other, second) in combinations(given.items(), 2):
        if _same(path, second):
            raise click.UsageError(f"{name} and {other} are the same file, '{path}'; give each a name of its own")
    for name, path in given.items():
        if path.exists() and any(_same(path, file) for source in inputs for file in _files(source)):
            raise click.UsageError(f"{name} '{path}' is a file that is read, and would be lost; choose another name")
        for what, folder in folders.items():
            if folder is not None and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
                raise click.UsageError(
                    f"{name} '{path}' lies in the folder of {what}, '{folder}'; choose another place"
                )
    for path in given.values():
        check_writable(path)
        if path.exists() and not force:
            raise FileExistsError(f"'{path}' exists already; choose another name, or --force to replace it")


def _files(source: str | Path) -> Iterator[str]:
    """The files that a name, a pattern or a folder stands for."""
    path = os.path.expanduser(str(source).removeprefix("file://"))
    for found in [path] if os.path.exists(path) else glob.glob(path, recursive=True):
        if os.path.isdir(found):
            yield from (os.path.join(at, name) for at, _, names in os.walk(found, followlinks=True) for name in names)
        else:
            yield found


def _same(one: str | Path, other: str | Path) -> bool:
    """Whether both name one file, which need not be there yet."""
    try:
        return os.path.samefile(one, other)
    except OSError:  # some systems do not tell a from A
        return os.path.realpath(one).casefold() == os.path.realpath(other).casefold()


def check_page(path: Path) -> None:
    """Refuse a report that is no page."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise click.BadParameter(f"{str(path)!r} must end in .html: a report is a web page")


def check_table(path: Path) -> None:
    """Refuse a table that is neither Parquet nor CSV."""
    if path.suffix.lower() not in (".parquet", ".csv"):
        raise click.BadParameter(f"{str(path)!r} must end in .parquet or .csv", param_hint="--out")


def judge(fit: Fit) -> int:
    """The exit code, after telling why it is not 0."""
    problems = fit._problems()
    for note in fit.stats["pulled"]:
        tell(f"warning: {note}")
    for problem in problems:
        tell(f"not {'converged' if fit.stats['exact'] else 'mixed'}: {problem}")
    if fit.stats["interrupted"]:
        tell(f"interrupted: the result rests on {fit.posterior.sizes['draw']:,} draws a chain")
        return INTERRUPTED
    return NOT_CONVERGED if problems else 0
