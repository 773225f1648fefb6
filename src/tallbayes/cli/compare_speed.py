"""`tallbayes compare-speed`: how fast methods sample one model."""

from __future__ import annotations

from pathlib import Path

import click

from tallbayes.cli.choices import files, whole


@click.command("compare-speed")
@click.argument("fits", nargs=-1, required=True, metavar="[NAME=]FILE...", shell_complete=files)
@click.option("--by-parameter", is_flag=True, help="A line per parameter instead of a line per fit.")
@whole("--thin", 1, "With --by-parameter: look at every N-th draw only.  [default: 1]")
def compare_speed_command(fits: tuple[str, ...], by_parameter: bool, thin: int | None) -> None:
    """Compare the speed of saved fits of one model.

    That is their effective draws per minute. The table also says whether the fits agree.

    The first is the reference: the redpm columns are ratios to it, and so are the numbers by parameter.
    largest_z and largest_z_sd are the largest differences of a posterior mean and sd to the reference, in
    Monte Carlo standard errors. A fit is called by the name of its file unless you give it one.

    \b
    Examples:
      tallbayes compare-speed mh.nc fit.nc
      tallbayes compare-speed mh=runs/1/fit.nc two_stage=runs/2/fit.nc --by-parameter --thin 10
    """
    if thin is not None and not by_parameter:
        raise click.UsageError("--thin goes with --by-parameter; the table of fits thins by 1, 10 and 20")
    paths: dict[str, str] = {}
    for text in fits:
        name, equals, path = text.partition("=")
        if not equals or Path(text).exists():
            name, path = Path(text).stem, text
        if not name or not path:
            raise click.UsageError(f"{text!r} is not NAME=FILE or FILE; write a=fit.nc, or fit.nc alone")
        if name in paths:
            raise click.UsageError(f"two fits are called {name!r}; name them: a={paths[name]} b={path}")
        paths[name] = path

    from tallbayes.models.priors import rounded
    from tallbayes.results.compare import compare, compare_parameters
    from tallbayes.results.file import load

    loaded = {name: load(path) for name, path in paths.items()}
    table = compare_parameters(thin or 1, **loaded) if by_parameter else compare(**loaded)
    click.echo(table.to_string(float_format=rounded))


@click.command(
    "compare",
    hidden=True,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def compare_command() -> None:
    """The old name, which promised too much."""
    raise click.UsageError(
        "there is no command compare. `tallbayes compare-speed` compares how fast methods sampled one model. Comparing "
        "models is something else: it asks which formula predicts better, and tb.compare_models does that in Python."
    )
