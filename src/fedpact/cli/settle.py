"""`fedpact settle`: payments as money, in exact cents and as few transfers as possible."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedpact.cli.common import (
    DEFAULT_EXAMPLE,
    AsJson,
    Force,
    ScenarioArgument,
    check_output,
    console,
    escape,
    print_json,
    read_scenario,
    table,
)
from fedpact.cli.deals import DealArgument, DealMechanism, Unchecked, choose_deal
from fedpact.deals import Settlement
from fedpact.deals import settle as settle_deal
from fedpact.deals.settlement import MONEY_DECIMALS, PAYOFF_DECIMALS
from fedpact.report.numbers import cents_text
from fedpact.scenario import Money
from fedpact.utils.errors import InvalidInput
from fedpact.utils.words import count_text


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
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the transfers, as .csv or .json.", metavar="FILE")
    ] = None,
    ledger: Annotated[Path | None, typer.Option("--ledger", hidden=True, help="The former name of --output.")] = None,
    force: Force = False,
    unchecked: Unchecked = False,
    as_json: AsJson = False,
) -> None:
    """Turn the payments of a deal into transfers of money between the agents.

    A deal that does not hold is refused, and so are payments that do not balance unless a sponsor is named. Where
    the scenario says nothing of money, amounts are units of payoff.
    """
    path = output or ledger
    if path is not None:
        check_output(path, force=force, suffixes=(".csv", ".json"))
    chosen = read_scenario(scenario)
    agreed = choose_deal(chosen.federation, deal, name, unchecked=unchecked, money=chosen.money)
    money = _money(currency, per_payoff) or chosen.money
    settlement = settle_deal(agreed, money=money, decimals=decimals, sponsor=sponsor)
    if path is not None:
        (settlement.to_csv if path.suffix.lower() == ".csv" else settlement.to_json)(path)
    if as_json:
        print_json({"mechanism": agreed.mechanism, "agents": list(agreed.agents)} | settlement.record())
        return
    _show(settlement)
    if path is not None:
        console.print(f"\nTransfers written to {escape(str(path))}", soft_wrap=True)


def _money(currency: str | None, per_payoff: float | None) -> Money | None:
    if (currency is None) != (per_payoff is None):
        raise InvalidInput("--currency and --per-payoff belong together: give both, or neither")
    return None if currency is None or per_payoff is None else Money(currency=currency, per_payoff=per_payoff)


def _show(settlement: Settlement) -> None:
    if not settlement.transfers:
        console.print("Nobody pays anybody.")
        return
    made = table(f"Transfers ({settlement.currency})", "from", "to", "amount")
    made.columns[1].justify = "left"
    for transfer in settlement.transfers:
        made.add_row(escape(transfer.payer), escape(transfer.payee), cents_text(settlement, transfer.cents))
    console.print(made)
    count = count_text(len(settlement.transfers), "transfer")
    proof = "the fewest possible" if settlement.minimal else "perhaps not the fewest possible"
    console.print(f"{count}, {proof}; all balances add up to zero.")
