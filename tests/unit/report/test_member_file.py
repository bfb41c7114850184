"""A member's own row from its own accuracies: the same as from everybody's, and what its private file says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting import Observations, fit
from fedpact.negotiation.agent_file import load_agent
from fedpact.report.member_file import (
    agent_text,
    member_agent,
    member_intervals,
    member_notes,
    save_member,
)

WEIGHTS = np.array([[0.03, 0.012, 0.006], [0.01, 0.025, 0.015], [0.008, 0.02, 0.03]])
BETA, FLOOR, CEILING, TESTED = 0.6, 0.1, 0.95, 20_000
NAMES = ("North", "South", "West")


def runs(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    given = rng.uniform(0.0, 500.0, (60, 3)) * (rng.random((60, 3)) < 0.7)
    expected = FLOOR + (CEILING - FLOOR) * (1.0 - (1.0 + given @ WEIGHTS.T) ** -BETA)
    return given, rng.binomial(TESTED, expected) / TESTED


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Contributions of all, accuracies of one."""
    given, accuracies = runs()
    path = tmp_path / "runs.csv"
    head = [*(f"contributions.{name}" for name in NAMES), "accuracy.South", "test_size.South"]
    lines = [",".join(map(str, [*row, own, TESTED])) for row, own in zip(given, accuracies[:, 1], strict=True)]
    path.write_text("\n".join([",".join(head), *lines]) + "\n")
    return path


def test_one_member_s_accuracies_are_enough_for_its_row(log: Path) -> None:
    seen = Observations.from_files([log], member="South")
    found = fit(seen, shared=())
    given, accuracies = runs()
    together = fit(Observations.of(given, accuracies, TESTED, NAMES), shared=())
    low, high = np.moveaxis(found.intervals(0.999)["weights"][1], -1, 0)
    assert (low < WEIGHTS[1]).all() and (WEIGHTS[1] < high).all()
    np.testing.assert_allclose(found.weights[1], together.weights[1], rtol=0.05)  # the noise is estimated from all


def test_without_a_member_the_log_is_refused(log: Path) -> None:
    with pytest.raises(fp.InvalidInput, match=r"there is no column accuracy\.North"):
        Observations.from_files([log])
    with pytest.raises(fp.InvalidInput, match="member must be one of those of the log, North, South, West, got 'East'"):
        Observations.from_files([log], member="East")
    with pytest.raises(
        fp.InvalidInput, match=r"there is no column accuracy\.North, so nothing says what data is worth"
    ):
        Observations.from_files([log], member="North")


@pytest.mark.slow
def test_accuracies_of_others_do_not_matter(tmp_path: Path) -> None:
    given, accuracies = runs()
    fits = []
    for spoiled in (accuracies, np.where([True, False, True], 0.5, accuracies)):
        path = tmp_path / f"{len(fits)}.csv"
        head = [f"{kind}.{name}" for kind in ("contributions", "accuracy") for name in NAMES]
        lines = [",".join(map(str, row)) for row in np.hstack([given, spoiled])]
        path.write_text("\n".join([",".join(head), *lines]) + "\n")
        fits.append(fit(Observations.from_files([path], member="South")))
    np.testing.assert_array_equal(fits[0].weights[1], fits[1].weights[1])


def test_the_private_file_is_an_agent_with_intervals(log: Path, tmp_path: Path) -> None:
    found = fit(Observations.from_files([log], member="South"))
    agent = member_agent(found, "South", costs=0.0002, caps=500.0)
    save_member(agent, member_notes(found, agent, level=0.9), tmp_path / "south.json")
    again = load_agent(tmp_path / "south.json")
    np.testing.assert_array_equal(again.weights, found.weights[[1]])
    assert (again.name, again.index, float(again.values[0])) == ("South", 1, found.values[1])
    record = json.loads((tmp_path / "south.json").read_text())
    intervals = member_intervals(found, agent, 0.9)
    low, high = intervals["weights"].T
    assert (low <= again.weights).all() and (again.weights <= high).all() and record["agents"] == list(NAMES)
    low, high = intervals["beta"]
    assert low < BETA < high
    assert f"beta {low:.3g} to {high:.3g}; a sample of North" in record["known"]


def test_intervals_are_of_what_accuracy_is_worth_to_it(log: Path) -> None:
    found = fit(Observations.from_files([log], member="South"))
    agents = [member_agent(found, "South", costs=0.0002, worth=worth) for worth in (1.0, 50.0)]
    plain, paid = (member_intervals(found, agent, 0.9)["value"] for agent in agents)
    np.testing.assert_allclose(paid, 50.0 * plain)


@pytest.mark.parametrize(
    ("agents", "words"),
    [
        (["North", "South"], "name each of the 3 members"),
        (["North", "South", "South"], "name each of the 3 members"),
        (["South", "North", "West"], "must be the member itself"),
        ("North", "a list of names"),
    ],
)
def test_names_that_contradict_the_members_own_are_refused(
    log: Path, tmp_path: Path, agents: object, words: str
) -> None:
    found, path = fit(Observations.from_files([log], member="South")), tmp_path / "south.json"
    agent = member_agent(found, "South", costs=0.0003)
    save_member(agent, member_notes(found, agent, level=0.9), path)
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"agents": agents}))
    with pytest.raises(fp.InvalidInput, match=words):
        load_agent(path)


@pytest.mark.parametrize(("least", "words"), [(None, "takes any deal"), (0.0, "refuses a deal"), (5.0, "and 5 more")])
def test_the_words_say_which_deals_it_refuses(log: Path, least: float | None, words: str) -> None:
    found = fit(Observations.from_files([log], member="South"))
    agent = replace(member_agent(found, "South", costs=0.0003), least_gain=least)
    assert words in agent_text(agent, member_notes(found, agent, level=0.9))
