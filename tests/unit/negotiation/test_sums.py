"""Deals reached in sums: the same as with everything known, on record, and with members that fail, lie or listen."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.deals.signatures import KnownKeys, new_signing_key
from fedpact.negotiation import Agent, InProcess, agents_of, coordinate, masks, recompute
from fedpact.negotiation.coordinator import balance_exactly
from fedpact.negotiation.sum_terms import Identity
from random_cases import cases, some
from strategies import random_federation

MECHANISMS = {"externality": fp.ExternalityMechanism(), "shapley": fp.ShapleyMechanism()}
SAME = 1e-5  # of payoffs and costs: payments follow the square root of the gain that is left
WELFARE = 1e-6
MAX_ROUNDS = 60


def dense(size: int, seed: int = 0) -> fp.Federation:
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.05, 1.0, (size, size))
    np.fill_diagonal(weights, 1.0)
    payoff = fp.PowerLaw(rng.uniform(0.1, 0.5, size))
    return fp.Federation(weights, costs=rng.uniform(0.003, 0.02, size), caps=200.0, payoff=payoff)


def assert_solved(deal: fp.Deal, federation: fp.Federation) -> None:
    expected = MECHANISMS[deal.mechanism].solve(federation.take(deal.members))
    size = float(np.abs(expected.payoffs).sum() + expected.costs.sum()) or 1.0
    np.testing.assert_allclose(deal.payments[deal.members], expected.payments, rtol=0.0, atol=SAME * size)
    given = expected.federation.welfare(deal.contributions[deal.members])
    assert given == pytest.approx(expected.welfare, abs=(WELFARE if deal.mechanism == "externality" else SAME) * size)
    assert float(deal.payments.sum()) == 0.0


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("seed", range(cases(8)))
def test_they_reach_the_deal_of_the_mechanism(mechanism: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    federation = random_federation(rng, n_agents=3 + seed % 5)
    deal = fp.negotiate(federation, mechanism=mechanism, protocol="sums", least_gain=None)
    assert_solved(deal, federation)
    assert deal.rounds <= MAX_ROUNDS
    assert deal.prices is None and deal.provenance.settled_by == "own payments"


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    "size", [12, pytest.param(25, marks=pytest.mark.slow), pytest.param(60, marks=pytest.mark.slow)]
)
def test_between_many(mechanism: str, size: int) -> None:
    federation = dense(size)
    deal = fp.negotiate(federation, mechanism=mechanism, protocol="sums", least_gain=None)
    assert_solved(deal, federation)
    assert deal.rounds <= MAX_ROUNDS


@pytest.mark.parametrize("unit", [1e-5, 1e5])
def test_whatever_the_unit_of_contributions_is(unit: float) -> None:
    federation = dense(4)
    scaled = federation.replace(weights=federation.weights / unit, costs=federation.costs.linear / unit, caps=np.inf)
    deal = fp.negotiate(scaled, protocol="sums", least_gain=None)
    assert_solved(deal, scaled)
    assert deal.rounds <= MAX_ROUNDS


def test_at_the_caps_and_at_nothing() -> None:
    weights = [[1.0, 0.5, 0.2], [0.4, 1.0, 0.3], [0.6, 0.1, 1.0]]
    federation = fp.Federation(weights, costs=[0.01, 0.02, 5.0], caps=[5.0, np.inf, 7.0], payoff=fp.Log())
    deal = fp.negotiate(federation, protocol="sums", least_gain=None)
    assert_solved(deal, federation)
    assert deal.contributions[0] == 5.0 and deal.contributions[2] == 0.0


class Listening(InProcess):
    """A channel that keeps what was asked and answered."""

    def __init__(self, agents: Any) -> None:
        super().__init__(agents)
        self.heard: list[tuple[dict[int, Any], dict[int, Any]]] = []

    def ask(self, questions: Any) -> Any:
        answers = super().ask(questions)
        self.heard.append((dict(questions), dict(answers)))
        return answers


def test_the_coordinator_hears_caps_keys_masked_numbers_payments_and_consent_only() -> None:
    channel = Listening(agents_of(dense(4)))
    coordinate(channel, protocol="sums")
    said = {"introduce": {"caps", "lot_owners"}, "key": {"key"}, "sums": {"masked"}, "payment": {"payment"}}
    said |= {"accept": {"accepts"}}
    for questions, answers in channel.heard:
        for place, question in questions.items():
            assert set(answers[place]) - {"number"} == said[question["kind"]]
    asked = [questions[0] for questions, _ in channel.heard if questions[0]["kind"] == "sums"]
    assert len({masks.question_digest(question) for question in asked}) == len(asked)


def test_without_cryptography_it_is_refused_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    channel = Listening(agents_of(dense(4)))
    with pytest.raises(ImportError, match=r'pip install "\.\[sums\]"'):
        coordinate(channel, protocol="sums")
    assert not channel.heard


def test_two_members_are_told_to_use_another_protocol() -> None:
    with pytest.raises(fp.InvalidInput, match="needs at least 3 members, got 2: a sum over fewer than 3 answers"):
        fp.negotiate(dense(2), protocol="sums")


@pytest.mark.parametrize("members", [[0, 1], [0, 0, 1], [1, 2, 3]])
def test_no_member_answers_for_a_sum_that_would_bare_it(members: list[int]) -> None:
    agents = agents_of(dense(4))
    keys = [masks.public_key(agent.secret) for agent in agents]
    question = {"number": 1, "kind": "sums", "about": "welfare", "round": 1, "points": [[1.0] * 4], "keys": keys}
    question["caps"] = [200.0] * 4
    with pytest.raises(fp.InvalidInput, match="a sum must be over at least 3 members, itself among them"):
        agents[0].answer(question | {"members": members})
    with pytest.raises(fp.InvalidInput, match="a key of its own"):
        agents[0].answer(question | {"keys": [keys[0], keys[1], keys[1], keys[3]], "members": [0, 1, 2]})


# On record


def test_a_transcript_of_sums_is_recomputed_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "talks.jsonl"
    federation = dense(4)
    deal = fp.negotiate(federation, protocol="sums", transcript=path)
    assert (recompute(path).payments == deal.payments).all()
    lines = path.read_text().splitlines()
    place = next(place for place, line in enumerate(lines) if '"masked"' in line)
    entry = json.loads(lines[place])
    entry["answers"]["1"]["masked"] = entry["answers"]["0"]["masked"]
    path.write_text("\n".join([*lines[:place], json.dumps(entry), *lines[place + 1 :]]) + "\n")
    with pytest.raises(fp.InvalidInput, match=r"a deal is stated where the exchanges come to none: .* do not cancel"):
        recompute(path)


@pytest.mark.parametrize("kept", [2, 4, 9])
def test_interrupted_it_goes_on_with_new_keys(tmp_path: Path, kept: int) -> None:
    """Members that were started again have other keys: they say so, and keys are agreed on anew."""
    path = tmp_path / "talks.jsonl"
    federation = dense(4)
    whole = fp.negotiate(federation, protocol="sums", transcript=path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: 1 + kept]))
    again = fp.negotiate(federation, protocol="sums", transcript=path, resume=True)
    np.testing.assert_allclose(again.payments, whole.payments, atol=1e-12)
    assert not again.excluded
    assert (recompute(path).payments == again.payments).all()


# Members that fail and lie


class Liar(Agent):
    """Answers one kind of question in its own way, from the n-th on."""

    kind, at = "sums", 1

    def answer(self, question: dict[str, Any]) -> Any:
        honest = super().answer(question)
        if question["kind"] == self.kind and question.get("round", 0) >= self.at:
            return self.changed(honest, question)
        return honest

    def changed(self, honest: dict[str, Any], question: dict[str, Any]) -> Any:
        raise NotImplementedError


def with_liar(kind: type[Liar], federation: fp.Federation, place: int = 1) -> InProcess:
    agents = agents_of(federation, least_gain=None)
    agents[place] = kind(**vars(agents[place]))
    return InProcess(agents)


class Silent(Liar):
    at = 4

    def changed(self, honest: dict[str, Any], question: dict[str, Any]) -> Any:
        return None


class Garbage(Liar):
    """Masks that are not those it agreed on."""

    at = 3

    def changed(self, honest: dict[str, Any], question: dict[str, Any]) -> Any:
        count = len(masks.decode(honest["masked"], len(honest["masked"]) * 3 // 4 // 16))
        return honest | {"masked": masks.encode(masks.mask(b"x" * 32, count))}


class Shifted(Liar):
    """Its own terms, a little moved: no concave function any more."""

    at = 3

    def changed(self, honest: dict[str, Any], question: dict[str, Any]) -> Any:
        count = len(honest["masked"]) * 3 // 4 // 16
        residues = masks.decode(honest["masked"], count)
        shift = np.zeros(count)
        shift[1] = -5.0 if question["round"] % 2 else 5.0
        return honest | {"masked": masks.encode((residues + masks.to_residues(shift)) % masks.MODULUS)}


class Greedy(Liar):
    kind, at = "payment", 0

    def changed(self, honest: dict[str, Any], question: dict[str, Any]) -> Any:
        return honest | {"payment": honest["payment"] + 0.1}


def test_whoever_fails_is_out_and_the_others_go_on() -> None:
    federation = dense(5)
    deal = coordinate(with_liar(Silent, federation), protocol="sums")
    assert deal.excluded == {"agent 1": "no answer in time"}
    assert_solved(deal, federation)


@pytest.mark.parametrize("mechanism", some(MECHANISMS, 1))
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Garbage, "the masks do not cancel"),
        (Shifted, "values and slopes are not those of a concave function"),
        (Greedy, "the payments sum to 0.1"),
    ],
)
def test_a_contradiction_ends_the_negotiation_and_names_nobody(mechanism: str, kind: type[Liar], reason: str) -> None:
    """That would take everybody's masks, and no member opens them."""
    with pytest.raises(fp.NotConverged, match=reason) as caught:
        coordinate(with_liar(kind, dense(5)), mechanism=mechanism, protocol="sums")
    assert "nobody can be named" in str(caught.value) and "price-discovery" in str(caught.value)
    assert "agent 1" not in str(caught.value)


