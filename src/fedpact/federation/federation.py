"""The instance: who takes part, how useful each one's data is to each, what data costs and what accuracy is worth.

Agent j contributes s_j samples, 0 <= s_j <= caps[j]. `weights[i, j]` is how useful j's data is to i: the row receives,
the column gives. Agent i reaches xi_i = 1 + sum_j w_ij s_j weighted samples, and its payoff is

    a_i(s) = values[i] * g_i(xi_i - 1),

g_i from a payoff family. The paper's setting (equation 3) is `PowerLaw(beta)` with values 1 and w_ii = 1.
Welfare is sum_i a_i(s) - sum_j c_j(s_j).

An agent may hold several *lots* of data, each with its own column, cost and cap, and have several *tasks*, each with
its own row, value and curve (`fedpact.federation.lots`). Then `weights` is (tasks x lots), contributions are per
lot, and an agent's payoff is the sum over its tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from fedpact.federation.arrays import FederationArrays
from fedpact.federation.bounds import block_bounds
from fedpact.federation.costs import Cost
from fedpact.federation.fingerprint import federation_signature, fingerprint_text
from fedpact.federation.lots import (
    Owners,
    OwnersGiven,
    SharedCap,
    SharedCapsGiven,
    default_own_names,
    first_exceeded,
    labels,
    owned_by,
    reachable_caps,
    require_single_lots,
    shared_members,
    take_shared_caps,
)
from fedpact.federation.payoffs import Payoff
from fedpact.federation.validation import Costs, Weights, checked_inputs
from fedpact.utils.arrays import (
    FloatArray,
    LotLabels,
    TaskLabels,
    align,
    checked_numbers,
    first_where,
    read_only_copy,
    sum_by,
)
from fedpact.utils.errors import InvalidInput, OutsideDomain


@dataclass(frozen=True, eq=False, init=False)
class Federation:
    """A federation of n agents: immutable and checked on creation.

    Parameters
    ----------
    weights
        (n, n) matrix, dense or scipy.sparse, of any sign, with a positive diagonal. Row i, column j: how useful j's
        data is to i.
    costs
        What contributing costs: marginal costs (a number or one per agent), a `Linear` or `Quadratic`, or one of these
        per agent.
    caps
        The most each agent can contribute; a number or one per agent, `inf` allowed.
    payoff
        A payoff family, such as `PowerLaw(beta=0.02)`.
    names
        One distinct name per agent; "agent 0", "agent 1", ... if not given.
    values
        Money per unit of payoff; a number or one per agent.
    lot_owners, task_owners
        Whose each column and each row of the weights is, by name or by place among the agents; one of each per agent
        if not given. With them the weights are (tasks x lots), of any sign; costs and caps are one per lot, the
        payoff's parameters and values one per task. An agent may own none of either, but not of both.
    lot_names, task_names
        What they are called, distinct for one owner.
    shared_caps
        Lots of one agent that share a cap, by place or label, and the cap: `[(["A: raw", "A: noised"], 100.0)]`.

    Examples
    --------
    >>> import numpy as np
    >>> from fedpact.federation import PowerLaw
    >>> federation = Federation(weights=np.ones((3, 3)), costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> federation.reach(np.array([1.0, 2.0, 3.0]))
    array([7., 7., 7.])
    >>> lots = Federation(
    ...     [[1.0, 0.2, 0.5], [0.3, 0.1, 1.0]], lot_owners=["A", "A", "B"], costs=0.01, payoff=PowerLaw(beta=0.02)
    ... )
    >>> lots.names, lots.n_lots, lots.n_tasks
    (('A', 'B'), 3, 2)
    """

    weights: Weights
    costs: Cost
    caps: FloatArray
    payoff: Payoff
    names: tuple[str, ...]
    values: FloatArray
    lot_owners: Owners
    task_owners: Owners
    lot_names: tuple[str, ...]
    task_names: tuple[str, ...]
    shared_caps: tuple[SharedCap, ...]

    def __init__(
        self,
        weights: ArrayLike | sp.sparray,
        *,
        costs: Costs,
        payoff: Payoff,
        caps: ArrayLike = np.inf,
        names: Sequence[str] | None = None,
        values: ArrayLike = 1.0,
        lot_owners: OwnersGiven | None = None,
        task_owners: OwnersGiven | None = None,
        lot_names: Sequence[str] | None = None,
        task_names: Sequence[str] | None = None,
        shared_caps: SharedCapsGiven | None = None,
    ) -> None:
        inputs = checked_inputs(
            weights,
            costs=costs,
            payoff=payoff,
            caps=caps,
            names=names,
            values=values,
            lot_owners=lot_owners,
            task_owners=task_owners,
            lot_names=lot_names,
            task_names=task_names,
            shared_caps=shared_caps,
        )
        for field, value in inputs._asdict().items():
            object.__setattr__(self, field, value)

    @cached_property
    def arrays(self) -> FederationArrays:
        """The numbers as arrays, for quantities that take leading axes."""
        return FederationArrays(
            weights=self.weights,
            values=self.values,
            linear=np.broadcast_to(self.costs.linear, self.n_lots),
            quadratic=np.broadcast_to(self.costs.quadratic, self.n_lots),
            caps=self.caps,
            payoff=self.payoff,
            lot_owners=self.lot_owners,
            task_owners=self.task_owners,
            n_agents=self.n_agents,
            shared=shared_members(self.shared_caps, self.n_lots),
            shared_limits=np.array([shared.cap for shared in self.shared_caps]),
        )

    @property
    def n_agents(self) -> int:
        """How many agents there are."""
        return len(self.names)

    @property
    def n_lots(self) -> int:
        """How many lots of data there are."""
        return int(self.weights.shape[1])

    @property
    def n_tasks(self) -> int:
        """How many tasks there are."""
        return int(self.weights.shape[0])

    @cached_property
    def has_lots(self) -> bool:
        """Whether agents own several lots or tasks; False where lots and tasks are the agents, in their order.

        Where everybody has one of each but somebody's own data is of no use to itself, they count as several.
        """
        everybody = np.arange(self.n_agents)
        single = all(np.array_equal(owners, everybody) for owners in (self.lot_owners, self.task_owners))
        return not single or not bool((self.weights.diagonal() > 0).all())

    @cached_property
    def lot_labels(self) -> tuple[str, ...]:
        """Names that tell all lots apart; the agents' where each has one lot."""
        return LotLabels(labels(self.lot_owners, self.lot_names, self.names)) if self.has_lots else self.names

    @cached_property
    def task_labels(self) -> tuple[str, ...]:
        """Names that tell all tasks apart; the agents' where each has one task."""
        return TaskLabels(labels(self.task_owners, self.task_names, self.names)) if self.has_lots else self.names

    def lots_of(self, agent: int) -> Owners:
        """The places of an agent's lots."""
        return np.flatnonzero(self.lot_owners == agent)

    def tasks_of(self, agent: int) -> Owners:
        """The places of an agent's tasks."""
        return np.flatnonzero(self.task_owners == agent)

    @cached_property
    def reachable_caps(self) -> FloatArray:
        """The most that can be brought of each lot alone: its own cap, or the one it shares."""
        return reachable_caps(self.caps, self.shared_caps)

    @cached_property
    def lots_by_owner(self) -> tuple[Owners, Owners, Owners]:
        """The lots in the order of their owners, those who own any, and where the lots of each of these start."""
        order = np.argsort(self.lot_owners, kind="stable")
        owners, starts = np.unique(self.lot_owners[order], return_index=True)
        return order, owners, starts

    def per_agent_from_lots(self, numbers: FloatArray) -> FloatArray:
        """Numbers per lot, summed for every agent."""
        return sum_by(self.lot_owners, numbers, self.n_agents) if self.has_lots else numbers

    def per_agent_from_tasks(self, numbers: FloatArray) -> FloatArray:
        """Numbers per task, summed for every agent."""
        return sum_by(self.task_owners, numbers, self.n_agents) if self.has_lots else numbers

    @property
    def is_sparse(self) -> bool:
        """Whether the weights are kept as a sparse matrix."""
        return sp.issparse(self.weights)

    @property
    def own_weights(self) -> FloatArray:
        """w_ii, how useful each agent's data is to itself; of agents with one lot and one task."""
        require_single_lots(self, "the weight of a member's own data")
        return np.asarray(self.weights.diagonal())

    def dense_weights(self) -> FloatArray:
        """The weights as a dense array."""
        return self.weights if isinstance(self.weights, np.ndarray) else self.weights.toarray()

    def sparse_weights(self) -> sp.csr_array:
        """The weights as a sparse array, without the zeros."""
        return sp.csr_array(self.weights) if isinstance(self.weights, np.ndarray) else self.weights

    def weights_to(self, agent: int) -> FloatArray:
        """w_ij for all j, how useful everybody's data is to agent i: a new array."""
        require_single_lots(self, "a row of weights")
        row = self.weights[[agent], :]
        return row[0] if isinstance(row, np.ndarray) else row.toarray()[0]

    def weights_from(self, agent: int) -> FloatArray:
        """w_ij for all i, how useful agent j's data is to everybody: a new array."""
        require_single_lots(self, "a column of weights")
        column = self.weights[:, [agent]]
        return column[:, 0] if isinstance(column, np.ndarray) else column.toarray()[:, 0]

    def positive_weights(self) -> Weights:
        """max(w_ij, 0), dense or sparse like the weights."""
        if not self.has_harm:
            return self.weights
        return np.maximum(self.weights, 0.0) if isinstance(self.weights, np.ndarray) else self.weights.maximum(0.0)

    def negative_weights(self) -> Weights:
        """min(w_ij, 0), dense or sparse like the weights."""
        return np.minimum(self.weights, 0.0) if isinstance(self.weights, np.ndarray) else self.weights.minimum(0.0)

    @property
    def weight_entries(self) -> FloatArray:
        """The weights in no particular order, those of a sparse matrix that are not zero."""
        return self.weights.ravel() if isinstance(self.weights, np.ndarray) else self.weights.data

    @cached_property
    def has_harm(self) -> bool:
        """Whether any weight is negative."""
        return bool((self.weight_entries < 0).any())

    def _profile(self, contributions: ArrayLike) -> FloatArray:
        """Contributions as an array, in the order of the lots where they are labelled."""
        return np.asarray(align("contributions", contributions, self.lot_labels), dtype=np.float64)

    def data(self, contributions: ArrayLike) -> FloatArray:
        """y_i = sum_j w_ij s_j, the weighted data each agent reaches."""
        return np.asarray(self.weights @ self._profile(contributions))

    def reach(self, contributions: ArrayLike) -> FloatArray:
        """xi_i = 1 + sum_j w_ij s_j."""
        return 1.0 + self.data(contributions)

    def agent_data(self, contributions: ArrayLike) -> Weights:
        """u_rj, the weighted data that agent j's lots together bring to task r; dense or sparse like the weights."""
        brought = self._profile(contributions)
        if not isinstance(self.weights, np.ndarray):
            entries = (np.ones(self.n_lots), (np.arange(self.n_lots), self.lot_owners))
            owned = sp.csr_array(entries, shape=(self.n_lots, self.n_agents))
            return sp.csr_array((self.weights @ sp.diags_array(brought)) @ owned)
        order, owners, starts = self.lots_by_owner
        data = np.zeros((self.n_tasks, self.n_agents))
        if order.size:
            data[:, owners] = np.add.reduceat(self.weights[:, order] * brought[order], starts, axis=1)
        return data

    def lowest_data(self, contributions: ArrayLike) -> FloatArray:
        """The lowest y of every task in any coalition: that of the agents whose data harms it."""
        if not self.has_lots:
            return np.asarray(self.negative_weights() @ self._profile(contributions))
        if not self.has_harm:
            return np.zeros(self.n_tasks)
        brought = self.agent_data(contributions)
        harm = np.minimum(brought, 0.0) if isinstance(brought, np.ndarray) else brought.minimum(0.0)
        return np.asarray(harm.sum(axis=1))

    def highest_data(self, contributions: ArrayLike) -> FloatArray:
        """The highest y of every task in any coalition: that of the agents whose data helps it."""
        if not self.has_lots:
            return np.asarray(self.positive_weights() @ self._profile(contributions))
        if not self.has_harm:
            return self.data(contributions)
        brought = self.agent_data(contributions)
        helped = np.maximum(brought, 0.0) if isinstance(brought, np.ndarray) else brought.maximum(0.0)
        return np.asarray(helped.sum(axis=1))

    def own_data(self, contributions: ArrayLike) -> FloatArray:
        """Per task, the weighted data that its owner's lots bring to it."""
        brought = self._profile(contributions)
        return np.asarray(self._own_weights_only @ brought) if self.has_lots else self.own_weights * brought

    def own_worth(self, slopes: FloatArray) -> FloatArray:
        """Per lot, what one more sample is worth to its owner's tasks, `slopes` being worth per unit of their reach."""
        return np.asarray(self._own_weights_only.T @ slopes) if self.has_lots else self.own_weights * slopes

    def task_payoffs(self, contributions: ArrayLike) -> FloatArray:
        """The payoff of every task, in units of money when `values` are."""
        return self.values * self.payoff.value(self._data_in_domain(contributions))

    def payoffs(self, contributions: ArrayLike) -> FloatArray:
        """a_i(s), in units of money when `values` are: per agent, over all of its tasks."""
        return self.per_agent_from_tasks(self.task_payoffs(contributions))

    def spending(self, contributions: ArrayLike) -> FloatArray:
        """c_i(s_i), what each agent's contributions cost it."""
        return self.per_agent_from_lots(self.costs.value(self._profile(contributions)))

    def marginal_payoffs(self, contributions: ArrayLike) -> FloatArray:
        """values_r g_r'(xi_r - 1): what one more unit of reach is worth to each task (one per agent: to each agent)."""
        return self.values * self.payoff.slope(self._data_in_domain(contributions))

    def admits(self, contributions: ArrayLike) -> bool:
        """Whether every agent's reach lies in the domain of its payoff, and gives a finite one."""
        data = self.data(contributions)
        with np.errstate(over="ignore"):
            return bool((data > self.payoff.floor).all() and np.isfinite(self.payoff.value(data)).all())

    def welfare(self, contributions: ArrayLike) -> float:
        """sum of payoffs minus sum of costs."""
        spent = self.costs.value(self._profile(contributions))
        return float(self.task_payoffs(contributions).sum() - spent.sum())

    def net_externality(self, contributions: ArrayLike) -> FloatArray:
        """T_i = sum_{k != i} w_ki a_k': what one more sample of i's is worth to all the others together, per lot.

        The paper's T_i (equation 18) leaves out the common factor beta; the sign, which is what matters, is the same.
        """
        slopes = self.marginal_payoffs(contributions)
        return np.asarray(self.weights.T @ slopes) - self.own_worth(slopes)

    def checked_contributions(self, contributions: ArrayLike) -> FloatArray:
        """Contributions, one per lot, as a read-only array, checked against the caps."""
        names = self.lot_labels
        numbers = checked_numbers("contributions", contributions, np.isfinite, "finite", names=names)
        profile = read_only_copy(np.broadcast_to(numbers, self.n_lots))
        outside = first_where((profile < 0) | (profile > self.caps))
        if outside is not None:
            raise InvalidInput(
                field="contributions",
                index=outside,
                rule=f"must lie between 0 and the cap {self.caps[outside]:g}",
                value=float(profile[outside]),
                agent=names[outside],
                whose=f'lot "{names[outside]}"' if self.has_lots else None,
            )
        exceeded = first_exceeded(profile, self.shared_caps)
        if exceeded is not None:
            lots, brought = ", ".join(names[lot] for lot in exceeded.lots), float(profile[list(exceeded.lots)].sum())
            rule = f"must add up to at most the shared cap {exceeded.cap:g} over {lots}"
            raise InvalidInput(field="contributions", rule=rule, value=brought)
        return profile

    def take(self, agents: ArrayLike) -> Federation:
        """The federation of some of the agents: their indices in the order wanted, or one true or false per agent."""
        chosen = np.asarray(agents)
        if chosen.dtype == np.bool_:
            if chosen.shape != (self.n_agents,):
                raise InvalidInput(f"a mask of members must have {self.n_agents} entries, got shape {chosen.shape}")
            chosen = np.flatnonzero(chosen)
        chosen = chosen.astype(np.intp)
        lots, lot_owners = owned_by(self.lot_owners, chosen) if self.has_lots else (chosen, None)
        tasks, task_owners = owned_by(self.task_owners, chosen) if self.has_lots else (chosen, None)
        lot_names, task_names = self.given_names
        return Federation(
            weights=self.weights[tasks][:, lots],
            costs=self.costs.take(lots),
            caps=self.caps[lots],
            payoff=self.payoff.take(tasks),
            names=[self.names[agent] for agent in chosen],
            values=self.values[tasks],
            lot_owners=lot_owners,
            task_owners=task_owners,
            lot_names=None if lot_names is None else [lot_names[lot] for lot in lots],
            task_names=None if task_names is None else [task_names[task] for task in tasks],
            shared_caps=take_shared_caps(self.shared_caps, lots),
        )

    def without_sharing(self) -> Federation:
        """The same agents, each with its own data only."""
        if self.has_lots:
            return self.replace(weights=self._own_weights_only)
        own = self.own_weights
        return self.replace(weights=sp.diags_array(own, format="csr") if self.is_sparse else np.diag(own))

    def replace(
        self,
        *,
        weights: ArrayLike | sp.sparray | None = None,
        costs: Costs | None = None,
        payoff: Payoff | None = None,
        caps: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        values: ArrayLike | None = None,
        lot_owners: OwnersGiven | None = None,
        task_owners: OwnersGiven | None = None,
        lot_names: Sequence[str] | None = None,
        task_names: Sequence[str] | None = None,
        shared_caps: SharedCapsGiven | None = None,
    ) -> Federation:
        """A federation with what is given in place of what it has; what is not given stays.

        Examples
        --------
        >>> import numpy as np
        >>> from fedpact.federation import PowerLaw
        >>> federation = Federation(weights=np.ones((3, 3)), costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
        >>> federation.replace(caps=100.0).caps
        array([100., 100., 100.])
        """
        kept_lots, kept_tasks = (self.lot_owners, self.task_owners) if self.has_lots else (None, None)
        kept_lot_names, kept_task_names = self.given_names
        return Federation(
            self.weights if weights is None else weights,
            costs=self.costs if costs is None else costs,
            payoff=self.payoff if payoff is None else payoff,
            caps=self.caps if caps is None else caps,
            names=self.names if names is None else names,
            values=self.values if values is None else values,
            lot_owners=kept_lots if lot_owners is None else lot_owners,
            task_owners=kept_tasks if task_owners is None else task_owners,
            lot_names=kept_lot_names if lot_names is None else lot_names,
            task_names=kept_task_names if task_names is None else task_names,
            shared_caps=self.shared_caps if shared_caps is None else shared_caps,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Federation):
            return NotImplemented
        return self.signature() == other.signature()

    __hash__ = None  # type: ignore[assignment]

    def signature(self) -> tuple[Any, ...]:
        """Everything that makes two federations the same, bit for bit."""
        return federation_signature(self)

    @cached_property
    def maximiser_bounds(self) -> tuple[FloatArray, float]:
        """The box every welfare maximiser lies in, and the most it spends: see `contribution_bounds`."""
        upper, spending = block_bounds(self, 1)
        return read_only_copy(upper), float(spending[0])

    @cached_property
    def fingerprint(self) -> str:
        """A text that tells this federation from others, and nothing else about it: 32 hexadecimal digits."""
        return fingerprint_text(self.signature())

    @cached_property
    def _own_weights_only(self) -> Weights:
        """The weights with zeros where a lot and a task have different owners."""
        if isinstance(self.weights, np.ndarray):
            return np.where(self.task_owners[:, None] == self.lot_owners[None, :], self.weights, 0.0)
        entries = sp.coo_array(self.weights)
        tasks, lots = entries.coords
        own = self.task_owners[tasks] == self.lot_owners[lots]
        return sp.csr_array((entries.data[own], (tasks[own], lots[own])), shape=self.weights.shape)

    @property
    def given_names(self) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
        """The names of lots and tasks; None where they follow from the agents' names."""
        lots, tasks = default_own_names(self.lot_owners, self.names), default_own_names(self.task_owners, self.names)
        return None if self.lot_names == lots else self.lot_names, None if self.task_names == tasks else self.task_names

    def _data_in_domain(self, contributions: ArrayLike) -> FloatArray:
        data = self.data(contributions)
        floor = np.broadcast_to(self.payoff.floor, data.shape)
        task = first_where(data <= floor)
        if task is not None:
            said = self.payoff.harm_text(self.task_labels, task, data[task])
            raise OutsideDomain(f"{said}; lower the contributions of those who harm it")
        return data

    def __repr__(self) -> str:
        from fedpact.report.display import federation_line  # noqa: PLC0415 - imports go one way

        return federation_line(self)

    def _repr_html_(self) -> str:
        from fedpact.report.display import federation_html  # noqa: PLC0415 - notebooks only

        return federation_html(self)

    def to_frame(self) -> Any:
        """A pandas frame with a row per agent; needs pandas."""
        from fedpact.report.display import federation_frame  # noqa: PLC0415 - optional dependency

        return federation_frame(self)

    def plot(self, ax: Any = None) -> Any:
        """The weights as a heat map, on `ax` or a new figure; needs matplotlib."""
        from fedpact.report.plots import plot_federation  # noqa: PLC0415 - optional dependency

        return plot_federation(self, ax=ax)
