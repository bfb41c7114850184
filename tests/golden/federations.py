"""The recorded federations: the built-in scenarios, and random ones of many kinds, drawn from fixed seeds.

A federation is described by plain numbers, which stand in the recorded data: `recorded.build` makes it from them, so
nothing that is tested hinges on this file or on a generator of random numbers.

Costs are drawn as a multiple of what one more sample is worth to everybody at three tenths of the caps, so that optima
at zero, at a cap and in between are all common.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedpact as fp
from golden.recorded import built_in

Spec = dict[str, Any]
BUILT_IN = ("hospitals", "hospitals-lots", "hospitals-privacy", "paper-w1", "paper-w2", "paper-w3")
PARAMETERS = {"PowerLaw": (0.05, 0.6), "Michaelis": (10.0, 60.0), "Exponential": (0.005, 0.05), "Log": None}
CAPS = {"loose": (20.0, 400.0), "tight": (1.0, 20.0), "small": (0.5, 5.0)}
COST_SHARES = {"loose": (0.3, 2.0), "tight": (0.05, 0.8), "small": (0.3, 2.0)}
HARM_SHARE = 0.6  # of the way to the end of a payoff's domain that harm goes at most, all who harm at their caps

# One line each: what is drawn, and how it differs from a dense federation with equal values and linear costs.
KINDS: Mapping[str, Mapping[str, Any]] = {
    "one-member": {"n": 1},
    "one-member-rising": {"n": 1, "family": "Log", "rising": True},
    "two-members": {"n": 2},
    "two-members-harm": {"n": 2, "caps": "small", "harm": 0.5, "family": "Michaelis"},
    "two-members-tight": {"n": 2, "caps": "tight", "unequal": True},
    "three-members": {"n": 3},
    "three-members-log": {"n": 3, "family": "Log", "unequal": True},
    "three-members-identical": {"n": 3, "identical": 3},
    "dense-4-exponential": {"n": 4, "family": "Exponential"},
    "dense-4-michaelis": {"n": 4, "family": "Michaelis"},
    "dense-5": {"n": 5},
    "dense-5-no-caps": {"n": 5, "no_caps": True},
    "dense-6-log": {"n": 6, "family": "Log"},
    "dense-6-rising": {"n": 6, "rising": True},
    "dense-6-unequal": {"n": 6, "unequal": True},
    "dense-8": {"n": 8},
    "dense-8-michaelis-rising": {"n": 8, "family": "Michaelis", "rising": True, "unequal": True},
    "zeros-4": {"n": 4, "zeros": 0.5},
    "zeros-6-exponential": {"n": 6, "zeros": 0.6, "family": "Exponential", "rising": True},
    "zeros-8": {"n": 8, "zeros": 0.7, "unequal": True},
    "nobody-useful-to-others": {"n": 4, "zeros": 1.0},
    "tight-4-exponential": {"n": 4, "caps": "tight", "family": "Exponential"},
    "tight-6": {"n": 6, "caps": "tight"},
    "tight-8-log": {"n": 8, "caps": "tight", "family": "Log", "unequal": True, "rising": True},
    "zero-caps-5": {"n": 5, "zero_caps": 2},
    "zero-caps-all": {"n": 3, "zero_caps": 3},
    "identical-pair-5": {"n": 5, "identical": 2, "rising": True},
    "identical-6": {"n": 6, "identical": 6, "family": "Michaelis"},
    "harm-3": {"n": 3, "caps": "small", "harm": 0.3},
    "harm-5-exponential": {"n": 5, "caps": "small", "harm": 0.3, "family": "Exponential", "rising": True},
    "harm-6": {"n": 6, "caps": "small", "harm": 0.2, "unequal": True},
    "harm-8-log": {"n": 8, "caps": "small", "harm": 0.15, "family": "Log"},
    "harm-4-deep": {"n": 4, "caps": "loose", "harm": 0.25, "deep": True},
    "lots-2-members": {"n": 2, "lots": 2},
    "lots-4-members": {"n": 4, "lots": 2, "unequal": True},
    "lots-and-tasks-3": {"n": 3, "lots": 3, "tasks": 2, "family": "Michaelis"},
    "lots-and-tasks-5-harm": {"n": 5, "lots": 2, "tasks": 2, "caps": "small", "harm": 0.1, "rising": True},
    "tasks-4": {"n": 4, "tasks": 2, "family": "Log"},
    "lots-interchangeable-3": {"n": 3, "lots": 2, "collinear": True},
    "lots-interchangeable-4-tasks": {"n": 4, "lots": 3, "tasks": 2, "family": "Log", "collinear": True},
    "members-interchangeable-4": {"n": 4, "interchangeable": True, "unequal": True},
    "shared-caps-3": {"n": 3, "lots": 2, "shared": True, "rising": True},
    "shared-caps-4-tasks": {"n": 4, "lots": 3, "tasks": 2, "shared": True, "family": "Exponential"},
    "dense-12": {"n": 12, "family": "Michaelis"},
    "harm-12": {"n": 12, "caps": "small", "harm": 0.1, "zeros": 0.3, "rising": True},
    "dense-20-unequal": {"n": 20, "unequal": True},
    "harm-20": {"n": 20, "caps": "small", "harm": 0.05, "zeros": 0.5},
    "zeros-30-rising": {"n": 30, "zeros": 0.8, "family": "Log", "rising": True},
    "dense-60": {"n": 60, "rising": True},
}


def all_specs() -> dict[str, Spec]:
    """Every recorded federation by name."""
    drawn = {name: draw_spec(seed, **kind) for seed, (name, kind) in enumerate(KINDS.items())}
    return {name: describe(built_in(name)) | {"built_in": True} for name in BUILT_IN} | drawn


def describe(federation: fp.Federation) -> Spec:
    """The numbers of a federation."""
    parameters = [np.asarray(each).tolist() for each in federation.payoff.parameters.values()]
    return {
        "names": list(federation.names),
        "weights": np.asarray(federation.weights).tolist(),
        "linear": np.asarray(federation.costs.linear).tolist(),
        "quadratic": np.asarray(federation.costs.quadratic).tolist(),
        "caps": federation.caps.tolist(),
        "values": federation.values.tolist(),
        "family": type(federation.payoff).__name__,
        "parameters": parameters,
        "lot_owners": federation.lot_owners.tolist(),
        "task_owners": federation.task_owners.tolist(),
        "shared_caps": [[list(each.lots), each.cap] for each in federation.shared_caps],
    }


def draw_spec(
    seed: int,
    n: int,
    *,
    lots: int = 1,
    tasks: int = 1,
    family: str = "PowerLaw",
    caps: str = "loose",
    no_caps: bool = False,
    zero_caps: int = 0,
    zeros: float = 0.0,
    harm: float = 0.0,
    deep: bool = False,
    unequal: bool = False,
    rising: bool = False,
    identical: int = 0,
    collinear: bool = False,
    interchangeable: bool = False,
    shared: bool = False,
) -> Spec:
    """A federation of one kind: `lots` and `tasks` are those of the first member, the others have one or more."""
    rng = np.random.default_rng(seed)
    lot_owners = _owners(rng, n, lots)
    task_owners = _owners(rng, n, tasks)
    n_tasks, n_lots = task_owners.size, lot_owners.size
    weights = rng.uniform(0.05, 1.2, (n_tasks, n_lots))
    weights[rng.random(weights.shape) < zeros] = 0.0
    most = _log_uniform(rng, *CAPS[caps], n_lots)
    values = _log_uniform(rng, 1e4, 1e6, n_tasks) if unequal else np.ones(n_tasks)
    bounds = PARAMETERS[family]
    parameter = np.empty(0) if bounds is None else _log_uniform(rng, *bounds, n_tasks)
    own = task_owners[:, None] == lot_owners
    if harm:
        weights = _with_harm(
            rng, weights, share=harm, caps=most, own=own, family=family, parameter=parameter, deep=deep
        )
    weights[own] = rng.uniform(0.5, 1.5, int(own.sum()))
    if collinear:  # a member's further lots are its first at half the quality, and cost half as much
        first = np.searchsorted(lot_owners, lot_owners)
        quality = np.where(first == np.arange(n_lots), 1.0, 0.5)
        weights = _round(weights)[:, first] * quality
    if interchangeable:  # everybody's data is the same to each, and costs the same
        weights = np.repeat(weights[:, :1], n_lots, axis=1)
    alike = np.arange(max(n, 1)) < identical
    if identical:
        weights[np.ix_(alike, alike)] = 0.6 + 0.4 * np.eye(identical)
        weights[np.ix_(alike, ~alike)] = weights[0, ~alike]
        weights[np.ix_(~alike, alike)] = weights[~alike, :1]
        most[alike], values[alike] = most[0], values[0]
        parameter[alike] = parameter[0]
    payoff = getattr(fp, family)(*[parameter] * (bounds is not None))
    worth = weights.clip(min=0.0).T @ (values * payoff.slope(weights.clip(min=0.0) @ (0.3 * most)))
    rates = _log_uniform(rng, *COST_SHARES[caps], n_lots) * worth
    bends = rng.uniform(0.2, 1.0, n_lots) * rates / most if rising else np.zeros(n_lots)
    if collinear:
        rates = _round(rates)[first] * quality
    if interchangeable:
        rates[:] = rates[0]
    if identical:
        rates[alike], bends[alike] = rates[0], bends[0]
    most[:zero_caps] = 0.0
    together = [np.flatnonzero(lot_owners == owner).tolist() for owner in range(n)] if shared else []
    spec = {
        "names": [f"M{place}" for place in range(n)],
        "weights": weights,
        "linear": 0.5 * rates if rising else rates,
        "quadratic": bends,
        "caps": np.full(n_lots, np.inf) if no_caps else most,
        "values": values,
        "family": family,
        "parameters": [parameter] if bounds is not None else [],
        "lot_owners": lot_owners,
        "task_owners": task_owners,
        "shared_caps": [[each, float(f"{0.5 * most[each].sum():.4g}")] for each in together if len(each) > 1],
    }
    if collinear:  # halves of rounded numbers stay halves
        spec |= {"weights": weights.tolist(), "linear": rates.tolist()}
    return {key: _rounded(entry) if isinstance(entry, np.ndarray) else entry for key, entry in spec.items()} | {
        "parameters": [_rounded(each) for each in spec["parameters"]]
    }


def _owners(rng: np.random.Generator, n: int, most: int) -> NDArray[np.int64]:
    counts = np.r_[most, rng.integers(1, most + 1, n - 1)]
    return np.repeat(np.arange(n), counts)


def _log_uniform(rng: np.random.Generator, low: float, high: float, size: int) -> NDArray[np.float64]:
    return np.exp(rng.uniform(np.log(low), np.log(high), size))


def _with_harm(
    rng: np.random.Generator,
    weights: NDArray[np.float64],
    *,
    share: float,
    caps: NDArray[np.float64],
    own: NDArray[np.bool_],
    family: str,
    parameter: NDArray[np.float64],
    deep: bool,
) -> NDArray[np.float64]:
    """Some weights below zero: within the domain whoever contributes, or deep beyond it."""
    harmful = (rng.random(weights.shape) < share) & ~own
    if not harmful.any():
        harmful.flat[np.flatnonzero(~own)[0]] = True
    weights = np.where(harmful, -rng.uniform(0.05, 0.3, weights.shape), weights)
    end = {
        "PowerLaw": 1.0,
        "Log": 1.0,
        "Michaelis": parameter,
        "Exponential": 1.0 / parameter if parameter.size else 1.0,
    }
    depth = -np.minimum(weights, 0.0) @ caps
    shrink = 1.0 if deep else np.minimum(1.0, HARM_SHARE * end[family] / np.maximum(depth, 1e-9))
    return np.where(harmful, weights * np.reshape(shrink, (-1, 1)), weights)


def _round(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Four significant digits: enough for a federation, and short in a file."""
    return np.vectorize(lambda number: float(f"{number:.4g}"), otypes=[float])(numbers) if numbers.size else numbers


def _rounded(numbers: NDArray[Any]) -> list[Any]:
    return numbers.tolist() if numbers.dtype.kind == "i" else _round(numbers).tolist()
