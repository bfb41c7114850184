"""The deal while its numbers are uncertain: every mechanism solved on draws of the federation.

Each draw is a federation as it may be. A mechanism is solved on each, so payments, gains against standing alone and
reciprocity have intervals, and there is a probability that each member would leave: the part of the draws in which it
does better alone. The endowment that keeps it with 95 % probability is what covers its loss in 95 % of the draws.

Where weights are assumed to be at least zero, nobody can lose under many mechanisms: that is a theorem about what was
assumed, and no draw could show otherwise. `Outlook.assumption` says so; such probabilities are not to be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.comparison.batches import solve_arrays
from fedpact.comparison.sweeps import is_vectorised
from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays
from fedpact.mechanisms import Mechanism, resolve_mechanism, resolve_mechanisms
from fedpact.scenario import FederationDraws, Uncertainty
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, NotConverged

LEVEL, ASSURANCE = 0.9, 0.95
STACKED_DRAWS, SINGLE_DRAWS = 400, 60  # by default, of mechanisms that solve many federations at once, and of others
SEED = 0
ASSUMED = "assumed: data that is shared never harms, under which nobody can lose by this deal; not measured"


@dataclass(frozen=True, kw_only=True, eq=False)
class Outlook:
    """What a mechanism may make of an uncertain federation; arrays are (draws, n) unless said otherwise.

    Where members have several lots, contributions are (draws, lots).

    Attributes
    ----------
    mechanism, title, agents
        Whose outcomes these are.
    contributions, payments, ir_gaps, reciprocity_ratios
        By draw; NaN where the mechanism could not be solved or a ratio is not defined.
    lowest_fair_part, welfare
        (draws,): the smallest ratio of those whose Shapley share is above zero, and the welfare.
    leaves
        Whether the member would rather train alone, beyond rounding.
    level
        Probability of the intervals.
    assurance
        Probability with which `keeping_endowments` keep a member.
    assumption
        What has decided that nobody can leave, in words, whatever was measured; empty where the draws decide.
    """

    mechanism: str
    title: str
    agents: Sequence[str]
    contributions: FloatArray
    payments: FloatArray
    ir_gaps: FloatArray
    reciprocity_ratios: FloatArray
    lowest_fair_part: FloatArray
    welfare: FloatArray
    leaves: np.ndarray
    level: float = LEVEL
    assurance: float = ASSURANCE
    assumption: str = ""

    @property
    def n_draws(self) -> int:
        """How many draws were solved."""
        return int(self._solved.sum())

    @property
    def n_unsolved(self) -> int:
        """How many draws could not be solved."""
        return int((~self._solved).sum())

    @cached_property
    def leave_probabilities(self) -> FloatArray:
        """(n,): the part of the draws in which the member would leave."""
        return read_only_copy(self.leaves[self._solved].mean(axis=0))

    @cached_property
    def keeping_endowments(self) -> FloatArray:
        """(n,): the endowment that keeps the member in `assurance` of the draws."""
        losses = np.where(self.leaves, -self.ir_gaps, 0.0)[self._solved]
        return read_only_copy(np.maximum(np.quantile(losses, self.assurance, axis=0, method="higher"), 0.0))

    def interval(self, field: str) -> FloatArray:
        """(n, 2) for a field per member, (2,) for the others; "reciprocity" is the smallest ratio of all."""
        known = (
            "contributions",
            "payments",
            "ir_gaps",
            "reciprocity_ratios",
            "lowest_fair_part",
            "welfare",
            "reciprocity",
        )
        if field not in known:
            raise InvalidInput(field="field", rule=f"must be one of {', '.join(known)}", value=field)
        numbers = self.reciprocity_ratios.min(axis=1) if field == "reciprocity" else getattr(self, field)
        solved = numbers[self._solved]
        tails = [(1.0 - self.level) / 2.0, (1.0 + self.level) / 2.0]
        return read_only_copy(np.stack([_quantile(solved, tail) for tail in tails], axis=-1))

    @cached_property
    def _solved(self) -> np.ndarray:
        return np.asarray(~np.isnan(self.payments).any(axis=1))


def outlooks(
    federation: Federation,
    uncertainty: Uncertainty,
    mechanisms: Sequence[Mechanism | str] | None = None,
    *,
    count: int | None = None,
    rng: np.random.Generator | int | None = SEED,
    progress: Callable[[str], None] | None = None,
) -> Mapping[str, Outlook]:
    """The outlook under each mechanism in which members federate, by the mechanism's name.

    Parameters
    ----------
    federation, uncertainty
        The numbers, and how sure they are.
    mechanisms
        All of fedpact's if not given; those in which nobody federates are left out, as nothing changes hands.
    count
        How many draws; 400 where a mechanism solves many at once, else 60.
    rng
        A Generator, an int or None; the same draws serve every mechanism.
    progress
        Told the title of each mechanism before it is solved.

    Raises
    ------
    NotConverged
        If a mechanism could be solved on none of the draws.
    """
    chosen = [each for each in resolve_mechanisms(mechanisms) if each.federated]
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise InvalidInput(field="count", rule="must be a positive whole number of draws", value=count)

    def judged(mechanism: Mechanism, outlook: Outlook) -> Outlook:
        return replace(outlook, assumption=ASSUMED if nobody_can_lose(federation, uncertainty, mechanism) else "")

    drawn = uncertainty.draws(federation, count or STACKED_DRAWS, rng)
    found = {}
    for mechanism in chosen:
        if progress is not None:
            progress(mechanism.title)
        most = None if count or is_vectorised(federation, mechanism) else SINGLE_DRAWS
        outlook = outlook_of(federation, drawn_arrays(federation, drawn, most), mechanism)
        found[mechanism.name] = judged(mechanism, outlook)
    return found


def nobody_can_lose(federation: Federation, uncertainty: Uncertainty, mechanism: Mechanism) -> bool:
    """Whether all draws have weights of at least zero, and nobody loses under a mechanism then.

    Either it promises that, or nobody pays: others' data only adds to what a member could do alone.
    """
    if uncertainty.signs != "positive" or federation.has_harm:
        return False
    return Claim.INDIVIDUAL_RATIONALITY in mechanism.promises(federation) or not mechanism.has_payments


def drawn_arrays(federation: Federation, drawn: FederationDraws, max_draws: int | None = None) -> FederationArrays:
    """The numbers of the drawn federations, at most the first `max_draws`, with one leading axis."""
    arrays = federation.arrays
    parameters = dict.fromkeys(arrays.payoff.parameters, drawn.parameter[:max_draws])
    weights, values = drawn.weights[:max_draws], drawn.values[:max_draws]
    payoff = arrays.payoff.unchecked(**parameters)
    return arrays.repeated(len(weights), weights=weights, values=values, payoff=payoff)


def outlook_of(federation: Federation, drawn: FederationArrays, mechanism: Mechanism | str) -> Outlook:
    """The outlook of a mechanism on federations that were drawn already."""
    mechanism = resolve_mechanism(mechanism)
    outcomes = solve_arrays(federation, drawn, mechanism)
    if not outcomes.solved.any():
        why = f"{mechanism.title} could be solved on none of {len(outcomes)} draws"
        raise NotConverged(why) from outcomes.errors[0]
    return Outlook(
        mechanism=mechanism.name,
        title=mechanism.title,
        agents=federation.names,
        contributions=outcomes.contributions,
        payments=outcomes.payments,
        ir_gaps=outcomes.ir_gaps,
        reciprocity_ratios=outcomes.reciprocity_ratios,
        lowest_fair_part=outcomes.lowest_fair_part,
        welfare=outcomes.welfare,
        leaves=outcomes.would_leave,
    )


def _quantile(numbers: FloatArray, tail: float) -> Any:
    """By column, of what is defined; infinite ratios count, so no interpolation between them."""
    columns = numbers.reshape(len(numbers), -1).T
    method: Any = "linear" if np.isfinite(numbers).all() else "nearest"
    found = [
        np.quantile(known, tail, method=method) if (known := column[~np.isnan(column)]).size else np.nan
        for column in columns
    ]
    return np.array(found).reshape(numbers.shape[1:])
