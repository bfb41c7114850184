"""The deal: who contributes what, who is paid what, and where that comes from.

Everything after the mathematics takes a `Deal` and nothing else: training, real nodes, settlement, ledger, report,
`fedpact check`. Mechanisms, negotiations and files make one; none of them ever changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.federation import Federation
from fedpact.federation.lots import check_names, labels, require_single_lots
from fedpact.utils.arrays import (
    FloatArray,
    LotLabels,
    align_columns,
    checked_numbers,
    label_positions,
    labels_of,
    non_negative,
    read_only_copy,
)
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.words import count_text, differing_texts

Event = Mapping[str, Any]

# An agreed 12 that a solver or another machine wrote as 11.9999999 is 12 samples.
WHOLE_SAMPLE_TOLERANCE = 1e-6
MAX_COUNTABLE = 1e15  # samples that floats can tell apart
# What rounding may do to a deal, as a share of the largest contribution and of what changes hands.
DEAL_ROUNDING = 1e-9
TRAINS_ALONE = "trains alone"


class Source(Enum):
    """Where the numbers of a deal come from."""

    SOLVED = "solved"
    NEGOTIATED = "negotiated"
    SIGNED = "signed"
    STATED = "stated"


@dataclass(frozen=True, kw_only=True, eq=False)
class Messages:
    """What everybody says in the message game: (n, n), the row sends, the column is whose data it is about.

    Entries about data that does not matter to the sender are ignored.
    """

    proposals: FloatArray
    prices: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "proposals", read_only_copy(self.proposals))
        object.__setattr__(self, "prices", read_only_copy(self.prices))

    def replace(self, agent: int, proposals: ArrayLike, prices: ArrayLike) -> Messages:
        """The same with other messages of one agent."""
        changed = {"proposals": self.proposals.copy(), "prices": self.prices.copy()}
        changed["proposals"][agent], changed["prices"][agent] = np.asarray(proposals), np.asarray(prices)
        return Messages(**changed)


@dataclass(frozen=True, kw_only=True, eq=False)
class Provenance:
    """How a deal came about.

    Attributes
    ----------
    protocol, rounds, welfare, residual
        Of a negotiation: how it was led, how often everybody was asked, and what the agents said of the end: welfare,
        and the gain still promised as a share of what is at stake.
    settled_by
        "message game", "personal prices", "Shapley shares" or "own payments".
    messages, trace
        The final messages of the game form, and what happened in order.
    """

    source: Source
    protocol: str | None = None
    rounds: int = 0
    welfare: float = np.nan
    residual: float = np.nan
    settled_by: str | None = None
    messages: Messages | None = None
    trace: Sequence[Event] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Deal:
    """Contributions and payments, by agent.

    Attributes
    ----------
    contributions
        What each brings; of those who are out, what they put into their own models, or zero. One number per lot where
        agents own several.
    payments
        What each receives in all, negative if it pays; zero for those who are out.
    prices
        l_ij, what agent i pays per sample of j's, (n, n), or of a lot, (n, lots); None where the mechanism has none.
        Those who are out pay for nothing and nothing is paid for theirs: zero.
    side_payments
        The part of the payments that does not depend on anybody's contribution.
    excluded
        Who is not in the deal, and why, by name; also members of the scenario that are not among its agents.
    scenario
        The fingerprint of the federation it belongs to; None where that is not known.
    provenance
        How it came about.
    lot_owners, lot_names
        Where agents own several lots: the name of every lot's owner, and what the lot is called; else None.
    """

    mechanism: str
    agents: tuple[str, ...]
    contributions: FloatArray
    payments: FloatArray
    prices: FloatArray | None = None
    side_payments: FloatArray = None  # type: ignore[assignment]
    excluded: Mapping[str, str] = field(default_factory=dict)
    scenario: str | None = None
    provenance: Provenance = field(default_factory=lambda: Provenance(source=Source.STATED))
    lot_owners: tuple[str, ...] | None = None
    lot_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        names = check_names("agents", self.agents, None)
        size = len(names)
        if not isinstance(self.mechanism, str) or not self.mechanism:
            raise InvalidInput(field="mechanism", rule="must be the name of a mechanism", value=self.mechanism)
        excluded = _checked_reasons(self.excluded)
        if not isinstance(self.scenario, str | None):
            raise InvalidInput(field="scenario", rule="must be a fingerprint or None", value=self.scenario)
        if not isinstance(self.provenance, Provenance):
            raise InvalidInput(field="provenance", rule="must be a Provenance", value=self.provenance)
        side = np.zeros(size) if self.side_payments is None else self.side_payments
        lot_owners, lot_names = _checked_lots(self.lot_owners, self.lot_names, names)
        lots = names
        if lot_owners is not None:
            lots = LotLabels(f"{owner}: {lot}" for owner, lot in zip(lot_owners, lot_names, strict=True))
        parts: dict[str, Any] = {
            "agents": names,
            "contributions": _per_agent("contributions", self.contributions, lots, non_negative, "at least 0"),
            "payments": _per_agent("payments", self.payments, names, np.isfinite, "finite"),
            "side_payments": _per_agent("side_payments", side, names, np.isfinite, "finite"),
            "prices": None if self.prices is None else _checked_prices(self.prices, names, lots),
            "excluded": excluded,
            "lot_owners": lot_owners,
            "lot_names": None if lot_owners is None else lot_names,
        }
        for name, value in parts.items():
            object.__setattr__(self, name, value)
        for index, name in enumerate(names):
            if name in excluded and (self.payments[index] or parts["side_payments"][index]):
                raise InvalidInput(
                    f'payments[{index}] must be 0, got {self.payments[index]:g}: member "{name}" is not in the deal'
                )
        if self.prices is not None:
            is_out = np.array([name in excluded for name in names])
            strays = np.argwhere((self.prices != 0.0) & (is_out[:, None] | is_out[self.lot_owner_indices]))
            for index, lot in strays[:1].tolist():
                name = names[index] if is_out[index] else names[self.lot_owner_indices[lot]]
                raise InvalidInput(
                    f"prices[{index}, {lot}] must be 0, got {self.prices[index, lot]:g}: nothing is paid by or to "
                    f'member "{name}", who is not in the deal'
                )

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies are made anew, and so read-only."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        return partial(Deal, **parts | {"excluded": dict(self.excluded)}), ()

    @property
    def has_lots(self) -> bool:
        """Whether contributions are per lot."""
        return self.lot_owners is not None

    @property
    def lot_owner_indices(self) -> NDArray[np.intp]:
        """The index of every lot's owner among the agents."""
        return np.array([self.agents.index(owner) for owner in self.lot_owners or self.agents], dtype=np.intp)

    @property
    def lot_labels(self) -> tuple[str, ...]:
        """Names that tell all lots apart; the agents' where each has one."""
        if self.lot_names is None:
            return self.agents
        return LotLabels(labels(self.lot_owner_indices, self.lot_names, self.agents))

    @property
    def members(self) -> NDArray[np.intp]:
        """The indices of those who are in the deal."""
        return np.array([index for index, name in enumerate(self.agents) if name not in self.excluded], dtype=np.intp)

    @property
    def is_federated(self) -> bool:
        """Whether anybody shares anything: False where everybody trains alone."""
        return any(name not in self.excluded for name in self.agents)

    @property
    def turnover(self) -> float:
        """What changes hands, both ways counted, in units of payoff: payments of one member may cancel."""
        priced = 0.0 if self.prices is None else float((np.abs(self.prices) * self.contributions).sum())
        return priced + float(np.abs(self.payments).sum())

    @property
    def balance_tolerance(self) -> float:
        """How far from zero rounding may bring the sum of the payments."""
        return DEAL_ROUNDING * self.turnover

    def price_contradiction(self, texts: Callable[[float, float], tuple[str, str]] = differing_texts) -> str:
        """Who is paid something else than its prices come to, in words; empty if nobody is, or there are no prices.

        `texts` are how two amounts are written that differ.
        """
        if self.prices is None:
            return ""
        due = self.side_payments - (self.prices * self.contributions).sum(axis=1)
        off = np.abs(due - self.payments)
        index = int(off.argmax())
        if off[index] <= self.balance_tolerance:
            return ""
        paid, priced = texts(float(self.payments[index]), float(due[index]))
        return f'member "{self.agents[index]}" is paid {paid}, by its prices {priced}'

    @property
    def rounds(self) -> int:
        """How often everybody was asked, if the deal was negotiated."""
        return self.provenance.rounds

    @property
    def trace(self) -> Sequence[Event]:
        """What happened in the negotiation, in order."""
        return tuple(dict(event) for event in self.provenance.trace)

    def samples(self, per_unit: float = 1.0) -> dict[str, int]:
        """Whole samples by name for those in the deal, with so many samples in a unit of contribution."""
        if not 0.0 < per_unit < np.inf:
            raise InvalidInput(field="per_unit", rule="must be positive", value=per_unit)
        require_single_lots(self, "a count of samples by member")
        counts = whole_samples(self.contributions, per_unit)
        return {self.agents[index]: int(counts[index]) for index in self.members}

    def among(self, names: Sequence[str]) -> Deal:
        """The same deal between some agents, in their order; the others must not be in it, and why is kept."""
        lost = [name for name in self.agents if name not in names and name not in self.excluded]
        if lost:
            why = f'member "{lost[0]}" is in the deal and cannot be left out of it'
            raise InvalidInput(why, field="names", rule="must name everybody in the deal", value=names, agent=lost[0])
        unknown = [name for name in names if name not in self.agents]
        if unknown:
            why = f"the deal has no member {short_repr(unknown[0])}; it is between {', '.join(self.agents)}"
            raise InvalidInput(why, field="names", rule="must be members of the deal", value=unknown[0])
        indices = [self.agents.index(name) for name in names]
        return self._take(
            indices, [int(lot) for index in indices for lot in np.flatnonzero(self.lot_owner_indices == index)]
        )

    def _take(self, indices: Sequence[int], lots: Sequence[int]) -> Deal:
        """The same between some agents, with their lots, in another order."""
        owned: dict[str, Any] = {}
        if self.lot_owners is not None and self.lot_names is not None:
            owned = {key: tuple(getattr(self, key)[lot] for lot in lots) for key in ("lot_owners", "lot_names")}
        return replace(
            self,
            agents=tuple(self.agents[index] for index in indices),
            contributions=self.contributions[lots],
            payments=self.payments[indices],
            prices=None if self.prices is None else self.prices[np.ix_(indices, lots)],
            side_payments=self.side_payments[indices],
            **owned,
        )

    def _with_lots_of(self, federation: Federation) -> Deal:
        """The same deal with its lots in the order of a federation between the same agents."""
        given = list(zip(self.lot_owners or self.agents, self.lot_names or self.agents, strict=True))
        owners = [federation.names[owner] for owner in federation.lot_owners]
        wanted = list(zip(owners, federation.lot_names, strict=True))
        if federation.has_lots != self.has_lots or (self.has_lots and sorted(given) != sorted(wanted)):
            rule = "must be about the lots of the scenario"
            why = f"the deal {rule}: it has {len(given)} lots, the scenario {len(wanted)}, or they have other names"
            raise InvalidInput(why, field="deal", rule=rule, value=[name for _, name in given])
        order = [given.index(lot) for lot in wanted] if self.has_lots else range(len(given))
        return self._take(range(len(self.agents)), order)

    def differences(self, other: Deal, *, tol: float = DEAL_ROUNDING) -> list[str]:
        """Whose part in two deals is not the same: contribution, payments, prices, or being in it at all.

        They must be between the same agents, in the same order; `tol` is what counts as rounding, of the largest
        contribution and price, and of the turnover.
        """
        if self.agents != other.agents:
            why = "only deals between the same members, in the same order, can be compared"
            raise InvalidInput(why, field="other", rule="must be between the same members", value=other.agents)
        about = ("mechanism", "lot_owners", "lot_names")
        if any(getattr(self, part) != getattr(other, part) for part in about):
            return list(self.agents)
        differs = np.abs(self.contributions - other.contributions) > tol * other.contributions.max(initial=0.0)
        differs = np.bincount(self.lot_owner_indices, weights=differs, minlength=len(self.agents)) > 0.0
        for one, two in ((self.payments, other.payments), (self.side_payments, other.side_payments)):
            differs |= np.abs(one - two) > tol * other.turnover
        if self.prices is not None and other.prices is not None:
            highest = float(np.abs(other.prices).max(initial=0.0))
            differs |= (np.abs(self.prices - other.prices) > tol * highest).any(axis=1)
        differs |= np.array([(name in self.excluded) != (name in other.excluded) for name in self.agents])
        return [name for name, wrong in zip(self.agents, differs, strict=True) if wrong]

    def belonging_to(self, federation: Federation) -> tuple[Deal, Federation]:
        """The deal between those who are in it, in the federation's order, and the federation of these alone.

        A deal of those who stayed after others had left belongs to the federation of all; one of another is an error.
        """
        names = federation.names
        strangers = [name for name in (*self.agents, *self.excluded) if name not in names]
        if strangers:
            rule = f"must be between members of the scenario ({', '.join(names)})"
            why = f"the deal {rule}, got {short_repr(strangers[0])}"
            raise InvalidInput(why, field="deal", rule=rule, value=strangers[0], agent=strangers[0])
        in_deal = [name for name in self.agents if name not in self.excluded] if self.is_federated else self.agents
        members = tuple(name for name in names if name in in_deal)
        # The deal may have been made between all, with those who are out, or between those in it alone.
        parts = {names, self.agents, tuple(in_deal), members, tuple(name for name in names if name in self.agents)}
        if self.scenario is not None and self.scenario not in (_part(federation, part).fingerprint for part in parts):
            why = (
                "the deal was made for another scenario: its members are the same, but not all of weights, costs, "
                f"caps, values, payoff, data at home, joining costs and budgets (it is of {self.scenario[:12]}, the "
                f"scenario given is {federation.fingerprint[:12]})"
            )
            raise InvalidInput(why, field="deal", rule="must be of this scenario", value=self.scenario)
        part = _part(federation, members)
        return self.among(members)._with_lots_of(part), part

    def save(self, path: Any) -> None:
        """Write the deal to a JSON file that `load_deal` reads."""
        from fedpact.deals.deal_file import save_deal  # noqa: PLC0415 - the file knows the deal

        save_deal(self, path)

    def __repr__(self) -> str:
        size = len(self.members)
        out = f", without {', '.join(self.excluded)}" if self.excluded and self.is_federated else ""
        by = self.provenance
        how = f"{by.source.value} by {by.protocol} in {by.rounds} rounds" if by.protocol else by.source.value
        return f"<Deal under {self.mechanism}, {how}: {count_text(size, 'agent')}{out}>"

    def to_frame(self) -> Any:
        """A pandas frame of contributions and payments, a row per agent."""
        from fedpact.report.records import deal_frame  # noqa: PLC0415 - optional dependency

        return deal_frame(self)

    def plot(self, *, ax: Any = None) -> Any:
        """The residual of every round of the negotiation, on `ax` or a new figure; needs matplotlib."""
        from fedpact.report.plots.results import plot_negotiation  # noqa: PLC0415 - optional dependency

        return plot_negotiation(self, ax=ax)


