"""A member's private file: its own row and nothing else, and refused in words where people spoiled it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.negotiation import agents_of
from fedpact.negotiation.agent_file import load_agent, save_agent

N_AGENTS = 4


def federation() -> fp.Federation:
    rng = np.random.default_rng(5)
    weights = rng.uniform(0.1, 2.0, (N_AGENTS, N_AGENTS))
    weights[0, 3] = -0.05
    np.fill_diagonal(weights, 1.0)
    return fp.Federation(
        weights,
        costs=fp.Quadratic(rng.uniform(0.005, 0.03, N_AGENTS), rng.uniform(0.0, 1e-3, N_AGENTS)),
        caps=[50.0, 2.0, np.inf, 40.0],
        payoff=fp.PowerLaw(rng.uniform(0.1, 0.6, N_AGENTS)),
        names=["A", "B", "C", "D"],
        values=rng.uniform(0.5, 2.0, N_AGENTS),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One file per agent."""
    folder = tmp_path_factory.mktemp("agents")
    for agent in agents_of(federation()):
        save_agent(agent, folder / f"{agent.index}.json")
    return [folder / f"{place}.json" for place in range(N_AGENTS)]


def test_an_agent_s_file_holds_its_own_row_only(files: list[Path]) -> None:
    for place, path in enumerate(files):
        agent = load_agent(path)
        np.testing.assert_array_equal(agent.weights[0], federation().weights[place])
        text = path.read_text(encoding="utf-8")
        others = [row for other, row in enumerate(federation().weights) if other != place]
        assert not any(f"{number!r}" in text for row in others for number in row.tolist() if number != 1.0)


def test_what_is_no_agent_s_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"name": "A"}', encoding="utf-8")
    with pytest.raises(fp.InvalidInput, match=r"x\.json: this is no member's file"):
        load_agent(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"index": 4}, "index must be a number from 0 to 3, got 4"),
        ({"index": True}, "index must be a number"),
        ({"name": " "}, "name must be a text of 1 to 200 characters"),
        ({"weights": [[1.0, 2.0]]}, r"weights\[0\] must be a number, got \[1.0, 2.0\]"),
        ({"weights": []}, "weights must be a list of finite numbers"),
        ({"weights": [1.0, -1.0, 1.0, 1.0]}, r"weights\[1\] must be at least 0, got -1: its own data does not harm it"),
        ({"payoff": None}, "payoff must be a table with the keys family, .*, got None"),
        ({"payoff": {"family": "x"}}, "payoff.family must be one of power-law, exponential, log, michaelis, got 'x'"),
        ({"payoff": {"family": "power-law"}}, "payoff.beta is missing; payoff needs the keys family, beta"),
        ({"payoff": {"family": "power-law", "beta": -1}}, "payoff.beta must be positive, got -1"),
        ({"value": 0}, "value must be positive, got 0"),
        ({"value": 10**400}, "value must be below 1.8e308"),
        ({"cap": -1.0}, "cap must be at least zero, got -1"),
        ({"linear": 0.0, "quadratic": 0.0}, "linear must be positive"),
        ({"cap": "many"}, "cap must be a number, got 'many'"),
    ],
)
def test_a_private_file_that_people_spoiled_is_refused_in_words(
    files: list[Path], tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    record = json.loads(files[1].read_text())
    (tmp_path / "x.json").write_text(json.dumps(record | changes))
    with pytest.raises(fp.InvalidInput, match=rf"x\.json: {message}"):
        load_agent(tmp_path / "x.json")


def test_an_agent_survives_its_file(tmp_path: Path) -> None:
    for agent in agents_of(federation()):
        save_agent(agent, tmp_path / "a.json")
        again = load_agent(tmp_path / "a.json")
        question = {"number": 1, "kind": "prices", "contributions": [1.0, 2.0, 3.0, 4.0]}
        assert again.answer(question) == agent.answer(question)
        assert again.caps.tolist() == agent.caps.tolist()
        assert again.least_gain == agent.least_gain