class Middle(InProcess):
    """A coordinator that gives every member keys of its own for all the others, and reads along."""

    def __init__(self, agents: Any) -> None:
        super().__init__(agents)
        self.read: list[tuple[int, dict[str, Any], Any]] = []

    def ask(self, questions: Any) -> Any:
        if questions[min(questions)]["kind"] != "sums":
            return super().ask(questions)
        own = {peer: bytes([peer + 1]) * 32 for peer in questions}
        fakes = {
            place: question
            | {
                "keys": [
                    key if peer == place else masks.public_key(own[peer]) for peer, key in enumerate(question["keys"])
                ]
            }
            for place, question in questions.items()
        }
        answers = dict(super().ask(fakes))
        for place, answer in answers.items():
            if "masked" not in answer:
                continue
            digest = masks.question_digest(fakes[place])
            key = fakes[place]["keys"][place]
            seeds = {peer: masks.pair_seed(own[peer], key, digest) for peer in questions if peer != place}
            count = len(answer["masked"]) * 3 // 4 // 16
            bare = (masks.decode(answer["masked"], count) - masks.own_mask(place, seeds, count)) % masks.MODULUS
            self.read.append((place, fakes[place], masks.to_floats(bare)))
            answers[place] = answer | {"masked": masks.encode(bare)}
        return answers


