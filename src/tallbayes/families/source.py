"""Expressions as code: from an expression to the functions of a family's table (`terms.py`).

The code is a module of straight lines, one for each part of an expression that is not there yet, in two forms: for
numbers, and for intervals. It is kept as a file in Numba's cache folder, since Numba keeps what it compiled only of
functions that are in files.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import os
import sys
import types
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from tallbayes.data.writing import replacing
from tallbayes.families.expressions import (
    ETA,
    Node,
    Y,
    add,
    derivative,
    has,
    has_eta,
    multiply,
    scale,
    size,
    without_constants,
)
from tallbayes.families.terms import table

MOST_PARTS = 100  # of an expression or a derivative; code of more would take minutes to compile

# What goes into the code of a family. Numba compiles anew only if the file of a function has changed: so it names them.
INGREDIENTS = ("chunks", "compiled", "elementary", "intervals", "quadrature", "terms")

HEADER = '''"""A family of tallbayes: {text}

Made with {ingredients}.
"""

from tallbayes.families import intervals
from tallbayes.families.chunks import largest, sum_derivatives, sum_values
from tallbayes.families.compiled import exp, inside
from tallbayes.families.elementary import (
    erf, excess, expm1, lgamma, log, log1p, log_ndtr, logistic, mills, polygamma, sign, softplus,
)
from tallbayes.families.quadrature import integrate_carefully
from tallbayes.families.terms import entry
from numba import njit


'''

FOOTER = """
_inlined = njit(inline="always")(_third.py_func)


@entry
def chunk_value(y, eta, weights):
    return sum_values(_value, y, eta, weights)


@entry
def chunk_derivatives(y, eta, weights, first, second):
    return sum_derivatives(_derivatives, y, eta, weights, first, second)


@entry
def chunk_bounds(y, low, high, out):
    largest(_bound, y, low, high, out)


@entry
def value(y, eta):
    return _whole(y, eta)


@entry
def third(y, eta):
    return _third(y, eta)


@entry
def remainder(y, eta, h):
    return integrate_carefully(_inlined, y, eta, h)


