"""What everybody's data is worth to whom under one training procedure: the numbers that delivery is judged by.

Weights, curves, floors and ceilings come from a scenario, or are fitted to models made of subsets of the updates of
earlier rounds or runs of the same procedure, in which all delivered (or in comparison with which they are judged).

Members may agree to be paid by a calibration: their deal's entry in a ledger holds it. With it, and with what members
measured of subset models, anybody can work out what arrived and what is due for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.deals import Deal
from fedpact.deals.ledger import AGREED, SETTLED, TRAINED, VERIFIED
from fedpact.deals.settlement import agreed_transfers, share_matrix
from fedpact.federation import Federation
from fedpact.federation.lots import require_single_lots
from fedpact.federation.payoffs import FAMILIES
from fedpact.fitting.logs import stated_models
from fedpact.fitting.observations import checked_tests
from fedpact.fitting.parameters import checked_range
from fedpact.fitting.subset_models import Curves, SubsetModels
from fedpact.negotiation.check import CheckedLedger, Finding
from fedpact.scenario import Uncertainty
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError, InvalidInput, short_repr
from fedpact.utils.jsonl import jsonable

SHARE_DECIMALS = 6  # machines differ in the last digits of an estimate, and none in these
SAME_SHARE = 2e-4  # by which two machines' estimates of a share may differ
PARTS = ("agents", "weights", "payoff", "floors", "ceilings")
SHARES = "paid shares"
MAX_CALIBRATED = 12  # members: 144 weights are measured along with the shares
AGREED_DOUBT = 0.01  # standard error of floors, ceilings and parameter that members agreed on: a test set's luck
ASSUMED_DOUBTS = 0.05, 0.1  # of floors and ceilings, in accuracy, and of the payoff's parameter, from elsewhere
FIRST_DOUBTS, FIRST_WEIGHT_DOUBT = (0.1, 0.3), 3.0  # before earlier models say more; of the mean weight


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """What data is worth under one training procedure."""

    names: tuple[str, ...]
    curves: Curves
    precision: FloatArray  # how sure these were before the earlier models: R of `fedpact.fitting.subset_models`
    earlier: Mapping[str, FloatArray] | None = (
        None  # models of earlier rounds or runs: what `SubsetModels` takes of them
    )

    @classmethod
    def of(
        cls, federation: Federation, floor: ArrayLike = 0.0, ceiling: ArrayLike = 1.0, precision: Any = None
    ) -> Calibration:
        """That of a scenario's federation, as members agree on it unless `precision` says how sure it is."""
        require_single_lots(federation, "verifying what was delivered")
        ends = checked_range(floor, ceiling, federation, labels=("floor", "ceiling"))
        if precision is None:
            precision = agreed_precision(federation.n_agents)
        curves = Curves(federation.weights, *ends, federation.payoff)
        return cls(names=federation.names, curves=curves, precision=precision)

    @classmethod
    def assumed(cls, federation: Federation, floor: ArrayLike, ceiling: ArrayLike, source: Any) -> Calibration:
        """That of weights from elsewhere: a fit or its uncertainty, or nothing, where weights are taken as known."""
        found = cls.of(federation, floor, ceiling, _precision(federation.n_agents, *ASSUMED_DOUBTS))
        return found if source is None else replace(found, precision=_fitted_precision(federation, found, source))

    @classmethod
    def of_record(cls, record: Any) -> Calibration:
        """The calibration that a ledger or a message holds; raises `InvalidInput` if it is none."""
        if not isinstance(record, Mapping) or any(part not in record for part in PARTS):
            raise InvalidInput(f"a calibration must say its {', '.join(PARTS)}, got {short_repr(record)}")
        try:
            stated = dict(record["payoff"])
            payoff = FAMILIES[stated.pop("family")](**{name: np.asarray(number) for name, number in stated.items()})
            weights = np.asarray(record["weights"], dtype=np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"a calibration must hold weights and a payoff: {error!r:.120}") from error
        federation = Federation(weights=weights, costs=1.0, payoff=payoff, names=record["agents"])
        return cls.of(federation, record["floors"], record["ceilings"])

    def record(self) -> dict[str, Any]:
        """It as plain data."""
        weights, floors, ceilings, payoff = self.curves
        stated = {"family": payoff.family} | dict(payoff.parameters)
        return dict(jsonable(dict(zip(PARTS, (self.names, weights, stated, floors, ceilings), strict=True))))

    @property
    def federation(self) -> Federation:
        """Members, weights and payoff as a federation, whose costs say nothing."""
        return Federation(weights=self.curves.weights, costs=1.0, payoff=self.curves.payoff, names=self.names)

    def models(self, tests: Mapping[str, FloatArray]) -> SubsetModels:
        """Models to be judged, beside the earlier ones."""
        earlier = {name: part[:0] for name, part in tests.items()} if self.earlier is None else self.earlier
        both = {name: np.vstack([earlier[name], part]) for name, part in tests.items()}
        return SubsetModels(**both, curves=self.curves, precision=self.precision, n_earlier=len(earlier["given"]))

    def check_settles(self, deal: Deal) -> None:
        """Raise `InvalidInput` unless a deal can be settled by delivery: it has prices, and all data a third user."""
        inside = np.isin(np.arange(len(self.names)), deal.members)
        uses = (self.curves.weights != 0.0) & inside[:, None]
        besides = uses.sum(axis=0) - uses - uses.diagonal()  # the payer and the payee
        check_third_users(deal, owed_by_delivery(deal, self.names), besides > 0)

    def paid_shares(
        self, deal: Deal, models: Sequence[Mapping[str, Any]], delivered: Mapping[str, float]
    ) -> list[list[float | None]]:
        """The share of the column's contribution that the row's member pays for; None if it pays nothing.

        It is the share that arrived in effect, estimated without the reports of the two. Where the models (as a
        ledger's entry of the verification lists them) say too little for that, it is the share by the samples that
        were counted: `delivered` is what members have delivered by the samples they signed, in units of contribution.
        """
        agreed, wanted = agreed_contributions(deal), owed_by_delivery(deal, self.names) != 0.0
        counts = np.array([delivered.get(name, own) for name, own in zip(deal.agents, agreed, strict=True)])
        shares = np.full(wanted.shape, np.nan)
        stated = stated_models(dict.fromkeys(deal.agents, 1.0), models)
        if any(run.accuracies for run in stated.runs):
            tests = subset_tests(self.federation, agreed, *stated.tests(deal.agents))
            # All have signed the calibration: whoever sends what fits no curve is not to be judged more gently.
            shares = self.models(tests).leave_out_shares(wanted)
        counted = np.divide(counts, agreed, out=np.zeros_like(counts), where=agreed > 0.0)
        shares = np.where(np.isnan(shares), counted, shares).round(SHARE_DECIMALS)
        rows = np.where(wanted, shares, np.nan).tolist()
        return [[None if np.isnan(share) else share for share in row] for row in rows]


