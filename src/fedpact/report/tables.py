"""Results as tables of texts, made once: the terminal, the pages and the explorer are views of them.

A `ResultTable` has a row per member (or lot, or mechanism) and says which rows matter most where there are many.
`cli.screen.print_table` shows it on the terminal, the macro `result` of `parts.html` on a page.

Under a mechanism with prices, what was delivered is paid for at these: its owner receives the price of every unit, and
each of the others pays its part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedpact.certificates import Certificate, Claim, Verdict
from fedpact.certificates.claims import claim_title
from fedpact.comparison import Comparison, Outlook
from fedpact.comparison.lies import FACTORS
from fedpact.deals import Outcome
from fedpact.federation.arrays import Owners, sum_by
from fedpact.mechanisms import compared_mechanisms
from fedpact.report.numbers import (
    Unit,
    gain_share_texts,
    lowest_gain_share_text,
    lowest_share_text,
    number_text,
    number_texts,
    percent,
    probability_text,
    share_texts,
    smallest_gain_text,
)
from fedpact.report.words import CLAIMS, PROPERTY_HEADS
from fedpact.scenario.measured import NORMAL_QUANTILE, Measured
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import MAX_NAMES, group_text, join_names

FEW, MAX_SHOWN = 30, 20  # up to so many rows are all shown; of more so many, unless a view has less room
MAX_NAMES_IN_CELL = 3
PAID_AT = "what was delivered is paid for at these"
PAID = "pays (\N{MINUS SIGN}) or receives (+)"
LIES = (
    "the most one member gains by reporting costs or values between half and twice its own, of "
    f"{len(FACTORS)} factors tried"
)
TWO_MEASURES = (
    "Lowest share of a fair gain: how much of its fair share of the gain the worst-off member gets. Reciprocity: the "
    "same for its Shapley share of everything, which includes what it would have had alone."
)
PROPERTY_WORDS = {Verdict.HOLDS: "yes", Verdict.NOT_REFUTED: "open", Verdict.UNDEFINED: "-", Verdict.VIOLATED: "no"}
VERDICT_SIGNS = {Verdict.HOLDS: "✓", Verdict.VIOLATED: "✗", Verdict.NOT_REFUTED: "○", Verdict.UNDEFINED: "–"}
NOBODY, NOT_WORKED_OUT = "nobody", "not worked out"
GROUP_WORDS = {Verdict.HOLDS: NOBODY, Verdict.NOT_REFUTED: "none found", Verdict.UNDEFINED: NOT_WORKED_OUT}
OWN_MODEL = "own model"  # that it has anyway: no change by construction


@dataclass(frozen=True, kw_only=True, eq=False)
class ResultTable:
    """Texts in rows and columns.

    Attributes
    ----------
    title
        With the unit of the numbers.
    names, kind
        What the rows are called, and what they are: members, lots, mechanisms, claims.
    columns
        The texts by head. In a cell, what stands after a line break is small print.
    below
        Small print for each row's name; empty if there is none.
    sizes, why
        Of many rows those with the largest sizes are shown, and what these are; None if all are shown.
    gains
        Heads of the columns whose signs have a colour.
    words
        Heads of the columns whose cells are words, which begin at the left.
    """

    title: str
    names: Sequence[str]
    columns: Mapping[str, Sequence[str]]
    kind: str = "member"
    below: Sequence[str] = ()
    sizes: FloatArray | None = None
    why: str = ""
    gains: Sequence[str] = ()
    words: Sequence[str] = ()

    @property
    def has_words(self) -> bool:
        """Whether all cells are words."""
        return set(self.columns) <= set(self.words)

    def shown(self, few: int = FEW, most: int = MAX_SHOWN) -> list[int]:
        """The rows to show: all of few, and of many those with the largest sizes, in their own order."""
        if self.sizes is None or len(self.names) <= few:
            return list(range(len(self.names)))
        sizes = -np.abs(np.nan_to_num(self.sizes, nan=0.0))
        return sorted(np.argsort(sizes, kind="stable")[:most].tolist())


# One deal


def price_texts(outcome: Outcome, unit: Unit) -> list[str]:
    """What the owner of each lot receives for a unit of it; empty where data has no price."""
    return unit.column(outcome.net_externality) if outcome.has_prices and len(outcome.agents) > 1 else []


def brought_text(outcome: Outcome, agent: int, unit: str) -> str:
    """How much a member contributes, of each of its lots where it has several; what stays at home is left out."""
    given, own = outcome.federation, outcome.federation.lots_of(agent)
    if not given.has_lots:
        return f"{number_text(float(outcome.contributions[agent]))} {unit or 'units of data'}"
    brought = [lot for lot in own if outcome.contributions[lot] > 0.0]
    told = [f'{number_text(float(outcome.contributions[lot]))} of "{given.lot_names[lot]}"' for lot in brought]
    return f"{join_names(told)}{f' ({unit})' if unit else ''}" if told else "no data"


def _gives(outcome: Outcome, unit: Unit) -> list[str]:
    if outcome.federation.has_lots:
        return [brought_text(outcome, agent, "") for agent in range(outcome.federation.n_agents)]
    return number_texts(outcome.contributions)


def _side_payments(outcome: Outcome, unit: Unit) -> list[str]:
    """The part of the payments that nobody's contribution changes, where there is one."""
    assert outcome.side_payments is not None
    return unit.column(outcome.side_payments, signed=True) if outcome.side_payments.any() else []


