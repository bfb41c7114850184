"""Consensus by the alternating direction method of multipliers: first order, many rounds, no marginal prices revealed.

Agent i is told the contributions on the table and prices y_i of its own, and answers with the profile it would ask for
at these prices, near the one on the table. The table moves to the mean of what is asked for,

    s_j = mean over those j's data matters to of (x_ij + y_ij / rho), kept within [0, cap_j]
    y_ij += rho (x_ij - s_j)

until requests and table agree. The prices it ends at are the personal prices, -y_i s the payment of agent i, balanced
on the boundary as well. rho is doubled or halved while requests and table differ much more than the table moves, or
the other way round (Boyd et al. 2011, section 3.4.1).

Stopping inequality: requests differ from the table, and the table from the last one, by at most `tol` of its size.
"""

from __future__ import annotations

import numpy as np

from fedpact.arrays import FloatArray
from fedpact.errors import NotConverged
from fedpact.negotiation.answers import Standing, standing
from fedpact.negotiation.progress import Agreement
from fedpact.negotiation.table import Excluded, Table

__all__ = ["reach_consensus"]

FIRST_RHO = 1e-3
IMBALANCE, FACTOR = 5.0, 2.0
LATEST_CHANGE = 200  # rounds: after these rho stays
RELAXATION = 1.6


def reach_consensus(table: Table, *, tol: float, most_rounds: int, start: FloatArray) -> Agreement:
    """Contributions and prices at which everybody asks for what is on the table."""
    matters = np.array(
        [
            table.uses(place) if place in set(table.members) else np.zeros(table.size, dtype=bool)
            for place in range(table.size)
        ]
    )
    users = np.maximum(matters.sum(axis=0), 1)
    profile, prices, rho = start, np.zeros((table.size, table.size)), FIRST_RHO
    size = 1.0
    for number in range(1, most_rounds + 1):
        try:
            answers = _asked(table, profile, prices, rho)
        except Excluded:
            profile = np.where(np.isin(np.arange(table.size), table.members), profile, 0.0)
            return Agreement(contributions=profile, prices=None, rounds=number, residual=np.inf)
        requests = np.zeros((table.size, table.size))
        for place, answer in answers.items():
            requests[place] = np.where(matters[place], answer.proposal, 0.0)
        relaxed = np.where(matters, RELAXATION * requests + (1.0 - RELAXATION) * profile, 0.0)
        moved = np.clip((relaxed + prices / rho).sum(axis=0) / users, 0.0, table.caps)
        prices = np.where(matters, prices + rho * (relaxed - moved), 0.0)
        apart = float(np.linalg.norm(np.where(matters, requests - moved, 0.0)))
        shift = float(np.linalg.norm(np.sqrt(users) * (moved - profile)))
        size = max(float(np.linalg.norm(np.sqrt(users) * moved)), 1e-12)
        welfare = sum(answer.payoff - answer.cost for answer in answers.values())
        profile = moved
        residual = max(apart, shift) / size
        table.tell(
            {
                "event": "round",
                "round": number,
                "welfare": welfare if np.isfinite(welfare) else None,
                "residual": residual,
            }
        )
        if residual <= tol:
            return Agreement(
                contributions=profile,
                prices=_balanced(prices, matters),
                rounds=number,
                residual=residual,
                welfare=welfare,
            )
        if number <= LATEST_CHANGE and number % 5 == 0:
            rho *= FACTOR if apart > IMBALANCE * shift else (1.0 / FACTOR if shift > IMBALANCE * apart else 1.0)
    raise NotConverged(f"no agreement within {most_rounds} rounds: requests and table still differ by {residual:.1e}")


def _asked(table: Table, profile: FloatArray, prices: FloatArray, rho: float) -> dict[int, Standing]:
    contributions, absent = profile.tolist(), table.absent
    return table.ask(
        "proximal",
        lambda place: {"contributions": contributions, "prices": prices[place].tolist(), "rho": rho, "absent": absent},
        lambda raw, place: standing(raw, table.size),
    )


def _balanced(prices: FloatArray, matters: np.ndarray) -> FloatArray:
    """Columns that sum to zero exactly: what each agent is paid per sample is what the others pay for it."""
    personal = np.where(matters, prices, 0.0)
    np.fill_diagonal(personal, 0.0)
    np.fill_diagonal(personal, -personal.sum(axis=0))
    return personal
