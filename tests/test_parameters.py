"""What is asked of a fit's parameters: intervals, ratios, draws by name, probabilities, contrasts, pictures."""

import itertools
import random

import numpy as np
import pandas as pd
import pytest
from arviz_stats.base.array import array_stats
from kinds import MAKERS, fitted

import tallbayes as tb
from tallbayes.families import Bernoulli, Binomial, Gamma, NegativeBinomial, Poisson
from tallbayes.groups.example import group_example
from tallbayes.results.example import example
from tallbayes.results.intervals import Interval
from tallbayes.results.ratios import ratio_of
from tallbayes.results.table import exponentiated
from tallbayes.sampling.diagnostics import Diagnostics, diagnose

KINDS = list(MAKERS)
EXACT = {"rtol": 1e-13, "atol": 1e-13}


def with_draws(draws, names):
    """An example whose coefficients have these names and draws (chain, draw, coefficient)."""
    fit = example(chains=draws.shape[0], draws=draws.shape[1])
    old = fit.posterior
    axes = {"chain": old.chain, "draw": old.draw, "coefficient": list(names)}
    fit.posterior = type(old)({"beta": (("chain", "draw", "coefficient"), draws)}, axes)
    return fit


# Intervals


@pytest.mark.parametrize("share", [0.5, 0.8, 0.94, 0.95, 0.29, 0.999])
@pytest.mark.parametrize("size", [(1, 1), (1, 3), (2, 10), (4, 250)])
def test_the_shortest_interval_is_that_of_arviz_and_the_shortest(share, size):
    draws = np.random.default_rng(0).gamma(1.5, size=(*size, 3))
    draws[..., 2] = draws[..., 2].round(1)  # many are equal
    found = Interval(share, "hdi").ends(draws.reshape(-1, 3))
    for one, (low, high) in zip(draws.reshape(-1, 3).T, found.T, strict=True):
        assert (low, high) == tuple(array_stats.hdi(one, prob=share)) or one.size < 4
        held = ((low <= one) & (one <= high)).sum()
        assert held >= share * one.size or held == one.size
        most = min(int(share * one.size), one.size - 1)
        every = sorted(one)
        assert high - low == min(every[i + most] - every[i] for i in range(one.size - most))


def test_equal_tails_are_quantiles_in_all_digits():
    draws = np.random.default_rng(0).normal(size=(500, 2))
    np.testing.assert_array_equal(Interval().ends(draws), np.quantile(draws, [0.03, 0.97], axis=0))
    np.testing.assert_array_equal(Interval(0.9).ends(draws), np.quantile(draws, [0.05, 0.95], axis=0))
    np.testing.assert_array_equal(Interval(0.999).ends(draws), np.quantile(draws, [0.0005, 0.9995], axis=0))


@pytest.mark.parametrize("kind", KINDS)
def test_a_summary_has_the_interval_that_is_asked_for_and_nothing_else_changes(kind):
    fit = fitted(kind)
    usual, other = fit.summary(), fit.summary(interval=0.9, kind="hdi")
    assert list(usual)[:4] == ["mean", "sd", "eti94_lb", "eti94_ub"]
    assert list(other)[:4] == ["mean", "sd", "hdi90_lb", "hdi90_ub"]
    pd.testing.assert_frame_equal(usual.drop(columns=list(usual)[2:4]), other.drop(columns=list(other)[2:4]))
    draws = fit.draws.reshape(-1, len(fit.parameters))
    expected = [array_stats.hdi(one, prob=0.9) for one in draws.T]
    np.testing.assert_array_equal(other[["hdi90_lb", "hdi90_ub"]], expected)


# Ratios


