"""Price discovery: the coordinator asks what contributions are worth at the margin, and moves to where nobody gains.

Each round everybody says, of the same contributions, its payoff, its marginal prices a_i' w_ij, one curvature number
and its costs. The coordinator goes to the maximiser of the model these make (`fedpact.negotiation.model`), halfway back
where that turns out worse or outside somebody's domain. It ends when the model promises no more than `tol` of what is
at stake.
"""

from __future__ import annotations

import numpy as np

from fedpact.arrays import FloatArray
from fedpact.errors import NotConverged
from fedpact.negotiation.answers import Said, said
from fedpact.negotiation.model import Model
from fedpact.negotiation.progress import Agreement
from fedpact.negotiation.table import Excluded, Table
from fedpact.programs.face import face_from

__all__ = ["discover_prices"]

WORSE = 1e-12  # of what is at stake: less is rounding
GOOD_ENOUGH = 1e-10  # of what is at stake: an end where rounding lets it fall no further


def discover_prices(table: Table, *, tol: float, most_rounds: int, start: FloatArray) -> Agreement:
    """Contributions nobody at the table would change at its prices.

    `start` is where to begin; those who are out contribute nothing.
    """
    profile = start
    best: Model | None = None
    heard: dict[int, Said] = {}
    last = np.inf
    for number in range(1, most_rounds + 1):
        try:
            heard = _asked(table, profile, heard)
        except Excluded:
            return Agreement(contributions=_without_absent(table, profile), prices=None, rounds=number, residual=np.inf)
        model = None if any(answer.outside for answer in heard.values()) else _model(table, heard)
        if model is None or (best is not None and model.welfare < best.welfare - WORSE * best.scale):
            table.tell(
                {"event": "round", "round": number, "welfare": model.welfare if model else None, "residual": None}
            )
            if best is None:
                profile = 0.5 * profile
                continue
            profile = _spread(table, 0.5 * (profile[table.members] + best.at))
            continue
        best = model
        wanted, promised = model.best()
        residual = max(promised, 0.0) / model.scale
        table.tell({"event": "round", "round": number, "welfare": model.welfare, "residual": residual})
        if residual <= tol or (residual <= GOOD_ENOUGH and residual >= last):
            canonical = _canonical(model)
            if canonical is not None and np.abs(canonical - model.at).max() > 1e-9 * (1.0 + np.abs(model.at).max()):
                profile = _spread(table, canonical)
                continue
            return Agreement(
                contributions=profile, prices=_personal_prices(table, model), rounds=number, residual=residual,
                welfare=model.welfare,
            )  # fmt: skip
        profile, last = _spread(table, wanted), residual
    raise NotConverged(f"no agreement within {most_rounds} rounds", result=best)


def _asked(table: Table, profile: FloatArray, before: dict[int, Said]) -> dict[int, Said]:
    contributions = profile.tolist()
    return table.ask(
        "prices",
        lambda place: {"contributions": contributions},
        lambda raw, place: said(raw, profile, table.uses(place), before.get(place)),
    )


def _model(table: Table, heard: dict[int, Said]) -> Model:
    return Model.of([heard[int(place)] for place in table.members], table.caps, table.members)


def _spread(table: Table, contributions: FloatArray) -> FloatArray:
    """Contributions of those at the table, as a profile of everybody."""
    profile = np.zeros(table.size)
    profile[table.members] = contributions
    return profile


def _without_absent(table: Table, profile: FloatArray) -> FloatArray:
    return _spread(table, profile[table.members])


def _personal_prices(table: Table, model: Model) -> FloatArray:
    """l_ij = a_i' w_ij, and l_jj such that every column sums to zero."""
    prices = np.zeros((table.size, table.size))
    among = model.prices.copy()
    np.fill_diagonal(among, 0.0)
    np.fill_diagonal(among, -among.sum(axis=0))
    prices[np.ix_(table.members, table.members)] = among
    return prices


def _canonical(model: Model) -> FloatArray | None:
    """The agreement of smallest norm, where several profiles are as good: equal agents are then treated alike."""
    finite = np.where(np.isfinite(model.caps), model.caps, 2.0 * (1.0 + model.at.max()))
    face = face_from(
        weights=model.prices,
        point=model.at,
        marginal=model.marginal_welfare,
        upper=finite,
        scale=model.scale,
        bends=model.cost_curvatures > 0,
        caps=model.caps,
    )
    return None if face.is_point else face.least_norm()
