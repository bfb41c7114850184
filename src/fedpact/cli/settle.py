"""`fedpact settle`: payments as money, in exact cents and few transfers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Option

from fedpact.certificates.claims import quote_claim
from fedpact.cli import inputs, screen
from fedpact.cli.per_agent import per_agent
from fedpact.cli.solve import say_side_payments
from fedpact.deals import Deal, Settlement, is_ledger
from fedpact.deals import settle as settle_deal
from fedpact.deals.diagnosis import exceeded_budgets
from fedpact.deals.ledger import SETTLED
from fedpact.deals.settlement import PAYOFF_UNIT
from fedpact.federation import Federation
from fedpact.fitting.delivery import check_run
from fedpact.mechanisms import mechanism_named
from fedpact.negotiation.check import FINISHED, CheckedLedger
from fedpact.report.numbers import Unit, cents_text, money_text, number_texts
from fedpact.scenario import Money
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import DealFails, InvalidInput, short_repr
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import count_text, join_names


def settle(
    scenario: inputs.ScenarioArgument = inputs.DEFAULT_EXAMPLE,
    deal: inputs.DealArgument = None,
    name: inputs.DealMechanism = None,
    sponsor: Annotated[
        str | None, Option("--sponsor", help="Somebody outside the deal who covers what does not balance.")
    ] = None,
    delivered: Annotated[
        list[str] | None,
        Option("--delivered", help="What was delivered, if less than agreed; may repeat.", metavar="NAME=AMOUNT"),
    ] = None,
    output: Annotated[Path | None, Option("--output", "-o", help="The transfers, as .csv or .json.")] = None,
    force: inputs.Force = False,
    unchecked: inputs.Unchecked = False,
    as_json: inputs.AsJson = False,
) -> None:
    """Turn the payments of a deal into transfers of money between the members.

    What was delivered is paid for, at the prices agreed: a member that delivers less is paid less, and the others pay
    less. A deal that does not hold is refused, and so are payments that do not balance unless a sponsor is named.
    Amounts are in the scenario's money; where it says nothing of money, in units of payoff.

    A ledger is settled by what its members signed, in the money of the run; a run that did not finish pays nobody.
    """
    inputs.check_output(output, force=force, suffixes=(".csv", ".json"))
    chosen = inputs.read_scenario(scenario)
    options = {"--sponsor": sponsor, "--delivered": delivered}
    run = _finished_run(deal, [option for option, given in options.items() if given is not None])
    agreed = inputs.choose_deal(chosen, deal, name, unchecked=unchecked, ledger=run)
    money, given = chosen.money, _delivered(agreed, delivered or [])
    if run is not None:  # as it stands there, in the order of its members
        agreed, given = run.stated_deal, run.delivered
    between = None  # where payments follow from the mechanism's rule at what was delivered
    if given is not None and agreed.prices is None and (given != agreed.contributions).any():
        rules = mechanism_named(agreed.mechanism) if name is None else inputs.choose_mechanism(name)
        between = rules.outcome_of(agreed, chosen.federation)
    if run is not None:
        settlement = run.settlement(between_members=between)
        money = _check_settled(run, settlement, deal)
    else:
        settlement = settle_deal(
            agreed, money=money, sponsor=sponsor, delivered=given, between_members=between, unchecked=unchecked
        )
    if output is not None:
        (settlement.to_csv if output.suffix.lower() == ".csv" else settlement.to_json)(output)
    inputs.say_unchecked(deal, unchecked=unchecked)
    over = _over_budget(settlement, chosen.federation)
    if as_json:
        terms = {
            "mechanism": agreed.mechanism,
            "agents": agreed.agents,
            "excluded": agreed.excluded,
            "side_payments": agreed.side_payments,
            "over_budget": [said.partition(" is asked for ")[0] for said in over],
        }
        screen.print_json(jsonable(terms) | settlement.record())
        return
    if deal is None and name is None:
        screen.say(f"The deal that fedpact compare recommends, under {agreed.mechanism}.")
    screen.say_excluded(agreed)
    _show(settlement, agreed, chosen.unit)
    say_side_payments(agreed, Unit.of(money, agreed.payments))
    for sentence in over:
        screen.say((sentence, "red"), path=True)
    if output is not None:
        screen.say()
        screen.say(f"Transfers written to {output}", path=True)


def _over_budget(settlement: Settlement, federation: Federation) -> Sequence[str]:
    """A sentence for everybody who is to pay more than its budget, beyond a cent."""
    cent = 1.0 / (settlement.per_payoff * 10**settlement.decimals)
    cents = dict.fromkeys(settlement.names, cent)

    def amount(payoff: float) -> str:
        return money_text(settlement, round(payoff / cent))

    return exceeded_budgets(federation, settlement.names, cent * np.array(settlement.cents), amount, cents)


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
    found = check_run(path)
    wrong = [claim for claim in found.failed if claim != FINISHED]
    if wrong:
        why = f"{quote_claim(wrong[0])}: {found.findings[wrong[0]].reason}"
        raise DealFails(f"{path}: this ledger does not hold: {why}; `fedpact check {path}` shows everything")
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
    counted, sizes = f" ({data})" if data else "", np.array(settlement.agreed)
    given = [
        (f"agreed{counted}", number_texts(sizes)),
        (f"delivered{counted}", number_texts(np.array(settlement.delivered))),
    ]
    paid = [
        ("agreed pay", [cents_text(settlement, cents) for cents in settlement.agreed_cents]),
        ("is paid", [cents_text(settlement, cents) for cents in settlement.cents]),
    ]
    if deal.has_lots:
        screen.print_agents("Agreed and delivered", deal.lot_labels, given, sizes=sizes, kind="lot")
        screen.print_agents(f"Paid ({settlement.currency})", deal.agents, paid, sizes=deal.payments)
    else:
        title = f"Agreed, delivered, paid ({settlement.currency})"
        screen.print_agents(title, deal.agents, [*given, *paid], sizes=sizes)


def _show(settlement: Settlement, deal: Deal, data: str) -> None:
    _show_delivered(settlement, deal, data)
    if not settlement.transfers:
        screen.say("Nobody pays anybody.")
        return
    rows = [(each.payer, each.payee, cents_text(settlement, each.cents)) for each in settlement.transfers]
    screen.print_rows(f"Transfers ({settlement.currency})", ("from", "to", "amount"), rows, words=("to",))
    count, proof = count_text(len(rows), "transfer"), ", the fewest possible" if settlement.minimal else ""
    screen.say(f"{count}{proof}; all balances add up to zero.")
