"""The paper's theorems on random federations: a statement, a way to draw federations it speaks of, and a margin.

A margin is the slack of the claim at an instance, as a share of what is at stake for the average agent, the mean of
|a_i| + c_i, unless its docstring names another measure. A claim that allows equality holds down to minus rounding; a
strict one must exceed it. The first paragraph of a margin's docstring is the theorem's statement.

**The draws** know an equilibrium without solving. We draw a profile first, and set each agent's marginal cost to what
one more sample earns it there: sum_k w_ki a_k' for M^E, d phi_i / d s_i for M^Shap. Then the profile is an equilibrium.
An agent drawn at zero gets a higher marginal cost, one drawn at its cap a lower one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.claims import Claim
from fedpact.certificates.reciprocity import reciprocity_ratios
from fedpact.federation import Cost, Exponential, Federation, Linear, Log, Michaelis, Payoff, PowerLaw, Quadratic
from fedpact.mechanisms.externality import ExternalityMechanism
from fedpact.mechanisms.shapley import ShapleyMechanism
from fedpact.paper import table1
from fedpact.paper.results import Judgement, PaperFinding, Result, number
from fedpact.shapley import shapley_values
from fedpact.solvers.groups import standalone_optimum
from fedpact.utils.arrays import FloatArray

MIN_AGENTS, MAX_AGENTS = 3, 7
MIN_BENEFICIARIES = 3
AT_ZERO, AT_CAP = 0.25, 0.75  # of a uniform number: below, an agent contributes nothing; above, its cap
DEPTH = 0.8  # how far towards the floor of the domain all harm at the caps together may go
SMALLEST_COST = 1e-6
# Margins are differences of sums of at most 2^7 numbers of the size of the stakes.
MARGIN_ROUNDING = 1e-11
EASINGS = 2.0 ** -np.arange(1, 15)  # by which share those strictly inside contribute less
CLEAR = 1e-9  # of what a sample earns: net externalities below it have no sign
EQUAL_CONTRIBUTION = 1e-9  # of the largest contribution
STEP = 1e-3  # of a contribution, either way

THEOREMS_TEXT = """\
We try each claim on random federations that meet its assumptions by construction: we draw a profile, and choose the
costs that make it an equilibrium. The margin is by how much the claim holds, as a share of what is at stake for the
average agent; below zero the claim fails, and a strict claim needs more than zero.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Instance:
    """A federation and the profile a claim is about, an equilibrium unless the claim says otherwise.

    Attributes
    ----------
    other
        A second profile, for claims that compare two.
    payments
        For claims about any payments; otherwise they follow from the mechanism.
    """

    federation: Federation
    contributions: FloatArray
    other: FloatArray | None = None
    payments: FloatArray | None = None


Draw = Callable[[np.random.Generator], Instance]
Margin = Callable[[Instance], float]


def stakes(instance: Instance) -> float:
    """The mean of |a_i| + c_i: what is at stake for the average agent."""
    federation, profile = instance.federation, instance.contributions
    return float((np.abs(federation.payoffs(profile)) + federation.costs.value(profile)).mean())


def earned_socially(federation: Federation, contributions: FloatArray) -> FloatArray:
    """sum_k w_ki a_k': what one more sample of i's is worth to everybody."""
    return np.asarray(federation.weights.T @ federation.marginal_payoffs(contributions))


def earned_by_shapley(federation: Federation, contributions: FloatArray) -> FloatArray:
    """d phi_i / d s_i."""
    return shapley_values(federation, contributions, method="enumeration").gradient


