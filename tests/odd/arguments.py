"""Wrong types and impossible values for every argument of every door."""

from __future__ import annotations

import datetime
import decimal
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tallbayes as tb
from odd.case import FEW, Case, Table, pick, refused
from tallbayes.results.example import example

KIND = "arguments"
HUGE = 10**9
TINY = {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]}
ARRAYS, FITTED = (np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 0, 1])), {"random_state": 1}
TYPES: tuple[Any, ...] = (
    "a", "", b"1", [1], (1, 2), {}, {"a": 1}, {1}, object(), int, len, 1j, np.array([1, 2]), np.array([]),
    pd.Series([1]), pd.DataFrame({"a": [1]}), datetime.date(2020, 1, 1),
    decimal.Decimal("NaN"), ..., True, False, float("nan"), float("inf"), -float("inf"), slice(1),
    np.datetime64("2020-01-01"), pd.NA, Exception("a"), range(3),
)  # fmt: skip

WHOLE = (0, -1, 1.5, 1e3, "1000", -HUGE, np.float64(2.5), np.array([[1]]))
DRAWS: dict[str, tuple[Any, ...]] = {  # besides TYPES, what each argument of a run cannot be
    "draws": (*WHOLE, 10**12, 2**63, 2**64, 10**30),
    "chains": (*WHOLE, None, 10**6, 10**9, 2**63),
    "warmup": (-1, 1.5, "1000", 10**12, 2**64, np.float64(2.5)),
    "target_ess": (0, -1, "many", -0.5, [100]),
    "seed": (-1, 1.5, "1", -(2**40)),
}
CHOICES: dict[str, tuple[Any, ...]] = {
    "method": (None, 0, 1.5, "MH", "nuts", "hmc", "auto ", "two_stage", tb.MH, tb.Thinned, tb.Normal(), tb.Taylor()),
    "family": (None, 0, 1.5, "Bernoulli", "binomal", "logit", "gaussian ", tb.Bernoulli, tb.Poisson, tb.Normal(),
    {"name": "no"}, {"family": 1}),
    "prior": (0, 1.5, "normal", "normal(0)", "normal(0, -1)", "normal(a, b)", "normal(0, 1", "cauchy(0, 1)",
    tb.Normal, tb.HalfCauchy(), {"nothing": tb.Normal()}, {"x": 1}, {"x": "no"}, {3: tb.Normal()}, [tb.Normal()]),
    "group_prior": (0, 1.5, "normal(0, 1)", "half_normal", "half_normal(-1)", "half_cauchy(0)", tb.HalfNormal,
    tb.Normal(), {"g": tb.HalfNormal()}),
    "missing": (None, 0, "Drop", "skip", "impute"),
    "collinear": (None, 0, "Drop", "keep"),
    "memory": (0, -1, "lots", "2XB", "-2GB", "GB", 1.5, "1e400GB"),
    "cache": (0, 1.5),
    "engine": (0, 1.5, "dask", "10.0.0.1", "tcp://"),
    "checkpoint": (0, 1.5),
    "weights": (0, -1, "nothing", [1.0], np.ones((48, 2)), np.full(48, "a"), np.full(48, None)),
    "offset": ("nothing", [1.0], np.ones((48, 2)), np.full(48, "a"), np.full(48, None)),
    "outcome": ("never", 7, [1, 2], {"a": 1}),
}  # fmt: skip
MEANT: dict[str, tuple[type, ...]] = {  # of TYPES, what may be meant for an argument, or is a matter of other kinds
    "outcome": (bool, list, tuple, set, dict, str), "prior": (dict,), "cache": (str,), "checkpoint": (str,),
    "memory": (),
    "seed": (), "weights": (np.ndarray, list), "offset": (np.ndarray, list),
}  # fmt: skip
OPTIONS: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...], str]] = {
    "Normal mean": (lambda value: tb.Normal(value, 1),
    ("a", None, [0], 1j, np.nan, np.inf, True, np.array([1, 2]), {}, object()), "mean"),
    "Normal sd": (lambda value: tb.Normal(0, value),
    ("a", None, [1], 1j, np.nan, np.inf, 0, -1, True, np.array([1, 2]), object()), "sd"),
    "StudentT df": (lambda value: tb.StudentT(value), ("a", None, [1], 1j, np.nan, np.inf, 0, -1, True, object()),
    "df"),
    "StudentT scale": (lambda value: tb.StudentT(4, 0, value), ("a", None, [1], 1j, np.nan, np.inf, 0, -1, True),
    "scale"),
    "HalfCauchy scale": (lambda value: tb.HalfCauchy(value), ("a", None, [1], 1j, np.nan, np.inf, 0, -1, True),
    "scale"),
    "HalfNormal scale": (lambda value: tb.HalfNormal(value), ("a", None, [1], 1j, np.nan, np.inf, 0, -1, True),
    "scale"),
    "InverseSquare lower": (lambda value: tb.InverseSquare(value), ("a", None, [1], 1j, np.nan, np.inf, 0, -1, True),
    "lower"),
    "Bernoulli link": (lambda value: tb.Bernoulli(value), ("log", "", None, 1, ["logit"], "Logit", True), "link"),
    "Binomial trials": (lambda value: tb.Binomial(value), (5, [5], 1.5, True, b"t"), "trials"),
    "Poisson exposure": (lambda value: tb.Poisson(value), (5, [5], 1.5, True, np.ones(3)), "exposure"),
    "NegativeBinomial shape": (lambda value: tb.NegativeBinomial(value),
    ("a", None, [1], 1j, np.nan, np.inf, 0, -1, True), "shape"),
    "Gamma shape": (lambda value: tb.Gamma(value), ("a", None, [1], 1j, np.nan, np.inf, 0, -1, True), "shape"),
    "MH proposal": (lambda value: tb.fit("y ~ x", TINY, method=tb.MH(value), **FEW), (5, True, [1], "nuts", object()),
    "proposal"),
    "TwoStage surrogate": (lambda value: tb.TwoStage(value), (5, "taylor", True, [1], 1.5, tb.MH(), tb.Taylor),
    "surrogate"),
    "TwoStage subchain": (lambda value: tb.TwoStage(subchain=value), (-1, 1.5, "5", True, [1]), "subchain"),
    "Consensus shards": (lambda value: tb.Consensus(value), (0, -1, 1.5, "5", True, None, [1]), "shards"),
    "Consensus inner": (lambda value: tb.Consensus(2, inner=value),
    (0, "consensus", "nuts", tb.Consensus(2), tb.MH, 1.5, [1]), "inner"),
    "Consensus sharding": (lambda value: tb.Consensus(2, sharding=value), ("rows", 1, True, [1]), "sharding"),
    "Consensus combine": (lambda value: tb.Consensus(2, combine=value), ("median", 1, True, [1]), "combine"),
    "Consensus workers": (lambda value: tb.Consensus(2, workers=value), (0, -1, 1.5, "2", True), "workers"),
    "Subsampling estimator": (lambda value: tb.Subsampling(value), (5, "taylor", True, tb.TaylorProxy, tb.Taylor()),
    "estimator"),
    "CaseControl size": (lambda value: tb.CaseControl(value), (0, -1, 1.5, "5", True, [1], None), "size"),
    "Subsample size": (lambda value: tb.Subsample(value), (0, -1, 1.5, "5", True, [1], None), "size"),
    "Stratified size": (lambda value: tb.Stratified(value, "g"), (0, -1, 1.5, "5", True, [1]), "size"),
    "Stratified by": (lambda value: tb.Stratified(10, value), (5, True, [1], 1.5, b"g"), "by"),
    "Taylor size": (lambda value: tb.Taylor(value), (-1, 1.5, "5", True, [1]), "remainders"),
    "Uniform": (lambda value: tb.Uniform(*value),
    ((1, 0), (0, 0), ("a", 1), (np.nan, 1), (0, np.inf), (None, 1), ([0], 1)), "low|high|uniform|bounds|limits"),
    "LogNormal": (lambda value: tb.LogNormal(*value),
    ((0, 0), (0, -1), ("a", 1), (np.nan, 1), (0, np.inf), (None, 1), ([0], 1)), "mean|sd|scale|lognormal"),
    "scan": (lambda value: tb.scan(value), (5, None, "a", [1], True, pd.DataFrame({"a": [1]})), "function|scan"),
    "load": (lambda value: tb.load(value), (5, None, [1], True, 1.5, b"", object()), "path|file|load"),
    "resume": (lambda value: tb.resume(value), (5, None, [1], True, 1.5, object()), "checkpoint|path|folder"),
    "sample": (lambda value: tb.sample(value, draws=5, progress=False),
    (5, None, "a", [1], True, tb.MH(), pd.DataFrame({"a": [1]}), tb.GLM), "model"),
    "find_mode": (lambda value: tb.find_mode(value), (5, None, "a", [1], pd.DataFrame({"a": [1]})), "model"),
    "compare": (lambda value: tb.compare(a=value), (5, None, "a", [1], pd.DataFrame({"a": [1]})), "a|fit"),
    "compare_parameters": (lambda value: tb.compare_parameters(a=value), (5, None, "a", [1]), "a|fit"),
    "BayesLogistic collinear": (lambda value: tb.BayesLogistic(collinear=value).fit(*ARRAYS),
    (None, 0, "Drop", "keep", True, [1]), "collinear"),
    "BayesPoisson fit_intercept": (lambda value: tb.BayesPoisson(fit_intercept=value).fit(*ARRAYS),
    (None, 0, "no", [1], 1.5), "fit_intercept"),
    "BayesLinear random_state": (lambda value: tb.BayesLinear(random_state=value).fit(*ARRAYS),
    (-1, 1.5, "1", True, [1], object()), "random_state"),
    "BayesLogistic sample_weight": (lambda value: tb.BayesLogistic(**FITTED).fit(*ARRAYS, sample_weight=value),
    (-1, 0, "a", [1.0], np.full(4, -1.0), np.full(4, np.nan), np.full(4, "a"), np.zeros(4), np.ones((4, 2))),
    "sample_weight"),
    "BayesLinear interval": (lambda value: tb.BayesLinear(**FITTED).fit(*ARRAYS).predict(ARRAYS[0], interval=value),
    (0, 1, -0.5, "a", [0.5], True, np.nan), "interval"),
    "summary interval": (lambda value: example().summary(interval=value),
    ("a", None, [0.9], 1j, np.nan, np.inf, 0, 1, -1, True, 94), "interval"),
    "summary kind": (lambda value: example().summary(kind=value), ("HDI", None, 1, ["hdi"], True), "kind"),
    "summary exponentiate": (lambda value: example().summary(exponentiate=value), ("yes", None, 1, [True]),
    "exponentiate"),
    "a parameter": (lambda value: example()[value], (0, None, ["fico"], ("fico",), slice(1), "", "fcio", b"fico"),
    "parameter"),
    "draws_frame": (lambda value: example().draws_frame(value), (0, "fico", ["fcio"], [1], {"fcio"}, True),
    "parameter"),
    "prob": (lambda value: example().prob(value),
    (5, None, [1], "", "fico", "fico >", "fcio > 0", "1 > 0", "import os", "__import__('os').system('ls') > 0",
    "eval('1') > 0", "fico.real > 0", "fico[0] > 0", "fico > 'a'", "1 / (fico - fico) > 0", "fico > 10 ** 400", True,
    "fico > 0; fico", "lambda: fico", "[fico for fico in 'a']", "fico = 0", "fico > 1j"),
    "fit.prob|parameter|expression"),
    "contrast": (lambda value: example().contrast(value),
    (5, None, [], {}, [1], {"a": 1}, {1: "fico"}, "", "fico > 0", "fcio", "fico - (1 / 0)", "2", True, [["fico"]]),
    "fit.contrast|parameter|expression|contrasts"),
    "plot kind": (lambda value: example().plot(kind=value), ("bars", None, 1, ["forest"], "caterpillar"), "kind"),
    "update": (lambda value: tb.fit("y ~ x", TINY, **FEW).update(value, progress=False),
    (5, None, [1], "", "z", "~", "~ . +", "~ . - z", "~ . + (1 | x", "~ . * .5", "~ s(.)", "~ . + eval('1')", True),
    "formula|change|cannot understand"),
    "compare_models": (lambda value: tb.compare_models(a=value, b=value),
    (5, None, "a", [1], pd.DataFrame({"a": [1]})), "a|fit"),
    "constants": (lambda value: tb.family("-(s * (y - eta)) ** 2", **value),
    ({"s": "a"}, {"s": None}, {"s": np.nan}, {"s": True}, {"s": 10**400}, {"s": np.array(2.0)}, {"s": 1, "y": 1},
    {"s": 1, "r": 2}, {"s": 1, "": 2}, {"s": 1, "a b": 2}, {"s": 1, "class": 2}), "constant"),
    "family()": (lambda value: tb.family(value),
    (5, None, [1], "", "y +", "y * nothing", "import os", "__import__('os')", "y * eta +", "eval('1')", "eta.real",
    "y[0]", True),
    "log_likelihood|expression|function|family|eta"),
}  # fmt: skip


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """Each argument with values of types that it cannot have, and with numbers that it cannot be."""
    table = Table(rng)
    options = {**FEW}
    model = functools.cache(lambda: tb.GLM("y ~ x", table.dict()))
    for name, wrong in {**DRAWS, **CHOICES}.items():
        meant = MEANT.get(name, ())
        others = [one for one in TYPES if not isinstance(one, meant) and not _equal(one, wrong)]
        if name in ("method", "family", "missing", "collinear", "engine", "weights", "offset"):
            others = [one for one in others if not isinstance(one, bool) or name not in ("weights", "offset")]
        some = [others[place] for place in rng.permutation(len(others))[:9]]
        for value in (*wrong, *some):
            given = {**options, name: value}
            words = (
                f"{name}|column" if name in ("weights", "offset") and isinstance(value, str) else name.replace("_", "|")
            )
            words = "engine|scheduler" if name == "engine" else words
            call = lambda folder, given=given, name=name: _fit(table, name, given)  # noqa: E731
            yield refused(KIND, f"fit {name}={_shown(value)}", call, words, alone=name == "engine")
    for name in DRAWS:
        for value in (*DRAWS[name], *(pick(rng, TYPES) for _ in range(3))):
            if isinstance(value, MEANT.get(name, ())):
                continue
            given = {**options, name: value}
            yield refused(
                KIND,
                f"sample {name}={_shown(value)}",
                lambda folder, given=given: tb.sample(model(), **given),
                name.replace("_", "|"),
            )
    for name, (make, wrong, words) in OPTIONS.items():
        for value in wrong:
            yield refused(KIND, f"{name} {_shown(value)}", lambda folder, make=make, value=value: make(value), words)
    for name in ("surrogate", "shards", "iterations", "samples", "nchains", "random_state", "weight"):
        yield refused(
            KIND,
            f"fit with {name}",
            lambda folder, name=name: tb.fit("y ~ x", table.dict(), **options, **{name: 1}),
            name,
        )
    yield Case(
        KIND,
        "a fit, after an engine that does not answer",
        lambda folder: _after(table, folder),
        _loads,
        (),
        True,
        alone=True,
    )
    yield from _arrays(table)


