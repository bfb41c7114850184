"""Many federations under one mechanism: at once where it can, one after the other where it cannot; long work in pieces.

Sweeps and studies cut their federations into pieces and keep those that are done. Where a mechanism solves few members
of many federations at once, that is fast in one process. Other pieces are shared out to worker processes, where there
is enough to do for them to pay.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from fedpact.certificates.claims import Certificate, Claim
from fedpact.deals.outcome import Outcomes
from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays, stack
from fedpact.mechanisms import Mechanism, resolve_mechanism
from fedpact.mechanisms.base import SOLVER_ERRORS
from fedpact.utils.checkpoint import Checkpoint
from fedpact.utils.errors import InvalidInput
from fedpact.utils.parallel import map_parallel
from fedpact.utils.threads import thread_count

MAX_STACKED_AGENTS = 12  # whose federations are solved at once
MIN_SHARED_FEDERATIONS = 200  # for which starting worker processes pays

Arrays = dict[str, np.ndarray]


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
    listed = list(federations) if isinstance(federations, Iterable) else []
    if not listed or not all(isinstance(each, Federation) for each in listed):
        raise InvalidInput(field="federations", rule="must be a list of one federation or more", value=federations)
    for label in ("names", "lot_owners", "task_owners", "payoff"):
        values = [getattr(each, label) for each in listed]
        values = [type(each) for each in values] if label == "payoff" else values
        others = (index for index, each in enumerate(values) if not np.array_equal(each, values[0]))
        if (index := next(others, None)) is not None:
            why = f"must all have the same {label}: those of number {index} are not those of the first"
            raise InvalidInput(field="federations", index=index, rule=why, value=listed[index], given="")
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


def is_vectorised(federation: Federation, mechanism: Mechanism) -> bool:
    """Whether a mechanism solves many federations like this one at once."""
    stacks = type(mechanism).solve_stack is not Mechanism.solve_stack and not mechanism.has_side_payments
    return stacks and federation.n_agents <= MAX_STACKED_AGENTS


def certify_each(outcomes: Outcomes, claim: Claim, among: range | None = None) -> list[Certificate | None]:
    """The certificate of a claim for each outcome, or for some; None where there is none or it cannot be worked out."""
    found: list[Certificate | None] = [None] * len(outcomes)
    for index in np.flatnonzero(outcomes.solved).tolist():
        if among is None or index in among:
            with suppress(*SOLVER_ERRORS):
                found[index] = outcomes[index].certificates[claim]
    return found


class Piece(NamedTuple):
    """Some federations: what is asked of them is found by `solve`, a `functools.partial`, as workers can be sent.

    A `vectorised` piece is so fast that other processes would not help.
    """

    name: str
    size: int
    solve: Callable[[], Arrays]
    vectorised: bool


def cut(label: str, total: int, size: int, solve: Callable[..., Arrays], *, vectorised: bool = False) -> list[Piece]:
    """Pieces of up to `size` federations, in order; `solve` takes the numbers `start` and `stop` of those it solves."""
    spans = [(start, min(start + size, total)) for start in range(0, total, size)]
    return [
        Piece(f"{label}-{start}-{stop}", stop - start, partial(solve, start=start, stop=stop), vectorised)
        for start, stop in spans
    ]


def solve_pieces(
    parts: Mapping[str, Sequence[Piece]],
    *,
    checkpoint: str | os.PathLike[str] | None,
    mechanisms: Sequence[Mechanism],
    identity: tuple[Any, ...],
    progress: Callable[[int, int], None] | None,
) -> dict[str, Arrays]:
    """What was found in the pieces of every part, joined; those in the folder `checkpoint` are loaded or kept there.

    The `identity` is, beside the mechanisms, everything that makes the pieces what they are.
    """
    pieces = [piece for part in parts.values() for piece in part]
    kept, done = None, dict[str, Arrays]()
    if checkpoint:
        from importlib.metadata import version  # noqa: PLC0415 - for checkpoints only

        rules = [(each.name, repr(each), _source(each)) for each in mechanisms]
        kept = Checkpoint(Path(checkpoint), repr((version("fedpact"), rules, *identity)))
        loaded = {piece.name: kept.load(piece.name) for piece in pieces}
        done = {name: found for name, found in loaded.items() if found is not None}
    left = [piece for piece in pieces if piece.name not in done]
    total = sum(piece.size for piece in pieces)
    finished = total - sum(piece.size for piece in left)
    report = progress or (lambda done, total: None)
    report(finished, total)
    with closing(_solve(left)) as solved:  # closing it ends the workers
        for piece, found in solved:
            if kept:
                kept.save(piece.name, found)
            done[piece.name] = found
            finished += piece.size
            report(finished, total)
    found_in = {label: [done[piece.name] for piece in part] for label, part in parts.items()}
    return {
        label: {name: np.concatenate([each[name] for each in found]) for name in found[0]}
        for label, found in found_in.items()
    }


def pays_to_share(n_federations: int) -> bool:
    """Whether so many federations, solved one by one, are shared out to worker processes."""
    return n_federations >= MIN_SHARED_FEDERATIONS and thread_count() > 1


def _solve(pieces: Sequence[Piece]) -> Generator[tuple[Piece, Arrays], None, None]:
    single = [piece for piece in pieces if not piece.vectorised]
    shared = pays_to_share(sum(piece.size for piece in single))
    for piece in pieces:
        if piece.vectorised or not shared:
            yield piece, solve_piece(piece)
    if shared:
        yield from map_parallel(solve_piece, single)


def solve_piece(piece: Piece) -> Arrays:
    """What is asked of a piece, here or in a worker process."""
    return piece.solve()


def _source(mechanism: Mechanism) -> str:
    """The code of a mechanism, which may change between runs; a text that is never the same where it cannot be read."""
    try:
        return inspect.getsource(sys.modules[type(mechanism).__module__])
    except (KeyError, OSError, TypeError):
        return uuid4().hex
