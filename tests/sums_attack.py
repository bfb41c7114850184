"""What a coordinator can work out: an attack on the weights of the members, from a transcript alone.

The attacker follows the protocol, keeps everything it is told, and knows more than it should: that payoffs are power
laws of value 1, that everybody's own weight is 1 and that costs are linear. Under price discovery one answer gives a
member's row, for its prices are a_i' w_ij. Under sums it fits all rows, curves and costs at once to the sums of
gradients, payoffs and costs of all rounds and to the payments, by nonlinear least squares (Gauss-Newton on logarithms,
from several starts, each held near plausible numbers at first). A member that shares what it knows with the coordinator
takes its own unknowns out of the fit.

The error is the root mean square of what the weights between members are off, over how much these weights vary: 0 is
the truth, 1 is as good as taking the mean of all weights for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.deals.transcript import read_transcript
from fedpact.federation import Federation
from fedpact.negotiation import masks
from fedpact.negotiation.sum_terms import HEADER, count_of, total_of
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

ATTACK_STARTS = 4
MAX_LOG = 12.0  # how far a logarithm may be from its start
MAX_EVALUATIONS = 200
RIDGES = (1e-2, 1e-4, 0.0)
START_WEIGHT, START_BETA, START_COST = 0.4, 0.2, 0.01
SPREAD = 0.7  # of the logarithms of starts


@dataclass(frozen=True, kw_only=True, eq=False)
class Recovery:
    """What the attacker takes the members' numbers for.

    Attributes
    ----------
    weights
        (n, n), the row receives.
    misfit
        The root mean square of what the fit leaves unexplained, of the size of the numbers; 0 where nothing was fitted.
    evaluations
        How many profiles it has seen sums of.
    """

    weights: FloatArray
    misfit: float
    evaluations: int

    def error(self, truth: FloatArray) -> float:
        """How far the weights between members are off, in spreads of the true ones."""
        between = ~np.eye(len(truth), dtype=bool)
        off = self.weights[between] - truth[between]
        return float(np.sqrt((off**2).mean()) / truth[between].std())


def recover_weights(
    transcript: Path | str,
    *,
    colluders: Mapping[int, Federation] | None = None,
    starts: int = ATTACK_STARTS,
    rng: np.random.Generator | int | None = None,
) -> Recovery:
    """The weights as a coordinator can work them out from its transcript.

    Parameters
    ----------
    colluders
        Members by place that share with it what they know: the federation, of which their own row, curve and cost are
        taken and nothing else.
    starts, rng
        How often the fit is begun anew, and from where.
    """
    found = read_transcript(Path(transcript))
    if found.header.mechanism != "externality":
        raise InvalidInput("the attack is on negotiations of the Externality mechanism")
    exchanges = list(found.exchanges())
    if found.header.protocol == "price-discovery":
        return _from_prices(exchanges, len(found.header.agents))
    seen = _Seen.of(exchanges, len(found.header.agents))
    return _fit(seen, colluders or {}, starts, np.random.default_rng(rng))


def _from_prices(exchanges: Sequence[Mapping[str, Any]], size: int) -> Recovery:
    """Every row from one answer: its prices over that of the member's own data."""
    weights, count = np.eye(size), 0
    for exchange in exchanges:
        for place, answer in exchange["answers"].items():
            if "lots" in answer:
                row = np.array(answer["tasks"][0]["prices"])
                count += 1
                if row[int(place)] > 0.0:
                    weights[int(place)] = row / row[int(place)]
    return Recovery(weights=weights, misfit=0.0, evaluations=count)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Seen:
    """The sums of a transcript: profiles and gradients (points, n), payoffs and costs; the final sum, the payments."""

    profiles: FloatArray
    gradients: FloatArray
    payoffs: FloatArray
    costs: FloatArray
    agreed: FloatArray
    worth: FloatArray
    payments: FloatArray

    @classmethod
    def of(cls, exchanges: Sequence[Mapping[str, Any]], size: int) -> _Seen:
        rows: list[FloatArray] = []
        profiles: list[FloatArray] = []
        agreed, worth, payments = (np.zeros(size) for _ in range(3))
        for exchange in exchanges:
            question = next(iter(exchange["questions"].values()))
            if question["kind"] == "payment":
                payments = np.array([answer["payment"] for _, answer in sorted(exchange["answers"].items())])
            if question["kind"] != "sums":
                continue
            if len(exchange["answers"]) < size:
                raise InvalidInput("the attack is on negotiations that nobody has left")
            if any("masked" not in answer for answer in exchange["answers"].values()):
                continue  # keys were agreed on anew
            answers = exchange["answers"].values()
            total = total_of([masks.decode(answer["masked"], count_of(question)) for answer in answers])
            if question["about"] == "prices":
                agreed, worth = np.array(question["points"][0]), total
            else:
                profiles += [np.array(point) for point in question["points"]]
                rows += list(total.reshape(len(question["points"]), -1))
        table = np.array(rows)
        inside = table[:, 0] == 0.0
        return cls(
            profiles=np.array(profiles)[inside],
            gradients=table[inside, HEADER:],
            payoffs=table[inside, 2],
            costs=table[inside, 3],
            agreed=agreed,
            worth=worth,
            payments=payments,
        )


