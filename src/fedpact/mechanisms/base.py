"""What a mechanism is: a name, the claims it makes, its rules, and a way to solve a federation.

Everything else, from certificates to reports, asks a mechanism for what it needs and never for its class. A new
mechanism derives from `Mechanism` and gives `name`, `title`, `claims`, `solve`, `deviations` and, where money changes
hands, `payment_rule`. It may also say how many federations are solved at once (`is_vectorised`, `solve_together`,
`deviation_bounds`); otherwise a batch is solved one federation after the other.

Mechanisms from outside the package are held to this. What goes wrong in their code is told as their mistake: which
method of which class, and what is wrong. fedpact's own are left as they are: a mistake in them is an error in fedpact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, wraps
from inspect import isfunction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations
from fedpact.certificates.payment_bounds import PaymentBounds
from fedpact.deals import Deal, Equilibria, Outcome
from fedpact.deals.outcome import AS_GIVEN
from fedpact.federation import Batch, Federation
from fedpact.federation.lots import require_own_caps, require_single_lots
from fedpact.programs.social_optimum import OptimalFace
from fedpact.programs.solver import Solution
from fedpact.utils.arrays import FloatArray, align
from fedpact.utils.errors import FedpactError, InvalidInput, MechanismError, NotConverged, short_repr
from fedpact.utils.parallel import is_configured, map_parallel

PACKAGE = __name__.partition(".")[0]

# What a method must return, by name; None where any answer goes, or is checked by those who ask.
METHODS: Mapping[str, type | None] = {
    "solve": Outcome,
    "at_equilibrium": Outcome,
    "deviations": Deviations,
    "payment_bounds": PaymentBounds,
    "payment_rule": None,
    "payoff_rule": None,
    "price_rule": None,
    "nearby_equilibrium": None,
    "solve_together": None,
    "deviation_bounds": None,
}
RULES = ("solve", "deviations", "payment_rule", "payoff_rule", "at_equilibrium")
NOT_KNOWN = Equilibria(unique=None, dimension=0, note="an equilibrium; whether there are others is not known")
# What a federation that cannot be solved raises; other errors are mistakes in the code and are not caught.
SOLVER_ERRORS = (InvalidInput, NotConverged, ArithmeticError, np.linalg.LinAlgError)


def guard_methods(cls: type) -> None:
    """Make the methods that a class from outside defines raise `MechanismError` where they fail or return nonsense."""
    if cls.__module__.partition(".")[0] == PACKAGE:
        return
    for name, kind in METHODS.items():
        method = vars(cls).get(name)
        if isfunction(method):
            setattr(cls, name, _guard(method, name, kind))


def _guard(method: Callable[..., Any], name: str, kind: type | None) -> Callable[..., Any]:
    @wraps(method)
    def guarded(self: Any, *args: Any, **options: Any) -> Any:
        where = f"{type(self).__module__}:{type(self).__qualname__}.{name}"
        try:
            answer = method(self, *args, **options)
        except (FedpactError, ArithmeticError, np.linalg.LinAlgError):  # what a federation that has no solution raises
            raise
        except Exception as error:
            raise MechanismError(f"{where} failed: {type(error).__name__}: {error}") from error
        if kind is not None and not isinstance(answer, kind):
            raise MechanismError(f"{where} must return {_article(kind)}, got {short_repr(answer)}")
        if name in ("payment_rule", "payoff_rule"):
            _check_amounts(where, answer, args)
        return answer

    return guarded


def _check_amounts(where: str, amounts: Any, args: tuple[Any, ...]) -> None:
    n_agents = args[0].n_agents
    if np.shape(amounts) != (n_agents,) or np.asarray(amounts).dtype.kind not in "fiu":
        raise MechanismError(f"{where} must return {n_agents} numbers, one per member, got {short_repr(amounts)}")


def _article(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchSolution:
    """The equilibria of a batch.

    Attributes
    ----------
    contributions, payments
        (federations, n), contributions per lot where there are several; NaN where a federation has no solution.
    several
        Places of the federations whose equilibrium is one of several.
    imprecise
        Places of federations that are solved, but better solved alone if that succeeds.
    outcomes
        Of the federations that were solved alone, by their place.
    errors
        Why a federation has no solution, by its place; these are not tried alone once more.
    """

    contributions: FloatArray
    payments: FloatArray
    several: Sequence[int] = ()
    imprecise: Sequence[int] = ()
    outcomes: Mapping[int, Outcome] = field(default_factory=dict)
    errors: Mapping[int, Exception] = field(default_factory=dict)


class Mechanism(ABC):
    """A rule for contributions and payments.

    Attributes
    ----------
    name
        The name used on the command line and in files; it tells mechanisms apart.
    title
        The name people read.
    plain_title
        A second name in plain words; none if empty.
    description
        What it does, in a sentence for people who know nothing of mechanisms.
    claims
        The properties it has by design, whatever the federation; `fedpact check` holds it to them.
    claims_without_harm
        The properties it has besides where no weight is negative.
    federated
        False where every agent trains alone.
    knows_lots
        Whether it takes agents with several lots of data or tasks; others are refused.
    knows_shared_caps
        Whether it takes lots that share a cap; others are refused.
    is_baseline
        True where it is shown for comparison only: it is never recommended, and may have no outcome.
    has_side_payments
        True where fixed sums, worked out from the numbers of all members, come on top. It is named beside what is
        recommended, not in its place, and may have no outcome.
    """

    name: str
    title: str
    plain_title: str = ""
    description: str = ""
    claims: Sequence[Claim] = ()
    claims_without_harm: Sequence[Claim] = ()
    federated: bool = True
    is_baseline: bool = False
    knows_lots: bool = False
    knows_shared_caps: bool = False
    has_side_payments: bool = False

    @property
    def full_title(self) -> str:
        """The title, and what it means in plain words."""
        return f"{self.title} ({self.plain_title})" if self.plain_title else self.title

    @abstractmethod
    def solve(self, federation: Federation) -> Outcome:
        """The equilibrium outcome; raises `NotConverged` rather than return a wrong one."""

    @abstractmethod
    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        """The best each agent could do instead at a profile; certificates rest on it, so it must not ask the solver."""

    def promises(self, federation: Federation) -> tuple[Claim, ...]:
        """The claims it makes of its outcome for a federation."""
        return (*self.claims, *(() if federation.has_harm else self.claims_without_harm))

    def payment_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """What each agent is paid at a profile: nothing, unless a mechanism says otherwise."""
        return np.zeros(federation.n_agents)

    def payoff_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """What each agent gets at a profile: a_i(s), unless a mechanism hands out less than the whole model."""
        played = federation if self.federated else federation.without_sharing()
        return played.payoffs(contributions)

    def price_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray | None:
        """Prices per sample at a profile, what the row pays for the column's data; None where there are none."""
        return None

    def payment_bounds(self, federation: Federation, contributions: FloatArray) -> PaymentBounds:
        """The payments due at a profile, and how far they can be from those of the exact equilibrium.

        Certificates rest on it, so it must not ask the solver. Without payments there is nothing to be wrong; of other
        rules nothing is known unless a mechanism says it.
        """
        unknown = np.inf if self.has_payments else 0.0
        due = np.asarray(self.payment_rule(federation, contributions))
        return PaymentBounds(payments=due, errors=np.full(federation.n_agents, unknown))

    def stated_payment_bounds(self, outcome: Outcome) -> PaymentBounds:
        """The same for an outcome, whose own numbers may help to prove it; nothing is solved here either."""
        return self.payment_bounds(outcome.federation, outcome.contributions)

    def nearby_equilibrium(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """The equilibrium to compare a profile with: where there are several, one close to it."""
        return self.solve(federation).contributions

    def second_payment_bounds(self, outcome: Outcome) -> PaymentBounds:
        """The payments of an equilibrium worked out a second time, to compare those of an outcome with."""
        second = self.nearby_equilibrium(outcome.federation, outcome.contributions)
        return self.payment_bounds(outcome.federation, second)

    @property
    def has_payments(self) -> bool:
        """Whether it has payments by design, zero as they may be for a federation."""
        return type(self).payment_rule is not Mechanism.payment_rule

    @property
    def has_prices(self) -> bool:
        """Whether data is paid for by the sample."""
        return type(self).price_rule is not Mechanism.price_rule

    @property
    def has_payoff_rule(self) -> bool:
        """Whether members get anything else than a_i(s)."""
        return type(self).payoff_rule is not Mechanism.payoff_rule

    def outcome_at(
        self,
        federation: Federation,
        contributions: ArrayLike,
        payments: ArrayLike | None = None,
        *,
        equilibria: Equilibria = AS_GIVEN,
        solution: Solution | None = None,
        face: OptimalFace | None = None,
        side_payments: ArrayLike | None = None,
    ) -> Outcome:
        """A profile under this mechanism's rules, from wherever it comes, for certificates to judge.

        Payments that are not given are those of the rules.
        """
        if not self.knows_lots:
            require_single_lots(federation, f"the mechanism {self.name}")
        if not self.knows_shared_caps:
            require_own_caps(federation, f"the mechanism {self.name}")
        profile = np.asarray(align("contributions", contributions, federation.lot_labels), dtype=np.float64)
        return Outcome(
            federation=federation,
            mechanism=self.name,
            contributions=profile,
            payments=self.payment_rule(federation, profile) if payments is None else payments,  # type: ignore[arg-type]
            deviations=self.deviations,
            payment_rule=self.payment_rule,
            equilibria=equilibria,
            solution=solution,
            face=face,
            federated=self.federated,
            side_payments=side_payments,  # type: ignore[arg-type]
            payoff_rule=self.payoff_rule if self.has_payoff_rule else None,
            price_rule=self.price_rule if self.has_prices else None,
            solver=self.solve,
        )

    def outcome_of(self, deal: Deal, federation: Federation) -> Outcome:
        """A deal under this mechanism's rules, with the federation of those who are in it.

        Raises
        ------
        InvalidInput
            If it is a deal of another federation, or asks for contributions that this one does not allow.
        """
        agreed, members = deal.belonging_to(federation)
        return self.outcome_at(members, agreed.contributions, agreed.payments, side_payments=agreed.side_payments)

    def at_equilibrium(
        self, federation: Federation, contributions: FloatArray, payments: FloatArray | None = None
    ) -> Outcome:
        """The outcome at an equilibrium known already, with what is known of the others; nothing is solved."""
        return self.outcome_at(federation, contributions, payments, equilibria=NOT_KNOWN)

    def solve_batch(self, batch: Batch, *, progress: Callable[[int], None] | None = None) -> BatchSolution:
        """The equilibria of all federations: together where that is possible, the rest one by one.

        `progress` is called with the number of federations that are done, now and then. A federation that cannot be
        solved is listed in `errors` and does not touch the others.
        """
        contributions, payments = (np.full((len(batch), count), np.nan) for count in (batch.n_lots, batch.n_agents))
        several: set[int] = set()
        imprecise: set[int] = set()
        outcomes: dict[int, Outcome] = {}
        errors: dict[int, Exception] = {}
        if not batch.has_lots and self.is_vectorised(batch):
            with suppress(*SOLVER_ERRORS):  # one federation may spoil what is computed together; none of them is lost
                found = self.solve_together(batch)
                contributions, payments = found.contributions, found.payments
                several, imprecise, errors = set(found.several), set(found.imprecise), dict(found.errors)
        unsolved = set(np.flatnonzero(np.isnan(contributions).any(axis=1)).tolist()) - set(errors)
        single = sorted(unsolved | imprecise)
        for place, outcome in zip(single, solve_each(self, _Chosen(batch, single)), strict=True):
            if progress is not None:
                progress(place)
            if isinstance(outcome, Exception):
                if place in unsolved:
                    errors[place] = outcome
                    contributions[place] = payments[place] = np.nan
                continue
            outcomes[place] = outcome
            contributions[place], payments[place] = outcome.contributions, outcome.payments
            several.discard(place)
            if outcome.face is not None and not outcome.face.is_point:
                several.add(place)
        if progress is not None:
            progress(len(batch))
        return BatchSolution(
            contributions=contributions,
            payments=payments,
            several=tuple(sorted(several)),
            outcomes=outcomes,
            errors=errors,
        )

    def is_vectorised(self, batch: Batch) -> bool:
        """Whether federations like these are solved together, in a fraction of the time they take one by one."""
        return False

    def solve_together(self, batch: Batch) -> BatchSolution:
        """The equilibria of all federations at once, NaN where one was not reached; asked if `is_vectorised`."""
        raise NotImplementedError

    def deviation_bounds(self, batch: Batch, contributions: FloatArray) -> FloatArray:
        """(federations, n): bounds from above on the utilities of `deviations`, of the whole batch."""
        return np.array(
            [self.deviations(federation, contributions[place]).utilities for place, federation in enumerate(batch)]
        )

    def deviation_bounds_at(self, batch: Batch, contributions: FloatArray, payments: FloatArray) -> FloatArray:
        """The same where the payments stated say more than the rules, such as which side payments were agreed."""
        return self.deviation_bounds(batch, contributions)

    def __init_subclass__(cls, **options: Any) -> None:
        """What is said of batches and payments is forgotten where a subclass changes rules alone, claims likewise."""
        super().__init_subclass__(**options)
        guard_methods(cls)
        if "claims" in vars(cls) and "claims_without_harm" not in vars(cls):
            cls.claims_without_harm = ()
        changed = min(_depth(cls, name) for name in RULES)
        for name in (
            "is_vectorised",
            "solve_together",
            "deviation_bounds",
            "deviation_bounds_at",
            "payment_bounds",
            "stated_payment_bounds",
            "second_payment_bounds",
            "nearby_equilibrium",
        ):
            if _depth(cls, name) > changed:
                setattr(cls, name, vars(Mechanism)[name])

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({options})"


def _depth(cls: type, name: str) -> int:
    """How many classes up a method is defined."""
    return next(depth for depth, each in enumerate(cls.__mro__) if name in vars(each))


def solve_each(mechanism: Mechanism, federations: Sequence[Federation]) -> Iterator[Outcome | Exception]:
    """The outcome of every federation, or why there is none, in order: one after the other, or on a cluster if joblib
    was told of one."""
    places = range(len(federations))
    if is_configured() and len(places) > 1:
        found = dict(map_parallel(partial(_solve_one, mechanism, federations), places))
        yield from (found[place] for place in places)
        return
    for place in places:
        yield _solve_one(mechanism, federations, place)


def _solve_one(mechanism: Mechanism, federations: Sequence[Federation], place: int) -> Outcome | Exception:
    try:
        return mechanism.solve(federations[place])
    except SOLVER_ERRORS as error:
        return error


class _Chosen(Sequence[Federation]):
    """Some federations of a batch, made when they are asked for."""

    def __init__(self, batch: Batch, places: Sequence[int]) -> None:
        self._batch, self._places = batch, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, place: Any) -> Any:
        return self._batch[self._places[place]]
