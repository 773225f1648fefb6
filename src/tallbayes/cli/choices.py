"""Names to choose from, and options that several commands have.

Names are repeated from methods.py, datasets.py and paper, which take too long to import for a help text; a test
compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from tallbayes.data.options import check_path

Command = TypeVar("Command", bound=Callable[..., Any])

METHODS = ("auto", "thinned", "two-stage", "mh", "consensus", "subsampling")
INNER = ("auto", "thinned", "two-stage", "mh")
SHARDINGS = ("random", "stratified", "groups")
COMBINERS = ("average", "gaussian")
PROPOSALS = ("one-at-a-time", "random-walk", "independence", "mixture")
LOAN_ROWS = 2_297_813
DECIMALS = (".", ",")
REFUSE_OR_DROP = click.Choice(("refuse", "drop"))
EXPERIMENTS = ("bank", "loans", "hierarchical", "mars")


def whole(name: str, least: int, help: str, default: int | None = None) -> Callable[[Command], Command]:
    """An option that is a whole number."""
    kind = click.IntRange(min=least)
    return click.option(name, type=kind, default=default, show_default=True, metavar="N", help=help)


def files(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Lets the shell complete names of files where an argument may also be a pattern."""
    return [CompletionItem(typed, type="file")]


class PathHere(click.Path):
    """A path on this machine, with the home folder for a '~'."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """See click."""
        try:
            return Path(check_path("it", value, "the path of a file"))
        except ValueError as error:
            self.fail(str(error), param, ctx)


OUT = PathHere()
FORCE = click.option("--force", is_flag=True, help="Replace the output file if it exists.")
