"""Price discovery: the coordinator asks what contributions are worth at the margin, and moves to where nobody gains.

Each round everybody says, of the same contributions, its payoff, its marginal prices a_i' w_ij, one curvature number
and its costs. The coordinator goes to the maximiser of the model these make (`fedpact.negotiation.welfare_model`).
Where that turns out worse, or outside somebody's domain, it goes back: the model learns from the failure, and the next
step is at most half as long.

Stopping inequality: the model promises at most `tol` of what is at stake, or falls no further below `GOOD_ENOUGH`, and
the linearised gain, which bounds what any profile could add, is at most `SOUND` of it.
"""

from __future__ import annotations

import numpy as np

from fedpact.negotiation.progress import Agreement
from fedpact.negotiation.table import Excluded, Table
from fedpact.negotiation.validation import Said, said
from fedpact.negotiation.welfare_model import Model
from fedpact.programs.optimal_face import face_from
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

__all__ = ["discover_prices"]

WORSE = 1e-12  # of what is at stake: less is rounding
GOOD_ENOUGH = 1e-10  # of what is at stake: an end where rounding lets it fall no further
SOUND = 1e-7  # of what is at stake: the most an agreement may leave on the table
APART = 1e-9  # of the contributions: nearer profiles are the same


def discover_prices(table: Table, *, tol: float, most_rounds: int, start: FloatArray) -> Agreement:
    """Contributions nobody at the table would change at its prices.

    `start` is where to begin; those who are out contribute nothing.
    """
    search = _Search(table, start, tol)
    for number in range(1, most_rounds + 1):
        try:
            model = _described(table, search.profile)
        except Excluded:
            here = _spread(table, search.profile[table.members])
            return Agreement(contributions=here, prices=None, rounds=number, residual=np.inf)
        residual = search.advanced(model)
        welfare = model.welfare if model is not None else None
        table.tell({"event": "round", "round": number, "welfare": welfare, "residual": residual})
        if search.agreed is not None:
            return _agreement(table, search.agreed, number, search.residual)
    if search.best is not None and search.best.gap <= SOUND:
        return _agreement(table, search.best, most_rounds, search.residual)
    raise NotConverged(f"no agreement within {most_rounds} rounds: {search.suspicion()}", result=search.best)


class _Search:
    """Where the coordinator stands: the profile to ask about next, and the best one heard of."""

    def __init__(self, table: Table, start: FloatArray, tol: float) -> None:
        self.table, self.profile, self.tol = table, start, tol
        self.best: Model | None = None
        self.agreed: Model | None = None
        self.residual = np.inf
        self._before_canonical: tuple[Model, float] | None = None
        self._surprises = np.zeros(table.size)

    def advanced(self, model: Model | None) -> float | None:
        """Take in what was said of the profile (None: somebody is outside) and choose the next; the gain promised."""
        best = self.best
        self._compare(model)
        if model is None or (best is not None and model.welfare < best.welfare - WORSE * best.scale):
            self._back()
            return None
        wanted, promised = model.best()
        last, residual = self.residual, max(promised, 0.0) / model.scale
        self.best, self.residual = model, residual
        if (residual <= self.tol or (residual <= GOOD_ENOUGH and residual >= last)) and model.gap <= SOUND:
            self._conclude(model)
        else:
            self.profile = _spread(self.table, wanted)
        return residual

    def suspicion(self) -> str:
        """Who may be to blame."""
        outside = [sum(answer.outside for answer in self.table.histories[place]) for place in range(self.table.size)]
        if max(outside):
            place = int(np.argmax(outside))
            return f'agent "{self.table.names[place]}" was outside the domain of its payoff in {outside[place]} of them'
        place = int(np.argmax(self._surprises))
        return (
            f'the answers of agent "{self.table.names[place]}" were furthest from what its earlier ones led to expect'
        )

    def _compare(self, model: Model | None) -> None:
        """How far what was said is from what the best model so far led to expect."""
        if model is None or self.best is None:
            return
        found = (model.payoffs - model.costs) - (self.best.payoffs - self.best.costs)
        with np.errstate(invalid="ignore"):
            off = np.abs(found - self.best.gains(model.at))
        self._surprises[self.table.members] += np.where(np.isfinite(off), off, 0.0)

    def _back(self) -> None:
        """The profile asked about was no good: a step at most half as long, from the best one."""
        if self._before_canonical is not None:  # the face was drawn too wide by rounding: what was found stands
            self.agreed, self.residual = self._before_canonical
            return
        if self.best is None:
            self.profile = 0.5 * self.profile
            return
        members, at = self.table.members, self.best.at
        tried = float(np.linalg.norm(self.profile[members] - at))
        wanted, _ = _refitted(self.table, self.best).best()
        length = float(np.linalg.norm(wanted - at))
        share = min(1.0, 0.5 * tried / length) if length > 0.0 else 0.0
        self.profile = _spread(self.table, at + share * (wanted - at))

    def _conclude(self, model: Model) -> None:
        """Agree, or first move to the agreement that treats equal agents alike."""
        canonical = _canonical(model) if self._before_canonical is None else None
        if canonical is not None and np.abs(canonical - model.at).max() > APART * (1.0 + np.abs(model.at).max()):
            self._before_canonical = model, self.residual
            self.profile = _spread(self.table, canonical)
        else:
            self.agreed = model


