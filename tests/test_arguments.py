"""Wrong arguments of all public functions: one error each, which names the argument, what it must be, what it was."""

from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tallbayes as tb
from tallbayes.data.options import check_number, check_whole, shown
from tallbayes.groups.example import group_example
from tallbayes.results.example import example
from tallbayes.splines.example import example_mars

X, Y = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [0, 1, 0, 1, 0, 1]
DATA = {"x": X, "y": Y, "g": list("aabbcc"), "w": [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]}
MATRIX = np.column_stack([np.ones(6), X])
NAN, INF = float("nan"), float("inf")


def fit(formula="y ~ x", data=DATA, **given):
    return tb.fit(formula, data, **{"draws": 20, "seed": 1, "progress": False} | given)


def model(prior=None, start=None, data=DATA, function=lambda theta, rows: -((rows.y - theta.m) ** 2), **given):
    return tb.Model(function, prior or {"m": tb.Normal()}, start or {"m": 0.0}, data, **given)


def glm(**given):
    return tb.GLM("y ~ x", DATA, **given)


FIT, GROUPS, MARS = example(), group_example(5), example_mars()
GLM = glm()
LINEAR = tb.BayesLinear(random_state=1).fit(MATRIX, X)

WHOLE = "must be a whole number"
WRONG = [  # the call and what its message says
    *[
        (lambda name=name, value=value: fit(**{name: value}), f"^{name} {what}")
        for name, what, values in (
            ("draws", WHOLE, (True, 0, -1, 1.5, "100", NAN, INF, [100], np.float64(3))),
            ("chains", WHOLE, (None, True, 0, 2.0, "4", 10**6)),
            ("warmup", WHOLE, (True, -1, 0.5, "a")),
            ("seed", WHOLE, (True, -1, 1.5, "a", [1], np.random.default_rng(1))),
            ("target_ess", "must be a positive number", (True, 0, -1, "a", NAN, INF, [100.0])),
            ("method", "must be one of 'auto'", (None, 3, tb.MH, ["mh"], {"mh": 1})),
            ("method", "'nuts' is not known; choose one of auto", ("nuts",)),
            ("family", "must be one of 'bernoulli'", (None, 3, tb.Poisson, ["poisson"], np.array([1.0, 2.0]))),
            ("family", "'poison' is not known; did you mean 'poisson'", ("poison",)),
            ("prior", "must be tb.Normal, tb.StudentT, a text", (3, tb.Normal, [tb.Normal()], True, tb.HalfNormal(1))),
            ("group_prior", "must be tb.HalfCauchy, tb.HalfNormal", (3, tb.HalfNormal, tb.Normal(0, 1), [1.0])),
            ("missing", ".* is not known; choose one of refuse, drop", (None, True, "ignore", ["drop"])),
            ("collinear", ".* is not known; choose one of refuse, drop", (None, 1, "keep")),
            ("memory", "must be a size of at least 50 MB", (-1, 0, "0", "1B", "much", True, NAN, INF, [1], b"2GB")),
            ("cache", "must be the path of a folder", (3, b"folder", True, "", ["a"])),
            ("checkpoint", "must be the path of a folder", (3, b"folder", True, "")),
            ("progress", "must be True or False", (None, 1, "no")),
            (
                "weights",
                "must be numbers, one for each row, or the name of a column",
                (["a"] * 6, list("123456"), {"w": 1}, {1, 2}),
            ),
            (
                "weights",
                "must be numbers, one for each row, or the name of a column",
                (np.ones(6, complex), np.ones(6, "M8[s]"), [[1], [2, 3]]),
            ),
            (
                "offset",
                "must be numbers, one for each row, or the name of a column",
                (["a"] * 6, np.ones(6, "m8[s]"), [None, "a"] * 3, b"w"),
            ),
            ("offset", "has shape", (1.0, [1.0, 2.0], np.ones((6, 2)), [])),
        )
        for value in values
    ],
    (lambda: fit(3), "^formula must be a text such as 'y ~ x', not 3"),
    (lambda: fit(None), "^formula must be a text"),
    (lambda: fit(["y ~ x"]), "^formula must be a text"),
    (lambda: fit(""), "^formula must be a text"),
    (lambda: fit(engine=3), "^engine= takes a Dask client"),
    (lambda: fit(prior={"x": 3}), "^the prior of 'x' must be tb.Normal, tb.StudentT, a text such as 'normal.*, not 3"),
    (lambda: fit(prior={3: tb.Normal()}), "^a name in prior must be the name of a coefficient, not 3"),
    (lambda: fit(prior={"x": None}), "^the prior of 'x' must be tb.Normal"),
    (lambda: fit(prior="normal(0)"), "^the prior 'normal.0.' is not like normal"),
    (lambda: fit(weights=[1.0, NAN, 1.0, 1.0, INF, 1.0]), "^weights has 2 missing or infinite values"),
    (lambda: fit(weights=np.ma.array(np.ones(6), mask=[0, 1, 0, 0, 0, 0])), "^weights has 1 missing or infinite value"),
    (lambda: fit(offset=pd.array([1, None] * 3, dtype="Int64")), "^offset has 3 missing or infinite values"),
    # priors
    (lambda: tb.Normal("0", 1), "^prior mean must be a number whose size is at most 1e.100, not '0'"),
    (lambda: tb.Normal(0, 0), "^prior sd must be a positive number from 1e-100 to 1e.100, not 0"),
    (lambda: tb.Normal(0, True), "^prior sd must be a positive number .* not True"),
    (lambda: tb.Normal(NAN, 1), "^prior mean must be a number .* not nan"),
    (lambda: tb.Normal(0, [1, 2]), r"^prior sd must be a positive number .* not \[1, 2\]"),
    (lambda: tb.Normal(0, np.array([1.0, 2.0])), "^prior sd must be a positive number"),
    (lambda: tb.StudentT(INF), "^prior df must be a positive number"),
    (lambda: tb.StudentT(3, 0, -1), "^prior scale must be a positive number"),
    (lambda: tb.HalfCauchy("2"), "^the scale of a group prior must be a positive number"),
    (lambda: tb.HalfNormal(None), "^the scale of a group prior must be a positive number"),
    (lambda: tb.InverseSquare(-1), "^the lower limit of a group prior must be a positive number"),
    (lambda: tb.LogNormal(None, 1), "^the mean of a LogNormal prior must be a number"),
    (lambda: tb.LogNormal(0, 0), "^the sd of a LogNormal prior must be a positive number"),
    (lambda: tb.Uniform("a", 1), "^the lower end of a Uniform prior must be a number"),
    (lambda: tb.Uniform(2, 1), "^a Uniform prior needs two ends, the lower one first"),
    # families
    (lambda: tb.Bernoulli(3), "^link 3 is not known; choose one of logit"),
    (lambda: tb.Bernoulli(np.array(["logit"])), "^link .* is not known"),
    (lambda: tb.Binomial(3), "^trials must be the name of a column, not 3"),
    (lambda: tb.Poisson([1.0]), r"^exposure must be the name of a column .*, not \[1.0\]"),
    (lambda: tb.NegativeBinomial("2"), "^shape must be a positive number"),
    (lambda: tb.NegativeBinomial(True), "^shape must be a positive number"),
    (lambda: tb.Gamma(None), "^shape must be a positive number"),
    (lambda: tb.family(3), "^expression must be a text"),
    (lambda: tb.family("y * eta", outcomes=3), "^outcomes 3 is not known; choose one of numbers"),
    (lambda: tb.family("y * eta", mean=3), "^mean must be a text such as 'exp.eta.', not 3"),
    (lambda: tb.family("y * eta", name=3), "^name must be a text, not 3"),
    (lambda: tb.family("s * y * eta", s="1"), "^the constant 's' must be a number, not '1'"),
    (lambda: tb.family("s * y * eta", s=NAN), "^the constant 's' must be a number, not nan"),
    (lambda: tb.family(value=3), "^value must be a function of y and eta, not 3"),
    # methods and surrogates
    (lambda: tb.MH(3), "^proposal must be the name of a proposal.*, not 3"),
    (lambda: tb.TwoStage(3), "^surrogate must be tb.Taylor, tb.CaseControl.*, not 3"),
    (lambda: tb.TwoStage("taylor"), "^surrogate must be tb.Taylor.*, not 'taylor'"),
    (lambda: tb.TwoStage(tb.Taylor), "^surrogate must be tb.Taylor.*, not the class Taylor itself"),
    (lambda: tb.TwoStage(subchain=True), "^subchain must be a whole number from 0 to 1,000, not True"),
    (lambda: tb.TwoStage(subchain=10**9), "^subchain must be a whole number from 0 to 1,000"),
    (lambda: tb.TwoStage(proposal=["a"]), "^proposal must be the name"),
    (lambda: tb.Consensus(None), f"^shards {WHOLE}"),
    (lambda: tb.Consensus(10**9), f"^shards {WHOLE} from 1 to 10,000"),
    (lambda: tb.Consensus(2, inner=3), "^inner must be one of 'auto'"),
    (lambda: tb.Consensus(2, inner="consensus"), "^inner 'consensus' is not known"),
    (lambda: tb.Consensus(2, sharding=3), "^sharding 3 is not known; choose one of random"),
    (lambda: tb.Consensus(2, combine=["average"]), "^combine .* is not known; choose one of average"),
    (lambda: tb.Consensus(2, workers=0), f"^workers {WHOLE} of at least 1, not 0"),
    (lambda: tb.Subsampling(3), "^estimator must be tb.TaylorProxy or tb.SplineProxy, not 3"),
    (lambda: tb.Subsampling(tb.Taylor()), "^estimator must be tb.TaylorProxy or tb.SplineProxy, not Taylor"),
    (lambda: tb.TaylorProxy(True), f"^size {WHOLE} from 2 to 1,000,000, not True"),
    (lambda: tb.SplineProxy("7"), f"^size {WHOLE} from 2 to 1,000,000, not '7'"),
    (lambda: tb.SplineProxy(7, None), f"^points {WHOLE} from 2 to 10,000, not None"),
    (lambda: tb.Taylor(-1), f"^remainders {WHOLE} of at least 0, not -1"),
    (lambda: tb.Subsample(1.5), f"^size {WHOLE} of at least 1, not 1.5"),
    (lambda: tb.CaseControl(None), f"^size {WHOLE}"),
    (lambda: tb.CaseControl(5, "yes"), "^uniform must be True or False, not 'yes'"),
    (lambda: tb.Stratified(5, 3), "^by must be the name of a column, not 3"),
    (lambda: tb.Stratified(5, "g", cases=1), "^cases must be True or False, not 1"),
    (lambda: tb.Cells(0), f"^count {WHOLE}"),
    (lambda: tb.Cells(10, 10**9), f"^pairs {WHOLE} from 1 to 1,000,000"),
    (lambda: tb.TwoStage(tb.Cells()).kernel(GLM), "^tb.Cells is a surrogate for splines"),
    (lambda: tb.MH("hmc").kernel(GLM), "^proposal 'hmc' is not known; choose one of one-at-a-time"),
    # estimators
    *[
        (lambda kind=kind, given=given: kind(**given).fit(MATRIX, Y), message)
        for kind in (tb.BayesLogistic, tb.BayesPoisson, tb.BayesLinear)
        for given, message in (
            ({"prior": 3}, "^prior must be tb.Normal"),
            ({"fit_intercept": "no"}, "^fit_intercept must be True or False, not 'no'"),
            ({"collinear": True}, "^collinear True is not known; choose one of refuse, drop"),
            ({"draws": 1.5}, f"^draws {WHOLE}"),
            ({"chains": None}, f"^chains {WHOLE}"),
            ({"random_state": -1}, f"^random_state {WHOLE} of at least 0, not -1"),
            ({"random_state": True}, f"^random_state {WHOLE}"),
            ({"progress": 1}, "^progress must be True or False, not 1"),
        )
    ],
    (lambda: tb.BayesLogistic(method="nuts").fit(MATRIX, Y), "^method 'nuts' is not known"),
    (lambda: LINEAR.predict(MATRIX, interval=1), "^interval must be a number between 0 and 1, not 1"),
    (lambda: LINEAR.predict(MATRIX, interval="90%"), "^interval must be a number between 0 and 1, not '90%'"),
    (lambda: LINEAR.predict(MATRIX, interval=0.9, draws=0), f"^draws {WHOLE} of at least 1, not 0"),
    (lambda: LINEAR.predict(MATRIX, noise="yes"), "^noise must be True or False, not 'yes'"),
    # models
    (lambda: tb.GLM(3, DATA), "^formula must be a text such as 'y ~ x', not 3"),
    (lambda: glm(strata="g"), "^strata must be a list of columns' names, not 'g'"),
    (lambda: glm(missing=3), "^missing 3 is not known"),
    (lambda: tb.GLM.from_arrays("ab", Y), "^X must be numbers .rows, columns., but 'ab' at row 0 is not a number"),
    (lambda: tb.GLM.from_arrays(MATRIX, list("010101")), "^y must be numbers, one for each row"),
    (lambda: tb.GLM.from_arrays(MATRIX * 1j, Y), "^X must be numbers"),
    (lambda: tb.GLM.from_arrays(MATRIX, Y, coefficients="ab"), "^coefficients must be a list of names"),
    (lambda: tb.GLM.from_arrays(MATRIX, Y, coefficients=[1, 2]), "^coefficients must be a list of names"),
    (lambda: tb.GLM.from_arrays(np.where(MATRIX == 3, NAN, MATRIX), Y), "^'x1' has missing .* at row 3"),
    (lambda: tb.GLM.from_arrays(MATRIX, Y, collinear="keep"), "^collinear 'keep' is not known; choose one of refuse"),
    (lambda: tb.GaussianModel.from_arrays(MATRIX, Y, collinear=None), "^collinear None is not known"),
    (lambda: tb.Hierarchical.from_arrays(MATRIX, Y, [1, 1, 2, 2, NAN, 3]), "^groups has 1 missing value .* at row 4"),
    (lambda: tb.Hierarchical.from_arrays(MATRIX, Y, [*"aabb", None, "c"]), "^groups has 1 missing value"),
    (lambda: tb.Hierarchical.from_arrays(MATRIX, Y, [1, 1, 2, 2, "c", "c"]), None),  # NumPy makes them texts
    (
        lambda: tb.Hierarchical.from_arrays(MATRIX, Y, np.array([1, 1, 2, 2, "c", "c"], object)),
        "^groups has values of mixed types",
    ),
    (lambda: tb.Hierarchical.from_arrays(MATRIX, Y, 3), "^groups must be numbers or texts, one for each row, not 3"),
    (lambda: tb.GaussianModel("x ~ w", DATA, sd_prior=3), "^sd_prior must be tb.HalfCauchy"),
    (lambda: tb.find_mode(3), "^model must be a model without groups, such as tb.GLM makes, not 3"),
    (lambda: tb.find_mode(GLM, close="near"), "^close must be a positive number, not 'near'"),
    (lambda: tb.sample(3), "^model must be a model, such as tb.GLM"),
    (lambda: tb.sample(tb.GLM), "^model must be a model.*, not the class GLM itself"),
    (lambda: tb.sample("y ~ x", DATA), "^model must be a model"),
    (lambda: tb.sample(GLM, "nuts"), "^method 'nuts' is not known"),
    (lambda: tb.sample(GLM, draws=True), f"^draws {WHOLE}"),
    (lambda: tb.sample(GLM, checkpoint=3), "^checkpoint must be the path of a folder, not 3"),
    *[
        (lambda given=given: tb.MARS(np.random.default_rng(0).random((50, 2)), [0, 1] * 25, **given), message)
        for given, message in (
            ({"max_interaction": 9}, f"^max_interaction {WHOLE} from 1 to"),
            ({"max_bases": True}, f"^max_bases {WHOLE}"),
            ({"knots": 1}, f"^knots {WHOLE} of at least 2, not 1"),
            ({"reference": "all"}, f"^reference {WHOLE}"),
            ({"min_rows": 0}, f"^min_rows {WHOLE}"),
            ({"watched": None}, f"^watched {WHOLE}"),
            ({"seed": "a"}, f"^seed {WHOLE}"),
            ({"precision": 3}, "^precision must be a shape and a rate"),
            ({"precision": ("a", "b")}, "^precision must be a positive shape and rate"),
            ({"expected_bases": "5"}, "^expected_bases must be a positive number"),
            ({"lines": 2}, "^lines must be a probability from 0 to 1, not 2"),
            ({"column_memory": "1GB"}, "^column_memory must be a number of bytes, not '1GB'"),
            ({"names": "ab"}, "^names must be a list of names"),
            ({"missing": 3}, "^missing 3 is not known"),
        )
    ],
    (lambda: model(function=3), "^log_likelihood must be a function of theta and rows"),
    (lambda: model(prior=3), "^prior must be a dict with a prior for each parameter"),
    (lambda: model(prior={"m": 3}), "^the prior of 'm' must be tb.Normal"),
    (lambda: model(prior={"m": tb.Normal}), "^the prior of 'm' must be tb.Normal.*, not the class Normal itself"),
    (lambda: model(start=[1.0]), "^start must be a dict with a number or an array"),
    (lambda: model(start={"m": "a"}), "^the start of 'm' must be a finite number"),
    (lambda: model(start={"m": NAN}), "^the start of 'm' must be a finite number"),
    (lambda: model(columns="y"), "^columns must be a list of names, not 'y'"),
    (lambda: model(columns={"y": 3}), "^columns must be a dict of columns' names"),
    (lambda: model(levels="g"), "^levels must be a list of names, not 'g'"),
    (lambda: model(positive="m"), "^positive must be a list of names, not 'm'"),
    (lambda: model(outcome=3), "^outcome must be the name of a column, not 3"),
    (lambda: model(derivatives=3), "^derivatives must be a function of theta and rows, or 'jax', not 3"),
    (lambda: model(missing="ignore"), "^missing 'ignore' is not known"),
    # fits
    (lambda: FIT.predict({"fico": [1.0]}, draws=True), f"^draws {WHOLE}"),
    (lambda: FIT.predict({"fico": [1.0]}, draws=None), f"^draws {WHOLE}"),
    (lambda: FIT.predict({"fico": [1.0]}, interval=94), "^interval must be a number between 0 and 1, not 94"),
    (lambda: FIT.predict({"fico": [1.0]}, interval="0.9"), "^interval must be a number between 0 and 1, not '0.9'"),
    (lambda: FIT.predict({"fico": [1.0]}, interval=NAN), "^interval must be a number between 0 and 1, not nan"),
    (lambda: FIT.predict({"fico": [1.0]}, seed=None), f"^seed {WHOLE}"),
    (lambda: FIT.predict(None), "^cannot read data of type NoneType"),
    (lambda: FIT.predict(3), "^cannot read data of type int"),
    (lambda: FIT.predict_to({"fico": [1.0]}, 3), "^target must be the path of a file, or an open one, not 3"),
    (lambda: FIT.predict_to({"fico": [1.0]}, "a.csv", keep="fico"), "^keep must be a list of columns' names"),
    (lambda: FIT.save(3), "^path must be the path of a file, not 3"),
    (lambda: FIT.report(None), "^path must be the path of a page"),
    (lambda: FIT.edpm("a"), f"^thin {WHOLE}"),
    (lambda: FIT.edpm(setup=3), "^setup must be True or False, not 3"),
    (lambda: FIT.summary(interval=94), "^interval must be a number between 0 and 1, not 94"),
    (lambda: FIT.summary(interval=None), "^interval must be a number between 0 and 1, not None"),
    (lambda: FIT.summary(kind="HDI"), "^kind 'HDI' is not known; choose one of eti, hdi"),
    (lambda: FIT.summary(exponentiate="yes"), "^exponentiate must be True or False, not 'yes'"),
    (lambda: FIT[3], "^the name of a parameter must be a text, not 3"),
    (lambda: FIT["fico", "Intercept"], "^the name of a parameter must be a text, not .'fico', 'Intercept'."),
    (lambda: FIT.draws_frame("fico"), "^names must be a list of parameters' names, not 'fico'"),
    (lambda: FIT.prob(None), "^the expression must be a text such as 'age > 0', not None"),
    (lambda: FIT.contrast(None), "^contrasts must be a text such as 'a - b', a list of them, or a dict"),
    (lambda: FIT.contrast("fico", exponentiate=1), "^exponentiate must be True or False, not 1"),
    (lambda: FIT.contrast("fico", interval=0), "^interval must be a number between 0 and 1, not 0"),
    (lambda: FIT.contrast("fico", kind=3), "^kind 3 is not known; choose one of eti, hdi"),
    (lambda: FIT.plot("fico"), "^names must be a list of parameters' names, not 'fico'"),
    (lambda: FIT.plot(kind="forrest"), "^kind 'forrest' is not known; choose one of forest, density"),
    (lambda: fit().update(3), "^formula must be a change of the formula such as"),
    (lambda: fit().update(draws="a"), f"^draws {WHOLE}"),
    (lambda: FIT.more(), "^say how many more draws"),
    (lambda: FIT.more(draws=True), f"^draws {WHOLE}"),
    (lambda: MARS.effect(3), "^variables must be names of variables"),
    (lambda: MARS.effect("age", scale=3), "^scale 3 is not known; choose one of log-odds, probability"),
    (lambda: MARS.effect("age", interval=0), "^interval must be a number between 0 and 1, not 0"),
    (lambda: MARS.effect("age", grids=(["a"],)), "^grids must be a list of numbers for each variable"),
    (lambda: MARS.effect("age", draws="all"), f"^draws {WHOLE}"),
    # functions of fits and files
    (lambda: tb.compare(a=3, b=4), "^a must be a fit, as tb.fit"),
    (lambda: tb.compare(a=FIT, b=None), "^b must be a fit, as tb.fit"),
    (lambda: tb.compare_parameters(0, a=FIT), f"^thin {WHOLE}"),
    (lambda: FIT.loo("all"), f"^rows {WHOLE}"),
    (lambda: FIT.loo(1), f"^rows {WHOLE} of at least 2"),
    (lambda: FIT.loo(seed=-1), f"^seed {WHOLE}"),
    (lambda: FIT.loo(progress=None), "^progress must be True or False"),
    (lambda: FIT.loo(), "^this fit does not know how it was made"),
    (lambda: FIT.waic(None), f"^rows {WHOLE}"),
    (lambda: FIT.log_likelihood("all"), "^rows must be a number of rows, a list of different rows' numbers, or None"),
    (lambda: FIT.log_likelihood([0.5]), "^rows must be a number of rows"),
    (lambda: FIT.log_likelihood([1, 1]), "^rows must be a number of rows"),
    (lambda: FIT.log_likelihood([[1], [1, 2]]), "^rows must be a number of rows"),
    (lambda: FIT.log_likelihood(True), "^rows must be a number of rows"),
    (lambda: FIT.log_likelihood(0), f"^rows {WHOLE}"),
    (lambda: FIT.log_likelihood(seed="a"), f"^seed {WHOLE}"),
    (lambda: tb.compare_models(FIT), "^fits must be a dict of fits by name"),
    (lambda: tb.compare_models(a=FIT), "^a comparison needs two models at least"),
    (lambda: tb.compare_models({"a": FIT}, a=FIT), "^two of the fits have the same name"),
    (lambda: tb.compare_models(a=FIT, b=3), "^b must be a fit, or what fit.loo"),
    (lambda: tb.compare_models(a=FIT, b=FIT, kind="aic"), "^kind 'aic' is not known; choose one of loo, waic"),
    (lambda: tb.compare_models(a=FIT, b=FIT, rows=0), f"^rows {WHOLE}"),
    (lambda: tb.compare_models(a=FIT, b=FIT, seed=0.5), f"^seed {WHOLE}"),
    (lambda: tb.load(3), "^path must be the path of a file that fit.save wrote, not 3"),
    (lambda: tb.load(None), "^path must be the path"),
    (lambda: tb.resume(None), "^checkpoint must be the path of a folder, not None"),
    (lambda: tb.resume("nowhere", progress="no"), "^progress must be True or False, not 'no'"),
    (lambda: tb.scan(3), "^tb.scan takes a function"),
    (lambda: tb.datasets.simulate_loans("many"), f"^rows {WHOLE}"),
    (lambda: tb.datasets.simulate_loans(10, seed=None), f"^seed {WHOLE}"),
    (lambda: tb.datasets.simulate_mars(0), f"^rows {WHOLE}"),
    (lambda: tb.datasets.simulate_loans_in_pieces(10, piece=0.5), f"^piece {WHOLE}"),
    # figures
    *[
        (lambda draw=draw: draw(3), "^fit must be a fit, as tb.fit")
        for draw in (
            tb.plots.trace,
            tb.plots.forest,
            tb.plots.calibration,
            tb.plots.speed,
            tb.plots.seconds,
            tb.plots.caterpillar,
        )
    ],
    (lambda: tb.plots.density(3), "^fit 1 must be a fit, as tb.fit"),
    (lambda: tb.plots.density(FIT, names="fico"), "^names must be a list of parameters' names, not 'fico'"),
    (lambda: tb.plots.trace(FIT, names=[3]), "^names must be a list of parameters' names"),
    (lambda: tb.plots.trace(FIT, columns=0), f"^columns {WHOLE}"),
    (lambda: tb.plots.caterpillar(GROUPS, most="all"), f"^most {WHOLE}"),
    (lambda: tb.plots.forest(FIT, per="year"), "^per 'year' is not known; choose one of sd, unit"),
    (lambda: tb.plots.forest(FIT, per=3), "^per 3 is not known; choose one of sd, unit"),
    *[
        (lambda draw=draw: draw(FIT, narrow="yes"), "^narrow must be True or False, not 'yes'")
        for draw in (tb.plots.forest, tb.plots.trace, tb.plots.calibration, tb.plots.speed, tb.plots.seconds)
    ],
    (lambda: tb.plots.caterpillar(GROUPS, narrow=1), "^narrow must be True or False, not 1"),
    *[
        (lambda draw=draw: draw(MARS, narrow=1), "^narrow must be True or False, not 1")
        for draw in (tb.plots.importance, tb.plots.effects)
    ],
    (lambda: tb.plots.interaction(MARS, "age", "urban", narrow=1), "^narrow must be True or False, not 1"),
    (lambda: tb.plots.redpm("1", a=FIT, b=FIT), "^thins must be a list of whole numbers"),
    (lambda: tb.plots.redpm([True], a=FIT, b=FIT), f"^thin {WHOLE}"),
    (lambda: tb.plots.effects(FIT), "^fit must be the fit of a spline"),
    (lambda: tb.plots.importance(None), "^fit must be the fit of a spline"),
    (lambda: tb.plots.interaction(3, "a", "b"), "^fit must be the fit of a spline"),
    (lambda: tb.plots.effects(MARS, "age"), "^variables must be a list of variables' names, not 'age'"),
    (lambda: tb.plots.interaction(MARS, "age", "urban", columns="two"), f"^columns {WHOLE}"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_argument_is_refused_by_name(call, message):
    if message is None:
        call()
        return
    with pytest.raises(ValueError, match=message) as found:
        call()
    assert len(str(found.value)) < 400


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "^cannot read data of type NoneType"),
        (3, "^cannot read data of type int"),
        ([{"x": 1.0, "y": 0}], "^cannot read data of type list"),
        (np.column_stack([X, Y]), "^cannot read data of type ndarray"),
        (np.array([(1.0, 0)], dtype=[("x", float), ("y", int)]), "^cannot read data of type ndarray"),
        (pd.Series(X), "^cannot read data of type Series"),
        ({1, 2}, "^cannot read data of type set"),
        (iter([DATA]), "can be read only once"),
        (tb.GLM, "^cannot read data of type type"),
        ({}, "no column|no columns"),
        ({0: X, "y": Y}, "^the name of a column must be a text that is not empty, not 0"),
        ({"": X, "y": Y, "x": X}, "^the name of a column must be a text that is not empty, not ''"),
        ({None: X, "y": Y}, "^the name of a column must be a text"),
        ({"x": X[:5], "y": Y}, "^columns of unequal length: 'y' has 6, 'x' has 5"),
        ({"x": 1.0, "y": Y}, "^column 'x' is 1.0; give a list or an array"),
        ({"x": "text", "y": Y}, "^column 'x' is 'text'; give a list"),
        ({"x": None, "y": Y}, "^column 'x' is None; give a list"),
        ({"x": {1.0, 2.0}, "y": Y}, "^column 'x' is {1.0, 2.0}; give a list"),
        ({"x": (x for x in X), "y": Y}, "^column 'x' is .*generator.*; give a list"),
        ({"x": {"a": X}, "y": Y}, "^column 'x' is {'a': .*; give a list"),
        ({"x": MATRIX, "y": Y}, "^column 'x' has 2 dimensions; give a list"),
        ({"x": [[1.0], [1.0, 2.0]] * 3, "y": Y}, "^column 'x' has lists of unequal length"),
        ({"x": [1.0, "a", 2.0] * 2, "y": Y}, "^column 'x' has mixed content, texts and 1.0"),
        ({"x": np.array([1.0, "a", 2.0] * 2, object), "y": Y}, "^column 'x' has mixed content"),
        ({"x": [10**30] * 5 + [1], "y": Y}, "^column 'x' has whole numbers that are too large"),
        ({"x": np.array(X) * 1j, "y": Y}, "^column 'x' is complex"),
        ({"x": [1j] * 6, "y": Y}, "^column 'x' is complex"),
        ({"x": [b"a", b"b"] * 3, "y": Y}, "^column 'x' holds values of type"),
        ({"x": np.arange(6).astype("M8[D]"), "y": Y}, "^column 'x' holds dates or times"),
        ({"x": np.arange(6).astype("m8[s]"), "y": Y}, "^column 'x' holds durations"),
        ({"x": np.ma.array(X, mask=[0, 1, 0, 0, 0, 0]), "y": Y}, "^column 'x' has 1 missing value .first at row 1."),
        ({"x": np.ma.array(Y, mask=[0, 1, 0, 0, 1, 0]), "y": Y}, "^column 'x' has 2 missing values .first at row 1."),
        ({"x": np.ma.array(list("aabbcc"), mask=[0, 0, 1, 0, 0, 0]), "y": Y}, "^column 'x' has 1 missing value"),
        ({"x": pd.array([1, None, 3] * 2, "Int64"), "y": Y}, "^column 'x' has 2 missing values"),
        ({"x": [1.0, pd.NA, 2.0] * 2, "y": Y}, "^column 'x' has 2 missing values"),
        (pd.DataFrame([X, Y], index=["x", "x"]).T, "^duplicate column names: 'x'"),
        (pd.DataFrame({("a", "x"): X, ("a", "y"): Y}), "^the columns of the data have names on several levels"),
    ],
    ids=lambda value: "",
)
def test_data_of_the_wrong_kind_are_refused_by_name(data, message):
    with pytest.raises(ValueError, match=message):
        fit(data=data)


