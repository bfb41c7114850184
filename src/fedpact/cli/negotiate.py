"""`fedpact negotiate`: agents reach the deal of a mechanism by questions and answers, on record if wanted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from typer import Option

from fedpact.cli import inputs, screen
from fedpact.cli.app import INTERRUPTED
from fedpact.deals import Deal
from fedpact.deals.deal import Event
from fedpact.deals.deal_file import deal_record
from fedpact.deals.diagnosis import exceeded_budgets, units_text
from fedpact.deals.transcript import read_transcript
from fedpact.negotiation import NEGOTIABLE, PROTOCOLS
from fedpact.negotiation import negotiate as negotiate_deal
from fedpact.negotiation.check import PAYMENT_TOLERANCE
from fedpact.negotiation.session import SettledBy
from fedpact.report.numbers import Unit, number_text, number_texts
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import count_text

PROTOCOL_HELP = "; ".join(f"{name}: {each.reveals}" for name, each in PROTOCOLS.items())


def negotiate(
    scenario: inputs.ScenarioArgument = inputs.DEFAULT_EXAMPLE,
    mechanism: Annotated[
        str, Option("--mechanism", "-m", help=f"One of {', '.join(NEGOTIABLE)}.")
    ] = inputs.DEFAULT_MECHANISM,
    protocol: Annotated[str, Option("--protocol", help=PROTOCOL_HELP)] = "price-discovery",
    output: Annotated[
        Path | None, Option("--transcript", "--output", "-o", help="Keep the exchanges, as .jsonl.")
    ] = None,
    plot: inputs.Picture = None,
    as_json: inputs.AsJson = False,
) -> None:
    """Let the members negotiate a deal; each says only what it is asked about itself.

    If you interrupt a negotiation, the same command with the same transcript goes on where it stopped.
    """
    chosen = inputs.read_scenario(scenario)
    inputs.check_picture(plot)
    rules = "" if mechanism == inputs.DEFAULT_MECHANISM else f" under {mechanism}"
    heading = (chosen.title or "Federation", f", negotiated{rules} by {protocol}")
    rounds = Rounds(heading, Unit.of(chosen.money, data=chosen.unit), transcript=output, quiet=as_json)
    where = Console(stderr=True) if as_json else screen.console
    with where.status("negotiating") if where.is_terminal else nullcontext():
        try:
            deal = negotiate_deal(
                chosen.federation,
                mechanism=mechanism,
                protocol=protocol,
                transcript=output,
                title=chosen.title,
                listener=rounds,
            )
        except KeyboardInterrupt:
            typer.echo(f"interrupted; {_kept(output)}", err=True)
            raise typer.Exit(INTERRUPTED) from None
    inputs.write_picture(deal, plot)
    files = [str(path) for path in (None if rounds.was_over else output, plot) if path is not None]
    if as_json:
        screen.print_json(deal_record(deal) | {"trace": jsonable(deal.trace), "files": files})
        return
    _show(deal, Unit.of(chosen.money, [deal.provenance.welfare], data=chosen.unit))
    if chosen.federation.joining_costs.any():
        screen.say("This welfare is before joining costs; a member whose gain is below its own has refused.")
    if deal.excluded:
        screen.say("Another deal may be better for all: fedpact compare says which one it recommends.")
    amount = chosen.money.text if chosen.money is not None else units_text
    rounding = dict.fromkeys(deal.agents, PAYMENT_TOLERANCE * deal.turnover)
    for sentence in exceeded_budgets(chosen.federation, deal.agents, deal.payments, amount, rounding):
        screen.say((sentence, "red"), " Negotiations do not know budgets; fedpact solve -m fair keeps them.")
    screen.say_written(files)


def _kept(transcript: Path | None) -> str:
    """What an interruption leaves, in words."""
    if transcript is None or not transcript.exists():
        return "nothing is kept; --transcript FILE would keep the exchanges"
    kept = read_transcript(transcript).count
    return f"{kept} exchanges are kept in {transcript}, the same command goes on from there"


def _show(deal: Deal, unit: Unit) -> None:
    screen.say()
    out = [name in deal.excluded for name in deal.agents]
    of_lots: list[tuple[str, Sequence[str]]] = [("contributes", number_texts(deal.contributions))]
    if deal.prices is not None:
        prices = -deal.prices[deal.lot_owner_indices, np.arange(deal.lot_owner_indices.size)]
        gone = [owner in deal.excluded for owner in deal.lot_owners or deal.agents]
        of_lots.append(("price", np.where(gone, "-", unit.column(prices)).tolist()))
    paid = [("is paid", np.where(out, "-", unit.column(deal.payments, signed=True)).tolist())]
    if deal.side_payments is not None and deal.side_payments.any():
        paid.append(("of it fixed", np.where(out, "-", unit.column(deal.side_payments, signed=True)).tolist()))
    title = f"Deal ({unit.of_deal(has_prices=deal.prices is not None)})"
    names = [f"{name} (out)" if gone else name for name, gone in zip(deal.agents, out, strict=True)]
    if deal.has_lots:
        owners = zip(deal.lot_labels, deal.lot_owners or (), strict=True)
        lots = [f"{name} (out)" if owner in deal.excluded else name for name, owner in owners]
        screen.print_agents(title, lots, of_lots, sizes=deal.contributions, kind="lot")
        screen.say()
        screen.print_agents("Members", names, paid, sizes=np.abs(deal.payments))
    else:
        screen.print_agents(title, names, [*of_lots, *paid], sizes=deal.contributions)
    welfare, rounds = unit.text(deal.provenance.welfare), count_text(deal.rounds, "round")
    by = SettledBy(str(deal.provenance.settled_by)).sentence
    screen.say(f"Welfare {welfare} after {rounds}; settled {by}, payments add up to zero.")
    for name, reason in deal.excluded.items():
        screen.say((f"{name} is out", "red"), f": {reason}.")


class Rounds:
    """A listener that shows a negotiation as lines on the terminal.

    Attributes
    ----------
    was_over
        Whether the transcript held a whole negotiation already.
    """

    def __init__(self, heading: tuple[str, str], unit: Unit, *, transcript: Path | None, quiet: bool) -> None:
        self._heading, self._unit, self._transcript, self._quiet = heading, unit, transcript, quiet
        self._has_heading = self._has_heads = False
        self.was_over = False

    def __call__(self, event: Event) -> None:
        """Show what happened."""
        self.was_over |= event["event"] == "resumed" and event["over"]
        if self._quiet:
            return
        if not self._has_heading:
            screen.say((self._heading[0], "bold"), self._heading[1])
            self._has_heading = True
        if event["event"] == "round":
            self._show_round(event)
        else:
            self._show_event(event)

    def _show_round(self, event: Event) -> None:
        unit, prices = self._unit, event["prices"]
        if not self._has_heads:
            worth = f"welfare ({unit.label if unit.is_money else 'payoff'})"
            head = f"{'round':>5}  {'residual':>9}  {worth:>16}"
            screen.say()
            screen.say((head + ("" if prices is None else f"  prices, {unit.per_data}"), "bold"))
            self._has_heads = True
        residual = "step back" if event["residual"] is None else f"{event['residual']:.1e}"
        welfare = "undefined"
        if event["welfare"] is not None:  # in digits in which rounds differ
            welfare = unit.column([event["welfare"]])[0] if unit.is_money else f"{event['welfare']:.8g}"
        line = f"{event['round']:>5}  {residual:>9}  {welfare:>16}"
        if prices is not None:
            ends = (number_text(price * unit.per_payoff + 0.0) for price in (min(prices), max(prices)))
            line += f"  {' to '.join(ends)}"
        screen.say(line)

    def _show_event(self, event: Event) -> None:
        """An event that is no round, in words."""
        agent, reason = str(event.get("agent")), str(event.get("reason"))
        match event["event"]:
            case "resumed":
                what = "This negotiation is over, after" if event["over"] else "Going on after"
                screen.say(f"{what} {event['exchanges']} exchanges that are in {self._transcript}.")
            case "asked again":
                screen.say(f"{agent} is asked again: {reason}")
            case "excluded":
                screen.say((f"{agent} is out", "red"), f": {reason}. The others continue without it.")
            case "no game":
                screen.say(f"Settled at personal prices: {reason}.")
