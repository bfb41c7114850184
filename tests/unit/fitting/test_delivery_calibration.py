"""Delivery under another training procedure than the weights': nobody is accused; calibrated, who delivers less is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fedpact as fp
from unit.fitting.test_delivery import CEILING, FLOOR, Case, draw, true_accuracies

TEST_SIZE = 150
N_MEMBERS = 6


def calibrated(case: Case, seed: int, *, run_noise: float = 0.01) -> fp.Calibration:
    """Calibrated on an earlier run of the case's procedure, starting from weights that say nothing."""
    rng, shape = np.random.default_rng([seed, 1]), case.subsets.shape
    subsets = rng.random(shape) < 0.5
    trained = true_accuracies(case.federation, case.contributions, subsets)
    trained = np.clip(trained + run_noise * rng.standard_normal((shape[0], 1)), 0.0, 1.0)
    alike = case.federation.replace(weights=np.full((shape[1], shape[1]), 0.012))
    seen = rng.binomial(case.test_size, trained) / case.test_size
    return fp.calibrate_delivery(alike, case.contributions, subsets, seen, case.test_size, FLOOR, CEILING)


def foreign(case: Case, seed: int) -> fp.Federation:
    """The case's federation by another procedure: other weights, and another curve."""
    rng = np.random.default_rng([seed, 2])
    weights = case.federation.weights * rng.lognormal(0.0, 0.6, case.federation.weights.shape)
    return case.federation.replace(weights=weights, payoff=fp.PowerLaw(beta=0.5))


@pytest.mark.slow
def test_calibrated_on_an_earlier_run_it_meets_the_bar() -> None:
    found, falsely, count = 0, 0, 40
    for seed in range(count):
        case = draw(seed)
        flagged = case.estimate(calibration=calibrated(case, seed)).flagged
        found += "agent 0" in flagged
        falsely += len(set(flagged) - {"agent 0"})
    assert found >= 0.9 * count
    assert falsely <= 0.05 * 5 * count


def test_calibrated_several_are_flagged_at_once() -> None:
    case = draw(0, (0.5, 0.5, 0.5, 0.5, 1.0, 1.0))
    found = case.estimate(calibration=calibrated(case, 0))
    assert set(found.flagged) == {"agent 0", "agent 1", "agent 2", "agent 3"}
    assert any("more than half of the members" in note for note in found.notes)


@pytest.mark.slow
def test_whoever_sends_what_fits_no_share_is_flagged_all_the_same() -> None:
    case = draw(2, (1.0,) * N_MEMBERS)
    calibration = calibrated(case, 2)
    rng, spoiled = np.random.default_rng(5), case.accuracies.copy()
    noisy = case.subsets[:, 3]
    spoiled[noisy] = np.clip(spoiled[noisy] - rng.uniform(0.1, 0.3, (int(noisy.sum()), 1)), 0.0, 1.0)
    found = case.estimate(accuracies=spoiled, calibration=calibration)
    assert found.can_judge
    assert "agent 3" in found.flagged


@pytest.mark.slow
@pytest.mark.parametrize(("factors", "flagged"), [((0.2, 0.2, 1.9), True), ((1.8, 1.8, 0.4), False)])
def test_updates_that_serve_some_less_and_others_more_are_told_by_what_all_measure(
    factors: tuple[float, float, float], flagged: bool
) -> None:
    """No share fits them: who serves less on the whole is flagged, and nobody who serves more."""
    case = draw(4, (1.0,) * N_MEMBERS)
    weights = case.federation.weights.copy()
    weights[:, 3] *= np.repeat(factors, 2)
    changed = case.federation.replace(weights=weights)
    now = np.random.default_rng(1).binomial(case.test_size, true_accuracies(changed, case.contributions, case.subsets))
    found = case.estimate(accuracies=now / case.test_size, calibration=calibrated(case, 4, run_noise=0.0))
    assert found.models.misfit_p_value(found.found) < 0.05
    assert ("agent 3" in found.flagged) == flagged


def test_the_power_is_told_before_anybody_is_found() -> None:
    case = draw(1, (1.0,) * N_MEMBERS)
    few = Case(case.federation, case.contributions, case.subsets[:12], case.accuracies[:12])
    much, little = (each.estimate(calibration=calibrated(case, 1)).power(0.6) for each in (case, few))
    assert (much > little).all()
    assert much.mean() > 0.9
    assert (case.estimate(calibration=calibrated(case, 1)).power(0.9) < much).all()


def test_a_calibration_of_many_members_is_refused() -> None:
    case = draw(0, (1.0,) * 13, models=5)
    with pytest.raises(fp.InvalidInput, match="a calibration takes at most 12 members, got 13"):
        calibrated(case, 0)


def test_a_calibration_of_others_is_refused() -> None:
    case = draw(0)
    other = Case(case.federation.replace(names=list("abcdef")), case.contributions, case.subsets, case.accuracies)
    with pytest.raises(fp.InvalidInput, match="the calibration must be of the same members"):
        case.estimate(calibration=calibrated(other, 0))


def test_weights_of_another_procedure_accuse_nobody() -> None:
    flagged, judged = 0, 0
    for seed in range(10):
        case = draw(seed, (1.0,) * N_MEMBERS)
        found = fp.estimate_delivery(
            foreign(case, seed), case.contributions, case.subsets, case.accuracies, 300, FLOOR, CEILING
        )
        flagged += len(found.flagged)
        judged += found.can_judge
    assert flagged <= 0.05 * N_MEMBERS * 10
    assert judged <= 3
    assert found.notes[0].startswith("cannot judge: the weights and curves do not fit the accuracies of the models")
    assert repr(found) == "Delivery(6 agents, 60 models, cannot judge)"


