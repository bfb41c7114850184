"""Mechanisms on many random federations: how often each property holds, and what is left of welfare and fair shares.

Each kind of federation is a way to draw weights, caps and values:

| kind             | what is special about it                                                                     |
|------------------|----------------------------------------------------------------------------------------------|
| `homogeneous`    | all weights are 1, all costs the same                                                        |
| `dense`          | nothing: weights between 0 and 2                                                             |
| `sparse`         | seven in ten weights are 0                                                                   |
| `tight-caps`     | caps of a tenth to all of what a member would contribute alone                               |
| `unequal-values` | values between 0.1 and 10, even on a logarithmic scale                                       |
| `harmful`        | of the weights 15 % lie between -0.05 and 0                                                  |

All members have the paper's payoff with one exponent per federation, between 0.2 and 1, and linear costs between 0.002
and 0.01 a sample, even on a logarithmic scale; w_ii = 1. Federation k of a kind is the same for a seed, however many
are drawn. They are worked on in pieces (`fedpact.comparison.batches`), each of which goes through all mechanisms.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fedpact.certificates.claims import Claim, Verdict
from fedpact.comparison.batches import Arrays, certify_each, cut, solve_batch, solve_pieces
from fedpact.deals.outcome import Outcomes
from fedpact.federation import Federation
from fedpact.federation.payoffs import PowerLaw
from fedpact.mechanisms import Mechanism, resolve_mechanisms
from fedpact.mechanisms.registry import ALL
from fedpact.solvers.groups import standalone_optima
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

FEDERATION_KINDS = ("homogeneous", "dense", "sparse", "tight-caps", "unequal-values", "harmful")
LOOSE_CAP = 2000.0  # samples: more than anybody wants
NOT_KNOWN = -1  # of a property that is undefined, or was not looked at
QUANTILES = {"low": 0.05, "median": 0.5, "high": 0.95}
DEFAULT_COUNT, DEFAULT_AGENTS, DEFAULT_SPLITS = 100, 5, 10
PIECE_SIZE = 100  # federations
MAX_STUDIED_AGENTS = 10  # with more, all groups of thousands of federations take too long
MAX_FEDERATIONS = 1_000_000  # of all kinds
STUDIED = tuple(claim for claim in Claim if claim is not Claim.FAIR_GAINS)  # which one mechanism alone is after
CERTIFIED = tuple(claim for claim in STUDIED if claim not in (Claim.RECIPROCITY, Claim.SPLIT_PROOF))
FIELDS = ("welfare", "share_of_best", "lowest_share", "budget", "solved", *(str(claim) for claim in STUDIED))


@dataclass(frozen=True, kw_only=True, eq=False)
class FieldStudy:
    """Mechanisms on many random federations.

    Attributes
    ----------
    kinds, mechanisms, n_agents, seed
        What was drawn, how many members every federation has, and the mechanisms by name.
    numbers
        `numbers[kind][mechanism][name]`, one per federation. "share_of_best" is welfare as a part of the best,
        "lowest_share" the smallest part of a Shapley value above zero that a member gets back, "budget" the sum of
        payments, "solved" whether there is an outcome. Under the name of a claim stands 1 where it holds, 0 where it
        does not, -1 where it is undefined or was not looked at. Reciprocity is that of the equilibrium found;
        "split-proof" is 1 where nobody was found to gain.
    """

    kinds: Sequence[str]
    mechanisms: Mapping[str, Mechanism]
    n_agents: int
    seed: int
    numbers: Mapping[str, Mapping[str, Mapping[str, np.ndarray]]]

    @property
    def count(self) -> int:
        """How many federations there are of each kind."""
        return int(next(iter(self.numbers[self.kinds[0]].values()))["solved"].size)

    def title(self, mechanism: str) -> str:
        """What people call a mechanism."""
        return self.mechanisms[mechanism].title

    def share_holding(self, kind: str, mechanism: str, claim: str) -> float:
        """In which part of the federations that were looked at a property holds; NaN if none was."""
        found = self.numbers[kind][mechanism][claim]
        known = found[found != NOT_KNOWN]
        return float(known.mean()) if known.size else float("nan")

    def quantiles(self, kind: str, mechanism: str, name: str) -> dict[str, float]:
        """Low (5 %), median and high (95 %) of a number over the federations where it is defined."""
        found = self.numbers[kind][mechanism][name]
        known = found[~np.isnan(found)]
        if not known.size:
            return dict.fromkeys(QUANTILES, float("nan"))
        # Shares may be infinite, where interpolation between two gives no number.
        return {label: float(np.quantile(known, part, method="inverted_cdf")) for label, part in QUANTILES.items()}

    def summary(self) -> list[dict[str, Any]]:
        """A row for every kind and mechanism: in what shares properties hold, quantiles of welfare and lowest share."""
        rows = []
        for kind in self.kinds:
            for mechanism, numbers in self.numbers[kind].items():
                row: dict[str, Any] = {"kind": kind, "mechanism": mechanism, "solved": float(numbers["solved"].mean())}
                for claim in STUDIED:
                    row[str(claim)] = self.share_holding(kind, mechanism, claim)
                    row[f"{claim}-judged"] = int((numbers[claim] != NOT_KNOWN).sum())
                for name in ("share_of_best", "lowest_share"):
                    found = self.quantiles(kind, mechanism, name)
                    row |= {f"{name}_{label}": number for label, number in found.items()}
                rows.append(row)
        return rows

    def columns(self) -> dict[str, list[Any]]:
        """One row for each federation and mechanism; properties that are not known are empty."""
        columns: dict[str, list[Any]] = {name: [] for name in ("kind", "federation", "mechanism", *FIELDS)}
        for kind in self.kinds:
            for mechanism, numbers in self.numbers[kind].items():
                columns["kind"] += [kind] * self.count
                columns["federation"] += range(self.count)
                columns["mechanism"] += [mechanism] * self.count
                for name in FIELDS:
                    found = numbers[name].tolist()
                    known = [None if each == NOT_KNOWN else bool(each) for each in found] if name in STUDIED else found
                    columns[name] += known
        return columns

    def to_frame(self) -> Any:
        """A pandas frame with a row for each federation and mechanism; needs pandas."""
        from fedpact.report.records import columns_frame  # noqa: PLC0415 - optional dependency

        return columns_frame(self.columns())

    def plot(self, *, ax: Any = None) -> Any:
        """Shares in which properties hold, by mechanism, on `ax` or a new figure; needs matplotlib."""
        from fedpact.report.plots.results import plot_study  # noqa: PLC0415 - optional dependency

        return plot_study(self, ax=ax)


def study(
    kinds: str | Sequence[str] | None = None,
    mechanisms: Mechanism | str | Sequence[Mechanism | str] = ALL,
    *,
    count: int = DEFAULT_COUNT,
    n_agents: int = DEFAULT_AGENTS,
    seed: int = 0,
    splits: int = DEFAULT_SPLITS,
    progress: Callable[[int, int], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> FieldStudy:
    """Put mechanisms to `count` random federations of each of the `FEDERATION_KINDS` chosen, all of them if not given.

    On `splits` federations of each kind it is tried whether somebody gains by posing as two: that takes a solve for
    every member. `progress` and `checkpoint` are those of `sweep`.

    Examples
    --------
    >>> found = study("dense", ["externality", "voluntary"], count=4, n_agents=3, splits=0)
    >>> found.share_holding("dense", "externality", "core"), found.share_holding("dense", "voluntary", "core")
    (1.0, 0.0)
    """
    listed = FEDERATION_KINDS if kinds is None else kinds
    chosen = tuple(listed) if isinstance(listed, tuple | list) else (listed,)
    for kind in chosen:
        if not isinstance(kind, str) or kind not in FEDERATION_KINDS:
            raise InvalidInput(field="kinds", rule=f"must be among {', '.join(FEDERATION_KINDS)}", value=kind)
    if not chosen or len(set(chosen)) < len(chosen):
        raise InvalidInput(field="kinds", rule="must be one or more, each once", value=list(chosen))
    for label, number, low, high in (
        ("count", count, 1, MAX_FEDERATIONS // len(chosen)),
        ("n_agents", n_agents, 1, MAX_STUDIED_AGENTS),
        ("splits", splits, 0, MAX_FEDERATIONS),
        ("seed", seed, 0, 2**63),
    ):
        if not low <= number <= high:
            raise InvalidInput(field=label, rule=f"must be from {low} to {high}", value=number)
    rules, drawn = resolve_mechanisms(mechanisms), {"n_agents": n_agents, "seed": seed, "splits": splits}
    done = solve_pieces(
        {kind: cut(kind, count, PIECE_SIZE, partial(_solve_kind, kind, rules, **drawn)) for kind in chosen},
        checkpoint=checkpoint,
        mechanisms=rules,
        identity=("study", drawn),
        progress=progress,
    )
    return FieldStudy(
        kinds=chosen,
        mechanisms={each.name: each for each in rules},
        n_agents=n_agents,
        seed=seed,
        numbers={
            kind: {each.name: {name: found[f"{each.name}:{name}"] for name in FIELDS} for each in rules}
            for kind, found in done.items()
        },
    )


def _solve_kind(
    kind: str, mechanisms: Sequence[Mechanism], *, n_agents: int, seed: int, splits: int, start: int, stop: int
) -> Arrays:
    """Some federations of a kind through all mechanisms: what is asked of them, by mechanism and name."""
    drawn = draw_federations(kind, start, stop, n_agents=n_agents, seed=seed)
    best = solve_batch(drawn, "externality").welfare
    return {
        f"{mechanism.name}:{name}": part
        for mechanism in mechanisms
        for name, part in _judge(solve_batch(drawn, mechanism), best, range(max(splits - start, 0))).items()
    }


def _judge(outcomes: Outcomes, best: FloatArray, split: range) -> Arrays:
    gaps, tols = outcomes.reciprocity_gaps.min(axis=1), outcomes.tolerances.sum(axis=1)
    known = outcomes.solved & ~np.isnan(gaps)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(best > 0, outcomes.welfare / best, np.nan)
    return {
        "welfare": np.asarray(outcomes.welfare),
        "share_of_best": share,
        "lowest_share": np.asarray(outcomes.lowest_fair_part),
        "budget": outcomes.payments.sum(axis=1),
        "solved": outcomes.solved,
        **{str(claim): _verdict_codes(outcomes, claim) for claim in CERTIFIED},
        Claim.RECIPROCITY: np.where(known, gaps >= -tols, NOT_KNOWN).astype(np.int8),
        Claim.SPLIT_PROOF: _verdict_codes(outcomes, Claim.SPLIT_PROOF, split if outcomes.rules.federated else range(0)),
    }


def _verdict_codes(outcomes: Outcomes, claim: Claim, among: range | None = None) -> np.ndarray:
    """1 where a claim holds, 0 where it is violated, NOT_KNOWN otherwise; that nobody gains by posing as two also
    counts where nobody was found to."""
    codes = {Verdict.HOLDS: 1, Verdict.VIOLATED: 0} | ({Verdict.NOT_REFUTED: 1} if claim is Claim.SPLIT_PROOF else {})
    found = certify_each(outcomes, claim, among)
    return np.array([NOT_KNOWN if each is None else codes.get(each.verdict, NOT_KNOWN) for each in found], np.int8)


def draw_federations(kind: str, start: int, stop: int, *, n_agents: int, seed: int) -> list[Federation]:
    """Federations number `start` to `stop` of a kind.

    Examples
    --------
    >>> one, two = draw_federations("sparse", 5, 7, n_agents=3, seed=0)
    >>> two.fingerprint == draw_federations("sparse", 6, 7, n_agents=3, seed=0)[0].fingerprint
    True
    """
    stream = FEDERATION_KINDS.index(kind)
    return [_draw(kind, np.random.default_rng([seed, stream, n_agents, k]), n_agents) for k in range(start, stop)]


def _draw(kind: str, rng: np.random.Generator, n_agents: int) -> Federation:
    shape = (n_agents, n_agents)
    values = np.exp(rng.uniform(np.log(0.1), np.log(10.0), n_agents)) if kind == "unequal-values" else 1.0
    useful = rng.random(shape) < 0.3 if kind == "sparse" else np.ones(shape, dtype=bool)
    weights = np.ones(shape) if kind == "homogeneous" else useful * rng.uniform(0.0, 2.0, shape)
    if kind == "harmful":
        harms = rng.random(shape) < 0.15
        weights = np.where(harms, -rng.uniform(0.0, 0.05, shape), weights)
    np.fill_diagonal(weights, 1.0)
    costs = np.exp(rng.uniform(np.log(0.002), np.log(0.01), 1 if kind == "homogeneous" else n_agents))
    costs = np.broadcast_to(costs, n_agents)
    loose = Federation(weights, costs=costs, caps=LOOSE_CAP, payoff=PowerLaw(rng.uniform(0.2, 1.0)), values=values)
    if kind != "tight-caps":
        return loose
    wanted = np.maximum(standalone_optima(loose.arrays)[0], 1.0)
    return loose.replace(caps=wanted * rng.uniform(0.1, 1.0, n_agents))
