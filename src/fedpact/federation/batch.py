"""A batch: federations of one size and one payoff family, as the blocks of a single large one.

A federation whose weights are block diagonal is many federations that do not know each other. So payoffs, payments,
standalone optima and Shapley values of all of them come from one pass over the large one; only what is summed or
compared within a federation has to know the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from fedpact.federation.bounds import block_bounds
from fedpact.federation.costs import Cost, Linear, Quadratic
from fedpact.federation.federation import Federation
from fedpact.federation.ownership import require_single_lots
from fedpact.federation.payoffs import Payoff
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Federations of the same agents: read-only; made by `Batch.of` or `Batch.vary`.

    Attributes
    ----------
    weights
        (federations, n, n).
    joined
        All of them side by side: agent i of federation k is agent k n + i.
    names
        The agents' names, the same in every federation.
    """

    weights: FloatArray
    joined: Federation
    names: tuple[str, ...]

    @classmethod
    def of(cls, federations: Sequence[Federation]) -> Batch:
        """A batch of federations that have the same number of agents and the same payoff family.

        Examples
        --------
        >>> from fedpact import Federation, PowerLaw
        >>> pair = [[1.0, 0.5], [0.2, 1.0]]
        >>> len(Batch.of([Federation(pair, costs=cost, payoff=PowerLaw(0.1)) for cost in (0.01, 0.02)]))
        2
        """
        if not federations:
            raise InvalidInput("a batch needs at least one federation, got none")
        first = federations[0]
        for place, other in enumerate(federations):
            require_single_lots(other, "a batch")
            if other.n_agents != first.n_agents or type(other.payoff) is not type(first.payoff):
                raise InvalidInput(
                    f"the federations of a batch must have the same size and payoff family: the first has "
                    f"{first.n_agents} agents and {first.payoff.family}, number {place} has "
                    f"{other.n_agents} and {other.payoff.family}"
                )
        shape = (len(federations), first.n_agents)
        return cls._stacked(
            first,
            weights=np.stack([each.dense_weights() for each in federations]),
            linear=np.stack([np.broadcast_to(each.costs.linear, shape[1]) for each in federations]),
            quadratic=np.stack([np.broadcast_to(each.costs.quadratic, shape[1]) for each in federations]),
            caps=np.stack([each.caps for each in federations]),
            values=np.stack([each.values for each in federations]),
            parameters={
                name: np.stack([np.broadcast_to(each.payoff.parameters[name], shape[1]) for each in federations])
                for name in first.payoff.parameters
            },
        )

    @classmethod
    def vary(
        cls,
        base: Federation,
        *,
        weights: ArrayLike | None = None,
        costs: Cost | ArrayLike | None = None,
        quadratic: ArrayLike | None = None,
        caps: ArrayLike | None = None,
        values: ArrayLike | None = None,
        parameters: Mapping[str, ArrayLike] | None = None,
    ) -> Batch:
        """Variations of one federation: what is given has a leading axis over the federations, the rest stays.

        Parameters
        ----------
        weights
            (federations, n, n).
        costs, quadratic
            Linear and quadratic coefficients of the costs, (federations, n) or (federations, 1) for all agents alike.
        caps, values
            As the costs.
        parameters
            Parameters of the payoff family by name, such as `{"beta": ...}`, as the costs.

        Examples
        --------
        >>> import numpy as np
        >>> from fedpact import Federation, PowerLaw
        >>> base = Federation(np.ones((3, 3)), costs=0.001, caps=400.0, payoff=PowerLaw(0.02))
        >>> batch = Batch.vary(base, costs=np.array([[0.001], [0.002]]))
        >>> batch[1].costs.linear.tolist()
        [0.002, 0.002, 0.002]
        """
        require_single_lots(base, "a batch")
        given: dict[str, Any] = {"weights": weights, "costs": costs, "quadratic": quadratic}
        given |= {"caps": caps, "values": values} | dict(parameters or {})
        unknown = set(parameters or {}) - set(base.payoff.parameters)
        if unknown:
            known = ", ".join(base.payoff.parameters) or "none"
            raise InvalidInput(
                f"the payoff family {base.payoff.family} has no parameter {min(unknown)!r}; it has {known}"
            )
        lengths = {len(np.asarray(numbers)) for numbers in given.values() if numbers is not None}
        if len(lengths) != 1:
            raise InvalidInput(
                f"what varies must have one entry per federation on its first axis, got lengths {sorted(lengths)}"
            )
        size, n_agents = lengths.pop(), base.n_agents

        def per_agent(name: str, otherwise: FloatArray) -> FloatArray:
            numbers = given.get(name)
            try:
                return np.broadcast_to(
                    np.asarray(otherwise if numbers is None else numbers, dtype=np.float64), (size, n_agents)
                )
            except ValueError as error:
                raise InvalidInput(
                    f"{name} must have shape ({size}, {n_agents}) or ({size}, 1), got {np.asarray(numbers).shape}"
                ) from error

        stack = base.dense_weights() if weights is None else np.asarray(weights, dtype=np.float64)
        if stack.shape[-2:] != (n_agents, n_agents):
            raise InvalidInput(f"weights must have shape ({size}, {n_agents}, {n_agents}), got {stack.shape}")
        return cls._stacked(
            base,
            weights=np.broadcast_to(stack, (size, n_agents, n_agents)),
            linear=per_agent("costs", base.costs.linear),
            quadratic=per_agent("quadratic", base.costs.quadratic),
            caps=per_agent("caps", base.caps),
            values=per_agent("values", base.values),
            parameters={name: per_agent(name, numbers) for name, numbers in base.payoff.parameters.items()},
        )

    @classmethod
    def _stacked(
        cls,
        like: Federation,
        *,
        weights: FloatArray,
        linear: FloatArray,
        quadratic: FloatArray,
        caps: FloatArray,
        values: FloatArray,
        parameters: Mapping[str, FloatArray],
    ) -> Batch:
        size, n_agents = weights.shape[:2]
        cost = Quadratic(linear.ravel(), quadratic.ravel()) if quadratic.any() else Linear(linear.ravel())
        columns = np.arange(size * n_agents).reshape(size, 1, n_agents).repeat(n_agents, axis=1)
        rows = np.arange(size * n_agents + 1) * n_agents
        joined = Federation(
            sp.csr_array((weights.ravel(), columns.ravel(), rows), shape=(size * n_agents, size * n_agents)),
            costs=cost,
            caps=caps.ravel(),
            values=values.ravel(),
            payoff=type(like.payoff)(**{name: numbers.ravel() for name, numbers in parameters.items()}),
        )
        stack = np.array(weights)
        stack.setflags(write=False)
        return cls(weights=stack, joined=joined, names=like.names)

    @property
    def n_agents(self) -> int:
        """How many agents each federation has."""
        return int(self.weights.shape[1])

    @cached_property
    def has_harm(self) -> bool:
        """Whether any weight of any federation is negative."""
        return bool((self.weights < 0).any())

    def bounds(self, *, multiple: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """The box every maximiser of `multiple` x payoff - cost lies in, per agent, and its scale, per federation."""
        if multiple not in self._bounds:
            self._bounds[multiple] = block_bounds(self.joined, len(self), multiple=multiple)
        return self._bounds[multiple]

    @cached_property
    def harmonic(self) -> float:
        """1 + 1/2 + ... + 1/n: what the shares of all coalitions in the potential add up to."""
        return float((1.0 / np.arange(1, self.n_agents + 1)).sum())

    @cached_property
    def _bounds(self) -> dict[float, tuple[FloatArray, FloatArray]]:
        return {}

    def split(self, numbers: NDArray[Scalar]) -> NDArray[Scalar]:
        """Numbers per agent of the joined federation, as (federations, n)."""
        return numbers.reshape(len(self), self.n_agents)

    def take(self, places: ArrayLike) -> Batch:
        """The batch of some of the federations."""
        chosen = np.arange(len(self))[np.atleast_1d(np.asarray(places))]
        agents = (chosen[:, None] * self.n_agents + np.arange(self.n_agents)).ravel()
        weights = self.weights[chosen]
        weights.setflags(write=False)
        return Batch(weights=weights, joined=self.joined.take(agents), names=self.names)

    def restrict(self, agents: ArrayLike) -> Batch:
        """The same federations with some of the agents only, given by their numbers."""
        chosen = np.atleast_1d(np.asarray(agents, dtype=np.intp))
        weights = self.weights[:, chosen[:, None], chosen]
        weights.setflags(write=False)
        places = (np.arange(len(self))[:, None] * self.n_agents + chosen).ravel()
        names = tuple(self.names[agent] for agent in chosen)
        return Batch(weights=weights, joined=self.joined.take(places), names=names)

    def without_sharing(self) -> Batch:
        """The same agents, each with its own data only."""
        weights = self.weights * np.eye(self.n_agents)
        weights.setflags(write=False)
        return Batch(weights=weights, joined=self.joined.without_sharing(), names=self.names)

    def __len__(self) -> int:
        return int(self.weights.shape[0])

    def __iter__(self) -> Iterator[Federation]:
        return (self[place] for place in range(len(self)))

    def __getitem__(self, place: int) -> Federation:
        if not -len(self) <= place < len(self):
            raise IndexError(f"the batch has {len(self)} federations, there is no number {place}")
        own = np.arange(self.n_agents) + (place % len(self)) * self.n_agents
        return Federation(
            self.weights[place],
            costs=self.joined.costs.take(own),
            caps=self.joined.caps[own],
            values=self.joined.values[own],
            payoff=_shared(self.joined.payoff.take(own)),
            names=self.names,
        )


def _shared(payoff: Payoff) -> Payoff:
    """The same family with one number where all agents have the same."""
    shared = {name: n[0] if (n == n[0]).all() else n for name, n in payoff.parameters.items()}
    return type(payoff)(**shared)
