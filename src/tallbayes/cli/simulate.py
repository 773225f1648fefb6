"""`tallbayes simulate`."""

from __future__ import annotations

from pathlib import Path

import click

from tallbayes.cli.choices import FORCE, LOAN_ROWS, OUT, whole
from tallbayes.cli.output import check_table, refuse


@click.command("simulate")
@click.argument("dataset", type=click.Choice(["loans"]))
@whole("--rows", 1, "How many.", default=LOAN_ROWS)
@whole("--seed", 0, "The same seed gives the same rows.", default=0)
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
    check_table(out)
    refuse(force, {"--out": out})

    from tallbayes.data.datasets import simulate_loans
    from tallbayes.results.file import replacing

    loans = simulate_loans(rows, seed)
    with replacing(out) as partial:
        (loans.to_csv if out.suffix.lower() == ".csv" else loans.to_parquet)(partial, index=False)
    click.echo(f"{rows:,} rows, {loans['foreclosed'].sum():,} of them ones (foreclosed), saved to {out}")
