"""How a coordinator reaches agents: a channel takes questions and brings back whatever answers arrive.

A channel never judges: an answer that is late is missing, and one that is broken comes back as it is. The coordinator
deals with both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fedpact.federation import Federation
from fedpact.negotiation.agent import Agent, agents_of


class Channel(Protocol):
    """Agents at the other end, known by their places."""

    @property
    def names(self) -> Sequence[str]:
        """The agents' names."""

    def ask(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        """Put a question to each of some agents; answers by place, those that did not come left out."""


class InProcess:
    """Agents in the same process, for computing a deal and for tests.

    Anything with a `name` and `answer(question)` is an agent; what one raises comes back as its error.
    """

    def __init__(self, agents: Sequence[Agent]) -> None:
        self.agents = agents

    @classmethod
    def of(cls, federation: Federation, *, least_gain: float | None = 0.0) -> InProcess:
        """The agents of a federation, each with its own row only."""
        return cls(agents_of(federation, least_gain=least_gain))

    @property
    def names(self) -> Sequence[str]:
        return [agent.name for agent in self.agents]

    def ask(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        answers = {}
        for place, question in questions.items():
            try:
                answers[place] = self.agents[place].answer(question)
            except Exception as error:  # whatever goes wrong inside an agent is no reason to stop
                answers[place] = {"number": question["number"], "error": f"{type(error).__name__}: {error}"}
        return answers
