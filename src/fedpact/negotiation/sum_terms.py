"""A member's part in a negotiation in sums: its terms, masked, its payment, and the masks of a round in dispute.

A question about sums lists profiles and says which sum is formed:

| about     | at every profile                                                    | summed over members to  |
|-----------|---------------------------------------------------------------------|-------------------------|
| welfare   | outside or not, a_i - c_i, a_i, c_i, gradient of a_i - c_i           | the program of M^E      |
| potential | outside or not, P_i - c_i, a_i, c_i, gradient of P_i - c_i           | the program of M^Shap   |
| prices    | a_i' w_ij for every j                                               | g_j, what j's data is worth to all |
| shares    | phi_ij for every j                                                  | phi_j                   |

The question also holds everybody's keys and who takes part, and the masks are bound to all of it. A member answers only
if it is among at least three, its own key is listed as it is, and, where it knows signing keys of others, all others
are among these and have signed theirs. From the last sum it works out its own payment: s_i g_i - a_i' w_i s, or
phi_i - a_i.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.deals.signatures import KnownKeys, is_signature
from fedpact.federation.arrays import Owners
from fedpact.negotiation import masks
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import Refusal

if TYPE_CHECKING:
    from fedpact.negotiation.agent import Agent

MIN_SUMMED = 3  # answers: a sum over fewer tells a member what the other says
HEADER = 4  # numbers before the gradient: outside, objective, payoff, cost
PROGRAMS = {"externality": "welfare", "shapley": "potential"}
SETTLEMENTS = {"externality": "prices", "shapley": "shares"}
CONCAVITY_TOLERANCE = 1e-9  # of the numbers involved
PAYMENT_TOLERANCE = 1e-9  # of the money that changes hands


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What a member signs with (bytes, to hexadecimal), and the public keys of those it knows.

    Without any it believes whatever keys it is told.
    """

    sign: Callable[[bytes], str]
    known: KnownKeys = field(default_factory=KnownKeys)


def count_of(question: Mapping[str, Any]) -> int:
    """How many numbers an answer to a question about sums has."""
    about, n_points = question["about"], len(question["points"])
    if about == SETTLEMENTS["shapley"]:  # by agent, whatever lots these have
        return n_points * len(question["keys"])
    return n_points * (len(question["points"][0]) + (HEADER if about in PROGRAMS.values() else 0))


# What a member signs: that a key is its own, an answer to a question, and its payment by these sums.


def key_text(name: str, key: str) -> bytes:
    """That this is the key of a member."""
    return masks.PURPOSE + b" key of " + name.encode() + b": " + key.encode()


def answer_text(question: Mapping[str, Any], place: int, masked: str) -> bytes:
    """That this is a member's answer to a question."""
    return masks.PURPOSE + b" answer " + masks.question_digest(question) + f" {place} {masked}".encode()


def payment_text(question: Mapping[str, Any], place: int, payment: float) -> bytes:
    """That a member's payment is this at the profile agreed, and by these sums."""
    about, contributions, sums = question["about"], list(question["contributions"]), list(question["sums"])
    return masks.PURPOSE + f" payment {about} {contributions!r} {sums!r} {place} {payment!r}".encode()


def _signed(agent: Agent, answer: dict[str, Any], text: bytes) -> dict[str, Any]:
    return answer if agent.identity is None else answer | {"signature": agent.identity.sign(text)}


def answer_key(agent: Agent, _: Mapping[str, Any]) -> dict[str, Any]:
    """Reveals: a public key made for this, and its signature where the member has a signing key."""
    key = masks.public_key(agent.secret)
    return _signed(agent, {"key": key}, key_text(agent.name, key))


def answer_sums(agent: Agent, question: Mapping[str, Any]) -> dict[str, Any]:
    """Reveals: nothing by itself; together with the answers of all others, the sum."""
    if question["keys"][agent.index] != masks.public_key(agent.secret):
        return {"stale": True}
    masked = masks.encode(_masked_terms(agent, question))
    return _signed(agent, {"masked": masked}, answer_text(question, agent.index, masked))


def answer_payment(agent: Agent, question: dict[str, Any]) -> dict[str, Any]:
    """Reveals: its payment, which is part of the deal."""
    terms = _terms(agent, question | {"points": [question["contributions"]]})
    due = payment_of(question, agent.index, agent.own_lots, terms)
    return _signed(agent, {"payment": due}, payment_text(question, agent.index, due))


