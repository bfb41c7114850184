"""Payments for what arrived: bilateral transfers at the agreed prices, each scaled by the share that was delivered.

Under the agreed prices i pays j the sum l_ij s_j. Settled by delivery it pays

    l_ij s_j rho_j^(-i,-j),

rho_j^(-i,-j) the share of j's contribution that arrived in effect, estimated without anything that i or j measured. So
nobody's report moves its own money; and since every transfer has a payer and a payee, the payments add up to zero
whatever the shares are. Somebody besides i and j must have a use for j's data and answer: the condition of three again.

Shares above 1 are paid as well. Estimates of a member that delivered all lie above 1 as often as below, and to cut off
the upper half would take money from the honest. Side payments are owed whatever is delivered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.deals import Deal, Outcome, Settlement
from fedpact.deals.delivered import agreed_transfers, payments_for_shares
from fedpact.deals.settlement import settle
from fedpact.federation import Federation
from fedpact.federation.lots import require_single_lots
from fedpact.fitting.calibration import Calibration, agreed_contributions
from fedpact.fitting.delivery import Delivery, estimate_delivery
from fedpact.mechanisms import MECHANISMS, personal_prices
from fedpact.scenario import Money
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput
from fedpact.utils.jsonl import jsonable


@dataclass(frozen=True, kw_only=True, eq=False)
class DeliverySettlement:
    """What is paid for what arrived; made by `settle_delivery`."""

    settlement: Settlement  #: Balances and transfers in money
    #: (n,): what each receives, in units of payoff, by delivery and as agreed
    payments: FloatArray
    agreed_payments: FloatArray
    #: (n, n): what the row's member pays the column's for its data, in units of payoff, by delivery and as agreed
    transfers: FloatArray
    agreed_transfers: FloatArray
    #: (n, n): the share of the column's contribution that the row's member pays for; NaN where it pays nothing
    shares: FloatArray
    delivery: Delivery  #: The estimate from everybody's reports

    def record(self) -> dict[str, Any]:
        """Shares, transfers and payments as plain data, beside those of the settlement."""
        plain = jsonable(
            {
                "agents": self.delivery.names,
                "contributions": self.delivery.contributions,
                "delivered_shares": self.delivery.shares,
                "flagged": self.delivery.flagged,
                "shares": self.shares,
                "agreed_payments": self.agreed_payments,
                "payments": self.payments,
            }
        )
        return dict(plain) | {"settlement": self.settlement.record()}


def settle_delivery(  # noqa: PLR0917 - the deal, what is measured, then on how much and between which ends
    federation: Federation,
    deal: Deal | Outcome,
    subsets: ArrayLike,
    accuracies: ArrayLike,
    test_sizes: ArrayLike | None = None,
    floor: ArrayLike = 0.0,
    ceiling: ArrayLike = 1.0,
    *,
    weights_from: Any = None,
    calibration: Calibration | None = None,
    money: Money | None = None,
    decimals: int | None = None,
) -> DeliverySettlement:
    """Settle a deal by what was delivered in effect, nobody's report moving its own money.

    Parameters
    ----------
    deal
        With prices, or of a mechanism that has some: the Externality mechanism and those with side payments beside it.
    subsets, accuracies, test_sizes, floor, ceiling, weights_from, calibration
        As `estimate_delivery` takes them.
    money, decimals
        As `settle` takes them.

    Raises
    ------
    InvalidInput
        If the deal has no prices, if no third member that answered has a use for data that one pays another for, or if
        the models say nothing about what was delivered of it.

    Examples
    --------
    Four members; the last delivers half of what it agreed to, and is paid about half as much.

    >>> import numpy as np
    >>> from fedpact import ExternalityMechanism, PowerLaw
    >>> weights = 0.01 + 0.01 * np.eye(4)
    >>> federation = Federation(weights, costs=4e-4, caps=300.0, payoff=PowerLaw(beta=0.7))
    >>> deal = ExternalityMechanism().solve(federation).deal
    >>> rng = np.random.default_rng(0)
    >>> subsets = rng.random((60, 4)) < 0.5
    >>> arrived = subsets * deal.contributions * [1.0, 1.0, 1.0, 0.5]
    >>> accuracies = rng.binomial(500, federation.payoff.value(arrived @ weights.T)) / 500
    >>> settled = settle_delivery(federation, deal, subsets, accuracies, test_sizes=500)
    >>> bool(abs(settled.payments.sum()) < 1e-12)
    True
    >>> received = settled.transfers.sum(axis=0) / settled.agreed_transfers.sum(axis=0)
    >>> received.round(1).tolist()
    [1.0, 1.0, 1.0, 0.5]
    """
    agreed = deal.deal if isinstance(deal, Outcome) else deal
    require_single_lots(agreed, "settling by delivery")
    if tuple(agreed.agents) != federation.names:
        raise InvalidInput(
            f"deal must be between the members of the federation, in their order ({', '.join(federation.names)}), "
            f"got {', '.join(agreed.agents)}"
        )
    given = agreed_contributions(agreed)
    owed = _agreed_transfers(federation, agreed, given)
    tests = (subsets, accuracies, test_sizes, floor, ceiling)
    delivery = estimate_delivery(federation, given, *tests, weights_from=weights_from, calibration=calibration)
    shares = np.where(owed != 0.0, delivery.leave_out_shares(owed != 0.0), np.nan)
    for payer, payee in np.argwhere((owed != 0.0) & np.isnan(shares))[:1].tolist():
        one, other = delivery.names[payer], delivery.names[payee]
        raise InvalidInput(
            f"settling by delivery needs a third member: besides {one}, who pays, and {other}, who is paid, nobody "
            f"whose accuracies are given has a use for {other}'s data that the models show; have more members measure, "
            f"measure more models, or settle as agreed"
        )
    paid = np.where(owed != 0.0, owed * shares, 0.0)
    payments = payments_for_shares(agreed.payments, owed, shares)
    by_delivery = Deal(mechanism=agreed.mechanism, agents=agreed.agents, contributions=given, payments=payments)
    return DeliverySettlement(
        settlement=settle(by_delivery, money=money, decimals=decimals),
        payments=read_only_copy(payments),
        agreed_payments=agreed.payments,
        transfers=read_only_copy(paid),
        agreed_transfers=read_only_copy(owed),
        shares=read_only_copy(shares),
        delivery=delivery,
    )


def _agreed_transfers(federation: Federation, deal: Deal, given: FloatArray) -> FloatArray:
    """(n, n): what the row's member would pay the column's if all was delivered."""
    if deal.prices is not None:
        return agreed_transfers(deal, deal.prices)
    rules = MECHANISMS.get(deal.mechanism)
    if rules is None or not rules.has_prices:
        raise InvalidInput(
            f"deal must have prices to be settled by delivery, and that of {deal.mechanism!r} has none; the "
            f"Externality mechanism has, and so have those with side payments beside it"
        )
    found = personal_prices(federation, given)
    return agreed_transfers(deal, found if isinstance(found, np.ndarray) else found.toarray())
