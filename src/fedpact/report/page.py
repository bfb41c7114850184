"""The report: one self-contained page about a comparison, to mail and to print.

`summary` is the page to sign and the page that says why; the other sections are the appendix. Each takes the `View` and
returns what its template fills in; most are a `Section`, which one template shows. The page holds its style and asks
for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

import fedpact
from fedpact.certificates import Verdict
from fedpact.certificates.assumptions import BOUND_TOLERANCE
from fedpact.certificates.claims import claim_title
from fedpact.comparison import Comparison, StableFederation
from fedpact.deals import Outcome, Settlement
from fedpact.deals.diagnosis import diagnose, fairness_sentences, harm_sentences
from fedpact.deals.settlement import currency_decimals, settle_payments
from fedpact.federation import Federation
from fedpact.federation.arrays import sum_by
from fedpact.report.markup import render, style_sheet
from fedpact.report.numbers import MINUS, Unit, cents_text, given_text, money_text, number_text, percent
from fedpact.report.tables import (
    EVERYTHING,
    FEW,
    LIES,
    MAX_SHOWN,
    TERMS,
    TWO_MEASURES,
    ResultTable,
    claims_table,
    deal_table,
    gains_table,
    has_properties,
    leaving_table,
    lots_table,
    measured_tables,
    mechanisms_table,
    outlook_notes,
    outlook_table,
    properties_table,
)
from fedpact.report.words import GLOSSARY, NOT_CERTIFIED, PROPERTY_HEADS, SHAPLEY_METHODS
from fedpact.scenario import Measured, Money, Scenario
from fedpact.utils.errors import InvalidInput
from fedpact.utils.files import replace_text
from fedpact.utils.words import count_text, join_names

MAX_NAMES = 4  # in a sentence
MAX_SIGNATURES = 12  # on the page to sign
MAX_DIAGNOSED, MAX_HARM_SENTENCES = 8, 3
MAX_TRANSFERS = 500  # beyond these they are left to `fedpact settle`
MAX_SHADE = 0.55  # the strongest shade of a weight; text stays readable on it
MAX_ROOMY_COLUMNS = 12  # tables of weights with more columns are set tighter
STATED = (
    "How useful data is, what it is worth and what it costs is as the members say, and how quality rises with data, "
    "the {}, is as the file says; no pilot has measured it."
)
ASSUMED = "That members deliver what they agreed to, and told the truth about their costs and what the model is worth."
PAYOFF_DECIMALS = 6  # of transfers without money


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """A comparison as the report shows it."""

    comparison: Comparison
    title: str
    description: str = ""
    money: Money | None = None
    data: str = ""
    measured: Measured | None = None

    @classmethod
    def of(cls, comparison: Comparison, scenario: Scenario | None = None) -> View:
        """A comparison with what its scenario says of it; federations without a title are called by their size."""
        chosen = comparison.recommendation if comparison.outcomes else None
        if chosen is not None and chosen.mechanism not in comparison.mechanisms:  # what is recommended is shown
            rules = comparison.mechanism(chosen.mechanism)
            outcomes = (*comparison.outcomes, rules.solve(comparison.federation))
            comparison = replace(comparison, outcomes=outcomes, mechanisms={**comparison.mechanisms, rules.name: rules})
        said = scenario or Scenario(federation=comparison.federation)
        return cls(
            comparison=comparison,
            title=said.title.strip() or f"A federation of {count_text(comparison.federation.n_agents, 'member')}",
            description=said.description.strip(),
            money=said.money,
            data=said.unit,
            measured=said.measured,
        )

    @property
    def federation(self) -> Federation:
        """The federation compared."""
        return self.comparison.federation

    @property
    def names(self) -> Sequence[str]:
        """The agents' names."""
        return self.federation.names

    @cached_property
    def unit(self) -> Unit:
        """What amounts are shown in."""
        sizes = [outcome.payoffs for outcome in self.comparison.outcomes]
        return Unit.of(self.money, np.concatenate(sizes) if sizes else np.zeros(1), data=self.data)

    @cached_property
    def deals(self) -> Sequence[Outcome]:
        """The outcomes in which agents federate."""
        return [outcome for outcome in self.comparison.outcomes if outcome.federated]

    @cached_property
    def among_best(self) -> View | None:
        """What is compared among those who should be in, where that is not everybody."""
        best = self.comparison.among_best if self.comparison.outcomes else None
        return None if best is None else replace(self, comparison=best)

    @cached_property
    def chosen(self) -> Outcome | None:
        """The outcome of the recommended mechanism, with everybody in, or the first that there is."""
        recommendation = self.comparison.recommendation
        solved = {outcome.mechanism: outcome for outcome in self.comparison.outcomes}
        if recommendation is not None and recommendation.mechanism in solved:
            return solved[recommendation.mechanism]
        return next(iter(solved.values()), None)

    @cached_property
    def best_welfare(self) -> float:
        """The welfare of the social optimum; NaN if nothing was solved."""
        return self.comparison.best_welfare if self.comparison.outcomes else float("nan")

    def title_of(self, outcome: Outcome) -> str:
        """What people call the outcome's mechanism."""
        return self.comparison.title(outcome.mechanism)

    @cached_property
    def settlements(self) -> Mapping[str, Settlement | None]:
        """The transfers of every outcome, by mechanism; None where the payments do not balance."""
        return {outcome.mechanism: self._settlement(outcome) for outcome in self.comparison.outcomes}

    def _settlement(self, outcome: Outcome) -> Settlement | None:
        payments = np.where(np.abs(outcome.payments).max() <= self.unit.noise, 0.0, outcome.payments)
        digits = PAYOFF_DECIMALS if self.money is None else currency_decimals(self.money.currency)
        rate, currency = self.unit.per_payoff, self.unit.label
        try:
            return settle_payments(payments, names=outcome.agents, per_payoff=rate, currency=currency, decimals=digits)
        except InvalidInput:
            return None


