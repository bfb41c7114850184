"""Which mechanism to choose, and why, in words for people who sign deals.

Welfare comes first: what is left once those who would do better alone have left. Among mechanisms that leave nearly the
same, one under which no group gains by leaving goes before others; then the one under which the lowest share of a fair
gain is highest. Then come what to do: who should be in, what to do about harm, who cannot pay, who is close to leaving.

Fixed sums on top of a deal (`Mechanism.has_side_payments`) make it fairer at no cost in welfare, but they rest on
everybody's numbers. So they are named beside what is recommended, with what they bring and what they invite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedpact.certificates.claims import Verdict
from fedpact.deals.diagnosis import budget_sentences, fairness_sentences, home_sentences, idle_sentences
from fedpact.utils.words import MAX_NAMES, group_text, join_names

if TYPE_CHECKING:
    from fedpact.comparison.comparison import Comparison
    from fedpact.deals.outcome import Outcome

# Welfare within this share of the best counts as equally good; then who would leave and fairness decide.
CLOSE_SHARE = 0.01
# A deal without payments is worth a word if it leaves at most this share of the recommended one's welfare behind.
NEARLY_SHARE = 0.05
MIN_RELATIVE_GAIN = 1e-9  # of what everybody has alone
MIN_SHARE_RAISED = 0.005  # of a fair gain: a smaller difference is not seen in whole per cent
LITTLE_GAIN = 1e-3  # of the largest: whoever gains less is close to leaving too
CLOSE_TO_LEAVING = 0.05  # of its fair gain: whoever gains less is close to leaving
NOT_NEGOTIATED = "choose it where these are known, not just claimed; it cannot be negotiated"


@dataclass(frozen=True, kw_only=True, eq=False)
class Recommendation:
    """Which mechanism to choose, for whom, and why.

    Attributes
    ----------
    sentences
        The reason, a sentence each: what it reaches, who would leave, how fair it is, what to do, and what the others
        would do.
    members, out
        Names of those whose deal it is, and of those who should stay out of it.
    """

    mechanism: str
    sentences: Sequence[str]
    members: Sequence[str] = ()
    out: Sequence[str] = ()

    @property
    def reason(self) -> str:
        """The sentences in one paragraph."""
        return " ".join(self.sentences)

    @property
    def whose(self) -> str:
        """For the headline, where somebody should stay out: among whom, without whom; else empty."""
        return f", among {_names(self.members)}, without {_names(self.out)}" if self.out else ""


def recommend(comparison: Comparison) -> Recommendation | None:
    """The mechanism with the most welfare once the unwilling have left; among equals one that holds, then the fairer.

    Where somebody should stay out, it is the one for those who should be in. None where only baselines were compared;
    "standalone" where nobody gains by federating, or a deal was measured to lose.
    """
    names = comparison.federation.names
    if not comparison.after_departures:
        return None
    if comparison.not_recommended:
        return Recommendation(mechanism="standalone", sentences=(comparison.not_recommended,), members=names)
    best = comparison.among_best
    if best is None:
        mechanism, said = _choose_for_all(comparison)
        return Recommendation(mechanism=mechanism, sentences=tuple(f"{part}." for part in said), members=names)
    assert best.recommendation is not None
    members, among = best.federation.names, best.recommendation
    out = tuple(name for name in names if name not in members)
    said = [*_who_should_be_in(comparison)]
    with_all = comparison.after_departures.get(among.mechanism)
    if with_all is not None and with_all.leavers:
        said.append(f"With everybody in, {_names(with_all.leavers)} would leave {comparison.title(among.mechanism)}")
    sentences = (*(f"{part}." for part in said), *among.sentences)
    return Recommendation(mechanism=among.mechanism, sentences=sentences, members=members, out=out)


def _choose_for_all(comparison: Comparison) -> tuple[str, Sequence[str]]:
    """The mechanism for a deal between all members, and why, in sentences without full stops."""
    stable = comparison.after_departures
    best = max(settled.welfare for settled in stable.values())
    alone = float(comparison.outcomes[0].standalone.sum())
    if best <= alone + MIN_RELATIVE_GAIN * abs(alone):
        lost = [
            f"Under {comparison.title(name)}, {_names(each.leavers)} would leave"
            for name, each in stable.items()
            if each.leavers
        ]
        limited = np.isfinite(comparison.federation.budgets).any()
        why = [part.removesuffix(".") for part in comparison.unsolved.values()] if limited else []
        none = "No mechanism does better than everybody alone" + (" within the budgets" if limited else "")
        return "standalone", [none, *_who_should_be_in(comparison), *lost, *why]
    paid = [name for name, each in stable.items() if each.outcome is not None and not each.outcome.over_budget]
    paid = [name for name in paid if stable[name].welfare > alone + MIN_RELATIVE_GAIN * abs(alone)]
    if not paid:
        asked = [
            part.removesuffix(".")
            for each in stable.values()
            if each.outcome is not None
            for part in budget_sentences(each.outcome, comparison.amount)
        ]
        return "standalone", ["No deal stays within the budgets", *dict.fromkeys(asked), *comparison.unsolved.values()]
    most = max(stable[name].welfare for name in paid)
    near = [name for name in paid if stable[name].welfare >= most - CLOSE_SHARE * abs(most)]
    near = [name for name in near if not comparison.mechanisms[name].has_side_payments] or near
    holds = [(False, None, True).index(comparison.holds_together(name)) for name in near]
    shares = [comparison[name].lowest_gain_share for name in near]
    chosen = near[choose([stable[name].welfare for name in near], holds, shares)]
    return chosen, list(_reasons(comparison, chosen))


def choose(welfare: Sequence[float], holds: Sequence[float], shares: Sequence[float]) -> int:
    """Of mechanisms that are close to the best, the index of the one to choose: one that holds, then the fairer."""
    most = max(welfare)
    near = [index for index, each in enumerate(welfare) if each >= most - CLOSE_SHARE * abs(most)]
    return max(near, key=lambda index: (holds[index], np.nan_to_num(shares[index], nan=-np.inf), welfare[index]))


def _reasons(comparison: Comparison, chosen: str) -> Iterator[str]:
    """What it reaches, who would leave, how fair it is, and what the others would do instead."""
    outcome, settled = comparison[chosen], comparison.after_departures[chosen]
    alone = float(outcome.standalone.sum())
    gained = (
        f"{100.0 * (settled.welfare / alone - 1.0):+.1f} % against"
        if alone > 0
        else f"{comparison.amount(settled.welfare - alone)} more than"
    )
    share = _percent(comparison.share_of_best(settled.welfare))
    without = f"Without {_names(settled.leavers)}, who would leave, it" if settled.leavers else ""
    yield f"{without or 'It'} reaches {share} of the best welfare, {gained} everybody alone"
    yield from _exceeded_elsewhere(comparison, chosen)
    if not settled.leavers:
        yield _who_leaves(comparison, chosen)
    yield from _who_should_be_in(comparison)
    yield from _harm(comparison)
    if settled.outcome is not None:
        for sentence in (*budget_sentences(settled.outcome, comparison.amount), *home_sentences(settled.outcome)):
            yield sentence.removesuffix(".")
    if not settled.leavers and outcome.lowest_gain_share < 1.0 - CLOSE_SHARE:
        unlucky = outcome.agents[int(np.nanargmin(outcome.gain_shares))]
        share = _whole(outcome.lowest_gain_share)
        yield f"Its price is fairness: {unlucky} gets {share} of its fair share of the gain"
        yield from (part.removesuffix(".") for part in fairness_sentences(outcome, comparison.amount))
    if settled.outcome is not None:
        yield from _close_to_leaving(comparison, settled.outcome)
        yield from (part.removesuffix(".") for part in idle_sentences(settled.outcome))
    if comparison.mechanisms[chosen].has_side_payments:
        yield f"Its fixed sums follow from everybody's numbers: {NOT_NEGOTIATED}"
    for other in comparison.after_departures:
        if other != chosen:
            yield from _fairer(comparison, chosen, other) or _alternative(comparison, other)
    for free in comparison:
        rules = comparison.mechanisms[free.mechanism]
        unpaid = rules.is_baseline and not rules.has_payments and free.federated and not free.leavers
        if unpaid and free.welfare >= settled.welfare - NEARLY_SHARE * abs(settled.welfare):
            yield _without_payments(comparison, free.mechanism)


def _exceeded_elsewhere(comparison: Comparison, chosen: str) -> Iterator[str]:
    """Whose budgets the other mechanisms exceed: why they are not chosen."""
    for name, settled in comparison.after_departures.items():
        if name != chosen and settled.outcome is not None:
            for sentence in budget_sentences(settled.outcome, comparison.amount):
                yield f"Under {comparison.title(name)}, {sentence.removesuffix('.')}"


def _who_should_be_in(comparison: Comparison) -> Iterator[str]:
    """Whom a federation is best made of, where that is not everybody."""
    best, names = comparison.best_members, comparison.federation.names
    if best is None or set(best.members) == set(names):
        return
    if not best.members:
        yield "Best for all is that nobody federates"
        return
    more = comparison.amount(best.welfare - best.welfare_all)
    sentence = f"Best with {_names(best.members)}: {more} more than with all {len(names)}"
    yield "; ".join([sentence, *(f"{name} {addition_text(comparison, name)}" for name in list(best.adds)[:MAX_NAMES])])


def addition_text(comparison: Comparison, name: str) -> str:
    """What a member that should stay out would add, and what joining costs it."""
    best = comparison.best_members
    assert best is not None
    adds, cost = best.adds[name], best.costs[name]
    verb = f"would add {comparison.amount(adds)}" if adds >= 0 else f"would take away {comparison.amount(-adds)}"
    return f"{verb} and its joining costs {comparison.amount(cost)}" if cost else verb


def _harm(comparison: Comparison) -> Iterator[str]:
    """Whose data harms whom most, and what to do about it."""
    federation, gain = comparison.federation, comparison.personal_models_gain
    if not gain > CLOSE_SHARE * abs(comparison.best_welfare):
        return
    row, column = np.unravel_index(int(np.argmin(federation.weights)), federation.weights.shape)
    who, whom = federation.lot_labels[int(column)], federation.task_labels[int(row)]
    yield (
        f"Some data harms, most of all {who}'s to {whom}. Give each member a model that leaves out what harms it "
        f'(models = "personal"): all together gain {comparison.amount(gain)} more. Or split that data into clean and '
        "noisy lots"
    )


def _close_to_leaving(comparison: Comparison, outcome: Outcome) -> Iterator[str]:
    """Who gains so little that a small mistake in the numbers would make it leave."""
    least = np.nan_to_num(outcome.ir_gaps) <= LITTLE_GAIN * np.nanmax(np.abs(outcome.ir_gaps))
    few = ((outcome.gain_shares < CLOSE_TO_LEAVING) | least) & ~outcome.would_leave
    for agent in np.flatnonzero(few)[:MAX_NAMES].tolist():
        gain = float(outcome.ir_gaps[agent])
        much = comparison.amount(gain) if gain > outcome.tolerances[agent] else "nothing"
        yield f"{outcome.agents[agent]} is close to leaving: it gains {much}"


def _who_leaves(comparison: Comparison, name: str) -> str:
    verdict = comparison.group_verdict(name)
    if verdict is Verdict.VIOLATED:
        return f"Nobody would leave alone, but {_group_gain(comparison, name)}"
    groups = {
        Verdict.HOLDS: ", and no group gains by leaving together",
        Verdict.NOT_REFUTED: ", and no group was found that gains by leaving together",
    }
    outlook = comparison.uncertainty.get(name)
    assumed = f"; {outlook.assumption}" if outlook is not None and outlook.assumption else ""
    return f"Nobody would leave{groups.get(verdict, '')}{assumed}"


def _fairer(comparison: Comparison, chosen: str, other: str) -> list[str]:
    """What fixed sums between the members would bring, and what they invite; nothing where they bring nothing."""
    outcome, now = comparison[other], comparison[chosen].lowest_gain_share
    better = outcome.lowest_gain_share >= now + MIN_SHARE_RAISED
    if not comparison.mechanisms[other].has_side_payments or outcome.leavers or not better:
        return []
    title = comparison.title(other)
    said = [
        f"{title} raises the lowest share of a fair gain from {_whole(now)} to {_whole(outcome.lowest_gain_share)} "
        f"with fixed sums between members that follow from everybody's numbers: {NOT_NEGOTIATED}"
    ]
    if comparison.group_verdict(other) is Verdict.VIOLATED:
        said.append(f"Under {title}, {_group_gain(comparison, other)}")
    return [*said, *(part.removesuffix(".") for part in fairness_sentences(outcome, comparison.amount))]


def _alternative(comparison: Comparison, other: str) -> list[str]:
    settled = comparison.after_departures[other]
    share = _percent(comparison.share_of_best(settled.welfare))
    verb = f"loses {_names(settled.leavers)}" if settled.leavers else "keeps everybody too"
    if settled.outcome is None:
        verb = f"loses everybody, {_names(settled.departures[0].leavers)} first,"
    if not settled.leavers and comparison.group_verdict(other) is Verdict.VIOLATED:
        return [f"Under {comparison.title(other)}, which reaches {share}, {_group_gain(comparison, other)}"]
    unpaid = settled.outcome.over_budget if settled.outcome is not None else ()
    but = f", and then asks {_names(unpaid)} for more than the budget allows" if unpaid else ""
    return [f"{comparison.title(other)} {verb} and reaches {share}{but}"]


def _without_payments(comparison: Comparison, name: str) -> str:
    reached = _percent(comparison.share_of_best(comparison[name].welfare))
    blocked = comparison.group_verdict(name) is Verdict.VIOLATED
    but = f", though {_group_gain(comparison, name)}" if blocked else ""
    return f"{comparison.title(name)} is nearly as good, {reached}, and nobody pays anybody{but}"


def _group_gain(comparison: Comparison, name: str) -> str:
    """Who would leave together, and what that brings them of what they have."""
    found = comparison.blocking_groups[name]
    assert found is not None
    much = _gain(found.gain, sum(found.utilities.values()))
    if len(found.group) == 1:
        return f"{found.group[0]} would {much} by leaving"
    group = group_text(found.group, comparison.federation.names, most=MAX_NAMES)
    return f"{group} would {much} in total by leaving together, to be shared among them"


def _gain(gain: float, has: float) -> str:
    return f"gain {100.0 * gain / has:.2g} %" if has > 0 else "gain"


def _names(names: Sequence[str]) -> str:
    return join_names(names, most=MAX_NAMES)


def _percent(part: float) -> str:
    return f"{100.0 * part:.1f} %" if np.isfinite(part) else "an undefined part"


def _whole(part: float) -> str:
    return f"{100.0 * part:.0f} %" if part >= 0 else "less than nothing"
