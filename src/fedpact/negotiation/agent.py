"""An agent: it owns its lots of data and its tasks, and answers questions about them.

Of every task it knows a row of weights over all lots, a payoff curve and a value; of every lot of its own a cost and a
cap. Whose every lot is, is known to all. A member with one lot and one task, the paper's, has one entry of each.
Questions and answers are plain data (numbers, lists, dictionaries), so that they can travel by any means;
`fedpact.negotiation.protocols` lists them, and what each makes an agent reveal is written at its answer. An agent with
a payoff or a cost of its own kind overrides `answer`, or passes a `Payoff` with `value`, `slope`, `curvature` and
`floor`; it must rise and be concave in the data reached.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fedpact.federation import Cost, Federation, Payoff
from fedpact.federation.arrays import Owners
from fedpact.federation.lots import require_own_caps
from fedpact.negotiation.price_terms import answer_messages
from fedpact.negotiation.protocols import PROTOCOLS, find_protocol
from fedpact.negotiation.sum_terms import Identity
from fedpact.shapley.values import Rows
from fedpact.solvers.welfare import social_optimum
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import Refusal

logger = logging.getLogger("flwr.fedpact.agent")  # below Flower's own, so that a node shows it

Question = dict[str, Any]
Answer = dict[str, Any]

MAX_SLOPE = 1e40  # of the value: beyond it numbers overflow, and the agent counts as outside its domain
UTILITY_ROUNDING = 1e-6  # of the payoff, costs and money involved: nearer utilities differ by rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class Agent:
    """One member of a federation and what only it knows.

    Attributes
    ----------
    weights
        (own tasks, all lots): how useful every lot is to each of its tasks.
    payoff, values, task_names
        The curves of its tasks, what accuracy is worth in each, and what they are called.
    costs, caps
        Of its own lots.
    lot_owners, lot_names
        Of all lots: whose each is, by index, and what it is called. No names where everybody has one lot and one task.
    secret, identity
        What its masks are made from (32 bytes), and the key it signs with, if it has one.
    least_gain
        What it asks of a deal beyond its utility alone, in units of payoff; None if it accepts any deal.
    """

    name: str
    index: int
    n_agents: int
    weights: FloatArray
    payoff: Payoff
    values: FloatArray
    costs: Cost
    caps: FloatArray
    lot_owners: Owners
    lot_names: tuple[str, ...] = ()
    task_names: tuple[str, ...] = ()
    secret: bytes = field(default_factory=lambda: os.urandom(32), repr=False)
    identity: Identity | None = field(default=None, repr=False)
    least_gain: float | None = 0.0

    @classmethod
    def of(cls, federation: Federation, index: int, *, least_gain: float | None = 0.0) -> Agent:
        """The agent of a federation, with its own rows and lots and nothing else; it asks for its joining costs too."""
        require_own_caps(federation, "a negotiation")
        tasks, lots = federation.tasks_of(index), federation.lots_of(index)
        return cls(
            name=federation.names[index],
            index=index,
            n_agents=federation.n_agents,
            weights=federation.arrays.weights[tasks],
            payoff=federation.arrays.payoff.take(tasks),
            values=federation.arrays.values[tasks],
            costs=federation.costs.take(lots),
            caps=federation.caps[lots],
            lot_owners=federation.lot_owners,
            lot_names=federation.lot_names if federation.has_lots else (),
            task_names=tuple(federation.task_names[task] for task in tasks),
            least_gain=None if least_gain is None else least_gain + float(federation.joining_costs[index]),
        )

    @property
    def has_lots(self) -> bool:
        """Whether lots or tasks are other than the members themselves; for words and files, not for formulas."""
        return bool(self.lot_names)

    @property
    def own_lots(self) -> Owners:
        """The indices of its lots among all."""
        return np.flatnonzero(self.lot_owners == self.index)

    def answer(self, question: Question) -> Answer:
        """The truthful answer to a question, with the number of the question it answers."""
        of_all: dict[str, Callable[..., Answer]] = {
            "introduce": Agent._introduction,
            "messages": answer_messages,
            "accept": Agent._acceptance,
        }
        answers = of_all | {kind: answer for each in PROTOCOLS.values() for kind, answer in each.answers.items()}
        kind = question["kind"]
        if kind not in answers:
            raise Refusal(f"kind must be one of {', '.join(answers)}, got {kind!r:.40}")
        return {"number": question["number"], **answers[kind](self, question)}

    def answer_stranger(self, question: Question) -> Answer:
        """The answer, for a coordinator that may not see what goes wrong inside: errors may quote private numbers.

        Raises
        ------
        Refusal
            Whatever it is; a text that was not written for the coordinator goes to the member's own log.
        """
        try:
            return self.answer(question)
        except Refusal:
            raise
        except Exception as error:
            logger.exception("%s cannot answer", self.name)
            raise Refusal(f"it cannot answer ({type(error).__name__}); its own log says why") from None

    def rows(self, tasks: list[int] | None = None) -> Rows:
        """Its tasks, or some of them, as the Shapley mechanism sees them."""
        chosen = np.arange(self.values.size) if tasks is None else np.asarray(tasks, dtype=np.intp)
        payoff = self.payoff.take(chosen)
        return Rows(self.weights[chosen], payoff, self.values[chosen], self.lot_owners, self.n_agents)

    def worth(self, data: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Payoff and marginal payoff of every task; slopes are infinite outside the domain and beyond all numbers."""
        with np.errstate(all="ignore"):
            inside = data > np.broadcast_to(self.payoff.floor, data.shape)
            reached = np.where(inside, data, 0.0)
            payoffs, slopes = self.values * self.payoff.value(reached), self.values * self.payoff.slope(reached)
            usable = inside & np.isfinite(payoffs) & (slopes < MAX_SLOPE * self.values)
        return np.where(usable, payoffs, 0.0), np.where(usable, slopes, np.inf)

    def utility(self, at: FloatArray) -> tuple[float, float]:
        """Payoff, minus infinity outside the domain, and cost."""
        payoffs, slopes = self.worth(self.weights @ at)
        cost = float(np.sum(self.costs.value(at[self.own_lots])))
        return float(payoffs.sum()) if np.isfinite(slopes).all() else -math.inf, cost

    def accepts(self, contributions: FloatArray, payment: float) -> bool:
        """Whether a deal leaves it what it asks for beyond standing alone.

        It knows its own rows, curves, costs and caps, so it needs nobody's word for either number: nothing that others
        say can take it below what it has alone.
        """
        if self.least_gain is None:
            return True
        payoff, cost = self.utility(contributions)
        scale = abs(payoff) + cost + abs(payment) + abs(self.standalone)
        gain = payoff - cost + payment - self.standalone
        return math.isfinite(payoff) and gain >= self.least_gain - UTILITY_ROUNDING * scale

    @cached_property
    def standalone(self) -> float:
        """The utility of training alone."""
        own = self.own_lots
        if not own.size or not self.values.size:
            return 0.0
        by_itself = Federation(
            self.weights[:, own],
            costs=self.costs,
            caps=self.caps,
            payoff=self.payoff,
            values=self.values,
            names=[self.name],
            lot_owners=[0] * own.size,
            task_owners=[0] * self.values.size,
        )
        return social_optimum(by_itself).welfare

    def _introduction(self, question: Question) -> Answer:
        """Reveals: the caps, and which lots matter to its tasks (not how much, not in which direction).

        The caps alone where the protocol that is asked for hides answers.
        """
        hides = find_protocol(question.get("protocol")).hides_answers
        said: Answer = {
            "lot_owners": self.lot_owners.tolist(),
            "caps": [cap if math.isfinite(cap) else "inf" for cap in self.caps.tolist()],
        }
        if self.lot_names:
            said["lot_names"] = list(self.lot_names)
        return said if hides else said | {"tasks": [np.flatnonzero(row).tolist() for row in self.weights]}

    def _acceptance(self, question: Question) -> Answer:
        """Reveals: whether the deal leaves it what it asks for beyond standing alone, and not by how much."""
        at = np.asarray(question["contributions"], dtype=np.float64)
        return {"accepts": self.accepts(at, float(question["payment"]))}


def agents_of(federation: Federation, *, least_gain: float | None = 0.0) -> list[Agent]:
    """All agents of a federation, each with its own rows only, and what each asks of a deal beyond standing alone."""
    return [Agent.of(federation, index, least_gain=least_gain) for index in range(federation.n_agents)]


class InProcess:
    """A channel to agents in the same process, for computing a deal and for tests.

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
        """The agents' names."""
        return [agent.name for agent in self.agents]

    def ask(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        """Everybody's answers."""
        answers = {}
        for index, question in questions.items():
            try:
                answers[index] = self.agents[index].answer(question)
            except Exception as error:  # whatever goes wrong inside an agent is no reason to stop
                answers[index] = {"number": question["number"], "error": f"{type(error).__name__}: {error}"}
        return answers
