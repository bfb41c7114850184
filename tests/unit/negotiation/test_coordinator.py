"""Deals at the edges: few agents, no room, misreports, final messages of one's own, and those who go late."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.negotiation import PROTOCOLS, Agent, InProcess, agents_of, coordinate

WEIGHTS = [[1.0, 0.5, 0.8, 0.2], [0.3, 1.0, 1.2, 0.4], [0.9, 0.4, 1.0, 0.7], [0.2, 1.1, 0.6, 1.0]]


def federation(**changes: Any) -> fp.Federation:
    options = {"weights": WEIGHTS, "costs": [0.02, 0.03, 0.025, 0.04], "caps": 40.0, "payoff": fp.PowerLaw(0.4)}
    return fp.Federation(**(options | changes))


def assert_solved(deal: fp.Deal, federation: fp.Federation) -> None:
    expected = fp.ExternalityMechanism().solve(federation.take(deal.members))
    size = float(np.abs(expected.payoffs).sum() + expected.costs.sum()) or 1.0
    np.testing.assert_allclose(deal.payments[deal.members], expected.payments, rtol=0.0, atol=1e-6 * size)
    assert float(deal.payments.sum()) == 0.0


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_agents_agree_without_the_game(count: int) -> None:
    few = federation().take(np.arange(count))
    wanted = fp.negotiate(few)
    assert wanted.provenance.messages is None
    assert wanted.provenance.settled_by == "personal prices"
    assert_solved(wanted, few)
    reasons = [event["reason"] for event in wanted.trace if event["event"] == "no game"]
    assert f'"agent 0" matters to {count} only' in reasons[0]


def test_a_misreported_cost_is_taken_at_its_word() -> None:
    """The deal is that of the federation the agents describe, and balances; so it is with values."""
    truth = federation()
    agents = agents_of(truth)
    agents[1] = replace(agents[1], costs=fp.Linear([0.015]))
    told = federation(costs=[0.02, 0.015, 0.025, 0.04])
    assert_solved(coordinate(InProcess(agents)), told)
    agents = agents_of(truth)
    agents[2] = replace(agents[2], values=np.array([0.5]))
    assert_solved(coordinate(InProcess(agents)), federation(values=[1.0, 1.0, 0.5, 1.0]))


class Late(Agent):
    """Says something else from a kind of question on."""

    def answer(self, question: dict[str, Any]) -> Any:
        said = super().answer(question)
        return self.changed(said) if question["kind"] == "messages" else said

    def changed(self, said: dict[str, Any]) -> Any:
        raise NotImplementedError


def with_one(kind: type[Late], place: int = 1, *, least_gain: float | None = 0.0, **changes: Any) -> InProcess:
    agents = agents_of(federation(**changes), least_gain=least_gain)
    agents[place] = kind(**vars(agents[place]))
    return InProcess(agents)


def test_final_messages_of_one_s_own_shift_nobody_s_money() -> None:
    """By its final prices alone a member could move money from one to another, at no cost to itself."""

    class Shifter(Late):
        def changed(self, said: dict[str, Any]) -> Any:
            return said | {"prices": [x + 0.01 * place for place, x in enumerate(said["prices"])]}

    deal = coordinate(with_one(Shifter))
    assert deal.excluded == {"agent 1": "its final prices are not those that were agreed"}
    assert_solved(deal, federation())


@pytest.mark.parametrize(
    "change", [{"proposals": [1e9] * 4}, {"prices": [-1.0] * 4}, {"prices": [1.0] * 3}, {"prices": 1.0}]
)
def test_broken_final_messages_lead_to_another_agreement(change: dict[str, Any]) -> None:
    class Broken(Late):
        def changed(self, said: dict[str, Any]) -> Any:
            return said | change

    deal = coordinate(with_one(Broken))
    assert list(deal.excluded) == ["agent 1"]
    assert [event["event"] for event in deal.trace if event["event"] != "round"] == [
        "asked again",
        "excluded",
        "settled",
    ]
    assert_solved(deal, federation())


def test_who_goes_late_may_leave_too_few_for_the_game() -> None:
    class Leaver(Late):
        def changed(self, said: dict[str, Any]) -> Any:
            return {"leave": True}

    weights = np.array(WEIGHTS)
    weights[3, 0] = 0.0  # the data of agent 0 matters to three, one of whom leaves
    deal = coordinate(with_one(Leaver, weights=weights))
    assert deal.excluded == {"agent 1": "it leaves"}
    assert deal.provenance.messages is None
    (reason,) = [event["reason"] for event in deal.trace if event["event"] == "no game"]
    assert '"agent 0" matters to 2 only' in reason
    assert deal.trace[-1] == {"event": "settled", "by": "personal prices"}
    assert_solved(deal, federation(weights=weights))


def test_too_few_rounds_are_an_error_with_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS, "price-discovery", replace(PROTOCOLS["price-discovery"], max_rounds=1))  # type: ignore[arg-type]
    with pytest.raises(fp.NotConverged, match="no agreement within 1 rounds") as caught:
        coordinate(InProcess.of(federation()))
    assert caught.value.result is not None


def test_the_others_go_on_from_where_they_are() -> None:
    """Whoever leaves in the third round does not send the others back to the start."""

    class Leaver(Agent):
        def answer(self, question: dict[str, Any]) -> Any:
            started = question["kind"] == "prices" and any(question["contributions"])
            return {"leave": True} if started else super().answer(question)

    heard: list[Any] = []

    class Listening(InProcess):
        def ask(self, questions: Any) -> Any:
            heard.append(next(iter(questions.values())))
            return super().ask(questions)

    agents = agents_of(federation())
    agents[3] = Leaver(**vars(agents[3]))
    deal = coordinate(Listening(agents))
    assert_solved(deal, federation())
    profiles = [question["contributions"] for question in heard if "contributions" in question]
    assert sum(not any(profile) for profile in profiles) <= 1
    assert all(profile[3] == 0.0 for profile in profiles[2:])