# Real models on real data: digits, dealt to members with different labels.


def deal_digits(seed: int) -> tuple[Any, Any, list[tuple[Any, Any]]]:
    datasets = pytest.importorskip("sklearn.datasets")
    points, labels = datasets.load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    train, test = order[:900], order[900:]
    members = []
    for _ in range(N_MEMBERS):
        mix = rng.dirichlet(np.full(10, 0.7)) + 1e-3
        own, tested = (
            rng.choice(pool, size, replace=False, p=mix[labels[pool]] / mix[labels[pool]].sum())
            for pool, size in ((train, int(rng.integers(40, 141))), (test, TEST_SIZE))
        )
        train = np.setdiff1d(train, own)
        members.append((own, tested))
    return points / 16.0, labels, members


def train_subsets(data: Any, model: Any, subsets: NDArray[np.bool_]) -> NDArray[np.float64]:
    points, labels, members = data
    scores = []
    for chosen in subsets:
        used = np.concatenate([own for (own, _), inside in zip(members, chosen, strict=True) if inside])
        fitted = model.fit(points[used], labels[used])
        scores.append([fitted.score(points[tested], labels[tested]) for _, tested in members])
    return np.array(scores)


def count_flagged(seeds: range, pilot: Any, models: list[Any]) -> tuple[int, int]:
    """How many honest members of runs with `models` are flagged by weights that `pilot` was fitted to, and of all."""
    flagged, count = 0, 0
    for seed in seeds:
        data, rng = deal_digits(seed), np.random.default_rng(seed)
        agreed = np.array([len(own) for own, _ in data[2]], dtype=float)
        drawn = [rng.random((60, N_MEMBERS)) < 0.5 for _ in range(len(models) + 1)]
        drawn = [subsets[subsets.sum(axis=1) > 0] for subsets in drawn]
        seen = fp.Observations.of(drawn[0] * agreed, train_subsets(data, pilot, drawn[0]), TEST_SIZE)
        fitted = fp.fit(seen)
        federation = fitted.federation(costs=1e-4)
        for model, subsets in zip(models, drawn[1:], strict=True):
            accuracies = train_subsets(data, model, subsets)
            for source in (None, fitted):
                found = fp.estimate_delivery(
                    federation,
                    agreed,
                    subsets,
                    accuracies,
                    TEST_SIZE,
                    fitted.floors,
                    fitted.ceilings,
                    weights_from=source,
                )
                flagged += len(found.flagged)
                count += N_MEMBERS
    return flagged, count


def estimator(name: str) -> Any:
    """A small model of scikit-learn."""
    linear_model, ensemble, naive_bayes, neighbors, neural_network = (
        pytest.importorskip(f"sklearn.{part}")
        for part in ("linear_model", "ensemble", "naive_bayes", "neighbors", "neural_network")
    )
    return {
        "bayes": lambda: naive_bayes.GaussianNB(var_smoothing=1e-2),
        "forest": lambda: ensemble.RandomForestClassifier(20, random_state=0),
        "logistic": lambda: linear_model.LogisticRegression(max_iter=200),
        "neighbour": lambda: neighbors.KNeighborsClassifier(1),
        "network": lambda: neural_network.MLPClassifier((24,), max_iter=60, learning_rate_init=0.01, random_state=0),
    }[name]()


@pytest.mark.slow
@pytest.mark.parametrize(("names", "seeds"), [(["bayes"], range(2)), (["logistic", "forest"], range(4))])
def test_calibrated_on_real_models_less_data_is_found(names: list[str], seeds: range) -> None:
    """Calibrated on an earlier run, who trains on 60 % of its records is found, and hardly anybody else."""
    found, falsely, runs = 0, 0, 0
    for seed, name in ((seed, name) for seed in seeds for name in names):
        data, rng, model = deal_digits(seed), np.random.default_rng([seed, 1]), estimator(name)
        points, labels, members = data
        own, tested = members[0]
        short = [(own[: round(0.6 * len(own))], tested), *members[1:]]
        agreed = np.array([len(own) for own, _ in members], dtype=float)
        alike = fp.Federation(np.full((N_MEMBERS, N_MEMBERS), 0.02), costs=1e-4, payoff=fp.PowerLaw(beta=0.7))
        before, now = (drawn[drawn.any(axis=1)] for drawn in rng.random((2, 60, N_MEMBERS)) < 0.5)
        calibration = fp.calibrate_delivery(alike, agreed, before, train_subsets(data, model, before), TEST_SIZE)
        seen = train_subsets((points, labels, short), model, now)
        flagged = fp.estimate_delivery(alike, agreed, now, seen, TEST_SIZE, calibration=calibration).flagged
        found, runs = found + (alike.names[0] in flagged), runs + 1
        falsely += len(set(flagged) - {alike.names[0]})
    assert found >= 0.9 * runs
    assert falsely <= 0.05 * (N_MEMBERS - 1) * runs


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("pilot", "names", "seeds"),
    [("bayes", ["neighbour"], range(2)), ("logistic", ["forest", "network"], range(2))],
)
def test_honest_runs_of_other_models_accuse_nobody(pilot: str, names: list[str], seeds: range) -> None:
    flagged, count = count_flagged(seeds, estimator(pilot), [estimator(name) for name in names])
    assert flagged <= 0.05 * count