@pytest.mark.parametrize("kind", ["eti", "hdi"])
def test_ratios_are_of_the_draws_and_sds_of_groups_stay(kind):
    fit = fitted("groups")
    table = fit.summary(exponentiate=True, interval=0.8, kind=kind)
    plain = fit.summary(interval=0.8, kind=kind)
    pd.testing.assert_series_equal(table.loc["1|bank_sigma"], plain.loc["1|bank_sigma"])
    for place, name in enumerate(fit.parameters):
        draws = np.exp(fit.draws[:, :, [place]])
        if name == "1|bank_sigma":
            continue
        np.testing.assert_allclose(table.loc[name, "mean"], draws.mean(), **EXACT)
        np.testing.assert_allclose(table.loc[name, "sd"], draws.std(ddof=1), **EXACT)
        ends = array_stats.hdi(draws.ravel(), prob=0.8) if kind == "hdi" else np.quantile(draws, [0.1, 0.9])
        np.testing.assert_allclose(table.loc[name].iloc[2:4].astype(float), ends, **EXACT)
        for field, value in diagnose(draws)._asdict().items():
            np.testing.assert_allclose(table.loc[name, field], value[0], rtol=1e-9)
    ends = [table.loc["fico"].iloc[2:4].astype(float), np.exp(plain.loc["fico"].iloc[2:4].astype(float))]
    assert np.allclose(*ends, rtol=1e-5) == (kind == "eti")  # the shortest interval of exp(draws) is another one


def test_thousands_of_effects_are_looked_at_a_few_at_a_time():
    fit = group_example(3_000, chains=2, draws=60)
    table = fit.summary(exponentiate=True, kind="hdi")
    assert len(table) == 3_003
    draws = fit.draws
    draws[:, :, [*range(2), *range(3, 3_003)]] = np.exp(draws[:, :, [*range(2), *range(3, 3_003)]])
    np.testing.assert_allclose(table["mean"], draws.mean(axis=(0, 1)), **EXACT)
    np.testing.assert_allclose(table["hdi94_lb"], Interval(kind="hdi").ends(draws.reshape(-1, 3_003))[0], **EXACT)
    before = fit.posterior.copy(deep=True)
    fit.summary(exponentiate=True)
    assert fit.posterior.identical(before)


@pytest.mark.parametrize(
    ("family", "what"),
    [
        (Bernoulli(), "odds ratio"),
        (Binomial(), "odds ratio"),
        (Bernoulli("cloglog"), "hazard ratio"),
        (Bernoulli("probit"), ""),
        (Poisson(), "rate ratio"),
        (Poisson("days"), "rate ratio"),
        (NegativeBinomial(2.0), "rate ratio"),
        (Gamma(2.0), "ratio of means"),
        (tb.Gaussian(), ""),
        (tb.family("y * eta - exp(eta)", outcomes="counts"), "ratio of means"),
        (tb.family("y * eta - log1p(exp(eta))"), "odds ratio"),
        (tb.family("-(y - eta)**2"), ""),
    ],
)
def test_what_exp_of_a_coefficient_is_follows_from_the_mean(family, what):
    assert ratio_of(family) == what
    fit = example()
    fit.family = family
    if what:
        np.testing.assert_allclose(fit.summary(exponentiate=True)["mean"], np.exp(fit.draws).mean(axis=(0, 1)), **EXACT)
        return
    with pytest.raises(ValueError, match=r"^exponentiate=True gives ratios of odds, means or hazards"):
        fit.summary(exponentiate=True)
    with pytest.raises(ValueError, match=r"^exponentiate=True gives ratios"):
        fit.contrast("fico", exponentiate=True)


@pytest.mark.parametrize("kind", ["gaussian", "gaussian groups", "own", "splines"])
def test_ratios_are_refused_where_they_mean_nothing(kind):
    fit = fitted(kind)
    for ask in (fit.summary, lambda **how: fit.contrast(f"`{fit.parameters[0]}`", **how)):
        with pytest.raises(ValueError, match=r"^exponentiate=True"):
            ask(exponentiate=True)


def test_a_ratio_beyond_all_numbers_is_infinite_and_others_stay():
    draws = np.random.default_rng(0).normal([800.0, 0.5], 0.1, (4, 100, 2))
    for kind in ("eti", "hdi"):
        table = exponentiated(draws, ["a", "b"], np.array([True, True]), 1.0, Interval(0.9, kind))
        assert np.isinf(table.loc["a"].iloc[[0, 2, 3]].astype(float)).all()
        assert np.isfinite(table.loc["b"].astype(float)).all()


# Draws by name