def _described(table: Table, profile: FloatArray) -> Model | None:
    """The model of what everybody says of a profile; None if somebody is outside its domain."""
    contributions = profile.tolist()
    heard: dict[int, Said] = table.ask(
        "prices",
        lambda place: {"contributions": contributions},
        lambda raw, place: said(raw, profile, place, table.introductions[place], table.histories[place]),
    )
    for place, answer in heard.items():
        table.histories[place].append(answer)
    if any(answer.outside for answer in heard.values()):
        return None
    return Model.of([table.histories[int(place)] for place in table.members], table.caps, table.members)


def _refitted(table: Table, best: Model) -> Model:
    """The model at the best profile, in the light of what was said since."""
    histories = []
    for place in table.members:
        history = table.histories[int(place)]
        there = [answer for answer in history if np.array_equal(answer.at[table.members], best.at)][-1]
        histories.append([answer for answer in history if answer is not there] + [there])
    return Model.of(histories, table.caps, table.members)


def _agreement(table: Table, model: Model, rounds: int, residual: float) -> Agreement:
    return Agreement(
        contributions=_spread(table, model.at),
        prices=_personal_prices(table, model),
        rounds=rounds,
        residual=residual,
        welfare=model.welfare,
    )


def _spread(table: Table, contributions: FloatArray) -> FloatArray:
    """Contributions of those at the table, as a profile of everybody."""
    profile = np.zeros(table.size)
    profile[table.members] = contributions
    return profile


def _personal_prices(table: Table, model: Model) -> FloatArray:
    """l_ij = a_i' w_ij, and l_jj such that every column sums to zero."""
    prices = np.zeros((table.size, table.size))
    among = model.worth.copy()
    np.fill_diagonal(among, 0.0)
    np.fill_diagonal(among, -among.sum(axis=0))
    prices[np.ix_(table.members, table.members)] = among
    return prices


def _canonical(model: Model) -> FloatArray | None:
    """The agreement of smallest norm, where several profiles are as good: equal agents are then treated alike."""
    finite = np.where(np.isfinite(model.caps), model.caps, 2.0 * (1.0 + model.at.max()))
    face = face_from(
        weights=model.curves.prices,
        point=model.at,
        marginal=model.marginal_welfare,
        upper=finite,
        scale=model.scale,
        bends=model.cost_curvatures > 0,
        caps=model.caps,
    )
    return None if face.is_point else face.least_norm()
