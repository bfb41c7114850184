"""A negotiation under way: who takes part, what was asked, what came back. Broken answers end here.

Whoever does not answer, or answers with something that cannot be used, is named, asked once more, and then excluded.
Nothing of a broken answer is ever used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedpact.deals.deal import Event
from fedpact.negotiation.channels import Channel
from fedpact.negotiation.validation import (
    BadAnswer,
    Introduction,
    MarginalAnswer,
    Withdrawal,
    check_answer,
    read_introduction,
)
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, NotConverged

AnswerT = TypeVar("AnswerT")
Listener = Callable[[Event], None]
Content = Callable[[int], dict[str, Any]]
Read = Callable[[dict[str, Any], int], AnswerT]


class MemberExcluded(Exception):
    """Somebody was excluded while being asked: what was going on has to be begun anew without it."""


class Session:
    """Agents, their introductions, and what was asked and answered.

    `histories` holds each agent's answers about marginal prices, in order: they still count when somebody else has
    gone. Agents are known by their places among all; arrays have an entry for everybody.
    """

    def __init__(self, channel: Channel, listener: Listener | None = None) -> None:
        self.channel = channel
        self.names = list(channel.names)
        self.size = len(self.names)
        if len(set(self.names)) != self.size:
            raise InvalidInput(f"agents of one negotiation must have different names, got {self.names!r:.200}")
        self.trace: list[Event] = []
        self.excluded: dict[str, str] = {}
        self.introductions: dict[int, Introduction] = {}
        self.histories: dict[int, list[MarginalAnswer]] = {place: [] for place in range(self.size)}
        self._listener = listener
        self._number = 0

    @property
    def members(self) -> NDArray[np.intp]:
        """The places of those who take part."""
        return np.array([place for place, name in enumerate(self.names) if name not in self.excluded], dtype=np.intp)

    @property
    def absent(self) -> list[int]:
        """The places of those who are out."""
        return [place for place, name in enumerate(self.names) if name in self.excluded]

    @property
    def caps(self) -> FloatArray:
        """Everybody's cap; zero for those who are out."""
        return self.for_everybody([self.introductions[int(place)].cap for place in self.members])

    def uses(self, place: int) -> NDArray[np.bool_]:
        """Whose data matters to an agent, those who are out aside."""
        here = np.zeros(self.size, dtype=bool)
        here[self.members] = True
        return self.introductions[place].uses & here

    def for_everybody(self, numbers: Sequence[float] | FloatArray) -> FloatArray:
        """Numbers of the members as those of everybody; zero for those who are out."""
        everybody = np.zeros(self.size)
        everybody[self.members] = numbers
        return read_only_copy(everybody)

    def introduce(self, *, brief: bool = False) -> None:
        """Everybody says its cap and whose data matters to it, or just its cap; who cannot does not take part."""
        content = {"brief": True} if brief else {}
        while True:
            try:
                answers = self.ask(
                    "introduce",
                    lambda place: content,
                    lambda raw, place: read_introduction(raw, place, self.size, brief=brief),
                )
            except MemberExcluded:
                continue
            self.introductions = dict(answers)
            return

    def ask(self, kind: str, content: Content, read: Read[AnswerT]) -> dict[int, AnswerT]:
        """Ask all members, those whose answers are broken once more, and read the answers.

        Raises
        ------
        MemberExcluded
            If somebody had to go.
        NotConverged
            If nobody is left to ask.
        """
        if not self.members.size:
            fates = "; ".join(f"{name}: {reason}" for name, reason in self.excluded.items())
            raise NotConverged(f"nobody is left to negotiate with: {fates or 'there were no agents'}")
        answers, broken = self._ask_once([int(place) for place in self.members], kind, content, read)
        again = [place for place, reason in broken.items() if not isinstance(reason, Withdrawal)]
        for place in again:
            self.notify({"event": "asked again", "agent": self.names[place], "reason": str(broken[place])})
        if again:
            mended, still = self._ask_once(again, kind, content, read)
            answers |= mended
            broken = {place: still.get(place, reason) for place, reason in broken.items() if place not in mended}
        if broken:
            self._exclude(broken)
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
        prices: FloatArray | None,
        utilities: Mapping[int, float],
    ) -> None:
        """The event of a round: plain data, by place.

        Parameters
        ----------
        contributions
            Those everybody was asked about.
        residual
            How far they are from an agreement; None where there is no telling.
        welfare
            As the answers say; None where somebody is outside the domain of its payoff.
        prices
            (n, n), what the row pays per sample of the column's; the event holds what all others pay for each.
        utilities
            Payoff less cost, before payments, of those who said so.
        """
        paid = None if prices is None else (prices.sum(axis=0) - np.diag(prices)).tolist()
        stated = [utilities.get(place) for place in range(self.size)]
        self.notify(
            {
                "event": "round",
                "round": number,
                "residual": residual,
                "welfare": welfare,
                "contributions": contributions.tolist(),
                "prices": paid,
                "utilities": [gain if gain is not None and np.isfinite(gain) else None for gain in stated],
            }
        )

    def _ask_once(
        self, places: Sequence[int], kind: str, content: Content, read: Read[AnswerT]
    ) -> tuple[dict[int, AnswerT], dict[int, BadAnswer]]:
        """The answers that can be used, and what is wrong with the others."""
        self._number += 1
        questions = {place: {"number": self._number, "kind": kind, **content(place)} for place in places}
        raw = self.channel.ask(questions)
        answers: dict[int, AnswerT] = {}
        broken: dict[int, BadAnswer] = {}
        for place in places:
            try:
                answers[place] = read(check_answer(raw.get(place), questions[place]), place)
            except BadAnswer as reason:
                broken[place] = reason
        return answers, broken

    def exclude(self, reasons: Mapping[int, str]) -> None:
        """Go on without some members, for reasons that were found in what they have answered."""
        self._exclude({place: BadAnswer(reason) for place, reason in reasons.items()})

    def _exclude(self, reasons: Mapping[int, BadAnswer]) -> None:
        for place, reason in reasons.items():
            self.excluded[self.names[place]] = str(reason)
            self.notify({"event": "excluded", "agent": self.names[place], "reason": str(reason)})
