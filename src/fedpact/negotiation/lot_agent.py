"""An agent with several lots of data or several tasks: it answers the same questions, with an entry for each of them.

It owns a row of weights over all lots, a payoff curve and a value for each of its tasks, and a cost and a cap for each
of its lots. Whose every lot is, is known to all. What each question makes it reveal is what an agent with one lot and
one task reveals, once for every task and every lot (`fedpact.negotiation.agent`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedpact.federation import Cost, Federation, Payoff, SharedCap
from fedpact.federation.arrays import Owners, sum_by
from fedpact.federation.lots import take_shared_caps
from fedpact.negotiation import sum_terms
from fedpact.negotiation.agent import Agent, Answer, Question, cost_answer, price_answer, worth_of
from fedpact.negotiation.consent import is_enough
from fedpact.shapley.receiver import receiver_potential, receiver_shares
from fedpact.solvers.welfare import social_optimum
from fedpact.utils.arrays import FloatArray


class _Task(NamedTuple):
    """One row: its weights, its curve and what it is worth."""

    weights: FloatArray
    payoff: Payoff
    value: float


@dataclass(frozen=True, kw_only=True, eq=False)
class LotAgent:
    """One member with several lots or tasks, and what only it knows.

    Attributes
    ----------
    index, n_agents
        Its place among all agents, and how many there are.
    lot_owners, lot_names
        Of all lots: whose each is, by place, and what it is called.
    task_names
        Of its own tasks.
    weights
        (own tasks, all lots): how useful every lot is to each of its tasks.
    payoff, values
        The curves of its tasks, and what accuracy is worth in each.
    costs, caps
        Of its own lots.
    shared_caps
        That some of its own lots share, by their places among these.
    secret, identity, least_gain
        As of an `Agent`.
    """

    name: str
    index: int
    n_agents: int
    lot_owners: Owners
    lot_names: tuple[str, ...]
    task_names: tuple[str, ...]
    weights: FloatArray
    payoff: Payoff
    values: FloatArray
    costs: Cost
    caps: FloatArray
    secret: bytes = field(default_factory=lambda: os.urandom(32), repr=False)
    identity: sum_terms.Identity | None = field(default=None, repr=False)
    least_gain: float | None = 0.0
    shared_caps: tuple[SharedCap, ...] = ()

    @classmethod
    def of(cls, federation: Federation, index: int, *, least_gain: float | None = 0.0) -> LotAgent:
        """The agent of a federation, with its own rows and lots and nothing else; it asks for its joining costs too."""
        tasks, lots = federation.tasks_of(index), federation.lots_of(index)
        return cls(
            name=federation.names[index],
            index=index,
            n_agents=federation.n_agents,
            lot_owners=federation.lot_owners,
            lot_names=federation.lot_names,
            task_names=tuple(federation.task_names[task] for task in tasks),
            weights=federation.arrays.weights[tasks],
            payoff=federation.arrays.payoff.take(tasks),
            values=federation.arrays.values[tasks],
            costs=federation.costs.take(lots),
            caps=federation.caps[lots],
            least_gain=None if least_gain is None else least_gain + float(federation.joining_costs[index]),
            shared_caps=take_shared_caps(federation.shared_caps, lots),
        )

    @property
    def own_lots(self) -> Owners:
        """The places of its lots among all."""
        return np.flatnonzero(self.lot_owners == self.index)

    @property
    def own_caps(self) -> FloatArray:
        """The most it can contribute of each of its lots."""
        return self.caps

    @cached_property
    def _tasks(self) -> Sequence[_Task]:
        return [_Task(row, self.payoff.take([task]), float(self.values[task])) for task, row in enumerate(self.weights)]

    def answer(self, question: Question) -> Answer:
        """The truthful answer to a question, with the number of the question it answers."""
        kinds: dict[str, Callable[[Question], Answer]] = {
            "introduce": self._introduction,
            "prices": lambda asked: self._about(_profile(asked), shares=False),
            "shares": lambda asked: self._about(_profile(asked), shares=True),
            "messages": lambda asked: {key: list(asked[key]) for key in ("proposals", "prices")},
            "accept": lambda asked: {"accepts": self._accepts(_profile(asked), float(asked["payment"]))},
            **sum_terms.answers_of(self),
        }
        return {"number": question["number"], **kinds[question["kind"]](question)}

    def shares(self, at: FloatArray) -> FloatArray:
        """Everybody's Shapley share of its payoff, over all of its tasks."""
        owners, count = self.lot_owners, self.n_agents
        parts = [receiver_shares(*task, at, lot_owners=owners, n_agents=count).values for task in self._tasks]
        return np.sum([np.zeros(count), *parts], axis=0)

    def potential(self, at: FloatArray) -> float:
        """Its term of the potential of the Shapley mechanism."""
        owners, count = self.lot_owners, self.n_agents
        parts = [receiver_potential(*task, at, lot_owners=owners, n_agents=count) for task in self._tasks]
        return float(sum(parts))

    @cached_property
    def _alone(self) -> float:
        own = self.own_lots
        if not own.size or not self._tasks:
            return 0.0
        everything = Federation(
            self.weights[:, own],
            costs=self.costs,
            caps=self.caps,
            payoff=self.payoff,
            values=self.values,
            names=[self.name],
            lot_owners=[0] * own.size,
            task_owners=[0] * len(self._tasks),
            shared_caps=self.shared_caps,
        )
        return social_optimum(everything).welfare

    def standalone_utility(self) -> float:
        """The utility of training alone."""
        return self._alone

    def _introduction(self, question: Question) -> Answer:
        layout = {"lot_owners": self.lot_owners.tolist(), "lot_names": list(self.lot_names)}
        said = layout | {"caps": [cap if math.isfinite(cap) else "inf" for cap in self.caps.tolist()]}
        if self.shared_caps:
            said |= {"shared_caps": [{"lots": list(each.lots), "cap": each.cap} for each in self.shared_caps]}
        if question.get("brief") is True:
            return said
        bends = -self.values * np.broadcast_to(self.payoff.curvature(np.zeros(len(self._tasks))), self.values.shape)
        squares = [float((row[row != 0] ** 2).mean()) if row.any() else 0.0 for row in self.weights]
        uses = [np.flatnonzero(row).tolist() for row in self.weights]
        return said | {"tasks": uses, "stiffness": float(bends @ np.array(squares))}

    def _about(self, at: FloatArray, *, shares: bool) -> Answer:
        """Of every task payoff, prices and curvature, and with `shares` how it is shared out; of every lot its cost."""
        tasks = [price_answer(task.payoff, task.value, task.weights, float(task.weights @ at)) for task in self._tasks]
        if shares:
            tasks = [told | more for told, more in zip(tasks, self._shares_of(at, tasks), strict=True)]
            tasks = [{"outside": True} if "outside" in told else told for told in tasks]
        own = at[self.own_lots]
        lots = [cost_answer(self.costs.take([lot]), own[[lot]]) for lot in range(own.size)]
        return {"tasks": tasks, "lots": lots}

    def _shares_of(self, at: FloatArray, tasks: Sequence[Answer]) -> Iterator[Answer]:
        """How every task's payoff is shared out; outside where some coalition's data is."""
        for task, told in zip(self._tasks, tasks, strict=True):
            brought = sum_by(self.lot_owners, task.weights * at, self.n_agents)
            lowest = float(np.minimum(brought, 0.0).sum())
            if "outside" in told or worth_of(task.payoff, task.value, lowest)[0] is None:
                yield {"outside": True}
                continue
            with np.errstate(over="ignore", invalid="ignore"):
                found = receiver_shares(*task, at, lot_owners=self.lot_owners, n_agents=self.n_agents)
            finite = np.isfinite(found.values).all() and np.isfinite(found.slopes).all()
            yield {"shares": found.values.tolist(), "slopes": found.slopes.tolist()} if finite else {"outside": True}

    def _utility(self, at: FloatArray) -> tuple[float | None, float]:
        """Payoff, None outside the domain, and cost."""
        payoffs = [worth_of(task.payoff, task.value, float(task.weights @ at))[0] for task in self._tasks]
        known = [payoff for payoff in payoffs if payoff is not None]
        cost = float(self.costs.value(at[self.own_lots]).sum())
        return (sum(known) if len(known) == len(payoffs) else None), cost

    def _accepts(self, at: FloatArray, payment: float) -> bool:
        """Whether a deal leaves it what it asks for beyond standing alone."""
        if self.least_gain is None:
            return True
        payoff, cost = self._utility(at)
        return payoff is not None and is_enough(payoff - cost, cost, payment, self._alone, self.least_gain)


AnyAgent = Agent | LotAgent


def agents_of(federation: Federation, *, least_gain: float | None = 0.0) -> list[AnyAgent]:
    """All agents of a federation, each with its own rows only, and what each asks of a deal beyond standing alone."""
    kind = LotAgent if federation.has_lots else Agent
    return [kind.of(federation, index, least_gain=least_gain) for index in range(federation.n_agents)]


def _profile(question: Question) -> FloatArray:
    return np.asarray(question["contributions"], dtype=np.float64)