@dataclass(frozen=True, kw_only=True, eq=False)
class Section:
    """A part of the report: a heading, sentences, tables, what is to be said of whom, and notes."""

    heading: str
    intro: Sequence[str] = ()
    tables: Sequence[ResultTable | None] = ()
    facts: Sequence[tuple[str, Sequence[str]]] = ()
    after: str = ""
    notes: Sequence[str] = ()


# The page to sign, and why


def summary(view: View) -> dict[str, Any]:
    """The deal with what it rests on and room to sign; the recommendation, and mechanisms at a glance."""
    comparison, joined = view.comparison, view.among_best or view
    chosen = joined.chosen
    if view.measured is not None and not view.measured.has_deal:
        chosen = None
    recommendation = comparison.recommendation if comparison.outcomes else None
    is_deal = chosen is not None and chosen.federated and not comparison.not_recommended
    deal = chosen if is_deal and recommendation is not None else None
    tables: list[ResultTable | None] = []
    if view.measured is not None:
        tables += measured_tables(view.measured, view.federation.names, view.federation.lot_owners, view.unit)
    if comparison.outcomes and (chosen is not None or view.measured is None):
        tables += [mechanisms_table(comparison, view.unit), leaving_table(comparison, view.unit)]
    return {
        "deal": None if deal is None or recommendation is None else _terms(joined, deal, recommendation.out),
        "rests_on": [] if deal is None else _rests_on(joined, deal),
        "signing": [] if deal is None else [name for name in deal.agents if len(deal.agents) <= MAX_SIGNATURES],
        "recommendation": recommendation,
        "rules": recommendation and comparison.mechanism(recommendation.mechanism),
        "tables": tables,
        "two_measures": TWO_MEASURES,
        "unsolved": [(comparison.title(name), reason) for name, reason in comparison.unsolved.items()],
    }


def _terms(view: View, deal: Outcome, out: Sequence[str]) -> ResultTable:
    """The table that members sign."""
    title = f"The deal without {join_names(out)}" if out else "The deal"
    return replace(deal_table(deal, view.unit, TERMS, title=title), sizes=deal.ir_gaps, why="the largest gains")