def welfare_optimum(
    rng: np.random.Generator,
    *,
    harm: bool = False,
    edges: bool = False,
    wide: bool = False,
    alone: bool = False,
    few: bool = False,
) -> Instance:
    """A federation and a welfare optimum of it.

    `harm` allows negative weights, `edges` agents at zero or at their cap, `wide` every payoff family, cost, value and
    own weight of the package; `alone` asks for standalone optima strictly inside (not with `edges` or `wide`), `few`
    allows data that is of use to fewer than three.
    """
    while True:
        weights, profile, caps = _parts(rng, harm=harm, edges=edges, beneficiaries=1 if few else MIN_BENEFICIARIES)
        payoff = _any_payoff(rng) if wide else PowerLaw(_beta(rng))
        values = np.exp(rng.uniform(-1.0, 1.0, profile.size)) if wide else np.ones(profile.size)
        if wide:
            weights = weights * np.exp(rng.uniform(-1.0, 1.0, profile.size))
        weights = _in_domain(weights, caps, payoff)
        costs = _costs(rng, profile, caps, (values * payoff.slope(weights @ profile)) @ weights, bent=wide)
        if costs is None or (alone and (costs.linear >= payoff.slope(np.zeros(1))).any()):
            continue
        if alone:  # caps that leave room for what each would gather alone
            caps = np.maximum(caps, 1.1 * payoff.inverse_slope(costs.linear))
        if (np.minimum(weights, 0.0) @ caps > payoff.floor).all():
            federation = Federation(weights, costs=costs, caps=caps, payoff=payoff, values=values)
            return Instance(federation=federation, contributions=profile)


def shapley_equilibrium(rng: np.random.Generator, *, edges: bool = False, least: float = 0.0) -> Instance:
    """A federation without harm and its Shapley equilibrium; with `least`, weights at least that of one's own data."""
    while True:
        weights, profile, caps = _parts(rng, harm=False, edges=edges)
        if least:
            weights = np.maximum(weights, least)
            np.fill_diagonal(weights, 1.0)
        blank = Federation(weights, costs=1.0, caps=caps, payoff=PowerLaw(_beta(rng)))
        costs = _costs(rng, profile, caps, earned_by_shapley(blank, profile), bent=False)
        if costs is not None:
            return Instance(federation=_with_costs(blank, costs), contributions=profile)


def homogeneous_optimum(rng: np.random.Generator, *, symmetric: bool = True) -> Instance:
    """The paper's homogeneous federation and an interior optimum, the symmetric one or any; all is in closed form."""
    n_agents, beta = int(rng.integers(MIN_AGENTS, MAX_AGENTS + 2)), _beta(rng)
    cost = beta * np.exp(rng.uniform(-6.0, -0.1))  # below beta: alone too agents contribute
    total = (n_agents * beta / cost) ** (1.0 / (beta + 1.0)) - 1.0
    shares = np.ones(n_agents) if symmetric else np.exp(rng.uniform(-2.0, 2.0, n_agents))
    profile = total * shares / shares.sum()
    alone = (beta / cost) ** (1.0 / (beta + 1.0)) - 1.0
    cap = float(np.exp(rng.uniform(0.01, 2.0)) * max(profile.max(), alone))
    federation = Federation(np.ones((n_agents, n_agents)), costs=cost, caps=cap, payoff=PowerLaw(beta))
    return Instance(federation=federation, contributions=profile)


def homogeneous_shapley(rng: np.random.Generator, *, weight: float = 1.0, edges: bool = True) -> Instance:
    """Equal agents that value each other's data at `weight`, and their Shapley equilibrium; some caps may bind.

    Whoever is not capped contributes the same; with equal costs, those capped below that want more.
    """
    n_agents, beta = int(rng.integers(MIN_AGENTS, MAX_AGENTS + 1)), _beta(rng)
    profile = np.full(n_agents, np.exp(rng.uniform(-2.0, 4.0)))
    caps = np.exp(rng.uniform(0.01, 3.0, n_agents)) * profile
    if edges:
        capped = (rng.random(n_agents) > AT_CAP) & (np.arange(n_agents) > 0)
        profile = np.where(capped, rng.uniform(0.05, 0.95, n_agents) * profile, profile)
        caps = np.where(capped, profile, caps)
    weights = np.full((n_agents, n_agents), weight)
    np.fill_diagonal(weights, 1.0)
    blank = Federation(weights, costs=1.0, caps=caps, payoff=PowerLaw(beta))
    cost = float(earned_by_shapley(blank, profile)[0])
    return Instance(federation=_with_costs(blank, cost), contributions=profile)


