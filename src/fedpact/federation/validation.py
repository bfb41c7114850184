"""The rules of a federation's inputs; every entry that breaks one is an `InvalidInput` with its parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from fedpact.federation.costs import Cost, as_cost
from fedpact.federation.lots import (
    Owners,
    OwnersGiven,
    Ownership,
    SharedCap,
    SharedCapsGiven,
    checked_ownership,
    checked_shared_caps,
    default_names,
    labels,
    owner_names,
)
from fedpact.federation.payoffs import Payoff
from fedpact.utils.arrays import (
    MAX_ERRORS,
    POSITIVE,
    FloatArray,
    LotLabels,
    TaskLabels,
    align_columns,
    checked_numbers,
    labels_of,
    places_of,
    positive,
    read_only_copy,
    real_numbers,
)
from fedpact.utils.errors import ErrorCollector, InvalidInput, short_repr

Weights: TypeAlias = "FloatArray | sp.csr_array"  # the row receives, the column gives
Costs: TypeAlias = "Cost | ArrayLike | Sequence[Cost | float]"


class Inputs(NamedTuple):
    """What a federation is made of, checked and in the form it is kept in."""

    weights: Weights
    costs: Cost
    payoff: Payoff
    caps: FloatArray
    names: tuple[str, ...]
    values: FloatArray
    lot_owners: Owners
    task_owners: Owners
    lot_names: tuple[str, ...]
    task_names: tuple[str, ...]
    shared_caps: tuple[SharedCap, ...] = ()


def federation_errors(
    weights: ArrayLike | sp.sparray,
    *,
    costs: Costs,
    payoff: Payoff,
    caps: ArrayLike = np.inf,
    names: Sequence[str] | None = None,
    values: ArrayLike = 1.0,
    lot_owners: OwnersGiven | None = None,
    task_owners: OwnersGiven | None = None,
    lot_names: Sequence[str] | None = None,
    task_names: Sequence[str] | None = None,
    shared_caps: SharedCapsGiven | None = None,
) -> tuple[InvalidInput, ...]:
    """Everything that is wrong with the inputs of a federation; they are those of `Federation`.

    Examples
    --------
    >>> from fedpact.federation import Log
    >>> for error in federation_errors([[1.0, 0.5], [0.2, -1.0]], costs=[0.1, 0.0], payoff=Log(), caps=-5.0):
    ...     print(error)
    weights[1, 1] must be positive, got -1: a member's own data is useful to it (member "agent 1")
    costs[1] must be positive, got 0 (member "agent 1")
    caps must be at least zero, got -5
    """
    try:
        checked_inputs(
            weights,
            costs=costs,
            payoff=payoff,
            caps=caps,
            names=names,
            values=values,
            lot_owners=lot_owners,
            task_owners=task_owners,
            lot_names=lot_names,
            task_names=task_names,
            shared_caps=shared_caps,
        )
    except InvalidInput as error:
        return error.errors
    return ()


def checked_inputs(
    weights: ArrayLike | sp.sparray,
    *,
    costs: Costs,
    payoff: Payoff,
    caps: ArrayLike,
    names: Sequence[str] | None,
    values: ArrayLike,
    lot_owners: OwnersGiven | None,
    task_owners: OwnersGiven | None,
    lot_names: Sequence[str] | None,
    task_names: Sequence[str] | None,
    shared_caps: SharedCapsGiven | None = None,
) -> Inputs:
    """The inputs of a federation in the form it keeps them in, or an error that holds all errors."""
    errors = ErrorCollector()
    if lot_owners is not None or task_owners is not None:
        owned = {"lot_owners": lot_owners, "task_owners": task_owners}
        owned |= {"lot_names": lot_names, "task_names": task_names}
        numbers: dict[str, Any] = {"costs": costs, "payoff": payoff, "caps": caps, "values": values}
        return _inputs_with_lots(weights, names, owned, shared_caps, **numbers)
    names = errors.attempt(_names_of_weights, weights) if names is None else names
    matrix = errors.attempt(_checked_matrix, weights, tasks=names, lots=names)
    size = None if matrix is None else matrix.shape[0]
    known = errors.attempt(checked_names, names, size, counted="rows of weights")
    if known is None:
        known = default_names(size or 0)
    if matrix is not None:
        errors.attempt(_check_entries, matrix, known, known)
        errors.attempt(_check_own_weights, matrix, known)
    elif not known:  # how many agents there are is anybody's guess
        errors.raise_errors()
    numbers = _checked_numbers(errors, known, known, costs=costs, payoff=payoff, caps=caps, values=values)
    named = {"lot_names": lot_names, "task_names": task_names}
    ownership = errors.attempt(checked_ownership, known, (len(known),) * 2, lot_owners=None, task_owners=None, **named)
    if shared_caps:
        why = ": a member with one lot has nothing to share it with; say whose the lots are with lot_owners"
        errors.errors.append(InvalidInput(field="shared_caps", rule="needs members with several lots", given=why))
    errors.raise_errors()
    return _inputs(matrix, known, ownership, numbers)


def _inputs_with_lots(
    weights: ArrayLike | sp.sparray,
    names: Sequence[str] | None,
    owned: Mapping[str, Any],
    shared_caps: SharedCapsGiven | None,
    **numbers: Any,
) -> Inputs:
    """The same where agents own several lots or tasks; an agent's own data need not be useful to it."""
    errors = ErrorCollector()
    matrix = errors.attempt(
        _checked_matrix, np.asarray(weights) if hasattr(weights, "columns") else weights, square=False
    )
    found = owner_names(owned["lot_owners"], owned["task_owners"]) if names is None else names
    known = errors.attempt(checked_names, found, None)
    errors.raise_errors()
    assert matrix is not None and known is not None
    ownership = errors.attempt(checked_ownership, known, matrix.shape, **owned)
    errors.raise_errors()
    assert ownership is not None
    lots = LotLabels(labels(ownership.lot_owners, ownership.lot_names, known))
    tasks = TaskLabels(labels(ownership.task_owners, ownership.task_names, known))
    if hasattr(weights, "columns"):
        matrix = errors.attempt(_checked_matrix, weights, square=False, tasks=tasks, lots=lots)
        errors.raise_errors()
        assert matrix is not None
    errors.attempt(_check_entries, matrix, tasks, lots)
    checked = _checked_numbers(errors, lots, tasks, **numbers)
    named: dict[str, Any] = {"owners": ownership.lot_owners, "lot_names": ownership.lot_names, "names": known}
    shared = errors.attempt(checked_shared_caps, shared_caps, labels=lots, **named)
    errors.raise_errors()
    return _inputs(matrix, known, ownership, checked, shared or ())


