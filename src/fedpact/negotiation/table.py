"""The table: who sits at it, what was asked, what came back. Broken answers end here.

Whoever does not answer, or answers with something that cannot be used, is named, asked once more, and then excluded.
Nothing of a broken answer is ever used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from fedpact.arrays import FloatArray
from fedpact.errors import NotConverged
from fedpact.negotiation.answers import BadAnswer, Introduction, Left, checked_answer, introduction
from fedpact.negotiation.channels import Channel
from fedpact.negotiation.deal import Event

__all__ = ["Excluded", "Table"]

T = TypeVar("T")
Listener = Callable[[Event], None]
Read = Callable[[dict[str, Any], int], T]


class Excluded(Exception):
    """Somebody was excluded while being asked: what was going on has to be begun anew without it."""


class Table:
    """Agents, their introductions, and everything that is said."""

    def __init__(self, channel: Channel, listener: Listener | None = None) -> None:
        self.channel = channel
        self.names = list(channel.names)
        self.size = len(self.names)
        self.trace: list[Event] = []
        self.excluded: dict[str, str] = {}
        self.introductions: dict[int, Introduction] = {}
        self._listener = listener
        self._number = 0

    @property
    def members(self) -> np.ndarray:
        """The places of those at the table."""
        return np.array([place for place, name in enumerate(self.names) if name not in self.excluded], dtype=np.intp)

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

    def ask(self, kind: str, content: Callable[[int], dict[str, Any]], read: Read[T]) -> dict[int, T]:
        """Ask everybody at the table and read the answers; raises `Excluded` if somebody had to go."""
        if not self.members.size:
            fates = "; ".join(f"{name}: {reason}" for name, reason in self.excluded.items())
            raise NotConverged(f"nobody is left at the table: {fates}")
        answers: dict[int, T] = {}
        reasons: dict[int, BadAnswer] = {}
        waiting = [int(place) for place in self.members]
        for attempt in range(2):
            self._number += 1
            questions = {place: {"number": self._number, "kind": kind, **content(place)} for place in waiting}
            raw = self.channel.ask(questions)
            reasons = {}
            for place in waiting:
                try:
                    checked = checked_answer(raw.get(place), questions[place], size=self.size)
                    answers[place] = read(checked, place)
                except BadAnswer as reason:
                    reasons[place] = reason
            waiting = [place for place, reason in reasons.items() if not isinstance(reason, Left)]
            if attempt == 0:
                for place in waiting:
                    self.tell({"event": "asked again", "agent": self.names[place], "reason": str(reasons[place])})
            if not waiting:
                break
            if any(isinstance(reason, Left) for reason in reasons.values()):
                left = {place: reason for place, reason in reasons.items() if isinstance(reason, Left)}
                self._exclude(left)
                raise Excluded
        if reasons:
            self._exclude(reasons)
            raise Excluded
        return answers

    def tell(self, event: Event) -> None:
        """Note something that happened."""
        self.trace.append(event)
        if self._listener is not None:
            self._listener(event)

    def _exclude(self, reasons: Mapping[int, BadAnswer]) -> None:
        for place, reason in reasons.items():
            self.excluded[self.names[place]] = str(reason)
            self.tell({"event": "excluded", "agent": self.names[place], "reason": str(reason)})
