"""The fair deal that keeps every member, negotiated in sums: the same as with everything known, lies and all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.negotiation import Agent, InProcess, agents_of, coordinate, recompute
from fedpact.scenario.examples import hospitals
from random_cases import cases
from strategies import random_federation

SAME = 1e-6  # of payoffs and costs: payments follow the square root of the gain that is left
FAIR = fp.FairMechanism(keep="members")


def assert_fair(deal: fp.Deal, federation: fp.Federation) -> None:
    expected = FAIR.solve(federation.take(deal.members))
    size = float(np.abs(expected.payoffs).sum() + expected.costs.sum())
    assert deal.side_payments is not None and expected.side_payments is not None
    for found, due in ((deal.payments, expected.payments), (deal.side_payments, expected.side_payments)):
        np.testing.assert_allclose(found[deal.members], due, rtol=0.0, atol=SAME * size)
        assert float(found.sum()) == 0.0


@pytest.mark.parametrize("seed", range(1, 1 + cases(12)))
def test_they_reach_the_deal_of_the_mechanism(seed: int) -> None:
    federation = random_federation(np.random.default_rng(seed), n_agents=3 + seed % 6, harm=False)
    deal = fp.negotiate(federation, mechanism="fair-members", protocol="sums", least_gain=None)
    assert not deal.excluded
    assert_fair(deal, federation)


class Listening(InProcess):
    """A channel that keeps what was answered."""

    def __init__(self, agents: Any) -> None:
        super().__init__(agents)
        self.said: list[tuple[str, set[str]]] = []

    def ask(self, questions: Any) -> Any:
        answers = super().ask(questions)
        self.said += [(questions[place]["kind"], set(answers[place]) - {"number"}) for place in questions]
        return answers


def test_nobody_says_what_it_has_alone(tmp_path: Path) -> None:
    federation = hospitals().federation
    channel = Listening(agents_of(federation))
    path = tmp_path / "talks.jsonl"
    deal = coordinate(channel, mechanism="fair-members", protocol="sums", transcript=path)
    said = {"introduce": {"cap"}, "key": {"key"}, "sums": {"masked"}, "payment": {"payment"}, "accept": {"accepts"}}
    assert all(keys == said[kind] for kind, keys in channel.said)
    assert_fair(deal, federation)
    assert (recompute(path).payments == deal.payments).all()


def test_where_members_have_more_alone_there_is_no_deal() -> None:
    federation = random_federation(np.random.default_rng(0), n_agents=3)
    with pytest.raises(fp.NoFairDeal) as known:
        FAIR.solve(federation)
    with pytest.raises(fp.NoFairDeal, match="the members together have more alone") as found:
        fp.negotiate(federation, mechanism="fair-members", protocol="sums", least_gain=None)
    assert found.value.subsidy == pytest.approx(known.value.subsidy, rel=1e-6)


def test_groups_are_not_kept_in_sums() -> None:
    with pytest.raises(fp.InvalidInput, match="a sum over one or two members bares them; 'fair-members' keeps"):
        fp.negotiate(hospitals().federation, mechanism="fair", protocol="sums")


class Greedy(Agent):
    """Says a side payment that is not the one it has to work out."""

    def answer(self, question: dict[str, Any]) -> Any:
        honest = super().answer(question)
        is_asked = question["kind"] == "payment" and question["about"] == "fair"
        return honest | {"payment": honest["payment"] + 0.05} if is_asked else honest


class Silent(Agent):
    """Fails once it comes to the side payments."""

    def answer(self, question: dict[str, Any]) -> Any:
        return None if question.get("about") == "fair" else super().answer(question)


@pytest.mark.parametrize(("kind", "reason"), [(Greedy, "of its own answer its payment is"), (Silent, "no answer")])
def test_whoever_fails_or_lies_is_found_and_the_others_go_on(kind: type[Agent], reason: str) -> None:
    federation = hospitals().federation
    agents = agents_of(federation)
    agents[2] = kind(**vars(agents[2]))
    deal = coordinate(InProcess(agents), mechanism="fair-members", protocol="sums")
    assert list(deal.excluded) == ["County"] and reason in deal.excluded["County"]
    assert_fair(deal, federation)
