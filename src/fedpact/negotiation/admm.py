"""Consensus by the alternating direction method of multipliers: first order, many rounds, no marginal prices revealed.

Agent i is told the contributions on the table and prices y_i of its own, and answers with the profile it would ask for
at these prices, near the one on the table. The table moves to the mean of what is asked for,

    s_j = mean over those j's data matters to of (x_ij + y_ij / rho), kept within [0, cap_j]
    y_ij += rho (x_ij - s_j)

until requests and table agree. The prices it ends at are the personal prices, -y_i s the payment of agent i, balanced
on the boundary as well. Both follow from one matrix, w = x + y / rho: a round is a map w -> T(w) of which the agreement
is the fixed point. Two things make the rounds fewer: rho is moved at first until requests and prices settle equally
fast (Boyd et al. 2011, section 3.4.1), then every step is extrapolated from the last few (Anderson acceleration, with
the safeguard of Zhang, O'Donoghue and Boyd 2020: an extrapolation after which requests and table differ more is taken
back).

Stopping inequality: requests differ from the table by at most `tol` of its size, and by as little of the prices.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedpact.arrays import FloatArray
from fedpact.errors import NotConverged
from fedpact.negotiation.answers import Standing, standing
from fedpact.negotiation.progress import Agreement
from fedpact.negotiation.table import Excluded, Table

__all__ = ["reach_consensus"]

FIRST_RHO = 0.1
RELAXATION = 1.6
TUNING = 24  # rounds in which rho is moved
PATIENCE = 60  # rounds without halving the difference before rho is moved again
MOST = 10.0  # times rho, at once
IMBALANCE = 3.0
STIFFEST = 1e4  # times prices over contributions: with a larger rho requests would not tell prices apart
MEMORY = 12
WORSE = 2.0  # times the difference before: an extrapolation is taken back
RIDGE = 1e-12


def reach_consensus(table: Table, *, tol: float, most_rounds: int, start: FloatArray) -> Agreement:
    """Contributions and prices at which everybody asks for what is on the table."""
    state = _State.at(table, start)
    residual, requests = np.inf, state.joint
    for number in range(1, most_rounds + 1):
        try:
            answers = _asked(table, state)
        except Excluded:
            here = np.where(np.isin(np.arange(table.size), table.members), state.contributions, 0.0)
            return Agreement(contributions=here, prices=None, rounds=number, residual=np.inf)
        requests = np.zeros((table.size, table.size))
        for place, answer in answers.items():
            requests[place] = np.where(state.matters[place], answer.proposal, 0.0)
        residual = state.residual(requests)
        welfare = sum(answer.payoff - answer.cost for answer in answers.values())
        settled = bool(np.isfinite(welfare))
        table.tell({"event": "round", "round": number, "welfare": welfare if settled else None, "residual": residual})
        if residual <= tol and settled:
            return Agreement(
                contributions=state.contributions,
                prices=_balanced(state.prices, state.matters),
                rounds=number,
                residual=residual,
                welfare=welfare,
            )
        state.move(requests, number)
    furthest = int(np.argmax(np.linalg.norm(state.apart(requests), axis=1)))
    raise NotConverged(
        f"no agreement within {most_rounds} rounds: requests and table still differ by {residual:.1e}, those of agent "
        f'"{table.names[furthest]}" most'
    )


@dataclass(kw_only=True, eq=False)
class _State:
    """The table, everybody's prices, and where the last rounds have led."""

    matters: np.ndarray
    caps: FloatArray
    rho: float
    joint: FloatArray  # w = x + y / rho
    length: float = 0.0  # of the first requests
    past: _Past = field(default_factory=lambda: _Past())  # noqa: PLW0108 - defined below
    best: float = np.inf
    improved: int = 0

    @classmethod
    def at(cls, table: Table, start: FloatArray) -> _State:
        """At contributions, without prices."""
        matters = np.zeros((table.size, table.size), dtype=bool)
        for place in table.members:
            matters[place] = table.uses(int(place))
        return cls(matters=matters, caps=table.caps, rho=FIRST_RHO, joint=np.where(matters, start, 0.0))

    @property
    def users(self) -> FloatArray:
        return np.maximum(self.matters.sum(axis=0), 1).astype(np.float64)

    @property
    def contributions(self) -> FloatArray:
        """s: the mean, kept within the caps."""
        return np.clip(self.joint.sum(axis=0) / self.users, 0.0, self.caps)

    @property
    def prices(self) -> FloatArray:
        """y = rho (w - s)."""
        return self.rho * np.where(self.matters, self.joint - self.contributions, 0.0)

    def residual(self, requests: FloatArray) -> float:
        """How far requests and table are apart, of the size of the table; in prices, of the size of the prices."""
        apart = float(np.linalg.norm(self.apart(requests)))
        if self.length == 0.0:
            self.length = float(np.linalg.norm(requests))
        size = max(float(np.linalg.norm(np.where(self.matters, self.contributions, 0.0))), 1e-3 * self.length)
        prices = float(np.linalg.norm(self.prices))
        return max(apart / size, self.rho * apart / prices if prices > 0.0 else 0.0) if apart > 0.0 else 0.0

    def move(self, requests: FloatArray, number: int) -> None:
        """The next table and prices."""
        change = RELAXATION * self.apart(requests)
        size = float(np.linalg.norm(change))
        if size < 0.5 * self.best:
            self.best, self.improved = size, number
        tuning = number <= TUNING or number - self.improved > PATIENCE
        before = self.contributions
        self.joint = self.joint + change if tuning else self.past.extrapolated(self.joint, change)
        if tuning and number % 2 == 0:
            self._tune(requests, before)
            self.improved, self.best = max(self.improved, number - PATIENCE + TUNING), np.inf

    def apart(self, requests: FloatArray) -> FloatArray:
        """x - s."""
        return np.where(self.matters, requests - self.contributions, 0.0)

    def _tune(self, requests: FloatArray, before: FloatArray) -> None:
        """Move rho so that requests and prices settle equally fast; the prices stay."""
        here, prices = self.contributions, self.prices
        apart = float(np.linalg.norm(np.where(self.matters, requests - here, 0.0)))
        size = max(float(np.linalg.norm(requests)), float(np.linalg.norm(np.where(self.matters, here, 0.0))))
        shift = self.rho * float(np.linalg.norm(np.sqrt(self.users) * (here - before)))
        known = float(np.linalg.norm(prices))
        if size * known == 0.0 or apart + shift == 0.0:
            return
        ratio = float(np.clip((apart / size) / max(shift / known, 1e-300), MOST**-2, MOST**2))
        if ratio > IMBALANCE or ratio < 1.0 / IMBALANCE:
            rho = float(np.clip(self.rho * np.sqrt(ratio), known / size / STIFFEST, known / size * STIFFEST))
            self.joint = np.where(self.matters, here + prices / rho, 0.0)
            self.rho, self.past = rho, _Past()


