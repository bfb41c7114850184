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
from numpy.typing import ArrayLike, NDArray

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
        self, matters: NDArray[np.bool_], caps: FloatArray, names: Sequence[str], lots: Sequence[str] | None = None
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
            cycle = np.flatnonzero(matters[:, giver])
            self._next[cycle, giver] = np.roll(cycle, -1)

    def outcome(self, messages: Messages) -> GameOutcome:
        """The contributions, prices and payments of any messages."""
        proposals, prices = self._checked("proposals", messages.proposals), self._checked("prices", messages.prices)
        contributions = np.minimum(proposals.sum(axis=0) / self.users, self.caps)  # a mean may round above the cap
        first, column = self._next, np.arange(self.users.size)
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
        """Messages that settle on contributions and personal prices l, the columns of which sum to zero.

        Round a cycle the price of the second next is that of the next less l; the smallest of a cycle is zero.
        """
        prices = np.zeros_like(personal)
        for giver in range(personal.shape[1]):
            cycle = np.flatnonzero(self.matters[:, giver])
            steps = np.concatenate([[0.0], -np.cumsum(personal[cycle, giver])[:-1]])
            steps = np.roll(steps, 1)  # the first of these belongs to the one after the first
            prices[cycle, giver] = steps - steps.min()
        return Messages(proposals=np.where(self.matters, contributions, 0.0), prices=prices)

    def _checked(self, label: str, given: FloatArray) -> FloatArray:
        """What is said, zero where it is about data that does not matter to the sender."""
        rule, most = (
            ("between 0 and the cap", self.caps) if label == "proposals" else ("at least zero and finite", np.inf)
        )
        if given.shape != self.matters.shape:
            must, got = f"must have the shape {self.matters.shape}", f", got shape {given.shape}"
            raise InvalidInput(field=label, rule=must, value=given, given=got)
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
        return numbers


class MessageGame(GameForm):
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
        # An agent has a stake in the lots it owns and in those that matter to one of its tasks.
        stakes = federation.lot_owners == np.arange(federation.n_agents)[:, None]
        np.logical_or.at(stakes, federation.task_owners, federation.arrays.weights != 0)
        super().__init__(
            stakes, federation.caps, federation.names, federation.lot_labels if federation.has_lots else None
        )

    def outcome(self, messages: Messages) -> GameOutcome:
        """The contributions, prices, payments and utilities of any messages."""
        settled = super().outcome(messages)
        payoffs = self.federation.arrays.payoffs(settled.contributions)
        utilities = payoffs - self.federation.spending(settled.contributions) + settled.payments
        return replace(settled, utilities=read_only_copy(utilities))

    def equilibrium_messages(self, contributions: ArrayLike | None = None) -> Messages:
        """Messages at which everybody proposes a welfare optimum and the prices are its personal prices.

        Without `contributions` the optimum is that of `ExternalityMechanism`.
        """
        if contributions is None:
            contributions = ExternalityMechanism().solve(self.federation).contributions
        profile = self.federation.checked_contributions(contributions)
        personal = personal_prices(self.federation, profile)
        return self.messages_for(profile, personal if isinstance(personal, np.ndarray) else personal.toarray())