def signed_agents(federation: fp.Federation) -> list[Agent]:
    """Members that have signing keys and know each other's."""
    signing = [new_signing_key() for _ in range(federation.n_agents)]
    public = [key.public for key in signing]
    known = KnownKeys(by_name=dict(zip(federation.names, public, strict=True)))
    return [
        replace(agent, identity=Identity(sign=key.sign_bytes, known=known))
        for agent, key in zip(agents_of(federation), signing, strict=True)
    ]


def test_without_signatures_a_coordinator_in_the_middle_reads_along() -> None:
    """What signatures are for: it comes to the same deal, and everybody's terms are bare."""
    from fedpact.negotiation.sum_terms import _terms

    federation = dense(4)
    channel = Middle(agents_of(federation))
    assert_solved(coordinate(channel, protocol="sums"), federation)
    place, question, found = channel.read[5]
    np.testing.assert_allclose(found, _terms(channel.agents[place], question), atol=1e-20)


def test_signatures_keep_a_coordinator_out_of_the_middle() -> None:
    channel = Middle(signed_agents(dense(4)))
    with pytest.raises(fp.NotConverged, match="is not signed by it: somebody may listen"):
        coordinate(channel, protocol="sums")
    assert not channel.read
    assert not coordinate(InProcess(channel.agents), protocol="sums").excluded


