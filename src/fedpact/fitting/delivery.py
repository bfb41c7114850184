"""Did everybody deliver what was agreed? Shares estimated from models made of random subsets of the updates.

Whoever aggregates holds every member's update, so it can also aggregate subsets of them and have the members measure
these models. How much worse models are without a member's update tells how much data stands behind it, whatever the
member says (`fedpact.fitting.subset_models` has the model). A share of 1 is what was agreed; 0.6 that the update is as
useful as one made of 60 % of the data.

What this cannot tell apart: a member that delivers less and a member whose data is less useful to everybody than the
weights say. The weights must come from where the member could not foresee it, such as a pilot that somebody trusted
ran. A wrong curve biases the shares. And members that measure falsely together move them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from fedpact.federation import Federation
from fedpact.federation.lots import require_single_lots
from fedpact.fitting.accuracy_curves import checked_range
from fedpact.fitting.delivery_misfit import CurveMisfit
from fedpact.fitting.observations import (
    Observations,
    check_accuracies,
    checked_matrix,
    checked_test_sizes,
    same_runs,
)
from fedpact.fitting.result import Fit
from fedpact.fitting.subset_models import MAX_DELIVERED_SHARE, Predict, SharesFit, SubsetModels, lowest_data
from fedpact.scenario import Uncertainty
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, NotConverged
from fedpact.utils.words import count_text, join_names

FLAG_LEVEL = 0.95  # of the interval whose upper end must fall short of 1
SHARE_TOL = 1e-4
MAX_PAID_ERROR = 1.0  # a share whose standard error is larger is no ground to pay by
N_DRAWS = 200
ASSUMED_DOUBTS = (
    0.05,
    0.05,
    0.1,
)  # floors, ceilings (in accuracy), shape (of its parameter): nobody is flagged by less
MIN_MEMBERS_WITH_MIDDLE = 3


def estimate_delivery(  # noqa: PLR0917 - what is measured, then on how much and between which ends
    federation: Federation,
    contributions: ArrayLike,
    subsets: ArrayLike,
    accuracies: ArrayLike,
    test_sizes: ArrayLike | None = None,
    floor: ArrayLike = 0.0,
    ceiling: ArrayLike = 1.0,
    *,
    weights_from: Fit | Uncertainty | None = None,
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

    Raises
    ------
    InvalidInput
        If an argument breaks a rule.
    NotConverged
        If the estimate did not settle.

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
    models = checked_subset_models(
        federation, contributions, subsets, accuracies, test_sizes, floor, ceiling, weights_from=weights_from
    )
    models, found, misfit = models.fit_robustly()
    agreed = federation.checked_contributions(contributions)
    return Delivery(names=federation.names, contributions=agreed, models=models, found=found, misfit=misfit)


def checked_subset_models(  # noqa: PLR0917 - as `estimate_delivery`
    federation: Federation,
    contributions: ArrayLike,
    subsets: ArrayLike,
    accuracies: ArrayLike,
    test_sizes: ArrayLike | None = None,
    floor: ArrayLike = 0.0,
    ceiling: ArrayLike = 1.0,
    *,
    weights_from: Fit | Uncertainty | None = None,
) -> SubsetModels:
    """What `estimate_delivery` is given, checked."""
    require_single_lots(federation, "estimating what was delivered")
    agreed = federation.checked_contributions(contributions)
    chosen = _checked_subsets(subsets, federation)
    measured = checked_matrix("accuracies", same_runs("accuracies", accuracies, subsets), names=federation.names)
    sizes = same_runs("test_sizes", test_sizes, subsets)
    if measured.shape != chosen.shape:
        raise InvalidInput(
            f"accuracies must have the shape of subsets, a row per model and a column per member: {chosen.shape} and "
            f"{measured.shape} given"
        )
    check_accuracies(measured)
    if np.isnan(measured).all():
        raise InvalidInput("accuracies must hold a number, all are missing; have the members measure the models")
    floors, ceilings = checked_range(floor, ceiling, federation, labels=("floor", "ceiling"))
    seen = Observations(
        contributions=read_only_copy(chosen * agreed),
        accuracies=read_only_copy(measured),
        test_sizes=read_only_copy(checked_test_sizes(sizes, measured.shape, names=federation.names)),
        names=federation.names,
        rows=tuple(range(len(measured))),
    )
    _check_domain(federation, seen)
    doubt = None if weights_from is None else _doubt(federation, seen, floors, ceilings, weights_from)
    return SubsetModels(federation=federation, seen=seen, floors=floors, ceilings=ceilings, doubt=doubt)


@dataclass(frozen=True, kw_only=True, eq=False)
class Delivery:
    """Which share of its agreed contribution each member delivered in effect; made by `estimate_delivery`.

    Attributes
    ----------
    names, contributions
        The agents, and what they agreed to.
    models, found
        The models behind the estimate, and how it came about.
    misfit
        Whether the curves fit the accuracies. Where they do not, shares are estimated without relying on floors,
        ceilings and shape.
    """

    names: tuple[str, ...]
    contributions: FloatArray
    models: SubsetModels
    found: SharesFit
    misfit: CurveMisfit

    @cached_property
    def shares(self) -> FloatArray:
        """(n,): 1 is what was agreed; NaN where nothing was, or nobody who answered has any use for the data."""
        return read_only_copy(np.where(self.models.identified, self.found.shares, np.nan))

    @property
    def run_noise(self) -> float:
        """Standard deviation of accuracies between models of the same data, as all members see it."""
        return self.found.sizes.of_model

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        return self.intervals(FLAG_LEVEL)

    def intervals(self, level: float = FLAG_LEVEL) -> tuple[FloatArray, FloatArray]:
        """Ends (lower, upper), each (n,), of intervals that hold a share with probability `level`.

        They hold all shares that a likelihood ratio test does not refuse, the others fitted anew for each. Where
        nothing is known of a share, they go from 0 to infinity; each member's is taken by itself.
        """
        if not 0 < level < 1:
            raise InvalidInput(f"level must lie between 0 and 1, got {level!r:.40}")
        width = float(stdtrit(self._degrees, 0.5 + level / 2.0))
        lower, upper = np.zeros(len(self.names)), np.full(len(self.names), np.inf)
        for member in np.flatnonzero(self.models.identified).tolist():
            lower[member], upper[member] = self._end(member, width, -1.0), self._end(member, width, 1.0)
        return read_only_copy(lower), read_only_copy(upper)

    @cached_property
    def p_values(self) -> FloatArray:
        """(n,): how probable an estimate as low as this is for a member that delivered all; NaN if nothing is known.

        Where the curves do not fit, what all shares have in common cannot be told: it is as probable as the estimate is
        for a member that delivered as much as the one in the middle.
        """
        numbers = np.full(len(self.names), np.nan)
        for member in np.flatnonzero(self.models.identified).tolist():
            numbers[member] = float(stdtr(self._degrees, -self._signed_root(member, self._whole_share)))
        return read_only_copy(numbers)

    @cached_property
    def flagged(self) -> tuple[str, ...]:
        """Members whose 95 % interval lies below 1: of each who delivered all, that happens once in 40 times at most.

        They fall short also if floors, ceilings and shape may be off a little, held against the member in the middle:
        what floors and ceilings decide is no ground to flag anybody (`doubtful`). Where the curves do not fit, those
        whose interval lies below the share of the member in the middle.
        """
        if not self._short or self.models.misfit_sizes is not None:
            return self._short
        doubted = replace(self.models, misfit_sizes=ASSUMED_DOUBTS)
        try:
            short = replace(self, models=doubted, found=doubted.fit())._short
        except NotConverged:  # then nobody can tell
            short = ()
        return tuple(name for name in self._short if name in short)

    @property
    def doubtful(self) -> tuple[str, ...]:
        """Members who fall short by the floors, ceilings and shape given, and not if these may be off by a little."""
        return tuple(name for name in self._short if name not in self.flagged)

    @cached_property
    def _short(self) -> tuple[str, ...]:
        """Members whose 95 % interval lies below the share of one that delivered all, by these models."""
        below = self.p_values < (1.0 - FLAG_LEVEL) / 2.0
        return tuple(name for name, short in zip(self.names, below, strict=True) if short)

    @cached_property
    def unknown(self) -> tuple[str, ...]:
        """Members of whose share the models say nothing: its 95 % interval goes from 0 to infinity."""
        lower, upper = self._ends
        asked = self.contributions > 0.0
        return tuple(
            name
            for place, name in enumerate(self.names)
            if asked[place] and lower[place] == 0.0 and np.isinf(upper[place])
        )

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What to know before relying on the shares: curves that do not fit, members of whom nothing is known."""
        said = [] if self.misfit.text is None else [self.misfit.text]
        if self.doubtful:
            said.append(
                f"by the floors and ceilings given {join_names(self.doubtful)} delivered too little, and not if these "
                f"may be off by {ASSUMED_DOUBTS[0]:g}: the accuracies cannot tell which. Nobody is flagged for that; "
                f"give the accuracy without data and with all data as measured, then verify again"
            )
        if len(self._short) > 1 and 2 * len(self._short) > int(self.models.identified.sum()):
            said.append(
                "more than half of the members seem to have delivered too little. A floor, a ceiling or weights that "
                "are wrong for all look the same, and the accuracies cannot tell; check these first"
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
        n_agents = len(self.names)
        wanted = np.ones((n_agents, n_agents), dtype=bool) if pairs is None else np.asarray(pairs, dtype=bool)
        return leave_out_shares(self.models, wanted, rely_on_curves=True)

    def plot(self, ax: Any = None) -> Any:
        """Shares with their intervals, on `ax` or a new figure; needs matplotlib."""
        from fedpact.report.plots import plot_delivery  # noqa: PLC0415 - optional dependency

        return plot_delivery(self, ax=ax)

    def to_frame(self) -> Any:
        """A pandas frame with a row per agent; needs pandas."""
        from fedpact.report.display import delivery_frame  # noqa: PLC0415 - optional dependency

        return delivery_frame(self)

    @cached_property
    def _whole_share(self) -> float:
        """The share of a member that delivered all."""
        known = self.found.shares[self.models.identified]
        has_middle = self.models.misfit_sizes is not None and known.size >= MIN_MEMBERS_WITH_MIDDLE
        return min(1.0, float(np.median(known))) if has_middle else 1.0

    @property
    def _degrees(self) -> float:
        """Degrees of freedom of the errors that the measurements of a model share, which matter most."""
        return float(max(self.models.seen.n_runs - self.models.identified.sum(), 1))

    def _signed_root(self, member: int, share: float) -> float:
        """How far a share is from the estimate, in standard errors: the root of the likelihood ratio, with its sign."""
        free = self.models.identified & (np.arange(len(self.names)) != member)
        start = self.found.shares.copy()
        start[member] = share
        covariance, best = self.found.covariance, self.found.squares
        if self.models.doubt is not None or self.models.misfit_sizes is not None:
            # doubt counts as much as there is data of the member
            covariance = self.models.covariance(start, self.found.sizes)
            best = self.models.minimise(covariance, self.found.shares, free)[1]  # the estimate, by the same errors
        squares = self.models.minimise(covariance, start, free)[1]
        return float(np.copysign(np.sqrt(max(squares - best, 0.0)), share - self.found.shares[member]))

    def _end(self, member: int, width: float, side: float) -> float:
        """The share at that many standard errors on one side, from 0 to infinity."""
        from scipy.optimize import brentq  # noqa: PLC0415 - takes a while to import

        def beyond(share: float) -> float:
            return side * self._signed_root(member, share) - width

        near = float(self.found.shares[member])
        if side > 0 and near >= MAX_DELIVERED_SHARE:
            return np.inf
        if side < 0:
            if near == 0.0 or beyond(0.0) <= 0.0:
                return 0.0
            return float(brentq(beyond, 0.0, near, xtol=SHARE_TOL))
        step = max(near, 0.1)
        while beyond(far := near + step) <= 0.0:
            if far >= MAX_DELIVERED_SHARE:
                return np.inf
            near, step = far, min(2.0 * step, MAX_DELIVERED_SHARE - far)
        return float(brentq(beyond, near, far, xtol=SHARE_TOL))

    def __repr__(self) -> str:
        counts = f"{count_text(len(self.names), 'agent')}, {count_text(self.models.seen.n_runs, 'model')}"
        return f"Delivery({counts}, " + (f"flagged: {', '.join(self.flagged)})" if self.flagged else "nobody flagged)")


def leave_out_shares(models: SubsetModels, wanted: NDArray[np.bool_], *, rely_on_curves: bool = False) -> FloatArray:
    """(n, n): the share of the column's member without the reports of the row's and its own, where it is wanted.

    `rely_on_curves` takes floors, ceilings and shape as they are, even where others would fit better.
    """
    n_agents = models.seen.n_agents
    shares = np.full((n_agents, n_agents), np.nan)
    for one in range(n_agents):
        for other in range(one + 1, n_agents):
            left = models.without_reports_of([one, other])
            known = [m for m in (one, other) if left.identified[m] and wanted[one + other - m, m]]
            if not known:
                continue
            try:
                if rely_on_curves:
                    found = left.fit()
                else:
                    left, found, _ = left.fit_robustly()
            except NotConverged:  # reports without sense say nothing
                continue
            errors = left.standard_errors(found)
            for member in known:
                told = errors[member] <= MAX_PAID_ERROR and found.shares[member] < MAX_DELIVERED_SHARE
                shares[one + other - member, member] = found.shares[member] if told else np.nan
    return read_only_copy(shares)


def _checked_subsets(given: ArrayLike, federation: Federation) -> NDArray[np.bool_]:
    numbers = checked_matrix("subsets", given, names=federation.names)
    if numbers.shape[1] != federation.n_agents:
        raise InvalidInput(
            f"subsets must have a column per member: {federation.n_agents} members, {numbers.shape[1]} columns given"
        )
    for model, agent in np.argwhere((numbers != 0.0) & (numbers != 1.0))[:1]:
        raise InvalidInput(
            field="subsets",
            index=(int(model), int(agent)),
            rule="must be true or false, 1 or 0",
            value=float(numbers[model, agent]),
            agent=federation.names[agent],
        )
    return np.asarray(numbers == 1.0)


def _check_domain(federation: Federation, seen: Observations) -> None:
    for model, given in enumerate(seen.contributions):
        if not federation.admits(given):
            raise InvalidInput(
                f"subsets[{model}]: under the weights the data of this subset harms somebody beyond the domain of its "
                f"payoff, so nothing can be expected of the model; leave it out"
            )


def _doubt(
    federation: Federation, seen: Observations, floors: FloatArray, ceilings: FloatArray, source: Fit | Uncertainty
) -> Predict:
    """What a fit leaves possible, as predictions for given shares."""
    spans = np.asarray(ceilings - floors)
    if isinstance(source, Fit):
        _check_same_agents(federation, source)
        fitted = source.draws(N_DRAWS, rng=0)
        weights, shapes = fitted.weights, fitted.beta if source.beta is not None else None
        low, high = floors + fitted.floors - source.floors, ceilings + fitted.ceilings - source.ceilings
    elif isinstance(source, Uncertainty):
        drawn = source.draws(federation, N_DRAWS, rng=0)
        weights, shapes = drawn.weights, next(iter(drawn.payoff.parameters.values()), None)
        low = np.broadcast_to(floors, (N_DRAWS, floors.size))
        high = floors + spans * drawn.values / federation.values
    else:
        raise InvalidInput(f"weights_from must be a Fit or an Uncertainty, got {type(source).__name__}")
    payoffs = [federation.payoff] * N_DRAWS
    if shapes is not None:
        (name,) = federation.payoff.parameters
        payoffs = [type(federation.payoff)(**{name: shape}) for shape in shapes]
    lowest = lowest_data(federation)

    def predict(shares: FloatArray) -> FloatArray:
        reached = np.maximum((seen.contributions * shares) @ weights.transpose(0, 2, 1), lowest)
        curves = np.stack([payoff.value(data) for payoff, data in zip(payoffs, reached, strict=True)])
        return np.asarray(np.clip(low[:, None, :] + (high - low)[:, None, :] * curves, 0.0, 1.0))

    return predict


def _check_same_agents(federation: Federation, source: Fit) -> None:
    if tuple(source.names) != federation.names:
        raise InvalidInput(
            f"weights_from must be a fit of the federation's members, in their order ({', '.join(federation.names)}), "
            f"got {', '.join(source.names)}"
        )
