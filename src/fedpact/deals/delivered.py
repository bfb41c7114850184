"""Payments for what was delivered, where that is less than what was agreed.

Prices are agreed, and what is delivered is paid for: with d_j in the place of s_j member i is paid

    p_i = -sum_j l_ij d_j + T_i,

T_i its side payment. What i pays for j's data, l_ij d_j, j receives, so the payments balance whatever is delivered.
Under a mechanism without prices they follow from its payment rule at the delivered profile, which needs the
federation.

A member that used n of N agreed samples in a round has delivered the share n / N of its contribution; over several
rounds the mean counts. Less than one agreed sample is none, and nothing is delivered or paid for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.deals.deal import Deal, whole_samples
from fedpact.deals.outcome import Outcome
from fedpact.utils.arrays import NON_NEGATIVE, FloatArray, checked_numbers, non_negative
from fedpact.utils.errors import InvalidInput

NO_PRICES = (
    "this deal names no prices; what is due for less than agreed follows from its mechanism's payment rule, and that "
    "needs the federation"
)


def payments_for_delivered(
    deal: Deal | Outcome, delivered: ArrayLike, *, between_members: Outcome | None = None
) -> FloatArray:
    """What each agent is paid for what was delivered, in units of payoff.

    Parameters
    ----------
    deal
        A deal with prices, or an outcome with its federation.
    delivered
        What each (of each lot) has delivered, in units of contribution; at most what was agreed.
    between_members
        Of a deal without prices: its outcome between those who are in it (`Mechanism.outcome_of`), by whose rule they
        are paid. Who is out has delivered nothing to the others and is paid nothing.

    Raises
    ------
    InvalidInput
        If more was delivered than agreed, or the payments do not follow from what is known.

    Examples
    --------
    >>> from fedpact import ExternalityMechanism
    >>> from fedpact.scenario.examples import hospitals
    >>> outcome = ExternalityMechanism().solve(hospitals().federation)
    >>> paid = payments_for_delivered(outcome, outcome.contributions * [0.5, 1, 1, 1, 1])
    >>> bool(abs(paid.sum()) < 1e-9), bool(paid[0] < outcome.payments[0])
    (True, True)
    """
    agreed = deal.deal if isinstance(deal, Outcome) else deal
    given = checked_delivery(agreed, delivered)
    if (given == agreed.contributions).all():
        return agreed.payments
    if agreed.prices is not None:
        # Between every two: what the receiver does not get it does not pay, so the sum stays what it was.
        owners = agreed.lot_places
        short = given - agreed.contributions
        between = agreed.prices * short
        between[owners, np.arange(len(owners))] = 0.0
        received = np.bincount(owners, weights=between.sum(axis=0), minlength=len(agreed.agents))
        return agreed.payments - between.sum(axis=1) + received
    if between_members is not None:
        return _payments_between_members(agreed, between_members, given)
    if isinstance(deal, Outcome):
        assert agreed.side_payments is not None
        due = np.asarray(deal.rules.payments(deal.arrays, given), dtype=np.float64)
        members = np.zeros(len(agreed.agents), dtype=bool)
        members[agreed.members] = True
        return np.where(members, due + agreed.side_payments, 0.0)
    if not agreed.payments.any():
        return agreed.payments
    raise InvalidInput(NO_PRICES)


def _payments_between_members(deal: Deal, outcome: Outcome, given: FloatArray) -> FloatArray:
    """By the rule at what those in the deal have delivered; they may stand in another order in the outcome."""
    delivered = dict(zip(_lots(deal), given.tolist(), strict=True))
    due = payments_for_delivered(outcome, [delivered[lot] for lot in _lots(outcome.deal)])
    paid = dict(zip(outcome.agents, due.tolist(), strict=True))
    return np.array([paid.get(name, 0.0) for name in deal.agents])


def _lots(deal: Deal) -> list[tuple[str, str]]:
    """Every lot by its owner's name and its own."""
    return list(zip(deal.lot_owners or deal.agents, deal.lot_names or deal.agents, strict=True))


def agreed_transfers(deal: Deal, prices: FloatArray) -> FloatArray:
    """(n, n): what the row's member pays the column's for its data at these prices if all was delivered."""
    given = np.zeros(len(deal.agents))
    given[deal.members] = deal.contributions[deal.members]
    owed = np.asarray(prices) * given
    np.fill_diagonal(owed, 0.0)
    inside = np.zeros(len(given), dtype=bool)
    inside[deal.members] = True
    return np.asarray(np.where(inside[:, None] & inside, owed, 0.0))


def payments_for_shares(payments: FloatArray, owed: FloatArray, shares: ArrayLike) -> FloatArray:
    """Payments when of every transfer that is owed, (n, n), this share is paid; what one pays another receives."""
    change = np.where(owed != 0.0, owed * (np.asarray(shares, dtype=np.float64) - 1.0), 0.0)
    return np.asarray(payments + change.sum(axis=0) - change.sum(axis=1))


def checked_delivery(deal: Deal, delivered: ArrayLike) -> FloatArray:
    """What was delivered, one number per contribution, none above what was agreed; rounding is taken back."""
    lots = deal.lot_labels
    given = checked_numbers("delivered", delivered, non_negative, NON_NEGATIVE, names=lots)
    given = np.array(np.broadcast_to(given, deal.contributions.shape))
    over = given > deal.contributions * (1.0 + 1e-9)
    if over.any():
        place = int(np.flatnonzero(over)[0])
        raise InvalidInput(
            f"delivered[{place}] must be at most the {deal.contributions[place]:.9g} that was agreed, got "
            f'{given[place]:.9g} ({"lot" if deal.has_lots else "member"} "{lots[place]}"): nobody is paid for more'
        )
    return np.minimum(given, deal.contributions)


def delivered_contributions(deal: Deal, trained: Mapping[str, Any]) -> FloatArray:
    """What each agent has delivered, by a ledger's entry of the training: samples by agent and round.

    Where the entry says how often somebody was asked, these rounds count, and otherwise all.
    """
    agreed = whole_samples(deal.contributions, float(trained["samples_per_unit"]))
    samples, asked = trained["samples"], trained.get("asked") or {}
    delivered = np.zeros(len(deal.agents))
    for place, name in enumerate(deal.agents):
        if name in deal.excluded:
            delivered[place] = deal.contributions[place]  # its own business
            continue
        used: Sequence[int] = samples.get(name, ())
        rounds = asked.get(name, len(used))
        if agreed[place] > 0 and rounds:
            share = min(sum(used) / (rounds * int(agreed[place])), 1.0)
            delivered[place] = deal.contributions[place] if share == 1.0 else share * deal.contributions[place]
    return delivered
