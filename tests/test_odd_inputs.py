"""Bad and odd inputs, and the judge that decides what came of them: `python -m odd` runs them by hand."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from odd.case import QUICK, Answered, Case, Table, fits, refused
from odd.catalogue import generate
from odd.judge import FALSE_ALARM, CommandError, effective, held_against, judged, right, why_unclear
from odd.posterior import reference
from odd.problem import Problem
from odd.runner import run

import tallbayes as tb


@pytest.fixture(scope="module")
def data():
    return Table(np.random.default_rng(5), rows=40)


@pytest.fixture(scope="module")
def answered(data):
    """A fit that is right, and its problem."""
    prior = {"Intercept": tb.Normal(0, 0.5), "x": tb.Normal(0, 0.5)}  # so that it matters
    return fits("y ~ x", data.dict(), prior=prior)(None), data.problem()


def told(*options):
    """What a round says, in a process of its own: what it forks must not have the threads of other tests."""
    command = [sys.executable, "-m", "odd", *map(str, options)]
    place = {"PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.run(command, env=os.environ | place, capture_output=True, text=True, timeout=3_000)


@pytest.mark.parametrize("cases", [200, pytest.param(1_000, marks=pytest.mark.long)])
def test_odd_inputs_end_in_a_right_answer_or_a_clear_error(cases):
    done = told("--seed", 1, "--cases", cases)
    print(done.stdout)
    assert f"{cases} cases in" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_other_odd_inputs_do_too(seed):
    done = told("--seed", seed)
    assert " cases in " in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


def test_another_seed_gives_other_cases_and_the_same_seed_the_same():
    first, again, other = (generate(seed, 300) for seed in (1, 1, 2))
    assert [case.name for case in first] == [case.name for case in again]
    assert len({case.name for case in first}) == 300
    assert len({case.name for case in first} & {case.name for case in other}) < 150


def test_the_judge_takes_a_right_answer_for_right(answered):
    fit, problem = answered
    assert held_against(problem, fit) == []


@pytest.mark.parametrize("wrong", ["a row dropped", "an outcome flipped", "a code flipped", "a row twice", "a weight"])
def test_the_judge_sees_wrong_data(data, answered, wrong):
    x, y, weights = data["x"].copy(), data["y"].copy(), np.ones(data.rows)
    far = int(np.argmax(np.abs(x)))
    if wrong == "a row dropped":
        weights[far] = 0
    elif wrong == "a row twice":
        weights[far] = 2
    elif wrong == "a weight":
        weights *= 1.5
    elif wrong == "an outcome flipped":
        y[far] = 1 - y[far]
    else:
        x = -x
    said = held_against(data.problem(columns={"x": x}, y=y, weights=weights), answered[0])
    assert any("log posterior" in one for one in said)


def test_the_judge_sees_wrong_draws_by_themselves(data, answered):
    """Without the model, too: by the draws alone, if they are off by a fourth of an sd."""
    (fit, _), problem = answered

    class Moved:
        parameters, prior, stats = fit.parameters, fit.prior, fit.stats
        draws = fit.draws + 0.25 * fit.draws.std((0, 1))

    class Narrow(Moved):
        draws = fit.draws.mean((0, 1)) + 0.8 * (fit.draws - fit.draws.mean((0, 1)))

    assert any("mean of" in one for one in held_against(problem, Answered(Moved(), None)))
    assert any("sd of" in one for one in held_against(problem, Answered(Narrow(), None)))


def test_the_judge_sees_a_prior_that_was_left_out(data, answered):
    (fit, _), problem = answered
    without = tb.fit("y ~ x", data.dict(), **QUICK)

    class Lying:
        parameters, draws, stats, prior = without.parameters, without.draws, without.stats, fit.prior

    assert held_against(problem, Answered(Lying(), tb.GLM("y ~ x", data.dict())))


def test_the_reference_is_that_of_quadrature(data):
    problem = Problem({"x": data["x"]}, data["y"])
    at = np.linspace(-3, 4, 20_001)
    rows = data["y"] * at[:, None] * data["x"] - np.logaddexp(0, at[:, None] * data["x"])
    log_density = rows.sum(1) - 0.5 * (at / 2) ** 2
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    mean = density @ at
    sd = np.sqrt(density @ (at - mean) ** 2)
    found = reference(problem, {"x": "Normal(0, 2)"})
    assert abs(found.mean[0] - mean) < 5 * found.error_of_mean()[0] < 0.1 * sd
    assert abs(found.sd[0] - sd) < 5 * found.error_of_sd()[0] < 0.1 * sd


def test_effective_draws_of_a_chain_with_known_autocorrelation():
    rng, rho = np.random.default_rng(1), 0.8
    z = rng.normal(size=(4, 20_000))
    for step in range(1, z.shape[1]):
        z[:, step] = rho * z[:, step - 1] + np.sqrt(1 - rho**2) * z[:, step]
    assert effective(z[..., None])[0] == pytest.approx(z.size * (1 - rho) / (1 + rho), rel=0.1)
    assert FALSE_ALARM * 10_000 < 0.01


def raised(function):
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_which_errors_are_clear(data):
    good = raised(lambda: tb.fit("y ~ x", data.dict(), chains=0))
    assert why_unclear(good, ("chains",)) == []
    assert why_unclear(good, ("draws",)) == ["has not 'draws'"]
    assert any("raised in" in one for one in why_unclear(raised(lambda: int("a")), ()))
    assert any("callers expect" in one for one in why_unclear(raised(lambda: {}["x"]), ("x",)))
    assert why_unclear(CommandError(2, "--draws must be positive"), ("draws",)) == []
    assert why_unclear(CommandError(1, "ufunc 'isfinite' not supported"), ()) == ["speaks of 'ufunc'"]


def test_verdicts(data, tmp_path):
    def verdict(case):
        return judged(case, tmp_path).outcome

    def complain(folder):
        raise TypeError("unhashable type")

    def warn(folder):
        np.log(np.zeros(1))
        return 1

    truth = right(data.problem())
    call = fits("y ~ x", data.dict())
    assert verdict(Case("", "", call, truth)) == "right answer"
    assert verdict(refused("", "", call)) == "silent"
    assert verdict(Case("", "", fits("y ~ x", data.dict(y=1 - data["y"])), truth)) == "silent"
    assert verdict(Case("", "", complain, truth)) == "unclear"
    assert verdict(Case("", "", warn, lambda answer: [])) == "unclear"
    assert verdict(refused("", "", fits("y ~ x", data.dict(), chains=0), "chains")) == "clear error"
    assert verdict(Case("", "", fits("y ~ x", data.dict(), chains=0), truth, answer=True)) == "needless refusal"
    assert verdict(refused("", "", lambda folder: tb.Normal(0, -1), after=lambda folder: ["a file"])) == "silent"


def test_what_hangs_or_crashes_takes_nothing_else_with_it():
    cases = [
        refused("", "one", lambda folder: tb.Normal(0, -1), "sd"),
        refused("", "hangs", lambda folder: time.sleep(60)),
        refused("", "crashes", lambda folder: os.abort()),
        refused("", "ends", lambda folder: os._exit(0)),
        refused("", "exits", lambda folder: exit(3)),
        refused("", "two", lambda folder: tb.Normal(0, -1), "sd"),
    ]
    found = [one.verdict.outcome for one in run(cases, seconds=1.0)]
    assert found == ["clear error", "hang", "crash", "crash", "unclear", "clear error"]
