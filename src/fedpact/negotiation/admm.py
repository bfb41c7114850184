"""Consensus by the alternating direction method of multipliers: first order, many rounds, no marginal prices revealed.

Agent i is told contributions s and prices y_i of its own, and answers with the profile it would ask for at these
prices, near s. Then s moves to the mean of what is asked for,

    s_j = mean over those j's data matters to of (x_ij + y_ij / rho), kept within [0, cap_j]
    y_ij += rho (x_ij - s_j)

until requests and s agree. The prices it ends at are the personal prices, -y_i s the payment of agent i, balanced
on the boundary as well. Both follow from one matrix, w = x + y / rho: a round is a map w -> T(w) of which the agreement
is the fixed point. Three things make the rounds fewer. The first rho comes from how fast the first samples lose their
worth, which agents say when they introduce themselves. Then it is moved until requests and prices settle equally fast
(Boyd et al. 2011, section 3.4.1). From there on every step is extrapolated from the last few (Anderson acceleration,
with the safeguard of Zhang, O'Donoghue and Boyd 2020: an extrapolation after which requests and s differ more is
taken back).

An answer says more than it seems to: y_i + rho (x_i - s) is what data is worth to the agent at the margin, where it
asks to be.

Stopping inequality: requests differ from s by at most `tol` of its size, valued at the prices by at most `tol` of
payoffs and costs, and there is more welfare than if nobody contributed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedpact.negotiation.protocol import ProtocolResult, balanced_prices
from fedpact.negotiation.session import MemberExcluded, Session
from fedpact.negotiation.validation import BadAnswer, ProposalAnswer, check_proportions, read_proposal
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

FIRST_RHO = 0.1  # times the middle one of what agents say
RELAXATION = 1.6
TUNING_ROUNDS = 20  # rounds in which rho is moved
MAX_STALLED_ROUNDS = 60  # without halving the difference before rho is moved again
RESTART_ROUND = 150  # if the rounds have led nowhere, all is begun again, without extrapolation at first
MAX_PLAIN_ROUNDS = 300  # rounds without extrapolation
SETTLING = 1e-2  # of the contributions: requests that differ less lead somewhere
MAX_RHO_FACTOR = 10.0  # at once
MAX_IMBALANCE = 3.0  # between how fast requests and prices settle
MAX_STIFFNESS = 1e4  # times prices over contributions: with a larger rho requests would not tell prices apart
MEMORY = 12  # rounds that a step is extrapolated from
MAX_GROWTH = 2.0  # times the smallest difference remembered: an extrapolation is taken back
MAX_EXTRAPOLATION = 1e3  # times the change
EXTRAPOLATION_RIDGE = 1e-12
WORTH_ROUNDING = 1e-7  # of prices and requests: what data is worth by them is rounding
PROPORTION_TOLERANCE = 1e-6  # coarser than that of marginal prices: worth is a difference of large numbers
REQUEST_ROUNDING = 1e-14  # of the requests


def reach_consensus(session: Session, *, tol: float, max_rounds: int, start: FloatArray) -> ProtocolResult:
    """Contributions and prices at which everybody asks for what is proposed."""
    state = _State.at(session, start)
    residual, requests = np.inf, state.joint
    for number in range(1, max_rounds + 1):
        contributions, prices = state.contributions, state.prices
        try:
            answers = _ask(session, state)
        except MemberExcluded:
            here = session.for_all_lots(contributions[session.lots])
            return ProtocolResult(contributions=here, prices=None, rounds=number)
        requests = np.zeros((session.size, session.n_lots))
        for place, answer in answers.items():
            requests[place] = np.where(state.matters[place], answer.proposal, 0.0)
        utilities = {place: answer.payoff - answer.cost for place, answer in answers.items()}
        welfare = sum(utilities.values())
        stake = sum(abs(answer.payoff) + answer.cost for answer in answers.values())
        residual = state.residual(requests, stake)
        is_inside = bool(np.isfinite(welfare))
        session.notify_round(
            number,
            contributions=contributions,
            residual=residual,
            welfare=welfare if is_inside else None,
            prices=prices,
            utilities=utilities,
        )
        if residual <= tol and is_inside and welfare >= -tol * stake:
            return ProtocolResult(
                contributions=contributions,
                prices=balanced_prices(np.where(state.matters, prices, 0.0), session.lot_owners),
                rounds=number,
                residual=residual,
                welfare=welfare,
            )
        state.move(requests)
        if number == RESTART_ROUND and not state.is_settling:
            state = replace(_State.at(session, np.zeros(session.n_lots)), plain=True)
        elif state.plain and (state.is_settling or state.moves > MAX_PLAIN_ROUNDS) and state.moves > TUNING_ROUNDS:
            state.plain, state.best, state.improved = False, np.inf, state.moves
    furthest = int(np.argmax(np.linalg.norm(state.apart(requests), axis=1)))
    raise NotConverged(
        f"no agreement within {max_rounds} rounds: requests and proposal still differ by {residual:.1e}, those of "
        f'member "{session.names[furthest]}" most'
    )


@dataclass(kw_only=True, eq=False)
class _State:
    """The contributions proposed, everybody's prices, and where the last rounds have led."""

    matters: np.ndarray
    caps: FloatArray
    rho: float
    joint: FloatArray  # w = x + y / rho
    one_task: bool = True  # of everybody: what data of others is worth then keeps its proportions
    length: float = 0.0  # of the first requests
    moves: int = 0
    past: _Past = field(default_factory=lambda: _Past())  # noqa: PLW0108 - defined below
    wishes: dict[int, list[_Wish]] = field(default_factory=dict)
    best: float = np.inf
    improved: int = 0
    apart_by: float = np.inf
    plain: bool = False  # without extrapolation: slow but sure

    @classmethod
    def at(cls, session: Session, start: FloatArray) -> _State:
        """At contributions, without prices."""
        matters = np.zeros((session.size, session.n_lots), dtype=bool)
        for place in session.members:
            matters[place] = session.uses(int(place))
        stated = [session.introductions[int(place)].stiffness for place in session.members]
        rho = FIRST_RHO * (float(np.median([one for one in stated if one > 0.0])) if any(stated) else 1.0)
        one_task = session.layout is None
        return cls(matters=matters, caps=session.caps, rho=rho, joint=np.where(matters, start, 0.0), one_task=one_task)

    @property
    def users(self) -> FloatArray:
        return np.maximum(self.matters.sum(axis=0), 1).astype(np.float64)

    @property
    def contributions(self) -> FloatArray:
        """s: the mean, kept within the caps; zero where the requests cancel to less than their rounding."""
        total, rounding = self.joint.sum(axis=0), REQUEST_ROUNDING * np.abs(self.joint).sum(axis=0)
        return np.minimum(np.where(total > rounding, total / self.users, 0.0), self.caps)

    @property
    def prices(self) -> FloatArray:
        """y = rho (w - s)."""
        return self.rho * np.where(self.matters, self.joint - self.contributions, 0.0)

    def residual(self, requests: FloatArray, stake: float) -> float:
        """How far requests and contributions are apart: of the size of these, and in money of what is at stake."""
        apart, here = np.abs(self.apart(requests)), np.where(self.matters, self.contributions, 0.0)
        self.length = self.length or float(np.linalg.norm(requests))
        size = max(float(np.linalg.norm(here)), 1e-3 * self.length)
        money = float((apart * (np.abs(self.prices) + self.rho * (apart + here))).sum())
        shares = (float(np.linalg.norm(apart)) / size if size > 0.0 else 0.0, money / stake if stake > 0.0 else 0.0)
        self.apart_by = max(shares)
        return self.apart_by

    @property
    def is_settling(self) -> bool:
        """Whether the last requests were near the session."""
        return self.apart_by <= SETTLING

    def move(self, requests: FloatArray) -> None:
        """The next contributions and prices."""
        self.moves += 1
        change = RELAXATION * self.apart(requests)
        size = float(np.linalg.norm(change))
        if size < 0.5 * self.best:
            self.best, self.improved = size, self.moves
        tuning = self.moves <= TUNING_ROUNDS or (self.moves - self.improved > MAX_STALLED_ROUNDS and not self.plain)
        before = self.contributions
        step = tuning or self.plain
        self.joint = self.joint + change if step else self.past.extrapolate(self.joint, change)
        if tuning and self.moves % 2 == 0:
            self._tune(requests, before)
            self.improved, self.best = max(self.improved, self.moves - MAX_STALLED_ROUNDS + TUNING_ROUNDS), np.inf

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
        ratio = float(np.clip((apart / size) / max(shift / known, 1e-300), MAX_RHO_FACTOR**-2, MAX_RHO_FACTOR**2))
        if ratio > MAX_IMBALANCE or ratio < 1.0 / MAX_IMBALANCE:
            rho = float(np.clip(self.rho * np.sqrt(ratio), known / size / MAX_STIFFNESS, known / size * MAX_STIFFNESS))
            self.joint = np.where(self.matters, here + prices / rho, 0.0)
            self.rho, self.past = rho, _Past()


