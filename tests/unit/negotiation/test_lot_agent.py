"""Members with several lots: what they answer, what of it is refused, and their private files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.negotiation import Agent, InProcess, agents_of, coordinate, recompute
from fedpact.negotiation.agent_file import load_agent, save_agent
from old_hospitals import example


@pytest.fixture(scope="module")
def federation() -> fp.Federation:
    return example("hospitals-lots").federation


class Changed:
    """An agent whose answers of one kind are changed on the way."""

    def __init__(self, agent: Agent, kind: str, change: Any) -> None:
        self.name, self._agent, self._kind, self._change = agent.name, agent, kind, change

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        said = self._agent.answer(question)
        return self._change(said) if question["kind"] == self._kind else said


def first_task(**changes: Any) -> Any:
    def change(said: dict[str, Any]) -> dict[str, Any]:
        return said | {"tasks": [said["tasks"][0] | changes, *said["tasks"][1:]]}

    return change


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("prices", first_task(payoff=1e6), "its payoff is|its payoff cannot go"),
        ("prices", lambda said: said | {"tasks": said["tasks"][1:]}, "tasks must have an entry for each of its tasks"),
        ("introduce", lambda said: said | {"lot_names": said["lot_names"][::-1]}, "its file is of another federation"),
        (
            "introduce",
            lambda said: {"number": said["number"], "lot_owners": [0, 1, 2, 3, 4], "caps": [1.0], "tasks": [[0]]},
            "its file is of another federation",
        ),
    ],
)
def test_what_cannot_be_true_is_refused_by_name(federation: fp.Federation, kind: str, change: Any, reason: str) -> None:
    agents: list[Any] = agents_of(federation)
    agents[0] = Changed(agents[0], kind, change)
    deal = coordinate(InProcess(agents))
    assert list(deal.excluded) == [federation.names[0]]
    said = deal.excluded[federation.names[0]]
    assert any(part in said for part in reason.split("|")), said
    left = federation.take(range(1, federation.n_agents))
    np.testing.assert_allclose(
        deal.payments[1:], fp.ExternalityMechanism().solve(left).payments, atol=1e-6 * deal.provenance.welfare
    )


def test_alone_it_has_what_standing_alone_is_worth(federation: fp.Federation) -> None:
    alone = fp.Standalone().solve(federation)
    found = [agent.standalone for agent in agents_of(federation)]
    np.testing.assert_allclose(found, alone.utilities, rtol=1e-9)


def test_a_transcript_comes_to_the_same_deal(federation: fp.Federation, tmp_path: Path) -> None:
    deal = fp.negotiate(federation, transcript=tmp_path / "said.jsonl")
    assert recompute(tmp_path / "said.jsonl").differences(deal) == []
    assert fp.load_deal(tmp_path / "said.jsonl").differences(deal) == []
    assert deal.lot_owners == tuple(federation.names[owner] for owner in federation.lot_owners)


def test_private_files_hold_own_rows_and_nothing_else(federation: fp.Federation, tmp_path: Path) -> None:
    agents = agents_of(federation)
    for agent in agents:
        save_agent(agent, tmp_path / f"{agent.index}.json")
    read = [load_agent(tmp_path / f"{place}.json") for place in range(federation.n_agents)]
    stated = json.loads((tmp_path / "1.json").read_text(encoding="utf-8"))
    assert len(stated["tasks"]) == federation.tasks_of(1).size and len(stated["lots"]) == federation.lots_of(1).size
    one, two = (coordinate(InProcess(table), mechanism="shapley") for table in (agents, read))
    assert one.differences(two, tol=1e-12) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tasks": None}, "tasks must be a list of objects"),
        ({"lots": []}, "lots must describe its"),
        ({"lot_owners": [9, 0]}, "lot_owners must list a member by number, 0 to"),
        ({"lot_names": ["x"]}, "lot_names must name each of the"),
        ({"index": 7}, "index must be a number"),
        ({"n_agents": "five"}, "n_agents must be how many"),
    ],
)
def test_a_broken_private_file_names_the_entry(
    federation: fp.Federation, tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    path = tmp_path / "0.json"
    save_agent(agents_of(federation)[0], path)
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | change), encoding="utf-8")
    with pytest.raises(fp.InvalidInput, match=reason):
        load_agent(path)
