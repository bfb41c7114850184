"""`fedpact verify`: did everybody deliver what was agreed? Exit code 1 if somebody is flagged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedpact.cli.common import (
    DEFAULT_EXAMPLE,
    AsJson,
    console,
    escape,
    print_json,
    read_scenario,
    table,
    terminal_text,
)
from fedpact.cli.deals import DealArgument, DealMechanism, Unchecked, choose_deal
from fedpact.cli.per_agent import EACH, per_agent
from fedpact.cli.pictures import check_picture, write_picture
from fedpact.deals import Deal, is_ledger
from fedpact.federation.lots import require_single_lots
from fedpact.fitting import Delivery, estimate_delivery
from fedpact.fitting.ledger_shares import ledger_pilot
from fedpact.fitting.logs import read_verified
from fedpact.fitting.runs_file import SUBSET, LogTable, read_subsets
from fedpact.negotiation.audit import audit_ledger
from fedpact.report.numbers import given_text
from fedpact.report.records import delivery_record
from fedpact.scenario import Scenario
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.words import join_names

SOMEBODY_FLAGGED = 1
LOTS_REFUSED = (
    "models of subsets tell how much a member delivered, not of which lot; fedpact settle --delivered pays by lot what "
    "members report"
)


def verify(
    measured: Annotated[
        Path,
        typer.Argument(
            help="A .csv file with one row per model made of a subset of the updates, or a ledger that records them.",
            metavar="FILE",
        ),
    ],
    scenario: Annotated[
        str | None,
        typer.Argument(
            help="A scenario file, or a built-in federation; of a ledger with a pilot, the pilot by default.",
            metavar="[SCENARIO]",
        ),
    ] = None,
    deal: DealArgument = None,
    name: DealMechanism = None,
    floor: Annotated[
        list[str] | None, typer.Option("--floor", help=f"Accuracy without data, 0 if not given. {EACH}")
    ] = None,
    ceiling: Annotated[
        list[str] | None, typer.Option("--ceiling", help=f"Accuracy with all data, 1 if not given. {EACH}")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Shares with intervals, as .png, .svg or .pdf.", metavar="FILE")
    ] = None,
    unchecked: Unchecked = False,
    as_json: AsJson = False,
) -> None:
    """Estimate which share of its agreed contribution each member delivered in effect.

    FILE has columns subset.NAME (1 or 0), accuracy.NAME and, if known, test_size.NAME; a ledger holds its deal too, and
    the pilot if members agreed to be judged by one: then it needs no scenario. If a scenario says how sure its weights
    are, the intervals are as much wider. Exit code 1 if somebody is flagged: its 95 % interval lies below what was
    agreed; or doubtful: it does only if floors and ceilings are exactly right.
    """
    if plot is not None:
        check_picture(plot)
    recorded = is_ledger(measured)
    found_ledger = audit_ledger(measured) if recorded and scenario is None and deal is None else None
    pilot = None if found_ledger is None else ledger_pilot(found_ledger)
    chosen = read_scenario(scenario or DEFAULT_EXAMPLE) if pilot is None else Scenario(federation=pilot.federation)
    names = chosen.federation.names
    floors, ceilings = (0.0, 1.0) if pilot is None else (pilot.floors, pilot.ceilings)
    ends = [
        per_agent(option, given or [], names, otherwise)
        for option, given, otherwise in (("--floor", floor, floors), ("--ceiling", ceiling, ceilings))
    ]
    seen = read_verified(measured) if recorded else read_subsets(measured)
    path = measured if recorded and deal is None else deal
    if pilot is not None and found_ledger is not None and found_ledger.deal is not None:
        agreed = found_ledger.deal  # a pilot says nothing of costs to hold it to
    else:
        agreed = choose_deal(chosen.federation, path, name, unchecked=unchecked, money=chosen.money)
    with error_context(str(measured)):
        found = _estimate(seen, chosen, agreed, (ends[0], ends[1]))
    if plot is not None:
        write_picture(found.plot(), plot)
    if as_json:
        print_json({"mechanism": agreed.mechanism} | delivery_record(found))
    else:
        _show(found, chosen)
        if plot is not None:
            console.print(f"\nWritten: {escape(str(plot))}", soft_wrap=True)
    if found.flagged or found.doubtful:
        raise typer.Exit(SOMEBODY_FLAGGED)


def _estimate(seen: LogTable, scenario: Scenario, deal: Deal, ends: tuple[FloatArray, FloatArray]) -> Delivery:
    """The shares of all agents of the scenario; those who are not in the file gave nothing and measured nothing."""
    names = scenario.federation.names
    for name in seen.names:
        if name not in names:
            raise InvalidInput(f'{SUBSET}.{name}: there is no member "{name}"; members are {", ".join(names)}')
    require_single_lots(deal, "verifying what was delivered", LOTS_REFUSED)
    agreed = {deal.agents[place]: float(deal.contributions[place]) for place in deal.members}
    missing = [name for name, given in agreed.items() if given > 0 and name not in seen.names]
    if missing:
        raise InvalidInput(
            f"there is no column {SUBSET}.{missing[0]}, and {missing[0]} contributes under the deal; say which models "
            f"are made of its update"
        )
    places = [names.index(name) for name in seen.names]
    subsets, accuracies, sizes = (np.full((len(seen.given), len(names)), empty) for empty in (0.0, np.nan, np.nan))
    subsets[:, places], accuracies[:, places], sizes[:, places] = seen.given, seen.accuracies, seen.test_sizes
    return estimate_delivery(
        scenario.federation,
        [agreed.get(name, 0.0) for name in names],
        subsets,
        accuracies,
        sizes,
        *ends,
        weights_from=scenario.uncertainty,
    )


def _show(found: Delivery, scenario: Scenario) -> None:
    seen = found.models.seen
    console.print(
        f"[bold]Delivery[/bold]: {escape(scenario.title or 'Federation')}, {seen.n_runs} models, {seen.n_measured} "
        f"accuracies; intervals hold 95 %\n"
    )
    lower, upper = found.intervals()
    made = table("Share of the agreed contribution", "member", "agreed", "delivered", "interval", "")
    for agent, name in enumerate(found.names):
        known = np.isfinite(found.shares[agent])
        end = f"{100 * upper[agent]:.0f} %" if np.isfinite(upper[agent]) else "more"
        made.add_row(
            escape(name),
            terminal_text(given_text(float(found.contributions[agent]))),
            f"{100 * found.shares[agent]:.0f} %" if known else "-",
            f"{100 * lower[agent]:.0f} to {end}" if known else "nothing is known",
            _mark(found, name),
        )
    console.print(made)
    console.print(f"\nNoise between models of the same data: {found.run_noise:.4f}")
    for note in found.notes:
        console.print(f"[yellow]{escape(note[0].upper() + note[1:])}.[/yellow]", soft_wrap=True)
    if found.flagged:
        short = escape(join_names(found.flagged))
        console.print(f"[red]Delivered less than agreed, or data worth less than the weights say[/red]: {short}.")
    else:
        console.print("Nobody is flagged.")


def _mark(found: Delivery, name: str) -> str:
    if name in found.flagged:
        return "[red]flagged[/red]"
    return "[yellow]doubtful[/yellow]" if name in found.doubtful else ""