MEMBER_COLUMNS: Mapping[str, Callable[[Outcome, Unit], Sequence[str]]] = {
    "gives": _gives,
    "brings": lambda outcome, unit: () if outcome.federation.has_lots else number_texts(outcome.contributions),
    "price": lambda outcome, unit: () if outcome.federation.has_lots else price_texts(outcome, unit),
    "payoff": lambda outcome, unit: unit.column(outcome.payoffs),
    "cost": lambda outcome, unit: unit.column(outcome.costs),
    "joining": lambda outcome, unit: unit.column(outcome.joining_costs) if outcome.joining_costs.any() else (),
    "is paid": lambda outcome, unit: unit.column(outcome.payments, signed=True),
    PAID: lambda outcome, unit: unit.column(outcome.payments, signed=True),
    "of it fixed": _side_payments,
    "net benefit": lambda outcome, unit: unit.column(outcome.utilities),
    "alone": lambda outcome, unit: unit.column(outcome.standalone),
    "gain": lambda outcome, unit: unit.column(outcome.ir_gaps, signed=True),
    "gains": lambda outcome, unit: unit.column(outcome.ir_gaps, signed=True),
    "fair gain": lambda outcome, unit: unit.column(outcome.fair_gains),
    "of its fair gain": lambda outcome, unit: gain_share_texts(outcome),
    "Shapley share": lambda outcome, unit: unit.column(outcome.shapley_values),
    "share back": lambda outcome, unit: share_texts(outcome),
}
"""The columns of a deal by their heads, a text per member; empty where a column does not apply."""
BALANCE = ("brings", "price", "payoff", "cost", "joining", "is paid", "gain", "of its fair gain")
TERMS = ("gives", "price", PAID, "of it fixed", "gains", "of its fair gain")
EVERYTHING = tuple(head for head in MEMBER_COLUMNS if head not in {"brings", PAID, "gains"})


def deal_table(
    outcome: Outcome, unit: Unit, heads: Sequence[str] = BALANCE, *, title: str = "Members", kind: str = "member"
) -> ResultTable:
    """One deal, a row per member, with those of `MEMBER_COLUMNS` that are asked for and apply."""
    found = {head: MEMBER_COLUMNS[head](outcome, unit) for head in heads}
    columns = {head: texts for head, texts in found.items() if len(texts)}
    sizes = outcome.costs if outcome.federation.has_lots else outcome.contributions
    return ResultTable(
        title=f"{title} ({unit.of_deal(has_prices='price' in columns)})",
        names=outcome.agents,
        kind=kind,
        columns=columns,
        sizes=sizes,
        why="the largest contributions",
        gains=("gain", "gains"),
    )


