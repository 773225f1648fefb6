import numpy as np
import pytest
from arviz_stats.base import array_stats

from tallbayes.sampling.diagnostics import diagnose, edpm, ess, mcse, problems, r_hat


def autoregressive(phi, chains=4, draws=2_000, parameters=50, seed=0):
    """Stationary AR(1) chains with variance 1: their ESS is n (1 - phi) / (1 + phi)."""
    noise = np.random.default_rng(seed).normal(size=(draws, chains, parameters))
    x = noise.copy()
    for t in range(1, draws):
        x[t] = phi * x[t - 1] + np.sqrt(1 - phi**2) * noise[t]
    return x.swapaxes(0, 1)


@pytest.fixture(scope="module")
def noise():
    return np.random.default_rng(1).normal(size=(4, 1_000, 3))


@pytest.mark.parametrize("phi", [-0.3, 0.0, 0.5, 0.8])
@pytest.mark.parametrize("chains", [1, 4])
def test_ess_of_autoregressive_chains_is_the_known_one(phi, chains):
    draws = autoregressive(phi, chains=chains)
    found, truth = ess(draws), chains * 2_000 * (1 - phi) / (1 + phi)
    # Four standard errors of the mean of fifty parameters, and a bias of 4%: the sum of autocorrelations ends
    # at the first negative pair, so it keeps noise that is mostly positive (0 to -5% over other seeds).
    assert abs(found.mean() - truth) < 4 * found.std(ddof=1) / np.sqrt(found.size) + 0.04 * truth


def test_mcse_covers_the_true_mean_and_sd_as_often_as_it_says():
    draws = autoregressive(0.6, parameters=200)
    for error, miss in [
        (mcse(draws), draws.mean(axis=(0, 1))),
        (mcse(draws, "sd"), draws.std(axis=(0, 1)) - 1),
    ]:
        # 95% intervals of 200 parameters: 10 misses expected, and more than 24 once in forty thousand.
        assert (np.abs(miss) > 1.96 * error).sum() <= 24
        assert np.abs(miss).max() < 5 * error.max()


def rare_stays(parameters, enter=1 / 300, leave=1 / 20, far=4.0, chains=4, draws=1_000, seed=0):
    """Standard normal draws, but now and then a chain goes `far` off and stays for a while; and their true mean."""
    rng = np.random.default_rng(seed)
    away = np.empty((draws, chains, parameters), dtype=bool)
    away[0] = rng.random(away[0].shape) < enter / (enter + leave)
    for t in range(1, draws):
        u = rng.random(away[0].shape)
        away[t] = np.where(away[t - 1], u >= leave, u < enter)
    return (rng.normal(size=away.shape) + far * away).swapaxes(0, 1), far * enter / (enter + leave)


def test_mcse_is_no_smaller_than_the_error_where_chains_rarely_go_far_off():
    draws, truth = rare_stays(1_500)
    miss = draws.mean(axis=(0, 1)) - truth
    # Root mean squares of z over 1,500 runs: 1.03 and 1.37 over other seeds, with an sd of 0.027 and 0.045.
    assert np.sqrt(np.mean((miss / mcse(draws)) ** 2)) < 1.16
    ess_mean = array_stats.ess(np.ascontiguousarray(np.moveaxis(draws, 2, 0)), method="mean")
    old = draws.std(axis=(0, 1), ddof=1) / np.sqrt(ess_mean)
    assert np.sqrt(np.mean((miss / old) ** 2)) > 1.18


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_mcse_of_chains_that_mix_well_is_hardly_larger_for_the_squares(phi):
    draws = autoregressive(phi, draws=1_000, parameters=200)
    ess_mean = np.array([array_stats.ess(draws[:, :, k], method="mean") for k in range(200)])
    old = draws.std(axis=(0, 1), ddof=1) / np.sqrt(ess_mean)
    assert 1 <= np.mean(mcse(draws) / old) < 1.02


def test_ess_does_not_depend_on_monotone_transforms(noise):
    np.testing.assert_allclose(ess(np.exp(3 * noise)), ess(noise), rtol=1e-12)


