"""Many federations solved under one mechanism: what `Outcome` says of one of them, as arrays over all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.reciprocity import fair_parts, reciprocity_ratios
from fedpact.certificates.tolerances import agent_values, utility_tolerances, would_leave
from fedpact.comparison.batch_certificates import BatchCertificates, Judgements
from fedpact.deals import Outcome
from fedpact.federation import Batch, Federation
from fedpact.mechanisms import Mechanism, resolve_mechanism
from fedpact.mechanisms.base import SOLVER_ERRORS
from fedpact.mechanisms.externality import price_payments
from fedpact.programs.best_response import standalone_optimum
from fedpact.shapley import shapley_values
from fedpact.shapley.enumeration import enumerate_blocks
from fedpact.shapley.routes import MAX_COALITION_AGENTS
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, OutsideDomain

SOLVED = "solved"


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchOutcome:
    """What a mechanism makes of every federation of a batch; arrays are (federations, n) unless said otherwise.

    Where agents have several lots, contributions and what is said of them are (federations, lots).

    Attributes
    ----------
    batch, mechanism
        What was solved, and how.
    contributions, payments
        The profiles and the payments; NaN where a federation could not be solved.
    several
        Places of the federations whose equilibrium is one of several.
    outcomes
        Of the federations that were solved alone, by their place.
    errors
        Why a federation could not be solved, by its place.
    """

    batch: Batch
    mechanism: Mechanism
    contributions: FloatArray
    payments: FloatArray
    several: Sequence[int] = ()
    outcomes: Mapping[int, Outcome] = field(default_factory=dict)
    errors: Mapping[int, Exception] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "contributions", read_only_copy(self.contributions))
        object.__setattr__(self, "payments", read_only_copy(self.payments))

    def __len__(self) -> int:
        return len(self.batch)

    def __iter__(self) -> Iterator[Outcome]:
        return (self[place] for place in range(len(self)))

    def __getitem__(self, place: int) -> Outcome:
        if not -len(self) <= place < len(self):
            raise IndexError(f"the batch has {len(self)} federations, there is no number {place}")
        place %= len(self)
        if place in self.errors:
            raise self.errors[place]
        contributions, payments = self.contributions[place], self.payments[place]
        alone = self.outcomes.get(place)
        if alone is None:
            return self.mechanism.at_equilibrium(self.batch[place], contributions, payments)
        same = np.array_equal(alone.contributions, contributions) and np.array_equal(alone.payments, payments)
        return alone if same else alone.with_profile(contributions, payments)

    @cached_property
    def solved(self) -> NDArray[np.bool_]:
        """(federations,): whether an equilibrium was found."""
        return np.asarray(~np.isnan(self.contributions).any(axis=1))

    @property
    def statuses(self) -> Sequence[str]:
        """What became of each federation: "solved", or why it could not be."""
        return tuple(str(self.errors[place]) if place in self.errors else SOLVED for place in range(len(self)))

    @cached_property
    def profile(self) -> FloatArray:
        """The contributions as one profile of the joined federation; zero where there are none."""
        return read_only_copy(np.nan_to_num(self.contributions).ravel())

    @cached_property
    def played(self) -> Federation:
        """The joined federation, or its agents on their own where nobody federates."""
        return self.batch.joined if self.mechanism.federated else self.batch.joined.without_sharing()

    @cached_property
    def payoffs(self) -> FloatArray:
        """What each gets: a_i(s), or less where the mechanism hands out less than the whole model."""
        if self.mechanism.has_payoff_rule:
            return self._per_agent(self.mechanism.payoff_rule)
        return self._per_agent(lambda played, profile: played.payoffs(profile))

    @cached_property
    def costs(self) -> FloatArray:
        """c_i(s_i)."""
        return self._per_agent(lambda played, profile: played.spending(profile))

    @cached_property
    def side_payments(self) -> FloatArray:
        """The part of the payments that does not depend on anybody's contribution."""
        parts = np.where(self.solved[:, None], np.zeros(self.payments.shape), np.nan)
        if self.mechanism.has_side_payments:
            parts += self.payments - self._per_agent(price_payments)
        for place, outcome in self.outcomes.items():
            parts[place] = outcome.side_payments
        return read_only_copy(parts)

    @cached_property
    def utilities(self) -> FloatArray:
        """u_i = a_i - c_i + p_i."""
        return read_only_copy(self.payoffs - self.costs + self.payments)

    @cached_property
    def welfare(self) -> FloatArray:
        """(federations,): sum of payoffs minus sum of costs."""
        return read_only_copy(self.payoffs.sum(axis=1) - self.costs.sum(axis=1))

    @cached_property
    def standalone(self) -> FloatArray:
        """v_i*, the best each agent could do alone."""
        return self._per_agent(lambda played, _: standalone_optimum(played)[1])

    @cached_property
    def ir_gaps(self) -> FloatArray:
        """u_i - v_i*: below zero the agent would rather train alone."""
        return read_only_copy(self.utilities - self.standalone)

    @cached_property
    def endowments(self) -> FloatArray:
        """max(0, -gap): what it would take to keep each agent."""
        return read_only_copy(np.maximum(0.0, -self.ir_gaps))

    @cached_property
    def tolerances(self) -> FloatArray:
        """What counts as rounding in each agent's utility."""
        values = self.batch.split(agent_values(self.batch.joined))
        return read_only_copy(utility_tolerances(self.payoffs, self.costs, self.payments, values))

    @cached_property
    def would_leave(self) -> NDArray[np.bool_]:
        """Who would rather train alone, beyond rounding."""
        return would_leave(self.ir_gaps, self.tolerances)

    @cached_property
    def shapley_values(self) -> FloatArray:
        """phi_i; NaN where a coalition leaves the domain."""
        return read_only_copy(np.where(self.solved[:, None], self._shares[0], np.nan))

    @cached_property
    def shapley_slopes(self) -> FloatArray:
        """d phi_i / d s_i; NaN where a coalition leaves the domain."""
        return read_only_copy(np.where(self.solved[:, None], self._shares[1], np.nan))

    @cached_property
    def reciprocity_ratios(self) -> FloatArray:
        """(a_i + p_i) / phi_i."""
        return read_only_copy(reciprocity_ratios(self.payoffs + self.payments, self.shapley_values))

    @cached_property
    def reciprocity_gaps(self) -> FloatArray:
        """a_i + p_i - phi_i."""
        return read_only_copy(self.payoffs + self.payments - self.shapley_values)

    @cached_property
    def reciprocity(self) -> FloatArray:
        """(federations,): the smallest ratio at this equilibrium."""
        return read_only_copy(self.reciprocity_ratios.min(axis=1))

    @cached_property
    def lowest_fair_part(self) -> FloatArray:
        """(federations,): the smallest ratio of those whose Shapley share is above zero; NaN where there is none."""
        parts = fair_parts(self.payoffs + self.payments, self.shapley_values)
        return read_only_copy(np.fmin.reduce(parts, axis=1))

    @cached_property
    def net_externality(self) -> FloatArray:
        """T_i: what one more sample of i's is worth to all the others together."""
        return self._per_agent(lambda played, profile: played.net_externality(profile))

    @cached_property
    def on_boundary(self) -> NDArray[np.bool_]:
        """Whether an agent contributes nothing, or as much as it can."""
        caps = self.batch.split(self.batch.joined.caps)
        return np.asarray((self.contributions <= 0) | (self.contributions >= caps))

    @cached_property
    def in_domain(self) -> NDArray[np.bool_]:
        """(federations,): whether every coalition's reach lies in the domain, so that Shapley values are defined."""
        lowest = self.played.lowest_data(self.profile)
        return np.asarray(self.batch.split(lowest > self.played.payoff.floor).all(axis=1) & self.solved)

    @cached_property
    def certificates(self) -> Mapping[str, Judgements]:
        """Margins and verdicts of every claim, by the claim's name."""
        return BatchCertificates(self)

    @cached_property
    def _shares(self) -> tuple[FloatArray, FloatArray]:
        if self.batch.n_agents <= MAX_COALITION_AGENTS and not self.batch.has_lots:
            return enumerate_blocks(self.played, self.profile, len(self))
        values, slopes = np.full(self.payments.shape, np.nan), np.full(self.contributions.shape, np.nan)
        for place, federation in enumerate(self.batch):
            played = federation if self.mechanism.federated else federation.without_sharing()
            try:
                found = shapley_values(played, np.nan_to_num(self.contributions[place]))
            except OutsideDomain:
                continue
            values[place], slopes[place] = found.values, found.gradient
        return values, slopes

    def __repr__(self) -> str:
        from fedpact.report.display import batch_outcome_line  # noqa: PLC0415 - imports go one way

        return batch_outcome_line(self)

    def to_frame(self) -> Any:
        """A pandas frame with a row per federation and agent; needs pandas."""
        from fedpact.report.display import batch_outcome_frame  # noqa: PLC0415 - optional dependency

        return batch_outcome_frame(self)

    def _per_agent(self, compute: Callable[[Federation, FloatArray], FloatArray]) -> FloatArray:
        """What is computed of all federations side by side, or of each alone where one of them spoils that."""
        try:
            numbers = self.batch.split(compute(self.played, self.profile))
        except SOLVER_ERRORS:
            alone: dict[int, FloatArray] = {}
            for place in np.flatnonzero(self.solved).tolist():
                federation = self.batch[place]
                played = federation if self.mechanism.federated else federation.without_sharing()
                with suppress(*SOLVER_ERRORS):
                    alone[place] = compute(played, self.contributions[place])
            width = next((each.size for each in alone.values()), self.batch.n_agents)
            numbers = np.array([alone.get(place, np.full(width, np.nan)) for place in range(len(self))])
        return read_only_copy(np.where(self.solved[:, None], numbers, np.nan))


