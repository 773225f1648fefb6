"""Expressions in a formula: each is read as Python and held to the closed list before anything of it is evaluated.

formulaic evaluates calls and what is in braces as Python with all built-in functions in reach, some of it while it
still parses. So every such expression is checked here before formulaic sees it. It may hold columns, numbers, text,
lists, arithmetic of numbers and columns, comparisons, and calls of the functions of `functions.py`; no attributes but
np.log and its kind, and no subscripts. Options of functions are constants. Numbers and sizes have the `limits`.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

from tallbayes.data import limits
from tallbayes.data.functions import (
    BEYOND,
    CALLABLE,
    CODED,
    COMPLETE,
    CONTRASTS,
    DATES,
    FLAGS,
    LISTED,
    NOT_BARE,
    NUMBERS,
    NUMPY,
    PLAIN,
    WITH_MEMORY,
    Arguments,
)
from tallbayes.data.syntax import tree
from tallbayes.data.uses import BITS

_COMPUTED: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.UAdd: operator.pos, ast.USub: operator.neg,
    ast.Invert: operator.invert,
}  # fmt: skip
_COMPARED = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_INSTEAD = (
    "write '&' for and, '|' for or, '~' for not, (0 < x) & (x < 1) for 0 < x < 1, (g == 'a') | (g == 'b') for "
    "g in ['a', 'b'], and where(test, x, z) for if"
)
_NUMBER = "write 1 * (x > 0) for a number"
_COLUMN = object()  # what an expression gives if that depends on the data
_TRUTH = object()  # or if it is true or false in each row
_COLLECTION = object()  # or if it is a list
_TEXTS = object()  # or if it is a column of texts


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
    if checked.value(node) is _TEXTS:
        raise ValueError(f"the term {expression} of the formula is text; for categories, write C({expression})")
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


def refuse_code(formula: str) -> None:
    """Refuse a formula that calls anything outside the list; no part of it has been evaluated by then."""
    from formulaic.parser.algos.sanitize_tokens import sanitize_tokens

    every = limits.tokens(formula)
    for token in every:
        if token.kind.value == "python":
            tree(token.token)  # in our words, where formulaic would not understand it
        elif token.kind.value == "name" and (token.token == "." or token.token.replace(".", "", 1).isdigit()):
            raise ValueError(  # formulaic would take the column for the intercept
                f"the formula {limits.shown(formula)} has `{token.token}`, which formulaic reads as {token.token}; "
                f"write Q('{token.token}') for that column, or rename it"
            )
    names = {token.token for token in every if token.kind is not None and token.kind.value == "name"}
    for token in sanitize_tokens(every):
        if token.kind is not None and token.kind.value == "python":
            check(token.token)
            if token.token in names:  # formulaic would take the two for one
                raise ValueError(
                    f"the formula has {token.token} as the name of a column, and as what is computed; rename the column"
                )


def _texts_in(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(node))


def _literal(node: ast.expr) -> Any:
    """What a constant is, None if it is none."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _all_different(node: ast.expr) -> bool:
    levels = _literal(node)
    return isinstance(levels, list | tuple) and 0 < len(levels) == len({repr(one) for one in levels})


def _is_matrix(node: ast.expr) -> bool:
    """Whether it is a list of lists of numbers, all of one length, or a dict of such lists."""
    rows = _literal(node)
    rows = list(rows.values()) if isinstance(rows, dict) else rows
    if not isinstance(rows, list | tuple) or not all(isinstance(row, list | tuple) and row for row in rows):
        return False
    return len({len(row) for row in rows}) == 1 and all(type(one) in (int, float) for row in rows for one in row)