@dataclass(kw_only=True, eq=False)
class _Past:
    """The last states and changes, for the next step to be extrapolated from."""

    states: list[FloatArray] = field(default_factory=list)
    changes: list[FloatArray] = field(default_factory=list)

    def extrapolate(self, state: FloatArray, change: FloatArray) -> FloatArray:
        """Where the changes, taken as linear in the state, would vanish; back to before if they have grown."""
        sizes = [float(np.linalg.norm(before)) for before in self.changes]
        if sizes and np.linalg.norm(change) > MAX_GROWTH * min(sizes):
            best = int(np.argmin(sizes))
            back = self.states[best] + self.changes[best]
            self.states, self.changes = [], []
            return back
        self.states = [*self.states[-MEMORY:], state]
        self.changes = [*self.changes[-MEMORY:], change]
        if len(self.changes) < 2:
            return state + change
        moves, turns = (np.diff(np.array(each), axis=0).reshape(-1, state.size) for each in (self.states, self.changes))
        products = turns @ turns.T
        ridge = (EXTRAPOLATION_RIDGE * float(np.trace(products)) + np.finfo(float).tiny) * np.eye(len(turns))
        shares = np.linalg.solve(products + ridge, turns @ change.ravel())
        step = change - ((moves + turns).T @ shares).reshape(state.shape)
        longest = MAX_EXTRAPOLATION * float(np.linalg.norm(change))
        return state + step * min(1.0, longest / max(float(np.linalg.norm(step)), np.finfo(float).tiny))


