"""Negotiation: the deal of the Externality mechanism, reached between agents that keep their numbers to themselves."""

from fedpact.negotiation.agent import Agent, agents_of
from fedpact.negotiation.channels import Channel, InProcess
from fedpact.negotiation.coordinator import PROTOCOLS, coordinate, negotiate

__all__ = ["PROTOCOLS", "Agent", "Channel", "InProcess", "agents_of", "coordinate", "negotiate"]