def test_a_group_that_is_missing_is_refused():
    for groups in ([1.0, 1.0, 2.0, 2.0, NAN, 3.0], np.ma.array([1, 1, 2, 2, 3, 3], mask=[0, 0, 0, 0, 1, 0])):
        with pytest.raises(ValueError, match=r"column 'g' has 1 missing value .first at row 4."):
            fit("y ~ x + (1 | g)", DATA | {"g": groups})


SAME = np.array(X)


@pytest.mark.parametrize(
    "values",
    [
        np.ma.array(X),
        [Decimal(str(x)) for x in X],
        pd.array([0, 1, 2, 3, 4, 5], "Int64"),
        pd.arrays.SparseArray(X),
        pd.Series(X, dtype="Sparse[float]"),
        pd.Series(X, index=list("abcdef")),
        pd.Index(X),
        pa.array(X),
        np.array(X, np.float32),
        np.array(X, np.longdouble),
        np.array(X, np.uint64),
        tuple(X),
        range(6),
    ],
    ids=lambda values: type(values).__name__,
)
def test_columns_of_every_kind_give_the_same_draws(values):
    assert np.array_equal(fit(data=DATA | {"x": values}).draws, fit().draws)


def test_masked_rows_can_be_left_out():
    masked = np.ma.array(X, mask=[0, 1, 0, 0, 0, 0])
    kept = [place for place in range(6) if place != 1]
    without = {name: [values[place] for place in kept] for name, values in DATA.items()}
    found = fit(data=DATA | {"x": masked}, missing="drop")
    assert np.array_equal(found.draws, fit(data=without).draws)
    assert "x 1" in found.stats["told"][0]
    weighed = fit(weights=np.ma.array(DATA["w"], mask=[0, 1, 0, 0, 0, 0]), missing="drop")
    assert np.array_equal(weighed.draws, fit(data=without, weights="w").draws)


