"""The message game behind the Externality mechanism (Sharma and Teneketzis 2012; section 3.2 of the paper).

C_j are the agents that j's data matters to, w_ij != 0, j among them, in a fixed cyclic order. Agent i sends, for every
j that matters to it, a proposal x^i_j in [0, cap_j] and a price pi^i_j >= 0. With k1 and k2 the next two after i in
C_j the outcome is

    s_j   = mean of x^k_j over k in C_j
    l_ij  = pi^{k1}_j - pi^{k2}_j
    tax_i = sum_j [ l_ij s_j + pi^i_j (x^i_j - x^{k1}_j)^2 - pi^{k1}_j (x^{k1}_j - x^{k2}_j)^2 ],    payment = -tax.

Nobody's own price enters what it pays per sample, and all terms cancel round the cycles: taxes sum to zero at every
profile of messages. That everybody proposes the same welfare optimum, at its personal prices (`ExternalityMechanism`),
is an equilibrium; since proposals are bounded it is not the only one (docs/theory/message-game.md). Where agents have
several lots of data, each lot is a good of its own: l is an agent's lot, and C_l its owner and those whose tasks it
matters to. With fewer than three agents in some C_j an agent would set its own price; the game is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fedpact.certificates import Certificate
from fedpact.certificates.claims import Claim, agent_values, utility_tolerances
from fedpact.certificates.concave import ConcaveProblem, maximise
from fedpact.deals import Messages
from fedpact.federation import Federation
from fedpact.federation.lots import require_own_caps
from fedpact.mechanisms.externality import ExternalityMechanism, personal_prices
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput

MIN_USERS = 3  # of everybody's data


@dataclass(frozen=True, kw_only=True, eq=False)
class GameOutcome:
    """What the game makes of messages.

    Attributes
    ----------
    contributions
        s_j, the mean proposal.
    prices
        l_ij: what agent i pays per sample of j's, (n, n); a column per lot where agents have several.
    payments
        What each agent receives; they sum to zero.
    utilities
        a_i - c_i + payment; minus infinity where an agent is harmed beyond the domain of its payoff, NaN where payoffs
        and costs are not known.
    """

    contributions: FloatArray
    prices: FloatArray
    payments: FloatArray
    utilities: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Deviation:
    """The best one agent could say instead: its messages, and what it would gain."""

    agent: int
    proposals: FloatArray
    prices: FloatArray
    gain: float


class GameForm:
    """The rules of the game: who matters to whom, and the caps. It needs to know no weights, payoffs or costs.

    Parameters
    ----------
    matters
        (n, n), or (n, lots): whether the column's data matters to the row.
    caps, names
        Of the agents; where they have several lots, caps are of these.
    lots
        What lots are called, if agents have several.
    """

    def __init__(
        self, matters: np.ndarray, caps: FloatArray, names: Sequence[str], lots: Sequence[str] | None = None
    ) -> None:
        self.matters, self.caps, self.names = matters, caps, names
        self.goods = names if lots is None else lots
        self.users = matters.sum(axis=0)
        if (self.users < MIN_USERS).any():
            agent = int(np.argmax(self.users < MIN_USERS))
            raise InvalidInput(
                f"the message game needs three members who draw on everybody's data, but the data of "
                f'{"member" if lots is None else "lot"} "{self.goods[agent]}" matters to {self.users[agent]} only; '
                "personal prices make the same deal without it",
                field="weights",
                rule=f"must make the data of each member matter to {MIN_USERS}",
                value=int(self.users[agent]),
                agent=self.goods[agent],
            )
        self._next = np.zeros(matters.shape, dtype=np.intp)  # [i, j]: who comes after i in C_j
        for giver in range(matters.shape[1]):
            cycle = self.cycle(giver)
            self._next[cycle, giver] = np.roll(cycle, -1)

    def cycle(self, agent: int) -> np.ndarray:
        """C_j: those an agent's data matters to, in their cyclic order."""
        return np.flatnonzero(self.matters[:, agent])

    def settle(self, messages: Messages) -> GameOutcome:
        """The contributions, prices and payments of any messages."""
        proposals, prices = self.check_messages(messages)
        contributions = np.minimum(proposals.sum(axis=0) / self.users, self.caps)  # a mean may round above the cap
        column = np.arange(self.users.size)
        first = self._next
        second = first[first, column]
        distance = np.where(self.matters, proposals - proposals[first, column], 0.0) ** 2
        personal = np.where(self.matters, prices[first, column] - prices[second, column], 0.0)
        fines = np.where(self.matters, prices * distance, 0.0)
        refunds = np.where(self.matters, fines[first, column], 0.0)
        payments = -(personal * contributions + fines - refunds).sum(axis=1)
        return GameOutcome(
            contributions=read_only_copy(contributions),
            prices=read_only_copy(personal),
            payments=read_only_copy(payments),
            utilities=np.full(payments.size, np.nan),
        )

    def messages_for(self, contributions: FloatArray, personal: FloatArray) -> Messages:
        """Messages that settle on given contributions and personal prices, the columns of which sum to zero."""
        proposals = np.where(self.matters, contributions, 0.0)
        return Messages(proposals=proposals, prices=cycle_prices(personal, self.matters))

    def check_messages(self, messages: Messages) -> tuple[FloatArray, FloatArray]:
        """Proposals and prices, zero where they are about data that does not matter to the sender."""
        said = []
        rules = (
            ("proposals", messages.proposals, self.caps, "between 0 and the cap"),
            ("prices", messages.prices, np.inf, "at least zero and finite"),
        )
        for label, given, most, rule in rules:
            if given.shape != self.matters.shape:
                shape = f", got shape {given.shape}"
                raise InvalidInput(
                    field=label, rule=f"must have the shape {self.matters.shape}", value=given, given=shape
                )
            numbers = np.where(self.matters, given, 0.0)
            wrong = ~((numbers >= 0) & (numbers <= most) & np.isfinite(numbers))
            if wrong.any():
                sender, about = map(int, np.argwhere(wrong)[0])
                raise InvalidInput(
                    field=label,
                    index=(sender, about),
                    rule=f"must be {rule}",
                    value=float(numbers[sender, about]),
                    agent=self.names[sender],
                    whose=f'said by "{self.names[sender]}" about the data of "{self.goods[about]}"',
                )
            said.append(numbers)
        return said[0], said[1]


