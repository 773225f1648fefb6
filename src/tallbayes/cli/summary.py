"""`tallbayes summary`: a saved fit as a table, or as JSON for other programs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tallbayes.cli.choices import OUT

if TYPE_CHECKING:
    from tallbayes.results.fit import Fit

STATS = (
    "method", "why", "exact", "stopped", "interrupted", "told", "rows", "distinct_rows", "rows_per_draw",
    "surrogate_rows_per_draw", "acceptance", "seconds", "seed", "warnings",
)  # fmt: skip


@click.command("summary")
@click.argument("fit", type=OUT)
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON for other programs; numbers that are not finite are null."
)
def summary_command(fit: Path, as_json: bool) -> None:
    """Print a saved fit.

    That is how the run went, whether to trust it, and the posterior of each parameter.

    \b
    Examples:
      tallbayes summary fit.nc
      tallbayes summary fit.nc --json | jq .parameters.fico.mean
    """
    from tallbayes.results.file import load

    found = load(fit)
    click.echo(to_json(found) if as_json else repr(found))


def to_json(fit: Fit) -> str:
    """The summary, and how the run went.

    >>> from tallbayes.results.example import example
    >>> found = json.loads(to_json(example()))
    >>> found["formula"], found["converged"], round(found["parameters"]["fico"]["mean"], 1)
    ('y ~ fico', True, 0.5)
    """
    from tallbayes import families

    sizes = fit.posterior.sizes
    known = {
        "formula": None if fit.formula is None else fit.formula.text,
        "family": families.to_json(fit.family),
        "prior": fit.prior,
        "converged": fit.converged,
        "problems": fit.problems(),
        "chains": sizes["chain"],
        "draws": sizes["draw"],
        **{name: fit.stats.get(name) for name in STATS},
        "parameters": fit.summary().to_dict("index"),
    }
    return json.dumps(_plain(known), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    """What JSON can hold: NumPy's numbers as Python's, and those that are not finite as None."""
    if isinstance(value, dict):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
