"""Many agents of few types: a federation in which agents of one type are interchangeable.

`types` is a federation with one agent per type; its weight w_ij is how useful the data of an agent of type j is to
*another* agent of type i. An agent's own data has its own weight, `own_weights`. All agents of a type contribute alike,
so a profile has one number per type, and whatever is computed for a type holds for each of its agents. The cost of
Shapley values is that of the types, however many agents there are.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.federation.federation import Federation
from fedpact.federation.lots import require_single_lots
from fedpact.utils.arrays import POSITIVE, FloatArray, align, checked_numbers, positive, read_only_copy
from fedpact.utils.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Population:
    """Groups of identical agents.

    Parameters
    ----------
    types
        One agent per type. Weights are between different agents; the diagonal is between two agents of one type.
    counts
        How many agents of each type there are.
    own_weights
        How useful an agent's data is to itself; by default as useful as that of another agent of its type.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw, shapley_values
    >>> types = Federation([[0.5, 0.2], [0.1, 0.8]], costs=0.001, caps=100.0, payoff=PowerLaw(beta=0.1))
    >>> crowd = Population(types, counts=[60_000, 40_000], own_weights=1.0)
    >>> crowd.n_agents
    100000
    >>> shapley_values(crowd, [5.0, 5.0]).values.round(4).tolist()
    [0.6331, 0.809]
    """

    types: Federation
    _: KW_ONLY
    counts: FloatArray
    own_weights: FloatArray = None  # type: ignore[assignment]

    if TYPE_CHECKING:

        def __init__(self, types: Federation, *, counts: ArrayLike, own_weights: ArrayLike | None = None) -> None: ...

    def __post_init__(self) -> None:
        require_single_lots(self.types, "a population")
        names = self.types.names
        given = checked_numbers("counts", self.counts, _whole, "a whole number of at least 1", names=names)
        own = self.types.weights.diagonal() if self.own_weights is None else self.own_weights
        own = checked_numbers("own_weights", own, positive, POSITIVE, names=names)
        if self.types.is_sparse:
            raise InvalidInput("types must have dense weights: there are few of them")
        object.__setattr__(self, "counts", read_only_copy(np.broadcast_to(given, len(names))))
        object.__setattr__(self, "own_weights", read_only_copy(np.broadcast_to(own, len(names))))

    @property
    def n_agents(self) -> int:
        """How many agents there are in all."""
        return int(self.counts.sum())

    def summed_weights(self) -> FloatArray:
        """What one unit from every agent of type j (but oneself) and from oneself adds up to, for type i."""
        total = self.types.dense_weights() * self.counts
        np.fill_diagonal(total, self.own_weights + (self.counts - 1.0) * self.types.weights.diagonal())
        return total

    def data(self, contributions: ArrayLike) -> FloatArray:
        """The weighted data an agent of each type reaches when every agent of type j contributes contributions[j]."""
        return np.asarray(
            self.summed_weights()
            @ np.asarray(align("contributions", contributions, self.types.names), dtype=np.float64)
        )

    def payoffs(self, contributions: ArrayLike) -> FloatArray:
        """The payoff of an agent of each type."""
        return self.types.values * self.types.payoff.value(self.data(contributions))

    def to_federation(self) -> Federation:
        """The federation with every agent in it; for few agents, to compare with."""
        kind = np.repeat(np.arange(len(self.counts)), self.counts.astype(int))
        weights = self.types.dense_weights()[np.ix_(kind, kind)]
        np.fill_diagonal(weights, self.own_weights[kind])
        return Federation(
            weights,
            costs=self.types.costs.take(kind),
            caps=self.types.caps[kind],
            payoff=self.types.payoff.take(kind),
            values=self.types.values[kind],
        )


def _whole(numbers: FloatArray) -> Any:
    return (numbers >= 1) & (numbers == np.floor(numbers)) & np.isfinite(numbers)