def payment_of(settlement: Mapping[str, Any], place: int, own: Owners, terms: FloatArray) -> float:
    """What follows for a member from its own terms and everybody's sum of them; `own` are its lots."""
    contributions, sums = (np.asarray(settlement[key], dtype=np.float64) for key in ("contributions", "sums"))
    if settlement["about"] == SETTLEMENTS["shapley"]:
        return float(sums[place] - terms.sum())
    return float(contributions[own] @ sums[own] - terms @ contributions)


def answer_open(agent: Agent, question: Mapping[str, Any]) -> dict[str, Any]:
    """Reveals: its terms of the round in dispute, and only if what all have answered there contradicts itself.

    Without that a coordinator could ask for any round to be opened. Where the member knows the others' signing keys,
    what these have answered counts only if they have signed it, and their payments only if signed for these sums.
    """
    asked, masked, payments = question["asked"], question["masked"], question.get("payments")
    not_signed = 'what "{}" is said to have answered is not signed by it: it opens nothing'
    if masked[str(agent.index)] != masks.encode(_masked_terms(agent, asked)):
        raise Refusal("it has not answered what it is said to have answered")
    texts = {peer: answer_text(asked, int(peer), text) for peer, text in masked.items()}
    _check_signed(agent, asked, texts, question.get("signatures", {}), not_signed)
    total = total_of(asked, masked)
    if payments is not None:
        settlement = {"about": asked["about"], "contributions": asked["points"][0], "sums": total.tolist()}
        if payments[str(agent.index)] != answer_payment(agent, settlement)["payment"]:
            raise Refusal("it has not stated the payment that it is said to have stated")
        texts = {peer: payment_text(settlement, int(peer), float(payment)) for peer, payment in payments.items()}
        _check_signed(agent, asked, texts, question.get("payment_signatures", {}), not_signed)
    if find_contradiction(asked, total, payments) is None:
        raise Refusal("there is nothing to open: the sums do not contradict themselves")
    return {"seeds": {str(peer): seed.hex() for peer, seed in _seeds(agent, asked).items()}}


# How an agent answers each kind of question of this protocol.
ANSWERS: Mapping[str, Callable[[Agent, dict[str, Any]], dict[str, Any]]] = {
    "key": answer_key,
    "sums": answer_sums,
    "payment": answer_payment,
    "open": answer_open,
}


def total_of(question: Mapping[str, Any], masked: Mapping[str, str]) -> FloatArray:
    """The sum of all members' answers to a question; the masks cancel."""
    count = count_of(question)
    answers = [masks.decode(masked[str(place)], count) for place in question["members"]]
    return masks.to_floats(np.sum(answers, axis=0) % masks.MODULUS)


def find_contradiction(
    question: Mapping[str, Any], numbers: FloatArray, payments: Mapping[str, float] | None = None
) -> str | None:
    """Why sums, or one member's terms, cannot all be true; None if they can.

    Masks that do not cancel leave numbers at random. A sum of concave functions is concave, so one contradicts its
    tangents only if somebody's term does.
    """
    size = len(question["members"])
    if not (np.abs(numbers) <= size * masks.MAX_MASKED).all():
        return "the masks do not cancel"
    if question["about"] in PROGRAMS.values():
        by_point = numbers.reshape(len(question["points"]), -1)
        outside = by_point[:, 0]
        if ((outside != np.rint(outside)) | (outside < 0) | (outside > size)).any():
            return "the masks do not cancel"
        told = [
            (np.array(at), float(row[1]), row[HEADER:])
            for at, row in zip(question["points"], by_point, strict=True)
            if row[0] == 0.0
        ]
        if not all(_is_concave(one, two) for one, two in combinations(told, 2)):
            return "values and slopes are not those of a concave function"
    if payments is not None:
        at, amounts = np.abs(np.array(question["points"][0])), np.array(list(payments.values()))
        gross = np.abs(numbers).sum() if question["about"] == SETTLEMENTS["shapley"] else np.abs(numbers) @ at
        if abs(amounts.sum()) > PAYMENT_TOLERANCE * (gross + np.abs(amounts).sum()):  # of what changes hands at most
            return f"the payments sum to {amounts.sum():.3g}"
    return None


def _is_concave(one: tuple[FloatArray, float, FloatArray], two: tuple[FloatArray, float, FloatArray]) -> bool:
    (at, value, slope), (there, other, slope_there) = one, two
    step, rise = there - at, other - value
    rounding = CONCAVITY_TOLERANCE * (
        abs(value) + abs(other) + float((np.abs(slope) + np.abs(slope_there)) @ np.abs(step))
    ) + 2.0 * at.size * 2.0**-masks.FRACTION_BITS * (1.0 + float(np.abs(step).sum()))
    return bool(slope_there @ step - rounding <= rise <= slope @ step + rounding)