def whole_samples(contributions: Iterable[float] | FloatArray, per_unit: float = 1.0) -> NDArray[np.int64]:
    """Contributions in whole samples, rounded down: nobody's data is used beyond what it agreed to."""
    samples = np.asarray(contributions, dtype=np.float64) * per_unit
    counts = np.floor(np.minimum(samples + WHOLE_SAMPLE_TOLERANCE, MAX_COUNTABLE)).astype(np.int64)
    counts.setflags(write=False)
    return counts


def _part(federation: Federation, names: Sequence[str]) -> Federation:
    everybody = federation.names
    return federation if tuple(names) == everybody else federation.take([everybody.index(name) for name in names])


def _per_agent(label: str, given: Any, names: Sequence[str], accepts: Any, rule: str) -> FloatArray:
    numbers = checked_numbers(label, given, accepts, rule, names=names)
    return read_only_copy(np.broadcast_to(numbers, len(names)))


def _checked_reasons(given: Any) -> Mapping[str, str]:
    if not isinstance(given, Mapping):
        raise InvalidInput(field="excluded", rule="must be reasons by name", value=given)
    for name, reason in given.items():
        if not isinstance(reason, str):
            raise InvalidInput(field=f"excluded[{name!r}]", rule="must be a reason in words", value=reason, agent=name)
    return MappingProxyType(dict(given))


