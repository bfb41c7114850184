"""The rounds of a negotiation on the terminal, as they happen: residual, welfare, and the prices on the table."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.status import Status

from fedpact.cli.common import console, terminal_text
from fedpact.deals.deal import Event
from fedpact.negotiation import Channel
from fedpact.report.numbers import Unit, number_text
from fedpact.utils.arrays import FloatArray

__all__ = ["Overheard", "Rounds", "price_text", "status_line"]

ALL_UP_TO = 10  # rounds: from there on every tenth, after 100 every hundredth


class Overheard:
    """A channel that passes everything on, and keeps what the others would pay for one more sample of each agent's.

    These are the marginal prices agents name in price discovery, and those the coordinator names in consensus.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._prices = np.zeros((len(channel.names), len(channel.names)))

    @property
    def names(self) -> Sequence[str]:
        """The agents' names."""
        return self._channel.names

    @property
    def prices(self) -> FloatArray:
        """By agent: what all the others together pay per sample."""
        return self._prices.sum(axis=0) - np.diag(self._prices)

    def ask(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        """What the channel brings back."""
        answers = self._channel.ask(questions)
        for place, question in questions.items():
            said = {"prices": answers.get(place), "proximal": question}.get(question["kind"])
            named = self._named(said)
            if named is not None:
                self._prices[place] = named
        return answers

    def forget(self, name: str) -> None:
        """Somebody is out: nobody pays it, and it pays nobody."""
        place = list(self.names).index(name)
        self._prices[place, :] = self._prices[:, place] = 0.0

    def _named(self, said: Any) -> FloatArray | None:
        """The prices in an answer that may be broken."""
        try:
            named = np.asarray(said["prices"], dtype=np.float64)
        except (KeyError, TypeError, ValueError):
            return None
        return named if named.shape == self._prices[0].shape and np.isfinite(named).all() else None


class Rounds:
    """What happens in a negotiation as lines on the terminal.

    Of many rounds some have a line; on a terminal the last line follows them all.
    """

    def __init__(self, overheard: Overheard, unit: Unit, status: Status | None) -> None:
        self._overheard, self._unit, self._status = overheard, unit, status
        self._waiting: Event | None = None
        self._begun = False

    def __call__(self, event: Event) -> None:
        """Tell what happened."""
        match event["event"]:
            case "round":
                self._round(event)
                return
            case "excluded":
                self._overheard.forget(event["agent"])
        self.flush()
        line = _told(event)
        if line:
            console.print(line)

    def flush(self) -> None:
        """Print the last round if it has no line yet."""
        if self._waiting is not None:
            self._print(self._waiting)

    def _round(self, event: Event) -> None:
        if _has_line(event["round"]):
            self._print(event)
            return
        self._waiting = event
        if self._status is not None:
            self._status.update(self._line(event))

    def _print(self, event: Event) -> None:
        if not self._begun:
            head = f"{'round':>5}  {'residual':>9}  {'welfare':>12}  prices per sample ({self._unit.label})"
            console.print(f"[bold]{escape(head)}[/bold]")
        self._begun, self._waiting = True, None
        console.print(self._line(event))

    def _line(self, event: Event) -> str:
        residual = "step back" if event["residual"] is None else f"{event['residual']:.1e}"
        welfare = "undefined" if event["welfare"] is None else f"{event['welfare']:.8g}"
        prices = self._overheard.prices
        lowest, highest = (price_text(float(price), self._unit) for price in (prices.min(), prices.max()))
        return f"{event['round']:>5}  {residual:>9}  {welfare:>12}  {lowest} to {highest}"


@contextmanager
def status_line(*, quiet: bool) -> Iterator[Status | None]:
    """The line that follows a negotiation, where somebody watches: on standard error if the output is for a program."""
    where = Console(stderr=True) if quiet else console
    if not (sys.stderr.isatty() if quiet else console.is_terminal):
        yield None
        return
    with where.status("negotiating") as status:
        yield status


def price_text(price: float, unit: Unit) -> str:
    """A price with four significant digits."""
    return terminal_text(number_text(price * unit.per_payoff + 0.0))


def _has_line(number: int) -> bool:
    step = 1 if number <= ALL_UP_TO else 10 if number <= 100 else 100
    return number % step == 0


def _told(event: Event) -> str | None:
    """An event that is no round, in words."""
    agent, reason = escape(str(event.get("agent"))), escape(str(event.get("reason")))
    return {
        "asked again": f"{agent} is asked again: {reason}",
        "excluded": f"[red]{agent} is out[/red]: {reason}. The others go on.",
        "own messages": f"{agent} sends final messages of its own",
        "no game": f"The message game does not apply: {reason}",
    }.get(event["event"])
