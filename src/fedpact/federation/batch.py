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
from fedpact.federation.lots import SharedCap, take_shared_caps
from fedpact.federation.payoffs import Payoff
from fedpact.utils.arrays import FloatArray, align_columns
from fedpact.utils.errors import InvalidInput

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Federations of the same agents: read-only; made by `Batch.of` or `Batch.vary`.

    Attributes
    ----------
    weights
        (federations, n, n), or (federations, tasks, lots).
    joined
        All of them side by side: agent i of federation k is agent k n + i, and lots and tasks likewise.
    names
        The agents' names, the same in every federation.
    like
        A federation with the same owners and names, where agents have several lots or tasks.
    """

    weights: FloatArray
    joined: Federation
    names: tuple[str, ...]
    like: Federation | None = None

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
            if other.has_lots or first.has_lots:
                _check_owners(first, other, place)
            if other.n_agents != first.n_agents or type(other.payoff) is not type(first.payoff):
                raise InvalidInput(
                    f"the federations of a batch must have the same size and payoff family: the first has "
                    f"{first.n_agents} members and {first.payoff.family}, number {place} has "
                    f"{other.n_agents} and {other.payoff.family}"
                )
        lots, tasks = first.n_lots, first.n_tasks
        return cls._stacked(
            first,
            weights=np.stack([each.dense_weights() for each in federations]),
            linear=np.stack([np.broadcast_to(each.costs.linear, lots) for each in federations]),
            quadratic=np.stack([np.broadcast_to(each.costs.quadratic, lots) for each in federations]),
            caps=np.stack([each.caps for each in federations]),
            values=np.stack([each.values for each in federations]),
            parameters={
                name: np.stack([np.broadcast_to(each.payoff.parameters[name], tasks) for each in federations])
                for name in first.payoff.parameters
            },
            shared_caps=[each.shared_caps for each in federations],
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
        shared_caps: ArrayLike | None = None,
        parameters: Mapping[str, ArrayLike] | None = None,
    ) -> Batch:
        """Variations of one federation: what is given has a leading axis over the federations, the rest stays.

        Parameters
        ----------
        weights
            (federations, n, n).
        costs, quadratic
            Linear and quadratic coefficients of the costs, (federations, n) or (federations, 1) for all agents alike;
            costs and caps are per lot, values and parameters per task.
        caps, values
            As the costs.
        shared_caps
            How much the lots of each shared cap of `base` come to at most, (federations, shared caps).
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
        given: dict[str, Any] = {"weights": weights, "costs": costs, "quadratic": quadratic}
        given |= {"caps": caps, "values": values, "shared_caps": shared_caps} | dict(parameters or {})
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
        size, tasks, lots = lengths.pop(), base.n_tasks, base.n_lots

        def spread(name: str, otherwise: FloatArray, count: int, labels: Sequence[str] = ()) -> FloatArray:
            numbers = align_columns(name, given.get(name), labels) if labels else given.get(name)
            try:
                return np.broadcast_to(
                    np.asarray(otherwise if numbers is None else numbers, dtype=np.float64), (size, count)
                )
            except ValueError as error:
                raise InvalidInput(
                    f"{name} must have shape ({size}, {count}) or ({size}, 1), got {np.asarray(numbers).shape}"
                ) from error

        stack = base.dense_weights() if weights is None else np.asarray(weights, dtype=np.float64)
        if stack.shape[-2:] != (tasks, lots):
            raise InvalidInput(f"weights must have shape ({size}, {tasks}, {lots}), got {stack.shape}")
        return cls._stacked(
            base,
            weights=np.broadcast_to(stack, (size, tasks, lots)),
            linear=spread("costs", base.costs.linear, lots, base.lot_labels),
            quadratic=spread("quadratic", base.costs.quadratic, lots, base.lot_labels),
            caps=spread("caps", base.caps, lots, base.lot_labels),
            values=spread("values", base.values, tasks, base.task_labels),
            parameters={
                name: spread(name, numbers, tasks, base.task_labels) for name, numbers in base.payoff.parameters.items()
            },
            shared_caps=[
                tuple(each._replace(cap=float(cap)) for each, cap in zip(base.shared_caps, row, strict=True))
                for row in spread(
                    "shared_caps", np.array([each.cap for each in base.shared_caps]), len(base.shared_caps)
                )
            ],
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
        shared_caps: Sequence[tuple[SharedCap, ...]],
    ) -> Batch:
        size, tasks, lots = weights.shape
        cost = Quadratic(linear.ravel(), quadratic.ravel()) if quadratic.any() else Linear(linear.ravel())
        columns = np.arange(size * lots).reshape(size, 1, lots).repeat(tasks, axis=1)
        rows = np.arange(size * tasks + 1) * lots
        blocks = like.n_agents * np.arange(size)[:, None]
        joined = Federation(
            sp.csr_array((weights.ravel(), columns.ravel(), rows), shape=(size * tasks, size * lots)),
            costs=cost,
            caps=caps.ravel(),
            values=values.ravel(),
            payoff=type(like.payoff)(**{name: numbers.ravel() for name, numbers in parameters.items()}),
            lot_owners=(blocks + like.lot_owners).ravel() if like.has_lots else None,
            task_owners=(blocks + like.task_owners).ravel() if like.has_lots else None,
            shared_caps=[
                SharedCap(tuple(block * lots + lot for lot in shared.lots), shared.cap)
                for block, each in enumerate(shared_caps)
                for shared in each
            ],
        )
        stack = np.array(weights)
        stack.setflags(write=False)
        return cls(weights=stack, joined=joined, names=like.names, like=like if like.has_lots else None)

    @property
    def n_agents(self) -> int:
        """How many agents each federation has."""
        return len(self.names)

    @property
    def n_lots(self) -> int:
        """How many lots of data each federation has."""
        return int(self.weights.shape[2])

    @property
    def has_lots(self) -> bool:
        """Whether agents own several lots or tasks."""
        return self.like is not None

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
        """Numbers per agent (lot, task) of the joined federation, as (federations, n)."""
        return numbers.reshape(len(self), -1)

    def take(self, places: ArrayLike) -> Batch:
        """The batch of some of the federations."""
        chosen = np.arange(len(self))[np.atleast_1d(np.asarray(places))]
        if self.has_lots:
            return Batch.of([self[int(place)] for place in chosen])
        agents = (chosen[:, None] * self.n_agents + np.arange(self.n_agents)).ravel()
        weights = self.weights[chosen]
        weights.setflags(write=False)
        return Batch(weights=weights, joined=self.joined.take(agents), names=self.names)

    def restrict(self, agents: ArrayLike) -> Batch:
        """The same federations with some of the agents only, given by their numbers."""
        chosen = np.atleast_1d(np.asarray(agents, dtype=np.intp))
        if self.has_lots:
            return Batch.of([federation.take(chosen) for federation in self])
        weights = self.weights[:, chosen[:, None], chosen]
        weights.setflags(write=False)
        places = (np.arange(len(self))[:, None] * self.n_agents + chosen).ravel()
        names = tuple(self.names[agent] for agent in chosen)
        return Batch(weights=weights, joined=self.joined.take(places), names=names)

    def without_sharing(self) -> Batch:
        """The same agents, each with its own data only."""
        if self.has_lots:
            return Batch.of([federation.without_sharing() for federation in self])
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
        if self.like is not None:
            tasks, lots = (np.arange(count) + (place % len(self)) * count for count in self.weights.shape[1:])
            return self.like.replace(
                weights=self.weights[place],
                costs=self.joined.costs.take(lots),
                caps=self.joined.caps[lots],
                values=self.joined.values[tasks],
                payoff=_shared(self.joined.payoff.take(tasks)),
                shared_caps=take_shared_caps(self.joined.shared_caps, lots),
            )
        own = np.arange(self.n_agents) + (place % len(self)) * self.n_agents
        return Federation(
            self.weights[place],
            costs=self.joined.costs.take(own),
            caps=self.joined.caps[own],
            values=self.joined.values[own],
            payoff=_shared(self.joined.payoff.take(own)),
            names=self.names,
        )


def _check_owners(first: Federation, other: Federation, place: int) -> None:
    """Refuse federations whose lots or tasks belong to others than those of the first."""
    owners = [(each.lot_owners.tolist(), each.task_owners.tolist()) for each in (first, other)]
    if owners[0] != owners[1] or first.has_lots != other.has_lots:
        raise InvalidInput(
            "the federations of a batch must have the same lots and tasks of the same owners: those of number "
            f"{place} are not those of the first"
        )


def _shared(payoff: Payoff) -> Payoff:
    """The same family with one number where all agents have the same."""
    shared = {name: n[0] if (n == n[0]).all() else n for name, n in payoff.parameters.items()}
    return type(payoff)(**shared)
