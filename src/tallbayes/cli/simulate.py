"""`tallbayes simulate`: one file, or a folder of them that is written piece by piece, so that memory sets no limit."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from tallbayes.cli.choices import FORCE, LOAN_ROWS, whole
from tallbayes.cli.output import refuse

PART = "part-{:05d}.parquet"
PARTS = re.compile(r"part-\d{5,}\.parquet")
OUT_HELP = "A name in .parquet or .csv, or a folder for many rows: no ending, or / at the end."


@click.command("simulate")
@click.argument("dataset", type=click.Choice(["loans"]))
@whole("--rows", 1, "How many.", default=LOAN_ROWS)
@whole("--seed", 0, "The same seed gives the same rows.", default=0)
@click.option("--out", type=click.Path(), metavar="FILE", required=True, help=OUT_HELP)
@FORCE
@click.option("--quiet", is_flag=True, help="Show no progress.")
def simulate_command(dataset: str, rows: int, seed: int, out: str, force: bool, quiet: bool) -> None:
    """Simulate a tall data set to try things with.

    "loans" is like the loans that Freddie Mac bought in 2009 and 2010: foreclosed (0 or 1, where 16 in 10,000
    are 1) with first_payment, fico, dti, upb, first_time and bank. A folder gets Parquet files of a million rows
    each, which are made one after the other: there may be more rows than memory holds. Its first million rows are those
    of a file of a million.

    \b
    Examples:
      tallbayes simulate loans --rows 200000 --seed 1 --out loans.parquet
      tallbayes simulate loans --rows 100000000 --seed 1 --out loans/
    """
    path = Path(out)
    if out.endswith(("/", os.sep)) or not path.suffix:
        _refuse_folder(path, force)
        ones, files = _write_folder(path, rows, seed, not quiet)
        click.echo(f"{rows:,} rows, {ones:,} of them ones (foreclosed), saved to {path} ({files:,} files)")
        return
    if path.suffix.lower() not in (".parquet", ".csv"):
        raise click.BadParameter(f"{out!r} must end in .parquet or .csv, or in / for a folder", param_hint="--out")
    refuse(force, {"--out": path})
    ones = _write_file(path, rows, seed)
    click.echo(f"{rows:,} rows, {ones:,} of them ones (foreclosed), saved to {path}")


def _write_file(path: Path, rows: int, seed: int) -> int:
    """How many ones it has."""
    from tallbayes.data.datasets import simulate_loans
    from tallbayes.data.writing import replacing

    loans = simulate_loans(rows, seed)
    with replacing(path) as partial:
        (loans.to_csv if path.suffix.lower() == ".csv" else loans.to_parquet)(partial, index=False)
    return int(loans["foreclosed"].sum())


def _write_folder(path: Path, rows: int, seed: int, progress: bool) -> tuple[int, int]:
    """How many ones, and how many files."""
    from tallbayes.data.datasets import simulate_loans_in_pieces
    from tallbayes.data.progress import passing, showing
    from tallbayes.data.writing import replacing_folder

    ones = files = 0
    with showing(progress), passing("simulating", rows) as done, replacing_folder(path) as partial:
        for loans in simulate_loans_in_pieces(rows, seed):
            loans.to_parquet(partial / PART.format(files), index=False)
            ones, files = ones + int(loans["foreclosed"].sum()), files + 1
            done(len(loans))
    return ones, files


def _refuse_folder(path: Path, force: bool) -> None:
    """Raise an error if no folder can be written, or if it would replace what no command wrote, also with --force."""
    from tallbayes.data.writing import check_folder

    check_folder(path)
    held = sorted(file.name for file in path.iterdir()) if path.is_dir() else []
    if others := [name for name in held if not PARTS.fullmatch(name)]:
        raise FileExistsError(f"the folder '{path}' holds {others[0]!r}, which would be deleted; choose another name")
    if held and not force:
        raise FileExistsError(f"'{path}' holds {held[0]!r} already; choose another name, or --force to replace it")