def lots_table(outcome: Outcome, unit: Unit, *, title: str = "Lots") -> ResultTable:
    """What is brought of each lot, how much there is, and the price of a unit."""
    federation, brought = outcome.federation, outcome.contributions
    given = [text if amount > 0.0 else "at home" for text, amount in zip(number_texts(brought), brought, strict=True)]
    columns = {"brought": given, "of at most": number_texts(federation.arrays.reachable_caps)}
    prices = price_texts(outcome, unit)
    columns |= {f"price, {unit.per_data}": prices} if prices else {}
    return ResultTable(
        title=unit.of_data(title),
        names=federation.lot_labels,
        columns=columns,
        kind="lot",
        sizes=brought,
        why="the largest contributions",
    )


def prices_paid_text(outcome: Outcome, agent: int, unit: Unit) -> str:
    """What a member pays for a unit of each lot of others that is brought; empty where it pays nothing."""
    federation = outcome.federation
    prices = outcome.arrays.prices(outcome.contributions)[agent]
    paid = (federation.lot_owners != agent) & (outcome.contributions > 0) & (prices != 0)
    ranked = sorted(np.flatnonzero(paid).tolist(), key=lambda lot: -abs(prices[lot] * outcome.contributions[lot]))
    return join_names(
        [f"{unit.text(float(prices[lot]))} for {federation.lot_labels[lot]}" for lot in ranked], most=MAX_NAMES
    )


def claims_table(
    given: Mapping[str, tuple[Outcome, Sequence[Claim]]], unit: Unit | None, *, without: Collection[Claim] = ()
) -> ResultTable:
    """Claims by outcomes with what is promised of each: verdicts, whether they were promised, and margins in a unit."""
    claims = [claim for claim in next(iter(given.values()))[0].certificates if claim not in without] if given else []
    columns = {
        title: [verdict_text(outcome, outcome.certificates[claim], promised, unit) for claim in claims]
        for title, (outcome, promised) in given.items()
    }
    return ResultTable(
        title="Verdicts" if unit is None else f"Verdicts; margins in {unit.label}",
        names=[claim_title(claim) for claim in claims],
        below=[CLAIMS[Claim(claim)] for claim in claims],
        columns=columns,
        kind="claim",
        words=tuple(columns),
    )


def verdict_text(outcome: Outcome, found: Certificate, promised: Sequence[Claim], unit: Unit | None) -> str:
    """A verdict, whether it was promised, and its margin; of individual rationality that is the smallest gain."""
    word = "promised" if found.claim in promised else "not promised"
    if found.verdict is Verdict.VIOLATED and found.claim in promised:
        word = "promised: an error"
    if found.verdict is Verdict.HOLDS:
        word = "promised by design" if found.claim in promised else "not promised, holds here"
    said = f"{VERDICT_SIGNS[found.verdict]} {found.verdict}\n{word}"
    if unit is None:
        return said
    margin = f"margin {'0' if abs(found.margin) <= found.tol else unit.column([found.margin], signed=True)[0]}"
    if found.claim is Claim.INDIVIDUAL_RATIONALITY:
        margin = smallest_gain_text(outcome, unit)
    return f"{said}, {margin}"


# Mechanisms side by side