def _rests_on(view: View, deal: Outcome) -> list[tuple[str, str]]:
    """The rule of the deal, who pays whom, and what the deal rests on: measured or stated, certified, assumed."""
    measured, settlement = view.measured, view.settlements[deal.mechanism]
    numbers = (
        ("Stated", STATED.format(_curve_text(view.federation))) if measured is None else ("Measured", measured.advice)
    )
    proved = [claim_title(claim) for claim, found in deal.certificates.items() if found.verdict is Verdict.HOLDS]
    facts = [("Rule", view.comparison.mechanism(deal.mechanism).description)]
    if settlement is not None and 0 < len(settlement.transfers) <= MAX_SIGNATURES:
        paid = [f"{each.payer} pays {each.payee} {money_text(settlement, each.cents)}" for each in settlement.transfers]
        facts.append(("Payments", f"{'; '.join(paid)}."))
    file = f"The file of this deal names its scenario: {deal.federation.fingerprint}."
    proof = ("Certified", f"{'; '.join(proved) or 'nothing'}.")
    return [*facts, numbers, proof, ("Assumed", ASSUMED), ("File", file)]


# The deals, mechanism by mechanism


def gains(view: View) -> Section:
    """Gains against fair gains, and what is to be said of each mechanism."""
    deals, unit = view.deals, view.unit
    intro = [
        "A gain is a member's net benefit minus what it could reach alone. A plus, in blue, means that it gains by "
        "taking part; a minus, in orange, that it would rather leave."
    ]
    if deals and not np.isnan(deals[0].fair_gains).any():
        sampled = "; of so many members it is sampled" if np.nan_to_num(deals[0].fair_gain_errors).any() else ""
        intro.append(
            "A member's fair gain is what it adds to what groups of members can gain by federating, averaged over all "
            f"orders in which they could have joined{sampled}. Below each gain stands what part of the fair gain it is."
        )
    together, best = view.comparison.best_welfare_together, view.best_welfare
    said = "The best that any contributions could reach"
    if best > together + unit.noise:
        said += (
            f" with everybody in is {unit.text(together)}; because some data harms or joining costs more than it "
            f"brings, more is reached without some of them: the best found is {unit.text(best)}."
        )
    else:
        said += f" is {unit.text(best)}."
    return Section(
        heading="Who gains, who would leave, is it fair?",
        intro=intro,
        tables=[gains_table(view.comparison, unit, with_shares=True)],
        facts=[(view.title_of(outcome), _story(view, outcome)) for outcome in view.comparison],
        notes=[
            *_open_sentences(view),
            *(sentence for outcome in deals for sentence in fairness_sentences(outcome, unit.text)),
            f"Welfare is the net benefits of all members added up. {said} Members who would do better alone may leave; "
            "then the others make a new deal, until nobody wants to leave. A Shapley share, the paper's measure, is a "
            "member's part of everything, what each would have had alone included.",
        ],
    )


def _story(view: View, outcome: Outcome) -> list[str]:
    """Who would leave and what would keep them, what is reached together, and whose data takes away from all."""
    reached = f"{_welfare_text(view, outcome.welfare, 'Welfare')}."
    if not outcome.federated:
        return [reached, "Everybody keeps exactly what it makes, so there is nothing to share."]
    said = diagnose(outcome, view.unit.text)
    told = [_leavers_sentence(view, outcome), *said[:MAX_DIAGNOSED]]
    if len(said) > MAX_DIAGNOSED:
        told.append(f"The same holds for {count_text(len(said) - MAX_DIAGNOSED, 'more member')}.")
    told.append(reached)
    if outcome.leavers:
        told.append(_departure_story(view, outcome, view.comparison.after_departures.get(outcome.mechanism)))
    return [*told, *harm_sentences(outcome, view.unit.text)[:MAX_HARM_SENTENCES]]


def _leavers_sentence(view: View, outcome: Outcome) -> str:
    if outcome.leavers:
        return f"{len(outcome.leavers):,} of {len(outcome.agents):,} would leave."
    found = view.comparison.blocking_groups.get(outcome.mechanism)
    if found is None or view.comparison.group_verdict(outcome.mechanism) is not Verdict.VIOLATED:
        return "Nobody would leave."
    return f"Nobody would leave alone, but {len(found.group):,} would together."


def _departure_story(view: View, outcome: Outcome, settled: StableFederation | None) -> str:
    """Who leaves in which round, who is left, and with which welfare."""
    if settled is None:
        return f"{len(outcome.leavers):,} would leave; not followed for a baseline."
    rounds = "; then ".join(_who(departure.leavers, "leave") for departure in settled.departures)
    end = _who(settled.members, "stay") if settled.members else "nobody is left"
    return f"{rounds}; {end}: {_welfare_text(view, settled.welfare, 'welfare')}."


