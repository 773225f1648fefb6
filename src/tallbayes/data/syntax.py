"""An expression of a formula as Python reads it; what Python would read otherwise than it is written is refused."""

from __future__ import annotations

import ast
import sys
import unicodedata
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from keyword import iskeyword
from typing import Any

from tallbayes.data import limits
from tallbayes.data.alone import ALONE

# Early versions of Python 3.11 and 3.12 count wrongly where several threads read expressions at once, and raise
# SystemError for it (gh-106905). Who reads them there, by way of formulaic too, does it alone.
SOUND = sys.version_info >= (3, 12, 2) or (3, 11, 8) <= sys.version_info < (3, 12)
READING: AbstractContextManager[Any] = nullcontext() if SOUND else ALONE


def tree(expression: str) -> tuple[ast.expr, dict[str, str]]:
    """An expression as Python sees it, and names in backticks, by the plain name that stands for them; not checked."""
    from formulaic.utils.code import sanitize_variable_names

    quoted: dict[str, str] = {}
    plain = sanitize_variable_names(expression, {}, quoted, template="__quoted_{}").strip()
    node = read(plain, expression)
    if any(type(one) is ast.Constant and type(one.value) is int and one.value > limits.WHOLE for one in ast.walk(node)):
        raise ValueError(f"the formula has {limits.LARGE} in {limits.shown(expression)}")
    _refuse_other_names(plain, node, quoted.values())
    return node, quoted


def read(
    plain: str, expression: str, where: str = "the formula", instead: str = "make a column of it first"
) -> ast.expr:
    """What Python makes of an expression whose names it can read; `expression` is that as it was written.

    >>> ast.unparse(read("a+ 1", "`a`+ 1"))
    'a + 1'
    """
    try:
        with READING:
            node = ast.parse(plain, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error) or "it is nested too deeply"
        raise ValueError(f"cannot understand {limits.shown(expression)} in {where}: {why}") from error
    _refuse_deep(expression, node, where, instead)
    return node


def _refuse_deep(expression: str, root: ast.expr, where: str, instead: str) -> None:
    level: list[ast.AST] = [root]
    for _ in range(limits.DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise ValueError(
        f"{where} has more than {limits.DEPTH} operations inside each other in {limits.shown(expression)}; {instead}"
    )


def _refuse_other_names(plain: str, root: ast.expr, quoted: Iterable[str]) -> None:
    """Refuse names that Python reads otherwise: keywords, and letters that it takes for others, such as ｘ for x."""
    for name in quoted:
        if iskeyword(name):
            raise ValueError(
                f"the name of column {name!r} has a meaning of its own in an expression; rename the column"
            )
    every = [] if plain.isascii() else list(ast.walk(root))
    called = {id(node.func) for node in every if isinstance(node, ast.Call)}  # which are on the list, or refused
    names = [node for node in every if isinstance(node, ast.Name) and id(node) not in called]
    lines = plain.encode().splitlines()
    written = {*quoted}
    for node in names:
        if node.lineno == node.end_lineno and node.end_col_offset is not None:
            written.add(lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode())
    for name in written:
        if name.isidentifier() and not name.isascii() and unicodedata.normalize("NFKC", name) != name:
            other = unicodedata.normalize("NFKC", name)
            raise ValueError(f"Python reads the name {name!r} as {other!r} in an expression; rename the column")
