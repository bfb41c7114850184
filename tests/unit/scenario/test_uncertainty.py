"""Uncertainty in scenarios: round trips, draws, and refusals that name the place."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import fedpact as fp
from fedpact.scenario import parse_scenario, scenario_to_dict, schema
from unit.fitting.planted import planted

WEIGHTS = np.array([[0.03, 0.01], [0.0, 0.02]])


def scenario(**changes) -> fp.Scenario:
    federation = fp.Federation(WEIGHTS, costs=0.001, caps=400.0, payoff=fp.PowerLaw(0.6), values=0.8)
    stated = {"weights": 0.1 * WEIGHTS + 0.001, "values": 0.01, "parameter": 0.03} | changes
    return fp.Scenario(federation=federation, uncertainty=fp.Uncertainty(**stated))


def document(**changes) -> dict:
    plain = scenario_to_dict(scenario(factor=np.eye(6)))
    plain["uncertainty"] = {key: given for key, given in (plain["uncertainty"] | changes).items() if given is not ...}
    return plain


@pytest.mark.parametrize("suffix", ["toml", "json"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"signs": "any"},
        {"values": [0.01, 0.02], "parameter": [0.1, 0.0]},
        {"factor": np.ones((6, 1))},
        {"factor": np.tile([1.0] + [0.0] * 1999, (6, 1))},
    ],
    ids=["errors only", "any sign", "per member", "factor", "large factor"],
)
def test_what_is_saved_is_loaded(tmp_path: Path, suffix: str, changes: dict) -> None:
    given, path = scenario(**changes), tmp_path / f"s.{suffix}"
    fp.save_scenario(given, path)
    loaded = fp.load_scenario(path)
    assert loaded == given
    fp.save_scenario(loaded, path)
    assert fp.load_scenario(path) == given
    assert (tmp_path / "s.factor.npz").exists() == (np.size(changes.get("factor", ())) > 10_000)


def test_the_schema_knows_the_table() -> None:
    Draft202012Validator(schema()).validate(document())
    Draft202012Validator(schema()).validate(document(factor="s.factor.npz"))


def test_scenarios_without_uncertainty_are_as_they_were() -> None:
    plain = scenario_to_dict(fp.Scenario(federation=scenario().federation))
    assert "uncertainty" not in plain
    assert parse_scenario(plain, where="x").uncertainty is None
    assert scenario() != fp.Scenario(federation=scenario().federation)
    assert scenario() != scenario(signs="any")


def test_draws_have_the_medians_and_errors_stated() -> None:
    given = scenario()
    drawn = given.uncertainty.draws(given.federation, 20_000, 0)
    # A median or a standard deviation of 20,000 draws is good to about 1 %; five standard errors.
    np.testing.assert_allclose(np.median(drawn.payoff.beta, axis=0), 0.6, rtol=0.005)
    np.testing.assert_allclose(drawn.payoff.beta.std(axis=0), 0.03, rtol=0.05)
    np.testing.assert_allclose(drawn.values.std(axis=0), 0.01, rtol=0.05)
    np.testing.assert_allclose(np.median(drawn.weights, axis=0), WEIGHTS, atol=1e-4)
    np.testing.assert_allclose(drawn.weights.std(axis=0)[0], 0.1 * WEIGHTS[0] + 0.001, rtol=0.05)
    assert (drawn.weights >= 0).all()
    assert (scenario(signs="any").uncertainty.draws(given.federation, 100, 0).weights[:, 1, 0] < 0).any()
    np.testing.assert_array_equal(drawn.weights[:3], given.uncertainty.draws(given.federation, 20_000, 0).weights[:3])


def test_correlations_are_those_of_the_draws() -> None:
    factor = np.eye(6)
    factor[2, [0, 2]] = -0.9, np.sqrt(1.0 - 0.81)  # beta and the first own weight
    given = scenario(factor=factor)
    drawn = given.uncertainty.draws(given.federation, 20_000, 1)
    found = np.corrcoef(np.log(drawn.payoff.beta[:, 0]), np.log(drawn.weights[:, 0, 0]))[0, 1]
    np.testing.assert_allclose(found, -0.9, atol=0.02)
    same = scenario(factor=np.ones((6, 1))).uncertainty.draws(given.federation, 50, 0)
    order = np.argsort(same.payoff.beta[:, 0])
    assert (np.diff(same.values[order, 0]) > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("n_agents", [3, 8])
def test_a_fit_survives_the_file(tmp_path: Path, n_agents: int) -> None:
    found = fp.fit(planted(0, n_agents=n_agents, n_runs=40).observations)
    given, path = found.scenario(costs=0.001, caps=400.0), tmp_path / "fit.toml"
    fp.save_scenario(given, path)
    loaded = fp.load_scenario(path)
    assert loaded == given
    assert (tmp_path / "fit.factor.npz").exists() == (n_agents == 8)
    ours, theirs = (each.uncertainty.draws(each.federation, 10, 0) for each in (given, loaded))
    np.testing.assert_array_equal(theirs.weights, ours.weights)


def test_worth_per_agent_goes_with_the_values() -> None:
    found = fp.fit(planted(0, n_agents=2, n_runs=30).observations)
    stated = found.uncertainty(worth=[1.0, 10.0])
    np.testing.assert_allclose(stated.values[1], 10.0 * stated.values[0], rtol=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": ...}, "uncertainty.weights is missing"),
        ({"weights": 0.1}, "uncertainty.weights must be a list of rows, or the name of a .npz file, got 0.1"),
        ({"weights": [[0.1, 0.1], [0.1]]}, "uncertainty.weights must be a matrix of numbers, got [[0.1, 0.1], [0.1]]"),
        ({"weights": [[0.1]]}, "uncertainty.factor must have 3 rows"),
        ({"weights": [[0.1, -1.0], [0.1, 0.1]]}, "uncertainty.weights[0, 1] must be at least zero and finite, got -1"),
        ({"beta": -0.1}, "uncertainty.beta must be at least zero, got -0.1"),
        ({"rate": 0.1}, "unknown key 'uncertainty.rate'; known keys here are weights, values, beta, signs"),
        ({"signs": "both"}, "uncertainty.signs must be one of positive, any, got 'both'"),
        ({"factor": [[1.0]]}, "uncertainty.factor must have 6 rows"),
        ({"factor": (2 * np.eye(6)).tolist()}, "uncertainty.factor must have 6 rows of length at most one"),
        ({"factor": "gone.npz"}, "gone.npz: there is no such file"),
        ({"factor": "gone.csv"}, "the file's name must end in .npz, got 'gone.csv'"),
    ],
)
def test_spoiled_tables_are_refused_in_words(tmp_path: Path, changes: dict, message: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(document(**changes)), encoding="utf-8")
    with pytest.raises(fp.InvalidInput) as caught:
        fp.load_scenario(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_a_spoiled_factor_is_refused(tmp_path: Path) -> None:
    fp.save_scenario(scenario(factor=np.tile([1.0] + [0.0] * 1999, (6, 1))), tmp_path / "s.toml")
    beside = tmp_path / "s.factor.npz"
    for content, message in [
        (b"not an archive", "is not a readable NPZ archive"),
        (beside.read_bytes()[:40], "is not a readable NPZ archive"),
    ]:
        beside.write_bytes(content)
        with pytest.raises(fp.InvalidInput, match=message):
            fp.load_scenario(tmp_path / "s.toml")
    np.savez(beside, factor=np.ones((5, 1)))
    with pytest.raises(fp.InvalidInput, match=r"uncertainty.factor must have 6 rows of length at most one"):
        fp.load_scenario(tmp_path / "s.toml")
    np.savez(beside, factor=np.full((6, 1), np.nan))
    with pytest.raises(fp.InvalidInput, match=r"uncertainty.factor must have 6 rows"):
        fp.load_scenario(tmp_path / "s.toml")


def test_uncertainty_fits_its_federation() -> None:
    with pytest.raises(fp.InvalidInput, match=r"one row per member, like weights: 2 x 2 weights, 1 x 1 given"):
        fp.Scenario(federation=scenario().federation, uncertainty=fp.Uncertainty(weights=[[0.1]]))
    with pytest.raises(fp.InvalidInput, match="must be an Uncertainty or None"):
        fp.Scenario(federation=scenario().federation, uncertainty=0.1)  # type: ignore[arg-type]
    log = fp.Federation(WEIGHTS, costs=0.001, payoff=fp.Log())
    with pytest.raises(fp.InvalidInput, match="the payoff family log has no parameter that could be uncertain"):
        fp.Scenario(federation=log, uncertainty=fp.Uncertainty(weights=WEIGHTS, parameter=0.1))
    assert fp.Scenario(federation=log, uncertainty=fp.Uncertainty(weights=WEIGHTS)).uncertainty is not None


@pytest.mark.parametrize("values", [0.1, [0.1, 0.2, 0.3]])
def test_some_agents_keep_their_correlations(values: object) -> None:
    """Draws of the smaller federation stray like those of the larger one."""
    rng, count = np.random.default_rng(0), 1 + np.size(values) + 9
    rows = rng.standard_normal((count, count))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    errors = rng.uniform(0.01, 0.1, (3, 3))
    whole = fp.Uncertainty(weights=errors, values=values, parameter=0.01, factor=rows)
    part = whole.take([2, 0], [2, 0])
    np.testing.assert_array_equal(part.weights, errors[np.ix_([2, 0], [2, 0])])
    correlations = rows @ rows.T
    first = 1 + np.size(values)
    own = [0] + ([1] if np.size(values) == 1 else [3, 1]) + [first + place for place in (8, 6, 2, 0)]
    np.testing.assert_allclose(part.factor @ part.factor.T, correlations[np.ix_(own, own)], atol=1e-9)
