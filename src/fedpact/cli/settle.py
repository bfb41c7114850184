"""`fedpact settle`: payments as money, in exact cents and few transfers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedpact.certificates.claims import quote_claim
from fedpact.cli.audits import show_excluded
from fedpact.cli.common import (
    DEFAULT_EXAMPLE,
    AsJson,
    Force,
    ScenarioArgument,
    amounts_in,
    check_output,
    choose_mechanism,
    console,
    escape,
    print_agents,
    print_json,
    read_scenario,
    table,
    terminal_text,
)
from fedpact.cli.deals import DealArgument, DealMechanism, Unchecked, choose_deal, say_unchecked
from fedpact.cli.per_agent import per_agent
from fedpact.cli.solve import show_side_payments
from fedpact.deals import Deal, Settlement, is_ledger
from fedpact.deals import settle as settle_deal
from fedpact.deals.diagnosis import exceeded_budgets
from fedpact.deals.ledger import SETTLED
from fedpact.deals.settlement import MONEY_DECIMALS, PAYOFF_DECIMALS, PAYOFF_UNIT
from fedpact.federation import Federation
from fedpact.fitting.delivery import with_paid_shares
from fedpact.mechanisms import mechanism_named
from fedpact.negotiation.check import FINISHED, CheckedLedger, check_ledger
from fedpact.report.numbers import Unit, cents_text, money_text, number_texts
from fedpact.scenario import Money
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import count_text, join_names


def settle(
    scenario: ScenarioArgument = DEFAULT_EXAMPLE,
    deal: DealArgument = None,
    name: DealMechanism = None,
    currency: Annotated[
        str | None, typer.Option("--currency", help="The scenario's by default; needs --per-payoff.")
    ] = None,
    per_payoff: Annotated[
        float | None,
        typer.Option("--per-payoff", help="Money per unit of payoff; the scenario's by default; needs --currency."),
    ] = None,
    decimals: Annotated[
        int | None,
        typer.Option(
            "--decimals",
            help=f"Digits after the point; if not given {MONEY_DECIMALS}, and {PAYOFF_DECIMALS} without money.",
            min=0,
            max=9,
        ),
    ] = None,
    sponsor: Annotated[
        str | None,
        typer.Option("--sponsor", help="Who covers payments that do not balance: nobody in the deal.", metavar="NAME"),
    ] = None,
    delivered: Annotated[
        list[str] | None,
        typer.Option(
            "--delivered",
            help="What was delivered, where it is less than agreed; several allowed. A ledger says it itself.",
            metavar="NAME=AMOUNT",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the transfers, as .csv or .json.", metavar="FILE")
    ] = None,
    force: Force = False,
    unchecked: Unchecked = False,
    as_json: AsJson = False,
) -> None:
    """Turn the payments of a deal into transfers of money between the members.

    What was delivered is paid for, at the prices agreed: a member that delivers less is paid less, and the others pay
    less. A deal that does not hold is refused, and so are payments that do not balance unless a sponsor is named. Where
    the scenario says nothing of money, amounts are units of payoff.

    A ledger is settled by what its members signed, in the money of the run; a run that did not finish pays nobody.
    """
    if output is not None:
        check_output(output, force=force, suffixes=(".csv", ".json"))
    chosen = read_scenario(scenario)
    options = {
        "--currency": currency,
        "--per-payoff": per_payoff,
        "--decimals": decimals,
        "--sponsor": sponsor,
        "--delivered": delivered,
    }
    run = _finished_run(deal, [option for option, given in options.items() if given is not None])
    with amounts_in(chosen.money):
        agreed = choose_deal(chosen.federation, deal, name, unchecked=unchecked, money=chosen.money)
    money = _money(currency, per_payoff) or chosen.money
    given = _delivered(agreed, delivered or [])
    if run is not None:  # as it stands there, in the order of its members
        agreed, given = run.stated_deal, run.delivered
    between = None  # where payments follow from the mechanism's rule at what was delivered
    if given is not None and agreed.prices is None and (given != agreed.contributions).any():
        rules = mechanism_named(agreed.mechanism) if name is None else choose_mechanism(name)
        between = rules.outcome_of(agreed, chosen.federation)
    if run is not None:
        settlement = run.settlement(between_members=between)
        money = _check_settled(run, settlement, deal)
    else:
        settlement = settle_deal(
            agreed,
            money=money,
            decimals=decimals,
            sponsor=sponsor,
            delivered=given,
            between_members=between,
            unchecked=unchecked,
        )
    if unchecked:
        say_unchecked(deal)
    if output is not None:
        (settlement.to_csv if output.suffix.lower() == ".csv" else settlement.to_json)(output)
    if as_json:
        terms = {
            "mechanism": agreed.mechanism,
            "agents": agreed.agents,
            "excluded": agreed.excluded,
            "side_payments": agreed.side_payments,
            "over_budget": [
                said.partition(" is asked for ")[0] for said in _over_budget(settlement, chosen.federation)
            ],
        }
        print_json(jsonable(terms) | settlement.record())
        return
    show_excluded(agreed)
    _show(settlement, agreed, chosen.unit)
    show_side_payments(agreed, Unit.of(money, agreed.payments))
    for sentence in _over_budget(settlement, chosen.federation):
        console.print(f"[red]{escape(terminal_text(sentence))}[/red]", soft_wrap=True)
    if output is not None:
        console.print(f"\nTransfers written to {escape(str(output))}", soft_wrap=True)


def _over_budget(settlement: Settlement, federation: Federation) -> Sequence[str]:
    """A sentence for everybody who is to pay more than its budget, beyond a cent."""
    cent = 1.0 / (settlement.per_payoff * 10**settlement.decimals)
    cents = dict.fromkeys(settlement.names, cent)

    def amount(payoff: float) -> str:
        return money_text(settlement, round(payoff / cent))

    return exceeded_budgets(federation, settlement.names, cent * np.array(settlement.cents), amount, cents)


def _money(currency: str | None, per_payoff: float | None) -> Money | None:
    if (currency is None) != (per_payoff is None):
        raise InvalidInput("--currency and --per-payoff belong together: give both, or neither")
    return None if currency is None or per_payoff is None else Money(currency=currency, per_payoff=per_payoff)


def _delivered(agreed: Deal, options: list[str]) -> FloatArray | None:
    """What was delivered as the options say; None where they say nothing."""
    for text in options:
        if "=" not in text:
            raise InvalidInput(f"--delivered must be NAME=AMOUNT, got {short_repr(text)}")
    return per_agent("--delivered", options, agreed.lot_labels, agreed.contributions) if options else None


# The ledger of a run, which is settled by what it holds


def _finished_run(path: Path | None, options: list[str]) -> CheckedLedger | None:
    """What a ledger holds, if the file is one; its record must hold, its run be finished, and no option beside it."""
    if path is None or not is_ledger(path):
        return None
    found = with_paid_shares(check_ledger(path))
    wrong = [claim for claim in found.failed if claim != FINISHED]
    if wrong:
        why = f"{quote_claim(wrong[0])}: {found.findings[wrong[0]].reason}"
        raise InvalidInput(f"{path}: this ledger does not hold: {why}; `fedpact check {path}` shows everything")
    if not found.is_finished:
        raise InvalidInput(
            f"{path}: nobody is paid: {found.findings[FINISHED].reason}. If the members agree to pay all the same: "
            f"`fedpact settle SCENARIO DEAL.json --delivered NAME=AMOUNT`, with the file of the deal"
        )
    if options:
        raise InvalidInput(
            f"{path}: a ledger is settled by what it holds, in the money of its run; leave out {join_names(options)}, "
            f"or settle the file of the deal"
        )
    return found


def _check_settled(run: CheckedLedger, due: Settlement, path: Path | None) -> Money | None:
    """The run's money, if it has any; raises `InvalidInput` unless the run was settled with what is due."""
    settled = run.entries[SETTLED].content["cents"]
    for name, cents in zip(due.names, due.cents, strict=True):
        if settled.get(name) != cents:
            raise InvalidInput(
                f'{path}: the run was settled with {short_repr(settled.get(name))} cents for "{name}", and {cents} are '
                f"due for what was delivered; `fedpact check {path}` shows everything"
            )
    return None if due.currency == PAYOFF_UNIT else Money(currency=due.currency, per_payoff=due.per_payoff)


