"""Price discovery: the coordinator asks what contributions are worth at the margin, and moves to where nobody gains.

Each round everybody says, of the same contributions, its payoff, its marginal prices a_i' w_ij, one curvature number
and its costs. The coordinator goes to the maximiser of the model these make (`fedpact.negotiation.welfare_model`).
Where that turns out worse, or outside somebody's domain, it goes back: the model learns from the failure, and the next
step is at most half as long.

Stopping inequality: the model promises at most `tol` of what is at stake, or falls no further below `STALLED_GAIN`, and
the linearised gain, which bounds what any profile could add, is at most `MAX_GAIN_LEFT` of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedpact.negotiation.protocol import ProtocolResult, balanced_prices
from fedpact.negotiation.session import MemberExcluded, Session
from fedpact.negotiation.validation import ProfileAnswer
from fedpact.negotiation.welfare_model import WelfareModel
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

WELFARE_ROUNDING = 1e-12  # of what is at stake
STALLED_GAIN = 1e-10  # of what is at stake: an end where rounding lets it fall no further
MAX_GAIN_LEFT = 1e-7  # of what is at stake: the most welfare an agreement may miss
SAME_PROFILE = 1e-9  # of the contributions: nearer profiles are the same


def discover_prices(session: Session, *, tol: float, max_rounds: int, start: FloatArray) -> ProtocolResult:
    """Contributions no member would change at its prices.

    `start` is where to begin; those who are out contribute nothing.
    """
    search = PriceSearch(session, start, tol)
    for number in range(1, max_rounds + 1):
        profile = search.profile
        try:
            answers = session.ask_about(profile)
        except MemberExcluded:
            here = session.for_all_lots(profile[session.lots])
            return ProtocolResult(contributions=here, prices=None, rounds=number)
        model = search.model_of(answers)
        notify_prices(session, number, profile, answers, model=model, residual=search.advance(model))
        if search.agreed is not None:
            return price_result(session, search.agreed, number, search.residual)
    return price_result(session, search.require_agreement(max_rounds), max_rounds, search.residual)


class PriceSearch:
    """Where the coordinator stands: the profile to ask about next, and the best one so far.

    Where several profiles are as good, it ends at the one that treats equal agents alike.
    """

    def __init__(self, session: Session, start: FloatArray, tol: float) -> None:
        self.session, self.profile, self.tol = session, start, tol
        self.best: WelfareModel | None = None
        self.agreed: WelfareModel | None = None
        self.residual = np.inf
        self._before_canonical: tuple[WelfareModel, float] | None = None
        self._surprises = np.zeros(session.size)

    def model_of(self, answers: Mapping[int, ProfileAnswer]) -> WelfareModel | None:
        """The model of what everybody has said, lastly these answers; None if somebody is outside its domain now."""
        if any(answer.outside for answer in answers.values()):
            return None
        return WelfareModel.of(self.session, self.profile[self.session.lots])

    def require_agreement(self, max_rounds: int) -> WelfareModel:
        """What was found after the last round, if that will do; raises `NotConverged`."""
        if self.agreed is not None:
            return self.agreed
        if self.best is not None and self.best.gap <= MAX_GAIN_LEFT:
            return self.best
        raise NotConverged(f"no agreement within {max_rounds} rounds: {self.suspicion()}", result=self.best)

    def advance(self, model: WelfareModel | None) -> float | None:
        """Take in what was said of the profile (None: somebody is outside) and choose the next; the gain promised."""
        best = self.best
        self._compare(model)
        if model is None or (best is not None and model.welfare < best.welfare - WELFARE_ROUNDING * best.scale):
            self._step_back()
            return None
        wanted, promised = model.best()
        last, residual = self.residual, max(promised, 0.0) / model.scale
        self.best, self.residual = model, residual
        if (residual <= self.tol or (residual <= STALLED_GAIN and residual >= last)) and model.gap <= MAX_GAIN_LEFT:
            self._conclude(model)
        else:
            self.profile = self.session.for_all_lots(wanted)
        return residual

    def suspicion(self) -> str:
        """Who may be to blame."""
        table = self.session
        outside = {int(task): sum(it.outside for it in table.task_histories[int(task)]) for task in table.tasks}
        task = max(outside, key=lambda each: outside[each])
        if outside[task]:
            name = table.names[int(table.task_owners[task])]
            return f'member "{name}" was outside the domain of its payoff in {outside[task]} of them'
        place = int(np.argmax(self._surprises))
        return (
            f'the answers of member "{self.session.names[place]}" were furthest from what its earlier ones had promised'
        )

    def _compare(self, model: WelfareModel | None) -> None:
        """How far what was said is from what the best model so far led to expect."""
        if model is None or self.best is None:
            return
        found = model.utilities - self.best.utilities
        with np.errstate(invalid="ignore"):
            off = np.abs(found - self.best.gains(model.at))
        self._surprises[self.session.members] += np.where(np.isfinite(off), off, 0.0)

    def _step_back(self) -> None:
        """The profile asked about was no good: a step at most half as long, from the best one."""
        if self._before_canonical is not None:  # the face was drawn too wide by rounding: what was found stands
            self.agreed, self.residual = self._before_canonical
            return
        if self.best is None:
            self.profile = 0.5 * self.profile
            return
        at = self.best.at
        tried = float(np.linalg.norm(self.profile[self.session.lots] - at))
        wanted, _ = WelfareModel.of(self.session, at).best()  # in the light of what was said since
        length = float(np.linalg.norm(wanted - at))
        share = min(1.0, 0.5 * tried / length) if length > 0.0 else 0.0
        self.profile = self.session.for_all_lots(at + share * (wanted - at))

    def _conclude(self, model: WelfareModel) -> None:
        """Agree, or first move to the agreement that treats equal agents alike."""
        canonical = model.least_norm() if self._before_canonical is None else None
        if canonical is not None and np.abs(canonical - model.at).max() > SAME_PROFILE * (1.0 + np.abs(model.at).max()):
            self._before_canonical = model, self.residual
            self.profile = self.session.for_all_lots(canonical)
        else:
            self.agreed = model


def notify_prices(
    session: Session,
    number: int,
    profile: FloatArray,
    answers: Mapping[int, ProfileAnswer],
    *,
    model: WelfareModel | None,
    residual: float | None,
) -> None:
    """The event of a round: what everybody has said of a profile."""
    session.notify_round(
        number,
        contributions=profile,
        residual=residual,
        welfare=None if model is None else model.welfare,
        prices=None if model is None else _among_everybody(session, model.agent_worth),
        utilities={place: answer.utility for place, answer in answers.items()},
    )


def price_result(session: Session, model: WelfareModel, rounds: int, residual: float) -> ProtocolResult:
    """What everybody agrees on: the profile of a model, at the prices stated there."""
    return ProtocolResult(
        contributions=session.for_all_lots(model.at),
        prices=_among_everybody(session, balanced_prices(model.agent_worth, model.lot_members)),
        rounds=rounds,
        residual=residual,
        welfare=model.welfare,
    )


def _among_everybody(session: Session, prices: FloatArray) -> FloatArray:
    """Prices between the members as those between everybody; zero for those who are out."""
    everybody = np.zeros((session.size, session.n_lots))
    everybody[np.ix_(session.members, session.lots)] = prices
    return everybody
