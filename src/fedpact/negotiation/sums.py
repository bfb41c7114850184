"""Negotiating in sums: the coordinator learns what all members' answers add up to, and nothing of a single one.

Both mechanisms maximise a sum over receivers, welfare or the potential less costs, and each receiver works out its own
term from its own row (`fedpact.negotiation.sum_terms`). Members first agree on keys, in one round through the
coordinator. Every answer after that is masked so that only the sum over all members can be read
(`fedpact.negotiation.masks`). From sums of values and gradients the coordinator climbs to the maximiser: along a ray
first, for the order of magnitude, then by SciPy's L-BFGS-B, every evaluation of which is a round. A round asks about
the best profile so far as well: two values and gradients show whether they are those of a concave function.

Then one more sum says what everybody's data is worth to all, or what everybody's share is; each member works out its
own payment from it and its own numbers, and says it. Payments sum to zero within rounding, which is shared out so that
the budget is exact. A round somebody does not answer is never read: it is asked again without that
member. No sum over fewer than three answers is formed.

Sums that cannot be true (masks that do not cancel, values and slopes of no concave function, payments that do not add
up) end the negotiation. Who is to blame cannot be said: that would take everybody's masks, and no member opens them.

Stopping inequality: the last step brought at most `tol` of what is at stake, and the linearised gain, to between
nothing and twice the profile, is at most `MAX_GAIN_LEFT` of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, NoReturn

import numpy as np

from fedpact.negotiation import masks
from fedpact.negotiation.session import MemberExcluded, ProtocolResult, Session, SettledBy
from fedpact.negotiation.sum_terms import HEADER, MIN_SUMMED, PROGRAMS, SETTLEMENTS, count_of, total_of
from fedpact.negotiation.validation import read_answer
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, NotConverged
from fedpact.utils.words import count_text

MAX_KEY_CHANGES = 3  # times keys are agreed on anew for one question
CONCAVITY_TOLERANCE = 1e-9  # of the numbers involved
PAYMENT_TOLERANCE = 1e-9  # of the money that changes hands
RAY_FACTOR = 16.0  # between points on the ray
MIN_LENGTH, MAX_LENGTH = 1e-30, 1e30  # of the ray: nobody has so few samples, or so many
MAX_GAIN_LEFT = 1e-4  # of what is at stake: with more to gain at the margin this is no agreement
OUTSIDE = 1.0  # of what is at stake: how far below the best a profile counts that is outside somebody's domain
MEMORY = 50  # steps that the climb learns curvature from


def require_sums(size: int) -> None:
    """Refuse sums between so few members that they would bare them, and where masks cannot be made."""
    masks.require_cryptography()
    if size < MIN_SUMMED:
        raise InvalidInput(
            f"protocol 'sums' needs at least {MIN_SUMMED} members, got {size}: a sum over fewer than "
            f"{MIN_SUMMED} answers is never formed, since it would bare them; negotiate by price-discovery"
        )


def negotiate_sums(session: Session, *, mechanism: str, tol: float, max_rounds: int) -> ProtocolResult:
    """The result; raises `NotConverged` if there is none within so many rounds, or too few members are left."""
    exchange = _Exchange(session)
    climb = _Climb(session, exchange, mechanism, max_rounds)
    best = climb.maximise(tol)
    return ProtocolResult(
        contributions=session.profile,
        payments=session.for_everybody(exchange.ask_payments(SETTLEMENTS[mechanism], session.profile)),
        settled_by=SettledBy.OWN_PAYMENTS,
        residual=climb.gain_left,
        welfare=best.payoffs - best.costs,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Point:
    """What members' sums say of a profile; a value of minus infinity where it is outside somebody's domain."""

    at: FloatArray
    value: float
    payoffs: float
    costs: float
    gradient: FloatArray


class _Climb:
    """The maximisation of a program that members know in parts; `best` is the best profile so far."""

    def __init__(self, session: Session, exchange: _Exchange, mechanism: str, max_rounds: int) -> None:
        self._session, self._exchange, self._about = session, exchange, PROGRAMS[mechanism]
        self._lots, self._left, self._number = session.lots, max_rounds, 0
        self._caps, self._start = session.caps[self._lots], session.profile[self._lots]
        nothing = np.zeros(self._lots.size)
        self.best = _Point(at=nothing, value=-np.inf, payoffs=0.0, costs=0.0, gradient=nothing)  # nothing is asked yet

    def maximise(self, tol: float) -> _Point:
        """The maximiser, from nothing; along a ray that leads through where the negotiation was before, if that rises.

        In units of the largest contribution and of what is at stake, so that nobody's units matter.
        """
        from scipy.optimize import minimize  # noqa: PLC0415 - heavy

        nothing = self._ask(np.zeros(self._lots.size))
        if not np.isfinite(nothing.value):
            raise NotConverged(
                "no agreement in sums: contributing nothing is outside the domain of somebody's payoff, or its numbers "
                f"are beyond {masks.MAX_MASKED:.3g} (state payoffs in a larger unit); its own log says what fails, "
                "and sums do not say whose"
            )
        best = self._look_along_ray(nothing)
        unit, stake = float(best.at.max(initial=0.0)), self._stake
        if not unit > 0.0:
            return best

        def loss(scaled: FloatArray) -> tuple[float, FloatArray]:
            found = self._ask(np.clip(unit * scaled, 0.0, self._caps))
            if not np.isfinite(found.value):
                return OUTSIDE - self.best.value / stake, np.zeros(scaled.size)
            return -found.value / stake, -found.gradient * unit / stake

        bounds = [(0.0, cap if np.isfinite(cap) else None) for cap in self._caps / unit]
        options = {"ftol": tol, "gtol": 0.0, "maxcor": MEMORY, "maxiter": self._left, "maxfun": self._left + 1}
        minimize(loss, best.at / unit, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        if self.gain_left > MAX_GAIN_LEFT:
            self._give_up()
        return self.best

    @property
    def _stake(self) -> float:
        return abs(self.best.payoffs) + self.best.costs

    @property
    def gain_left(self) -> float:
        """What more there can be at most between nothing and about twice the best profile, of what is at stake."""
        at, gradient = self.best.at, self.best.gradient
        box = np.minimum(self._caps, 2.0 * at + at.mean()) if at.any() else np.minimum(self._caps, 1.0)
        gain = float(np.maximum(gradient * (box - at), -gradient * at).sum())
        return gain / self._stake if self._stake > 0.0 else float(gain > 0.0)

    def _look_along_ray(self, nothing: _Point) -> _Point:
        """The best of points whose distances grow, or fall, by a factor until the value has turned."""
        direction = (nothing.gradient > 0.0).astype(np.float64)
        if nothing.gradient @ self._start > 0.0:
            direction = self._start
        best, length, factor = nothing, 1.0, RAY_FACTOR
        while self._caps[direction > 0.0].any() and MIN_LENGTH < length < MAX_LENGTH:
            found = self._ask(np.minimum(length * direction, self._caps))
            if found.value > best.value:
                best, is_capped = found, (found.at >= self._caps)[direction > 0.0].all()
                if factor < 1.0 or is_capped or found.gradient @ found.at <= 0.0:
                    break
            elif best is not nothing:
                break
            else:
                factor = 1.0 / RAY_FACTOR
            length *= factor
        return best

    def _ask(self, at: FloatArray) -> _Point:
        """A round: what the sums say of a profile, and once more of the best so far."""
        session = self._session
        if not self._left:
            self._give_up()
        self._left, self._number, session.rounds = self._left - 1, self._number + 1, session.rounds + 1
        points = [at, self.best.at] if np.isfinite(self.best.value) else [at]
        told = self._exchange.ask(self._about, [session.for_all_lots(point) for point in points], self._number)
        outside, value, payoffs, costs, *gradient = told[: told.size // len(points)]
        found = _Point(
            at=at,
            value=-np.inf if outside > 0 else value,
            payoffs=float(payoffs),
            costs=float(costs),
            gradient=np.array(gradient)[self._lots],
        )
        if found.value > self.best.value:
            self.best = found
        session.profile = session.for_all_lots(self.best.at)
        session.notify_round(
            self._number,
            contributions=session.profile,
            residual=self.gain_left,
            welfare=self.best.payoffs - self.best.costs,
        )
        return found

    def _give_up(self) -> NoReturn:
        names = ", ".join(f'"{self._session.names[index]}"' for index in self._session.members)
        raise NotConverged(
            f"no agreement within {self._number} rounds: the margins still promise {self.gain_left:.1e} of what is at "
            f"stake, and sums do not say which of {names} is to blame"
        )


class _Exchange:
    """Questions about sums, with keys that are agreed on anew where a member has another one."""

    def __init__(self, session: Session) -> None:
        self.session = session
        if session.members.size < MIN_SUMMED:
            fates = "; ".join(f"{name}: {reason}" for name, reason in session.excluded.items())
            raise NotConverged(
                f"no agreement in sums: {count_text(session.members.size, 'member')} left, and a sum over fewer than "
                f"{MIN_SUMMED} answers is never formed{f' ({fates})' if fates else ''}; negotiate by price-discovery"
            )
        self._agree_on_keys()

    def ask(self, about: str, profiles: list[FloatArray], number: int) -> FloatArray:
        """The sum of everybody's answers about some profiles; `NotConverged` if it contradicts itself."""
        for _ in range(MAX_KEY_CHANGES):
            question = self.question(about, profiles, number)
            read = partial(_read_sums, count=count_of(question))
            answers = self.session.ask("sums", lambda index: question, read)  # noqa: B023 - called at once
            stale = [index for index, masked in answers.items() if masked is None]
            if not stale:
                total = total_of(masked for masked in answers.values() if masked is not None)
                _check_sums(question, total)
                return total
            self._agree_on_keys()
        self.session.exclude(dict.fromkeys(stale, "its key changes with every question"))
        raise MemberExcluded

    def ask_payments(self, about: str, contributions: FloatArray) -> FloatArray:
        """What everybody works out from one more sum that it is paid, by member."""
        sums = self.ask(about, [contributions], 0)
        content = {"about": about, "contributions": contributions.tolist(), "sums": sums.tolist()}
        stated = self.session.ask("payment", lambda index: content, lambda raw, _: read_answer("payment", raw))
        payments = np.array([stated[int(index)]["payment"] for index in self.session.members])
        gross = float(np.abs(sums).sum() if about == SETTLEMENTS["shapley"] else np.abs(sums) @ contributions)
        if abs(payments.sum()) > PAYMENT_TOLERANCE * (gross + np.abs(payments).sum()):  # of what changes hands at most
            raise _contradiction(f"the payments sum to {payments.sum():.3g}")
        return payments

    def question(self, about: str, profiles: list[FloatArray], number: int) -> dict[str, Any]:
        """What members are asked about sums at some profiles, in a round."""
        signatures = {str(index): key["signature"] for index, key in self._keys.items() if key["signature"]}
        question = {
            "about": about,
            "round": number,
            "points": [profile.tolist() for profile in profiles],
            "members": [int(index) for index in self.session.members],
            "caps": [cap if np.isfinite(cap) else "inf" for cap in self.session.caps.tolist()],
            "keys": [self._keys[index]["key"] if index in self._keys else "" for index in range(self.session.size)],
        }
        return question | ({"names": self.session.names, "signatures": signatures} if signatures else {})

    def _agree_on_keys(self) -> None:
        self._keys = self.session.ask("key", lambda index: {}, lambda raw, _: read_answer("key", raw))


