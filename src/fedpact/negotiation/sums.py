"""Negotiating in sums: the coordinator learns what all members' answers add up to, and nothing of a single one.

Both mechanisms maximise a sum over receivers, welfare or the potential less costs, and each receiver works out its own
term from its own row (`fedpact.negotiation.sum_terms`). Members first agree on keys, in one round through the
coordinator. Every answer after that is masked so that only the sum over all members can be read
(`fedpact.negotiation.masks`). From sums of values and gradients at three profiles a round the coordinator climbs to the
maximiser (`fedpact.negotiation.quasi_newton`).

Then one more sum says what everybody's data is worth to all, or what everybody's share is; each member works out its
own payment from it and its own numbers, and says it. Payments sum to zero within rounding, which is shared out so that
the budget is exact. A round somebody does not answer is never read: it is asked again without that
member. No sum over fewer than three answers is formed.

Sums that cannot be true (masks that do not cancel, values and slopes of no concave function, payments that do not add
up) make a round void. Members then open the masks of the round in dispute, which bares their answers to it and to no
other; whoever contradicts itself is excluded. Where two members say different things of the mask they share, nobody
else can tell who is right, and both are.

Stopping inequality: the model's step promises at most `tol` of what is at stake, the last points have brought no more,
and the linearised gain near the profile is at most `MAX_LINEARISED` of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from fedpact.federation.arrays import Owners
from fedpact.negotiation import masks
from fedpact.negotiation.quasi_newton import QuasiNewton
from fedpact.negotiation.session import MemberExcluded, ProtocolResult, Session
from fedpact.negotiation.sum_terms import (
    HEADER,
    MIN_SUMMED,
    PROGRAMS,
    SETTLEMENTS,
    count_of,
    find_contradiction,
    payment_of,
    total_of,
)
from fedpact.negotiation.validation import read_answer
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged
from fedpact.utils.words import count_text

MAX_KEY_CHANGES = 3  # times keys are agreed on anew for one question
OWN_PAYMENT_TOLERANCE = 1e-9  # of a member's terms and payment


def negotiate_sums(session: Session, *, mechanism: str, tol: float, max_rounds: int) -> ProtocolResult:
    """The result; raises `NotConverged` if there is none within so many rounds, or too few members are left."""
    exchange, lots = _Exchange(session), session.lots
    climb = QuasiNewton(session.caps[lots], tol=tol, start=session.profile[lots])
    for number in range(1, max_rounds + 1):
        session.rounds += 1
        residual = _ask_round(session, exchange, climb, mechanism, number)
        if climb.is_done:
            at = session.profile
            return ProtocolResult(
                contributions=at,
                payments=session.for_everybody(exchange.ask_payments(SETTLEMENTS[mechanism], at)),
                settled_by="own payments",
                residual=residual,
                welfare=exchange.payoffs - exchange.costs,
            )
    names = ", ".join(f'"{session.names[place]}"' for place in session.members)
    raise NotConverged(
        f"no agreement within {max_rounds} rounds: the last step still promised {climb.promised:.1e} of payoff, and "
        f"sums do not say which of {names} is to blame"
    )


def _ask_round(session: Session, exchange: _Exchange, climb: QuasiNewton, mechanism: str, number: int) -> float:
    """Ask about the points of the climb, and let it go on; the gain still promised."""
    points, best = climb.points, climb.best
    told = exchange.ask(PROGRAMS[mechanism], [session.for_all_lots(point) for point in points], number)
    told = told.reshape(len(points), -1)
    exchange.check(number)
    outside, values, payoffs, costs = told[:, :HEADER].T
    values = np.where(outside > 0, -np.inf, values)
    highest = int(np.argmax(values))
    if best is None or values[highest] > best.value:
        exchange.stake = float(abs(payoffs[highest]) + costs[highest])
    climb.tell(values.tolist(), [row[HEADER:][session.lots] for row in told], stake=exchange.stake)
    assert climb.best is not None
    session.profile = session.for_all_lots(climb.best.at)
    for place, point in enumerate(points):
        if climb.best.at is point:
            exchange.payoffs, exchange.costs = float(payoffs[place]), float(costs[place])
    at_first = 0.0 if climb.is_done else 1.0  # with nothing on the table all is still to be gained
    residual = max(climb.promised, 0.0) / exchange.stake if exchange.stake > 0.0 else at_first
    session.notify_round(
        number,
        contributions=session.profile,
        residual=residual if np.isfinite(residual) else None,
        welfare=exchange.payoffs - exchange.costs,
    )
    return residual


@dataclass(frozen=True, kw_only=True, eq=False)
class _SummedRound:
    """A question, everybody's masked answers to it with their signatures, and their sum; places as texts, as sent."""

    question: dict[str, Any]
    masked: Mapping[str, str]
    signatures: Mapping[str, str]
    total: FloatArray


