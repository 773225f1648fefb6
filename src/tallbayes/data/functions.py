"""What a formula can call: a closed list, so that a formula from a file or a command line cannot run code.

formulaic evaluates calls and what is in braces as Python with all built-in functions in reach, some of it while it
still parses. So every such expression is checked here before formulaic sees it. It may hold columns, numbers, text,
lists, arithmetic, comparisons, and calls of the functions below with the arguments that are listed: NumPy's `out`, for
example, could write into the user's data. What it computes may still be large, as in bs(x, df=1_000_000).
"""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tallbayes.data import dates


class Arguments(NamedTuple):
    """What a function takes: so many arguments by position, and these by name."""

    most: int
    names: tuple[str, ...] = ()


_CUBIC = Arguments(6, ("df", "knots", "lower_bound", "upper_bound", "constraints", "extrapolation"))

# Of formulaic. Those with a memory learn something from the data, such as a mean, and apply it to new rows; Q has none.
WITH_MEMORY = {
    "bs": Arguments(8, ("df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound", "extrapolation")),
    "cc": _CUBIC,
    "center": Arguments(1),
    "cr": _CUBIC,
    "cs": _CUBIC,
    "poly": Arguments(3, ("degree", "raw")),
    "Q": Arguments(1),
    "scale": Arguments(4, ("center", "scale", "ddof")),
    "standardize": Arguments(4, ("center", "rescale", "ddof")),
}
PLAIN = {
    "C": Arguments(2, ("contrasts", "levels", "spans_intercept")),
    "hashed": Arguments(3, ("levels", "contrasts", "spans_intercept")),
    "I": Arguments(1),
}
CODED = {"C": 1, "hashed": 2}  # functions that take contrasts, and at which position
CONTRASTS = {
    "contr.custom": Arguments(2, ("contrasts", "names")),
    "contr.diff": Arguments(1, ("backward",)),
    "contr.helmert": Arguments(2, ("reverse", "scale")),
    "contr.poly": Arguments(1, ("scores",)),
    "contr.SAS": Arguments(1, ("base",)),
    "contr.sum": Arguments(0),
    "contr.treatment": Arguments(1, ("base",)),
    "Diff": Arguments(1, ("backward",)),
    "Helmert": Arguments(2, ("reverse", "scale")),
    "Poly": Arguments(1, ("scores",)),
    "Sum": Arguments(0),
    "Treatment": Arguments(1, ("reference",)),
}
# Of NumPy: as log(x) or np.log(x).
_ELEMENTARY = (
    "abs", "arccos", "arcsin", "arcsinh", "arctan", "cbrt", "ceil", "cos", "cosh", "exp", "exp2", "expm1", "floor",
    "log", "log10", "log1p", "log2", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh",
)  # fmt: skip
NUMPY = {
    **dict.fromkeys(_ELEMENTARY, Arguments(1)),
    "clip": Arguments(3),
    "maximum": Arguments(2),
    "minimum": Arguments(2),
    "round": Arguments(2, ("decimals",)),
    "where": Arguments(3),
}
NUMBERS = ("e", "pi")  # np.e and np.pi
DATES = dict.fromkeys(dates.PARTS, Arguments(1))  # of a column of dates
CALLABLE = WITH_MEMORY | PLAIN | NUMPY | DATES | {f"np.{name}": takes for name, takes in NUMPY.items()}

_LISTED = (
    f"{', '.join(sorted([*WITH_MEMORY, *PLAIN, *NUMPY, *DATES], key=str.lower))} (those of NumPy also as np.log), "
    f"np.pi, np.e, and as contrasts of C: {', '.join(CONTRASTS)}"
)
_OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr, ast.BitXor,
    ast.UAdd, ast.USub, ast.Invert, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE,
)  # fmt: skip
_INSTEAD = (
    "write '&' for and, '|' for or, '~' for not, (0 < x) & (x < 1) for 0 < x < 1, (g == 'a') | (g == 'b') for "
    "g in ['a', 'b'], and where(test, x, z) for if"
)