@dataclass(kw_only=True, eq=False)
class _Past:
    """The last states and changes, for the next step to be extrapolated from."""

    states: list[FloatArray] = field(default_factory=list)
    changes: list[FloatArray] = field(default_factory=list)

    def extrapolated(self, state: FloatArray, change: FloatArray) -> FloatArray:
        """Where the changes, taken as linear in the state, would vanish; back to before if they have grown."""
        if self.changes and np.linalg.norm(change) > WORSE * np.linalg.norm(self.changes[-1]):
            back = self.states[-1] + self.changes[-1]
            self.states, self.changes = [], []
            return back
        self.states = [*self.states[-MEMORY:], state]
        self.changes = [*self.changes[-MEMORY:], change]
        if len(self.changes) < 2:
            return state + change
        moves = np.array([b - a for a, b in zip(self.states, self.states[1:], strict=False)]).reshape(-1, state.size)
        turns = np.array([b - a for a, b in zip(self.changes, self.changes[1:], strict=False)]).reshape(-1, state.size)
        products = turns @ turns.T
        ridge = RIDGE * float(np.trace(products)) * np.eye(len(turns))
        shares = np.linalg.solve(products + ridge + np.finfo(float).tiny * np.eye(len(turns)), turns @ change.ravel())
        return state + change - ((moves + turns).T @ shares).reshape(state.shape)


def _asked(table: Table, state: _State) -> dict[int, Standing]:
    contributions, absent, prices = state.contributions.tolist(), table.absent, state.prices
    return table.ask(
        "proximal",
        lambda place: {
            "contributions": contributions,
            "prices": prices[place].tolist(),
            "rho": state.rho,
            "absent": absent,
        },
        lambda raw, place: standing(raw, table.size),
    )


def _balanced(prices: FloatArray, matters: np.ndarray) -> FloatArray:
    """Columns that sum to zero exactly: what each agent is paid per sample is what the others pay for it."""
    personal = np.where(matters, prices, 0.0)
    np.fill_diagonal(personal, 0.0)
    np.fill_diagonal(personal, -personal.sum(axis=0))
    return personal
