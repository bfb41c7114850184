"""The fair deals by price discovery among all groups, against the mechanism that knows everything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.negotiation import Agent, InProcess, agents_of, coordinate, recompute
from fedpact.negotiation.fair_discovery import MAX_GROUPED_AGENTS, KnownAnswers, read_group_marginals
from fedpact.negotiation.validation import BadAnswer, Introduction, read_marginals
from fedpact.scenario.examples import hospitals
from random_cases import cases, some
from strategies import random_federation

RULES = {"fair": fp.FairMechanism(), "fair-members": fp.FairMechanism(keep="members")}
SAME = 1e-8  # of payoffs and costs
MAX_ROUNDS = 15


def assert_solved(deal: fp.Deal, federation: fp.Federation) -> None:
    rules, rest = RULES[deal.mechanism], federation.take(deal.members)
    expected = rules.solve(rest)
    size = float(np.abs(expected.payoffs).sum() + expected.costs.sum()) or 1.0
    assert deal.side_payments is not None
    np.testing.assert_allclose(deal.payments[deal.members], expected.payments, rtol=0.0, atol=SAME * size)
    np.testing.assert_allclose(deal.side_payments[deal.members], expected.side_payments, rtol=0.0, atol=SAME * size)
    assert float(deal.payments.sum()) == 0.0
    certificates = rules.outcome_of(deal, federation).certificates
    assert not [claim for claim in rules.promises(rest) if certificates[claim].verdict is fp.Verdict.VIOLATED]


@pytest.mark.parametrize("mechanism", RULES)
@pytest.mark.parametrize("seed", range(cases(16, few=1)))
def test_it_reaches_the_deal_of_the_mechanism(mechanism: str, seed: int) -> None:
    """Of all families, with harm, caps, quadratic costs, alone and in company; or there is none, and it says why."""
    federation = random_federation(np.random.default_rng(seed), n_agents=1 + seed % 6)
    expected, deal = (
        _result_or_error(lambda: RULES[mechanism].solve(federation)),
        _result_or_error(lambda: fp.negotiate(federation, mechanism=mechanism)),
    )
    if isinstance(expected, fp.NoFairDeal):
        assert isinstance(deal, fp.NoFairDeal)
        assert deal.subsidy == pytest.approx(expected.subsidy, rel=1e-6, nan_ok=True)
    else:
        assert_solved(deal, federation)
        assert deal.mechanism == mechanism and deal.rounds <= MAX_ROUNDS


def _result_or_error(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except fp.NoFairDeal as error:
        return error


@pytest.mark.slow
def test_between_as_many_as_can_be() -> None:
    size = MAX_GROUPED_AGENTS
    rng = np.random.default_rng(size)
    weights = rng.uniform(0.05, 1.0, (size, size))
    np.fill_diagonal(weights, 1.0)
    payoff = fp.PowerLaw(rng.uniform(0.1, 0.5, size))
    federation = fp.Federation(weights, costs=rng.uniform(0.003, 0.02, size), caps=200.0, payoff=payoff)
    deal = fp.negotiate(federation, mechanism="fair")
    assert_solved(deal, federation)
    assert deal.rounds <= MAX_ROUNDS


def test_between_more_only_members_can_be_kept() -> None:
    federation = random_federation(np.random.default_rng(3), n_agents=MAX_GROUPED_AGENTS + 2, harm=False)
    with pytest.raises(
        fp.InvalidInput, match=r'at most 10 members, got 12: .* 4095 groups .* negotiate "fair-members"'
    ):
        fp.negotiate(federation, mechanism="fair")
    assert_solved(fp.negotiate(federation, mechanism="fair-members"), federation)


@pytest.mark.parametrize("protocol", ["admm", "sums"])
def test_it_is_negotiated_by_price_discovery(protocol: str) -> None:
    with pytest.raises(fp.InvalidInput, match=r"protocol must be one of price-discovery.* for 'fair', got"):
        fp.negotiate(hospitals().federation, mechanism="fair", protocol=protocol)


# On record


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", RULES)
@pytest.mark.parametrize("kept", some([3, 1, 4], 1))
def test_interrupted_it_goes_on_and_is_recomputed(tmp_path: Path, mechanism: str, kept: int) -> None:
    path = tmp_path / "talks.jsonl"
    federation = hospitals().federation
    whole = fp.negotiate(federation, mechanism=mechanism, transcript=path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: 1 + kept]))
    again = fp.negotiate(federation, mechanism=mechanism, transcript=path, resume=True)
    assert (again.payments == whole.payments).all() and (recompute(path).side_payments == whole.side_payments).all()


@pytest.mark.slow
def test_a_changed_answer_about_a_group_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "talks.jsonl"
    fp.negotiate(hospitals().federation, mechanism="fair", transcript=path)
    lines = path.read_text().splitlines()
    entry = json.loads(lines[3])
    assert entry["questions"]["2"]["kind"] == "groups"
    entry["answers"]["2"]["answers"][1]["payoff"] *= 1.001
    path.write_text("\n".join([*lines[:3], json.dumps(entry), *lines[4:]]) + "\n")
    with pytest.raises(fp.InvalidInput, match="the questions are not those that follow"):
        recompute(path)


# Members that fail and lie


class Spoiler(Agent):
    """Answers about groups in its own way, from the second round on."""

    def answer(self, question: dict[str, Any]) -> Any:
        honest = super().answer(question)
        if question["kind"] == "groups" and any(any(profile) for profile in question["profiles"]):
            return self.changed(honest, question["profiles"])
        return honest

    def changed(self, honest: dict[str, Any], profiles: list[list[float]]) -> Any:
        raise NotImplementedError


class Silent(Spoiler):
    def changed(self, honest: dict[str, Any], profiles: list[list[float]]) -> Any:
        return None


class Short(Spoiler):
    def changed(self, honest: dict[str, Any], profiles: list[list[float]]) -> Any:
        return honest | {"answers": honest["answers"][:-1]}


class BoastingAlone(Spoiler):
    """Says that it would have more alone, where side payments would leave it no less."""

    def changed(self, honest: dict[str, Any], profiles: list[list[float]]) -> Any:
        alone = [sum(given > 0.0 for given in profile) == 1 for profile in profiles]
        answers = [
            said | {"payoff": said["payoff"] * 1.05} if own else said
            for own, said in zip(alone, honest["answers"], strict=True)
        ]
        return honest | {"answers": answers}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", some(RULES, 1))
@pytest.mark.parametrize(
    ("kind", "reason"),
    [(Silent, "no answer in time"), (Short, "answers must be a list of"), (BoastingAlone, "contradicts its earlier")],
)
def test_whoever_fails_or_lies_is_found_and_the_others_go_on(mechanism: str, kind: type[Spoiler], reason: str) -> None:
    federation = hospitals().federation
    agents = agents_of(federation)
    agents[1] = kind(**vars(agents[1]))
    deal = coordinate(InProcess(agents), mechanism=mechanism)
    assert list(deal.excluded) == [federation.names[1]] and reason in deal.excluded[federation.names[1]]
    assert_solved(deal, federation)


def test_one_false_answer_among_many_is_held_against_its_neighbours() -> None:
    """Whatever contradicts any of the others contradicts one of the few that are nearest."""
    federation = hospitals().federation
    agent, rng = Agent.of(federation, 2), np.random.default_rng(0)
    profiles = [np.zeros(5), *(rng.uniform(0.0, 60.0, 5) * (rng.random(5) < 0.6) for _ in range(40))]
    said = agent.answer({"number": 1, "kind": "groups", "profiles": [each.tolist() for each in profiles]})["answers"]
    introduction = Introduction(cap=agent.cap, uses=np.ones(5, dtype=bool))
    honest = read_group_marginals({"answers": said}, profiles, 2, introduction, [])
    found = 0
    for place, at in enumerate(profiles):
        others = [answer for other, answer in enumerate(honest) if other != place]
        nearest = KnownAnswers(2, others).neighbours(at)
        assert len(nearest) <= 7
        for key, factor in (("payoff", 1.1), ("payoff", 1.001), ("payoff", 0.9), ("cost", 0.5), ("cost", 1.01)):
            false = said[place] | {key: said[place][key] * factor}
            contradicts = [_is_refused(false, at, introduction, earlier) for earlier in (others, nearest)]
            assert contradicts[0] == contradicts[1]
            found += contradicts[0]
    assert found > 100  # of 205: some are too small to contradict anything, and nothing costs nothing


def _is_refused(said: dict[str, Any], at: Any, introduction: Introduction, earlier: list[Any]) -> bool:
    try:
        read_marginals(said, at, 2, introduction, earlier)
    except BadAnswer:
        return True
    return False