class Used(NamedTuple):
    """The data columns that an expression needs, in the order they are written, and the functions that it calls.

    `dates` are those of the columns that are used only as month(x) and its kind use them.
    """

    columns: tuple[str, ...]
    functions: tuple[str, ...]
    dates: tuple[str, ...] = ()

    @classmethod
    def joined(cls, parts: Iterable[Used]) -> Used:
        """What several expressions use together."""
        columns: dict[str, None] = {}
        functions: dict[str, None] = {}
        numbers: set[str] = set()
        for part in parts:
            columns |= dict.fromkeys(part.columns)
            functions |= dict.fromkeys(part.functions)
            numbers |= set(part.columns) - set(part.dates)
        return cls(tuple(columns), tuple(functions), tuple(name for name in columns if name not in numbers))


def check(expression: str) -> Used:
    """Refuse an expression that could do anything but compute a column; tell what it uses.

    >>> check("scale(log(`my income`), ddof=0)")
    Used(columns=('my income',), functions=('scale', 'log'), dates=())
    >>> check("__import__('os').system('ls')")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: the formula calls "__import__('os').system", which is not among the functions it can call: abs, ...
    """
    node, quoted = tree(expression)
    checked = _Check(quoted)
    checked.expression(node)
    columns = dict.fromkeys([*checked.columns, *checked.dates])
    only = tuple(name for name in columns if name not in checked.columns)
    return Used(tuple(columns), tuple(dict.fromkeys(checked.functions)), only)


def arguments(expression: str, names: Iterable[str]) -> tuple[str, list[str]] | None:
    """The function and its arguments, if an expression is nothing but a call of one of these; they are not checked.

    >>> arguments("cbind(`not paid`, log(x))", ["p", "cbind"])
    ('cbind', ['`not paid`', 'log(x)'])
    """
    node, quoted = tree(expression)
    match node:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in names:
            return name, [_Check(quoted).shown(one) for one in args]
    return None


def tree(expression: str) -> tuple[ast.expr, dict[str, str]]:
    """An expression as Python sees it, and names in backticks, by the plain name that stands for them; not checked."""
    from formulaic.utils.code import sanitize_variable_names

    quoted: dict[str, str] = {}
    plain = sanitize_variable_names(expression, {}, quoted, template="__quoted_{}")
    return ast.parse(plain.strip(), mode="eval").body, quoted


def refuse_code(formula: str) -> None:
    """Refuse a formula that calls anything outside the list; no part of it has been evaluated by then."""
    from formulaic.parser.algos.sanitize_tokens import sanitize_tokens
    from formulaic.parser.algos.tokenize import tokenize

    for token in sanitize_tokens(tokenize(formula)):
        if token.kind is not None and token.kind.value == "python":
            check(token.token)


def context() -> dict[str, Any]:
    """What formulaic gets to see besides the data and its own transforms: NumPy is no more than the list."""
    functions = {name: getattr(np, name) for name in NUMPY}
    return (
        functions
        | dates.on_columns()
        | {"np": types.SimpleNamespace(**functions, **{name: getattr(np, name) for name in NUMBERS})}
    )


def refuse_shadowed(functions: Iterable[str], columns: Iterable[str]) -> None:
    """Refuse columns with the name of a function that is called: formulaic would call the column.

    >>> refuse_shadowed(["log", "np.exp"], ["x", "log"])
    Traceback (most recent call last):
    ValueError: column 'log' has the name of a function that the formula calls; rename the column
    """
    if shadowed := {name.split(".")[0] for name in functions}.intersection(columns):
        raise ValueError(
            f"column {min(shadowed)!r} has the name of a function that the formula calls; rename the column"
        )


