"""Answers about many profiles at once, each held against what the member has said before.

A member's payoff depends on one number, the data it reaches, and its cost on another, its own contribution. Answers
that are in order between neighbours in both are in order altogether: a function that is concave from each point to the
next is concave. So each is held against its neighbours, and a message with hundreds of answers takes no longer to check
than to send.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fedpact.negotiation.validation import BadAnswer, Introduction, MarginalAnswer, read_marginals
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import short_repr


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