def _after(table: Table, folder: Path) -> Any:
    """What fails may not change what comes after it."""
    try:
        tb.fit("y ~ x", table.dict(), engine="nowhere", **FEW)
    except ValueError as error:
        told = error  # it is kept, as notebooks do
        fit = tb.fit("y ~ x", table.dict(), **FEW)
        fit.save(folder / "fit.nc")
        return fit, tb.load(folder / "fit.nc"), told


def _loads(found: Any) -> list[str]:
    return [] if np.array_equal(found[0].draws, found[1].draws) else ["another fit was loaded"]


def _fit(table: Table, name: str, given: dict[str, Any]) -> Any:
    formula = "y ~ x + (1 | g)" if name == "group_prior" else "y ~ x"
    return tb.fit(formula, table.dict(), **given)


def _equal(one: Any, others: tuple[Any, ...]) -> bool:
    return any(type(one) is type(other) and repr(one) == repr(other) for other in others)


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {value!r:.30}".split(" at 0x")[0].replace("\n", " ")


def _arrays(table: Table) -> Iterator[Case]:
    """`GLM.from_arrays`, whose arrays come from anywhere."""
    n = table.rows
    x, y = np.stack([np.ones(n), table["x"]], 1), table["y"]
    wrong: dict[str, tuple[dict[str, Any], str]] = {
        "X of one dimension": ({"X": table["x"]}, "X"), "X transposed": ({"X": x.T}, "X"),
        "X empty": ({"X": np.empty((0, 2)), "y": []}, "X"), "X of three dimensions": ({"X": x[None]}, "X"),
        "X of text": ({"X": x.astype(str).astype(object) + "a"}, "X"),
        "X of objects": ({"X": np.full((n, 2), None)}, "X|x0"), "X complex": ({"X": x + 1j}, "X"),
        "X with NaN": ({"X": np.where(x == 1, np.nan, x)}, "x0"),
        "X with inf": ({"X": np.where(x == 1, np.inf, x)}, "x0"), "X ragged": ({"X": [[1.0], [1.0, 2.0]]}, "X"),
        "X masked": ({"X": np.ma.masked_array(x, mask=x > 1.5)}, "X|x0|x1"), "X None": ({"X": None}, "X"),
        "X of dates": ({"X": np.full((n, 2), np.datetime64("2020-01-01"))}, "X"),
        "X a text": ({"X": "abc"}, "X"), "X sparse": ({"X": __import__("scipy.sparse").sparse.csr_matrix(x)}, "X"),
        "y too short": ({"y": y[:5]}, "y"), "y of two columns": ({"y": np.stack([y, y], 1)}, "y"),
        "y of text": ({"y": np.where(y == 1, "yes", "no")}, "y"),
        "y None": ({"y": None}, "y"), "y masked": ({"y": np.ma.masked_array(y, mask=y > 0)}, "y"),
        "y of 2": ({"y": y + 1}, "y"), "y NaN": ({"y": np.where(y == 1, np.nan, 0)}, "y"),
        "y complex": ({"y": y + 0j}, "y"), "names too few": ({"coefficients": ["a"]}, "coefficient"),
        "names twice": ({"coefficients": ["a", "a"]}, "coefficient"),
        "names a text": ({"coefficients": "ab"}, "coefficients"),
        "names a number": ({"coefficients": 5}, "coefficient"),
        "names empty": ({"coefficients": ["", "a"]}, "coefficient"),
        "weights too short": ({"weights": [1.0]}, "weights"),
        "weights negative": ({"weights": -np.ones(n)}, "weights"),
        "weights NaN": ({"weights": np.full(n, np.nan)}, "weights"),
        "weights a name": ({"weights": "w"}, "weights"), "weights of text": ({"weights": np.full(n, "a")}, "weights"),
        "weights masked": ({"weights": np.ma.masked_array(np.ones(n), mask=y > 0)}, "weights"),
        "offset too short": ({"offset": [1.0]}, "offset"), "offset inf": ({"offset": np.full(n, np.inf)}, "offset"),
        "offset a name": ({"offset": "o"}, "offset"),
        "offset 2-D": ({"offset": np.ones((n, 2))}, "offset"), "family None": ({"family": None}, "family"),
        "family gaussian": ({"family": "gaussian"}, "gaussian"),
        "family of trials": ({"family": tb.Binomial("t")}, "trials"), "prior 5": ({"prior": 5}, "prior"),
        "prior of nothing": ({"prior": {"nothing": tb.Normal()}}, "nothing"),
    }  # fmt: skip
    for name, (changed, words) in wrong.items():
        given = {"X": x, "y": y, **changed}
        yield refused(KIND, f"from_arrays: {name}", lambda folder, given=given: tb.GLM.from_arrays(**given), words)
