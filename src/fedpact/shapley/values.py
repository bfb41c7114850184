"""One question, `shapley_values`, and the three routes that answer it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedpact.arrays import FloatArray, frozen
from fedpact.errors import InvalidInput, OutsideDomain
from fedpact.federation import Federation
from fedpact.shapley.enumeration import enumerate_shapley
from fedpact.shapley.quadrature import quadrature_shapley
from fedpact.shapley.sampling import sample_shapley

__all__ = ["METHODS", "ShapleyValues", "shapley_values", "undefined_values"]

METHODS = ("auto", "enumeration", "quadrature", "sampling")
# Up to here 2^n coalitions are fewer than the nodes of the quadrature.
FEW_AGENTS = 8
DEFAULT_PERMUTATIONS = 2000


@dataclass(frozen=True, kw_only=True, eq=False)
class ShapleyValues:
    """Shapley values at a profile, and how they were obtained.

    Attributes
    ----------
    values
        phi_j, each agent's share of the total payoff.
    gradient
        d phi_j / d s_j.
    efficiency_gap
        How far sum(phi) is from A, relative to the sum of absolute payoffs.
    method
        "enumeration", "quadrature" or "sampling".
    standard_errors
        Of the values, when they were sampled; zero otherwise.
    """

    values: FloatArray
    gradient: FloatArray
    efficiency_gap: float
    method: str
    standard_errors: FloatArray


def shapley_values(
    federation: Federation,
    contributions: ArrayLike,
    *,
    method: str = "auto",
    permutations: int = DEFAULT_PERMUTATIONS,
    rng: np.random.Generator | int | None = None,
) -> ShapleyValues:
    """Each agent's Shapley share of the total payoff A(s), equation (8) of the paper.

    Parameters
    ----------
    federation, contributions
        The game: coalition X has the payoff A of the profile in which the others contribute nothing.
    method
        "enumeration" of all coalitions (up to 20 agents), "quadrature" (any number; exact to about 1e-12), "sampling"
        of `permutations` orders, or "auto": the cheaper of the first two.
    permutations, rng
        For sampling.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> federation = Federation([[1.0, 0.5], [0.0, 1.0]], costs=0.01, payoff=PowerLaw(beta=1.0))
    >>> shapley_values(federation, [1.0, 1.0]).values.round(6).tolist()
    [0.45, 0.65]
    """
    if method not in METHODS:
        raise InvalidInput(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    profile = federation.checked_contributions(contributions)
    _check_domain(federation, profile)
    if method == "auto":
        method = "enumeration" if federation.n_agents <= FEW_AGENTS else "quadrature"
    errors = np.zeros(federation.n_agents)
    if method == "enumeration":
        values, gradient = enumerate_shapley(federation, profile)
    elif method == "quadrature":
        values, gradient = quadrature_shapley(federation, profile)
    else:
        generator = np.random.default_rng(rng)
        values, gradient, errors = sample_shapley(federation, profile, permutations=permutations, rng=generator)
    payoffs = federation.payoffs(profile)
    gap = abs(values.sum() - payoffs.sum()) / max(np.abs(payoffs).sum(), np.finfo(float).tiny)
    return ShapleyValues(
        values=frozen(values),
        gradient=frozen(gradient),
        efficiency_gap=float(gap),
        method=method,
        standard_errors=frozen(errors),
    )


def undefined_values(n_agents: int) -> ShapleyValues:
    """What stands for the Shapley values of a profile at which some coalition leaves the domain."""
    unknown = frozen(np.full(n_agents, np.nan))
    return ShapleyValues(
        values=unknown, gradient=unknown, efficiency_gap=np.nan, method="undefined", standard_errors=unknown
    )


def _check_domain(federation: Federation, contributions: FloatArray) -> None:
    """Refuse profiles at which some coalition leaves the domain: the worst holds just those who harm."""
    worst = np.asarray(federation.negative_weights() @ contributions)
    floor = np.broadcast_to(federation.payoff.floor, worst.shape)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        outside = (worst <= floor) | ~np.isfinite(federation.payoff.value(worst))
    if outside.any():
        agent = int(np.flatnonzero(outside)[0])
        raise OutsideDomain(
            f'agent "{federation.agent_names[agent]}" is harmed beyond the domain of its payoff by the coalition of '
            f"those whose data harms it: reach {1.0 + worst[agent]:g}, it must exceed {1.0 + floor[agent]:g}; "
            f"lower their contributions"
        )
