"""The numbers of one federation, or of many alike ones, and the quantities of the model as functions of them.

Lots l belong to `lot_owners[l]`, tasks r to `task_owners[r]`. At contributions s, task r reaches the weighted data

    y_r = sum_l w_rl s_l,      xi_r = 1 + y_r,      payoff a_r = value_r g_r(y_r),

and a member's payoff is the sum over its tasks. Every array may have leading axes in front of the one or two named
here: a federation has none, many federations with the same members, lots and tasks have one (`stack`), and a profile
may have more than the federation, such as one per coalition. Quantities broadcast over them; no formula asks how many
lots a member has.

Outside the domain of a payoff (`data <= floor`) payoffs are minus infinity and their derivatives infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedpact.federation.payoffs import Payoff
from fedpact.utils.arrays import FloatArray

if TYPE_CHECKING:
    from fedpact.federation.federation import Federation

Owners: TypeAlias = "NDArray[np.intp]"
MAX_POWER = 500  # of two: bounds on spending are looked for below it, and above its inverse
VECTOR, MATRIX = {"last_axes": 1}, {"last_axes": 2}  # of arrays, behind the leading axes


@dataclass(frozen=True, kw_only=True, eq=False)
class FederationArrays:
    """Weights (..., tasks, lots), values (..., tasks), costs and caps (..., lots) and whose lots and tasks are."""

    weights: FloatArray = field(metadata=MATRIX)  # the row receives, the column gives
    values: FloatArray = field(metadata=VECTOR)
    # linear, quadratic: The cost of s_l is linear_l s_l + quadratic_l s_l^2
    linear: FloatArray = field(metadata=VECTOR)
    quadratic: FloatArray = field(metadata=VECTOR)
    caps: FloatArray = field(metadata=VECTOR)
    payoff: Payoff  # the family, each parameter a number or (..., tasks)
    names: tuple[str, ...]
    lot_owners: Owners
    task_owners: Owners
    # shared, shared_limits: (shared caps, lots), or with the leading axes in front: 1 where a lot is under a shared
    # cap; and (..., shared caps), these caps
    shared: FloatArray = field(metadata=MATRIX)
    shared_limits: FloatArray = field(metadata=VECTOR)
    # (..., members): what each pays once for taking part, and does not pay alone
    joining_costs: FloatArray = field(metadata=VECTOR)
    budgets: FloatArray = field(metadata=VECTOR)  # (..., members): the most each can pay

    @property
    def n_agents(self) -> int:
        """How many members there are."""
        return len(self.names)

    @property
    def n_lots(self) -> int:
        """How many lots there are."""
        return int(self.lot_owners.size)

    @property
    def n_tasks(self) -> int:
        """How many tasks there are."""
        return int(self.task_owners.size)

    @property
    def has_lots(self) -> bool:
        """Whether lots or tasks are other than the members themselves; for what is refused, not for formulas."""
        everybody = np.arange(self.n_agents)
        return not (np.array_equal(self.lot_owners, everybody) and np.array_equal(self.task_owners, everybody))

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading axes: () for one federation."""
        return self.values.shape[:-1]

    @cached_property
    def floor(self) -> FloatArray:
        """The infimum of the data of every task for which its payoff is defined."""
        return np.broadcast_to(self.payoff.floor, self.values.shape)

    @cached_property
    def has_harm(self) -> bool:
        """Whether any weight is negative."""
        return bool((self.weights < 0).any())

    @cached_property
    def own_weights(self) -> FloatArray:
        """The weights with zeros where a lot and a task have different owners."""
        return np.where(self.task_owners[:, None] == self.lot_owners, self.weights, 0.0)

    @cached_property
    def foreign_weights(self) -> FloatArray:
        """The weights with zeros where a lot and a task have the same owner."""
        return np.where(self.task_owners[:, None] == self.lot_owners, 0.0, self.weights)

    # What members bring, and what it is worth

    def data(self, contributions: FloatArray) -> FloatArray:
        """y_r = sum_l w_rl s_l, (..., tasks)."""
        return times(self.weights, contributions)

    def own_data(self, contributions: FloatArray) -> FloatArray:
        """The data that each task has from its owner's lots, (..., tasks)."""
        return times(self.own_weights, contributions)

    def foreign_data(self, contributions: FloatArray) -> FloatArray:
        """The data that each task has from lots of others than its owner, (..., tasks)."""
        return times(self.foreign_weights, contributions)

    def member_data(self, contributions: FloatArray) -> FloatArray:
        """u_rj, the data that member j's lots together bring to task r, (..., tasks, members); dense."""
        return sum_by(self.lot_owners, self.weights * contributions[..., None, :], self.n_agents)

    def lowest_data(self, contributions: FloatArray) -> FloatArray:
        """The least data of every task in any coalition: what those who harm it bring, (..., tasks)."""
        if not self.has_harm:
            return np.zeros((*np.broadcast_shapes(contributions.shape[:-1], self.shape), self.n_tasks))
        return np.minimum(self.member_data(contributions), 0.0).sum(axis=-1)

    def highest_data(self, contributions: FloatArray) -> FloatArray:
        """The most data of every task in any coalition: what those who help it bring, (..., tasks)."""
        if not self.has_harm:
            return self.data(contributions)
        return np.maximum(self.member_data(contributions), 0.0).sum(axis=-1)

    def task_payoffs(self, contributions: FloatArray) -> FloatArray:
        """value_r g_r(y_r), (..., tasks)."""
        return self.worth(self.data(contributions))

    def payoffs(self, contributions: FloatArray) -> FloatArray:
        """a_i, (..., members)."""
        return sum_by(self.task_owners, self.task_payoffs(contributions), self.n_agents)

    def lot_costs(self, contributions: FloatArray) -> FloatArray:
        """What is spent on every lot, (..., lots)."""
        return (self.linear + self.quadratic * contributions) * contributions

    def spending(self, contributions: FloatArray) -> FloatArray:
        """c_i, (..., members)."""
        return sum_by(self.lot_owners, self.lot_costs(contributions), self.n_agents)

    def welfare(self, contributions: FloatArray) -> FloatArray:
        """The sum of payoffs minus the sum of costs, (...)."""
        return self.task_payoffs(contributions).sum(axis=-1) - self.lot_costs(contributions).sum(axis=-1)

    # Derivatives

    def worth(self, data: FloatArray) -> FloatArray:
        """value_r g_r(y_r) of data y, (..., tasks)."""
        return self._inside(data, self.payoff.value, -np.inf)

    def marginal_worth(self, data: FloatArray) -> FloatArray:
        """value_r g_r'(y_r) of data y, (..., tasks)."""
        return self._inside(data, self.payoff.slope, np.inf)

    def worth_curvature(self, data: FloatArray) -> FloatArray:
        """value_r g_r''(y_r) of data y, (..., tasks)."""
        return self._inside(data, self.payoff.curvature, -np.inf)

    def marginal_payoffs(self, contributions: FloatArray) -> FloatArray:
        """value_r g_r'(y_r), what one more unit of data is worth to every task, (..., tasks)."""
        return self.marginal_worth(self.data(contributions))

    def marginal_costs(self, contributions: FloatArray) -> FloatArray:
        """c_l'(s_l), (..., lots)."""
        return self.linear + 2.0 * self.quadratic * contributions

    def net_externality(self, contributions: FloatArray) -> FloatArray:
        """What one more sample of every lot is worth to the tasks of all but its owner, (..., lots)."""
        return times_transposed(self.foreign_weights, self.marginal_payoffs(contributions))

    def welfare_gradient(self, contributions: FloatArray) -> FloatArray:
        """dW/ds, (..., lots)."""
        worth = times_transposed(self.weights, self.marginal_payoffs(contributions))
        return worth - self.marginal_costs(contributions)

    def joining_costs_of(self, members: NDArray[np.bool_]) -> FloatArray:
        """What groups (groups, members) pay for joining, (..., groups): those of one pay nothing."""
        together = members & (members.sum(axis=-1, keepdims=True) > 1)
        return self.joining_costs @ together.T.astype(np.float64)

    # Payments at prices

    def price_payments(self, contributions: FloatArray) -> FloatArray:
        """What every member is paid at the prices l_rl = value_r g_r' w_rl of others' data, (..., members).

        Every lot is paid what the tasks of others pay for it, so payments sum to zero at every profile.
        """
        paid = self.marginal_payoffs(contributions) * self.foreign_data(contributions)
        received = contributions * self.net_externality(contributions)
        return sum_by(self.lot_owners, received, self.n_agents) - sum_by(self.task_owners, paid, self.n_agents)

    def prices(self, contributions: FloatArray) -> FloatArray:
        """(..., members, lots): what each member pays for a sample of each lot; its owner is paid the sum."""
        worth = self.marginal_payoffs(contributions)[..., :, None] * self.weights
        by_member = np.swapaxes(sum_by(self.task_owners, np.swapaxes(worth, -1, -2), self.n_agents), -1, -2)
        own = np.arange(self.n_agents)[:, None] == self.lot_owners
        prices = np.where(own, 0.0, by_member)
        return np.where(own, -prices.sum(axis=-2, keepdims=True), prices)

    # The box that every maximiser lies in

    def bounds(self, multiple: float | FloatArray = 1.0) -> tuple[FloatArray, FloatArray]:
        """A finite box (..., lots) that holds every maximiser of `multiple` x payoffs - costs, and what it spends.

        A maximiser does at least as well as contributing nothing, so that its payoff covers its cost. If all costs
        together are S, no lot brings more than S buys of it, and the payoff is at most U(S), concave in S: so S is at
        most the largest root of U(S) = S, here rounded up to a power of two, (...).
        """
        helpful = np.maximum(self.weights, 0.0)

        def covers(power: FloatArray) -> NDArray[np.bool_]:
            spending = np.exp2(power)
            most = times(helpful, np.minimum(self._affordable(spending), self.reachable_caps))
            with np.errstate(over="ignore", invalid="ignore"):
                worth = (self.values * self.payoff.value(most)).sum(axis=-1)
            return np.asarray(multiple * worth >= spending)

        low, high = np.full(self.shape, -float(MAX_POWER)), np.full(self.shape, float(MAX_POWER))
        while (wide := high - low > 1.0).any():
            middle = np.where(wide, np.floor(0.5 * (low + high)), high)
            pays = covers(middle)
            low, high = np.where(wide & pays, middle, low), np.where(wide & ~pays, middle, high)
        spending = np.exp2(high)
        return np.minimum(self.reachable_caps, self._affordable(2.0 * spending)), spending

    @cached_property
    def reachable_caps(self) -> FloatArray:
        """The most that can be brought of every lot alone: its own cap, or the one it shares, (..., lots)."""
        if not self.shared.size:
            return self.caps
        under = np.where(self.shared > 0, self.shared_limits[..., None], np.inf).min(axis=-2)
        return np.minimum(self.caps, under)

    def _affordable(self, budget: FloatArray) -> FloatArray:
        """The most of each lot that a budget buys, (..., lots)."""
        budget = np.asarray(budget)[..., None]
        return 2.0 * budget / (self.linear + np.sqrt(self.linear**2 + 4.0 * self.quadratic * budget))

    # Others made of this one

    def counted_from_home(self, home: FloatArray) -> FederationArrays:
        """The federation of what is gained on data (..., lots) that every owner uses at home, shared or not.

        Sharing its own data gives a member nothing more, and others' data is worth to it what it adds. A task for which
        data of its owner's does harm goes without it.
        """
        own = self.own_weights
        payoff, units, values = self.payoff.counted_from(times(np.maximum(own, 0.0), home))
        weights = (self.weights - own) / np.broadcast_to(units, self.values.shape)[..., None]
        return replace(self, weights=weights, payoff=payoff, values=self.values * values)

    def without_sharing(self) -> FederationArrays:
        """The same members, each with its own data only."""
        return replace(self, weights=self.own_weights)

    def map(self, function: Callable[[NDArray[Any], int], NDArray[Any]], **changes: Any) -> FederationArrays:
        """With a function of (array, number of its leading axes) applied to every array that has those of `shape`."""
        lead, found = len(self.shape), dict[str, Any]()
        for name, last in LAST_AXES.items():
            part = getattr(self, name)
            if name not in changes and (part.ndim > last or not lead):
                found[name] = function(np.broadcast_to(part, (*self.shape, *part.shape[-last:])), lead)
        payoff = self.payoff.map(lambda given: function(np.broadcast_to(given, self.values.shape), lead))
        return replace(self, **({"payoff": payoff} | found | changes))

    def repeated(self, count: int, **changes: Any) -> FederationArrays:
        """The same federation `count` times along a leading axis, with other arrays (count, ...) for some fields."""
        return self.map(lambda part, _: np.broadcast_to(part, (count, *part.shape)), shared=self.shared, **changes)

    def at(self, index: Any) -> FederationArrays:
        """Those at an index of the leading axes."""
        return self.map(lambda part, _: part[index])

    def flattened(self) -> FederationArrays:
        """The same federations with one leading axis."""
        count = int(np.prod(self.shape))
        return self.map(lambda part, lead: part.reshape(count, *part.shape[lead:])) if len(self.shape) > 1 else self

    def expanded(self) -> FederationArrays:
        """With one more axis of length one behind the leading ones, to meet profiles that have one more."""
        return self.map(np.expand_dims, shared=self.shared)

    def _inside(self, data: FloatArray, function: Any, outside: float) -> FloatArray:
        with np.errstate(all="ignore"):
            found = self.values * function(data)
        if not self.has_harm:
            return found
        return np.where(data <= self.payoff.floor, outside, found)