class _Exchange:
    """Questions about sums, with keys that are agreed on anew where a member has another one.

    `stake`, `payoffs` and `costs` are those of the best profile so far.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.stake, self.payoffs, self.costs = 0.0, 0.0, 0.0
        self._last: _SummedRound | None = None
        if session.members.size < MIN_SUMMED:
            fates = "; ".join(f"{name}: {reason}" for name, reason in session.excluded.items())
            raise NotConverged(
                f"no agreement in sums: {count_text(session.members.size, 'member')} left, and a sum over fewer than "
                f"{MIN_SUMMED} answers is never formed{f' ({fates})' if fates else ''}; negotiate by price-discovery"
            )
        self._agree_on_keys()

    def ask(self, about: str, profiles: list[FloatArray], number: int) -> FloatArray:
        """The sum of everybody's answers about some profiles."""
        for _ in range(MAX_KEY_CHANGES):
            question = self._question(about, profiles, number)
            content = {key: part for key, part in question.items() if key != "kind"}
            read = partial(_read_sums, count=count_of(question))
            answers = self.session.ask("sums", lambda place: content, read)  # noqa: B023 - called at once
            stale = [place for place, answer in answers.items() if answer is None]
            if not stale:
                masked, signed = _by_text(answers, "masked"), _by_text(answers, "signature")
                total = total_of(question, masked)
                self._last = _SummedRound(question=question, masked=masked, signatures=signed, total=total)
                return total
            self._agree_on_keys()
        self.session.exclude(dict.fromkeys(stale, "its key changes with every question"))
        raise MemberExcluded

    def ask_payments(self, about: str, contributions: FloatArray) -> FloatArray:
        """What everybody works out from one more sum that it is paid, by member."""
        sums = self.ask(about, [contributions], 0)
        self.check(0)
        content = {"about": about, "contributions": contributions.tolist(), "sums": sums.tolist()}
        stated = self.session.ask("payment", lambda place: content, lambda raw, _: read_answer("payment", raw))
        self.check(0, stated)
        return np.array([stated[int(place)]["payment"] for place in self.session.members])

    def check(self, number: int, payments: Mapping[int, dict[str, Any]] | None = None) -> None:
        """Raise `MemberExcluded` once it is found who made the last sum contradict itself."""
        assert self._last is not None
        amounts = None if payments is None else _by_text(payments, "payment")
        reason = find_contradiction(self._last.question, self._last.total, amounts)
        if reason is not None:
            self.session.notify({"event": "masks opened", "round": number, "reason": reason})
            self.session.exclude(self._find_liars(self._last, payments))
            raise MemberExcluded

    def _agree_on_keys(self) -> None:
        self._keys = self.session.ask("key", lambda place: {}, lambda raw, _: read_answer("key", raw))

    def _question(self, about: str, profiles: list[FloatArray], number: int) -> dict[str, Any]:
        everybody = range(self.session.size)
        signatures = {str(place): key["signature"] for place, key in self._keys.items() if key["signature"]}
        question = {
            "kind": "sums",
            "about": about,
            "round": number,
            "points": [profile.tolist() for profile in profiles],
            "members": [int(place) for place in self.session.members],
            "keys": [self._keys[place]["key"] if place in self._keys else "" for place in everybody],
        }
        return question | ({"names": self.session.names, "signatures": signatures} if signatures else {})

    def _find_liars(self, disputed: _SummedRound, payments: Mapping[int, dict[str, Any]] | None) -> dict[int, str]:
        """Who contradicts itself once the masks of the round in dispute are open, and how."""
        members, question = [int(place) for place in self.session.members], disputed.question
        content = {"asked": question, "masked": disputed.masked, "signatures": disputed.signatures}
        if payments is not None:
            content["payments"] = _by_text(payments, "payment")
            content["payment_signatures"] = _by_text(payments, "signature")
        seeds = self.session.ask(
            "open",
            lambda place: content,
            lambda raw, place: read_answer("open", raw, peers=[peer for peer in members if peer != place])["seeds"],
        )
        liars: dict[int, str] = {}
        for place in members:
            terms = _open_terms(disputed, place, seeds[place])
            reason = find_contradiction(question | {"members": [place]}, terms)
            if reason is None and payments is not None:
                own = self.session.own_lots(place)
                reason = _payment_lie(disputed, place, own, terms, payments[place]["payment"])
            if reason is not None:
                liars[place] = f"made the sums contradict themselves: of its own answer {reason}"
        apart = 'says of the mask it shares with "{}" another thing than that one does'
        for one, two in combinations(members, 2):
            if not liars and seeds[one][str(two)] != seeds[two][str(one)]:
                names = self.session.names
                return {one: apart.format(names[two]), two: apart.format(names[one])}
        if not liars:
            raise NotConverged(
                "no agreement: the sums contradict themselves, and the masks of all members are in order"
            )
        return liars


def _by_text(answers: Mapping[int, Any], part: str) -> dict[str, Any]:
    """A part of everybody's answers, by places as they stand in questions."""
    return {str(place): answer[part] for place, answer in answers.items()}


def _read_sums(raw: dict[str, Any], place: int, *, count: int) -> dict[str, str] | None:
    """So many masked numbers and their signature; None if the member has another key now."""
    answer: dict[str, str] = {} if raw.get("stale") is True else read_answer("sums", raw, count=count)
    return answer or None


def _open_terms(summed: _SummedRound, place: int, opened: Mapping[str, str]) -> FloatArray:
    """A member's own numbers, by what it says of its masks."""
    count = count_of(summed.question)
    seeds = {int(peer): bytes.fromhex(seed) for peer, seed in opened.items()}
    masked = masks.decode(summed.masked[str(place)], count)
    return masks.to_floats((masked - masks.own_mask(place, seeds, count)) % masks.MODULUS)


def _payment_lie(summed: _SummedRound, place: int, own: Owners, terms: FloatArray, stated: float) -> str | None:
    question = summed.question
    settlement = {"about": question["about"], "contributions": question["points"][0], "sums": summed.total}
    due = payment_of(settlement, place, own, terms)
    size = abs(due) + abs(stated) + float(np.abs(terms).sum() * (1.0 + max(question["points"][0])))
    return None if abs(due - stated) <= OWN_PAYMENT_TOLERANCE * size else f"its payment is {due:g}, not {stated:g}"
