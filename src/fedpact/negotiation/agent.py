"""An agent: it owns its lots of data and its tasks, and answers questions about them.

Of every task it knows a row of weights over all lots, a payoff curve and a value; of every lot of its own a cost and a
cap. Whose every lot is, is known to all. A member with one lot and one task, the paper's, has one entry of each.
Questions and answers are plain data (numbers, lists, dictionaries), so that they can travel by any means; what each
makes an agent reveal is written at its answer. An agent with a payoff or a cost of its own kind overrides `answer`, or
passes a `Payoff` with `value`, `slope`, `curvature` and `floor`; it must rise and be concave in the data reached.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from fedpact.deals import Deal
from fedpact.federation import Cost, Federation, Payoff
from fedpact.federation.arrays import Owners, sum_by
from fedpact.federation.lots import require_own_caps
from fedpact.negotiation import sum_terms
from fedpact.shapley.values import Rows
from fedpact.solvers.welfare import social_optimum
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import Refusal

logger = logging.getLogger("flwr.fedpact.agent")  # below Flower's own, so that a node shows it

Question = dict[str, Any]
Answer = dict[str, Any]

# By which protocol each kind of question is asked.
PLAIN, SUMS = "price-discovery", "sums"
SPOKEN_IN = {
    "prices": PLAIN,
    "shares": PLAIN,
    "messages": PLAIN,
    "key": SUMS,
    "sums": SUMS,
    "payment": SUMS,
    "open": SUMS,
}
# Of the value: with less to gain from more data an agent has enough, and names no prices.
MIN_SLOPE = 1e-40
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
    identity: sum_terms.Identity | None = field(default=None, repr=False)
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
        kinds: dict[str, Callable[[Question], Answer]] = {
            "introduce": self._introduction,
            "prices": self._marginals,
            "shares": self._shares,
            "messages": lambda asked: {key: list(asked[key]) for key in ("proposals", "prices")},
            "accept": self._acceptance,
        }
        kind = question["kind"]
        said = kinds[kind](question) if kind in kinds else sum_terms.ANSWERS[kind](self, question)
        return {"number": question["number"], **said}

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

    def utility(self, at: FloatArray) -> tuple[float, float]:
        """Payoff, minus infinity outside the domain, and cost."""
        payoffs, slopes = self._worth(self.weights @ at)
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

    def _worth(self, data: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Payoff and marginal payoff of every task; slopes are infinite outside the domain and beyond all numbers."""
        with np.errstate(all="ignore"):
            inside = data > np.broadcast_to(self.payoff.floor, data.shape)
            reached = np.where(inside, data, 0.0)
            payoffs, slopes = self.values * self.payoff.value(reached), self.values * self.payoff.slope(reached)
            usable = inside & np.isfinite(payoffs) & (slopes < MAX_SLOPE * self.values)
        return np.where(usable, payoffs, 0.0), np.where(usable, slopes, np.inf)

    def _introduction(self, question: Question) -> Answer:
        """Reveals: the caps, and which lots matter to its tasks (not how much, not in which direction).

        Where sums are negotiated the caps are all that is asked for.
        """
        said: Answer = {
            "lot_owners": self.lot_owners.tolist(),
            "caps": [cap if math.isfinite(cap) else "inf" for cap in self.caps.tolist()],
        }
        if self.lot_names:
            said["lot_names"] = list(self.lot_names)
        if question.get("brief") is not True:
            said["tasks"] = [np.flatnonzero(row).tolist() for row in self.weights]
        return said

    def _marginals(self, question: Question) -> Answer:
        """Reveals, at the contributions asked about: payoffs and costs, their first and second derivatives.

        The prices of a task are a' w_j: its row of weights up to a factor. One number says how fast they fall,
        a'' / a'^2.
        """
        at = np.asarray(question["contributions"], dtype=np.float64)
        data = self.weights @ at
        payoffs, slopes = self._worth(data)
        inside = np.isfinite(slopes)
        curvatures = -self.values * self.payoff.curvature(np.where(inside, data, 0.0))
        enough = slopes <= MIN_SLOPE * self.values
        tasks: list[Answer] = [
            {
                "payoff": float(payoffs[task]),
                "prices": np.where(enough[task], 0.0, slopes[task] * row).tolist(),
                "curvature": 0.0 if enough[task] else float(curvatures[task] / slopes[task] / slopes[task]),
            }
            if inside[task]
            else {"outside": True}
            for task, row in enumerate(self.weights)
        ]
        own = at[self.own_lots]
        costs = {
            "cost": self.costs.value(own),
            "marginal_cost": self.costs.slope(own),
            "cost_curvature": self.costs.curvature(own),
        }
        listed = {key: np.broadcast_to(numbers, own.shape).tolist() for key, numbers in costs.items()}
        return {"tasks": tasks, "lots": [{key: listed[key][lot] for key in listed} for lot in range(own.size)]}

    def _shares(self, question: Question) -> Answer:
        """Reveals what `prices` does, and how its payoffs are shared out by the Shapley value.

        That is everybody's share of each and the slopes of the shares. A profile counts as outside where any
        coalition's contributions would be: the shares are means over all coalitions.
        """
        said = self._marginals(question)
        at = np.asarray(question["contributions"], dtype=np.float64)
        brought = [sum_by(self.lot_owners, row * at, self.n_agents) for row in self.weights]
        lowest = self._worth(np.array([np.minimum(each, 0.0).sum() for each in brought]))[1]
        inside = [
            task for task, told in enumerate(said["tasks"]) if "outside" not in told and np.isfinite(lowest[task])
        ]
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.rows(inside).shares(at)
        shared: dict[int, Answer] = {
            task: said["tasks"][task] | {"shares": shares.tolist(), "slopes": slopes.tolist()}
            for task, shares, slopes in zip(inside, *found, strict=True)
            if np.isfinite(shares).all() and np.isfinite(slopes).all()
        }
        tasks = [shared.get(task, {"outside": True}) for task in range(self.values.size)]
        return said | {"tasks": tasks}

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
        for place, question in questions.items():
            try:
                answers[place] = self.agents[place].answer(question)
            except Exception as error:  # whatever goes wrong inside an agent is no reason to stop
                answers[place] = {"number": question["number"], "error": f"{type(error).__name__}: {error}"}
        return answers


