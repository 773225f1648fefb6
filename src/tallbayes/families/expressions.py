"""Expressions of an outcome y and a linear predictor eta: read from a text, and differentiated.

A text is read with Python's own grammar, and only the names in `FUNCTIONS`, y, eta and given constants mean anything in
it. What is read becomes a sum of products, put together so that like terms meet: that keeps derivatives short. Sums
and products that lose digits or overflow where others do not are written the other way at once, so that
log(1 + exp(eta)) is as good as a function made for it.
"""

from __future__ import annotations

import ast
import difflib
import math
import operator
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, NoReturn

from tallbayes.data.syntax import READING

LONGEST = 2_000  # characters of a text
MOST_POWER = 64


class Node(NamedTuple):
    """An expression: what it is, and what it is made of. The same expression is always the same object.

    - number: (value,)
    - y, eta: ()
    - sum: (constant, (expression, coefficient), ...)
    - product: ((expression, exponent), ...), where exponents are numbers
    - where: (comparison, left, right, if so, if not), where left and right are without eta
    - and any of `FUNCTIONS`, or what they have as derivatives: (expression,)
    """

    kind: str
    parts: tuple[Any, ...]

    def __repr__(self) -> str:
        return written(self)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


_MADE: dict[Any, Node] = {}


def _node(kind: str, *parts: Any) -> Node:
    key = (kind, *parts)
    found = _MADE.get(key)
    if found is None:
        found = _MADE[key] = Node(kind, parts)
    return found


def number(value: float) -> Node:
    """A constant."""
    return _node("number", float(value) + 0.0)  # no minus zero


