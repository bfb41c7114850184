"""`fedpact negotiate`: agents reach the deal of a mechanism by questions and answers, on record if wanted."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.status import Status

from fedpact.cli.common import (
    DEFAULT_EXAMPLE,
    AsJson,
    ScenarioArgument,
    Terminal,
    console,
    counter,
    escape,
    print_agents,
    print_json,
    read_scenario,
    table,
    terminal_text,
)
from fedpact.cli.exit_codes import INTERRUPTED
from fedpact.cli.pictures import check_picture, write_picture
from fedpact.deals import Deal
from fedpact.deals.deal import Event
from fedpact.deals.deal_file import deal_record
from fedpact.deals.diagnosis import exceeded_budgets, units_text
from fedpact.deals.transcript import read_transcript
from fedpact.federation import Federation
from fedpact.mechanisms import resolve_mechanism
from fedpact.negotiation import NEGOTIABLE, PROTOCOLS
from fedpact.negotiation import negotiate as negotiate_deal
from fedpact.negotiation.check import PAYMENT_TOLERANCE
from fedpact.report.numbers import Unit, number_text, number_texts
from fedpact.utils.errors import InvalidInput
from fedpact.utils.jsonl import jsonable
from fedpact.utils.tables import check_table_name, write_table
from fedpact.utils.words import count_text

LIE_HEADS = ("who lies", "others may leave", "gains", "costs x", "value x", "others' data x", "honest one loses")
SETTLED_BY = {
    "personal prices": "at the personal prices",
    "message game": "by the message game",
    "Shapley shares": "by Shapley shares",
    "own payments": "by payments that everybody worked out for itself",
}


def negotiate(
    scenario: ScenarioArgument = DEFAULT_EXAMPLE,
    mechanism: Annotated[
        str | None,
        typer.Option(
            "--mechanism",
            help=f"One of {', '.join(NEGOTIABLE)}; externality if not given. With --lies, any.",
            metavar="NAME",
        ),
    ] = None,
    protocol: Annotated[
        str, typer.Option("--protocol", help=f"One of {', '.join(PROTOCOLS)}.", metavar="NAME")
    ] = "price-discovery",
    least_gain: Annotated[
        str,
        typer.Option(
            "--least-gain",
            help="What everybody asks of the deal beyond training alone, in units of payoff; none to take any deal.",
            metavar="NUMBER",
        ),
    ] = "0",
    output: Annotated[
        Path | None,
        typer.Option(
            "--transcript",
            "--output",
            "-o",
            help="Keep the exchanges, as .jsonl; with --lies its numbers, as .csv.",
            metavar="FILE",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="The convergence, as .png, .svg or .pdf.", metavar="FILE")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Refuse to begin anew if there is no transcript to go on from.")
    ] = False,
    lies: Annotated[
        bool,
        typer.Option(
            "--lies", help="Instead: the lies that gain most, of one member and of two, as a search finds them."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Let the members negotiate a deal; each says only what it is asked about itself.

    Interrupted and started again with the same transcript, a negotiation goes on where it was.
    """
    chosen = read_scenario(scenario)
    if lies:
        if plot is not None:
            raise InvalidInput("--plot draws a negotiation, and --lies holds none; leave out one of them")
        _study_lies(chosen.federation, mechanism or "externality", output or Path("lies.csv"), as_json=as_json)
        return
    mechanism = mechanism or "externality"
    if plot is not None:
        check_picture(plot)
    if resume and output is None:
        raise InvalidInput("--resume needs the transcript to go on from; name it with --transcript")
    rules = "" if mechanism == "externality" else f" under {mechanism}"
    heading = f"[bold]{escape(chosen.title or 'Federation')}[/bold], negotiated{escape(rules)} by {escape(protocol)}"
    with status_line(quiet=as_json) as status:
        rounds = Rounds(heading, Unit.of(chosen.money, data=chosen.unit), status, transcript=output, quiet=as_json)
        try:
            deal = negotiate_deal(
                chosen.federation,
                mechanism=mechanism,
                protocol=protocol,
                least_gain=_asked_gain(least_gain),
                transcript=output,
                resume=resume or None,
                title=chosen.title,
                listener=rounds,
            )
        except KeyboardInterrupt:
            typer.echo(f"interrupted; {_kept(output)}", err=True)
            raise typer.Exit(INTERRUPTED) from None
        finally:
            rounds.flush()
    if plot is not None:
        write_picture(deal.plot(), plot)
    files = [str(path) for path in (None if rounds.was_over else output, plot) if path is not None]
    if as_json:
        print_json(deal_record(deal) | {"trace": jsonable(deal.trace), "files": files})
        return
    _show(deal, Unit.of(chosen.money, [deal.provenance.welfare], data=chosen.unit))
    if chosen.federation.joining_costs.any():
        console.print(
            "This welfare does not count joining costs. Members that would gain less than these have refused."
        )
    amount = chosen.money.text if chosen.money is not None else units_text
    rounding = dict.fromkeys(deal.agents, PAYMENT_TOLERANCE * deal.turnover)
    for sentence in exceeded_budgets(chosen.federation, deal.agents, deal.payments, amount, rounding):
        console.print(
            f"[red]{escape(sentence)}[/red] Negotiations do not know budgets; fedpact solve -m fair keeps them."
        )
    if files:
        console.print(f"\nWritten: {escape(', '.join(files))}", soft_wrap=True)


