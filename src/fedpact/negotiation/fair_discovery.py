"""Price discovery for the fairest deal that holds: what groups reach by themselves, all groups side by side.

The fair deal is the Externality deal with side payments on top (`fedpact.mechanisms.fair`). These follow from Shapley
shares at the agreement, and from what those who must be kept could reach by themselves: every member (`keep="members"`)
or every group of members (`keep="groups"`). What a group reaches is the welfare of its own Externality deal, so every
group negotiates one, and all of them at the same time: a round asks each member about the profiles of all groups that
it is in. Groups that agree are asked no more. Then everybody says how its payoff at the agreement of all is shared out.

All answers of a member are about one payoff and one cost, and are held against each other: what a member says that it
would reach alone has to fit what it says of the deal. Its payoff depends on one number, the data it reaches, and its
cost on another, its own contribution; answers that are in order between neighbours in both are in order altogether,
since a function that is concave from each point to the next is concave. So each is held against its neighbours, and a
message with hundreds of answers takes no longer to check than to send. A lie that is consistent cannot be told from the
truth, and pays: side payments leave nobody less than it has alone.

Stopping inequality: that of price discovery, for every group.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import SharedCap
from fedpact.mechanisms.fair import check_shares, no_deal_error
from fedpact.negotiation.price_discovery import PriceSearch, notify_prices, price_result
from fedpact.negotiation.protocol import ProtocolResult, balance_exactly
from fedpact.negotiation.session import MemberExcluded, Session
from fedpact.negotiation.validation import (
    BadAnswer,
    Introduction,
    MarginalAnswer,
    ShareAnswer,
    read_marginals,
    read_shares,
)
from fedpact.negotiation.welfare_model import WelfareModel
from fedpact.programs.fair_shares import KeptGroups, Unkept, share_among_groups, share_among_members
from fedpact.programs.known_groups import MAX_GROUPS_TAKEN_IN
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, NoFairDeal, short_repr
from fedpact.utils.words import MAX_NAMES, join_names

MAX_GROUPED_AGENTS = 10  # members of whom all groups negotiate: 1023 of them
KEEP = {"fair": "groups", "fair-members": "members"}


class KnownAnswers:
    """What a member has said so far, sorted by the data it reaches and by its own contribution."""

    def __init__(self, place: int, answers: Iterable[MarginalAnswer] = ()) -> None:
        self._place = place
        self._answers: list[MarginalAnswer] = []
        self._weights: FloatArray | None = None  # up to a factor, as its prices say
        self._inside: list[tuple[float, int]] = []
        self._outside: list[tuple[float, int]] = []
        self._own: list[tuple[float, int]] = []
        for answer in answers:
            self.add(answer)

    def add(self, answer: MarginalAnswer) -> None:
        """Take in one more."""
        self._answers.append(answer)
        if self._weights is not None:
            self._place_answer(len(self._answers) - 1, self._weights)
        elif answer.worth.any():
            self._weights = answer.worth / float(np.abs(answer.worth).sum())
            for number in range(len(self._answers)):
                self._place_answer(number, self._weights)

    def neighbours(self, at: FloatArray) -> list[MarginalAnswer]:
        """Those to hold an answer about a profile against: the nearest in either order, and the first of all."""
        if self._weights is None:  # nothing matters to it so far: there is nothing to contradict but that
            return self._answers[-1:]
        reach, own = float(self._weights @ at), float(at[self._place])
        found = {0}
        for numbers, wanted in ((self._inside, reach), (self._outside, reach), (self._own, own)):
            next_one = bisect_left(numbers, (wanted, -1))
            found.update(number for _, number in numbers[max(next_one - 1, 0) : next_one + 1])
        return [self._answers[number] for number in sorted(found)]

    def _place_answer(self, number: int, weights: FloatArray) -> None:
        answer = self._answers[number]
        insort(self._outside if answer.outside else self._inside, (float(weights @ answer.at), number))
        if not answer.outside:
            insort(self._own, (float(answer.at[self._place]), number))


def read_group_marginals(
    raw: dict[str, Any],
    profiles: Sequence[FloatArray],
    place: int,
    introduction: Introduction,
    earlier: Sequence[MarginalAnswer],
) -> list[MarginalAnswer]:
    """Checked: one answer for every profile, each as to a question about prices, all consistent with each other."""
    given = raw.get("answers")
    if not isinstance(given, list) or len(given) != len(profiles):
        raise BadAnswer(f"answers must be a list of {len(profiles)}, got {short_repr(given)}")
    known = KnownAnswers(place, earlier)
    found: list[MarginalAnswer] = []
    for number, (at, each) in enumerate(zip(profiles, given, strict=True)):
        if not isinstance(each, dict):
            raise BadAnswer(f"answers[{number}] must be an object, got {short_repr(each)}")
        found.append(read_marginals(each, at, place, introduction, known.neighbours(at)))
        known.add(found[-1])
    return found


def check_group_count(mechanism: str, size: int) -> None:
    """Raise `InvalidInput` where every group would have to negotiate and there are too many members for that."""
    if KEEP.get(mechanism) == "groups" and size > MAX_GROUPED_AGENTS:
        raise InvalidInput(
            f"mechanism {mechanism!r} can be negotiated between at most {MAX_GROUPED_AGENTS} members, got {size}: it "
            f"keeps every group, so each of the {2.0**size - 1:.6g} groups would have to negotiate what it reaches by "
            'itself; negotiate "fair-members", which keeps every member, or let FairMechanism solve it from numbers '
            "that all accept"
        )


class FairProtocol:
    """The protocol for one kind of fair deal: it keeps all groups, or all members."""

    def __init__(self, mechanism: str) -> None:
        self.keep = KEEP[mechanism]

    def __call__(self, session: Session, *, tol: float, max_rounds: int, start: FloatArray) -> ProtocolResult:
        """The result; raises `NotConverged` if some group has none within so many rounds, or nobody can be kept."""
        talks = _GroupTalks(session, self.keep, start, tol)
        number = 0
        try:
            while number < max_rounds and not talks.is_over:
                number += 1
                talks.hold_round(number)
            agreed = [search.require_agreement(max_rounds) for search in talks.searches]
            result = price_result(session, agreed[0], number, talks.searches[0].residual)
            shares = _ask_shares(session, result.contributions)
        except MemberExcluded:
            here = talks.searches[0].profile
            return ProtocolResult(contributions=session.for_all_lots(here[session.lots]), rounds=number)
        kept = KeptGroups(
            members=np.array([np.isin(session.members, table.members) for table in talks.tables[1:]]),
            values=np.array([model.welfare for model in agreed[1:]]),
        )
        names = [session.names[int(place)] for place in session.members]
        side = _side_payments(agreed[0], shares, kept, self.keep, names)
        return replace(result, side_payments=session.for_everybody(side))


class GroupTable:
    """A group of members as the table of a negotiation of its own; the others contribute nothing.

    They have one lot and one task each.
    """

    def __init__(self, session: Session, members: NDArray[np.intp]) -> None:
        self.names, self.size = session.names, session.size
        self.members = self.lots = self.tasks = members
        self.lot_owners, self.task_owners = session.lot_owners, session.task_owners
        self.histories: dict[int, list[MarginalAnswer]] = {int(place): [] for place in members}
        self.cost_histories = self.histories
        self.caps = self.for_all_lots(session.caps[members])
        self.shared_caps: tuple[SharedCap, ...] = ()

    def for_all_lots(self, numbers: Sequence[float] | FloatArray) -> FloatArray:
        """Numbers of the group as those of everybody; zero for the others."""
        everybody = np.zeros(self.size)
        everybody[self.members] = numbers
        return read_only_copy(everybody)


class _GroupTalks:
    """The negotiations of all groups, that of everybody first."""

    def __init__(self, session: Session, keep: str, start: FloatArray, tol: float) -> None:
        self.session = session
        self.tables = [GroupTable(session, members) for members in _groups(session.members, keep)]
        self.searches = [
            PriceSearch(table, start if place == 0 else np.zeros(session.size), tol, canonical=place == 0)
            for place, table in enumerate(self.tables)
        ]

    @property
    def is_over(self) -> bool:
        """Whether every group has agreed."""
        return all(search.agreed is not None for search in self.searches)

    def hold_round(self, number: int) -> None:
        """Ask everybody about the profiles of the groups that it is in, and let each group go on."""
        pending = [place for place, search in enumerate(self.searches) if search.agreed is None]
        answers = self._ask(pending)
        for place in pending:
            table, search = self.tables[place], self.searches[place]
            profile = search.profile
            said = {int(member): answers[int(member)][profile.tobytes()] for member in table.members}
            for member, answer in said.items():
                table.histories[member].append(answer)
            model = search.model_of(said)
            residual = search.advance(model)
            if place == 0:
                notify_prices(self.session, number, profile, said, model=model, residual=residual)
        agreed = sum(search.agreed is not None for search in self.searches)
        self.session.notify({"event": "groups", "round": number, "agreed": agreed, "of": len(self.searches)})

    def _ask(self, pending: Sequence[int]) -> Mapping[int, Mapping[bytes, MarginalAnswer]]:
        """What everybody says of every profile it is concerned with, which goes into the histories."""
        session = self.session
        profiles: dict[int, dict[bytes, FloatArray]] = {int(place): {} for place in session.members}
        for place in pending:
            profile = self.searches[place].profile
            for member in self.tables[place].members:
                profiles[int(member)][profile.tobytes()] = profile
        answers = session.ask(
            "groups",
            lambda place: {"profiles": [profile.tolist() for profile in profiles[place].values()]},
            lambda raw, place: read_group_marginals(
                raw, list(profiles[place].values()), place, session.introductions[place], session.histories[place]
            ),
        )
        for place, said in answers.items():
            session.histories[place].extend(said)
        return {place: dict(zip(profiles[place], said, strict=True)) for place, said in answers.items()}


def _groups(members: NDArray[np.intp], keep: str) -> Iterator[NDArray[np.intp]]:
    """Everybody, and then those who must be kept: the smaller groups, the members alone first."""
    yield members
    for size in range(1, max(members.size, 2) if keep == "groups" else 2):
        for group in combinations(members, size):
            yield np.array(group, dtype=np.intp)


def _ask_shares(session: Session, contributions: FloatArray) -> Mapping[int, ShareAnswer]:
    """How everybody's payoff is shared out at the agreement."""
    stated = contributions.tolist()

    def read(raw: dict[str, object], place: int) -> ShareAnswer:
        # Whoever was inside with all data may be outside with some of it.
        known = (
            []
            if raw.get("outside") is True
            else KnownAnswers(place, session.histories[place]).neighbours(contributions)
        )
        return read_shares(raw, contributions, place, session.introductions[place], known)

    answers = session.ask("shares", lambda place: {"contributions": stated}, read)
    outside = [session.names[place] for place, answer in answers.items() if answer.outside]
    if outside:
        raise NoFairDeal(
            "there are no Shapley shares to return at the welfare optimum: some group of members would leave the "
            f"domain of the payoff of {join_names(outside, most=MAX_NAMES)}"
        )
    return answers


