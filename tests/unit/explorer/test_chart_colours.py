"""A mechanism keeps its colour, and no two share one."""

from __future__ import annotations

from fedpact.explorer.charts import colour_places
from fedpact.mechanisms import MECHANISMS


def test_a_mechanism_keeps_its_colour_whatever_it_is_compared_with() -> None:
    for others in (["shapley"], ["fair", "shapley"], ["nucleolus", "voluntary"]):
        assert colour_places([*others, "externality"])["externality"] == colour_places(["externality"])["externality"]


def test_no_two_share_a_place() -> None:
    for names in (list(MECHANISMS), list(MECHANISMS)[::-1], ["vcg", "fair", "mine"]):
        places = colour_places(names)
        assert set(places) == set(names)
        assert len(set(places.values())) == len(names)
