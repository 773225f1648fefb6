"""A command with many options: its help has them under headings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click


class WithHeadings(click.Command):
    """A command whose help shows options (by the names of their values) under headings, and others first."""

    def __init__(self, *args: Any, headings: Mapping[str, Sequence[str]], **rest: Any) -> None:
        super().__init__(*args, **rest)
        self.headings = headings

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of options."""
        place = {name: heading for heading, names in self.headings.items() for name in names}
        sections: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Options", *self.headings)}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                sections[place.get(param.name or "", "Options")].append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)
