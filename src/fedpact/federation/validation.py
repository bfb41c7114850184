"""The rules of a federation's inputs; every entry that breaks one is an `InvalidInput` with its parts.

Errors are collected: whoever writes a scenario wants to hear of all of them at once. Ownership comes first, because
everything else is counted by it: costs and caps per lot, values and the payoff's parameters per task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from fedpact.federation.costs import Cost, as_cost
from fedpact.federation.lots import check_names, check_ownership, check_shared_caps, default_names, labels, owner_names
from fedpact.federation.payoffs import Payoff
from fedpact.utils.arrays import (
    MAX_ERRORS,
    POSITIVE,
    FloatArray,
    LotLabels,
    TaskLabels,
    align_columns,
    checked_numbers,
    label_positions,
    labels_of,
    positive,
    read_only_copy,
    real_numbers,
)
from fedpact.utils.errors import ErrorCollector, InvalidInput, short_repr

Costs: TypeAlias = "Cost | ArrayLike"
MAX_MEMBERS = 2000  # matrices of this size are what solvers work on
MAX_WEIGHTS = 5 * MAX_MEMBERS**2  # of a sparse matrix, which may say that it is larger than memory
MAX_SPAN = 1e8 * (1.0 + 1e-9)  # between the smallest and the largest weight, value or cost that is not zero

# What numbers must be, as a test and in words.
LIMIT = (lambda numbers: numbers >= 0, "at least zero")
AMOUNT = (lambda numbers: (numbers >= 0) & np.isfinite(numbers), "a number of at least zero")


def check_inputs(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a federation in the form it keeps them in, or one error that holds all errors."""
    errors = ErrorCollector()
    weights, owned = given["weights"], given["lot_owners"] is not None or given["task_owners"] is not None
    plain = np.asarray(weights) if owned and hasattr(weights, "columns") else weights
    names = given["names"]
    if names is None:
        owners = (given["lot_owners"], given["task_owners"])
        names = owner_names(*owners) if owned else errors.attempt(_names_of_weights, weights)
    matrix = errors.attempt(_check_matrix, plain, square=not owned, tasks=None if owned else names)
    size = None if owned or matrix is None else matrix.shape[0]
    known = default_names(size or 0)
    if names is not None:
        known = errors.attempt(check_names, "names", names, size, counted="rows of weights") or known
    if owned or not known:
        errors.raise_errors()
    if len(known) > MAX_MEMBERS:
        many = f", got {len(known):,}; ask about a part of them"
        raise InvalidInput(field="names", rule=f"must be at most {MAX_MEMBERS:,} members", value=len(known), given=many)
    shape = (len(known),) * 2 if matrix is None else matrix.shape
    ownership = errors.attempt(check_ownership, known, shape, given)
    if ownership is None:
        errors.raise_errors()
        raise AssertionError
    lots, tasks = known, known
    if owned:
        lots = LotLabels(labels(ownership.lot_owners, ownership.lot_names, known))
        tasks = TaskLabels(labels(ownership.task_owners, ownership.task_names, known))
        if hasattr(weights, "columns"):
            matrix = errors.attempt(_check_matrix, weights, square=False, tasks=tasks, lots=lots)
    if matrix is not None:
        errors.attempt(_check_entries, matrix, tasks, lots, square=not owned)
    found: dict[str, Any] = {"weights": matrix, "names": known}
    found["payoff"] = errors.attempt(_check_payoff, given["payoff"], tasks)
    found["costs"] = errors.attempt(as_cost, given["costs"], lots)
    found["shared_caps"] = errors.attempt(check_shared_caps, given["shared_caps"], ownership, lots, known)
    for field, rule, labels_each in (
        ("caps", LIMIT, lots),
        ("values", (positive, POSITIVE), tasks),
        ("joining_costs", AMOUNT, known),
        ("budgets", LIMIT, known),
    ):
        numbers = np.inf if given[field] is None and rule is LIMIT else given[field]
        found[field] = errors.attempt(_one_each, field, numbers, rule, labels_each)
    errors.raise_errors()
    found["home"] = _check_home(given["home"], found["caps"], lots, shares=bool(found["shared_caps"]))
    most = abs(found["weights"])
    spans = (
        ("weights", "given by", most.max(axis=0), lots),
        ("weights", "received by", most.max(axis=1), tasks),
        ("values", "", found["values"], tasks),
        ("costs", "", found["costs"].linear, lots),
    )
    for span in spans:
        errors.attempt(_check_span, *span)
    errors.raise_errors()
    return found | ownership._asdict()