class _Check:
    """Walks through an expression; whatever is not known here is refused."""

    def __init__(self, quoted: dict[str, str]) -> None:
        self.quoted = quoted
        self.columns: list[str] = []
        self.dates: list[str] = []
        self.functions: list[str] = []

    def expression(self, node: ast.expr) -> None:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None):
                pass
            case ast.Name(id=name) if name in self.quoted or not name.startswith("__"):
                self.columns.append(self.quoted.get(name, name))
            case ast.Attribute(value=ast.Name(id="np"), attr=name) if name in NUMBERS:
                self.functions.append(f"np.{name}")
            case ast.UnaryOp(op=operator, operand=operand) if isinstance(operator, _OPERATORS):
                self.expression(operand)
            case ast.BinOp(op=operator, left=left, right=right) if isinstance(operator, _OPERATORS):
                self.all([left, right])
            case ast.Compare(ops=[operator], left=left, comparators=[right]) if isinstance(operator, _OPERATORS):
                self.all([left, right])
            case ast.List(elts=entries) | ast.Tuple(elts=entries):
                self.all(entries)
            case ast.Dict(keys=keys, values=values) if None not in keys:
                self.all([*(key for key in keys if key is not None), *values])
            case ast.Call():
                self.call(node, CALLABLE)
            case ast.BoolOp() | ast.UnaryOp() | ast.Compare() | ast.IfExp():
                self.all(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
                self.refuse(f"has {self.shown(node)!r}, which does not work on columns; {_INSTEAD}")
            case _:
                self.refuse(
                    f"has {self.shown(node)!r}, but can hold only columns, numbers, text, lists, arithmetic, "
                    f"comparisons and calls of {_LISTED}"
                )

    def all(self, nodes: Iterable[ast.expr]) -> None:
        for node in nodes:
            self.expression(node)

    def call(self, node: ast.Call, known: dict[str, Arguments]) -> None:
        name = self.shown(node.func)
        if not isinstance(node.func, ast.Name | ast.Attribute) or name not in known or name in self.quoted:
            self.refuse(f"calls {name!r}, which is not among the functions it can call: {_LISTED}")
        self.functions.append(name)
        most, names = known[name]
        given = [keyword.arg for keyword in node.keywords]
        if len(node.args) > most or any(one not in names for one in given):
            by_name = f" and, by name, {', '.join(names)}" if names else ", none by name"
            s = "" if most == 1 else "s"
            self.refuse(f"has {self.shown(node)!r}, but {name} takes at most {most} argument{s} by position{by_name}")
        if name in WITH_MEMORY:
            self.refuse_quotes(node)
        if name == "Q":
            self.quoted_name(node)
            return
        if name in DATES:
            self.date(node)
            return
        for place, argument in enumerate(node.args):
            self.argument(argument, CODED.get(name) == place)
        for keyword in node.keywords:
            self.argument(keyword.value, keyword.arg == "contrasts" and name in CODED)

    def argument(self, node: ast.expr, contrasts: bool) -> None:
        """An argument; where contrasts are expected, it may be one of them, with or without arguments of its own."""
        match node:
            case ast.Call(func=function) if contrasts and self.shown(function) in CONTRASTS:
                self.call(node, CONTRASTS)
            case ast.Name() | ast.Attribute() if contrasts and (name := self.shown(node)) in CONTRASTS:
                self.functions.append(name)
            case _:
                self.expression(node)

    def quoted_name(self, node: ast.Call) -> None:
        match node.args:
            case [ast.Constant(value=str(name))]:
                self.columns.append(name)
            case _:
                self.refuse(
                    f"has {self.shown(node)!r}, but Q takes the name of a column in quotes, as in Q('my column')"
                )

    def date(self, node: ast.Call) -> None:
        match node.args:
            case [ast.Name(id=name)] if name in self.quoted or not name.startswith("__"):
                self.dates.append(self.quoted.get(name, name))
            case _:
                self.refuse(
                    f"has {self.shown(node)!r}, but {self.shown(node.func)} takes the name of a column of dates"
                )

    def refuse_quotes(self, node: ast.Call) -> None:
        """formulaic puts such a call into quotes, and into code, without escaping what is in it."""
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and set(part.value) & set("'\"\\\n\r"):
                self.refuse(
                    f"has the text {part.value!r} inside {self.shown(node.func)}(...), where text cannot have quotes "
                    "or backslashes; make a column of it first"
                )

    def shown(self, node: ast.expr) -> str:
        """A piece of the expression, as the user wrote it."""
        return re.sub(r"\b__quoted_\w*", lambda name: f"`{self.quoted.get(name[0], name[0])}`", ast.unparse(node))

    def refuse(self, what: str) -> NoReturn:
        raise ValueError(f"the formula {what}")