def _checked_lots(owners: Any, names: Any, agents: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
    """The owners and names of a deal's lots; None and the agents where each has one."""
    if owners is None:
        return None, tuple(agents)
    for key, given in (("lot_owners", owners), ("lot_names", names)):
        if not isinstance(given, list | tuple) or not all(isinstance(name, str) and name.strip() for name in given):
            raise InvalidInput(field=key, rule="must be names, one per lot", value=given)
    strangers = [owner for owner in owners if owner not in agents]
    if strangers:
        raise InvalidInput(field="lot_owners", rule="must be members of the deal", value=strangers[0])
    if len(names) != len(owners) or len(set(zip(owners, names, strict=True))) != len(owners):
        rule = "must be one per lot, those of one owner different"
        raise InvalidInput(field="lot_names", rule=rule, value=names)
    return tuple(owners), tuple(names)


def _checked_prices(given: Any, names: Sequence[str], lots: Sequence[str]) -> FloatArray:
    size, n_lots = len(names), len(lots)
    if (labels := labels_of(given)) is not None:
        given = given.iloc[label_positions("prices", labels, names)]
    given = align_columns("prices", given, lots)
    try:
        prices = np.asarray(given.toarray() if hasattr(given, "toarray") else given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(field="prices", rule=f"must be a table of {size} x {n_lots} numbers", value=given) from error
    if prices.shape != (size, n_lots) or not np.isfinite(prices).all():
        rule, shape = f"must be a table of {size} x {n_lots} finite numbers", f", got shape {prices.shape}"
        raise InvalidInput(field="prices", rule=rule, value=given, given=shape)
    return read_only_copy(prices)