LAST_AXES = {each.name: each.metadata["last_axes"] for each in fields(FederationArrays) if each.metadata}


def stack(federations: Sequence[Federation]) -> FederationArrays:
    """The arrays of federations with the same members, lots and tasks, with one leading axis."""
    each = [federation.arrays for federation in federations]
    first = each[0]
    parts = {name: np.stack([getattr(one, name) for one in each]) for name in LAST_AXES if name != "shared"}
    parameters = {
        name: np.stack([np.broadcast_to(one.payoff.parameters[name], one.values.shape) for one in each])
        for name in first.payoff.parameters
    }
    return replace(first, **parts, payoff=first.payoff.unchecked(**parameters))  # type: ignore[arg-type]


def times(matrix: FloatArray, vectors: FloatArray) -> FloatArray:
    """matrix @ vector for (..., m, n) and (..., n), broadcasting; of derivatives outside the domain there is no sum."""
    with np.errstate(invalid="ignore"):
        return vectors @ matrix.T if matrix.ndim == 2 else np.matmul(matrix, vectors[..., None])[..., 0]


def times_transposed(matrix: FloatArray, vectors: FloatArray) -> FloatArray:
    """matrix.T @ vector for (..., m, n) and (..., m), broadcasting."""
    return times(np.swapaxes(matrix, -1, -2), vectors)


def sum_by(owners: Owners, numbers: FloatArray, n_owners: int) -> FloatArray:
    """Numbers (..., owned) summed for every owner, (..., owners)."""
    if owners.size == n_owners and np.array_equal(owners, np.arange(n_owners)):
        return np.asarray(numbers)
    found = np.zeros((*numbers.shape[:-1], n_owners))
    for index, owner in enumerate(owners.tolist()):
        found[..., owner] += numbers[..., index]
    return found
