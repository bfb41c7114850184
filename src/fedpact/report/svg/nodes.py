"""Where payers and payees stand in the picture of who pays whom, and what flows between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fedpact.deals import Settlement
from fedpact.utils.words import count_text

__all__ = ["MOST_NODES", "Layout", "Node", "Side", "laid_out"]

MOST_NODES = 10
"""The most payers, and the most payees, that stand by themselves; the others are drawn as one."""

FLOW_HEIGHT = 220.0
SLOT = 42.0  # two lines of text
GAP = 6.0

Side = Mapping[str, str | None]
"""The node each payer, or payee, belongs to: its own name, or None for the rest."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A payer or a payee, or the rest of them (`key` None); its bar begins `top` pixels down."""

    key: str | None
    label: str
    cents: int
    top: float
    height: float


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Both columns, what flows from a node of the first to a node of the second, and the height of it all."""

    payers: Sequence[Node]
    payees: Sequence[Node]
    ribbons: Mapping[tuple[str | None, str | None], int]
    height: float


def laid_out(settlement: Settlement) -> Layout:
    """The layout of a settlement that has transfers."""
    payers, payees = _side(settlement, -1), _side(settlement, +1)
    ribbons: dict[tuple[str | None, str | None], int] = defaultdict(int)
    for transfer in settlement.transfers:
        ribbons[payers[transfer.payer], payees[transfer.payee]] += transfer.cents
    left = _column(ribbons, 0, count_text(sum(key is None for key in payers.values()), "other payer"))
    right = _column(ribbons, 1, count_text(sum(key is None for key in payees.values()), "other payee"))
    height = max(_height(left), _height(right))
    return Layout(payers=_centred(left, height), payees=_centred(right, height), ribbons=ribbons, height=height)


def _side(settlement: Settlement, sign: int) -> dict[str, str | None]:
    balances = [(sign * cents, agent) for agent, cents in zip(settlement.names, settlement.cents, strict=True)]
    ranked = [agent for size, agent in sorted(balances, key=lambda pair: -pair[0]) if size > 0]
    n_alone = len(ranked) if len(ranked) <= MOST_NODES else MOST_NODES - 1
    return {agent: agent if place < n_alone else None for place, agent in enumerate(ranked)}


def _column(ribbons: Mapping[tuple[str | None, str | None], int], side: int, rest: str) -> list[Node]:
    """The nodes of one side, largest first and the rest last, each in a slot with room for its label."""
    totals: dict[str | None, int] = defaultdict(int)
    for ends, cents in ribbons.items():
        totals[ends[side]] += cents
    turnover = sum(totals.values())
    nodes, top = [], 0.0
    for key, cents in sorted(totals.items(), key=lambda item: (item[0] is None, -item[1])):
        height = max(FLOW_HEIGHT * cents / turnover, 1.0)
        slot = max(height, SLOT)
        label = rest if key is None else key
        nodes.append(Node(key=key, label=label, cents=cents, top=top + (slot - height) / 2, height=height))
        top += slot + GAP
    return nodes


def _height(nodes: Sequence[Node]) -> float:
    last = nodes[-1]
    return last.top + last.height + max(0.0, SLOT - last.height) / 2


def _centred(nodes: Sequence[Node], height: float) -> list[Node]:
    down = (height - _height(nodes)) / 2
    return [replace(node, top=node.top + down) for node in nodes]
