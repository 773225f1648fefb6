"""How examples and docstrings become pages: a hook of mkdocs, and an extension of griffe, which reads the sources.

Examples in pages and docstrings are doctests. Shown as consoles, their prompts and outputs can be told from the code.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

DOCTEST = re.compile(r"(?m)^>>> .*(?:\n(?!\s*$).+)*")  # up to the next blank line
PARAMETERS = re.compile(r"(?m)^Parameters\n-+\n((?:(?!\s*$).+\n?)+)")
ENTRY = re.compile(r"(?m)^(\w+): ")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """What mkdocs calls for each page.

    >>> on_page_markdown("```python\\n>>> 1 + 1\\n2\\n```")
    '```pycon\\n>>> 1 + 1\\n2\\n```'
    """
    return markdown.replace("```python\n>>> ", "```pycon\n>>> ")


def as_markdown(docstring: str) -> str:
    """A docstring with its parameters as a list and its examples as code.

    >>> print(as_markdown("Add.\\n\\nParameters\\n----------\\na: one\\n    number\\nb: another"))
    Add.
    <BLANKLINE>
    - `a`: one
        number
    - `b`: another
    """
    listed = PARAMETERS.sub(lambda found: ENTRY.sub(r"- `\1`: ", found[1]), docstring)
    return DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", listed)


class Examples(Extension):
    """Applies `as_markdown` to all docstrings."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """What griffe calls for each object that it has read."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
