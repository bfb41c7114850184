"""`fedpact shapley`: each agent's share of the total payoff at a profile."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer

from fedpact.cli.common import (
    DEFAULT_EXAMPLE,
    AsJson,
    ScenarioArgument,
    choose_mechanism,
    console,
    escape,
    print_agents,
    print_json,
    read_scenario,
    terminal_text,
)
from fedpact.federation import Federation
from fedpact.report.numbers import Unit, number_texts, percent
from fedpact.shapley import shapley_values
from fedpact.shapley.values import METHODS
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput
from fedpact.utils.jsonl import jsonable

__all__ = ["shapley"]


def shapley(
    scenario: ScenarioArgument = DEFAULT_EXAMPLE,
    contributions: Annotated[
        str | None,
        typer.Option("--contributions", "-s", help="The profile, as numbers with commas; default: a mechanism's."),
    ] = None,
    name: Annotated[
        str, typer.Option("--mechanism", "-m", help="Whose contributions, if none are given.", metavar="NAME")
    ] = "externality",
    method: Annotated[str, typer.Option("--method", help=f"One of {', '.join(METHODS)}.", metavar="NAME")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Shapley values: each member's fair share of what the federation's data is worth."""
    chosen = read_scenario(scenario)
    federation = chosen.federation
    profile = (
        _parsed(contributions, federation)
        if contributions is not None
        else choose_mechanism(name).solve(federation).contributions
    )
    shares = shapley_values(federation, profile, method=method)
    if as_json:
        print_json(
            jsonable(
                {
                    "mechanism": None if contributions is not None else name,
                    "agents": federation.names,
                    **({"lots": federation.lot_labels} if federation.has_lots else {}),
                    "contributions": profile,
                    "values": shares.values,
                    "gradient": shares.gradient,
                    "efficiency_gap": shares.efficiency_gap,
                    "method": shares.method,
                }
            )
        )
        return
    unit = Unit.of(chosen.money, shares.values, data=chosen.unit)
    total = float(shares.values.sum())
    per_lot = [
        (unit.of_data("contributes"), number_texts(profile)),
        ("one more adds", number_texts(unit.per_payoff * shares.gradient)),
        ("costs", number_texts(unit.per_payoff * federation.arrays.marginal_costs(profile))),
    ]
    per_agent = [
        ("value", unit.column(shares.values)),
        ("share", [percent(float(value) / total) if 0 < value <= total else "-" for value in shares.values]),
    ]
    columns = per_agent if federation.has_lots else [per_lot[0], *per_agent, *per_lot[1:]]
    if federation.has_lots:
        print_agents("Lots", federation.lot_labels, per_lot, sizes=profile, kind="lot")
    title = f"Shapley values by {shares.method} ({unit.label})"
    print_agents(title, federation.names, columns, sizes=shares.values)
    one = chosen.unit or "unit of data"
    whose = "the contributions given" if contributions is not None else f"the contributions of {name}"
    console.print(
        f"At {whose}. What one more ({escape(one)}) adds is to its owner's Shapley value, not to what all have "
        "together; beside it, what it costs."
    )
    console.print(f"Total {escape(terminal_text(unit.text(total)))}; efficiency gap {shares.efficiency_gap:.1e}")


def _parsed(text: str, federation: Federation) -> FloatArray:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"--contributions must be numbers with commas between them, got {text!r:.80}") from None
    return federation.checked_contributions(np.array(numbers) if len(numbers) > 1 else numbers[0])