def renamable_optimum(rng: np.random.Generator) -> Instance:
    """Agents in a ring, each to its neighbours what the next is to its own, and the optimum that treats all alike.

    Weights depend on the distance round the ring only, costs and caps are equal. In a third of them the cap binds.
    """
    n_agents, beta = int(rng.integers(MIN_AGENTS, MAX_AGENTS + 1)), _beta(rng)
    by_distance = np.concatenate([[1.0], rng.uniform(0.05, 2.0, n_agents - 1)])
    indices = np.arange(n_agents)
    weights = by_distance[(indices[None, :] - indices[:, None]) % n_agents]
    level = float(np.exp(rng.uniform(-2.0, 3.0)))
    binding = rng.random() < 1.0 / 3.0
    cap = level if binding else 3.0 * level
    blank = Federation(weights, costs=1.0, caps=cap, payoff=PowerLaw(beta))
    profile = np.full(n_agents, level)
    cost = float(earned_socially(blank, profile).mean()) * (rng.uniform(0.1, 0.9) if binding else 1.0)
    return Instance(federation=_with_costs(blank, cost), contributions=profile)


def any_profile(rng: np.random.Generator) -> Instance:
    """Any federation of the package, harm included, with any two profiles within the caps."""
    federation = welfare_optimum(rng, harm=bool(rng.integers(2)), edges=True, wide=True).federation
    indices = np.clip(rng.uniform(-0.2, 1.2, (2, federation.n_agents)), 0.0, 1.0)
    indices[:, rng.integers(federation.n_agents)] = rng.uniform(0.1, 0.9, 2)  # somebody contributes
    return Instance(
        federation=federation, contributions=indices[0] * federation.caps, other=indices[1] * federation.caps
    )


def _beta(rng: np.random.Generator) -> float:
    return float(np.exp(rng.uniform(np.log(0.01), 0.0)))


def _any_payoff(rng: np.random.Generator) -> Payoff:
    scale = float(np.exp(rng.uniform(-1.0, 3.0)))
    return (PowerLaw(_beta(rng)), Log(), Michaelis(scale), Exponential(1.0 / scale))[rng.integers(4)]


