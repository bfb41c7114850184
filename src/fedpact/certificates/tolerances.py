"""What counts as rounding, for every claim; and with it who would leave. Each is defined here and nowhere else.

Amounts are in units of payoff and compared with what is at stake: a claim about one agent with that agent's payoff,
cost and payment, a claim about all of them with the sum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpact.federation.arrays import FederationArrays, sum_by
from fedpact.utils.arrays import FloatArray

STAKE_TOLERANCE = 1e-8  # of an agent's payoff, cost and payment together
VALUE_TOLERANCE = 1e-14  # of an agent's value, for those with nothing at stake
SUM_ROUNDING = 1e-15  # of what all have at stake, which enters the utility of each where payoffs are shared out
STATED_TOLERANCE = 1e-9  # of the largest number of its kind, between what a file states and what follows
STATED_CONTRIBUTION_TOLERANCE = 1e-6  # the same for contributions, which a flat optimum leaves less certain
BALANCE_TOLERANCE = 1e-12  # of the money that changes hands, or of the payoffs where hardly any does


def utility_tolerances(payoffs: FloatArray, costs: FloatArray, payments: FloatArray, values: FloatArray) -> FloatArray:
    """What counts as rounding in each member's utility, (..., members). Welfare is compared with their sum."""
    at_stake = np.abs(payoffs) + costs + np.abs(payments)
    rounding = VALUE_TOLERANCE * values + SUM_ROUNDING * at_stake.sum(axis=-1, keepdims=True)
    return np.maximum(STAKE_TOLERANCE * at_stake + rounding, np.finfo(float).tiny)


def agent_values(arrays: FederationArrays) -> FloatArray:
    """What payoff is worth to each member, over all its tasks, (..., members); to one without tasks as to anybody."""
    values = sum_by(arrays.task_owners, arrays.values, arrays.n_agents)
    return np.where(values > 0, values, arrays.values.max(axis=-1, keepdims=True))


def balance_tolerance(payments: FloatArray, payoffs: FloatArray) -> FloatArray:
    """What counts as rounding in the sum of payments over the last axis; among equals all turnover is rounding."""
    turnover = np.maximum(np.abs(payments).sum(axis=-1), np.abs(payoffs).sum(axis=-1))
    return np.asarray(BALANCE_TOLERANCE * turnover)


def would_leave(ir_gaps: FloatArray, tolerances: FloatArray) -> NDArray[np.bool_]:
    """Which agents do worse than alone by more than rounding; nobody where the gap is not known."""
    with np.errstate(invalid="ignore"):
        return np.asarray(ir_gaps < -tolerances)
