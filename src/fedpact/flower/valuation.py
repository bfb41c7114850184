"""What each member's updates are worth: coalitions of one round's replies, aggregated and valued apart.

For a round, v(S) is the worth of the model that the strategy makes of the replies of S alone, and v(empty) that of the
model before the round. An agent's value is its Shapley value of that game, summed over the rounds it took part in
(Song, Tong and Wei, 2019, "Profit allocation for federated learning", IEEE Big Data, the multi-round variant). No model
is trained for it: all replies are at hand. It says what updates added, given the rounds before, and not what training
without an agent from the start would have come to; `fedpact.training` answers that.

Up to `MAX_EXACT_MEMBERS` all coalitions are valued; beyond that, `COALITIONS_PER_MEMBER` times as many as members.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from flwr.app import ArrayRecord, Message
from flwr.serverapp.strategy import Strategy

from fedpact.flower.training_messages import copy_reply
from fedpact.shapley import sample_game
from fedpact.utils.errors import InvalidInput

MAX_EXACT_MEMBERS = 8
COALITIONS_PER_MEMBER = 32


class CoalitionValues:
    """Shapley values of agents' updates, round by round.

    Parameters
    ----------
    value
        What a model is worth, a finite number.
    agents
        Everybody's names.
    """

    def __init__(self, value: Callable[[ArrayRecord], float], agents: Sequence[str]) -> None:
        self._value = value
        self.totals = dict.fromkeys(agents, 0.0)
        self.rounds: list[dict[str, float]] = []

    def add_round(
        self, strategy: Strategy, server_round: int, replies: Mapping[str, Message], before: ArrayRecord
    ) -> None:
        """Value a round; the strategy and the replies stay as they are."""
        members = list(replies)

        def worth(coalition: Sequence[int]) -> float:
            arrays = before
            if coalition:
                arrays = _aggregate(strategy, server_round, [replies[members[place]] for place in sorted(coalition)])
            return self._value_of(arrays)

        budget = 2 ** len(members) if len(members) <= MAX_EXACT_MEMBERS else COALITIONS_PER_MEMBER * len(members)
        with _quiet_logs():
            found = sample_game(worth, len(members), budget=budget, rng=server_round)
        values = {name: float(value) for name, value in zip(members, found.values, strict=True)}
        self.rounds.append(values)
        for name, value in values.items():
            self.totals[name] += value

    def _value_of(self, arrays: ArrayRecord) -> float:
        value = float(self._value(arrays))
        if not math.isfinite(value):
            raise InvalidInput(f"coalition_value must return a finite number, got {value!r}")
        return value


def _aggregate(strategy: Strategy, server_round: int, replies: Sequence[Message]) -> ArrayRecord:
    """The model of some replies, by a copy of the strategy."""
    name = type(strategy).__name__
    arrays, _ = copy.deepcopy(strategy).aggregate_train(server_round, [copy_reply(reply) for reply in replies])
    if arrays is None:
        raise InvalidInput(f"{name} makes no model of {len(replies)} replies, so coalitions cannot be valued")
    return arrays


@contextmanager
def _quiet_logs() -> Iterator[None]:
    """Strategies report every aggregation: not those of coalitions."""
    flower = logging.getLogger("flwr")
    level = flower.level
    flower.setLevel(logging.WARNING)
    try:
        yield
    finally:
        flower.setLevel(level)
