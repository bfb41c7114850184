"""`fedpact verify`: did everybody deliver what was agreed? Exit code 1 if somebody is flagged, 0 if nobody can be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from typer import Argument, Option

from fedpact.cli import inputs, screen
from fedpact.cli.app import CLAIM_FAILS
from fedpact.cli.per_agent import Each, per_agent
from fedpact.deals import Deal, is_ledger
from fedpact.federation import Federation
from fedpact.federation.lots import require_single_lots
from fedpact.fitting import Delivery, estimate_delivery
from fedpact.fitting.delivery import agreed_contributions, calibrate_delivery, check_run, ledger_calibration
from fedpact.fitting.logs import SUBSET, read_subset_models
from fedpact.report.numbers import given_text
from fedpact.report.records import delivery_record
from fedpact.scenario import Scenario
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.words import join_names

LOTS_REFUSED = (
    "models of subsets tell how much a member delivered, not of which lot; fedpact settle --delivered pays by lot what "
    "members report"
)


def verify(
    measured: Annotated[Path, Argument(help="A .csv file with a row per subset model, or a ledger.", metavar="FILE")],
    scenario: Annotated[
        str | None, Argument(help="A scenario; a calibrated ledger needs none.", metavar="[SCENARIO]")
    ] = None,
    deal: inputs.DealArgument = None,
    name: inputs.DealMechanism = None,
    floor: Annotated[Each, Option("--floor", help="Accuracy without data, 0 if not given.")] = None,
    ceiling: Annotated[Each, Option("--ceiling", help="Accuracy with all data, 1 if not given.")] = None,
    plot: inputs.Picture = None,
    calibrate: Annotated[
        Path | None, Option("--calibrate", help="Subset models of earlier runs, a file like FILE.", metavar="EARLIER")
    ] = None,
    unchecked: inputs.Unchecked = False,
    as_json: inputs.AsJson = False,
) -> None:
    """Estimate which share of its agreed contribution each member delivered in effect.

    FILE has columns subset.NAME (1 or 0), accuracy.NAME and, if known, test_size.NAME; or round, member, samples,
    score, subset, as other tools write rounds down. A ledger holds its deal, and the calibration if members are paid by
    one: then you need no scenario. EARLIER shows what data is worth under the same training procedure; without it, the
    scenario's weights decide, with the doubt that the scenario states. Floors and ceilings: a number for all, one per
    member with commas, or NAME=NUMBER. The exit code is 1 if somebody is flagged: it delivered too little beyond doubt.
    If weights and curves do not fit the models, the command says that it cannot judge, and the exit code is 0.
    """
    inputs.check_picture(plot)
    recorded = is_ledger(measured)
    found_ledger = check_run(measured) if recorded and scenario is None and deal is None else None
    with error_context(str(measured)):
        known = None if found_ledger is None else ledger_calibration(found_ledger)
    chosen = (
        inputs.read_scenario(scenario or inputs.DEFAULT_EXAMPLE)
        if known is None
        else Scenario(federation=known.federation)
    )
    names = chosen.federation.names
    floors, ceilings = (0.0, 1.0) if known is None else (known.curves.floors, known.curves.ceilings)
    ends = [per_agent("--floor", floor or [], names, floors), per_agent("--ceiling", ceiling or [], names, ceilings)]
    if known is not None and found_ledger is not None and found_ledger.deal is not None:
        agreed = found_ledger.deal  # a calibration says nothing of costs to hold it to
    else:
        path = measured if recorded and deal is None else deal
        agreed = inputs.choose_deal(chosen, path, name, unchecked=unchecked)
    with error_context(str(measured)):
        tests = _tests(measured, chosen.federation, agreed)
    earlier = None
    if calibrate is not None:
        before = check_run(calibrate).deal if is_ledger(calibrate) else None
        with error_context(str(calibrate)):
            shown = _tests(calibrate, chosen.federation, before or agreed)
            earlier = calibrate_delivery(chosen.federation, *shown, *ends)
    with error_context(str(measured)):
        found = estimate_delivery(
            chosen.federation, *tests, *ends, weights_from=chosen.uncertainty, calibration=earlier
        )
    inputs.write_picture(found, plot)
    if as_json:
        screen.print_json({"mechanism": agreed.mechanism} | delivery_record(found))
    else:
        _show(found, chosen)
        screen.say_written([] if plot is None else [plot])
    if found.flagged:
        raise typer.Exit(CLAIM_FAILS)


def _tests(path: Path, federation: Federation, deal: Deal) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """What was agreed, the subsets, accuracies and test sizes; who is not in the file gave and measured nothing."""
    seen, names = read_subset_models(path), federation.names
    for name in seen.names:
        if name not in names:
            raise InvalidInput(f'{SUBSET}.{name}: there is no member "{name}"; members are {", ".join(names)}')
    require_single_lots(deal, "verifying what was delivered", LOTS_REFUSED)
    agreed = dict(zip(deal.agents, agreed_contributions(deal).tolist(), strict=True))
    missing = [name for name, given in agreed.items() if given > 0 and name not in seen.names]
    if missing:
        raise InvalidInput(
            f"there is no column {SUBSET}.{missing[0]}, and {missing[0]} contributes under the deal; say which models "
            f"are made of its update"
        )
    return np.array([agreed.get(name, 0.0) for name in names]), *seen.tests(names)


def _show(found: Delivery, scenario: Scenario) -> None:
    counts = f"{found.n_models} models, {found.n_measured} accuracies; intervals hold 95 %"
    screen.say(("Delivery", "bold"), f": {scenario.title or 'Federation'}, {counts}")
    screen.say()
    (lower, upper), power, rows = found.intervals(), found.power(), []
    for agent, name in enumerate(found.names):
        low, high, share = (f"{100 * each[agent]:.0f}" for each in (lower, upper, found.shares))
        bounded, known = np.isfinite(upper[agent]), name not in found.unknown and found.models.identified[agent]
        interval = "nothing is known" if not known else f"{low} to {high} %" if bounded else f"{low} % or more"
        rows.append(
            (
                name,
                given_text(float(found.contributions[agent])),
                f"{share} %" if known and bounded else "-",
                interval,
                f"{100 * power[agent]:.0f} %" if found.can_judge else "-",
                "flagged" if name in found.flagged else "",
            )
        )
    heads = ("member", "agreed", "delivered", "interval", "60 % found", "")
    screen.print_rows("Share of the agreed contribution", heads, rows)
    screen.say()
    screen.say(
        "60 % found: how probably these subsets and test samples would show a member that delivers 60 %. More of "
        "both show more; subsets that were measured earlier too show most."
    )
    screen.say(f"Noise between models of the same data: {found.run_noise:.4f}")
    for note in found.notes:
        screen.say((f"{note[0].upper()}{note[1:]}.", "yellow" if found.can_judge else "bold red"))
    if found.flagged:
        less = "Delivered less than agreed, or data worth less than the weights say"
        screen.say((less, "red"), f": {join_names(found.flagged)}.")
    elif found.can_judge:
        screen.say("Nobody is flagged.")
