"""What a mechanism makes of a federation: contributions, payments, and everything that follows from them.

    utilities u_i = a_i - c_i + p_i,      gains u_i - v_i* on the best a member can do alone,
    reciprocity (a_i + p_i) / phi_i,      phi the Shapley values of the game A(s[X]),
    gain shares (u_i - v_i*) / fair gain, fair gains the Shapley values of what groups reach by themselves, less v_i*.

`Amounts` holds these as arrays: of one federation (`Outcome`), or with a leading axis of many (`Outcomes`), by the same
formulas.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.certificates import Certificate, Certificates
from fedpact.certificates.assumptions import Assumption, assumptions
from fedpact.certificates.claims import agent_values, utility_tolerances, would_leave
from fedpact.certificates.core import GroupProfiles
from fedpact.certificates.reciprocity import WorstReciprocity, fair_parts, reciprocity_ratios, worst_over_face
from fedpact.deals.deal import TRAINS_ALONE, Deal, Provenance, Source
from fedpact.deals.diagnosis import diagnose
from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays, times_transposed
from fedpact.shapley.values import ShapleyValues, shapley_values, share_values, undefined_values
from fedpact.solvers.fair_division import FairGains, fair_gains, fair_gains_of
from fedpact.solvers.groups import MAX_LISTED_AGENTS, KnownGroups, group_optima, standalone_optima
from fedpact.utils.arrays import FloatArray, align, checked_numbers, read_only_copy
from fedpact.utils.errors import OutsideDomain

if TYPE_CHECKING:
    from fedpact.mechanisms import Mechanism

MAX_AGENTS_WITH_PRICES = 300  # prices are a number for every pair: beyond this a deal, and so its file, has none
CAP_TOLERANCE = 1e-9  # relative: a contribution this close to a cap is at it

# What an outcome says of each member, in the order it is told.
PER_AGENT = (
    "contributions",
    "payoffs",
    "costs",
    "joining_costs",
    "payments",
    "side_payments",
    "utilities",
    "standalone",
    "ir_gaps",
    "endowments",
    "fair_gains",
    "fair_gain_errors",
    "gain_shares",
    "shapley_values",
    "reciprocity_ratios",
    "reciprocity_gaps",
    "net_externality",
)
PER_LOT = ("contributions", "net_externality")  # of these, what members with several lots have for each


@dataclass(frozen=True, kw_only=True, eq=False)
class Equilibria:
    """How many equilibria there are (`unique` is None where it is not known), and in words which one the outcome is.

    `dimension` is that of the set of equilibria around this one; 0 for an isolated point.
    """

    unique: bool | None
    dimension: int
    note: str


AS_GIVEN = Equilibria(unique=None, dimension=0, note="as given")
NOT_KNOWN = Equilibria(unique=None, dimension=0, note="an equilibrium; whether there are others is not known")


def _plain(found: Any) -> Any:
    """A plain number for one federation, an array for many."""
    return found if np.ndim(found) else found.item()


class Amounts:
    """What follows from contributions (..., lots) and payments (..., members) under a mechanism's rules."""

    if TYPE_CHECKING:

        @property
        def arrays(self) -> FederationArrays: ...
        @property
        def rules(self) -> Mechanism: ...
        @property
        def contributions(self) -> FloatArray: ...
        @property
        def payments(self) -> FloatArray: ...

    @cached_property
    def played(self) -> FederationArrays:
        """The numbers of the game, without what others bring where everybody trains alone."""
        return self.arrays if self.rules.federated else self.arrays.without_sharing()

    @cached_property
    def payoffs(self) -> FloatArray:
        """What each gets: a_i(s), or less where the mechanism hands out less than the whole model."""
        return read_only_copy(self.rules.payoffs(self.played, self.contributions))

    @cached_property
    def costs(self) -> FloatArray:
        """c_i(s_i)."""
        return read_only_copy(self.arrays.spending(self.contributions))

    @cached_property
    def joining_costs(self) -> FloatArray:
        """What each pays once for taking part; nothing where everybody stays alone."""
        joins = self.rules.federated and self.arrays.n_agents > 1
        return read_only_copy(self.arrays.joining_costs * joins)

    @cached_property
    def utilities(self) -> FloatArray:
        """u_i = a_i - c_i + p_i, less what joining costs."""
        return read_only_copy(self.payoffs - self.costs + self.payments - self.joining_costs)

    @cached_property
    def welfare(self) -> Any:
        """The sum of payoffs minus the sum of all costs: a number, or one per federation."""
        return _plain(self.payoffs.sum(axis=-1) - self.costs.sum(axis=-1) - self.joining_costs.sum(axis=-1))

    @cached_property
    def standalone(self) -> FloatArray:
        """v_i*, the best each member could do alone."""
        return read_only_copy(standalone_optima(self.arrays)[1])

    @cached_property
    def ir_gaps(self) -> FloatArray:
        """u_i - v_i*: below zero the member would rather train alone."""
        return read_only_copy(self.utilities - self.standalone)

    @cached_property
    def endowments(self) -> FloatArray:
        """max(0, -gap): what it would take to keep each member."""
        return read_only_copy(np.maximum(0.0, -self.ir_gaps))

    @cached_property
    def fair_gains(self) -> FloatArray:
        """What each member should gain by being fair (`fedpact.solvers.fair_division`); NaN where it is not known."""
        return read_only_copy(fair_gains_of(self.arrays))

    @property
    def fair_gain_errors(self) -> FloatArray:
        """Standard errors of the fair gains: zero where all groups were solved."""
        return read_only_copy(0.0 * self.fair_gains)

    @cached_property
    def gain_shares(self) -> FloatArray:
        """Gains over fair gains; NaN for those whose fair gain is not above zero, of which there is no share."""
        counts = self.fair_gains > self.tolerances
        gains = np.where(np.abs(self.ir_gaps) <= self.tolerances, 0.0, self.ir_gaps)
        shares = np.divide(gains, self.fair_gains, out=np.full(gains.shape, np.nan), where=counts)
        return read_only_copy(shares)

    @property
    def lowest_gain_share(self) -> Any:
        """The smallest of `gain_shares`; NaN where nobody has a fair gain above zero, or they are not known."""
        return _plain(np.fmin.reduce(self.gain_shares, axis=-1))

    @cached_property
    def tolerances(self) -> FloatArray:
        """What counts as rounding in each member's utility."""
        spent = self.costs + self.joining_costs
        return read_only_copy(utility_tolerances(self.payoffs, spent, self.payments, agent_values(self.arrays)))

    @cached_property
    def would_leave(self) -> NDArray[np.bool_]:
        """Who would rather train alone, beyond rounding."""
        return would_leave(self.ir_gaps, self.tolerances)

    @cached_property
    def shapley_values(self) -> FloatArray:
        """phi_i, each member's share of the total payoff; NaN where a coalition leaves the domain."""
        return read_only_copy(share_values(self.played, self.contributions)[0])

    @cached_property
    def reciprocity_ratios(self) -> FloatArray:
        """(a_i + p_i) / phi_i."""
        return read_only_copy(reciprocity_ratios(self.payoffs + self.payments, self.shapley_values))

    @cached_property
    def reciprocity_gaps(self) -> FloatArray:
        """a_i + p_i - phi_i, which does not mislead where phi_i is small or negative."""
        return read_only_copy(self.payoffs + self.payments - self.shapley_values)

    @property
    def reciprocity(self) -> Any:
        """The smallest ratio at this equilibrium: a number, or one per federation."""
        return _plain(self.reciprocity_ratios.min(axis=-1))

    @cached_property
    def fair_parts(self) -> FloatArray:
        """The ratio of those whose Shapley share is above zero; NaN for the others, who have no share to get back."""
        return read_only_copy(fair_parts(self.payoffs + self.payments, self.shapley_values))

    @property
    def lowest_fair_part(self) -> Any:
        """The smallest of `fair_parts`; NaN where nobody has a share above zero, or shares are undefined."""
        return _plain(np.fmin.reduce(self.fair_parts, axis=-1))

    @cached_property
    def net_externality(self) -> FloatArray:
        """T_l: what one more sample of each lot is worth to all members but its owner together."""
        return read_only_copy(self.played.net_externality(self.contributions))

    @cached_property
    def on_boundary(self) -> NDArray[np.bool_]:
        """Whether a lot is not brought at all, or all of it."""
        caps = self.arrays.reachable_caps
        return np.asarray((self.contributions <= 0) | (self.contributions >= caps * (1.0 - CAP_TOLERANCE)))

    @cached_property
    def in_domain(self) -> Any:
        """Whether every coalition's data lies in the domain, so that Shapley values are defined."""
        return _plain((self.played.lowest_data(self.contributions) > self.played.floor).all(axis=-1))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Outcome(Amounts):
    """What a mechanism, its `rules`, makes of a federation: the profile s and the payments p.

    A positive payment is received. `side_payments` are the part that does not depend on anybody's contribution;
    `is_solved` says whether the mechanism found it, or it was stated by somebody.
    """

    federation: Federation
    rules: Mechanism
    contributions: FloatArray
    payments: FloatArray
    side_payments: FloatArray = 0.0  # type: ignore[assignment]
    is_solved: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "contributions", self.federation.checked_contributions(self.contributions))
        for label in ("payments", "side_payments"):
            given = getattr(self, label)
            numbers = checked_numbers(label, given, np.isfinite, "finite", names=self.federation.names)
            object.__setattr__(self, label, read_only_copy(np.broadcast_to(numbers, self.federation.n_agents)))

    @property
    def mechanism(self) -> str:
        """The mechanism's name."""
        return self.rules.name

    @property
    def arrays(self) -> FederationArrays:
        """The federation's numbers."""
        return self.federation.arrays

    @property
    def agents(self) -> Sequence[str]:
        """The members' names."""
        return self.federation.names

    @property
    def federated(self) -> bool:
        """False if every member trains alone on its own data."""
        return self.rules.federated

    @property
    def has_prices(self) -> bool:
        """Whether data is paid for by the sample."""
        return self.rules.has_prices

    @property
    def promised(self) -> Sequence[str]:
        """The claims that the mechanism makes of it by design."""
        return self.rules.promises(self.federation)

    @cached_property
    def equilibria(self) -> Equilibria:
        """Whether the equilibrium is unique, and which one this is."""
        return self.rules.equilibria(self.federation, self.contributions) if self.is_solved else AS_GIVEN

    @property
    def is_unique(self) -> bool:
        """Whether it is known to be the only equilibrium."""
        return self.equilibria.unique is True

    @cached_property
    def deal(self) -> Deal:
        """What was agreed, without the federation: to save, settle, sign and train under."""
        has_lots = self.federation.has_lots
        priced = self.has_prices and self.federation.n_agents <= MAX_AGENTS_WITH_PRICES
        return Deal(
            mechanism=self.mechanism,
            agents=tuple(self.agents),
            contributions=self.contributions,
            payments=self.payments,
            prices=self.arrays.prices(self.contributions) if priced else None,
            side_payments=self.side_payments,
            excluded={} if self.federated else dict.fromkeys(self.agents, TRAINS_ALONE),
            scenario=self.federation.fingerprint,
            provenance=Provenance(source=Source.SOLVED if self.is_solved else Source.STATED),
            lot_owners=tuple(self.agents[owner] for owner in self.federation.lot_owners) if has_lots else None,
            lot_names=self.federation.lot_names if has_lots else None,
        )

    @cached_property
    def payoffs(self) -> FloatArray:  # type: ignore[override]
        """What each gets: a_i(s), or less where the mechanism hands out less than the whole model."""
        found = self.rules.payoffs(self.played, self.contributions)
        if not np.isfinite(found).all():
            played = self.federation if self.federated else self.federation.without_sharing()
            played.payoffs(self.contributions)  # raises `OutsideDomain`, with the member's name
        return read_only_copy(found)

    @cached_property
    def task_payoffs(self) -> FloatArray:
        """The payoff of every task; those of a member add up to its own."""
        return read_only_copy(self.played.task_payoffs(self.contributions))

    @cached_property
    def fair_gains(self) -> FloatArray:  # type: ignore[override]
        """What each member should gain by being fair; NaN among more than 64 members."""
        return read_only_copy(self._fair_gains.values)

    @property
    def fair_gain_errors(self) -> FloatArray:  # an override of what holds for many
        """Standard errors of the fair gains: zero up to 16 members."""
        return read_only_copy(self._fair_gains.standard_errors)

    @cached_property
    def _fair_gains(self) -> FairGains:
        return fair_gains(self.federation)

    @property
    def over_budget(self) -> Sequence[str]:
        """Names of the members who are asked for more than they can pay."""
        over = -self.payments > self.federation.budgets + self.tolerances
        return tuple(self.agents[int(agent)] for agent in np.flatnonzero(over))

    @property
    def budget(self) -> float:
        """The sum of all payments: above zero somebody outside has to pay it, below zero it is left over."""
        return math.fsum(self.payments)

    @cached_property
    def leavers(self) -> Sequence[str]:
        """Names of the members who would rather train alone, beyond rounding."""
        return tuple(self.agents[int(agent)] for agent in np.flatnonzero(self.would_leave))

    @cached_property
    def shapley(self) -> ShapleyValues:
        """The Shapley values at this profile, with their method and error; NaN where a coalition leaves the domain."""
        played = self.federation if self.federated else self.federation.without_sharing()
        try:
            return shapley_values(played, self.contributions)
        except OutsideDomain:
            return undefined_values(self.federation.n_agents, self.federation.n_lots)

    @property
    def shapley_values(self) -> FloatArray:  # type: ignore[override]
        """phi_i, each member's share of the total payoff; NaN where a coalition leaves the domain."""
        return self.shapley.values

    @cached_property
    def worst_reciprocity(self) -> WorstReciprocity:
        """The smallest ratio over all equilibria, as the paper defines reciprocity, and where it is attained."""
        defined = self.is_solved and bool(np.isfinite(self.shapley_values).all())
        face = self.rules.face(self.federation, self.contributions) if defined else None
        return worst_over_face(face, self.contributions, self._benefits_at)

    def _benefits_at(self, profiles: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Payments, benefits a_i + p_i and Shapley values at other equilibria, (equilibria, members) each."""
        payments = self.rules.payments(self.arrays, profiles) + self.side_payments
        benefits = self.rules.payoffs(self.played, profiles) + payments
        return payments, benefits, share_values(self.played, profiles)[0]

    @cached_property
    def shared_cap_prices(self) -> FloatArray:
        """What one more sample under each shared cap would add to the welfare of all; 0 where it is not full."""
        gradient = self.played.welfare_gradient(self.contributions)
        prices = []
        for shared in self.federation.shared_caps:
            lots = list(shared.lots)
            brought, caps = self.contributions[lots], self.federation.caps[lots]
            worth = float(np.abs(times_transposed(self.arrays.weights, self.arrays.values)[lots]).max(initial=0.0))
            full = brought.sum() >= shared.cap * (1.0 - CAP_TOLERANCE) or worth * shared.cap <= CAP_TOLERANCE
            below = brought < caps * (1.0 - CAP_TOLERANCE)
            prices.append(float(gradient[lots][below].max(initial=0.0)) if full else 0.0)
        return read_only_copy(np.array(prices))

    @property
    def group_profiles(self) -> GroupProfiles:
        """Groups that may leave, with what they would contribute by themselves; for the certificates to verify.

        All groups where they can be listed; otherwise the one that gains most of those that a search comes upon.
        """
        few = self.federation.n_agents <= MAX_LISTED_AGENTS
        found = group_optima(self.federation) if few else KnownGroups(self.federation).worst(self.utilities)[0]
        return GroupProfiles(members=found.members, contributions=found.contributions)

    @cached_property
    def certificates(self) -> Mapping[str, Certificate]:
        """One certificate per claim, by the claim's name; computed apart from the solver."""
        return Certificates(self)

    @cached_property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The paper's assumptions at this outcome, and what is lost where one fails."""
        return assumptions(self.federation, self.contributions)

    @cached_property
    def diagnosis(self) -> tuple[str, ...]:
        """What stands out, in words."""
        return diagnose(self)

    def with_profile(self, contributions: ArrayLike, payments: ArrayLike) -> Outcome:
        """The same rules and side payments with another profile and other payments, as somebody states them."""
        return replace(
            self,
            contributions=self.federation.checked_contributions(contributions),
            payments=np.asarray(align("payments", payments, self.federation.names)),
            is_solved=False,
        )

    def __repr__(self) -> str:
        from fedpact.report.records import outcome_line  # noqa: PLC0415 - imports go one way

        return outcome_line(self)

    def to_frame(self) -> Any:
        """A pandas frame with a row per member; needs pandas."""
        from fedpact.report.records import outcome_frame  # noqa: PLC0415 - optional dependency

        return outcome_frame(self)

    def plot(self, *, ax: Any = None) -> Any:
        """What every member is paid and gains, on `ax` or a new figure; needs matplotlib."""
        from fedpact.report.plots.results import plot_outcome  # noqa: PLC0415 - optional dependency

        return plot_outcome(self, ax=ax)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Outcomes(Amounts, Sequence[Outcome]):
    """The outcomes of many federations with the same members under one mechanism: a sequence, and arrays over all.

    `federation` is one of them, `federations` all, None where only their numbers are known. Arrays have one leading
    axis, NaN where a federation could not be solved; `errors` says why, by its index.
    """

    federation: Federation
    arrays: FederationArrays
    rules: Mechanism
    contributions: FloatArray
    payments: FloatArray
    side_payments: FloatArray
    errors: Mapping[int, Exception]
    federations: Sequence[Federation] | None = None

    @property
    def mechanism(self) -> str:
        """The mechanism's name."""
        return self.rules.name

    @cached_property
    def solved(self) -> NDArray[np.bool_]:
        """(federations,): whether an equilibrium was found."""
        return np.asarray(~np.isnan(self.contributions).any(axis=-1))

    @property
    def statuses(self) -> Sequence[str]:
        """What became of each federation: "solved", or why it could not be."""
        return tuple(str(self.errors[index]) if index in self.errors else "solved" for index in range(len(self)))

    def __len__(self) -> int:
        return len(self.contributions)

    def __iter__(self) -> Iterator[Outcome]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"there are {len(self)} federations, and no number {index}")
        index %= len(self)
        if index in self.errors:
            raise self.errors[index]
        known = self.federations
        return Outcome(
            federation=self.federation.with_arrays(self.arrays.at(index)) if known is None else known[index],
            rules=self.rules,
            contributions=self.contributions[index],
            payments=self.payments[index],
            side_payments=self.side_payments[index],
            is_solved=True,
        )

    def __repr__(self) -> str:
        return f"<Outcomes of {self.mechanism}: {len(self)} federations, {int(self.solved.sum())} solved>"

    def to_frame(self) -> Any:
        """A pandas frame with a row per federation and member; needs pandas."""
        from fedpact.report.records import outcomes_frame  # noqa: PLC0415 - optional dependency

        return outcomes_frame(self)
