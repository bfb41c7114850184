"""Which mechanism to choose, and why, in words for people who sign deals.

Welfare comes first: what is left once those who would do better alone have left. Among mechanisms that leave nearly the
same, one under which no group gains by leaving goes before others; then the one with the highest lowest fair share.

Fixed sums on top of a deal (`Mechanism.has_side_payments`) make it fairer at no cost in welfare, but they rest on
everybody's numbers. So they are named beside what is recommended, with what they bring and what they invite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedpact.certificates.claims import Verdict
from fedpact.certificates.reciprocity import shown_shares
from fedpact.deals.diagnosis import idle_sentences
from fedpact.utils.words import MAX_NAMES, group_text, join_names

if TYPE_CHECKING:
    from fedpact.comparison.comparison import Comparison
    from fedpact.deals.outcome import Outcome

# Welfare within this share of the best counts as equally good; then who would leave and fairness decide.
CLOSE_SHARE = 0.01
# A deal without payments is worth a word if it leaves at most this share of the recommended one's welfare behind.
NEARLY_SHARE = 0.05
MIN_RELATIVE_GAIN = 1e-9  # of what everybody has alone
MIN_SHARE_RAISED = 0.005  # of a Shapley share: a smaller difference is not seen in whole per cent


@dataclass(frozen=True, kw_only=True, eq=False)
class Recommendation:
    """Which mechanism to choose, and why.

    Attributes
    ----------
    sentences
        The reason, a sentence each: what it reaches, who would leave, how fair it is, and what the others would do.
    """

    mechanism: str
    sentences: Sequence[str]

    @property
    def reason(self) -> str:
        """The sentences in one paragraph."""
        return " ".join(self.sentences)


def recommend(comparison: Comparison) -> Recommendation | None:
    """The mechanism with the most welfare once the unwilling have left; among equals one that holds, then the fairer.

    None where only baselines were compared; "standalone" where nobody gains by federating, or a deal was measured to
    lose.
    """
    stable = comparison.after_departures
    if not stable:
        return None
    if comparison.not_recommended:
        return Recommendation(mechanism="standalone", sentences=(comparison.not_recommended,))
    best = max(settled.welfare for settled in stable.values())
    alone = float(comparison.outcomes[0].standalone.sum())
    if best <= alone + MIN_RELATIVE_GAIN * abs(alone):
        lost = [
            f"Under {comparison.title(name)}, {_names(each.leavers)} would leave"
            for name, each in stable.items()
            if each.leavers
        ]
        nobody = "Nobody gains by federating: no mechanism does better than everybody alone"
        return Recommendation(mechanism="standalone", sentences=tuple(f"{part}." for part in [nobody, *lost]))
    plain = [name for name in stable if not comparison.mechanisms[name].has_side_payments] or list(stable)
    most = max(stable[name].welfare for name in plain)
    near = [name for name in plain if stable[name].welfare >= most - CLOSE_SHARE * abs(most)]

    def rank(name: str) -> tuple[int, float, float]:
        share = np.nan_to_num(comparison[name].lowest_fair_part, nan=-np.inf)
        holds = (False, None, True).index(comparison.holds_together(name))
        return holds, float(share), stable[name].welfare

    chosen = max(near, key=rank)
    return Recommendation(mechanism=chosen, sentences=tuple(f"{part}." for part in _reasons(comparison, chosen)))


def _reasons(comparison: Comparison, chosen: str) -> Iterator[str]:
    """What it reaches, who would leave, how fair it is, and what the others would do instead."""
    outcome, settled = comparison[chosen], comparison.after_departures[chosen]
    alone = float(outcome.standalone.sum())
    gained = f", {100.0 * (settled.welfare / alone - 1.0):+.1f} % against everybody alone" if alone > 0 else ""
    share = _percent(comparison.share_of_best(settled.welfare))
    without = f"Without {_names(settled.leavers)}, who would leave, " if settled.leavers else ""
    yield f"{without}{comparison.title(chosen)} reaches {share} of the best welfare{gained}"
    if not settled.leavers:
        yield _who_leaves(comparison, chosen)
    if not settled.leavers and outcome.lowest_fair_part < 1.0 - CLOSE_SHARE:
        unlucky = outcome.agents[int(np.nanargmin(outcome.fair_parts))]
        back = _whole(outcome.lowest_fair_part)
        yield f"Its price is fairness: {unlucky} gets back {back} of its fair (Shapley) share"
    if settled.outcome is not None:
        yield from _harmful(settled.outcome)
        yield from (sentence.removesuffix(".") for sentence in idle_sentences(settled.outcome))
    if comparison.mechanisms[chosen].has_side_payments:
        yield "Its fixed sums come from everybody's numbers: choose it where these are known, not just claimed"
    yield from _splitting(comparison, chosen)
    for other in comparison.after_departures:
        if other != chosen:
            yield from _fairer(comparison, chosen, other) or _alternative(comparison, other)
    for free in comparison:
        rules = comparison.mechanisms[free.mechanism]
        unpaid = rules.is_baseline and not rules.has_payments and free.federated and not free.leavers
        if unpaid and free.welfare >= settled.welfare - NEARLY_SHARE * abs(settled.welfare):
            yield _without_payments(comparison, free.mechanism)


def _harmful(outcome: Outcome) -> Iterator[str]:
    """Whose data takes away more than it adds: of its fair share nothing can be got back, but it may pay for it."""
    shares = shown_shares(outcome.payoffs + outcome.payments, outcome.shapley_values)
    harmful = np.flatnonzero(shares < 0)
    if not harmful.size:
        return
    who = _names([outcome.agents[agent] for agent in harmful.tolist()])
    if harmful.size > 1:
        yield f"The data of {who} takes away more than it adds for all: their fair (Shapley) shares are below zero"
        return
    payment = float(outcome.payments[harmful[0]])
    paid = "and it pays the others" if payment < 0 else "yet it is paid" if payment > 0 else "and it pays nothing"
    yield f"{who}'s data takes away more than it adds for all: its fair (Shapley) share is below zero, {paid}"


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
    outcome, now = comparison[other], comparison[chosen].lowest_fair_part
    better = outcome.lowest_fair_part >= now + MIN_SHARE_RAISED
    if not comparison.mechanisms[other].has_side_payments or outcome.leavers or not better:
        return []
    title = comparison.title(other)
    said = [
        f"{title} brings the lowest fair share from {_whole(now)} to {_whole(outcome.lowest_fair_part)} by fixed sums "
        f"between the members, worked out from everybody's numbers: choose it where these are known, not just claimed"
    ]
    if comparison.group_verdict(other) is Verdict.VIOLATED:
        said.append(f"Under {title}, {_group_gain(comparison, other)}")
    return said + _splitting(comparison, other)


def _splitting(comparison: Comparison, name: str) -> list[str]:
    """Who would gain most by posing as two, if anybody is known to."""
    split, outcome = comparison.largest_splitting_gain(name), comparison[name]
    if split is None:
        return []
    member, gain = split
    much = _gain(gain, float(outcome.utilities[outcome.agents.index(member)]))
    return [f"Under {comparison.title(name)}, {member} would {much} by posing as two"]


def _alternative(comparison: Comparison, other: str) -> list[str]:
    settled = comparison.after_departures[other]
    share = _percent(comparison.share_of_best(settled.welfare))
    verb = f"loses {_names(settled.leavers)}" if settled.leavers else "keeps everybody too"
    if not settled.leavers and comparison.group_verdict(other) is Verdict.VIOLATED:
        return [f"Under {comparison.title(other)}, which reaches {share}, {_group_gain(comparison, other)}"]
    return [f"{comparison.title(other)} {verb} and reaches {share}"]


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
