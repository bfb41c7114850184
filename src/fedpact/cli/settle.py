"""`fedpact settle`: payments as money, in exact cents and as few transfers as possible."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedpact.cli.common import (
    DEFAULT_EXAMPLE,
    AsJson,
    Force,
    MechanismOption,
    ScenarioArgument,
    check_output,
    choose_mechanism,
    console,
    print_json,
    read_scenario,
    table,
)
from fedpact.deals import Settlement
from fedpact.deals.deal_file import read_deal
from fedpact.deals.settlement import settle_payments
from fedpact.report.numbers import cents_text
from fedpact.utils.errors import InvalidInput
from fedpact.utils.words import count_text

__all__ = ["settle"]


def settle(
    scenario: ScenarioArgument = DEFAULT_EXAMPLE,
    deal: Annotated[
        Path | None, typer.Argument(help="A deal of `fedpact solve --json`, or a transcript; solved anew if not given.")
    ] = None,
    name: MechanismOption = "externality",
    currency: Annotated[str | None, typer.Option("--currency", help="The scenario's by default.")] = None,
    per_payoff: Annotated[
        float | None, typer.Option("--per-payoff", help="Money per unit of payoff; the scenario's by default.")
    ] = None,
    decimals: Annotated[int, typer.Option("--decimals", help="Digits after the point.", min=0, max=9)] = 2,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", "-o", help="Write the ledger to a .csv or .json file.", metavar="FILE")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Turn a mechanism's payments into transfers of money between the agents."""
    if ledger is not None:
        check_output(ledger, force=force)
    chosen = read_scenario(scenario)
    names = chosen.federation.names
    if deal is None:
        payments = choose_mechanism(name).solve(chosen.federation).payments.tolist()
    else:
        name, _, payments = read_deal(deal, names)
    money = chosen.money
    settlement = settle_payments(
        payments,
        names=names,
        per_payoff=per_payoff if per_payoff is not None else (money.per_payoff if money else 1.0),
        currency=currency if currency is not None else (money.currency if money else "EUR"),
        decimals=decimals,
    )
    if ledger is not None:
        _write(settlement, ledger)
    if as_json:
        print_json({"mechanism": name, "agents": list(names)} | settlement.record())
        return
    _show(settlement)
    if ledger is not None:
        console.print(f"\nLedger written to {escape(str(ledger))}", soft_wrap=True)


def _write(settlement: Settlement, path: Path) -> None:
    writers = {".csv": settlement.to_csv, ".json": settlement.to_json}
    if path.suffix.lower() not in writers:
        raise InvalidInput(f"--ledger must name a .csv or .json file, got {str(path)!r}")
    writers[path.suffix.lower()](path)


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
