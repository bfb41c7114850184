"""The deal a pilot would recommend, trained: what members gain by it as measured, beside what the curves promise.

One model is trained on what the deal asks of everybody, and one of each member alone, on what the curves call its best
amount alone (the deal's promise is a gain against just that; at least one record, since a model needs one). Both are
tested with the pilot's own tests and turned into money:

    measured gain = (worth of the score - cost of the records + payment) under the deal - (worth - cost) alone.

Standard errors take the two scores as tested on different records. They were on the same, so errors are rather too
large than too small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.comparison import compare
from fedpact.deals import Outcome
from fedpact.deals.settlement import PAYOFF_UNIT
from fedpact.fitting.noise import sampling_variances
from fedpact.fitting.pilots.records import CLASSIFICATION, PilotData
from fedpact.fitting.pilots.training import RunKey
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import MAX_NAMES, join_names

if TYPE_CHECKING:
    from fedpact.fitting.pilots.search import PilotStudy


@dataclass(frozen=True, kw_only=True, eq=False)
class RecommendedDeal:
    """What the curves recommend: records to train with under the deal and alone, payments, and gains promised.

    `deal_run` is of everybody in the deal together, `alone_runs` one per member; who is not in the deal is alone.
    """

    title: str
    inside: np.ndarray
    deal_run: RunKey
    alone_runs: tuple[RunKey, ...]
    payments: FloatArray
    promised: FloatArray

    @property
    def runs(self) -> list[RunKey]:
        """All that is trained for it."""
        return [self.deal_run, *self.alone_runs]


@dataclass(frozen=True, kw_only=True, eq=False)
class DealConfirmation:
    """What a trained deal brings each member against training alone, in money or payoff; arrays are (n,).

    Attributes
    ----------
    deal
        What was trained.
    agents
        The members.
    alone, together
        Scores measured alone and under the deal.
    measured
        Gains against alone, by the trained models.
    errors
        Standard errors of what was measured.
    currency
        Of all amounts.
    """

    deal: RecommendedDeal
    agents: Sequence[str]
    alone: FloatArray
    together: FloatArray
    measured: FloatArray
    errors: FloatArray
    currency: str

    @property
    def promised(self) -> FloatArray:
        """Gains against alone, by the curves."""
        return self.deal.promised

    @property
    def totals(self) -> tuple[float, float, float]:
        """Promised, measured, and the standard error of what was measured, of all members."""
        return float(self.promised.sum()), float(self.measured.sum()), float(np.sqrt((self.errors**2).sum()))

    @property
    def is_recommended(self) -> bool:
        """Whether all together were measured to gain, by more than the standard error."""
        _, measured, error = self.totals
        return measured > error

    @property
    def losers(self) -> list[str]:
        """Members that were measured to lose."""
        return [name for name, gain in zip(self.agents, self.measured, strict=True) if gain < 0.0]

    @property
    def text(self) -> str:
        """The advice in a sentence or two."""
        promised, measured, error = self.totals
        deal = f"the deal of the {self.deal.title} mechanism"
        if np.isnan(measured):
            nobody = join_names([name for name, gain in zip(self.agents, self.measured, strict=True) if np.isnan(gain)])
            return f"Not recommended: {deal} was not measured, since there is no score of {nobody}."
        if measured > 0.0 and not self.is_recommended:
            chance = ", and a deal is recommended that gains more than that"
        else:
            chance = ""
        lost = f" Measured to lose by it: {join_names(self.losers, most=MAX_NAMES)}." if self.losers else ""
        return (
            f"{'Recommended' if self.is_recommended else 'Not recommended'}: measured at "
            f"{self._against_alone(measured)} (standard error {self._amount(error)}{chance}), where the curves promise "
            f"{self._against_alone(promised)}: {deal}, trained.{lost}"
        )

    def _amount(self, amount: float) -> str:
        return f"{abs(amount):,.0f} {self.currency}" if abs(amount) >= 100 else f"{abs(amount):.3g} {self.currency}"

    def _against_alone(self, amount: float) -> str:
        return f"{self._amount(amount)} {'less' if amount <= 0 else 'more'} than alone"

    def record(self) -> dict[str, Any]:
        """It as plain data."""
        promised, measured, error = self.totals
        return {
            "recommended": self.is_recommended,
            "advice": self.text,
            "mechanism": self.deal.title,
            "records_in_deal": self.deal.deal_run,
            "records_alone": [sum(run) for run in self.deal.alone_runs],
            "payments": self.deal.payments,
            "score_in_deal": self.together,
            "score_alone": self.alone,
            "promised_gains": self.promised,
            "measured_gains": self.measured,
            "standard_errors": self.errors,
            "promised_total": promised,
            "measured_total": measured,
            "standard_error_of_total": error,
            "measured_to_lose": self.losers,
        }


def recommended_deal(study: PilotStudy) -> RecommendedDeal | None:
    """The deal that a fit recommends, once those who would leave have left; None if that is to stay alone."""
    data, federation = study.data, study.scenario.federation
    compared = compare(federation)
    chosen = compared.recommendation
    settled = None if chosen is None else compared.after_departures.get(chosen.mechanism)
    if settled is None or settled.outcome is None or not settled.outcome.contributions.any():
        return None
    outcome: Outcome = settled.outcome
    given, n_members = np.zeros(len(data.available)), len(data.names)
    inside, payments, promised = np.zeros(n_members, dtype=bool), np.zeros(n_members), np.zeros(n_members)
    for own, name in enumerate(outcome.agents):
        place = data.names.index(name)
        inside[place], payments[place], promised[place] = True, outcome.payments[own], outcome.ir_gaps[own]
        given[federation.lots_of(place)] = outcome.contributions[outcome.federation.lots_of(own)]
    alone = compared["standalone"].contributions
    owners = np.array(data.lot_owners)
    return RecommendedDeal(
        title=compared.title(outcome.mechanism),
        inside=inside,
        deal_run=_whole_records(data, given),
        alone_runs=tuple(_whole_records(data, np.where(owners == name, alone, 0.0), name) for name in data.names),
        payments=payments,
        promised=promised,
    )


def _whole_records(data: PilotData, amounts: FloatArray, owner: str | None = None) -> RunKey:
    """Amounts in whole records, at least one of the owner's."""
    whole = np.minimum(np.rint(amounts), data.available).astype(int)
    if not whole.any():
        of = [place for place, name in enumerate(data.lot_owners) if owner in (None, name) and data.available[place]]
        whole[of[0]] = 1
    return tuple(map(int, whole))


