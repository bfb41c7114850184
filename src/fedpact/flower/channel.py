"""Agents on Flower nodes: who is there, and a channel to negotiate with them.

Every node says in a roll call who it is: the name and the index in its private file, and the public key it signs with,
proven by a signature for this run. Whoever cannot say, or says what cannot be, has no seat; the reason is kept. Two
nodes for one seat are an error, since nobody could tell which of them to believe.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flwr.serverapp import Grid

from fedpact.deals.signatures import is_signed_by, key_document, plain_key
from fedpact.flower.messages import ask_nodes
from fedpact.utils.errors import InvalidInput, short_repr

LOOK_PAUSE = 0.5  # seconds between looks for nodes


@dataclass(frozen=True, kw_only=True)
class Present:
    """Who is there."""

    names: tuple[str, ...]  # everybody's, by index
    nodes: Mapping[str, int]  # Flower's numbers, by name, of those who are there
    unseated: Mapping[int, str]  # why nodes have no seat, by their numbers
    keys: Mapping[str, Mapping[str, Any]]  # by name, with signatures for this run, as the ledger holds them

    @property
    def description(self) -> str:
        """In words."""
        out = "".join(f"; node {node} has no seat: {reason}" for node, reason in self.unseated.items())
        return f"there are {', '.join(self.nodes)}{out}"

    def without(self, names: Iterable[str]) -> Present:
        """The same, some agents' nodes left out."""
        return replace(self, nodes={name: node for name, node in self.nodes.items() if name not in {*names}})


def roll_call(
    grid: Grid,
    names: Sequence[str],
    *,
    run: str,
    timeout: float,
    patience: float,
    keys: Mapping[str, str] | None = None,
    least: int | None = None,
) -> Present:
    """Ask every node who it is; `InvalidInput` if two nodes take the same seat, or nobody takes any.

    Parameters
    ----------
    names
        What the agents of the federation are called, by index.
    run
        The hash of the ledger's first entry.
    timeout, patience
        Seconds to wait for answers, and for nodes to be connected: at `least` so many, or one per agent.
    keys
        Public keys by name that are fixed already: those of this run's ledger.
    """
    found = _waited_for(grid, len(names) if least is None else least, patience)
    asked = {"run": run, "agents": list(names)}
    answers, unseated = ask_nodes(grid, {node: node for node in found}, "greet", dict.fromkeys(found, asked), timeout)
    nodes: dict[str, int] = {}
    proven: dict[str, dict[str, Any]] = {}
    for node, said in sorted(answers.items()):
        try:
            name, key = _greeting(said, names, run, keys or {})
        except InvalidInput as reason:
            unseated[node] = str(reason)
            continue
        if name in nodes:
            raise InvalidInput(
                f'nodes {nodes[name]} and {node} are both called "{name}"; every member runs one node, with a private '
                f"file of its own"
            )
        nodes[name], proven[name] = node, key
    if not nodes:
        reasons = "; ".join(f"node {node}: {reason}" for node, reason in unseated.items())
        raise InvalidInput(f"no node is there to negotiate with: {reasons or 'none is connected'}")
    there = {name: nodes[name] for name in names if name in nodes}
    return Present(names=tuple(names), nodes=there, unseated=unseated, keys=proven)


class FlowerChannel:
    """A channel (`fedpact.negotiation.Channel`) to agents on Flower nodes."""

    def __init__(self, grid: Grid, present: Present, *, timeout: float) -> None:
        self._grid, self._present, self._timeout = grid, present, timeout

    @property
    def names(self) -> Sequence[str]:
        """Everybody's names, by index."""
        return self._present.names

    def ask(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        """Ask all at once; what comes back in time, errors included, by index."""
        there = self._present.nodes
        nodes = {index: there[self.names[index]] for index in questions if self.names[index] in there}
        group = str(next(iter(questions.values()))["number"]) if questions else ""
        heard, silent = ask_nodes(self._grid, nodes, "negotiate", questions, self._timeout, group)
        return heard | {index: {"number": questions[index]["number"], "error": why} for index, why in silent.items()}


def _waited_for(grid: Grid, size: int, patience: float) -> list[int]:
    """The nodes that are connected, once there are enough of them or patience is over."""
    deadline = time.monotonic() + patience
    while True:
        found = sorted(grid.get_node_ids())
        remaining = deadline - time.monotonic()
        if len(found) >= size or remaining <= 0.0:
            return found
        time.sleep(min(LOOK_PAUSE, remaining))


def _greeting(
    said: Mapping[str, Any], names: Sequence[str], run: str, fixed: Mapping[str, str]
) -> tuple[str, dict[str, Any]]:
    """Whose node it is, and its key with the signature for this run, as the ledger holds them."""
    name, index, agents = (said.get(part) for part in ("name", "index", "agents"))
    if not isinstance(name, str) or name not in names:
        raise InvalidInput(f"it is called {short_repr(name)}, which no member is")
    if agents != len(names) or type(agents) is not int:
        raise InvalidInput(f'"{name}" has a row for {short_repr(agents)} members, the run is for {len(names)}')
    if type(index) is not int or index != names.index(name):
        raise InvalidInput(f'"{name}" says that its place is {short_repr(index)}, and it is {names.index(name)}')
    key, signature = plain_key(said.get("key")), said.get("signature")
    if not is_signed_by(key, key_document(run, name, index, key), signature):
        raise InvalidInput(f'"{name}" does not prove that its key is its own')
    if fixed.get(name, key) != key:
        raise InvalidInput(f'"{name}" signs with another key than at the start of the run')
    return name, {"place": index, "key": key, "signature": str(signature)}