def gains_table(comparison: Comparison, unit: Unit, *, with_shares: bool = False) -> ResultTable | None:
    """What everybody gains against standing alone; `with_shares`, beside its fair gain and the part of it."""
    deals = [outcome for outcome in comparison if outcome.federated]
    if not deals:
        return None
    known = with_shares and not np.isnan(deals[0].fair_gains).any()
    columns: dict[str, Sequence[str]] = {"Fair gain": unit.column(deals[0].fair_gains)} if known else {}
    titles = {comparison.title(outcome.mechanism): outcome for outcome in deals}
    for title, outcome in titles.items():
        columns[title] = unit.column(outcome.ir_gaps, signed=True)
        if known:
            pairs = zip(columns[title], gain_share_texts(outcome), strict=True)
            columns[title] = [f"{gain}\n{share}" for gain, share in pairs]
    smallest = np.min([outcome.ir_gaps for outcome in deals], axis=0)
    return ResultTable(
        title=f"Gains against {'fair gains' if known else 'standing alone'}, in {unit.label}",
        names=comparison.federation.names,
        columns=columns,
        sizes=smallest.max() - smallest,
        why="the smallest gains",
        gains=tuple(titles),
    )


def mechanisms_table(comparison: Comparison, unit: Unit) -> ResultTable:
    """The mechanisms at a glance."""
    outcomes = list(comparison)
    shares = [comparison.share_of_best(outcome.welfare) for outcome in outcomes]
    columns = {
        "welfare": unit.column([outcome.welfare for outcome in outcomes]),
        "of best": [percent(share) if share >= 0.0 else "" for share in shares],
        "lowest share of a fair gain": [lowest_gain_share_text(outcome) for outcome in outcomes],
        "reciprocity": [lowest_share_text(outcome) for outcome in outcomes],
        "promises": [_promises_text(comparison, outcome) for outcome in outcomes],
    }
    return _by_mechanism(comparison, f"Mechanisms, welfare in {unit.label}", columns, outcomes, describe=True)


def _promises_text(comparison: Comparison, outcome: Outcome) -> str:
    promised = comparison.mechanism(outcome.mechanism).promises(outcome.federation)
    verdicts = {outcome.certificates[claim].verdict for claim in promised}
    return "broken" if Verdict.VIOLATED in verdicts else "kept" if verdicts <= {Verdict.HOLDS} else "open"


def leaving_table(comparison: Comparison, unit: Unit) -> ResultTable | None:
    """Who would leave, alone or in a group."""
    deals = [outcome for outcome in comparison if outcome.federated]
    if not deals:
        return None
    columns = {
        "leave alone": [_few_names(outcome.leavers, outcome.agents) or NOBODY for outcome in deals],
        "gain most by leaving": [leaving_text(comparison, outcome, unit) for outcome in deals],
    }
    return _by_mechanism(comparison, f"Who would leave; gains in {unit.label}", columns, deals, words=tuple(columns))


def has_properties(comparison: Comparison) -> bool:
    """Whether more mechanisms are compared than if none is named; the certificates alone are clearer for a few."""
    return len(comparison.outcomes) > len(compared_mechanisms(comparison.federation))


def properties_table(comparison: Comparison, unit: Unit) -> ResultTable:
    """What holds under each mechanism, the money it needs from outside or leaves over, and what lies gain."""
    outcomes, columns = list(comparison), dict[str, list[str]]()
    for claim, head in PROPERTY_HEADS.items():
        columns[head] = [PROPERTY_WORDS[comparison.verdicts[outcome.mechanism][claim]] for outcome in outcomes]
    budgets = unit.column([outcome.budget for outcome in outcomes], signed=True)
    balanced = columns[PROPERTY_HEADS[Claim.BUDGET_BALANCE]]
    for index, budget in enumerate(budgets):
        balanced[index] = budget if balanced[index] == PROPERTY_WORDS[Verdict.VIOLATED] else balanced[index]
    columns["lies gain"] = [_lies_text(comparison, outcome.mechanism, unit) for outcome in outcomes]
    title = f"What holds; payments that do not balance need (+) or leave over (-) {unit.label}"
    return _by_mechanism(comparison, title, columns, outcomes)


