"""What a mechanism is: its words, the claims it makes, a way to solve a federation, and its rules.

Everything else, from certificates to reports, asks a mechanism for what it needs and never for its class. A new
mechanism derives from `Mechanism` and gives `name`, `title`, `claims`, `solve`, `deviations` and, where money changes
hands, `payments`. One that solves many federations at once also gives `solve_stack`.

What goes wrong in the `solve` of a mechanism from outside the package, and what its methods return that they must not,
is told as its mistake; in fedpact's own it is an error in fedpact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations, free_riding, isolation
from fedpact.deals import Deal
from fedpact.deals.outcome import NOT_KNOWN, Equilibria, Outcome
from fedpact.federation import Federation, require_federation
from fedpact.federation.arrays import FederationArrays
from fedpact.solvers.free_riding import free_riding_equilibria, free_riding_equilibrium, is_only_equilibrium
from fedpact.solvers.groups import standalone_optima
from fedpact.solvers.welfare import OptimalFace
from fedpact.utils.arrays import FloatArray, align
from fedpact.utils.errors import FedpactError, InvalidInput, MechanismError, NotConverged, short_repr

PACKAGE = __name__.partition(".")[0]

SOLVED_BY = ("solve", "solve_stack", "payments_due", "equilibria", "face")  # the last four go with the first
# What a federation that cannot be solved raises; other errors are mistakes in the code and are not caught.
SOLVER_ERRORS = (InvalidInput, NotConverged, ArithmeticError, np.linalg.LinAlgError)


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
        False where every member trains alone.
    has_prices
        Whether data is paid for by the sample, at the prices of M^E.
    has_side_payments
        True where fixed sums, worked out from the numbers of all members, come on top. It is named beside what is
        recommended, not in its place, and may have no outcome.
    is_baseline
        True where it is shown for comparison only: it is never recommended, and may have no outcome.
    """

    name: str
    title: str
    plain_title: str = ""
    description: str = ""
    claims: Sequence[Claim] = ()
    claims_without_harm: Sequence[Claim] = ()
    federated: bool = True
    has_prices: bool = False
    has_side_payments: bool = False
    is_baseline: bool = False

    @property
    def full_title(self) -> str:
        """The title, and what it means in plain words."""
        return f"{self.title} ({self.plain_title})" if self.plain_title else self.title

    @abstractmethod
    def solve(self, federation: Federation) -> Outcome:
        """The equilibrium outcome; raises `NotConverged` rather than return a wrong one."""

    @abstractmethod
    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        """The best each member could do instead at a profile; certificates rest on it, so it must not ask a solver."""

    def payments(self, arrays: FederationArrays, contributions: FloatArray) -> FloatArray:
        """What each member is paid at a profile: nothing, unless a mechanism says otherwise.

        `arrays` are the numbers of one federation, or of many with a leading axis, which formulas on last axes allow.
        """
        return np.zeros((*np.shape(contributions)[:-1], arrays.n_agents))

    def payoffs(self, arrays: FederationArrays, contributions: FloatArray) -> FloatArray:
        """What each member gets at a profile: a_i(s), unless a mechanism hands out less than the whole model."""
        return arrays.payoffs(contributions)

    def value_share(self, n_agents: int) -> float:
        """By how much values count in the game, compared with costs."""
        return 1.0

    def played(self, federation: Federation) -> Federation:
        """The federation whose values count as in the game."""
        share = self.value_share(federation.n_agents)
        return federation if share == 1.0 else federation.replace(values=share * federation.values)

    def equilibria(self, federation: Federation, contributions: FloatArray) -> Equilibria:
        """What is known of the equilibria, at the one that `solve` found."""
        return NOT_KNOWN

    def face(self, federation: Federation, contributions: FloatArray) -> OptimalFace | None:
        """The set of equilibria around the one that `solve` found; None where it is a point or not known."""
        return None

    def solve_stack(self, arrays: FederationArrays) -> FloatArray | None:
        """Contributions (federations, lots) of many federations at once, NaN where one was not solved.

        None, the default, where they are solved one after the other.
        """
        return None

    def payments_due(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """The payments of an equilibrium worked out anew; where there are several, of one close to a profile."""
        return self.solve(federation).payments

    def promises(self, federation: Federation) -> tuple[Claim, ...]:
        """The claims it makes of its outcome for a federation."""
        risky = federation.has_harm or bool(federation.joining_costs.any())
        return (*self.claims, *(() if risky else self.claims_without_harm))

    @property
    def has_payments(self) -> bool:
        """Whether it has payments by design, zero as they may be for a federation."""
        return type(self).payments is not Mechanism.payments

    def outcome_at(
        self,
        federation: Federation,
        contributions: ArrayLike,
        payments: ArrayLike | None = None,
        *,
        side_payments: ArrayLike | None = None,
        is_solved: bool = False,
    ) -> Outcome:
        """A profile under this mechanism's rules, from wherever it comes, for certificates to judge.

        Payments that are not given are those of the rules.
        """
        profile = np.asarray(align("contributions", contributions, federation.lot_labels), dtype=np.float64)
        paid = self.payments(federation.arrays, profile) if payments is None else payments
        if payments is None and np.shape(paid) != (federation.n_agents,):
            wanted = f"{federation.n_agents} numbers, one per member"
            raise MechanismError(f"{_path(self)}.payments must return {wanted}, got {short_repr(paid)}")
        return Outcome(
            federation=federation,
            rules=self,
            contributions=profile,
            payments=paid,  # type: ignore[arg-type]
            side_payments=np.zeros(federation.n_agents) if side_payments is None else side_payments,  # type: ignore[arg-type]
            is_solved=is_solved,
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

    def __init_subclass__(cls, **options: Any) -> None:
        """Check what `solve` takes and returns; claims that a subclass states replace all of its parent's.

        With another way to solve, what a parent knew of its own solutions does not hold any more.
        """
        super().__init_subclass__(**options)
        if "solve" in vars(cls):
            cls.solve = _check_solve(cls.solve)  # type: ignore[method-assign]
        if "claims" in vars(cls) and "claims_without_harm" not in vars(cls):
            cls.claims_without_harm = ()
        definers = {name: next(at for at, each in enumerate(cls.__mro__) if name in vars(each)) for name in SOLVED_BY}
        for name, definer in definers.items():
            if definer > definers["solve"]:
                setattr(cls, name, getattr(Mechanism, name))

    def __repr__(self) -> str:
        given = (name for name in signature(type(self)).parameters if hasattr(self, name))
        options = ", ".join(f"{name}={getattr(self, name)!r}" for name in given)
        return f"{type(self).__name__}({options})"


def _check_solve(solve: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """`solve` for federations alone; `MechanismError` where code from outside fails, or returns no outcome."""

    @wraps(solve)
    def checked(self: Mechanism, federation: Federation) -> Outcome:
        require_federation(federation)
        try:
            found = solve(self, federation)
        except (FedpactError, *SOLVER_ERRORS):  # what a federation without a solution raises
            raise
        except Exception as error:
            if type(self).__module__.partition(".")[0] == PACKAGE:
                raise
            raise MechanismError(f"{_path(self)}.solve failed: {type(error).__name__}: {error}") from error
        if not isinstance(found, Outcome):
            raise MechanismError(f"{_path(self)}.solve must return an Outcome, got {short_repr(found)}")
        return found

    return checked


def _path(mechanism: Mechanism) -> str:
    return f"{type(mechanism).__module__}:{type(mechanism).__qualname__}"


# What a deal is compared with: everybody alone, and a model that is shared freely


class Standalone(Mechanism):
    """The baseline in which every member trains alone, the outside option v_i* of the paper."""

    name = "standalone"
    title = "Standalone"
    plain_title = "everybody alone"
    description = "Nobody federates: each member trains alone on its own data."
    claims = (Claim.NASH, Claim.BUDGET_BALANCE, Claim.INDIVIDUAL_RATIONALITY)
    federated = False
    is_baseline = True

    def solve(self, federation: Federation) -> Outcome:
        """Everybody's best contribution alone."""
        return self.outcome_at(federation, standalone_optima(federation.arrays)[0], is_solved=True)

    def solve_stack(self, arrays: FederationArrays) -> FloatArray | None:
        return standalone_optima(arrays)[0]

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return isolation(federation, contributions)

    def equilibria(self, federation: Federation, contributions: FloatArray) -> Equilibria:
        return Equilibria(unique=True, dimension=0, note="each member's own optimum")


class Voluntary(Mechanism):
    """The baseline without payments: members contribute what suits themselves.

    The public-good game that motivates mechanisms in the first place (section 1 of the paper). It may have several
    equilibria; the outcome says whether the one found is known to be the only one. Where none is found, `solve` raises
    `NotConverged`.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> Voluntary().solve(homogeneous).contributions.round(4).tolist()
    [5.953, 5.953, 5.953]
    """

    name = "voluntary"
    title = "Voluntary"
    plain_title = "share freely, no payments"
    description = "The model is shared freely and nobody pays; each member contributes only what suits itself."
    claims = (Claim.NASH, Claim.BUDGET_BALANCE)
    is_baseline = True

    def solve(self, federation: Federation) -> Outcome:
        """A free-riding equilibrium."""
        return self.outcome_at(federation, free_riding_equilibrium(self.played(federation)), is_solved=True)

    def solve_stack(self, arrays: FederationArrays) -> FloatArray | None:
        return free_riding_equilibria(replace(arrays, values=self.value_share(arrays.n_agents) * arrays.values))

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        return free_riding(federation, contributions)

    def equilibria(self, federation: Federation, contributions: FloatArray) -> Equilibria:
        unique = is_only_equilibrium(self.played(federation), contributions)
        if unique is None:
            return NOT_KNOWN
        note = "the only equilibrium" if unique else "one of several equilibria, which treats equal members alike"
        return Equilibria(unique=unique, dimension=0, note=note)
