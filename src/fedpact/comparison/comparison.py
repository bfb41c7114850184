"""Mechanisms side by side on one federation, and a recommendation with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from fedpact.certificates.claims import Claim, Verdict
from fedpact.comparison.lies import MAX_AGENTS_LYING, misreporting_gains
from fedpact.comparison.members import (
    BestMembers,
    BlockingGroup,
    StableFederation,
    best_members,
    blocking_group,
    stable_federation,
)
from fedpact.comparison.outlook import Outlook, outlooks
from fedpact.comparison.recommendation import Recommendation, addition_text, recommend
from fedpact.comparison.sensitivity import Sensitivity, deal_sensitivity
from fedpact.deals import Deal
from fedpact.deals.diagnosis import units_text
from fedpact.deals.outcome import Outcome
from fedpact.federation import Federation, require_federation
from fedpact.mechanisms import DEFAULT_MECHANISMS, MECHANISMS, Mechanism, compared_mechanisms, resolve_mechanisms
from fedpact.mechanisms.registry import ALL
from fedpact.scenario import Money, Scenario, Uncertainty
from fedpact.solvers.groups import MAX_SEARCHED_AGENTS
from fedpact.solvers.welfare import social_optimum
from fedpact.utils.errors import InvalidInput, NoFairDeal, NotConverged, OutsideDomain

MIN_RELATIVE_WELFARE = 1e-9  # of the largest payoff
MAX_ADVICE = 6  # sentences that people read
MAX_AGENTS_FAIR_DRAWN = 8  # with more, the fair deal of a draw takes long: its outlook has to be asked for


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """The outcomes of several mechanisms on one federation.

    Attributes
    ----------
    outcomes
        In the order of the mechanisms.
    mechanisms
        By name, solved or not.
    unsolved
        Mechanisms without an outcome, and why.
    uncertainty
        What each mechanism may make of the federation while its numbers are uncertain; empty if they are not.
    not_recommended
        Why no deal is to be recommended, where a trained deal was measured to lose; empty if none was.
    money, unit, models
        What a unit of payoff is worth in money, None if nobody says; what data is counted in, such as "records"; and
        "personal" where everybody has a model of its own.
    """

    federation: Federation
    outcomes: Sequence[Outcome]
    mechanisms: Mapping[str, Mechanism]
    unsolved: Mapping[str, str]
    uncertainty: Mapping[str, Outlook] = field(default_factory=dict)
    not_recommended: str = ""
    money: Money | None = None
    unit: str = ""
    models: str = "common"

    def __getitem__(self, mechanism: str) -> Outcome:
        for outcome in self.outcomes:
            if outcome.mechanism == mechanism:
                return outcome
        known = ", ".join(outcome.mechanism for outcome in self.outcomes)
        raise InvalidInput(field="mechanism", rule=f"must be one of {known}", value=mechanism)

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self.outcomes)

    def mechanism(self, name: str) -> Mechanism:
        """A mechanism by its name: of those compared, or the one recommended in their stead."""
        return self.mechanisms.get(name) or MECHANISMS[name]

    def title(self, mechanism: str) -> str:
        """What people call a mechanism."""
        return self.mechanism(mechanism).title

    def share_of_best(self, welfare: float) -> float:
        """A welfare as a part of the best one; NaN where that is no yardstick."""
        best = self.best_welfare
        rounding = MIN_RELATIVE_WELFARE * max(float(np.abs(outcome.payoffs).max()) for outcome in self.outcomes)
        if max(abs(best), abs(welfare)) <= rounding:
            return 1.0
        return welfare / best if best > rounding else float("nan")

    @cached_property
    def best_welfare(self) -> float:
        """The welfare of the social optimum; where members harm each other, what is reached apart if that is more."""
        apart = [settled.welfare for settled in self.after_departures.values()]
        apart.append(float(self.outcomes[0].standalone.sum()))
        if self.best_members is not None:
            apart.append(self.best_members.welfare)
        return max(self.best_welfare_together, *apart)

    @cached_property
    def best_welfare_together(self) -> float:
        """The welfare of the social optimum with everybody in, as an outcome or its bound has it."""
        bounds = [outcome.certificates["social-optimality"].witness["upper_bound"] for outcome in self.outcomes]
        return float(min(bounds))

    @cached_property
    def after_departures(self) -> Mapping[str, StableFederation]:
        """Every real mechanism, once those who would leave have left.

        They leave all at once; where that leaves nobody to federate, the worst off first, if more is reached so.
        """
        return {
            outcome.mechanism: _follow_departures(outcome, self.mechanisms[outcome.mechanism])
            for outcome in self.outcomes
            if not self.mechanisms[outcome.mechanism].is_baseline
        }

    @cached_property
    def blocking_groups(self) -> Mapping[str, BlockingGroup | None]:
        """For every mechanism under which members federate, the group that gains most by leaving the rest behind.

        Exact up to 16 members. Beyond, the best that a bounded search finds, and a bound for all others; None where
        groups are not looked at: with one member there are none.
        """
        looks = self.federation.n_agents > 1
        return {
            outcome.mechanism: blocking_group(outcome, proper=True) if looks else None
            for outcome in self.outcomes
            if outcome.federated
        }

    @cached_property
    def splitting_gains(self) -> Mapping[str, Mapping[str, float] | None]:
        """For every mechanism under which members federate, what each member gains by posing as two, by its name.

        Of many members, those who contribute most; None where it is not worked out. `certificates.split_proof` says
        which these are.
        """
        return {
            outcome.mechanism: outcome.certificates[Claim.SPLIT_PROOF].witness.get("gains") or None
            for outcome in self.outcomes
            if outcome.federated
        }

    def largest_splitting_gain(self, mechanism: str) -> tuple[str, float] | None:
        """The member that gains most by posing as two, and what it gains; None if nobody gains, or it is not known."""
        return self._largest_gain(mechanism, self.splitting_gains.get(mechanism))

    def _largest_gain(self, mechanism: str, gains: Mapping[str, float] | None) -> tuple[str, float] | None:
        outcome = self[mechanism]
        tols = dict(zip(outcome.agents, outcome.tolerances, strict=True))
        beyond = {name: gain for name, gain in (gains or {}).items() if gain > tols[name]}
        return max(beyond.items(), key=lambda item: item[1]) if beyond else None

    @cached_property
    def misreporting_gains(self) -> Mapping[str, Mapping[str, float] | None]:
        """For every mechanism, the most each member gains by reporting other costs or values, of a few lies tried.

        None where it is not worked out: among more than 8 members, or with several lots of data.
        """
        few = self.federation.n_agents <= MAX_AGENTS_LYING and not self.federation.has_lots
        return {
            outcome.mechanism: misreporting_gains(outcome, self.mechanisms[outcome.mechanism]) if few else None
            for outcome in self.outcomes
        }

    def largest_misreporting_gain(self, mechanism: str) -> tuple[str, float] | None:
        """The member that gains most by misreporting, and what; None if no lie tried gains, or it is not known."""
        return self._largest_gain(mechanism, self.misreporting_gains.get(mechanism))

    def group_verdict(self, mechanism: str) -> Verdict:
        """Whether a mechanism keeps groups: violated if one gains by leaving, not refuted if none was found that does.

        Undefined where groups are not looked at.
        """
        found = self.blocking_groups.get(mechanism)
        if found is None:
            return Verdict.UNDEFINED
        if found.blocks:
            return Verdict.VIOLATED
        proved = found.exact or found.upper_bound <= self[mechanism].tolerances.sum()
        return Verdict.HOLDS if proved else Verdict.NOT_REFUTED

    @cached_property
    def verdicts(self) -> Mapping[str, Mapping[Claim, Verdict]]:
        """Mechanisms against properties: what each outcome's certificates say of every claim, promised or not.

        That nobody gains by posing as two is refuted among many members if one of those looked at does.
        """
        return {
            outcome.mechanism: {claim: outcome.certificates[claim].verdict for claim in Claim}
            for outcome in self.outcomes
        }

    def holds_together(self, mechanism: str) -> bool | None:
        """Whether nobody would leave a deal, alone or in a group; None where that is not known of all groups."""
        verdict = self.group_verdict(mechanism)
        if self[mechanism].leavers or verdict is Verdict.VIOLATED:
            return False
        no_groups = self.federation.n_agents == 1 or not self[mechanism].federated
        return True if no_groups or verdict is Verdict.HOLDS else None

    @cached_property
    def best_members(self) -> BestMembers | None:
        """Who should be in; None where that is not worked out: among many members with harm or joining costs."""
        federation = self.federation
        free = not (federation.has_harm or federation.joining_costs.any())
        return best_members(federation) if free or federation.n_agents <= MAX_SEARCHED_AGENTS else None

    @cached_property
    def among_best(self) -> Comparison | None:
        """The comparison of those who should be in, by the same mechanisms; None where that is everybody or nobody.

        None also where no deal between these is recommended.
        """
        best, names = self.best_members, self.federation.names
        if self.not_recommended or best is None or not 0 < len(best.members) < len(names):
            return None
        members = self.federation.take(np.isin(names, best.members))
        found = compare(members, list(self.mechanisms.values()))
        found = replace(found, money=self.money, unit=self.unit, models=self.models)
        recommended = found.recommendation
        return None if recommended is None or recommended.mechanism == "standalone" else found

    @property
    def recommended_outcome(self) -> Outcome | None:
        """The deal that is recommended, between those who should be in; None if there is none, or it was not solved."""
        chosen = self.recommendation
        among = self.among_best or self
        settled = None if chosen is None else among.after_departures.get(chosen.mechanism)
        if settled is not None and settled.departures:  # the deal of those who stay
            return settled.outcome
        return None if chosen is None else next((each for each in among if each.mechanism == chosen.mechanism), None)

    @property
    def recommended_deal(self) -> Deal | None:
        """The same as a deal to save and settle; it says who stays out, and why."""
        outcome, chosen = self.recommended_outcome, self.recommendation
        if outcome is None or chosen is None:
            return None
        reasons = {name: f"the others do better without it, it {addition_text(self, name)}" for name in chosen.out}
        return replace(outcome.deal, excluded={**outcome.deal.excluded, **reasons})

    @cached_property
    def sensitivity(self) -> Sensitivity | None:
        """Which number, if wrong, changes the deal first; see `fedpact.comparison.sensitivity`."""
        return deal_sensitivity(self)

    @cached_property
    def personal_models_gain(self) -> float:
        """What all would gain together by a model for each member, which leaves out data that harms it."""
        if not self.federation.has_harm:
            return 0.0
        return social_optimum(self.federation.with_personal_models()).welfare - social_optimum(self.federation).welfare

    def amount(self, payoff: float) -> str:
        """An amount in money where there is money, else in units of payoff; for a sentence."""
        return units_text(payoff) if self.money is None else self.money.text(payoff)

    @cached_property
    def recommendation(self) -> Recommendation | None:
        """The mechanism to choose; see `fedpact.comparison.recommendation`."""
        return recommend(self)

    @property
    def advice(self) -> Sequence[str]:
        """Why the mechanism that is recommended, what to do, and which number to make sure of: `MAX_ADVICE` sentences.

        They are the most important ones; `recommendation.sentences` has all.
        """
        sentences = self.recommendation.sentences if self.recommendation is not None else ()
        number = () if self.sensitivity is None else (f"{self.sensitivity.sentence}.",)
        return (*sentences[: MAX_ADVICE - len(number)], *number)

    def __repr__(self) -> str:
        from fedpact.report.records import comparison_line  # noqa: PLC0415 - imports go one way

        return comparison_line(self)

    def to_frame(self) -> Any:
        """A pandas frame with a row per mechanism and agent; needs pandas."""
        from fedpact.report.records import comparison_frame  # noqa: PLC0415 - optional dependency

        return comparison_frame(self)

    def plot(self, *, ax: Any = None) -> Any:
        """What every member gains under every mechanism, on `ax` or a new figure; needs matplotlib."""
        from fedpact.report.plots.results import plot_comparison  # noqa: PLC0415 - optional dependency

        return plot_comparison(self, ax=ax)


def compare(
    federation: Federation | Scenario,
    mechanisms: Sequence[Mechanism | str] | str | None = None,
    *,
    progress: Callable[[str], None] | None = None,
    uncertainty: Uncertainty | None = None,
    draws: int | None = None,
    rng: np.random.Generator | int | None = 0,
) -> Comparison:
    """Solve a federation under several mechanisms, given as objects or by name; see `compared_mechanisms` otherwise.

    A scenario is its federation, with its uncertainty; one of a pilot may say that its deal was measured to lose. The
    recommendation is then to stay alone, for that reason.

    "all" stands for all of fedpact's own, those of the literature included (`docs/theory/field.md`); one that does not
    take such a federation is then listed in `unsolved`, and `Comparison.verdicts` is the table of what holds.

    A baseline without an admissible equilibrium, or a fair deal that does not exist, is listed in `unsolved`; another
    mechanism that fails raises. `progress` is told the title of each mechanism before it is solved. With `uncertainty`,
    which a fitted scenario carries, every mechanism is also solved on `draws` of the federation (see
    `fedpact.comparison.outlook.outlooks`).

    Examples
    --------
    >>> from fedpact import load_scenario
    >>> comparison = compare(load_scenario("hospitals"))
    >>> comparison.recommendation.mechanism
    'externality'
    >>> comparison["shapley"].leavers
    ('Clinic',)
    """
    not_recommended, words, money = "", dict[str, Any](), None
    if isinstance(federation, Scenario):
        uncertainty = federation.uncertainty if uncertainty is None else uncertainty
        not_recommended, money = federation.not_recommended, federation.money
        words = {"money": money, "unit": federation.unit, "models": federation.models}
        federation = federation.federation
    require_federation(federation)
    chosen = compared_mechanisms(federation) if mechanisms is None else resolve_mechanisms(mechanisms)
    outcomes, unsolved = [], {}
    for mechanism in chosen:
        if progress is not None:
            progress(mechanism.title)
        try:
            outcome = mechanism.solve(federation)
            _ = outcome.payoffs  # which free riding may leave the domain of
            outcomes.append(outcome)
        except (NotConverged, OutsideDomain) as error:
            if not (mechanism.is_baseline or mechanism.has_side_payments):
                raise
            unsolved[mechanism.name] = error.text(money.text) if isinstance(error, NoFairDeal) and money else str(error)
        except InvalidInput as error:
            if mechanisms != ALL or mechanism.name in DEFAULT_MECHANISMS:
                raise
            unsolved[mechanism.name] = str(error)
    drawn = [each for each in chosen if each.name not in unsolved]
    if mechanisms in (None, ALL):
        quick = federation.n_agents <= MAX_AGENTS_FAIR_DRAWN
        usual = [each for each in compared_mechanisms(federation) if quick or not each.has_side_payments]
        drawn = [each for each in drawn if each in usual]
    return Comparison(
        federation=federation,
        outcomes=tuple(outcomes),
        mechanisms={mechanism.name: mechanism for mechanism in chosen},
        unsolved=unsolved,
        uncertainty={} if uncertainty is None else outlooks(federation, uncertainty, drawn, count=draws, rng=rng),
        not_recommended=not_recommended,
        **words,
    )


def _follow_departures(outcome: Outcome, mechanism: Mechanism) -> StableFederation:
    at_once = stable_federation(outcome.federation, mechanism, first=outcome)
    if len(at_once.members) > 1 or not at_once.departures:
        return at_once
    one_by_one = stable_federation(outcome.federation, mechanism, first=outcome, leave="worst")
    return one_by_one if len(one_by_one.members) > 1 and one_by_one.welfare > at_once.welfare else at_once