@pytest.mark.parametrize("kind", KINDS)
def test_draws_are_there_by_name(kind, tmp_path):
    fit = fitted(kind)
    fit.save(tmp_path / "fit.nc")
    frame = fit.draws_frame()
    assert frame.index.names == ["chain", "draw"]
    assert tuple(frame) == fit.parameters == tuple(fit)
    for one in (fit, tb.load(tmp_path / "fit.nc")):
        for place, name in enumerate(one.parameters):
            found = one[name]
            assert found.dims == ("chain", "draw")
            assert found.name == name
            np.testing.assert_array_equal(found, fit.draws[:, :, place])
            np.testing.assert_array_equal(frame[name], fit.draws[:, :, place].ravel())
            assert name in one
        some = one.parameters[::-2]
        pd.testing.assert_frame_equal(one.draws_frame(some), frame[list(some)])
    assert "no such" not in fit
    fit[fit.parameters[0]][:] = 0.0  # a copy
    frame[:] = 0.0
    assert (fit.draws[:, :, 0] != 0).any()
    assert fit.draws_frame([]).shape == (len(frame), 0)


def test_one_chain_and_draw_are_enough():
    fit = example(chains=1, draws=1)
    assert fit.prob("fico > 0") == 1.0
    assert fit.draws_frame().shape == (1, 2)
    assert np.isnan(fit.contrast("fico - Intercept").loc["fico - Intercept", "r_hat"])
    assert np.isfinite(fit.summary(exponentiate=True, kind="hdi")["hdi94_lb"]).all()


@pytest.mark.parametrize("ask", ["fcio", "[fico]", "fico "])
def test_unknown_names_are_refused_in_the_same_words_everywhere(ask):
    fit = example()
    for call in (
        lambda: fit[ask],
        lambda: fit.draws_frame([ask]),
        lambda: fit.plot([ask]),
        lambda: fit.prob(f"`{ask}` > 0"),
    ):
        with pytest.raises(ValueError, match=r"^the fit has no parameter '.*'; did you mean 'fico'"):
            call()


# Probabilities and contrasts

NAMES = (
    "Intercept", "x", "log(x)", "np.log(x)", "education[T.university.degree]", "race[T.c and d]", "race[T.b]",
    "x:race[T.b]", "my income", "1|bank[b03]", "1|bank_sigma", "I(x - z)", "bs(x, df=4)[1]", "exp", "a.b", "a", "größe",
    "x1", "theta[0, 1]",
)  # fmt: skip


def odd():
    """A fit whose coefficients have names that are hard to read."""
    return with_draws(np.random.default_rng(1).normal(0.3, 1.0, (2, 40, len(NAMES))), NAMES)


def random_expression(rng, depth):
    """Text, and what it gives for draws by name, written down in another way than it is computed."""
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.25:
            number = round(rng.uniform(0.1, 3), 2)
            return str(number), lambda draws: number
        name = rng.choice(NAMES)
        return (f"`{name}`" if rng.random() < 0.3 else name), lambda draws: draws[name]
    blank = rng.choice(["", " ", "  "])
    kind = rng.choice(["+", "-", "*", "/", "abs", "exp", "minus", "square", "log", "sqrt"])
    one, of_one = random_expression(rng, depth - 1)
    if kind in "+-*/":
        two, of_two = random_expression(rng, depth - 1)
        text = f"({one}{blank}{kind}{blank}({two}))" if kind != "/" else f"({one}){blank}/{blank}(1 + abs({two}))"
        return text, {
            "+": lambda draws: of_one(draws) + of_two(draws),
            "-": lambda draws: of_one(draws) - of_two(draws),
            "*": lambda draws: of_one(draws) * of_two(draws),
            "/": lambda draws: of_one(draws) / (1 + np.abs(of_two(draws))),
        }[kind]
    return {
        "abs": (f"abs({blank}{one}{blank})", lambda draws: np.abs(of_one(draws))),
        "exp": (f"exp(-abs({one}))", lambda draws: np.exp(-np.abs(of_one(draws)))),
        "minus": (f"-({one})", lambda draws: -of_one(draws)),
        "square": (f"({one}){blank}**{blank}2", lambda draws: of_one(draws) ** 2),
        "log": (f"log(1{blank}+ abs({one}))", lambda draws: np.log(1 + np.abs(of_one(draws)))),
        "sqrt": (f"sqrt(abs({one}))", lambda draws: np.sqrt(np.abs(of_one(draws)))),
    }[kind]


