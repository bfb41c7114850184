"""What stands out in an outcome, in words: who would leave, who harms the others, who contributes nothing, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.claims import Claim
from fedpact.certificates.reciprocity import shown_shares
from fedpact.federation.arrays import sum_by
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import MAX_NAMES, join_names

if TYPE_CHECKING:
    from fedpact.deals.outcome import Outcome
    from fedpact.federation import Federation

NO_EXTERNALITY = 1e-9  # of the largest
SHORT_OF_FAIR = 0.005  # of a fair gain: less is not seen in whole per cent
# Why somebody contributes nothing.
IDLE_REASONS: Mapping[str, str] = {
    "harms": "{whose} data would harm the others on net",
    "empty": "there is no data to give",
    "dear": "{whose} data costs more than it is worth to all",
    "otherwise": "by these rules {whose} data would cost more than it brings {whom}",
}


def units_text(payoff: float) -> str:
    """An amount in units of payoff, for a sentence."""
    return f"{payoff:.3g} units of payoff"


def diagnose(outcome: Outcome, amount: Callable[[float], str] = units_text) -> tuple[str, ...]:
    """One sentence per agent that would leave, or lot that harms the others, and why (Proposition 1 of the paper).

    `amount` writes what would keep somebody, such as in money.
    """
    federation, externality = outcome.federation, outcome.net_externality
    by_member = sum_by(federation.lot_owners, externality, federation.n_agents)
    harms, helps = _harms(by_member), _harms(-by_member)
    sentences = []
    for agent, name in enumerate(outcome.federation.names):
        if name not in outcome.leavers:
            continue
        why = f"{name}'s data makes no difference to the others, and it would do better alone"
        if harms[agent]:
            why = f"{name} harms the others on net and would leave"
        elif helps[agent]:
            why = f"{name} helps the others on net but would do better alone"
        sentences.append(f"{why}; {amount(float(outcome.endowments[agent]))} would keep it.")
    for lot in np.flatnonzero(_harms(externality)).tolist():
        label, brought = federation.lot_labels[lot], outcome.contributions[lot] > 0
        if federation.has_lots:
            part = "harms the others on net, yet some of it" if brought else "would harm the others on net: none of it"
            sentences.append(f"{label} {part} is brought.")
        elif label not in outcome.leavers:
            stays = f"{label} harms the others on net, yet gains by staying."
            sentences.append(stays if brought else _idle_sentence("harms", [label]))
    return (*sentences, *budget_sentences(outcome, amount), *home_sentences(outcome))


def _harms(externality: FloatArray) -> NDArray[np.bool_]:
    """Which lots harm the others on net, beyond rounding."""
    return np.asarray(externality < -NO_EXTERNALITY * max(float(np.abs(externality).max()), np.finfo(float).tiny))


def budget_sentences(outcome: Outcome, amount: Callable[[float], str] = units_text) -> tuple[str, ...]:
    """One sentence per agent that is asked for more than it can pay."""
    tols = dict(zip(outcome.agents, outcome.tolerances.tolist(), strict=True))
    return exceeded_budgets(outcome.federation, outcome.agents, outcome.payments, amount, tols)


def exceeded_budgets(
    federation: Federation,
    names: Sequence[str],
    payments: FloatArray,
    amount: Callable[[float], str],
    tolerances: Mapping[str, float],
) -> tuple[str, ...]:
    """The same of payments to some members of a federation."""
    budgets = dict(zip(federation.names, federation.budgets.tolist(), strict=True))
    return tuple(
        f"{name} is asked for {amount(-payment)} and can pay {amount(budgets[name])}."
        for name, payment in zip(names, payments.tolist(), strict=True)
        if -payment > budgets.get(name, np.inf) + tolerances[name]
    )


def fairness_sentences(outcome: Outcome, amount: Callable[[float], str] = units_text) -> tuple[str, ...]:
    """Why a deal that is to give everybody its fair gain does not: whose budgets are used up, who would leave."""
    short = outcome.gain_shares < 1.0 - SHORT_OF_FAIR
    if Claim.FAIR_GAINS not in outcome.promised or not short.any():
        return ()
    budgets = outcome.federation.budgets
    spent = np.flatnonzero(-outcome.payments >= budgets - outcome.tolerances).tolist()
    why = [f"{outcome.agents[agent]} can pay no more than {amount(float(budgets[agent]))}" for agent in spent]
    if not why:
        why = ["some group of members would otherwise do better by itself"]
    who = [outcome.agents[agent] for agent in np.flatnonzero(short).tolist()]
    whose = "its fair gain" if len(who) == 1 else "their fair gains"
    said = join_names(who, most=MAX_NAMES)
    return (f"{said} cannot have all of {whose}: {join_names(why, most=MAX_NAMES)}.",)


def home_sentences(outcome: Outcome) -> tuple[str, ...]:
    """Of which lots more is shared than there is at home, in a sentence: that would be used for others alone."""
    federation = outcome.federation
    if federation.home is None or not outcome.federated:
        return ()
    more = np.flatnonzero(outcome.contributions > federation.home * (1.0 + SHORT_OF_FAIR)).tolist()
    if not more:
        return ()
    labels, share = [federation.lot_labels[lot] for lot in more], "share more than is used at home"
    if len(more) == 1:
        share = f"shares {outcome.contributions[more[0]]:.4g} and uses {federation.home[more[0]]:.4g} at home"
    why = "what is there to share is there to use, so the data at home is probably more"
    return (f"{join_names(labels, most=MAX_NAMES)} {share}: {why}.",)


def harm_sentences(outcome: Outcome, amount: Callable[[float], str] = units_text) -> tuple[str, ...]:
    """One sentence per agent whose data takes away more than it adds for all, so that its Shapley share is below zero.

    Of such a share no part is got back: what the others want to know is whether it pays for the harm.
    """
    shares = shown_shares(outcome.payoffs + outcome.payments, outcome.shapley_values)
    sentences = []
    for agent in np.flatnonzero(shares < 0).tolist():
        payment = float(outcome.payments[agent])
        paid = (
            f"pays {amount(-payment)}" if payment < 0 else f"receives {amount(payment)}" if payment else "pays nothing"
        )
        sentences.append(
            f"{outcome.federation.names[agent]}'s data takes away more than it adds for all (Shapley share "
            f"{amount(float(shares[agent]))}), and it {paid}."
        )
    return tuple(sentences)


def idle_sentences(outcome: Outcome) -> tuple[str, ...]:
    """Who contributes nothing and why, a sentence for each reason."""
    return tuple(_idle_sentence(reason, names) for reason, names in _idle_by_reason(outcome).items() if names)


def idle_reason(outcome: Outcome, name: str) -> str:
    """Why somebody contributes nothing; empty where it contributes something, or nobody federates."""
    found = (reason for reason, names in _idle_by_reason(outcome).items() if name in names)
    return next((IDLE_REASONS[reason].format(whose="its", whom="it") for reason in found), "")


def _idle_by_reason(outcome: Outcome) -> dict[str, list[str]]:
    """Who contributes nothing, by why."""
    arrays = outcome.federation.arrays
    idle = sum_by(arrays.lot_owners, outcome.contributions, arrays.n_agents) <= 0
    if not outcome.rules.federated or not idle.any():
        return {}
    costs = arrays.marginal_costs(outcome.contributions)
    dear = arrays.welfare_gradient(outcome.contributions) <= NO_EXTERNALITY * costs
    harmful = _harms(outcome.net_externality)
    found: dict[str, list[str]] = {reason: [] for reason in IDLE_REASONS}
    for agent in np.flatnonzero(idle).tolist():
        own = arrays.lot_owners == agent
        reason = "dear" if dear[own].all() else "otherwise"
        if not (arrays.caps[own] > 0).any():
            reason = "empty"
        elif harmful[own].all():
            reason = "harms"
        found[reason].append(outcome.federation.names[agent])
    return found


def _idle_sentence(reason: str, names: Sequence[str]) -> str:
    contribute, whose, whom = ("contributes", "its", "it") if len(names) == 1 else ("contribute", "their", "them")
    why = IDLE_REASONS[reason].format(whose=whose, whom=whom)
    return f"{join_names(names, most=MAX_NAMES)} {contribute} nothing: {why}."
