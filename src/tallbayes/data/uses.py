"""How a formula uses columns: as categories, in comparisons, by their bits."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from tallbayes.data.syntax import tree

CATEGORICAL = ("C", "hashed")  # functions whose argument is a category
BITS = (ast.BitAnd, ast.BitOr, ast.BitXor)


def declared(sides: Iterable[Iterable[Any]]) -> set[str]:
    """Columns that are categories by what the sides of a formula say: all uses are in C(...), or beside a text.

    >>> from tallbayes.data.parsed import parse
    >>> parsed = parse("y ~ C(zip) + I(code == '17') + C(age) + age")
    >>> sorted(declared([parsed.right]))
    ['code', 'zip']
    """
    categories, others = set[str](), set[str]()
    for side in sides:
        others.update(
            str(factor.expr) for term in side for factor in term.factors if factor.eval_method.value == "lookup"
        )
        for node, names in _expressions(side):
            _sort(node, names, False, categories, others)
    return categories - others


def compared(sides: Iterable[Iterable[Any]]) -> list[tuple[str, Any]]:
    """Columns that the sides of a formula compare with a text or a number, and what they are compared with.

    >>> from tallbayes.data.parsed import parse
    >>> compared([parse("y ~ I(code == '17') + I(age > 18)").right])
    [('code', '17'), ('age', 18)]
    """
    found = []
    for node, names in (one for side in sides for one in _expressions(side)):
        for one in (one for one in ast.walk(node) if isinstance(one, ast.Compare) and len(one.comparators) == 1):
            for column, other in ((one.left, one.comparators[0]), (one.comparators[0], one.left)):
                if isinstance(other, ast.Constant) and isinstance(other.value, str | int | float):
                    found += [(name, other.value) for name in _named(column, names)]
    return found


def bitwise(side: Iterable[Any]) -> set[str]:
    """Columns whose bits one side of a formula joins: floating-point numbers have none that could be.

    >>> from tallbayes.data.parsed import parse
    >>> bitwise(parse("y ~ I(n & 1) + I((x > 0) & (z > 0))").right)
    {'n'}
    """
    found = set[str]()
    for node, names in _expressions(side):
        joined = [one for one in ast.walk(node) if isinstance(one, ast.BinOp) and isinstance(one.op, BITS)]
        waiting: list[ast.AST] = [part for one in joined for part in (one.left, one.right)]
        while waiting:
            one = waiting.pop()
            found.update(_named(one, names))
            waiting += [] if isinstance(one, ast.Compare) else ast.iter_child_nodes(one)
    return found


def _expressions(side: Iterable[Any]) -> Iterator[tuple[ast.AST, dict[str, str]]]:
    """What Python evaluates of a side, as trees, and the columns that their names stand for."""
    for factor in (factor for term in side for factor in term.factors):
        if factor.eval_method.value == "python":
            yield tree(factor.expr)


def _named(node: ast.AST, names: dict[str, str]) -> list[str]:
    """The column that an expression is, if it is one and nothing else."""
    match node:
        case ast.Name(id=name):
            return [names.get(name, name)]
        case ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=str(name))]):
            return [name]
    return []


def _sort(node: ast.AST, names: dict[str, str], category: bool, categories: set[str], others: set[str]) -> None:
    """Put the columns of an expression where they belong."""
    match node:
        case ast.Name(id=name):
            (categories if category else others).add(names.get(name, name))
        case ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=str(name))]):
            (categories if category else others).add(name)
        case ast.Call(func=ast.Name(id=function)):
            for part in (*node.args, *node.keywords):
                _sort(part, names, category or function in CATEGORICAL, categories, others)
        case ast.Compare(left=left, comparators=[right]):
            told = any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in (left, right))
            for part in (left, right):
                _sort(part, names, category or told, categories, others)
        case _:
            for part in ast.iter_child_nodes(node):
                _sort(part, names, category, categories, others)
