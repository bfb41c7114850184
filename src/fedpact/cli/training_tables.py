"""What `fedpact train` shows: accuracies, and what was predicted beside what came of it."""

from __future__ import annotations

import numpy as np
from rich.markup import escape

from fedpact.cli.common import Units, console, quantity, shown_agents, table
from fedpact.mechanisms import MECHANISMS
from fedpact.scenario import Scenario
from fedpact.training.repeat import Repetition
from fedpact.training.run import Run

__all__ = ["show_repetition", "show_run"]

MOST_NAMED = 5

FROM_ZERO = (
    "Predicted payoffs count from zero, while an untrained model is right one time in ten already: compare signs and "
    "shapes, not levels. --floor and --ceiling count from a fitted curve."
)


def show_run(run: Run, scenario: Scenario) -> None:
    """All tables, and a few words."""
    name = run.agreement.mechanism
    title = MECHANISMS[name].title if name in MECHANISMS else name
    count = f"{run.rounds} round{'' if run.rounds == 1 else 's'}"
    console.print(f"[bold]{escape(scenario.title or 'Federation')}[/bold] trained under {escape(title)}, {count}\n")
    units = Units(scenario.money)
    agents, rest = shown_agents(run.contributions)
    _show_training(run, agents)
    _show_payoffs(run, agents, units)
    _show_utilities(run, agents, units)
    if rest:
        console.print(rest)
    console.print(f"Welfare {run.welfare:.6g} predicted, {run.realised_welfare:.6g} realised.")
    _show_doubts(run)
    if not run.floors.any():
        console.print(FROM_ZERO)


def show_repetition(found: Repetition) -> None:
    """Whether the accuracies are the same, and what else is not."""
    if found.same:
        console.print("The same accuracies and losses in every round, in the deal and alone.")
    elif found.where:
        console.print(f"[red]Accuracies differ[/red] by up to {found.largest_difference:.4g}: {escape(found.where)}.")
    else:
        console.print("[red]Losses differ[/red]; the accuracies are the same.")
    for name, (then, now) in found.changed.items():
        console.print(f"{name}: {escape(then)} then, {escape(now)} now.")


def _show_training(run: Run, agents: list[int]) -> None:
    made = table("Training", "agent", "agreed", "used", "accuracy", "alone: used", "accuracy")
    for agent in agents:
        made.add_row(
            _name(run, agent),
            quantity(float(run.contributions[agent])),
            f"{run.samples[agent]:,}",
            f"{run.accuracies[agent]:.4f}",
            f"{run.standalone_samples[agent]:,}",
            f"{run.standalone_accuracies[agent]:.4f}",
        )
    console.print(made)
    sizes = run.test_sizes
    worst = 0.5 / np.sqrt(sizes.min())
    images = f"{sizes.min()} to {sizes.max()}" if np.ptp(sizes) else f"{sizes[0]}"
    console.print(f"Tested on {images} images each: a standard error of up to {worst:.2g}.\n")


def _show_payoffs(run: Run, agents: list[int], units: Units) -> None:
    made = table(f"Payoffs ({units.label})", "agent", "predicted", "realised", "cost", "is paid")
    for agent in agents:
        made.add_row(
            _name(run, agent),
            units.show(float(run.payoffs[agent])),
            units.show(float(run.realised_payoffs[agent])),
            units.show(float(run.realised_costs[agent])),
            units.show(float(run.payments[agent]), sign=True),
        )
    console.print(made)
    console.print()


def _show_utilities(run: Run, agents: list[int], units: Units) -> None:
    heads = ("agent", "predicted", "realised", "alone: predicted", "realised", "would leave")
    made = table(f"Utilities ({units.label})", *heads)
    for agent in agents:
        made.add_row(
            _name(run, agent),
            units.show(float(run.utilities[agent])),
            units.show(float(run.realised_utilities[agent])),
            units.show(float(run.standalone[agent])),
            units.show(float(run.realised_standalone[agent])),
            _leaves(run, agent),
        )
    console.print(made)


def _leaves(run: Run, agent: int) -> str:
    """By the prediction and by what came of it."""
    name = run.agents[agent]
    if not run.agreement.members[agent]:
        return "-"
    predicted, realised = name in run.leavers, name in run.realised_leavers
    if predicted == realised:
        return "[red]yes[/red]" if realised else "no"
    return f"[red]{'yes' if realised else 'no'}[/red], predicted {'yes' if predicted else 'no'}"


def _show_doubts(run: Run) -> None:
    if run.doubtful:
        names = ", ".join(run.doubtful[:MOST_NAMED]) + (" ..." if len(run.doubtful) > MOST_NAMED else "")
        console.print(
            f"Realised gains of {escape(names)} are within two standard errors of zero: larger test sets may say "
            f"otherwise."
        )


def _name(run: Run, agent: int) -> str:
    out = "" if run.agreement.members[agent] else " (alone)"
    return f"{escape(run.agents[agent])}{out}"
