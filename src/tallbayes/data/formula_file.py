"""What a formula has learned as JSON text, and back again, to the last bit.

The text may have been changed by accident or by a stranger. What is read must fit together: the coefficients must be
those of the formula's terms, and whatever its terms remember must be there; else it would be learned anew from other
rows, and predictions would be wrong without a word.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tallbayes.data.functions import WITH_MEMORY
from tallbayes.data.kinds import Levels
from tallbayes.data.parsed import Parsed, parse
from tallbayes.data.syntax import tree
from tallbayes.data.texts import USUAL, Texts

FORMAT_VERSION = 2
READABLE = (1, 2)  # format 1 knew no events, offsets and columns left out
INTERCEPT = "Intercept"

_LATER: dict[str, Any] = {  # what formulas lack that were saved before there was such a thing
    "group_levels": [], "event": None, "offset_transforms": {"dict": []}, "left_out": [], "texts": USUAL,
    "flags": [], "zones": {},
}  # fmt: skip


def to_json(parts: dict[str, Any]) -> str:
    """The parts of a formula, by name, as text."""
    packed = {name: _pack(parts[name]) for name in ("transforms", "categories", "offset_transforms")}
    return json.dumps({"version": FORMAT_VERSION} | parts | packed)


def from_json(text: str) -> dict[str, Any]:
    """The parts of a formula that a text has; ValueError says what is wrong with it."""
    try:
        saved = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"the saved formula is not JSON ({error})") from error
    version = saved.get("version") if isinstance(saved, dict) else None
    if version not in READABLE:
        raise ValueError(f"expected a formula saved in format {FORMAT_VERSION}, got format {version}")
    try:
        saved = _LATER | saved
        found = {
            "parsed": parse(_is(saved["text"], str)),
            "coefficients": _names(saved["coefficients"]),
            "levels": {_is(name, str): _levels(name, *levels) for name, levels in saved["levels"].items()},
            "transforms": _is(_unpack(saved["transforms"]), dict),
            "categories": {_is(name, str): _scalars(one) for name, one in _unpack(saved["categories"]).items()},
            "group_levels": tuple(_scalars(saved["group_levels"])),
            "event": _scalars([saved["event"]])[0],
            "offset_transforms": _is(_unpack(saved["offset_transforms"]), dict),
            "left_out": _names(saved["left_out"]),
            "texts": Texts.of(*saved["texts"]),
            "flags": _names(saved["flags"]),
            "zones": {_is(name, str): _is(zone, str) for name, zone in _is(saved["zones"], dict).items()},
        }
    except KeyError as error:
        raise ValueError(f"the saved formula lacks {error}") from error
    except (TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"the saved formula is not as it was written ({error})") from error
    _check(**found)
    return found


def _check(
    parsed: Parsed,
    coefficients: tuple[str, ...],
    levels: dict[str, Levels],
    transforms: dict[str, Any],
    categories: dict[str, list[Any]],
    group_levels: tuple[Any, ...],
    event: Any,
    offset_transforms: dict[str, Any],
    left_out: tuple[str, ...],
    texts: Texts,
    flags: tuple[str, ...],
    zones: dict[str, str],
) -> None:
    """Raise ValueError if the parts do not fit each other."""
    every = (*coefficients, *left_out)
    if not coefficients or len(set(every)) < len(every):
        raise ValueError(f"the coefficients {every} of the saved formula are missing or repeated")
    for what, told in (("levels of", [*levels]), ("a flag", [*flags]), ("a time zone of", [*zones])):
        if strange := [name for name in told if name not in parsed.columns]:
            raise ValueError(f"the saved formula {parsed.text!r} has {what} {strange[0]!r}, which is not in it")
    if (parsed.group is None) != (len(group_levels) == 0):
        raise ValueError(f"the saved formula {parsed.text!r} has a group term without groups, or groups without one")
    factors = {factor.expr: factor for term in parsed.right for factor in term.factors}
    names = {INTERCEPT if expr == "1" else expr for expr in factors}
    if strange := [name for name in every if not _made_of(name, names)]:
        raise ValueError(f"the coefficient {strange[0]!r} does not belong to the saved formula {parsed.text!r}")
    for term in parsed.right:
        alone = [factor.expr for factor in term.factors if factor.eval_method.value == "lookup"]
        if len(term.factors) == len(alone) == 1 and alone[0] not in levels and alone[0] not in every:
            raise ValueError(f"the saved formula {parsed.text!r} has no coefficient for {alone[0]!r}")
    expressions = [expr for expr, factor in factors.items() if factor.eval_method.value == "python"]
    _check_memory(parsed.text, expressions, transforms)
    _check_memory(parsed.text, [] if parsed.offset is None else [parsed.offset.text], offset_transforms)


def _check_memory(text: str, expressions: Iterable[str], transforms: dict[str, Any]) -> None:
    """Raise ValueError if terms would have to learn something anew."""
    calls = {
        ast.unparse(call): call.func.id
        for expression in expressions
        for call in ast.walk(tree(expression)[0])
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in WITH_MEMORY
    }
    forgetful = sum(name == "Q" or (name == "poly" and "raw" in call) for call, name in calls.items())
    known = sum(isinstance(state, dict) and bool(state) for state in transforms.values())
    if len(transforms) != len(calls) or known < len(calls) - forgetful:
        raise ValueError(
            f"the saved formula {text!r} has {len(calls)} terms such as scale(x) that remember something of the data, "
            f"but what they remember is there for {known} only"
        )


def _made_of(name: str, factors: Iterable[str]) -> bool:
    """Whether a coefficient's name is a product of factors, each perhaps with a level in brackets."""
    starts, seen = [0], set[int]()
    while starts:
        start = starts.pop()
        if start in seen:
            continue
        seen.add(start)
        for factor in factors:
            if not name.startswith(factor, start):
                continue
            end = start + len(factor)
            ends = [end]
            if name[end : end + 1] == "[":
                ends += [place + 1 for place in range(end, len(name)) if name[place] == "]"]
            if len(name) in ends:
                return True
            starts += [place + 1 for place in ends if name[place] == ":"]
    return False