def _masked_terms(agent: Agent, question: Mapping[str, Any]) -> masks.Residues:
    terms = masks.to_residues(_terms(agent, question))
    return (terms + masks.own_mask(agent.index, _seeds(agent, question), len(terms))) % masks.MODULUS


def _seeds(agent: Agent, question: Mapping[str, Any]) -> dict[int, bytes]:
    """The seeds that the member shares with all others for a question; refuses those that would bare it.

    All keys must be signed by the members whose they are: with one that is made up a sum would bare the others.
    """
    members, keys, names = question["members"], question["keys"], question.get("names", [])
    if len(set(members)) != len(members) or agent.index not in members or len(members) < MIN_SUMMED:
        raise Refusal(f"a sum must be over at least {MIN_SUMMED} members, itself among them, got {members!r:.80}")
    if len({keys[place] for place in members}) != len(members):
        raise Refusal("every member must have a key of its own")
    if agent.identity is not None and agent.identity.known.is_given:
        if not question.get("signatures"):
            raise Refusal("nobody's key is signed: somebody may listen")
        if len({str(names[place]) for place in members}) != len(members):
            raise Refusal(f"every member must have a name of its own, got {names!r:.80}")
        texts = {str(place): key_text(str(names[place]), keys[place]) for place in members}
        not_signed = 'the key of "{}" is not signed by it: somebody may listen'
        _check_signed(agent, question, texts, question["signatures"], not_signed)
    digest = masks.question_digest(question)
    return {int(place): masks.pair_seed(agent.secret, keys[place], digest) for place in members if place != agent.index}


def _check_signed(
    agent: Agent, asked: Mapping[str, Any], texts: Mapping[str, bytes], signatures: Mapping[str, str], otherwise: str
) -> None:
    """That everybody else in a round has signed a text of its own; a member that knows no keys cannot tell."""
    if agent.identity is None or not agent.identity.known.is_given:
        return
    for place in asked["members"]:
        if place != agent.index:
            name = str(asked["names"][place])
            public = agent.identity.known.by_name.get(name)
            if public is None:
                raise Refusal(f'"{name}" is not among the members whose signing keys it knows: it may be made up')
            if not is_signature(public, texts[str(place)], signatures.get(str(place))):
                raise Refusal(otherwise.format(name))


def _terms(agent: Agent, question: Mapping[str, Any]) -> FloatArray:
    """The member's terms at all points of a question, one after the other."""
    about = question["about"]
    profiles = [np.asarray(point, dtype=np.float64) for point in question["points"]]
    if about in PROGRAMS.values():
        return np.concatenate([_program_terms(agent, about, at) for at in profiles])
    return np.concatenate(
        [
            agent.rows().shares(at).values.sum(axis=0) if about == "shares" else _agreed_prices(agent, at)
            for at in profiles
        ]
    )


def _program_terms(agent: Agent, about: str, at: FloatArray) -> FloatArray:
    """Outside or not, a value less cost, payoff, cost and gradient; of "welfare" or the "potential"."""
    tasks, lots = _say(agent, "prices" if about == "welfare" else "shares", at)
    outside = np.zeros(at.size + HEADER)
    outside[0] = 1.0
    if any("outside" in task for task in tasks):
        return outside
    payoff, cost = sum(task["payoff"] for task in tasks), sum(lot["cost"] for lot in lots)
    value, key = (payoff, "prices") if about == "welfare" else (agent.rows().potential(at), "slopes")
    gradient = np.sum([np.zeros(at.size), *[task[key] for task in tasks]], axis=0)
    gradient[agent.own_lots] -= [lot["marginal_cost"] for lot in lots]
    terms = np.array([0.0, value - cost, payoff, cost, *gradient])
    is_harmed = bool((agent.weights * at < 0.0).any())  # which may make them too large to be summed
    return outside if is_harmed and not (np.abs(terms) <= masks.MAX_MASKED).all() else terms


def _agreed_prices(agent: Agent, at: FloatArray) -> FloatArray:
    tasks, _ = _say(agent, "prices", at)
    if any("outside" in task for task in tasks):
        raise Refusal("the profile agreed is outside the domain of its payoff")
    return np.asarray(np.sum([np.zeros(at.size), *[task["prices"] for task in tasks]], axis=0))


def _say(agent: Agent, kind: str, at: FloatArray) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What it would answer to a question of that kind, of its tasks and of its lots."""
    answer = agent.answer({"number": 0, "kind": kind, "contributions": at.tolist()})
    return answer["tasks"], answer["lots"]
