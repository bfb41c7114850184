"""Many federations under one mechanism: solved at once where the mechanism can, one after the other where it cannot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

import numpy as np

from fedpact.certificates.claims import Certificate, Claim
from fedpact.deals.outcome import Outcomes
from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays, stack
from fedpact.mechanisms import Mechanism, resolve_mechanism
from fedpact.mechanisms.base import SOLVER_ERRORS
from fedpact.utils.errors import InvalidInput


def solve_batch(federations: Iterable[Federation], mechanism: Mechanism | str) -> Outcomes:
    """The outcomes of a mechanism on federations with the same members, lots and tasks: a sequence of `Outcome`.

    A federation that cannot be solved does not touch the others: its numbers are NaN, `statuses` says why, and
    `outcomes[index]` raises it.

    Examples
    --------
    >>> import numpy as np
    >>> from fedpact import Federation, PowerLaw
    >>> base = Federation(np.ones((3, 3)), costs=0.001, caps=400.0, payoff=PowerLaw(0.02))
    >>> outcomes = solve_batch([base, base.replace(costs=0.002)], "externality")
    >>> outcomes[1].contributions.round(4).tolist()
    [9.0215, 9.0215, 9.0215]
    """
    listed = _check_federations(federations)
    return solve_arrays(listed[0], stack(listed), resolve_mechanism(mechanism), listed)


def solve_arrays(
    federation: Federation, arrays: FederationArrays, rules: Mechanism, federations: Sequence[Federation] | None = None
) -> Outcomes:
    """The outcomes of federations given by their numbers, with one leading axis; `federation` is one like them.

    The federations themselves, where there are some, know what members have at home.
    """
    (count,) = arrays.shape
    together = rules.solve_stack(arrays)
    contributions = np.full((count, arrays.n_lots), np.nan) if together is None else np.array(together)
    payments, sides = np.full((count, arrays.n_agents), np.nan), np.zeros((count, arrays.n_agents))
    solved = np.flatnonzero(~np.isnan(contributions).any(axis=-1))
    if solved.size and not rules.has_side_payments:
        with suppress(*SOLVER_ERRORS):  # of one of them: each is solved alone, and says it
            payments[solved] = rules.payments(arrays.at(solved), contributions[solved])
    errors: dict[int, Exception] = {}
    for index in np.flatnonzero(np.isnan(payments).any(axis=-1)).tolist():
        one = federation.with_arrays(arrays.at(index)) if federations is None else federations[index]
        try:
            found = rules.solve(one)
            contributions[index], payments[index] = found.contributions, found.payments
            sides[index] = found.side_payments
        except SOLVER_ERRORS as error:
            errors[index] = error
            contributions[index] = payments[index] = sides[index] = np.nan
    return Outcomes(
        federation=federation,
        arrays=arrays,
        rules=rules,
        contributions=contributions,
        payments=payments,
        side_payments=sides,
        errors=errors,
        federations=federations,
    )


def certify_each(outcomes: Outcomes, claim: Claim, among: range | None = None) -> list[Certificate | None]:
    """The certificate of a claim for each outcome, or for some; None where there is none or it cannot be worked out."""
    found: list[Certificate | None] = [None] * len(outcomes)
    for index in np.flatnonzero(outcomes.solved).tolist():
        if among is None or index in among:
            with suppress(*SOLVER_ERRORS):
                found[index] = outcomes[index].certificates[claim]
    return found


def _check_federations(given: Iterable[Federation]) -> list[Federation]:
    listed = list(given) if isinstance(given, Iterable) else []
    if not listed or not all(isinstance(each, Federation) for each in listed):
        raise InvalidInput(field="federations", rule="must be a list of one federation or more", value=given)
    for index, federation in enumerate(listed):
        for label in ("names", "lot_owners", "task_owners", "payoff"):
            one, other = (getattr(each, label) for each in (listed[0], federation))
            same = type(one) is type(other) if label == "payoff" else np.array_equal(one, other)
            if not same:
                why = f"must all have the same {label}: those of number {index} are not those of the first"
                raise InvalidInput(field="federations", index=index, rule=why, value=federation, given="")
    return listed
