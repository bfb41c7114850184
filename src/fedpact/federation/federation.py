"""The instance: who takes part, how useful each one's data is to each, what data costs and what accuracy is worth.

Agent j contributes s_j samples, 0 <= s_j <= caps[j]. `weights[i, j]` is how useful j's data is to i: the row receives,
the column gives. Agent i reaches xi_i = 1 + sum_j w_ij s_j weighted samples, and its payoff is

    a_i(s) = values[i] * g_i(xi_i - 1),

g_i from a payoff family. The paper's setting (equation 3) is `PowerLaw(beta)` with values 1 and w_ii = 1.
Welfare is sum_i a_i(s) - sum_j c_j(s_j).

An agent may hold several *lots* of data, each with its own column, cost and cap, and have several *tasks*, each with
its own row, value and curve (`fedpact.federation.lots`). Then `weights` is (tasks x lots), contributions are per
lot, and an agent's payoff is the sum over its tasks.

In the paper a member pays for every sample it uses, its own included. With `home`, data that members use anyway, costs
are those of *sharing*, and payoffs count from what each has at home,

    a_i(s) = values[i] * (g_i(w_ii home_i + sum_{j != i} w_ij s_j) - g_i(w_ii home_i)),

so that whoever stays alone has 0. At home nobody uses data for a task that it harms. `arrays` holds the numbers of this
game, which is one of the same kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from fedpact.federation.arrays import LAST_AXES, FederationArrays, Owners, sum_by
from fedpact.federation.costs import Cost, make_cost
from fedpact.federation.lots import (
    OwnersGiven,
    SharedCap,
    SharedCapsGiven,
    default_own_names,
    first_exceeded,
    labels,
    owned_by,
    shared_members,
    take_shared_caps,
)
from fedpact.federation.payoffs import Payoff
from fedpact.federation.validation import Costs, check_inputs
from fedpact.utils.arrays import FloatArray, LotLabels, TaskLabels, align, checked_numbers, first_where, read_only_copy
from fedpact.utils.errors import InvalidInput, OutsideDomain

PER_AGENT, PER_LOT, PER_TASK = ({"per": thing} for thing in ("agent", "lot", "task"))  # what a field holds one for


@dataclass(frozen=True, eq=False, repr=False)
class Federation:
    """A federation of n agents: immutable and checked on creation.

    Parameters
    ----------
    weights
        (n, n) matrix of any sign, with no negative entry on its diagonal; one of scipy.sparse is kept as a dense one.
        Row i, column j: how useful j's data is to i.
    costs
        What contributing costs: marginal costs (a number or one per agent), a `Linear` or a `Quadratic`.
    caps
        The most each agent can contribute; a number or one per agent, `inf` allowed.
    payoff
        A payoff family, such as `PowerLaw(beta=0.02)`.
    names
        One distinct name per agent; "agent 0", "agent 1", ... if not given.
    values
        Money per unit of payoff; a number or one per agent.
    lot_owners, task_owners
        Whose each column and each row of the weights is, by name or by index among the agents; one of each per agent
        if not given. With them the weights are (tasks x lots), of any sign; costs and caps are one per lot, the
        payoff's parameters and values one per task. An agent may own none of either, but not of both.
    lot_names, task_names
        What they are called, distinct for one owner.
    shared_caps
        Lots of one agent that share a cap, by index or label, and the cap: `[(["A: raw", "A: noised"], 100.0)]`.
    home
        Data that owners use at home whether they share it or not: "all" they could share (the caps), an amount or one
        per lot; None, as in the paper, where members pay for using their own data too.
    joining_costs
        What each agent pays once for taking part, in the units of values; whoever stays alone does not.
    budgets
        The most each agent can pay, in the same units; None if nothing limits it.

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

    weights: FloatArray
    _: KW_ONLY
    costs: Cost = field(metadata=PER_LOT)
    payoff: Payoff = field(metadata=PER_TASK)
    caps: FloatArray = field(default=np.inf, metadata=PER_LOT)  # type: ignore[arg-type]
    names: tuple[str, ...] = field(default=None, metadata=PER_AGENT)  # type: ignore[arg-type]
    values: FloatArray = field(default=1.0, metadata=PER_TASK)  # type: ignore[arg-type]
    lot_owners: Owners = None  # type: ignore[assignment]
    task_owners: Owners = None  # type: ignore[assignment]
    lot_names: tuple[str, ...] = field(default=None, metadata=PER_LOT)  # type: ignore[arg-type]
    task_names: tuple[str, ...] = field(default=None, metadata=PER_TASK)  # type: ignore[arg-type]
    shared_caps: tuple[SharedCap, ...] = ()
    home: FloatArray | None = field(default=None, metadata=PER_LOT)
    joining_costs: FloatArray = field(default=0.0, metadata=PER_AGENT)  # type: ignore[arg-type]
    budgets: FloatArray = field(default=None, metadata=PER_AGENT)  # type: ignore[arg-type]

    if TYPE_CHECKING:

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
            home: ArrayLike | str | None = None,
            joining_costs: ArrayLike = 0.0,
            budgets: ArrayLike | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name, checked in check_inputs(self._fields).items():
            object.__setattr__(self, name, checked)

    @property
    def _fields(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    # Who there is, and what belongs to whom

    @property
    def n_agents(self) -> int:
        """How many members there are."""
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
        """Whether lots or tasks are other than the members themselves; for words and tables, not for formulas."""
        return self.arrays.has_lots

    @cached_property
    def lot_labels(self) -> tuple[str, ...]:
        """Names that tell all lots apart; the members' where each has one lot."""
        return LotLabels(labels(self.lot_owners, self.lot_names, self.names)) if self.has_lots else self.names

    @cached_property
    def task_labels(self) -> tuple[str, ...]:
        """Names that tell all tasks apart; the members' where each has one task."""
        return TaskLabels(labels(self.task_owners, self.task_names, self.names)) if self.has_lots else self.names

    def _given(self, name: str) -> Any:
        """A field as it was given: no names of lots and tasks that follow from their owners', no owners but of lots."""
        kept = getattr(self, name)
        owners = {"lot_names": self.lot_owners, "task_names": self.task_owners}
        if name in owners:
            return None if kept == default_own_names(owners[name], self.names) else kept
        return None if name in {"lot_owners", "task_owners"} and not self.has_lots else kept

    def lots_of(self, agent: int) -> Owners:
        """The indices of a member's lots."""
        return np.flatnonzero(self.lot_owners == agent)

    def tasks_of(self, agent: int) -> Owners:
        """The indices of a member's tasks."""
        return np.flatnonzero(self.task_owners == agent)

    # Quantities at a profile

    @property
    def has_harm(self) -> bool:
        """Whether any weight is negative."""
        return self.arrays.has_harm

    @cached_property
    def arrays(self) -> FederationArrays:
        """The numbers as arrays, counted from what members have at home, with the quantities that follow from them."""
        return self.counted_from_home(self.given_arrays)

    def counted_from_home(self, arrays: FederationArrays) -> FederationArrays:
        """Numbers of this federation, or of many like it, counted from what members have at home."""
        return arrays if self.home is None else arrays.counted_from_home(self.home)

    @cached_property
    def given_arrays(self) -> FederationArrays:
        """The numbers as they were given, which counts from no data at all."""
        return FederationArrays(
            **{name: getattr(self, name) for name in SAME_IN_ARRAYS},
            linear=np.broadcast_to(self.costs.linear, self.n_lots),
            quadratic=np.broadcast_to(self.costs.quadratic, self.n_lots),
            shared=shared_members(self.shared_caps, self.n_lots),
            shared_limits=np.array([shared.cap for shared in self.shared_caps]),
        )

    def data(self, contributions: ArrayLike) -> FloatArray:
        """y_r = sum_l w_rl s_l, the weighted data each task reaches."""
        return self.arrays.data(self._profile(contributions))

    def reach(self, contributions: ArrayLike) -> FloatArray:
        """xi_r = 1 + sum_l w_rl s_l."""
        return 1.0 + self.data(contributions)

    def task_payoffs(self, contributions: ArrayLike) -> FloatArray:
        """The payoff of every task, in units of money when `values` are."""
        return self.arrays.worth(self._data_in_domain(contributions))

    def payoffs(self, contributions: ArrayLike) -> FloatArray:
        """a_i(s), in units of money when `values` are: per member, over all of its tasks."""
        return sum_by(self.task_owners, self.task_payoffs(contributions), self.n_agents)

    def spending(self, contributions: ArrayLike) -> FloatArray:
        """c_i(s_i), what each member's contributions cost it."""
        return self.arrays.spending(self._profile(contributions))

    def marginal_payoffs(self, contributions: ArrayLike) -> FloatArray:
        """values_r g_r'(xi_r - 1): what one more unit of reach is worth to each task."""
        return self.arrays.marginal_worth(self._data_in_domain(contributions))

    def welfare(self, contributions: ArrayLike) -> float:
        """sum of payoffs minus sum of costs."""
        spent = self.arrays.lot_costs(self._profile(contributions))
        return float(self.task_payoffs(contributions).sum() - spent.sum())

    def net_externality(self, contributions: ArrayLike) -> FloatArray:
        """T_l: what one more sample of each lot is worth to all members but its owner together.

        The paper's T_i (equation 18) leaves out the common factor beta; the sign, which is what matters, is the same.
        """
        self._data_in_domain(contributions)
        return self.arrays.net_externality(self._profile(contributions))

    def admits(self, contributions: ArrayLike) -> bool:
        """Whether every task's data lies in the domain of its payoff, and gives a finite one."""
        data = self.data(contributions)
        return bool((data > self.arrays.floor).all() and np.isfinite(self.arrays.worth(data)).all())

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

    # Other federations made of this one

    def replace(self, **changes: Any) -> Federation:
        """A federation with what is given in place of what it has; what is not given stays.

        Examples
        --------
        >>> import numpy as np
        >>> from fedpact.federation import PowerLaw
        >>> federation = Federation(weights=np.ones((3, 3)), costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
        >>> federation.replace(caps=100.0).caps
        array([100., 100., 100.])
        """
        known = [each.name for each in fields(self)]
        for name in changes:
            if name not in known:
                raise InvalidInput(field=name, rule=f"is no field of a federation ({', '.join(known)})")
        return replace(self, **({name: self._given(name) for name in known} | changes))

    def take(self, agents: ArrayLike) -> Federation:
        """The federation of some of the members: their indices in the order wanted, or one true or false per member."""
        chosen = self.member_indices(agents)
        (lots, lot_owners), (tasks, task_owners) = owned_by(self.lot_owners, chosen), owned_by(self.task_owners, chosen)
        return self.choose(chosen, lots, tasks, lot_owners=lot_owners, task_owners=task_owners)

    def member_indices(self, agents: ArrayLike) -> Owners:
        """The indices of members given by them, or by one true or false per member."""
        chosen = np.asarray(agents)
        if chosen.dtype == np.bool_ and chosen.shape == (self.n_agents,):
            return np.flatnonzero(chosen)
        whole = chosen.ndim == 1 and (chosen.dtype.kind in "iu" or not chosen.size)
        if not whole or not ((chosen >= 0) & (chosen < self.n_agents)).all():
            rule = (
                f"must be numbers from 0 to {self.n_agents - 1}, or true or false for each of {self.n_agents} members"
            )
            raise InvalidInput(field="agents", rule=rule, value=agents)
        return chosen.astype(np.intp)

    def choose(self, agents: Owners, lots: Owners, tasks: Owners, **changes: Any) -> Federation:
        """The federation of some agents, lots and tasks, each as often as it is named, with what is given changed.

        The owners of the chosen lots and tasks are among the changes.
        """
        chosen = {"agent": agents, "lot": lots, "task": tasks}
        parts: dict[str, Any] = {"weights": self.weights[tasks][:, lots]}
        for each in fields(self):
            if "per" in each.metadata:
                parts[each.name] = _entries(self._given(each.name), chosen[each.metadata["per"]])
        parts["shared_caps"] = take_shared_caps(self.shared_caps, lots)
        if not self.has_lots:
            changes = changes | {"lot_owners": None, "task_owners": None}
        return replace(self, **(parts | changes))

    def without_sharing(self) -> Federation:
        """The same members, each with its own data only."""
        return self.replace(weights=self.given_arrays.own_weights)

    def with_personal_models(self) -> Federation:
        """The same members, each with a model of its own that leaves out whatever data harms it.

        Negative weights are zero then: nobody has to train on data that harms it. Every theorem for weights >= 0 holds,
        and welfare can only rise; the price is one aggregation per member instead of one in all.
        """
        return self.replace(weights=np.maximum(self.weights, 0.0))

    @property
    def wanted_lots(self) -> NDArray[np.bool_]:
        """(n_agents, lots): which lots each agent's own model takes in, with personal models.

        Its own lots, and those of others that are of use to it, the weight being positive.

        Raises
        ------
        InvalidInput
            If tasks of one agent want different lots: an agent has one model.
        """
        useful = self.weights > 0.0
        wanted = self.lot_owners == np.arange(self.n_agents)[:, None]
        for agent in range(self.n_agents):
            tasks, others = useful[self.tasks_of(agent)], ~wanted[agent]
            differs = first_where(others & tasks.any(axis=0) & ~tasks.all(axis=0))
            if differs is not None:
                raise InvalidInput(
                    f'personal models need tasks that want the same data: member "{self.names[agent]}" has one model, '
                    f'and lot "{self.lot_labels[differs]}" is of use to some of its tasks only; make a member of each '
                    'task, or train one model for all (models = "common")'
                )
            wanted[agent] |= tasks.any(axis=0)
        return wanted

    def with_arrays(self, arrays: FederationArrays) -> Federation:
        """The same members, lots and tasks with other numbers, which count from whatever data is at home."""
        limits = zip(self.shared_caps, arrays.shared_limits, strict=True)
        return self.replace(
            **{name: getattr(arrays, name) for name in SAME_IN_ARRAYS if name in LAST_AXES},
            costs=make_cost(arrays.linear, arrays.quadratic),
            payoff=type(self.payoff)(**arrays.payoff.parameters),
            shared_caps=[SharedCap(shared.lots, float(limit)) for shared, limit in limits],
            home=None,
        )

    # Identity

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Federation):
            return NotImplemented
        return self.fingerprint == other.fingerprint

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def fingerprint(self) -> str:
        """A text that tells this federation from others, and nothing else about it: 32 hexadecimal digits.

        Deals and transcripts name the federation they belong to by it. Numbers that are the same for all lots or tasks
        count as one, however they were given.
        """
        parts = {name: _plain(self._given(name)) for name in self._fields}
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]

    def _profile(self, contributions: ArrayLike) -> FloatArray:
        """Contributions as an array, in the order of the lots where they are labelled."""
        return np.asarray(align("contributions", contributions, self.lot_labels), dtype=np.float64)

    def _data_in_domain(self, contributions: ArrayLike) -> FloatArray:
        data = self.data(contributions)
        task = first_where(data <= self.arrays.floor)
        if task is not None:
            said = self.arrays.payoff.harm_text(self.task_labels, task, data[task])
            raise OutsideDomain(f"{said}; lower the contributions of those who harm it")
        return data

    def __repr__(self) -> str:
        from fedpact.report.records import federation_line  # noqa: PLC0415 - imports go one way

        return federation_line(self)

    def to_frame(self) -> Any:
        """A pandas frame with a row per agent; needs pandas."""
        from fedpact.report.records import federation_frame  # noqa: PLC0415 - optional dependency

        return federation_frame(self)

    def plot(self, *, ax: Any = None) -> Any:
        """The weights as a heat map, on `ax` or a new figure; needs matplotlib."""
        from fedpact.report.plots.results import plot_federation  # noqa: PLC0415 - optional dependency

        return plot_federation(self, ax=ax)


# What arrays hold as a federation does.
SAME_IN_ARRAYS = {each.name for each in fields(Federation)} & {each.name for each in fields(FederationArrays)}


def _entries(kept: Any, chosen: Owners) -> Any:
    """The chosen ones of what a field holds for every agent, lot or task."""
    if isinstance(kept, Cost | Payoff):
        return kept.take(chosen)
    return kept[chosen] if isinstance(kept, np.ndarray) else None if kept is None else [kept[each] for each in chosen]


def _plain(kept: Any) -> Any:
    """What a field holds, as something whose `repr` tells it from others."""
    if isinstance(kept, Cost | Payoff):
        return type(kept).__name__, {name: _plain(np.atleast_1d(each)) for name, each in kept.parameters.items()}
    if not isinstance(kept, np.ndarray):
        return kept
    return kept.shape if kept.ndim > 1 else None, (
        kept.ravel()[:1] if (kept == kept.flat[:1]).all() else kept
    ).tobytes()