def calibrate_delivery(  # noqa: PLR0917 - as `estimate_delivery`
    federation: Federation,
    contributions: ArrayLike,
    subsets: ArrayLike,
    accuracies: ArrayLike,
    test_sizes: ArrayLike | None = None,
    floor: ArrayLike = 0.0,
    ceiling: ArrayLike = 1.0,
) -> Calibration:
    """Measure what data is worth under a training procedure, by subset models of earlier rounds or runs.

    Parameters
    ----------
    federation
        The members and the family of payoffs. Its weights are where the search begins, and hardly matter.
    contributions, subsets, accuracies, test_sizes, floor, ceiling
        As `estimate_delivery` takes them, of rounds or runs in which everybody delivered.
    """
    n_agents = federation.n_agents
    if n_agents > MAX_CALIBRATED:
        raise InvalidInput(
            f"a calibration takes at most {MAX_CALIBRATED} members, got {n_agents}: every pair has a weight "
            f"to measure; verify without one, or members in groups"
        )
    agreed = federation.checked_contributions(contributions)
    tests = subset_tests(federation, agreed, subsets, accuracies, test_sizes)
    doubt = FIRST_WEIGHT_DOUBT * float(np.abs(federation.weights).mean())
    known = np.diag(_precision(n_agents, *FIRST_DOUBTS))
    first = np.diag(np.concatenate([known, np.full(n_agents**2, 1.0 / doubt)]))
    return replace(Calibration.of(federation, floor, ceiling, first), earlier=tests)