def _check_span(field: str, by: str, numbers: FloatArray, names: Sequence[str]) -> None:
    """Numbers of one kind that are not zero lie within eight orders of magnitude: solvers are right to 1e-9 of them.

    Of weights these are the largest of each column, or row; `by` says which.
    """
    counted = np.where(numbers > 0, numbers, np.inf)
    smallest, largest = int(np.argmin(counted)), float(np.max(numbers))
    if not counted[smallest] < largest / MAX_SPAN:
        return
    found = f"{'at most ' if by else ''}{counted[smallest]:.3g} beside {largest:.3g}"
    raise InvalidInput(
        field=field,
        index=() if by else smallest,
        rule="must lie within eight orders of magnitude of each other",
        value=float(counted[smallest]),
        agent=names[smallest],
        whose=f'{by} "{names[smallest]}"' if by else None,
        given=f", got {found}; count in other units, or put 0 for what is of no use",
    )


def _names_of_weights(weights: Any) -> Sequence[str] | None:
    """The names that a frame of weights brings: its index, where its columns are the same in any order."""
    rows, columns = labels_of(weights), labels_of(weights, "columns")
    if rows is None and columns is None:
        return None
    if rows is None or columns is None:
        lacking = "index" if rows is None else "columns"
        why = f": its {lacking} only counts; label both, give names, or give its .to_numpy() to go by position"
        raise InvalidInput(field="weights", rule="must have the members' names on both sides", value=weights, given=why)
    label_positions("weights", columns, check_names("weights", rows, None), where="columns")
    return rows


def _check_matrix(
    given: Any, *, square: bool, tasks: Sequence[str] | None = None, lots: Sequence[str] | None = None
) -> FloatArray:
    """The weights as they are kept; a frame's rows and columns in the order of the names, where these are known."""
    if tasks is not None and labels_of(given) is not None:
        given = given.iloc[label_positions("weights", labels_of(given) or [], tasks)]
    if tasks is not None:
        given = align_columns("weights", given, tasks if lots is None else lots)
    if isinstance(given, list | tuple) and any(labels_of(row) is not None for row in given):
        rule = "must be a matrix, or a DataFrame with the members' names"
        raise InvalidInput(field="weights", rule=rule, value=given, given=", got a list of rows with labels")
    if sp.issparse(given) and np.prod(given.shape, dtype=float) > MAX_WEIGHTS:
        many = f", got a sparse matrix of shape {given.shape}; ask about a part of them"
        raise InvalidInput(field="weights", rule=f"must be of at most {MAX_MEMBERS:,} members", value=given, given=many)
    try:
        weights = read_only_copy(real_numbers(given.toarray() if sp.issparse(given) else given))
    except (TypeError, ValueError, OverflowError) as error:
        kind = "square matrix" if square else "matrix"
        raise InvalidInput(field="weights", rule=f"must be a {kind} of numbers", value=given) from error
    if weights.ndim != 2 or 0 in weights.shape or (square and weights.shape[0] != weights.shape[1]):
        square_rule = "must be a square matrix with a row per member"
        rule = square_rule if square else "must be a matrix with a row per task and a column per lot"
        raise InvalidInput(field="weights", rule=rule, value=given, given=f", got shape {weights.shape}")
    return weights


