"""Negotiations among many: what a round costs the coordinator, in units of reading the answers from their text."""

import json

from benchmarks import games
from benchmarks.figures import Figure
from benchmarks.timing import processor_seconds
from fedpact.negotiation import InProcess, coordinate

SIZES = (200, 1000)


def run():
    for n_agents in SIZES:
        yield coordinator_against_reading(n_agents)


def coordinator_against_reading(n_agents):
    """Members answer in this process: their time, and that of turning answers to text and back, is taken off."""
    channel = Timed(InProcess.of(games.costly(n_agents), least_gain=None))
    start = processor_seconds()
    deal = coordinate(channel, game=False, consent=False)
    rounds = len(channel.reading)
    at_coordinator = processor_seconds() - start - channel.elsewhere
    return Figure(
        what=f"a round of negotiation at the coordinator, n = {n_agents} ({rounds} rounds, {deal.mechanism})",
        against="reading the answers of a round",
        ratio=at_coordinator / sum(channel.reading),
        unit="times as long",
        at_most=AT_MOST[n_agents],
    )


AT_MOST = {200: 10.0, 1000: 10.0}


class Timed:
    """A channel whose answers arrive as text, and what each round's took to read."""

    def __init__(self, channel):
        self._channel, self.elsewhere, self.reading = channel, 0.0, []

    @property
    def names(self):
        return self._channel.names

    def ask(self, questions):
        start = processor_seconds()
        texts = {place: json.dumps(answer) for place, answer in self._channel.ask(questions).items()}
        between = processor_seconds()
        answers = {place: json.loads(text) for place, text in texts.items()}
        self.reading.append(processor_seconds() - between)
        self.elsewhere += processor_seconds() - start
        return answers
