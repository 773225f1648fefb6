"""One classifier on the rows of a folder, in the peers' environment: `python classifiers.py PEER FOLDER SECONDS`.

Reads X.npy, y.npy and X_test.npy; writes PEER.npy, the probabilities of the test rows, and PEER.json: seconds, a note
and, of a sampler, draws of the log-odds of the first test rows by chain. Seconds are those of fitting; importing,
reading and predicting do not count. A sampler does what fits into SECONDS, trials and predictions included.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

POINTS = 50  # test rows whose log-odds are followed
CHAINS = 2
SHARE = 0.6  # of the time limit that samplers plan for; predictions take some of the rest
TREES, GROWN, TRIAL, ITERATIONS, FEWEST = 200, 5, 10, 800, 200  # of BART; half of the iterations are kept
GROWING = 10  # iterations that take as long as growing all trees from their roots once
MOVES, KEPT = 20_000, 200  # of pyBASS
SLOWER = 2  # how much longer its moves may take than in a trial, when bases are few
LEAVES = (15, 63)  # that gradient boosting may have


class Data(NamedTuple):
    X: np.ndarray  # (rows, columns)
    y: np.ndarray
    X_test: np.ndarray


class Outcome(NamedTuple):
    chance: np.ndarray
    seconds: float
    note: str
    draws: np.ndarray | None = None  # (chains, draws, points) of log-odds


def boosting(data: Data, limit: float) -> Outcome:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return fitted(HistGradientBoostingClassifier(random_state=1), data, "defaults")


def boosting_tuned(data: Data, limit: float) -> Outcome:
    """Small steps until a tenth of the rows says stop, which also chooses the number of leaves."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    def fit(leaves: int) -> Any:
        how: dict[str, Any] = {"learning_rate": 0.05, "max_iter": 2_000, "early_stopping": True, "n_iter_no_change": 20}
        return HistGradientBoostingClassifier(max_leaf_nodes=leaves, random_state=1, **how).fit(data.X, data.y)

    seconds, found = clocked(lambda: [fit(leaves) for leaves in LEAVES])
    best = max(found, key=lambda one: one.validation_score_.max())
    note = f"{best.n_iter_} trees of {best.max_leaf_nodes} leaves, best of {LEAVES}"
    return Outcome(best.predict_proba(data.X_test)[:, 1], seconds, note)


def forest(data: Data, limit: float) -> Outcome:
    from sklearn.ensemble import RandomForestClassifier

    return fitted(RandomForestClassifier(min_samples_leaf=20, n_jobs=-1, random_state=1), data, "100 trees")


def logistic(data: Data, limit: float) -> Outcome:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return fitted(make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000)), data, "linear, no interactions")


def bart(data: Data, limit: float) -> Outcome:
    """Probit BART, whose chains start from trees grown from the root; if time is short, on a subsample of the rows.

    One thread: with two, an iteration takes longer.
    """
    from scipy.special import log_ndtr, ndtr
    from stochtree import BARTModel, OutcomeModel

    def run(rows: int, chains: int, grown: int, iterations: int) -> Any:
        link = OutcomeModel(outcome="binary", link="probit")
        how = {"outcome_model": link, "num_chains": chains, "num_threads": 1, "random_seed": 1}
        how |= {"sample_sigma2_global": False}
        model = BARTModel()
        many: dict[str, Any] = {"num_gfr": grown, "num_mcmc": iterations, "mean_forest_params": {"num_trees": TREES}}
        model.sample(data.X[:rows], data.y[:rows], general_params=how, **many)
        return model

    rows = len(data.y)
    step = clocked(lambda: run(rows, 1, 0, TRIAL))[0] / TRIAL
    affordable = SHARE * limit / step - TRIAL  # iterations on all rows
    growing = GROWN * GROWING
    iterations = min(ITERATIONS, max(FEWEST, int(affordable - growing) // CHAINS))
    rows = min(rows, int(rows * affordable / (CHAINS * iterations + growing)))
    seconds, model = clocked(lambda: run(rows, CHAINS, GROWN, iterations))
    f = model.predict(data.X_test, terms="y_hat").reshape(len(data.X_test), CHAINS, iterations)[:, :, iterations // 2 :]
    points = np.moveaxis(f[:POINTS], 0, 2)
    note = f"probit, {TREES} trees, {CHAINS} chains of {iterations}, half kept" + few(iterations, ITERATIONS)
    note += f"; {rows:,} of the rows" * (rows < len(data.y))
    return Outcome(ndtr(f).mean((1, 2)), seconds, note, log_ndtr(points) - log_ndtr(-points))


def bass(data: Data, limit: float) -> Outcome:
    """Bayesian MARS for Gaussian outcomes, of which 0 and 1 are taken to be some; predictions are clipped."""
    from pyBASS import bass

    y, least = data.y.astype(float), 1 / len(data.y)

    def run(seed: int, moves: int) -> Any:
        np.random.seed(seed)  # noqa: NPY002 (pyBASS draws from the global generator)
        return bass(data.X, y, nmcmc=moves, nburn=moves // 2, thin=max(1, moves // 2 // KEPT), verbose=False)

    trial = MOVES // 50
    step = SLOWER * clocked(lambda: run(0, trial))[0] / trial
    moves = min(MOVES, int(SHARE * limit / (step * CHAINS)))
    seconds, models = clocked(lambda: [run(chain, moves) for chain in range(1, CHAINS + 1)])
    chance = np.array([model.predict(data.X_test) for model in models]).clip(least, 1 - least)
    points = chance[:, :, :POINTS]
    bases = np.mean([model.samples.nbasis.mean() for model in models])
    note = f"Gaussian, clipped; {CHAINS} chains of {moves:,} moves, half kept; {bases:.0f} bases" + few(moves, MOVES)
    return Outcome(chance.mean((0, 1)), seconds, note, np.log(points / (1 - points)))


PEERS: dict[str, Callable[[Data, float], Outcome]] = {
    one.__name__: one for one in (boosting, boosting_tuned, forest, logistic, bart, bass)
}


def fitted(model: Any, data: Data, note: str) -> Outcome:
    seconds, _ = clocked(lambda: model.fit(data.X, data.y))
    return Outcome(model.predict_proba(data.X_test)[:, 1], seconds, note)


def clocked(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of a call, and what it returned."""
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def few(done: int, wanted: int) -> str:
    return f" (not {wanted:,}, for the time limit)" if done < wanted else ""


def main(peer: str, folder: str, limit: str) -> None:
    """Run a peer and write what came out."""
    out = Path(folder)
    found = PEERS[peer](Data(*(np.load(out / f"{name}.npy") for name in Data._fields)), float(limit))
    np.save(out / f"{peer}.npy", found.chance)
    if found.draws is not None:
        np.save(out / f"{peer}_draws.npy", found.draws)
    (out / f"{peer}.json").write_text(json.dumps({"seconds": found.seconds, "note": found.note}))


if __name__ == "__main__":
    main(*sys.argv[1:])