def _asked_gain(given: str) -> float | None:
    """What members ask of a deal; None if they take any."""
    if given == "none":
        return None
    try:
        number = float(given)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput(f"--least-gain must be a number in units of payoff, or none, got {given!r:.40}")
    return number


def _kept(transcript: Path | None) -> str:
    """What an interruption leaves, in words."""
    if transcript is None or not transcript.exists():
        return "nothing is kept; --transcript FILE would keep the exchanges"
    kept = read_transcript(transcript).count
    return f"{kept} exchanges are kept in {transcript}, the same command goes on from there"


def _show(deal: Deal, unit: Unit) -> None:
    console.print()
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
        print_agents(title, lots, of_lots, sizes=deal.contributions, kind="lot")
        console.print()
        print_agents("Members", names, paid, sizes=np.abs(deal.payments))
    else:
        print_agents(title, names, [*of_lots, *paid], sizes=deal.contributions)
    by = SETTLED_BY[str(deal.provenance.settled_by)]
    welfare, rounds = escape(terminal_text(unit.text(deal.provenance.welfare))), count_text(deal.rounds, "round")
    console.print(f"Welfare {welfare} after {rounds}; settled {by}, payments add up to zero.")
    for name, reason in deal.excluded.items():
        console.print(f"[red]{escape(name)} is out[/red]: {escape(reason)}.")


def _study_lies(federation: Federation, mechanism: str, numbers: Path, *, as_json: bool) -> None:
    """What lying would gain: a page on the terminal, its numbers as a file."""
    from fedpact.comparison.lies import lie_study  # noqa: PLC0415 - only for studies

    check_table_name(numbers)
    with counter("members and pairs") as count:
        found = lie_study(federation, mechanism, progress=count)
    rules = resolve_mechanism(mechanism)
    rows = [{"mechanism": rules.name, **lie.row()} for lie in found]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    write_table(numbers, columns)
    if as_json:
        print_json({"study": "lies", "columns": jsonable(columns), "files": [str(numbers)]})
        return
    made = table(f"What the worst lies gain under {rules.title}", *LIE_HEADS)
    for row in rows:
        cells = [f"{row['gain']:.4g}", row["costs"], row["values"], row["weights"], f"{row['lowest']:.4g}"]
        leaves = "yes" if row["refusal"] else "no"
        made.add_row(escape(row["agents"]), leaves, *(cells if row["gain"] > 0 else ["none found"]))
    console.print(made)
    console.print(
        "Who lies says its costs, its value and how useful others' data is to it times these factors; below zero it "
        "claims harm. Amounts are in units of payoff; the last is how far an honest member falls below standing alone. "
        "These are the lies that a search found. That it finds none proves nothing."
    )
    console.print(f"\nWritten: {escape(str(numbers))}", soft_wrap=True)


