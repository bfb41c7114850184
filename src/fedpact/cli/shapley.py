"""`fedpact shapley`: each agent's share of the total payoff at a mechanism's contributions."""

from __future__ import annotations

from fedpact.cli import inputs, screen
from fedpact.report.numbers import Unit, number_texts, percent
from fedpact.shapley import shapley_values
from fedpact.utils.jsonl import jsonable

__all__ = ["shapley"]


def shapley(
    scenario: inputs.ScenarioArgument = inputs.DEFAULT_EXAMPLE,
    name: inputs.MechanismOption = inputs.DEFAULT_MECHANISM,
    as_json: inputs.AsJson = False,
) -> None:
    """Shapley values: each member's fair share of what the federation's data is worth."""
    chosen = inputs.read_scenario(scenario)
    federation = chosen.federation
    profile = inputs.choose_mechanism(name).solve(federation).contributions
    shares = shapley_values(federation, profile)
    if as_json:
        record = {
            "mechanism": name,
            "agents": federation.names,
            **({"lots": federation.lot_labels} if federation.has_lots else {}),
            "contributions": profile,
            "values": shares.values,
            "gradient": shares.gradient,
            "efficiency_gap": shares.efficiency_gap,
            "method": shares.method,
        }
        screen.print_json(jsonable(record))
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
        screen.print_agents("Lots", federation.lot_labels, per_lot, sizes=profile, kind="lot")
    title = f"Shapley values by {shares.method} ({unit.label})"
    screen.print_agents(title, federation.names, columns, sizes=shares.values)
    screen.say(
        f"At the contributions of {name}. One more ({chosen.unit or 'unit of data'}) adds this to its owner's Shapley "
        "value, not to the total, and costs what stands beside it."
    )
    screen.say(f"Total {unit.text(total)}; efficiency gap {shares.efficiency_gap:.1e}")