def _inputs(
    matrix: Weights | None,
    names: tuple[str, ...],
    ownership: Ownership | None,
    numbers: Any,
    shared_caps: tuple[SharedCap, ...] = (),
) -> Inputs:
    assert matrix is not None and ownership is not None
    return Inputs(weights=matrix, names=names, **numbers, **ownership._asdict(), shared_caps=shared_caps)


def _checked_numbers(
    errors: ErrorCollector,
    lots: Sequence[str],
    tasks: Sequence[str],
    *,
    costs: Costs,
    payoff: Payoff,
    caps: ArrayLike,
    values: ArrayLike,
) -> dict[str, Any]:
    """Costs and caps per lot, payoff and values per task; None for what is wrong with one of them."""
    return {
        "payoff": errors.attempt(_checked_payoff, payoff, tasks),
        "costs": errors.attempt(as_cost, costs, lots),
        "caps": errors.attempt(_one_each, "caps", caps, lambda caps: caps >= 0, "at least zero", lots),
        "values": errors.attempt(_one_each, "values", values, positive, POSITIVE, tasks),
    }


def checked_names(given: Sequence[str] | None, n_agents: int | None, *, counted: str = "members") -> tuple[str, ...]:
    """One name per agent, all different; "agent 0", "agent 1", ... if none are given.

    Parameters
    ----------
    given
        The names, or None.
    n_agents
        How many agents there are; None if nobody knows.
    counted
        What there are `n_agents` of, in words.
    """
    if given is None:
        return default_names(n_agents or 0)
    listed = isinstance(given, Iterable) and not isinstance(given, str)
    if not listed or not all(isinstance(name, str) and name.strip() for name in given):
        raise InvalidInput(field="names", rule="must be non-empty strings, one per member", value=given)
    names = tuple(given)
    if n_agents is not None and len(names) != n_agents:
        counts = f": {n_agents} {counted}, {len(names)} names given"
        raise InvalidInput(field="names", rule="must have one entry per member", value=given, given=counts)
    errors = ErrorCollector()
    seen: set[str] = set()
    for agent, name in enumerate(names):
        if name in seen:
            twice = f', "{name}" appears twice'
            rule = "must differ from the others"
            errors.errors.append(InvalidInput(field="names", index=agent, rule=rule, value=name, given=twice))
        seen.add(name)
    errors.raise_errors()
    return names


