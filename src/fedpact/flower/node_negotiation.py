"""What a node answers while its deal is negotiated: as its private file says, and no more than its memory lets it."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context

from fedpact.flower.identity import keys_of_others, own_agent, own_key, samples_per_unit
from fedpact.flower.learner import Learner, LearnerFactory
from fedpact.negotiation import PROTOCOLS
from fedpact.negotiation.agent import Agent
from fedpact.negotiation.node_memory import NodeMemory
from fedpact.negotiation.sum_terms import Identity
from fedpact.utils.errors import InvalidInput

MASKS = "masks"  # the record of a node's state that holds what its masks are made from
MEMORY = "negotiation"  # and the one with what it remembers of the negotiation


def answer_negotiation(asked: dict[str, Any], context: Context, learner: LearnerFactory) -> dict[str, Any]:
    """Its answer to a question of the negotiation, if what it has answered before allows it."""
    own, identity = own_agent(context), _identity(context)
    memory = _memory(context).after(asked, knows_keys=identity.known.is_given)
    if asked.get("kind") == "introduce":
        own = within_its_data(own, learner(context), samples_per_unit(context))
    answer = replace(own, secret=_mask_secret(context), identity=identity).answer_stranger(asked)
    context.state[MEMORY] = ConfigRecord(
        {
            "protocol": memory.protocol,
            "mechanism": memory.mechanism,
            "members": list(memory.members),
            "agreed": list(memory.agreed),
            "payment": list(memory.payment),
        }
    )
    return answer


def _memory(context: Context) -> NodeMemory:
    """What the node remembers of this run's negotiation; at first, by which protocol its owner lets it negotiate."""
    kept = context.state.get(MEMORY)
    if not isinstance(kept, ConfigRecord):
        named = context.node_config.get("protocol", "")
        if named not in ("", *PROTOCOLS):
            raise InvalidInput(f"protocol must be one of {', '.join(PROTOCOLS)}, got {named!r:.40}")
        return NodeMemory(protocol=str(named))
    members: list[Any] = list(kept["members"])  # type: ignore[arg-type]
    agreed: list[Any] = list(kept["agreed"])  # type: ignore[arg-type]
    payment: list[Any] = list(kept["payment"])  # type: ignore[arg-type]
    return NodeMemory(
        protocol=str(kept["protocol"]),
        mechanism=str(kept["mechanism"]),
        members=tuple(map(int, members)),
        agreed=tuple(map(float, agreed)),
        payment=tuple(map(float, payment)),
    )


def _mask_secret(context: Context) -> bytes:
    """What the node's masks are made from: drawn once, kept in the node's state."""
    kept = context.state.get(MASKS)
    if not isinstance(kept, ConfigRecord):
        kept = context.state[MASKS] = ConfigRecord({"secret": os.urandom(32)})
    return bytes(kept["secret"])  # type: ignore[arg-type]


def _identity(context: Context) -> Identity:
    """The key the node signs with, read when it does, and the others' public ones."""
    return Identity(sign=lambda text: own_key(context).sign_bytes(text), known=keys_of_others(context))


def within_its_data(agent: Agent, learner: Learner, samples_per_unit: float) -> Agent:
    """The agent with caps that its data can honour."""
    most = learner.samples / samples_per_unit
    return replace(agent, caps=np.minimum(agent.caps, most))
