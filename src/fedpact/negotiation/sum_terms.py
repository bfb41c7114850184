"""A member's part in a negotiation in sums: its terms, masked, and its payment. It never opens a mask.

A question about sums lists profiles and says which sum is formed:

| about     | at every profile                                                    | summed over members to  |
|-----------|---------------------------------------------------------------------|-------------------------|
| welfare   | outside or not, a_i - c_i, a_i, c_i, gradient of a_i - c_i           | the program of M^E      |
| potential | outside or not, P_i - c_i, a_i, c_i, gradient of P_i - c_i           | the program of M^Shap   |
| prices    | a_i' w_ij for every j                                               | g_j, what j's data is worth to all |
| shares    | phi_ij for every j                                                  | phi_j                   |

The question also holds everybody's keys and caps and who takes part, and the masks are bound to all of it. A member
answers only if it is among at least three, its own key and caps are listed as they are, no profile is beyond the caps,
and, where it knows signing keys of others, all others are among these and have signed theirs. Whoever's caps are stated
wrongly refuses, and no sum is formed.

Whether it answers follows from what is said alone, never from its private numbers: a coordinator could ask it about one
profile after the other. Outside the domain of its payoff, or with numbers too large to be summed, it says so under the
mask; asked about prices or shares there, its terms are zero.

From the last sum it works out its own payment: s_i g_i - a_i' w_i s, or phi_i - a_i. A member with a signing key signs
whatever it answers here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.deals.signatures import KnownKeys, is_signature
from fedpact.negotiation import masks, validation
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import Refusal, short_repr

if TYPE_CHECKING:
    from fedpact.negotiation.agent import Agent

logger = logging.getLogger("flwr.fedpact.sums")  # below Flower's own, so that a node shows it

MIN_SUMMED = 3  # answers: a sum over fewer tells a member what the other says
HEADER = 4  # numbers before the gradient: outside, objective, payoff, cost
PROGRAMS = {"externality": "welfare", "shapley": "potential"}
SETTLEMENTS = {"externality": "prices", "shapley": "shares"}


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


def check_question(agent: Agent, question: Mapping[str, Any]) -> None:
    """Refuse a question that does not hold what it must, or asks beyond the caps; by what everybody knows alone."""
    about, n_lots = question.get("about"), agent.lot_owners.size
    try:
        if question.get("kind") == "payment":
            _require(about in SETTLEMENTS.values(), "about", about)
            validation.numbers(question.get("contributions"), "contributions", size=n_lots)
            size = agent.n_agents if about == SETTLEMENTS["shapley"] else n_lots
            validation.numbers(question.get("sums"), "sums", size=size)
            return
        points, members, keys, caps = (question.get(part, ()) for part in ("points", "members", "keys", "caps"))
        _require(about in (*PROGRAMS.values(), *SETTLEMENTS.values()), "about", about)
        _require(_is_list(keys, str) and len(keys) >= agent.n_agents, "keys", keys)
        _require(_is_list(members, int) and all(0 <= index < len(keys) for index in members), "members", members)
        _require(_is_list(caps, int, float, str) and len(caps) == n_lots, "caps", caps)
        bounds = np.array([validation.cap(cap, "cap") for cap in caps])
        _require(np.array_equal(bounds[agent.own_lots], agent.caps), "caps", caps)
        _require(_is_list(points, list) and points, "points", points)
        for at in points:
            within = np.array([validation.positive(each, "a contribution") for each in at])
            _require(within.size == n_lots and (within <= bounds).all(), "points, all within everybody's caps", at)
    except validation.BadAnswer as reason:
        raise Refusal(f"it does not answer a question about sums that is none: {reason}") from None


def _is_list(given: Any, *kinds: type) -> bool:
    return isinstance(given, list) and all(type(each) in kinds for each in given)


def _require(holds: Any, part: str, given: Any) -> None:
    if not holds:
        raise validation.BadAnswer(f"it must hold {part}, got {short_repr(given)}")


def signed_text(name: str, question: Mapping[str, Any], said: Mapping[str, Any]) -> bytes:
    """What a member signs of an answer: who says what to which question."""
    content = {key: part for key, part in question.items() if key != "number"}
    return masks.PURPOSE + masks.question_digest({"name": name, "question": content, "said": said})


def answer_key(agent: Agent, question: Mapping[str, Any]) -> dict[str, Any]:
    """Reveals: a public key made for this."""
    return _signed(agent, question, {"key": masks.public_key(agent.secret)})


def answer_sums(agent: Agent, question: Mapping[str, Any]) -> dict[str, Any]:
    """Reveals: nothing by itself; together with the answers of all others, the sum."""
    check_question(agent, question)
    if question["keys"][agent.index] != masks.public_key(agent.secret):
        return {"stale": True}
    terms = masks.to_residues(_terms(agent, question))
    masked = (terms + masks.own_mask(agent.index, _seeds(agent, question), len(terms))) % masks.MODULUS
    return _signed(agent, question, {"masked": masks.encode(masked)})


def answer_payment(agent: Agent, question: Mapping[str, Any]) -> dict[str, Any]:
    """Reveals: its payment, which is part of the deal; it follows from its own terms and everybody's sum of them."""
    check_question(agent, question)
    contributions, sums = (np.asarray(question[key], dtype=np.float64) for key in ("contributions", "sums"))
    terms, own = _terms(agent, {"about": question["about"], "points": [contributions]}), agent.own_lots
    if question["about"] == SETTLEMENTS["shapley"]:
        due = sums[agent.index] - terms.sum()
    else:
        due = contributions[own] @ sums[own] - terms @ contributions
    return _signed(agent, question, {"payment": float(due)})