WELFARE_WIDTH = 16  # characters
ALL_UP_TO = 10  # rounds: from there on every tenth, after 100 every hundredth


class Rounds:
    """A listener that shows a negotiation as lines on the terminal.

    Of many rounds some have a line; on a terminal the last line follows them all.

    Attributes
    ----------
    was_over
        Whether the transcript held a whole negotiation already.
    """

    def __init__(
        self, heading: str, unit: Unit, status: Status | None, *, transcript: Path | None = None, quiet: bool = False
    ) -> None:
        self._heading, self._unit, self._status = heading, unit, status
        self._transcript, self._quiet = transcript, quiet
        self._waiting: Event | None = None
        self._begun = False
        self.was_over = False

    def __call__(self, event: Event) -> None:
        """Show what happened."""
        self.was_over |= event["event"] == "resumed" and event["over"]
        if self._quiet:
            return
        if self._heading:
            console.print(self._heading)
            self._heading = ""
        if event["event"] == "round":
            self._show_round(event)
            return
        self.flush()
        line = self._event_line(event)
        if line:
            console.print(line)

    def flush(self) -> None:
        """Print the last round if it has no line yet."""
        if self._waiting is not None:
            self._print(self._waiting)

    def _show_round(self, event: Event) -> None:
        if _has_line(event["round"]):
            self._print(event)
            return
        self._waiting = event
        if self._status is not None:
            self._status.update(self._line(event))

    def _print(self, event: Event) -> None:
        if not self._begun:
            worth = f"welfare ({self._unit.label if self._unit.is_money else 'payoff'})"
            head = f"{'round':>5}  {'residual':>9}  {worth:>{WELFARE_WIDTH}}"
            if event["prices"] is not None or event["residual"] is None:
                head += f"  prices, {self._unit.per_data}"
            console.print(f"\n[bold]{escape(head)}[/bold]")
        self._begun, self._waiting = True, None
        console.print(self._line(event))

    def _line(self, event: Event) -> str:
        residual = "step back" if event["residual"] is None else f"{event['residual']:.1e}"
        welfare = "undefined" if event["welfare"] is None else self._amount(event["welfare"])
        prices = "" if event["prices"] is None else f"  {self._range(event['prices'])}"
        return f"{event['round']:>5}  {residual:>9}  {welfare:>{WELFARE_WIDTH}}{prices}"

    def _amount(self, welfare: float) -> str:
        """Money as everywhere; payoffs with the digits in which rounds differ."""
        return terminal_text(self._unit.column([welfare])[0]) if self._unit.is_money else f"{welfare:.8g}"

    def _range(self, prices: Sequence[float]) -> str:
        ends = (number_text(price * self._unit.per_payoff + 0.0) for price in (min(prices), max(prices)))
        return terminal_text(" to ".join(ends))

    def _event_line(self, event: Event) -> str | None:
        """An event that is no round, in words."""
        agent, reason = escape(str(event.get("agent"))), escape(str(event.get("reason")))
        match event["event"]:
            case "resumed":
                what = "This negotiation is over, after" if event["over"] else "Going on after"
                return f"{what} {event['exchanges']} exchanges that are in {escape(str(self._transcript))}."
            case "asked again":
                return f"{agent} is asked again: {reason}"
            case "excluded":
                return f"[red]{agent} is out[/red]: {reason}. The others continue without it."
            case "masks opened":
                return f"Round {event['round']} is void, its masks are opened: {reason}"
            case "no game":
                return f"Settled at personal prices: {reason}."
        return None


@contextmanager
def status_line(*, quiet: bool) -> Iterator[Status | None]:
    """The line that follows a negotiation, where somebody watches: on standard error if the output is for a program."""
    where = Terminal(stderr=True) if quiet else console
    if not (sys.stderr.isatty() if quiet else console.is_terminal):
        yield None
        return
    with where.status("negotiating") as status:
        yield status


def _has_line(number: int) -> bool:
    step = 1 if number <= ALL_UP_TO else 10 if number <= 100 else 100
    return number % step == 0