def _welfare_text(view: View, welfare: float, noun: str) -> str:
    """A welfare, and which part of the best it is where that says something."""
    share = view.comparison.share_of_best(welfare)
    return f"{noun} {view.unit.text(welfare)}{f', {percent(share)} of the best' if share >= 0.0 else ''}"


def _who(names: Sequence[str], verb: str) -> str:
    if len(names) > MAX_NAMES:
        return f"{len(names):,} {verb}"
    return f"{join_names(names)} {verb}{'s' if len(names) == 1 else ''}"


def _open_sentences(view: View) -> list[str]:
    """Under which mechanisms a group that was not looked at might leave."""
    together = view.comparison.holds_together
    partly = [view.title_of(outcome) for outcome in view.deals if together(outcome.mechanism) is None]
    if not partly:
        return []
    return [
        f"{join_names(partly)}: not all groups were looked at. None was found that gains by leaving; whether the deal "
        "holds together is not known."
    ]


def deals(view: View) -> Section:
    """Every number of every deal, and the transfers that settle it."""
    tables, notes, unit = list[ResultTable | None](), list[str](), view.unit
    for outcome in view.comparison:
        settlement, title = view.settlements[outcome.mechanism], view.title_of(outcome)
        has_lots = outcome.federation.has_lots  # what is given of each has a table of its own
        tables += [lots_table(outcome, unit, title=f"Lots under {title}")] if has_lots else []
        heads = EVERYTHING[1:] if has_lots else EVERYTHING
        tables.append(replace(deal_table(outcome, unit, heads, title=title), sizes=None))
        if settlement is None:
            total = unit.text(float(outcome.payments.sum()), signed=True)
            notes.append(
                f"{title}: The payments do not balance: they sum to {total}, which somebody outside would have to "
                "cover."
            )
        elif settlement.transfers:
            tables.append(_transfers(title, settlement))
        elif np.abs(outcome.payments).max() > unit.noise:
            notes.append(f"All payments under {title} are below one cent.")
        if outcome.side_payments is not None and outcome.side_payments.any():
            notes.append(
                f"{title}: Part of each payment is a fixed sum that does not depend on contributions. It brings "
                "members closer to their fair shares. The sums add up to zero."
            )
        notes += shared_cap_sentences(outcome, unit) if outcome is view.chosen else []
    return Section(
        heading="The deals in full",
        intro=[
            "Every number of each mechanism's deal. Where there are prices, what was delivered is paid for at them."
        ],
        tables=tables,
        notes=notes,
    )


def _transfers(title: str, settlement: Settlement) -> ResultTable:
    found = settlement.transfers
    turnover = money_text(settlement, sum(transfer.cents for transfer in found))
    count = count_text(len(found), "transfer")
    fewest = ", which is as few as can be" if settlement.minimal else ""
    hidden = f"; the largest {MAX_TRANSFERS} are listed" if len(found) > MAX_TRANSFERS else ""
    if len(found) > MAX_TRANSFERS:
        found = tuple(sorted(found, key=lambda transfer: -transfer.cents))[:MAX_TRANSFERS]
    return ResultTable(
        title=f"Transfers under {title}, in {settlement.currency}: {turnover} in {count}{fewest}{hidden}",
        names=[transfer.payer for transfer in found],
        kind="from",
        columns={
            "to": [transfer.payee for transfer in found],
            "amount": [cents_text(settlement, transfer.cents) for transfer in found],
        },
        words=("to",),
    )