def _signed(agent: Agent, question: Mapping[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    if agent.identity is None:
        return said
    return said | {"signature": agent.identity.sign(signed_text(agent.name, question, said))}


def total_of(masked: Iterable[masks.Residues]) -> FloatArray:
    """The sum of all members' answers to a question; the masks cancel."""
    return masks.to_floats(np.sum(list(masked), axis=0) % masks.MODULUS)


def _seeds(agent: Agent, question: Mapping[str, Any]) -> dict[int, bytes]:
    """The seeds that the member shares with all others for a question; refuses those that would bare it.

    A member that knows the others' signing keys believes no key that is not signed by the member whose it is: with one
    that is made up a sum would bare the others.
    """
    members, keys = question["members"], question["keys"]
    if len(set(members)) != len(members) or agent.index not in members or len(members) < MIN_SUMMED:
        raise Refusal(f"a sum must be over at least {MIN_SUMMED} members, itself among them, got {members!r:.80}")
    if len({keys[index] for index in members}) != len(members):
        raise Refusal("every member must have a key of its own")
    others = [index for index in members if index != agent.index]
    if agent.identity is not None and agent.identity.known.is_given:
        signatures = question.get("signatures")
        if not signatures:
            raise Refusal("nobody's key is signed: somebody may listen")
        names = {index: str(question["names"][index]) for index in members}
        if len(set(names.values())) != len(members):
            raise Refusal(f"every member must have a name of its own, got {question['names']!r:.80}")
        for index in others:
            public = agent.identity.known.by_name.get(names[index])
            if public is None:
                raise Refusal(
                    f'"{names[index]}" is not among the members whose signing keys it knows: it may be made up'
                )
            text = signed_text(names[index], {"kind": "key"}, {"key": keys[index]})
            if not is_signature(public, text, signatures.get(str(index))):
                raise Refusal(f'the key of "{names[index]}" is not signed by it: somebody may listen')
    digest = masks.question_digest(question)
    return {index: masks.pair_seed(agent.secret, keys[index], digest) for index in others}


def _terms(agent: Agent, question: Mapping[str, Any]) -> FloatArray:
    """The member's terms at all points of a question, one after the other."""
    about = question["about"]
    profiles = [np.asarray(point, dtype=np.float64) for point in question["points"]]
    return np.concatenate([_terms_at(agent, about, at) for at in profiles])


def _terms_at(agent: Agent, about: str, at: FloatArray) -> FloatArray:
    """The member's terms at a profile; where it has none, what says so in a program, and zeros otherwise."""
    terms_of = {"shares": _shares, "prices": _prices}.get(about, partial(_program_terms, about=about))
    try:
        with np.errstate(all="ignore"):
            terms = terms_of(agent, at=at)
    except Exception:  # an error would tell the coordinator of private numbers, its kind included
        logger.exception("%s cannot answer; it counts as outside the domain of its payoff", agent.name)
        terms = None
    if terms is not None and (np.abs(terms) <= masks.MAX_MASKED).all():
        return terms
    outside = np.zeros(count_of({"about": about, "points": [at], "keys": range(agent.n_agents)}))
    outside[:1] = float(about in PROGRAMS.values())
    return outside


def _program_terms(agent: Agent, *, about: str, at: FloatArray) -> FloatArray | None:
    """Outside or not, a value less cost, payoff, cost and gradient; of "welfare" or the "potential"."""
    tasks, lots = _say(agent, "prices" if about == "welfare" else "shares", at)
    if any("outside" in task for task in tasks):
        return None
    payoff, cost = sum(task["payoff"] for task in tasks), sum(lot["cost"] for lot in lots)
    value, key = (payoff, "prices") if about == "welfare" else (agent.rows().potential(at), "slopes")
    gradient = np.sum([np.zeros(at.size), *[task[key] for task in tasks]], axis=0)
    gradient[agent.own_lots] -= [lot["marginal_cost"] for lot in lots]
    return np.array([0.0, value - cost, payoff, cost, *gradient])


def _shares(agent: Agent, *, at: FloatArray) -> FloatArray:
    return np.asarray(agent.rows().shares(at).values.sum(axis=0))


def _prices(agent: Agent, *, at: FloatArray) -> FloatArray | None:
    tasks, _ = _say(agent, "prices", at)
    if any("outside" in task for task in tasks):
        return None
    return np.asarray(np.sum([np.zeros(at.size), *[task["prices"] for task in tasks]], axis=0))


def _say(agent: Agent, kind: str, at: FloatArray) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What it would answer to a question of that kind, of its tasks and of its lots."""
    answer = agent.answer({"number": 0, "kind": kind, "contributions": at.tolist()})
    return answer["tasks"], answer["lots"]
