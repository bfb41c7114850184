"""`fedpact negotiate`: agents reach the deal of a mechanism by questions and answers, on record if wanted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.status import Status
from rich.text import Text
from typer import Option

from fedpact.cli import inputs, screen
from fedpact.cli.exit_codes import INTERRUPTED
from fedpact.deals import Deal
from fedpact.deals.deal import Event
from fedpact.deals.deal_file import deal_record
from fedpact.deals.diagnosis import exceeded_budgets, units_text
from fedpact.deals.transcript import read_transcript
from fedpact.negotiation import NEGOTIABLE, PROTOCOLS
from fedpact.negotiation import negotiate as negotiate_deal
from fedpact.negotiation.check import PAYMENT_TOLERANCE
from fedpact.report.numbers import Unit, number_text, number_texts
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import count_text

SETTLED_BY = {
    "personal prices": "at the personal prices",
    "message game": "by the message game",
    "Shapley shares": "by Shapley shares",
    "own payments": "by payments that everybody worked out for itself",
}
PROTOCOL_HELP = "; ".join(f"{name}: {each.reveals}" for name, each in PROTOCOLS.items())
WELFARE_WIDTH = 16  # characters
ALL_UP_TO = 10  # rounds: from there on every tenth, after 100 every hundredth


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

    Interrupted and started again with the same transcript, a negotiation goes on where it was.
    """
    chosen = inputs.read_scenario(scenario)
    inputs.check_picture(plot)
    rules = "" if mechanism == inputs.DEFAULT_MECHANISM else f" under {mechanism}"
    heading = (chosen.title or "Federation", f", negotiated{rules} by {protocol}")
    where = Console(stderr=True) if as_json else screen.console
    watched = sys.stderr.isatty() if as_json else where.is_terminal
    with where.status("negotiating") if watched else nullcontext() as status:
        unit = Unit.of(chosen.money, data=chosen.unit)
        rounds = Rounds(heading, unit, status, transcript=output, quiet=as_json)
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
        finally:
            rounds.flush()
    inputs.write_picture(deal, plot)
    files = [str(path) for path in (None if rounds.was_over else output, plot) if path is not None]
    if as_json:
        screen.print_json(deal_record(deal) | {"trace": jsonable(deal.trace), "files": files})
        return
    _show(deal, Unit.of(chosen.money, [deal.provenance.welfare], data=chosen.unit))
    if chosen.federation.joining_costs.any():
        screen.say("This welfare does not count joining costs; whoever would gain less than its own has refused.")
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
        prices = -deal.prices[deal.lot_places, np.arange(deal.lot_places.size)]
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
    by = SETTLED_BY[str(deal.provenance.settled_by)]
    screen.say(f"Welfare {welfare} after {rounds}; settled {by}, payments add up to zero.")
    for name, reason in deal.excluded.items():
        screen.say((f"{name} is out", "red"), f": {reason}.")


class Rounds:
    """A listener that shows a negotiation as lines on the terminal.

    Of many rounds some have a line; on a terminal the last line follows them all.

    Attributes
    ----------
    was_over
        Whether the transcript held a whole negotiation already.
    """

    def __init__(
        self, heading: tuple[str, str], unit: Unit, status: Status | None, *, transcript: Path | None, quiet: bool
    ) -> None:
        self._heading: tuple[str, str] | None = heading
        self._unit, self._status, self._transcript, self._quiet = unit, status, transcript, quiet
        self._waiting: Event | None = None
        self._begun = False
        self.was_over = False

    def __call__(self, event: Event) -> None:
        """Show what happened."""
        self.was_over |= event["event"] == "resumed" and event["over"]
        if self._quiet:
            return
        if self._heading is not None:
            screen.say((self._heading[0], "bold"), self._heading[1])
            self._heading = None
        if event["event"] != "round":
            self.flush()
            self._show_event(event)
        elif _has_line(event["round"]):
            self._print(event)
        else:
            self._waiting = event
            if self._status is not None:
                self._status.update(Text(self._line(event)))

    def flush(self) -> None:
        """Print the last round if it has no line yet."""
        if self._waiting is not None:
            self._print(self._waiting)

    def _print(self, event: Event) -> None:
        if not self._begun:
            worth = f"welfare ({self._unit.label if self._unit.is_money else 'payoff'})"
            head = f"{'round':>5}  {'residual':>9}  {worth:>{WELFARE_WIDTH}}"
            if event["prices"] is not None or event["residual"] is None:
                head += f"  prices, {self._unit.per_data}"
            screen.say()
            screen.say((head, "bold"))
        self._begun, self._waiting = True, None
        screen.say(self._line(event))

    def _line(self, event: Event) -> str:
        residual = "step back" if event["residual"] is None else f"{event['residual']:.1e}"
        welfare = (
            "undefined" if event["welfare"] is None else f"{event['welfare']:.8g}"
        )  # digits in which rounds differ
        if self._unit.is_money and event["welfare"] is not None:
            welfare = self._unit.column([event["welfare"]])[0]
        prices = ""
        if event["prices"] is not None:
            ends = (min(event["prices"]), max(event["prices"]))
            prices = "  " + " to ".join(number_text(price * self._unit.per_payoff + 0.0) for price in ends)
        return f"{event['round']:>5}  {residual:>9}  {welfare:>{WELFARE_WIDTH}}{prices}"

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


def _has_line(number: int) -> bool:
    step = 1 if number <= ALL_UP_TO else 10 if number <= 100 else 100
    return number % step == 0