def leaving_text(comparison: Comparison, outcome: Outcome, unit: Unit) -> str:
    """The group that gains most by leaving, everybody together too, how much, and how far that is known."""
    verdict = comparison.group_verdict(outcome.mechanism)
    found = comparison.blocking_groups.get(outcome.mechanism)
    if found is None:
        return "–" if len(outcome.agents) == 1 else NOT_WORKED_OUT
    together = comparison.best_welfare_together - outcome.welfare
    said = GROUP_WORDS.get(verdict, "")
    if together > max(found.gain, outcome.tolerances.sum()):
        said = f"everybody together {unit.column([together], signed=True)[0]}"
    elif verdict is Verdict.VIOLATED:
        said = f"{_few_names(found.group, outcome.agents)} {unit.column([found.gain], signed=True)[0]}"
    if found.exact or verdict is Verdict.HOLDS:
        return said
    return f"{said} (no group gains more than {unit.text(max(found.upper_bound, together))})"


def posing_text(comparison: Comparison, outcome: Outcome, unit: Unit) -> str:
    """Who gains most by entering under two names, of those looked at, and how much; empty where nobody does."""
    gains, size = comparison.splitting_gains.get(outcome.mechanism), len(outcome.agents)
    largest = None if gains is None else comparison.largest_splitting_gain(outcome.mechanism)
    if gains is None or largest is None:
        return ""
    said = f"{largest[0]} {unit.column([largest[1]], signed=True)[0]}"
    return said if len(gains) == size else f"{said} ({len(gains)} of {size} members looked at)"


def _lies_text(comparison: Comparison, mechanism: str, unit: Unit) -> str:
    """What a member gains at most by reporting other costs or values than its own, of the lies tried."""
    if comparison.misreporting_gains.get(mechanism) is None:
        return NOT_WORKED_OUT
    largest = comparison.largest_misreporting_gain(mechanism)
    return NOBODY if largest is None else unit.column([largest[1]], signed=True)[0]


def _few_names(names: Sequence[str], everybody: Sequence[str]) -> str:
    return group_text(names, everybody, most=MAX_NAMES_IN_CELL)


def _by_mechanism(
    comparison: Comparison,
    title: str,
    columns: Mapping[str, Sequence[str]],
    outcomes: Sequence[Outcome],
    *,
    describe: bool = False,
    words: Sequence[str] = (),
) -> ResultTable:
    names = [comparison.title(outcome.mechanism) for outcome in outcomes]
    rules = [comparison.mechanisms.get(outcome.mechanism) for outcome in outcomes]
    below = [each.description if each else "" for each in rules] if describe else []
    return ResultTable(title=title, names=names, columns=columns, kind="mechanism", below=below, words=words)


# How sure


def outlook_table(outlook: Outlook, unit: Unit) -> ResultTable:
    """Intervals of payments and gains, who may leave, and what would keep them."""
    payments, gains = outlook.interval("payments"), outlook.interval("ir_gaps")
    columns = {"payment": _interval_texts(payments, unit)} if np.nan_to_num(outlook.outcomes.payments).any() else {}
    columns["gain"] = _interval_texts(gains, unit)
    if not outlook.assumption:
        chances = outlook.leave_probabilities
        columns["leaves"] = [probability_text(float(chance), outlook.n_draws) for chance in chances]
        assured = f"keeps with {percent(outlook.assurance, decimals=0)}"
        columns[assured] = unit.column(outlook.keeping_endowments)
    level = percent(outlook.level, decimals=0)
    return ResultTable(
        title=f"{outlook.title} under uncertainty: {level} intervals from {outlook.n_draws} draws, in {unit.label}",
        names=outlook.agents,
        columns=columns,
        sizes=outlook.leave_probabilities + np.abs(payments).max(axis=1),
        why="the least certain part in it",
    )


