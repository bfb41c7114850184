"""What `fedpact train` shows: accuracies, and what was predicted beside what came of it."""

from __future__ import annotations

import numpy as np

from fedpact.cli.common import console, escape, print_agents, terminal_text
from fedpact.mechanisms import MECHANISMS
from fedpact.report.numbers import Unit, number_texts
from fedpact.scenario import Scenario
from fedpact.training.repeat import Repetition
from fedpact.training.run import Run
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import MAX_NAMES, count_text, join_names

FROM_ZERO = (
    "Predicted payoffs count from zero, while an untrained model is right one time in ten already: compare signs and "
    "shapes, not levels. --floor and --ceiling count from a fitted curve."
)


def show_run(run: Run, scenario: Scenario) -> None:
    """All tables, and a few words."""
    name = run.deal.mechanism
    title = MECHANISMS[name].title if name in MECHANISMS else name
    title = f"trained under {escape(title)}, {count_text(run.rounds, 'round')}"
    console.print(f"[bold]{escape(scenario.title or 'Federation')}[/bold] {title}\n")
    unit = Unit.of(scenario.money, run.payoffs)
    _show_training(run)
    _show_payoffs(run, unit)
    _show_utilities(run, unit)
    predicted, realised = (escape(terminal_text(unit.text(sum_))) for sum_ in (run.welfare, run.realised_welfare))
    console.print(f"Welfare {predicted} predicted, {realised} realised.")
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


def _show_training(run: Run) -> None:
    amounts = [
        ("agreed", number_texts(run.contributions)),
        ("used", [f"{count:,}" for count in run.samples]),
        ("alone: used", [f"{count:,}" for count in run.standalone_samples]),
    ]
    measured = [
        ("accuracy", [f"{accuracy:.4f}" for accuracy in run.accuracies]),
        ("accuracy", [f"{accuracy:.4f}" for accuracy in run.standalone_accuracies]),
    ]
    if run.federation.has_lots:
        print_agents("Lots", run.federation.lot_labels, amounts, sizes=run.contributions)
        console.print()
        measured[1] = ("alone: accuracy", measured[1][1])
        print_agents("Training", _names(run), measured, sizes=run.payoffs)
    else:
        columns = [*amounts[:2], measured[0], amounts[2], measured[1]]
        print_agents("Training", _names(run), columns, sizes=run.contributions)
    sizes = run.test_sizes
    worst = 0.5 / np.sqrt(sizes.min())
    images = f"{sizes.min()} to {sizes.max()}" if np.ptp(sizes) else f"{sizes[0]}"
    console.print(f"Tested on {images} images each: a standard error of up to {worst:.2g}.\n")


def _show_payoffs(run: Run, unit: Unit) -> None:
    columns = [
        ("predicted", unit.column(run.payoffs)),
        ("realised", unit.column(run.realised_payoffs)),
        ("cost", unit.column(run.realised_costs)),
        ("is paid", unit.column(run.payments, signed=True)),
    ]
    print_agents(f"Payoffs ({unit.label})", _names(run), columns, sizes=_sizes(run))
    console.print()


def _show_utilities(run: Run, unit: Unit) -> None:
    columns = [
        ("predicted", unit.column(run.utilities)),
        ("realised", unit.column(run.realised_utilities)),
        ("alone: predicted", unit.column(run.standalone)),
        ("realised", unit.column(run.realised_standalone)),
        ("would leave", [_leaves(run, agent) for agent in range(len(run.agents))]),
    ]
    print_agents(f"Utilities ({unit.label})", _names(run), columns, sizes=_sizes(run))


def _sizes(run: Run) -> FloatArray:
    """By which the largest members are told where there are many."""
    return run.payoffs if run.federation.has_lots else run.contributions


def _leaves(run: Run, agent: int) -> str:
    """By the prediction and by what came of it."""
    name = run.agents[agent]
    if name in run.deal.excluded:
        return "-"
    predicted, realised = name in run.leavers, name in run.realised_leavers
    if predicted == realised:
        return "[red]yes[/red]" if realised else "no"
    return f"[red]{'yes' if realised else 'no'}[/red], predicted {'yes' if predicted else 'no'}"


def _show_doubts(run: Run) -> None:
    if run.doubtful:
        console.print(
            f"Realised gains of {escape(join_names(run.doubtful, most=MAX_NAMES))} are within two standard errors of "
            "zero: larger test sets may say otherwise."
        )


def _names(run: Run) -> list[str]:
    return [f"{name} (alone)" if name in run.deal.excluded else name for name in run.agents]
