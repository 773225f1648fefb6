"""Makes the reference page of the command line from what `--help` prints."""

from collections.abc import Iterator

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from tallbayes.cli import main

PLACE = "reference/command-line.md"
INTRODUCTION = """# The command line

What `--help` prints for each command. [How to use them](../how-to/command-line.md) has examples that run one after the
other.

"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page to those that are there."""
    files.append(File.generated(config, PLACE, content=INTRODUCTION + "\n".join(sections())))
    return files


def sections() -> Iterator[str]:
    """A section for each command that is not hidden.

    >>> next(sections()).splitlines()[0]
    '## tallbayes compare-speed'
    """
    for name, command in sorted(main.commands.items()):
        if not command.hidden:
            title = f"tallbayes {name}"
            with click.Context(command, info_name=title, terminal_width=80) as context:
                yield f"## {title}\n\n```text\n{command.get_help(context)}\n```\n"