def outlook_notes(outlook: Outlook) -> list[str]:
    """What the intervals leave open, in sentences."""
    told = [f"Who would leave: {outlook.assumption}."] if outlook.assumption else []
    ends = outlook.interval("lowest_fair_part")
    if np.isfinite(ends).all():
        low, high = (percent(max(float(end), 0.0), decimals=0) for end in ends)
        told.append(f"Lowest fair share back between {low} and {high}.")
    if outlook.n_unsolved:
        told.append(f"{outlook.n_unsolved} draws could not be solved and are left out.")
    return told


def _interval_texts(ends: FloatArray, unit: Unit) -> list[str]:
    lows, highs = (unit.column(side, signed=True) for side in ends.T)
    return [f"{low} to {high}" for low, high in zip(lows, highs, strict=True)]


# What a pilot measured


def measured_tables(found: Measured, names: Sequence[str], lot_owners: Owners, unit: Unit) -> list[ResultTable]:
    """Whom sharing helps and what that is worth; and the deal, trained, where there is one."""
    tables = [_arrangements(found, names, unit)]
    return [*tables, _measured_deal(found, names, lot_owners, unit)] if found.has_deal else tables


def no_deal_text(found: Measured) -> str:
    """What stands where the numbers of a deal would."""
    return f"There is no deal: by what was measured nobody shares anything. {found.advice}"


def _arrangements(found: Measured, names: Sequence[str], unit: Unit) -> ResultTable:
    """Does it help me, and what is it worth?"""
    points, spans = np.array(found.points), NORMAL_QUANTILE * np.array(found.point_errors)
    decimals = 1 if np.abs(points).max() >= 1.0 else 2
    stays = (points == 0.0) & (spans == 0.0)
    scores = {"guess": found.guess, "alone": found.alone, "one model": found.one_model, "own choice": found.own_choice}
    columns = {head: [f"{score:.3f}" for score in each] for head, each in scores.items()}
    gains = zip(points, spans, strict=True)
    columns["points"] = [f"{gain:+.{decimals}f} ± {span:.{decimals}f}" for gain, span in gains]
    caption = f"With everything shared: {found.score}; {found.arrangement} against alone in points"
    if unit.label != "points":  # somebody said what they are worth
        amounts = zip(unit.column(points * found.worth, signed=True), unit.column(spans * found.worth), strict=True)
        columns["worth"] = [f"{amount} ± {span}" for amount, span in amounts]
        caption += f" and in {unit.label}"
    for head in {"points", "worth"} & set(columns):
        columns[head] = [OWN_MODEL if stay else text for stay, text in zip(stays, columns[head], strict=True)]
    return ResultTable(title=f"{caption}, 90 % intervals", names=names, columns=columns)


def _measured_deal(found: Measured, names: Sequence[str], lot_owners: Owners, unit: Unit) -> ResultTable:
    """What do I bring, and how sure is this?"""
    gains, errors = np.array(found.gains), np.array(found.gain_errors)
    measured = np.append(gains, gains.sum())
    spans = NORMAL_QUANTILE * np.append(errors, np.sqrt((errors**2).sum()))
    promised = [*found.promised, sum(found.promised)]
    rows = np.array([[*found.payments, 0.0], promised, measured, measured - spans, measured + spans])
    texts = np.array(unit.column(rows.ravel(), signed=True), dtype=object).reshape(rows.shape)
    texts[3:, spans == 0.0] = [[OWN_MODEL], [""]]
    given = sum_by(lot_owners, np.array(found.shared), len(names))
    shared = [f"{number:,.0f}" for number in (*given, given.sum())]
    heads = ("receives", "promised", "measured", "from", "to")
    columns = {"shares": shared, **dict(zip(heads, texts.tolist(), strict=True))}
    title = f"The deal, trained on fresh splits: records, and amounts in {unit.label} with 90 % intervals"
    return ResultTable(title=title, names=[*names, "all"], columns=columns)
