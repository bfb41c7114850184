"""Whether what somebody gave is a federation at all, and where one is if not."""

from __future__ import annotations

from fedpact.federation.federation import Federation
from fedpact.utils.errors import InvalidInput, short_repr


def require_federation(given: object) -> None:
    """Raise `InvalidInput` for what is not a federation, saying where one is."""
    if not isinstance(given, Federation):
        inside = isinstance(getattr(given, "federation", None), Federation)
        hint = ": take its .federation" if inside else f": {short_repr(given)}"
        kind = f", got a {type(given).__name__}{hint}"
        raise InvalidInput(field="federation", rule="must be a Federation", value=given, given=kind)