Y, ETA = _node("y"), _node("eta")
ZERO, ONE = number(0.0), number(1.0)
COMPARISONS = {ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<=", ast.Eq: "==", ast.NotEq: "!="}
HOLDS = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


def value_of(node: Node) -> float | None:
    """The number that a node is, if it is one."""
    return float(node.parts[0]) if node.kind == "number" else None


def _terms(node: Node) -> tuple[float, dict[Node, float]]:
    """A node as a sum: a constant, and coefficients of other nodes."""
    if node.kind == "number":
        return node.parts[0], {}
    if node.kind == "sum":
        return node.parts[0], dict(node.parts[1:])
    return 0.0, {node: 1.0}


def add(*nodes: Node) -> Node:
    """The sum of some nodes."""
    constant, terms = 0.0, dict[Node, float]()
    for node in nodes:
        more, own = _terms(node)
        constant += more
        for term, coefficient in own.items():
            terms[term] = terms.get(term, 0.0) + coefficient
    return _sum(constant, terms)


def _sum(constant: float, terms: Mapping[Node, float]) -> Node:
    left = {term: coefficient for term, coefficient in terms.items() if coefficient != 0.0}
    if not left:
        return number(constant)
    if len(left) == 1:
        (term, coefficient), *_ = left.items()
        if constant == 0.0 and coefficient == 1.0:
            return term
        if term.kind == "logistic" and coefficient == -constant:  # 1 - logistic(u), which would lose its digits
            return scale(constant, logistic(scale(-1.0, term.parts[0])))
    return _node("sum", constant + 0.0, *left.items())


def scale(factor: float, node: Node) -> Node:
    """A number times a node."""
    constant, terms = _terms(node)
    return _sum(factor * constant, {term: factor * coefficient for term, coefficient in terms.items()})


def _factors(node: Node) -> tuple[float, dict[Node, float]]:
    """A node as a product: a number, and exponents of other nodes."""
    if node.kind == "number":
        return node.parts[0], {}
    if node.kind == "product":
        return 1.0, dict(node.parts)
    if node.kind == "sum" and node.parts[0] == 0.0 and len(node.parts) == 2:
        term, coefficient = node.parts[1]
        return coefficient, _factors(term)[1]
    return 1.0, {node: 1.0}


def multiply(*nodes: Node) -> Node:
    """The product of some nodes."""
    factor, factors = 1.0, dict[Node, float]()
    for node in nodes:
        more, own = _factors(node)
        factor *= more
        for base, exponent in own.items():
            factors[base] = factors.get(base, 0.0) + exponent
    return scale(factor, _product(factors))


def _product(factors: dict[Node, float]) -> Node:
    if number(0.0) in factors:
        return ZERO
    left, more = dict[Node, float](), 1.0
    for base, exponent in factors.items():
        if exponent == 0.0:
            continue
        found = _as_logistic(base) if exponent < 0 and exponent == int(exponent) else None
        if found is None:
            left[base] = left.get(base, 0.0) + exponent
        else:
            left[found[1]] = left.get(found[1], 0.0) - exponent
            more *= found[0] ** exponent
    for base in [one for one in left if one.kind == "exp"]:  # e^u logistic(-u) is logistic(u)
        against = logistic(scale(-1.0, base.parts[0]))
        if (both := min(left[base], left.get(against, 0.0))) > 0:
            own = logistic(base.parts[0])
            left[base] -= both
            left[against] -= both
            left[own] = left.get(own, 0.0) + both
    # In one order, whatever came first: so like terms meet, and the same text has the same code in any process.
    parts = sorted(
        ((base, exponent) for base, exponent in left.items() if exponent != 0.0), key=lambda part: repr(part[0])
    )
    if not parts:
        return number(more)
    return scale(more, parts[0][0] if len(parts) == 1 and parts[0][1] == 1.0 else _node("product", *parts))


def _as_logistic(node: Node) -> tuple[float, Node] | None:
    """c + a e^u with positive c and a as (c, v), so that it is c over v; e^u may be too large, and v is not."""
    found = _exponential(node)
    if found is None:
        return None
    constant, u = found
    return constant, logistic(scale(-1.0, u))


def _exponential(node: Node) -> tuple[float, Node] | None:
    """c + a e^u with positive c and a as (c, u + log(a / c))."""
    if node.kind != "sum" or len(node.parts) != 2:
        return None
    constant, (term, coefficient) = node.parts
    if term.kind != "exp" or not (constant > 0 and coefficient > 0):
        return None
    return constant, add(term.parts[0], number(math.log(coefficient / constant)))


def power(base: Node, exponent: Node) -> Node:
    """A node to the power of another."""
    fixed, known = value_of(exponent), value_of(base)
    if fixed is None:
        return exp(multiply(exponent, log(base)))
    if known is not None:
        if known == 0.0 and fixed < 0.0:
            raise ValueError("it divides by zero")
        if known < 0.0 and fixed != int(fixed):
            raise ValueError(f"{known:g} has no power {fixed:g}")
        return number(known**fixed)
    if abs(fixed) > MOST_POWER:
        raise ValueError(f"powers may be up to {MOST_POWER}, not {fixed:g}")
    if fixed == 0.0:
        return ONE
    factor, factors = _factors(base)
    whole = fixed == int(fixed)
    # (u v)^(1/2) and (u^2)^(1/2) are not what is under them, where that is negative.
    if whole or (len(factors) == 1 and factor > 0 and all(each == 1.0 for each in factors.values())):
        return scale(factor**fixed, _product({each: fixed * own for each, own in factors.items()}))
    return _node("product", (base, fixed))


# Functions


def exp(u: Node) -> Node:
    """e^u."""
    if (known := value_of(u)) is not None:
        return number(math.exp(known))
    return u.parts[0] if u.kind == "log" else _node("exp", u)


def log(u: Node) -> Node:
    """Natural logarithm."""
    if (known := value_of(u)) is not None:
        if known <= 0:
            raise ValueError(f"{known:g} has no logarithm")
        return number(math.log(known))
    if u.kind == "exp":
        inner: Node = u.parts[0]
        return inner
    if u.kind == "logistic":
        return scale(-1.0, softplus(scale(-1.0, u.parts[0])))
    if (found := _exponential(u)) is not None:
        return add(number(math.log(found[0])), softplus(found[1]))
    if u.kind == "sum" and len(u.parts) == 2:
        constant, (term, coefficient) = u.parts
        if term.kind == "erf" and constant > 0 and abs(coefficient) == constant:  # the tail of a Normal distribution
            side = math.copysign(math.sqrt(2.0), coefficient)
            return add(number(math.log(2 * constant)), _node("log_ndtr", scale(side, term.parts[0])))
        if constant == 0.0 and coefficient > 0:
            return add(number(math.log(coefficient)), log(term))
    return _node("log", u)


def log1p(u: Node) -> Node:
    """log(1 + u), exact for small u."""
    if (known := value_of(u)) is not None:
        return log(number(1.0 + known))
    whole = add(ONE, u)
    return log(whole) if _exponential(whole) is not None or whole.kind == "logistic" else _node("log1p", u)


def logistic(u: Node) -> Node:
    """1 / (1 + e^-u)."""
    if (known := value_of(u)) is not None:
        return number(1.0 / (1.0 + math.exp(-known)) if known > 0 else math.exp(known) / (1.0 + math.exp(known)))
    return _node("logistic", u)


def softplus(u: Node) -> Node:
    """log(1 + e^u)."""
    if (known := value_of(u)) is not None:
        return number(max(known, 0.0) + math.log1p(math.exp(-abs(known))))
    return _node("softplus", u)


def _plain(kind: str, at: Any) -> Any:
    """A function that has nothing to be written otherwise; `at` is what it is of a number."""

    def function(u: Node) -> Node:
        known = value_of(u)
        return _node(kind, u) if known is None else number(at(known))

    return function


def _log_ndtr(x: float) -> float:
    from scipy.special import log_ndtr

    return float(log_ndtr(x))


FUNCTIONS: dict[str, Any] = {
    "exp": exp,
    "log": log,
    "log1p": log1p,
    "expm1": _plain("expm1", math.expm1),
    "sqrt": lambda u: power(u, number(0.5)),
    "logistic": logistic,
    "softplus": softplus,
    "tanh": lambda u: add(scale(2.0, logistic(scale(2.0, u))), number(-1.0)),
    "erf": _plain("erf", math.erf),
    "log_ndtr": _plain("log_ndtr", _log_ndtr),
    "lgamma": _plain("lgamma", math.lgamma),
    "abs": _plain("abs", abs),
}


def derivative(node: Node, memory: dict[Node, Node] | None = None) -> Node:
    """The derivative in eta.

    >>> derivative(read("y * eta - log1p(exp(eta))"))
    y - logistic(eta)
    """
    memory = {} if memory is None else memory
    found = memory.get(node)
    if found is None:
        found = memory[node] = _derivative(node, memory)
    return found


def _derivative(node: Node, memory: dict[Node, Node]) -> Node:
    kind, parts = node.kind, node.parts
    if kind == "eta":
        return ONE
    if not has_eta(node) or kind == "sign":
        return ZERO
    if kind == "sum":
        return add(*(scale(coefficient, derivative(term, memory)) for term, coefficient in parts[1:]))
    if kind == "product":
        sums = []
        for base, exponent in parts:
            if has_eta(base):
                others = [power(one, number(own)) for one, own in parts if one is not base]
                sums.append(
                    scale(
                        exponent,
                        multiply(*others, power(base, number(exponent - 1.0)), derivative(base, memory)),
                    )
                )
        return add(*sums)
    if kind == "where":
        return where(*parts[:3], *(derivative(part, memory) for part in parts[3:]))
    return multiply(_outer(kind, parts[0]), derivative(parts[0], memory))


def _outer(kind: str, u: Node) -> Node:
    """The derivative of a function at u."""
    if kind.startswith("polygamma"):
        return _node(f"polygamma{int(kind[9:]) + 1}", u)
    found: Node = _OUTER[kind](u)
    return found


_OUTER: dict[str, Any] = {
    "exp": exp,
    "expm1": exp,
    "log": lambda u: power(u, number(-1.0)),
    "log1p": lambda u: power(add(ONE, u), number(-1.0)),
    "logistic": lambda u: multiply(logistic(u), logistic(scale(-1.0, u))),
    "softplus": logistic,
    "erf": lambda u: scale(2.0 / math.sqrt(math.pi), exp(scale(-1.0, power(u, number(2.0))))),
    # With m = phi / Phi:  m' = -m (m + u),  and  (m + u)' = 1 - m (m + u).
    "log_ndtr": lambda u: _node("mills", u),
    "mills": lambda u: scale(-1.0, multiply(_node("mills", u), _node("excess", u))),
    "excess": lambda u: add(ONE, scale(-1.0, multiply(_node("mills", u), _node("excess", u)))),
    "lgamma": lambda u: _node("polygamma0", u),
    "abs": lambda u: _node("sign", u),
}


def where(comparison: str, left: Node, right: Node, yes: Node, no: Node) -> Node:
    """One of two nodes."""
    one, other = value_of(left), value_of(right)
    if one is not None and other is not None:
        return yes if HOLDS[comparison](one, other) else no
    return yes if yes is no else _node("where", comparison, left, right, yes, no)


def children(node: Node) -> list[Node]:
    """The nodes that a node is made of."""
    if node.kind in ("number", "y", "eta"):
        return []
    if node.kind in ("sum", "product"):
        return [part[0] for part in node.parts if isinstance(part, tuple)]
    return [part for part in node.parts if isinstance(part, Node)]


def size(node: Node) -> int:
    """How many different nodes it is made of, itself included.

    >>> size(read("exp(eta) + y * exp(eta)"))
    5
    """
    found, waiting = set[Node](), [node]
    while waiting:
        if (one := waiting.pop()) not in found:
            found.add(one)
            waiting += children(one)
    return len(found)


@cache
def has(node: Node, symbol: Node) -> bool:
    """Whether a symbol is in it."""
    return node is symbol or any(has(part, symbol) for part in children(node))


def has_eta(node: Node) -> bool:
    """Whether it depends on the linear predictor."""
    return has(node, ETA)


def smooth(node: Node) -> bool:
    """Whether no absolute value of something with eta is in it."""
    if node.kind in ("abs", "sign") and has_eta(node):
        return False
    return all(smooth(part) for part in children(node))


def without_constants(node: Node) -> Node:
    """A sum without those of its terms that have no eta: they do not matter for a posterior."""
    if node.kind != "sum":
        return node if has_eta(node) else ZERO
    return _sum(0.0, {term: coefficient for term, coefficient in node.parts[1:] if has_eta(term)})


def without_eta(node: Node) -> Node:
    """Those terms of a sum that have no eta, which `without_constants` leaves out."""
    if node.kind != "sum":
        return ZERO if has_eta(node) else node
    first, *terms = node.parts
    return _sum(first, {term: coefficient for term, coefficient in terms if not has_eta(term)})


# Reading and writing


def read(text: str, constants: Mapping[str, float] | None = None) -> Node:
    """The expression that a text says.

    >>> read("y * eta - log(k + exp(eta))", {"k": 1})
    eta * y - softplus(eta)
    >>> read("open('x')")
    Traceback (most recent call last):
    ValueError: in the expression "open('x')": there is no function 'open'; there are exp, log, log1p, ...
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError("the expression must be a text, such as 'y * eta - log1p(exp(eta))'")
    if len(text) > LONGEST:
        raise ValueError(f"the expression has {len(text):,} characters; {LONGEST:,} are allowed")
    known = {"y": Y, "eta": ETA, "pi": number(math.pi)}
    for name, value in (constants or {}).items():
        if name in known or name in FUNCTIONS or name == "where":
            raise ValueError(f"a constant cannot be called {name!r}, which means something else already")
        known[name] = number(value)
    try:
        with READING:
            parsed = ast.parse(text.strip(), mode="eval").body
        return _read(parsed, known)
    except SyntaxError as error:
        raise ValueError(f"the expression {text!r} cannot be read: {error.msg}") from None
    except (OverflowError, RecursionError):
        raise ValueError(f"the expression {text!r} has numbers that are too large, or is too deep") from None
    except ValueError as error:
        raise ValueError(f"in the expression {text!r}: {error}") from None


def _read(tree: ast.AST, known: Mapping[str, Node]) -> Node:
    match tree:
        case ast.Constant(value=bool() | str() | bytes() | complex() | None):
            raise ValueError(f"{tree.value!r} is not a number")
        case ast.Constant(value=int() | float() as value):
            return number(value)
        case ast.Name(id=name):
            return known[name] if name in known else _unknown(name, [*known], "name")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return scale(-1.0, _read(operand, known))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _read(operand, known)
        case ast.BinOp(left=left, op=op, right=right):
            return _combine(op, _read(left, known), _read(right, known))
        case ast.Call(func=ast.Name(id="where"), args=[ast.Compare() as test, yes, no], keywords=[]):
            return _choose(test, _read(yes, known), _read(no, known), known)
        case ast.Call(func=ast.Name(id="where")):
            raise ValueError("where takes a comparison and two expressions, as in where(y > 0, eta, 0)")
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            function = FUNCTIONS.get(name)
            if function is None:
                _unknown(name, [*FUNCTIONS, "where"], "function")
            if len(arguments) != 1:
                raise ValueError(f"{name} takes one expression, not {len(arguments)}")
            found: Node = function(_read(arguments[0], known))
            return found
    raise ValueError(f"{ast.unparse(tree)!r} is not allowed; write it with + - * / ** and functions")


def _combine(op: ast.operator, left: Node, right: Node) -> Node:
    match op:
        case ast.Add():
            return add(left, right)
        case ast.Sub():
            return add(left, scale(-1.0, right))
        case ast.Mult():
            return multiply(left, right)
        case ast.Div():
            return multiply(left, power(right, number(-1.0)))
        case ast.Pow():
            return power(left, right)
    raise ValueError(f"the operator {type(op).__name__} is not allowed; there are + - * / **")


def _choose(test: ast.Compare, yes: Node, no: Node, known: Mapping[str, Node]) -> Node:
    if len(test.ops) != 1 or type(test.ops[0]) not in COMPARISONS:
        raise ValueError("where takes one comparison, such as y > 0")
    left, right = (_read(side, known) for side in (test.left, test.comparators[0]))
    if has_eta(left) or has_eta(right):
        raise ValueError("where may compare outcomes, but not eta: a log-likelihood must be smooth in eta")
    return where(COMPARISONS[type(test.ops[0])], left, right, yes, no)


def _unknown(name: str, names: list[str], what: str) -> NoReturn:
    near = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
    raise ValueError(f"there is no {what} {name!r}; {hint}")


@cache
def written(node: Node) -> str:
    """A node as a text, for people."""
    kind, parts = node.kind, node.parts
    if kind == "number":
        return f"{parts[0]:.12g}"
    if kind in ("y", "eta"):
        return kind
    if kind == "sum":
        terms = [*parts[1:], *([(ONE, parts[0])] if parts[0] else [])]
        texts = []
        for i, (term, coefficient) in enumerate(terms):
            size = f"{abs(coefficient):.12g}"
            text = size if term is ONE else written(term) if size == "1" else f"{size} * {_guarded(term)}"
            sign = ("-" if coefficient < 0 else "") if i == 0 else (" - " if coefficient < 0 else " + ")
            texts.append(sign + text)
        return "".join(texts)
    if kind == "product":
        return " * ".join(
            _guarded(base) + ("" if e == 1 else f"**{e:g}" if e > 0 else f"**({e:g})") for base, e in parts
        )
    if kind == "where":
        comparison, left, right, yes, no = parts
        return f"where({written(left)} {comparison} {written(right)}, {written(yes)}, {written(no)})"
    return f"{kind}({written(parts[0])})"


def _guarded(node: Node) -> str:
    return f"({written(node)})" if node.kind in ("sum", "product") else written(node)