class _Model:
    """Everything seen as a function of the logarithms of weights between members, powers and costs."""

    def __init__(self, seen: _Seen, colluders: Mapping[int, Federation]) -> None:
        self.seen, self.size = seen, seen.agreed.size
        n = self.size
        names = np.zeros((n, n + 2), dtype=bool)  # rows of weights, power and cost; what is to be found
        names[:] = True
        np.fill_diagonal(names, False)
        self.known = np.zeros((n, n + 2))
        for place, federation in colluders.items():
            names[place] = False
            self.known[place, :n] = np.log(np.maximum(federation.weights[place], 1e-12))
            self.known[place, n] = np.log(float(np.ravel(federation.payoff.take([place]).parameters["beta"])[0]))
            self.known[place, n + 1] = np.log(float(federation.costs.take([place]).linear[0]))
        self.sought = names
        self.scales = {
            "gradient": float(np.abs(seen.gradients).mean()),
            "payoff": float(np.abs(seen.payoffs).mean()),
            "cost": float(np.abs(seen.costs).mean()),
            "payment": float(np.abs(seen.payments).mean()),
        }

    def numbers(self, logs: FloatArray) -> FloatArray:
        """(n, n + 2): weights, power and cost by member."""
        table = self.known.copy()
        table[self.sought] = logs
        return np.exp(table)

    def residuals(self, logs: FloatArray) -> FloatArray:
        """What is left unexplained, of the size of the numbers."""
        n, seen, table = self.size, self.seen, self.numbers(logs)
        weights, beta, cost = table[:, :n], table[:, n], table[:, n + 1]
        profiles = np.vstack([seen.profiles, seen.agreed])
        reach = 1.0 + profiles @ weights.T
        slopes = beta * reach ** (-beta - 1.0)
        gross = slopes @ weights
        payoffs = (1.0 - reach**-beta).sum(axis=1)
        paid = seen.agreed * gross[-1] - slopes[-1] * (reach[-1] - 1.0)
        return np.concatenate(
            [
                ((gross[:-1] - cost) - seen.gradients).ravel() / self.scales["gradient"],
                (gross[-1] - seen.worth) / self.scales["gradient"],
                (payoffs[:-1] - seen.payoffs) / self.scales["payoff"],
                (seen.profiles @ cost - seen.costs) / self.scales["cost"],
                (paid - seen.payments) / self.scales["payment"],
            ]
        )

    def jacobian(self, logs: FloatArray) -> FloatArray:
        """Its derivatives."""
        n, seen, table = self.size, self.seen, self.numbers(logs)
        weights, beta = table[:, :n], table[:, n]
        profiles = np.vstack([seen.profiles, seen.agreed])
        reach = 1.0 + profiles @ weights.T
        slopes = beta * reach ** (-beta - 1.0)
        bends = -(beta + 1.0) * slopes / reach
        turns = slopes / beta - slopes * np.log(reach)  # d slope / d beta
        # (points, sums over j, member i, its parameter k)
        gross = np.zeros((*profiles.shape, n, n + 2))
        gross[..., :n] = bends[:, None, :, None] * profiles[:, None, None, :] * weights.T[None, :, :, None]
        each = np.arange(n)
        gross[:, each, :, each] += slopes[None, :, :]
        gross[..., n] = turns[:, None, :] * weights.T[None]
        net = gross[:-1].copy()
        net[:, each, each, n + 1] -= 1.0
        payoffs = np.zeros((len(profiles) - 1, n, n + 2))
        payoffs[..., :n] = slopes[:-1, :, None] * seen.profiles[:, None, :]
        payoffs[..., n] = (np.log(reach) * reach**-beta)[:-1]
        costs = np.zeros_like(payoffs)
        costs[..., n + 1] = seen.profiles
        paid = seen.agreed[:, None, None] * gross[-1]
        paid[each, each, :n] -= (bends[-1] * (reach[-1] - 1.0) + slopes[-1])[:, None] * seen.agreed
        paid[each, each, n] -= turns[-1] * (reach[-1] - 1.0)
        rows = [
            net.reshape(-1, n, n + 2) / self.scales["gradient"],
            gross[-1] / self.scales["gradient"],
            payoffs / self.scales["payoff"],
            costs / self.scales["cost"],
            paid / self.scales["payment"],
        ]
        return np.asarray(np.concatenate(rows)[:, self.sought] * table[self.sought])


def _fit(seen: _Seen, colluders: Mapping[int, Federation], starts: int, rng: np.random.Generator) -> Recovery:
    """The best of several fits."""
    from scipy.optimize import least_squares

    model = _Model(seen, colluders)
    n = model.size
    middle = np.broadcast_to(np.log([*[START_WEIGHT] * n, START_BETA, START_COST]), (n, n + 2))[model.sought]
    best, lowest = middle, np.inf
    identity = np.eye(middle.size)
    for _ in range(starts):
        logs = middle + SPREAD * rng.standard_normal(middle.size)
        for ridge in RIDGES:  # held near plausible numbers first, then let go
            found = least_squares(
                lambda logs, ridge=ridge: np.concatenate([model.residuals(logs), ridge * (logs - middle)]),
                logs,
                jac=lambda logs, ridge=ridge: np.vstack([model.jacobian(logs), ridge * identity]),
                bounds=(middle - MAX_LOG, middle + MAX_LOG),
                max_nfev=MAX_EVALUATIONS,
                xtol=1e-13,
                ftol=1e-15,
            )
            logs = found.x
        if found.cost < lowest:
            best, lowest = found.x, float(found.cost)
    misfit = float(np.sqrt(2.0 * lowest / max(len(model.residuals(best)), 1)))
    return Recovery(weights=model.numbers(best)[:, :n], misfit=misfit, evaluations=len(seen.profiles))