class MessageGame:
    """The game form of the Externality mechanism on a federation.

    Raises
    ------
    InvalidInput
        If fewer than three agents draw on somebody's data.

    Examples
    --------
    >>> import numpy as np
    >>> from fedpact import Federation, PowerLaw
    >>> federation = Federation(np.ones((3, 3)), costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> game = MessageGame(federation)
    >>> game.outcome(game.equilibrium_messages()).contributions.round(4).tolist()
    [18.1238, 18.1238, 18.1238]
    """

    def __init__(self, federation: Federation) -> None:
        require_own_caps(federation, "the message game")
        self.federation = federation
        lots = federation.lot_labels if federation.has_lots else None
        self.form = GameForm(_has_stake(federation), federation.caps, federation.names, lots)

    def outcome(self, messages: Messages) -> GameOutcome:
        """The contributions, prices, payments and utilities of any messages."""
        settled = self.form.settle(messages)
        payoffs = self.federation.arrays.payoffs(settled.contributions)
        utilities = payoffs - self.federation.spending(settled.contributions) + settled.payments
        return replace(settled, utilities=read_only_copy(utilities))

    def equilibrium_messages(self, contributions: ArrayLike | None = None) -> Messages:
        """Messages at which everybody proposes a welfare optimum and the prices are its personal prices.

        Without `contributions` the optimum is that of `ExternalityMechanism`.
        """
        federation = self.federation
        if contributions is None:
            contributions = ExternalityMechanism().solve(federation).contributions
        profile = federation.checked_contributions(contributions)
        personal = personal_prices(federation, profile)
        dense = personal if isinstance(personal, np.ndarray) else personal.toarray()
        return self.form.messages_for(profile, dense)

    def best_deviation(self, agent: int, messages: Messages) -> Deviation:
        """The largest gain of one agent over all its proposals and prices.

        Its own prices only fine itself, so it is best to say zero. Its proposals then move every s_j in a range, at
        prices it cannot influence: a concave problem. Where there is no cap, proposals go up to a thousand times what
        is on the table. The gain is infinite for an agent that can get back into the domain of its payoff.
        """
        federation, here = self.federation, self.outcome(messages)
        matters, users = self.form.matters[agent], self.form.users
        proposals, _ = self.form.check_messages(messages)
        others, ceiling = (proposals.sum(axis=0) - proposals[agent]) / users, self._ceiling(here)
        low = np.where(matters, others, here.contributions)
        high = np.where(matters, others + ceiling / users, here.contributions)
        profile = self._wanted_profile(agent, here, low, high)
        wanted = np.where(matters, np.clip((profile - others) * users, 0.0, ceiling), 0.0)
        silent = np.zeros(federation.n_lots)
        there = float(self.outcome(messages.replace(agent, wanted, silent)).utilities[agent])
        if there > here.utilities[agent]:
            gain = there - float(here.utilities[agent])
            return Deviation(agent=agent, proposals=read_only_copy(wanted), prices=read_only_copy(silent), gain=gain)
        return Deviation(agent=agent, proposals=messages.proposals[agent], prices=messages.prices[agent], gain=0.0)

    def certificate(self, messages: Messages) -> Certificate:
        """Whether anybody gains by saying something else."""
        here = self.outcome(messages)
        payoffs = self.federation.arrays.payoffs(here.contributions)
        felt = np.where(np.isfinite(payoffs), np.abs(payoffs), 0.0)
        spent = self.federation.spending(here.contributions)
        tols = utility_tolerances(felt, spent, here.payments, agent_values(self.federation.arrays))
        best = [self.best_deviation(agent, messages) for agent in range(self.federation.n_agents)]
        gains = np.array([deviation.gain for deviation in best])
        agent = int(np.argmax(gains / tols))
        witness = {
            "agent": self.federation.names[agent],
            "index": agent,
            "utility": float(here.utilities[agent]),
            "gain": float(gains[agent]),
            "proposals": best[agent].proposals.tolist(),
            "prices": best[agent].prices.tolist(),
        }
        return Certificate.judge(
            Claim.NASH, -float(gains[agent]), float(tols[agent]), "all proposals and prices of one member", witness
        )

    def _wanted_profile(self, agent: int, here: GameOutcome, low: FloatArray, high: FloatArray) -> FloatArray:
        """The profile within a range that an agent wants at its prices."""
        arrays, tasks = self.federation.arrays, self.federation.tasks_of(agent)
        own = arrays.lot_owners == agent
        quadratic = np.where(own, arrays.quadratic, 0.0)
        weights = self.federation.arrays.weights[tasks]
        problem = ConcaveProblem(
            weights=weights[None],
            values=arrays.values[None, tasks],
            payoff=arrays.payoff.take(tasks),
            background=(weights @ low)[None],
            linear=(here.prices[agent] + np.where(own, arrays.linear, 0.0) + 2.0 * quadratic * low)[None],
            quadratic=quadratic[None],
            upper=(high - low)[None],
            shared=np.zeros((1, 0, low.size)),
            limits=np.zeros((1, 0)),
        )
        start = np.clip(here.contributions - low, 0.0, high - low)[None]
        if not np.isfinite(problem.value(start)).all():  # from where the agent has most
            start = np.where(weights.sum(axis=0) > 0, high - low, 0.0)[None]
        return low + maximise(problem, start).x[0]

    def _ceiling(self, here: GameOutcome) -> FloatArray:
        """The most that can be proposed: the caps; where there is none, far beyond what is on the table."""
        far = 1e3 * (1.0 + float(here.contributions.max()))
        return np.where(np.isfinite(self.federation.caps), self.federation.caps, far)


def _has_stake(federation: Federation) -> np.ndarray:
    """(n, lots): whether an agent owns a lot, or it matters to one of the agent's tasks."""
    stakes = federation.lot_owners == np.arange(federation.n_agents)[:, None]
    np.logical_or.at(stakes, federation.task_owners, federation.arrays.weights != 0)
    return stakes


def cycle_prices(personal: FloatArray, matters: np.ndarray) -> FloatArray:
    """The prices pi that give the personal prices l, a row per agent: pi of the second next is pi of the next less l.

    Round a cycle the l sum to zero; each cycle is shifted so that its smallest price is zero.
    """
    prices = np.zeros_like(personal)
    for giver in range(personal.shape[1]):
        cycle = np.flatnonzero(matters[:, giver])
        steps = np.concatenate([[0.0], -np.cumsum(personal[cycle, giver])[:-1]])
        steps = np.roll(steps, 1)  # the first of these belongs to the one after the first
        prices[cycle, giver] = steps - steps.min()
    return prices
