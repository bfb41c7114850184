"""A negotiation under way: who takes part, what was asked, what came back. Broken answers end here.

Whoever does not answer, or answers with something that cannot be used, is named, asked once more, and then excluded.
Nothing of a broken answer is ever used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedpact.deals.deal import Event
from fedpact.deals.transcript import Channel
from fedpact.federation.arrays import Owners
from fedpact.negotiation.validation import (
    Introduction,
    Layout,
    LotAnswer,
    ProfileAnswer,
    TaskAnswer,
    Withdrawal,
    check_answer,
    read_introduction,
    read_profile,
)
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, NotConverged

AnswerT = TypeVar("AnswerT")
Listener = Callable[[Event], None]
Content = Callable[[int], dict[str, Any]]
Read = Callable[[dict[str, Any], int], AnswerT]


class SettledBy(Enum):
    """What the payments of a negotiated deal are: the value stands in deals, the sentence is for people."""

    sentence: str

    PERSONAL_PRICES = "personal prices", "at the personal prices"
    MESSAGE_GAME = "message game", "by the message game"
    SHAPLEY_SHARES = "Shapley shares", "by Shapley shares"
    OWN_PAYMENTS = "own payments", "by payments that everybody worked out for itself"

    def __new__(cls, value: str, sentence: str = "") -> SettledBy:
        """A member of the enum with its sentence."""
        made = object.__new__(cls)
        made._value_, made.sentence = value, sentence
        return made


@dataclass(frozen=True, kw_only=True, eq=False)
class ProtocolResult:
    """What a protocol comes to: everybody's contributions, per lot, and prices or payments.

    Attributes
    ----------
    prices, payments
        Personal prices, (n, lots), every column summing to zero, or payments, summing to zero.
    settled_by
        What the payments are, where there is no message game.
    residual, welfare
        The gain still promised as a share of what is at stake, and the welfare by what the agents say.
    """

    contributions: FloatArray
    prices: FloatArray | None = None
    payments: FloatArray | None = None
    settled_by: SettledBy
    residual: float
    welfare: float


class MemberExcluded(Exception):
    """Somebody was excluded while being asked: what was going on has to be begun anew without it."""


class Session:
    """Agents, their introductions, and what was asked and answered.

    `histories` holds everybody's answers about profiles, in order: they still count when somebody else has gone. Agents
    are known by their index among all; arrays have an entry for everybody, or for every lot. `profile` is where the
    negotiation is, after `rounds` in which everybody was asked.
    """

    def __init__(self, channel: Channel, listener: Listener | None = None) -> None:
        self.channel = channel
        self.names = list(channel.names)
        self.size = len(self.names)
        if len(set(self.names)) != self.size:
            raise InvalidInput(f"members of one negotiation must have different names, got {self.names!r:.200}")
        self.trace: list[Event] = []
        self.excluded: dict[str, str] = {}
        self.introductions: dict[int, Introduction] = {}
        self.layout = Layout(tuple(range(self.size)))
        self.lot_owners: Owners = np.arange(self.size)
        self.histories: dict[int, list[ProfileAnswer]] = {}
        self.profile, self.rounds = np.zeros(self.size), 0
        self._listener = listener
        self._number = 0

    @property
    def members(self) -> NDArray[np.intp]:
        """The indices of those who take part."""
        return np.array([index for index, name in enumerate(self.names) if name not in self.excluded], dtype=np.intp)

    @property
    def n_lots(self) -> int:
        """How many lots there are, those of agents who are out among them."""
        return self.lot_owners.size

    @property
    def lots(self) -> NDArray[np.intp]:
        """The lots of those who take part."""
        return np.flatnonzero(np.isin(self.lot_owners, self.members))

    @property
    def task_owners(self) -> Owners:
        """Whose the tasks of those who take part are, member by member."""
        return np.repeat(self.members, [len(self.introductions[int(index)].task_uses) for index in self.members])

    @property
    def task_histories(self) -> list[tuple[TaskAnswer, ...]]:
        """What was said of each of these tasks so far."""
        said = [[answer.tasks for answer in self.histories[int(index)]] for index in self.members]
        return [history for tasks in said for history in zip(*tasks, strict=True)]

    @property
    def lot_histories(self) -> list[tuple[LotAnswer, ...]]:
        """What was said of the cost of each of the lots of those who take part."""
        by_lot: dict[int, tuple[LotAnswer, ...]] = {}
        for index in map(int, self.members):
            own = np.flatnonzero(self.lot_owners == index).tolist()
            by_lot |= zip(own, zip(*(answer.lots for answer in self.histories[index]), strict=True), strict=True)
        return [by_lot[int(lot)] for lot in self.lots]

    @property
    def caps(self) -> FloatArray:
        """Of all lots; zero for those of agents who are out."""
        caps = np.zeros(self.n_lots)
        for index in self.members:
            caps[self.lot_owners == index] = self.introductions[int(index)].caps
        return read_only_copy(caps)

    def for_all_lots(self, numbers: Sequence[float] | FloatArray) -> FloatArray:
        """Numbers of the members' lots as those of all lots; zero for those of agents who are out."""
        everything = np.zeros(self.n_lots)
        everything[self.lots] = numbers
        return read_only_copy(everything)

    def for_everybody(self, numbers: Sequence[float] | FloatArray) -> FloatArray:
        """Numbers of the members as those of everybody; zero for those who are out."""
        everybody = np.zeros(self.size)
        everybody[self.members] = numbers
        return read_only_copy(everybody)

    def for_every_pair(self, numbers: FloatArray) -> FloatArray:
        """(members, their lots) as (everybody, all lots); zero for those who are out."""
        pairs = np.zeros((self.size, self.n_lots))
        pairs[np.ix_(self.members, self.lots)] = numbers
        return pairs

    def introduce(self, protocol: str, mechanism: str, *, tells_uses: bool) -> None:
        """Everybody is told what is negotiated, and says its caps, and whose data matters to it if members tell.

        Who cannot say it does not take part.
        """

        def read(raw: dict[str, Any], index: int) -> Introduction:
            return read_introduction(raw, index, self.size, tells_uses=tells_uses)

        asked = {"protocol": protocol, "mechanism": mechanism}
        while True:
            try:
                self.introductions = self.ask("introduce", lambda index: asked, read)
            except MemberExcluded:
                continue
            others = self._take_layout()
            if not others:
                return
            self.exclude(others)

    def _take_layout(self) -> dict[int, str]:
        """Whose every lot is, as most say it; who says otherwise, with the reason."""
        said = {index: each.layout for index, each in self.introductions.items()}
        [(layout, _)] = Counter(said.values()).most_common(1)
        self.layout, self.lot_owners = layout, np.array(layout.lot_owners, dtype=np.intp)
        self.histories = {index: [] for index in said}
        self.profile = np.zeros(self.n_lots)
        here = f"{len(layout.lot_owners)} lots" if layout.lot_names else "one lot of data and one task each"
        reason = f"its file is of another federation: most members speak of {here}, it names other lots or owners"
        return {index: reason for index, each in said.items() if each != layout}

    def ask_about(self, profile: FloatArray, *, shares: bool = False) -> Mapping[int, ProfileAnswer]:
        """What everybody says of a profile, which goes into the histories; with `shares` how payoffs are shared out."""
        contributions = profile.tolist()

        def read(raw: dict[str, Any], index: int) -> ProfileAnswer:
            introduction, earlier = self.introductions[index], self.histories[index]
            return read_profile(raw, profile, introduction, earlier, index=index, n_agents=self.size, shares=shares)

        kind = "shares" if shares else "prices"
        answers = self.ask(kind, lambda index: {"contributions": contributions}, read)
        for index, answer in answers.items():
            self.histories[index].append(answer)
        return answers

    def ask(self, kind: str, content: Content, read: Read[AnswerT]) -> dict[int, AnswerT]:
        """Ask all members, those whose answers are broken once more, and read the answers.

        Raises `MemberExcluded` if somebody had to go, `NotConverged` if nobody is left to ask.
        """
        if not self.members.size:
            fates = "; ".join(f"{name}: {reason}" for name, reason in self.excluded.items())
            raise NotConverged(f"nobody is left to negotiate with: {fates or 'there were no members'}")
        answers, broken = self._ask_once([int(index) for index in self.members], kind, content, read)
        again = [index for index, reason in broken.items() if not isinstance(reason, Withdrawal)]
        for index in again:
            self.notify({"event": "asked again", "agent": self.names[index], "reason": str(broken[index])})
        if again:
            mended, still = self._ask_once(again, kind, content, read)
            answers |= mended
            broken = {index: still.get(index, reason) for index, reason in broken.items() if index not in mended}
        if broken:
            self.exclude({index: str(reason) for index, reason in broken.items()})
            raise MemberExcluded
        return answers

    def notify(self, event: Event) -> None:
        """Put an event into the trace, and tell the listener."""
        self.trace.append(event)
        if self._listener is not None:
            self._listener(event)

    def notify_round(
        self,
        number: int,
        *,
        contributions: FloatArray,
        residual: float | None,
        welfare: float | None,
        prices: FloatArray | None = None,
        utilities: Mapping[int, float] | None = None,
    ) -> None:
        """The event of a round, plain data by index: what was asked about, and what the answers say of it.

        `residual` is None where there is no telling how far an agreement is, `welfare` where somebody is outside the
        domain of its payoff. Of `prices`, (n, lots), the event holds what all others pay for each lot; `utilities` are
        payoffs less costs, before payments.
        """
        paid = None
        if prices is not None:
            paid = (prices.sum(axis=0) - prices[self.lot_owners, np.arange(self.n_lots)]).tolist()
        stated = [(utilities or {}).get(index, np.nan) for index in range(self.size)]
        self.notify(
            {
                "event": "round",
                "round": number,
                "residual": residual,
                "welfare": welfare,
                "contributions": contributions.tolist(),
                "prices": paid,
                "utilities": [gain if np.isfinite(gain) else None for gain in stated],
            }
        )

    def _ask_once(
        self, indices: Sequence[int], kind: str, content: Content, read: Read[AnswerT]
    ) -> tuple[dict[int, AnswerT], dict[int, InvalidInput]]:
        """The answers that can be used, and what is wrong with the others."""
        self._number += 1
        questions = {index: {"number": self._number, "kind": kind, **content(index)} for index in indices}
        raw = self.channel.ask(questions)
        answers: dict[int, AnswerT] = {}
        broken: dict[int, InvalidInput] = {}
        for index in indices:
            try:
                answers[index] = read(check_answer(raw.get(index), questions[index]), index)
            except InvalidInput as reason:
                broken[index] = reason
        return answers, broken

    def exclude(self, reasons: Mapping[int, str]) -> None:
        """Go on without some members, for reasons that were found in what they have answered."""
        for index, reason in reasons.items():
            self.excluded[self.names[index]] = reason
            self.notify({"event": "excluded", "agent": self.names[index], "reason": reason})
