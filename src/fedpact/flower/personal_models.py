"""Models that members have of their own: whose updates each is made of, and who makes it.

Every member trains once a round, from its own model, on what it shares under the deal, and sends one update; its model
is then the strategy's aggregate of the updates that are of use to it, its own among them. Members that want the same
updates have the same model, which one copy of the strategy makes. One model for all is the case of a single group.

Who leaves out whose update shows whose data harms whom: the coordinator has to know that much of everybody's weights,
and where members sign, the ledger says it to all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Strategy

from fedpact.federation import Federation
from fedpact.federation.lots import require_single_lots
from fedpact.flower.statement import Refused
from fedpact.negotiation.agent import Agent
from fedpact.scenario.scenario import COMMON, PERSONAL
from fedpact.utils.errors import InvalidInput, short_repr

Wants = Mapping[str, Iterable[str]]
WITHOUT_MODELS = 'leave it out, or train one model for all (models = "common", no `wants`)'


@dataclass
class ModelGroup:
    """Members with the same model.

    Attributes
    ----------
    members
        Whose model it is.
    wanted
        Whose updates it is made of.
    strategy
        What makes it of them.
    arrays
        The model; None before training.
    """

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
    if wants is None:
        return [ModelGroup(tuple(agreed), givers, strategy)]
    members: dict[frozenset[str], list[str]] = {}
    for name in agreed:
        members.setdefault(givers & {*wants[name], name}, []).append(name)
    return [ModelGroup(tuple(names), wanted, copy.deepcopy(strategy)) for wanted, names in members.items()]


def checked_wants(given: Federation | Wants, members: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Whose updates everybody's own model is made of, by name, of the members of a deal."""
    there = tuple(members)
    if isinstance(given, Federation):
        require_single_lots(given, "a deal on Flower")
        named = dict(zip(given.names, given.wanted_lots, strict=True))
        stated: Mapping[str, Iterable[str]] = {
            name: [other for other, wanted in zip(given.names, row, strict=True) if wanted]
            for name, row in named.items()
        }
    else:
        stated = given
    missing = [name for name in there if name not in stated]
    if missing:
        raise InvalidInput(f'wants must say for every member whose updates are of use to it; "{missing[0]}" is missing')
    known = {*there, *stated}
    for name, wanted in stated.items():
        strange = [other for other in wanted if other not in known]
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


def own_wants(document: Mapping[str, Any], stated: Any, agent: Agent | None, name: str) -> list[str] | None:
    """Whose updates the model of this node is to be made of, by the deal it is asked to sign; None if all have one.

    Parameters
    ----------
    stated
        What the coordinator says, if it does.
    agent
        What the node knows of itself; None if it has no private file, and goes by what is stated.

    Raises
    ------
    Refused
        If that is not what is of use to it.
    """
    models, names = document.get("models", COMMON), document["agents"]
    if models == COMMON:
        return None
    if models != PERSONAL:
        raise Refused(f'models must be "{COMMON}" or "{PERSONAL}", got {short_repr(models)}')
    if agent is None:
        if not is_wanted(stated, names) or name not in stated:
            raise Refused(f"models: it must be told whose updates its model is made of, got {short_repr(stated)}")
        return list(stated)
    [weights] = agent.weights
    harmful = np.flatnonzero(weights < 0.0)
    if harmful.size:
        raise Refused(
            f'models: its private file counts data of "{names[harmful[0]]}" that harms it, and with personal models '
            f'nobody trains on such data; write the file anew from a scenario with models = "{PERSONAL}"'
        )
    out = document.get("excluded") or []
    useful = [other for place, other in enumerate(names) if place == agent.index or weights[place] > 0.0]
    wanted = [other for other in useful if other not in out]
    if stated is not None and (not is_wanted(stated, names) or {*stated} != {*wanted}):
        raise Refused(f"models: it wants the updates of {', '.join(wanted)}, not {short_repr(stated)}")
    return wanted


def is_wanted(stated: Any, names: Sequence[str]) -> bool:
    """Whether it is a list of members."""
    return isinstance(stated, list) and all(isinstance(name, str) and name in names for name in stated)