def test_a_coordinator_cannot_make_up_members_that_would_bare_one() -> None:
    """Whoever knows signing keys sums with those members only, and with all of their keys signed."""
    agents = signed_agents(dense(4))
    said = [agent.answer({"number": 1, "kind": "key"}) for agent in agents]
    made_up = [masks.public_key(bytes([place]) * 32) for place in (7, 8)]
    question = {
        "number": 2,
        "kind": "sums",
        "about": "welfare",
        "round": 1,
        "points": [[1.0] * 4],
        "caps": [200.0] * 4,
        "keys": [*(each["key"] for each in said), *made_up],
        "names": [*(agent.name for agent in agents), "new", "newer"],
        "signatures": {str(place): each["signature"] for place, each in enumerate(said)},
    }
    assert "masked" in agents[0].answer(question | {"members": [0, 1, 2, 3]})
    with pytest.raises(fp.InvalidInput, match='"new" is not among the members whose signing keys it knows'):
        agents[0].answer(question | {"members": [0, 4, 5]})
    with pytest.raises(fp.InvalidInput, match="nobody's key is signed: somebody may listen"):
        agents[0].answer(question | {"members": [0, 1, 2], "signatures": {}})
    with pytest.raises(fp.InvalidInput, match='the key of "agent 1" is not signed by it'):
        agents[0].answer(question | {"members": [0, 1, 2], "signatures": {"2": said[2]["signature"]}})
    twice = [agents[0].name, agents[1].name, agents[1].name, *question["names"][3:]]
    with pytest.raises(fp.InvalidInput, match="every member must have a name of its own"):
        agents[0].answer(question | {"members": [0, 1, 2], "names": twice})
    swapped = [said[0]["key"], said[2]["key"], said[1]["key"], said[3]["key"], *made_up]
    with pytest.raises(fp.InvalidInput, match='the key of "agent 1" is not signed by it'):
        agents[0].answer(question | {"members": [0, 1, 2], "keys": swapped})


@pytest.mark.parametrize(
    "payments", [[0.1, 0.2, -0.3], [1e6, -1e6 + 1e-9, 0.0], [0.0, 0.0], [1 / 3, 1 / 7, -10 / 21], [3e-320, -2e-320]]
)
def test_the_budget_is_exact(payments: list[float]) -> None:
    found = balance_exactly(np.array(payments))
    assert float(found.sum()) == 0.0 == math.fsum(found)
    np.testing.assert_allclose(
        found, payments, atol=1e-15 * (np.abs(payments).sum() + 1e-300) + 1e-9 * (max(payments) > 1e5)
    )
