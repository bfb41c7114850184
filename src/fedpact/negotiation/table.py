"""The table: who sits at it, what was asked, what came back. Broken answers end here.

Whoever does not answer, or answers with something that cannot be used, is named, asked once more, and then excluded.
Nothing of a broken answer is ever used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from fedpact.deals.deal import Event
from fedpact.negotiation.channels import Channel
from fedpact.negotiation.validation import BadAnswer, Introduction, Left, Said, checked_answer, introduction
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, NotConverged

__all__ = ["Excluded", "Table"]

T = TypeVar("T")
Listener = Callable[[Event], None]
Content = Callable[[int], dict[str, Any]]
Read = Callable[[dict[str, Any], int], T]


class Excluded(Exception):
    """Somebody was excluded while being asked: what was going on has to be begun anew without it."""


class Table:
    """Agents, their introductions, and everything that is said.

    `histories` holds what each has said about prices, in order: it still counts when somebody else has gone.
    """

    def __init__(self, channel: Channel, listener: Listener | None = None) -> None:
        self.channel = channel
        self.names = list(channel.names)
        self.size = len(self.names)
        if len(set(self.names)) != self.size:
            raise InvalidInput(f"agents at one table must have different names, got {self.names!r:.200}")
        self.trace: list[Event] = []
        self.excluded: dict[str, str] = {}
        self.introductions: dict[int, Introduction] = {}
        self.histories: dict[int, list[Said]] = {place: [] for place in range(self.size)}
        self._listener = listener
        self._number = 0

    @property
    def members(self) -> np.ndarray:
        """The places of those at the table."""
        return np.array([place for place, name in enumerate(self.names) if name not in self.excluded], dtype=np.intp)

    @property
    def absent(self) -> list[int]:
        """The places of those who are out."""
        return [place for place, name in enumerate(self.names) if name in self.excluded]

    @property
    def caps(self) -> FloatArray:
        """Everybody's cap; zero for those who are out."""
        caps = np.zeros(self.size)
        for place in self.members:
            caps[place] = self.introductions[int(place)].cap
        return caps

    def uses(self, place: int) -> np.ndarray:
        """Whose data matters to an agent, those who are out aside."""
        here = np.zeros(self.size, dtype=bool)
        here[self.members] = True
        return self.introductions[place].uses & here

    def meet(self) -> None:
        """Everybody says its cap and whose data matters to it; those who cannot are not at the table."""
        while True:
            try:
                said = self.ask("introduce", lambda place: {}, lambda raw, place: introduction(raw, place, self.size))
            except Excluded:
                continue
            self.introductions = dict(said)
            return

    def ask(self, kind: str, content: Content, read: Read[T]) -> dict[int, T]:
        """Ask everybody at the table, those whose answers are broken once more, and read the answers.

        Raises
        ------
        Excluded
            If somebody had to go.
        NotConverged
            If nobody is left to ask.
        """
        if not self.members.size:
            fates = "; ".join(f"{name}: {reason}" for name, reason in self.excluded.items())
            raise NotConverged(f"nobody is left at the table: {fates or 'there were no agents'}")
        answers, broken = self._asked([int(place) for place in self.members], kind, content, read)
        again = [place for place, reason in broken.items() if not isinstance(reason, Left)]
        for place in again:
            self.tell({"event": "asked again", "agent": self.names[place], "reason": str(broken[place])})
        if again:
            mended, still = self._asked(again, kind, content, read)
            answers |= mended
            broken = {place: still.get(place, reason) for place, reason in broken.items() if place not in mended}
        if broken:
            self._exclude(broken)
            raise Excluded
        return answers

    def tell(self, event: Event) -> None:
        """Note something that happened."""
        self.trace.append(event)
        if self._listener is not None:
            self._listener(event)

    def _asked(
        self, places: Sequence[int], kind: str, content: Content, read: Read[T]
    ) -> tuple[dict[int, T], dict[int, BadAnswer]]:
        """The answers that can be used, and what is wrong with the others."""
        self._number += 1
        questions = {place: {"number": self._number, "kind": kind, **content(place)} for place in places}
        raw = self.channel.ask(questions)
        answers: dict[int, T] = {}
        broken: dict[int, BadAnswer] = {}
        for place in places:
            try:
                answers[place] = read(checked_answer(raw.get(place), questions[place]), place)
            except BadAnswer as reason:
                broken[place] = reason
        return answers, broken

    def _exclude(self, reasons: Mapping[int, BadAnswer]) -> None:
        for place, reason in reasons.items():
            self.excluded[self.names[place]] = str(reason)
            self.tell({"event": "excluded", "agent": self.names[place], "reason": str(reason)})
