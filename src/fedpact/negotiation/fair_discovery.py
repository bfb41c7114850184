"""Price discovery for the fairest deal that holds: what groups reach by themselves, all groups side by side.

The fair deal is the Externality deal with side payments on top (`fedpact.mechanisms.fair`). These follow from Shapley
shares at the agreement, and from what those who must be kept could reach by themselves: every member (`keep="members"`)
or every group of members (`keep="groups"`). What a group reaches is the welfare of its own Externality deal, so every
group negotiates one, and all of them at the same time: a round asks each member about the profiles of all groups that
it is in. Groups that agree are asked no more. Then everybody says how its payoff at the agreement of all is shared out.

All answers of a member are about one payoff and one cost, and are held against each other
(`fedpact.negotiation.group_answers`): what a member says that it would reach alone has to fit what it says of the deal.
A lie that is consistent cannot be told from the truth, and pays: side payments leave nobody less than it has alone.

Stopping inequality: that of price discovery, for every group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import SharedCap
from fedpact.mechanisms.fair import check_shares, no_deal_error
from fedpact.negotiation.group_answers import KnownAnswers, read_group_marginals
from fedpact.negotiation.price_discovery import PriceSearch, notify_prices, price_result
from fedpact.negotiation.protocol import ProtocolResult, balance_exactly
from fedpact.negotiation.session import MemberExcluded, Session
from fedpact.negotiation.validation import MarginalAnswer, ShareAnswer, read_shares
from fedpact.negotiation.welfare_model import WelfareModel
from fedpact.programs.fair_shares import KeptGroups, Unkept, share_among_groups, share_among_members
from fedpact.programs.known_groups import MAX_GROUPS_TAKEN_IN
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, NoFairDeal
from fedpact.utils.words import MAX_NAMES, join_names

MAX_GROUPED_AGENTS = 10  # members of whom all groups negotiate: 1023 of them
KEEP = {"fair": "groups", "fair-members": "members"}


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
