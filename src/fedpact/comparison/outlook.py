"""The deal while its numbers are uncertain: every mechanism solved on draws of the federation.

Each draw is a federation as it may be. A mechanism is solved on each, so payments, gains against standing alone and
reciprocity have intervals, and there is a probability that each member would leave: the part of the draws in which it
does better alone. The endowment that keeps it with 95 % probability is what covers its loss in 95 % of the draws.

Where weights are assumed to be at least zero, nobody can lose under many mechanisms: that is a theorem about what was
assumed, and no draw could show otherwise. `Outlook.assumption` says so; such probabilities are not to be shown.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.comparison.batches import is_vectorised, solve_arrays
from fedpact.deals.outcome import Outcomes
from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays
from fedpact.mechanisms import Mechanism, resolve_mechanisms
from fedpact.scenario import Uncertainty
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, NotConverged

LEVEL, ASSURANCE = 0.9, 0.95
STACKED_DRAWS, SINGLE_DRAWS = 400, 60  # by default, of mechanisms that solve many federations at once, and of others
ASSUMED = "assumed: data that is shared never harms, under which nobody can lose by this deal; not measured"
FIELDS = ("contributions", "payments", "ir_gaps", "reciprocity_ratios", "lowest_fair_part", "welfare", "reciprocity")


@dataclass(frozen=True, kw_only=True, eq=False)
class Outlook:
    """What a mechanism may make of an uncertain federation.

    Attributes
    ----------
    outcomes
        One per draw; NaN where the mechanism could not be solved.
    assumption
        What has decided that nobody can leave, in words, whatever was measured; empty where the draws decide.
    level, assurance
        Probability of the intervals, and that with which `keeping_endowments` keep a member.
    """

    outcomes: Outcomes
    assumption: str = ""
    level: float = LEVEL
    assurance: float = ASSURANCE

    @property
    def mechanism(self) -> str:
        """The mechanism's name."""
        return self.outcomes.rules.name

    @property
    def title(self) -> str:
        """What people call the mechanism."""
        return self.outcomes.rules.title

    @property
    def agents(self) -> Sequence[str]:
        """The members' names."""
        return self.outcomes.federation.names

    @property
    def n_draws(self) -> int:
        """How many draws were solved."""
        return int(self.outcomes.solved.sum())

    @property
    def n_unsolved(self) -> int:
        """How many draws could not be solved."""
        return len(self.outcomes) - self.n_draws

    @cached_property
    def leave_probabilities(self) -> FloatArray:
        """(n,): the part of the draws in which the member would leave, beyond rounding."""
        return read_only_copy(self.outcomes.would_leave[self.outcomes.solved].mean(axis=0))

    @cached_property
    def keeping_endowments(self) -> FloatArray:
        """(n,): the endowment that keeps the member in `assurance` of the draws."""
        losses = np.where(self.outcomes.would_leave, -self.outcomes.ir_gaps, 0.0)[self.outcomes.solved]
        return read_only_copy(np.maximum(np.quantile(losses, self.assurance, axis=0, method="higher"), 0.0))

    def interval(self, field: str) -> FloatArray:
        """(n, 2) for a field per member or lot, (2,) for the others, of the draws in which it is defined."""
        if field not in FIELDS:
            raise InvalidInput(field="field", rule=f"must be one of {', '.join(FIELDS)}", value=field)
        numbers = np.asarray(getattr(self.outcomes, field))[self.outcomes.solved]
        tails = [(1.0 - self.level) / 2.0, (1.0 + self.level) / 2.0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # where it is defined in no draw, and so are its ends
            if np.isfinite(numbers).all():
                ends = np.quantile(numbers, tails, axis=0)
            else:  # ratios may be infinite, and there is nothing between one that is and one that is not
                ends = np.nanquantile(numbers, tails, axis=0, method="nearest")
        return read_only_copy(np.moveaxis(ends, 0, -1))


def outlooks(
    federation: Federation,
    uncertainty: Uncertainty,
    mechanisms: Sequence[Mechanism | str] | None = None,
    *,
    count: int | None = None,
    rng: np.random.Generator | int | None = 0,
) -> Mapping[str, Outlook]:
    """The outlook under each mechanism in which members federate, by the mechanism's name.

    Parameters
    ----------
    federation, uncertainty
        The numbers, and how sure they are.
    mechanisms
        All of fedpact's if not given; those in which nobody federates are left out, as nothing changes hands, and so
        are baselines and fair deals that there are on none of the draws.
    count
        How many draws; 400 where a mechanism solves many at once, else 60.
    rng
        A Generator, an int or None; the same draws serve every mechanism.

    Raises
    ------
    NotConverged
        If another mechanism could be solved on none of the draws.
    """
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise InvalidInput(field="count", rule="must be a positive whole number of draws", value=count)
    drawn = uncertainty.draws(federation, count or STACKED_DRAWS, rng)
    no_harm = uncertainty.signs == "positive" and not federation.has_harm
    found = {}
    for mechanism in resolve_mechanisms(mechanisms):
        if not mechanism.federated:
            continue
        few = drawn if count or is_vectorised(federation, mechanism) else drawn.at(slice(SINGLE_DRAWS))
        # Without harm nobody loses who pays nothing: others' data only adds to what a member could do alone.
        promised = Claim.INDIVIDUAL_RATIONALITY in mechanism.promises(federation) or not mechanism.has_payments
        try:
            outcomes = solve_draws(federation, few, mechanism)
        except NotConverged:
            if not (mechanism.is_baseline or mechanism.has_side_payments):
                raise
            continue
        found[mechanism.name] = Outlook(outcomes=outcomes, assumption=ASSUMED if no_harm and promised else "")
    return found


def solve_draws(federation: Federation, drawn: FederationArrays, mechanism: Mechanism) -> Outcomes:
    """The outcomes of a mechanism on federations that were drawn; loud where there is none."""
    outcomes = solve_arrays(federation, drawn, mechanism)
    if not outcomes.solved.any():
        why = f"{mechanism.title} could be solved on none of {len(outcomes)} draws"
        raise NotConverged(why) from outcomes.errors[0]
    return outcomes
