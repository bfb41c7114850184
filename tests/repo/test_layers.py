"""The rooms of the package: the map in CONTRIBUTING lists them, and each says what it may use and uses no more."""

from __future__ import annotations

import ast
import re

import pytest

from repo.test_imports import LAYERS, LEVEL, ON_REQUEST, arrows, part_of
from sources import FILES, PACKAGE, syntax_tree

ROOT = PACKAGE.parents[1]
MAX_ENTRIES = 20
ENTRIES = {path.name for path in PACKAGE.iterdir()} - {"__pycache__", "py.typed"}
ROOMS = [name for layer in LAYERS for name in layer if not name.startswith("__")]


def docstring(room: str) -> str:
    text = ast.get_docstring(syntax_tree(PACKAGE / room / "__init__.py"))
    assert text is not None, f"{room} does not say what it is for"
    return " ".join(text.split())


def allowed(room: str) -> set[str]:
    """What a docstring says the room may use."""
    (stated,) = re.findall(r"May use: ([a-z, ]+)\.", docstring(room))
    below = {other for other in ROOMS if LEVEL[other] < LEVEL[room]}
    if stated.startswith("everything below"):
        return below - set(re.findall("[a-z]+", stated.removeprefix("everything below, except")))
    named = set() if stated == "no other package of fedpact" else set(stated.split(", "))
    assert named <= below, f"{room} may not use {named - below}"
    return named


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_uses_what_it_says_and_no_more(room: str) -> None:
    used = {
        there
        for path in FILES
        if part_of(path) == room
        for there, lazily in arrows(path)
        if there not in {room, "__init__"} and not (lazily and there in ON_REQUEST)
    }
    assert used <= allowed(room), f"{room} uses {used - allowed(room)}"


def test_certificates_share_no_code_with_solvers() -> None:
    """Nothing they may use leads to one, directly or not."""
    assert allowed("certificates") == {"federation", "utils"}
    assert allowed("federation") == {"utils"} and not allowed("utils")


def test_the_map_lists_every_room_in_the_order_of_imports() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (listing,) = re.findall(r"^    src/fedpact/\n((?:      .*\n)+)", text, re.MULTILINE)
    listed = [line.split()[0] for line in listing.splitlines()]
    assert {name.removesuffix("/") for name in listed} == ENTRIES
    levels = [LEVEL[name.removesuffix("/").removesuffix(".py")] for name in listed]
    assert levels == sorted(levels)
    assert len(listed) <= MAX_ENTRIES