def _read_sums(raw: dict[str, Any], index: int, *, count: int) -> masks.Residues | None:
    """So many masked numbers; None if the member has another key now."""
    return None if raw.get("stale") is True else read_answer("sums", raw, count=count)["masked"]


def _contradiction(reason: str) -> NotConverged:
    return NotConverged(
        f"no agreement: the sums contradict themselves ({reason}), and nobody can be named, since no member opens its "
        "masks; negotiate by price-discovery, where every answer stands by itself, or begin again without a member "
        "that you suspect"
    )


def _check_sums(question: Mapping[str, Any], total: FloatArray) -> None:
    """Raise `NotConverged` if sums cannot be true.

    Masks that do not cancel leave numbers at random. A sum of concave functions is concave, so one contradicts its
    tangents only if somebody's term does.
    """
    size = len(question["members"])
    if not (np.abs(total) <= size * masks.MAX_MASKED).all():
        raise _contradiction("the masks do not cancel")
    if question["about"] not in PROGRAMS.values():
        return
    by_point = total.reshape(len(question["points"]), -1)
    outside = by_point[:, 0]
    if ((outside != np.rint(outside)) | (outside < 0) | (outside > size)).any():
        raise _contradiction("the masks do not cancel")
    told = [
        (np.array(at), float(row[1]), row[HEADER:])
        for at, row in zip(question["points"], by_point, strict=True)
        if row[0] == 0.0
    ]
    if not all(_is_concave(one, two) for one, two in combinations(told, 2)):
        raise _contradiction("values and slopes are not those of a concave function")


def _is_concave(one: tuple[FloatArray, float, FloatArray], two: tuple[FloatArray, float, FloatArray]) -> bool:
    (at, value, slope), (there, other, slope_there) = one, two
    step, rise = there - at, other - value
    rounding = CONCAVITY_TOLERANCE * (
        abs(value) + abs(other) + float((np.abs(slope) + np.abs(slope_there)) @ np.abs(step))
    ) + 2.0 * at.size * 2.0**-masks.FRACTION_BITS * (1.0 + float(np.abs(step).sum()))
    return bool(slope_there @ step - rounding <= rise <= slope @ step + rounding)
