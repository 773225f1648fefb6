"""Arithmetic and comparisons of parameters, as in `race[T.b] - race[T.c] > 0`, computed draw by draw.

The language is closed: names of parameters, numbers, + - * / **, comparisons, and, or, not, and four functions. Nothing
else is evaluated. Parameters have names that Python cannot read, so they are found first, the longest first, and stand
as plain names in what Python reads. Backticks may be around any name: `x` is a parameter where log(x) is one, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from keyword import iskeyword
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tallbayes.data import limits
from tallbayes.data.options import check_text
from tallbayes.data.syntax import read
from tallbayes.results.fit import Fit
from tallbayes.results.names import unknown

Array = NDArray[np.float64]
Truths = NDArray[np.bool_]

FUNCTIONS: dict[str, Callable[[Array], Array]] = {"abs": np.abs, "exp": np.exp, "log": np.log, "sqrt": np.sqrt}
OPERATIONS: dict[type[ast.AST], Callable[..., Array]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.Pow: np.power,
    ast.UAdd: np.positive, ast.USub: np.negative,
}  # fmt: skip
COMPARISONS: dict[type[ast.AST], Callable[[Array, Array], Truths]] = {
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal, ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}  # fmt: skip
JOINED: dict[type[ast.AST], np.ufunc] = {ast.And: np.logical_and, ast.Or: np.logical_or}
KNOWN = (
    "names of parameters (in `backticks`, if need be), numbers, + - * / **, comparisons, and, or, not, and "
    f"{', '.join(f'{name}()' for name in FUNCTIONS)}"
)

LETTERS = 10_000  # of an expression

_PLAIN = "_parameter_{}_"
_WORD = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?(\w*)")
_LIKE_A_NAME = re.compile(r"(1\|)?[^\W\d]\w*(\.\w+)*(\[[^\]]*\]|\([^()]*\)|:[\w.]+)*")


class Expression(NamedTuple):
    """An expression as Python reads it; `names` are those of its parameters, `said` what it was called with."""

    node: ast.expr
    names: tuple[str, ...]
    said: str

    def shown(self, node: ast.expr) -> str:
        """A part of it as users know it."""
        plain = {_PLAIN.format(place): name for place, name in enumerate(self.names)}
        return limits.shown(re.sub(r"_parameter_\d+_", lambda found: plain[found[0]], ast.unparse(node)))


def expression(fit: Fit, text: str, said: str) -> Expression:
    """Read an expression of parameters of a fit; `said` is the method of a fit that was given it.

    >>> from tallbayes.results.example import example
    >>> expression(example(), "exp(fico) - `Intercept`", "fit.contrast").names
    ('fico', 'Intercept')
    """
    check_text("the expression", text, "a text such as 'age > 0'" if said == "fit.prob" else "a text such as 'a - b'")
    if len(text) > LETTERS:
        raise ValueError(f"{said} takes up to {LETTERS:,} characters, but {limits.shown(text, 40)} has {len(text):,}")
    plain, names = _plain(fit, text)
    node = read(plain.strip(), text, said, "compute it from fit.draws_frame()")
    if not names:
        raise ValueError(f"{said} needs the name of a parameter in {limits.shown(text)}")
    return Expression(node, tuple(names), said)


def _plain(fit: Fit, text: str) -> tuple[str, list[str]]:
    """The text with plain names for those of parameters, and these."""
    known = frozenset(fit.parameters)
    lengths = sorted({len(name) for name in known}, reverse=True)
    found: dict[str, str] = {}
    parts, at = list[str](), 0
    while at < len(text):
        if text[at] == "`":
            name, closed, _ = text[at + 1 :].partition("`")
            if not closed:
                raise ValueError(f"a backtick in {limits.shown(text)} is not closed")
            if name not in known:
                raise unknown(fit, name)
            end = at + len(name) + 2
        else:
            ends = (at + length for length in lengths if text[at : at + length] in known)
            end = next((end for end in ends if _stands_alone(text, at, end)), at)
            name = text[at:end]
        if end > at:
            parts.append(f" {found.setdefault(name, _PLAIN.format(len(found)))} ")
        else:
            end = _other(fit, text, at)
            parts.append(text[at:end])
        at = end
    return "".join(parts), list(found)


def _stands_alone(text: str, begin: int, end: int) -> bool:
    """Whether a name that is there is not a part of something longer, and no number or word of the language."""
    name, before, after = text[begin:end], text[begin - 1 : begin], text[end : end + 1]
    number = _NUMBER.fullmatch(name)
    if iskeyword(name) or (number and not number[3]) or not any(letter.isalpha() for letter in name):
        return False
    begins = not (_of_word(name[0]) and (_of_word(before) or before == "."))
    return begins and not (_of_word(name[-1]) and _of_word(after)) and after not in ("[", "(", ":", ".")


def _of_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def _other(fit: Fit, text: str, at: int) -> int:
    """Where something that is not a parameter ends: a number, a function, a word of the language, or one letter."""
    like = _LIKE_A_NAME.match(text, at)
    if not like:
        number = _NUMBER.match(text, at)
        if number and number[3]:
            raise unknown(fit, number[0])
        return number.end() if number else at + 1
    word = _WORD.match(text, at)
    if word and iskeyword(word[0]):
        return word.end()
    if word and word[0] in FUNCTIONS and text[word.end() :].lstrip().startswith("("):
        return word.end()
    error = unknown(fit, like[0], *([word[0]] if word else []))
    if "(" in like[0]:
        raise ValueError(f"{error} (functions that can be called: {', '.join(FUNCTIONS)})")
    raise error


class Computed:
    """The parts of an expression, computed from the draws of its parameters, (chain, draw) each."""

    def __init__(self, asked: Expression, draws: Mapping[str, Array]) -> None:
        self.asked = asked
        self.draws = {_PLAIN.format(place): draws[name] for place, name in enumerate(asked.names)}
        self.shape = next(iter(self.draws.values())).shape

    def number(self, node: ast.expr) -> Array:
        """A number for each draw."""
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return self.finite(node, lambda: np.float64(str(value)))  # infinite if too large
            case ast.Name(id=name) if name in self.draws:
                return self.draws[name]
            case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATIONS:
                return self.finite(node, OPERATIONS[type(op)], self.number(operand))
            case ast.BinOp(op=op, left=left, right=right) if type(op) in OPERATIONS:
                return self.finite(node, OPERATIONS[type(op)], self.number(left), self.number(right))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
                return self.finite(node, FUNCTIONS[name], self.number(argument))
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
                self.refuse(node, "has '&' or '|'; write 'and' or 'or'")
            case ast.Compare(ops=ops) if not all(type(op) in COMPARISONS for op in ops):
                self.refuse(node, f"is not allowed in an expression, which can hold {KNOWN}")
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                self.refuse(node, "is true or false, where a number is needed; fit.prob gives probabilities")
            case _:
                self.refuse(node, f"is not allowed in an expression, which can hold {KNOWN}")

    def truth(self, node: ast.expr) -> Truths:
        """Whether something holds, for each draw."""
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in COMPARISONS for op in ops):
                values = [self.number(one) for one in (left, *others)]
                pairs = zip(ops, pairwise(values), strict=True)
                return _joined(np.logical_and, [self.each(COMPARISONS[type(op)](*pair)) for op, pair in pairs])
            case ast.BoolOp(op=op, values=parts):
                return _joined(JOINED[type(op)], [self.truth(one) for one in parts])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ~self.truth(operand)
            case _:
                self.number(node)
                self.refuse(node, "is not true or false; compare it, as in 'age > 0'")

    def finite(self, node: ast.expr, function: Callable[..., Any], *values: Array) -> Array:
        """What a function gives; refused if that is not a number for some draws."""
        with np.errstate(all="ignore"):
            found = np.asarray(function(*values), float)
        if not (fine := np.isfinite(found)).all():
            zero = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and not np.all(values[1])
            why = "divides by zero" if zero else "is not a number, or too large for one,"
            self.refuse(node, f"{why} in {(~self.each(fine)).sum():,} of {np.prod(self.shape):,} draws")
        return found

    def each(self, values: NDArray[Any]) -> NDArray[Any]:
        """For each draw, also what is the same for all."""
        return np.broadcast_to(values, self.shape)

    def refuse(self, node: ast.expr, what: str) -> NoReturn:
        """Raise the error about a part of the expression."""
        raise ValueError(f"in {self.asked.said}, {self.asked.shown(node)} {what}")


def _joined(how: np.ufunc, every: Sequence[Truths]) -> Truths:
    return np.asarray(how.reduce(every), bool)
