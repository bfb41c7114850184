"""What a mechanism is: a name, the claims it makes, and a way to solve a federation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fedpact.certificates.certificate import Claim
from fedpact.certificates.deviations import Deviations
from fedpact.deals import Outcome
from fedpact.deals.outcome import AS_GIVEN, PriceRule
from fedpact.federation import Federation
from fedpact.utils.arrays import FloatArray

__all__ = ["Mechanism", "Rules"]


class Mechanism(Protocol):
    """The protocol every mechanism follows.

    `claims` are the properties the mechanism has by design, whatever the federation; `fedpact check` holds it to them.
    """

    @property
    def name(self) -> str:
        """The name used on the command line and in files."""

    @property
    def title(self) -> str:
        """The name people read."""

    @property
    def claims(self) -> Sequence[Claim]:
        """What holds by design."""

    def solve(self, federation: Federation) -> Outcome:
        """The equilibrium outcome; raises `NotConverged` rather than return a wrong one."""

    @property
    def federated(self) -> bool:
        """False where every agent trains alone."""

    def deviations(self, federation: Federation, contributions: FloatArray) -> Deviations:
        """The best each agent could do instead at a profile."""

    def payment_rule(self, federation: Federation, contributions: FloatArray) -> FloatArray:
        """What each agent is paid at a profile."""

    def at_equilibrium(self, federation: Federation, contributions: FloatArray) -> Outcome:
        """The outcome at an equilibrium known already, without solving."""

    def outcome_at(self, federation: Federation, contributions: ArrayLike, payments: ArrayLike) -> Outcome:
        """A profile and payments under this mechanism's rules, from wherever they come, for certificates to judge."""


class Rules:
    """What a mechanism says of any profile: its payments, and what one agent could do instead.

    Mechanisms inherit `outcome_at` from here; `solve` finds the profile.
    """

    name: ClassVar[str]
    federated: ClassVar[bool] = True

    @staticmethod
    def deviations(federation: Federation, contributions: FloatArray) -> Deviations:
        """The best each agent could do instead."""
        raise NotImplementedError

    @staticmethod
    def payment_rule(federation: Federation, contributions: FloatArray) -> FloatArray:
        """What each agent is paid."""
        raise NotImplementedError

    price_rule: ClassVar[PriceRule | None] = None

    def outcome_at(self, federation: Federation, contributions: ArrayLike, payments: ArrayLike) -> Outcome:
        """A given profile and payments under these rules."""
        return Outcome(
            federation=federation,
            mechanism=self.name,
            contributions=np.asarray(contributions),
            payments=np.asarray(payments),
            deviations=self.deviations,
            payment_rule=self.payment_rule,
            equilibria=AS_GIVEN,
            federated=self.federated,
            price_rule=self.price_rule,
        )

    def at_equilibrium(self, federation: Federation, contributions: FloatArray) -> Outcome:
        """The outcome at an equilibrium known already, with what is known of the others."""
        return self.outcome_of(federation, contributions)

    def outcome_of(self, federation: Federation, contributions: FloatArray) -> Outcome:
        """A given profile with the payments these rules make of it."""
        return self.outcome_at(federation, contributions, self.payment_rule(federation, contributions))
