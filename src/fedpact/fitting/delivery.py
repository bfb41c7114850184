"""Did everybody deliver what was agreed? Shares estimated from models made of random subsets of the updates.

Whoever aggregates holds every member's update, so it can also aggregate subsets of them and have the members measure
these models. How much worse models are without a member's update tells how much data stands behind it, whatever the
member says (`fedpact.fitting.subset_models` has the model). A share of 1 is what was agreed; 0.6 that the update is as
useful as one made of 60 % of the data.

What data is worth depends on how it is trained on: weights that one procedure was measured to have cannot judge
another. There are three cases.

* *Calibrated*, on subset models of earlier rounds or runs of the same procedure (`fedpact.fitting.calibration`): a
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
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from fedpact.deals import Deal, Outcome, Settlement
from fedpact.deals.settlement import payments_for_shares, settle
from fedpact.federation import Federation
from fedpact.federation.lots import require_single_lots
from fedpact.fitting.calibration import (
    Calibration,
    agreed_contributions,
    agreed_precision,
    check_third_users,
    owed_by_delivery,
    subset_tests,
)
from fedpact.fitting.subset_models import MAX_SHARE, SharesFit, SubsetModels
from fedpact.scenario import Money
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput
from fedpact.utils.parallel import run_on_one_thread
from fedpact.utils.words import count_text, join_names

FLAG_LEVEL = 0.95  # of the interval whose upper end must fall short
MISFIT_P_VALUE = 0.05  # not to rely on curves that fit costs little; to rely on others flags the honest


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

    Parameters
    ----------
    federation
        The members, with their weights and payoff curves.
    contributions
        What was agreed, one per agent.
    subsets
        (models, agents), true where the model is made of the agent's update too.
    accuracies
        (models, agents), between 0 and 1: each model on each agent's test set; NaN where an agent did not answer.
    test_sizes
        Test samples behind the accuracies: a number, one per agent, or one per accuracy; NaN where it is not known.
    floor, ceiling
        Accuracy without data and with all the data in the world; a number or one per agent.
    weights_from
        The fit that the federation's weights come from, or its uncertainty: then the intervals are wider by the doubt
        it leaves. Weights are taken as known without it.
    calibration
        Of the same training procedure (`calibrate_delivery`); it takes the place of weights, curves, floors and
        ceilings.

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
        return self.models.n_models - self.models.n_earlier

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
        members = np.flatnonzero(self.models.identified).tolist()
        tried = [(*self._without_updates_of([member]), member) for member in members]
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
            if self.calibrated:
                numbers[member] = stdtr(self._degrees, (self.found.shares[member] - 1.0) / self._errors[member])
            else:
                numbers[member] = self._p_value_among_others(member)
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
        if not self.can_judge:
            return ()
        return tuple(self.names[member] for member in self._judgement[1])

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
        said = []
        if not self.can_judge:
            said.append(
                f"cannot judge: the weights and curves do not fit the accuracies of the models (p "
                f"{max(self.misfit_p_value, 1e-3):.2g}{' or less' if self.misfit_p_value < 1e-3 else ''}), so the "
                f"shares mean little and nobody is flagged. Weights that were measured with another training "
                f"procedure do that; calibrate on subset models of earlier rounds or runs of this one"
            )
        elif not self.calibrated:
            said.append(
                "the weights are not calibrated on this training procedure: members are held against each other, and "
                "what all shares have in common means nothing"
            )
        if len(self.flagged) > 1 and 2 * len(self.flagged) > int(self.models.identified.sum()):
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
            models = replace(models, precision=agreed_precision(n_agents))
        return models.leave_out_shares(wanted)

    def settle(self, deal: Deal | Outcome, *, money: Money | None = None, decimals: int | None = None) -> Settlement:
        """The deal settled by what was delivered in effect, nobody's report moving its own money.

        Parameters
        ----------
        deal
            With prices, as those of the Externality mechanism and of those with side payments beside it.
        money, decimals
            As `fedpact.settle` takes them.

        Raises
        ------
        InvalidInput
            If the deal has no prices, if no third member that answered has a use for data that one pays another for, or
            if the models say nothing about what was delivered of it.
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

    def plot(self, ax: Any = None) -> Any:
        """Shares with their intervals, on `ax` or a new figure; needs matplotlib."""
        from fedpact.report.plots import plot_delivery  # noqa: PLC0415 - optional dependency

        return plot_delivery(self, ax=ax)

    def to_frame(self) -> Any:
        """A pandas frame with a row per agent; needs pandas."""
        from fedpact.report.records import delivery_frame  # noqa: PLC0415 - optional dependency

        return delivery_frame(self)

    def __repr__(self) -> str:
        counts = f"{count_text(len(self.names), 'agent')}, {count_text(self.n_models, 'model')}"
        verdict = f"flagged: {', '.join(self.flagged)}" if self.flagged else "nobody flagged"
        return f"Delivery({counts}, {verdict if self.can_judge else 'cannot judge'})"
