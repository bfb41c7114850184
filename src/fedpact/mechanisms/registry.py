"""The mechanisms fedpact knows by name, in the order they are shown."""

from __future__ import annotations

from collections.abc import Mapping

from fedpact.mechanisms.base import Mechanism
from fedpact.mechanisms.externality import ExternalityMechanism
from fedpact.mechanisms.shapley import ShapleyMechanism
from fedpact.mechanisms.standalone import Standalone
from fedpact.mechanisms.voluntary import Voluntary
from fedpact.utils.errors import InvalidInput

__all__ = ["MECHANISMS", "mechanism_named"]

MECHANISMS: Mapping[str, Mechanism] = {
    mechanism.name: mechanism for mechanism in (ExternalityMechanism(), ShapleyMechanism(), Voluntary(), Standalone())
}


def mechanism_named(name: str) -> Mechanism:
    """The mechanism of that name."""
    if name not in MECHANISMS:
        raise InvalidInput(f"mechanism must be one of {', '.join(MECHANISMS)}, got {name!r}")
    return MECHANISMS[name]