def test_random_expressions_of_odd_names_are_computed_as_they_are_written():
    rng, fit = random.Random(0), odd()
    draws = {name: fit.draws[:, :, place] for place, name in enumerate(NAMES)}
    compared = 0
    for _ in range(300):
        (left, of_left), (right, of_right) = random_expression(rng, 3), random_expression(rng, 2)
        if not any(name in left + right for name in NAMES):
            continue
        values = np.broadcast_to(of_left(draws), (2, 40)), np.broadcast_to(of_right(draws), (2, 40))
        joined = rng.choice(["and", "or"])
        statement = f"{left} > {right} {joined} not 0 <= x < {left}"
        inside = (draws["x"] >= 0) & (draws["x"] < values[0])
        greater = values[0] > values[1]
        expected = greater & ~inside if joined == "and" else greater | ~inside
        assert fit.prob(statement) == expected.mean(), statement
        table = fit.contrast({"it": f"{left} - ({right}) + 0 * x"})
        np.testing.assert_allclose(table.loc["it", "mean"], (values[0] - values[1]).mean(), rtol=1e-12, atol=1e-12)
        compared += 1
    assert compared > 250


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("log(x)", lambda d: d["log(x)"]),  # the coefficient, not a function of one
        ("log(`x`)**2", lambda d: np.log(d["x"]) ** 2),
        ("log( x )", lambda d: np.log(d["x"])),
        ("np.log(x)", lambda d: d["np.log(x)"]),
        ("exp(x)", lambda d: np.exp(d["x"])),
        ("exp(exp)", lambda d: np.exp(d["exp"])),
        ("exp - x1", lambda d: d["exp"] - d["x1"]),
        ("2*x:race[T.b]", lambda d: 2 * d["x:race[T.b]"]),
        ("race[T.c and d] - race[T.b]", lambda d: d["race[T.c and d]"] - d["race[T.b]"]),
        ("1|bank[b03]/1|bank_sigma", lambda d: d["1|bank[b03]"] / d["1|bank_sigma"]),
        ("I(x - z) - x", lambda d: d["I(x - z)"] - d["x"]),
        ("a.b - a", lambda d: d["a.b"] - d["a"]),
        ("my income*.5e1", lambda d: d["my income"] * 5),
        ("-x**2", lambda d: -(d["x"] ** 2)),
        ("x - -x", lambda d: 2 * d["x"]),
        ("2 ** -1 * x", lambda d: d["x"] / 2),
        ("größe", lambda d: d["größe"]),
    ],
)
def test_names_come_first_the_longest_first(text, value):
    fit = with_draws(np.random.default_rng(2).uniform(0.1, 2.0, (2, 40, len(NAMES))), NAMES)
    draws = {name: fit.draws[:, :, place] for place, name in enumerate(NAMES)}
    np.testing.assert_allclose(fit.contrast(text).loc[text, "mean"], value(draws).mean(), rtol=1e-13)