def _parts(
    rng: np.random.Generator, *, harm: bool, edges: bool, beneficiaries: int = MIN_BENEFICIARIES
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights with 1 on the diagonal and so many beneficiaries each at least, a profile, and caps."""
    n_agents = int(rng.integers(MIN_AGENTS, MAX_AGENTS + 1))
    weights = rng.uniform(0.05, 2.0, (n_agents, n_agents))
    if rng.integers(2):  # sparse
        order = rng.random((n_agents, n_agents))
        np.fill_diagonal(order, -1.0)
        kept = order.argsort(axis=0).argsort(axis=0) < beneficiaries
        weights = np.where(kept | (rng.random((n_agents, n_agents)) < 0.4), weights, 0.0)
    if harm:
        harmful = (rng.random((n_agents, n_agents)) < 0.2) | (rng.random(n_agents) < 0.3)[None, :]
        weights = np.where(harmful, -0.5 * weights, weights)
    np.fill_diagonal(weights, 1.0)
    profile = np.exp(rng.uniform(-2.0, 3.0, n_agents))
    caps = np.exp(rng.uniform(0.05, 1.0 if harm else 3.0, n_agents)) * profile
    if edges:
        index = rng.random(n_agents)
        index[rng.integers(n_agents)] = 0.5  # somebody contributes
        caps = np.where(index > AT_CAP, profile, caps)
        profile = np.where(index < AT_ZERO, 0.0, profile)
    return weights, profile, caps


def _in_domain(weights: FloatArray, caps: FloatArray, payoff: Payoff) -> FloatArray:
    """The weights with harm shrunk, row by row, until every profile within the caps is in the domain."""
    harm = np.minimum(weights, 0.0)
    allowed = DEPTH * min(-float(np.max(payoff.floor)), 2.0)
    depth = -(harm @ caps)
    return (
        np.maximum(weights, 0.0) + harm * np.where(depth > allowed, allowed / np.maximum(depth, 1e-300), 1.0)[:, None]
    )


def _costs(
    rng: np.random.Generator, profile: FloatArray, caps: FloatArray, earns: FloatArray, *, bent: bool
) -> Cost | None:
    """Costs that make the profile an equilibrium; None where one would not be positive."""
    dearer = np.maximum(earns, 0.0) + rng.uniform(0.0, 1.0, profile.size) * np.abs(earns).mean()
    cheaper = rng.uniform(0.05, 1.0, profile.size) * earns
    slopes = np.where(profile <= 0, dearer, np.where(profile >= caps, cheaper, earns))
    if (slopes <= SMALLEST_COST * np.abs(earns).max()).any():
        return None
    if not bent or rng.integers(2):
        return Linear(slopes)
    bends = rng.uniform(0.0, 0.5, profile.size) * slopes / np.maximum(profile, 1.0)
    return Quadratic(slopes - 2.0 * bends * profile, bends)


def _with_costs(blank: Federation, costs: Any) -> Federation:
    return Federation(blank.weights, costs=costs, caps=blank.caps, payoff=blank.payoff, values=blank.values)


# Theorems


@dataclass(frozen=True, kw_only=True, eq=False)
class Condition:
    """A condition that the paper does not state: its words, and whether an instance meets it."""

    words: str
    met: Callable[[Instance], bool]


@dataclass(frozen=True, kw_only=True, eq=False)
class Theorem:
    """A claim that random federations can refute.

    Attributes
    ----------
    where
        Where the paper makes the claim.
    statement, assumptions
        The claim and what it rests on, in our words.
    draw
        A random instance that meets the assumptions by construction.
    margin
        The slack of the claim; below zero it fails.
    strict
        Whether the claim needs a margin above zero.
    condition
        A condition that the claim needs and the paper does not state, if we know one.
    rounding
        The rounding error that a margin may have; larger where it comes from a program solved to a tolerance.
    expected
        The judgement we know.
    """

    name: str
    where: str
    statement: str
    assumptions: str
    draw: Draw
    margin: Margin
    strict: bool = False
    condition: Condition | None = None
    rounding: float = MARGIN_ROUNDING
    expected: Judgement = Judgement.CONFIRMED

    def holds(self, margin: float) -> bool:
        """Whether a margin is that of a claim that holds; an undefined one is not."""
        return bool(margin > self.rounding) if self.strict else bool(margin >= -self.rounding)

    def rounded(self, margin: float) -> float:
        """Six digits, and rounding counts as zero: the same on every machine."""
        return 0.0 if abs(margin) <= self.rounding else float(f"{margin:.6g}")


THEOREMS: dict[str, Theorem] = {}


def theorem(
    name: str,
    where: str,
    draw: Draw,
    assumptions: str,
    *,
    strict: bool = False,
    condition: Condition | None = None,
    expected: Judgement | None = None,
) -> Callable[[Margin], Margin]:
    """Make the decorated margin that of a theorem, which its docstring begins with."""

    def register(margin: Margin) -> Margin:
        THEOREMS[name] = Theorem(
            name=name,
            where=where,
            statement=" ".join((margin.__doc__ or "").split("\n\n")[0].split()),
            assumptions=assumptions,
            draw=draw,
            margin=margin,
            strict=strict,
            condition=condition,
            expected=expected or (Judgement.CONDITIONAL if condition else Judgement.CONFIRMED),
        )
        return margin

    return register


@dataclass(frozen=True, kw_only=True, eq=False)
class Check:
    """What random federations say of a theorem.

    Attributes
    ----------
    count, failures, worst
        How many instances were checked, at how many the claim fails, and the smallest margin.
    failures_within, worst_within
        The same over the instances that meet the theorem's condition; all of them where it has none.
    """

    theorem: Theorem
    count: int
    failures: int
    worst: float
    failures_within: int
    worst_within: float

    @property
    def judgement(self) -> Judgement:
        """Confirmed if nothing refutes it, with a condition if what it takes keeps it from being refuted."""
        if self.failures_within:
            return Judgement.NOT_CONFIRMED
        return Judgement.CONDITIONAL if self.failures else Judgement.CONFIRMED

    @property
    def evidence(self) -> str:
        """How many federations refute it, in words."""
        within = ""
        if self.theorem.condition is not None:
            rest = number(self.theorem.rounded(self.worst_within), ".2g")
            within = f"; if {self.theorem.condition.words}: {self.failures_within} refute it, worst margin {rest}"
        worst = number(self.theorem.rounded(self.worst), ".2g")
        return f"{self.failures} of {self.count} random federations refute it, worst margin {worst}{within}."


def check(theorem: Theorem, *, count: int, seed: int) -> Check:
    """Hold a theorem against `count` random instances."""
    rng = np.random.default_rng(seed)
    within: list[float] = []
    outside: list[float] = []
    for _ in range(count):
        instance = theorem.draw(rng)
        met = theorem.condition is None or theorem.condition.met(instance)
        (within if met else outside).append(theorem.margin(instance))
    failed = [sum(not theorem.holds(margin) for margin in found) for found in (within, outside)]
    return Check(
        theorem=theorem,
        count=count,
        failures=sum(failed),
        worst=min([*within, *outside], default=np.inf),
        failures_within=failed[0],
        worst_within=min(within, default=np.inf),
    )


def theorems_result(*, count: int = 300, seed: int = 1) -> Result:
    """Hold every theorem against `count` random federations."""
    checks = [check(claim, count=count, seed=seed + index) for index, claim in enumerate(THEOREMS.values())]
    return Result(
        name="theorems",
        title="The theorems, on random federations",
        columns={
            "theorem": [each.theorem.name for each in checks],
            "where": [each.theorem.where for each in checks],
            "federations": [each.count for each in checks],
            "failures": [each.failures for each in checks],
            "worst_margin": [each.theorem.rounded(each.worst) for each in checks],
            "condition": [each.theorem.condition.words if each.theorem.condition else "" for each in checks],
            "failures_within_condition": [each.failures_within for each in checks],
            "worst_margin_within_condition": [each.theorem.rounded(each.worst_within) for each in checks],
            "judgement": [str(each.judgement) for each in checks],
        },
        findings=[_finding(each) for each in checks],
        text=THEOREMS_TEXT,
    )


def _finding(found: Check) -> PaperFinding:
    claim = found.theorem
    said = f"{claim.statement} Assumed: {claim.assumptions}."
    return PaperFinding(claim.where, said, found.judgement, found.evidence, expected=claim.expected)


# What margins are made of


def inside(instance: Instance) -> NDArray[np.bool_]:
    """Who contributes something, but not all it has."""
    return (instance.contributions > 0) & (instance.contributions < instance.federation.caps)


def interior_payments(instance: Instance) -> FloatArray:
    """Equation (12), without the multipliers of caps."""
    return table1.interior_payments(instance.federation, instance.contributions)


def externality_payments(instance: Instance) -> FloatArray:
    """The payments of M^E, right on the boundary too."""
    return instance.federation.arrays.price_payments(instance.contributions)


def utilities(instance: Instance, payments: FloatArray) -> FloatArray:
    """a_i - c_i + p_i."""
    federation, profile = instance.federation, instance.contributions
    return federation.payoffs(profile) - federation.costs.value(profile) + payments


def gaps(instance: Instance, payments: FloatArray) -> FloatArray:
    """u_i - v_i*, as a share of what is at stake."""
    return np.asarray(utilities(instance, payments) - standalone_optimum(instance.federation)[1]) / stakes(instance)


def signs(instance: Instance) -> FloatArray:
    """The sign of each T_i; zero where it is not clear."""
    net = instance.federation.net_externality(instance.contributions)
    size = np.abs(earned_socially(instance.federation, instance.contributions)).max()
    return np.asarray(np.where(np.abs(net) > CLEAR * size, np.sign(net), 0.0))


def shares(instance: Instance) -> FloatArray:
    """The Shapley values at the profile."""
    return shapley_values(instance.federation, instance.contributions, method="enumeration").values


def benefits(instance: Instance) -> FloatArray:
    """a_i + p_i, with the payments given or else those of M^E."""
    payments = externality_payments(instance) if instance.payments is None else instance.payments
    return instance.federation.payoffs(instance.contributions) + payments


def reciprocity(instance: Instance) -> float:
    """r(s), the lowest (a_i + p_i) / phi_i."""
    return float(reciprocity_ratios(benefits(instance), shares(instance)).min())


def is_symmetric(instance: Instance) -> bool:
    """Whether everybody contributes the same."""
    return bool(np.ptp(instance.contributions) <= EQUAL_CONTRIBUTION * instance.contributions.max())


# Theorem 1 and Corollary 1


@theorem(
    "theorem-1",
    "Theorem 1, section 4",
    shapley_equilibrium,
    "weights at least zero, three beneficiaries each, power-law payoffs, linear costs, everybody strictly between zero "
    "and its cap",
    strict=True,
)
def welfare_missed(instance: Instance) -> float:
    """A Shapley equilibrium strictly inside the caps never maximises welfare.

    How much welfare rises when those strictly inside ease off: a profile that does better is the proof.
    """
    federation, profile = instance.federation, instance.contributions
    eased = profile * (1.0 - EASINGS[:, None] * inside(instance))
    payoffs = federation.values * federation.payoff.value(eased @ federation.weights.T)
    welfare = (payoffs - federation.costs.value(eased)).sum(axis=1)
    return float(welfare.max() - federation.welfare(profile)) / stakes(instance)


@theorem("corollary-1", "Corollary 1, section 4", shapley_equilibrium, "as for Theorem 1", strict=True)
def over_contribution(instance: Instance) -> float:
    """Against every welfare optimum some agent contributes more at an interior Shapley equilibrium.

    Above zero, no optimum has everybody contribute at least this much. Welfare is concave, so it gains at most
    max(0, dW/ds_i) (cap_i - s_i) from agents that contribute more; where somebody's easing off gains more than that,
    every optimum lies below the profile for some agent.
    """
    federation, profile = instance.federation, instance.contributions
    slopes = earned_socially(federation, profile) - federation.costs.slope(profile)
    more = float((np.maximum(slopes, 0.0) * (federation.caps - profile)).sum())
    return welfare_missed(instance) - more / stakes(instance)


@theorem(
    "corollary-1-total",
    "Corollary 1, section 4, second half",
    lambda rng: homogeneous_shapley(rng, edges=False),
    "all weights 1, equal costs, everybody strictly inside",
    strict=True,
)
def over_contribution_of_equals(instance: Instance) -> float:
    """Equal agents with equal costs contribute more in total at the Shapley equilibrium than is optimal.

    Their total above that of the optimum, (n beta / gamma)^(1 / (beta + 1)) - 1, as a share.
    """
    federation = instance.federation
    beta, cost = float(federation.payoff.parameters["beta"]), float(np.mean(federation.costs.linear))
    total = max((federation.n_agents * beta / cost) ** (1.0 / (beta + 1.0)) - 1.0, 0.0)
    best = min(total, float(federation.caps.sum()))
    return float(1.0 - best / instance.contributions.sum())


# Theorems 2 and 3, Proposition 1


@theorem(
    "theorem-2",
    "Theorem 2, section 5",
    homogeneous_shapley,
    "all weights 1 and equal costs; caps may differ and may bind",
)
def shapley_gap(instance: Instance) -> float:
    """Under M^Shap equal agents with interchangeable data all do at least as well as alone."""
    return float(gaps(instance, shares(instance) - instance.federation.payoffs(instance.contributions)).min())


def draw_equals(rng: np.random.Generator) -> Instance:
    """Equal agents that value each other's data alike, at anything up to twice their own."""
    return homogeneous_shapley(rng, weight=float(np.exp(rng.uniform(np.log(0.01), np.log(2.0)))), edges=False)


def values_others_as_self(instance: Instance) -> bool:
    """Whether everybody's data is worth at least as much to the others as to itself."""
    federation = instance.federation
    return bool((federation.weights >= federation.weights.diagonal()[None, :] - MARGIN_ROUNDING).all())


@theorem(
    "equal-agents",
    "section 1, third contribution",
    draw_equals,
    "equal agents with equal costs, who value each other's data alike",
    condition=Condition(words="the others' data is worth at least one's own", met=values_others_as_self),
)
def gap_of_equals(instance: Instance) -> float:
    """Where agents are alike in data and cost, nobody loses under M^Shap."""
    return shapley_gap(instance)


@theorem(
    "lemma-2",
    "Lemma 2, appendix C",
    lambda rng: welfare_optimum(rng, alone=True),
    "weights at least zero, everybody strictly inside together and alone",
)
def reach_beyond_alone(instance: Instance) -> float:
    """At an optimum without harm everybody reaches at least the data it would gather alone.

    The lowest xi_i - 1 - s_i^solo, as a share of xi_i.
    """
    federation = instance.federation
    alone, _ = standalone_optimum(federation)
    reach = federation.reach(instance.contributions)
    return float(((reach - 1.0 - federation.weights.diagonal() * alone) / reach).min())


@theorem(
    "theorem-3",
    "Theorem 3, section 5",
    lambda rng: welfare_optimum(rng, alone=True),
    "weights at least zero, three beneficiaries each, everybody strictly inside together and alone",
)
def interior_gap(instance: Instance) -> float:
    """Under M^E, with payments by equation (12), everybody does at least as well as alone."""
    return float(gaps(instance, interior_payments(instance)).min())


@theorem(
    "proposition-1",
    "Proposition 1, section 8",
    lambda rng: welfare_optimum(rng, harm=True, alone=True),
    "weights of any sign with every profile in the domain, everybody strictly inside together and alone, and xi_i >= 1 "
    "for the agent spoken of",
)
def same_sign_where_helped(instance: Instance) -> float:
    """Under M^E an agent gains by taking part exactly if its data does the others good on net.

    The lowest sign(T_i) Delta_i among the agents with xi_i >= 1.
    """
    helped = instance.federation.data(instance.contributions) >= 0
    return float(np.min((signs(instance) * gaps(instance, externality_payments(instance)))[helped], initial=np.inf))


def draw_harmful(rng: np.random.Generator) -> Instance:
    """An optimum, agents at bounds allowed, with somebody who harms the others on net."""
    while True:
        instance = welfare_optimum(rng, harm=True, edges=True)
        if (signs(instance) < 0).any():
            return instance


def harm_is_interior(instance: Instance) -> bool:
    """Whether all who harm on net are strictly inside, together and alone, and reach xi_i >= 1."""
    federation = instance.federation
    alone, _ = standalone_optimum(federation)
    free = inside(instance) & (alone > 0) & (alone < federation.caps)
    return bool((free & (federation.data(instance.contributions) >= 0))[signs(instance) < 0].all())


@theorem(
    "harmful-lose",
    "section 9, after Proposition 1",
    draw_harmful,
    "weights of any sign with every profile in the domain",
    strict=True,
    condition=Condition(words="the agent is strictly inside, together and alone, and xi_i >= 1", met=harm_is_interior),
)
def loss_of_the_harmful(instance: Instance) -> float:
    """Whoever harms the others on net is worse off under M^E than alone."""
    return float(np.min(-gaps(instance, externality_payments(instance))[signs(instance) < 0], initial=np.inf))


# Theorem 4 and the sentences round it


@theorem(
    "lemma-3",
    "Lemma 3, appendix D",
    homogeneous_optimum,
    "all weights 1, equal costs and caps, an interior optimum, standalone optima inside",
)
def symmetric_optimum(instance: Instance) -> float:
    """Equal agents have an optimum at which all contribute the same, more than nothing.

    The welfare of a symmetric profile less the most there is; minus infinity if the profile is not symmetric.
    """
    if not is_symmetric(instance) or not 0 < instance.contributions[0] < instance.federation.caps.min():
        return -np.inf
    outcome = ExternalityMechanism().outcome_at(instance.federation, instance.contributions)
    return outcome.certificates[Claim.SOCIAL_OPTIMALITY].margin / stakes(instance)


@theorem(
    "theorem-4",
    "Theorem 4, section 6",
    homogeneous_optimum,
    "all weights 1, equal costs and caps, everybody strictly inside and contributing the same",
)
def share_missed(instance: Instance) -> float:
    """At a symmetric equilibrium of equal agents M^E gives everybody exactly its Shapley share."""
    return -float(np.abs(benefits(instance) - shares(instance)).max()) / stakes(instance)


@theorem(
    "homogeneous-reciprocity",
    "section 7.1 and Table 1, first row",
    lambda rng: homogeneous_optimum(rng, symmetric=bool(rng.integers(2))),
    "all weights 1, equal costs and caps, any interior equilibrium",
    condition=Condition(words="only symmetric equilibria are counted", met=is_symmetric),
)
def reciprocity_of_equals(instance: Instance) -> float:
    """M^E is perfectly reciprocal in the homogeneous setting, reciprocity being the lowest over all equilibria."""
    return reciprocity(instance) - 1.0


@theorem(
    "only-homogeneous",
    "section 6, last sentence",
    lambda rng: renamable_optimum(rng) if rng.integers(2) else welfare_optimum(rng),
    "interior equilibria with weights that differ",
    strict=True,
    expected=Judgement.NOT_CONFIRMED,
)
def reciprocity_missed(instance: Instance) -> float:
    """M^E reaches reciprocity 1 in homogeneous federations only; elsewhere it falls below."""
    return 1.0 - reciprocity(instance)


def draw_payments(rng: np.random.Generator) -> Instance:
    """Any profile and balanced payments; every other time whoever has the lowest Shapley value pays all the others."""
    instance = any_profile(rng)
    owed = shares(instance) - instance.federation.payoffs(instance.contributions)
    moved = np.full(owed.size, 1.0) if rng.integers(2) else rng.normal(size=owed.size)
    poorest = int(np.argmin(shares(instance)))
    moved[poorest] -= moved.sum()
    return replace(instance, payments=owed + rng.uniform(0.1, 1.0) * stakes(instance) * moved)


@theorem(
    "reciprocity-at-most-one",
    "section 6, after Theorem 4",
    draw_payments,
    "payments sum to zero; any profile, weights of any sign",
    condition=Condition(
        words="every Shapley value is above zero", met=lambda instance: bool((shares(instance) > 0).all())
    ),
)
def reciprocity_below_one(instance: Instance) -> float:
    """No payments that balance give everybody more than its Shapley share: r is at most 1."""
    return 1.0 - reciprocity(instance)


# Equations (11) and (12), budget balance


def draw_interior(rng: np.random.Generator) -> Instance:
    """An interior welfare optimum, every other time with harm."""
    return welfare_optimum(rng, harm=bool(rng.integers(2)))


def interior_prices(instance: Instance) -> FloatArray:
    """Equation (11): da_i/ds_j, less the marginal cost where i = j."""
    federation, profile = instance.federation, instance.contributions
    slopes = federation.marginal_payoffs(profile)[:, None] * federation.weights
    return np.asarray(slopes - np.diag(federation.costs.slope(profile)))


@theorem("equation-11", "equation (11), section 3.2", draw_interior, "an interior welfare optimum")
def prices_are_marginal(instance: Instance) -> float:
    """The prices are the marginal utilities at the optimum, and for each agent's data they sum to zero.

    How far prices lie between the difference quotients of a_i - c_i, which is concave in each contribution, to either
    side; minus how far columns are from zero sums.
    """
    federation, profile = instance.federation, instance.contributions
    prices = interior_prices(instance)

    def worth(changed: FloatArray) -> FloatArray:
        return federation.payoffs(changed) - federation.costs.value(changed)

    here, slack = worth(profile), np.inf
    for shift, price in zip(np.diag(STEP * profile), prices.T, strict=True):
        forward, backward = worth(profile + shift) - here, here - worth(profile - shift)
        gained = shift.sum() * price
        slack = min(slack, float(np.minimum(backward - gained, gained - forward).min()))
    unbalanced = float(np.abs(prices.sum(axis=0) * profile).max())
    return min(slack, -unbalanced) / stakes(instance)


@theorem("equation-12", "equation (12), section 3.2", draw_interior, "an interior welfare optimum")
def interior_formula(instance: Instance) -> float:
    """Payments at these prices are c_i' s_i - a_i' (xi_i - 1), and they sum to zero.

    Minus how far equation (12) is from -sum_j l_ij s_j, from the mechanism's payments, and from a sum of zero.
    """
    payments = interior_payments(instance)
    off = [
        np.abs(payments + interior_prices(instance) @ instance.contributions).max(),
        np.abs(payments - externality_payments(instance)).max(),
        abs(payments.sum()),
    ]
    return -float(max(off)) / stakes(instance)


@theorem(
    "balance-shapley", "section 3.1", any_profile, "nothing is earned without data; any family, weights of any sign"
)
def shapley_balance(instance: Instance) -> float:
    """Payments under M^Shap sum to zero at every profile."""
    payments = ShapleyMechanism().payments(instance.federation.arrays, instance.contributions)
    return -abs(float(payments.sum())) / stakes(instance)


@theorem(
    "balance-externality",
    "section 3.2, last sentence",
    any_profile,
    "own prices are l_jj = -sum of the others' for j's data; any family, weights of any sign",
)
def externality_balance(instance: Instance) -> float:
    """Payments under M^E sum to zero at every profile, optimal or not.

    Rounding is measured by what is bought and sold.
    """
    federation, profile = instance.federation, instance.contributions
    bought = np.abs(federation.weights) * profile * federation.marginal_payoffs(profile)[:, None]
    return -abs(float(externality_payments(instance).sum())) / (stakes(instance) + float(bought.sum()))
