"""Proposals: their densities written out with scipy.stats, shapes, and the same moves from the same seed."""

import numpy as np
import pytest
from scipy import stats

from tallbayes.sampling.proposals import Independence, Mixture, OneAtATime, RandomWalk

P, CHAINS = 3, 6
CENTER = np.array([1.0, -2.0, 0.5])
FACTOR = np.array([[1.0, 0, 0], [0.5, 0.3, 0], [-4.0, 0.1, 2.0]])
SCALES = np.array([0.1, 1.0, 10.0])
WALK = RandomWalk(FACTOR, 0.7)
GAUSSIAN = Independence(CENTER, FACTOR)
STUDENT = Independence(CENTER, FACTOR, df=4.0)
PROPOSALS = {
    "one at a time": OneAtATime(SCALES),
    "random walk": WALK,
    "independence": GAUSSIAN,
    "independence, t": STUDENT,
    "mixture": Mixture(STUDENT, WALK, 0.3),
}
BLOCKS = [name for name in PROPOSALS if name != "one at a time"]


def generators(seed, chains=CHAINS):
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(chains)]


def points(chains=CHAINS):
    return np.random.default_rng(9).normal(size=(chains, P))


def log_q(proposal, at, to):
    """Log density of going from one point to another, with scipy."""
    covariance = FACTOR @ FACTOR.T
    if isinstance(proposal, RandomWalk):
        return stats.multivariate_normal.logpdf(to, at, covariance * proposal.scale**2)
    if np.isfinite(proposal.df):
        return stats.multivariate_t.logpdf(to, proposal.center, covariance, proposal.df)
    return stats.multivariate_normal.logpdf(to, proposal.center, covariance)


@pytest.mark.parametrize("proposal", [WALK, GAUSSIAN, STUDENT], ids=["walk", "normal", "t"])
def test_log_q(proposal):
    theta = points()
    move = proposal.pick(theta, generators(1))
    for chain in range(CHAINS):
        here, there = theta[chain], move.theta[chain]
        truth = log_q(proposal, there, here) - log_q(proposal, here, there)
        # Both are differences of log densities of size up to 1,000 whose quadratic forms are solved with a
        # matrix of condition number about 300: rounding of 1e-16 x 1,000 x 300.
        assert np.broadcast_to(move.log_q, CHAINS)[chain] == pytest.approx(truth, abs=3e-11)


@pytest.mark.parametrize("name", PROPOSALS)
def test_shapes(name):
    proposal, theta = PROPOSALS[name], points()
    before = theta.copy()
    moves = [proposal.pick(theta, generators(2))]
    moves += [proposal.propose(theta, update, generators(2)) for update in range(proposal.updates)]
    for move in moves:
        assert move.theta.shape == (CHAINS, P)
        assert np.shape(move.log_q) in [(), (CHAINS,)]
        assert not np.shares_memory(move.theta, theta)
    assert (theta == before).all()
    assert proposal.updates == (P if name == "one at a time" else 1)
    assert proposal.by_column == (name == "one at a time")


