"""The outcome of a mechanism: contributions and payments, everything that follows from them, and certificates.

An outcome stores the profile and the payments; payoffs, utilities, gaps, shares and certificates are worked out from
the federation when asked for. Changing the contributions or the payments of an outcome (`dataclasses.replace`)
therefore changes its certificates too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.certificates.assumptions import BOUND_TOLERANCE, Assumption, assumptions, diagnose
from fedpact.certificates.certificates import Certificate, certify
from fedpact.certificates.core import GroupProfiles
from fedpact.certificates.deviations import Deviations
from fedpact.certificates.reciprocity import (
    EquilibriumBenefits,
    WorstReciprocity,
    fair_parts,
    reciprocity_ratios,
    worst_over_face,
)
from fedpact.certificates.tolerances import outcome_tolerances, would_leave
from fedpact.deals.deal import TRAINS_ALONE, Deal, Provenance, Source
from fedpact.federation import Federation, SharedCap
from fedpact.programs.best_response import standalone_optimum
from fedpact.programs.groups import MAX_LISTED_AGENTS, group_optima
from fedpact.programs.social_optimum import OptimalFace
from fedpact.programs.solver import GAIN_TOLERANCE, Solution
from fedpact.programs.worst_group import search_groups
from fedpact.shapley import ShapleyValues, shapley_values, undefined_values
from fedpact.utils.arrays import FloatArray, align, checked_numbers, read_only_copy
from fedpact.utils.errors import OutsideDomain

PaymentRule = Callable[[Federation, FloatArray], FloatArray]
PayoffRule = PaymentRule
PriceRule = Callable[[Federation, FloatArray], FloatArray | None]

# Prices are a number for every pair of agents: beyond this many a deal, and so its file, does not carry them.
MAX_AGENTS_WITH_PRICES = 300

# What an outcome says of each agent, in the order it is told.
PER_AGENT = (
    "contributions",
    "payoffs",
    "costs",
    "payments",
    "side_payments",
    "utilities",
    "standalone",
    "ir_gaps",
    "endowments",
    "shapley_values",
    "reciprocity_ratios",
    "reciprocity_gaps",
    "net_externality",
)
PER_LOT = ("contributions", "net_externality")  # of these, what agents with several lots have for each


@dataclass(frozen=True, kw_only=True, eq=False)
class Equilibria:
    """How many equilibria there are, and which one the outcome is.

    Attributes
    ----------
    unique
        True, False, or None where it is not known.
    dimension
        Of the set of equilibria around this one; 0 for an isolated point.
    note
        Which was chosen, in words.
    """

    unique: bool | None
    dimension: int
    note: str


AS_GIVEN = Equilibria(unique=None, dimension=0, note="as given")


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What a mechanism makes of a federation.

    Attributes
    ----------
    federation, mechanism
        The instance, and the mechanism's name.
    contributions, payments
        The profile s and the payments p; a positive payment is received.
    deviations
        The rule by which one agent's best deviation is found, for the Nash certificate.
    payment_rule
        Payments at another equilibrium of the same mechanism.
    equilibria
        Whether the equilibrium is unique, and which one this is.
    solution
        What the solver reported, for those who want to look inside.
    face
        The set of equilibria, where it is larger than a point.
    federated
        False if every agent trains alone on its own data.
    side_payments
        The part of the payments that does not depend on anybody's contribution.
    price_rule
        Prices per sample at a profile, for mechanisms that have them.
    payoff_rule
        What each gets at a profile, for mechanisms that hand out less than the whole model.
    solver
        How the mechanism solves another federation, for claims that compare with one.
    """

    federation: Federation
    mechanism: str
    contributions: FloatArray
    payments: FloatArray
    deviations: Callable[[Federation, FloatArray], Deviations]
    payment_rule: PaymentRule
    equilibria: Equilibria
    solution: Solution | None = None
    face: OptimalFace | None = None
    federated: bool = True
    side_payments: FloatArray | None = None
    price_rule: PriceRule | None = None
    payoff_rule: PayoffRule | None = None
    solver: Callable[[Federation], Outcome] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "contributions", self.federation.checked_contributions(self.contributions))
        side = np.zeros(self.federation.n_agents) if self.side_payments is None else self.side_payments
        for label, given in (("payments", self.payments), ("side_payments", side)):
            numbers = checked_numbers(label, given, np.isfinite, "finite", names=self.federation.names)
            object.__setattr__(self, label, read_only_copy(np.broadcast_to(numbers, self.federation.n_agents)))

    @property
    def agents(self) -> Sequence[str]:
        """The agents' names."""
        return self.federation.names

    @cached_property
    def deal(self) -> Deal:
        """What was agreed, without the federation: to save, settle, sign and train under."""
        has_lots = self.federation.has_lots
        priced = self.price_rule is not None and self.federation.n_agents <= MAX_AGENTS_WITH_PRICES
        return Deal(
            mechanism=self.mechanism,
            agents=tuple(self.agents),
            contributions=self.contributions,
            payments=self.payments,
            prices=self.price_rule(self.federation, self.contributions) if priced and self.price_rule else None,
            side_payments=self.side_payments,
            excluded={} if self.federated else dict.fromkeys(self.agents, TRAINS_ALONE),
            scenario=self.federation.fingerprint,
            provenance=Provenance(source=Source.STATED if self.equilibria is AS_GIVEN else Source.SOLVED),
            lot_owners=tuple(self.agents[owner] for owner in self.federation.lot_owners) if has_lots else None,
            lot_names=self.federation.lot_names if has_lots else None,
        )

    @cached_property
    def payoffs(self) -> FloatArray:
        """What each gets: a_i(s), or less where the mechanism hands out less than the whole model."""
        return read_only_copy(self._payoffs_at(self.contributions))

    @cached_property
    def task_payoffs(self) -> FloatArray:
        """The payoff of every task; those of an agent add up to its own."""
        return read_only_copy(self._played.task_payoffs(self.contributions))

    @cached_property
    def costs(self) -> FloatArray:
        """c_i(s_i)."""
        return read_only_copy(self.federation.spending(self.contributions))

    @cached_property
    def utilities(self) -> FloatArray:
        """u_i = a_i - c_i + p_i."""
        return read_only_copy(self.payoffs - self.costs + self.payments)

    @property
    def welfare(self) -> float:
        """sum of payoffs minus sum of costs."""
        return float(self.payoffs.sum() - self.costs.sum())

    @property
    def budget(self) -> float:
        """The sum of all payments: above zero somebody outside has to pay it, below zero it is left over."""
        return math.fsum(self.payments)

    @cached_property
    def standalone(self) -> FloatArray:
        """v_i*, the best each agent could do alone."""
        return read_only_copy(standalone_optimum(self.federation)[1])

    @cached_property
    def ir_gaps(self) -> FloatArray:
        """u_i - v_i*: below zero the agent would rather train alone."""
        return read_only_copy(self.utilities - self.standalone)

    @cached_property
    def endowments(self) -> FloatArray:
        """max(0, -gap): what it would take to keep each agent."""
        return read_only_copy(np.maximum(0.0, -self.ir_gaps))

    @cached_property
    def leavers(self) -> Sequence[str]:
        """Names of the agents who would rather train alone, beyond rounding."""
        going = would_leave(self.ir_gaps, outcome_tolerances(self))
        return tuple(self.agents[int(agent)] for agent in np.flatnonzero(going))

    @cached_property
    def shapley(self) -> ShapleyValues:
        """The Shapley values at this profile, with their method and error; NaN where a coalition leaves the domain."""
        return self._shares_at(self.contributions)

    @property
    def shapley_values(self) -> FloatArray:
        """phi_i, each agent's share of the total payoff."""
        return self.shapley.values

    @cached_property
    def reciprocity_ratios(self) -> FloatArray:
        """(a_i + p_i) / phi_i."""
        return read_only_copy(reciprocity_ratios(self.payoffs + self.payments, self.shapley_values))

    @cached_property
    def reciprocity_gaps(self) -> FloatArray:
        """a_i + p_i - phi_i, which does not mislead where phi_i is small or negative."""
        return read_only_copy(self.payoffs + self.payments - self.shapley_values)

    @property
    def reciprocity(self) -> float:
        """The smallest ratio at this equilibrium."""
        return float(self.reciprocity_ratios.min())

    @cached_property
    def fair_parts(self) -> FloatArray:
        """The ratio of those whose Shapley share is above zero; NaN for the others, who have no share to get back."""
        return read_only_copy(fair_parts(self.payoffs + self.payments, self.shapley_values))

    @property
    def lowest_fair_part(self) -> float:
        """The smallest of `fair_parts`; NaN where nobody has a share above zero, or shares are undefined."""
        return float(np.fmin.reduce(self.fair_parts))

    @cached_property
    def worst_reciprocity(self) -> WorstReciprocity:
        """The smallest ratio over all equilibria, as the paper defines reciprocity, and where it is attained."""
        defined = np.isfinite(self.shapley_values).all()
        face = self.face if defined and self.face is not None and self.face.holds(self.contributions) else None
        return worst_over_face(face, self.contributions, self._evaluate)

    @cached_property
    def net_externality(self) -> FloatArray:
        """T_i: what one more sample of i's is worth to all the others together, per lot."""
        return read_only_copy(self._played.net_externality(self.contributions))

    @cached_property
    def shared_cap_prices(self) -> FloatArray:
        """What one more sample under each shared cap would add to the welfare of all; 0 where there is room."""
        slopes = np.asarray(self._played.weights.T @ self._played.marginal_payoffs(self.contributions))
        return read_only_copy(np.array([self._price(each, slopes) for each in self.federation.shared_caps]))

    def _price(self, shared: SharedCap, slopes: FloatArray) -> float:
        """What one more of the best lot that has room below its own cap adds, if the shared cap is full.

        Solvers leave open how much is brought of what is worth less than their tolerance: so small a cap is full.
        """
        own = list(shared.lots)
        brought, caps = self.contributions[own], self.federation.caps[own]
        is_full = brought.sum() >= shared.cap * (1.0 - BOUND_TOLERANCE)
        worth = float(np.abs(slopes[own]).max()) * shared.cap
        if not is_full and worth > GAIN_TOLERANCE * float(self.federation.values.sum()):
            return 0.0
        marginal = (slopes - self.federation.costs.slope(self.contributions))[own]
        return float(marginal[brought < caps * (1.0 - BOUND_TOLERANCE)].max(initial=0.0))

    @property
    def group_profiles(self) -> GroupProfiles:
        """Groups that may leave, with what they would contribute by themselves; for the certificates to verify.

        All groups where they can be listed; otherwise the one that gains most of those that a search comes upon.
        """
        if self.federation.n_agents <= MAX_LISTED_AGENTS:
            found = group_optima(self.federation)
        else:
            found = search_groups(self.federation, self.utilities)
        return GroupProfiles(members=found.members, contributions=found.contributions)

    @cached_property
    def certificates(self) -> Mapping[str, Certificate]:
        """One certificate per claim, by the claim's name; computed apart from the solver."""
        return certify(self)

    @cached_property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The paper's assumptions at this outcome, and what is lost where one fails."""
        return assumptions(self.federation, self.contributions)

    @cached_property
    def diagnosis(self) -> tuple[str, ...]:
        """What stands out, in words."""
        return diagnose(self)

    def with_profile(self, contributions: ArrayLike, payments: ArrayLike) -> Outcome:
        """The same rules with another profile and other payments."""
        return replace(
            self,
            contributions=self.federation.checked_contributions(contributions),
            payments=np.asarray(align("payments", payments, self.federation.names)),
            equilibria=AS_GIVEN,
            solution=None,
            face=None,
        )

    @property
    def has_prices(self) -> bool:
        """Whether data is paid for by the sample."""
        return self.price_rule is not None

    @property
    def is_unique(self) -> bool:
        """Whether it is known to be the only equilibrium."""
        return self.equilibria.unique is True

    def played_in(self, federation: Federation, contributions: ArrayLike) -> Outcome:
        """A profile of another federation under the same rules; nothing is solved."""
        profile = federation.checked_contributions(contributions)
        return replace(
            self,
            federation=federation,
            contributions=profile,
            payments=self.payment_rule(federation, profile),
            equilibria=AS_GIVEN,
            solution=None,
            face=None,
            side_payments=None,
        )

    def solved_in(self, federation: Federation) -> Outcome | None:
        """The outcome of the same mechanism in another federation; None where it is not known how to solve."""
        return None if self.solver is None else self.solver(federation)

    @property
    def _played(self) -> Federation:
        return self.federation if self.federated else self.federation.without_sharing()

    def _payoffs_at(self, contributions: FloatArray) -> FloatArray:
        if self.payoff_rule is not None:
            return self.payoff_rule(self.federation, contributions)
        return self._played.payoffs(contributions)

    def _shares_at(self, contributions: FloatArray) -> ShapleyValues:
        try:
            return shapley_values(self._played, contributions)
        except OutsideDomain:
            return undefined_values(self.federation.n_agents, self.federation.n_lots)

    def _evaluate(self, contributions: FloatArray) -> EquilibriumBenefits:
        profile = np.clip(contributions, 0.0, self.federation.caps)
        here = profile is self.contributions or np.array_equal(profile, self.contributions)
        payments = self.payments if here else self.payment_rule(self.federation, profile)
        shares = self.shapley_values if here else self._shares_at(profile).values
        payoffs = self._payoffs_at(profile)
        return EquilibriumBenefits(contributions=profile, payments=payments, benefits=payoffs + payments, shares=shares)

    def __repr__(self) -> str:
        from fedpact.report.display import outcome_line  # noqa: PLC0415 - imports go one way

        return outcome_line(self)

    def _repr_html_(self) -> str:
        from fedpact.report.display import outcome_html  # noqa: PLC0415 - notebooks only

        return outcome_html(self)

    def to_frame(self) -> Any:
        """A pandas frame with a row per agent; needs pandas."""
        from fedpact.report.display import outcome_frame  # noqa: PLC0415 - optional dependency

        return outcome_frame(self)

    def plot(self, *, figure: Any = None) -> Any:
        """Contributions, payments and gains as a picture, on `figure` or a new one; needs matplotlib."""
        from fedpact.report.plots import plot_outcome  # noqa: PLC0415 - optional dependency

        return plot_outcome(self, figure=figure)
