"""Agents that fail, cheat or leave, and what has to be true of whatever a negotiation with them ends in."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fedpact as fp
from fedpact.mechanisms import MECHANISMS
from fedpact.negotiation import Agent, InProcess, agents_of, coordinate
from strategies import random_federation

Answer = dict[str, Any]
Spoil = Callable[[np.random.Generator, Answer], Any]

SAME = 1e-6  # of payoffs and costs: payments agree
SAME_BY_CLIMBING = 1e-4  # the same where a climb stops: the root of the gain that is left
BALANCED = 1e-12  # of the turnover


def _raise(rng: np.random.Generator, answer: Answer) -> Any:
    raise ZeroDivisionError("an agent's own fault")


def number(given: Any) -> Spoil:
    """Another number somewhere in the answer."""

    def spoil(rng: np.random.Generator, answer: Answer) -> Any:
        return _changed(rng, answer, lambda value: type(value) in {int, float}, lambda value: given)

    return spoil


def entries(change: Callable[[np.random.Generator, list[Any]], list[Any]]) -> Spoil:
    """Another list somewhere in the answer."""

    def spoil(rng: np.random.Generator, answer: Answer) -> Any:
        return _changed(rng, answer, lambda value: isinstance(value, list), lambda value: change(rng, list(value)))

    return spoil


def _changed(
    rng: np.random.Generator, answer: Answer, is_meant: Callable[[Any], bool], change: Callable[[Any], Any]
) -> Answer | None:
    """The answer with one part changed: its own, of its only task or of its only lot; None if there is no such part."""
    parts = [part for part in ("tasks", "lots") if isinstance(answer.get(part), list) and type(answer[part][0]) is dict]
    meant = [("", key) for key, value in answer.items() if key not in {"number", *parts} and is_meant(value)]
    meant += [(part, key) for part in parts for key, value in answer[part][0].items() if is_meant(value)]
    if not meant:
        return None
    part, key = meant[int(rng.integers(len(meant)))]
    if not part:
        return {**answer, key: change(answer[key])}
    return {**answer, part: [{**answer[part][0], key: change(answer[part][0][key])}]}


def entry(given: Any) -> Spoil:
    """Another entry somewhere in a list."""

    def change(rng: np.random.Generator, numbers: list[Any]) -> list[Any]:
        numbers[int(rng.integers(len(numbers)))] = given
        return numbers

    return entries(change)


def other_masks(rng: np.random.Generator, answer: Answer) -> Any:
    """Masked numbers at random, as from keys that were not agreed on."""
    if "masked" not in answer:
        return None
    return {**answer, "masked": base64.b64encode(rng.bytes(len(base64.b64decode(answer["masked"])))).decode()}


# Answers that cannot be used, whatever the question.
BROKEN: Mapping[str, Spoil] = {
    "silent": lambda rng, answer: None,
    "raises": _raise,
    "text": lambda rng, answer: "no",
    "list": lambda rng, answer: [answer],
    "empty": lambda rng, answer: {},
    "half": lambda rng, answer: {"number": answer["number"]},
    "NaN": number(float("nan")),
    "minus infinity": number(float("-inf")),
    "number as text": number("1.0"),
    "endless integer": number(10**5000),
    "beyond all numbers": number(1e300),
    "wrong length": entries(lambda rng, numbers: numbers[:-1]),
    "too long": entries(lambda rng, numbers: [*numbers, 0]),
    "NaN entry": entry(float("nan")),
    "infinite entry": entry(float("inf")),
    "text entry": entry("1"),
    "no entry": entry(None),
    "huge entry": entry(-1e200),
    "nested entry": entry([1.0]),
    "wrong number": lambda rng, answer: {**answer, "number": answer["number"] + 1},
    "number missing": lambda rng, answer: {key: value for key, value in answer.items() if key != "number"},
    "number as list": lambda rng, answer: {**answer, "number": [answer["number"]]},
    "number as truth": lambda rng, answer: {**answer, "number": True},
    "leaves": lambda rng, answer: {"leave": True},
    "error": lambda rng, answer: {"number": answer["number"], "error": "out of memory"},
}
# The same in sums alone.
BROKEN_SUMS: Mapping[str, Spoil] = {**BROKEN, "other masks": other_masks}
# Answers that may be used: what they say could be true, or cannot be told from the truth.
CHEATING: Mapping[str, Spoil] = {
    "infinite": number(float("inf")),
    "negative": number(-1.0),
    "nothing": number(0.0),
    "large": number(1e30),
    "truth value": number(True),
    "large entry": entry(1e9),
    "negative entry": entry(-3.0),
    "outside": lambda rng, answer: {**answer, "tasks": [{"outside": True}]},
    "noise": entries(lambda rng, numbers: [x * rng.uniform(0.5, 2.0) if type(x) is float else x for x in numbers]),
}
REPEATS = ("stale", "stale under the right number")
FAULTS = (*BROKEN, *CHEATING, *REPEATS)
FAULTS_IN_SUMS = (*FAULTS, "other masks")


@dataclass(kw_only=True, eq=False)
class Faulty:
    """An agent that is honest up to a question, and from there on, or just there, is not."""

    agent: Agent
    fault: str
    at: int
    lasting: bool
    rng: np.random.Generator
    asked: int = 0
    said: list[Answer] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.agent.name

    def answer(self, question: dict[str, Any]) -> Any:
        honest = self.agent.answer(question)
        due = self.asked == self.at or (self.lasting and self.asked > self.at)
        self.asked += 1
        if not due:
            self.said.append(honest)
            return honest
        if self.fault in REPEATS:
            return self._repeated(honest)
        return {**BROKEN_SUMS, **CHEATING}[self.fault](self.rng, honest)

    def _repeated(self, honest: Answer) -> Any:
        if self.fault == "stale":
            return self.said[-1] if self.said else None
        alike = [answer for answer in self.said if answer.keys() == honest.keys()]
        return {**alike[-1], "number": honest["number"]} if alike else None


@dataclass(kw_only=True, eq=False)
class Trial:
    """A federation some of whose agents fail, by their places."""

    federation: fp.Federation
    faulty: dict[int, Faulty]

    @classmethod
    def random(cls, rng: np.random.Generator, faults: Sequence[str], *, sure: str) -> Trial:
        """Three to six agents of whom one to three fail, at any of the first seven questions.

        The first of them has the fault `sure`, at one of the three questions that everybody is asked.
        """
        federation = random_federation(rng, n_agents=int(rng.integers(3, 7)))
        agents = agents_of(federation, least_gain=None)
        places = rng.choice(len(agents), size=int(rng.integers(1, 4)), replace=False)
        return cls(
            federation=federation,
            faulty={
                int(place): Faulty(
                    agent=agents[place],
                    fault=str(rng.choice(faults)) if rank else sure,
                    at=int(rng.integers(0, 7 if rank else 3)),
                    lasting=bool(rng.random() < 0.75),
                    rng=rng,
                )
                for rank, place in enumerate(places)
            },
        )

    def describe(self) -> str:
        return ", ".join(f"{place}: {it.fault} at {it.at}{' on' * it.lasting}" for place, it in self.faulty.items())

    def run(self, protocol: str, mechanism: str = "externality") -> fp.Deal | fp.NotConverged:
        """The deal, or the error that names those to blame."""
        agents = [
            self.faulty.get(place, agent) for place, agent in enumerate(agents_of(self.federation, least_gain=None))
        ]
        try:
            return coordinate(InProcess(agents), mechanism=mechanism, protocol=protocol)
        except fp.NotConverged as error:
            return error

    def judge(self, result: fp.Deal | fp.NotConverged) -> None:
        """A balanced deal of those at the table, honest ones among them all, or an error with names."""
        if isinstance(result, fp.NotConverged):
            self._judge_error(str(result))
            return
        self._judge_money(result)
        self._judge_exclusions(result)
        if not any(self._cheats(place) for place in result.members):
            self._judge_optimality(result)

    def _cheats(self, place: int) -> bool:
        """Whether an agent may have said something untrue that was used."""
        it = self.faulty.get(place)
        return it is not None and it.asked > it.at and it.fault in CHEATING

    def _judge_error(self, message: str) -> None:
        names = self.federation.names
        if "nobody is left" in message:
            assert len(self.faulty) == len(names) and all(name in message for name in names)
        elif "no side payments keep everybody" in message or "no Shapley shares to return" in message:
            pass  # with harm there may be none, whoever takes part
        elif "the sums contradict themselves" in message:
            assert any(it.fault in CHEATING or it.fault == "other masks" for it in self.faulty.values())
        elif "fewer than 3 answers" in message:
            out = [place for place, name in enumerate(names) if f"{name}: " in message]
            assert len(names) - len(out) < 3 and set(out) <= set(self.faulty)
        else:
            assert "no agreement" in message and any(f'"{name}"' in message for name in names)
            assert any(it.fault in CHEATING for it in self.faulty.values())

    @staticmethod
    def _judge_money(deal: fp.Deal) -> None:
        prices = np.zeros((len(deal.agents),) * 2) if deal.prices is None else deal.prices
        turnover = float(np.abs(deal.payments).sum() + np.abs(prices * deal.contributions).sum())
        assert np.isfinite(deal.contributions).all() and (deal.contributions >= 0.0).all()
        assert abs(float(deal.payments.sum())) <= BALANCED * turnover
        out = np.setdiff1d(np.arange(len(deal.agents)), deal.members)
        assert not deal.contributions[out].any() and not deal.payments[out].any()
        assert not prices[out].any() and not prices[:, out].any()

    def _judge_exclusions(self, deal: fp.Deal) -> None:
        names = self.federation.names
        assert set(deal.excluded) <= {names[place] for place in self.faulty}, "an honest agent was excluded"
        told = {event["agent"]: event["reason"] for event in deal.trace if event["event"] == "excluded"}
        assert told == deal.excluded and all(told.values())
        for place, it in self.faulty.items():
            broken_for_good = it.fault in BROKEN_SUMS and it.lasting and it.asked > it.at
            assert not broken_for_good or names[place] in deal.excluded

    def _judge_optimality(self, deal: fp.Deal) -> None:
        if deal.mechanism != "externality" or deal.provenance.protocol == "sums":
            self._judge_equilibrium(deal)
            return
        rest = self.federation.take(deal.members)
        optimum = fp.social_optimum(rest)
        best = optimum.contributions
        size = float(np.abs(rest.payoffs(best)).sum() + rest.costs.value(best).sum()) or 1.0
        payments = rest.arrays.price_payments(best)
        np.testing.assert_allclose(deal.payments[deal.members], payments, rtol=0.0, atol=SAME * size)
        assert rest.welfare(deal.contributions[deal.members]) >= optimum.welfare - SAME * size

    def _judge_equilibrium(self, deal: fp.Deal) -> None:
        expected = MECHANISMS[deal.mechanism].solve(self.federation.take(deal.members))
        size = float(np.abs(expected.payoffs).sum() + expected.costs.sum()) or 1.0
        payments = deal.payments[deal.members]
        np.testing.assert_allclose(payments, expected.payments, rtol=0.0, atol=SAME_BY_CLIMBING * size)
