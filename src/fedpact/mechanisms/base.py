"""What a mechanism is: a name, the claims it makes, and a way to solve a federation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from numpy.typing import ArrayLike

from fedpact.federation import Federation
from fedpact.outcome import Outcome
from fedpact.properties.certificate import Claim

__all__ = ["Mechanism"]


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

    def outcome_at(self, federation: Federation, contributions: ArrayLike, payments: ArrayLike) -> Outcome:
        """A profile and payments under this mechanism's rules, from wherever they come, for certificates to judge."""