def agreed_precision(n_agents: int) -> FloatArray:
    """R where members agreed on the curves."""
    return _precision(n_agents, AGREED_DOUBT, AGREED_DOUBT)


def _precision(n_agents: int, ends: float, parameter: float) -> FloatArray:
    """R of `fedpact.fitting.subset_models`, for these standard errors of floors and ceilings, and of the parameter."""
    return np.diag(1.0 / np.array([ends] * (2 * n_agents) + [parameter]))


def _fitted_precision(federation: Federation, assumed: Calibration, source: Any) -> FloatArray:
    """R, for what is assumed of floors, ceilings and parameter and what the source of the weights leaves open."""
    n = federation.n_agents
    if hasattr(source, "uncertainty") and tuple(source.names) != federation.names:
        raise InvalidInput(
            f"weights_from must be a fit of the federation's members, in their order ({', '.join(federation.names)}), "
            f"got {', '.join(source.names)}"
        )
    doubt = source.uncertainty() if hasattr(source, "uncertainty") else source
    if not isinstance(doubt, Uncertainty):
        raise InvalidInput(f"weights_from must be a Fit or an Uncertainty, got {type(source).__name__}")
    doubt.check(federation)
    errors = np.concatenate([doubt.parameter.ravel(), doubt.values.ravel(), doubt.weights.ravel()])
    root = np.eye(errors.size) if doubt.factor is None else doubt.factor
    parameters, values, weights = np.split(
        errors[:, None] * root, [doubt.parameter.size, doubt.parameter.size + doubt.values.size]
    )
    size = next(iter(federation.payoff.parameters.values()), np.ones(1))
    spans = (assumed.curves.ceilings - assumed.curves.floors) / federation.values
    stray = np.vstack(
        [
            np.zeros((n, root.shape[1])),
            spans[:, None] * np.broadcast_to(values, (n, values.shape[1])),
            (parameters / np.reshape(size, (-1, 1))).mean(axis=0, keepdims=True),
            weights,
        ]
    )
    known = 1e-3 * float(np.abs(federation.weights).mean())  # nothing is known exactly
    own = np.concatenate([1.0 / np.diag(assumed.precision), np.full(n * n, known)])
    return np.asarray(np.linalg.inv(np.linalg.cholesky(stray @ stray.T + np.diag(own**2))))


def subset_tests(
    federation: Federation, agreed: FloatArray, subsets: ArrayLike, accuracies: ArrayLike, test_sizes: ArrayLike | None
) -> dict[str, FloatArray]:
    """What `SubsetModels` takes of subsets and what was measured of them."""
    require_single_lots(federation, "estimating what was delivered")
    names = federation.names
    chosen, measured, sizes = checked_tests("subsets", subsets, accuracies, test_sizes, names=names)
    for model, agent in np.argwhere((chosen != 0.0) & (chosen != 1.0))[:1].tolist():
        value, rule = float(chosen[model, agent]), "must be true or false, 1 or 0"
        raise InvalidInput(field="subsets", index=(model, agent), rule=rule, value=value, agent=names[agent])
    if np.isnan(measured).all():
        raise InvalidInput("accuracies must hold a number, all are missing; have the members measure the models")
    for model, given in enumerate(chosen * agreed):
        if not federation.admits(given):
            raise InvalidInput(
                f"subsets[{model}]: under the weights the data of this subset harms somebody beyond the domain of its "
                f"payoff, so nothing can be expected of the model; leave it out"
            )
    return {"given": chosen * agreed, "accuracies": measured, "test_sizes": sizes}


