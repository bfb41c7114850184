"""Which colour a mechanism has: the same in every picture and report, whatever it is compared with."""

from __future__ import annotations

from collections.abc import Sequence

# The places of colours of those compared if none is named; others take the first that is free.
OWN_PLACES = {name: place for place, name in enumerate(("externality", "shapley", "fair", "voluntary"))}


def colour_places(mechanisms: Sequence[str]) -> dict[str, int]:
    """The place of each mechanism's colour, by name.

    Examples
    --------
    >>> colour_places(["shapley", "vcg", "externality"])
    {'shapley': 1, 'externality': 0, 'vcg': 2}
    """
    places = {name: OWN_PLACES[name] for name in mechanisms if name in OWN_PLACES}
    for name in mechanisms:
        if name not in places:
            places[name] = next(place for place in range(len(mechanisms) + 1) if place not in places.values())
    return places
