"""What terms of a formula remember of the rows, learned piece by piece.

    center, scale, standardize   the mean and the spread of all rows, combined from those of pieces
    C                            all values, of whatever piece
    poly, bs, cr, cs, cc         learned from a sample of rows, since quantiles and products of columns do not combine

The sample has at most `SAMPLE` rows (`tallbayes.data.sample`), and is all rows where there are no more. It includes the
rows at which the argument of a spline is smallest and largest, so that the spline's bounds are those of all rows. Of
functions inside each other, such as scale(bs(x)), only the innermost can be learned from all rows; the others are
learned from the sample too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tallbayes.data import expression as expressions
from tallbayes.data import functions
from tallbayes.data.design import as_floats, told
from tallbayes.data.kinds import Distinct, exact
from tallbayes.data.sample import Rows, Sample
from tallbayes.data.syntax import READING, tree

COMBINED = ("center", "scale", "standardize")
SAMPLED = ("bs", "cc", "cr", "cs", "poly")
REMEMBER = (*COMBINED, *SAMPLED)
MOST = 10_000  # values of a C(...) term, of which each but one is a column of the design


class Spread:
    """The mean of values that come in pieces and their spread around it, as formulaic's scale() has them.

    >>> spread = Spread(center=True, scale=True, ddof=1)
    >>> for values in ([1.0, 2.0], [6.0]):
    ...     spread.add(np.array(values))
    >>> {name: round(float(value), 3) for name, value in spread.state().items()}
    {'ddof': 1.0, 'center': 3.0, 'scale': 2.646}
    """

    def __init__(self, center: Any, scale: Any, ddof: float) -> None:
        self.center, self.scale, self.ddof = center, scale, ddof
        self.pieces: list[tuple[int, Any, Any]] = []  # rows, mean and squares around it of each

    def add(self, values: NDArray[Any]) -> None:
        """See the values of a piece."""
        mean: Any = np.array(0.0)
        if self.center is True:
            mean = np.mean(values, axis=0)
        elif self.center is not False:
            mean = np.array(self.center)
        squares = np.sum((values if self.center is False else values - mean) ** 2, axis=0)
        self.pieces.append((len(values), mean, squares))

    def then(self, later: Spread) -> None:
        """See what was seen in later rows."""
        self.pieces += later.pieces

    def state(self) -> dict[str, Any]:
        """What formulaic would have learned from all values, by the formula of Chan, Golub and LeVeque."""
        (count, mean, squares), *others = self.pieces
        for rows, own, around in others:
            if self.center is True:
                apart, share = own - mean, rows / (count + rows)
                mean, around = mean + apart * share, around + apart**2 * count * share
            count, squares = count + rows, squares + around
        if self.scale is True and count <= self.ddof:
            raise ValueError(
                f"the formula has ddof={self.ddof:g} of {count} rows, which leaves nothing to measure their spread by; "
                "make it less than the number of rows"
            )
        spread = np.sqrt(squares / (count - self.ddof)) if self.scale is True else np.array(self.scale)
        center, scale = None if self.center is False else mean, None if self.scale is False else spread
        return {"ddof": self.ddof, "center": center, "scale": scale}


class Memory:
    """What the terms of one side of a formula remember; those of most formulas nothing.

    `sampled` tells that a sample is needed to learn all of it.

    >>> from tallbayes.data.parsed import parse
    >>> memory = Memory(parse("y ~ center(x) + C(n)").right)
    >>> for values in ([1, 2], [6]):
    ...     memory.add(Rows(np.arange(len(values)), {"x": values, "n": values}), None)
    >>> memory.transforms()["center(x)"]["center"].round(3), memory.categories()
    (np.float64(3.0), {'C(n)': [1, 2, 6]})
    """

    def __init__(self, side: Iterable[Any]) -> None:
        self.side = list(side)
        self.factors: dict[str, Any] = {}
        self.values: dict[str, Distinct] = {}
        self.states: dict[str, dict[str, Any]] = {}
        self.sampled = False
        for factor in (factor for term in self.side for factor in term.factors):
            if factor.eval_method.value != "python":
                continue
            used = expressions.check(factor.expr).functions
            if set(used) & {*REMEMBER, "C"}:
                self.factors[factor.expr] = factor
            within = nested(factor.expr, (*REMEMBER, "C"), REMEMBER)
            self.sampled |= within or not set(SAMPLED).isdisjoint(used)
            if "C" in used and not nested(factor.expr, ["C"], REMEMBER):
                self.values[factor.expr] = Distinct(MOST)

    def add(self, rows: Rows, sample: Sample | None) -> None:
        """Learn from the rows of a piece, and tell the sample which of them must be in it."""
        import pandas as pd
        from formulaic import ModelSpec
        from formulaic.errors import FormulaicError

        frame = pd.DataFrame(rows.columns, copy=False)
        spec = ModelSpec([], na_action="ignore", output="pandas", transform_state=self.states)
        context = functions.context() | _recorders()
        numbers = spec.get_materializer(as_floats(frame, self.side), context=context)
        categories = spec.get_materializer(frame, context=context)
        try:
            with READING, np.errstate(all="ignore"):
                for name, factor in self.factors.items():
                    (categories if name in self.values else numbers)._evaluate_factor(factor, spec, set())
        except FormulaicError as error:
            raise ValueError(told(error, frame)) from error
        for name, distinct in self.values.items():
            found = categories.factor_cache[name].values.__wrapped__
            if getattr(found, "dtype", None) != "category":  # whose levels are known
                distinct.add(np.asarray(found))
            if distinct.more:
                _refuse_many(name)
        for name, state in self.states.items():
            if sample is not None and "ends" in state:
                for sign, place, value in state["ends"]:
                    sample.must((name, sign), sign * value, rows.take([place]))

    def then(self, values: Mapping[str, Distinct], states: Mapping[str, dict[str, Any]]) -> None:
        """Learn what another one, with these `values` and `states`, has learned from later rows."""
        for name, distinct in self.values.items():
            distinct.then(values[name])
            if distinct.more:
                _refuse_many(name)
        for name, later in states.items():
            own = self.states.setdefault(name, {})
            if "spread" not in own:
                own |= later
            elif "spread" in later:
                own["spread"].then(later["spread"])

    def transforms(self) -> dict[str, Any]:
        """What is known from all rows, as formulaic has it; what is not among it is to be learned from the sample."""
        return {name: state["spread"].state() for name, state in self.states.items() if _alone(name, state)}

    def categories(self) -> dict[str, list[Any]]:
        """The values of C(...) terms."""
        found = {name: exact(name, distinct.values()).tolist() for name, distinct in self.values.items()}
        for name, values in found.items():
            if len(values) > MOST:
                _refuse_many(name)
        return {name: values for name, values in found.items() if values}  # text has its levels already


def _refuse_many(name: str) -> NoReturn:
    raise ValueError(
        f"{name!r} has more than {MOST:,} levels; leave out the C() if its values are quantities, merge rare "
        "levels, or write its column as a group: (1 | column)"
    )


def nested(expression: str, outer: Iterable[str], inner: Iterable[str]) -> bool:
    """Whether a call of one function lies inside a call of another.

    >>> nested("scale(log(center(x)))", ["scale"], ["center"]), nested("scale(x) + center(x)", ["scale"], ["center"])
    (True, False)
    """
    calls = _calls(tree(expression)[0], outer)
    return any(part is not call for call in calls for part in _calls(call, inner))


def _calls(node: ast.AST, names: Iterable[str]) -> list[ast.Call]:
    """The calls of some functions in an expression."""
    calls = (part for part in ast.walk(node) if isinstance(part, ast.Call))
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in names]


def _alone(name: str, state: dict[str, Any]) -> bool:
    """Whether a function's mean and spread are all that its expression remembers."""
    with READING:
        return "spread" in state and len(_calls(ast.parse(name), REMEMBER)) == 1


def _recorders() -> dict[str, Callable[..., Any]]:
    """Functions that formulaic calls instead of its own: they note what they see, and change nothing."""
    from formulaic.utils.stateful_transforms import stateful_transform

    def scale(data: Any, center: Any = True, scale: Any = True, ddof: float = 1, _state: Any = None) -> Any:
        _state.setdefault("spread", Spread(center, scale, ddof)).add(np.array(data))
        return data

    def standardize(data: Any, center: Any = True, rescale: Any = True, ddof: float = 0, _state: Any = None) -> Any:
        return scale(data, center, rescale, ddof, _state)

    def center(data: Any, _state: Any = None) -> Any:
        return scale(data, scale=False, _state=_state)

    def ends(data: Any, *_: Any, _state: Any = None, **__: Any) -> Any:
        values = np.asarray(data)
        if values.ndim == 1 and values.dtype.kind in "biuf":
            low, high = int(values.argmin()), int(values.argmax())
            _state["ends"] = [(-1, low, float(values[low])), (1, high, float(values[high]))]
        return data

    recorders = {"scale": scale, "standardize": standardize, "center": center} | dict.fromkeys(SAMPLED, ends)
    return {name: stateful_transform(recorder) for name, recorder in recorders.items()}