def shared_cap_sentences(outcome: Outcome, unit: Unit, agent: int | None = None) -> list[str]:
    """For every shared cap, of one agent or of all: what is brought of each lot, and what one more would be worth."""
    federation, told = outcome.federation, []
    for shared, price in zip(federation.shared_caps, outcome.shared_cap_prices, strict=True):
        owner = int(federation.lot_owners[shared.lots[0]])
        if agent not in (None, owner):
            continue
        amounts = outcome.contributions[list(shared.lots)]
        parts = [
            f'{number_text(float(amount))} of "{federation.lot_names[lot]}"'
            for lot, amount in zip(shared.lots, amounts, strict=True)
        ]
        total, cap = float(amounts.sum()), given_text(shared.cap)
        if total >= shared.cap * (1.0 - BOUND_TOLERANCE):
            used = f"all of the {cap} that these lots share"
            larger = given_text(shared.cap + 1.0)
            more = f" A cap of {larger} would add {unit.text(float(price))} to the welfare of all." if price > 0 else ""
        else:
            used, more = f"{number_text(total)} of the {cap} that these lots share", ""
        told.append(f"{federation.names[owner]} brings {join_names(parts)}: {used}.{more}")
    return told


def uncertainty(view: View) -> Section:
    """Intervals of payments and gains, and who may leave."""
    outlooks = list(view.comparison.uncertainty.values())
    return Section(
        heading="How sure is this?",
        intro=[
            "The numbers behind this deal were estimated, so the deal is uncertain too. Each mechanism was solved "
            f"again for many federations that fit the data; {percent(outlooks[0].level, decimals=0)} of them lie "
            "within each interval. Where an interval contains zero, nobody knows yet whether the member gains."
        ],
        tables=[outlook_table(outlook, view.unit) for outlook in outlooks],
        facts=[(outlook.title, outlook_notes(outlook)) for outlook in outlooks],
    )


def properties(view: View) -> Section:
    """Mechanisms against properties."""
    comparison = view.comparison
    unsolved = [f"{comparison.title(name)} has no outcome here: {why}." for name, why in comparison.unsolved.items()]
    meanings = [(head, [claim_title(claim)]) for claim, head in PROPERTY_HEADS.items()]
    return Section(
        heading="What holds under which mechanism?",
        intro=[
            "Every cell is a certificate's verdict on this federation, whether the mechanism promises it or not. Gains "
            f"by lies are in {view.unit.label}."
        ],
        tables=[properties_table(comparison, view.unit)],
        facts=[*meanings, ("lies gain", [LIES.capitalize()])],
        notes=[
            "“open”: nothing was found against it, and it is not proved. “-”: undefined, or not worked out.",
            *unsolved,
        ],
    )


def certificates(view: View) -> Section:
    """Claims by mechanisms."""
    promised = {
        view.title_of(outcome): (outcome, view.comparison.mechanism(outcome.mechanism).promises(outcome.federation))
        for outcome in view.comparison
    }
    return Section(
        heading="What is certified?",
        intro=[
            "Every claim was checked from the contributions and payments alone, by other methods than those that found "
            "the deal. A mechanism promises some claims by design; where it breaks another one, that is no error. The "
            f"margin says by how much a claim holds, in {view.unit.label}; below zero, by how much it fails.",
            NOT_CERTIFIED,
        ],
        tables=[claims_table(promised, view.unit)],
        notes=[
            "Posing as two takes cheap identities: hospitals or licensed banks cannot.",
            "fedpact solve SCENARIO --json prints the numbers from which each margin can be worked out anew.",
        ],
    )


# What it rests on


def federation(view: View) -> Section:
    """What was known of every agent, and how useful data is to whom."""
    given = view.federation
    lots = f" with {count_text(given.n_lots, 'lot')} of data and {count_text(given.n_tasks, 'task')}"
    about = (
        f"{count_text(given.n_agents, 'member')}{lots if given.has_lots else ''}. What a member’s model is worth rises "
        f"with the data that reaches it along a {_curve_text(given)}: much at first, less and less later."
    )
    money = (
        f"Cost and value in {view.unit.label}. The cap is the most a member can contribute; the value is what one "
        "whole unit of model quality is worth to it."
    )
    return Section(
        heading="The federation",
        intro=[" ".join([about, *_told(view)]), money],
        tables=_member_tables(view),
        after=render("weights.html", weights=_weights(view), note=_weights_note(given)),
    )