@dataclass(frozen=True, kw_only=True)
class NodeMemory:
    """What a member's node remembers of a negotiation, so that no later question makes its earlier answers tell more.

    Sums hide a member's numbers from a coordinator that keeps to the protocol. One that does not could ask the same
    node for plain prices, for the same sum with and without somebody, or for its payment at a profile of its own
    choice. So a node that knows the others' signing keys answers, in one run,

    * by one protocol: the one its owner names, or that of the first question;
    * about one mechanism: payments under both would tell a payoff beside what is paid at the margin;
    * sums over one set of members: whoever drops out ends the negotiation, and the others begin another run without it;
    * one profile as the one agreed, what it is paid there, and whether it accepts that, for one payment: asked about
      others, it would tell its utility digit by digit.

    The same question asked again is answered again. A node without keys of others believes whatever it is told, and
    hides nothing from a coordinator that lies; it keeps to one protocol and one mechanism only. Every node decides on
    the numbers of one deal in a run, whether it signs that or not (`after_deal`).
    """

    protocol: str = ""
    mechanism: str = ""
    members: tuple[int, ...] = ()
    agreed: tuple[float, ...] = ()
    payment: tuple[float, ...] = ()
    deal: str = ""
    signers: tuple[int, ...] = ()

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> NodeMemory:
        """From plain data."""
        parts: dict[str, Any] = {key: tuple(part) if isinstance(part, list) else part for key, part in record.items()}
        return cls(**parts)

    def after(self, question: Mapping[str, Any], *, knows_keys: bool) -> NodeMemory:
        """What is remembered once a question is answered; raises `Refusal` if it must not be."""
        kind, about = str(question.get("kind")), question.get("about")
        spoken = SPOKEN_IN.get(kind, "")
        if kind == "introduce":
            spoken = SUMS if question.get("brief") is True else PLAIN
        if spoken and self.protocol not in ("", spoken):
            raise Refusal(f"this negotiation is by {self.protocol}: it does not answer {kind!r}, of {spoken}")
        found = replace(self, protocol=self.protocol or spoken)
        settles = kind == "payment" or (kind == "sums" and about in sum_terms.SETTLEMENTS.values())
        if kind in ("sums", "payment"):
            parts = ((name, sum_terms.PROGRAMS[name], sum_terms.SETTLEMENTS[name]) for name in sum_terms.PROGRAMS)
            mechanism = next((name for name, *of in parts if about in of), "")
            if self.mechanism not in ("", mechanism):
                raise Refusal(f"this negotiation is of {self.mechanism}: it says nothing about {about!r:.40}")
            found = replace(found, mechanism=mechanism)
        if kind == "sums" and knows_keys:
            asked = tuple(sorted(int(place) for place in question["members"]))
            if self.members not in ((), asked):
                raise Refusal(
                    "sums over other members than before would tell the numbers of those who are gone: begin another "
                    "run without them"
                )
            found = replace(found, members=asked)
        if settles and knows_keys:
            profile = tuple(map(float, question["contributions"] if kind == "payment" else question["points"][0]))
            if self.agreed not in ((), profile) or (kind == "sums" and len(question["points"]) != 1):
                raise Refusal("one profile is agreed in a run, and this is another one: it says no more of itself")
            if kind == "payment" and not self.agreed:
                raise Refusal("no profile is agreed yet: it works out no payment")
            found = replace(found, agreed=profile)
        if kind == "accept" and knows_keys and self.protocol == SUMS:
            payment = (float(question["payment"]),)
            if tuple(question["contributions"]) != self.agreed or self.payment not in ((), payment):
                raise Refusal("it accepts or refuses the profile agreed in a run, at one payment, and nothing else")
            found = replace(found, payment=payment)
        return found

    def after_deal(self, deal: Deal, digest: str, *, index: int) -> NodeMemory:
        """What is remembered once the node at an index decides on a deal; raises `Refusal` if it must not decide on it.

        `digest` is that of all numbers put to the node. Every decision compares its utility with numbers of the
        coordinator's choice, so it decides on one deal, which is the one agreed if it has answered sums. Members that
        are lost take their data with them, and those who are left may deal anew: then the members are fewer every time.
        """
        if digest == self.deal:
            return self
        members, profile = tuple(map(int, deal.members)), tuple(map(float, deal.contributions))
        payment = (float(deal.payments[index]),)
        is_agreed = self.mechanism in ("", deal.mechanism) and self.members in ((), members)
        is_agreed = is_agreed and self.agreed in ((), profile) and self.payment in ((), payment)
        if not is_agreed or (self.deal and not set(members) < set(self.signers)):
            raise Refusal("it decides on the one deal that is agreed in a run, and this is another one")
        return replace(self, deal=digest, signers=members, payment=payment if self.agreed else self.payment)