def _is(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"the saved formula has {str(value)[:40]!r} where a {kind.__name__} belongs")
    return value


def _names(value: Any) -> tuple[str, ...]:
    return tuple(_is(name, str) for name in _is(value, list))


def _scalars(value: Any) -> list[Any]:
    for one in _is(value, list):
        if not (one is None or isinstance(one, bool | int | float | str)):
            raise ValueError(f"the saved formula has {str(one)[:40]!r} where a level belongs")
    return list(value)


def _levels(name: str, values: Any, ordered: Any) -> Levels:
    if not _scalars(values) or len({*values}) < len(values):
        raise ValueError(f"column {name!r} of the saved formula has no levels, or repeated ones")
    return Levels(values, _is(ordered, bool))


def _pack(value: Any) -> Any:
    """Turn learned state into what JSON can hold; `_unpack` is its inverse."""
    if isinstance(value, np.ndarray):
        return {"array": value.ravel().tolist(), "dtype": str(value.dtype), "shape": value.shape}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {"dict": [[_pack(key), _pack(entry)] for key, entry in value.items()]}
    if isinstance(value, list):
        return [_pack(entry) for entry in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"cannot save what the formula learned: {value!r} of type {type(value).__name__}")


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpack(entry) for entry in value]
    if isinstance(value, dict) and "array" in value:
        return _array(value["array"], value["dtype"], value["shape"])
    if isinstance(value, dict):
        return {_unpack(key): _unpack(entry) for key, entry in value["dict"]}
    return value


def _array(entries: Sequence[Any], dtype: Any, shape: Any) -> Any:
    """An array of numbers: others could be of any size."""
    kind = np.dtype(_is(dtype, str))
    if kind.kind not in "biuf" or kind.itemsize > 8:
        raise ValueError(f"the saved formula has an array of {str(dtype)[:40]!r}, not of numbers")
    found = np.array(_is(entries, list), dtype=kind)
    if [*_is(shape, list)] != [abs(int(one)) for one in shape]:
        raise ValueError("the saved formula has an array without a shape")
    return found.reshape(shape)