def _told(view: View) -> list[str]:
    """What a scenario says beside costs, caps and values, a sentence each."""
    given = view.federation
    said = [
        "Members use their own data at home whether they share it or not: costs are those of sharing, and gains count "
        "from there."
        if given.home is not None
        else "Members pay for using their own data too, as in the paper: none is used at home for nothing."
    ]
    total = view.unit.text(float(given.joining_costs.sum()))
    paid = f"Joining costs {total} in all, paid once by those who take part."
    said.append(paid if given.joining_costs.any() else "Joining costs nothing.")
    limited = [name for name, budget in zip(given.names, given.budgets, strict=True) if np.isfinite(budget)]
    said += [f"What {join_names(limited, most=MAX_NAMES)} can pay is limited."] if limited else []
    if view.comparison.models == "personal":
        said.append("Everybody has a model of its own, which leaves out data that harms it.")
    return said


def _curve_text(given: Federation) -> str:
    ranges = []
    for label, numbers in given.payoff.parameters.items():
        low, high = float(np.min(numbers)), float(np.max(numbers))
        ranges.append(f"{label} = {low:g}" if low == high else f"{label} = {low:g} to {high:g}")
    return f"{given.payoff.family} curve" + (f" ({', '.join(ranges)})" if ranges else "")


def _member_tables(view: View) -> list[ResultTable]:
    """What was known of the members; of those with several lots or tasks a table of each."""
    given, unit = view.federation, view.unit
    lots = {unit.of_data("Cost of the first unit"): unit.given_column(given.costs.linear)}
    if given.costs.quadratic.any():
        lots["rising per unit by"] = unit.given_column(2.0 * given.costs.quadratic)
    lots["Cap"] = [given_text(float(cap)) for cap in given.caps]
    if given.shared_caps:
        shared = {lot: given_text(each.cap) for each in given.shared_caps for lot in each.lots}
        lots["Shared cap"] = [shared.get(lot, "none") for lot in range(given.n_lots)]
    if given.home is not None:
        lots["At home"] = [given_text(float(amount)) for amount in given.home]
    values, members = {"Value": unit.given_column(given.values)}, dict[str, list[str]]()
    if given.joining_costs.any():
        members["Joining costs"] = unit.given_column(given.joining_costs)
    limited = np.isfinite(given.budgets)
    if limited.any():
        known = iter(unit.given_column(given.budgets[limited]))
        members["Budget"] = [next(known) if there else "no limit" for there in limited]
    brought, why = _prominent(view)
    if not given.has_lots:
        columns = lots | values | members
        return [ResultTable(title="Members", names=given.names, columns=columns, sizes=brought, why=why)]
    of_lots, of_tasks = brought[given.lot_owners], brought[given.task_owners]
    tables = [
        ResultTable(title="Members", names=given.names, columns=members, sizes=brought, why=why),
        ResultTable(title="Lots of data", names=given.lot_labels, columns=lots, kind="lot", sizes=of_lots, why=why),
        ResultTable(title="Tasks", names=given.task_labels, columns=values, kind="task", sizes=of_tasks, why=why),
    ]
    return tables if members else tables[1:]


def _prominent(view: View) -> tuple[np.ndarray, str]:
    """By which number members are ranked where there is no room for all, and what it is."""
    count, chosen = view.federation.n_agents, view.chosen
    if chosen is None:
        return np.zeros(count), "the first entries"
    if chosen.payments.any():
        return np.abs(chosen.payments), f"the largest payments under {view.title_of(chosen)}"
    given = sum_by(view.federation.lot_owners, chosen.contributions, count)
    return given, f"the largest contributions under {view.title_of(chosen)}"


def _weights(view: View) -> Mapping[str, Any]:
    """The weights as a coloured table, among the prominent of many members: the row receives, the column gives."""
    sizes, _ = _prominent(view)
    chosen = np.sort(np.argsort(-sizes, kind="stable")[: MAX_SHOWN if sizes.size > FEW else FEW])
    given = view.federation.take(chosen)
    weights, tight = given.weights, given.n_lots > MAX_ROOMY_COLUMNS
    largest = np.abs(weights).max() or 1.0
    shades = MAX_SHADE * np.abs(weights) / largest
    kinds = np.where(weights < 0, "harm", "help")
    kinds[given.task_owners[:, None] == given.lot_owners] = "own"
    # With the same few decimals where there is little room.
    form = f".{int(np.clip(2 - np.floor(np.log10(largest)), 0, 6))}f" if tight else ".4g"
    texts = [["0" if weight == 0 else format(weight, form).replace("-", MINUS) for weight in row] for row in weights]
    rows = [
        (label, list(zip(*row, strict=True)))
        for label, *row in zip(given.task_labels, texts, kinds, shades, strict=True)
    ]
    return {"names": given.lot_labels, "rows": rows, "tight": tight}


