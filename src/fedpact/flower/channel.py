"""Agents on Flower nodes: who is there, and a channel to negotiate with them.

Every node says in a roll call who it is: the name and the place in its private file, and the public key it signs
with, proven by a signature for this run. Whoever cannot say, or says what cannot be, has no seat; the reason is kept.
Two nodes for one seat are an error, since nobody could tell which of them to believe.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flwr.serverapp import Grid

from fedpact.deals.signatures import is_signed_by, key_document, plain_key
from fedpact.flower.messages import ask_nodes, question
from fedpact.utils.errors import InvalidInput, short_repr

MAX_NAME_LENGTH = 200
LOOK_PAUSE = 0.5  # seconds between looks for nodes


@dataclass(frozen=True, kw_only=True)
class Present:
    """Who is there.

    Attributes
    ----------
    names
        Everybody's, by place; a seat nobody has taken is called by its place unless its name is known.
    nodes
        Flower's numbers of nodes, by place.
    unseated
        Why nodes have no seat, by their numbers.
    keys
        The key of each that is there and its signature for this run, as the ledger holds them, by name.
    """

    names: tuple[str, ...]
    nodes: Mapping[int, int]
    unseated: Mapping[int, str]
    keys: Mapping[str, Mapping[str, Any]]

    @property
    def description(self) -> str:
        """In words."""
        there = ", ".join(self.names[place] for place in sorted(self.nodes))
        out = "".join(f"; node {node} has no seat: {reason}" for node, reason in self.unseated.items())
        return f"there are {there}{out}"

    def node(self, name: str) -> int | None:
        """The node of an agent, if it is there."""
        return self.nodes.get(self.names.index(name)) if name in self.names else None

    def without(self, names: Sequence[str]) -> Present:
        """The same, some agents' nodes left out."""
        left = {place: node for place, node in self.nodes.items() if self.names[place] not in names}
        return replace(self, nodes=left)


def roll_call(
    grid: Grid,
    size: int,
    *,
    run: str,
    timeout: float,
    patience: float,
    seats: Sequence[str] | None = None,
    keys: Mapping[str, str] | None = None,
    least: int | None = None,
) -> Present:
    """Ask every node who it is.

    Parameters
    ----------
    size
        How many agents the federation has.
    run
        The hash of the ledger's first entry.
    timeout
        Seconds to wait for answers.
    patience
        Seconds to wait for so many nodes to be connected.
    seats
        What agents are called, by place, where that is known.
    keys
        Public keys by name that are fixed already: those of this run's ledger.
    least
        How many nodes to wait for; one per agent if not given.

    Raises
    ------
    InvalidInput
        If two nodes take the same seat or name, or nobody takes any.
    """
    found = _waited_for(grid, size if least is None else least, patience)
    asked = {"run": run} if seats is None else {"run": run, "agents": list(seats)}
    messages = {node: question(node, "greet", asked, timeout=timeout) for node in found}
    answers, unseated = ask_nodes(grid, messages, timeout=timeout)
    taken: dict[int, tuple[str, int]] = {}
    proven: dict[str, dict[str, Any]] = {}
    for node, said in sorted(answers.items()):
        try:
            name, place = _greeting(said, size)
            if seats is not None and seats[place] != name:
                raise InvalidInput(f'"{name}" says that its place is {place}, which is that of "{seats[place]}"')
            key = _proven_key(said, run, (keys or {}).get(name))
        except InvalidInput as reason:
            unseated[node] = str(reason)
            continue
        _check_free(taken, name, place, node)
        taken[place] = name, node
        proven[name] = {"place": place, **key}
    if not taken:
        reasons = "; ".join(f"node {node}: {reason}" for node, reason in unseated.items())
        raise InvalidInput(f"no node is there to negotiate with: {reasons or 'none is connected'}")
    return Present(
        names=_names(taken, seats or [f"agent {place}" for place in range(size)]),
        nodes={place: node for place, (_, node) in taken.items()},
        unseated=unseated,
        keys=proven,
    )


class FlowerChannel:
    """A channel (`fedpact.negotiation.Channel`) to agents on Flower nodes."""

    def __init__(self, grid: Grid, present: Present, *, timeout: float) -> None:
        self._grid, self._present, self._timeout = grid, present, timeout

    @property
    def names(self) -> Sequence[str]:
        """Everybody's names, by place."""
        return self._present.names

    def ask(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        """Ask all at once; what comes back in time, errors included, by place."""
        nodes = self._present.nodes
        messages = {
            place: question(nodes[place], "negotiate", asked, timeout=self._timeout, group=str(asked["number"]))
            for place, asked in questions.items()
            if place in nodes
        }
        heard, silent = ask_nodes(self._grid, messages, timeout=self._timeout)
        broken = {place: {"number": questions[place]["number"], "error": why} for place, why in silent.items()}
        return heard | broken


def _waited_for(grid: Grid, size: int, patience: float) -> list[int]:
    """The nodes that are connected, once there are enough of them or patience is over."""
    deadline = time.monotonic() + patience
    while True:
        found = sorted(grid.get_node_ids())
        remaining = deadline - time.monotonic()
        if len(found) >= size or remaining <= 0.0:
            return found
        time.sleep(min(LOOK_PAUSE, remaining))


def _greeting(said: dict[str, Any], size: int) -> tuple[str, int]:
    """A name and a place, checked."""
    name, place, agents = (said.get(key) for key in ("name", "index", "agents"))
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME_LENGTH:
        raise InvalidInput(f"gives no name that can be used: {short_repr(name)}")
    if agents != size or type(agents) is not int:
        raise InvalidInput(f'"{name}" has a row for {short_repr(agents)} members, the run is for {size}')
    if type(place) is not int or not 0 <= place < size:
        raise InvalidInput(f'"{name}" says that its place is {short_repr(place)}, not one from 0 to {size - 1}')
    return name, place


def _proven_key(said: Mapping[str, Any], run: str, fixed: str | None) -> dict[str, str]:
    """The key a node signs with and its signature for this run, checked."""
    key, signature = plain_key(said.get("key")), said.get("signature")
    if not is_signed_by(key, key_document(run, said["name"], said["index"], key), signature):
        raise InvalidInput(f'"{said["name"]}" does not prove that its key is its own')
    if fixed not in (None, key):
        raise InvalidInput(f'"{said["name"]}" signs with another key than at the start of the run')
    return {"key": key, "signature": str(signature)}


def _check_free(seats: Mapping[int, tuple[str, int]], name: str, place: int, node: int) -> None:
    for taken, (other, before) in seats.items():
        if other == name or taken == place:
            what = f'are both called "{name}"' if other == name else f"both have place {place}"
            raise InvalidInput(
                f"nodes {before} and {node} {what}; every member runs one node, with a private file of its own"
            )


def _names(taken: Mapping[int, tuple[str, int]], usual: Sequence[str]) -> tuple[str, ...]:
    """Everybody's names; of seats that are free their usual ones, unless somebody else is called so."""
    given = {name for name, _ in taken.values()}
    names = []
    for place, name in enumerate(usual):
        called = taken[place][0] if place in taken else name
        while place not in taken and called in given:
            called += "'"
        names.append(called)
    return tuple(names)
