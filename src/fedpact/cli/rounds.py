"""The rounds of a negotiation on the terminal, as they happen: residual, welfare, and prices."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.status import Status

from fedpact.cli.common import Terminal, console, escape, terminal_text
from fedpact.deals.deal import Event
from fedpact.report.numbers import Unit, number_text

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
                head += f"  {price_heading(self._unit, 'prices')}, {self._unit.label}"
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
        return " to ".join(price_text(price, self._unit) for price in (min(prices), max(prices)))

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


def price_heading(unit: Unit, what: str = "price") -> str:
    """What a price is for: one of the units that data is counted in."""
    return f"{what} per unit ({unit.data})" if unit.data else f"{what} per sample"


def price_text(price: float, unit: Unit) -> str:
    """A price with four significant digits."""
    return terminal_text(number_text(price * unit.per_payoff + 0.0))


def _has_line(number: int) -> bool:
    step = 1 if number <= ALL_UP_TO else 10 if number <= 100 else 100
    return number % step == 0