def _names_of_weights(weights: Any) -> Sequence[str] | None:
    """The names that a frame of weights brings: its index, where its columns are the same in any order."""
    rows, columns = labels_of(weights), labels_of(weights, "columns")
    if rows is None and columns is None:
        return None
    if rows is None or columns is None:
        lacking = "index" if rows is None else "columns"
        why = f": its {lacking} only counts; label both, give names, or give its .to_numpy() to go by position"
        raise InvalidInput(field="weights", rule="must have the members' names on both sides", value=weights, given=why)
    places_of("weights", columns, checked_names(rows, None), where="columns")
    return rows


def _checked_matrix(
    given: Any, *, square: bool = True, tasks: Sequence[str] | None = None, lots: Sequence[str] | None = None
) -> Weights:
    """The weights as they are kept; a frame's rows and columns in the order of the names, where these are known."""
    if tasks is not None and labels_of(given) is not None:
        given = given.iloc[places_of("weights", labels_of(given) or [], tasks)]
    if lots is not None:
        given = align_columns("weights", given, lots)
    if sp.issparse(given) and given.dtype.kind in "iuf":
        weights = sp.csr_array(given, dtype=np.float64, copy=True)
        weights.sum_duplicates()
        weights.eliminate_zeros()
        weights.sort_indices()
        for part in (weights.data, weights.indices, weights.indptr):
            part.setflags(write=False)
    else:
        if isinstance(given, list | tuple) and any(labels_of(row) is not None for row in given):
            rule = "must be a matrix, or a DataFrame with the members' names"
            raise InvalidInput(field="weights", rule=rule, value=given, given=", got a list of rows with labels")
        try:
            weights = read_only_copy(real_numbers(given))
        except (TypeError, ValueError, OverflowError) as error:
            kind = "square matrix" if square else "matrix"
            raise InvalidInput(field="weights", rule=f"must be a {kind} of numbers", value=given) from error
    if weights.ndim != 2 or 0 in weights.shape or (square and weights.shape[0] != weights.shape[1]):
        shape = f", got shape {weights.shape}"
        square_rule = "must be a square matrix with a row per member"
        rule = square_rule if square else "must be a matrix with a row per task and a column per lot"
        raise InvalidInput(field="weights", rule=rule, value=given, given=shape)
    return weights


def _check_entries(weights: Weights, tasks: Sequence[str], lots: Sequence[str]) -> None:
    numbers = weights if isinstance(weights, np.ndarray) else weights.data
    if np.isfinite(numbers).all():
        return
    entries = sp.coo_array(weights)
    rows, columns = entries.coords
    infinite = ~np.isfinite(entries.data)
    errors = [
        InvalidInput(
            field="weights",
            index=(int(row), int(column)),
            rule="must be finite",
            value=float(number),
            agent=tasks[row],
            whose=f'what "{lots[column]}" is worth to "{tasks[row]}"',
        )
        for row, column, number in zip(rows[infinite], columns[infinite], entries.data[infinite], strict=True)
    ]
    raise InvalidInput.first_of(errors[:MAX_ERRORS])


def _check_own_weights(weights: Weights, names: Sequence[str]) -> None:
    own = weights.diagonal()
    errors = [
        InvalidInput(
            field="weights",
            index=(agent, agent),
            rule="must be positive",
            value=float(own[agent]),
            agent=names[agent],
            given=f", got {own[agent]:g}: a member's own data is useful to it",
        )
        for agent in np.flatnonzero(np.isfinite(own) & (own <= 0)).tolist()
    ]
    if errors:
        raise InvalidInput.first_of(errors[:MAX_ERRORS])


def _checked_payoff(payoff: Payoff, names: Sequence[str]) -> Payoff:
    if not isinstance(payoff, Payoff):
        rule = "must be a payoff family such as PowerLaw(beta=0.02)"
        raise InvalidInput(field="payoff", rule=rule, value=payoff)
    return payoff.per_agent(names)


def _one_each(field: str, given: ArrayLike, accepts: Any, rule: str, names: Sequence[str]) -> FloatArray:
    return read_only_copy(np.broadcast_to(checked_numbers(field, given, accepts, rule, names=names), len(names)))


def require_federation(given: object) -> None:
    """Raise `InvalidInput` for what is not a federation, saying where one is."""
    from fedpact.federation.federation import Federation  # noqa: PLC0415 - a federation checks its inputs here

    if not isinstance(given, Federation):
        inside = isinstance(getattr(given, "federation", None), Federation)
        hint = ": take its .federation" if inside else f": {short_repr(given)}"
        kind = f", got a {type(given).__name__}{hint}"
        raise InvalidInput(field="federation", rule="must be a Federation", value=given, given=kind)