@pytest.mark.parametrize("name", PROPOSALS)
def test_same_seed_same_moves(name):
    proposal, theta = PROPOSALS[name], points()
    first, again, other = (proposal.pick(theta, generators(seed)).theta for seed in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any(1).all()


@pytest.mark.parametrize("name", PROPOSALS)
def test_a_chain_does_not_see_the_others(name):
    # To rounding only: BLAS may add in another order for another number of rows.
    proposal, theta = PROPOSALS[name], points()
    together = proposal.pick(theta, generators(5)).theta
    alone = [proposal.pick(theta[[chain]], [generators(5)[chain]]).theta[0] for chain in range(CHAINS)]
    assert together == pytest.approx(np.array(alone), rel=1e-14)


def test_one_at_a_time_moves_one_column():
    proposal, theta = PROPOSALS["one at a time"], points()
    for update in range(P):
        move = proposal.propose(theta, update, generators(update))
        assert move.column == update
        assert ((move.theta != theta) == (np.arange(P) == update)).all()
        assert move.log_q == 0
    picked = proposal.pick(theta, generators(6))
    assert ((picked.theta != theta).sum(1) == 1).all()
    assert picked.column is None  # chains pick different ones


def test_one_at_a_time_picks_and_scales():
    chains = 6000
    proposal, theta = PROPOSALS["one at a time"], np.zeros((chains, P))
    moved = proposal.pick(theta, generators(7, chains)).theta
    counts = (moved != 0).sum(0)
    # 5 binomial standard errors: a false alarm in 3 x 6e-7 of all seeds.
    assert (np.abs(counts - chains / P) < 5 * np.sqrt(chains * (1 / P) * (1 - 1 / P))).all()
    for j in range(P):
        squares = (moved[moved[:, j] != 0, j] / SCALES[j]) ** 2
        assert abs(squares.mean() - 1) < 5 * np.sqrt(2 / squares.size)
    doubled = proposal.scaled(np.array([2.0, 1.0, 0.5])).propose(theta[:4], 0, generators(8, 4)).theta
    assert doubled[:, 0] == pytest.approx(2 * proposal.propose(theta[:4], 0, generators(8, 4)).theta[:, 0])


@pytest.mark.parametrize(
    ("proposal", "mean", "covariance"),
    [
        (WALK, np.zeros(P), 0.49 * FACTOR @ FACTOR.T),
        (GAUSSIAN, CENTER, FACTOR @ FACTOR.T),
        (Independence(CENTER, FACTOR, df=12.0), CENTER, 12 / 10 * FACTOR @ FACTOR.T),
    ],
    ids=["walk", "normal", "t"],
)
def test_draws_have_the_stated_moments(proposal, mean, covariance):
    chains = 6000
    theta = proposal.pick(np.zeros((chains, P)), generators(10, chains)).theta
    white = np.linalg.solve(np.linalg.cholesky(covariance), (theta - mean).T)
    assert (np.abs(white.mean(1)) * chains**0.5 < 5).all()  # 5 standard errors: 6e-7 of all seeds each
    # A square has variance 2 for a normal, and 3 (df - 2) / (df - 4) - 1 = 2.75 for this t.
    assert (np.abs((white**2).mean(1) - 1) < 5 * np.sqrt(2.75 / chains)).all()
    assert (np.abs((white @ white.T / chains)[np.triu_indices(P, 1)]) < 5 * np.sqrt(1.25 / chains)).all()


def test_scaled_walk():
    theta = points()
    steps = [walk.pick(theta, generators(11)).theta - theta for walk in (WALK, WALK.scaled(3.0))]
    assert steps[1] == pytest.approx(3 * steps[0], rel=1e-12)
    assert WALK.scaled(np.array([2.0])).scale == 1.4


def test_independence_draw():
    draws = GAUSSIAN.draw(generators(12))
    assert draws.shape == (CHAINS, P)
    assert (draws == GAUSSIAN.pick(points(), generators(12)).theta).all()


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_mixture_proportions(probability):
    chains = 4000
    still = RandomWalk(np.zeros((P, P)), 1.0)
    mixture, theta = Mixture(still, GAUSSIAN, probability), np.tile(points(1), (chains, 1))
    move = mixture.pick(theta, generators(13, chains))
    stayed = (move.theta == theta).all(1)
    # 5 binomial standard errors: a false alarm in 6e-7 of all seeds.
    assert abs(stayed.sum() - chains * probability) <= 5 * np.sqrt(chains * probability * (1 - probability))
    # Each move brings the ratio of the proposal that made it.
    assert (move.log_q[stayed] == 0).all()
    expected = log_q(GAUSSIAN, 0, theta) - log_q(GAUSSIAN, 0, move.theta)
    assert move.log_q[~stayed] == pytest.approx(expected[~stayed], abs=3e-11)  # as in test_log_q


def test_mixture_of_mixtures_and_single_columns():
    theta = points()
    move = Mixture(Mixture(WALK, STUDENT, 0.5), GAUSSIAN, 0.5).pick(theta, generators(14))
    assert move.theta.shape == (CHAINS, P)
    move = Mixture(OneAtATime(SCALES), GAUSSIAN, 1.0).pick(theta, generators(15))
    assert ((move.theta != theta).sum(1) == 1).all()
    assert move.column is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: Independence(CENTER, FACTOR, df=np.nan),
        lambda: Independence(CENTER, FACTOR, df=-1.0),
        lambda: Mixture(WALK, GAUSSIAN, 1.5),
        lambda: Mixture(WALK, GAUSSIAN, np.nan),
    ],
    ids=["df nan", "df -1", "probability 1.5", "probability nan"],
)
def test_impossible_settings_are_refused(make):
    with pytest.raises(ValueError):
        make()
