"""The deal a command is given, read for its scenario and held to what it promises."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fedpact.cli.common import MECHANISM_NAMES, Terminal, choose_mechanism, escape
from fedpact.deals import Deal, load_deal
from fedpact.deals.deal import TRAINS_ALONE
from fedpact.federation import Federation
from fedpact.mechanisms import MECHANISMS
from fedpact.negotiation.check import CheckedDeal, check_deal, check_solved
from fedpact.scenario import Money
from fedpact.utils.errors import InvalidInput, error_context

DEFAULT_MECHANISM = "externality"

DealArgument = Annotated[
    Path | None,
    typer.Argument(
        help="A deal: a file of `fedpact solve -o`, of `fedpact negotiate` or of the explorer, or a ledger; solved "
        "anew if not given."
    ),
]
DealMechanism = Annotated[
    str | None,
    typer.Option(
        "--mechanism",
        "-m",
        help=f"One of {MECHANISM_NAMES}; {DEFAULT_MECHANISM} if not given. Of a file with several deals, which one.",
        metavar="NAME",
        show_default=False,
    ),
]
Unchecked = Annotated[
    bool,
    typer.Option(
        "--unchecked", help="Take the deal as it stands in the file: its numbers and its scenario are not checked."
    ),
]


def choose_deal(
    federation: Federation,
    path: Path | None,
    name: str | None,
    *,
    unchecked: bool = False,
    money: Money | None = None,
) -> Deal:
    """The deal to carry out: that of a file, or the one that a mechanism makes.

    Parameters
    ----------
    name
        The mechanism that makes it; of a file with several deals, which one.
    unchecked
        Whether to take a deal that does not hold, or is one of another scenario.
    money
        What payoff is worth, where the scenario says it.

    Raises
    ------
    InvalidInput
        If the deal is one of another scenario, or does not hold, with the difference.
    """
    rules = None if name is None else choose_mechanism(name)
    if path is None:
        usual = rules or choose_mechanism(DEFAULT_MECHANISM)
        if unchecked:
            return usual.solve(federation).deal
        return _held(check_solved(usual, federation, money=money), f"the deal of {usual.name}", f"-m {usual.name}")
    stated = load_deal(path, mechanism=None if rules is None else rules.name)
    if unchecked:
        deal = replace(stated, scenario=None)
    else:
        deal = _held(check_deal(path, federation, rules=rules, money=money), str(path), str(path))
    # Where a mechanism federates nobody everybody trains alone, even if the file does not say so.
    known = MECHANISMS.get(deal.mechanism) if rules is None else rules
    if known is not None and not known.federated and deal.is_federated:
        deal = replace(deal, excluded=dict.fromkeys(deal.agents, TRAINS_ALONE))
    with error_context(str(path)):
        return deal.among([name for name in federation.names if name in deal.agents])


def say_unchecked(path: Path | None) -> None:
    """Say of a deal that was carried out that it was not checked."""
    if path is not None:
        said = f"Not checked: {path} was taken as it stands, whatever scenario it is of."
        Terminal(stderr=True).print(escape(said), soft_wrap=True)


def _held(found: CheckedDeal, what: str, argument: str) -> Deal:
    """The deal that was checked, if it holds; `argument` is what names it to `fedpact check`, after the scenario."""
    if found.failures:
        raise InvalidInput(
            f"{what}: this deal does not hold: {found.difference}; `fedpact check SCENARIO {argument}` shows "
            f"everything, --unchecked takes the deal as it is"
        )
    return found.deal