def _weights_note(given: Federation) -> str:
    """How to read the weights, those not shown counted too."""
    if given.n_agents == 1 and not given.has_lots:
        return "A single member: only its own data matters."
    others = given.weights[given.task_owners[:, None] != given.lot_owners]
    rows = "The row receives, the column gives; 1 means as useful as one’s own data usually is."
    if given.has_lots:
        rows = "The row is a task, which receives; the column is a lot of data, which gives. Framed: one’s own."
    used, harmful = int(np.count_nonzero(others)), int((others < 0).sum())
    return f"{rows} Of {others.size:,} weights between members {used:,} are not zero, {harmful:,} of them harmful."


def method(view: View) -> Section:
    """A glossary, and how everything was computed."""
    used = {outcome.shapley.method for outcome in view.comparison}
    methods = " and by ".join(text for name, text in SHAPLEY_METHODS.items() if name in used)
    shares = f" Shapley shares were computed by {methods}." if methods else ""
    money = (
        "Payments are rounded to whole cents that sum to zero exactly, and settled with few transfers."
        if view.unit.is_money
        else "No exchange rate was given, so amounts are in units of payoff rather than in money."
    )
    return Section(
        heading="Words and method",
        facts=[(word, [meaning]) for word, meaning in GLOSSARY.items()],
        notes=[
            "Contributions under each mechanism are an equilibrium, computed numerically; the certificates check it by "
            f"other means.{shares} {money} Departures are followed through: all who would do better alone leave at "
            "once, the others make a new deal, and so on.",
            f"Written by fedpact {fedpact.__version__}. This page is complete in itself: it loads nothing.",
        ],
    )


# The page


# The appendix, in order: the short name in the contents, and what makes the section.
SECTIONS: Mapping[str, tuple[str, Callable[[View], Section]]] = {
    "gains": ("Gains", gains),
    "uncertainty": ("Certainty", uncertainty),
    "properties": ("Properties", properties),
    "deals": ("All numbers", deals),
    "certificates": ("Certificates", certificates),
    "federation": ("Federation", federation),
    "method": ("Glossary", method),
}
WITHOUT_OUTCOMES = ("federation", "method")


def render_report(comparison: Comparison, scenario: Scenario | None = None) -> str:
    """The report as HTML text.

    Parameters
    ----------
    comparison
        The outcomes to report on.
    scenario
        Its title and description, money, the unit of data, and what a pilot measured; without one, amounts are in
        units of payoff.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw, Standalone, compare
    >>> alone = Federation([[1.0]], costs=0.001, payoff=PowerLaw(beta=0.02), names=["Ada & Co"])
    >>> "Ada &amp; Co" in render_report(compare(alone, [Standalone()]))
    True
    """
    view = View.of(comparison, scenario)
    has_outcomes = comparison.outcomes and (view.measured is None or view.measured.has_deal)
    contents = {
        ident: label
        for ident, (label, _) in SECTIONS.items()
        if (has_outcomes or ident in WITHOUT_OUTCOMES)
        and (comparison.uncertainty or ident != "uncertainty")
        and (ident != "properties" or has_properties(comparison))
    }
    summary, parts = render_section("summary", view), [render_section(ident, view) for ident in contents]
    return str(render("report.html", view=view, style=style_sheet(), summary=summary, contents=contents, parts=parts))


def render_section(ident: str, view: View) -> Markup:
    """One section of the report as HTML; also for other pages that have its style sheet."""
    if ident == "summary":
        return render("summary.html", view=view, **summary(view))
    return render("section.html", ident=ident, section=SECTIONS[ident][1](view))


def write_report(comparison: Comparison, path: str | PathLike[str], scenario: Scenario | None = None) -> None:
    """Write the report to a file, whole or not at all; see `render_report`.

    Raises
    ------
    InvalidInput
        If the folder does not exist or the file cannot be written.
    """
    replace_text(Path(path), render_report(comparison, scenario))