TERMS = (chunk_value, chunk_derivatives, chunk_bounds, value, third, remainder)
"""


def _digits(value: float) -> str:
    """A number as code has it."""
    if not math.isfinite(value):
        raise ValueError("the family's expression, or a derivative of it, has numbers too large to compute with")
    return repr(value)


class Lines:
    """Assignments, one for each node, in the order in which they are needed."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[tuple[Node, str], str] = {}

    def _new(self, text: str, prefix: str = "t") -> str:
        name = f"{prefix}{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def value(self, node: Node, at: str = "eta") -> str:
        """The name of a node's value, with eta by this name."""
        key = (node, at if has_eta(node) else "")
        if key not in self._names:
            self._names[key] = self._value(node, at)
        return self._names[key]

    def _value(self, node: Node, at: str) -> str:
        kind, parts = node.kind, node.parts
        if kind == "number":
            return _digits(parts[0])
        if kind in ("y", "eta"):
            return "y" if kind == "y" else at
        if kind == "sum":
            texts = [_digits(parts[0])] if parts[0] else []
            for term, coefficient in parts[1:]:
                name = self.value(term, at)
                texts.append(name if coefficient == 1.0 else f"{coefficient!r} * {name}")
            return self._new(" + ".join(texts))
        if kind == "product":
            return self._new(" * ".join(self._power(base, exponent, at) for base, exponent in parts))
        if kind == "where":
            comparison, left, right, yes, no = parts
            sides = self.value(left, at), self.value(right, at)
            return self._new(f"{self.value(yes, at)} if {sides[0]} {comparison} {sides[1]} else {self.value(no, at)}")
        inner = self.value(parts[0], at)
        if kind.startswith("polygamma"):
            return self._new(f"polygamma({kind[9:]}, {inner})")
        return self._new(f"{kind}({inner})")

    def _power(self, base: Node, exponent: float, at: str) -> str:
        """A factor of a product."""
        name = self.value(base, at)
        if exponent == 1.0:
            return name
        if exponent != int(exponent):
            return self._new(f"{name} ** 0.5") if exponent == 0.5 else self._new(f"exp({exponent!r} * log({name}))")
        if exponent < 0:
            name = self._once((base, f"1/{at}" if has_eta(base) else "1/"), f"1.0 / {name}")
        return self._whole_power(name, abs(int(exponent)))

    def _once(self, key: Any, text: str) -> str:
        if key not in self._names:
            self._names[key] = self._new(text)
        return self._names[key]

    def _whole_power(self, name: str, exponent: int) -> str:
        if exponent == 1:
            return name
        half = self._whole_power(name, exponent // 2)
        squared = self._once((name, "squared", exponent // 2), f"{half} * {half}")
        return squared if exponent % 2 == 0 else f"{squared} * {name}"

    def interval(self, node: Node, at: str) -> str:
        """The name of a node's interval, with that of eta by this name."""
        key = (node, f"[{at}]" if has_eta(node) else "[]")
        if key not in self._names:
            self._names[key] = self._interval(node, at)
        return self._names[key]

    def _interval(self, node: Node, at: str) -> str:
        kind, parts = node.kind, node.parts
        if kind == "eta":
            return at
        if kind == "number":
            return self._new(f"({parts[0]!r}, {parts[0]!r})", "i")
        if not has_eta(node):
            return self._new(f"intervals.point({self.value(node)})", "i")
        if kind == "sum":
            return self._interval_sum(node, at)
        if kind == "product":
            return self._interval_product(node, at)
        if kind == "where":
            comparison, left, right, yes, no = parts
            sides = self.value(left), self.value(right)
            one, two = self.interval(yes, at), self.interval(no, at)
            test = f"{sides[0]} {comparison} {sides[1]}"
            return self._new(f"({one}[0] if {test} else {two}[0], {one}[1] if {test} else {two}[1])", "i")
        inner = self.interval(parts[0], at)
        if kind.startswith("polygamma"):
            return self._new(f"intervals.polygamma({kind[9:]}, {inner})", "i")
        return self._new(f"intervals.{'absolute' if kind == 'abs' else kind}({inner})", "i")

    def _interval_sum(self, node: Node, at: str) -> str:
        """Rounded outwards once, by a share of the sum of sizes."""
        constant, *terms = node.parts
        if constant == 0.0 and len(terms) == 1 and terms[0][1] == -1.0:
            return self._new(f"intervals.negative({self.interval(terms[0][0], at)})", "i")
        low, high, size = ([_digits(part)] if constant else [] for part in (constant, constant, abs(constant)))
        for term, coefficient in terms:
            name = self.interval(term, at)
            ends = (0, 1) if coefficient > 0 else (1, 0)
            low.append(f"{coefficient!r} * {name}[{ends[0]}]")
            high.append(f"{coefficient!r} * {name}[{ends[1]}]")
            most = f"{name}[1]" if positive(term) else f"intervals.size({name})"
            size.append(f"{abs(coefficient)!r} * {most}")
        sums = ", ".join(" + ".join(part) for part in (low, high, size))
        return self._new(f"intervals.total({sums}, {len(low)}.0)", "i")

    def _interval_product(self, node: Node, at: str) -> str:
        """What cannot be negative is multiplied at either end, and rounded once; other factors come one by one."""
        numbers, low, high, others = list[str](), list[str](), list[str](), list[str]()
        for base, exponent in node.parts:
            whole, times = exponent == int(exponent), abs(int(exponent))
            if not has_eta(base):
                numbers.append(self._power(base, exponent, "eta"))
            elif whole and (positive(base) or times % 2 == 0):
                name = self._positive(base, at)
                if not positive(base):
                    times //= 2
                low += [f"{name}[0]" if exponent > 0 else self._once((name, "1/[1]"), f"1.0 / {name}[1]")] * times
                high += [f"{name}[1]" if exponent > 0 else self._once((name, "1/[0]"), f"1.0 / {name}[0]")] * times
            else:
                others.append(self._other_power(base, exponent, at))
        if low:
            ends = " * ".join(low), " * ".join(high)
            others.insert(0, self._new(f"intervals.product({ends[0]}, {ends[1]}, {len(low)}.0)", "i"))
        total, *rest = others
        for other in rest:
            total = self._new(f"intervals.times({total}, {other})", "i")
        return self._new(f"intervals.times_number({' * '.join(numbers)}, {total})", "i") if numbers else total

    def _positive(self, base: Node, at: str) -> str:
        """The interval of a base that cannot be negative, or of its square."""
        name = self.interval(base, at)
        return self._once((name, "positive"), f"intervals.{'positive' if positive(base) else 'square'}({name})")

    def _other_power(self, base: Node, exponent: float, at: str) -> str:
        """An odd power, or one that is not whole."""
        name = self.interval(base, at)
        if exponent != int(exponent):
            return self._new(f"intervals.root_power({name}, {exponent!r})", "i")
        found = name
        for _ in range(abs(int(exponent)) // 2):
            squared = self._once((name, "positive"), f"intervals.square({name})")
            found = self._new(f"intervals.times({found}, {squared})", "i")
        return found if exponent > 0 else self._new(f"intervals.inverse({found})", "i")

    def function(self, head: str, result: str, decorator: str = "@inside(forceinline=True)") -> str:
        """The lines as a function."""
        return "\n".join(
            [decorator, f"def {head}:", *(f"    {line}" for line in self.lines), f"    return {result}", "", "", ""]
        )


def positive(node: Node) -> bool:
    """Whether an expression cannot be negative, as far as its form tells."""
    if node.kind == "number":
        return bool(node.parts[0] >= 0)
    if node.kind == "sum":
        return bool(node.parts[0] >= 0) and all(factor > 0 and positive(term) for term, factor in node.parts[1:])
    if node.kind == "product":
        return all(positive(base) or exponent % 2 == 0 for base, exponent in node.parts)
    return node.kind in ("exp", "logistic", "softplus", "mills", "excess", "abs", "polygamma1", "polygamma3")


def split(node: Node) -> tuple[bool, Node]:
    """Whether an expression is y eta - b(eta), and what chunks add up: -b(eta), or all of it."""
    rest = add(node, scale(-1.0, multiply(Y, ETA)))
    return (True, rest) if not has(rest, Y) else (False, node)


def derivatives_of(node: Node) -> list[Node]:
    """An expression and its first four derivatives."""
    memory: dict[Node, Node] = {}
    found = [node]
    for _ in range(4):
        if size(found[-1]) > MOST_PARTS:
            raise ValueError(
                f"the expression is too long to be compiled: it, or one of its derivatives, has {size(found[-1]):,} "
                f"different parts, and can have {MOST_PARTS}; write a simpler one, or give functions"
            )
        found.append(derivative(found[-1], memory))
    return found


def write(node: Node, text: str) -> str:
    """The module of an expression."""
    node = without_constants(node)
    _, chunks = split(node)
    orders, own = derivatives_of(node), derivatives_of(chunks)
    value, first, second = own[:3]
    plain, bent, whole, third, bound = Lines(), Lines(), Lines(), Lines(), Lines()
    name = plain.value(value)
    parts = [plain.function("_value(y, eta)", name)]
    names = [bent.value(one) for one in (value, first, scale(-1.0, second))]
    parts.append(bent.function("_derivatives(y, eta)", ", ".join(names)))
    name = whole.value(node)
    parts.append(whole.function("_whole(y, eta)", name))
    name = third.value(orders[3])
    parts.append(third.function("_third(y, eta)", name))
    bound.lines += ["at = (low, high)", "middle = 0.5 * (low + high)", "here = (middle, middle)"]
    natural, fourth = bound.interval(orders[3], "at"), bound.interval(orders[4], "at")
    mid = bound.interval(orders[3], "here")
    bound.lines += [
        f"one = intervals.largest({natural})",
        "away = 0.5 * (high - low)",
        f"two = intervals.largest({mid}) + (away + 1e-15 * (abs(low) + abs(high))) * intervals.largest({fourth})",
    ]
    parts.append(bound.function("_bound(y, low, high)", "two if two < one else one", "@intervals.interval"))
    header = HEADER.format(text=text.replace("\\", "").replace('"', ""), ingredients=_ingredients())
    return header + "".join(parts) + FOOTER


@cache
def _ingredients() -> str:
    """A fingerprint of all that the code of a family is made with."""
    files = (Path(__file__).with_name(f"{name}.py").read_bytes() for name in INGREDIENTS)
    return hashlib.sha256(b"".join(files)).hexdigest()[:24]


def load(source: str) -> Any:
    """The module of some source, from its file: written if it is not there, and run from memory if it cannot be."""
    name = f"tallbayes_family_{hashlib.sha256(source.encode()).hexdigest()[:24]}"
    if name in sys.modules:
        return sys.modules[name]
    try:
        path = _folder() / f"{name}.py"
        if not path.is_file() or path.read_text(encoding="utf-8") != source:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as aside:  # another process may read it
                aside.write_text(source, encoding="utf-8")
        specification = importlib.util.spec_from_file_location(name, path)
    except (OSError, RuntimeError):  # nobody knows where the user's files are
        specification = None
    if specification is None or specification.loader is None:
        module = types.ModuleType(name)
        exec(compile(source, f"<{name}>", "exec"), vars(module))
    else:
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
    sys.modules[name] = module
    return module


def table_of(module: Any) -> NDArray[np.intp]:
    """The addresses of a module's functions."""
    return table(*module.TERMS)


def _folder() -> Path:
    """Where Numba keeps what it compiles, if it was told so, or the user's cache."""
    told: str = getattr(numba.config, "CACHE_DIR", "")
    return Path(told or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tallbayes") / "families"
