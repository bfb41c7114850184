"""Models that members have of their own: whose updates each is made of, and who makes it.

Every member trains once a round, from its own model, on what it shares under the deal, and sends one update; its model
is then the strategy's aggregate of the updates that are of use to it, its own among them. Members that want the same
updates have the same model, which one copy of the strategy makes. One model for all is the case of a single group.

Who leaves out whose update shows whose data harms whom: the coordinator has to know that much of everybody's weights,
and where members sign, the ledger says it to all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Strategy

from fedpact.federation import Federation
from fedpact.federation.lots import require_single_lots
from fedpact.utils.errors import InvalidInput, short_repr

Wants = Mapping[str, Iterable[str]]
WITHOUT_MODELS = 'leave it out, or train one model for all (models = "common", no `wants`)'


@dataclass
class ModelGroup:
    """Members with the same model: whose it is, whose updates it is made of, and by what; None before training."""

    members: tuple[str, ...]
    wanted: frozenset[str]
    strategy: Strategy
    arrays: ArrayRecord | None = None


def group_members(strategy: Strategy, agreed: Mapping[str, int], wants: Wants | None) -> list[ModelGroup]:
    """Members by the updates they want, that of the deal's first member first; each group with a copy of the strategy.

    Parameters
    ----------
    agreed
        Samples by member.
    wants
        Names by member; None for one model for all.
    """
    givers = frozenset(name for name, samples in agreed.items() if samples)
    members: dict[frozenset[str], list[str]] = {}
    for name in agreed:
        members.setdefault(givers & {*wants[name], name} if wants is not None else givers, []).append(name)
    return [ModelGroup(tuple(names), wanted, copy.deepcopy(strategy)) for wanted, names in members.items()]


def checked_wants(given: Federation | Wants, members: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Whose updates everybody's own model is made of, by name, of the members of a deal."""
    there, stated = tuple(members), given
    if isinstance(given, Federation):
        require_single_lots(given, "a deal on Flower")
        rows = zip(given.names, given.wanted_lots, strict=True)
        stated = {name: [other for other, wanted in zip(given.names, row, strict=True) if wanted] for name, row in rows}
    assert not isinstance(stated, Federation)
    missing = [name for name in there if name not in stated]
    if missing:
        raise InvalidInput(f'wants must say for every member whose updates are of use to it; "{missing[0]}" is missing')
    for name, wanted in stated.items():
        strange = [other for other in wanted if other not in {*there, *stated}]
        if strange or isinstance(wanted, str):
            raise InvalidInput(f'wants["{name}"] must be a list of members, got {short_repr(strange or wanted)}')
    return {name: tuple(other for other in there if other in {*stated[name], name}) for name in there}


def check_personal(**unused: Any) -> None:
    """Refuse what needs one model for all, by the names of the settings that ask for it."""
    reasons = {
        "verify_subsets": "models of subsets of the updates are made along one model that all train from",
        "evaluate_fn": "it is given one model, and every member has its own; look at `.models`",
    }
    for setting, given in unused.items():
        if given:
            raise InvalidInput(f"{setting} cannot be used with personal models: {reasons[setting]}; {WITHOUT_MODELS}")