def confirm_deal(study: PilotStudy, deal: RecommendedDeal, scores: Sequence[Sequence[float]]) -> DealConfirmation:
    """What the trained models come to; `scores` as the deal lists its runs, one per member each."""
    data, terms = study.data, study.terms
    assert terms.costs is not None
    members = range(len(data.names))
    own = np.array([scores[1 + member][member] for member in members])
    shared = np.where(deal.inside, np.array(scores[0]), own)
    lots = np.array([[float(owner == name) for owner in data.lot_owners] for name in data.names])
    saved = lots @ (terms.costs * np.sum(deal.alone_runs, axis=0)) - lots @ (terms.costs * np.array(deal.deal_run))
    gains = terms.worth * (shared - own) + saved + deal.payments
    errors = terms.worth * np.sqrt(score_variances(data, np.stack([own, shared])).sum(axis=0))
    return DealConfirmation(
        deal=deal,
        agents=data.names,
        alone=own,
        together=shared,
        measured=np.where(deal.inside, gains, 0.0),
        errors=np.where(deal.inside, errors, 0.0),
        currency=PAYOFF_UNIT if terms.money is None else terms.money.currency,
    )


def score_variances(data: PilotData, scores: FloatArray) -> FloatArray:
    """(..., n): of members' scores. A mean of m squared errors has a relative standard error of about sqrt(2 / m)."""
    if data.task == CLASSIFICATION:
        return sampling_variances(scores, data.test_sizes)
    return np.asarray(2.0 * (1.0 - scores) ** 2 / data.test_sizes)
