"""Where an optimiser stops that believes it has converged, and what it makes of Table 1's second matrix.

L-BFGS-B as SciPy calls it by default measures slopes by differences of 1e-8 and ends when welfare improves by less than
2e-9 in a step, or when no slope exceeds 1e-5. Marginal costs are 1e-3 here and welfare is flat along a long ridge, so
that is met far from the optimum. What follows takes that point for an optimum, as a reader of its success flag would:
payments by the paper's formula for interior optima (equation 12). With exact slopes and tight tolerances the same
method goes on to the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpact.federation import Federation, PowerLaw
from fedpact.shapley import shapley_values
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput


@dataclass(frozen=True, kw_only=True, eq=False)
class Stop:
    """A point taken for an optimum.

    Attributes
    ----------
    run, contributions
        How the optimiser was run, and where it ended.
    ratios
        (a_i + p_i) / phi_i there, payments by the formula for interior optima.
    deficit
        What those payments sum to; zero at an optimum.
    slope
        The largest marginal welfare left, as a part of the marginal cost; zero at an interior optimum.
    welfare
        The welfare there.
    """

    run: str
    contributions: FloatArray
    ratios: FloatArray
    deficit: float
    slope: float
    welfare: float


def run_to_stop(federation: Federation, start: float, *, tight: bool = False) -> Stop:
    """Run the optimiser from equal contributions, by default as it comes, and take its answer at its word."""
    from scipy.optimize import minimize  # noqa: PLC0415 - heavy, and only needed here

    if not isinstance(federation.payoff, PowerLaw):
        raise InvalidInput(f"the payoff must be the paper's power law, got {federation.payoff.family}")
    weights, rate, beta = federation.weights, federation.costs.linear, float(np.max(federation.payoff.beta))

    def loss(profile: FloatArray) -> float:  # as one writes it down; other roundings stop a little elsewhere
        return float((rate * profile).sum() - (1.0 - (weights @ profile + 1.0) ** -beta).sum())

    def slopes(profile: FloatArray) -> FloatArray:
        return np.asarray(rate - beta * (weights @ profile + 1.0) ** (-beta - 1.0) @ weights)

    answer = minimize(
        loss,
        np.full(federation.n_agents, start),
        method="L-BFGS-B",
        bounds=[(0.0, cap) for cap in federation.caps],
        jac=slopes if tight else None,
        options={"ftol": 1e-16, "gtol": 1e-12} if tight else {},
    )
    how = "exact slopes, tight" if tight else "defaults"
    return stop_at(federation, np.asarray(answer.x), run=f"L-BFGS-B from {start:g}, {how}")


def stop_at(federation: Federation, contributions: FloatArray, *, run: str) -> Stop:
    """Payments and ratios at a point, as if it were an interior optimum."""
    payments = interior_payments(federation, contributions)
    shares = shapley_values(federation, contributions).values
    marginal = np.asarray(federation.weights.T @ federation.marginal_payoffs(contributions))
    rates = federation.costs.slope(contributions)
    return Stop(
        run=run,
        contributions=contributions,
        ratios=(federation.payoffs(contributions) + payments) / shares,
        deficit=float(payments.sum()),
        slope=float(np.abs(marginal / rates - 1.0).max()),
        welfare=federation.welfare(contributions),
    )


def interior_payments(federation: Federation, contributions: FloatArray) -> FloatArray:
    """Equation 12: gamma_i s_i - a_i'(xi_i) (xi_i - 1), which balances at interior optima only."""
    slopes = federation.marginal_payoffs(contributions)
    return np.asarray(federation.costs.slope(contributions) * contributions - slopes * federation.data(contributions))