def test_tails_can_be_worse_than_the_bulk():
    # The sign changes at random, so the bulk mixes; the size is slow, so the tails do not.
    size = np.exp(autoregressive(0.98, parameters=5))
    signs = np.random.default_rng(3).choice([-1.0, 1.0], size.shape)
    assert (ess(signs * size, "tail") < 0.5 * ess(signs * size)).all()


def test_chains_that_disagree_have_a_large_r_hat(noise):
    shifted = noise + np.array([0, 0, 0, 2.0])[:, None, None]
    assert (r_hat(noise) < 1.01).all()
    assert (r_hat(shifted) > 1.1).all()
    wider = noise * np.array([1, 1, 1, 4.0])[:, None, None]  # same means, told apart by the folded draws
    assert (r_hat(wider) > 1.05).all()


def test_one_chain_that_drifts_has_a_large_r_hat(noise):
    one = noise[:1]
    assert (r_hat(one) < 1.02).all()
    assert (r_hat(one + np.linspace(0, 3, 1_000)[None, :, None]) > 1.1).all()


@pytest.mark.parametrize("levels", [np.ones(4), np.arange(4.0)])
def test_chains_that_never_move_have_no_effective_draws(noise, levels):
    draws = noise.copy()
    draws[:, :, 1] = levels[:, None]
    found = diagnose(draws)
    assert found.ess_bulk[1] == 0
    assert found.ess_tail[1] == 0
    assert np.isnan([found.r_hat[1], found.mcse_mean[1], found.mcse_sd[1]]).all()
    for values, plain in zip(found, diagnose(noise), strict=True):
        np.testing.assert_array_equal(values[[0, 2]], plain[[0, 2]])


def test_half_chains_that_stand_still_raise_nothing():
    draws = np.zeros((1, 8, 1))
    draws[0, 6:] = 1
    assert np.isfinite(ess(draws)).all()
    assert r_hat(draws)[0] > 1.01


@pytest.mark.parametrize("count", [0, 1, 3])
def test_very_few_draws_give_nan(noise, count):
    for values in diagnose(noise[:, :count]):
        assert values.shape == (3,)
        assert np.isnan(values).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_draws_that_are_not_finite_give_nan_for_their_parameter_only(noise, bad):
    draws = noise.copy()
    draws[2, 5, 0] = bad
    for values in diagnose(draws):
        assert np.isnan(values[0])
        assert np.isfinite(values[1:]).all()


def test_edpm_is_the_ess_of_the_thinned_chain_over_minutes(noise):
    np.testing.assert_array_equal(edpm(noise, 0.5, thin=10), ess(noise[:, ::10]) / 0.5)


def test_arguments_are_checked(noise):
    for call, message in [
        (lambda: ess(noise, "middle"), "choose one of bulk, tail"),
        (lambda: mcse(noise, "median"), "choose one of mean, sd"),
        (lambda: ess(noise[0]), r"shape \(chain, draw, parameter\), got \(1000, 3\)"),
        (lambda: edpm(noise, 0.0), "minutes must be a positive number"),
        (lambda: edpm(noise, 1.0, thin=0), "thin must be a whole number of at least 1"),
        (lambda: problems(noise, ["a"]), "1 names for 3 parameters"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def test_good_draws_have_no_problems(noise):
    assert problems(noise, ["a", "b", "c"]) == []


def test_each_problem_names_the_worst_parameter(noise):
    names = ["a", "b", "c"]
    slow = noise.copy()
    slow[:, :, 1:] = autoregressive(0.97, draws=1_000, parameters=2)
    slow[:, :, 2] = autoregressive(0.999, draws=1_000, parameters=1)[:, :, 0]
    said = problems(slow, names)
    assert [sentence.split(":")[0] for sentence in said] == [
        "chains disagree",
        "too few effective draws",
        "too few effective draws in the tails",
    ]
    assert all("for 'c' (2 of 3 parameters fail)" in sentence for sentence in said)

    stuck = noise.copy()
    stuck[:, :, :2] = 1
    assert problems(stuck, names) == ["no chain ever moved 'a' (and 1 more); its proposals are never accepted"]

    assert problems(noise[:, :3], names) == ["3 draws a chain are too few to judge convergence; take at least 1,000"]
    stuck[0, 0, 2] = np.nan
    assert problems(stuck, names) == ["'c' has draws that are not finite"]