def test_numbers_of_numpy_are_numbers():
    found = fit(draws=np.int64(20), chains=np.int32(4), seed=np.uint8(1), prior=tb.Normal(np.float32(0), np.int64(2)))
    assert np.array_equal(found.draws, fit(prior=tb.Normal(0.0, 2.0)).draws)
    assert fit(target_ess=np.float64(40.0), draws=None).draws.shape[0] == 4
    assert fit(weights=np.arange(6) < 5).stats["rows"] == 6
    assert fit(cache=None, checkpoint=None, memory=np.int64(10**9)).draws.shape[1] == 20


class Unwritable:
    """Some cannot be shown."""

    def __repr__(self):
        raise RuntimeError("no words")

    def __len__(self):
        raise RuntimeError("no length")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.arange(10**6), "a value of type ndarray"),
        (pd.DataFrame(DATA), "a value of type DataFrame"),
        (10**5000, "a whole number beyond 2^16609"),
        ("x" * 10**6, "'" + "x" * 60 + "'..."),
        (np.True_, "True"),
        (Path("a"), "PosixPath('a')"),
        (int, "the class int itself"),
        (None, "None"),
        (np.datetime64("NaT"), repr(np.datetime64("NaT"))),
        (Unwritable(), "a value of type Unwritable"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_in_messages_are_short(value, text):
    assert shown(value) == text


def test_limits_are_part_of_the_message():
    with pytest.raises(ValueError, match=r"^n must be a whole number from 2 to 1,000 \(so it is\), not 5000$"):
        check_whole("n", 5000, 2, 1000, why="so it is")
    with pytest.raises(ValueError, match=r"^n must be a number above 2, not 2$"):
        check_number("n", 2, above=2)
    with pytest.raises(ValueError, match=r"^n must be a number whose size is at most 100, not -200$"):
        check_number("n", -200, size=(0.1, 100))
    check_number("n", 0, size=(0.1, 100))
    check_number("n", np.float16(6e4), above=0, size=(1e-100, 1e100))