class _Check:
    """Walks through an expression; whatever is not known here is refused."""

    def __init__(self, quoted: dict[str, str]) -> None:
        self.quoted = quoted
        self.columns: list[str] = []
        self.dates: list[str] = []
        self.functions: list[str] = []

    def value(self, node: ast.expr) -> Any:
        """What a piece gives: a constant, _COLUMN or _COLLECTION."""
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as constant):
                return self.constant(node, constant)
            case ast.Name(id=name) if name in self.quoted or not name.startswith("__"):
                self.columns.append(self.quoted.get(name, name))
                return _COLUMN
            case ast.Attribute(value=ast.Name(id="np"), attr=name) if name in NUMBERS:
                self.functions.append(f"np.{name}")
                return getattr(math, name)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _COMPUTED:
                return self.computed(node, op, [operand])
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _COMPUTED:
                return self.computed(node, op, [left, right])
            case ast.Compare(ops=[op], left=left, comparators=[right]) if isinstance(op, _COMPARED):
                self.all([left, right])
                return _TRUTH
            case ast.List(elts=entries) | ast.Tuple(elts=entries):
                return self.collection(node, entries)
            case ast.Dict(keys=keys, values=values) if None not in keys:
                return self.collection(node, [*(key for key in keys if key is not None), *values])
            case ast.Call():
                return self.call(node, CALLABLE)
            case ast.BoolOp() | ast.UnaryOp() | ast.Compare() | ast.IfExp():
                self.all(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
                self.refuse(f"has {self.shown(node)!r}, which does not work on columns; {_INSTEAD}")
            case _:
                self.refuse(
                    f"has {self.shown(node)!r}, but can hold only columns, numbers, text, lists, arithmetic, "
                    f"comparisons and calls of {LISTED}"
                )

    def all(self, nodes: Iterable[ast.expr]) -> list[Any]:
        return [self.value(node) for node in nodes]

    def constant(self, node: ast.expr, value: Any) -> Any:
        if isinstance(value, int) and abs(value) > limits.WHOLE:
            self.refuse(f"has {limits.LARGE} in {self.shown(node)!r}")
        if isinstance(value, complex):
            self.refuse(f"has {self.shown(node)!r}, which is not a real number")
        return value

    def collection(self, node: ast.expr, entries: list[ast.expr]) -> Any:
        if len(entries) > limits.ENTRIES:
            self.refuse(f"has a list of {len(entries):,} entries; it can have {limits.ENTRIES:,}")
        self.all(entries)
        return _COLLECTION

    def computed(self, node: ast.expr, op: ast.AST, operands: list[ast.expr]) -> Any:
        """Arithmetic; what is constant is computed here, in bounds, before Python does it."""
        given = self.all(operands)
        if any(one in (_COLLECTION, _TEXTS, None) or isinstance(one, str) for one in given):
            self.refuse(f"has {self.shown(node)!r}, but arithmetic is for numbers and columns")
        truths = [one is _TRUTH or isinstance(one, bool) for one in given]
        if _TRUTH in given and all(truths):
            return self.of_truths(node, op)
        if isinstance(op, ast.BitXor):
            self.refuse(f"has {self.shown(node)!r}, where '^' works on bits; write '**' for a power")
        if _COLUMN in given or _TRUTH in given:
            return _COLUMN
        if isinstance(op, ast.Pow) and given[0] and abs(given[1]) * abs(math.log2(abs(given[0]))) > 1024:
            self.refuse(f"has {self.shown(node)!r}, which is too large, or too small, for a number")
        try:
            return self.constant(node, _COMPUTED[type(op)](*given))
        except (ArithmeticError, TypeError) as error:
            self.refuse(f"has {self.shown(node)!r}, which cannot be computed ({error})")

    def of_truths(self, node: ast.expr, op: ast.AST) -> Any:
        """Arithmetic of comparisons; NumPy takes their sums for 'or', and their negatives for 'not'."""
        if isinstance(op, ast.Add | ast.Sub | ast.UAdd | ast.USub):
            self.refuse(f"has {self.shown(node)!r}, but a comparison is not a number; {_NUMBER}")
        return _TRUTH if isinstance(op, (ast.Mult, ast.Invert, *BITS)) else _COLUMN

    def call(self, node: ast.Call, known: dict[str, Arguments]) -> Any:
        name = self.shown(node.func)
        if name == "s":
            self.refuse("has s(...), which tb.fit takes; for tb.MARS, add up its variables, as in 'y ~ x + z'")
        if not isinstance(node.func, ast.Name | ast.Attribute) or name not in known or name in self.quoted:
            self.refuse(f"calls {name!r}, which is not among the functions it can call: {LISTED}")
        self.functions.append(name)
        most, names = known[name]
        if known is CALLABLE and name not in DATES and not node.args:
            self.refuse(f"has {self.shown(node)!r}, but {name} needs something to compute with, such as a column")
        given = [keyword.arg for keyword in node.keywords]
        if len(node.args) > most or any(one not in names for one in given):
            by_name = f" and, by name, {', '.join(names)}" if names else ", none by name"
            s = "" if most == 1 else "s"
            self.refuse(f"has {self.shown(node)!r}, but {name} takes at most {most} argument{s} by position{by_name}")
        if name in WITH_MEMORY:
            self.refuse_quotes(node)
        if name == "Q":
            return self.quoted_name(node)
        if name in DATES:
            return self.date(node)
        if name.removeprefix("np.") in NUMPY:
            return self.of_numpy(node, name)
        first, others = (node.args[:1], node.args[1:]) if known is CALLABLE else ([], node.args)
        found = self.all(first)
        options = [(names[place], one) for place, one in enumerate(others)]
        for option, argument in [*options, *((str(one.arg), one.value) for one in node.keywords)]:
            if name in CODED and option == "contrasts":
                self.contrasts(argument)
            else:
                self.option(name, option, argument)
        if name == "hashed" and "levels" not in [*names[: len(others)], *given]:
            self.refuse(f"has {self.shown(node)!r}, but hashed needs the number of levels, as in hashed(c, levels=50)")
        if name in CODED and found == [_TEXTS]:
            return _COLUMN
        if found == [_TRUTH]:
            return _TRUTH if name == "I" else _COLUMN
        return found[0] if found and name in PLAIN | WITH_MEMORY else _COLUMN

    def of_numpy(self, node: ast.Call, name: str) -> Any:
        """A function of NumPy, which makes numbers of Python's numbers, and nothing else."""
        if name.removeprefix("np.") in COMPLETE and len(node.args) < CALLABLE[name].most:
            self.refuse(f"has {self.shown(node)!r}, but {name} takes {CALLABLE[name].most} arguments")
        bounds = [_literal(one) for one in node.args[1:]] if name.endswith("clip") else []
        if len(bounds) == 2 and all(isinstance(one, int | float) for one in bounds) and bounds[0] > bounds[1]:
            self.refuse(f"has {self.shown(node)!r}, whose lower bound is above the upper one")
        texts, truths = False, []
        for place, argument in enumerate(node.args):
            if name.endswith("round") and place == 1:
                self.option(name, "decimals", argument)
                continue
            given = self.value(argument)
            if given is _TRUTH and not name.endswith(("where", "maximum", "minimum")):  # with few digits
                self.refuse(
                    f"has {self.shown(node)!r}, but {name} is for numbers, and a comparison is not one; {_NUMBER}"
                )
            if place or not name.endswith("where"):
                truths.append(given is _TRUTH)
            text = isinstance(given, str) or given is _TEXTS
            strange = text and (place == 0 or not name.endswith("where"))
            strange |= given is None and not name.endswith("clip")
            if strange or given is _COLLECTION:
                self.refuse(f"has {self.shown(node)!r}, but {name} is for numbers and columns")
            texts |= text
        for keyword in node.keywords:
            self.option(name, str(keyword.arg), keyword.value)
        return _TEXTS if texts else _TRUTH if truths and all(truths) else _COLUMN

    def option(self, function: str, name: str, node: ast.expr) -> None:
        """An argument that says how a function works: a constant, and none that is too large."""
        before = len(self.columns) + len(self.dates) + len(self.functions)
        given = self.value(node)
        if len(self.columns) + len(self.dates) + len(self.functions) > before:
            self.refuse(f"has {name}={self.shown(node)} in {function}(...), which must be a constant")
        bounds = limits.OPTIONS.get(function, {}).get(name)
        must = ""
        if bounds is not None and given is not None:
            if type(given) is not int or not bounds[0] <= given <= bounds[1]:
                must = f"a whole number from {bounds[0]} to {bounds[1]:,}"
        elif name in FLAGS and not isinstance(given, bool):
            must = "True or False"
        elif name == "extrapolation" and given not in BEYOND:
            must = f"one of {', '.join(BEYOND)}, in quotes"
        elif function == "C" and name == "levels" and not _all_different(node):
            must = "a list of different levels, as in ['a', 'b']"
        elif name in ("knots", "lower_bound", "upper_bound", "center", "rescale") and _texts_in(node):
            must = "numbers"
        elif name == "contrasts" and not _is_matrix(node) and not (given is None and function in CODED):
            named = "" if function == "contr.custom" else "contrasts such as contr.sum, or "
            must = f"{named}a list of rows of numbers, a row for each level, as in [[0, 0], [1, 0], [0, 1]]"
        if must:
            self.refuse(f"has {name}={self.shown(node)} in {function}(...), which must be {must}")

    def contrasts(self, node: ast.expr) -> None:
        """Where contrasts are expected, an argument may be one of them, with or without arguments of its own."""
        match node:
            case ast.Call(func=function) if self.shown(function) in CONTRASTS:
                if not (node.args or node.keywords):
                    self.without(self.shown(function), "contr.custom")
                self.call(node, CONTRASTS)
            case ast.Name() | ast.Attribute() if (name := self.shown(node)) in CONTRASTS:
                self.without(name, *NOT_BARE)
                self.functions.append(name)
            case _:
                self.option("C", "contrasts", node)

    def without(self, name: str, *needing: str) -> None:
        """Refuse contrasts without arguments that need some."""
        if name in needing:
            self.refuse(f"has the contrasts {name}, which need arguments, as in {NOT_BARE[name]}")

    def quoted_name(self, node: ast.Call) -> Any:
        match node.args:
            case [ast.Constant(value=str(name))]:
                self.columns.append(name)
                return _COLUMN
            case _:
                self.refuse(
                    f"has {self.shown(node)!r}, but Q takes the name of a column in quotes, as in Q('my column')"
                )

    def date(self, node: ast.Call) -> Any:
        match node.args:
            case [ast.Name(id=name)] if name in self.quoted or not name.startswith("__"):
                self.dates.append(self.quoted.get(name, name))
                return _COLUMN
            case _:
                self.refuse(
                    f"has {self.shown(node)!r}, but {self.shown(node.func)} takes the name of a column of dates"
                )

    def refuse_quotes(self, node: ast.Call) -> None:
        """formulaic puts such a call into quotes, and into code, without escaping what is in it."""
        for part in ast.walk(node):
            text = part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else ""
            if not text.isprintable() or set(text) & set("'\"\\"):
                self.refuse(
                    f"has the text {text!r} inside {self.shown(node.func)}(...), where text cannot have quotes or "
                    "backslashes; make a column of it first"
                )

    def shown(self, node: ast.expr) -> str:
        """A piece of the expression, as the user wrote it."""
        return re.sub(r"\b__quoted_\w*", lambda name: f"`{self.quoted.get(name[0], name[0])}`", ast.unparse(node))

    def refuse(self, what: str) -> NoReturn:
        raise ValueError(f"the formula {what}")