def agreed_contributions(deal: Deal) -> FloatArray:
    """(n,): what everybody gives under a deal; nothing, whoever is not in it."""
    given = np.zeros(len(deal.agents))
    given[deal.members] = deal.contributions[deal.members]
    return given


def owed_by_delivery(deal: Deal, names: Sequence[str]) -> FloatArray:
    """(n, n): what the row's member pays the column's if all arrives; the deal must have prices, and these members."""
    if tuple(deal.agents) != tuple(names):
        raise InvalidInput(
            f"deal must be between the members that are judged, in their order ({', '.join(names)}), "
            f"got {', '.join(deal.agents)}"
        )
    if deal.prices is None:
        raise InvalidInput(
            f"deal must have prices to be settled by delivery, and that of {deal.mechanism!r} has none; the "
            f"Externality mechanism has, and so have those with side payments beside it"
        )
    return agreed_transfers(deal)


def check_third_users(deal: Deal, owed: FloatArray, has_third: NDArray[np.bool_]) -> None:
    """Raise `InvalidInput` where one member pays another for data that no third one has a use for."""
    for payer, payee in np.argwhere((owed != 0.0) & ~has_third)[:1].tolist():
        one, other = deal.agents[payer], deal.agents[payee]
        raise InvalidInput(
            f"settling by delivery needs a third member: besides {one}, who pays, and {other}, who is paid, nobody in "
            f"the deal whose accuracies are given has a use for {other}'s data that the models show; have more members "
            f'measure, measure more models, or settle by samples (settle-by = "samples")'
        )


def same_shares(stated: Any, due: Sequence[Sequence[float | None]]) -> bool:
    """Whether shares that somebody states are those due, as far as machines agree."""
    try:
        one, other = share_matrix(stated), share_matrix(due)
    except (TypeError, ValueError):
        return False
    return one.shape == other.shape and np.allclose(one, other, rtol=0.0, atol=SAME_SHARE, equal_nan=True)


def ledger_calibration(found: CheckedLedger) -> Calibration | None:
    """The calibration that members signed to be judged by, if there is one."""
    agreed = found.last(AGREED)
    stated = None if agreed is None else (agreed.content.get("verification") or {}).get("calibration")
    return None if stated is None else Calibration.of_record(stated)


def with_paid_shares(found: CheckedLedger) -> CheckedLedger:
    """The ledger with whether the shares that are paid for are those that follow from what members measured."""
    settled = found.last(SETTLED)
    if settled is None or "paid_shares" not in settled.content:
        return found
    try:
        holds, reason = _judge_shares(found, settled.content["paid_shares"])
    except (FedpactError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        holds, reason = False, f"they cannot be worked out anew: {error!s:.200}"
    return replace(found, more={SHARES: Finding(holds=holds, reason=reason)})


def _judge_shares(found: CheckedLedger, stated: Any) -> tuple[bool, str]:
    """Shares worked out anew from what members measured and the calibration they signed."""
    trained, verified, calibration = found.last(TRAINED), found.last(VERIFIED), ledger_calibration(found)
    if trained is None or calibration is None or found.deal is None:
        return False, "there is no deal, no training or no calibration that they could follow from"
    models = [] if verified is None else verified.content["models"]
    due = calibration.paid_shares(found.deal, models, found.deals[trained.seq].delivered())
    if not same_shares(stated, due):
        return False, "they are not those that follow from what members measured"
    return True, "each follows from the calibration and what members measured, without the two parties' reports"