def test_names_that_are_numbers_or_words_of_the_language_need_backticks():
    names = ("2020", "or", "if", "1e3", "-")
    fit = with_draws(np.random.default_rng(3).normal(size=(2, 40, 5)), names)
    for name in names:
        assert fit.prob(f"`{name}` > 0") == (fit[name] > 0).mean()
    assert fit.prob("2020 > `2020` or `or` > 0") == 1.0
    assert fit.prob("`if` < 1e3") == fit.prob("1e3 * `1e3` < 1e3 * `1e3` + 1") == 1.0


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("fcio > 0", "^the fit has no parameter 'fcio'; did you mean 'fico'\\?"),
        ("`fico > 0` > 0", "^the fit has no parameter 'fico > 0'; did you mean 'fico'"),
        ("fico[1] > 0", r"^the fit has no parameter 'fico\[1\]'; did you mean 'fico'"),
        ("1|bank[b9] > 0", r"^the fit has no parameter '1\|bank\[b9\]'; it has 'Intercept', 'fico'"),
        ("fico:Intercept > 0", "^the fit has no parameter 'fico:Intercept'; did you mean"),
        ("2fico > 0", "^the fit has no parameter '2fico'; did you mean 'fico'"),
        ("np.log(fico) > 0", r"^the fit has no parameter 'np.log\(fico\)'; .*called: abs, exp, log, sqrt"),
        ("sin(fico) > 0", "^the fit has no parameter 'sin"),
        ("__import__('os').system('true') > 0", "^the fit has no parameter"),
        ("fico.__class__ > 0", "^the fit has no parameter 'fico.__class__'; did you mean 'fico'"),
        ("fico > 'a'", "^the fit has no parameter 'a'"),
        ("fico > 0 & Intercept < 0", "^in fit.prob, '0 & Intercept' has '&' or '|'; write 'and' or 'or'"),
        ("(fico > 0) | (fico < 1)", "has '&' or '|'; write 'and' or 'or'"),
        ("fico", "^in fit.prob, 'fico' is not true or false; compare it, as in 'age > 0'"),
        ("fico and fico > 0", "^in fit.prob, 'fico' is not true or false"),
        ("(fico > 0) * 2 > 1", "^in fit.prob, 'fico > 0' is true or false, where a number is needed"),
        ("(fico > 0) > 0", "is true or false, where a number is needed"),
        ("1 > 0", "^fit.prob needs the name of a parameter in '1 > 0'"),
        ("fico > ", "^cannot understand 'fico > ' in fit.prob: invalid syntax"),
        ("`fico > 0", "^a backtick in '`fico > 0' is not closed"),
        ("fico > True", "^in fit.prob, 'True' is not allowed in an expression, which can hold names of parameters"),
        ("fico is 1", "is not allowed in an expression"),
        ("fico in [1]", "is not allowed in an expression"),
        ("fico // 2 > 0", "is not allowed in an expression"),
        ("fico if fico > 0 else 1", "is not allowed in an expression"),
        ("(lambda: fico)() > 0", "is not allowed in an expression"),
        ("[fico][0] > 0", "is not allowed in an expression"),
        ("log(fico, 2) > 0", "is not allowed in an expression"),
        ("(fico := 1) > 0", "cannot understand|is not allowed in"),
        ("fico > 1j", "^the fit has no parameter '1j'"),
        ("1 / (fico - fico) > 0", r"^in fit.prob, '1 / \(fico - fico\)' divides by zero in 2,000 of 2,000 draws"),
        ("log(Intercept) > 0", r"'log\(Intercept\)' is not a number, or too large for one, in 2,000 of 2,000 draws"),
        ("sqrt(fico - 0.5) > 0", "is not a number, or too large for one, in [0-9,]+ of 2,000 draws"),
        ("exp(10000 * fico) > 0", "is not a number, or too large for one"),
        ("Intercept ** 0.5 > 0", "is not a number, or too large for one"),
        ("fico > 10 ** 400", "is not a number, or too large for one"),
        ("fico > 1e999", "is not a number, or too large for one"),
        (f"fico > 1{'0' * 400}", "is not a number, or too large for one"),
        ("fico > 9 ** 9 ** 9 ** 9", "is not a number, or too large for one"),
        ("+".join(["fico"] * 300) + " > 0", "^fit.prob has more than 150 operations inside each other"),
        ("(" * 300 + "fico" + ")" * 300 + " > 0", "^cannot understand .* in fit.prob: too many nested parentheses"),
        ("fico > 0" + " " * 10_000, "^fit.prob takes up to 10,000 characters"),
        ("", "^the expression must be a text such as 'age > 0', not ''"),
        (3, "^the expression must be a text such as 'age > 0', not 3"),
        (["fico > 0"], "^the expression must be a text"),
    ],
)
def test_what_is_no_statement_is_refused(statement, message):
    with pytest.raises(ValueError, match=message) as found:
        example().prob(statement)
    assert len(str(found.value)) < 450


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("fico > 0", "^in fit.contrast, 'fico > 0' is true or false, .*fit.prob gives probabilities"),
        ("fico - 1 / 0", "^in fit.contrast, '1 / 0' divides by zero"),
        ({"a": "fcio"}, "^the fit has no parameter 'fcio'"),
        ([], "^contrasts must be .*, at least one"),
        ({"a": 1}, "^contrasts must be a dict of texts by name"),
        ({1: "fico"}, "^names of contrasts must be texts"),
        (3, "^contrasts must be a text such as 'a - b', a list of them"),
        ([3], "^contrasts must be"),
        ("2", "^fit.contrast needs the name of a parameter"),
    ],
)
def test_what_is_no_contrast_is_refused(asked, message):
    with pytest.raises(ValueError, match=message):
        example().contrast(asked)


