"""Did everybody deliver what was agreed? Shares estimated from models made of random subsets of the updates.

Whoever aggregates holds every member's update, so it can also aggregate subsets of them and have the members measure
these models. How much worse models are without a member's update tells how much data stands behind it, whatever the
member says (`fedpact.fitting.subset_models` has the model). A share of 1 is what was agreed; 0.6 that the update is as
useful as one made of 60 % of the data.

What data is worth depends on how it is trained on: weights that one procedure was measured to have cannot judge
another. There are three cases.

* *Calibrated*, on subset models of earlier rounds or runs of the same procedure (`calibrate_delivery`): a
  member is flagged if its share lies below 1 beyond doubt, or if the accuracies fit without its updates only.
* By weights from elsewhere that fit the accuracies: what all shares have in common cannot be told from another scale.
  A member is flagged if its share lies below that of the others beyond doubt, by more than these differ among
  themselves.
* By weights that do not fit: nobody can be judged, and nobody is flagged.

**Payments for what arrived** are bilateral transfers at the agreed prices, each scaled by the share that was delivered.
Under the agreed prices i pays j the sum l_ij s_j. Settled by delivery it pays

    l_ij s_j rho_j^(-i,-j),

rho_j^(-i,-j) the share of j's contribution that arrived in effect, estimated without anything that i or j measured. So
nobody's report moves its own money; and since every transfer has a payer and a payee, the payments add up to zero
whatever the shares are. Somebody besides i and j must have a use for j's data and answer: the condition of three again.

Shares above 1 are paid as well. Estimates of a member that delivered all lie above 1 as often as below, and to cut off
the upper half would take money from the honest. Side payments are owed whatever is delivered.

What this cannot tell apart: a member that delivers less and a member whose data is less useful to everybody than it was
when the weights were measured. And members that measure falsely together move the shares.

Members may agree to be paid by a calibration: their deal's entry in a ledger holds it. With it, and with what members
measured of subset models, anybody can work out what arrived and what is due for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from fedpact.deals import Deal, Outcome, Settlement
from fedpact.deals.ledger import AGREED, VERIFIED
from fedpact.deals.settlement import agreed_transfers, payments_for_shares, settle
from fedpact.deals.signatures import KnownKeys, verification_terms
from fedpact.federation import Federation
from fedpact.federation.lots import require_single_lots
from fedpact.federation.payoffs import FAMILIES
from fedpact.fitting.logs import stated_models
from fedpact.fitting.observations import checked_tests
from fedpact.fitting.parameters import checked_range
from fedpact.fitting.subset_models import MAX_SHARE, Curves, SharesFit, SubsetModels
from fedpact.negotiation.check import CheckedLedger, check_ledger
from fedpact.scenario import Money, Uncertainty
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.jsonl import jsonable
from fedpact.utils.parallel import run_on_one_thread
from fedpact.utils.words import count_text, join_names

# Estimated shares are paid for in these digits, so that machines that differ in later ones come to the same cents.
SHARE_DECIMALS = 3
SAME_ESTIMATE = 5e-6  # by which two machines' estimates of a share may differ; measured: less than 4e-7
PARTS = ("agents", "weights", "payoff", "floors", "ceilings")
MAX_CALIBRATED = 12  # members: 144 weights are measured along with the shares
AGREED_DOUBT = 0.01  # standard error of floors, ceilings and parameter that members agreed on: a test set's luck
ASSUMED_DOUBTS = 0.05, 0.1  # of floors and ceilings, in accuracy, and of the payoff's parameter, from elsewhere
FIRST_DOUBTS, FIRST_WEIGHT_DOUBT = (0.1, 0.3), 3.0  # before earlier models say more; of the mean weight
FLAG_LEVEL = 0.95  # of the interval whose upper end must fall short
MISFIT_P_VALUE = 0.05  # not to rely on curves that fit costs little; to rely on others flags the honest


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """What data is worth under one training procedure."""

    names: tuple[str, ...]
    curves: Curves
    precision: FloatArray  # how sure these were before the earlier models: R of `fedpact.fitting.subset_models`
    earlier: Mapping[str, FloatArray] | None = None  # what `SubsetModels` takes of models of earlier rounds or runs

    @classmethod
    def of(
        cls, federation: Federation, floor: ArrayLike = 0.0, ceiling: ArrayLike = 1.0, precision: Any = None
    ) -> Calibration:
        """That of a scenario's federation, as members agree on it unless `precision` says how sure it is."""
        require_single_lots(federation, "verifying what was delivered")
        ends = checked_range(floor, ceiling, federation, labels=("floor", "ceiling"))
        if precision is None:
            precision = _precision(federation.n_agents)
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

        It is the share that arrived in effect, estimated without the reports of the two, to `SHARE_DECIMALS`. Where the
        models (as a ledger's entry of the verification lists them) say too little for that, it is the share by the
        samples that were counted: `delivered` is what members have delivered by the samples they signed, in units of
        contribution.
        """
        estimated, counted = self.shares_due(deal, models, delivered)
        shares = np.where(np.isnan(estimated), counted, estimated.round(SHARE_DECIMALS))
        return [[None if np.isnan(share) else share for share in row] for row in shares.tolist()]

    def check_paid_shares(
        self, stated: Any, deal: Deal, models: Sequence[Mapping[str, Any]], delivered: Mapping[str, float]
    ) -> None:
        """Raise `InvalidInput` unless shares that somebody states are those due (`paid_shares`).

        They must have no more digits, so that nobody can choose them: another machine may come to the next number only
        where the estimate lies half-way between two, as far as machines agree.
        """
        estimated, counted = self.shares_due(deal, models, delivered)
        try:
            given = np.array(stated, dtype=np.float64)  # None is NaN
        except (OverflowError, TypeError, ValueError):
            given = np.full(1, np.nan)
        half_way = 0.5 * 10.0**-SHARE_DECIMALS
        same = given.shape == estimated.shape and np.where(
            np.isnan(estimated),
            (given == counted) | (np.isnan(given) & np.isnan(counted)),
            (given == given.round(SHARE_DECIMALS)) & (np.abs(given - estimated) <= half_way + SAME_ESTIMATE),
        )
        if not np.all(same):
            raise InvalidInput("they are not those that follow from what members measured")

    def shares_due(
        self, deal: Deal, models: Sequence[Mapping[str, Any]], delivered: Mapping[str, float]
    ) -> tuple[FloatArray, FloatArray]:
        """(n, n) each: the shares to pay for as estimated, NaN where the models say too little; and as counted.

        Both are NaN where the row's member pays the column's nothing.
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
        return np.where(wanted, shares, np.nan), np.where(wanted, counted, np.nan)


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

    As `estimate_delivery` takes them, of rounds or runs in which everybody delivered. The federation's weights are
    where the search begins, and hardly matter.
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


def _precision(n_agents: int, ends: float = AGREED_DOUBT, parameter: float = AGREED_DOUBT) -> FloatArray:
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


def ledger_calibration(found: CheckedLedger) -> Calibration | None:
    """The calibration that members signed to be judged by, if there is one."""
    agreed = found.entries.get(AGREED)
    terms = None if agreed is None else agreed.content.get("verification")
    if terms is None or verification_terms(terms)["calibration"] is None:
        return None
    return Calibration.of_record(terms["calibration"])


def check_run(
    path: Path, *, keys: KnownKeys | None = None, receipts: Sequence[Path] = (), must_be_signed: bool = False
) -> CheckedLedger:
    """Check everything that a ledger says (`check_ledger`), with the shares that are paid for, worked out anew."""
    found = check_ledger(path, keys=keys, receipts=receipts, must_be_signed=must_be_signed)
    return replace(found, check_shares=_check_shares)


def _check_shares(found: CheckedLedger, stated: Any) -> None:
    """Raise `InvalidInput` unless shares follow from what members measured and the calibration they signed."""
    calibration, verified = ledger_calibration(found), found.entries.get(VERIFIED)
    if calibration is None:
        raise InvalidInput("there is no calibration that they could follow from")
    models = [] if verified is None else verified.content["models"]
    calibration.check_paid_shares(stated, found.stated_deal, models, found.under.delivered())


def estimate_delivery(  # noqa: PLR0917 - what is measured, then on how much and between which ends
    federation: Federation,
    contributions: ArrayLike,
    subsets: ArrayLike,
    accuracies: ArrayLike,
    test_sizes: ArrayLike | None = None,
    floor: ArrayLike = 0.0,
    ceiling: ArrayLike = 1.0,
    *,
    weights_from: Any = None,
    calibration: Calibration | None = None,
) -> Delivery:
    """Estimate which share of its agreed contribution each member delivered in effect.

    The federation has the members' weights and payoff curves; `contributions` are what was agreed. `subsets` (models,
    agents) is true where a model is made of the agent's update too, and `accuracies` (models, agents) are each model's
    on each agent's test set, NaN where an agent did not answer. `test_sizes`, samples behind the accuracies, `floor`
    and `ceiling`, accuracy without data and with all the data in the world, are a number or one per agent.

    `weights_from` is the fit that the weights come from, or its uncertainty: then intervals are wider by the doubt it
    leaves. A `calibration` of the same training procedure (`calibrate_delivery`) takes the place of weights, curves,
    floors and ceilings.

    Examples
    --------
    Three members, of whom the last delivers half.

    >>> import numpy as np
    >>> from fedpact.federation import PowerLaw
    >>> federation = Federation(weights=np.full((3, 3), 0.02), costs=1e-4, payoff=PowerLaw(beta=0.7))
    >>> rng = np.random.default_rng(0)
    >>> subsets = rng.random((60, 3)) < 0.5
    >>> reached = 0.02 * (subsets * [200, 200, 100]).sum(axis=1)
    >>> accuracies = rng.binomial(500, 1.0 - (1.0 + reached[:, None]) ** -0.7, (60, 3)) / 500
    >>> found = estimate_delivery(federation, [200, 200, 200], subsets, accuracies, test_sizes=500)
    >>> found.flagged
    ('agent 2',)
    >>> lower, upper = found.intervals()
    >>> bool(lower[2] < 0.5 < upper[2])
    True
    """
    agreed = federation.checked_contributions(contributions)
    tests = subset_tests(federation, agreed, subsets, accuracies, test_sizes)
    judged_by = calibration or Calibration.assumed(federation, floor, ceiling, weights_from)
    if judged_by.names != federation.names:
        raise InvalidInput(
            f"the calibration must be of the same members, in their order ({', '.join(federation.names)}), got "
            f"{', '.join(judged_by.names)}"
        )
    models = judged_by.models(tests)
    # Many small matrices: more threads than one wait for each other.
    found = run_on_one_thread(SubsetModels.fit, models)
    return Delivery(names=federation.names, contributions=agreed, models=models, found=found)


@dataclass(frozen=True, kw_only=True, eq=False)
class Delivery:
    """Which share of its agreed contribution each member delivered in effect; made by `estimate_delivery`."""

    #: The agents, and what they agreed to
    names: tuple[str, ...]
    contributions: FloatArray
    #: The models behind the estimate, and how it came about
    models: SubsetModels
    found: SharesFit

    @cached_property
    def shares(self) -> FloatArray:
        """(n,): 1 is what was agreed; NaN where the models do not tell it.

        That is where nothing was agreed, where nobody who answered has any use for the data, and where any larger share
        would fit as well.
        """
        known = self.models.identified & (self.found.shares < MAX_SHARE)
        return read_only_copy(np.where(known, self.found.shares, np.nan))

    @property
    def calibrated(self) -> bool:
        """Whether weights and curves were measured with the same training procedure."""
        return self.models.n_earlier > 0

    @property
    def n_models(self) -> int:
        """How many models are judged by."""
        return len(self.models.given) - self.models.n_earlier

    @property
    def n_measured(self) -> int:
        """How many accuracies of them are known."""
        return int(self.models.measured[self.models.n_earlier :].sum())

    @property
    def run_noise(self) -> float:
        """Standard deviation of accuracies between models of the same data, as all members see it."""
        return self.found.sizes.of_model

    @cached_property
    def _judgement(self) -> tuple[float, list[int]]:
        """How well the curves fit, and who falls short.

        Calibrated, where they do not fit, everybody's updates are left out in turn (`_unlike_the_others`): noise, wrong
        labels, or a part of the records only, fit no share, and whoever sends such updates must neither be safe because
        of that nor be counted against others. Where that is not one member, models without the updates of those who
        fall short are tried, the worst first, as long as they are a minority.
        """
        p_value, suspects, rest = self.models.misfit_p_value(self.found), list[int](), self
        most = (int(self.models.identified.sum()) - 1) // 2 if self.calibrated else 0
        if p_value < MISFIT_P_VALUE and most:
            p_value, suspects, rest = self._unlike_the_others() or (p_value, suspects, rest)
        while p_value < MISFIT_P_VALUE and len(suspects) < most and rest._fall_short.any():
            suspects.append(int(np.nanargmin(rest.p_values)))
            p_value, rest = self._without_updates_of(suspects)
        return p_value, sorted([*suspects, *np.flatnonzero(rest._fall_short).tolist()])

    def _without_updates_of(self, members: list[int]) -> tuple[float, Delivery]:
        """How well the curves fit without some members' updates, and what follows for the others."""
        models = self.models.without_updates_of(members)
        others = replace(self, models=models, found=models.fit())
        return models.misfit_p_value(others.found), others

    def _unlike_the_others(self) -> tuple[float, list[int], Delivery] | None:
        """The member without whose updates the curves fit, if models with them score less than the others' fit expects.

        Updates made of some of the records may serve one member less and another more than before, and fit no share.
        How well the curves fit without them, who it is, and the others; or nothing.
        """
        identified = np.flatnonzero(self.models.identified).tolist()
        tried = [(*self._without_updates_of([member]), member) for member in identified]
        p_value, others, member = max(tried, key=lambda each: each[0])
        is_short = p_value >= MISFIT_P_VALUE and self.models.excess_of(member, others.found) < 0.0
        return (p_value, [member], others) if is_short else None

    @property
    def misfit_p_value(self) -> float:
        """How likely accuracies so far from the predictions are if weights and curves are right, without the updates of
        a minority that falls short where that is needed; NaN if there are too few models to tell.
        """
        return self._judgement[0]

    @property
    def can_judge(self) -> bool:
        """Whether the weights and curves fit the accuracies, so that shares mean something."""
        return not self.misfit_p_value < MISFIT_P_VALUE

    def intervals(self, level: float = FLAG_LEVEL) -> tuple[FloatArray, FloatArray]:
        """Ends (lower, upper), each (n,), of intervals that hold a share with probability `level`.

        Where nothing is known of a share, they go from 0 to infinity; each member's is taken by itself.
        """
        if not 0 < level < 1:
            raise InvalidInput(f"level must lie between 0 and 1, got {level!r:.40}")
        width = float(stdtrit(self._degrees, 0.5 + level / 2.0)) * self._errors
        lower, upper = np.maximum(self.found.shares - width, 0.0), self.found.shares + width
        return read_only_copy(lower), read_only_copy(np.where(upper < MAX_SHARE, upper, np.inf))

    @cached_property
    def p_values(self) -> FloatArray:
        """(n,): how probable an estimate as low as this is for a member that delivered all; NaN if nothing is known.

        Without a calibration, for a member that delivered as much as the others.
        """
        numbers = np.full(len(self.names), np.nan)
        for member in np.flatnonzero(self.models.identified).tolist():
            short = (self.found.shares[member] - 1.0) / self._errors[member]
            numbers[member] = stdtr(self._degrees, short) if self.calibrated else self._p_value_among_others(member)
        return read_only_copy(numbers)

    def _p_value_among_others(self, member: int) -> float:
        """How probable a share so far below the others' mean, or 1 if that is less, is by chance.

        The others' shares differ by their errors and perhaps by more, of which there is as much in the member's; the
        degrees of freedom are Satterthwaite's.
        """
        identified = np.flatnonzero(self.models.identified)
        others = identified != member
        if not others.any():
            return np.nan
        shares, count = self.found.shares[identified], int(others.sum())
        contrast = np.where(others, -1.0 / count, 1.0)
        variance, more = max(float(contrast @ each @ contrast) for each in self._covariances), 0.0
        if count > 1:
            inner = self._covariances[0][np.ix_(others, others)]
            expected = (np.trace(inner) - inner.sum() / count) / (count - 1)
            more = max(float(shares[others].var(ddof=1) - expected), 0.0) * (1.0 + 1.0 / count)
        degrees = (variance + more) ** 2 / (variance**2 / self._degrees + more**2 / max(count - 1, 1))
        short = (shares[~others][0] - min(shares[others].mean(), 1.0)) / np.sqrt(variance + more)
        return float(stdtr(degrees, short))

    def power(self, share: float = 0.6) -> FloatArray:
        """(n,): the probability to find a member that delivers this share, by these subsets and test samples.

        It follows from the standard error of the member's share; 0 if nothing is known of it.
        """
        needed = stdtrit(self._degrees, 0.5 + FLAG_LEVEL / 2.0)
        return read_only_copy(stdtr(self._degrees, (1.0 - share) / self._errors - needed) * self.models.identified)

    @cached_property
    def _covariances(self) -> tuple[FloatArray, FloatArray]:
        return self.models.share_covariances(self.found)

    @cached_property
    def _errors(self) -> FloatArray:
        """(n,): standard errors of the shares."""
        errors = np.full(len(self.names), np.inf)
        errors[self.models.identified] = np.sqrt(np.maximum(*(each.diagonal() for each in self._covariances)))
        return errors

    @property
    def _degrees(self) -> float:
        """Degrees of freedom of the errors that the measurements of a model share, which matter most."""
        measured = self.models.measured[self.models.n_earlier :].any(axis=1).sum()
        return float(max(measured - self.models.identified.sum(), 1))

    @cached_property
    def flagged(self) -> tuple[str, ...]:
        """Members that delivered too little beyond doubt: each that delivered all is so once in 40 times at most.

        Calibrated, those whose 95 % interval lies below 1, and who has to be left out so that the curves fit; else
        those as far below the others. Nobody where the curves do not fit.
        """
        return tuple(self.names[member] for member in self._judgement[1]) if self.can_judge else ()

    @property
    def _fall_short(self) -> NDArray[np.bool_]:
        """(n,): whose share is below what it should be beyond doubt."""
        return self.p_values < (1.0 - FLAG_LEVEL) / 2.0

    @cached_property
    def unknown(self) -> tuple[str, ...]:
        """Members of whose share the models say nothing: its 95 % interval goes from 0 to infinity."""
        lower, upper = self.intervals()
        nothing = (self.contributions > 0.0) & (lower == 0.0) & np.isinf(upper)
        return tuple(name for name, missing in zip(self.names, nothing, strict=True) if missing)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What to know before relying on the shares."""
        said, p_value = [], self.misfit_p_value
        if not self.can_judge:
            shown = f"{max(p_value, 1e-3):.2g}{' or less' if p_value < 1e-3 else ''}"
            said.append(
                f"cannot judge: the weights and curves do not fit the accuracies of the models (p {shown}), so the "
                f"shares mean little and nobody is flagged. Weights that were measured with another training procedure "
                f"do that; calibrate on subset models of earlier rounds or runs of this one"
            )
        elif not self.calibrated:
            said.append(
                "the weights are not calibrated on this training procedure: members are held against each other, and "
                "what all shares have in common means nothing"
            )
        if 2 * len(self.flagged) > max(int(self.models.identified.sum()), 2):
            said.append(
                "more than half of the members seem to have delivered too little; if the training procedure is not the "
                "one that was calibrated, that looks the same"
            )
        if self.unknown:
            said.append(
                f"the models say nothing about what {join_names(self.unknown)} delivered: measure more models, on more "
                f"test samples, or by members to whom that data matters more"
            )
        return tuple(said)

    def leave_out_shares(self, pairs: ArrayLike | None = None) -> FloatArray:
        """(n, n): the share of the column's member, estimated without the reports of the row's and its own.

        So what row pays column depends on nothing that either of them measured. NaN on the diagonal, and where no third
        member that answered has any use for the data, or the models say next to nothing without the two. `pairs`,
        (n, n), is true where the share is wanted; all if not given.
        """
        n_agents, models = len(self.names), self.models
        wanted = np.ones((n_agents, n_agents), dtype=bool) if pairs is None else np.asarray(pairs, dtype=bool)
        if not self.calibrated:  # what is paid goes by the curves as agreed
            models = replace(models, precision=_precision(n_agents))
        return models.leave_out_shares(wanted)

    def settle(self, deal: Deal | Outcome, *, money: Money | None = None, decimals: int | None = None) -> Settlement:
        """The deal settled by what was delivered in effect, nobody's report moving its own money.

        The deal has prices, as those of the Externality mechanism and of those with side payments beside it; `money`
        and `decimals` are as `fedpact.settle` takes them. Raises `InvalidInput` if it has none, if no third member that
        answered has a use for data that one pays another for, or if the models say nothing about what was delivered.
        """
        agreed = deal.deal if isinstance(deal, Outcome) else deal
        require_single_lots(agreed, "settling by delivery")
        owed = owed_by_delivery(agreed, self.names)
        shares = self.leave_out_shares(owed != 0.0)
        check_third_users(agreed, owed, np.isfinite(shares))
        payments = payments_for_shares(agreed, shares)
        given = agreed_contributions(agreed)
        due = Deal(mechanism=agreed.mechanism, agents=agreed.agents, contributions=given, payments=payments)
        return settle(due, money=money, decimals=decimals)

    def plot(self, *, ax: Any = None) -> Any:
        """Shares with their intervals, on `ax` or a new figure; needs matplotlib."""
        from fedpact.report.plots.results import plot_delivery  # noqa: PLC0415 - optional dependency

        return plot_delivery(self, ax=ax)

    def to_frame(self) -> Any:
        """A pandas frame with a row per agent; needs pandas."""
        from fedpact.report.records import delivery_frame  # noqa: PLC0415 - optional dependency

        return delivery_frame(self)

    def __repr__(self) -> str:
        counts = f"{count_text(len(self.names), 'agent')}, {count_text(self.n_models, 'model')}"
        verdict = f"flagged: {', '.join(self.flagged)}" if self.flagged else "nobody flagged"
        return f"Delivery({counts}, {verdict if self.can_judge else 'cannot judge'})"
