"""When a run has enough draws: the rule that fits are judged by, its budgets, and that it does no harm."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import harness
import numpy as np
import pytest
from scipy import stats
from test_diagnostics import autoregressive
from test_loop import Interrupting, Ready, slow_calls  # noqa: F401

import tallbayes as tb
from tallbayes.groups.thinned import GroupKernel
from tallbayes.sampling import diagnostics, loop, mixing, stopping
from tallbayes.sampling.diagnostics import diagnose, lack, problems
from tallbayes.sampling.metropolis import MetropolisKernel
from tallbayes.sampling.request import Request

QUIET: dict[str, Any] = {"seed": 1, "progress": False}


def simulated(rows: int = 400, groups: int = 80) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal(rows), rng.integers(groups, size=rows)
    eta = x - 1 + 0.5 * rng.standard_normal(groups)[g]
    more = dict(zip("abc", rng.standard_normal((3, rows)), strict=True))
    return {"x": x, "g": g, "y": (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(int), **more}


DATA = simulated()
MODEL, GROUPS = tb.GLM("y ~ x + a + b + c", DATA), tb.Hierarchical("y ~ x + (1 | g)", DATA)
P = MODEL.width
MH = tb.MH("random-walk")  # needs more than 1,000 draws


@pytest.fixture(scope="module")
def slow() -> tb.Fit:
    return tb.sample(MODEL, MH, **QUIET)


# --- one rule ---


def chains(kind: str, phi: float, count: int, draws: int) -> np.ndarray:
    found = autoregressive(phi, count, draws, parameters=3, seed=draws)
    if kind == "apart":
        found[0, :, 1] += 1
    if kind == "stuck":
        found[:, :, 2] = 1.0
    if kind == "infinite":
        found[0, 3, 0] = np.inf
    if kind == "slow tails":
        found[:, :, 1] = np.exp(autoregressive(0.98, count, draws, 1, seed=draws)[..., 0]) * np.sign(found[:, :, 1])
    return found


@pytest.mark.parametrize("kind", ["plain", "apart", "stuck", "infinite", "slow tails"])
@pytest.mark.parametrize("phi", [0.0, 0.7, 0.9])
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("draws", [100, 400, 2_000])
def test_nothing_lacks_where_there_are_no_problems(kind, phi, count, draws):
    found = chains(kind, phi, count, draws)
    assert (lack(diagnose(found), count) == 1) == (problems(found, ["a", "b", "c"]) == [])


def test_what_lacks_is_told_by_the_worst_ess():
    found = diagnose(autoregressive(0.9, draws=500))
    assert lack(found, 4) == pytest.approx(400 / min(found.ess_bulk.min(), found.ess_tail.min()))
    apart = diagnose(chains("apart", 0.0, 4, 2_000))
    assert apart.r_hat.max() > 1.01
    assert lack(apart._replace(ess_bulk=apart.ess_bulk + 400, ess_tail=apart.ess_tail + 400), 4) == 1.4


def test_a_fit_goes_on_until_it_has_converged(slow):
    assert slow.draws.shape[1] > 1_000
    assert slow.converged
    assert (slow.stats["stopped"], slow.stats["budget"]) == ("converged", "")
    assert f"4 chains x {slow.draws.shape[1]:,}, until converged" in repr(slow)
    assert problems(slow.draws[:, :1_000], slow.parameters)  # it had a reason to go on
    assert slow.draws.shape[1] < 5_000


def test_draws_that_were_asked_for_are_what_one_gets():
    fit = tb.sample(MODEL, MH, 1_000, **QUIET)
    assert fit.draws.shape == (4, 1_000, P)
    assert (fit.stats["stopped"], fit.stats["budget"]) == ("asked", "")
    assert "4 chains x 1,000\n" in repr(fit)
    assert not any("budget" in sentence for sentence in fit.problems())


def test_a_longer_run_begins_with_a_shorter_one(slow, monkeypatch):
    made = slow.draws.shape[1]
    np.testing.assert_array_equal(tb.sample(MODEL, MH, made + 100, **QUIET).draws[:, :made], slow.draws)
    monkeypatch.setattr(loop, "CALL_SECONDS", 1e-9)
    np.testing.assert_array_equal(tb.sample(MODEL, MH, **QUIET).draws, slow.draws)


@pytest.mark.parametrize("method", [tb.Consensus(2), tb.Subsampling()], ids=["consensus", "subsampling"])
def test_approximate_methods_do_not_go_on(method):
    fit = tb.sample(MODEL, method, chains=2, **QUIET)
    assert fit.draws.shape[1] == 1_000
    assert fit.stats["stopped"] == "asked"


# --- the schedule of looks ---


def looks(draws: np.ndarray, rule: stopping.Converged) -> list[int]:
    """How many draws there are at each look."""
    made, look = [], stopping.Look(rule.first)
    while not look.stopped:
        made.append(look.goal)
        look = rule.look(lambda: draws[:, : made[-1]], made[-1], 0)
    return made


def test_looks_are_as_far_apart_as_the_worst_ess_says():
    draws = autoregressive(0.95, draws=20_000, parameters=1)
    made = looks(draws, stopping.Converged(20_000, "", 4))
    first = lack(diagnose(draws[:, :1_000]), 4)
    assert made[0] == 1_000
    assert made[1] == 100 * np.ceil(11 * np.clip(first, 1.25 / 1.1, 4 / 1.1))
    assert len(made) <= 4  # about 4,000 draws are needed
    assert lack(diagnose(draws[:, : made[-1]]), 4) == 1
    assert all(lack(diagnose(draws[:, :few]), 4) > 1 for few in made[:-1])


def test_looks_grow_by_a_quarter_at_least_and_fourfold_at_most():
    stuck = np.ones((4, 20_000, 1))
    assert looks(stuck, stopping.Converged(20_000, "", 4)) == [1_000, 4_000, 16_000, 20_000]
    nearly = autoregressive(0.83, draws=20_000, parameters=1)
    made = looks(nearly, stopping.Converged(20_000, "", 4))
    assert all(after >= 1.25 * before for before, after in pairwise(made))


def test_rows_are_counted_and_end_a_run(monkeypatch):
    monkeypatch.setattr(stopping, "MOST_ROWS", 100_000)
    stuck, rule = np.ones((4, 1_000, 1)), stopping.Converged(20_000, "all", 4)
    assert rule.look(lambda: stuck, 1_000, 10_000).goal == 4_000
    assert rule.look(lambda: stuck, 1_000, 50_000).goal == 2_000  # as many as there may be
    over = rule.look(lambda: stuck, 1_000, 90_000)  # a few more are not worth it
    assert (over.goal, over.stopped, over.budget) == (1_000, "budget", "100,000 evaluations of rows")
    assert over.found is not None


# --- budgets ---


def test_the_budget_of_draws_is_told(monkeypatch):
    monkeypatch.setattr(MetropolisKernel, "most_draws", 1_100)
    fit = tb.sample(MODEL, MH, **QUIET)
    assert fit.draws.shape[1] == 1_100
    assert fit.stats["stopped"] == "budget"
    assert "4 chains x 1,100, where the budget ended" in repr(fit)
    found = re.fullmatch(
        r"stopped at the budget of 1,100 draws a chain: by its (bulk|tail) ESS, '\w+' needs about "
        r"([\d,]+) a chain; set draws=(\d+)",
        fit.problems()[-1],
    )
    assert found is not None
    assert int(found[2].replace(",", "")) == int(found[3]) > 1_100


def test_the_budget_of_numbers_is_told(monkeypatch):
    monkeypatch.setattr(stopping, "MOST_NUMBERS", 4 * P * 1_200)
    fit = tb.sample(MODEL, MH, **QUIET)
    assert fit.draws.shape[1] == 1_200
    assert fit.problems()[-1].startswith("stopped at the budget of 24,000 numbers kept: ")
    monkeypatch.setattr(stopping, "MOST_NUMBERS", 4 * P * 500)  # the first 1,000 are made all the same
    assert tb.sample(MODEL, MH, **QUIET).draws.shape[1] == 1_000


def test_the_budget_of_rows_is_told(monkeypatch):
    monkeypatch.setattr(stopping, "MOST_ROWS", 4 * MODEL.rows.size * 1_400)
    fit = tb.sample(MODEL, MH, **QUIET)
    assert 1_350 < fit.draws.shape[1] <= 1_400
    assert "evaluations of rows: " in fit.problems()[-1]


def test_a_budget_that_was_enough_is_not_a_problem(slow, monkeypatch):
    monkeypatch.setitem(slow.stats, "budget", "so many draws")
    assert slow.problems() == []


def test_what_more_draws_cannot_mend():
    stuck, apart = diagnose(chains("stuck", 0.0, 4, 500)), diagnose(chains("apart", 0.0, 4, 500))
    apart = apart._replace(ess_bulk=apart.ess_bulk + 400, ess_tail=apart.ess_tail + 400)
    names = ["a", "b", "c"]
    assert "would hardly help" in diagnostics.cut_short(stuck, names, 500, 4, "500 draws a chain")
    assert "disagree on 'b'; set draws=700," in diagnostics.cut_short(apart, names, 500, 4, "500 draws a chain")


# --- diagnostics are computed once ---


@pytest.fixture
def judged(monkeypatch):
    """How many parameters were looked at, by the number of draws."""
    found: dict[int, int] = {}
    honest = mixing.statistics

    def counted(draws: np.ndarray, names: Any) -> Any:
        found[draws.shape[1]] = found.get(draws.shape[1], 0) + draws.shape[2]
        return honest(draws, names)

    monkeypatch.setattr(mixing, "statistics", counted)
    return found


@pytest.mark.parametrize(("model", "method"), [(MODEL, MH), (GROUPS, "auto")], ids=["plain", "groups"])
@pytest.mark.parametrize("most", [None, 1_100], ids=["converged", "budget"])
def test_diagnostics_of_a_fit_are_those_of_the_last_look(judged, model, method, most, monkeypatch):
    for kernel in (MetropolisKernel, GroupKernel):
        monkeypatch.setattr(kernel, "most_draws", most or kernel.most_draws)
    fit = tb.sample(model, method, **QUIET)
    made = fit.draws.shape[1]
    assert judged[made] == model.width
    seen = dict(judged)
    fit.summary(), fit.problems(), fit.edpm(), repr(fit)
    assert judged == seen
    for ours, again in zip(fit._diagnostics, diagnose(fit.draws), strict=True):
        np.testing.assert_array_equal(ours, again)


def test_what_is_watched_of_groups_are_the_draws_of_the_fit():
    fit = tb.sample(GROUPS, draws=20, warmup=20, **QUIET)
    theta = np.concatenate([fit.draws[..., :2], fit.draws[..., 3:], np.log(fit.draws[..., 2:3])], axis=2)
    np.testing.assert_allclose(GROUPS.watched(theta), fit.draws, rtol=1e-14)


def test_few_parameters_spare_a_look_at_all(judged):
    """While the first few have not converged, nobody looks at the others; at the last look all are looked at."""
    draws = np.random.default_rng(0).normal(size=(4, 5_000, 100))
    draws[:, :, 5] = autoregressive(0.9, draws=5_000, parameters=1)[..., 0]
    made = looks(draws, stopping.Converged(5_000, "", 4))
    assert [judged[few] for few in made] == [*[stopping.FIRST_FEW] * (len(made) - 1), 100]
    assert len(made) > 1


# --- stopping early, and progress ---


@pytest.mark.usefixtures("slow_calls")
def test_ctrl_c_keeps_what_was_drawn_while_going_on():
    fit = tb.sample(MODEL, Ready(Interrupting(MH.kernel(MODEL, seed=1), [0], at=1_040)), warmup=10, **QUIET)
    assert fit.stats["stopped"] == "interrupted"
    assert fit.stats["interrupted"]
    assert fit.draws.shape == (4, 1_030, P)
    assert fit._diagnostics.r_hat.shape == (P,)


def test_the_bar_shows_how_many_draws_it_now_wants(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    fit = tb.sample(MODEL, MH, seed=1)
    made = fit.draws.shape[1]
    assert f"{made}/{made}" in capsys.readouterr().err


def test_a_request_without_a_number_leaves_it_open():
    assert Request(seed=1).draws is None
    assert stopping.rule_for(Request(draws=70, progress=False), None).first == 70  # type: ignore[arg-type]


# --- that it does no harm ---


def test_stopping_by_the_rule_does_not_bias_what_is_found():
    """Means, a skewed one and two tails, over 150 runs that stop after 1,000 to 6,000 draws, against the truth.

    A false alarm happens once in a million times (`harness.FALSE_ALARM`). A rule that likes certain means is noticed.
    """
    rule, runs = stopping.Converged(6_000, "", 4), 150
    functions = [lambda z: z, lambda z: np.exp(z / 2), lambda z: z < -1.645, lambda z: z > 1.645]
    truth = [0.0, np.exp(1 / 8), stats.norm.cdf(-1.645), stats.norm.cdf(-1.645)]
    draws = autoregressive(0.9, draws=rule.most, parameters=runs)  # which begin where they should
    found = np.empty((runs, len(functions)))
    for run in range(runs):
        mine = draws[:, :, run : run + 1]
        mine = mine[:, : looks(mine, rule)[-1]]
        found[run] = [function(mine).mean() for function in functions]
    z = (found.mean(0) - truth) / (found.std(0, ddof=1) / runs**0.5)
    assert np.abs(z).max() < harness.z_limit(runs, checks=len(truth))
    high = found[found[:, 0] > 0]
    wrong = (high.mean(0) - truth) / (high.std(0, ddof=1) / len(high) ** 0.5)
    assert wrong[0] > harness.z_limit(len(high), checks=len(truth))