def _side_payments(
    model: WelfareModel, answers: Mapping[int, ShareAnswer], kept: KeptGroups, keep: str, names: Sequence[str]
) -> FloatArray:
    """What everybody is paid beside the prices, by member; raises `NoFairDeal`."""
    members = sorted(answers)
    shares = np.array([answers[place].shares[members] for place in members]).sum(axis=0)
    check_shares(shares, model.payoffs, model.costs)
    priced = model.worth.sum(axis=0) * model.at - model.worth @ model.at
    stakes = np.maximum(np.abs(model.payoffs) + model.costs + np.abs(priced), np.finfo(float).tiny)
    alone = kept.values[: len(members)]

    def find_lacking(utilities: FloatArray) -> KeptGroups:
        lacking = kept.shortfalls(utilities) / (kept.members @ stakes)
        worst = np.argsort(-lacking, kind="stable")[:MAX_GROUPS_TAKEN_IN]
        worst = worst[lacking[worst] > 0.0]
        return KeptGroups(members=kept.members[worst], values=kept.values[worst])

    try:
        if keep == "members":
            fair = share_among_members(shares, model.costs, alone, model.welfare)
        else:
            fair = share_among_groups(shares, model.costs, alone, model.welfare, find_lacking, stakes=stakes)
    except Unkept as unkept:
        raise no_deal_error(names, unkept) from None
    side = fair.utilities - (model.payoffs - model.costs + priced)
    return balance_exactly(side - side.sum() * (stakes / stakes.sum()))