def solve_batch(
    federations: Batch | Iterable[Federation],
    mechanism: Mechanism | str,
    *,
    progress: Callable[[int], None] | None = None,
) -> BatchOutcome:
    """The outcome of a mechanism on every one of many federations, the same as solving each alone.

    `progress` is called with the number of federations that are done, now and then. A federation that cannot be solved
    does not touch the others: its numbers are NaN, `outcome.statuses` says why, and `outcome[place]` raises it.

    Examples
    --------
    >>> import numpy as np
    >>> from fedpact import Federation, PowerLaw
    >>> base = Federation(np.ones((3, 3)), costs=0.001, caps=400.0, payoff=PowerLaw(0.02))
    >>> outcome = solve_batch(Batch.vary(base, costs=np.array([[0.001], [0.002]])), "externality")
    >>> outcome.contributions[0].round(4).tolist()
    [18.1238, 18.1238, 18.1238]
    """
    rules = resolve_mechanism(mechanism)
    batch = federations if isinstance(federations, Batch) else Batch.of(_check_federations(federations))
    solution = rules.solve_batch(batch, progress=progress)
    return BatchOutcome(
        batch=batch,
        mechanism=rules,
        contributions=solution.contributions,
        payments=solution.payments,
        several=solution.several,
        outcomes=solution.outcomes,
        errors=solution.errors,
    )


def _check_federations(given: Iterable[Federation]) -> list[Federation]:
    field, rule = "federations", "must be a Batch or a list of federations"
    if not isinstance(given, Iterable):
        raise InvalidInput(field=field, rule=rule, value=given, given=f", got {type(given).__name__}")
    federations = list(given)
    for place, federation in enumerate(federations):
        if not isinstance(federation, Federation):
            found = f", but number {place} is {type(federation).__name__}"
            raise InvalidInput(f"{field} {rule}{found}", field=field, index=place, rule=rule, value=federation)
    return federations