def _ask(session: Session, state: _State) -> dict[int, ProposalAnswer]:
    contributions, absent, prices = state.contributions, session.absent, state.prices

    def content(place: int) -> dict[str, Any]:
        return {
            "contributions": contributions.tolist(),
            "prices": prices[place].tolist(),
            "rho": state.rho,
            "absent": absent,
        }

    def read(raw: dict[str, Any], place: int) -> ProposalAnswer:
        answer = read_proposal(raw, session.introductions[place])
        earlier = state.wishes.setdefault(place, [])
        earlier.append(_wish(state, place, answer.proposal, earlier))
        return answer

    return session.ask("proximal", content, read)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Wish:
    """Where an agent asks to be, and what more data is worth to it there, its own less what that costs."""

    request: FloatArray
    worth: FloatArray
    size: FloatArray  # of the numbers that the worth is the difference of
    others: FloatArray | None = None  # what the data of others is worth, where that is more than rounding


def _wish(state: _State, place: int, request: FloatArray, earlier: Sequence[_Wish]) -> _Wish:
    """What an answer says, if it can be true together with all before."""
    matters, here, prices = state.matters[place], state.contributions, state.prices[place]
    worth = np.where(matters, prices + state.rho * (request - here), 0.0)
    size = np.where(matters, np.abs(prices) + state.rho * (np.abs(request) + here), 0.0)
    now = _Wish(request=np.where(matters, request, 0.0), worth=worth, size=size)
    if earlier:
        _check_concave(earlier, now)
    others = _of_others(now, place) if state.one_task else None
    known = next((wish.others for wish in reversed(earlier) if wish.others is not None), None)
    if others is not None and known is not None:
        check_proportions(known, others, tol=PROPORTION_TOLERANCE)
    return replace(now, others=others)


def _of_others(wish: _Wish, place: int) -> FloatArray | None:
    """What the data of others is worth, where that is more than rounding."""
    worth, size = wish.worth.copy(), wish.size.copy()
    worth[place] = size[place] = 0.0
    return worth if np.abs(worth).sum() > WORTH_ROUNDING * size.sum() else None


def _check_concave(earlier: Sequence[_Wish], now: _Wish) -> None:
    """Where an agent asks for more, more is worth less to it; at a kink it may ask for the same at other prices."""
    moves = now.request - np.array([wish.request for wish in earlier])
    turns = now.worth - np.array([wish.worth for wish in earlier])
    sizes = now.size + np.array([wish.size for wish in earlier])
    lengths = np.abs(now.request) + np.array([np.abs(wish.request) for wish in earlier])
    rounding = (sizes * (WORTH_ROUNDING * np.abs(moves) + REQUEST_ROUNDING * lengths)).sum(axis=1)
    if ((moves * turns).sum(axis=1) > rounding).any():
        raise BadAnswer("contradicts its earlier answer: asks for more where more is worth less to it by its requests")
