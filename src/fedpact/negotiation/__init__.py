"""Negotiation: the deal of a mechanism, reached between agents that keep their numbers to themselves.

A coordinator asks (`coordinator`), by a protocol of the table in `protocols`, over a channel, on record if wanted
(`fedpact.deals.transcript`); an `Agent` answers, and `validation` checks what it says. `check` is the one check of
a deal, a transcript or a ledger. May use: utils, federation, scenario, shapley, solvers, certificates, deals,
mechanisms, comparison.
"""

from fedpact.deals.transcript import Channel
from fedpact.negotiation.agent import Agent, InProcess, agents_of
from fedpact.negotiation.coordinator import coordinate, negotiate, recompute
from fedpact.negotiation.message_game import MessageGame
from fedpact.negotiation.protocols import NEGOTIABLE, PROTOCOLS

__all__ = [
    "NEGOTIABLE",
    "PROTOCOLS",
    "Agent",
    "Channel",
    "InProcess",
    "MessageGame",
    "agents_of",
    "coordinate",
    "negotiate",
    "recompute",
]