def _show_delivered(settlement: Settlement, deal: Deal, data: str) -> None:
    if settlement.agreed is None or settlement.delivered is None or settlement.agreed_cents is None:
        return
    counted = f" ({data})" if data else ""
    given = [
        (escape(f"agreed{counted}"), number_texts(np.array(settlement.agreed))),
        (escape(f"delivered{counted}"), number_texts(np.array(settlement.delivered))),
    ]
    paid = [
        ("agreed pay", [cents_text(settlement, cents) for cents in settlement.agreed_cents]),
        ("is paid", [cents_text(settlement, cents) for cents in settlement.cents]),
    ]
    sizes, title = np.array(settlement.agreed), f"Agreed, delivered, paid ({settlement.currency})"
    if deal.has_lots:
        print_agents("Agreed and delivered", deal.lot_labels, given, sizes=sizes, kind="lot")
        print_agents(f"Paid ({settlement.currency})", deal.agents, paid, sizes=deal.payments)
    else:
        print_agents(title, deal.agents, [*given, *paid], sizes=sizes)


def _show(settlement: Settlement, deal: Deal, data: str) -> None:
    _show_delivered(settlement, deal, data)
    if not settlement.transfers:
        console.print("Nobody pays anybody.")
        return
    made = table(f"Transfers ({settlement.currency})", "from", "to", "amount")
    made.columns[1].justify = "left"
    for transfer in settlement.transfers:
        made.add_row(escape(transfer.payer), escape(transfer.payee), cents_text(settlement, transfer.cents))
    console.print(made)
    count = count_text(len(settlement.transfers), "transfer")
    proof = ", the fewest possible" if settlement.minimal else ""
    console.print(f"{count}{proof}; all balances add up to zero.")
