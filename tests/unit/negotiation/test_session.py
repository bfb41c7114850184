"""Who is asked, asked again and excluded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import fedpact as fp
from fedpact.negotiation.session import MemberExcluded, Session
from fedpact.negotiation.validation import BadAnswer

LEAVE = {"leave": True}
GOOD, BAD = "good", "bad"


class Script:
    """A channel to agents whose answers, question by question, are written down; the last one is repeated."""

    def __init__(self, **answers: list[Any]) -> None:
        self.names, self._answers = list(answers), list(answers.values())
        self.asked: list[set[int]] = []

    def ask(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        self.asked.append(set(questions))
        return {place: self._next(place, question["number"]) for place, question in questions.items()}

    def _next(self, place: int, number: int) -> Any:
        script = self._answers[place]
        answer = script.pop(0) if len(script) > 1 else script[0]
        return {"number": number, "word": answer} if isinstance(answer, str) else answer


def asked(script: Script) -> tuple[Session, dict[int, str]]:
    session = Session(script)

    def read(raw: dict[str, Any], place: int) -> str:
        if raw["word"] == BAD:
            raise BadAnswer("a bad word")
        return str(raw["word"])

    try:
        return session, session.ask("word", lambda place: {}, read)
    except MemberExcluded:
        return session, {}


def test_an_answer_that_is_mended_is_used() -> None:
    script = Script(a=[GOOD], b=[BAD, GOOD], c=[None, GOOD])
    session, answers = asked(script)
    assert answers == {0: GOOD, 1: GOOD, 2: GOOD}
    assert script.asked == [{0, 1, 2}, {1, 2}]
    assert session.excluded == {}
    assert session.trace == [
        {"event": "asked again", "agent": "b", "reason": "a bad word"},
        {"event": "asked again", "agent": "c", "reason": "no answer in time"},
    ]


def test_who_leaves_and_who_fails_at_once_are_out_at_once() -> None:
    """Leaving is not asked about again; failing is, and for the last reason."""
    script = Script(a=[LEAVE], b=[BAD, None], c=[BAD, GOOD], d=[GOOD])
    session, answers = asked(script)
    assert answers == {}
    assert script.asked == [{0, 1, 2, 3}, {1, 2}]
    assert session.excluded == {"a": "it leaves", "b": "no answer in time"}
    assert [event["agent"] for event in session.trace if event["event"] == "asked again"] == ["b", "c"]
    assert session.members.tolist() == [2, 3]


def test_nobody_left_is_an_error_that_names_everybody() -> None:
    session, _ = asked(Script(a=[LEAVE], b=[BAD]))
    with pytest.raises(fp.NotConverged, match="nobody is left to negotiate with: a: it leaves; b: a bad word"):
        session.ask("word", lambda place: {}, lambda raw, place: raw)


def test_a_session_without_agents() -> None:
    with pytest.raises(fp.NotConverged, match="there were no members"):
        Session(Script()).introduce("price-discovery", "externality", tells_uses=True)


def test_names_must_differ() -> None:
    script = Script(a=[GOOD], b=[GOOD])
    script.names = ["x", "x"]
    with pytest.raises(fp.InvalidInput, match="different names"):
        Session(script)