def _check_entries(weights: FloatArray, tasks: Sequence[str], lots: Sequence[str], *, square: bool) -> None:
    """Weights are finite, and in a square matrix a member's own data does not harm it."""
    errors, own = [], weights.diagonal()
    for row, column in np.argwhere(~np.isfinite(weights))[:MAX_ERRORS].tolist():
        whose = f'what "{lots[column]}" is worth to "{tasks[row]}"'
        where = {"index": (row, column), "agent": tasks[row], "whose": whose}
        errors.append(InvalidInput(field="weights", rule="must be finite", value=float(weights[row, column]), **where))
    for agent in np.flatnonzero(own < 0).tolist() if square else []:
        harmful = f", got {own[agent]:g}: a member's own data does not harm it"
        where = {"index": (agent, agent), "agent": tasks[agent], "given": harmful}
        errors.append(InvalidInput(field="weights", rule="must be at least zero", value=float(own[agent]), **where))
    if errors:
        raise InvalidInput.first_of(errors[:MAX_ERRORS])


def _check_payoff(payoff: Payoff, names: Sequence[str]) -> Payoff:
    if not isinstance(payoff, Payoff):
        rule = "must be a payoff family such as PowerLaw(beta=0.02)"
        raise InvalidInput(field="payoff", rule=rule, value=payoff)
    if type(payoff).__module__.partition(".")[0] != __name__.partition(".")[0]:
        _check_curve(payoff)
    for name, numbers in payoff.parameters.items():
        checked_numbers(f"payoff.{name}", numbers, positive, POSITIVE, names=names)
    return payoff


def _check_curve(payoff: Payoff) -> None:
    """A family from outside the package must rise and be concave, here at some data: solvers and proofs rest on it."""
    data = np.append(0.0, np.logspace(-6.0, 8.0, 57))[:, None]
    with np.errstate(all="ignore"):
        falls, steepens = ~(payoff.slope(data) >= 0), ~(payoff.curvature(data) <= 0)
    for label, wrong in (("slope", falls), ("curvature", steepens)):
        if wrong.any():
            where = float(data[int(np.argwhere(wrong)[0][0]), 0])
            rule = "must rise and be concave, or no deal is certain to be stable"
            raise InvalidInput(
                field="payoff", rule=rule, value=payoff, given=f": its {label} at {where:g} has the wrong sign"
            )


def _check_home(given: Any, caps: FloatArray, lots: Sequence[str], *, shares: bool) -> FloatArray | None:
    """The data that owners use at home, per lot; "all" is what they could share."""
    if given is None:
        return None
    if isinstance(given, str) and given != "all":
        raise InvalidInput(field="home", rule='must be "all", an amount or one per lot, or None', value=given)
    if isinstance(given, str) and not np.isfinite(caps).all():
        lot = int(np.argmin(np.isfinite(caps)))
        why = f', but the cap of "{lots[lot]}" is infinite; give caps, or the amounts at home'
        raise InvalidInput(field="home", index=lot, rule="can only be all of a finite cap", value=given, given=why)
    if isinstance(given, str) and shares:
        why = ", but lots share caps, such as one record raw and with noise; give the amounts that are used at home"
        raise InvalidInput(field="home", rule="cannot be all of lots that share a cap", value=given, given=why)
    return _one_each("home", caps if isinstance(given, str) else given, AMOUNT, lots)


def _one_each(field: str, given: ArrayLike, rule: tuple[Any, str], names: Sequence[str]) -> FloatArray:
    return read_only_copy(np.broadcast_to(checked_numbers(field, given, *rule, names=names), len(names)))


def require_federation(given: object) -> None:
    """Raise `InvalidInput` for what is not a federation, saying where one is."""
    from fedpact.federation.federation import Federation  # noqa: PLC0415 - a federation checks its inputs here

    if not isinstance(given, Federation):
        inside = isinstance(getattr(given, "federation", None), Federation)
        hint = ": take its .federation" if inside else f": {short_repr(given)}"
        kind = f", got a {type(given).__name__}{hint}"
        raise InvalidInput(field="federation", rule="must be a Federation", value=given, given=kind)