@pytest.mark.parametrize("kind", KINDS)
def test_a_contrast_is_a_summary_of_what_is_computed(kind):
    fit = fitted(kind)
    first, second = fit.parameters[-2:]
    table = fit.contrast({"difference": f"`{first}` - {second}", "same": second}, interval=0.9, kind="hdi")
    assert list(table) == list(fit.summary(interval=0.9, kind="hdi"))
    pd.testing.assert_series_equal(
        table.loc["same"], fit.summary(interval=0.9, kind="hdi").loc[second], check_names=False, rtol=1e-12
    )
    draws = (fit[first] - fit[second]).values[..., None]
    np.testing.assert_allclose(table.loc["difference", "mean"], draws.mean(), **EXACT)
    np.testing.assert_allclose(table.loc["difference", "sd"], draws.std(ddof=1), **EXACT)
    found = [table.loc["difference", name] for name in Diagnostics._fields]
    np.testing.assert_allclose(found, np.concatenate(diagnose(draws)), rtol=1e-10)
    share = float((fit[first] > fit[second]).mean())
    assert fit.prob(f"{first} > `{second}`") == fit.prob(f"not {first} <= {second}") == share


def test_a_ratio_of_two_groups_is_exp_of_their_difference():
    fit = fitted("groups")
    table = fit.contrast(["1|bank[b01] - 1|bank[b02]", "fico"], exponentiate=True, kind="hdi")
    ratios = np.exp(fit["1|bank[b01]"] - fit["1|bank[b02]"]).values
    line = table.loc["1|bank[b01] - 1|bank[b02]"]
    np.testing.assert_allclose(line["mean"], ratios.mean(), **EXACT)
    np.testing.assert_allclose(line[["hdi94_lb", "hdi94_ub"]].astype(float), array_stats.hdi(ratios.ravel(), prob=0.94))
    summary = fit.summary(exponentiate=True, kind="hdi")
    pd.testing.assert_series_equal(table.loc["fico"], summary.loc["fico"], rtol=1e-12)
    with pytest.raises(ValueError, match=r"coefficients and effects of groups, but '1\|bank_sigma' is neither"):
        fit.contrast("1|bank_sigma - fico", exponentiate=True)


def test_probabilities_are_right_where_they_are_known():
    """Independent draws of Normal(-1, 0.05) and Normal(0.5, 0.05), 40,000 of them; 5.3 errors: 1e-7 a false alarm."""
    fit = example(draws=10_000)
    for statement, exact in (
        ("fico > 0.5", 0.5),
        ("fico > 0.55", 0.158655),
        ("0.45 < fico < 0.55", 0.682689),
        ("fico + Intercept > -0.5", 0.5),
        ("fico > 0.5 and Intercept > -1", 0.25),
        ("fico > 0.5 or Intercept > -1", 0.75),
        ("not fico > 0.55", 0.841345),
    ):
        assert abs(fit.prob(statement) - exact) < 5.3 * np.sqrt(exact * (1 - exact) / 40_000), statement


# Pictures


@pytest.mark.parametrize("kind", KINDS)
def test_plot_gives_the_pictures_that_a_fit_has(kind):
    fit = fitted(kind)
    own = {"groups": ["caterpillar"], "gaussian groups": ["caterpillar"], "splines": ["effects", "importance"]}
    for picture in ("forest", "density", "trace", "speed"):
        assert fit.plot(kind=picture).axes
        figure = fit.plot([fit.parameters[0]], picture)
        assert len(figure.axes) == 1
    for picture in ["seconds", *own.get(kind, [])]:
        assert fit.plot(kind=picture).axes
        with pytest.raises(ValueError, match=f"^names must be left out for '{picture}'"):
            fit.plot([fit.parameters[0]], picture)
    assert fit.plot().axes[0].get_yticklabels()[0].get_text() in fit.parameters
    for other in set(itertools.chain(*own.values())) - set(own.get(kind, [])):
        with pytest.raises(ValueError, match=f"^kind '{other}' is not known; choose one of forest, density, trace"):
            fit.plot(kind=other)
